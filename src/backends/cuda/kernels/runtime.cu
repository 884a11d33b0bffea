#include "backends/cuda/kernels/runtime.h"

#include <cuda_runtime.h>

#include <cstring>

namespace vernier::cuda {
namespace {

cudaStream_t of(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

/// An error that is told is forgotten by the runtime, so that the next call does not tell it again.
LaunchCode told(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return static_cast<LaunchCode>(error);
}

}  // namespace

const char* error_text(LaunchCode code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

LaunchCode count_devices(int* count) {
  *count = 0;
  return told(cudaGetDeviceCount(count));
}

LaunchCode read_facts(int device, DeviceFacts* facts) {
  cudaDeviceProp properties;
  if (const LaunchCode code = told(cudaGetDeviceProperties(&properties, device)); code != kLaunched) return code;
  std::memcpy(facts->name, properties.name, sizeof(facts->name) - 1);
  facts->major = properties.major;
  facts->minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  facts->shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  return told(cudaDriverGetVersion(&facts->driver));
}

LaunchCode use_device(int device) {
  return told(cudaSetDevice(device));
}

LaunchCode make_stream(Stream* stream) {
  cudaStream_t made = nullptr;
  const LaunchCode code = told(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  *stream = reinterpret_cast<Stream>(made);
  return code;
}

void destroy_stream(Stream stream) {
  (void)cudaStreamDestroy(of(stream));
}

LaunchCode wait(Stream stream) {
  return told(cudaStreamSynchronize(of(stream)));
}

LaunchCode take_memory(int64_t bytes, std::byte** at) {
  void* memory = nullptr;
  const LaunchCode code = told(cudaMalloc(&memory, static_cast<size_t>(bytes)));
  *at = static_cast<std::byte*>(memory);
  return code;
}

void give_memory(std::byte* at) {
  (void)cudaFree(at);
}

LaunchCode take_pinned(int64_t bytes, std::byte** at, std::byte** on_device) {
  void *memory = nullptr, *mapped = nullptr;
  LaunchCode code = told(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocMapped));
  if (code == kLaunched) code = told(cudaHostGetDevicePointer(&mapped, memory, 0));
  *at = static_cast<std::byte*>(memory);
  *on_device = static_cast<std::byte*>(mapped);
  return code;
}

void give_pinned(std::byte* at) {
  (void)cudaFreeHost(at);
}

LaunchCode fill_memory(std::byte* at, int value, int64_t bytes, Stream stream) {
  return told(cudaMemsetAsync(at, value, static_cast<size_t>(bytes), of(stream)));
}

LaunchCode copy_in(std::byte* to, const std::byte* from, int64_t bytes, Stream stream) {
  return told(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, of(stream)));
}

LaunchCode copy_out(std::byte* to, const std::byte* from, int64_t bytes, Stream stream) {
  const LaunchCode code =
      told(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, of(stream)));
  return code == kLaunched ? wait(stream) : code;
}

LaunchCode copy_in_later(std::byte* to, const std::byte* from, int64_t bytes, Stream stream) {
  return told(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, of(stream)));
}

LaunchCode copy_within(std::byte* to, const std::byte* from, int64_t bytes, Stream stream) {
  return told(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, of(stream)));
}

LaunchCode make_mark(Mark* mark) {
  cudaEvent_t made = nullptr;
  const LaunchCode code = told(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  *mark = reinterpret_cast<Mark>(made);
  return code;
}

void destroy_mark(Mark mark) {
  (void)cudaEventDestroy(reinterpret_cast<cudaEvent_t>(mark));
}

LaunchCode set_mark(Mark mark, Stream stream) {
  return told(cudaEventRecord(reinterpret_cast<cudaEvent_t>(mark), of(stream)));
}

LaunchCode await_mark(Mark mark) {
  return told(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(mark)));
}

LaunchCode begin_capture(Stream stream) {
  return told(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal));
}

LaunchCode end_capture(Stream stream, Graph* graph) {
  *graph = nullptr;
  cudaGraph_t captured = nullptr;
  LaunchCode code = told(cudaStreamEndCapture(of(stream), &captured));
  if (code != kLaunched) return code;
  cudaGraphExec_t made = nullptr;
  code = told(cudaGraphInstantiate(&made, captured, 0));
  (void)cudaGraphDestroy(captured);
  if (code == kLaunched) *graph = reinterpret_cast<Graph>(made);
  return code;
}

LaunchCode launch_graph(Graph graph, Stream stream) {
  return told(cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), of(stream)));
}

void destroy_graph(Graph graph) {
  (void)cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph));
}

}  // namespace vernier::cuda

#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/launch.h"

/// The driver, behind the same border: devices, memory, copies. Each function gives 0 or an error's number.
namespace vernier::cuda {

struct DeviceFacts {
  char name[128] = {};
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int driver = 0;  ///< 13000 for 13.0; 0: none
  int64_t memory_bytes = 0;
  int64_t shared_bytes = 0;  ///< that one block may have
};

const char* error_text(LaunchCode code);
/// How many devices answer, and why none does.
LaunchCode count_devices(int* count);
LaunchCode read_facts(int device, DeviceFacts* facts);
/// Of this thread.
LaunchCode use_device(int device);
LaunchCode make_stream(Stream* stream);
void destroy_stream(Stream stream);
LaunchCode wait(Stream stream);
LaunchCode take_memory(int64_t bytes, std::byte** at);
void give_memory(std::byte* at);
/// Memory of the host that copies take from and give to without waiting, and where the device finds it.
LaunchCode take_pinned(int64_t bytes, std::byte** at, std::byte** on_device);
void give_pinned(std::byte* at);
LaunchCode fill_memory(std::byte* at, int value, int64_t bytes, Stream stream);
/// From memory that may change as soon as the call is back.
LaunchCode copy_in(std::byte* to, const std::byte* from, int64_t bytes, Stream stream);
/// Back when the bytes are there.
LaunchCode copy_out(std::byte* to, const std::byte* from, int64_t bytes, Stream stream);
/// From pinned memory, which must not change until the stream is there.
LaunchCode copy_in_later(std::byte* to, const std::byte* from, int64_t bytes, Stream stream);
LaunchCode copy_within(std::byte* to, const std::byte* from, int64_t bytes, Stream stream);

/// A point of a stream that the host can wait for.
using Mark = struct MarkTag*;
LaunchCode make_mark(Mark* mark);
void destroy_mark(Mark mark);
LaunchCode set_mark(Mark mark, Stream stream);
/// Until the stream has come by the mark as it was set last.
LaunchCode await_mark(Mark mark);

/// Launches that the driver starts as one.
using Graph = struct GraphTag*;
/// What this thread launches on the stream from here on is kept and not run.
LaunchCode begin_capture(Stream stream);
/// Ends it in any case; null where there is no graph.
LaunchCode end_capture(Stream stream, Graph* graph);
LaunchCode launch_graph(Graph graph, Stream stream);
void destroy_graph(Graph graph);

}  // namespace vernier::cuda

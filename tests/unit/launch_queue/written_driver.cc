#include "written_driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <cstring>

namespace vernier::testing {

WrittenDriver& driver() {
  static WrittenDriver one;
  return one;
}

cuda::LaunchCode touch(int number, float, cuda::Stream) {
  if (number == driver().failing) return 700;
  if (driver().capturing) {
    driver().captured.push_back(number);
  } else {
    driver().done.push_back(fmt::format("{}", number));
  }
  return cuda::kLaunched;
}

cuda::LaunchCode touch_rows(const cuda::ConstRows&, int number, cuda::Stream stream) {
  return touch(number, 1, stream);
}

}  // namespace vernier::testing

namespace vernier::cuda {

using testing::driver;

const char* error_text(LaunchCode) {
  return "an illegal memory access was encountered";
}
LaunchCode count_devices(int* count) {
  *count = 1;
  return kLaunched;
}
LaunchCode read_facts(int, DeviceFacts* facts) {
  std::strcpy(facts->name, "written");
  facts->memory_bytes = 1 << 20;
  return kLaunched;
}
LaunchCode use_device(int) {
  return kLaunched;
}
LaunchCode make_stream(Stream* stream) {
  *stream = reinterpret_cast<Stream>(&driver());
  return kLaunched;
}
void destroy_stream(Stream) {}
LaunchCode wait(Stream) {
  return kLaunched;
}
LaunchCode take_memory(int64_t bytes, std::byte** at) {
  *at = static_cast<std::byte*>(std::malloc(static_cast<size_t>(bytes)));
  return kLaunched;
}
void give_memory(std::byte* at) {
  driver().done.push_back("given back");
  std::free(at);
}
LaunchCode take_pinned(int64_t, std::byte**, std::byte**) {
  return 2;
}
void give_pinned(std::byte*) {}
LaunchCode fill_memory(std::byte*, int, int64_t, Stream) {
  driver().done.push_back("filled");
  return kLaunched;
}
LaunchCode copy_in(std::byte*, const std::byte*, int64_t, Stream) {
  return kLaunched;
}
LaunchCode copy_out(std::byte*, const std::byte*, int64_t, Stream) {
  return kLaunched;
}

LaunchCode begin_capture(Stream) {
  if (driver().refuses_capture) return 900;
  driver().capturing = true;
  driver().captured.clear();
  return kLaunched;
}
LaunchCode end_capture(Stream, Graph* graph) {
  driver().capturing = false;
  ++driver().captures;
  ++driver().graphs_alive;
  *graph = reinterpret_cast<Graph>(new std::vector<int>(driver().captured));
  return kLaunched;
}
LaunchCode launch_graph(Graph graph, Stream) {
  driver().done.push_back(fmt::format("[{}]", fmt::join(*reinterpret_cast<std::vector<int>*>(graph), " ")));
  return kLaunched;
}
void destroy_graph(Graph graph) {
  --driver().graphs_alive;
  delete reinterpret_cast<std::vector<int>*>(graph);
}

}  // namespace vernier::cuda

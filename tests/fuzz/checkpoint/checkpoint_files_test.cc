#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <string>

#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"
#include "models/registry.h"
#include "testing/fuzzer.h"
#include "testing/gguf_writer.h"

namespace vernier {
namespace {

using testing::fuzz;
using testing::FuzzCase;

/// A file in memory: thousands of them are written.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", 0)) { CHECK(descriptor_ >= 0, "no file in memory"); }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(const std::string& bytes) const {
    CHECK(::ftruncate(descriptor_, 0) == 0, "cannot empty it");
    CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "cannot fill it");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Not taken, and said why.
bool refused(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  return false;
}

/// Reads every byte, so that a span that leaves the file is seen.
uint64_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0},
                         [](uint64_t sum, std::byte b) { return sum + std::to_integer<uint64_t>(b); });
}

uint64_t sum_of(const GgufValue& value) {
  uint64_t sum = value.count() + value.type_name().size();
  if (auto text = value.as_string()) sum += sum_of(std::as_bytes(std::span(*text)));
  if (auto texts = value.as_strings()) {
    for (std::string_view text : *texts) sum += sum_of(std::as_bytes(std::span(text)));
  }
  if (auto numbers = value.as_integers()) sum += numbers->size();
  if (auto numbers = value.as_numbers()) sum += numbers->size();
  return sum + static_cast<uint64_t>(value.as_integer().value_or(0)) + value.as_bool().value_or(false);
}

FuzzCase gguf_case() {
  testing::GgufWriter small;
  small.u32("general.alignment", 32).text("general.architecture", "llama").strings("tokens", {"a", "bc", ""});
  small.f32s("scores", {0.3f, 1.7f}).i32s("types", {1, 2, 3}).bools("flags", {1, 0}).boolean("yes", true);
  small.u64("big", 1ULL << 40).i32("small", -3).u16("word", 7).f32("eps", 1e-5f);
  small.f32_tensor("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("b.weight", {32, 2}, 3, std::string(40, 'x'));
  testing::GgufWriter old;
  old.version = 2;
  old.text("general.name", "older").f32_tensor("t", {1}, {0.6f});
  return {"gguf", {small.bytes(), old.bytes()}, {"general.alignment", std::string(300, 'k')}};
}

TEST(FuzzCheckpoint, NoGgufFileEndsTheProcess) {
  const MemoryFile memory;
  fuzz(gguf_case(), [&](const std::string& input) {
    memory.write(input);
    auto file = Gguf::open(memory.path());
    if (!file.ok()) return refused(file.error());
    uint64_t sum = 0;
    for (const auto& [key, value] : (*file)->metadata()) sum += key.size() + sum_of(value);
    for (const GgufTensor& tensor : (*file)->tensors()) sum += sum_of(tensor.bytes) + tensor.elements();
    return sum > 0;
  });
}

std::string safetensors_bytes(const std::string& header, size_t data_bytes) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, 'd');
}

TEST(FuzzCheckpoint, NoSafetensorsFileEndsTheProcess) {
  const FuzzCase fuzz_case{
      "safetensors",
      {safetensors_bytes(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                         24),
       safetensors_bytes(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[],)"
                         R"("data_offsets":[4,6]}})",
                         6)},
      {"\"a\":", "[[[[", "18446744073709551615", "-1", "1e300", "\\ud800", "{}", "null"}};
  const MemoryFile memory;
  fuzz(fuzz_case, [&](const std::string& input) {
    memory.write(input);
    auto file = Safetensors::open(memory.path());
    if (!file.ok()) return refused(file.error());
    uint64_t sum = (*file)->metadata().size();
    for (const SafetensorsTensor& tensor : (*file)->tensors()) sum += tensor.name.size() + sum_of(tensor.bytes);
    return sum > 0;
  });
}

TEST(FuzzCheckpoint, NoConfigurationEndsTheProcess) {
  const FuzzCase fuzz_case{
      "config",
      {R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":96,)"
       R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320,"rms_norm_eps":1e-5,)"
       R"("max_position_embeddings":256,"rope_theta":10000.0,"hidden_act":"silu"})"},
      {"0", "-1", "1e308", "9223372036854775807", "null", "[]", "{}", "\"head_dim\":3,", "\"rope_scaling\":{},",
       "\"sliding_window\":1,", "\"layer_types\":[\"full_attention\"],"}};
  fuzz(fuzz_case, [&](const std::string& input) {
    auto tree = parse_strict_json(input);
    if (!tree.ok()) return refused(tree.error());
    Config config(std::move(*tree), "config.json");
    auto spec = read_decoder(config);
    return spec.ok() || refused(spec.error());
  });
}

}  // namespace
}  // namespace vernier

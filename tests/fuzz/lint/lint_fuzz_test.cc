#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/load_tokenizer.h"
#include "audit/lint.h"
#include "testing/fuzzer.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path broken(const std::string& name) {
  return fs::path(VERNIER_TEST_DATA) / "broken" / name;
}

/// Whether nothing is wrong with it; every finding can be printed both ways.
bool is_clean(const std::string& path) {
  const LintReport report = lint(path, {[](const TokenizerSource& source) { return load_tokenizer(source); }});
  EXPECT_FALSE(report.to_string().empty());
  EXPECT_FALSE(report.to_json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
  return report.count(LintLevel::kError) == 0;
}

/// Changes one file of a folder whose other files stay as they are; `seed` where the folder's own is wrong.
void fuzz_file_of(const std::string& folder, const std::string& file, std::vector<std::string> words,
                  const std::string& seed = "") {
  TempFolder copy;
  for (const auto& entry : fs::directory_iterator(broken(folder))) {
    copy.write(entry.path().filename().string(), content(entry.path()));
  }
  testing::FuzzCase fuzz_case{
      "lint_" + folder + "_" + file, {seed.empty() ? content(broken(folder) / file) : seed}, std::move(words)};
  testing::fuzz(fuzz_case, [&](const std::string& input) {
    copy.write(file, input);
    return is_clean(copy.path());
  });
}

TEST(LintFuzz, Weights) {
  fuzz_file_of("exclusion-matches-nothing", "model.safetensors", {"F8_E4M3", "data_offsets", "[0,0]", "weight_scale"});
}

TEST(LintFuzz, Configuration) {
  fuzz_file_of("cache-scales-one", "config.json", {"null", "-1", "\"fp8\"", "kv_cache_scheme", "1e400", "quant_algo"});
}

TEST(LintFuzz, Index) {
  fuzz_file_of("stray-weight-file", "model.safetensors.index.json", {"weight_map", "..", "null"});
}

TEST(LintFuzz, TokenizerFiles) {
  fuzz_file_of("added-token-of-other-id", "tokenizer_config.json", {"added_tokens_decoder", "99999999999", "{}"});
  fuzz_file_of("chat-template-broken", "chat_template.jinja", {"{% endfor %}", "{{", "messages"},
               "{% for m in messages %}{{ m.content }}{% endfor %}");
}

TEST(LintFuzz, Gguf) {
  TempFolder folder;
  testing::FuzzCase fuzz_case{
      "lint_gguf", {content(broken("gguf-trailing-bytes.gguf"))}, {"general.alignment", "\xff"}};
  testing::fuzz(fuzz_case, [&](const std::string& input) { return is_clean(folder.write("model.gguf", input)); });
}

}  // namespace
}  // namespace vernier

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "text/chat_template.h"
#include "unit/jinja/golden_outcome.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Rendered> render(const std::string& source, const Json& conversation) {
  TRY_BIND(ChatTemplate chat, ChatTemplate::parse(source));
  TRY_BIND(ChatInput input, chat_input_from_json(conversation));
  input.now = kGoldenNow;
  return chat.render(input);
}

/// FNV-1a of 64 bits in hexadecimal, as tools/make_template_goldens.py makes it.
std::string fnv(std::string_view data) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : data) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", value);
}

std::string digest(const Result<Rendered>& result) {
  if (result.ok()) return "t" + fnv(result->text);
  return result.error().where == kRaisedByTemplate ? "r" + fnv(result.error().message) : "e";
}

// TEMPLATE-1 on whole templates, in the manner of the official ones.
TEST(Templates, OwnOnesRenderAsJinja2Does) {
  std::map<std::string, Json> conversations;
  for (const Json& line : read_json_lines("conversations.jsonl")) conversations[line["conversation"]] = line;
  const std::vector<Json> goldens = read_json_lines("own.jsonl");
  ASSERT_GE(goldens.size(), 200u);
  for (const Json& golden : goldens) {
    const std::string name = golden["template"], conversation = golden["conversation"];
    const std::string source = read_file(std::string(VERNIER_TEST_DATA) + "/templates/own/" + name + ".jinja");
    ASSERT_FALSE(source.empty()) << name;
    EXPECT_EQ(outcome_of(render(source, conversations[conversation])), expected_outcome(golden))
        << name << " / " << conversation;
  }
}

TEST(Templates, OfficialOnesRenderAsJinja2Does) {
  const char* folder = std::getenv("VERNIER_VOCABULARIES");
  if (folder == nullptr || *folder == 0) {
    GTEST_SKIP()
        << "official chat templates: run `tools/fetch_vocabularies.py FOLDER` and set VERNIER_VOCABULARIES=FOLDER";
  }
  const Json digests = Json::parse(read_file(std::string(VERNIER_TEST_DATA) + "/templates/render_digests.json"));
  const std::vector<Json> conversations = read_json_lines("conversations.jsonl");
  size_t rendered = 0;
  std::string absent;
  for (const auto& [name, golden] : digests.items()) {
    const std::string source = read_file(std::filesystem::path(folder) / (name + ".jinja"));
    if (source.empty() || fnv(source) != golden["fnv"].get<std::string>()) {
      absent += " " + name;
      continue;
    }
    ASSERT_EQ(golden["outcomes"].size(), conversations.size());
    for (size_t i = 0; i < conversations.size(); ++i) {
      const Result<Rendered> result = render(source, conversations[i]);
      EXPECT_EQ(digest(result), golden["outcomes"][i].get<std::string>())
          << name << " / " << conversations[i]["conversation"] << ": " << outcome_of(result);
      ++rendered;
    }
  }
  if (!absent.empty()) GTEST_SKIP() << rendered << " renderings compared; absent or of another version:" << absent;
}

}  // namespace
}  // namespace vernier

// Every code point, in every class and normal form.

#include "text/unicode.h"

#include <gtest/gtest.h>

#include "golden_file.h"
#include "text/normal_form.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace vernier {
namespace {

using golden::Json;

std::vector<Json> rows() {
  return golden::read_lines(VERNIER_TOOLS_DATA "/unicode.jsonl.gz");
}

bool is_scalar(char32_t c) {
  return c < 0xD800 || c > 0xDFFF;
}

CodePointSet set_of(const std::string& name) {
  if (name == "Digits") return unicode::numeric();
  if (name == "Punctuation") return unicode::punctuation();
  if (name == "WhitespaceSplit") return unicode::white_space();
  auto node = parse_regex(name);
  EXPECT_TRUE(node.ok()) << name;
  return node.ok() ? node->set : CodePointSet();
}

TEST(Unicode, ClassesEqualHuggingFace) {
  int checked = 0;
  for (const Json& row : rows()) {
    if (!row.contains("class") || row["class"].get<std::string>().starts_with("second")) continue;
    std::vector<CodePointRange> wanted;
    for (const Json& range : row["ranges"]) wanted.push_back({range[0], range[1]});
    // Surrogates are no characters: the goldens leave them out.
    CodePointSet found = set_of(row["class"]).intersected(CodePointSet::of(0xD800, 0xDFFF).complement());
    CodePointBitmap bitmap(found);
    CodePointSet expected(wanted);
    EXPECT_TRUE(std::ranges::equal(found.ranges(), expected.ranges())) << row["class"];
    for (char32_t c = 0; c <= CodePointSet::kLast; ++c) {
      ASSERT_EQ(bitmap.contains(c), expected.contains(c)) << row["class"] << " " << uint32_t{c};
    }
    ++checked;
  }
  EXPECT_EQ(checked, 19);
}

TEST(Unicode, ContractionsIgnoreCaseOneForOne) {
  auto regex = Regex::compile("(?i:'s|'t|'re|'ve|'m|'ll|'d)");
  ASSERT_TRUE(regex.ok());
  for (const Json& row : rows()) {
    if (!row.contains("class") || !row["class"].get<std::string>().starts_with("second")) continue;
    std::vector<CodePointRange> wanted;
    for (const Json& range : row["ranges"]) wanted.push_back({range[0], range[1]});
    CodePointSet expected(wanted);
    for (char32_t c = 0; c <= CodePointSet::kLast; ++c) {
      if (!is_scalar(c)) continue;
      std::string text = "'" + to_utf8(c);
      auto match = RegexSearch(*regex, text).next();
      ASSERT_EQ(match && match->end == text.size(), expected.contains(c)) << uint32_t{c};
    }
  }
}

TEST(Unicode, FormsOfEachCharacterEqualHuggingFace) {
  int forms = 0;
  for (const Json& row : rows()) {
    if (!row.contains("form")) continue;
    auto name = row["form"].get<std::string>();
    ++forms;
    size_t changed = 0;
    for (char32_t c = 0; c <= CodePointSet::kLast; ++c) {
      if (!is_scalar(c) || (c >= 0xAC00 && c <= 0xD7A3)) continue;
      MarkedText text{to_utf8(c), {}};
      if (name == "Lowercase") {
        lower_case(text);
      } else {
        normalise(text, name == "NFC" ? NormalForm::kNfc : name == "NFD" ? NormalForm::kNfd : NormalForm::kNfkc);
      }
      std::string key = fmt::format("{:X}", uint32_t{c});
      bool changes = row["changed"].contains(key);
      changed += changes;
      ASSERT_EQ(text.text, changes ? row["changed"][key].get<std::string>() : to_utf8(c)) << name << " " << key;
    }
    EXPECT_EQ(changed, row["changed"].size()) << name;
  }
  EXPECT_EQ(forms, 4);
}

TEST(Unicode, HangulSyllablesComeApartAndTogether) {
  for (char32_t c = 0xAC00; c <= 0xD7A3; ++c) {
    MarkedText text{to_utf8(c), {}};
    normalise(text, NormalForm::kNfd);
    EXPECT_GE(text.text.size(), 6u);
    normalise(text, NormalForm::kNfc);
    ASSERT_EQ(text.text, to_utf8(c));
  }
}

TEST(Unicode, MarksAreOrderedByTheirClass) {
  for (const Json& row : rows()) {
    if (!row.contains("combining classes")) continue;
    int checked = 0;
    for (const auto& [value, ranges] : row["combining classes"].items()) {
      for (const Json& range : ranges) {
        for (char32_t c = range[0]; c <= range[1].get<char32_t>(); ++c, ++checked) {
          ASSERT_EQ(unicode::combining_class(c), std::stoi(value)) << uint32_t{c};
        }
      }
    }
    EXPECT_GT(checked, 700);
  }
}

}  // namespace
}  // namespace vernier

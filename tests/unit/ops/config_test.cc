#include "ops/config.h"

#include <gmock/gmock.h>

namespace vernier {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Config, ReadsEachKindOfValue) {
  Config config(json{{"n", 7}, {"x", 0.5}, {"i_as_number", 3}, {"b", true}, {"t", "silu"}}, "config.json");
  EXPECT_EQ(*config.integer("n"), 7);
  EXPECT_EQ(*config.number("x"), 0.5);
  EXPECT_EQ(*config.number("i_as_number"), 3.0);
  EXPECT_TRUE(*config.boolean("b", false));
  EXPECT_EQ(*config.text("t"), "silu");
  EXPECT_TRUE(config.finish().ok());
}

// OPS-1: a value of another type is an error that names key, value and what was expected; it is never converted.
TEST(Config, RefusesOtherTypes) {
  Config config(json{{"n", "7"}, {"f", 7.5}, {"b", 1}, {"t", false}, {"x", "1"}, {"big", 18446744073709551615ULL}},
                "config.json");
  for (const auto& error : {config.integer("n").error(), config.integer("f").error(), config.integer("big").error(),
                            config.boolean("b", true).error(), config.text("t").error(), config.number("x").error()}) {
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.to_string(), HasSubstr("config.json"));
    EXPECT_THAT(error.to_string(), HasSubstr("expected"));
  }
}

TEST(Config, NullIsAbsent) {
  Config config(json{{"n", nullptr}}, "config.json");
  EXPECT_FALSE(config.has("n"));
  EXPECT_TRUE(config.contains("n"));
  EXPECT_EQ(*config.integer("n", 5), 5);
  EXPECT_EQ(*config.optional_integer("n"), std::nullopt);
  EXPECT_THAT(config.integer("n").error().to_string(), HasSubstr("'n' is missing"));
}

// OPS-1: a key that nobody read is an error that names it, unless it is null.
TEST(Config, FinishNamesEachUnreadKey) {
  Config config(json{{"read", 1}, {"ignored", 2}, {"null", nullptr}, {"logit_scale", 0.1}, {"multiplier", {1, 2}}},
                "config.json");
  ASSERT_TRUE(config.integer("read").ok());
  config.ignore({"ignored"});
  Status status = config.finish();
  ASSERT_FALSE(status.ok());
  std::string message = status.error().to_string();
  EXPECT_THAT(message, HasSubstr("unknown key, may change arithmetic"));
  EXPECT_THAT(message, HasSubstr("'logit_scale' = 0.1"));
  EXPECT_THAT(message, HasSubstr("'multiplier' = [1,2]"));
  for (const char* key : {"'read'", "'ignored'", "'null'"}) EXPECT_THAT(message, Not(HasSubstr(key)));
}

TEST(Config, AskingWhetherAKeyIsThereDoesNotReadIt) {
  Config config(json{{"n", 1}}, "config.json");
  EXPECT_TRUE(config.has("n"));
  EXPECT_FALSE(config.finish().ok());
}

TEST(Config, SomethingElseThanAnObjectIsAnError) {
  Config config(json::array({1}), "config.json");
  EXPECT_FALSE(config.has("n"));
  EXPECT_FALSE(config.integer("n").ok());
  EXPECT_FALSE(config.finish().ok());
}

}  // namespace
}  // namespace vernier

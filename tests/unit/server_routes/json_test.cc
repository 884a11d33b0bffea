#include <gtest/gtest.h>

#include "server/field_table.h"
#include "server/json_body.h"
#include "server/json_writer.h"
#include "server/request_fields.h"
#include "server/unique_id.h"

namespace vernier {
namespace {

std::string refusal(const std::string& body) {
  auto parsed = parse_body(body);
  return parsed.ok() ? "" : parsed.error().message;
}

// T03: the message names the byte where reading ended.
TEST(RequestBody, NamesTheByteWhereReadingEnded) {
  EXPECT_NE(refusal(R"({"model": x})").find("byte 10"), std::string::npos) << refusal(R"({"model": x})");
  EXPECT_NE(refusal("{\"a\": \"\xff\"}").find("byte 7"), std::string::npos) << refusal("{\"a\": \"\xff\"}");
  for (const char* body : {"", "[]", "1", "null", "\"x\"", "{", R"({"a":1,})", R"({"a":1} x)", "{'a':1}"}) {
    EXPECT_NE(refusal(body), "") << body;
  }
}

// T03: and it says what is wrong there.
TEST(RequestBody, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a":NaN})", "invalid literal NaN"},   {R"({"a":tru})", "invalid literal tru"},
      {R"({"a":"\ud800"})", "surrogate"},        {"{\"a\":\"\xff\"}", "UTF-8"},
      {R"({"a":1,})", "unexpected '}'"},         {R"({"a":[1,]})", "unexpected ']'"},
      {R"({'a':1})", "expected string literal"},
  };
  for (const auto& [body, what] : cases) EXPECT_NE(refusal(body).find(what), std::string::npos) << refusal(body);
}

// T07, I16: nesting, numbers and texts that are none are refused without a deep stack; and so is a member that
// is named twice, which two readers would read differently.
TEST(RequestBody, RefusesWhatCannotBeMeant) {
  EXPECT_NE(refusal("{\"a\":" + std::string(10000, '[') + std::string(10000, ']') + "}").find("deeper"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\":" + std::string(1000000, '[')).find("deeper"), std::string::npos);
  for (const char* value : {"1e400", "-1e400", "NaN", "Infinity", R"("\ud800")", R"("\udc00 x")", "\"\xed\xa0\x80\"",
                            "\"\xc0\xaf\"", "\"a\nb\""}) {
    EXPECT_NE(refusal(std::string("{\"a\":") + value + "}"), "") << value;
  }
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"a" + std::to_string(i) + "\":0,";
  for (const auto& [body, place] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"({"a":1,"b":2,"a":3})", "a"},
           {R"({"a":{"b":[0,{"c":1,"c":1}]}})", "a.b[1].c"},
           {R"({"":1,"":2})", ""},
           {many + R"("a0":1})", "a0"},
       }) {
    const Error error = parse_body(body).error();
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message, "the body names " + place + " twice");
    EXPECT_EQ(error.where, place);
  }
}

TEST(RequestBody, CountsTheComparisonsOfKeysBeforeItMakesThem) {
  std::string body = "{\"a0\":0";
  for (int i = 1; i < 20000; ++i) body += ",\"a" + std::to_string(i) + "\":0";
  EXPECT_NE(refusal(body + "}").find("one has 10000 at most"), std::string::npos) << refusal(body + "}");
}

// A bias for each token of a vocabulary is fine; it takes one pass.
TEST(RequestBody, TakesABiasForEachTokenOfAVocabulary) {
  std::string body = R"({"logit_bias" : {"-1":1)";
  for (int i = 0; i < 262144; ++i) body += ",\"" + std::to_string(i) + "\":-1";
  body += R"(},"a":[{"b":{"c":[]}},"d",1.5],"a2":2,"e":{"f":null}})";
  const Json read = parse_body(body).value();
  EXPECT_EQ(read["logit_bias"].size(), 262145U);
  EXPECT_EQ(read["logit_bias"].begin().key(), "-1");
  EXPECT_EQ(read["a2"], 2);
  EXPECT_EQ(read["e"].dump(), R"({"f":null})");
  const std::string nested = R"({"a":{"b":[1,2.5,{"c":null},[]],"d":"e"},"logit_bias":{"1":{"2":3}},"f":true})";
  EXPECT_EQ(parse_body(nested)->dump(), nested);
}

TEST(JsonWriter, PlacesCommasAndKeepsFloatsFloats) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().text("a", "\"\n\xff").integer("b", -1).key("c").begin_array().number(1.0).number(-0.5F).null();
  json.number(1.0 / 0.0)
      .begin_object()
      .end_object()
      .end_array()
      .boolean("d", true)
      .named("e\"")
      .integer(2)
      .end_object();
  EXPECT_EQ(out, "{\"a\":\"\\\"\\u000a\xEF\xBF\xBD\",\"b\":-1,\"c\":[1.0,-0.5,null,null,{}],\"d\":true,\"e\\\"\":2}");
}

TEST(UniqueId, NeverRepeats) {
  std::vector<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(unique_id("call_"));
  EXPECT_GE(ids[0].size(), 14U);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

Result<Fields> checked(const Json& body, bool strict = false) {
  return Fields::check(body, kOnChat, strict);
}

// Q08 to Q17: a field has its JSON type and range, or its name is the error's place.
// SERVER-11: a field is in the table and honoured, refused by name, or listed as ignored.
TEST(RequestFields, AreOfTheirTypeAndRangeOrRefusedByName) {
  for (const char* body :
       {R"({"temperature":2.1})", R"({"temperature":"0.5"})", R"({"temperature":true})", R"({"n":0})", R"({"n":1.5})",
        R"({"n":129})", R"({"max_tokens":0})", R"({"seed":9223372036854775808})", R"({"top_logprobs":21})",
        R"({"stream":"yes"})", R"({"logit_bias":[1]})", R"({"max_new_tokens":-1})", R"({"tools":{}})"}) {
    const Json json = Json::parse(body);
    auto fields = checked(json);
    ASSERT_FALSE(fields.ok()) << body;
    EXPECT_EQ(fields.error().where, json.begin().key());
  }
  const Json fine = Json::parse(R"({"seed":-9223372036854775808,"n":1.0,"top_p":0,"temperature":null})");
  auto fields = checked(fine);
  ASSERT_TRUE(fields.ok());
  EXPECT_EQ(fields->integer("n"), 1);
  EXPECT_FALSE(fields->has("temperature"));
}

TEST(RequestFields, StandOnceInTheTableForEachRoute) {
  for (const RequestField& one : request_fields()) {
    for (const RequestField& other : request_fields()) {
      EXPECT_TRUE(&one == &other || one.name != other.name || (one.routes & other.routes) == 0) << one.name;
    }
  }
}

// T22: what is unknown is listed, or refused under --strict-api; what has no effect is listed too.
TEST(RequestFields, ListWhatTheyDoNotHonour) {
  const Json body = Json::parse(R"({"no_such_field":1,"user":"u","n":1})");
  EXPECT_EQ(checked(body)->ignored(), (std::vector<std::string>{"no_such_field", "user"}));
  auto strict = checked(body, true);
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().where, "no_such_field");
}

// Q25: other engines' spellings; T23: what is known and not supported is refused where its value matters.
TEST(RequestFields, KnowOtherSpellingsAndRefuseWhatTheyCannotDo) {
  const Json body = Json::parse(R"({"max_new_tokens":3,"rid":"r"})");
  auto fields = checked(body);
  EXPECT_EQ(fields->integer("max_tokens"), 3);
  EXPECT_EQ(fields->spelling("max_tokens"), "max_new_tokens");
  EXPECT_EQ(fields->text("request_id"), "r");
  EXPECT_EQ(checked(Json::parse(R"({"modalities":["audio"]})")).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(checked(Json::parse(R"({"modalities":["text"]})")).ok());
}

}  // namespace
}  // namespace vernier

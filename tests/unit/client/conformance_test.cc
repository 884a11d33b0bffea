#include "client/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "unit/client/fake_openai.h"

namespace vernier {
namespace {

using testing::FakeOpenAi;
using testing::FakePeer;
using testing::FakeRequest;
using testing::FakeServer;
using ::testing::HasSubstr;

CheckTarget target_of(const FakeServer& server) {
  return {server.url(), "secret", "m", {.connect_s = 2, .silence_s = 2, .total_s = 5}};
}

std::set<std::string> outcomes(const FakeServer& server, CheckOutcome outcome) {
  std::set<std::string> found;
  for (const ConformanceCheck& check : conformance_checks()) {
    const CheckResult result = check.how(target_of(server));
    if (result.outcome == outcome) found.insert(check.number + " " + check.what);
    EXPECT_EQ(result.reason.empty(), result.outcome == CheckOutcome::kPassed) << check.number << " " << check.what;
  }
  return found;
}

// CLIENT-7: every check can fail.
TEST(Conformance, CLIENT_7_EachCheckIsRedOnOneOfTwoServers) {
  FakeServer takes_all([](const FakeRequest&, FakePeer& peer) { peer.answer(200, "{}", "X-Ignored-Params: a\r\n"); });
  FakeServer refuses_all([](const FakeRequest&, FakePeer& peer) {
    peer.answer(400, R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
  });
  const std::set<std::string> first = outcomes(takes_all, CheckOutcome::kPassed);
  const std::set<std::string> second = outcomes(refuses_all, CheckOutcome::kPassed);
  for (const std::string& check : first) EXPECT_FALSE(second.contains(check)) << "nothing turns it red: " << check;
  EXPECT_GT(conformance_checks().size(), 100U);
  EXPECT_GT(second.size(), 25U) << "refusals should pass where all is refused";
}

// CLIENT-8: a bad answer makes a check red; it never ends the program.
TEST(Conformance, CLIENT_8_NoServerEndsTheProgram) {
  const char* bodies[] = {"",     "5",
                          "[]",   "{\"choices\":[{}],\"usage\":7,\"data\":5,\"error\":[]}",
                          "\xff", "{\"choices\":{\"0\":5},\"error\":{\"message\":5}}"};
  FakeServer odd([&](const FakeRequest& request, FakePeer& peer) {
    if (request.number % 7 == 6) return peer.hang_up();
    peer.answer(200, bodies[request.number % 7 % std::size(bodies)]);
  });
  EXPECT_LT(outcomes(odd, CheckOutcome::kPassed).size(), 15U);
}

/// The outcome of the checks of a number on a server with a fault.
std::string first_reason(const std::string& number, const std::string& fault) {
  FakeServer server(FakeOpenAi{fault});
  for (const ConformanceCheck& check : conformance_checks()) {
    if (check.number != number || !check.standard) continue;
    const CheckResult result = check.how(target_of(server));
    if (result.outcome != CheckOutcome::kPassed) return result.reason;
  }
  return "";
}

// What a small server of good behaviour does passes, and each of its faults turns the checks of that rule red.
TEST(Conformance, CLIENT_7_AFaultTurnsItsCheckRed) {
  const std::pair<const char*, const char*> faults[] = {
      {"R01", "same id"},    {"R01", "no created"},    {"R02", "no logprobs"}, {"R03", "empty calls"},
      {"R06", "no details"}, {"R07", "prompt twice"},  {"S01", "json stream"}, {"S01", "buffered"},
      {"S02", "event line"}, {"S04", "new id"},        {"S05", "role twice"},  {"S06", "empty content"},
      {"S08", "no finish"},  {"S09", "usage always"},  {"S10", "no done"},     {"S11", "lost text"},
      {"T04", "no chunks"},  {"T05", "close"},         {"T08", "no allow"},    {"T09", "flat error"},
      {"T11", "any key"},    {"T10", "no request id"}, {"M01", "no owner"},    {"M02", "other model"},
      {"M03", "no code"},    {"Q14", "one choice"},    {"Q15", "stop kept"},   {"Q16", "random"},
      {"T14", "any model"},  {"S16", "cut stream"},    {"Q08", "any value"},   {"T18", "late refusal"}};
  for (const auto& [number, fault] : faults) {
    EXPECT_EQ(first_reason(number, ""), "") << number;
    EXPECT_NE(first_reason(number, fault), "") << number << " with " << fault;
  }
}

TEST(Conformance, ExpectationsSayWhatIsWrong) {
  auto why = [](const char* value, const char* expectation) {
    const nlohmann::json found = nlohmann::json::parse(value);
    return unmet(&found, nlohmann::json::parse(expectation));
  };
  EXPECT_EQ(why("5", "5"), "");
  EXPECT_THAT(why("5", "6"), HasSubstr("is 5, expected 6"));
  EXPECT_THAT(unmet(nullptr, 5), HasSubstr("missing"));
  EXPECT_EQ(unmet(nullptr, {{"absent", true}}), "");
  EXPECT_THAT(why("null", R"({"absent":true})"), HasSubstr("absent"));
  for (const auto& [value, expectation] :
       std::initializer_list<std::pair<const char*, const char*>>{{"5", R"({"is":"integer"})"},
                                                                  {"\"abc\"", R"({"prefix":"ab"})"},
                                                                  {"\"abc\"", R"({"has":"bc"})"},
                                                                  {"5", R"({"min":5,"max":5})"},
                                                                  {"5", R"({"one_of":[4,5]})"},
                                                                  {"[1]", R"({"size":1})"},
                                                                  {"[1]", R"({"not_empty":true})"},
                                                                  {R"({"a":1})", R"({"keys":["a"]})"},
                                                                  {"\"{}\"", R"({"json":true})"}}) {
    EXPECT_EQ(why(value, expectation), "") << value;
    EXPECT_NE(why("\"x y\"", expectation),
              value == std::string("[1]") && expectation == std::string(R"({"not_empty":true})") ? "-" : "")
        << expectation;
    EXPECT_NE(why("4.5", expectation), "") << expectation;
  }
}

}  // namespace
}  // namespace vernier

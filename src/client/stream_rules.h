#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/reply_parser.h"

namespace vernier {

/// A recorded event stream of chat, text or responses.
struct StreamRecord {
  ReplyHead head;
  std::string raw;
  std::vector<std::string> names;      ///< of each event
  std::vector<std::string> data;       ///< of each event
  std::vector<nlohmann::json> chunks;  ///< the events that are JSON
  nlohmann::json request;

  static StreamRecord of(ReplyHead head, std::string raw, nlohmann::json request);
};

/// Empty where the stream keeps the rule, else what is wrong. An unknown rule is a programmer's error.
std::string broken_rule(std::string_view rule, const StreamRecord& record);
std::vector<std::string_view> stream_rule_names();

/// What choice `index` said, joined as a client joins it.
struct JoinedChoice {
  std::string text;
  std::string finish;
  std::vector<std::string> call_names, call_arguments;
  bool operator==(const JoinedChoice&) const = default;
};
JoinedChoice joined_choice(const StreamRecord& record, int index);
JoinedChoice whole_choice(const nlohmann::json& answer, int index);

}  // namespace vernier

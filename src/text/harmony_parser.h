#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/json_call.h"
#include "text/output_parser.h"

namespace vernier {

/// What the header of a harmony message says. Tolerant: words may be missing, doubled or in another order.
struct HarmonyHeader {
  std::string role;
  std::string channel;
  std::string recipient;  // without "to="; empty for none
  std::string type;       // json, code
  std::string rest;       // words that are none of these
};
/// `before`: the text up to <|channel|>; `channel`: from there to <|constrain|>; `constraint`: from there on. With
/// `has_role` the first word is the role; without, the prompt has given it.
HarmonyHeader parse_harmony_header(std::string_view before, std::string_view channel, std::string_view constraint,
                                   bool has_role);

/// Messages in channels, as gpt-oss writes them. The answer starts within a header, since the prompt ends with
/// <|start|>assistant. Always splits reasoning off, and resynchronises at the next marker whatever the model writes.
class HarmonyParser : public OutputParser {
 public:
  explicit HarmonyParser(OutputParserOptions options);

  void push_text(std::string_view text, std::vector<OutputDelta>& out) override;
  void push_marker(std::string_view marker, std::vector<OutputDelta>& out) override;
  void finish(OutputEnd end, std::vector<OutputDelta>& out) override;
  bool in_reasoning() const override { return place_ == Place::kMessage && sort_ == Sort::kReasoning; }
  bool has_calls() const override { return answer_.has_calls(); }
  bool is_complete() const override { return answer_.is_complete(); }

 private:
  enum class Place : uint8_t { kHeader, kMessage, kBetween };
  enum class Part : uint8_t { kBefore, kChannel, kConstraint };
  enum class Sort : uint8_t { kContent, kReasoning, kCall };

  void begin_header(bool has_role);
  void begin_message();
  void end_header(std::vector<OutputDelta>& out);
  void end_message(bool whole, std::vector<OutputDelta>& out);
  HarmonyHeader header() const { return parse_harmony_header(parts_[0], parts_[1], parts_[2], has_role_); }
  Sort sort_of(const HarmonyHeader& header) const;
  std::string function_of(std::string_view recipient) const;

  OutputParserOptions options_;
  AnswerWriter answer_;
  PendingCall pending_;
  JsonCallReader call_;
  Place place_ = Place::kHeader;
  Part part_ = Part::kBefore;
  Sort sort_ = Sort::kContent;
  bool has_role_ = false;
  bool has_arguments_ = false;
  std::string function_;
  std::string parts_[3];  // of the header
};

}  // namespace vernier

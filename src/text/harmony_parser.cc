#include "text/harmony_parser.h"

#include <algorithm>

namespace vernier {
namespace {

constexpr std::string_view kFunctions = "functions.";

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kJsonSpace), text.size()));
  std::string_view word = text.substr(0, text.find_first_of(kJsonSpace));
  text.remove_prefix(word.size());
  return word;
}

/// Cuts "to=NAME" out of a part of a header, brackets around it included.
std::string cut_recipient(std::string& part) {
  size_t begin = part.find("to=");
  if (begin == std::string::npos) return {};
  size_t end = std::min(part.find_first_of(" \t\n\r<)", begin), part.size());
  std::string name = part.substr(begin + 3, end - begin - 3);
  if (begin > 0 && part[begin - 1] == '(') --begin;
  if (end < part.size() && part[end] == ')') ++end;
  part.replace(begin, end - begin, " ");
  return name;
}

}  // namespace

HarmonyHeader parse_harmony_header(std::string_view before, std::string_view channel, std::string_view constraint,
                                   bool has_role) {
  HarmonyHeader header;
  std::string first(before);
  std::string second(channel);
  header.recipient = cut_recipient(first);
  std::string other = cut_recipient(second);
  if (header.recipient.empty()) header.recipient = other;
  if (header.recipient == "all") header.recipient.clear();
  std::string_view words = first;
  header.role = has_role ? take_word(words) : "assistant";
  header.rest = trim_json_space(words);
  words = second;
  header.channel = take_word(words);
  std::string_view constrained = constraint;
  header.type = take_word(constrained);
  if (header.type.empty()) header.type = take_word(words);
  auto add_rest = [&](std::string_view text) {
    text = trim_json_space(text);
    if (!header.rest.empty() && !text.empty()) header.rest += ' ';
    header.rest += text;
  };
  add_rest(words);
  add_rest(constrained);
  // The library's rule: " json" alone in the role part is the type of a call.
  if (header.type.empty() && !header.recipient.empty() && header.rest.find_first_of(kJsonSpace) == std::string::npos) {
    header.type = std::exchange(header.rest, {});
  }
  return header;
}

HarmonyParser::HarmonyParser(OutputParserOptions options)
    : options_(std::move(options)),
      answer_(false, options_.parallel_calls),
      pending_(answer_),
      call_(pending_, options_.tools) {}

void HarmonyParser::begin_header(bool has_role) {
  place_ = Place::kHeader;
  part_ = Part::kBefore;
  has_role_ = has_role;
  for (std::string& part : parts_) part.clear();
}

/// The function that a recipient names; nothing if it is none of the request's. "functions." may be missing.
std::string HarmonyParser::function_of(std::string_view recipient) const {
  if (options_.tools.empty()) return {};
  if (recipient.starts_with(kFunctions)) return std::string(recipient.substr(kFunctions.size()));
  bool known = std::any_of(options_.tools.begin(), options_.tools.end(),
                           [&](const OutputTool& tool) { return tool.name == recipient; });
  return known ? std::string(recipient) : std::string();
}

HarmonyParser::Sort HarmonyParser::sort_of(const HarmonyHeader& header) const {
  bool from_tool = header.recipient == "assistant" && header.role != "assistant";
  if (from_tool) return Sort::kReasoning;  // a result that the model made up is no answer
  if (!header.recipient.empty() && header.recipient != "assistant" && header.recipient != "user") {
    if (!function_of(header.recipient).empty()) return Sort::kCall;
    // A call of a built-in tool that nobody runs; without tools in the request all calls are text.
    return header.recipient.starts_with(kFunctions) ? Sort::kContent : Sort::kReasoning;
  }
  return header.channel.starts_with("analysis") ? Sort::kReasoning : Sort::kContent;
}

void HarmonyParser::begin_message() {
  HarmonyHeader parsed = header();
  place_ = Place::kMessage;
  sort_ = sort_of(parsed);
  answer_.new_paragraph();
  if (sort_ != Sort::kCall) return;
  function_ = function_of(parsed.recipient);
  has_arguments_ = false;
  call_.begin(JsonCall::Form::kArguments, function_);
}

/// A header without a message: what is neither role, channel, recipient nor type is text that must not be lost.
void HarmonyParser::end_header(std::vector<OutputDelta>& out) {
  HarmonyHeader parsed = header();
  place_ = Place::kBetween;
  if (parsed.rest.empty()) return;
  answer_.new_paragraph();
  if (sort_of(parsed) == Sort::kReasoning) {
    answer_.reasoning(parsed.rest, out);
  } else {
    answer_.content(parsed.rest, out);
  }
}

void HarmonyParser::end_message(bool whole, std::vector<OutputDelta>& out) {
  place_ = Place::kBetween;
  if (sort_ != Sort::kCall || !call_.is_reading()) return;
  if (whole && !has_arguments_) {
    pending_.whole(function_, "{}", out);
  } else {
    pending_.refuse(out);
  }
}

void HarmonyParser::push_text(std::string_view text, std::vector<OutputDelta>& out) {
  if (place_ == Place::kHeader) {
    parts_[static_cast<size_t>(part_)] += text;
    return;
  }
  if (place_ == Place::kBetween) {
    sort_ = Sort::kContent;
    answer_.new_paragraph();
    place_ = Place::kMessage;
  }
  if (sort_ == Sort::kReasoning) {
    answer_.reasoning(text, out);
    return;
  }
  if (sort_ == Sort::kCall) {
    has_arguments_ = has_arguments_ || !trim_json_space(text).empty();
    size_t at = 0;
    if (!call_.push(text, at, out) && at == text.size()) return;
    if (at < text.size()) pending_.refuse(out);
    text.remove_prefix(at);
    sort_ = Sort::kContent;
    if (trim_json_space(text).empty()) return;
  }
  answer_.content(text, out);
}

void HarmonyParser::push_marker(std::string_view marker, std::vector<OutputDelta>& out) {
  bool ends = marker == "<|end|>" || marker == "<|return|>" || marker == "<|call|>";
  if (place_ == Place::kHeader && marker == "<|message|>") return begin_message();
  if (place_ == Place::kHeader && marker == "<|channel|>") {
    part_ = Part::kChannel;
  } else if (place_ == Place::kHeader && marker == "<|constrain|>") {
    part_ = Part::kConstraint;
  } else if (ends || marker == "<|start|>") {
    if (place_ == Place::kHeader) end_header(out);
    if (place_ == Place::kMessage) end_message(ends, out);
    if (!ends) begin_header(true);
  } else if (marker == "<|channel|>") {  // the model forgot to end its message and to start the next
    if (place_ == Place::kMessage) end_message(false, out);
    begin_header(false);
    part_ = Part::kChannel;
  }
}

void HarmonyParser::finish(OutputEnd end, std::vector<OutputDelta>& out) {
  if (place_ == Place::kHeader) end_header(out);
  if (place_ == Place::kMessage) end_message(end == OutputEnd::kStop, out);
  answer_.finish(out);
}

}  // namespace vernier

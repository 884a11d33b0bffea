#include "server/responses_writer.h"

#include <algorithm>

#include "server/unique_id.h"

namespace vernier {
namespace {

using Kind = OutputDelta::Kind;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view id_prefix(Kind kind) {
  return kind == Kind::kContent ? "msg_" : kind == Kind::kReasoning ? "rs_" : "fc_";
}

bool belongs_to(Kind item, Kind delta) {
  return item == delta || (item == Kind::kCallBegin && delta == Kind::kCallArguments);
}

}  // namespace

ResponsesWriter::ResponsesWriter(const ServedModel& model, GenerationSettings settings, ResponsesEcho echo,
                                 std::string id, int64_t created_unix_s)
    : model_(model),
      settings_(std::move(settings)),
      echo_(std::move(echo)),
      id_(std::move(id)),
      created_unix_s_(created_unix_s) {}

void ResponsesWriter::write_logprobs(JsonWriter& json, std::span<const SampledToken> tokens) const {
  json.key("logprobs").begin_array();
  if (settings_.top_logprobs >= 0) {
    for (const SampledToken& token : tokens) {
      write_token_logprob(json, *model_.tokenizer, token, settings_.top_logprobs, settings_.skip_special);
    }
  }
  json.end_array();
}

void ResponsesWriter::write_part(JsonWriter& json, const Item& item, bool with_text) const {
  const std::string_view text = with_text ? std::string_view(item.text) : "";
  json.begin_object();
  if (item.kind == Kind::kReasoning) {
    json.text("type", "reasoning_text").text("text", text);
  } else {
    json.text("type", "output_text").text("text", text).key("annotations").begin_array().end_array();
    write_logprobs(json, with_text ? std::span(item.tokens) : std::span<const SampledToken>());
  }
  json.end_object();
}

std::string ResponsesWriter::item_json(const Item& item, std::string_view status, bool with_text) const {
  std::string out;
  JsonWriter json(out);
  json.begin_object().text("id", item.id);
  switch (item.kind) {
    case Kind::kContent:
      json.text("type", "message").text("status", status).text("role", "assistant").key("content").begin_array();
      if (with_text) write_part(json, item, true);
      json.end_array();
      break;
    case Kind::kReasoning:
      json.text("type", "reasoning").text("status", status).key("summary").begin_array().end_array();
      json.key("content").begin_array();
      if (with_text) write_part(json, item, true);
      json.end_array();
      break;
    case Kind::kCallBegin:
    case Kind::kCallArguments:
      json.text("type", "function_call").text("status", status).text("call_id", item.call_id).text("name", item.name);
      json.text("arguments", with_text ? std::string_view(item.text) : "");
      break;
  }
  json.end_object();
  return out;
}

std::string ResponsesWriter::response_json(std::string_view status, std::span<const Item> items,
                                           const ChoiceResult* result, const ApiError* error) const {
  std::string out;
  JsonWriter json(out);
  json.begin_object().text("id", id_).text("object", "response");
  json.key("created_at").number(static_cast<double>(created_unix_s_)).text("status", status);
  json.boolean("background", false).key("error");
  if (error != nullptr) {
    json.begin_object().text("code", error->status == 429 ? "rate_limit_exceeded" : "server_error");
    json.text("message", error->message).end_object();
  } else {
    json.null();
  }
  json.key("incomplete_details");
  if (status == "incomplete") {
    json.begin_object().text("reason", "max_output_tokens").end_object();
  } else {
    json.null();
  }
  json.raw("instructions", dumped(echo_.instructions)).raw("max_output_tokens", dumped(echo_.max_output_tokens));
  json.null("max_tool_calls").text("model", model_.name()).key("output").begin_array();
  for (size_t i = 0; i < items.size(); ++i) {
    const bool cut = status == "incomplete" && i + 1 == items.size();
    json.raw(item_json(items[i], cut ? "incomplete" : "completed", true));
  }
  json.end_array().boolean("parallel_tool_calls", echo_.parallel_tool_calls).null("previous_response_id");
  json.raw("reasoning", dumped(echo_.reasoning)).text("service_tier", "default").boolean("store", false);
  json.key("temperature").number(settings_.sampling.temperature).raw("text", dumped(echo_.text));
  json.raw("tool_choice", dumped(echo_.tool_choice)).raw("tools", dumped(echo_.tools));
  json.integer("top_logprobs", std::max(settings_.top_logprobs, 0)).key("top_p").number(settings_.sampling.top_p);
  json.text("truncation", "disabled").key("usage");
  if (result != nullptr) {
    json.begin_object().integer("input_tokens", result->prompt_tokens).key("input_tokens_details").begin_object();
    json.integer("cached_tokens", result->cached_tokens).integer("cache_write_tokens", 0).end_object();
    json.integer("output_tokens", result->completion_tokens).key("output_tokens_details").begin_object();
    json.integer("reasoning_tokens", result->reasoning_tokens).end_object();
    json.integer("total_tokens", result->prompt_tokens + result->completion_tokens).end_object();
  } else {
    json.null();
  }
  json.null("user").raw("metadata", dumped(echo_.metadata));
  if (result != nullptr) {
    json.key("timings");
    write_timings(json, std::span(result, 1));
  }
  json.end_object();
  return out;
}

/// Items of an answer's parts. An answer without any is an empty message.
std::vector<ResponsesWriter::Item> ResponsesWriter::items_of(const ChoiceResult& result) const {
  std::vector<Item> items;
  auto open = [&](Kind kind) -> Item& {
    items.push_back({});
    items.back().kind = kind;
    items.back().id = items.size() <= items_.size() ? items_[items.size() - 1].id : unique_id(id_prefix(kind));
    return items.back();
  };
  for (const OutputDelta& part : result.parts) {
    if (part.kind == Kind::kCallBegin) {
      Item& item = open(part.kind);
      item.name = part.text;
      item.call_id = result.call_ids[part.call_index];
      continue;
    }
    if (items.empty() || !belongs_to(items.back().kind, part.kind)) open(part.kind);
    items.back().text += part.text;
  }
  if (items.empty()) open(Kind::kContent);
  for (Item& item : items) {
    if (item.kind != Kind::kContent) continue;
    item.tokens = result.tokens;  // the first message tells them all
    break;
  }
  return items;
}

void ResponsesWriter::add_event(EventStream& events, std::string_view type, const std::string& members) {
  std::string event;
  JsonWriter json(event);
  json.begin_object().text("type", type).integer("sequence_number", sequence_++);
  event += members;
  event += '}';
  events.add_named(type, event);
}

void ResponsesWriter::add_response_event(EventStream& events, std::string_view type, const std::string& response) {
  add_event(events, type, ",\"response\":" + response);
}

std::string ResponsesWriter::place_of_item(bool with_content) const {
  std::string out = ",";
  JsonWriter json(out);
  json.text("item_id", items_.back().id).integer("output_index", static_cast<int64_t>(items_.size()) - 1);
  if (with_content) json.integer("content_index", 0);
  return out;
}

void ResponsesWriter::begin_choice(EventStream& events, size_t, const ChoiceResult&) {
  const std::string response = response_json("in_progress", {}, nullptr, nullptr);
  add_response_event(events, "response.created", response);
  add_response_event(events, "response.in_progress", response);
}

void ResponsesWriter::open_item(EventStream& events, Kind kind, std::string_view name, std::string_view call_id) {
  items_.push_back({kind, unique_id(id_prefix(kind)), std::string(call_id), std::string(name), "", {}});
  item_open_ = true;
  const Item& item = items_.back();
  add_event(
      events, "response.output_item.added",
      ",\"output_index\":" + std::to_string(items_.size() - 1) + ",\"item\":" + item_json(item, "in_progress", false));
  if (kind != Kind::kContent) return;
  std::string members = place_of_item(true) + ",\"part\":";
  JsonWriter json(members);
  write_part(json, item, false);
  add_event(events, "response.content_part.added", members);
}

void ResponsesWriter::close_item(EventStream& events, std::string_view status) {
  if (!item_open_) return;
  item_open_ = false;
  const Item& item = items_.back();
  const bool call = item.kind == Kind::kCallBegin;
  std::string members = place_of_item(!call) + ",";
  JsonWriter json(members);
  if (call) {
    json.text("name", item.name).text("arguments", item.text);
    add_event(events, "response.function_call_arguments.done", members);
  } else {
    json.text("text", item.text);
    if (item.kind == Kind::kContent) write_logprobs(json, item.tokens);
    add_event(events, item.kind == Kind::kContent ? "response.output_text.done" : "response.reasoning_text.done",
              members);
  }
  if (item.kind == Kind::kContent) {
    std::string part = place_of_item(true) + ",\"part\":";
    JsonWriter part_json(part);
    write_part(part_json, item, true);
    add_event(events, "response.content_part.done", part);
  }
  add_event(events, "response.output_item.done",
            ",\"output_index\":" + std::to_string(items_.size() - 1) + ",\"item\":" + item_json(item, status, true));
}

void ResponsesWriter::step(EventStream& events, const ChoiceStep& step) {
  const OutputDelta& delta = *step.delta;
  const bool begins_call = delta.kind == Kind::kCallBegin;
  if (begins_call || !item_open_ || !belongs_to(items_.back().kind, delta.kind)) {
    close_item(events, "completed");
    open_item(events, begins_call || delta.kind == Kind::kCallArguments ? Kind::kCallBegin : delta.kind,
              begins_call ? std::string_view(delta.text) : "", step.call_id);
  }
  Item& item = items_.back();
  if (item.kind == Kind::kContent) item.tokens.insert(item.tokens.end(), step.tokens.begin(), step.tokens.end());
  if (begins_call) return;
  item.text += delta.text;
  const bool call = item.kind == Kind::kCallBegin;
  std::string members = place_of_item(!call) + ",";
  JsonWriter json(members);
  json.text("delta", delta.text);
  if (item.kind == Kind::kContent) write_logprobs(json, step.tokens);
  add_event(events,
            call                          ? "response.function_call_arguments.delta"
            : item.kind == Kind::kContent ? "response.output_text.delta"
                                          : "response.reasoning_text.delta",
            members);
}

void ResponsesWriter::end_choice(EventStream& events, size_t, const ChoiceResult& result,
                                 std::span<const SampledToken>) {
  if (items_.empty()) open_item(events, Kind::kContent, "", "");
  if (items_.back().kind == Kind::kContent) items_.back().tokens = result.tokens;
  close_item(events, result.end == AnswerEnd::kLength ? "incomplete" : "completed");
}

void ResponsesWriter::end_stream(EventStream& events, std::span<const ChoiceResult> results) {
  const bool cut = results.front().end == AnswerEnd::kLength;
  const std::string_view status = cut ? "incomplete" : "completed";
  const std::string type = "response." + std::string(status);
  add_response_event(events, type, response_json(status, items_of(results.front()), &results.front(), nullptr));
  events.end();
}

std::string ResponsesWriter::whole(std::span<const ChoiceResult> results) {
  const bool cut = results.front().end == AnswerEnd::kLength;
  return response_json(cut ? "incomplete" : "completed", items_of(results.front()), &results.front(), nullptr);
}

void ResponsesWriter::fail(EventStream& events, const ApiError& error) {
  if (events.response().send(error.response())) return;
  add_response_event(events, "response.failed", response_json("failed", {}, nullptr, &error));
  events.end();
}

}  // namespace vernier

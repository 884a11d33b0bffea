#include "client/stream_rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "client/event_reader.h"

namespace vernier {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

std::map<int, std::vector<json>> choices_of(const StreamRecord& record) {
  std::map<int, std::vector<json>> choices;
  for (const json& chunk : record.chunks) {
    const json& list = member(chunk, "choices");
    if (!list.is_array()) continue;
    for (const json& choice : list) {
      const json& index = member(choice, "index");
      choices[index.is_number_integer() ? index.get<int>() : -1].push_back(choice);
    }
  }
  return choices;
}

std::string headers(const StreamRecord& record) {
  const std::string type = record.head.get("content-type");
  if (!type.starts_with("text/event-stream")) return fmt::format("Content-Type is '{}', not text/event-stream", type);
  if (record.head.get("cache-control").find("no-cache") == std::string::npos) return "no Cache-Control: no-cache";
  if (record.head.find("content-length") != nullptr) return "a stream with a Content-Length";
  return "";
}

std::string unbuffered(const StreamRecord& record) {
  return record.head.get("x-accel-buffering") == "no" ? "" : "no X-Accel-Buffering: no";
}

std::string framing(const StreamRecord& record) {
  if (!record.raw.ends_with("\n\n")) return "the stream does not end with an empty line";
  for (size_t at = 0; at < record.raw.size();) {
    const size_t end = record.raw.find("\n\n", at);
    const std::string event = record.raw.substr(at, end - at);
    at = end == std::string::npos ? record.raw.size() : end + 2;
    const bool one_line = event.find_first_of("\r\n") == std::string::npos;
    if (!one_line || !(event.starts_with("data: ") || event.starts_with(':'))) {
      return fmt::format("an event that is not one line of 'data: ': '{:.60}'", event);
    }
  }
  for (const std::string& data : record.data) {
    if (data != "[DONE]" && !json::accept(data)) return fmt::format("an event that is no JSON: '{:.60}'", data);
  }
  return "";
}

std::string done(const StreamRecord& record) {
  const auto count = std::ranges::count(record.data, "[DONE]");
  if (count != 1) return fmt::format("[DONE] came {} times", count);
  return record.data.back() == "[DONE]" ? "" : "an event came behind [DONE]";
}

std::string identity(const StreamRecord& record) {
  if (record.chunks.empty()) return "no events";
  for (const char* key : {"id", "created", "model", "object"}) {
    const json& first = member(record.chunks.front(), key);
    if (first.is_null()) return fmt::format("a chunk without {}", key);
    for (const json& chunk : record.chunks) {
      if (member(chunk, key) != first) return fmt::format("{} is not the same in all chunks", key);
    }
  }
  const bool chat = member(record.request, "messages").is_array();
  const std::string object = text_of(member(record.chunks.front(), "object"));
  if (object != (chat ? "chat.completion.chunk" : "text_completion")) return fmt::format("object is {}", object);
  return "";
}

std::string role(const StreamRecord& record) {
  const auto choices = choices_of(record);
  if (choices.empty()) return "no choices";
  for (const auto& [index, own] : choices) {
    if (member(member(own.front(), "delta"), "role") != "assistant") {
      return fmt::format("the first chunk of choice {} has no role", index);
    }
    for (size_t i = 1; i < own.size(); ++i) {
      if (!member(member(own[i], "delta"), "role").is_null()) return "the role comes twice";
    }
  }
  return "";
}

std::string content(const StreamRecord& record) {
  for (const auto& [index, own] : choices_of(record)) {
    for (size_t i = 1; i < own.size(); ++i) {
      const json& delta = member(own[i], "delta");
      if (!delta.is_object()) return "a choice without delta";
      if (!delta.contains("content")) continue;
      const std::string text = text_of(delta["content"]);
      if (text.empty()) return "a chunk whose content is empty";
      if (text.ends_with("\xef\xbf\xbd")) return "a chunk that ends inside a character";
    }
  }
  return "";
}

std::string finish(const StreamRecord& record) {
  static const std::set<std::string> kReasons = {"stop", "length", "tool_calls", "content_filter", "function_call"};
  const auto choices = choices_of(record);
  if (choices.empty()) return "no choices";
  for (const auto& [index, own] : choices) {
    for (size_t i = 0; i < own.size(); ++i) {
      const json& reason = member(own[i], "finish_reason");
      if (i + 1 < own.size() && !reason.is_null()) return "a chunk behind the finish reason";
      if (i + 1 == own.size() && !kReasons.contains(text_of(reason))) {
        return fmt::format("the last chunk of choice {} has finish reason {}", index, reason.dump());
      }
    }
  }
  return "";
}

std::string no_usage(const StreamRecord& record) {
  for (const json& chunk : record.chunks) {
    if (!member(chunk, "usage").is_null()) return "usage, though it was not asked for";
    if (!member(chunk, "choices").is_array() || chunk["choices"].empty()) return "a chunk without choices";
  }
  return "";
}

std::string usage_last(const StreamRecord& record) {
  if (record.chunks.empty()) return "no events";
  const json& last = record.chunks.back();
  const json& usage = member(last, "usage");
  if (!usage.is_object() || !member(last, "choices").is_array() || !last["choices"].empty()) {
    return "the last chunk is not usage with empty choices";
  }
  auto count = [&](const char* key) {
    const json& value = member(usage, key);
    return value.is_number_integer() ? value.get<int64_t>() : int64_t{-1};
  };
  const int64_t prompt = count("prompt_tokens"), made = count("completion_tokens");
  if (prompt < 1 || made < 0 || count("total_tokens") != prompt + made) {
    return fmt::format("totals that do not add up: {}", usage.dump());
  }
  for (size_t i = 0; i + 1 < record.chunks.size(); ++i) {
    if (!member(record.chunks[i], "usage").is_null()) return "usage before the last chunk";
  }
  return "";
}

std::string calls(const StreamRecord& record) {
  int seen = 0;
  for (const auto& [index, own] : choices_of(record)) {
    std::set<int> begun;
    for (const json& choice : own) {
      const json& pieces = member(member(choice, "delta"), "tool_calls");
      if (!pieces.is_array()) continue;
      for (const json& piece : pieces) {
        const int call = member(piece, "index").is_number_integer() ? piece["index"].get<int>() : -1;
        const json& function = member(piece, "function");
        if (begun.insert(call).second) {
          ++seen;
          if (call + 1 != static_cast<int>(begun.size())) return "indices of calls do not count from 0";
          if (text_of(member(piece, "id")).empty() || text_of(member(function, "name")).empty() ||
              member(piece, "type") != "function") {
            return "the first piece of a call lacks id, type or name";
          }
        } else if (!member(piece, "id").is_null() || !member(function, "name").is_null()) {
          return "id or name of a call repeated in a later piece: clients join them";
        }
      }
    }
  }
  if (seen == 0) return "no call in the stream";
  for (const std::string& arguments : joined_choice(record, 0).call_arguments) {
    if (!json::accept(arguments)) return fmt::format("joined arguments are no JSON: '{:.60}'", arguments);
  }
  return "";
}

std::string named_events(const StreamRecord& record) {
  if (record.chunks.empty()) return "no events";
  for (size_t i = 0; i < record.data.size(); ++i) {
    if (record.data[i] == "[DONE]") return "[DONE] in a stream of responses";
    if (i >= record.chunks.size() || member(record.chunks[i], "type") != record.names[i]) {
      return fmt::format("event '{}' and the type of its data differ", record.names[i]);
    }
    if (member(record.chunks[i], "sequence_number") != static_cast<int>(i)) return "sequence_number has a gap";
  }
  return "";
}

std::string response_order(const StreamRecord& record) {
  std::vector<std::string> shape;
  for (const std::string& name : record.names) {
    if (shape.empty() || shape.back() != name) shape.push_back(name);
  }
  if (shape.size() < 4 || shape[0] != "response.created" || shape[1] != "response.in_progress" ||
      shape[2] != "response.output_item.added" || shape[shape.size() - 2] != "response.output_item.done") {
    return "expected created, in_progress, output_item.added ... output_item.done";
  }
  if (shape.back() != "response.completed" && shape.back() != "response.incomplete") {
    return fmt::format("the last event is {}", shape.back());
  }
  return member(member(record.chunks.back(), "response"), "output").is_array() ? "" : "the last event has no response";
}

struct StreamRule {
  std::string_view name;
  std::string (*check)(const StreamRecord&);
};

constexpr StreamRule kRules[] = {{"headers", headers},
                                 {"unbuffered", unbuffered},
                                 {"framing", framing},
                                 {"done", done},
                                 {"identity", identity},
                                 {"role", role},
                                 {"content", content},
                                 {"finish", finish},
                                 {"no_usage", no_usage},
                                 {"usage_last", usage_last},
                                 {"calls", calls},
                                 {"named_events", named_events},
                                 {"response_order", response_order}};

}  // namespace

StreamRecord StreamRecord::of(ReplyHead head, std::string raw, json request) {
  StreamRecord record;
  EventReader reader;
  reader.feed(raw, [&](ReceivedEvent event) {
    json chunk = json::parse(event.data, nullptr, /*allow_exceptions=*/false);
    if (!chunk.is_discarded()) record.chunks.push_back(std::move(chunk));
    record.names.push_back(std::move(event.name));
    record.data.push_back(std::move(event.data));
  });
  record.head = std::move(head);
  record.raw = std::move(raw);
  record.request = std::move(request);
  return record;
}

std::string broken_rule(std::string_view rule, const StreamRecord& record) {
  const auto found = std::ranges::find(kRules, rule, &StreamRule::name);
  CHECK(found != std::end(kRules), "no stream rule is called {}", rule);
  return found->check(record);
}

std::vector<std::string_view> stream_rule_names() {
  std::vector<std::string_view> names;
  for (const StreamRule& rule : kRules) names.push_back(rule.name);
  return names;
}

JoinedChoice joined_choice(const StreamRecord& record, int index) {
  JoinedChoice joined;
  const auto choices = choices_of(record);
  const auto own = choices.find(index);
  if (own == choices.end()) return joined;
  for (const json& choice : own->second) {
    const json& delta = member(choice, "delta");
    joined.text += text_of(member(choice, "text")) + text_of(member(delta, "content"));
    if (member(choice, "finish_reason").is_string()) joined.finish = text_of(choice["finish_reason"]);
    const json& pieces = member(delta, "tool_calls");
    if (!pieces.is_array()) continue;
    for (const json& piece : pieces) {
      const json& at = member(piece, "index");
      const int call = at.is_number_integer() ? at.get<int>() : 0;
      if (call < 0 || call > 127) continue;
      const size_t size = std::max(joined.call_names.size(), static_cast<size_t>(call) + 1);
      joined.call_names.resize(size);
      joined.call_arguments.resize(size);
      joined.call_names[static_cast<size_t>(call)] += text_of(member(member(piece, "function"), "name"));
      joined.call_arguments[static_cast<size_t>(call)] += text_of(member(member(piece, "function"), "arguments"));
    }
  }
  return joined;
}

JoinedChoice whole_choice(const json& answer, int index) {
  JoinedChoice whole;
  const json& choices = member(answer, "choices");
  if (!choices.is_array() || index >= static_cast<int>(choices.size())) return whole;
  const json& choice = choices[static_cast<size_t>(index)];
  const json& message = member(choice, "message");
  whole.text = text_of(member(choice, "text")) + text_of(member(message, "content"));
  whole.finish = text_of(member(choice, "finish_reason"));
  const json& calls = member(message, "tool_calls");
  if (!calls.is_array()) return whole;
  for (const json& call : calls) {
    whole.call_names.push_back(text_of(member(member(call, "function"), "name")));
    whole.call_arguments.push_back(text_of(member(member(call, "function"), "arguments")));
  }
  return whole;
}

}  // namespace vernier

#include "text/harmony_prompt.h"

#include <algorithm>
#include <map>

namespace vernier {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string role_of(const OrderedJson& message) {
  auto role = message.find("role");
  return role != message.end() && role->is_string() ? role->get<std::string>() : std::string();
}

bool is_instruction(const OrderedJson& message) {
  std::string role = role_of(message);
  return role == "system" || role == "developer";
}

std::string reasoning_of(const OrderedJson& message) {
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    auto found = message.find(key);
    if (found != message.end() && found->is_string()) return found->get<std::string>();
  }
  return {};
}

bool has_calls(const OrderedJson& message) {
  auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

Error bad_message(size_t index, std::string text) {
  return Error{ErrorCode::kInvalidArgument, std::move(text), fmt::format("messages[{}]", index)};
}

/// The parts of a message's content, each of which is encoded alone.
Result<std::vector<std::string>> parts_of(const OrderedJson& message, size_t index) {
  std::vector<std::string> parts;
  auto content = message.find("content");
  if (content == message.end() || content->is_null()) return parts;
  if (content->is_string()) {
    if (!content->get_ref<const std::string&>().empty()) parts.push_back(content->get<std::string>());
    return parts;
  }
  if (!content->is_array()) return bad_message(index, "content is a string or a list of parts");
  for (const OrderedJson& part : *content) {
    auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || text == part.end() || !text->is_string()) {
      return bad_message(index, "a part of the content that is no text; this format takes text alone");
    }
    parts.push_back(text->get<std::string>());
  }
  return parts;
}

class HarmonyWriter {
 public:
  explicit HarmonyWriter(const HarmonyInput& input) : input_(input) {}

  Result<HarmonyPrompt> write() {
    TRY_STATUS(check());
    size_t first = 0;
    while (first < input_.messages.size() && is_instruction(input_.messages[first])) ++first;
    write_system();
    TRY_STATUS(write_developer(0, first, true));
    find_dropped();
    for (size_t i = first; i < input_.messages.size(); ++i) TRY_STATUS(write_message(i));
    if (input_.add_generation_prompt) {
      control("<|start|>");
      text("assistant");
      if (input_.skip_reasoning) {
        control("<|channel|>");
        text("final");
        control("<|message|>");
      }
    }
    return std::move(prompt_);
  }

 private:
  void control(std::string_view token) { prompt_.runs.push_back({true, std::string(token)}); }
  void text(std::string_view run) {
    if (!run.empty()) prompt_.runs.push_back({false, std::string(run)});
  }
  void open(std::string_view role, std::string_view recipient, std::string_view channel) {
    control("<|start|>");
    text(role);
    if (!recipient.empty()) text(" to=" + std::string(recipient));
    if (channel.empty()) return;
    control("<|channel|>");
    text(channel);
  }
  void message(std::string_view role, std::string_view channel, const std::vector<std::string>& parts) {
    open(role, {}, channel);
    control("<|message|>");
    for (const std::string& part : parts) text(part);
    control("<|end|>");
  }

  Status check() const {
    if (!input_.messages.is_array() || input_.messages.empty()) {
      return invalid_argument("a conversation of at least one message is expected");
    }
    for (size_t i = 0; i < input_.messages.size(); ++i) {
      if (!input_.messages[i].is_object()) return bad_message(i, "an object is expected");
    }
    return {};
  }

  void write_system() {
    static constexpr std::string_view kEfforts[] = {"low", "medium", "high"};
    std::string content = input_.identity + "\nKnowledge cutoff: " + input_.knowledge_cutoff;
    if (input_.date) content += "\nCurrent date: " + *input_.date;
    content += fmt::format("\n\nReasoning: {}\n\n", kEfforts[static_cast<size_t>(input_.effort)]);
    content += "# Valid channels: analysis, commentary, final. Channel must be included for every message.";
    if (!input_.tools.empty()) {
      content += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    }
    message("system", {}, {content});
  }

  Status write_developer(size_t begin, size_t end, bool with_tools) {
    std::string content;
    for (size_t i = begin; i < end; ++i) {
      TRY_BIND(std::vector<std::string> parts, parts_of(input_.messages[i], i));
      std::string instruction;
      for (const std::string& part : parts) instruction += part;
      if (instruction.empty()) continue;
      content += (content.empty() ? "# Instructions\n\n" : "\n\n") + instruction;
    }
    auto section = [&](const std::string& added) { content += (content.empty() ? "" : "\n\n") + added; };
    if (with_tools && !input_.tools.empty()) section(harmony_functions(input_.tools));
    if (with_tools && input_.response_format) section(response_format());
    if (!content.empty()) message("developer", {}, {content});
    return {};
  }

  std::string response_format() const {
    const OrderedJson& format = *input_.response_format;
    auto text_under = [&](const char* key, const char* otherwise) {
      auto found = format.find(key);
      return found != format.end() && found->is_string() ? found->get<std::string>() : std::string(otherwise);
    };
    std::string out = "# Response Formats\n\n## " + text_under("name", "response") + "\n\n";
    if (std::string about = text_under("description", ""); !about.empty()) out += "// " + about + "\n";
    auto schema = format.find("schema");
    return out + (schema == format.end() ? "{}" : schema->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }

  bool is_final(size_t i) const { return role_of(input_.messages[i]) == "assistant" && !has_calls(input_.messages[i]); }

  /// Whose reasoning is left out.
  void find_dropped() {
    size_t count = input_.messages.size();
    dropped_.assign(count, false);
    if (input_.history == HarmonyHistory::kAll) return;
    bool answered = false;  // seen from the end: the turn goes on to a final message
    size_t first_final = count;
    std::optional<bool> last_is_final;
    for (size_t i = count; i-- > 0;) {
      if (role_of(input_.messages[i]) == "user") answered = false;
      if (role_of(input_.messages[i]) == "assistant" && !last_is_final) last_is_final = is_final(i);
      if (is_final(i)) {
        answered = true;
        first_final = i;
      }
      dropped_[i] = answered;
    }
    if (input_.history == HarmonyHistory::kOpenTurn) return;
    for (size_t i = 0; i < count; ++i) dropped_[i] = last_is_final.value_or(false) && i <= first_final;
  }

  Status write_message(size_t i) {
    const OrderedJson& json = input_.messages[i];
    std::string role = role_of(json);
    if (is_instruction(json)) return write_developer(i, i + 1, false);
    if (role == "assistant") return write_assistant(i);
    TRY_BIND(std::vector<std::string> parts, parts_of(json, i));
    if (role == "user") {
      message("user", {}, parts);
      return {};
    }
    if (role != "tool" && role != "function") return bad_message(i, fmt::format("role \"{}\" is not known", role));
    std::string name = last_call_;
    if (auto given = json.find("name"); given != json.end() && given->is_string()) name = given->get<std::string>();
    auto id = json.find("tool_call_id");
    if (auto call = id != json.end() && id->is_string() ? calls_.find(id->get<std::string>()) : calls_.end();
        call != calls_.end()) {
      name = call->second;
    }
    if (name.empty()) return bad_message(i, "the result of a tool that no message before it called");
    open("functions." + name, "assistant", "commentary");
    control("<|message|>");
    for (const std::string& part : parts) text(part);
    control("<|end|>");
    return {};
  }

  Status write_assistant(size_t i) {
    const OrderedJson& json = input_.messages[i];
    std::string reasoning = reasoning_of(json);
    if (!reasoning.empty() && !dropped_[i]) message("assistant", "analysis", {reasoning});
    TRY_BIND(std::vector<std::string> parts, parts_of(json, i));
    if (!has_calls(json)) {
      message("assistant", "final", parts);
      return {};
    }
    if (!parts.empty()) message("assistant", "commentary", parts);
    for (const OrderedJson& call : json["tool_calls"]) {
      if (!call.is_object()) return bad_message(i, "a tool call is an object");
      auto inner = call.find("function");
      const OrderedJson& function = inner != call.end() && inner->is_object() ? *inner : call;
      auto name = function.find("name");
      if (name == function.end() || !name->is_string()) return bad_message(i, "a tool call without a name");
      last_call_ = name->get<std::string>();
      if (auto id = call.find("id"); id != call.end() && id->is_string()) calls_[id->get<std::string>()] = last_call_;
      open("assistant", "functions." + last_call_, "commentary");
      text(" ");
      control("<|constrain|>");
      text("json");
      control("<|message|>");
      auto arguments = function.find("arguments");
      if (arguments == function.end() || arguments->is_null()) {
        text("{}");
      } else {
        text(arguments->is_string() ? arguments->get<std::string>()
                                    : arguments->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
      }
      control("<|call|>");
    }
    return {};
  }

  const HarmonyInput& input_;
  HarmonyPrompt prompt_;
  std::vector<bool> dropped_;                 // [messages]
  std::map<std::string, std::string> calls_;  // id -> function
  std::string last_call_;
};

}  // namespace

std::string HarmonyPrompt::text() const {
  std::string out;
  for (const Run& run : runs) out += run.text;
  return out;
}

Result<std::vector<TokenId>> HarmonyPrompt::encode(const Tokenizer& tokenizer) const {
  std::vector<TokenId> ids;
  for (const Run& run : runs) {
    if (!run.control) {
      ByteRange whole{0, run.text.size()};
      TRY_BIND(std::vector<TokenId> encoded, tokenizer.encode(run.text, {.caller_ranges = {&whole, 1}}));
      ids.insert(ids.end(), encoded.begin(), encoded.end());
      continue;
    }
    const std::vector<AddedToken>& added = tokenizer.added_tokens();
    auto token = std::find_if(added.begin(), added.end(), [&](const AddedToken& t) { return t.text == run.text; });
    if (token == added.end()) {
      return unsupported("the tokenizer has no token {}, which the harmony format needs", run.text);
    }
    ids.push_back(token->id);
  }
  return ids;
}

Result<HarmonyPrompt> render_harmony(const HarmonyInput& input) {
  return HarmonyWriter(input).write();
}

}  // namespace vernier

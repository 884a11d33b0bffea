#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/load_tokenizer.h"
#include "api/template_tokens.h"
#include "app/commands.h"
#include "text/chat_template.h"
#include "text/jinja_template.h"

namespace vernier {
namespace {

using Json = nlohmann::ordered_json;

struct RenderOptions {
  bool jsonl = false;
  std::string now, template_path, conversation_path;
};

Result<Json> parse_json(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return invalid_argument("found text that is not valid JSON");
  return json;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("cannot read '{}'", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A template, and the special tokens that it knows by name where it comes from a model.
struct TemplateSource {
  std::string text;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

Result<TemplateSource> read_template(const std::string& given) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(given, ignored);
  if (is_file && std::filesystem::path(given).extension() != ".gguf") {
    TRY_BIND(std::string text, read_file(given));
    return TemplateSource{std::move(text), {}};
  }
  TRY_BIND(const std::string path, find_model(given));
  TRY_BIND(std::unique_ptr<Checkpoint> checkpoint, Checkpoint::open(path));
  const auto* stored = checkpoint->chat_template();
  if (stored == nullptr) return not_found("{}: the model has no chat template", path);
  TemplateSource source{stored->text, {}};
  const Result<Tokenizer> tokenizer = load_tokenizer(checkpoint->tokenizer());
  if (tokenizer.ok()) source.special_tokens = template_tokens(*checkpoint, *tokenizer);
  return source;
}

Result<Rendered> render_conversation(const TemplateSource& source, const Json& conversation, const CivilTime& now) {
  TRY_BIND(ChatTemplate chat, ChatTemplate::parse(source.text));
  TRY_BIND(ChatInput input, chat_input_from_json(conversation));
  if (input.special_tokens.empty()) input.special_tokens = source.special_tokens;
  input.now = now;
  return chat.render(input);
}

Result<Rendered> render_line(const std::string& line, const CivilTime& now) {
  TRY_BIND(const Json request, parse_json(line));
  if (!request.is_object() || !request.contains("template") || !request["template"].is_string()) {
    return invalid_argument("found no 'template', expected {{\"template\", \"context\" or \"conversation\"}}");
  }
  const std::string source = request["template"].get<std::string>();
  if (request.contains("conversation")) return render_conversation({source, {}}, request["conversation"], now);
  TRY_BIND(const JinjaTemplate parsed, JinjaTemplate::parse(source));
  return parsed.render(request.value("context", Json::object()), false, now);
}

Json to_json(const Result<Rendered>& result) {
  if (result.ok()) return {{"text", result->text}};
  if (result.error().where == kRaisedByTemplate) return {{"raised", result.error().message}};
  return {{"error", result.error().to_string()}};
}

Result<CivilTime> clock_of(const RenderOptions& options) {
  if (options.now.empty()) return CivilTime::local_now();
  return CivilTime::parse(options.now);
}

Result<std::string> render_files(const RenderOptions& options, const CivilTime& now) {
  TRY_BIND(const TemplateSource source, read_template(options.template_path));
  TRY_BIND(const std::string text, read_file(options.conversation_path));
  TRY_BIND(Json conversation, parse_json(text));
  if (conversation.is_array()) conversation = Json{{"messages", conversation}};
  TRY_BIND(Rendered rendered, render_conversation(source, conversation, now));
  return std::move(rendered.text);
}

Status run_render(const RenderOptions& options) {
  TRY_BIND(const CivilTime now, clock_of(options));
  if (options.jsonl) {
    for (std::string line; std::getline(std::cin, line);) {
      if (line.empty()) continue;
      std::cout << to_json(render_line(line, now)).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    }
    std::cout.flush();
    return {};
  }
  if (options.conversation_path.empty()) {
    return invalid_argument("found no TEMPLATE and CONVERSATION, expected both, or --jsonl");
  }
  TRY_BIND(const std::string text, render_files(options, now));
  std::cout << text;
  std::cout.flush();
  return {};
}

}  // namespace

void add_render_command(CLI::App& app) {
  auto options = std::make_shared<RenderOptions>();
  CLI::App* command = app.add_subcommand("render", "Render a chat template over a conversation");
  command->add_option("TEMPLATE", options->template_path, "A Jinja chat template, or a model for its own");
  command->add_option("CONVERSATION", options->conversation_path,
                      "JSON: messages, or an object with messages, tools, documents, add_generation_prompt, "
                      "continue_final_message, special, kwargs");
  command->add_flag("--jsonl", options->jsonl,
                    "Read {\"template\", \"context\"} or {\"template\", \"conversation\"} lines from standard input, "
                    "write {\"text\"}, {\"raised\"} or {\"error\"} lines");
  command->add_option("--now", options->now, "What strftime_now takes for the time, as 2025-07-09T14:05:06");
  set_work(*command, [options] { return run_render(*options); });
}

}  // namespace vernier

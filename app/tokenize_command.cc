#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "api/load_tokenizer.h"
#include "app/commands.h"
#include "app/json_lines.h"
#include "text/utf8.h"

namespace vernier {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct TokenizeFlags {
  std::string tokenizer;
  std::string text;
  bool json_lines = false;
  bool add_special = false;
  bool plain = false;
};

Result<std::string> input_of(const json& line) {
  const auto text = line.find("text");
  if (text != line.end() && text->is_string()) return text->get<std::string>();
  const auto hex = line.find("hex");
  if (hex != line.end() && hex->is_string()) return read_hex(hex->get<std::string>());
  return invalid_argument(R"(expected {{"text": "Hello"}}, or {{"hex": "48ff"}} for bytes that are not UTF-8)");
}

/// {"text" or "hex", "add_special": false, "parse_special": true} to {"ids"}.
Result<ordered_json> tokenize_line(const Tokenizer& tokenizer, const json& line) {
  TRY_BIND(const std::string text, input_of(line));
  EncodeOptions options;
  TRY_BIND(options.add_special, json_flag(line, "add_special", options.add_special));
  TRY_BIND(options.parse_special, json_flag(line, "parse_special", options.parse_special));
  TRY_BIND(const std::vector<TokenId> ids, tokenizer.encode(text, options));
  return ordered_json{{"ids", ids}};
}

/// A token's bytes for people: text as it is, what is no text of its own as \xE2.
std::string shown(const Tokenizer& tokenizer, TokenId id) {
  const std::string bytes = tokenizer.token_bytes(id).value_or("");
  if (is_valid_utf8(bytes)) return json(bytes).dump();
  std::string out = "\"";
  for (const char byte : bytes) out += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
  return out + "\"";
}

Status tokenize(const TokenizeFlags& flags) {
  TRY_BIND(const std::string path, find_model(flags.tokenizer));
  TRY_BIND(const Tokenizer tokenizer, load_tokenizer(path));
  if (flags.json_lines) {
    std::ios::sync_with_stdio(false);
    const bool good = answer_json_lines(std::cin, std::cout, R"({"text": "Hello"})",
                                        [&](const json& line) { return tokenize_line(tokenizer, line); });
    return good ? Status() : invalid_argument("some lines were refused; their answers say why");
  }
  EncodeOptions options{.add_special = flags.add_special, .parse_special = !flags.plain};
  TRY_BIND(const std::vector<TokenId> ids, tokenizer.encode(flags.text, options));
  if (global_options().json) {
    fmt::print("{}\n", ordered_json{{"ids", ids}}.dump());
    return {};
  }
  for (const TokenId id : ids) {
    fmt::print("{:>8}  {}{}\n", id, shown(tokenizer, id), tokenizer.is_special(id) ? "  special" : "");
  }
  fmt::print("{} token{}\n", ids.size(), ids.size() == 1 ? "" : "s");
  return {};
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tokenize", "text to token ids; <|special|> tokens in it are taken for what they are, unlike in POST /tokenize");
  auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("TOKENIZER", flags->tokenizer, "tokenizer.json, its folder, a GGUF file or a model")->required();
  command->add_option("TEXT", flags->text, "the text; without --jsonl");
  command->add_flag("--jsonl", flags->json_lines,
                    R"(answer JSON lines: {"text" or "hex", "add_special": false, "parse_special": true} to {"ids"})");
  command->add_flag("--add-special", flags->add_special, "put the tokenizer's special tokens around the text");
  command->add_flag(
      "--plain", flags->plain,
      "take special tokens in the text for ordinary text, as POST /tokenize does unless parse_special is true");
  set_work(*command, [flags] { return tokenize(*flags); });
}

}  // namespace vernier

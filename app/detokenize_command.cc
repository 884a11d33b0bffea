#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <memory>

#include "api/load_tokenizer.h"
#include "app/commands.h"
#include "app/json_lines.h"
#include "text/detokenizer.h"

namespace vernier {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct DetokenizeFlags {
  std::string tokenizer;
  std::vector<TokenId> ids;
  bool json_lines = false;
  bool skip_special = false;
};

Result<std::vector<TokenId>> ids_of(const json& line) {
  const auto found = line.find("ids");
  if (found == line.end() || !found->is_array()) return invalid_argument(R"(expected {{"ids": [1, 2, 3]}})");
  std::vector<TokenId> ids;
  for (const json& item : *found) {
    if (!item.is_number_integer()) return invalid_argument("'ids' holds {}, which is no token id", item.dump());
    // An id that no vocabulary can hold is one that does not exist.
    const bool fits = item.is_number_unsigned() ? item.get<uint64_t>() <= std::numeric_limits<TokenId>::max() : false;
    ids.push_back(fits ? item.get<TokenId>() : -1);
  }
  return ids;
}

/// {"ids", "skip_special": false} to {"text", "pieces"}: the pieces as they would be streamed.
Result<ordered_json> detokenize_line(const Tokenizer& tokenizer, const json& line) {
  TRY_BIND(const std::vector<TokenId> ids, ids_of(line));
  TRY_BIND(const bool skip_special, json_flag(line, "skip_special", false));
  Detokenizer detokenizer(tokenizer, skip_special);
  std::vector<std::string> pieces;
  auto add = [&](std::string piece) {
    if (!piece.empty()) pieces.push_back(std::move(piece));
  };
  for (const TokenId id : ids) add(detokenizer.push(id));
  add(detokenizer.finish());
  return ordered_json{{"text", tokenizer.decode(ids, skip_special)}, {"pieces", pieces}};
}

Status detokenize(const DetokenizeFlags& flags) {
  TRY_BIND(const std::string path, find_model(flags.tokenizer));
  TRY_BIND(const Tokenizer tokenizer, load_tokenizer(path));
  if (flags.json_lines) {
    std::ios::sync_with_stdio(false);
    const bool good = answer_json_lines(std::cin, std::cout, R"({"ids": [1, 2, 3]})",
                                        [&](const json& line) { return detokenize_line(tokenizer, line); });
    return good ? Status() : invalid_argument("some lines were refused; their answers say why");
  }
  for (const TokenId id : flags.ids) {
    if (id >= 0 && static_cast<size_t>(id) < tokenizer.vocabulary_size()) continue;
    return invalid_argument("{} is no token id; this vocabulary has 0 to {}", id, tokenizer.vocabulary_size() - 1);
  }
  const std::string text = tokenizer.decode(flags.ids, flags.skip_special);
  if (global_options().json) {
    fmt::print("{}\n", ordered_json{{"text", text}}.dump());
  } else {
    fmt::print("{}\n", text);
  }
  return {};
}

}  // namespace

void add_detokenize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("detokenize", "token ids to text");
  auto flags = std::make_shared<DetokenizeFlags>();
  command->add_option("TOKENIZER", flags->tokenizer, "tokenizer.json, its folder, a GGUF file or a model")->required();
  command->add_option("IDS", flags->ids, "token ids; without --jsonl");
  command->add_flag("--jsonl", flags->json_lines,
                    R"(answer JSON lines: {"ids", "skip_special"} to {"text", "pieces"})");
  command->add_flag("--skip-special", flags->skip_special, "leave special tokens out");
  set_work(*command, [flags] { return detokenize(*flags); });
}

}  // namespace vernier

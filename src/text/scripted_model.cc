#include "text/scripted_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>

namespace vernier {
namespace {

using Json = nlohmann::json;

Error script_error(const std::string& where, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), where};
}

Status only_keys(const Json& object, const std::string& where, std::initializer_list<std::string_view> keys) {
  if (!object.is_object()) return script_error(where, "an object is expected");
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    return script_error(where + "/" + key, fmt::format("an unknown key; known are {}", fmt::join(keys, ", ")));
  }
  return {};
}

/// The string under a key; `otherwise` where the key may be missing.
Result<std::string> string_of(const Json& object, const std::string& where, const char* key, const char* otherwise) {
  auto found = object.find(key);
  if (found == object.end() && otherwise != nullptr) return std::string(otherwise);
  if (found == object.end() || !found->is_string()) {
    return script_error(where + "/" + key,
                        found == object.end() ? "is missing; a string is expected" : "a string is expected");
  }
  return found->get<std::string>();
}

Result<std::string> bytes_of_hex(const std::string& where, const std::string& hex) {
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  bool valid = !hex.empty() && hex.size() % 2 == 0;
  std::string bytes;
  for (size_t i = 0; valid && i < hex.size(); i += 2) {
    int high = digit(hex[i]);
    int low = digit(hex[i + 1]);
    valid = high >= 0 && low >= 0;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (!valid) return script_error(where, fmt::format("\"{}\" is no row of bytes, two hexadecimal digits each", hex));
  return bytes;
}

Result<ScriptFile::Piece> read_piece(const Json& json, const std::string& where) {
  ScriptFile::Piece piece;
  if (json.is_string()) {
    piece.bytes = json.get<std::string>();
    piece.is_text = true;
    if (piece.bytes.empty()) return script_error(where, "an empty piece; no token is empty");
    return piece;
  }
  bool one_key = json.is_object() && json.size() == 1;
  if (one_key && json.contains("bytes_hex")) {
    TRY_BIND(std::string hex, string_of(json, where, "bytes_hex", nullptr));
    TRY_BIND(piece.bytes, bytes_of_hex(where + "/bytes_hex", hex));
    return piece;
  }
  if (one_key && json.contains("fail")) {
    TRY_BIND(piece.failure, string_of(json, where, "fail", nullptr));
    if (piece.failure.empty()) piece.failure = "the script fails here";
    return piece;
  }
  return script_error(where, "a piece is a string, {\"bytes_hex\": ...} or {\"fail\": ...}");
}

Result<ScriptFile::Reply> read_reply(const Json& json, const std::string& where) {
  TRY_STATUS(only_keys(json, where, {"match", "pieces", "delay_ms", "prompt_tail"}));
  ScriptFile::Reply reply;
  TRY_BIND(reply.match, string_of(json, where, "match", nullptr));
  TRY_BIND(reply.prompt_tail, string_of(json, where, "prompt_tail", ""));
  if (auto delay = json.find("delay_ms"); delay != json.end()) {
    if (!delay->is_number_integer() || delay->get<int64_t>() < 0 || delay->get<int64_t>() > 3'600'000) {
      return script_error(where + "/delay_ms", "milliseconds from 0 to 3600000 are expected");
    }
    reply.delay = std::chrono::milliseconds(delay->get<int64_t>());
  }
  auto pieces = json.find("pieces");
  if (pieces == json.end() || !pieces->is_array()) return script_error(where + "/pieces", "a list is expected");
  for (size_t i = 0; i < pieces->size(); ++i) {
    TRY_BIND(ScriptFile::Piece piece, read_piece((*pieces)[i], fmt::format("{}/pieces/{}", where, i)));
    reply.pieces.push_back(std::move(piece));
  }
  return reply;
}

/// Tokens by their bytes: controls, and pieces of text apart from them.
class ScriptTokens {
 public:
  ScriptTokens(const Tokenizer& base, OutputFormat format) : next_(base.vocabulary_size()) {
    for (std::string_view text : output_special_tokens(format)) {
      std::optional<TokenId> id;
      for (const AddedToken& token : base.added_tokens()) {
        if (token.special && token.text == text) id = token.id;
      }
      controls_.emplace(text, id ? *id : add({std::string(text), true}));
    }
  }

  TokenId id(const ScriptFile::Piece& piece) {
    if (auto control = controls_.find(piece.bytes); piece.is_text && control != controls_.end()) return control->second;
    auto [found, fresh] = pieces_.try_emplace(piece.bytes, 0);
    if (fresh) found->second = add({piece.bytes, false});
    return found->second;
  }
  TokenId control(std::string_view text) const { return controls_.find(text)->second; }
  const std::vector<ExtraToken>& extra() const { return extra_; }

 private:
  TokenId add(ExtraToken token) {
    extra_.push_back(std::move(token));
    return static_cast<TokenId>(next_++);
  }

  size_t next_;
  std::vector<ExtraToken> extra_;
  std::map<std::string, TokenId, std::less<>> controls_;
  std::map<std::string, TokenId> pieces_;
};

}  // namespace

Result<ScriptFile> ScriptFile::parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return script_error("script", "not valid JSON");
  TRY_STATUS(only_keys(json, "", {"tokenizer", "format", "replies"}));
  ScriptFile file;
  TRY_BIND(file.tokenizer, string_of(json, "", "tokenizer", nullptr));
  TRY_BIND(std::string name, string_of(json, "", "format", nullptr));
  std::optional<OutputFormat> format = find_output_format(name);
  if (!format) {
    return script_error("/format", fmt::format("\"{}\" is no format; known are {}", name, output_format_names()));
  }
  file.format = *format;
  auto replies = json.find("replies");
  if (replies == json.end() || !replies->is_array() || replies->empty()) {
    return script_error("/replies", "a list of at least one reply is expected");
  }
  for (size_t i = 0; i < replies->size(); ++i) {
    TRY_BIND(Reply reply, read_reply((*replies)[i], fmt::format("/replies/{}", i)));
    file.replies.push_back(std::move(reply));
  }
  return file;
}

Result<ScriptedModel> ScriptedModel::make(const ScriptFile& file, const Tokenizer& base) {
  ScriptTokens tokens(base, file.format);
  std::vector<ScriptReply> replies;
  for (const ScriptFile::Reply& from : file.replies) {
    ScriptReply reply{from.match, {}, from.delay, from.prompt_tail};
    for (const ScriptFile::Piece& piece : from.pieces) {
      reply.steps.push_back({piece.failure.empty() ? tokens.id(piece) : -1, piece.failure});
    }
    replies.push_back(std::move(reply));
  }
  TRY_BIND(Tokenizer tokenizer, base.extended(tokens.extra()));
  ScriptedModel model(std::move(tokenizer), file.format);
  model.replies_ = std::move(replies);
  if (file.format == OutputFormat::kHarmony) model.stop_tokens_.push_back(tokens.control("<|call|>"));
  model.stop_tokens_.push_back(tokens.control(output_special_tokens(file.format).back()));
  return model;
}

const ScriptReply* ScriptedModel::find_reply(std::string_view text) const {
  for (const ScriptReply& reply : replies_) {
    if (text.find(reply.match) != std::string_view::npos) return &reply;
  }
  return nullptr;
}

}  // namespace vernier

#include "api/load_tokenizer.h"

namespace vernier {
namespace {

/// Copies what `tokenizer.ggml.*` says; absent keys stay empty, a key of another type than it must have is an error.
class VocabularyReader {
 public:
  explicit VocabularyReader(std::shared_ptr<const Gguf> file) : file_(std::move(file)) {}

  Result<GgufVocabulary> read() {
    GgufVocabulary v;
    TRY_STATUS(text("model", v.model));
    if (v.model.empty()) return unsupported("{} holds no vocabulary (no key tokenizer.ggml.model)", file_->path());
    TRY_STATUS(text("pre", v.pre));
    TRY_STATUS(strings("tokens", v.tokens));
    TRY_STATUS(strings("merges", v.merges));
    TRY_STATUS(numbers("scores", v.scores));
    TRY_STATUS(integers("token_type", v.token_types));
    for (auto [key, out] : {std::pair{"bos_token_id", &v.bos},
                            {"eos_token_id", &v.eos},
                            {"unknown_token_id", &v.unknown},
                            {"seperator_token_id", &v.separator},
                            {"cls_token_id", &v.classify},
                            {"mask_token_id", &v.mask}}) {
      TRY_BIND(*out, file_->integer(full(key)));
    }
    for (auto [key, out] : {std::pair{"add_bos_token", &v.add_bos},
                            {"add_eos_token", &v.add_eos},
                            {"add_space_prefix", &v.add_space_prefix},
                            {"add_sep_token", &v.add_separator},
                            {"remove_extra_whitespaces", &v.remove_extra_whitespace}}) {
      TRY_STATUS(flag(key, *out));
    }
    if (const GgufValue* map = find("precompiled_charsmap")) {
      v.precompiled_charsmap = map->elements(GgufType::kU8);
      // Converters write it signed as well.
      if (v.precompiled_charsmap.empty()) v.precompiled_charsmap = map->elements(GgufType::kI8);
      if (v.precompiled_charsmap.empty()) return wrong_type("precompiled_charsmap", "an array of bytes");
    }
    v.keep = file_;
    return v;
  }

 private:
  static std::string full(const char* key) { return std::string("tokenizer.ggml.") + key; }
  const GgufValue* find(const char* key) const { return file_->find(full(key)); }
  Error wrong_type(const char* key, const char* expected) const {
    return corrupt("{}: {} is {}, expected {}", file_->path(), full(key), find(key)->type_name(), expected);
  }

  Status text(const char* key, std::string& out) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return {};
    const auto found = value->as_string();
    if (!found) return wrong_type(key, "a string");
    out = *found;
    return {};
  }
  Status flag(const char* key, std::optional<bool>& out) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return {};
    out = value->as_bool();
    return out ? Status{} : wrong_type(key, "a bool");
  }
  Status strings(const char* key, std::vector<std::string_view>& out) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return {};
    auto found = value->as_strings();
    if (!found) return wrong_type(key, "an array of strings");
    out = std::move(*found);
    return {};
  }
  Status numbers(const char* key, std::vector<float>& out) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return {};
    const auto found = value->as_numbers();
    if (!found) return wrong_type(key, "an array of numbers");
    out.assign(found->begin(), found->end());
    return {};
  }
  Status integers(const char* key, std::vector<int32_t>& out) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return {};
    const auto found = value->as_integers();
    if (!found) return wrong_type(key, "an array of integers");
    out.assign(found->begin(), found->end());
    return {};
  }

  std::shared_ptr<const Gguf> file_;
};

}  // namespace

Result<Tokenizer> load_tokenizer(const TokenizerSource& source) {
  if (!source.tokenizer_json.empty()) {
    TRY_BIND(auto file, FileMap::open(source.tokenizer_json));
    const auto bytes = file->bytes();
    Result<Tokenizer> tokenizer = Tokenizer::from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (tokenizer.ok()) return tokenizer;
    Error error = std::move(tokenizer).error();
    error.where = source.tokenizer_json;
    return error;
  }
  if (source.gguf == nullptr) {
    return not_found(
        "the model has no tokenizer: its folder lacks tokenizer.json, or its GGUF file a vocabulary; take the one that "
        "it was made with");
  }
  TRY_BIND(GgufVocabulary vocabulary, read_vocabulary(source.gguf));
  return Tokenizer::from_gguf(vocabulary);
}

Result<Tokenizer> load_tokenizer(const std::string& path) {
  TRY_BIND(TokenizerSource source, find_tokenizer(path));
  return load_tokenizer(source);
}

Result<GgufVocabulary> read_vocabulary(const std::shared_ptr<const Gguf>& file) {
  return VocabularyReader(file).read();
}

}  // namespace vernier

#include "text/split_rules.h"

#include <array>
#include <vector>

namespace vernier {
namespace {

// The split rules of the models' own tokenizer.json files.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3Han = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekHan = "[一-龥ࠀ-一가-\uD7FF]+";
// The formatter would cut strings of wide characters anew each time.
// clang-format off
constexpr std::string_view kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-"
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌ"
    "ῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-"
    "𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
// clang-format on
constexpr std::string_view kBloom = R"( ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Names of steps that are not regular expressions, in place of a pattern.
constexpr std::string_view kGpt2Name = "<gpt2>";
constexpr std::string_view kDigit = "<digit>";
constexpr std::string_view kDigits = "<digits>";
constexpr std::string_view kMarks = "<marks>";

struct Entry {
  std::array<std::string_view, 15> names;
  std::array<std::string_view, 6> steps;
  bool compose = false;  // NFC first
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr Entry kEntries[] = {
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {kLlama3},
     false,
     true,
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
    {{"glm4", "glm5"}, {kLlama3}, false, true},
    {{"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "hunyuan", "grok-2", "solar-open"}, {kQwen2}, true},
    {{"stablelm2"}, {kQwen2}, true},
    {{"qwen35"}, {kQwen35}, true},
    {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "mellum", "modern-bert", "jais",
      "trillion", "granite-docling", "exaone4", "roberta-bpe"},
     {kGpt2Name}},
    {{"mpt", "olmo"}, {kGpt2Name}, true},
    {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"}, {kDigit, kGpt2Name}},
    {{"command-r"}, {kDigit, kGpt2Name}, true},
    {{"falcon"}, {kMarks, kGpt2Name, "[0-9][0-9][0-9]"}},
    {{"deepseek-llm"},
     {R"([\r\n])", kDeepseekLetters, "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", R"(\s+$)", kDeepseekHan, kDigit}},
    {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHan, kDigit}},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm"}, {R"(\p{N}{1,3})", kDeepseek3Han, kDeepseek3}},
    {{"gpt-4o", "llama4", "kanana2"}, {kO200k}},
    {{"tekken"}, {kTekken}, false, true, true},
    {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
    {{"viking"}, {kBloom, kDigit}},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
    {{"seed-coder"}, {kSeedCoder}},
    {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Name, kDigits, "[0-9][0-9][0-9]"}},
};

Status add_step(std::string_view step, PreTokenizers& out) {
  if (step == kDigit) {
    out.push_back(make_digits(true));
  } else if (step == kDigits) {
    out.push_back(make_digits(false));
  } else if (step == kMarks) {
    out.push_back(make_punctuation(SplitBehaviour::kContiguous));
  } else {
    TRY_BIND(Regex regex, Regex::compile(step == kGpt2Name ? kGpt2Pattern : step));
    out.push_back(make_split(std::move(regex), SplitBehaviour::kIsolated));
  }
  return {};
}

}  // namespace

Result<SplitRule> find_split_rule(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Entry& entry : kEntries) {
    bool found = false;
    for (std::string_view known : entry.names) found = found || known == name;
    if (!found) continue;
    SplitRule rule;
    for (std::string_view step : entry.steps) {
      if (!step.empty()) TRY_STATUS(add_step(step, rule.steps));
    }
    if (entry.compose) rule.normalizers.push_back(make_normal_form(NormalForm::kNfc));
    rule.steps.push_back(make_byte_level(false, false));
    rule.ignore_merges = entry.ignore_merges;
    rule.add_bos = entry.add_bos;
    return rule;
  }
  return unsupported("the split rule '{}' (tokenizer.ggml.pre) is not known; use the model's tokenizer.json", name);
}

}  // namespace vernier

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
// Characters that a normal form would change are among them, hence the escapes.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
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
    {{"qwen35"}, {kQwen35}},
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

Status add_step(const SplitStepText& step, PreTokenizers& out) {
  switch (step.kind) {
    case SplitStepText::Kind::kEachDigit:
      out.push_back(make_digits(true));
      return {};
    case SplitStepText::Kind::kDigits:
      out.push_back(make_digits(false));
      return {};
    case SplitStepText::Kind::kMarks:
      out.push_back(make_punctuation(SplitBehaviour::kContiguous));
      return {};
    case SplitStepText::Kind::kPattern:
      break;
  }
  TRY_BIND(Regex regex, Regex::compile(step.pattern));
  out.push_back(make_split(std::move(regex), SplitBehaviour::kIsolated));
  return {};
}

SplitStepText step_text(std::string_view step) {
  using Kind = SplitStepText::Kind;
  if (step == kDigit) return {Kind::kEachDigit, {}};
  if (step == kDigits) return {Kind::kDigits, {}};
  if (step == kMarks) return {Kind::kMarks, {}};
  return {Kind::kPattern, step == kGpt2Name ? kGpt2Pattern : step};
}

}  // namespace

Result<SplitRuleText> split_rule_text(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Entry& entry : kEntries) {
    bool found = false;
    for (std::string_view known : entry.names) found = found || known == name;
    if (!found) continue;
    SplitRuleText rule{{}, entry.compose, entry.ignore_merges, entry.add_bos};
    for (std::string_view step : entry.steps) {
      if (!step.empty()) rule.steps.push_back(step_text(step));
    }
    return rule;
  }
  return unsupported("the split rule '{}' (tokenizer.ggml.pre) is not known; use the model's tokenizer.json", name);
}

std::vector<std::string_view> split_rule_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.names.front());
  return names;
}

Result<SplitRule> find_split_rule(std::string_view name) {
  TRY_BIND(SplitRuleText text, split_rule_text(name));
  SplitRule rule;
  for (const SplitStepText& step : text.steps) TRY_STATUS(add_step(step, rule.steps));
  if (text.compose) rule.normalizers.push_back(make_normal_form(NormalForm::kNfc));
  rule.steps.push_back(make_byte_level(false, false));
  rule.ignore_merges = text.ignore_merges;
  rule.add_bos = text.add_bos;
  return rule;
}

}  // namespace vernier

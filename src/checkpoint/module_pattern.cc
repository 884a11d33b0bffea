#include "checkpoint/module_pattern.h"

#include <algorithm>
#include <array>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

constexpr std::array<std::string_view, 4> kWrappers = {"model", "language_model", "text_model", "base_model"};
// The standard's matcher recurses once for each of an expression's states; these bounds keep that within any stack.
constexpr size_t kLongestExpression = 500;
constexpr int kMostRepeats = 64;

bool is_wrapper(std::string_view component) {
  return std::find(kWrappers.begin(), kWrappers.end(), component) != kWrappers.end();
}

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (begin <= name.size()) {
    size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// `*` stands for any characters, `?` for one. Time is the product of both lengths at most.
bool glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// The pattern matches the whole name, or that of a module above it.
bool glob_subtree(std::string_view pattern, std::string_view name) {
  if (glob(pattern, name)) return true;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (glob(pattern, name.substr(0, dot))) return true;
  }
  return false;
}

/// The name behind each set of wrappers that tools put in front of it.
std::vector<std::string> spellings(std::string_view module) {
  std::string core(without_wrappers(module));
  std::vector<std::string> names = {std::string(module), core};
  for (const char* wrappers : {"model.", "language_model.", "language_model.model.", "model.language_model."}) {
    names.push_back(wrappers + core);
  }
  return names;
}

/// "{2,64}" once: counts that multiply make states by the million.
bool repeats_little(const std::string& expression) {
  if (std::count(expression.begin(), expression.end(), '{') > 1) return false;
  int number = 0;
  for (size_t at = expression.find('{'); at < expression.size() && expression[at] != '}'; ++at) {
    const bool is_digit = expression[at] >= '0' && expression[at] <= '9';
    number = is_digit ? std::min(number * 10 + (expression[at] - '0'), kMostRepeats + 1) : 0;
    if (number > kMostRepeats) return false;
  }
  return true;
}

Result<std::shared_ptr<const std::regex>> compile(const std::string& expression) {
  if (expression.size() > kLongestExpression || !repeats_little(expression)) {
    return invalid_argument("\"re:{}\": expected at most {} characters and one count of at most {}",
                            printable(expression), kLongestExpression, kMostRepeats);
  }
  auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
  flags |=
      std::regex_constants::__polynomial;  // its other matcher takes exponential time on what a hostile file may hold
#endif
  try {
    return std::shared_ptr<const std::regex>(std::make_shared<std::regex>(expression, flags));
  } catch (const std::regex_error& failure) {
    return invalid_argument("\"re:{}\" is no regular expression: {}", printable(expression), failure.what());
  }
}

}  // namespace

std::string_view without_wrappers(std::string_view module) {
  std::string_view rest = module;
  while (true) {
    size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return is_wrapper(rest) ? module : rest;
    if (!is_wrapper(rest.substr(0, dot))) return rest;
    rest = rest.substr(dot + 1);
  }
}

std::optional<std::string> fused_name(std::string_view module) {
  size_t dot = module.rfind('.');
  std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  std::string parent(module.substr(0, module.size() - last.size()));
  if (last == "q_proj" || last == "k_proj" || last == "v_proj") return parent + "qkv_proj";
  if (last == "gate_proj" || last == "up_proj") return parent + "gate_up_proj";
  return std::nullopt;
}

Result<ModulePattern> ModulePattern::make(const std::string& text) {
  ModulePattern pattern;
  pattern.text_ = text;
  if (text.empty()) return invalid_argument("an empty module name");
  if (text.starts_with("re:")) {
    TRY_BIND(pattern.expression_, compile(text.substr(3)));
    return pattern;
  }
  std::string_view core = without_wrappers(text);
  pattern.had_wrappers_ = core.size() != text.size();
  pattern.core_ = core;
  pattern.is_glob_ = text.find_first_of("*?") != std::string::npos;
  for (std::string_view part : split(core)) pattern.parts_.emplace_back(part);
  return pattern;
}

bool ModulePattern::matches_glob(std::string_view module) const {
  for (const std::string& name : spellings(module)) {
    if (glob_subtree(text_, name)) return true;
  }
  if (had_wrappers_) return glob_subtree(core_, without_wrappers(module));
  for (size_t at = 0; at != std::string_view::npos;) {
    if (glob_subtree(core_, module.substr(at))) return true;
    at = module.find('.', at);
    if (at != std::string_view::npos) ++at;
  }
  return false;
}

bool ModulePattern::matches_one(std::string_view module) const {
  if (expression_ != nullptr) {
    for (const std::string& name : spellings(module)) {
      try {
        if (std::regex_search(name, *expression_, std::regex_constants::match_continuous)) return true;
      } catch (const std::regex_error&) {
        return false;  // too much work; what is then wrongly quantised is found by its tensors
      }
    }
    return false;
  }
  if (is_glob_) return matches_glob(module);
  if (module.find(parts_.back()) == std::string_view::npos) return false;
  // A pattern that names the top of the model stands at the top; a short one may stand anywhere.
  const std::vector<std::string_view> name = split(had_wrappers_ ? without_wrappers(module) : module);
  if (name.size() < parts_.size()) return false;
  const size_t last = had_wrappers_ ? 0 : name.size() - parts_.size();
  for (size_t at = 0; at <= last; ++at) {
    if (std::equal(parts_.begin(), parts_.end(), name.begin() + static_cast<std::ptrdiff_t>(at))) return true;
  }
  return false;
}

bool ModulePattern::matches(std::string_view module) const {
  if (matches_one(module)) return true;
  std::optional<std::string> fused = fused_name(module);
  return fused && matches_one(*fused);
}

}  // namespace vernier

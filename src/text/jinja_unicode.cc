#include "text/jinja_unicode.h"

#include <algorithm>

#include "text/jinja_unicode_tables.h"

namespace vernier::jinja {

CharacterTraits traits_of(uint32_t code) {
  constexpr uint32_t kTraitMask = (1U << 11) - 1;
  if (code >= 0x110000) return {};
  const uint32_t* after = std::upper_bound(kTraitRuns, kTraitRuns + kTraitRunCount, code << 11 | kTraitMask);
  return {after == kTraitRuns ? 0 : after[-1] & kTraitMask};
}

bool is_space(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_line_break(uint32_t code) {
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

uint32_t next_code(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(position);
  const size_t left = text.size() - position;
  const auto trails = [&](size_t count) {
    if (left <= count) return false;
    for (size_t i = 1; i <= count; ++i) {
      if ((byte(position + i) & 0xc0) != 0x80) return false;
    }
    return true;
  };
  uint32_t code = lead;
  size_t length = 1;
  if (lead >= 0xc2 && lead < 0xe0 && trails(1)) {
    code = (lead & 0x1fU) << 6 | (byte(position + 1) & 0x3fU);
    length = 2;
  } else if (lead >= 0xe0 && lead < 0xf0 && trails(2)) {
    code = (lead & 0x0fU) << 12 | (byte(position + 1) & 0x3fU) << 6 | (byte(position + 2) & 0x3fU);
    length = 3;
  } else if (lead >= 0xf0 && lead < 0xf5 && trails(3)) {
    code = (lead & 7U) << 18 | (byte(position + 1) & 0x3fU) << 12 | (byte(position + 2) & 0x3fU) << 6 |
           (byte(position + 3) & 0x3fU);
    length = 4;
  }
  position += length;
  return code;
}

void step_back(std::string_view text, size_t& position) {
  size_t start = position - 1;
  while (start > 0 && position - start < 4 && (static_cast<uint8_t>(text[start]) & 0xc0) == 0x80) --start;
  size_t end = start;
  next_code(text, end);
  position = end == position ? start : position - 1;
}

void append_code(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

size_t count_codes(std::string_view text) {
  size_t count = 0;
  for (size_t position = 0; position < text.size(); ++count) {
    if (static_cast<uint8_t>(text[position]) < 0x80) {
      ++position;
    } else {
      next_code(text, position);
    }
  }
  return count;
}

namespace {

/// Whether a run holds the code point; it then moves.
bool move(uint32_t& code, const CaseRun* runs, size_t count) {
  const CaseRun* run = std::lower_bound(runs, runs + count, code,
                                        [](const CaseRun& entry, uint32_t value) { return entry.last < value; });
  if (run == runs + count || code < run->first || (code - run->first) % run->stride != 0) return false;
  code = static_cast<uint32_t>(static_cast<int32_t>(code) + run->delta);
  return true;
}

const char* special(uint32_t code, CaseMapping mapping) {
  const SpecialCase* end = kSpecialCases + kSpecialCaseCount;
  const SpecialCase* entry = std::lower_bound(
      kSpecialCases, end, code, [](const SpecialCase& item, uint32_t value) { return item.code < value; });
  for (; entry != end && entry->code == code; ++entry) {
    if (entry->mapping == mapping) return entry->text;
  }
  return nullptr;
}

void append_simple(std::string& out, uint32_t code, CaseMapping mapping) {
  if (mapping == CaseMapping::kUpper) {
    move(code, kUpperRuns, kUpperRunCount);
  } else {
    move(code, kLowerRuns, kLowerRunCount);
  }
  append_code(out, code);
}

constexpr uint32_t kCapitalSigma = 0x3a3, kFinalSigma = 0x3c2, kSmallSigma = 0x3c3;

}  // namespace

void append_mapped(std::string& out, uint32_t code, CaseMapping mapping) {
  if (code < 0x80) {
    const bool lower = mapping == CaseMapping::kLower || mapping == CaseMapping::kFold;
    if (lower && code >= 'A' && code <= 'Z') code += 32;
    if (!lower && code >= 'a' && code <= 'z') code -= 32;
    out.push_back(static_cast<char>(code));
    return;
  }
  if (const char* text = special(code, mapping)) {
    out += text;
    return;
  }
  // The title and folding tables hold only what differs from upper and lower case.
  CaseMapping usual = mapping;
  if (mapping == CaseMapping::kTitle || mapping == CaseMapping::kFold) {
    const bool title = mapping == CaseMapping::kTitle;
    if (title ? move(code, kTitleRuns, kTitleRunCount) : move(code, kFoldRuns, kFoldRunCount)) {
      return append_code(out, code);
    }
    usual = title ? CaseMapping::kUpper : CaseMapping::kLower;
    if (const char* text = special(code, usual)) {
      out += text;
      return;
    }
  }
  append_simple(out, code, usual);
}

void append_lower_in_context(std::string& out, uint32_t code, std::string_view before, std::string_view after) {
  if (code != kCapitalSigma) return append_mapped(out, code, CaseMapping::kLower);
  bool cased_before = false;
  for (size_t position = before.size(); position > 0;) {
    step_back(before, position);
    size_t end = position;
    const CharacterTraits traits = traits_of(next_code(before, end));
    if (traits.is_case_ignorable()) continue;
    cased_before = traits.is_cased();
    break;
  }
  bool cased_after = false;
  for (size_t position = 0; cased_before && position < after.size();) {
    const CharacterTraits traits = traits_of(next_code(after, position));
    if (traits.is_case_ignorable()) continue;
    cased_after = traits.is_cased();
    break;
  }
  append_code(out, cased_before && !cased_after ? kFinalSigma : kSmallSigma);
}

std::string map_case(std::string_view text, CaseMapping mapping) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    const uint32_t code = next_code(text, position);
    if (mapping == CaseMapping::kLower) {
      append_lower_in_context(out, code, text.substr(0, start), text.substr(position));
    } else {
      append_mapped(out, code, mapping);
    }
  }
  return out;
}

}  // namespace vernier::jinja

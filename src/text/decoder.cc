#include "text/decoder.h"

#include <algorithm>
#include <optional>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace vernier {
namespace {

/// The byte of a token such as "<0x0A>"; a sign before the digit is taken too, as by Rust's number parser.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  int high = token[3] == '+' ? 0 : digit(token[3]);
  int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::string replace_all(const Regex& pattern, std::string_view content, const std::string& text) {
  std::string out;
  RegexSearch search(pattern, text);
  size_t copied = 0;
  while (std::optional<RegexMatch> match = search.next()) {
    out.append(text, copied, match->begin - copied);
    out.append(content);
    copied = match->end;
  }
  return out.append(text, copied);
}

void replace_text(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// English punctuation pulled back to the word before it.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [from, to] : kRules) replace_text(text, from, to);
}

std::string strip_token(const DecoderStep& step, std::string_view token) {
  for (size_t i = 0; i < step.left && !step.content.empty() && token.starts_with(step.content); ++i) {
    token.remove_prefix(step.content.size());
  }
  for (size_t i = 0; i < step.right && !step.content.empty() && token.ends_with(step.content); ++i) {
    token.remove_suffix(step.content.size());
  }
  return std::string(token);
}

std::string level_bytes(std::string_view token) {
  // One character outside the alphabet makes the whole token plain UTF-8.
  return byte_alphabet::read(token).value_or(std::string(token));
}

}  // namespace

DecoderStream::DecoderStream(const TokenDecoder& decoder) : decoder_(decoder), states_(decoder.size()) {
  bool fused = false;
  for (size_t i = 0; i < decoder.size(); ++i) {
    DecoderKind kind = decoder[i].kind;
    states_[i].fused = fused;
    states_[i].collects = fused && kind != DecoderKind::kFuse && kind != DecoderKind::kStrip;
    fused = fused || kind == DecoderKind::kFuse || kind == DecoderKind::kByteLevel;
  }
}

void DecoderStream::push(std::string_view token, std::string& out) {
  step(0, std::string(token), out);
}

void DecoderStream::settle(std::string& out) {
  for (size_t i = 0; i < decoder_.size(); ++i) {
    if (states_[i].collects) return;  // acts on the text as a whole
    if (decoder_[i].kind == DecoderKind::kByteLevel) decode_bytes(i, out, true);
    if (decoder_[i].kind == DecoderKind::kByteFallback) flush_byte_run(i, out);
    if (states_[i].fused && decoder_[i].kind == DecoderKind::kStrip) {
      // Only what ends the whole text is stripped.
      std::string held = std::exchange(states_[i].held, {});
      if (!held.empty()) step(i + 1, std::move(held), out);
    }
  }
}

void DecoderStream::finish(std::string& out) {
  for (size_t i = 0; i < decoder_.size(); ++i) end_step(i, out);
}

/// Gives a token, or a part of the one token, to step i. The recursion is as deep as the decoder has steps.
void DecoderStream::step(size_t i, std::string token, std::string& out) {
  if (i == decoder_.size()) {
    out += token;
  } else if (states_[i].collects) {
    states_[i].held += token;
  } else if (states_[i].fused && decoder_[i].kind == DecoderKind::kStrip) {
    strip_part(i, token, out);
  } else {
    whole_token(i, std::move(token), out);
  }
}

void DecoderStream::whole_token(size_t i, std::string token, std::string& out) {
  const DecoderStep& step_i = decoder_[i];
  State& state = states_[i];
  bool first = state.index++ == 0;
  switch (step_i.kind) {
    case DecoderKind::kByteLevel:
      state.held += level_bytes(token);
      decode_bytes(i, out, false);
      return;
    case DecoderKind::kByteFallback:
      if (std::optional<char> byte = fallback_byte(token)) {
        state.held.push_back(*byte);
        return;
      }
      flush_byte_run(i, out);
      break;
    case DecoderKind::kFuse:
      break;
    case DecoderKind::kStrip:
      token = strip_token(step_i, token);
      break;
    case DecoderKind::kReplace:
      token = replace_all(step_i.pattern, step_i.content, token);
      break;
    case DecoderKind::kMetaspace:
      replace_text(token, step_i.content, first && step_i.scheme != PrependScheme::kNever ? "" : " ");
      break;
    case DecoderKind::kWordPiece:
      if (!first) {
        size_t at = token.starts_with(step_i.content) ? step_i.content.size() : 0;
        token = at > 0 ? token.substr(at) : " " + token;
      }
      if (step_i.cleanup) clean_up(token);
      break;
    case DecoderKind::kBpe:
      std::swap(token, state.held);  // which token is the last is known one token later
      if (first) return;
      replace_text(token, step_i.content, " ");
      break;
    case DecoderKind::kSpace:
      if (!first) token.insert(0, 1, ' ');
      break;
  }
  step(i + 1, std::move(token), out);
}

/// Passes on what of the held bytes is whole or bad for certain; a character that the end cuts off waits.
void DecoderStream::decode_bytes(size_t i, std::string& out, bool at_end) {
  std::string& held = states_[i].held;
  std::string text;
  size_t at = 0;
  while (at < held.size()) {
    Utf8Span span = scan_utf8(held, at);
    if (span.kind == Utf8Kind::kCutOff && !at_end) break;
    text.append(span.kind == Utf8Kind::kWhole ? std::string_view(held).substr(at, span.size_bytes)
                                              : kReplacementCharacter);
    at += span.size_bytes;
  }
  held.erase(0, at);
  if (!text.empty()) step(i + 1, std::move(text), out);
}

/// A run that is not valid as a whole gives one U+FFFD for each byte, so no part of it is certain before it ends.
void DecoderStream::flush_byte_run(size_t i, std::string& out) {
  std::string run = std::exchange(states_[i].held, {});
  if (run.empty()) return;
  if (is_valid_utf8(run)) return step(i + 1, std::move(run), out);
  for (size_t byte = 0; byte < run.size(); ++byte) step(i + 1, std::string(kReplacementCharacter), out);
}

/// Strips one long token that comes in parts: what may still be its right end is held back.
void DecoderStream::strip_part(size_t i, std::string_view part, std::string& out) {
  const DecoderStep& step_i = decoder_[i];
  State& state = states_[i];
  while (state.stripping && state.stripped < step_i.left && !step_i.content.empty() &&
         part.starts_with(step_i.content)) {
    part.remove_prefix(step_i.content.size());
    ++state.stripped;
  }
  if (part.empty()) return;
  state.stripping = false;
  std::string text = std::exchange(state.held, {}) + std::string(part);
  std::string_view rest = text;
  for (size_t n = 0; n < step_i.right && !step_i.content.empty() && rest.ends_with(step_i.content); ++n) {
    rest.remove_suffix(step_i.content.size());
  }
  state.held = text.substr(rest.size());
  if (!rest.empty()) step(i + 1, std::string(rest), out);
}

void DecoderStream::end_step(size_t i, std::string& out) {
  State& state = states_[i];
  if (state.collects) {
    std::string token = std::exchange(state.held, {});
    whole_token(i, std::move(token), out);
  }
  switch (decoder_[i].kind) {
    case DecoderKind::kByteLevel:
      decode_bytes(i, out, true);
      break;
    case DecoderKind::kByteFallback:
      flush_byte_run(i, out);
      break;
    case DecoderKind::kStrip:
      state.held.clear();
      break;
    case DecoderKind::kBpe:
      if (state.index > 0) {
        std::string token = std::exchange(state.held, {});
        replace_text(token, decoder_[i].content, "");
        step(i + 1, std::move(token), out);
      }
      break;
    default:
      break;
  }
}

std::string decode_token_bytes(const TokenDecoder& decoder, std::string_view token) {
  std::string bytes(token);
  for (const DecoderStep& step : decoder) {
    switch (step.kind) {
      case DecoderKind::kByteLevel:
        return level_bytes(bytes);
      case DecoderKind::kByteFallback:
        if (std::optional<char> byte = fallback_byte(token)) return std::string(1, *byte);
        break;
      case DecoderKind::kReplace:
        bytes = replace_all(step.pattern, step.content, bytes);
        break;
      case DecoderKind::kMetaspace:
        replace_text(bytes, step.content, " ");
        break;
      default:
        break;
    }
  }
  return bytes;
}

}  // namespace vernier

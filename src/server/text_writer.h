#pragma once

#include <memory>

#include "server/answer_json.h"
#include "server/generation_settings.h"

namespace vernier {

struct TextWriterOptions {
  std::string id;
  int64_t created_unix_s = 0;
  bool usage_in_stream = false;
  bool echo = false;
  size_t best_of = 1;  ///< choices generated of a prompt; settings.choices of them are told
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> prompt_texts;
};

/// text_completion, whole and in pieces. Choices are numbered prompt by prompt.
class TextWriter : public ReplyWriter {
 public:
  TextWriter(const ServedModel& model, GenerationSettings settings, TextWriterOptions options);

  void begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) override;
  void step(EventStream& events, const ChoiceStep& step) override;
  void end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                  std::span<const SampledToken> tokens) override;
  void end_stream(EventStream& events, std::span<const ChoiceResult> results) override;
  std::string whole(std::span<const ChoiceResult> results) override;

 private:
  void write_identity(JsonWriter& json) const;
  /// One chunk. The first of a choice holds what its prompt is told by, the last how it ended.
  struct Piece {
    size_t choice = 0;
    std::string_view text = {};
    std::span<const SampledToken> tokens = {};
    const ChoiceResult* begun = nullptr;
    const ChoiceResult* ended = nullptr;
  };
  void add_piece(EventStream& events, const Piece& piece);
  /// Lists of the prompt's tokens too where they are echoed. `offset` is the next character's, and moves on.
  void write_logprobs(JsonWriter& json, std::span<const int32_t> prompt, std::span<const SampledToken> scores,
                      std::span<const SampledToken> tokens, int64_t& offset) const;
  std::vector<const ChoiceResult*> best_of_prompt(std::span<const ChoiceResult> results, size_t prompt) const;
  void write_choice(JsonWriter& json, size_t index, size_t prompt, const ChoiceResult& result) const;

  const ServedModel& model_;
  GenerationSettings settings_;
  TextWriterOptions options_;
  std::vector<int64_t> offsets_;  // [choices] characters told
};

}  // namespace vernier

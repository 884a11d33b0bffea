#pragma once

#include <memory>

#include "server/answer_json.h"
#include "server/generation_settings.h"

namespace vernier {

struct ChatWriterOptions {
  std::string id;
  int64_t created_unix_s = 0;
  bool usage_in_stream = false;
  bool legacy_call = false;     ///< `function_call` instead of `tool_calls`
  std::vector<int32_t> prompt;  ///< told where token ids are wanted
};

/// chat.completion and its chunks.
class ChatWriter : public ReplyWriter {
 public:
  ChatWriter(const ServedModel& model, GenerationSettings settings, ChatWriterOptions options);

  void begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) override;
  void step(EventStream& events, const ChoiceStep& step) override;
  void end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                  std::span<const SampledToken> tokens) override;
  void end_stream(EventStream& events, std::span<const ChoiceResult> results) override;
  std::string whole(std::span<const ChoiceResult> results) override;

 private:
  void open_chunk(size_t choice);
  void close_chunk(EventStream& events);
  void write_chunk_logprobs(std::span<const SampledToken> tokens);
  void write_call_delta(const ChoiceStep& step);
  void write_identity(JsonWriter& json, std::string_view object) const;
  void write_message(JsonWriter& json, const ChoiceResult& result) const;
  std::string_view end_name(AnswerEnd end) const;

  const ServedModel& model_;
  GenerationSettings settings_;
  ChatWriterOptions options_;
  std::string head_;   // of every chunk, up to its choices
  std::string chunk_;  // the one that is being written
};

}  // namespace vernier

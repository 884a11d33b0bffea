#pragma once

#include <memory>

#include "server/answer_json.h"
#include "server/generation_settings.h"

namespace vernier {

/// The native /generate: text, ids and facts. A stream's events each hold all text so far, as SGLang's do.
class GenerateWriter : public ReplyWriter {
 public:
  GenerateWriter(const ServedModel& model, GenerationSettings settings, std::string id, bool as_list);

  void begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) override;
  void step(EventStream& events, const ChoiceStep& step) override;
  void end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                  std::span<const SampledToken> tokens) override;
  void end_stream(EventStream& events, std::span<const ChoiceResult> results) override;
  std::string whole(std::span<const ChoiceResult> results) override;

 private:
  /// What a choice has come to; `ended` false: finish_reason is null.
  void write_choice(JsonWriter& json, size_t choice, const ChoiceResult& result, bool ended) const;

  const ServedModel& model_;
  GenerationSettings settings_;
  std::string id_;
  bool as_list_;
  std::vector<ChoiceResult> so_far_;
};

}  // namespace vernier

#pragma once

#include <memory>

#include "server/answer_json.h"
#include "server/generation_settings.h"
#include "server/responses_request.h"

namespace vernier {

/// A response of the Responses API, whole and as named events. Its items are the answer's parts in their order:
/// reasoning, text, calls.
class ResponsesWriter : public ReplyWriter {
 public:
  ResponsesWriter(const ServedModel& model, GenerationSettings settings, ResponsesEcho echo, std::string id,
                  int64_t created_unix_s);

  void begin_choice(EventStream& events, size_t choice, const ChoiceResult& so_far) override;
  void step(EventStream& events, const ChoiceStep& step) override;
  void end_choice(EventStream& events, size_t choice, const ChoiceResult& result,
                  std::span<const SampledToken> tokens) override;
  void end_stream(EventStream& events, std::span<const ChoiceResult> results) override;
  std::string whole(std::span<const ChoiceResult> results) override;
  void fail(EventStream& events, const ApiError& error) override;

 private:
  struct Item {
    OutputDelta::Kind kind = OutputDelta::Kind::kContent;  ///< kCallBegin for a call
    std::string id, call_id, name, text;
    std::vector<SampledToken> tokens;
  };

  std::vector<Item> items_of(const ChoiceResult& result) const;
  void open_item(EventStream& events, OutputDelta::Kind kind, std::string_view name, std::string_view call_id);
  void close_item(EventStream& events, std::string_view status);
  void add_event(EventStream& events, std::string_view type, const std::string& members);
  void add_response_event(EventStream& events, std::string_view type, const std::string& response);
  std::string place_of_item(bool with_content) const;
  void write_logprobs(JsonWriter& json, std::span<const SampledToken> tokens) const;
  void write_part(JsonWriter& json, const Item& item, bool with_text) const;
  std::string item_json(const Item& item, std::string_view status, bool with_text) const;
  std::string response_json(std::string_view status, std::span<const Item> items, const ChoiceResult* result,
                            const ApiError* error) const;

  const ServedModel& model_;
  GenerationSettings settings_;
  ResponsesEcho echo_;
  std::string id_;
  int64_t created_unix_s_;
  int64_t sequence_ = 0;
  std::vector<Item> items_;  // of a stream, so far
  bool item_open_ = false;
};

}  // namespace vernier

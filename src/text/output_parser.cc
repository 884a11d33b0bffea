#include "text/output_parser.h"

#include "text/harmony_parser.h"
#include "text/marked_parser.h"

namespace vernier {

std::unique_ptr<OutputParser> OutputParser::make(OutputFormat format, OutputParserOptions options) {
  if (format == OutputFormat::kHarmony) return std::make_unique<HarmonyParser>(std::move(options));
  return std::make_unique<MarkedParser>(format, std::move(options));
}

void fold_answer(const OutputDelta& delta, OutputAnswer& answer) {
  switch (delta.kind) {
    case OutputDelta::Kind::kContent:
      answer.content += delta.text;
      break;
    case OutputDelta::Kind::kReasoning:
      answer.reasoning += delta.text;
      break;
    case OutputDelta::Kind::kCallBegin:
      answer.calls.push_back({delta.text, {}});
      break;
    case OutputDelta::Kind::kCallArguments:
      answer.calls.back().arguments += delta.text;
      break;
  }
}

}  // namespace vernier

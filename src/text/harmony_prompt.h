#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace vernier {

enum class HarmonyEffort { kLow, kMedium, kHigh };

/// Which reasoning of past turns stays in the prompt.
enum class HarmonyHistory {
  kOpenTurn,  ///< that of the turn without a final message: reasoning goes once its turn is answered
  kLibrary,   ///< the reference library's rule: if the last assistant message is final, what stands before the first
              ///< final message goes; otherwise all of it stays
  kAll,
};

struct HarmonyInput {
  nlohmann::ordered_json messages;  ///< an array of chat messages, at least one
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
  std::optional<nlohmann::ordered_json> response_format;  ///< {"name", "description", "schema"}
  HarmonyEffort effort = HarmonyEffort::kMedium;
  HarmonyHistory history = HarmonyHistory::kOpenTurn;
  std::string identity = "You are ChatGPT, a large language model trained by OpenAI.";
  std::string knowledge_cutoff = "2024-06";
  std::optional<std::string> date;  ///< YYYY-MM-DD; a line that changes ends the reuse of cached prompts
  bool add_generation_prompt = true;
  bool skip_reasoning = false;  ///< opens the final channel for the model, which it was not trained for
};

/// A rendered conversation: control tokens and runs of text. Each run is encoded alone and without matching any added
/// token, so no text can become a control token and no merge crosses a border.
struct HarmonyPrompt {
  struct Run {
    bool control = false;
    std::string text;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs;

  std::string text() const;
  Result<std::vector<TokenId>> encode(const Tokenizer& tokenizer) const;
};

Result<HarmonyPrompt> render_harmony(const HarmonyInput& input);

/// A JSON schema in the notation of the functions of a prompt: string, number[], "a" | "b".
std::string harmony_type(const nlohmann::ordered_json& schema);
/// The section of the developer message that declares the tools of a request.
std::string harmony_functions(const nlohmann::ordered_json& tools);

}  // namespace vernier

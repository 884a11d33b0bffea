#pragma once

#include <string>

#include "vernier/engine.h"

namespace vernier::testing {

/// An engine that plays a script (tests/unit/server_routes has the same script form), for tests that see the public API
/// alone. `running` requests at once, one more may wait.
vernier_engine* open_script_handle(const std::string& script, int running);
inline Engine open_script(const std::string& script, int running = 64) {
  return Engine::adopt(open_script_handle(script, running));
}

/// A line of the log, as a room would write it.
void log_a_warning(const std::string& line);

/// A folder with a tiny model, a tokenizer and a chat template; made once.
std::string tiny_model();

}  // namespace vernier::testing

#pragma once

#include <functional>
#include <string_view>

#include "base/log.h"

namespace vernier {

/// Takes lines instead of standard error. Called by whichever thread logs, the engine's too, one line at a time: it
/// must hand the line on and return.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// An empty sink: standard error again. Once this has returned the former one is called no more.
void set_log_sink(LogSink sink);

}  // namespace vernier

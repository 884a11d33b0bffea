#pragma once

#include <string>

#include "server/request_fields.h"

namespace vernier {

/// OpenAI's messages as chat templates take them: parts joined to one text, a developer as the system (unless
/// `keep_developer`), arguments of past calls as objects where they parse, the legacy function role as a tool. Refuses
/// what no template can show, by place ("messages[2].content[0].type").
Result<Json> read_messages(const Json& messages, bool keep_developer);

/// The text of the last message.
std::string last_message_text(const Json& messages);

}  // namespace vernier

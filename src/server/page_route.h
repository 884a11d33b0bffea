#pragma once

#include "server/router.h"

namespace vernier {

/// The web page at "/" and its files under "/page/". Open to anyone: a browser sends no key for them, and they hold
/// nothing of the model or its users. What the page asks for then needs a key like any other request.
void add_page_routes(Router& router);

}  // namespace vernier

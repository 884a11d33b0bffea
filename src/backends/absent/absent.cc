#include "backends/absent/absent.h"

namespace vernier {

Result<std::unique_ptr<Backend>> make_absent_backend(std::string_view name) {
  return unsupported("the {} backend is not built yet, in no build of this version; use the cpu backend", name);
}

}  // namespace vernier

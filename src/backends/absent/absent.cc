#include "backends/absent/absent.h"

namespace vernier {

Result<std::unique_ptr<Backend>> make_absent_backend(std::string_view name) {
  return unsupported("this build has no {} backend; use the cpu backend", name);
}

}  // namespace vernier

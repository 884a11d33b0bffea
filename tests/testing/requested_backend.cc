#include "testing/requested_backend.h"

#include <utility>

namespace vernier::testing {
namespace {

std::string& backend_name() {
  static std::string name;
  return name;
}

}  // namespace

const std::string& requested_backend() {
  return backend_name();
}

void set_requested_backend(std::string name) {
  backend_name() = std::move(name);
}

}  // namespace vernier::testing

#include "testing/isa.h"

#include <utility>

namespace vernier::testing {
namespace {

std::string& isa_name() {
  static std::string name;
  return name;
}

}  // namespace

const std::string& requested_isa() {
  return isa_name();
}

void set_requested_isa(std::string name) {
  isa_name() = std::move(name);
}

}  // namespace vernier::testing

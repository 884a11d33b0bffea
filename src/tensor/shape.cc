#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/checked.h"

namespace vernier {

Result<Shape> Shape::make(std::span<const int64_t> extents) {
  if (extents.empty() || extents.size() > static_cast<size_t>(kMaxRank)) {
    return invalid_argument("found {} dimensions, expected 1 to {}", extents.size(), kMaxRank);
  }
  Shape shape;
  shape.rank_ = static_cast<int>(extents.size());
  shape.elements_ = 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] < 1) {
      return invalid_argument("extent {} of dimension {} in [{}], expected at least 1", extents[axis], axis,
                              fmt::join(extents, ", "));
    }
    std::optional<int64_t> elements = checked_mul(shape.elements_, extents[axis]);
    if (!elements) return invalid_argument("[{}] has more elements than 64 bits can count", fmt::join(extents, ", "));
    shape.extents_[axis] = extents[axis];
    shape.elements_ = *elements;
  }
  return shape;
}

Shape::Shape(std::initializer_list<int64_t> extents) : Shape() {
  Result<Shape> made = make(std::span<const int64_t>(extents.begin(), extents.size()));
  CHECK(made.ok(), "{}", made.error().message);
  *this = *made;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(extents(), ", "));
}

}  // namespace vernier

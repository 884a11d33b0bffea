#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "testing/backends.h"

namespace vernier::testing {

/// Tests of one GPU beside the reference; each is skipped, and says why, where none answers.
class CudaCase : public ::testing::Test {
 protected:
  explicit CudaCase(Numerics numerics = Numerics::kExact) : numerics_(numerics) {}
  void SetUp() override {
    const std::string reason = why_no_cuda_cases();
    if (!reason.empty()) GTEST_SKIP() << reason;
    for (const BackendCase& of : cuda_cases()) {
      if (of.numerics == numerics_) backend_ = of.make().value();
    }
    ASSERT_NE(backend_, nullptr);
    ASSERT_EQ(backend_->features().numerics, numerics_);
  }
  Backend& backend() { return *backend_; }
  RefBackend& reference() { return reference_; }

 private:
  const Numerics numerics_;
  std::unique_ptr<Backend> backend_;
  RefBackend reference_;
};

}  // namespace vernier::testing

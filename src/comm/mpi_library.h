#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace vernier {

/// What this program uses of Open MPI's library, with its types as its versions 3 to 5 have them: handles are pointers,
/// a status is five words.
struct MpiLibrary {
  using Handle = void*;
  using Request = void*;
  struct Status {
    int source = 0;
    int tag = 0;
    int error = 0;
    int cancelled = 0;
    size_t bytes = 0;
  };
  static constexpr int kAnySource = -1;
  static constexpr int kSerialized = 2;  ///< MPI_THREAD_SERIALIZED
  static constexpr int kMostText = 256;

  int (*init_thread)(int*, char***, int wanted, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_set_errhandler)(Handle, Handle) = nullptr;
  int (*isend)(const void*, int count, Handle type, int to, int tag, Handle comm, Request*) = nullptr;
  int (*improbe)(int from, int tag, Handle comm, int* flag, Handle* message, Status*) = nullptr;
  int (*imrecv)(void*, int count, Handle type, Handle* message, Request*) = nullptr;
  int (*get_count)(const Status*, Handle type, int*) = nullptr;
  int (*test)(Request*, int* flag, Status*) = nullptr;
  int (*error_string)(int, char*, int*) = nullptr;
  Handle world = nullptr;
  Handle byte = nullptr;
  Handle errors_return = nullptr;

  /// Opens the first of these names; the names and what the linker said where there is none.
  static Result<MpiLibrary> open();
  std::string error_text(int error) const;
};

}  // namespace vernier

#include "comm/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace vernier {
namespace {

/// Of Open MPI 2 to 5, and whatever else the system calls MPI.
constexpr const char* kNames[] = {"libmpi.so.40", "libmpi.so"};

struct Symbols {
  void* library = nullptr;
  std::string missing = {};

  void* find(const char* name) {
    void* symbol = ::dlsym(library, name);
    if (symbol == nullptr && missing.empty()) missing = name;
    return symbol;
  }
  template <class Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(find(name));
  }
};

}  // namespace

Result<MpiLibrary> MpiLibrary::open() {
  Symbols symbols;
  std::string why;
  for (const char* name : kNames) {
    // Its own parts, which it opens in turn, look for its names among all.
    symbols.library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (symbols.library != nullptr) break;
    const char* said = ::dlerror();
    if (why.empty()) why = said != nullptr ? said : name;
  }
  if (symbols.library == nullptr) {
    return unsupported("Open MPI's library cannot be opened ({}); install it (Debian: openmpi-bin)", why);
  }
  MpiLibrary mpi;
  symbols.load(mpi.init_thread, "MPI_Init_thread");
  symbols.load(mpi.finalize, "MPI_Finalize");
  symbols.load(mpi.comm_rank, "MPI_Comm_rank");
  symbols.load(mpi.comm_size, "MPI_Comm_size");
  symbols.load(mpi.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.load(mpi.isend, "MPI_Isend");
  symbols.load(mpi.improbe, "MPI_Improbe");
  symbols.load(mpi.imrecv, "MPI_Imrecv");
  symbols.load(mpi.get_count, "MPI_Get_count");
  symbols.load(mpi.test, "MPI_Test");
  symbols.load(mpi.error_string, "MPI_Error_string");
  mpi.world = symbols.find("ompi_mpi_comm_world");
  mpi.byte = symbols.find("ompi_mpi_byte");
  mpi.errors_return = symbols.find("ompi_mpi_errors_return");
  if (!symbols.missing.empty()) {
    return unsupported("the MPI library here is not Open MPI's: it has no {}", symbols.missing);
  }
  return mpi;
}

std::string MpiLibrary::error_text(int error) const {
  char text[kMostText] = {};
  int length = 0;
  if (error_string(error, text, &length) != 0 || length < 0) return fmt::format("MPI error {}", error);
  return std::string(text, static_cast<size_t>(length));
}

}  // namespace vernier

# Build switches. A backend that is off links its stub from src/backends/absent.
option(VERNIER_CUDA "Build the CUDA backend" OFF)
option(VERNIER_MLX "Build the MLX backend" OFF)
option(VERNIER_TESTS "Build the tests" ON)
foreach(backend CUDA MLX)
  string(TOLOWER "${backend}" folder)
  if(VERNIER_${backend} AND NOT EXISTS "${PROJECT_SOURCE_DIR}/src/backends/${folder}/CMakeLists.txt")
    message(WARNING "The ${backend} backend is not built yet: this build links its stub, src/backends/absent, and runs on "
                    "the CPU only.")
  endif()
endforeach()
set(VERNIER_XGRAMMAR "AUTO" CACHE STRING "Structured output: AUTO (where its source has been fetched), ON or OFF")
set_property(CACHE VERNIER_XGRAMMAR PROPERTY STRINGS AUTO ON OFF)
set(VERNIER_SANITIZE "" CACHE STRING "Sanitizers for every target: 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -O2: kernels ask for -O3 themselves, and everything else compiles a third faster.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# The sanitised builds: optimised, since -O0 makes the suites several times slower, with lines only in the debug information.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # What ccache must not mind to keep files that use precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
endif()

add_library(vernier_flags INTERFACE)
target_compile_options(vernier_flags INTERFACE -Wall -Wextra -Werror -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A tenth of the time of compiling went to collecting garbage in less memory than this (KiB).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()
if(VERNIER_SANITIZE)
  # GCC cannot follow what is initialised, or how long it is, through the sanitisers' own code.
  target_compile_options(vernier_flags INTERFACE -fsanitize=${VERNIER_SANITIZE} -fno-omit-frame-pointer -Wno-maybe-uninitialized
                                                 -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  target_link_options(vernier_flags INTERFACE -fsanitize=${VERNIER_SANITIZE})
  if(VERNIER_SANITIZE MATCHES undefined)
    # Checks at each use of a pointer double the time of compiling. A null or a foreign one is caught without them, and
    # these processors read numbers at any address.
    target_compile_options(vernier_flags INTERFACE -fno-sanitize=null,object-size,alignment,vptr)
    target_compile_options(vernier_flags INTERFACE -fno-sanitize=nonnull-attribute,returns-nonnull-attribute)
  endif()
endif()

# Libraries from the distribution's packages; tools/setup installs them. Nothing is fetched at configure time.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
# Headers only: Asio and Beast.
find_package(Boost 1.81 REQUIRED)
precompiled_headers(vernier_room_headers LIBRARIES vernier_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads
                    HEADERS <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <algorithm> <filesystem> <functional> <map>
                            <memory> <optional> <set> <span> <string> <unordered_map> <vector>)
if(VERNIER_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  # Of programs, not of libraries, and optimised as tests are.
  precompiled_headers(vernier_test_headers OPTIONS -O1 -fPIE LIBRARIES vernier_flags fmt::fmt nlohmann_json::nlohmann_json GTest::gmock
                      HEADERS <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <algorithm> <filesystem>
                              <functional> <map> <memory> <optional> <random> <set> <span> <string> <unordered_map> <vector>)
endif()

# XGrammar, from the source archive that tools/fetch_third_party unpacks. Its own CMakeLists.txt asks for Python bindings.
set(xgrammar_root "${PROJECT_SOURCE_DIR}/third_party/xgrammar")
set(VERNIER_HAS_XGRAMMAR OFF)
if(VERNIER_XGRAMMAR STREQUAL "OFF")
  message(STATUS "Structured output is not built: VERNIER_XGRAMMAR is OFF")
elseif(EXISTS "${xgrammar_root}/VERSION.vernier")
  set(VERNIER_HAS_XGRAMMAR ON)
elseif(VERNIER_XGRAMMAR STREQUAL "ON")
  message(FATAL_ERROR "VERNIER_XGRAMMAR is ON and ${xgrammar_root} is missing; run tools/fetch_third_party")
else()
  message(STATUS "Structured output is not built: ${xgrammar_root} is missing; tools/fetch_third_party fetches it")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${xgrammar_root}/VERSION.vernier")
if(VERNIER_HAS_XGRAMMAR)
  file(GLOB_RECURSE xgrammar_sources CONFIGURE_DEPENDS "${xgrammar_root}/cpp/*.cc")
  list(FILTER xgrammar_sources EXCLUDE REGEX "/tvm_ffi/")
  include(XGrammarEdits)
  edit_xgrammar("${xgrammar_root}" xgrammar_sources)
  add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources})
  set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17 UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # -O2 under the sanitizers too: compiling a grammar unoptimised takes seconds. Its messages name its files, which a built
  # library must not do with a path of the machine that built it.
  target_compile_options(xgrammar PRIVATE -w -O2 "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
  target_compile_definitions(xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                             XGRAMMAR_LOG_CUSTOMIZE=1)
  target_include_directories(xgrammar SYSTEM PUBLIC "${xgrammar_root}/include" "${xgrammar_root}/3rdparty/picojson"
                             "${xgrammar_root}/3rdparty/dlpack/include")
  # The edited files include their neighbours.
  target_include_directories(xgrammar PRIVATE "${xgrammar_root}/cpp")
  target_link_libraries(xgrammar PUBLIC Threads::Threads)
  if(VERNIER_PRECOMPILED)
    target_precompile_headers(xgrammar PRIVATE <algorithm> <bitset> <functional> <map> <memory> <mutex> <optional> <picojson.h>
                              <queue> <sstream> <string> <unordered_map> <unordered_set> <variant> <vector>)
  endif()
endif()

# Most of a file's compile time is the parsing of a few large headers, which files that name them share here. A build without
# (VERNIER_PRECOMPILED=OFF) is the same program: tools/check_layers.py sees that each file includes what it uses of them.
option(VERNIER_PRECOMPILED "Parse the large headers once for many files" ON)
# Files of a room are compiled a dozen at a time: in the half of the time, but an edit compiles its neighbours too. The sanitised
# builds compile each alone, so every file names what it includes.
option(VERNIER_UNITY "Compile the files of a room a dozen at a time" ON)

# precompiled_headers(NAME [OPTIONS option...] [LIBRARIES target...] HEADERS header...): what files of other targets may share.
function(precompiled_headers name)
  cmake_parse_arguments(SHARED "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  if(NOT VERNIER_PRECOMPILED)
    return()
  endif()
  set(source "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  target_compile_options(${name} PRIVATE ${SHARED_OPTIONS})
  target_link_libraries(${name} PRIVATE ${SHARED_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${SHARED_HEADERS})
endfunction()

# use_precompiled(TARGET NAME)
function(use_precompiled target name)
  if(VERNIER_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

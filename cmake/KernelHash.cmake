# Included: vernier_kernel_hashes(TARGET NAME...): a table of content hashes, kernel_hashes.inc, one for each NAME, made anew
# when a source changes. Of each NAME the sources stand in hash_sources_NAME, its flags in hash_flags_NAME.
# Run as a script, with INPUT (lines of "name|flags|source;source...") and OUTPUT: writes the table.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(VERNIER_KERNEL_HASH_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
  function(vernier_kernel_hashes target)
    set(input "${CMAKE_CURRENT_BINARY_DIR}/kernel_hashes.txt")
    set(output "${CMAKE_CURRENT_BINARY_DIR}/kernel_hashes.inc")
    string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
    set(lines "")
    set(all "")
    foreach(name IN LISTS ARGN)
      # The compiler and what it is told everywhere belong to a kernel, too.
      string(JOIN " " flags ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS}
             ${CMAKE_CXX_FLAGS_${type}} ${VERNIER_SANITIZE} ${hash_flags_${name}})
      list(SORT hash_sources_${name})
      string(APPEND lines "${name}|${flags}|${hash_sources_${name}}\n")
      list(APPEND all ${hash_sources_${name}})
    endforeach()
    list(REMOVE_DUPLICATES all)
    file(CONFIGURE OUTPUT "${input}" CONTENT "${lines}" @ONLY)
    add_custom_command(OUTPUT "${output}"
                       COMMAND "${CMAKE_COMMAND}" "-DINPUT=${input}" "-DOUTPUT=${output}" -P "${VERNIER_KERNEL_HASH_SCRIPT}"
                       DEPENDS ${all} "${input}" "${VERNIER_KERNEL_HASH_SCRIPT}" COMMENT "Hashing kernels" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
  endfunction()
  return()
endif()

set(table "")
# A line holds a list, so it is not taken as one itself.
file(READ "${INPUT}" rest)
while(rest MATCHES "^([^|\n]*)\\|([^|\n]*)\\|([^\n]*)\n")
  string(LENGTH "${CMAKE_MATCH_0}" length)
  string(SUBSTRING "${rest}" ${length} -1 rest)
  set(name "${CMAKE_MATCH_1}")
  set(content "${CMAKE_MATCH_2}")
  foreach(source IN LISTS CMAKE_MATCH_3)
    file(SHA256 "${source}" digest)
    get_filename_component(file "${source}" NAME)
    string(APPEND content "\n${file} ${digest}")
  endforeach()
  string(SHA256 digest "${content}")
  string(APPEND table "{\"${name}\", \"${digest}\"},\n")
endwhile()
file(WRITE "${OUTPUT}.new" "${table}")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")

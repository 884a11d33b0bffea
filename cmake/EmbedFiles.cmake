# Included: vernier_embed(TARGET FOLDER): the files of FOLDER become a string table inside TARGET, made anew when one of them
# changes. The function that returns it is declared by hand, in FOLDER's neighbour page_files.h.
# Run as a script, with FOLDER and OUTPUT: writes the table.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(VERNIER_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
  function(vernier_embed target folder)
    get_filename_component(name "${folder}" NAME)
    set(source "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${name}_files.cc")
    file(GLOB files CONFIGURE_DEPENDS "${source}/*")
    add_custom_command(OUTPUT "${output}"
                       COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${source}" "-DOUTPUT=${output}" -P "${VERNIER_EMBED_SCRIPT}"
                       DEPENDS ${files} "${VERNIER_EMBED_SCRIPT}" COMMENT "Embedding ${folder}" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endfunction()
  return()
endif()

set(quote "vernier_page")
file(GLOB files "${FOLDER}/*")
set(table "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  file(SHA256 "${file}" digest)
  string(FIND "${text}" ")${quote}\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} holds the delimiter of the string table, )${quote}\"")
  endif()
  string(APPEND table "    {\"${name}\", \"${digest}\",\n     R\"${quote}(${text})${quote}\"},\n")
endforeach()
file(WRITE "${OUTPUT}.new" "#include \"server/page_files.h\"

namespace vernier {
namespace {

constexpr PageFile kFiles[] = {
${table}};

}  // namespace

std::span<const PageFile> page_files() {
  return kFiles;
}

}  // namespace vernier
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")

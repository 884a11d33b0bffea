# CPU-1. cmake -DNM=nm -DOBJECTS=a.o,b.o -P kernel_symbols.cmake: fails if an object built with the flags of an instruction set
# defines a symbol that the linker may use for another file's (weak: templates and inline functions of headers).
string(REPLACE "," ";" objects "${OBJECTS}")
foreach(object IN LISTS objects)
  execute_process(COMMAND "${NM}" --defined-only --demangle "${object}" OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "nm failed on ${object}")
  endif()
  # A pointer to the exception personality, the same in every file: sanitised code refers to it.
  string(REGEX REPLACE "[^\n]*DW\\.ref\\.__gxx_personality_v0" "" symbols "${symbols}")
  string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]*" weak "${symbols}")
  if(weak)
    string(REPLACE ";" "\n  " weak "${weak}")
    message(FATAL_ERROR "${object} defines shared symbols; make them static or always_inline:\n  ${weak}")
  endif()
endforeach()

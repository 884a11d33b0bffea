# The library that other projects link: one shared object with all rooms in it, which exports the C API and nothing else
# (docs/decisions/0005), and what `cmake --install` puts beside it: headers, a CMake package, a pkg-config file. Who links it
# needs no package of the libraries inside; whose machine runs it needs those that are shared (fmt, simdjson).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(vernier_library SHARED $<TARGET_OBJECTS:vernier_api>)
set_target_properties(vernier_library PROPERTIES OUTPUT_NAME vernier EXPORT_NAME vernier LINKER_LANGUAGE CXX
                      VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}")
target_include_directories(vernier_library INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                     "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(vernier_library INTERFACE cxx_std_17)
target_link_libraries(vernier_library PRIVATE vernier_flags vernier_api)
set(exports "${PROJECT_SOURCE_DIR}/cmake/vernier.map")
if(APPLE)
  target_link_options(vernier_library PRIVATE "LINKER:-exported_symbol,_vernier_*")
else()
  target_link_options(vernier_library PRIVATE "LINKER:--version-script=${exports},--as-needed,--no-undefined")
  set_target_properties(vernier_library PROPERTIES LINK_DEPENDS "${exports}")
endif()

install(TARGETS vernier RUNTIME COMPONENT program)
install(TARGETS vernier_library EXPORT vernierTargets LIBRARY COMPONENT library)
install(DIRECTORY include/vernier TYPE INCLUDE COMPONENT library)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/vernier")
install(EXPORT vernierTargets NAMESPACE vernier:: DESTINATION "${package}" COMPONENT library)
configure_package_config_file(cmake/vernierConfig.cmake.in vernierConfig.cmake INSTALL_DESTINATION "${package}")
write_basic_package_version_file(vernierConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/vernier.pc.in vernier.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/vernierConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/vernierConfigVersion.cmake"
        DESTINATION "${package}" COMPONENT library)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/vernier.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)

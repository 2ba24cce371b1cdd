# penstock_install(): libpenstock from all layers, its public headers, and the CMake package that
# find_package(penstock) finds. Static by default, shared with -DBUILD_SHARED_LIBS=ON.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(penstock_install)
  set(objects "")
  foreach(layer IN LISTS PENSTOCK_LAYERS)
    get_target_property(type ${layer} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${layer}>)
    endif()
  endforeach()
  add_library(penstock ${objects})
  add_library(penstock::penstock ALIAS penstock)
  set_target_properties(penstock PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(penstock INTERFACE cxx_std_20)
  target_include_directories(penstock INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # A static library's users link what it uses; the package finds those again where they are.
  target_link_libraries(penstock PRIVATE $<BUILD_INTERFACE:penstock_deps>)

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
  install(TARGETS penstock EXPORT penstock COMPONENT cpp)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT cpp)
  install(EXPORT penstock NAMESPACE penstock:: FILE penstock-targets.cmake DESTINATION ${package}
    COMPONENT cpp)
  get_target_property(penstock_type penstock TYPE)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/penstock-config.cmake.in
    ${CMAKE_BINARY_DIR}/penstock-config.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/penstock-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/penstock-config.cmake
    ${CMAKE_BINARY_DIR}/penstock-config-version.cmake
    ${CMAKE_SOURCE_DIR}/cmake/PenstockDependencies.cmake DESTINATION ${package} COMPONENT cpp)
endfunction()

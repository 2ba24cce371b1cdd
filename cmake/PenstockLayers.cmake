# penstock_layer(NAME DEPENDENCIES...): src/NAME becomes the static library penstock_NAME, and
#   *_test.cc   the gtest program NAME_tests
#   *_fuzz.cc   one libFuzzer program each; the target penstock_fuzzers builds all
#   *_bench.cc  one google-benchmark program each
# All sources are found by name, so that a new file needs no change here.
set(PENSTOCK_LAYERS "" CACHE INTERNAL "")
# src/base/testing/test_data.h
file(CONFIGURE OUTPUT test_data.cc CONTENT [[
#include "base/testing/test_data.h"
const char penstock::kTestData[] = "@CMAKE_SOURCE_DIR@/tests/data";
]] @ONLY)
add_library(penstock_test_data STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/test_data.cc)
target_include_directories(penstock_test_data PRIVATE ${CMAKE_SOURCE_DIR}/src)
if(PENSTOCK_BUILD_FUZZERS)
  add_custom_target(penstock_fuzzers)
endif()

function(penstock_layer name)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")

  list(TRANSFORM ARGN PREPEND penstock_ OUTPUT_VARIABLE dependencies)
  if(sources)
    add_library(penstock_${name} STATIC ${sources})
    target_include_directories(penstock_${name} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)
    target_link_libraries(penstock_${name} PUBLIC ${dependencies} penstock_deps)
    target_link_libraries(penstock_${name} PRIVATE $<BUILD_INTERFACE:penstock_warnings>)
    if(PENSTOCK_BUILD_FUZZERS)
      target_compile_options(penstock_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  else()
    add_library(penstock_${name} INTERFACE)
    target_link_libraries(penstock_${name} INTERFACE ${dependencies} penstock_deps)
  endif()
  set(PENSTOCK_LAYERS ${PENSTOCK_LAYERS} penstock_${name} CACHE INTERNAL "")

  if(PENSTOCK_BUILD_TESTS AND tests)
    add_executable(${name}_tests ${tests})
    target_link_libraries(${name}_tests PRIVATE penstock_${name} penstock_test_data penstock_warnings GTest::gtest_main)
    add_test(NAME ${name}_tests COMMAND ${name}_tests)
  endif()
  if(PENSTOCK_BUILD_FUZZERS)
    foreach(file ${fuzzers})
      get_filename_component(program ${file} NAME_WE)
      add_executable(${program} ${file})
      add_dependencies(penstock_fuzzers ${program})
      target_link_libraries(${program} PRIVATE penstock_${name} penstock_test_data penstock_warnings)
      target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
      target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
  if(PENSTOCK_BUILD_MICROBENCH)
    foreach(file ${benches})
      get_filename_component(program ${file} NAME_WE)
      add_executable(${program} ${file})
      target_link_libraries(${program} PRIVATE penstock_${name} penstock_warnings
        benchmark::benchmark benchmark::benchmark_main)
    endforeach()
  endif()
endfunction()

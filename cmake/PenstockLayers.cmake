# penstock_layer(NAME DEPENDENCIES...): src/NAME becomes the static library penstock_NAME, and
#   *_test.cc   the gtest program NAME_tests
#   *_fuzz.cc   one libFuzzer program each
#   *_bench.cc  one google-benchmark program each
# All sources are found by name, so that a new file needs no change here.
set(PENSTOCK_LAYERS "" CACHE INTERNAL "")

# penstock_precompile(TARGET FIRST HEADERS...): under sanitizers of clang, what most files include is compiled once, for
# the target FIRST. Every file still includes what it uses: the other builds have no such headers.
function(penstock_precompile target first)
  if(NOT (PENSTOCK_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    return()
  endif()
  if(target STREQUAL first)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # for ccache
    target_precompile_headers(${target} PRIVATE ${ARGN} <algorithm> <atomic> <chrono> <condition_variable> <functional>
      <map> <memory> <mutex> <optional> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility>
      <variant> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

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
    penstock_precompile(penstock_${name} penstock_base)
  else()
    add_library(penstock_${name} INTERFACE)
    target_link_libraries(penstock_${name} INTERFACE ${dependencies} penstock_deps)
  endif()
  set(PENSTOCK_LAYERS ${PENSTOCK_LAYERS} penstock_${name} CACHE INTERNAL "")

  if(PENSTOCK_BUILD_TESTS AND tests)
    add_executable(${name}_tests ${tests})
    target_link_libraries(${name}_tests PRIVATE penstock_${name} penstock_warnings GTest::gtest_main)
    target_compile_definitions(${name}_tests PRIVATE
      PENSTOCK_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
    penstock_precompile(${name}_tests base_tests <gtest/gtest.h>)
    add_test(NAME ${name}_tests COMMAND ${name}_tests)
  endif()
  if(PENSTOCK_BUILD_FUZZERS)
    foreach(file ${fuzzers})
      get_filename_component(program ${file} NAME_WE)
      add_executable(${program} ${file})
      target_link_libraries(${program} PRIVATE penstock_${name} penstock_warnings)
      target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
      target_link_options(${program} PRIVATE -fsanitize=fuzzer)
      target_compile_definitions(${program} PRIVATE
        PENSTOCK_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
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

# How everything is compiled and linked, and what tests and micro-benchmarks need.
include(PenstockDependencies)
if(penstock_missing)
  message(FATAL_ERROR "${penstock_missing}")
endif()
add_library(penstock_deps INTERFACE)
target_link_libraries(penstock_deps INTERFACE ${penstock_libraries})

add_library(penstock_warnings INTERFACE)
target_compile_options(penstock_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
# No multiply-and-add in one step: what an order depends on must be the same bits on every machine.
target_compile_options(penstock_warnings INTERFACE -ffp-contract=off)
if(PENSTOCK_SCALAR_ONLY)
  target_compile_definitions(penstock_warnings INTERFACE PENSTOCK_SCALAR_ONLY)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # What src/base/threads/mutex.h annotates. Refused in every build with clang: ASan, fuzzing,
  # clang-tidy.
  target_compile_options(penstock_warnings INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
if(PENSTOCK_WERROR)
  target_compile_options(penstock_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms in std::string of gcc 12 with -O3 (gcc bug 105651).
  target_compile_options(penstock_warnings INTERFACE -Wno-restrict)
endif()
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_warnings INTERFACE -fsanitize=${PENSTOCK_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(penstock_warnings INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()

if(PENSTOCK_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
endif()
if(PENSTOCK_BUILD_MICROBENCH)
  find_package(benchmark REQUIRED)
endif()

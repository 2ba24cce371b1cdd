# How everything is compiled, and what tests and micro-benchmarks need.
add_library(penstock_warnings INTERFACE)
target_compile_options(penstock_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
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

# How everything is compiled, and what tests and micro-benchmarks need.
add_library(penstock_warnings INTERFACE)
target_compile_options(penstock_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)
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

# Run at install: writes penstock/commit.txt, the commit of the checkout that this file lies in, with
# "-dirty" where what is built has changes. Outside of a checkout, as from an sdist, none is written.
# python/penstock/bench/machine.py reads it and names the same sources.
find_package(Git QUIET)
get_filename_component(top "${CMAKE_CURRENT_LIST_DIR}/.." REALPATH)
set(stamp "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/penstock/commit.txt")
file(REMOVE "${stamp}")
if(GIT_FOUND AND EXISTS "${top}/.git")
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse HEAD WORKING_DIRECTORY "${top}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  execute_process(COMMAND ${GIT_EXECUTABLE} status --porcelain --
      src include python bindings cmake CMakeLists.txt pyproject.toml
    WORKING_DIRECTORY "${top}" OUTPUT_VARIABLE changed RESULT_VARIABLE unknown ERROR_QUIET)
  if(NOT failed AND NOT unknown)
    if(NOT changed STREQUAL "")
      string(APPEND commit "-dirty")
    endif()
    file(WRITE "${stamp}" "${commit}\n")
  endif()
endif()

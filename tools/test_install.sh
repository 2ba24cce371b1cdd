#!/usr/bin/env bash
# test_install.sh BUILD_FOLDER: installs a C++ build into a folder of its own and builds
# examples/cpp and a project of two folders against it outside this tree, as users of the library
# would; no Python is involved.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --component cpp --prefix "$work/prefix" >/dev/null
if find "$work/prefix" -name '*.h' | xargs grep -l '[<"]Python\.h' ; then
  echo "an installed header needs Python" >&2
  exit 1
fi
cp -r "$root/examples/cpp" "$work/example"
cmake -S "$work/example" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null

# A larger project: the package found quietly, twice in one folder and again in another, beside its
# own zlib; and where one of its libraries is not there, it is not found and says what to install.
mkdir -p "$work/project/part"
cat >"$work/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(larger LANGUAGES C CXX)
find_package(ZLIB QUIET)
find_package(penstock QUIET)
find_package(penstock 0.1 REQUIRED)
if(NOT penstock_FOUND)
  message(FATAL_ERROR "not found")
endif()
add_subdirectory(part)
add_executable(whole main.cpp)
target_link_libraries(whole PRIVATE penstock::penstock)
EOF
cat >"$work/project/part/CMakeLists.txt" <<'EOF'
find_package(penstock REQUIRED)
add_executable(part ../main.cpp)
target_link_libraries(part PRIVATE penstock::penstock)
EOF
cp "$work/example/stream_cells.cpp" "$work/project/main.cpp"
cmake -S "$work/project" -B "$work/project-build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/project.txt"
cmake --build "$work/project-build" >/dev/null
if grep -q 'STATIC_LIBRARY" STREQUAL' "$work/prefix"/lib*/cmake/penstock/penstock-config.cmake \
    "$work/prefix"/lib*/*/cmake/penstock/penstock-config.cmake 2>/dev/null; then
  mkdir "$work/lacking"
  cat >"$work/lacking/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(lacking LANGUAGES C CXX)
set(CMAKE_DISABLE_FIND_PACKAGE_BZip2 ON)
find_package(penstock QUIET)
if(penstock_FOUND)
  message(FATAL_ERROR "found without bzip2")
endif()
find_package(penstock)
EOF
  cmake -S "$work/lacking" -B "$work/lacking-build" -G Ninja \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/lacking.txt" 2>&1
  grep -q 'libbz2-dev' "$work/lacking.txt"
fi

tar -xzf "$root/tests/data/pbmc3k-soma.tar.gz" -C "$work"
experiment=$(dirname "$(find "$work" -maxdepth 2 -name __tiledb_group.tdb | head -n 1)")
"$work/build/stream_cells" "$experiment" raw | tee "$work/out.txt"
grep -q '2638 cells' "$work/out.txt"
"$work/build/join_cells" a="$experiment" b="$experiment" | tee "$work/out.txt"
grep -q '^b: 2638 cells' "$work/out.txt"
grep -q '^5276 cells x 13714 genes' "$work/out.txt"
tools=$(dirname "$(realpath "$0")")
"$tools/test_resume_example.sh" "$work/build/resume_cells" "$experiment" raw 2638
if ldd "$work/build/stream_cells" | grep -i python; then
  echo "the example is linked with Python" >&2
  exit 1
fi
echo "installed library: the examples build against it, stream, join and resume"

#!/usr/bin/env bash
# zig_tools.sh FOLDER PYTHON ARCH PREFIX: cc, c++, ar, ranlib and a CMake toolchain in FOLDER, of the zig that PYTHON
# has (ziglang), for glibc 2.28 and the libraries in PREFIX. The target is always named: without it zig compiles for
# this machine's own processor.
set -euo pipefail
mkdir -p "$1" "$4"
folder=$(realpath "$1")
zig=$("$2" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
arch=$3
prefix=$(realpath "$4")
write() {  # write FILE: standard input, unless FILE has it already: ccache looks at times
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else chmod +x "$1.new"; mv "$1.new" "$1"; fi
}
for tool in cc c++; do
  # The version makes another file of another compiler, which ccache and build_libraries.sh see.
  printf '#!/bin/sh\n# zig %s\nexec %q %s -target %s-linux-gnu.2.28 "$@"\n' "$("$zig" version)" "$zig" "$tool" "$arch" |
    write "$folder/$tool"
done
for tool in ar ranlib; do
  printf '#!/bin/sh\nexec %q %s "$@"\n' "$zig" "$tool" | write "$folder/$tool"
done
write "$folder/toolchain.cmake" <<EOF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $arch)
set(CMAKE_C_COMPILER $folder/cc)
set(CMAKE_CXX_COMPILER $folder/c++)
set(CMAKE_AR $folder/ar)
set(CMAKE_RANLIB $folder/ranlib)
# Libraries and headers of the machine that builds stay out.
set(CMAKE_FIND_ROOT_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
EOF

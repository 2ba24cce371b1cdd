#!/usr/bin/env bash
# run_clang_tidy.sh BUILD_FOLDER JOBS PYTHON [-- CMAKE_ARGUMENTS...]: the checks of .clang-tidy over
# src/ and bindings/, and over the headers that they include (include/ among them).
set -euo pipefail
build=$1
jobs=$2
python=$3
shift 3
[ "${1:-}" = -- ] && shift
cd "$(dirname "$0")/.."

cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
  -DPENSTOCK_BUILD_PYTHON=ON -DPENSTOCK_BUILD_FUZZERS=ON -DPython_EXECUTABLE="$(realpath -s "$python")" "$@" >/dev/null
git ls-files 'src/*.cc' 'bindings/*.cc' 'bindings/*.cpp' |
  xargs -n 8 -P "$jobs" clang-tidy --quiet -p "$build"

#!/usr/bin/env bash
# run_clang_tidy.sh BUILD_FOLDER JOBS PYTHON [-- CMAKE_ARGUMENTS...]: the checks of .clang-tidy over
# src/ and bindings/, and over the headers that they include (include/ among them). Fails where there
# is no clang-tidy, unless PENSTOCK_NO_TIDY=1 says that it is to be left out.
set -euo pipefail
build=$1
jobs=$2
python=$3
shift 3
[ "${1:-}" = -- ] && shift
cd "$(dirname "$0")/.."

if [ "${PENSTOCK_NO_TIDY:-}" = 1 ]; then
  echo "PENSTOCK_NO_TIDY=1: clang-tidy's checks are left out" >&2
  exit 0
fi
if ! command -v clang-tidy >/dev/null; then
  echo "clang-tidy is not installed (Debian, Ubuntu: apt-get install clang-tidy);" >&2
  echo "PENSTOCK_NO_TIDY=1 leaves its checks out" >&2
  exit 1
fi
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
  -DPENSTOCK_BUILD_PYTHON=ON -DPENSTOCK_BUILD_FUZZERS=ON -DPython_EXECUTABLE="$(realpath -s "$python")" "$@" >/dev/null
git ls-files 'src/*.cc' 'bindings/*.cc' 'bindings/*.cpp' |
  xargs -n 8 -P "$jobs" clang-tidy --quiet -p "$build"

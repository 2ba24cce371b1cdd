#!/usr/bin/env bash
# test_install.sh BUILD_FOLDER: installs a C++ build into a folder of its own and builds
# examples/cpp against it outside this tree, as a user of the library would; no Python is involved.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --component cpp --prefix "$work/prefix" >/dev/null
if find "$work/prefix" -name '*.h' | xargs grep -l 'Python.h' ; then
  echo "an installed header needs Python" >&2
  exit 1
fi
cp -r "$root/examples/cpp" "$work/example"
cmake -S "$work/example" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null

tar -xzf "$root/tests/data/pbmc3k-soma.tar.gz" -C "$work"
experiment=$(dirname "$(find "$work" -maxdepth 2 -name __tiledb_group.tdb | head -n 1)")
"$work/build/stream_cells" "$experiment" raw | tee "$work/out.txt"
grep -q '2638 cells' "$work/out.txt"
if ldd "$work/build/stream_cells" | grep -i python; then
  echo "the example is linked with Python" >&2
  exit 1
fi
echo "installed library: the example builds against it and streams"

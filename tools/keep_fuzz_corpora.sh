#!/usr/bin/env bash
# keep_fuzz_corpora.sh BUILD_FOLDER: writes tests/fuzz/corpora.tar.gz, the fewest inputs that reach
# what the searches of run_fuzzers.sh in that build and the inputs kept so far reach. Inputs of more
# than 4 KiB are left out.
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
for program in "$build"/*_fuzz; do
  name=$(basename "$program")
  mkdir -p "$kept/$name"
  from=()
  for folder in "$build/fuzz/kept/$name" "$build/fuzz/$name/corpus" "$build/fuzz/seeds/$name"; do
    [ -d "$folder" ] && from+=("$folder")
  done
  "$program" -merge=1 -max_len=4096 -rss_limit_mb=2048 "$kept/$name" "${from[@]}" >/dev/null 2>&1
  find "$kept/$name" -type f -size +4k -delete
  printf '  %-32s %s inputs\n' "$name" "$(find "$kept/$name" -type f | wc -l)"
done
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$kept" -cf - . |
  gzip -9n >"$root/tests/fuzz/corpora.tar.gz"
ls -l "$root/tests/fuzz/corpora.tar.gz" | awk '{print $5, "bytes"}'

#!/usr/bin/env bash
# run_fuzzers.sh BUILD_FOLDER SECONDS: every *_fuzz program of a build for so long, two at a time.
# A crash leaves its input in BUILD_FOLDER/fuzz/<target>/ and fails the run. Corpora are kept there.
# They start from tests/fuzz/<target>/ and, for codecs, from the golden tiles that TileDB wrote.
set -uo pipefail
build=$(realpath "$1")
seconds=$2
root=$(realpath "$(dirname "$0")/..")

run_one() {
  program=$1
  name=$(basename "$program")
  work=$build/fuzz/$name
  mkdir -p "$work/corpus"
  seeds=()
  for folder in "$root/tests/fuzz/$name" "$build/fuzz/seeds/$name"; do
    [ -d "$folder" ] && seeds+=("$folder")
  done
  if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 \
      -max_len=65536 -print_final_stats=1 -artifact_prefix="$work/" "$work/corpus" "${seeds[@]}" \
      >"$work/log.txt" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log.txt")
    printf '  %-32s ok, %s runs\n' "$name" "${runs:-?}"
  else
    printf '  %-32s FAILED, log in %s\n' "$name" "$work/log.txt"
    tail -n 30 "$work/log.txt"
    return 1
  fi
}
export -f run_one
export build seconds root

mapfile -t programs < <(find "$build" -maxdepth 1 -type f -name '*_fuzz' -perm -u+x | sort)
if [ ${#programs[@]} -eq 0 ]; then
  echo "no fuzz targets in $build" >&2
  exit 1
fi
if ! "${PYTHON:-python3}" "$root/tests/golden/make_fuzz_corpus.py" "$build/fuzz/seeds"; then
  echo "no seeds for the codecs' fuzz targets" >&2
  exit 1
fi
echo "fuzzing ${#programs[@]} targets, ${seconds} s each"
printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "${JOBS:-2}" bash -c 'run_one "$0"'

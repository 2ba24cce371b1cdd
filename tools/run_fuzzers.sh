#!/usr/bin/env bash
# run_fuzzers.sh BUILD_FOLDER replay: every *_fuzz program of a build over the inputs that are kept.
# run_fuzzers.sh BUILD_FOLDER SECONDS [TARGET...]: searches for so long a target, JOBS at a time, and
# adds a line a target to tests/fuzz/record.csv. A crash leaves its input in
# BUILD_FOLDER/fuzz/<target>/ and fails the run; mend it and keep the input in tests/fuzz/<target>/.
#
# Kept are: tests/fuzz/<target>/ (what once failed), tests/fuzz/corpora.tar.gz (what reaches new code;
# keep_fuzz_corpora.sh makes it of what searches found), and the golden tiles that TileDB wrote.
set -uo pipefail
build=$(realpath "$1")
seconds=$2
shift 2
root=$(realpath "$(dirname "$0")/..")
record=$root/tests/fuzz/record.csv
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)

run_one() {
  program=$1
  name=$(basename "$program")
  work=$build/fuzz/$name
  mkdir -p "$work/corpus"
  kept=()
  for folder in "$root/tests/fuzz/$name" "$build/fuzz/seeds/$name" "$build/fuzz/kept/$name"; do
    [ -d "$folder" ] && kept+=("$folder")
  done
  how=(-rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=65536 -print_final_stats=1
       -artifact_prefix="$work/")
  if [ "$seconds" = replay ]; then
    inputs=0
    [ ${#kept[@]} -gt 0 ] && inputs=$(find "${kept[@]}" -type f | wc -l)
    [ "$inputs" -gt 0 ] || { printf '  %-32s FAILED, no input is kept\n' "$name"; return 1; }
    how+=(-runs=0 -timeout=300)  # the answer does not depend on how busy the machine is
  else
    how+=(-max_total_time="$seconds" -timeout=10 "$work/corpus")
  fi
  begin=$SECONDS
  "$program" "${how[@]}" "${kept[@]}" >"$work/log.txt" 2>&1
  status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log.txt")
  outcome=ok
  [ $status -eq 0 ] || outcome=FAILED
  if [ "$seconds" != replay ]; then
    echo "$(date -u +%F),$commit,$name,$((SECONDS - begin)),${runs:-},$outcome" >>"$record"
  elif [ $status -eq 0 ] && [ "${runs:-0}" -lt "$inputs" ]; then
    printf '  %-32s FAILED, %s of %s inputs were run\n' "$name" "${runs:-0}" "$inputs"
    return 1
  fi
  printf '  %-32s %s, %s runs\n' "$name" "$outcome" "${runs:-?}"
  [ $status -eq 0 ] && return 0
  tail -n 30 "$work/log.txt"
  return 1
}
export -f run_one
export build seconds root record commit

mapfile -t programs < <(find "$build" -maxdepth 1 -type f -name '*_fuzz' -perm -u+x | sort)
if [ $# -gt 0 ]; then programs=("${@/#/$build/}"); fi
if [ ${#programs[@]} -eq 0 ]; then
  echo "no fuzz targets in $build" >&2
  exit 1
fi
if ! "${PYTHON:-python3}" "$root/tests/golden/make_fuzz_corpus.py" "$build/fuzz/seeds"; then
  echo "no seeds for the codecs' fuzz targets" >&2
  exit 1
fi
rm -rf "$build/fuzz/kept"
mkdir -p "$build/fuzz/kept"
tar -xzf "$root/tests/fuzz/corpora.tar.gz" -C "$build/fuzz/kept" || exit 1
echo "fuzzing ${#programs[@]} targets: $seconds$([ "$seconds" = replay ] || echo ' s each')"
printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "${JOBS:-2}" bash -c 'run_one "$0"'

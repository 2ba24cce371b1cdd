#!/usr/bin/env bash
# test_resume_example.sh PROGRAM EXPERIMENT LAYER CELLS: kills examples/cpp/resume_cells in the middle
# of an epoch, at a random batch, and lets it resume on 1, 2 and 3 ranks, killed once more: each of
# the CELLS cells must come exactly once.
set -euo pipefail
program=$(realpath "$1")
experiment=$(realpath "$2")
layer=$3
cells=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# run_and_kill FOLDER RANKS: true where the epoch was not done when the process was killed.
run_and_kill() {
  local before wanted pid status=0
  before=$(taken "$1")
  wanted=$((before + 1 + RANDOM % 10))
  "$program" "$experiment" "$layer" "$1" "$2" 100 >/dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null && (($(taken "$1") < wanted)); do sleep 0.005; done
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" || status=$?
  ((status == 137)) && (($(taken "$1") >= wanted)) && (($(wc -l <"$1/cells.txt") < cells))
}

# Batches of a rank in the checkpoint, all segments together.
taken() {
  local sum=0 number
  if [[ -e $1/checkpoint ]]; then
    for number in $(grep -o '"batches":[0-9]*' "$1/checkpoint" | cut -d: -f2); do
      sum=$((sum + number))
    done
  fi
  echo "$sum"
}

kills=0
for ranks in 1 2 3; do
  folder=$work/$ranks
  run_and_kill "$folder" 2 || { echo "not killed in the middle of the epoch" >&2; exit 1; }
  run_and_kill "$folder" "$ranks" || { echo "not killed after it resumed" >&2; exit 1; }
  kills=$((kills + 2))
  "$program" "$experiment" "$layer" "$folder" "$ranks" >/dev/null
  grep -q '"epoch":1' "$folder/checkpoint"
  sort -n "$folder/cells.txt" >"$folder/sorted.txt"
  seq 0 $((cells - 1)) | cmp - "$folder/sorted.txt"
done
echo "resume_cells: killed $kills times, each of $cells cells once on 1, 2 and 3 ranks"

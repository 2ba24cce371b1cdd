#!/usr/bin/env bash
# tiledbsoma.sh BIN: measures Penstock beside tiledbsoma_ml and writes RESULTS.md. BIN is the folder of penstock.
# `make bench-tiledbsoma` makes the cells first. SMALL, LARGE: other experiments. ROUNDS: rounds of each comparison.
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
small=${SMALL:-benchmarks/.data/census-65k}
large=${LARGE:-benchmarks/.data/census-262k}
rows=benchmarks/.data/tiledbsoma.parquet
page=benchmarks/RESULTS.md
work=$(mktemp)
trap 'rm -f "$work"' EXIT

section() { # TITLE COMMAND...: a heading, the command as a block of code
  printf '\n## %s\n\n    $ penstock bench %s\n\n' "$1" "${*:2}" >>"$work"
}

compare() { # TITLE ARGUMENTS...: the table and ratios that the command prints after its lines
  section "$1" compare "${@:2}"
  "$bin/penstock" bench compare -d "$rows" "${@:2}" | tee >(cat >&2) | sed -n '/^| method/,$p' >>"$work"
}

epochs() { # TITLE ARGUMENTS...: a line for each epoch
  section "$1" data-loader "${@:2}"
  "$bin/penstock" bench data-loader -d "$rows" "${@:2}" | tee >(cat >&2) |
    sed '/appended to/d; s/^/    /; s/  *$//' >>"$work"
}

"$bin/python" - >>"$work" <<'HEAD'
import time
from importlib.metadata import version
from penstock.bench.machine import commit, described

names = ("penstock", "tiledbsoma", "tiledbsoma-ml", "torch", "numpy", "scipy", "pandas")
print(f"""<!-- made by make bench-tiledbsoma, which replaces it -->

# Penstock beside tiledbsoma_ml

`make bench-tiledbsoma`, {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}; not written by hand.

{described()}; commit {commit()}; {", ".join(f"{name} {version(name)}" for name in names)}.

Shuffled epochs with the obs column `soma_joinid`. Each measurement is a process of its own. Methods take turns, and the
page cache is warm. Figures are the median (least to most) of the rounds; ratios are taken within a round. A whole epoch
starts when the experiment is opened and counts only if each cell came once. `128x64`: io batches of 8,192 cells, in
place of 65,536. [README.md](README.md) says which cells these are.
[docs/reference/benchmarks.md](../docs/reference/benchmarks.md) explains the columns.""")
HEAD

both=(-m penstock,tiledbsoma_ml -R "${ROUNDS:-2}")
default=(--memory-budget 256MiB,2GiB)
least=(--memory-budget 256MiB)
compare "CSR" "$small" "${both[@]}" "${default[@]}"
compare "CSR, io batches of 8,192 cells" "$small" -m penstock,tiledbsoma_ml -R 1 -b 128x64 "${least[@]}"
compare "CSR, batches of 1,024" "$small" "${both[@]}" -B 1024 "${least[@]}"
compare "Dense, all genes" "$small" "${both[@]}" --dense "${default[@]}"
genes=$("$bin/python" benchmarks/detected_genes.py "$small")
compare "Dense, the 8,000 most detected genes" "$small" "${both[@]}" --dense --genes "$genes" "${default[@]}"
compare "CSR, more cells" "$large" "${both[@]}" "${default[@]}"
compare "CSR tensors, more cells" "$large" -m penstock -R 3 --torch "${default[@]}"
one_process=(--sparse -B 128 -g 0)
epochs "Memory of ten epochs" "$small" -m penstock "${one_process[@]}" -E 10 "${least[@]}"
epochs "First and second epoch of a process" "$small" -m penstock,tiledbsoma_ml "${one_process[@]}" -E 2 \
  -b 1024x64 "${least[@]}"
cat "$work" >"$page"

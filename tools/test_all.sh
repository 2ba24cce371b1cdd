#!/usr/bin/env bash
# test_all.sh [PART]...: `make test-all`, or some of its parts. They take hours, so each that passes is noted in
# build/passed with the committed files that it reads. It is not made again within a week while these are the same:
# a run that was interrupted is continued by the next one. `rm -r build/passed` forgets all.
set -euo pipefail
cd "$(dirname "$0")/.."
passed=build/passed
export PENSTOCK_TEST_FULL=1 PENSTOCK_TEST_SEED="${PENSTOCK_TEST_SEED:-$(date -u +%Y%m%d)}"

# Pathspecs. The C++ tests read nothing of these folders, and `fuzz` writes the two files.
engine=(':!python' ':!tests/python' ':!docs' ':!benchmarks' ':!*.md' ':!tests/fuzz/corpora.tar.gz'
  ':!tests/fuzz/record.csv')
everything=()

# Prints a hash of the files, or nothing if some are not committed.
files_hash() {
  [ -n "$(git status --porcelain -- . "$@")" ] || git ls-files -s -- . "$@" | git hash-object --stdin
}

# part NAME ARRAY ARGUMENTS...: makes the arguments, unless they have passed with these files.
part() {
  local name=$1 stamp=$passed/$1 hash
  local -n files=$2
  shift 2
  names+=("$name")
  if [ ${#chosen[@]} -gt 0 ] && ! [[ " ${chosen[*]} " = *" $name "* ]]; then return; fi
  hash=$(files_hash "${files[@]}")
  if [ -n "$hash" ] && [ -n "$(find "$stamp" -mtime -7 2>/dev/null)" ] && [ "$(cat "$stamp")" = "$hash" ]; then
    echo "$name: passed on $(date -r "$stamp" +%F) with the same files"
    return
  fi
  local begin=$SECONDS
  echo "$name: make $*"
  make "$@"
  echo "$name: passed in $((SECONDS - begin)) seconds"
  # Nothing is noted of files that changed meanwhile.
  if [ -n "$hash" ] && [ "$(files_hash "${files[@]}")" = "$hash" ]; then
    mkdir -p "$passed"
    echo "$hash" >"$stamp"
  fi
}

chosen=("$@")
names=()
part check everything check PENSTOCK_NO_TIDY=1
part docs everything docs
part tidy engine tidy
part cpp engine test-cpp test-install
part asan engine test-asan
part replay everything test-fuzz
part tsan engine test-tsan TSAN_LAYERS="base io format pipeline"
part scalar engine test-scalar
part python everything packages-long test-python TEST_CHOICE= HYPOTHESIS_PROFILE=thorough
part peers everything test-peers
part ray everything test-ray
part peer-suites everything test-peer-suites
part oldest everything test-oldest
for python in ${NEWER_PYTHONS:-python3.12 python3.13}; do
  part "newest-$(basename "$python")" everything test-newest PYTHON="$python"
done
part fuzz engine fuzz FUZZ_SECONDS=60

for name in "${chosen[@]}"; do
  [[ " ${names[*]} " = *" $name "* ]] || { echo "there is no part $name; choose from ${names[*]}" >&2; exit 2; }
done

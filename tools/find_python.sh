#!/usr/bin/env bash
# Prints a CPython from 3.11 to 3.13: $PYTHON where it is set, and no other then.
set -u
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if [ -n "${PYTHON:-}" ]; then
  if fits "$PYTHON"; then
    echo "$PYTHON"
    exit 0
  fi
  echo "PYTHON=$PYTHON is not a CPython 3.11, 3.12 or 3.13 that runs here: give another one, or its path" >&2
  exit 1
fi
for python in python3 python3.13 python3.12 python3.11; do
  if fits "$python"; then
    echo "$python"
    exit 0
  fi
done
echo "penstock needs CPython 3.11, 3.12 or 3.13; on Debian and Ubuntu: apt-get install python3 python3-dev python3-venv" >&2
exit 1

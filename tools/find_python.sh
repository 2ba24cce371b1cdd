#!/usr/bin/env bash
# Prints a CPython from 3.11 to 3.13; $PYTHON first where it is set.
set -u
for python in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
  [ -n "$python" ] || continue
  if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
    echo "$python"
    exit 0
  fi
done
echo "penstock needs CPython 3.11, 3.12 or 3.13; on Debian and Ubuntu: apt-get install python3 python3-dev python3-venv" >&2
exit 1

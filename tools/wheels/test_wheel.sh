#!/usr/bin/env bash
# test_wheel.sh FOLDER PYTHON [PYTEST ARGUMENT...]: the Python tests with the wheel of FOLDER/dist that fits PYTHON, in
# an environment in FOLDER that has the packages that tests need and no build of this package. Then beside.py.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
folder=$(realpath "$1")
python=$2
shift 2
venv=$folder/venv-$(basename "$python")
PYTHON=$python "$root/tools/make_venv.sh" "$venv"
# The newest wheel of the version in CMakeLists.txt: --find-links lets pip choose among tags.
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-index --force-reinstall \
  --find-links "$folder/dist" penstock
cd "$root"
"$venv/bin/python" -c 'import penstock, pathlib
assert (pathlib.Path(penstock.__file__).parent / "THIRD_PARTY.txt").is_file(), "this is no wheel with libraries inside"'
"$venv/bin/python" -m pytest --numprocesses "${JOBS:-$(nproc)}" --dist loadfile --max-worker-restart 0 \
  --no-loadscope-reorder "$@"
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet pycurl
"$venv/bin/python" tools/wheels/beside.py

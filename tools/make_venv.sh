#!/usr/bin/env bash
# make_venv.sh FOLDER: a virtual environment with everything that the demo, the tests and the
# checks import, but not Penstock itself. torch comes first and pinned: asked for without a
# version it would bring some gigabytes of CUDA, and from an index without builds for the CPU it
# still does, which is said.
#
# RESOLUTION=highest or lowest-direct asks for the newest or the oldest versions that pyproject.toml
# allows (by uv, which is installed beside them) and WITH for more requirements, as WITH='pandas>=3'.
# torch is TORCH in any case.
set -euo pipefail
venv=$1
torch=${TORCH:-torch==2.13.0}
python=$("$(dirname "$0")/find_python.sh")
version() { "$1" -c 'import sys; print(sys.version_info[:3])'; }
[ -x "$venv/bin/python" ] && [ "$(version "$venv/bin/python")" = "$(version "$python")" ] ||
  "$python" -m venv --clear "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet)

echo "preparing $venv with $("$venv/bin/python" --version): $torch, then the rest"
# shellcheck disable=SC2086
"${pip[@]}" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch"
"$venv/bin/python" - <<'EOF'
import torch
if torch.version.cuda:
    print(f"note: torch {torch.__version__} came with CUDA, gigabytes that no test needs; where a package index "
          "has builds for the CPU, name it: make ... TORCH_INDEX=URL")
EOF
"$venv/bin/python" - >"$venv/requirements.txt" <<'EOF'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
extras = project["project"]["optional-dependencies"]
lines = project["project"]["dependencies"] + extras["demo"] + extras["dev"] + project["build-system"]["requires"]
print("\n".join(line for line in dict.fromkeys(lines) if not line.startswith("torch>")))
EOF
if [ -z "${RESOLUTION:-}" ]; then
  "${pip[@]}" -r "$venv/requirements.txt"
  exit
fi
printf '%s\n' ${WITH:-} >>"$venv/requirements.txt"
# torch stays what it is, but for uv must be among the requirements.
"$venv/bin/python" -c 'from importlib.metadata import version; print("torch==" + version("torch"))' \
  >>"$venv/requirements.txt"
"${pip[@]}" uv
"$venv/bin/python" -m uv pip install --quiet --python "$venv/bin/python" --upgrade \
  --resolution "$RESOLUTION" ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} -r "$venv/requirements.txt"

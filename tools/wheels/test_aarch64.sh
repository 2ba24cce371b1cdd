#!/usr/bin/env bash
# test_aarch64.sh FOLDER: the wheel of FOLDER/dist for aarch64 under qemu, with the Python of Debian's archive: its batches and packs
# are, bit for bit, those of PYTHON (by default .venv's) on this machine.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
folder=$(realpath "$1")
python=${DEV_PYTHON:-$here/../../.venv/bin/python}
root=$folder/roots/aarch64
"$here/../install_system_packages.sh" "command:qemu-aarch64-static qemu-user-static"
if [ ! -f "$root/.made" ]; then
  rm -rf "$root" "$root.apt"
  mkdir -p "$root" "$root.apt"/{lists/partial,cache/archives/partial}
  touch "$root.apt/status"
  apt=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$root.apt/lists"
       -o Dir::State::status="$root.apt/status" -o Dir::Cache="$root.apt/cache" -o APT::Sandbox::User=root)
  apt-get "${apt[@]}" update -qq
  apt-get "${apt[@]}" install -qq -y --download-only --no-install-recommends python3 libstdc++6 >/dev/null
  for package in "$root.apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  touch "$root/.made"
fi
program=$(find "$root/usr/bin" -name 'python3.[0-9]*' ! -name '*-config' | head -n 1)
version=${program##*python}
kind=abi3
[ "$version" != 3.11 ] || kind=cp311
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$folder/python3.11/bin/python" -m pip --disable-pip-version-check download --quiet --only-binary=:all: --no-deps \
  --python-version "$version" --implementation cp --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
  --platform manylinux_2_28_aarch64 --dest "$scratch/wheels" numpy
for wheel in "$scratch"/wheels/numpy*.whl "$folder"/dist/penstock*"$kind"*aarch64.whl; do
  "$python" -m zipfile -e "$wheel" "$scratch/site"
done
PYTHONPATH=$scratch/site qemu-aarch64-static -L "$root" "$program" "$here/digests.py" >"$scratch/there"
"$python" "$here/digests.py" >"$scratch/here"
diff "$scratch/there" "$scratch/here"
echo "aarch64: $(wc -l <"$scratch/here") results are the same bits"

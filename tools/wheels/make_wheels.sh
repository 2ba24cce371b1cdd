#!/usr/bin/env bash
# make_wheels.sh FOLDER ARCH: wheels of penstock in FOLDER/dist that need nothing but libc, libm and the loader, for
# glibc 2.28 (manylinux_2_28): one for CPython 3.11, one of the stable ABI for 3.12 and later. ARCH is x86_64 or
# aarch64. WHEEL_PYTHONS are programs of 3.11 and 3.12.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
mkdir -p "$1/dist"
folder=$(realpath "$1")
arch=$2
prefix=$folder/$arch

make_venv() {  # make_venv FOLDER PYTHON
  [ -f "$1/.ready" ] && [ ! "$here/requirements.txt" -nt "$1/.ready" ] && return
  if [ "python$("$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$(basename "$1")" ]; then
    echo "$2 is not $(basename "$1"); name programs of 3.11 and 3.12: WHEEL_PYTHONS" >&2
    exit 1
  fi
  "$2" -m venv --clear "$1"
  "$1/bin/python" -m pip --disable-pip-version-check install --quiet -r "$here/requirements.txt"
  touch "$1/.ready"
}
read -r older newer <<<"${WHEEL_PYTHONS:-python3.11 python3.12}"
make_venv "$folder/python3.11" "$older"
make_venv "$folder/python3.12" "$newer"
python=$folder/python3.11/bin/python

"$here/fetch_sources.sh" "$folder/sources"
"$here/zig_tools.sh" "$folder/tools-$arch" "$python" "$arch" "$prefix"
"$here/build_libraries.sh" "$folder/tools-$arch" "$folder/sources" "$prefix" "$arch"
"$python" "$here/third_party.py" "$here/sources.txt" "$prefix/licences" >"$prefix/THIRD_PARTY.txt"

# pkg-config finds the libraries of PREFIX alone, and names what they need themselves.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig PKG_CONFIG_PATH=
export _PYTHON_HOST_PLATFORM=linux-$arch SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1700000000)}
rm -rf "$folder/raw-$arch"
for version in 3.11 3.12; do
  interpreter=$folder/python$version/bin/python
  suffix=$("$interpreter" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  rm -rf "$folder/build-$arch-$version"  # ccache has what does not change
  PATH=$folder/python$version/bin:$PATH SETUPTOOLS_EXT_SUFFIX=${suffix/x86_64/$arch} CCACHE_COMPILERCHECK=content CCACHE_NOHASHDIR=1 \
    CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} "$interpreter" -m build --wheel --no-isolation \
    --outdir "$folder/raw-$arch" \
    --config-setting=build-dir="$folder/build-$arch-$version" \
    --config-setting=install.strip=false \
    --config-setting=wheel.py-api=cp312 \
    --config-setting=cmake.define.CMAKE_TOOLCHAIN_FILE="$folder/tools-$arch/toolchain.cmake" \
    --config-setting=cmake.define.CMAKE_PREFIX_PATH="$prefix" \
    --config-setting=cmake.define.PKG_CONFIG_ARGN=--static \
    --config-setting=cmake.define.PENSTOCK_THIRD_PARTY="$prefix/THIRD_PARTY.txt" \
    --config-setting=cmake.args="$(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)" \
    "$root"
done
rm -f "$folder/dist"/*"$arch.whl"
for wheel in "$folder/raw-$arch"/*.whl; do
  (cd "$folder/dist" && cp "$wheel" . && "$python" -m wheel tags --remove --platform-tag "manylinux_2_28_$arch" "$(basename "$wheel")")
done
"$python" "$here/check_wheels.py" "$folder/dist" "$arch"

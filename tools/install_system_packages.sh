#!/usr/bin/env bash
# Installs by apt what building and testing need, where something is missing and the user may.
# Otherwise names the packages and stops. Silent and quick when everything is there. Arguments are more that is needed,
# in the form of the lines below.
set -euo pipefail

# What to look for, and the Debian or Ubuntu package that brings it.
needed=(
  "command:g++ build-essential"
  "command:cmake cmake"
  "command:ninja ninja-build"
  "command:pkg-config pkg-config"
  "command:ccache ccache"
  "command:clang++ clang"
  "header:zstd.h libzstd-dev"
  "header:lz4.h liblz4-dev"
  "header:zlib.h zlib1g-dev"
  "header:libdeflate.h libdeflate-dev"
  "header:bzlib.h libbz2-dev"
  "header:openssl/evp.h libssl-dev"
  "header:curl/curl.h libcurl4-openssl-dev"
  "header:pugixml.hpp libpugixml-dev"
  "header:roaring/roaring.h libroaring-dev"
  "header:nlohmann/json.hpp nlohmann-json3-dev"
  "header:gtest/gtest.h libgtest-dev"
  "header:benchmark/benchmark.h libbenchmark-dev"
  "$@"
)

has_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null
}

missing=()
for line in "${needed[@]}"; do
  what=${line%% *}
  package=${line#* }
  case $what in
    command:*) command -v "${what#command:}" >/dev/null || missing+=("$package") ;;
    header:*) command -v g++ >/dev/null && has_header "${what#header:}" || missing+=("$package") ;;
  esac
done

# clang's sanitizer and fuzzer runtimes are a package of their own, named after its version.
has_clang_runtime() {
  printf 'int main(){}' | clang++ -fsanitize=address -x c++ -o /dev/null - 2>/dev/null
}
if command -v clang++ >/dev/null && ! has_clang_runtime; then
  missing+=("libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev")
fi

# Debian's Python comes without venv and headers; one from elsewhere brings both.
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  missing+=(python3-dev python3-venv)
else
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists())' 2>/dev/null || missing+=(python3-dev)
fi

[ ${#missing[@]} -eq 0 ] && exit 0

command="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "penstock needs these packages (their Debian names): ${missing[*]}" >&2
  exit 1
elif [ "$(id -u)" -ne 0 ]; then
  printf 'penstock needs system packages that are missing; please run\n\n    sudo %s\n\nand try again.\n' "$command" >&2
  exit 1
fi
echo "installing system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
$command
# What only shows once the rest is there (clang's runtimes); a second round finds nothing to do.
[ "${PENSTOCK_APT_ROUND:-1}" = 2 ] || PENSTOCK_APT_ROUND=2 exec "$0" "$@"

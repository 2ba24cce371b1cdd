#!/usr/bin/env bash
# build_libraries.sh TOOLS SOURCES PREFIX ARCH: the libraries of sources.txt, static, into PREFIX.
# TOOLS has cc, c++, ar, ranlib and toolchain.cmake (zig_tools.sh). ARCH is x86_64 or aarch64. What is there is kept.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
tools=$(realpath "$1")
sources=$(realpath "$2")
mkdir -p "$3"
prefix=$(realpath "$3")
arch=$4
jobs=${JOBS:-$(nproc)}
export CC=$tools/cc CXX=$tools/c++ AR=$tools/ar RANLIB=$tools/ranlib
flags="-O2 -fPIC -fvisibility=hidden"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

with_cmake() {  # with_cmake FOLDER OPTION...
  local folder=$1
  shift
  cmake -S "$folder" -B "$folder/build.penstock" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$tools/toolchain.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE= -DCMAKE_CXX_FLAGS_RELEASE= \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@"
  cmake --build "$folder/build.penstock" -j "$jobs"
  cmake --install "$folder/build.penstock"
}

build_bzip2() {
  local name
  for name in blocksort huffman crctable randtable compress decompress bzlib; do
    # shellcheck disable=SC2086
    "$CC" $CFLAGS -D_FILE_OFFSET_BITS=64 -c "$1/$name.c" -o "$1/$name.o"
  done
  rm -f "$prefix/lib/libbz2.a"
  "$AR" rcs "$prefix/lib/libbz2.a" "$1"/{blocksort,huffman,crctable,randtable,compress,decompress,bzlib}.o
  cp "$1/bzlib.h" "$prefix/include/"
}
build_croaring() { with_cmake "$1" -DROARING_BUILD_STATIC=ON -DENABLE_ROARING_TESTS=OFF -DROARING_DISABLE_NATIVE=ON; }
# HTTP and TLS alone. No path of certificates is compiled in: the engine looks for them when it runs (docs/how-to/remote.md).
build_curl() {
  with_cmake "$1" -DBUILD_CURL_EXE=OFF -DBUILD_STATIC_LIBS=ON -DBUILD_TESTING=OFF -DBUILD_EXAMPLES=OFF \
    -DBUILD_LIBCURL_DOCS=OFF -DBUILD_MISC_DOCS=OFF -DENABLE_CURL_MANUAL=OFF -DHTTP_ONLY=ON \
    -DCURL_USE_OPENSSL=ON -DOPENSSL_ROOT_DIR="$prefix" -DOPENSSL_USE_STATIC_LIBS=ON \
    -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF \
    -DUSE_NGHTTP2=OFF -DCURL_ZLIB=OFF -DCURL_DISABLE_COOKIES=ON -DCURL_DISABLE_NETRC=ON -DCURL_USE_GSSAPI=OFF \
    -DENABLE_THREADED_RESOLVER=ON -DENABLE_UNIX_SOCKETS=OFF -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none \
    -DCURL_DISABLE_WEBSOCKETS=ON -DCURL_DISABLE_HSTS=ON -DCURL_DISABLE_ALTSVC=ON
}
# clang 21 no longer knows the target that libdeflate 1.23 names for vectors of 512 bits, and needs none.
build_libdeflate() {
  sed -i 's/",\(no-\)\?evex512"/""/' "$1/lib/x86/cpu_features.h"
  with_cmake "$1" -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF
}
build_lz4() { make -C "$1/lib" -j "$jobs" BUILD_SHARED=no PREFIX="$prefix" install; }
build_nlohmann_json() { with_cmake "$1" -DJSON_BuildTests=OFF; }
build_openssl() {
  local folder=$1
  (cd "$folder" && ./Configure "linux-$arch" --prefix="$prefix" --libdir=lib \
    --openssldir=/etc/ssl no-shared no-module no-dso no-engine no-legacy no-tests no-apps no-docs no-makedepend \
    no-dtls no-ssl3 no-tls1 no-tls1_1 no-comp no-srp no-cmp no-cms no-ts no-rfc3779 no-ui-console)
  # It loads no modules and no engines; without these it would have the paths of PREFIX inside.
  make -C "$folder" -j "$jobs" build_libs MODULESDIR=/usr/lib/ossl-modules ENGINESDIR=/usr/lib/engines-3
  make -C "$folder" install_dev
}
build_pugixml() { with_cmake "$1"; }
build_zlib() { (cd "$1" && ./configure --static --prefix="$prefix") && make -C "$1" -j "$jobs" libz.a install; }
build_zstd() {
  make -C "$1/lib" -j "$jobs" PREFIX="$prefix" install-static install-includes install-pc
}

mkdir -p "$prefix/lib" "$prefix/include" "$prefix/licences"
# curl comes after openssl, whose headers it needs.
for name in bzip2 croaring libdeflate lz4 nlohmann-json openssl pugixml zlib zstd curl; do
  row=$(awk -v name="$name" '$1 == name' "$here/sources.txt")
  read -r _ version _ file _ <<<"$row"
  # Built again if its source, this script or the compiler is another one.
  key=$(echo "$row" | cat - "$here/build_libraries.sh" "$tools/cc" | sha256sum)
  [ "$(cat "$prefix/$name.built" 2>/dev/null)" != "$key" ] || continue
  echo "building $name $version for $arch"
  folder=$scratch/$name
  mkdir "$folder"
  tar -xf "$sources/$file" -C "$folder" --strip-components=1
  # No path of this machine in what is compiled.
  export CFLAGS="$flags -ffile-prefix-map=$folder=$name" CXXFLAGS="$flags -ffile-prefix-map=$folder=$name"
  # In the background, where `set -e` holds in spite of the `||`.
  "build_${name//-/_}" "$folder" >"$prefix/$name.log" 2>&1 &
  wait $! || { tail -n 30 "$prefix/$name.log" >&2; echo "$name does not build" >&2; exit 1; }
  # LICENSE of lz4 refers to lib/LICENSE; COPYING of zstd is the GPL, the other choice beside its LICENSE.
  for licence in LICENSE LICENSE.md LICENSE.txt LICENSE.MIT lib/LICENSE COPYING; do
    [ ! -f "$folder/$licence" ] || [ "$name.$licence" = zstd.COPYING ] ||
      cp "$folder/$licence" "$prefix/licences/$name.${licence//\//-}"
  done
  rm -rf "$folder"
  echo "$key" >"$prefix/$name.built"
done

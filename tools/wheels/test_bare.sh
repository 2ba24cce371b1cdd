#!/usr/bin/env bash
# test_bare.sh FOLDER SUITE: the wheel of FOLDER/dist in a Debian of that suite (bookworm, trixie) that has Python, and
# the C++ library that numpy's wheel needs: from install to first batch, then https by certificates in two places.
# Needs root, mmdebstrap, openssl, and apt's archive for the suite.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
folder=$(realpath "$1")
suite=$2
root=$folder/roots/$suite
"$here/../install_system_packages.sh" "command:mmdebstrap mmdebstrap" "command:openssl openssl"
if [ ! -f "$root/.made" ]; then
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1 || true)
  [ -n "$archive" ] || { echo "apt here knows no archive of Debian" >&2; exit 1; }
  rm -rf "$root"
  mkdir -p "$folder/roots"
  mmdebstrap --quiet --variant=essential --include=python3,python3-venv,ca-certificates,libstdc++6 \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$root" "$archive"
  touch "$root/.made"
fi
for library in libcurl libpugixml libroaring libdeflate; do
  found=$(find "$root/usr/lib" "$root/lib/" -name "$library.so*" | head -n 1)
  [ -z "$found" ] || { echo "$root is not bare: $found" >&2; exit 1; }
done

in_root() { chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root "$@"; }

scratch=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$scratch"' EXIT
version=$(in_root python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
rm -rf "$root/wheels" "$root/env" "$root/etc/pki"
[ ! -d "$root/etc/ssl/away" ] || { rm -rf "$root/etc/ssl/certs" && mv "$root/etc/ssl/away" "$root/etc/ssl/certs"; }
mkdir -p "$root/wheels"
cp "$folder/dist"/*x86_64.whl "$here/first_batch.py" "$root/wheels/"
"$folder/python3.11/bin/python" -m pip --disable-pip-version-check download --quiet --only-binary=:all: \
  --python-version "$version" --no-deps --dest "$root/wheels" numpy

begin=$(date +%s.%N)
in_root sh -c 'python3 -m venv /env &&
  /env/bin/pip install --quiet --no-index --find-links /wheels penstock && /env/bin/python /wheels/first_batch.py'
echo "$suite, Python $version: from no environment to a first batch in $(date +%s.%N | awk -v b="$begin" '{printf "%.1f", $1 - b}') s"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=a test" \
  -addext "subjectAltName=IP:127.0.0.1" -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null
"${DEV_PYTHON:-$here/../../.venv/bin/python}" - "$root/wheels" <<'END'  # anndata writes it
import sys
import penstock as ps
ps.example("pbmc3k", format="h5ad", folder=sys.argv[1])
END
python3 "$here/serve_https.py" "$root/wheels" "$scratch/cert.pem" "$scratch/key.pem" >"$scratch/port" &
server=$!
for _ in $(seq 100); do [ -s "$scratch/port" ] && break; sleep 0.1; done
url=https://127.0.0.1:$(cat "$scratch/port")/pbmc3k.h5ad
reads() { in_root /env/bin/python /wheels/first_batch.py "$url"; }

mv "$root/etc/ssl/certs" "$root/etc/ssl/away"  # pip needs them at the start of the next run
if reads >"$scratch/said" 2>&1; then echo "a server that nobody certifies was read" >&2; exit 1; fi
grep -q SSL_CERT_FILE "$scratch/said" || { cat "$scratch/said" >&2; exit 1; }
for place in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt; do
  mkdir -p "$(dirname "$root/$place")"
  cp "$scratch/cert.pem" "$root/$place"
  reads
  rm "$root/$place"
  echo "https by /$place"
done

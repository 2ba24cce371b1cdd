#!/usr/bin/env bash
# fetch_sources.sh FOLDER: the files of sources.txt into FOLDER. They come from $PENSTOCK_SOURCES, a folder, or from
# Debian's archives by apt (Debian 12 or later). A file with another SHA-256 is refused.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
mkdir -p "$1"
folder=$(realpath "$1")
given=${PENSTOCK_SOURCES:+$(realpath "$PENSTOCK_SOURCES")}
cd "$folder"

# apt with settings of its own: the machine's stay as they are.
apt=(-o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
     -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User=root)
archive() {  # archive ENDING: the first archive of this machine whose address ends so
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E "/$1/?\$" | head -n 1 || true
}
read_lists() {
  [ ! apt/ready -nt "$here/sources.txt" ] || return 0
  mkdir -p apt/lists/partial apt/cache/archives/partial
  {
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive debian) trixie main"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive debian-security) trixie-security main"
  } >apt/sources.list
  apt-get "${apt[@]}" update -qq
  touch apt/ready
}

missing=0
while read -r name version package file sha256; do
  is_right() { [ -f "$file" ] && echo "$sha256  $file" | sha256sum --check --status; }
  ! is_right || continue
  rm -f "$file"
  if [ -n "$given" ] && [ -f "$given/$file" ]; then
    cp "$given/$file" .
  elif command -v apt-get >/dev/null && [ -n "$(archive debian)" ]; then
    read_lists
    # Another revision of the package has the same file.
    apt-get "${apt[@]}" source -qq --download-only --tar-only "$package" >/dev/null ||
      apt-get "${apt[@]}" source -qq --download-only --tar-only "${package%%=*}" >/dev/null || true
  fi
  if ! is_right; then
    echo "$name $version: $file has another SHA-256 than sources.txt, or is not to be had" >&2
    missing=1
  fi
done < <(grep -v '^#' "$here/sources.txt")
if [ $missing -ne 0 ]; then
  echo "put them into a folder and name it by PENSTOCK_SOURCES, or name newer ones in $here/sources.txt" >&2
  exit 1
fi

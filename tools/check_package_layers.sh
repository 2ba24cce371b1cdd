#!/usr/bin/env bash
# check_package_layers.sh BIN: the layers of the Python package, as [tool.importlinter] in pyproject.toml says; BIN has
# lint-imports. The extension's stub stands in for the extension, which would count as the package itself. The picture
# in docs/design must show the same imports.
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r python/penstock "$work"
mv "$work/penstock/_core.pyi" "$work/penstock/_core.py"
PYTHONPATH=$work "$bin/lint-imports" --no-cache
"$bin/python" tools/draw_package.py --check docs/design/images/package.svg

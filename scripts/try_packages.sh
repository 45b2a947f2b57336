#!/bin/bash
# Install each package with all extras in a fresh environment, and run the first steps of README.
#   try_packages.sh [--lowest] dist/*     --lowest: with the oldest dependencies allowed
set -eu -o pipefail
repo=$(realpath "$(dirname "$0")/..")
python=$("$repo/scripts/system.sh" python)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/constraints.txt"
note=""
if [ "$1" = --lowest ]; then
  shift
  note=" with the lowest versions"
  "$repo/.venv/bin/uv" pip compile -q --resolution lowest-direct --all-extras --no-header \
    --python "$python" "$repo/pyproject.toml" -o "$work/constraints.txt"
fi

for package in "$@"; do
  package=$(realpath "$package")
  echo "trying $(basename "$package")$note …"
  rm -rf "$work/try"
  mkdir "$work/try"
  "$python" -m venv "$work/try/env"
  "$work/try/env/bin/pip" install -q -c "$work/constraints.txt" "${package}[all]"
  ( # in a subshell, because package paths are relative to the current folder
    cd "$work/try"
    env/bin/hta-widgets demo demo-job --ranks 2 --steps 2
    env/bin/hta-widgets summary demo-job
    env/bin/hta-widgets report demo-job -o report.html --xlsx report.xlsx
    test "$(wc -c <report.html)" -gt 500000 # the page includes the front end
  )
done

#!/bin/bash
# Install the wheel and the sdist of a folder in fresh environments, and do README's first minute.
#   try_packages.sh dist
set -eu -o pipefail
folder=$(realpath "$1")
python=$("$(dirname "$0")/system.sh" python)

for package in "$folder"/*.whl "$folder"/*.tar.gz; do
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo "trying $(basename "$package") …"
  "$python" -m venv "$work/env"
  "$work/env/bin/pip" install -q "$package"
  cd "$work"
  env/bin/hta-widgets demo demo-job --ranks 2 --steps 2
  env/bin/hta-widgets summary demo-job
  env/bin/hta-widgets report demo-job -o report.html
  test "$(wc -c <report.html)" -gt 500000 # the page has the front end inside
  cd / && rm -rf "$work"
done

#!/bin/bash
# Every check, in one go: a failing one does not hide the next. `test.sh lint` stops before the
# tests. The test runner for Python comes last, and a table of all checks after it.
set -u -o pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
node_bin=node_modules/.bin
only=${1:-all}
table=()
failed=0

check() {
  local name=$1 begin=$SECONDS mark=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" || {
    mark=FAILED
    failed=1
  }
  table+=("$(printf '%-7s %-24s %4d s' "$mark" "$name" $((SECONDS - begin)))")
}

check "Python style" $bin/ruff check .
check "Python format" $bin/ruff format --check .
check "Python types" $bin/mypy
check "TypeScript types" $node_bin/tsc --noEmit
check "TypeScript style" npm run --silent lint

if [ "$only" = all ]; then
  check "front end" make build
  check "front end tests" $node_bin/vitest run --config js/vitest.config.ts
  check "tests" $bin/pytest
fi

echo
printf '%s\n' "${table[@]}"
exit $failed

#!/bin/bash
# Run all checks, even if some fail, and print a table of the results.
#   test.sh lint    style and types in both languages
#   test.sh check   Python style, types in both languages, fast unit tests: for each commit
#   test.sh test    all checks, with a fifth of the examples in property tests
#   test.sh all     all checks with all examples (by default 2,000)
set -u -o pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
node_bin=node_modules/.bin
only=${1:-test}
all_tests=
case $only in test | all) all_tests=1 ;; esac
# Let kernels, workers and commands reuse compiled modules.
unset PYTHONDONTWRITEBYTECODE
if [ "$only" = all ]; then export ALL_EXAMPLES=1 HYPOTHESIS_PROFILE=long; fi
TIMEFORMAT='%U + %S s of processor time'
table=()
failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

check() {
  local name=$1 begin=$SECONDS mark=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$logs/$name" || {
    mark=FAILED
    failed=1
  }
  table+=("$(printf '%-7s %-24s %4d s' "$mark" "$name" $((SECONDS - begin)))")
}

# Tests in a file run in one process, because their shared fixtures take longer than most tests.
run_pytest() {
  time $bin/pytest --dist=loadfile --durations=15 "$@"
}

# Start a single-core check in the background, to keep all cores busy.
begin() {
  local name=$1
  shift
  (
    { time "$@"; } >"$logs/$name" 2>&1
    echo $? >"$logs/$name.status"
  ) &
}

# After `wait`, show the output of a check started by `begin`.
finish() {
  cat "$logs/$1"
  rm "$logs/$1"
  return "$(<"$logs/$1.status")"
}

front_end() {
  local failed=0
  $node_bin/tsc --noEmit || failed=1
  [ "$only" = check ] || npm run --silent lint || failed=1
  [ -z "$all_tests" ] || NO_COLOR=1 $node_bin/vitest run --config js/vitest.config.ts || failed=1
  return $failed
}

check "Python style" $bin/ruff check .
check "Python format" $bin/ruff format --check .
[ -z "$all_tests" ] || check "build" make build
begin mypy $bin/mypy
begin front_end front_end
if [ "$only" = check ]; then
  check "unit tests" run_pytest --numprocesses=auto -m "not slow" tests/unit
elif [ -n "$all_tests" ]; then
  # Compile the tests first: otherwise every pytest worker would compile all of them.
  $bin/pytest --collect-only --quiet >/dev/null
  # More processes than cores, because tests wait for browsers and kernels.
  check "tests" run_pytest --numprocesses=$(($(nproc) + 2)) --no-loadscope-reorder
fi
wait
check "Python types" finish mypy
check "front end" finish front_end

echo
grep -hE '^(FAILED|ERROR) |^ *FAIL |^[A-Za-z]*Error: ' "$logs"/* | cut -c1-300
printf '%s\n' "${table[@]}"
exit $failed

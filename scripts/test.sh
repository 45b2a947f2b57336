#!/bin/bash
# The checks, in one go: a failing one does not hide the next, and a table of all comes last.
#   test.sh lint    style and types of both languages
#   test.sh check   Python style, types of both languages, quick unit tests: for each commit
#   test.sh test    all of it, with a fifth of the examples of each property
#   test.sh all     all examples as well, 2,000 of those properties that name no number
set -u -o pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
node_bin=node_modules/.bin
only=${1:-test}
all_tests=
case $only in test | all) all_tests=1 ;; esac
# Kernels, workers and command lines compile the package and the tests once, not each time.
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

# Tests of a file run in one process, since what they share takes longer to make than most of them
# do.
run_pytest() {
  time $bin/pytest --dist=loadfile --durations=15 "$@"
}

# Start a check that uses one core, to run at the same time as others: no core is idle before the
# last of them ends.
begin() {
  local name=$1
  shift
  (
    { time "$@"; } >"$logs/$name" 2>&1
    echo $? >"$logs/$name.status"
  ) &
}

# Show the output of a check that `begin` started, after a `wait`.
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
  # Workers of pytest that start together would each compile all tests, which takes them four times
  # as long as to collect compiled ones.
  $bin/pytest --collect-only --quiet >/dev/null
  # More processes than cores, as tests wait for browsers and kernels.
  check "tests" run_pytest --numprocesses=$(($(nproc) + 2)) --no-loadscope-reorder
fi
wait
check "Python types" finish mypy
check "front end" finish front_end

echo
grep -hE '^(FAILED|ERROR) |^ *FAIL |^[A-Za-z]*Error: ' "$logs"/* | cut -c1-300
printf '%s\n' "${table[@]}"
exit $failed

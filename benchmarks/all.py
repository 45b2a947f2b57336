"""Run all benchmarks, one after another, and update docs/performance*.md.

    python benchmarks/all.py [--quick] [--only load viewers] [--report]

Each script runs in its own process. Its output and run time are saved in
benchmarks/results/all.json. If a script fails or is stopped, the page shows a note instead. With
`--report`, nothing is measured, and the page is written from existing results.
"""

import argparse
import datetime as dt
import json
import subprocess
import sys
import time
from typing import Any

import _guard as guard
import _harness as harness
import _report as report
from _harness import HERE, REPO, RESULTS
from _plan import PLAN, Step

LOG = RESULTS / "all.json"


def run(step: Step, *, quick: bool) -> dict[str, Any]:
    """Run one script; return its output and how it ended."""
    script = HERE / f"{step.script}.py"
    arguments = step.quick if quick else step.full
    if not script.exists():
        return {"seconds": 0.0, "failed": f"{script.name} is not there", "text": ""}
    if arguments is None:
        return {"seconds": 0.0, "failed": "left out of a quick try", "text": ""}
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, script, *arguments],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    failed = ""
    try:
        text, errors = process.communicate(timeout=step.limit_s)
    except subprocess.TimeoutExpired:
        guard.end(process)
        text, errors = process.communicate()
        failed = f"not done after {step.limit_s} s"
    if not failed and process.returncode:
        failed = (errors.strip().splitlines() or ["no reason given"])[-1]
        print(errors[-3000:], file=sys.stderr)
    return {"seconds": time.monotonic() - begin, "failed": failed, "text": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short trial run of a few minutes")
    parser.add_argument("--only", nargs="+", choices=[step.name for step in PLAN])
    parser.add_argument("--report", action="store_true", help="write the page without measuring")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    log: dict[str, Any] = json.loads(LOG.read_text()) if LOG.exists() else {"steps": {}}
    for step in () if options.report else PLAN:
        if options.only and step.name not in options.only:
            continue
        print(f"== {step.name}", flush=True)
        facts = harness.machine()
        result = run(step, quick=options.quick)
        log["steps"][step.name] = {
            **result,
            "quick": options.quick,
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "machine": facts,
        }
        LOG.write_text(json.dumps(log, indent=1) + "\n")
        print(result["text"] + (f"\n{step.name}: {result['failed']}" if result["failed"] else ""))
        print(f"-- {step.name} took {result['seconds']:.0f} s\n", flush=True)
    report.write(report.Results.read(RESULTS))
    print("written to", *(page.relative_to(REPO) for page in report.PAGES))


if __name__ == "__main__":
    main()

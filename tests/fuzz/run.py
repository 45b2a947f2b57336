"""Try many new damaged files: ``make fuzz COUNT=10000``.

A finding shows the seed of its input. To repeat it, run ``--seed SEED --count 1``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from functools import partial

from .journey import Finding, run

LONGEST_S = 120
MOST_BYTES = 8 << 30


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


class TooLong(BaseException):
    """Raised when an input takes longer than `LONGEST_S`."""


def _late(*_: object) -> None:
    raise TooLong(f"longer than {LONGEST_S} s")


def run_seed(share: float, seed: int) -> tuple[int, list[Finding], float, int]:
    """Return the seed, its findings, the seconds taken and the peak memory of the process."""
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)  # CPU time, because the machine may be busy
    start = time.process_time()
    try:
        result = run(seed, share)
    except (Exception, TooLong) as error:  # noqa: BLE001 - also of this program
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        result = [Finding(seed, "all", f"{type(error).__name__}: {error}", place)]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return seed, result, time.process_time() - start, peak


def main() -> int:
    """Print the findings by cause; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps after loading")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    causes: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    longest, most, done = (0.0, 0), 0, 0
    with multiprocessing.Pool(arguments.jobs, _limit, maxtasksperchild=200) as pool:
        for seed, result, seconds, peak in pool.imap_unordered(
            partial(run_seed, arguments.share), seeds, chunksize=4
        ):
            done, longest, most = done + 1, max(longest, (seconds, seed)), max(most, peak)
            for finding in result:
                if finding.kind not in causes:
                    print(finding, flush=True)
                causes[finding.kind].append(finding)
            if done % 500 == 0:
                print(f"{done:,} inputs, {len(causes)} causes", flush=True)
    print(
        f"{done:,} inputs from seed {arguments.seed}: {len(causes)} causes of findings; longest"
        f" {longest[0]:.1f} s (seed {longest[1]}), peak memory {most / 1e6:,.0f} MB"
    )
    for (error, place), result in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(result):6} {place} {error} (seeds {[finding.seed for finding in result[:3]]})")
    return 1 if causes else 0


if __name__ == "__main__":
    sys.exit(main())

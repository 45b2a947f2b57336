"""Count how often a healthy rank is called a straggler, and how often a slow one is missed.

Demo jobs of 4 to 64 ranks are written with different seeds. Half of the jobs are healthy. In the
other half, a random rank is 25 to 50 % slower. The script counts jobs in which the red rows of the
timeline differ from the truth, and healthy ranks that the headline names.

    nice python stragglers.py --jobs 200
    nice python stragglers.py --jobs 200 --steps 3
    python stragglers.py --jobs 5                          # a quick try
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _harness import describe, machine, save

import hta_widgets as hw
from hta_widgets.analysis.cross_rank.stragglers import straggler_report
from hta_widgets.demo.job import write_demo
from hta_widgets.live.job import TileEngine
from hta_widgets.panels.headline import headline

RANKS = (4, 4, 8, 8, 8, 16, 16, 32, 64)
STEPS = (5, 8)
FACTORS = (1.25, 1.5)
_RECORDS = 1200  # per rank and step, for a model of three layers


def judge_job(folder: Path, seed: int, allowed: Sequence[int], *, slow: bool) -> dict[str, Any]:
    """Write a job; return the truth, and which ranks are marked, judged and named."""
    rng = np.random.default_rng([seed, 9])
    ranks, steps = int(rng.choice(RANKS)), int(rng.choice(allowed))
    rank = int(rng.integers(ranks)) if slow else None
    factor = round(float(rng.uniform(*FACTORS)), 2)
    strided, tensor = bool(rng.integers(2)), int(rng.choice((1, 2)))
    write_demo(
        folder, ranks=ranks, steps=steps, seed=seed, straggler=rank, factor=factor, format="json",
        events_per_step=_RECORDS, strided=strided and tensor > 1, tensor_ranks=tensor,
    )  # fmt: skip
    traces = hw.load(folder, cache=False, progress=False)
    engine = TileEngine(traces)
    start, end = engine.scene()["range"]
    result = headline(traces)
    pieces = [part for parts in (result.text_parts, *result.sentences) for part in parts]
    return {
        "seed": seed, "ranks": ranks, "steps": steps, "tensor_ranks": tensor, "strided": strided,
        "factor": factor if slow else 1.0,
        "truth": [] if rank is None else [rank],
        "red": engine.answer({"op": "lateness", "start": start, "end": end})[0]["late"],
        "judged": straggler_report(traces).stragglers,
        "named": sorted({p["rank"] for p in pieces if isinstance(p, dict) and "fact" not in p}),
        "facts": sorted({p["rank"] for p in pieces if isinstance(p, dict) and "fact" in p}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200, help="jobs of each kind (200)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, help="steps (5 or 8)")
    options = parser.parse_args()
    begin, result = time.perf_counter(), []
    counts = Counter[tuple[str, str]]()
    for slow in (False, True):
        kind = "slow" if slow else "healthy"
        for seed in range(options.first_seed, options.first_seed + options.jobs):
            with tempfile.TemporaryDirectory() as folder:
                single = judge_job(Path(folder) / "job", seed, options.steps, slow=slow)
            result.append(single)
            counts[kind, "jobs"] += 1
            counts[kind, "right rows"] += single["red"] == single["truth"]
            counts[kind, "red rows"] += len(single["red"])
            counts[kind, "right headline"] += single["named"] == single["truth"]
            counts[kind, "facts"] += len(single["facts"])
            if (
                not single["red"] == single["judged"] == single["named"] == single["truth"]
                or single["facts"]
            ):
                print(kind, single, flush=True)
    print(describe(machine()))
    print("\n| jobs | of | right rows | red rows | right headline | stated as a fact |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in ("healthy", "slow"):
        names = ("jobs", "right rows", "red rows", "right headline", "facts")
        print(f"| {kind} | " + " | ".join(str(counts[kind, name]) for name in names) + " |")
    seconds = time.perf_counter() - begin
    save("stragglers", {"machine": machine(), "seconds": round(seconds, 1), "jobs": result})


if __name__ == "__main__":
    main()

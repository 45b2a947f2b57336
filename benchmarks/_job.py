"""The job of ten million events that several benchmarks share. It is written only once."""

from __future__ import annotations

import sys
from pathlib import Path

from _harness import DATA

from hta_widgets.demo.job import write_demo
from hta_widgets.readers.load import load

__all__ = ["demo_job", "stored_job"]

RANKS, STEPS = 64, 51


def demo_job(ranks: int, steps: int, events_per_step: int | None = None) -> Path:
    """Return the folder of a demo job. The first call writes the job."""
    job = DATA / f"demo{ranks}x{steps}{f'x{events_per_step}' if events_per_step else ''}"
    if not job.exists():
        print(f"  writing {job.name} …", file=sys.stderr)
        # The folder is renamed once it is complete.
        partial = job.with_name(job.name + ".partial")
        write_demo(partial, ranks=ranks, steps=steps, seed=0, events_per_step=events_per_step)
        partial.rename(job)
    return job


def stored_job(ranks: int = RANKS, steps: int = STEPS) -> Path:
    """Return a store of a demo job, by default the one with ten million events."""
    job = demo_job(ranks, steps)
    store = job.with_name(job.name + ".store")
    if not store.exists():
        load(job, progress=False, cache=False, memory_limit="3 GB").save(store)
    return store

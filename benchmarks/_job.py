"""The job of ten million events that several benchmarks share, written and stored once."""

from __future__ import annotations

from pathlib import Path

from _harness import DATA

from hta_widgets.demo.job import write_demo
from hta_widgets.readers.load import load

__all__ = ["demo_job", "stored_job"]

RANKS, STEPS = 64, 51


def demo_job(ranks: int, steps: int, events_per_step: int | None, name: str) -> Path:
    """Return the folder of a demo job; it gets its name once it is complete."""
    job = DATA / name
    if not job.exists():
        partial = job.with_name(job.name + ".partial")
        write_demo(partial, ranks=ranks, steps=steps, seed=0, events_per_step=events_per_step)
        partial.rename(job)
    return job


def stored_job() -> Path:
    """Return a store of the demo job with 64 ranks and ten million events."""
    job = demo_job(RANKS, STEPS, None, f"demo{RANKS}x{STEPS}")
    store = job.with_name(job.name + ".store")
    if not store.exists():
        load(job, progress=False, cache=False, memory_limit="3 GB").save(store)
    return store

"""A demo job before and after known changes."""

import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.training_step import CHANGES

SHAPE = {"ranks": 4, "steps": 5, "events_per_step": 1600}


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    """`jobs(seed, changes)` returns traces and truth of a demo job; each job is written once."""
    by_name = {}

    def job(seed, changes=(), shape=()):
        key = seed, tuple(changes), shape
        if key not in by_name:
            folder = tmp_path_factory.mktemp("diff") / f"seed-{seed}-{len(changes)}"
            truth = write_demo(folder, seed=seed, changes=changes, **(SHAPE | dict(shape)))
            by_name[key] = hw.load(folder, cache=False, progress=False), truth
        return by_name[key]

    return job


@pytest.fixture(scope="session")
def changed(jobs):
    """The default job, another run of it with all changes, and the truth about the changes."""
    before, _ = jobs(0)
    after, truth = jobs(1, CHANGES)
    return before, after, truth

"""A random job, and two runs of a demo job; the second has an extra copy and a slow operator."""

import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.demo.job import write_demo


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 3), cache=False, progress=False)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    work = tmp_path_factory.mktemp("runs")
    write_demo(work / "a", ranks=2, steps=3, seed=0)
    write_demo(work / "b", ranks=2, steps=3, seed=1, changes=["extra_copy", "slow_operator"])
    return work / "a", work / "b"


@pytest.fixture(scope="session")
def sides(folders):
    return [hw.load(folder, cache=False, progress=False) for folder in folders]


@pytest.fixture
def view(sides):
    return hw.TraceDiff(*sides)


@pytest.fixture(scope="module")
def shown(sides):
    """A comparison that tests must not change."""
    return hw.TraceDiff(*sides)

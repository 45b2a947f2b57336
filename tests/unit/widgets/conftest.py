"""Two runs of a demo job, the second with a copy more and an operator that is slower."""

import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo


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

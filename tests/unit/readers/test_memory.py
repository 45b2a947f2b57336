"""Loading within a memory limit: ranks wait on disk, and what cannot fit is reported before."""

import warnings

import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets.readers import parallel as memory
from hta_widgets.store.ranks import StoredTrace

from .conftest import event


def test_ranks_wait_on_disk(tmp_path):
    job = write_job(tmp_path, 2, 2, 40, 4)
    found = hw.load(job, cache=False, memory_limit="2 GB")
    assert all(isinstance(trace, StoredTrace) for trace in found.values())
    assert_same(hw.load(job, cache=False), found)


@pytest.mark.parametrize(
    ("given", "size"), [("3 GB", 3e9), ("512MiB", 1 << 29), ("1.5g", 1.5e9), (7, 7), ("9", 9)]
)
def test_sizes(given, size):
    assert memory.as_bytes(given) == size


@pytest.mark.parametrize("given", ["much", "", "-1", 0, "1 XB", float("nan")])
def test_what_is_no_size(given, tmp_path):
    with pytest.raises(hw.TraceError, match=r"is no size\. Give bytes, or a text"):
        hw.load(tmp_path, memory_limit=given)


def test_fewer_files_at_a_time_under_a_limit():
    sizes = [400_000_000] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert memory.plan_load(sizes, 8_000_000_000, 8) == memory.Plan(8, set_aside=True)
        assert memory.plan_load(sizes, 1_100_000_000, 8) == memory.Plan(2, set_aside=True)
        assert memory.plan_load(sizes, 500_000_000, 8) == memory.Plan(1, set_aside=True)
    with pytest.warns(RuntimeWarning, match=r"largest file takes about 0\.4 GB .* of 0\.3 GB"):
        assert memory.plan_load(sizes, 300_000_000, 8).workers == 1


def test_a_load_that_cannot_fit_is_told_before(monkeypatch):
    monkeypatch.setattr(memory, "_available_bytes", lambda: 2_000_000_000)
    sizes = [1_000_000_000] * 9 + [1_400_000_000]
    with pytest.warns(RuntimeWarning, match=r"about 3\.7 GB of memory and 2\.0 GB are .*1\.4 GB"):
        memory.plan_load(sizes, None, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Cached ranks need not stay in memory; and two of these would not fit together.
        assert memory.plan_load(sizes, None, 2, kept=True) == memory.Plan(1, set_aside=False)


def test_the_warning_points_to_the_call(write, monkeypatch):
    monkeypatch.setattr(memory, "_available_bytes", lambda: 10)
    with pytest.warns(RuntimeWarning, match="of memory and") as caught:
        hw.load(write([event()]), cache=False)
    assert caught[0].filename == __file__

"""A real MPI timeline, compared with profiles of the same run and with known figures."""

import numpy as np
import pytest
from support.golden import MISSING, SHARED

import hta_widgets as hw
from hta_widgets.analysis import (
    clock_offsets,
    collectives,
    mpi_imbalance,
    mpi_message_sizes,
    mpi_routines,
    stragglers,
)

FOLDER = SHARED / "traces/mpitrace/np8_straggler_trace"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)


@pytest.fixture(scope="module")
def line():
    return hw.load(FOLDER / "81004.trc", cache=False, progress=False)


@pytest.fixture(scope="module")
def profiles():
    files = sorted(FOLDER.glob("mpi_profile.*"))
    return hw.load(files, cache=False, progress=False)


def test_events_are_those_of_the_file(line):
    events = line.events()
    assert events.groupby("rank").size().tolist() == [645] * 8
    assert events.name.value_counts().to_dict() == {
        "MPI_Allreduce": 4800, "MPI_Bcast": 192, "MPI_Gather": 64, "MPI_Gatherv": 64,
        "MPI_Allgather": 16, "MPI_Barrier": 8, "MPI_Comm_rank": 8, "MPI_Comm_size": 8,
    }  # fmt: skip
    spent = events.groupby("rank").dur_ns.sum() / 1e9
    assert spent.tolist() == pytest.approx(
        [1.288525, 1.265383, 1.295552, 1.259467, 1.302550, 0.368422, 1.296476, 1.308619], abs=1.1e-6
    )
    assert line.end_ns / 1e9 == pytest.approx(1.580361 - 0.000002, abs=1e-6)
    assert line.summary().job.unique().tolist() == ["81004"]


def test_the_time_line_adds_up_to_the_profiles(line, profiles):
    for analysis, *keys in (
        (mpi_routines, "rank", "routine"),
        (mpi_message_sizes, "rank", "routine", "size_lo", "size_hi"),
    ):
        ours, table = (analysis(item).set_index(keys).sort_index() for item in (line, profiles))
        assert ours.index.equals(table.index)
        assert ours.calls.tolist() == table.calls.tolist()
        assert ours.avg_bytes.round(1).tolist() == table.avg_bytes.tolist()
        assert (ours.time_s - table.time_s).abs().max() < 0.000501
    for item in (line, profiles):
        assert mpi_imbalance(item).straggler_rank.tolist() == [5]


def test_collectives_are_matched_and_the_late_rank_is_found(line):
    frame = collectives(line, clock="host")
    assert frame.attrs["matched"]["matched"] == 643
    assert frame.attrs["matched"]["unmatched"] == 0
    reduced = frame[frame.name == "MPI_Allreduce"]
    numbers = np.sort(reduced.collective.unique())
    assert len(numbers) == 600
    first = reduced[reduced.collective.isin(numbers[::20])]
    last = first.groupby("collective").last_rank.first()
    assert np.bincount(last, minlength=8).tolist() == [0, 0, 0, 0, 0, 22, 0, 8]
    arrivals = first.groupby("collective").arrival_ns
    spread = (arrivals.max() - arrivals.min()).mean() / 1e9
    assert spread == pytest.approx(0.023616, abs=1e-6)
    # Ranks wait in the first all-reduce of a step, where they meet after computing.
    assert first.wait_ns.sum() / reduced.wait_ns.sum() > 0.9
    blamed = stragglers(line).set_index("rank")
    assert blamed.index[blamed.is_straggler].tolist() == [5]
    # Rank 0 waits for rank 5 in gathers, after which all other ranks wait for rank 0.
    assert blamed.cause[0] == "waiting elsewhere"


def test_the_clocks_are_aligned(line):
    def left_too_early(frame):
        """Return, for each collective, how long before the last arrival its first rank left."""
        grouped = frame[frame.name == "MPI_Allreduce"].groupby("collective")
        return grouped.arrival_ns.max() - grouped.end_ns.min()

    recorded = left_too_early(collectives(line, clock="host"))
    assert (recorded > 0).sum() == 552
    assert recorded.max() == pytest.approx(143_000, abs=600)
    fitted = left_too_early(collectives(line, clock="fitted"))
    assert (fitted > 0).sum() < 60
    assert clock_offsets(line).residual_ns.max() < 10_000


def test_what_is_exported_is_the_same_trace(line, tmp_path):
    path = tmp_path / "line.json.gz"
    window = line.select(start_ns=100_000_000, end_ns=200_000_000)
    report = hw.export_trace(line, path, window)
    again = hw.load(path, cache=False, progress=False)
    assert report.events == len(window.events()) == len(again.events())
    assert again.ranks == list(range(8))
    cut = collectives(line, selection=window)
    assert len(collectives(again)) == len(cut)
    hw.export_trace(line, tmp_path / "whole.json")
    full = hw.load(tmp_path / "whole.json", cache=False, progress=False)
    for column in ("start_ns", "dur_ns", "name", "kind", "track"):
        assert full.events()[column].tolist() == line.events()[column].tolist()
    assert full[5].args(600) == line[5].args(600)
    assert mpi_routines(full).calls.tolist() == mpi_routines(line).calls.tolist()
    single = hw.export_trace(line, tmp_path / "one.json", line.select(ranks=[5]))
    assert single.ranks == (5,)
    assert hw.load(tmp_path / "one.json", cache=False, progress=False).ranks == [5]

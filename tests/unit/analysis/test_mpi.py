"""MPI analyses of hand-written jobs, and of generated jobs with known truth."""

import dataclasses
import struct

import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis import (
    collectives,
    mpi_compare,
    mpi_hosts,
    mpi_imbalance,
    mpi_message_sizes,
    mpi_negotiation,
    mpi_ranks,
    mpi_routines,
    stragglers,
)
from hta_widgets.demo.mpi import profile_text, write_mpi_job
from hta_widgets.formats.mpi.model import CallRow, MpiProfile, RankRow, Summary
from hta_widgets.panels.headline import headline

BARRIER, ALLREDUCE, BCAST, GATHER = 35, 39, 33, 45
NAMES = [name for name in analysis.__all__ if name.startswith("mpi_")]


def load(path):
    return hw.load(path, cache=False, progress=False)


def profiles(folder, comm, elapsed=10.0, hosts=("a",), job=1):
    """Write rank 0's profile of a job; its table lists the MPI time of each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        RankRow(rank, hosts[rank * len(hosts) // len(comm)], 0, time, elapsed, 1, 1, 100, 5)
        for rank, time in enumerate(comm)
    ]
    extremes = ((min(comm), comm.index(min(comm))), (0.0, 0), (max(comm), 0))
    profile = MpiProfile(
        str(job), 0, len(comm), ("MPI_Init()", "MPI_Finalize()"), (), comm[0],
        elapsed_s=elapsed, user_s=1, system_s=1, rss_mib=100,
        routine_rows=(
            CallRow("MPI_Barrier", 4, 0.0, comm[0] / 4),
            CallRow("MPI_Allreduce", 10, 52.8, comm[0] / 2),
            CallRow("MPI_Gather", 2, 4.0, comm[0] / 4),
            CallRow("MPI_File_open", 1, 0.0, 3.0),
        ),
        size_rows=(
            CallRow("MPI_Allreduce", 6, 8.0, comm[0] / 8),
            CallRow("MPI_Allreduce", 4, 120.0, comm[0] * 3 / 8),
            CallRow("MPI_Gather", 2, 4.0, comm[0] / 4),
        ),
        summary=Summary(tuple(rows), (), (), extremes, (100.0, 0), (elapsed, 0)),
    )  # fmt: skip
    (folder / f"mpi_profile.{job}.0").write_text(profile_text(profile))
    return load(folder)


def line(folder, *calls, job=7):
    """Write a timeline of calls: (rank, routine, begin and end in ms, size, root)."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{job}.trc"
    with path.open("wb") as file:
        for rank, routine, begin, end, size, root in sorted(calls, key=lambda call: call[0]):
            source, target = (root, -1) if routine == BCAST else (-1, root)
            words = (source, target, size, 0, 0, 0)
            file.write(struct.pack("<ddiiiiiIIi", begin / 1e3, end / 1e3, rank, routine, *words))
    return load(path)


def test_shares_of_routines_and_sizes(tmp_path):
    traces = profiles(tmp_path / "job", [4.0, 4.0])
    table = mpi_routines(traces).set_index("routine")
    assert table.share_of_time.round(9).fillna(-1).to_dict() == {
        "MPI_Barrier": 0.25, "MPI_Allreduce": 0.5, "MPI_Gather": 0.25, "MPI_File_open": -1.0,
    }  # fmt: skip
    assert table.share_of_elapsed["MPI_File_open"] == pytest.approx(0.3)
    assert table.mean_us["MPI_Allreduce"] == pytest.approx(200_000)
    sizes = mpi_message_sizes(traces, routine="MPI_Allreduce")
    assert sizes[["size_lo", "size_hi"]].values.tolist() == [[5, 8], [65, 128]]
    assert sizes.share_of_calls.tolist() == [0.6, 0.4]
    assert sizes.share_of_time.tolist() == [0.25, 0.75]
    assert sizes.share_of_bytes.tolist() == pytest.approx([48 / 528, 480 / 528])
    assert sizes.gb_per_s.tolist() == pytest.approx([96e-9, 320e-9])
    (row,) = mpi_negotiation(traces).itertuples()
    assert (row.calls, row.share_of_calls, row.share_of_time) == (6, 0.6, 0.25)
    assert row.share_of_comm == pytest.approx(0.125)
    assert (row.coordination_calls, row.coordination_time_s) == (2, 1.0)
    assert mpi_negotiation(traces, limit_bytes=128).share_of_calls.tolist() == [1.0]
    assert mpi_negotiation(traces, routine="MPI_Bcast").attrs["note"] == "no rank calls MPI_Bcast"


def test_the_straggler_is_the_rank_with_least_time_in_mpi(tmp_path):
    traces = profiles(tmp_path / "job", [5.0, 5.2, 1.0, 5.0])
    (row,) = mpi_imbalance(traces).itertuples()
    assert (row.straggler_rank, row.comm_max_rank, row.is_straggler) == (2, 1, True)
    assert row.comm_mean_s == pytest.approx(4.05)
    assert row.imbalance_pct == pytest.approx(100 * (5.2 / 4.05 - 1))
    assert row.imbalance_cray_pct == pytest.approx(100 * (5.2 - 4.05) / 5.2 * 4 / 3)
    assert row.noncomm_ratio == pytest.approx(9 / 5.95)
    longest = "Rank 1 has the most time in MPI because it waits longest"
    for words in ("Rank 2", "the others wait for it", longest):
        assert words in row.explanation
    (row,) = mpi_imbalance(profiles(tmp_path / "even", [5.0, 5.1, 5.0, 5.2])).itertuples()
    assert not row.is_straggler
    assert "no rank stands out" in row.explanation
    pair = profiles(tmp_path / "pair", [5.0, 1.1, 1.0, 5.0, 5.1, 5.0])
    (row,) = mpi_imbalance(pair).itertuples()
    assert (row.straggler_rank, row.is_straggler) == (2, False), "rank 1 is as late"
    assert "but rank 1 (1.10 s) has almost as little" in row.explanation
    (row,) = mpi_imbalance(profiles(tmp_path / "alone", [5.0])).itertuples()
    assert (row.straggler_rank, row.imbalance_pct) == (-1, 0.0)
    assert row.imbalance_cray_pct != row.imbalance_cray_pct


def test_a_costly_rank_of_a_time_line_is_stated_even_if_it_may_be_chance(tmp_path):
    """Because of the single all-reduce of 40 bytes, the run has only one step.

    In a run of 42 ms, the other ranks wait five times for rank 1, 1.2 ms each.
    """
    rounds = [(0, 8), (10, 8), (20, 40), (30, 8), (40, 8)]
    traces = line(
        tmp_path / "job",
        *((rank, ALLREDUCE, start + 8 + 1.2 * (rank == 1), start + 10, size, -1)
          for rank in range(4) for start, size in rounds),
    )  # fmt: skip
    assert not stragglers(traces)["is_straggler"].any()
    assert "Rank 1 keeps the others waiting for 14\u202f% of their time, maybe by chance." in str(
        headline(traces)
    )


def test_a_host_whose_ranks_are_all_waited_for(tmp_path):
    traces = profiles(tmp_path / "job", [5.0, 5.2, 1.0, 1.1], hosts=("near", "far"))
    hosts = mpi_hosts(traces).set_index("host")
    assert hosts.is_slow.to_dict() == {"near": False, "far": True}
    assert hosts.ranks.tolist() == [2, 2]
    assert hosts.comm_mean_s.tolist() == pytest.approx([5.1, 1.05])
    mixed = profiles(tmp_path / "mixed", [5.0, 1.0, 5.2, 1.1], hosts=("near", "far"))
    assert not mpi_hosts(mixed).is_slow.any()
    assert not mpi_hosts(profiles(tmp_path / "one", [5.0, 1.0])).is_slow.any()


def test_two_runs_compare_by_rank(tmp_path):
    first, two = profiles(tmp_path / "a", [4.0, 4.0]), profiles(tmp_path / "b", [2.0] * 4, job=2)
    change = mpi_compare(first, two).set_index(["routine", "size_hi"])
    assert change.loc["MPI_Allreduce", 8].diff_time_s == pytest.approx(-0.25)
    assert change.loc["MPI_Barrier", -1].diff_calls == 0
    assert set(change.change) == {"same"}
    for words in ("ranks 0 of 2 only", "differ in size"):
        assert words in change.attrs["note"]
    # A folder with two jobs, opened without a job name.
    both = hw.load([*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()], cache=False)
    assert mpi_imbalance(both).job.tolist() == ["1", "2"]
    assert "2 jobs" in mpi_compare(both, two).attrs["note"]
    # Jobs with the same number in two folders.
    for name in ("before", "after"):
        profiles(tmp_path / "both" / name, [1.0, 2.0])
    assert mpi_imbalance(load(tmp_path / "both")).job.tolist() == ["after/1", "before/1"]


def test_profiles_are_totals_that_no_window_can_cut(tmp_path):
    folder = tmp_path / "job"
    write_mpi_job(folder, ranks=2, steps=2, hosts=1)
    traces = load(folder)
    assert set(mpi_routines(traces).source) == {"profile"}
    part = mpi_routines(traces, window=(0, 5_000_000))
    assert set(part.source) == {"trace"}
    assert "2 text profiles are left out" in part.attrs["note"]
    assert part.time_s.max() < 0.005
    assert part.calls.sum() < mpi_routines(traces).calls.sum()
    texts = load(list(folder.glob("mpi_profile*")))
    assert mpi_routines(texts, window=(0, 5)).empty
    assert "text profiles are left out" in mpi_routines(texts, window=(0, 5)).attrs["note"]


def test_every_analysis_works_on_a_time_line(tmp_path):
    traces = line(
        tmp_path,
        *((rank, ALLREDUCE, 1 + rank, 5 + rank / 100, 8, -1) for rank in range(3)),
        *((rank, BARRIER, 7, 8, -1, -1) for rank in range(3)),
    )
    names = (
        "temporal_breakdown idle_time_breakdown kernel_breakdown launch_stats queue_length "
        "comm_comp_overlap operators stragglers clock_offsets device_idle_breakdown "
        "communication_by_group job_critical_path"
    )
    for name in names.split():
        getattr(analysis, name)(traces)


def test_who_left_did_not_wait(tmp_path):
    traces = line(
        tmp_path,
        # In a gather, rank 0 waits for rank 1; rank 2 delivers its data and continues.
        (0, GATHER, 1, 9.1, 4, 0),
        (1, GATHER, 9, 9.1, 4, 0),
        (2, GATHER, 2, 2.5, 4, 0),
        # Then all ranks wait for the broadcast of rank 0.
        (0, BCAST, 9.2, 9.3, 4, 0),
        (1, BCAST, 9.15, 9.4, 4, 0),
        (2, BCAST, 2.6, 9.4, 4, 0),
    )
    frame = collectives(traces, clock="host")
    assert frame.wait_ns.tolist() == [8_000_000, 0, 500_000, 0, 50_000, 6_600_000]
    assert frame.last_rank.tolist() == [1, 1, 1, 0, 0, 0]
    assert frame.attrs["matched"]["matched"] == 2
    assert frame.group.unique().tolist() == ["MPI MPI_Gather", "MPI MPI_Bcast"]


def test_sizes_count_what_all_ranks_bring(tmp_path):
    allgather = 53
    traces = line(tmp_path, *((rank, allgather, 0, 1, 100, -1) for rank in range(4)))
    frame = collectives(traces, clock="host")
    assert frame.size_bytes.tolist() == [400] * 4
    assert frame.busbw_gb_s.tolist() == pytest.approx([400 / 1e6 * 3 / 4] * 4)


def test_ranks_that_call_unequally_often_are_not_matched(tmp_path):
    """Communicators are not recorded, so the participating ranks are unknown."""
    first, two = (0, ALLREDUCE, 1, 2, 8, -1), (1, ALLREDUCE, 1, 2, 40, -1)
    barriers = [(rank, BARRIER, 5, 6, -1, -1) for rank in range(2)]
    traces = line(tmp_path, first, two, (1, ALLREDUCE, 3, 4, 8, -1), *barriers)
    frame = collectives(traces, clock="host")
    assert frame.name.tolist() == ["MPI_Barrier"] * 2
    assert frame.attrs["matched"]["unmatched"] == 3
    # A truncated rank is matched as far as possible.
    calls = [(rank, ALLREDUCE, k, k + 0.5, 8, -1) for rank in range(2) for k in range(5)]
    frame = collectives(line(tmp_path / "cut", *calls[:-2]), clock="host")
    assert frame.collective.tolist() == [0, 0, 1, 1, 2, 2]
    assert frame.attrs["matched"]["unmatched"] == 2


def test_two_jobs_are_not_matched_with_each_other(tmp_path):
    for job in (7, 8):
        line(tmp_path, *((rank, BARRIER, 1, 2, -1, -1) for rank in range(2)), job=job)
    frame = collectives(load(tmp_path), clock="host")
    assert frame.groupby("collective")["rank"].agg(list).tolist() == [[0, 1], [2, 3]]


def test_the_made_up_straggler_is_found_in_both_inputs(tmp_path):
    truth = write_mpi_job(tmp_path, ranks=6, steps=8, slow_rank=4, hosts=2, files="default")
    texts = load([path for path in tmp_path.iterdir() if path.suffix != ".trc"])
    lines = load(tmp_path / "90001.trc")
    for traces in (texts, lines):
        (row,) = mpi_imbalance(traces).itertuples()
        assert (row.straggler_rank, row.is_straggler, row.ranks) == (4, True, 6)
    assert mpi_ranks(texts).host.tolist() == truth["hosts"]
    blamed = stragglers(lines).set_index("rank")
    assert blamed.index[blamed.is_straggler].tolist() == [4]
    assert blamed.cause[4] == "host work"


def test_gradients_that_go_elsewhere_leave_the_negotiation(tmp_path):
    for name, gpu in (("cpu", False), ("gpu", True)):
        write_mpi_job(tmp_path / name, ranks=2, steps=4, hosts=1, gpu=gpu, traces=False)
    cpu, gpu = load(tmp_path / "cpu"), load(tmp_path / "gpu")
    assert mpi_negotiation(cpu).share_of_calls.tolist() == [0.6, 0.6]
    assert mpi_negotiation(gpu).share_of_bytes.tolist() == [1.0, 1.0]
    gone = mpi_compare(cpu, gpu)
    removed = gone[(gone.routine == "MPI_Allreduce") & (gone.change == "removed")]
    assert removed.diff_calls.sum() == -8 * 4


def test_profiles_can_be_pickled_and_compared(tmp_path):
    traces = profiles(tmp_path / "job", [1.0, 2.0])
    profile = traces[0].profile
    assert dataclasses.replace(profile, stale=True) == profile
    assert profile.sizes.size_hi.tolist() == [8, 128, 4]
    assert profile.ranks.comm_s.tolist() == [1.0, 2.0]
    assert "rank 0 of 2" in repr(profile)

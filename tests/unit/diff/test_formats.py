"""BytePS and MPI runs side by side: generated jobs with known truth, one of them changed."""

from pathlib import Path

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import diff as hd
from hta_widgets.analysis import mpi_ranks
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.formats.mpi.ranks import mpi_stragglers
from hta_widgets.text import duration

pytestmark = pytest.mark.slow

LEVELS = ("kind", "cause", "operator", "kernel")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """`job(write, **options)` returns a generated job and its truth; each is written once."""
    by_name = {}

    def made(write, **options):
        key = write.__name__, *sorted(options.items())
        if key not in by_name:
            folder = tmp_path_factory.mktemp("formats") / f"job{len(by_name)}"
            truth = write(folder, **options)
            by_name[key] = hw.load(folder, cache=False, progress=False), truth
        return by_name[key]

    return made


def byteps(job, **options):
    return job(write_byteps_job, **{"seed": 1, "slow_worker": None, **options})[0]


def mpi(job, **options):
    every = {"ranks": 4, "hosts": 1, "seed": 1, "slow_rank": None, **options}
    return job(write_mpi_job, **every)[0]


def said(diff):
    return [(finding.kind, finding.text.replace("\u202f", " ")) for finding in hd.findings(diff)]


def adds_up(diff):
    for by in LEVELS:
        bars = hd.waterfall(diff, by)
        assert bars["diff_ns"].sum() == bars.attrs["after_ns"] - bars.attrs["before_ns"]
        assert bars["before_ns"].sum() == bars.attrs["before_ns"]
        assert (bars[["before_ns", "after_ns"]] >= 0).all(axis=None)


# --- BytePS ---------------------------------------------------------------------------------------


def test_a_worker_that_comes_late_is_found_out(job):
    before, (after, truth) = byteps(job), job(write_byteps_job, seed=1, slow_worker=1)
    diff = hd.compare(before, after)
    assert truth["slow_worker"] == 1
    # The last of five traced steps has no end in the files.
    assert (diff.step_count, diff.before.ranks) == (4, [0, 1, 2, 3])
    assert diff.before.table_ranks == [0, 1, 2, 3, 4, 5]
    adds_up(diff)
    # A GPU's step lasts from the start of one step's first synchronization to that of the next.
    for side in diff.sides:
        for rank, part in side.parts.items():
            totals = part.trace.events.query("tid == 'total'")
            begins = totals.groupby("step")["start_ns"].min().to_numpy()
            assert (np.diff(begins) == np.diff(side.windows[rank], axis=1)[:, 0]).all()
    texts = dict(said(diff)[::-1])
    assert texts["headline"].startswith("After takes 12.5 ms longer a step")
    assert texts["straggler"].startswith("Worker 1 is now the one that the others wait for")
    stages = [text for kind, text in said(diff) if kind == "stage"]
    assert [text.split(" takes")[0] for text in stages] == ["PULL", "Waiting for the root GPU"]
    # Only one GPU per worker pulls, and no other GPU is in the mean.
    pulls = []
    for part in diff.before.parts.values():
        events = part.trace.events.query("name.str.endswith('.PULL') and tid != 'total'")
        if len(events):
            pulls.append(events[events["step"].isin(diff.before.steps)]["dur_ns"].sum())
    assert len(pulls) == 2 < len(diff.before.ranks)
    mean = sum(pulls) / len(pulls) / diff.step_count
    tables = hd.tables(diff)
    assert tables["byteps_stages"].set_index("stage").loc["PULL", "before_work_ns"] == mean
    assert f": {duration(mean)} → ".replace("\u202f", " ") in stages[0]
    assert " per step and GPU in which it occurs, summed over partitions" in stages[0]
    names = ("stages", "tensors", "workers", "lag", "servers")
    assert list(tables) == ["waterfall", "steps", *(f"byteps_{name}" for name in names)]
    workers = tables["byteps_workers"].set_index("worker")
    assert workers["after_straggler"].tolist() == [False, True]
    # The worker comes 12 to 14 ms late.
    assert 11e6 < workers["diff_step_ns"].min() < workers["diff_step_ns"].max() < 14.5e6
    assert (tables["byteps_lag"]["after_straggler"].sum()) == 1
    assert len(tables["byteps_tensors"]) == 12
    tensors = tables["byteps_tensors"]
    parts = sum(tensors[f"after_{name}_ns"] for name in ("busy", "queue", "tail"))
    assert np.allclose(parts, tensors["after_total_ns"])


def test_stages_of_two_byteps_runs_are_those_of_the_truth(job):
    sides = [byteps(job, servers=servers) for servers in (2, 1)]
    # All steps of the truth.
    diff = hd.compare(*(traces.select("step < 4") for traces in sides))
    full = hd.compare(*sides)
    assert full.step_count == diff.step_count == 4
    stages = hd.tables(full)["byteps_stages"].set_index("stage")
    for word, traces in zip(("before", "after"), sides, strict=True):
        events = traces.select("step < 4", ranks=[0, 1, 2, 3]).events()
        pushes = events[events["name"].astype(str).str.endswith(".PUSH")]
        # Only the two root GPUs push, in four steps.
        expected = pushes["dur_ns"].sum() / 8
        assert stages.loc["PUSH", f"{word}_work_ns"] == pytest.approx(expected)
        assert stages.loc["PUSH", f"{word}_count"] == len(pushes) / 8
    stages = {text.split(" takes")[0] for kind, text in said(full) if kind == "stage"}
    assert stages == {"PUSH", "Waiting for the root GPU"}


@pytest.mark.parametrize("seed", range(40, 44))
def test_two_stretches_of_one_byteps_job_differ_in_nothing(job, seed):
    sides = [byteps(job, seed=seed, first_step=first, steps=6) for first in (3, 11)]
    diff = hd.compare(*sides)
    assert said(diff) == []
    adds_up(diff)


# --- MPI ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [True, False])
def test_a_rank_that_computes_longer_is_found_out(job, lines):
    diff = hd.compare(mpi(job, traces=lines), mpi(job, traces=lines, slow_rank=2))
    texts = said(diff)
    assert texts[0][0] == "headline"
    assert texts[-1][1].startswith("The others now wait for rank 2")
    longer = {text.split(" takes")[0] for kind, text in texts if kind in {"slower", "routine"}}
    # Routines in which ranks meet after computing.
    assert {"MPI_Allreduce", "MPI_Gather", "MPI_Bcast"} <= longer
    assert not {kind for kind, _ in texts} & {"calls", "added", "removed", "moved"}
    result = hd.tables(diff)
    bars = result["mpi_times"]
    assert bars["diff_ns"].sum() == bars.attrs["after_ns"] - bars.attrs["before_ns"]
    ranks = result["mpi_ranks"].set_index("rank")
    assert ranks["diff_noncomm_s"].idxmax() == 2
    if lines:
        # Without a device, host events are compared by name.
        assert "MPI_Allreduce" in set(hd.names(diff)["name"])
        # The profile and the timeline of a rank count as one rank.
        assert diff.before.ranks == diff.before.table_ranks == [0, 1, 2, 3]
        adds_up(diff)
        waits = result["mpi_waits"].set_index("name").loc["MPI_Allreduce"]
        # The whole difference is waiting; the same data is moved.
        assert abs(waits["diff_transfer_ns"]) < 1e-3 * waits["diff_wait_ns"]


def test_gradients_that_went_to_another_library_are_gone(job):
    diff = hd.compare(mpi(job, traces=False), mpi(job, traces=False, gpu=True))
    calls = [text for kind, text in said(diff) if kind == "calls"]
    gone = "MPI_Allreduce of 4 194 305 to 8 388 608 bytes is gone: 30 calls a rank"
    assert calls[0].startswith(gone)
    sizes = hd.tables(diff)["mpi_message_sizes"]
    assert set(sizes.loc[sizes["change"] == "removed", "routine"]) == {"MPI_Allreduce", "MPI_Bcast"}


@pytest.mark.parametrize("seed", range(40, 46, 2))
@pytest.mark.parametrize("lines", [True, False])
def test_two_runs_of_one_mpi_job_differ_in_nothing(job, seed, lines):
    diff = hd.compare(*(mpi(job, traces=lines, seed=seed + k) for k in (0, 1)))
    assert said(diff) == []


@pytest.mark.parametrize("lines", [True, False])
def test_other_mpi_ranks_stand_beside_each_other_in_order(job, lines):
    traces = mpi(job, ranks=8, traces=lines, slow_rank=2)
    diff = hd.compare(traces.select(ranks=[0, 1, 2, 3]), traces.select(ranks=[4, 5, 6, 7]))
    result = hd.tables(diff)
    for name in ("mpi_ranks", "mpi_negotiation"):
        assert result[name]["rank"].tolist() == ["0 → 4", "1 → 5", "2 → 6", "3 → 7"]
    table = result["mpi_ranks"]
    for word, numbers in (("before", [0, 1, 2, 3]), ("after", [4, 5, 6, 7])):
        own = mpi_ranks(traces, ranks=numbers).set_index("rank").loc[numbers, "comm_s"]
        assert own.nunique() > 1
        assert table[f"{word}_comm_s"].tolist() == own.tolist()
    assert (table["diff_comm_s"] == table["after_comm_s"] - table["before_comm_s"]).all()
    # Ranks paired by hand in another order, then a rank without a partner.
    by_hand = hd.compare(traces, traces, ranks={0: 5, 1: 4})
    assert hd.tables(by_hand)["mpi_ranks"]["rank"].tolist() == ["0 → 5", "1 → 4"]
    uneven = hd.compare(traces.select(ranks=[0, 1]), traces.select(ranks=[4]))
    assert hd.tables(uneven)["mpi_ranks"]["rank"].tolist() == ["0 → 4", "1"]
    # If a rank is on both sides, its number alone identifies the row.
    shared = hd.compare(traces.select(ranks=[0, 1]), traces.select(ranks=[0, 1]))
    assert hd.tables(shared)["mpi_negotiation"]["rank"].tolist() == [0, 1]


def test_mpi_ranks_find_each_other_whatever_else_their_folders_hold(job):
    profiles = mpi(job, traces=False)
    folders = [Path(mpi(job, seed=seed, traces=False)[0].path).parent for seed in (2, 3)]
    both = hw.load(folders, cache=False, progress=False)
    # In a set of two jobs, the ranks of the second are numbered 4 to 7.
    assert [both[rank].stated_rank for rank in (4, 5, 6, 7)] == [0, 1, 2, 3]
    for ours in (both.subset(ranks=[4, 5, 6, 7]), both.subset(ranks=[7, 5, 6, 4])):
        diff = hd.compare(profiles, ours)
        assert sorted(diff.rank_pairs) == [(0, 4), (1, 5), (2, 6), (3, 7)]
        [caution] = [one.text for one in diff.cautions if one.kind == "rank"]
        assert caution.startswith("the same ranks under new numbers")
        assert caution.endswith("0 → 4, 1 → 5, 2 → 6, 3 → 7")
    # A single rank is paired with its own number, and all others stay unpaired.
    second = both.subset(ranks=[4, 5, 6, 7])
    fewer = hd.compare(profiles.select(ranks=[2]), second, ranks="number")
    assert fewer.rank_pairs == [(2, 6)]
    apart = hd.compare(profiles.select(ranks=[0]), both.select(ranks=[5]))
    assert [one.text for one in apart.cautions if one.kind == "rank"] == ["different rank: 0 → 5"]


def test_a_run_of_profiles_and_one_with_time_lines_compare_by_their_profiles(job):
    profiles, both = mpi(job, traces=False), mpi(job, slow_rank=2)
    diff = hd.compare(profiles, both)
    assert diff.rank_pairs == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert [caution.kind for caution in diff.cautions] == ["format"]
    alone = hd.compare(profiles, mpi(job, slow_rank=2, traces=False))
    assert said(diff)[:-1] == said(alone)
    assert said(diff)[-1][0] == "caution"
    for name, table in hd.tables(alone).items():
        assert hd.tables(diff)[name].equals(table)


# --- different and similar runs -------------------------------------------------------------------


def test_unlike_formats_are_refused_in_words(job):
    with pytest.raises(hw.TraceError, match=r"BytePS .* cannot be compared with MPI profiles"):
        hd.compare(byteps(job), mpi(job, traces=False))
    # Timelines and profiles are both from MPI, so tables can compare them.
    diff = hd.compare(mpi(job).subset(ranks=range(4)), mpi(job, traces=False))
    assert "mpi_routines" in hd.tables(diff)
    servers = byteps(job).subset(ranks=[4, 5])
    with pytest.raises(hw.TraceError, match="workers' traces cannot be compared with BytePS serv"):
        hd.compare(byteps(job).subset(ranks=[0, 1]), servers)
    assert list(hd.tables(hd.compare(servers, servers)))[-2:] == ["byteps_lag", "byteps_servers"]


def test_waiting_that_is_too_short_for_profiles_is_told_of_time_lines(job):
    calm, other, slow = (
        mpi(job, ranks=8, steps=5, seed=seed, slow_rank=rank, factor=1.25)
        for seed, rank in ((1, None), (2, None), (3, 5))
    )
    texts = dict(said(hd.compare(calm, slow)))
    assert texts["waiting"].startswith("Ranks wait longer for each other: ")
    assert dict(said(hd.compare(slow, calm)))["waiting"].startswith("Ranks wait less")
    assert said(hd.compare(calm, other)) == []


@pytest.mark.parametrize("lines", [True, False])
def test_a_comparison_names_whom_the_pages_of_its_runs_name(job, lines):
    calm, slow = (mpi(job, traces=lines, slow_rank=rank) for rank in (None, 2))
    ranks = [0, 1, 2]  # one of four may be missing, so no verdict
    for before, after in ((calm, slow), (slow, calm), (slow, slow)):
        diff = hd.compare(before.select(ranks=ranks), after.select(ranks=ranks))
        own = [{rank for _, rank in mpi_stragglers(side)} for side in (before, after)]
        (row,) = hd.tables(diff)["mpi_imbalance"].itertuples()
        assert [set(row.before_late), set(row.after_late)] == own
        assert [row.before_is_straggler, row.after_is_straggler] == [bool(late) for late in own]
        texts = [text for kind, text in said(diff) if kind == "straggler"]
        verb = "now wait" if own[1] else "no longer wait"
        expected = [] if own[0] == own[1] else [f"The others {verb}"]
        assert [text.split(" for rank 2")[0] for text in texts] == expected


def test_calls_that_changed_on_some_ranks_alone_are_not_called_the_same(job):
    diff = hd.compare(byteps(job), byteps(job, slow_worker=1))
    result = hd.pairs(diff)
    matched = result[result["status"].isin(["same", "changed"])]
    factor = matched["after_ns"] / matched["before_ns"].clip(lower=1)
    pulls = matched["name"].str.endswith("PULL") & (factor > 5)
    assert pulls.sum() > 20
    assert (matched["status"][pulls] == "changed").mean() > 0.9

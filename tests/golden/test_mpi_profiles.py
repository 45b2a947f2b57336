"""MPI profiles of real runs, compared with the results of independent readers."""

import json
import math

import pytest
from support import recorded
from support.golden import GOLDEN, MISSING, SHARED

from hta_widgets import diff as hd
from hta_widgets.analysis import (
    mpi_call_stacks,
    mpi_compare,
    mpi_imbalance,
    mpi_message_sizes,
    mpi_negotiation,
    mpi_ranks,
    mpi_routines,
)
from hta_widgets.demo.mpi import profile_text
from hta_widgets.formats.mpi.profiles import parse_profiles
from hta_widgets.formats.mpi.ranks import mpi_stragglers
from hta_widgets.panels.headline import headline, text_of

FOLDER = SHARED / "traces/mpitrace"
REFERENCES = sorted(
    path.name
    for pattern in ("mpitrace__*.json", "seed__*.json")
    for path in (GOLDEN / "formats").glob(pattern)
)
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*") if path.is_file())
PROFILES = [name for name in FILES if not name.endswith(".trc")]
#: Files with optional sections, which our writer leaves out.
WITH_SECTIONS = ("np4_ctx", "np8_subcomm", "np8_callstack")

pytestmark = pytest.mark.skipif(not REFERENCES or not FILES, reason=MISSING)


def load(name):
    return recorded.load(FOLDER / name)


def reference(name):
    truth = json.loads((GOLDEN / "formats" / name).read_text("utf-8"))
    parts = name.removesuffix(".json").split("__")
    folder = "seed" if parts[0] == "seed" else parts[1]
    return truth, load(f"{folder}/{parts[-1]}")


@pytest.mark.parametrize("name", REFERENCES)
def test_routines_and_sizes_are_those_of_the_reference(name):
    truth, traces = reference(name)
    (trace,) = traces.values()
    profile = trace.profile
    assert (profile.rank, profile.ntasks) == (truth["rank"], truth["ntasks"])
    assert (profile.comm_s, profile.elapsed_s) == (truth["comm"], truth["elapsed"])
    table = mpi_routines(traces)
    moved = table[~table.is_io].set_index("routine")
    assert list(moved.index) == list(truth["routine"])
    for routine, of in truth["routine"].items():
        row = moved.loc[routine]
        assert (row.calls, row.avg_bytes, row.time_s) == (of["calls"], of["avg"], of["time"])
        assert row.share_of_time == pytest.approx(of["share_time"], abs=5e-7)
    assert moved.bytes.sum() == pytest.approx(truth["bytes_total"], abs=0.1 * moved.calls.sum())
    assert moved.time_s.sum() == pytest.approx(truth["sum_routine_time"], abs=1e-9)
    sizes = mpi_message_sizes(traces)
    for routine in ("MPI_Allreduce", "MPI_Bcast"):
        if routine in truth:
            check_sizes(sizes[sizes.routine == routine], truth[routine], profile)


def check_sizes(bins, of, profile):
    assert bins.calls.sum() == of["calls"]
    assert bins.time_s.sum() == pytest.approx(of["time"], abs=1e-9)
    assert bins.bytes.sum() == pytest.approx(of["bytes"], abs=0.06)
    small = bins[bins.size_hi <= 8]
    assert (small.calls.sum(), small.time_s.sum()) == (of["le8_calls"], of["le8_time"])
    eight = bins[bins.size_hi == 8]
    assert eight.calls.sum() == of["bin8_calls"]
    assert eight.share_of_calls.sum() == pytest.approx(of["bin8_share_calls"], abs=5e-6)
    if of["bin8_share_time"] is not None:
        assert eight.share_of_time.sum() == pytest.approx(of["bin8_share_time"], abs=5e-7)
    assert eight.share_of_bytes.sum() == pytest.approx(of["bin8_share_bytes"], rel=1e-9)
    share = eight.time_s.sum() / profile.comm_s
    assert share == pytest.approx(of["bin8_share_comm"], abs=5e-7)
    if of["bin8_mean_us"] is not None:
        assert eight.mean_us.item() == pytest.approx(of["bin8_mean_us"], abs=0.006)
    largest = bins.iloc[-1]
    assert (largest.calls, largest.avg_bytes) == (of["largest"]["calls"], of["largest"]["avg"])
    rate = math.nan if of["largest"]["gbps_bytes"] is None else of["largest"]["gbps_bytes"]
    assert largest.gb_per_s == pytest.approx(rate, abs=6e-5, nan_ok=True)


@pytest.mark.parametrize("name", REFERENCES)
def test_ranks_and_imbalance_are_those_of_the_reference(name):
    truth, traces = reference(name)
    of = truth["table"]
    ranks, uneven = mpi_ranks(traces), mpi_imbalance(traces)
    assert len(ranks) == of["n"]
    assert sorted(set(ranks.host)) == of["hosts"]
    assert ranks.user_s.sum() == pytest.approx(of["user_sum"], abs=1e-6)
    assert ranks.elapsed_s.max() == of["elapsed_max"]
    assert set(ranks.source) == {"table"}
    (row,) = uneven.itertuples()
    assert (row.comm_min_s, row.comm_min_rank) == (of["comm_min"], of["comm_min_rank"])
    assert (row.comm_max_s, row.comm_max_rank) == (of["comm_max"], of["comm_max_rank"])
    assert row.comm_median_s == of["comm_lower_median"]
    assert row.noncomm_max_rank == of["noncomm_max_rank"]
    for value, expected, digits in (
        (row.comm_mean_s, of["comm_mean"], 4),
        (1 + row.imbalance_pct / 100, of["comm_max_over_mean"], 4),
        (row.imbalance_cray_pct, of["comm_imbalance_pct"], 3),
        (row.noncomm_mean_s, of["noncomm_mean"], 4),
        (row.noncomm_max_s, of["noncomm_max"], 6),
        (row.noncomm_ratio, of["noncomm_max_over_mean"], 4),
        (row.straggler_z, of.get("z_of_min"), 3),
    ):
        if expected is None or (of["n"] == 1 and math.isnan(value)):
            assert of["n"] == 1
            continue
        assert value == pytest.approx(expected, abs=0.51 * 10**-digits)


def test_negotiation_on_processors_and_on_gpus():
    """The two tables of the seed document, and what is left out of them."""
    cpu, gpu = load("seed/seed_cpu16.txt"), load("seed/seed_gpu8.txt")
    (on_cpu,) = mpi_negotiation(cpu).itertuples()
    assert (on_cpu.calls, on_cpu.bytes, on_cpu.time_s) == (7428, 59424.0, 5.696)
    for part, per_cent in (
        ("calls", 91.0183), ("time", 53.8578), ("routine_time", 53.8629), ("comm", 53.7257),
        ("elapsed", 36.6349),
    ):  # fmt: skip
        assert round(100 * getattr(on_cpu, f"share_of_{part}"), 4) == per_cent
    assert round(100 * on_cpu.share_of_bytes, 6) == 0.005246
    assert round(on_cpu.mean_us, 2) == 766.83
    (on_gpu,) = mpi_negotiation(gpu).itertuples()
    assert (on_gpu.calls, on_gpu.bytes, on_gpu.time_s) == (11658, 93264.0, 5.44)
    assert on_gpu.share_of_calls == on_gpu.share_of_time == on_gpu.share_of_bytes == 1.0
    assert round(100 * on_gpu.share_of_elapsed, 4) == 30.6911
    change = mpi_compare(cpu, gpu, by_size=False).set_index("routine")
    reduced = change.loc["MPI_Allreduce"]
    assert (reduced.diff_calls, round(reduced.diff_time_s, 3)) == (3497, -5.135)
    assert (reduced.after_bytes, round(reduced.before_bytes)) == (93264, 1132748040)
    assert change.loc["MPI_Barrier"].change == "added"
    sizes = mpi_compare(cpu, gpu)
    large = sizes[(sizes.routine == "MPI_Allreduce") & (sizes.size_hi > 1 << 20)]
    assert large.change.tolist() == ["removed"]
    assert "differ in size" in sizes.attrs["note"]


@pytest.mark.parametrize(
    ("case", "comm", "elapsed", "time_s", "mean_us", "least", "mean", "most", "other", "z", "flag"),
    [
        ("np8_all", 0.888, 1.429, 0.160, 222.22, (0.87, 1), 0.9012, 0.95, (0.56, 1, 1.059), -0.995,
         False),
        ("np8_straggler", 2.615, 3.136, 1.396, 1938.89, (0.79, 5), 2.3200, 2.62, (2.35, 5, 2.866),
         -2.625, True),
        ("np8_straggler_barrier", 2.485, 3.099, 0.011, 15.28, (0.77, 5), 2.3050, 2.57,
         (2.33, 5, 2.931), -2.642, True),
        ("np16_all", 1.174, 1.709, 0.110, 305.56, (1.11, 3), 1.1881, 1.29, (0.60, 3, 1.150),
         -1.476, False),
    ],
)  # fmt: skip
def test_own_runs(case, comm, elapsed, time_s, mean_us, least, mean, most, other, z, flag):
    traces = load(case)
    profile = traces[0].profile
    assert (profile.comm_s, profile.elapsed_s) == (comm, elapsed)
    first = mpi_negotiation(traces).iloc[0]
    assert (first["rank"], first.share_of_calls, first.time_s) == (0, 0.6, time_s)
    assert first.mean_us == pytest.approx(mean_us, abs=0.006)
    assert first.share_of_bytes == pytest.approx(2.00016e-05, rel=1e-5)
    (row,) = mpi_imbalance(traces).itertuples()
    assert (row.comm_min_s, row.comm_min_rank, row.straggler_rank) == (*least, least[1])
    assert row.comm_mean_s == pytest.approx(mean, abs=6e-5)
    assert row.comm_max_s == most
    assert (round(row.noncomm_max_s, 2), row.noncomm_max_rank) == other[:2]
    assert row.noncomm_ratio == pytest.approx(other[2], abs=6e-4)
    assert row.straggler_z == pytest.approx(z, abs=6e-4)
    assert row.is_straggler == flag
    assert traces.problems.empty


def test_a_rank_that_hardly_waits_less_is_a_fact_and_no_straggler():
    """Rank 0 spends 0.59 of 0.80 s in MPI, all others 0.62 to 0.66 s with a median of 0.64 s."""
    traces = load("np8_subcomm")
    (row,) = mpi_imbalance(traces).itertuples()
    assert (row.straggler_rank, row.stands_out, row.is_straggler) == (0, True, False)
    assert row.lost_share == pytest.approx(0.05 / 0.80)
    assert "may be chance: no rank is a straggler" in row.explanation
    assert mpi_stragglers(traces) == set()
    truth = headline(traces)
    assert truth.findings == []
    (*_, fact) = [text_of(parts) for parts in truth.sentences]
    assert fact.replace("\u202f", " ") == (
        "Rank 0 spends less time in MPI than the others, by 6.3 % of the run, maybe by chance."
    )
    diff = hd.compare(traces, load("np8_straggler"))
    late = [finding.text for finding in hd.findings(diff) if finding.kind == "straggler"]
    assert [text.split(":")[0] for text in late] == ["The others now wait for rank 5"]


def test_sections_that_are_off_by_default():
    by_size = mpi_routines(load("np8_subcomm"), by="communicator", ranks=[0])
    reduced = by_size[by_size.routine == "MPI_Allreduce"].set_index("comm_size_hi")
    assert (reduced.loc[4].calls, reduced.loc[4].time_s) == (160, 0.255)
    assert reduced.loc[8].calls == 400
    bins = load("np8_subcomm")[0].profile.communicator_bins
    assert [(row.size_lo, row.size_hi, row.time_s) for row in bins] == [
        (0, 4, 0.255),
        (5, 8, 0.332),
    ]
    contexts = mpi_routines(load("np4_ctx"), by="context", ranks=[0])
    named = contexts.groupby("context", sort=False).context_calls.first()
    assert named.to_dict() == {"forward_backward": 20, "allreduce grads": 20}
    stacks = mpi_call_stacks(load("np8_callstack"))
    assert set(stacks["rank"]) == {0, 3}
    assert stacks.groupby("rank").stack.nunique().tolist() == [12, 12]
    top = stacks[stacks["rank"] == 3].iloc[0]
    assert (top.routine, top.calls, top.time_s) == ("MPI_Allreduce", 160, 0.262)
    assert top.site == "dp_train+0x242c"
    # Offsets are the same on both ranks; addresses differ.
    assert set(stacks[stacks["rank"] == 0].site) == set(stacks[stacks["rank"] == 3].site)
    barrier = load("np8_straggler_barrier")
    sync = mpi_ranks(barrier).set_index("rank").sync_s
    assert (sync[0], sync[5]) == (1.848, 0.062)
    assert load("np4_pcontrol")[0].profile.exclusive_s == 0.130
    assert load("np4_io")[0].profile.io_s == 0.006


@pytest.mark.parametrize("name", FILES)
def test_every_file_loads_whole(name):
    traces = load(name)
    assert traces.format == ("mpi-trace" if name.endswith(".trc") else "mpi-profile")
    assert traces.problems.empty


def test_a_folder_of_many_jobs_keeps_them_apart():
    traces = recorded.load(FOLDER)
    assert traces.formats == ["mpi-profile", "mpi-trace"]
    assert set(traces.problems.kind) == {"duplicate_rank"}
    uneven = mpi_imbalance(traces).set_index("job")
    assert len(uneven) == len({path.split("/")[0] for path in FILES}) + 1  # two in the seed
    assert uneven.loc["81002"].straggler_rank == 5
    assert uneven.loc["161001"].ranks == 16


@pytest.mark.parametrize("name", PROFILES)
def test_our_writer_writes_what_mpitrace_wrote(name):
    if name.startswith((*WITH_SECTIONS, "seed")):
        pytest.skip("of another generation, or with sections that are off by default")
    text = (FOLDER / name).read_text("utf-8")
    ((profile, _),) = parse_profiles(text, "")
    assert profile_text(profile) == text

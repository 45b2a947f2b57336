"""Launches, queues and memory bandwidth, compared with HTA's for all traces that have them.

HTA knows only some launches by name. On these, the numbers are compared after rounding times as HTA
does; tables list all further launches. All other numbers are in `test_hta_facade`.
"""

import functools
import itertools
import shutil
from collections import Counter

import pytest
from support import golden
from support.hta_rounding import rounded

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.bandwidth import bandwidth_steps
from hta_widgets.analysis.queues import queue_steps
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.export.traces.overlays import add_counters

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

#: Calls whose launches HTA 0.5.0 counts in queues.
QUEUED = golden.LISTED | {
    "cuLaunchKernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync",
    "hipMemsetAsync", "hipMemcpyWithStream",
}  # fmt: skip

#: Launches that we list and HTA does not know.
BEYOND_LISTED = {
    "hta_tests__amd_trace": {
        "hipLaunchKernel": 12, "hipMemcpyWithStream": 2, "hipExtModuleLaunchKernel": 2,
    },
    "hta_tests__mtia_inference_trace": {
        "enqueueCommand memcpyHtoDAsync": 333, "enqueueCommand memcpyDtoHAsync": 324,
    },
    "hta_tests__trace_diff__test": {"cudaGraphLaunch": 4205},
    "hta_tests__triton_example": {"cuLaunchKernel": 1},
}  # fmt: skip

#: Number of copies with a rate of 0 in HTA. We compute it from the size, or leave the copy out.
WITHOUT_RATE = {"hta_tests__amd_trace": 2, "hta_tests__mtia_inference_trace": 877}
#: Values above 0 that only HTA's summary counts: residues of its rounding.
RESIDUES = {
    ("hta_tests__trace_diff__test", "Memcpy DtoD"): 3834,
    ("hta_tests__ns_resolution_trace", "Memcpy DtoD"): 5,
}

US = 1000


@functools.cache
def seen_by_hta(name):
    return rounded(golden.kept(name))


@functools.cache
def as_hta_knows(name):
    """Return the device work whose launches HTA knows."""
    stats = analysis.launch_stats(seen_by_hta(name))
    known_rows = stats[stats["launch"].isin(QUEUED)]
    return seen_by_hta(name).select(
        ids=zip(known_rows["rank"], known_rows["kernel_id"], strict=True)
    )


def summary_of(name, file):
    theirs = golden.frame(name, file, header=[0, 1], index_col=[0, 1])
    return theirs.set_axis(theirs.columns.get_level_values(1), axis="columns")


@pytest.mark.parametrize("name", golden.names("cuda_kernel_launch_stats.csv"))
def test_launches_that_hta_does_not_know(name):
    launches = analysis.launch_stats(golden.kept(name))["launch"]
    beyond = launches[~launches.isin(golden.LISTED)].astype(str).value_counts()
    assert beyond.to_dict() == BEYOND_LISTED.get(name, {})


# --- queues ---------------------------------------------------------------------------------------


@functools.cache
def steps_of(name):
    """Return rows (rank, stream, record, time, value) on HTA's clock, up to a shift."""
    result = []
    for part in rank_parts(seen_by_hta(name), as_hta_knows(name)):
        steps = queue_steps(part)
        record = part.table.record[steps.row]
        time = steps.time_ns + part.trace.shift_ns
        columns = (steps.streams[steps.code], record, time, steps.queue_length)
        result.extend(zip(itertools.repeat(part.rank), *(c.tolist() for c in columns)))
    return result


@pytest.mark.parametrize("name", golden.names("queue_length_time_series.csv"))
def test_queue_length_time_series(name):
    theirs = golden.frame(name, "queue_length_time_series.csv").astype({"stream": int})
    ours = steps_of(name)
    keyed = {(rank, record): (stream, time) for rank, stream, record, time, _ in ours}
    assert len(keyed) == len(ours) == len(theirs), "one change per event, as all are one to one"
    own_values = [keyed[key] for key in zip(theirs["rank"], theirs["index"], strict=True)]
    assert [stream for stream, _ in own_values] == theirs["stream"].tolist()
    # HTA counts from its first event.
    (shift,) = set(theirs["ts"] * US - [time for _, time in own_values]) or {0}
    # HTA sorts rows of the same instant arbitrarily; only their sum is certain.
    last = theirs.groupby(["rank", "stream", "ts"])["queue_length"].last()
    frame = analysis.queue_length(seen_by_hta(name), selection=as_hta_knows(name))
    ts = (frame["time_ns"] + shift) / US
    keys = zip(frame["rank"], frame["stream"], ts, strict=True)
    assert dict(zip(keys, frame["queue_length"], strict=True)) == last.to_dict()


@pytest.mark.parametrize("name", golden.names("queue_length_summary.csv"))
def test_queue_length_summary(name):
    theirs = summary_of(name, "queue_length_summary.csv")
    ours = analysis.queue_length_summary(seen_by_hta(name), selection=as_hta_knows(name))
    ours = ours.set_index(["rank", "stream"])
    assert set(ours.index) == {(rank, int(stream)) for rank, stream in theirs.index}
    for key, row in ours.iterrows():
        their = theirs.loc[key]
        assert row["count"] == their["count"]
        times = [time for rank, stream, _, time, _ in steps_of(name) if (rank, stream) == key]
        # Changes at the same instant are in arbitrary order.
        ties = len(times) - len(set(times))
        # If two of them swap places, one value differs by 2, which changes mean and deviation.
        of_mean, of_std = 2 * ties / len(times), 2 * (ties / max(len(times) - 1, 1)) ** 0.5
        assert row["mean"] == pytest.approx(their["mean"], rel=1e-9, abs=of_mean + 1e-9)
        assert row["std"] == pytest.approx(their["std"], rel=1e-9, abs=of_std + 1e-9)
        for quartile in ("min", "25%", "50%", "75%", "max"):
            assert row[quartile] == pytest.approx(their[quartile], abs=bool(ties))


@pytest.mark.parametrize("limit", [1, 1024])
@pytest.mark.parametrize("name", golden.names("blocked_on_full_queue_1.csv"))
def test_time_blocked_on_a_full_queue(name, limit):
    theirs = golden.frame(name, f"blocked_on_full_queue_{limit}.csv")
    ours = analysis.time_blocked_on_full_queue(
        seen_by_hta(name), max_queue_length=limit, selection=as_hta_knows(name)
    )
    # HTA keeps only the last stream of each rank; our frame has all of them.
    seen = ours[ours["duration_ns"] > 0].groupby("rank").tail(1)
    for own, their, unit in (
        ("rank", "rank", 1),
        ("stream", "stream", 1),
        ("duration_ns", "duration_at_max_queue_length", US),
        ("share", "relative_duration_at_max_queue_length", 1),
    ):
        assert seen[own].tolist() == pytest.approx((theirs[their] * unit).tolist(), rel=1e-9)
    if limit == 1024:
        everything = analysis.time_blocked_on_full_queue(golden.kept(name))
        assert not everything["duration_ns"].any(), "graphs do not fill a queue by their kernels"


# --- memory bandwidth -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.names("memory_bw_time_series.csv"))
def test_copies_without_a_rate(name):
    theirs = golden.frame(name, "memory_bw_time_series.csv")
    frame = analysis.memory_bandwidth(golden.kept(name))
    missing = frame.attrs["computed"] + sum(frame.attrs["unknown"].values())
    assert missing == WITHOUT_RATE.get(name, 0)
    if missing:
        assert (theirs["memory_bw_gbps"] == 0).all()
        assert len(theirs) == 2 * missing
        assert summary_of(name, "memory_bw_summary.csv").empty
        ours = analysis.memory_bandwidth_summary(golden.kept(name))
        assert ours["copies"].sum() == missing
        return
    result = Counter()
    for part in rank_parts(golden.kept(name)):
        steps = bandwidth_steps(part)
        result.update((part.rank, steps.kinds[code]) for code in steps.code.tolist())
    assert result == Counter(zip(theirs["rank"], theirs["name"], strict=True))


@pytest.mark.parametrize(("name", "kind"), RESIDUES)
def test_residues_of_sums_are_no_copies(name, kind):
    theirs = summary_of(name, "memory_bw_summary.csv")["count"]
    ours = analysis.memory_bandwidth_summary(golden.kept(name)).set_index(["rank", "copy_kind"])
    assert list(ours.index) == list(theirs.index)
    for key, count in ours["count"].items():
        assert count == theirs[key] - RESIDUES[name, kind] * (key[1] == kind)


# --- the augmented trace --------------------------------------------------------------------------

_SCRIPT = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
if len(sys.argv) > 2:
    analysis.generate_trace_with_counters(ranks=list(analysis.t.traces))
print("RESULT" + json.dumps({rank: len(frame) for rank, frame in analysis.t.traces.items()}))
"""


def samples(path):
    """Return the last value in the file for each counter, id and time."""
    opened = hw.load(path, cache=False, progress=False)
    result = {}
    for rank, trace in opened.items():
        for row in trace.counters.itertuples():
            key = (rank, str(row.name), str(row.series), row.time_ns + opened.origin_ns)
            result[key] = row.value
    return result


@pytest.mark.parametrize("name", ["critical_path__alexnet", "with_gpu_user_annotation"])
def test_counters_are_those_that_hta_adds(ask_hta, shared, tmp_path, name):
    source = shared / "traces/hta_tests" / name
    inputs, theirs = tmp_path / "given", tmp_path / "theirs"
    shutil.copytree(source, inputs)
    before = ask_hta(_SCRIPT, inputs, "counters")
    theirs.mkdir()
    (written,) = inputs.glob("*_with_counters.json*")
    written.rename(theirs / written.name)
    ours = tmp_path / "ours"
    report = add_counters(hw.load(source, cache=False, progress=False), ours)
    assert report.samples
    expected, got = samples(theirs), samples(ours)
    assert got.keys() == expected.keys()
    assert [got[key] for key in expected] == pytest.approx(list(expected.values()), abs=1e-9)
    assert ask_hta(_SCRIPT, ours) == before, "HTA finds the same events in ours"

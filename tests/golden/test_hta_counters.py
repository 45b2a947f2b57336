"""Launches, queues and memory bandwidth against HTA's own, on every trace it returned them for.

HTA rounds starts up and ends down to whole microseconds where a file has fractions, and knows some
launches by name. Ours are compared on the launches that it knows; what we count beyond stands in
tables here.
"""

import functools
import itertools
import shutil

import numpy as np
import pytest
from support import golden

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.launches import queue_steps
from hta_widgets.analysis.memory import bandwidth_steps
from hta_widgets.analysis.scope import parts
from hta_widgets.export.overlays import add_counters

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

#: Calls whose launches HTA 0.5.0 lists, and those that it counts in queues.
LISTED = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
}  # fmt: skip
QUEUED = LISTED | {
    "cuLaunchKernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyAsync",
    "hipMemsetAsync", "hipMemcpyWithStream",
}  # fmt: skip

#: Launches that ours lists and HTA does not know.
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

#: Copies that HTA gives no rate (0), and how many; we work it out from the size, or leave it out.
WITHOUT_RATE = {"hta_tests__amd_trace": 2, "hta_tests__mtia_inference_trace": 877}
#: Values above 0 that HTA counts in its summary and we do not: what rounding leaves.
RESIDUES = {
    ("hta_tests__trace_diff__test", "Memcpy DtoD"): 3834,
    ("hta_tests__ns_resolution_trace", "Memcpy DtoD"): 5,
}

US = 1000


@functools.cache
def launched(name):
    return analysis.launch_stats(golden.kept(name))


@functools.cache
def as_hta_knows(name, calls=frozenset(QUEUED)):
    """The device work whose launches HTA knows."""
    stats = launched(name)
    known = stats[stats["launch"].isin(calls)]
    return golden.kept(name).select(ids=zip(known["rank"], known["kernel_id"], strict=True))


def off_by_ns(name):
    """Return the error allowed in HTA's times: none on whole microseconds, else less than one."""
    return 0 if golden.resolution_ns(name) % US == 0 else US


# --- launches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["cuda_kernel_launch_stats", "cuda_kernel_launch_stats_nomem"])
@pytest.mark.parametrize("name", golden.names("cuda_kernel_launch_stats.csv"))
def test_launches(name, file):
    theirs = golden.frame(name, f"{file}.csv")
    memory = not file.endswith("nomem")
    ours = analysis.launch_stats(golden.kept(name), include_memory=memory)
    if memory:
        beyond = ours.loc[~ours["launch"].isin(LISTED), "launch"].astype(str).value_counts()
        assert beyond.to_dict() == BEYOND_LISTED.get(name, {})
    ours = ours[ours["launch"].isin(LISTED)]
    assert len(ours) == len(theirs)
    keys = ["rank", "correlation"]
    assert not theirs.duplicated(keys).any()
    both = theirs.merge(ours, on=keys, validate="1:1")
    assert len(both) == len(theirs)
    for own, their in (
        ("cpu_dur_ns", "cpu_duration"),
        ("gpu_dur_ns", "gpu_duration"),
        ("launch_delay_ns", "launch_delay"),
    ):
        # Two edges, each off by less than a microsecond.
        off = (both[their] * US - both[own]).abs()
        assert off.max() <= 2 * off_by_ns(name) or not len(both)


# --- queues ---------------------------------------------------------------------------------------


@functools.cache
def steps_of(name):
    """Ours, one row per event: rank, stream, record, time, value; on HTA's clock up to a shift."""
    traces = golden.kept(name)
    found = []
    for part in parts(traces, as_hta_knows(name)):
        steps = queue_steps(part)
        record = part.table.record[steps.row]
        time = steps.time_ns + part.trace.shift_ns
        columns = (steps.streams[steps.code], record, time, steps.queue_length)
        found.extend(zip(itertools.repeat(part.rank), *(c.tolist() for c in columns)))
    return found


def shift_of(ours, theirs, tolerance):
    """HTA counts from its own first event: one shift for all, which must be the same for all."""
    off = np.asarray(theirs, dtype=float) * US - np.asarray(ours, dtype=float)
    assert off.max() - off.min() <= tolerance
    return off.min()


@pytest.mark.parametrize("name", golden.names("queue_length_time_series.csv"))
def test_queue_length_time_series(name):
    theirs = golden.frame(name, "queue_length_time_series.csv")
    theirs["stream"] = theirs["stream"].astype(int)
    ours = steps_of(name)
    keyed = {(rank, record): (stream, time, value) for rank, stream, record, time, value in ours}
    assert len(keyed) == len(ours) == len(theirs), "one change per event, as all are one to one"
    mine = [keyed[key] for key in zip(theirs["rank"], theirs["index"], strict=True)]
    assert [stream for stream, _, _ in mine] == theirs["stream"].tolist()
    times = np.array([time for _, time, _ in mine])
    values = np.array([value for _, _, value in mine])
    shift = shift_of(times, theirs["ts"], off_by_ns(name))
    if not off_by_ns(name):
        # At one instant HTA's rows are in any order; what all of them make is certain.
        last = theirs.groupby(["rank", "stream", "ts"])["queue_length"].last()
        frame = analysis.queue_length(golden.kept(name), selection=as_hta_knows(name))
        ts = (frame["time_ns"] + shift) / US
        keys = zip(frame["rank"], frame["stream"], ts, strict=True)
        assert dict(zip(keys, frame["queue_length"], strict=True)) == last.to_dict()
        return
    # Events less than a microsecond apart may have changed places.
    place = {key: number for number, key in enumerate(theirs.groupby(["rank", "stream"]).groups)}
    key = np.array([place[pair] for pair in zip(theirs["rank"], theirs["stream"], strict=True)])
    for code in range(len(place)):
        own = np.sort(times[key == code])
        at = times[key == code]
        near = np.searchsorted(own, at + US, "right") - np.searchsorted(own, at - US, "left")
        off = np.abs(values[key == code] - theirs["queue_length"].to_numpy()[key == code])
        assert (off <= near - 1).all()


@pytest.mark.parametrize("name", golden.names("queue_length_summary.csv"))
def test_queue_length_summary(name):
    theirs = golden.frame(name, "queue_length_summary.csv", header=[0, 1], index_col=[0, 1])
    theirs.columns = theirs.columns.get_level_values(1)
    ours = analysis.queue_length_summary(golden.kept(name), selection=as_hta_knows(name))
    ours = ours.set_index(["rank", "stream"])
    assert set(ours.index) == {(rank, int(stream)) for rank, stream in theirs.index}
    for key, row in ours.iterrows():
        their = theirs.loc[key]
        assert row["count"] == their["count"]
        moments = [
            (time, value) for rank, stream, _, time, value in steps_of(name)
            if (rank, stream) == key
        ]  # fmt: skip
        # Values of changes at one instant, or of one microsecond, are in any order.
        ties = len(moments) - len({-(-time // US) for time, _ in moments})
        # When two swap places, one value differs by 2, which shifts mean and deviation.
        of_mean, of_std = 2 * ties / len(moments), 2 * (ties / max(len(moments) - 1, 1)) ** 0.5
        assert row["mean"] == pytest.approx(their["mean"], rel=1e-9, abs=of_mean + 1e-9)
        assert row["std"] == pytest.approx(their["std"], rel=1e-9, abs=of_std + 1e-9)
        for quartile in ("min", "25%", "50%", "75%", "max"):
            assert row[quartile] == pytest.approx(their[quartile], abs=bool(ties))


@pytest.mark.parametrize("limit", [1, 1024])
@pytest.mark.parametrize("name", golden.names("blocked_on_full_queue_1.csv"))
def test_time_blocked_on_a_full_queue(name, limit):
    theirs = golden.frame(name, f"blocked_on_full_queue_{limit}.csv")
    traces = golden.kept(name)
    ours = analysis.time_blocked_on_full_queue(
        traces, max_queue_length=limit, selection=as_hta_knows(name)
    ).set_index(["rank", "stream"])
    # HTA keeps one stream a rank, the last: the others are ours alone.
    seen = ours[ours["duration_ns"] > 0].groupby("rank").tail(1)
    assert list(seen.index) == [
        (row.rank, int(row.stream)) for row in theirs.itertuples(index=False)
    ]
    for row in theirs.itertuples(index=False):
        own = ours.loc[(row.rank, int(row.stream))]
        changes = sum(
            (rank, stream) == (row.rank, int(row.stream)) for rank, stream, *_ in steps_of(name)
        )
        off = abs(own["duration_ns"] - row.duration_at_max_queue_length * US)
        assert off <= changes * off_by_ns(name)
        assert own["share"] == pytest.approx(
            row.relative_duration_at_max_queue_length,
            rel=1e-9,
            abs=(changes + 2) * off_by_ns(name) / own["trace_ns"],
        )
    if limit == 1024:
        everything = analysis.time_blocked_on_full_queue(traces)
        assert not everything["duration_ns"].any(), "graphs do not fill a queue by their kernels"


# --- memory bandwidth -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.names("memory_bw_time_series.csv"))
def test_memory_bandwidth_time_series(name):
    theirs = golden.frame(name, "memory_bw_time_series.csv")
    traces = golden.kept(name)
    frame = analysis.memory_bandwidth(traces)
    missing = frame.attrs["computed"] + sum(frame.attrs["unknown"].values())
    assert missing == WITHOUT_RATE.get(name, 0)
    if missing:
        assert (theirs["memory_bw_gbps"] == 0).all()
        assert len(theirs) == 2 * missing
        return
    shift = None
    for part in parts(traces):
        steps = bandwidth_steps(part)
        for code, kind in enumerate(steps.kinds):
            their = theirs[(theirs["rank"] == part.rank) & (theirs["name"] == kind)]
            mine = np.sort(steps.time_ns[steps.code == code]) + part.trace.shift_ns
            assert len(mine) == len(their)
            # A copy within a microsecond gets a duration of 0 or -1 from rounding, then 1.
            off = np.sort(their["ts"].to_numpy()) * US - mine
            shift = off.min() if shift is None else shift
            assert np.abs(off - shift).max() <= 2 * off_by_ns(name)
            if off_by_ns(name):
                continue
            last = their.groupby("ts")["memory_bw_gbps"].last()
            own = frame[(frame["rank"] == part.rank) & (frame["copy_kind"] == kind)]
            assert ((own["time_ns"] + shift) / US).tolist() == last.index.tolist()
            # HTA adds up without end; ours are exact.
            assert own["gb_per_s"].to_numpy() == pytest.approx(last.to_numpy(), abs=1e-9)


@pytest.mark.parametrize("name", golden.names("memory_bw_summary.csv"))
def test_memory_bandwidth_summary(name):
    theirs = golden.frame(name, "memory_bw_summary.csv", header=[0, 1], index_col=[0, 1])
    theirs.columns = theirs.columns.get_level_values(1)
    ours = analysis.memory_bandwidth_summary(golden.kept(name))
    if name in WITHOUT_RATE:
        assert theirs.empty
        assert ours["copies"].sum() == WITHOUT_RATE[name]
        return
    ours = ours.set_index(["rank", "copy_kind"])
    assert list(ours.index) == list(theirs.index)
    for key, row in ours.iterrows():
        their = theirs.loc[key]
        residues = RESIDUES.get((name, key[1]), 0)
        assert row["count"] == their["count"] - residues
        for statistic in ("mean", "std", "min", "25%", "50%", "75%", "max"):
            if not residues:
                assert row[statistic] == pytest.approx(their[statistic], rel=1e-6, nan_ok=True)


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
    """By counter, id and time: the last value in the file."""
    opened = hw.load(path, cache=False, progress=False)
    found = {}
    for rank, trace in opened.items():
        for row in trace.counters.itertuples():
            key = (rank, str(row.name), str(row.series), row.time_ns + opened.origin_ns)
            found[key] = row.value
    return found


@pytest.mark.parametrize("name", ["critical_path__alexnet", "with_gpu_user_annotation"])
def test_counters_are_those_that_hta_adds(ask_hta, shared, tmp_path, name):
    source = shared / "traces/hta_tests" / name
    given, theirs = tmp_path / "given", tmp_path / "theirs"
    shutil.copytree(source, given)
    before = ask_hta(_SCRIPT, given, "counters")
    theirs.mkdir()
    (written,) = given.glob("*_with_counters.json*")
    written.rename(theirs / written.name)
    ours = tmp_path / "ours"
    report = add_counters(hw.load(source, cache=False, progress=False), ours)
    assert report.samples
    expected, got = samples(theirs), samples(ours)
    assert got.keys() == expected.keys()
    assert [got[key] for key in expected] == pytest.approx(list(expected.values()), abs=1e-9)
    assert ask_hta(_SCRIPT, ours) == before, "HTA finds the same events in ours"

"""Breakdowns of device time against HTA's own, on every trace that it returned numbers for.

Twice: as we count, where each difference stands in a table with its reason; and as HTA counts,
with its rounding and its classes given to our functions, where the numbers must be equal.
"""

import functools

import numpy as np
import pytest
from support import golden
from support.hta_rounding import rounded_trace

from hta_widgets import analysis, taxonomy
from hta_widgets.trace.traceset import TraceSet

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}

#: Ours by HTA's column; HTA's numbers are microseconds.
TEMPORAL = {
    "idle_time(us)": "idle_ns",
    "compute_time(us)": "compute_ns",
    "non_compute_time(us)": "non_compute_ns",
    "kernel_time(us)": "span_ns",
}
KERNELS = {
    "sum (us)": "sum_ns",
    "mean (us)": "mean_ns",
    "min (us)": "min_ns",
    "max (us)": "max_ns",
    "stddev": "std_ns",
}
STATS = {
    "mean": "mean_ns",
    "std": "std_ns",
    "min": "min_ns",
    "25%": "p25_ns",
    "50%": "p50_ns",
    "75%": "p75_ns",
    "max": "max_ns",
}


# --- numbers by name, HTA's and ours --------------------------------------------------------------
# Each pair gives {name: microseconds or share}, so that differences can be listed one by one.


def hta_temporal(name, file):
    frame = golden.frame(name, file)
    return {
        (row["rank"], ours): row[hta]
        for _, row in frame.iterrows()
        for hta, ours in TEMPORAL.items()
    }


def our_temporal(traces, **options):
    frame = analysis.temporal_breakdown(traces, **options)
    return {
        (row["rank"], ours): row[ours] / 1000
        for _, row in frame.iterrows()
        for ours in TEMPORAL.values()
    }


def hta_overlap(name, file):
    return golden.frame(name, file).set_index("rank")["comp_comm_overlap_pctg"].to_dict()


def our_overlap(traces, **options):
    frame = analysis.comm_comp_overlap(traces, **options)
    return (100 * frame.set_index("rank")["overlap_share"]).to_dict()


def hta_idle(name, file):
    frame = golden.frame(name, file).set_index(["rank", "stream", "idle_category"])
    # HTA counts the start of a stream as "other", which adds nothing.
    return {key: time for key, time in frame["idle_time"].items() if time}


def our_idle(traces, **options):
    frame = analysis.idle_time_breakdown(traces, **options)
    frame = frame.set_index(["rank", "stream", "idle_category"])
    return {key: time / 1000 for key, time in frame["idle_ns"].items() if time}


def hta_stats(name, file):
    frame = golden.frame(name, file).set_index(["rank", "stream", "idle_category"])
    frame = frame[frame["count"] > 0]
    return {
        (*key, ours): row[hta]
        for key, row in frame.iterrows()
        for hta, ours in {"count": "count", **STATS}.items()
        if not np.isnan(row[hta])
    }


def our_stats(traces, **options):
    frame = analysis.idle_interval_stats(traces, **options)
    frame = frame.set_index(["rank", "stream", "idle_category"])
    frame = frame[frame["count"] > 0]
    frame[list(STATS.values())] /= 1000
    return {
        (*key, column): row[column]
        for key, row in frame.iterrows()
        for column in ("count", *STATS.values())
        if not np.isnan(row[column])
    }


def hta_types(name, file):
    frame = golden.frame(name, file).set_index("kernel_type")
    return {label: time for label, time in frame["sum"].items() if time}


def our_types(traces, **options):
    frame = analysis.kernel_type_breakdown(traces, **options)
    return {label: time / 1000 for label, time in frame.set_index("kernel_type")["sum_ns"].items()}


def hta_kernels(name, file):
    frame = golden.frame(name, file)
    return {
        (row["rank"], row["kernel_type"], row["name"], ours): row[hta]
        for _, row in frame.iterrows()
        for hta, ours in KERNELS.items()
    }


def our_kernels(traces, **options):
    frame = analysis.kernel_breakdown(traces, **options)
    return {
        (row["rank"], WORDS[row["kind"]], row["name"], ours): row[ours] / 1000
        for _, row in frame.iterrows()
        for ours in KERNELS.values()
    }


#: The files with both readings, and half a unit of the last digit that HTA's file gives.
FILES = {
    "temporal_breakdown.csv": (hta_temporal, our_temporal, 0),
    "comm_comp_overlap.csv": (hta_overlap, our_overlap, 0.00501),
    "idle_time_breakdown.time.csv": (hta_idle, our_idle, 0),
    "idle_time_breakdown.interval_stats.csv": (hta_stats, our_stats, 0.00501),
    "gpu_kernel_breakdown_all.types.csv": (hta_types, our_types, 0),
    "gpu_kernel_breakdown_all.kernels.csv": (hta_kernels, our_kernels, 1e-9),
    "gpu_kernel_breakdown_nomem.types.csv": (
        hta_types,
        functools.partial(our_types, include_memory=False),
        0,
    ),
}

CASES = [(name, file) for file in FILES for name in golden.names(file)]


def differing(expected, got, close):
    """Return entries of one side only, or that differ by more than `close`, with both numbers."""
    found = {}
    for key in {**expected, **got}:
        a, b = expected.get(key, np.nan), got.get(key, np.nan)
        if not (np.isclose(a, b, rtol=1e-9, atol=close) or (np.isnan(a) and np.isnan(b))):
            found[key] = (a, b)
    return found


# --- as we count ----------------------------------------------------------------------------------

SYNC = (
    "rows of cuda_sync are waits, not work; HTA counts them as busy, also in the total"
    " context, whose stream 4294967295 means none"
)
WAIT = "Stream Wait Event is a wait, not a kernel; HTA 0.5.0 takes it for one that computes"
MTIA = "event_wait, event_record and event_reset do no work; HTA counts them as kernels"
TRITON = "Triton's cpu_op row is a host event; HTA takes it for a kernel, for its stream arg"
OVERLAP = "kernels of the stream overlap; HTA adds negative gaps, here they have no length"

ALEXNET = "hta_tests__critical_path__alexnet"
EVENT_SYNC = "hta_tests__critical_path__cuda_event_sync"
MULTI_STREAM = "hta_tests__critical_path__cuda_event_sync_multi_stream"
SIMPLE_ADD = "hta_tests__critical_path__simple_add"
MTIA_TRACE = "hta_tests__mtia_inference_trace"
TRITON_TRACE = "hta_tests__triton_example"
DIFF_TEST = "hta_tests__trace_diff__test"

#: Every deliberate difference: one line per file, with one number, HTA's and ours, in us.
DIFFERENCES = {
    (ALEXNET, "temporal_breakdown.csv"): (
        (0, "non_compute_ns"), 55690, 55511, SYNC),
    (EVENT_SYNC, "temporal_breakdown.csv"): (
        (0, "non_compute_ns"), 7, 2, SYNC),
    (MULTI_STREAM, "temporal_breakdown.csv"): (
        (0, "compute_ns"), 371, 369, WAIT),
    (SIMPLE_ADD, "temporal_breakdown.csv"): (
        (0, "non_compute_ns"), 39287, 39088, SYNC),
    (MTIA_TRACE, "temporal_breakdown.csv"): (
        (0, "compute_ns"), 419614, 414085.123, MTIA),
    (TRITON_TRACE, "temporal_breakdown.csv"): (
        (0, "compute_ns"), 94, 1.76, TRITON),
    (MTIA_TRACE, "idle_time_breakdown.time.csv"): (
        (0, 101, "kernel_wait"), 244, 137.377, MTIA),
    (DIFF_TEST, "idle_time_breakdown.time.csv"): (
        (1, 7, "kernel_wait"), 42372, 42486, OVERLAP),
    (DIFF_TEST, "idle_time_breakdown.interval_stats.csv"): (
        (1, 7, "kernel_wait", "min_ns"), -13, 0, OVERLAP),
    (ALEXNET, "gpu_kernel_breakdown_all.types.csv"): (
        "COMPUTATION", 10637, 10630, WAIT),
    (MULTI_STREAM, "gpu_kernel_breakdown_all.types.csv"): (
        "COMPUTATION", 371, 369, WAIT),
    (SIMPLE_ADD, "gpu_kernel_breakdown_all.types.csv"): (
        "COMPUTATION", 10676, 10670, WAIT),
    (MTIA_TRACE, "gpu_kernel_breakdown_all.types.csv"): (
        "COMPUTATION", 384712, 381491.064, MTIA),
    (TRITON_TRACE, "gpu_kernel_breakdown_all.types.csv"): (
        "COMPUTATION", 94, 1.76, TRITON),
    (ALEXNET, "gpu_kernel_breakdown_all.kernels.csv"): (
        (0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 10, None, WAIT),
    (MULTI_STREAM, "gpu_kernel_breakdown_all.kernels.csv"): (
        (0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 2, None, WAIT),
    (SIMPLE_ADD, "gpu_kernel_breakdown_all.kernels.csv"): (
        (0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 8, None, WAIT),
    (MTIA_TRACE, "gpu_kernel_breakdown_all.kernels.csv"): (
        (0, "COMPUTATION", "event_wait", "sum_ns"), 352517, None, MTIA),
    (TRITON_TRACE, "gpu_kernel_breakdown_all.kernels.csv"): (
        (0, "COMPUTATION", "triton_poi_fused_add_cos_sin_0", "sum_ns"), 95, 1.76, TRITON),
    (ALEXNET, "gpu_kernel_breakdown_nomem.types.csv"): (
        "COMPUTATION", 10637, 10630, WAIT),
    (MULTI_STREAM, "gpu_kernel_breakdown_nomem.types.csv"): (
        "COMPUTATION", 371, 369, WAIT),
    (SIMPLE_ADD, "gpu_kernel_breakdown_nomem.types.csv"): (
        "COMPUTATION", 10676, 10670, WAIT),
    (MTIA_TRACE, "gpu_kernel_breakdown_nomem.types.csv"): (
        "COMPUTATION", 419646, 414085.123, MTIA),
    (TRITON_TRACE, "gpu_kernel_breakdown_nomem.types.csv"): (
        "COMPUTATION", 94, 1.76, TRITON),
}  # fmt: skip


@pytest.mark.parametrize(("name", "file"), CASES)
def test_numbers_are_htas_or_stand_in_the_table(name, file):
    read, compute, close = FILES[file]
    expected, got = read(name, file), compute(golden.kept(name))
    if (name, file) in DIFFERENCES:
        what, theirs, ours, _ = DIFFERENCES[name, file]
        assert expected[what] == theirs
        assert got.get(what) == ours
        return
    if golden.resolution_ns(name) >= 1000:
        assert differing(expected, got, close) == {}
        return
    # HTA rounds starts up and ends down: every event is shorter by less than 2 us.
    if file == "gpu_kernel_breakdown_all.kernels.csv":
        # Negative lengths come on top for what is shorter than 1 us.
        counts = analysis.kernel_breakdown(golden.kept(name)).set_index(["rank", "name"])["count"]
        assert expected.keys() == got.keys()
        for (rank, word, kernel, column), ours in got.items():
            events = counts[rank, kernel] if column == "sum_ns" else 1
            assert abs(ours - expected[rank, word, kernel, column]) < 2 * events + 1e-6
    elif file != "idle_time_breakdown.interval_stats.csv":
        events = sum(analysis.temporal_breakdown(golden.kept(name)).attrs["matched"].values())
        assert differing(expected, got, 2 * events) == {}


def test_the_table_of_differences_has_no_stale_lines():
    assert set(DIFFERENCES) <= set(CASES)


# --- as HTA counts --------------------------------------------------------------------------------


@functools.cache
def seen_by_hta(name):
    traces = golden.kept(name)
    if golden.resolution_ns(name) >= 1000:
        return traces
    return TraceSet([rounded_trace(trace) for trace in traces.values()], like=traces)


@pytest.fixture
def classes():
    """Give the taxonomy HTA's classes of events that are not device work here."""

    def give(file):
        taxonomy.add("compute", "^event_", category="mtia_ccp_events")
        taxonomy.add("compute", "^triton_", category="cpu_op")
        if file == "temporal_breakdown.csv":
            # Busy, and not computing.
            taxonomy.add("memory", "", category="cuda_sync")
        if not file.startswith("idle"):
            taxonomy.add("compute", "^Stream Wait Event$", category="cuda_sync")

    yield give
    taxonomy.reset()


#: What remains, {what: (HTA's, ours)} in us. MTIA: events shorter than 1 us get a length of -1,
#: which HTA takes off the time that it adds up. The other trace: `OVERLAP`.
REMAINS = {
    (MTIA_TRACE, "temporal_breakdown.csv"): {
        (0, "idle_ns"): (19235, 19204),
        (0, "compute_ns"): (419614, 419646),
        (0, "non_compute_ns"): (4426, 4425),
    },
    (MTIA_TRACE, "gpu_kernel_breakdown_all.types.csv"): {
        "MEMORY": (4424, 4425),
        "COMPUTATION overlapping COMMUNICATION": (1, np.nan),
    },
    (DIFF_TEST, "idle_time_breakdown.time.csv"): {(1, 7, "kernel_wait"): (42372, 42486)},
    (DIFF_TEST, "idle_time_breakdown.interval_stats.csv"): {
        (1, 7, "kernel_wait", "mean_ns"): (3.51, 42486 / 12068),
        (1, 7, "kernel_wait", "std_ns"): (3.03, 3.01),
        (1, 7, "kernel_wait", "min_ns"): (-13, 0),
    },
}


@pytest.mark.parametrize(("name", "file"), CASES)
def test_with_its_rounding_and_classes_the_numbers_are_htas(name, file, classes):
    classes(file)
    read, compute, close = FILES[file]
    traces = seen_by_hta(name)
    seen = "stream >= 0 or category == 'cpu_op'"
    if name in {ALEXNET, SIMPLE_ADD}:
        seen += " or name == 'Context Sync'"
    got = compute(traces, selection=traces.select(seen))
    found = differing(read(name, file), got, close)
    remains = REMAINS.get((name, file), {})
    assert found.keys() == remains.keys()
    for what, numbers in remains.items():
        assert found[what] == pytest.approx(numbers, abs=0.005, nan_ok=True)


@pytest.mark.parametrize("name", golden.names("gpu_kernel_breakdown_nomem.kernels.csv"))
def test_sums_without_copies_are_htas_however_it_folds_kernels(name, classes):
    classes("")
    traces = seen_by_hta(name)
    seen = traces.select("stream >= 0 or category == 'cpu_op'")
    frame = analysis.kernel_breakdown(traces, include_memory=False, selection=seen)
    frame["kernel_type"] = frame["kind"].astype(str).map(WORDS)
    theirs = golden.frame(name, "gpu_kernel_breakdown_nomem.kernels.csv")
    named = set(zip(theirs["rank"], theirs["kernel_type"], theirs["name"], strict=True))
    keys = zip(frame["rank"], frame["kernel_type"], frame["name"], strict=True)
    frame["name"] = [key[2] if key in named else "others" for key in keys]
    ours = frame.groupby(["rank", "kernel_type", "name"])["sum_ns"].sum() / 1000
    assert ours.to_dict() == theirs.set_index(["rank", "kernel_type", "name"])["sum (us)"].to_dict()


ALL = [
    analysis.temporal_breakdown,
    analysis.kernel_type_breakdown,
    analysis.comm_comp_overlap,
    analysis.idle_time_breakdown,
    analysis.idle_interval_stats,
    analysis.device_idle_breakdown,
    analysis.device_idle_gaps,
    analysis.kernel_breakdown,
    analysis.kernel_duration_by_rank,
    analysis.communication_by_stream,
    analysis.communication_by_group,
]


@pytest.mark.parametrize("name", golden.names())
def test_every_trace_has_an_answer(name):
    traces = golden.whole(name)
    third = (traces.end_ns - traces.start_ns) // 3
    columns = {function: function(traces).columns for function in ALL}
    for options in (
        {},
        {"window": (traces.start_ns + third, traces.end_ns - third)},
        {"window": (traces.end_ns + 10, traces.end_ns + 20)},
        {"selection": traces.select("depth > 0"), "ranks": traces.ranks[:1]},
        {"ranks": []},
    ):
        for function in ALL:
            frame = function(traces, **options)
            assert frame.columns.equals(columns[function])
            assert len(frame.attrs["matched"]) > 1
            assert len(frame) or frame.attrs["note"]
        spent = analysis.temporal_breakdown(traces, **options)
        assert (
            spent["idle_ns"] + spent["compute_ns"] + spent["non_compute_ns"] == spent["span_ns"]
        ).all()
        causes = analysis.device_idle_breakdown(traces, **options)
        idle = causes.groupby("rank")["idle_ns"].sum()
        assert idle.to_dict() == spent.set_index("rank")["idle_ns"].to_dict()

"""Breakdowns of device time that differ from HTA's on purpose.

Each breakdown is tested twice. With our rules, each difference is listed in a table with its
reason. With HTA's rounding and its event classes, the numbers must be equal.
"""

import functools

import numpy as np
import pytest
from support import golden
from support.hta_rounding import rounded

from hta_widgets import analysis, taxonomy

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}
QUARTILES = {"25%": "p25_ns", "50%": "p50_ns", "75%": "p75_ns"}
STREAM = ["rank", "stream", "idle_category"]

TEMPORAL = "temporal_breakdown.csv"
IDLE = "idle_time_breakdown.time.csv"
STATS = "idle_time_breakdown.interval_stats.csv"
TYPES = "gpu_kernel_breakdown_all.types.csv"
KERNELS = "gpu_kernel_breakdown_all.kernels.csv"
NO_COPIES = "gpu_kernel_breakdown_nomem.types.csv"
SHARES = "comm_comp_overlap.csv"

#: The analysis of each file, the key of a row, and our columns by HTA's (in us). Rows that are
#: empty in the first column count as missing, because HTA also lists rows without any time.
FILES = {
    TEMPORAL: (
        analysis.temporal_breakdown,
        ["rank"],
        {
            "kernel_time(us)": "span_ns",
            "idle_time(us)": "idle_ns",
            "compute_time(us)": "compute_ns",
            "non_compute_time(us)": "non_compute_ns",
        },
    ),
    SHARES: (
        analysis.comm_comp_overlap, ["rank"], {"comp_comm_overlap_pctg": "overlap_share"},
    ),
    IDLE: (
        analysis.idle_time_breakdown, STREAM, {"idle_time": "idle_ns"},
    ),
    STATS: (
        analysis.idle_interval_stats,
        STREAM,
        {"count": "count", **{each: f"{each}_ns" for each in ("mean", "std", "min", "max")}}
        | QUARTILES,
    ),
    TYPES: (
        analysis.kernel_type_breakdown, ["kernel_type"], {"sum": "sum_ns"},
    ),
    KERNELS: (
        analysis.kernel_breakdown,
        ["rank", "kernel_type", "name"],
        {f"{each} (us)": f"{each}_ns" for each in ("sum", "mean", "min", "max")}
        | {"stddev": "std_ns"},
    ),
    NO_COPIES: (
        functools.partial(analysis.kernel_type_breakdown, include_memory=False),
        ["kernel_type"],
        {"sum": "sum_ns"},
    ),
}  # fmt: skip
#: Half a unit of the last digit in HTA's file.
CLOSE = {SHARES: 0.00501, STATS: 0.00501, KERNELS: 1e-9}


def both(name, file, traces, **options):
    """Return HTA's numbers and ours as {(key, …, column): microseconds or percent}."""
    compute, keys, columns = FILES[file]
    frame = compute(traces, **options)
    if "kind" in frame:
        frame["kernel_type"] = frame["kind"].astype(str).map(WORDS)
    for column in columns.values():
        if column != "count":
            frame[column] *= 100 if column.endswith("_share") else 1 / 1000
    first, *_ = columns.values()
    return [
        golden.cells(each[each[first] != 0], keys, columns.values())
        for each in (golden.frame(name, file).rename(columns=columns), frame)
    ]


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

#: All deliberate differences, one per file: a cell, HTA's value, ours (in us) and the reason.
DIFFERENCES = {
    (ALEXNET, TEMPORAL): ((0, "non_compute_ns"), 55690, 55511, SYNC),
    (EVENT_SYNC, TEMPORAL): ((0, "non_compute_ns"), 7, 2, SYNC),
    (MULTI_STREAM, TEMPORAL): ((0, "compute_ns"), 371, 369, WAIT),
    (SIMPLE_ADD, TEMPORAL): ((0, "non_compute_ns"), 39287, 39088, SYNC),
    (MTIA_TRACE, TEMPORAL): ((0, "compute_ns"), 419614, 414085.123, MTIA),
    (TRITON_TRACE, TEMPORAL): ((0, "compute_ns"), 94, 1.76, TRITON),
    (MTIA_TRACE, IDLE): ((0, 101, "kernel_wait", "idle_ns"), 244, 137.377, MTIA),
    (DIFF_TEST, IDLE): ((1, 7, "kernel_wait", "idle_ns"), 42372, 42486, OVERLAP),
    (DIFF_TEST, STATS): ((1, 7, "kernel_wait", "min_ns"), -13, 0, OVERLAP),
    (ALEXNET, TYPES): (("COMPUTATION", "sum_ns"), 10637, 10630, WAIT),
    (MULTI_STREAM, TYPES): (("COMPUTATION", "sum_ns"), 371, 369, WAIT),
    (SIMPLE_ADD, TYPES): (("COMPUTATION", "sum_ns"), 10676, 10670, WAIT),
    (MTIA_TRACE, TYPES): (("COMPUTATION", "sum_ns"), 384712, 381491.064, MTIA),
    (TRITON_TRACE, TYPES): (("COMPUTATION", "sum_ns"), 94, 1.76, TRITON),
    (ALEXNET, KERNELS): ((0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 10, None, WAIT),
    (MULTI_STREAM, KERNELS): ((0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 2, None, WAIT),
    (SIMPLE_ADD, KERNELS): ((0, "COMPUTATION", "Stream Wait Event", "sum_ns"), 8, None, WAIT),
    (MTIA_TRACE, KERNELS): ((0, "COMPUTATION", "event_wait", "sum_ns"), 352517, None, MTIA),
    (TRITON_TRACE, KERNELS): (
        (0, "COMPUTATION", "triton_poi_fused_add_cos_sin_0", "sum_ns"), 95, 1.76, TRITON),
    (ALEXNET, NO_COPIES): (("COMPUTATION", "sum_ns"), 10637, 10630, WAIT),
    (MULTI_STREAM, NO_COPIES): (("COMPUTATION", "sum_ns"), 371, 369, WAIT),
    (SIMPLE_ADD, NO_COPIES): (("COMPUTATION", "sum_ns"), 10676, 10670, WAIT),
    (MTIA_TRACE, NO_COPIES): (("COMPUTATION", "sum_ns"), 419646, 414085.123, MTIA),
    (TRITON_TRACE, NO_COPIES): (("COMPUTATION", "sum_ns"), 94, 1.76, TRITON),
}  # fmt: skip


#: All files of the traces that have a difference. `test_hta_facade` compares all other traces.
CASES = [
    (name, file) for file in FILES for name in golden.names(file)
    if name in {trace for trace, _ in DIFFERENCES}
]  # fmt: skip


@pytest.mark.parametrize(("name", "file"), DIFFERENCES)
def test_differences_are_those_of_the_table(name, file):
    expected, got = both(name, file, golden.kept(name))
    what, theirs, ours, _ = DIFFERENCES[name, file]
    assert expected[what] == theirs
    assert got.get(what) == ours


# --- as HTA counts --------------------------------------------------------------------------------


@pytest.fixture
def classes():
    """Add HTA's classes to the taxonomy, for events that are not device work here."""

    def give(file):
        taxonomy.add("compute", "^event_", category="mtia_ccp_events")
        taxonomy.add("compute", "^triton_", category="cpu_op")
        if file == TEMPORAL:
            # In HTA, these waits are busy time, but not compute.
            taxonomy.add("memory", "", category="cuda_sync")
        if not file.startswith("idle"):
            taxonomy.add("compute", "^Stream Wait Event$", category="cuda_sync")

    yield give
    taxonomy.reset()


#: Remaining differences, {cell: (HTA's, ours)} in us. MTIA: HTA gives events shorter than 1 us a
#: length of -1, which shortens its sums. For the other trace see `OVERLAP`.
REMAINS = {
    (MTIA_TRACE, TEMPORAL): {
        (0, "idle_ns"): (19235, 19204),
        (0, "compute_ns"): (419614, 419646),
        (0, "non_compute_ns"): (4426, 4425),
    },
    (MTIA_TRACE, TYPES): {
        ("MEMORY", "sum_ns"): (4424, 4425),
        ("COMPUTATION overlapping COMMUNICATION", "sum_ns"): (1, np.nan),
    },
    (DIFF_TEST, IDLE): {(1, 7, "kernel_wait", "idle_ns"): (42372, 42486)},
    (DIFF_TEST, STATS): {
        (1, 7, "kernel_wait", "mean_ns"): (3.51, 42486 / 12068),
        (1, 7, "kernel_wait", "std_ns"): (3.03, 3.01),
        (1, 7, "kernel_wait", "min_ns"): (-13, 0),
    },
}


@pytest.mark.parametrize(("name", "file"), CASES)
def test_with_its_rounding_and_classes_the_numbers_are_htas(name, file, classes):
    classes(file)
    traces = rounded(golden.kept(name))
    seen = "stream >= 0 or category == 'cpu_op'"
    if name in {ALEXNET, SIMPLE_ADD}:
        seen += " or name == 'Context Sync'"
    expected, got = both(name, file, traces, selection=traces.select(seen))
    result = golden.differing(expected, got, CLOSE.get(file, 0))
    remains = REMAINS.get((name, file), {})
    assert result.keys() == remains.keys()
    for what, numbers in remains.items():
        assert result[what] == pytest.approx(numbers, abs=0.005, nan_ok=True)


ALL = [
    analysis.temporal_breakdown, analysis.kernel_type_breakdown, analysis.comm_comp_overlap,
    analysis.idle_time_breakdown, analysis.idle_interval_stats, analysis.device_idle_breakdown,
    analysis.device_idle_gaps, analysis.kernel_breakdown, analysis.kernel_duration_by_rank,
    analysis.communication_by_stream, analysis.communication_by_group,
]  # fmt: skip


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

"""Trace comparisons, checked against HTA's name by name."""

import json

import pandas as pd
import pytest
from support import golden

import hta_widgets as hw
from hta_widgets.analysis.operator_diff import diff_ops
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.trace_analysis import TraceAnalysis
from hta_widgets.compat.trace_diff import DeviceType, LabeledTrace, TraceDiff

PAIRS = golden.GOLDEN / "trace_diff"

#: The two traces of each pair, and the arguments that HTA was called with.
CALLS = {
    "hta_compare_base_vs_test": ("trace_compare__base", "trace_compare__test", {}),
    "hta_compare_base_vs_test_iter1010": (
        "trace_compare__base", "trace_compare__test",
        {"control_iteration": 1010, "test_iteration": 1010},
    ),
    "hta_control_vs_test": ("trace_diff__control", "trace_diff__test", {}),
    "trace_filter_self_rank0_vs_rank1": (
        "trace_filter", "trace_filter", {"control_rank": 0, "test_rank": 1}),
    "trace_filter_multirank": (
        "trace_filter", "trace_filter", {"control_rank": [0, 1], "test_rank": 1}),
}  # fmt: skip

#: Files that HTA wrote for each pair. Every file in the folder is compared.
FILES = {
    "info.json",
    *(f"compare.{word}.csv" for word in ("ALL", "ALL.short", "CPU", "GPU")),
    *(f"ops_diff.{word}.json" for word in ("ALL", "CPU", "GPU")),
    *(f"{side}.ops_summary.csv" for side in ("control", "test")),
}

pytestmark = pytest.mark.skipif(not PAIRS.is_dir(), reason=golden.MISSING)


def test_nothing_of_the_golden_folder_is_left_out():
    result = {folder.name: {file.name for file in folder.iterdir()} for folder in PAIRS.iterdir()}
    assert result == dict.fromkeys(CALLS, FILES)


@pytest.fixture(scope="module", params=CALLS)
def pair(request):
    control, test, options = CALLS[request.param]
    sides = [
        LabeledTrace(label, t=golden.whole(f"hta_tests__{name}"))
        for label, name in (("Control", control), ("Test", test))
    ]
    assert golden.resolution_ns(f"hta_tests__{control}") == 1000
    return PAIRS / request.param, sides, options


@pytest.mark.parametrize(
    ("file", "more"),
    [
        ("CPU", {"device_type": DeviceType.CPU}),
        ("GPU", {"device_type": DeviceType.GPU}),
        ("ALL", {}),
        ("ALL.short", {"use_short_name": True}),
    ],
)
def test_every_number_of_the_comparison_is_hta_s(pair, file, more):
    folder, (control, test), options = pair
    got = TraceDiff.compare_traces(control, test, **options, **more)
    expected = pd.read_csv(folder / f"compare.{file}.csv", index_col=0, keep_default_na=False)
    assert got.index.name == expected.index.name
    pd.testing.assert_frame_equal(
        got.sort_index(), expected.sort_index(), check_dtype=False, check_index_type=False
    )
    assert got.index.tolist() == expected.index.tolist()


@pytest.mark.parametrize("device", DeviceType)
def test_the_lists_of_names_are_hta_s(pair, device):
    folder, (control, test), options = pair
    got = TraceDiff.ops_diff(control, test, **options, device_type=device)
    expected = json.loads((folder / f"ops_diff.{device.name}.json").read_text("utf-8"))
    got, expected = (
        {word: sorted(names) for word, names in item.items()} for item in (got, expected)
    )
    assert got == expected


def test_ranks_steps_and_sums_by_category_are_hta_s(pair):
    folder, sides, options = pair
    info = json.loads((folder / "info.json").read_text("utf-8"))
    for word, side in zip(("control", "test"), sides, strict=True):
        assert side.ranks() == info[word]["ranks"]
        assert side.iterations() == info[word]["iterations"]
        ops = side.extract_ops(options.get(f"{word}_rank"), options.get(f"{word}_iteration"))
        got = side.get_ops_summary(ops)
        expected = pd.read_csv(folder / f"{word}.ops_summary.csv", keep_default_na=False)
        assert list(got.columns) == list(expected.columns)
        # HTA's name ids change from run to run.
        columns = ["cat", "name", "short_name", "counts", "total_duration"]
        keys = ["cat", "name"]
        pd.testing.assert_frame_equal(
            got[columns].sort_values(keys, ignore_index=True),
            expected[columns].sort_values(keys, ignore_index=True),
            check_dtype=False,
        )
        assert side.s_tab[got["name_id"]].tolist() == got["name"].tolist()
        assert side.s_map[got["cat"]].tolist() == got["cat_id"].tolist()


def test_our_own_function_has_the_same_numbers(pair):
    folder, (control, test), options = pair
    expected = pd.read_csv(folder / "compare.ALL.csv", index_col=0, keep_default_na=False)
    sides = (control.t, test.t)
    ranks = [
        options.get(key, side.ranks[0])
        for key, side in zip(("control_rank", "test_rank"), sides, strict=True)
    ]
    step = options.get("control_iteration", control.iterations()[0])
    options = dict(zip(("before_ranks", "after_ranks"), ranks, strict=True))
    frame = diff_ops(*sides, **options, before_steps=step, after_steps=step).set_index("name")
    assert set(frame.index) == set(expected.index)
    frame = frame.loc[expected.index]
    for ours, theirs in (("before", "Control"), ("after", "Test")):
        assert (frame[f"{ours}_count"] == expected[f"{theirs}_counts"]).all()
        assert (frame[f"{ours}_ns"] == expected[f"{theirs}_total_duration"] * 1000).all()
    words = json.loads((folder / "ops_diff.ALL.json").read_text("utf-8"))
    word_of = {"deleted": "removed", "unchanged": "same"} | dict.fromkeys(
        ("increased", "decreased"), "changed"
    )
    for word, names in words.items():
        assert set(frame.loc[names, "change"]) <= {word_of.get(word, word)}


def test_kernels_on_stream_0_take_part(shared):
    # HTA assigns no step to events on stream 0, so it compares none of these kernels.
    traces = hw.load(shared / "traces/hta_tests/amd_trace", cache=False, progress=False)
    frame = TraceDiff.compare_traces(traces, traces, device_type=DeviceType.GPU)
    events = traces.events()
    work = events[
        (events["stream"] == 0) & (events["step"] == 1) & (events["kind"] != "annotation")
    ]
    assert len(work) > 10
    assert frame["Control_counts"].sum() == len(work)
    assert frame["Test_total_duration"].sum() == pytest.approx(work["dur_ns"].sum() / 1000)


def test_traces_without_steps_are_compared_whole(shared):
    folder = shared / "traces/hta_tests/cupti_profiler"
    frame = TraceDiff.compare_traces(str(folder), folder)
    assert (frame["counts_change_categories"] == "=").all()
    # All events except two spans of the profiler itself.
    assert frame["Control_counts"].sum() == 2324 - 2


def test_charts_are_written_as_pages(tmp_path):
    sides = [golden.whole(f"hta_tests__trace_diff__{side}") for side in ("control", "test")]
    frame = TraceDiff.compare_traces(*sides, device_type=DeviceType.GPU)
    longest = frame.sort_values("diff_duration", ascending=False).head(10)
    assert TraceDiff.visualize_counts_diff(longest) is None
    TraceDiff.visualize_counts_diff(longest, False, str(tmp_path / "counts.png"))
    TraceDiff.visualize_duration_diff(longest, False, str(tmp_path / "time.html"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts.html", "time.html"]
    assert "Time, Test against Control" in (tmp_path / "time.html").read_text("utf-8")
    with pytest.raises(ValueError, match="a comparison of two traces"):
        TraceDiff.visualize_counts_diff(frame[["diff_counts"]])


def test_hta_s_own_objects_are_taken(shared):
    folder = shared / "traces/hta_tests/trace_filter"
    trace = Trace(trace_dir=str(folder))
    labeled = LabeledTrace("a", t=trace)
    assert trace.is_parsed
    assert labeled.ranks() == [0, 1]
    analysis = TraceAnalysis(trace_dir=str(folder))
    both = TraceDiff.compare_traces(trace, analysis, [0, 1], [0, 1], [551, 552], [551, 552])
    # All steps, although the analysis leaves out the last one.
    assert (both["counts_change_categories"] == "=").all()
    ops = labeled.extract_ops(rank=[0, 1], iteration=551)
    assert set(ops["rank"]) == {0, 1}
    assert (labeled.t.symbol_table.get_sym_table_series()[ops["name"]] == ops["s_name"].array).all()
    assert LabeledTrace(trace_dir=folder).t.get_trace(1)["iteration"].max() == 552


def test_labels_and_errors(shared):
    traces = golden.whole("hta_tests__trace_compare__base")
    first, second = LabeledTrace("run", traces), LabeledTrace("run", traces[1])
    frame = TraceDiff.compare_traces(first, second)
    assert second.label == "run_control_test"
    assert {"run_counts", "run_control_test_counts"} < set(frame.columns)
    frame = TraceDiff.compare_traces(first, first)
    assert first.label == "run"
    assert {"run_counts", "run_control_test_counts"} < set(frame.columns)
    assert LabeledTrace(t=traces).label != LabeledTrace(t=traces).label
    with pytest.raises(ValueError, match=r"run has no rank 0\. The ranks are 1"):
        first.extract_ops(rank=0)
    with pytest.raises(ValueError, match=r"run has no iteration 3\. .* 1009, 1010"):
        first.extract_ops(iteration=[1009, 3])
    with pytest.raises(ValueError, match="no traces to compare"):
        LabeledTrace("run")
    with pytest.raises(ValueError, match="a int holds no traces"):
        TraceDiff.ops_diff(5, traces)


ASK_HTA = """
import json, sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_diff import DeviceType, LabeledTrace, TraceDiff
answer = {}
for folder in sys.argv[1:]:
    sides = [LabeledTrace(label, trace_dir=folder) for label in "AB"]
    steps = sides[0].iterations()
    answer[folder] = {
        device.name: TraceDiff.compare_traces(*sides, None, None, steps, steps, device)
        [["A_counts", "A_total_duration"]].T.to_dict("list")
        for device in DeviceType
    }
print("RESULT" + json.dumps(answer))
"""

_COPIES = "HTA adds the copies of annotations on the device to those on the host"
_STREAM_0 = "HTA finds no step for events on stream 0"
_TRITON = "HTA takes an operator for a kernel because it has a stream arg"

#: Event counts that differ from HTA's: trace, device, HTA's count, ours, and the reason.
DIFFERENCES = {
    ("amd_trace", "CPU"): (95, 93, _COPIES),
    ("amd_trace", "GPU"): (0, 16, _STREAM_0),
    ("nccl_parser_config", "CPU"): (23153, 23123, _COPIES),
    ("triton_example", "CPU"): (5, 6, _TRITON),
    ("triton_example", "GPU"): (2, 1, _TRITON),
}
WITHOUT_DIFFERENCE = ("call_stack", "cpu_only", "critical_path__cuda_event_sync")


NAMES = sorted({name for name, _ in DIFFERENCES} | set(WITHOUT_DIFFERENCE))


@pytest.fixture(scope="module")
def asked(shared, ask_hta):
    """Run HTA to compare each trace with itself, with all steps of the first rank."""
    folders = {name: str(shared / "traces/hta_tests" / name) for name in NAMES}
    replies = ask_hta(ASK_HTA, *folders.values())
    return {name: replies[folder] for name, folder in folders.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", [DeviceType.CPU, DeviceType.GPU])
def test_all_that_differs_from_hta_is_in_the_table(asked, name, device):
    expected = asked[name][device.name]
    labeled = LabeledTrace("A", t=golden.whole(f"hta_tests__{name}"))
    steps = labeled.iterations()
    frame = TraceDiff.compare_traces(labeled, labeled, None, None, steps, steps, device)
    got = dict(zip(frame.index, frame.iloc[:, [0, 1]].itertuples(index=False), strict=True))
    events = sum(int(count) for count, _ in expected.values()), int(frame.iloc[:, 0].sum())
    differs = DIFFERENCES.get((name, device.name))
    assert events == (differs[:2] if differs else (events[0], events[0]))
    # HTA rounds both ends of an event inward to whole microseconds, so it loses up to 2 us.
    full = golden.resolution_ns(f"hta_tests__{name}") == 1000
    equal = 0
    for key in expected.keys() & got.keys():
        (count, time), ours = expected[key], got[key]
        if count == ours[0]:
            equal += 1
            assert abs(ours[1] - time) <= (0 if full else 2 * count)
    if differs is None:
        assert equal == len(expected) == len(got)
    elif differs[2] == _COPIES:
        assert expected.keys() == got.keys()
        assert equal >= len(got) - 10

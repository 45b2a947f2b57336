"""Differences in operators and kernels between two traces, counted by hand."""

import pytest
from support import recorded, small

import hta_widgets as hw
from hta_widgets.analysis.operator_diff import diff_ops


def event(name, ts, dur, category="cpu_op", **args):
    """Return an event with times in microseconds."""
    start, end = round(ts * 1000), round((ts + dur) * 1000)
    if "stream" in args:
        return small.event(category, name, start, end, pid=0, tid=args["stream"], **args)
    return small.event(category, name, start, end, pid=7, **args)


def launched(name, ts, dur, correlation, stream=0, category="kernel"):
    """Return a call at `ts` and its kernel one microsecond later."""
    return [
        event("hipLaunchKernel", ts, 1, "cuda_runtime", correlation=correlation),
        event(name, ts + 1, dur, category, stream=stream, correlation=correlation),
    ]


def step(number, ts, dur):
    return event(f"ProfilerStep#{number}", ts, dur, "user_annotation")


@pytest.fixture
def load(tmp_path):
    def load(name, *ranks):
        (tmp_path / name).mkdir()
        return small.read(small.write(tmp_path / name, *ranks))

    return load


@pytest.fixture
def before(load):
    return load(
        "before",
        [
            step(1, 0, 50), event("aten::mm", 1, 10), *launched("gemm<float>", 2, 8, 1),
            step(2, 50, 50), event("aten::mm", 51, 12), *launched("gemm<float>", 52, 9, 2),
            event("aten::item", 70, 5),
        ],
    )  # fmt: skip


@pytest.fixture
def after(load):
    return load(
        "after",
        [
            step(1, 0, 60), event("aten::mm", 1, 7.5), *launched("gemm<float>", 2, 6, 1),
            *launched("gemm<double>", 20, 30, 2), *launched("gemm<float>", 50, 4, 3),
        ],
    )  # fmt: skip


def rows(frame):
    return {
        row.name_: (row.before_count, row.after_count, row.before_ns, row.after_ns, row.change)
        for row in frame.rename(columns={"name": "name_"}).itertuples()
    }


def test_counts_and_times_of_both_sides(before, after):
    frame = diff_ops(before, after)
    assert rows(frame) == {
        "ProfilerStep#1": (1, 1, 50_000, 60_000, "same"),
        "ProfilerStep#2": (1, 0, 50_000, 0, "removed"),
        "aten::mm": (2, 1, 22_000, 7_500, "changed"),
        "aten::item": (1, 0, 5_000, 0, "removed"),
        "hipLaunchKernel": (2, 3, 2_000, 3_000, "changed"),
        "gemm<float>": (2, 2, 17_000, 10_000, "same"),
        "gemm<double>": (0, 1, 0, 30_000, "added"),
    }
    assert (frame["diff_count"] == frame["after_count"] - frame["before_count"]).all()
    assert (frame["diff_ns"] == frame["after_ns"] - frame["before_ns"]).all()
    assert frame["diff_ns"].abs().is_monotonic_decreasing
    assert frame.attrs["matched"] == {"before": 9, "after": 8}
    kinds = dict(zip(frame["name"], frame["kind"].astype(str), strict=True))
    expected = {"gemm<double>": "compute", "aten::mm": "cpu", "ProfilerStep#1": "annotation"}
    assert kinds | expected == kinds


def test_stream_0_belongs_to_the_device_and_to_its_step(before, after):
    frame = diff_ops(before, after, device="gpu", before_steps=2, after_steps=[1])
    assert rows(frame) == {
        "gemm<float>": (1, 2, 9_000, 10_000, "changed"),
        "gemm<double>": (0, 1, 0, 30_000, "added"),
    }
    host = diff_ops(before, after, device="cpu", before_steps=[2])
    assert rows(host)["aten::mm"] == (1, 1, 12_000, 7_500, "same")
    assert "gemm<float>" not in rows(host)
    # Short names merge instances of a template.
    frame = diff_ops(before, after, device="gpu", short_names=True)
    assert rows(frame) == {"gemm": (2, 3, 17_000, 40_000, "changed")}


def test_the_device_s_copies_of_annotations_are_no_work(load):
    copy = event("ProfilerStep#1", 3, 30, "gpu_user_annotation", stream=0)
    copies = load("copies", [step(1, 0, 50), copy, *launched("gemm<float>", 2, 8, 1)])
    gpu = diff_ops(copies, copies, device="gpu")
    assert rows(gpu) == {"gemm<float>": (1, 1, 8_000, 8_000, "same")}
    host = rows(diff_ops(copies, copies, device="cpu"))
    assert host["ProfilerStep#1"] == (1, 1, 50_000, 50_000, "same")
    both = rows(diff_ops(copies, copies))
    assert both["ProfilerStep#1"] == (2, 2, 80_000, 80_000, "same")


def test_a_side_may_be_a_rank_or_a_selection(before, after):
    full = diff_ops(before, after)
    assert diff_ops(before[0], after[0]).equals(full)
    cut = before.select("category == 'kernel'", start_ns=5_000, end_ns=55_000)
    frame = diff_ops(cut, after.select("category == 'kernel'"))
    # The window keeps 6 and 2 µs of the kernels at 3..11 and 53..62 µs.
    assert rows(frame)["gemm<float>"] == (2, 2, 8_000, 10_000, "same")
    narrowed = diff_ops(cut, after, selection=after.select("kind == 'compute'"), window=(0, 55_000))
    assert narrowed.equals(frame)
    one_rank = diff_ops(before[0], after[0], window=(5_000, 55_000), device="gpu")
    assert rows(one_rank)["gemm<float>"] == (2, 2, 8_000, 8_000, "same")
    traces = "before= takes a TraceSet, a Trace or a Selection, not 'runs/a'"
    for wrong, words in ((hw.Selection(), "is not bound to traces"), ("runs/a", traces)):
        with pytest.raises(hw.TraceError, match=words):
            diff_ops(wrong, after)


def test_totals_run_over_the_ranks_given(load, after):
    both = load("both", [event("a", 0, 1), event("b", 2, 1)], [event("a", 0, 5)])
    assert rows(diff_ops(both, both))["a"] == (2, 2, 6_000, 6_000, "same")
    frame = diff_ops(both, both, before_ranks=0, after_ranks=[1])
    assert rows(frame) == {"a": (1, 1, 1_000, 5_000, "same"), "b": (1, 0, 1_000, 0, "removed")}
    assert diff_ops(both, both, ranks=[1]).equals(diff_ops(both[1], both[1]))
    for options, words in (
        ({"after_ranks": 4}, "no rank 4"),
        ({"ranks": 4}, "no rank 4"),
        ({"after_steps": 3}, r"no step 3\. The steps are 1\."),
        ({"before_steps": 3}, "No event lies in a ProfilerStep"),
        ({"device": "tpu"}, "device= takes 'all', 'cpu' or 'gpu', not 'tpu'"),
    ):
        with pytest.raises(hw.TraceError, match=words):
            diff_ops(both, after, **options)
    with pytest.raises(hw.TraceError, match="no rank 1"):
        diff_ops(both[0], both, ranks=1)


def test_a_name_of_several_kinds_takes_the_kind_with_most_time(load):
    twice = [event("## fwd ##", 0, 9), event("## fwd ##", 20, 10, "user_annotation")]
    traces = load("twice", twice)
    frame = diff_ops(traces, traces)
    assert rows(frame) == {"## fwd ##": (2, 2, 19_000, 19_000, "same")}
    assert list(frame["kind"]) == ["annotation"]


def test_nothing_on_either_side_is_an_empty_frame_with_a_reason(before):
    nothing = before.select(start_ns=10**15, end_ns=10**16)
    frame = diff_ops(nothing, nothing)
    assert frame.empty
    assert frame.attrs == {"matched": {"before": 0, "after": 0}, "note": "no events on either side"}
    assert (frame.dtypes == diff_ops(before, before).dtypes).all()


@pytest.mark.parametrize("path", recorded.paths(
    "hta_tests/amd_trace", "hta_tests/mtia_inference_trace", "hta_tests/triton_example",
))  # fmt: skip
def test_a_trace_differs_in_nothing_from_itself(path):
    traces = hw.load(path, cache=False, progress=False)
    for device in ("all", "cpu", "gpu"):
        frame = diff_ops(traces, traces, device=device)
        assert (frame["change"] == "same").all()
        assert (frame[["diff_count", "diff_ns"]] == 0).all(axis=None)
        table = traces.events()
        on_device = table["stream"] >= 0
        count = {
            "all": len(table),
            "gpu": (on_device & (table["kind"] != "annotation")).sum(),
            "cpu": (~on_device).sum(),
        }
        assert frame["before_count"].sum() == count[device]


@pytest.mark.parametrize(("ranks", "steps"), [(None, None), ([0, 3], None), ([1, 2], [1, 2])])
def test_sums_are_those_of_pandas(ranks, steps):
    traces = hw.load(recorded.DATA / "gpu", progress=False)
    events = traces.events()
    known_values = sorted(set(events["step"]) - {-1})
    steps = None if steps is None else [known_values[k] for k in steps]
    if ranks is not None:
        events = events[events["rank"].isin(ranks)]
    if steps is not None:
        events = events[events["step"].isin(steps)]
    expected = events.groupby("name", observed=True)["dur_ns"].agg(["count", "sum"])
    frame = diff_ops(traces, traces[0], before_ranks=ranks, before_steps=steps)
    frame = frame[frame["before_count"] > 0].set_index("name")
    assert set(frame.index) == set(expected.index.astype(str))
    assert frame["before_count"].tolist() == expected.loc[frame.index, "count"].tolist()
    assert frame["before_ns"].tolist() == expected.loc[frame.index, "sum"].tolist()

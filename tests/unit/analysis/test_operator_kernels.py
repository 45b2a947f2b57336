"""Kernels, launch delays and kernel sequences of operators, calculated by hand."""

import json
from pathlib import Path

import pytest
from support.small import call, copy, event, kernel, load

import hta_widgets as hw
from hta_widgets.analysis import frequent_kernel_sequences, operator_kernels, operator_launch_delays
from hta_widgets.export.traces.overlays import export_patterns


def op(name, start, end, *, tid=1, cat="cpu_op", **args):
    return event(cat, name, start, end, pid=10, tid=tid, **args)


EVENTS = [
    op("aten::linear", 100, 200), op("aten::addmm", 110, 190), call(140, 145, 1), call(150, 155, 2),
    kernel(300, 340, launch=1, name="a"), kernel(340, 350, launch=2, name="b"),
    op("aten::linear", 400, 500), op("aten::addmm", 410, 490), call(420, 425, 3), call(450, 455, 4),
    kernel(600, 640, launch=3, name="a"), kernel(640, 650, launch=4, name="b"),
    op("aten::copy_", 700, 800), call(710, 720, 5, name="cudaMemcpyAsync"),
    copy(900, 920, correlation=5),
]  # fmt: skip


def test_each_event_with_its_innermost_operator(tmp_path):
    frame = operator_kernels(load(tmp_path, EVENTS))
    columns = ["name", "operator", "kind", "operator_delay_ns", "runtime_delay_ns", "dur_ns"]
    assert frame[columns].to_numpy().tolist() == [
        ["a", "aten::addmm", "compute", 30, 160, 40],
        ["b", "aten::addmm", "compute", 40, 190, 10],
        ["a", "aten::addmm", "compute", 10, 180, 40],
        ["b", "aten::addmm", "compute", 40, 190, 10],
        ["Memcpy HtoD", "aten::copy_", "memory", 10, 190, 20],
    ]
    assert frame.attrs["matched"]["below_operator"] == 5
    # Times are clipped; delays are not.
    frame = operator_kernels(load(tmp_path, EVENTS), window=(310, 345))
    columns = ["start_ns", "dur_ns", "runtime_delay_ns"]
    assert frame[columns].to_numpy().tolist() == [[310, 30, 160], [340, 5, 190]]


def test_under_operators_of_a_name(tmp_path):
    traces = load(tmp_path, EVENTS)
    frame = operator_kernels(traces, "aten::linear")
    assert frame["operator"].tolist() == ["aten::linear"] * 4
    events = traces[0].events
    assert events.loc[frame["operator_id"], "start_ns"].tolist() == [100, 100, 400, 400]
    assert len(operator_kernels(traces, "linear")) == 4
    assert len(operator_kernels(traces, "linear", exact=True)) == 0
    assert len(operator_kernels(traces, "aten::copy_", exact=True)) == 1
    # If two enclosing names match, the inner operator is used.
    assert set(operator_kernels(traces, "aten::")["operator"]) == {"aten::addmm", "aten::copy_"}
    nothing = operator_kernels(traces, "aten::nothing")
    assert "aten::nothing" in nothing.attrs["note"]
    # Ranges are included if they are named.
    traces = load(tmp_path, [op("my range", 90, 600, cat="user_annotation"), *EVENTS])
    assert operator_kernels(traces, "my range")["name"].tolist() == ["a", "b", "a", "b"]


def test_delays_of_first_launches(tmp_path):
    frame = operator_launch_delays(load(tmp_path, EVENTS))
    # The call for the copy does not launch a kernel.
    assert frame.to_numpy().tolist() == [[0, "aten::addmm", "a -> b", 2, 20.0, 170.0]]


def test_operators_of_other_threads_enclose_nothing(tmp_path):
    events = [op("aten::mine", 100, 200), op("aten::other", 120, 300, tid=2)]
    events += [call(150, 155, 1), kernel(400, 410, launch=1)]
    frame = operator_launch_delays(load(tmp_path, events))
    assert frame["operator"].tolist() == ["aten::mine"]
    assert frame["avg_operator_launch_delay_ns"].tolist() == [50.0]


@pytest.mark.parametrize("name", ["hipLaunchKernel", "cudaGraphLaunch", "cuLaunchKernelEx"])
def test_launches_of_any_vendor_and_several_kernels_of_one(tmp_path, name):
    events = [
        op("aten::mm", 100, 200),
        call(150, 155, 1, name=name),
        kernel(400, 410, launch=1, name="x", stream=0),
        kernel(410, 420, launch=1, name="y", stream=0),
    ]
    frame = operator_launch_delays(load(tmp_path, events))
    assert frame["kernel_sequence"].tolist() == ["x -> y"]
    assert frame["avg_runtime_delay_ns"].tolist() == [250.0]


def test_most_frequent_first_within_a_rank(tmp_path):
    again = [op("aten::b", 1000, 1100), call(1010, 1020, 9), kernel(1200, 1210, launch=9)]
    traces = load(tmp_path, [*again, *EVENTS], EVENTS)
    frame = operator_launch_delays(traces)
    assert frame[["rank", "operator", "occurrence_count"]].to_numpy().tolist() == [
        [0, "aten::addmm", 2],
        [0, "aten::b", 1],
        [1, "aten::addmm", 2],
    ]
    early = operator_launch_delays(traces, window=(0, 300), ranks=[0])
    assert early["occurrence_count"].tolist() == [1]


def layer(start, names, *, tid=1, name="layer", number=0):
    """Return an operator that launches one kernel of 10 ns per name, 1000 ns later."""
    events = [op(name, start, start + 100, tid=tid)]
    for place, kernel_name in enumerate(names):
        at = start + 10 + 10 * place
        key = 1000 * number + start + place
        events.append(call(at, at + 5, key, tid=tid))
        events.append(kernel(at + 1000, at + 1010, name=kernel_name, launch=key))
    return events


def found(traces, name="layer", **options):
    frame = frequent_kernel_sequences(traces, name, **options)
    return frame[["pattern", "count", "kernel_ns", "operator_ns"]].to_numpy().tolist()


def patterns(traces, name="layer", **options):
    return [row[0] for row in found(traces, name, min_pattern_len=1, **options)]


TWICE = [
    *(*layer(100, "abc"), *layer(300, "abc")),
    *(*layer(500, "acbb"), *layer(700, "a")),
]


def test_patterns_by_frequency(tmp_path):
    traces = load(tmp_path, TWICE)
    frame = frequent_kernel_sequences(traces, "layer")
    assert frame.attrs["matched"] == {"operators": 4, "occurrences": 3, "kernels": 10}
    assert found(traces) == [["layer|a|b|c", 2, 60, 200], ["layer|a|c|b|b", 1, 40, 100]]
    assert found(traces, top_k=1) == found(traces)[:1]
    assert patterns(traces) == ["layer|a|b|c", "layer|a", "layer|a|c|b|b"]
    # Of the first operator, 50 ns are in the window, and 5 ns of its kernels at 1110.
    cut = found(traces, window=(150, 1115))
    assert cut == [["layer|a|b|c", 2, 5, 150], ["layer|a|c|b|b", 1, 0, 100]]
    two = load(tmp_path, TWICE, TWICE[:7])
    assert frequent_kernel_sequences(two, "layer")["rank"].tolist() == [0, 0, 1]
    assert found(two, ranks=[1]) == [["layer|a|b|c", 1, 30, 100]]


def test_only_the_least_deep_or_every_outermost(tmp_path):
    traces = load(tmp_path, [*layer(100, "a"), op("model", 290, 450), *layer(300, "b")])
    assert patterns(traces) == ["layer|a"]
    assert patterns(traces, every_depth=True) == ["layer|a", "layer|b"]
    # An operator inside an operator of the same name is part of it.
    traces = load(tmp_path, [op("layer", 90, 600), *layer(100, "a"), *layer(300, "b")])
    for every_depth in (False, True):
        full = found(traces, min_pattern_len=1, every_depth=every_depth)
        assert full == [["layer|a|b", 1, 20, 510]]


def test_order_is_by_start_on_all_streams_with_copies_and_waits(tmp_path):
    events = [
        op("layer", 100, 200), call(110, 115, 1), call(120, 125, 2), call(130, 135, 3),
        kernel(500, 510, name="late", launch=1), copy(300, 310, stream=0, correlation=2),
        event("cuda_sync", "Stream Wait Event", 400, 404, pid=0, tid=9, stream=9, correlation=3),
    ]  # fmt: skip
    expected = [["layer|Memcpy HtoD|Stream Wait Event|late", 1, 24, 100]]
    assert found(load(tmp_path, events)) == expected


@pytest.mark.parametrize("above", ["## backward ##", "ProfilerStep#7"])
def test_the_autograd_thread_lies_below_the_main_one(tmp_path, above):
    events = [op("ProfilerStep#7", 50, 900, cat="user_annotation"), *layer(100, "a")]
    events += [op("autograd::engine", 300, 500, tid=2), *layer(310, "b", tid=2)]
    if above.startswith("##"):
        events.append(op(above, 280, 600, cat="user_annotation"))
    traces = load(tmp_path, events)
    kernels = "b" if above.startswith("##") else "a|b"
    assert patterns(traces, above) == [f"{above}|{kernels}"]
    # On its own thread, the backward range would not be deeper than the other range.
    assert patterns(traces) == ["layer|a"]


def test_nothing_found(tmp_path):
    traces = load(tmp_path, TWICE)
    for name, options, why in [
        ("nothing", {}, "no host event's name contains 'nothing'"),
        ("", {}, "no host event's name contains ''"),
        ("layer", {"min_pattern_len": 9}, "no 'layer' launched 9 or more device events"),
    ]:
        frame = frequent_kernel_sequences(traces, name, **options)
        assert frame.empty
        assert frame.attrs["note"] == why


# --- marks in a file ------------------------------------------------------------------------------


def records(path):
    return json.loads(path.read_text())["traceEvents"]


def test_occurrences_are_marked_and_the_rest_stays(tmp_path):
    extra = event("cpu_op", "aten::other", 2000, 2010, pid=10, tid=1, keep=[1, 2])
    traces = load(tmp_path, [*TWICE, extra])
    folder = tmp_path / "out"
    folder.mkdir()
    report = export_patterns(traces, "layer", folder, top_k=1)
    assert report.path == folder / "overlaid_rank-0.json"
    written = records(report.path)
    before = records(Path(traces[0].path))
    assert len(written) == len(before)
    marked = [entry for entry in written if "Patterns" in entry["args"]]
    # Two occurrences of one operator, three calls and three kernels.
    assert len(marked) == 2 * 7
    assert all(entry["args"]["Patterns"] == {"layer|a|b|c": 2} for entry in marked)
    for entry in marked:
        del entry["args"]["Patterns"]
    assert written == before
    again = hw.load(report.path, cache=False, progress=False)
    assert found(again) == found(traces)


def test_the_rest_can_be_compressed(tmp_path):
    profiler = event("Trace", "PyTorch Profiler (0)", 0, 10_000, pid="Spans", **{"Op count": 0})
    traces = load(tmp_path, [profiler, *TWICE])
    options = {"min_pattern_len": 4, "compress_other_kernels": True}
    report = export_patterns(traces, "layer", tmp_path, **options)
    written = records(report.path)
    legend = next(entry for entry in written if entry["cat"] == "Trace")["args"]
    others = [e for e in written if "Patterns" not in e["args"] and e["cat"] != "Trace"]
    assert all(entry["args"] == {} for entry in others)
    names = [legend[entry["name"]] for entry in others]
    assert names.count("layer") == 3
    assert sum("Patterns" in entry["args"] for entry in written) == 9


def test_never_beside_the_input_unasked_and_never_without_marks(tmp_path):
    traces = load(tmp_path, TWICE)
    own = hw.load(traces[0].path, cache=False, progress=False)
    folder = tmp_path / traces[0].path.rsplit("/", 1)[0]
    with pytest.raises(hw.TraceError, match="folder that the trace was read from"):
        export_patterns(own, "layer", folder)
    assert [entry.name for entry in folder.iterdir()] == ["rank-0.json"]
    assert export_patterns(own[0], "layer", folder, beside_input=True).path.exists()
    with pytest.raises(hw.TraceError, match="nothing to mark"):
        export_patterns(traces, "nothing", tmp_path)
    with pytest.raises(hw.TraceError, match="does not exist"):
        export_patterns(traces, "layer", tmp_path / "none")

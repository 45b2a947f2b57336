"""Members of a selection, and its round trip through text."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from support.made_ranks import call, kernel, op

from hta_widgets.errors import TraceError
from hta_widgets.trace.names import short_name
from hta_widgets.trace.traceset import Selection, TraceSet


@pytest.fixture
def traces(make):
    def rank(number, first):
        events = [
            op("a", first, 10),
            op("b", first + 2, 3),
            op("tick", first + 10, 0),
            kernel("k", first + 12, 4),
        ]
        return make(*events, rank=number)

    return TraceSet([rank(0, 0), rank(2, 5)])


def names(selection):
    frame = selection.events()
    return [f"{rank}{name}" for rank, name in zip(frame["rank"], frame["name"], strict=True)]


def test_the_empty_value_selects_everything(traces):
    everything = traces.select()
    assert everything == Selection()
    assert everything.is_everything
    assert len(everything.events()) == 8
    assert everything.events().index.tolist() == [0, 1, 2, 3] * 2


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 5_000, ["0a", "0b"]),
        (5_000, 10_000, ["0a", "2a", "2b"]),
        (10_000, 10_001, ["0tick", "2a"]),
        (10_000, 10_000, []),
        (9_999, 10_000, ["0a", "2a", "2b"]),
        (16_000, None, ["2k"]),
        (None, 2_000, ["0a"]),
        (None, 2_001, ["0a", "0b"]),
        (21_000, None, []),
    ],
)
def test_windows_are_half_open(traces, start, end, expected):
    assert names(traces.select(start_ns=start, end_ns=end)) == expected


def test_events_come_whole(traces):
    frame = traces.select(start_ns=4_000, end_ns=4_001).events()
    assert frame["dur_ns"].tolist() == [10_000, 3_000]


def test_all_that_is_given_must_hold(traces):
    assert names(traces.select(ranks=[2], start_ns=0, end_ns=8_000)) == ["2a", "2b"]
    assert names(traces.select(ranks=[])) == []
    host = "process 7 · thread 1"
    assert names(traces.select(tracks=[host], ranks=[0])) == ["0a", "0b", "0tick"]
    assert names(traces.select(tracks=[(2, host)])) == ["2a", "2b", "2tick"]
    assert names(traces.select(tracks=[(2, host), "device 0 · stream 7"])) == [
        "0k", "2a", "2b", "2tick", "2k",
    ]  # fmt: skip
    assert names(traces.select(ids=[(2, 1), (0, 3), (0, 99), (7, 0)])) == ["0k", "2b"]
    assert names(traces.select("kind == 'cpu' and dur_ns > 0", ids=[(0, 1), (0, 2)])) == ["0b"]
    assert names(traces.select("name.str.contains('[ab]') & rank == 2")) == ["2a", "2b"]
    assert names(traces.select("True")) == names(traces.select())


def test_a_frame_of_events_selects_them(traces):
    frame = traces.events()
    assert names(traces.select(frame[frame["name"] == "k"])) == ["0k", "2k"]
    assert names(traces.select(frame.reset_index()[4:6])) == ["2a", "2b"]
    assert names(traces.select(frame[:0])) == []
    single = traces.subset([2])
    assert names(single.select(single[2].events[1:2])) == ["2b"]
    with pytest.raises(TraceError, match=r'lacks the ranks.*"rank"'):
        traces.select(traces[0].events)


def test_a_selection_narrows_another(traces):
    first = traces.select("kind == 'cpu'", ranks=[0])
    both = traces.select(first, start_ns=0, end_ns=1)
    assert (both.query, both.ranks, both.end_ns) == ("kind == 'cpu'", (0,), 1)
    assert names(both) == ["0a"]


@pytest.mark.parametrize("query", ["nme == 'a'", "name ==", "dur_ns.nothing > 1", "@x > 1"])
def test_a_query_that_does_not_work_names_the_columns(traces, query):
    with pytest.raises(
        TraceError, match=r"does not work on events.*The columns are rank, start_ns"
    ):
        traces.select(query)


@pytest.mark.parametrize("code", ["\\U00110000", "\\UFFFFFFFF", "\0"])
def test_a_list_of_texts_that_python_cannot_read_is_an_error(traces, code):
    chosen = Selection(query=f"name in ['gemm', '{code}']", traces=traces)
    with pytest.raises(TraceError, match="does not work on events"):
        chosen.events()


def test_a_query_runs_no_code(traces, tmp_path):
    trace = tmp_path / "there"
    code = f"name.map.__globals__['__builtins__']['open']({str(trace)!r}, 'w')"
    with pytest.raises(TraceError, match="does not work on events"):
        traces.select(code)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start_ns": "soon"}, "'soon' is not a time.*12.3ms"),
        ({"end_ns": "42"}, "'42' is not a time.*with ns, us, ms or s"),
        ({"start_ns": float("nan")}, "nan is not a time"),
        ({"start_ns": [1]}, "is not a time"),
        ({"ranks": "0-2"}, "ranks= takes a list of whole numbers or a whole number, not '0-2'"),
        ({"ranks": ["a"]}, r"ranks= takes .*, not \['a'\]"),
        ({"tracks": 5}, "5 is not a track"),
        ({"ids": [3]}, r"\[3\] is not a list of events.*pairs"),
        ({"ids": 5}, "5 is not a list of events"),
        ({"ids": [(0, float("inf"))]}, "is not a list of events"),
        ({"ids": [(0, 1 << 63)]}, "is not a list of events"),
        ({"ids": [(0, 1.5)]}, "is not a list of events"),
        ({"tracks": [("a", "stream 7")]}, "'stream 7'.* is not a track"),
        ({"tracks": [(float("nan"), "stream 7")]}, "'stream 7'.* is not a track"),
        ({"start_ns": 5, "end_ns": 4}, "ends .*before it starts"),
        ({"tracks": [3]}, "3 is not a track"),
        ({"ranks": [0, 5]}, "no rank 5. The ranks are 0, 2"),
        ({"query": "dur_ns + 1"}, "not a condition"),
        ({"query": "name"}, "not a condition"),
    ],
)
def test_other_arguments_are_refused_with_what_to_give(traces, arguments, words):
    with pytest.raises(TraceError, match=words):
        traces.select(**arguments)


def test_times_are_ns_or_text(traces):
    chosen = traces.select(start_ns="0.001us", end_ns="20 µs")
    assert chosen == traces.select(start_ns=1, end_ns=20_000) == Selection("1ns", "0.02ms")
    assert len(chosen.events())
    window = traces.subset(start_ns="1ns", end_ns="20us")
    assert len(window.events()) == len(traces.subset(start_ns=1, end_ns=20_000).events())


def test_values_survive_as_json_code_and_pickle(traces):
    selection = traces.select(
        'kind == "cpu"', start_ns=1, end_ns=20_000, ranks=(2, 0), tracks=["x", (2, "y")],
        ids=[(2, 1), (0, 0)],
    )  # fmt: skip
    text = selection.to_json()
    assert text == {
        "start_ns": 1, "end_ns": 20_000, "ranks": [0, 2], "tracks": ["x", [2, "y"]],
        "query": 'kind == "cpu"', "ids": [[0, 0], [2, 1]],
    }  # fmt: skip
    assert Selection.from_json(text) == selection
    assert eval(selection.to_code(), {"traces": traces}) == selection
    copy = pickle.loads(pickle.dumps(selection))
    assert copy == selection
    assert copy.traces is None
    with pytest.raises(TraceError, match="is not bound to traces"):
        copy.events()
    assert names(copy.of(traces)) == names(selection)
    assert hash(copy) == hash(selection)


def test_launches_add_the_work_of_operators_and_of_those_below(make):
    """mm calls addmm, which launches k1, then launches k2 itself; relu launches k3 in between."""
    trace = make(
        op("mm", 0, 20), op("addmm", 1, 8), call("cudaLaunchKernel", 2, 3, 1),
        call("cudaLaunchKernel", 12, 3, 2), op("relu", 30, 10), call("cudaLaunchKernel", 31, 3, 3),
        kernel("k1", 40, 5, 1), kernel("k2", 50, 5, 2), kernel("k3", 60, 5, 3),
    )  # fmt: skip
    traces = TraceSet([trace])
    for query, expected in (("mm", ["k1", "k2"]), ("addmm", ["k1"]), ("relu", ["k3"]), ("k3", [])):
        chosen = traces.select(f"name == {query!r}", launches=True)
        assert names(chosen) == [f"0{name}" for name in [query, *expected]]
    late = traces.select("name == 'mm'", start_ns="48us", launches=True)
    assert names(late) == ["0k2"], "launched by an operator before the window"
    assert names(traces.select(late, launches=False)) == []
    assert Selection.from_json(late.to_json()) == late
    assert late.to_code().endswith("launches=True)")
    assert traces.select(ranks=[0], launches=True) == traces.select(ranks=[0])


def test_from_json_takes_parts_and_refuses_strangers():
    assert Selection.from_json(None) == Selection.from_json({}) == Selection()
    assert Selection.from_json({"start_ns": 5}).start_ns == 5
    with pytest.raises(TraceError, match=r"no 'begin'. Its fields are start_ns"):
        Selection.from_json({"begin": 5})


def test_code_of_everything():
    assert Selection().to_code() == "traces.select()"


def test_selections_do_not_change(traces):
    with pytest.raises(AttributeError):
        traces.select().start_ns = 5


@pytest.mark.parametrize(
    "call",
    [
        'traces.select(ranks=[0]).export("out.json", clip=True).events',
        'len(traces.sql("select * from events"))',
        'len(traces.with_clock("fitted").events())',
        'len(hw.load(traces.save("saved.store")).events())',
    ],
)
def test_methods_import_the_higher_layers_that_they_need(call, tmp_path):
    """In a new process, `hw.load` has not imported these layers."""
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 0, "dur": 4}
    (tmp_path / "one.json").write_text(json.dumps({"traceEvents": [event]}))
    code = f'import hta_widgets as hw; traces = hw.load("one.json", cache=False); print({call})'
    run = [sys.executable, "-c", code]
    result = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("1\n", "")


VECTORS = json.loads((Path(__file__).parents[2] / "vectors/words.json").read_text("utf-8"))


def test_names_are_as_short_as_in_the_page():
    short = {name: text for case in VECTORS for name, text in case.get("short", {}).items()}
    assert {name: short_name(name) for name in short} == short != {}

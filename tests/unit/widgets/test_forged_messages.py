"""For any message from a page, the outcome is a reply or a `TraceError`."""

import math

import pytest
from msgspec import structs

import hta_widgets as hw
from hta_widgets import options
from hta_widgets.errors import TraceError
from hta_widgets.live.operations import OPERATIONS

#: A valid request for each operation.
VALID = {
    "tiles": {"level": 8, "parts": [{"lanes": [0], "first": 0, "last": 2}]},
    "stats": {"start": 0, "end": 1000},
    "minimap": {"bins": 10},
    "event": {"rank": 0, "id": 0},
    "cell": {"lane": 0, "start": 0, "end": 1000},
    "gap": {"rank": 0, "time": 500},
    "search": {"text": "a"},
    "find": {"text": "a", "from": {"rank": 0, "start": 0}},
    "marks": {"start": 0, "end": 1000, "bins": 10, "lanes": [0], "selection": {"ranks": [0]}},
    "totals": {"selection": {"query": "dur_ns > 1", "start_ns": 0, "ids": [[0, 0]]}},
    "neighbor": {"rank": 0, "id": 0},
    "launches": {"rank": 0, "id": 0},
    "snap": {"lane": 0, "time": 0, "tolerance": 10},
    "lateness": {"start": 0, "end": 1000},
    "collective": {"rank": 0, "id": 0},
    "ribbon": {"start": 0, "end": 1000, "bins": 10},
    "clusters": {},
    "panels": {"panels": ["kernels"], "selection": {"tracks": [[0, "a"]]}, "top": 5},
    "heatmap": {"metric": "busy", "start": 0, "end": 1000, "bins": 10},
    "headline": {},
    "table": {"panel": "kernels", "format": "csv"},
    "export_table": {"name": "kernels", "path": "a.csv"},
    "save_html": {"path": "a.html"},
    "export": {"path": "a.json", "selection": {}},
    "efficiency": {"rank": 0, "id": 0},
    "offline": {},
    "frame": {"name": "names"},
    "frames": {"names": ["names"]},
    "partner": {"of": 0, "rank": 0, "id": 0, "pair": 0},
    "path_events": {"node": 0, "pair": 0},
    "change_events": {"row": 0, "pair": 0},
    "classes": {},
    "export_pair": {"path": "a.json"},
}
NASTY = [
    *(None, True, -1, 5, 10**6, 10**9, 2**31, 2**62, 2**63, 2**70, 10**400),
    *(0.5, -0.5, 1e308, math.nan, math.inf),
    *("", "a", "\0", "../../x", "/", "~no-user/x", "x" * 5000),
    *([], [-1], [2**40], [[]], ["a"], {}, {"a": 1}, {"rank": "a"}, {"query": "print(1)"}),
    *({"start_ns": "a"}, {"ids": [[1]]}, {"ids": [[-1, 2**80]]}, {"ranks": [math.inf]}),
    [{"lanes": [2**40], "first": 0, "last": 1}],
    [{"lanes": [0], "first": 0, "last": 2**62}],
]


@pytest.fixture(scope="module")
def views(traces):
    return hw.Dashboard(traces, folded=False), hw.TraceDiff(traces, traces)


def test_all_operations_are_forged():
    assert set(VALID) == set(OPERATIONS)


@pytest.mark.parametrize("op", VALID)
def test_a_forged_request_is_answered_or_refused(op, views, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "export_dir", tmp_path / "out")
    (tmp_path / "out").mkdir()
    view = next(
        widget
        for widget in views
        for part in (widget, *(getattr(widget, name, widget)
                               for name in ("engine", "panel_engine", "_answers")))
        if hasattr(part, f"_on_{op}")
    )  # fmt: skip
    names = [field.encode_name for field in structs.fields(OPERATIONS[op])]
    for name in (*names, "side", "op", "more"):
        for nasty in NASTY:
            try:
                view.answer({"op": op, **VALID[op], name: nasty})
            except TraceError:
                continue
    assert [widget.name for widget in tmp_path.iterdir()] == ["out"]


def test_a_page_writes_into_its_folder_and_asks_before_it_replaces(views, tmp_path, monkeypatch):
    dashboard, pair = views
    monkeypatch.setattr(options, "export_dir", tmp_path)
    for view, request in (
        (dashboard, {"op": "export", "path": "a.json"}),
        (dashboard, {"op": "export_table", "name": "kernels", "path": "a.csv"}),
        (pair, {"op": "export_pair", "path": "b.json"}),
    ):
        assert view.answer(request)[0]["path"] == str(tmp_path / request["path"])
        with pytest.raises(TraceError, match=r"exists already\. Write it again to replace it"):
            view.answer(request)
        view.answer({**request, "overwrite": True})
        outside = ("../a.json", "/tmp/a.json", "~/a.json", "nowhere/../../a.json", "..", "a/../..")
        for path in outside:
            with pytest.raises(TraceError, match="outside of export_dir"):
                view.answer({**request, "path": path, "overwrite": True})


@pytest.mark.parametrize("message", [None, 5, "op", ["op"], b"op"])
def test_a_message_that_is_not_an_object_is_refused(message, views):
    with pytest.raises(TraceError, match="a request is a JSON object"):
        views[0].answer(message)

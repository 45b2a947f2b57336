"""Tests of the fixtures: checks that other tests rely on must be able to fail."""

import json

import pytest
from playwright.sync_api import Error
from support.browser import Guard, is_local


def test_errors_come_back(notebook, kernel):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        notebook("1 / 0")
    with pytest.raises(AssertionError, match="name 'absent' is not defined"):
        kernel("absent")
    with pytest.raises(AssertionError, match=r"not within 0\.2 s: 1 > 2"):
        kernel.wait_for("1 > 2", seconds=0.2)


def test_guard_sees_what_leaves_the_machine(new_context):
    context = new_context()
    guard = Guard()
    guard.watch(context)
    page = context.new_page()
    with page.expect_event("requestfailed"):
        page.set_content("<img src='http://192.0.2.1/x.png'>")
    with page.expect_event("websocket"):
        page.evaluate("void new WebSocket('ws://192.0.2.1/socket')")
    with context.expect_event("weberror"):
        page.evaluate("void setTimeout(() => { throw new Error('from a page') })")
    assert guard.errors == ["from a page"]
    assert guard.outside == ["http://192.0.2.1/x.png", "ws://192.0.2.1/socket"]
    assert is_local("http://127.0.0.1:8888/lab")
    assert not is_local("http://127.0.0.1.example/lab")


def test_perfetto_judges(perfetto, tmp_path):
    first = {"ph": "X", "name": "mm", "pid": 1, "tid": 1, "ts": 10, "dur": 4}
    crossing = first | {"name": "add", "ts": 12}
    path = tmp_path / "trace.json"

    path.write_text(json.dumps({"traceEvents": [first]}))
    assert perfetto(path) == {}
    assert perfetto.query("SELECT name, dur FROM slice") == [["mm", "4000"]]

    path.write_text(json.dumps({"traceEvents": [first, crossing]}))
    assert perfetto(path) == {"slice_drop_overlapping_complete_event": 1}

    path.write_text("no trace")
    with pytest.raises(Error, match="Cannot open this file"):
        perfetto(path)

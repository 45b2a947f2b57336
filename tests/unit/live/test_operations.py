"""Requests of pages: validation, and the documentation generated from their types."""

import subprocess
import sys
import typing

import pytest
from support import small

from hta_widgets.errors import TraceError
from hta_widgets.live import operations
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.tiles import replies


@pytest.fixture
def engine(tmp_path):
    return TileEngine(small.load(tmp_path, [small.kernel(0, 10)]))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "unknown op None; the ops are tiles, stats"),
        ({"op": "fly"}, "unknown op 'fly'"),
        ({"op": ["tiles"]}, "unknown op"),
        ({"op": "panels", "panels": []}, "unknown op 'panels'"),
        ({"op": "stats", "start": 0}, "missing required field `end`"),
        ({"op": "stats", "start": "0", "end": 5}, "Expected `int`, got `str`"),
        ({"op": "stats", "start": 0, "end": 5, "ranks": 3}, "Expected `array | null`"),
        ({"op": "stats", "start": 0, "end": 5, "within_ms": "soon"}, "Expected `float | null`"),
        ({"op": "tiles", "level": 53, "parts": []}, "`int` <= 52"),
        ({"op": "tiles", "level": 1, "parts": [{"lanes": [0], "first": 0}]}, "field `last`"),
        ({"op": "event", "rank": 0, "id": 0, "table": "__class__"}, "Invalid enum value"),
        ({"op": "event", "rank": True, "id": 0}, "got `bool`"),
    ],
)
def test_what_is_not_understood_is_an_error_that_names_the_field(engine, request_, words):
    with pytest.raises(ValueError, match=words.replace("|", r"\|").replace("[", r"\[")):
        engine.answer(request_)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (TraceError("no event 7"), "no_answer"),
        (ZeroDivisionError("division by zero"), "internal_error"),
        (operations.RequestError("exists already", code="file_exists"), "file_exists"),
    ],
)
def test_every_failure_has_a_code_that_the_protocol_lists(failure, code):
    assert operations.error_reply(failure)["code"] == code
    assert code in typing.get_args(replies.ErrorCode)


@pytest.mark.parametrize(
    ("request_", "code"),
    [({"op": "fly"}, "unknown_op"), ({"op": "stats"}, "invalid_request"), ([], "invalid_request")],
)
def test_a_refused_request_has_a_code(engine, request_, code):
    with pytest.raises(operations.RequestError) as caught:
        engine.answer(request_)
    assert caught.value.code == code


def test_the_remedy_of_an_error_is_apart_from_its_message():
    failure = TraceError("is empty", path="rank-3.json", remedy="Copy the file again.")
    assert operations.error_reply(failure) == {
        "code": "no_answer",
        "message": "rank-3.json: is empty.",
        "remedy": "Copy the file again.",
    }


def test_fractions_of_times_are_dropped(engine):
    ask = {"op": "stats", "start": 0.4, "end": 10_000.9}
    assert engine.answer(ask) == engine.answer({**ask, "start": 0, "end": 10_000})


@pytest.mark.parametrize("bound", [-(1 << 62), (1 << 62) + 1])
def test_windows_are_so_short_that_their_length_fits_int64(engine, bound):
    ask = {"op": "ribbon", "start": min(bound, 0), "end": max(bound, 0), "bins": 4}
    with pytest.raises(operations.RequestError, match=r"`int` [<>]="):
        engine.answer(ask)


def test_bins_of_a_heatmap_have_a_limit(tmp_path):
    ask = {"op": "heatmap", "metric": "busy", "start": 0, "end": 9}
    panels = PanelEngine(small.load(tmp_path, [small.kernel(0, 10)]))
    for bins in (0, operations.MAX_BINS + 1):
        with pytest.raises(ValueError, match=r"`int` [<>]="):
            panels.answer({**ask, "bins": bins})


def test_types_of_the_page_and_docs_are_those_of_the_requests(repo):
    command = [sys.executable, repo / "scripts/protocol.py", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

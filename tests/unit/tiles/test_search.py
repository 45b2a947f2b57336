"""Names that a search text matches, on vectors that the page reads too."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import pytest

from hta_widgets.tiles import search as matching
from hta_widgets.tiles.search import match_names

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/search.json").read_text("utf-8"))


@pytest.mark.parametrize("text", VECTORS["texts"])
def test_texts(text):
    found, error = match_names(text, VECTORS["names"])
    assert error is None
    assert [at for at, hit in enumerate(found) if hit] == VECTORS["texts"][text]


@pytest.mark.parametrize("text", VECTORS["bad"])
def test_expressions_that_cannot_be_used(text):
    found, error = match_names(text, VECTORS["names"])
    assert not any(found)
    assert "not a regular expression" in error


@pytest.fixture
def short_limit(monkeypatch):
    monkeypatch.setattr(matching, "LIMIT_S", 0.05)


def test_a_match_that_backtracks_without_end_is_left(short_limit):
    handler = signal.getsignal(signal.SIGALRM)
    found, error = match_names(r"/(a+)+$/", ["fine", "a" * 60 + "!"])
    assert not any(found)
    assert "simplify" in error
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_of_someone_else_is_left_alone(short_limit):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        assert match_names("/b/", ["abc"]) == ([True], None)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not rung


def test_other_threads_give_up_between_names(short_limit):
    # Each name takes about a hundredth of a second; all of them would take minutes.
    names = ["a" * 17 + "!"] * 20_000
    answers = []
    thread = threading.Thread(target=lambda: answers.append(match_names(r"/(a+)+$/", names)))
    started = time.monotonic()
    thread.start()
    thread.join(timeout=60)
    assert answers[0][1] is not None
    assert time.monotonic() - started < 30

"""Work in steps: how far a deadline lets it go, and what a failure leaves."""

from __future__ import annotations

import threading

import pytest

from hta_widgets.trace.patience import Deadline, Gradual, Recent


def test_one_step_at_a_time_and_only_once():
    made = []

    def make():
        for number in range(3):
            made.append(number)
            yield
        return sum(made)

    gradual = Gradual(make)
    assert [gradual.by(Deadline(0)) for _ in range(3)] == [False, False, False]
    assert gradual.by(Deadline(0))
    assert (gradual.value, gradual.value, made) == (3, 3, [0, 1, 2])


def test_a_failure_is_told_and_the_work_begun_anew():
    fails = [True, False]

    def make():
        yield
        if fails.pop(0):
            raise OSError("the disk is gone")
        return "made"

    gradual = Gradual(make)
    with pytest.raises(OSError, match="gone"):
        _ = gradual.value
    assert gradual.value == "made"


def test_what_nobody_waits_for_ends_and_begins_anew():
    said = []

    def make():
        said.append("begun")
        try:
            yield
        finally:
            said.append("ended")
        return "made"

    gradual = Gradual(make)
    assert not gradual.by(Deadline(0))
    gradual.stop()
    gradual.stop()
    assert said == ["begun", "ended"]
    assert gradual.value == "made"
    gradual.stop()
    assert gradual.is_made
    assert said == ["begun", "ended"] * 2


def test_two_threads_are_never_at_it_together():
    gradual, begun, go_on = None, threading.Event(), threading.Event()

    def make():
        begun.set()
        go_on.wait(10)
        yield
        return "made"

    gradual = Gradual(make)
    found = []
    other = threading.Thread(target=lambda: found.append(gradual.value))
    other.start()
    begun.wait(10)
    assert not gradual.by(Deadline(0))
    gradual.stop()  # another thread is at it: it is left alone
    go_on.set()
    assert gradual.value == "made"
    other.join(10)
    assert found == ["made"]


def test_other_work_in_steps_waits_for_it():
    def make():
        yield
        return 2

    base = Gradual(make)

    def more():
        found = yield from base.steps()
        yield
        return found + 1

    built = Gradual(more)
    assert not built.by(Deadline(0))
    assert not base.is_made
    assert (built.value, base.value) == (3, 2)


def test_who_asks_in_turns_comes_to_an_end():
    recent = Recent(2)

    def make(text):
        for _ in range(3):
            yield
        return text

    def ask(text):
        gradual = recent.get(text, lambda: make(text))
        return gradual.value if gradual.by(Deadline(0)) else None

    assert [ask(text) for _ in range(4) for text in "ab"] == [None] * 6 + ["a", "b"]
    assert ask("c") is None
    assert ask("b") == "b"
    assert ask("a") is None  # let go for c, and begun anew


def test_what_is_let_go_is_ended():
    said = []

    def make():
        try:
            yield
        finally:
            said.append("ended")

    recent = Recent(1)
    recent.get("a", make).by(Deadline(0))
    recent.get("b", make).by(Deadline(0))
    assert said == ["ended"]
    recent.stop()
    assert said == ["ended"] * 2

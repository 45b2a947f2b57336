"""Work in steps: how far a deadline lets it go, and what a failure leaves."""

from __future__ import annotations

import pytest

from hta_widgets.tiles.patience import Deadline, Gradual, Recent


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

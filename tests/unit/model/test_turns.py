"""Work in turns: never beside who waits for it, and at an end where nobody waits any more."""

import contextvars
import signal
import threading
from functools import cached_property

import pytest

from hta_widgets.trace import turns
from hta_widgets.trace.turns import in_turns, rest


@pytest.fixture(autouse=True)
def _every_rest_ends_a_turn(monkeypatch):
    monkeypatch.setattr(turns, "_TURN_S", -1.0)


def ended():
    """Wait until no work is left that could go on."""
    for thread in threading.enumerate():
        if thread.name == "hta-turns":
            thread.join(10)
            assert not thread.is_alive()


def test_turns_alternate_and_the_result_comes_last():
    said = []

    def work():
        for number in range(3):
            said.append(f"work {number}")
            rest()
        return "made"

    def wait():
        found = yield from in_turns(work)
        said.append(found)

    said.extend("other" for _ in wait())
    assert said == ["work 0", "other", "work 1", "other", "work 2", "other", "made"]


def test_elsewhere_rest_does_nothing():
    rest()
    waiting = in_turns(lambda: [rest(), threading.current_thread()][1])
    next(waiting)
    rest()  # of the work that rests now, this is no part
    with pytest.raises(StopIteration) as end:
        next(waiting)
    assert end.value.value is not threading.current_thread()


def test_turns_are_as_long_as_they_may_be(monkeypatch):
    monkeypatch.setattr(turns, "_TURN_S", 3600.0)
    with pytest.raises(StopIteration) as end:
        next(in_turns(lambda: [rest() for _ in range(100)]))
    assert end.value.value == [None] * 100


def test_what_the_work_raises_is_raised_to_who_waits():
    def work():
        rest()
        raise OSError("the disk is gone")

    waiting = in_turns(work)
    next(waiting)
    with pytest.raises(OSError, match="gone"):
        next(waiting)


def test_it_works_in_the_context_of_who_began_it():
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    with pytest.raises(StopIteration) as end:
        next(in_turns(variable.get))
    assert end.value.value == "mine"


def test_closing_ends_it_where_it_rests():
    said = []

    def work():
        try:
            said.append("begun")
            rest()
            said.append("gone on")
        finally:
            said.append("tidied up")

    waiting = in_turns(work)
    next(waiting)
    waiting.close()
    ended()
    assert said == ["begun", "tidied up"]


def test_closed_before_it_began_it_never_begins():
    said = []
    in_turns(lambda: said.append("begun")).close()
    ended()
    assert said == []


def test_an_interrupt_ends_the_work_where_it_rests_next():
    said = []

    def work():
        # As a user who stops the kernel, which waits in its main thread.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        released.wait(10)
        said.append("piece")
        rest()
        said.append("gone on")

    released = threading.Event()
    waiting = in_turns(work)
    with pytest.raises(KeyboardInterrupt):
        next(waiting)
    released.set()
    ended()
    assert said == ["piece"]


def test_pauses_within_a_cached_property_are_found():
    class Holder:
        @cached_property
        def value(self):
            rest()

    with pytest.raises(AssertionError, match="may pause within value"):
        list(in_turns(lambda: Holder().value))

"""Background computations: waiting, asking again, cancelling."""

import contextvars
import math
import threading
import time

import pytest
from support.background import held_up, settled

from hta_widgets.live import job
from hta_widgets.live.job import Work, Works, due
from hta_widgets.trace.memo import stop_if_cancelled


def soon():
    return time.perf_counter() + 60


def endless(begun):
    def make():
        begun.set()
        while True:
            stop_if_cancelled()
            time.sleep(0.001)

    return make


def test_a_request_waits_as_long_as_it_says():
    assert due(None) == math.inf
    assert 0 < due(1000) - time.perf_counter() <= 1


def test_work_is_done_once_in_another_thread():
    threads = []
    work = Work(lambda: threads.append(threading.current_thread().name))
    with held_up():
        assert not work.by(0)
        assert not work.by(0)
    assert work.by(soon())
    assert work.value is None
    assert threads == ["hta-background"]


def test_without_a_limit_it_is_done_here():
    with held_up():
        assert Work(threading.current_thread).value is threading.current_thread()


def test_work_may_need_other_work():
    first = Work(lambda: 1)
    second = Work(lambda: first.value + 1)
    with held_up():
        assert not second.by(0)
        assert not first.by(0)
    assert second.by(soon())
    assert second.value == 2


def test_it_sees_the_context_of_the_request():
    variable = contextvars.ContextVar("variable", default="")
    variable.set("of the request")
    work = Work(variable.get)
    assert work.by(soon())
    assert work.value == "of the request"


def test_a_failure_is_raised_and_the_next_request_tries_again():
    answers = [ValueError("the first time"), TimeoutError("the second time"), None]

    def make():
        error = answers.pop(0)
        if error:
            raise error
        return "made"

    work = Work(make)
    for words in ("first", "second"):
        with pytest.raises((ValueError, TimeoutError), match=words):
            work.by(soon())
    assert work.by(soon())
    assert work.value == "made"


def test_cancelled_work_ends_and_begins_again_when_asked():
    begun = threading.Event()
    work = Work(endless(begun))
    assert not work.by(time.perf_counter() + 0.01)
    assert begun.wait(60)
    work.cancel()
    settled()
    begun.clear()
    assert not work.by(0)
    assert begun.wait(60)
    work.cancel()
    settled()


def test_an_interrupt_while_waiting_cancels(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    work = Work(endless(threading.Event()))
    with monkeypatch.context() as patch:
        patch.setattr(job, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work.by(soon())
    settled()


def test_an_interrupt_of_work_in_this_thread_leaves_it_to_be_made_again():
    answers = [KeyboardInterrupt, None]

    def make():
        if error := answers.pop(0):
            raise error
        return "made"

    work = Work(make)
    with pytest.raises(KeyboardInterrupt):
        _ = work.value
    assert work.value == "made"


def test_what_is_no_longer_asked_for_is_cancelled():
    works, begun = Works(), threading.Event()
    assert not works.get("old", endless(begun)).by(0)
    assert begun.wait(60)
    for _ in range(40):
        works.get("new", lambda: 1)
    settled()
    assert works.get("new", lambda: 1).by(soon())


def test_only_the_last_works_are_kept():
    works, begun = Works(2), threading.Event()
    assert not works.get("a", endless(begun)).by(0)
    for key in "bc":
        works.get(key, lambda: 1)
    settled()
    assert works.get("b", lambda: 2).value == 1
    works.clear()
    assert works.get("b", lambda: 2).value == 2

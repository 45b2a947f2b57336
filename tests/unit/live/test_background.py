"""Background computations: waiting, repeated requests, cancellation."""

import contextvars
import math
import threading
import time

import pytest
from support.background import held_up, settled

from hta_widgets.live import background
from hta_widgets.live.background import BackgroundTask, TaskCache, deadline_after
from hta_widgets.trace.memo import raise_if_cancelled


def soon():
    return time.perf_counter() + 60


def endless(begun):
    def make():
        begun.set()
        while True:
            raise_if_cancelled()
            time.sleep(0.001)

    return make


def test_a_request_waits_as_long_as_it_says():
    assert deadline_after(None) == math.inf
    before_s = time.perf_counter()
    assert before_s <= deadline_after(1000) - 1 <= time.perf_counter()


def test_work_is_done_once_in_another_thread():
    threads = []
    work = BackgroundTask(lambda: threads.append(threading.current_thread().name))
    with held_up():
        assert not work.wait_until(0)
        assert not work.wait_until(0)
    assert work.wait_until(soon())
    assert work.value is None
    assert threads == ["hta-background"]


def test_without_a_limit_it_is_done_here():
    with held_up():
        assert BackgroundTask(threading.current_thread).value is threading.current_thread()


def test_work_may_need_other_work():
    first = BackgroundTask(lambda: 1)
    second = BackgroundTask(lambda: first.value + 1)
    with held_up():
        assert not second.wait_until(0)
        assert not first.wait_until(0)
    assert second.wait_until(soon())
    assert second.value == 2


def test_it_sees_the_context_of_the_request():
    variable = contextvars.ContextVar("variable", default="")
    variable.set("of the request")
    work = BackgroundTask(variable.get)
    assert work.wait_until(soon())
    assert work.value == "of the request"


def test_a_failure_is_raised_and_the_next_request_tries_again():
    answers = [ValueError("the first time"), TimeoutError("the second time"), None]

    def make():
        error = answers.pop(0)
        if error:
            raise error
        return "made"

    work = BackgroundTask(make)
    for words in ("first", "second"):
        with pytest.raises((ValueError, TimeoutError), match=words):
            work.wait_until(soon())
    assert work.wait_until(soon())
    assert work.value == "made"


def test_cancelled_work_ends_and_begins_again_when_asked():
    begun = threading.Event()
    work = BackgroundTask(endless(begun))
    assert not work.wait_until(time.perf_counter() + 0.01)
    assert begun.wait(60)
    work.cancel()
    settled()
    begun.clear()
    assert not work.wait_until(0)
    assert begun.wait(60)
    work.cancel()
    settled()


@pytest.mark.parametrize(
    "request_value", [lambda task: task.value, lambda task: task.wait_until(math.inf)]
)
def test_work_cancelled_before_it_began_is_done_when_asked(request_value):
    work = BackgroundTask(lambda: 7)
    work.cancel()
    request_value(work)
    assert work.value == 7


def test_an_interrupt_while_waiting_cancels(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    work = BackgroundTask(endless(threading.Event()))
    with monkeypatch.context() as patch:
        patch.setattr(background, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work.wait_until(soon())
    settled()


def test_an_interrupt_of_work_in_this_thread_leaves_it_to_be_made_again():
    answers = [KeyboardInterrupt, None]

    def make():
        if error := answers.pop(0):
            raise error
        return "made"

    work = BackgroundTask(make)
    with pytest.raises(KeyboardInterrupt):
        _ = work.value
    assert work.value == "made"


def test_what_is_no_longer_asked_for_is_cancelled():
    works, begun = TaskCache(16), threading.Event()
    assert not works.get("old", endless(begun)).wait_until(0)
    assert begun.wait(60)
    for _ in range(40):
        works.get("new", lambda: 1)
    settled()
    assert works.get("new", lambda: 1).wait_until(soon())


def test_only_the_last_works_are_kept():
    works, begun = TaskCache(2), threading.Event()
    assert not works.get("a", endless(begun)).wait_until(0)
    for key in "bc":
        works.get(key, lambda: 1)
    settled()
    assert works.get("b", lambda: 2).value == 1
    works.clear()
    assert works.get("b", lambda: 2).value == 2

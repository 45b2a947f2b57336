"""Work that stops now and then, so that whoever waits for it can do something else in between.

A notebook's kernel answers its pages in the thread that runs cells. What goes over all ranks takes
longer than anybody should wait for an answer, and may be deep within an analysis when its time is
over. So it is done in a thread of its own, of which the starter gives it one turn after the other
and waits for the end of each: never do both run at a time, and other threads that are at work see
no more of it than of any other. Whatever takes long calls `rest` between its pieces.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

__all__ = ["in_turns", "rest"]

T = TypeVar("T")

#: A turn ends at the first `rest` after this: many a piece takes less time than changing turns.
_TURN_S = 0.005

_at_work = threading.local()


def rest() -> None:
    """End the turn, if this is work in turns and its time is over; to be called between pieces.

    Nothing may be half done there that others could see, and no lock be held: not that of a
    `functools.cached_property` either, which up to Python 3.11 is one for all objects.
    """
    work: _Work[object] | None = getattr(_at_work, "work", None)
    if work is not None:
        work.rest()


def in_turns(work: Callable[[], T]) -> Generator[None, None, T]:
    """Do work in turns; yield after each, and return what the work returns, or raise what it does.

    Where the generator is closed, or something is raised in it, as by a user who interrupts the
    kernel, the work ends where it rests next.

    Parameters
    ----------
    work : callable
        What to do. It ends its turns where it calls `rest`, as going over ranks does.

    Examples
    --------
    >>> steps = in_turns(lambda: 1 + 1)
    >>> try:
    ...     while True:
    ...         next(steps)
    ... except StopIteration as end:
    ...     print(end.value)
    2
    """
    doing = _Work(work)
    try:
        while not doing.turn():
            yield
        return doing.result()
    finally:
        doing.stop()


class _Stopped(BaseException):
    """Nobody waits for this work any more."""


class _Work(Generic[T]):
    """One piece of work and its thread, which runs while `turn` waits."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._go, self._rested = threading.Semaphore(0), threading.Semaphore(0)
        self._turn_ends = 0.0
        self._stopped = self._ended = False
        self._made: list[T] = []
        self._error: BaseException | None = None
        # A daemon: nobody waits for it where the interpreter ends.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._do,), name="hta-turns", daemon=True
        )

    def turn(self) -> bool:
        """Let the work go on until it rests; say whether it has ended."""
        self._turn_ends = time.perf_counter() + _TURN_S
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        self._rested.acquire()
        return self._ended

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._made[0]

    def stop(self) -> None:
        """Have the work end where it rests, now or next."""
        self._stopped = True
        self._go.release()

    def rest(self) -> None:
        if not self._stopped and time.perf_counter() >= self._turn_ends:
            self._rested.release()
            self._go.acquire()
        if self._stopped:
            raise _Stopped

    def _do(self) -> None:
        _at_work.work = self
        try:
            self._made.append(self._work())
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever waits for it hears of it
            self._error = error
        self._ended = True
        self._rested.release()

"""Answers in parts: what takes long is done a little at a time, so that no question waits for it.

The kernel answers one question after the other. A page that says how long it will wait
(``within_ms``) gets what is there by then, and asks again for the rest; in between it may ask for
what somebody is looking at.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any, Generic, TypeVar

__all__ = ["PENDING", "Deadline", "Gradual", "Recent"]

T = TypeVar("T")

#: What is answered where nothing can be said yet.
PENDING: Mapping[str, Any] = {"pending": True}


class Deadline:
    """When an answer is due.

    Parameters
    ----------
    within_ms : float or None
        From now on; None for an answer that may take as long as it takes.
    """

    def __init__(self, within_ms: float | None = None) -> None:
        self._end = None if within_ms is None else time.perf_counter() + within_ms / 1000

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Deadline:
        """Return what a request says of it."""
        within_ms = request.get("within_ms")
        return cls(None if within_ms is None else float(within_ms))

    @property
    def has_passed(self) -> bool:
        """Whether it is time to answer."""
        return self._end is not None and time.perf_counter() >= self._end

    @property
    def left_s(self) -> float:
        """How long until then, at least 0; -1 where there is no such time."""
        return -1 if self._end is None else max(0.0, self._end - time.perf_counter())


class Gradual(Generic[T]):
    """Something that is made in steps, when it is first asked for.

    Parameters
    ----------
    make : callable
        Gives a generator that yields after each step and returns what it made. After a failure it
        is called again.

    Examples
    --------
    >>> def make():
    ...     total = 0
    ...     for number in range(3):
    ...         total += number
    ...         yield
    ...     return total
    >>> gradual = Gradual(make)
    >>> gradual.by(Deadline(0))
    False
    >>> gradual.value
    3
    """

    def __init__(self, make: Callable[[], Generator[None, None, T]]) -> None:
        self._make = make
        self._steps: Generator[None, None, T] | None = None
        self._made: list[T] = []
        # A page's data is made beside the cells and their pages' answers.
        self._lock = threading.Lock()

    @property
    def is_made(self) -> bool:
        """Whether it is made."""
        return bool(self._made)

    def by(self, deadline: Deadline) -> bool:
        """Go on until it is made or the deadline has passed; say whether it is made.

        One step is always done, unless another thread is at it.
        """
        if not self._made and self._lock.acquire(timeout=deadline.left_s):
            try:
                self._go_on(deadline)
            finally:
                self._lock.release()
        return bool(self._made)

    def _go_on(self, deadline: Deadline) -> None:
        while not self._made:
            if self._steps is None:
                self._steps = self._make()
            try:
                next(self._steps)
            except StopIteration as end:
                self._made.append(end.value)
                self._steps = None
            except BaseException:
                self._steps = None
                raise
            if deadline.has_passed:
                break

    def steps(self) -> Generator[None, None, T]:
        """Make it, and yield after each step: how other work in steps waits for it."""
        while not self.by(Deadline(0)):
            yield
        return self._made[0]

    def stop(self) -> None:
        """End what is unfinished, unless another thread is at it. Who asks again begins anew."""
        if self._lock.acquire(blocking=False):
            try:
                if self._steps is not None:
                    self._steps.close()
                    self._steps = None
            finally:
                self._lock.release()

    @property
    def value(self) -> T:
        """What is made; made now if need be."""
        self.by(Deadline())
        return self._made[0]


class Recent(Generic[T]):
    """What was asked for last, finished or not.

    Several views ask in turns; were only the last question kept, each would undo the others' work.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Gradual[T]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Generator[None, None, T]]) -> Gradual[T]:
        """Return what is made, or being made, under a key."""
        found = self._kept.setdefault(key, Gradual(make))
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)[1].stop()
        return found

    def stop(self) -> None:
        """End what is unfinished, and forget the rest."""
        while self._kept:
            self._kept.popitem()[1].stop()

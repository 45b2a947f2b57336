"""Which names a search text means."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

__all__ = ["Matches", "match_names"]

#: An expression may take that long over all names of a job.
LIMIT_S = 2.0

_EXPRESSION = re.compile(r"/(.*)/(i?)", re.DOTALL)

#: Which of the names match, and why none can.
Matches = tuple[list[bool], str | None]


def match_names(text: str, names: Sequence[str]) -> Matches:
    """Return which names match a search text, and what is wrong with it.

    Parameters
    ----------
    text : str
        Plain text, found anywhere without regard to case; or ``/expression/``, ``/expression/i``.
    names : sequence of str
    """
    nothing = [False] * len(names)
    expression = _EXPRESSION.fullmatch(text)
    if expression is None or text == "/":
        needle = text.lower()
        return ([needle in name.lower() for name in names] if needle else nothing), None
    if not expression[1]:
        return nothing, None
    try:
        pattern = re.compile(expression[1], re.IGNORECASE if expression[2] else 0)
    except (re.error, RecursionError, OverflowError) as error:
        return nothing, f"not a regular expression: {error}"
    return _search_all(pattern.search, names)


def _search_all(search: Callable[[str], object], names: Sequence[str]) -> Matches:
    found: list[bool] = []
    give_up = time.monotonic() + LIMIT_S
    try:
        with _interrupt_after(LIMIT_S):
            for name in names:
                found.append(search(name) is not None)
                if time.monotonic() > give_up:
                    break
    except (TimeoutError, RecursionError, MemoryError):
        pass
    if len(found) < len(names):
        return [False] * len(names), f"takes more than {LIMIT_S:.0f} s; simplify the expression"
    return found, None


@contextmanager
def _interrupt_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in a match that backtracks without end, where signals can do that.

    Python cannot leave a running match otherwise, and the kernel would hang with it. Alarms
    belong to the main thread; where another one searches, or someone else set an alarm, a match
    can only be left between two names.
    """
    usable = (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    )
    if not usable:
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

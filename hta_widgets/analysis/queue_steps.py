"""When work begins and ends to wait on device streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.launches import launched_rows
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import narrowed
from hta_widgets.analysis.scope import parts
from hta_widgets.analysis.step_series import in_order
from hta_widgets.analysis.step_series import running_total

__all__ = ["NOTHING", "OfQueues", "QueueSteps", "counts_of", "over_queues", "queue_steps"]

Ints = npt.NDArray[np.int64]
T = TypeVar("T")

NOTHING = "no device work is selected whose launch the files hold"


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches before starts at an instant.

    Attributes
    ----------
    streams : array of int64
        The streams that work was launched on, ascending.
    code : array of int
        Position in `streams` of each change.
    time_ns : array of int64
        Since the rank's zero, as in `Trace.table`.
    queue_length : array of int64
        After this change.
    row : array of int
        The event behind the change: the call that launches, or the device event that starts.
    device_row : array of int
        The device event that is launched or starts.
    early : int
        How many device events start before their call does, by the clocks of the file. They
        never wait: both changes are at the call's start.
    unlaunched : int
        How many have no call in the file, and are left out.
    kinds : dict
        How many device events there are of each kind of work.
    """

    streams: Ints
    code: npt.NDArray[np.intp]
    time_ns: Ints
    queue_length: Ints
    row: Ints
    device_row: Ints
    early: int
    unlaunched: int
    kinds: dict[str, int]


def queue_steps(part: Part, *, launches: bool = False) -> QueueSteps:
    """Return all changes of the queues of one rank's selected device work.

    Parameters
    ----------
    part : Part
    launches : bool, default False
        Count a call once a stream, until the first that it launched there starts, instead of
        each event. That differs for graphs only.
    """
    table = part.table
    call, work, unlaunched = launched_rows(part, part.busy_rows())
    if launches:
        # Work is sorted by start, so the first of a call and stream is the first to start.
        entry = call * (int(table.stream.max(initial=0)) + 1) + table.stream[work]
        first = np.sort(np.unique(entry, return_index=True)[1])
        call, work = call[first], work[first]
    enters, leaves = table.start_ns[call], table.start_ns[work]
    early = leaves < enters
    streams, code = np.unique(table.stream[work].astype(np.int64), return_inverse=True)
    code = np.concatenate((code, code))
    time_ns = np.concatenate((enters, np.maximum(enters, leaves)))
    order = in_order(code, len(streams), time_ns)
    change = np.repeat(np.array([1, -1]), len(work))
    return QueueSteps(
        streams,
        code[order],
        time_ns[order],
        running_total(code[order], change[order]),
        np.concatenate((call, work))[order],
        np.concatenate((work, work))[order],
        int(early.sum()),
        unlaunched,
        count_kinds([part], BUSY),
    )


@dataclass(frozen=True, slots=True)
class OfQueues(Generic[T]):
    """What was found of one rank's queues, and how many events are in them."""

    found: T
    kinds: dict[str, int]
    launched: int
    unlaunched: int
    early: int


def over_queues(
    traces: TraceSet,
    selection: Selection | None,
    window: Window | None,
    ranks: Iterable[int] | None,
    function: Callable[..., T],
    *args: Any,
    launches: bool = False,
) -> list[OfQueues[T]]:
    """Return what a function says of each rank's selected events of all times, and its queues.

    It is given them with the window's edges, since what waits through the whole window is in none
    of the events that overlap it.
    """
    chosen = narrowed(traces, selection, window, ranks)
    always = parts(traces, replace(chosen, start_ns=None, end_ns=None))
    edges = (chosen.start_ns, chosen.end_ns)
    return list(over_ranks(always, _of_rank, function, edges, launches, *args))


def _of_rank(
    part: Part,
    function: Callable[..., T],
    edges: tuple[int | None, int | None],
    launches: bool,  # noqa: FBT001 - from the function above alone
    *args: Any,
) -> OfQueues[T]:
    steps = part.once(("queue_steps", launches), partial(queue_steps, part, launches=launches))
    low, high = (None if edge is None else edge - part.trace.shift_ns for edge in edges)
    found = function(replace(part, low=low, high=high, plain=False), steps, *args)
    return OfQueues(found, steps.kinds, len(steps.row) // 2, steps.unlaunched, steps.early)


def counts_of(found: Sequence[OfQueues[Any]]) -> dict[str, Any]:
    """Return what frames of these queues say of them in ``attrs``."""
    return {
        "matched": {
            **{kind: sum(one.kinds.get(kind, 0) for one in found) for kind in BUSY},
            "launched": sum(one.launched for one in found),
        },
        "unlaunched": sum(one.unlaunched for one in found),
        "early": sum(one.early for one in found),
    }

"""Which stretch of time a critical path is asked for, and which instances of a range there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.critical.rules import named

__all__ = ["Stretch", "stretch_of", "trace_of"]


@dataclass(frozen=True)
class Stretch:
    """Host events that start within it are analysed, and what they launched.

    Attributes
    ----------
    start_ns, end_ns : int or None
        On the clock of the rank's table; None is open.
    rows : array of int
        The instances of the range, none for the whole rank.
    closed : bool
        Whether what starts at the very end belongs to it, as in HTA, and what lasts longer is
        taken whole. Else that is of the next range, and cut.
    """

    start_ns: int | None
    end_ns: int | None
    rows: npt.NDArray[np.intp]
    closed: bool = False

    def holds(self, time: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which instants lie in it."""
        inside = np.ones(len(time), dtype=bool)
        if self.start_ns is not None:
            inside &= time >= self.start_ns
        if self.end_ns is not None:
            inside &= time <= self.end_ns if self.closed else time < self.end_ns
        return inside

    def cut(self, time: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return ends of host events, at most that of the stretch."""
        if self.closed or self.end_ns is None:
            return time
        return np.minimum(time, self.end_ns)


def trace_of(traces: TraceSet, rank: int) -> Trace:
    """Return one rank of a set.

    Raises
    ------
    TraceError
        Where it is not there, or `traces` is no set.
    """
    if isinstance(traces, Trace):
        raise TraceError(
            "analyses work on sets of traces, not on one rank of a set",
            remedy=f"Give the set, and rank={traces.rank}.",
        )
    if rank not in traces:
        raise TraceError(
            f"there is no rank {rank!r}", remedy=f"The ranks are {', '.join(map(str, traces))}."
        )
    return traces[rank]


def stretch_of(
    trace: Trace,
    annotation: str,
    instance: int | tuple[int, int] | None,
    *,
    closed: bool = False,
) -> Stretch | None:
    """Return the stretch of some instances of a range, None where the rank has no such range.

    Raises
    ------
    TraceError
        Where there are fewer instances.
    """
    first, last = _numbers(instance)
    if annotation == "":
        return Stretch(None, None, np.empty(0, dtype=np.intp), closed)
    table = trace.table
    host = np.flatnonzero(table.stream < 0)
    rows = host[named(trace, host, lambda name: annotation in name)]
    if not len(rows):
        return None
    if last >= len(rows):
        raise TraceError(
            f"rank {trace.rank} has no instance {last} of {annotation!r}",
            path=trace.path,
            remedy=f"It has {len(rows)}, numbered from 0"
            f" ({_shown([table.names[code] for code in table.name[rows].tolist()])}).",
        )
    chosen = rows[first : last + 1]
    start, end = int(table.start_ns[chosen].min()), int(table.end_ns[chosen].max())
    return Stretch(start, end, chosen, closed)


def _numbers(instance: int | tuple[int, int] | None) -> tuple[int, int]:
    if instance is None:
        return 0, 0
    if isinstance(instance, (int, np.integer)) and not isinstance(instance, bool):
        pair = (int(instance), int(instance))
    elif isinstance(instance, (tuple, list)) and len(instance) == 2:
        pair = (int(instance[0]), int(instance[1]))
    else:
        pair = (-1, -1)
    if not 0 <= pair[0] <= pair[1]:
        raise TraceError(
            f"{instance!r} names no instances of a range",
            remedy="Give a number from 0 on, or the first and the last as a pair.",
        )
    return pair


def _shown(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")

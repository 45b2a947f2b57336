"""How long each rank waits in collectives for others to come, and what of it costs time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import subtract
from hta_widgets.trace.intervals import total
from hta_widgets.trace.intervals import union

from hta_widgets.analysis.collective_waits import RankWaits
from hta_widgets.analysis.collective_waits import waits_of
from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import parts

__all__ = ["exposed_waits", "waiting"]

Ints = npt.NDArray[np.int64]


def exposed_waits(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each rank waits in collectives for the last of their ranks.

    A rank waits in a collective from its own arrival to that of the last rank, or to the end of
    its own event where that is earlier; who is last is told before anything is selected, as in
    `collectives`. The wait is *exposed* while no selected compute kernel of the rank runs, so it is
    the part of ``exposed_communication_ns`` of `temporal_breakdown` in which no data could move
    yet. Waits in collectives that run at once count once.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        Whose times tell the last arrival. Default: those of the set, or the fitted ones where ends
        of collectives disagree on the recorded clock by clearly more than on the fitted one.
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; waits are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks. Others still count as those that came last.

    Returns
    -------
    DataFrame
        One row per selected rank, all int64:

        - ``rank``
        - ``collectives``: selected events of the rank that are matched with other ranks'
        - ``wait_ns``: waiting in any of them; ``exposed_wait_ns``: and computing nothing
        - ``exposed_communication_ns``: communicating at all and computing nothing

        ``wait_ns`` and ``exposed_wait_ns`` are -1 where no communication of the rank, selected or
        not, is matched: what it waits for is not known. ``.attrs["clock"]`` says whose times tell
        the last arrival.

    Raises
    ------
    TraceError
        For an unknown clock, or a rank that is not there.

    Notes
    -----
    HTA has no such analysis. ``exposed_wait_ns`` is what `step_times` has by step.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> exposed_waits(traces, window=(0, 10_000_000))  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    waits = waits_of(traces, clock)
    found = list(over_ranks(chosen, _of_rank, each=waits.each(chosen.ranks)))
    times = np.array(found, dtype=np.int64).reshape(-1, 4)
    unknown = [
        str(rank) for rank, wait in zip(chosen.ranks, times[:, 1].tolist(), strict=True) if wait < 0
    ]
    return result(
        {
            "rank": np.array(chosen.ranks, dtype=np.int64),
            "collectives": times[:, 0],
            "wait_ns": times[:, 1],
            "exposed_wait_ns": times[:, 2],
            "exposed_communication_ns": times[:, 3],
        },
        matched={**count_kinds(chosen, BUSY[:2]), "matched": int(times[:, 0].sum())},
        note=_note(unknown, len(chosen)),
        clock=waits.clock,
    )


def _note(unknown: list[str], ranks: int) -> str:
    if not ranks:
        return "no ranks are selected"
    if not unknown:
        return ""
    where = "" if len(unknown) == ranks else f" of rank{'s' * (len(unknown) > 1)} "
    listed = "" if len(unknown) == ranks else ", ".join(unknown)
    return f"no communication{where}{listed} is matched with other ranks', so waits are not known"


def waiting(part: Part, waits: RankWaits) -> tuple[npt.NDArray[np.intp], Ints, Ints]:
    """Return the selected events in which a rank waits, and from when to when in the window."""
    kept = part.has(waits.rows)
    rows, begin, until = waits.rows[kept], waits.begin[kept], waits.until[kept]
    if part.low is not None:
        begin, until = np.maximum(begin, part.low), np.maximum(until, part.low)
    if part.high is not None:
        begin, until = np.minimum(begin, part.high), np.minimum(until, part.high)
    return rows, begin, until


def _of_rank(part: Part, waits: RankWaits) -> tuple[int, int, int, int]:
    compute = part.covered("compute")
    exposed = total(subtract(part.covered("communication"), compute))
    if not len(waits.rows):
        return 0, -1, -1, exposed
    rows, begin, until = waiting(part, waits)
    pieces: Intervals = union(begin, until)
    return len(rows), total(pieces), total(subtract(pieces, compute)), exposed

"""The collectives of a job, matched little by little, once for all that wait for them."""

from __future__ import annotations

from hta_widgets import taxonomy
from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.matching import matching
from hta_widgets.trace.patience import Gradual
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.turns import in_turns

__all__ = ["matched"]


def matched(traces: TraceSet) -> Gradual[None]:
    """Return the work of matching a set's collectives and fitting its clocks.

    What is found stays with the set: when the work is done, analyses of waits go on from there.
    """

    def match() -> None:
        matching(traces)
        clock_fit(traces)

    key = ("matched in turns", taxonomy.version())
    found: Gradual[None] = traces.memo.setdefault(key, Gradual(lambda: in_turns(match)))
    return found

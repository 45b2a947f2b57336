"""What a comparison widget is given, and what follows from it for its two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets import diff
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.widgets.linked import known_or_loaded
from hta_widgets.widgets.timeline import Timeline

__all__ = [
    "SIDES",
    "SideName",
    "SideTimeline",
    "beside",
    "first_window",
    "frame_of",
    "known_word",
    "place_of",
    "turned",
    "whole_selection",
]

SideName = Literal["before", "after"]
SIDES: tuple[SideName, SideName] = ("before", "after")


def known_word(what: str, word: str, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known."""
    if word not in known:
        raise TraceError(f"there is no {what} {word!r}", remedy=f"They are {', '.join(known)}.")


class SideTimeline(Timeline):
    """The timeline of one run: it goes to a page only where somebody shows it by itself.

    The page of a comparison draws both runs, and needs no more of these than their states.
    """

    def open(self) -> None:
        """Wait until somebody asks which model this is."""

    @property
    def model_id(self) -> str:
        """What a page that shows this timeline calls it."""
        super().open()
        found: str = super().model_id
        return found


def place_of(side: str) -> int:
    """Return 0 for before and 1 for after."""
    if side not in SIDES:
        raise TraceError(f"there is no side {side!r}", remedy='Give "before" or "after".')
    return 0 if side == "before" else 1


def whole_selection(source: Any) -> Selection:
    """Return a side as a selection, which still knows the other ranks of its set."""
    found = known_or_loaded(source, "TraceDiff")
    if isinstance(found, Selection):
        return found.owner.select(found)
    return (TraceSet([found], like=TraceSet([])) if isinstance(found, Trace) else found).select()


def turned(both: Comparison, sources: tuple[Selection, Selection]) -> Comparison:
    """Return a comparison the other way round."""
    steps = None
    if both.before.has_steps:
        steps = dict(zip(both.after.steps.tolist(), both.before.steps.tolist(), strict=True))
    return diff.compare(
        sources[1],
        sources[0],
        ranks="auto" if both.by_rank_means else {b: a for a, b in both.rank_pairs},
        steps=steps or "auto",
        labels=(both.after.label, both.before.label),
    )


def first_window(
    side: RunSide, source: Selection, whole: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the window that a side is shown with at first; None for the whole."""
    low, high = side.envelope()
    window = int(low.min()), max(int(high.max()), int(low.min()) + 1)
    is_cut = source.start_ns is not None or source.end_ns is not None
    is_small = 2 * (window[1] - window[0]) < whole[1] - whole[0]
    return window if is_cut or is_small else None


def beside(both: Comparison, base: str, lead: int, window: tuple[int, int]) -> tuple[int, int]:
    """Return the window of the other side that lies beside one of side `lead`, as long as it."""
    line = diff.align(both, base)  # type: ignore[arg-type]
    maps: tuple[Any, Any] = (line.before, line.after)
    middle = np.array([(window[0] + window[1]) // 2], np.int64)
    there = int(maps[1 - lead].to_own(maps[lead].to_common(middle))[0])
    moved = there - int(middle[0])
    return window[0] + moved, window[1] + moved


def frame_of(both: Comparison, name: str, base: Any) -> pd.DataFrame:
    """Return a frame that every comparison of events has, by its name."""
    if name.startswith("waterfall"):
        level: Any = name.removeprefix("waterfall").lstrip("_") or "kind"
        return diff.waterfall(both, level)
    if name == "operators":
        return diff.operators_diff(both)
    if name == "slots":
        return diff.align(both, base).slots
    found: pd.DataFrame = getattr(diff, name)(both)
    return found

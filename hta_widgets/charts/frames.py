"""What a chart is given: a frame that it draws, or traces to make it of; and its measures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.live.panel_engine import PanelEngine

__all__ = [
    "draws",
    "draws_only",
    "draws_panel",
    "require",
    "require_diff",
    "require_measure",
    "require_panel",
]

Draw = Callable[..., Any]


def draws(name: str, *, of: str = "") -> Callable[[Draw], Draw]:
    """Let a chart take traces as well as the frame of an analysis, which is then run on them.

    Arguments that the chart does not have are the analysis's, such as ``window=``. An analysis
    that works on the frame of another one names that as `of`.
    """
    run = getattr(analysis, of or name)
    known = inspect.signature(run).parameters

    def frame_of(source: Any, options: dict[str, Any]) -> pd.DataFrame:
        traces = source
        if isinstance(source, Selection):
            traces = source.owner
            if "selection" in known:
                options.setdefault("selection", source)
            else:
                traces = traces.subset(source.ranks, source.start_ns, source.end_ns)
        if "rank" in known and len(traces) == 1:
            options.setdefault("rank", traces.ranks[0])
        try:
            inspect.signature(run).bind(traces, **options)
        except TypeError as error:
            raise TypeError(f"{error} of analysis.{of or name}, which this chart runs") from None
        frame: pd.DataFrame = run(traces, **options)
        if of:
            frame = getattr(analysis, name)(frame)
        return frame

    return _taking(f"hta_widgets.analysis.{name}", frame_of)


def draws_panel(panel: str) -> Callable[[Draw], Draw]:
    """As `draws`, of what a dashboard's panel shows."""

    def frame_of(source: Any, options: dict[str, Any]) -> pd.DataFrame:
        selection = source if isinstance(source, Selection) else None
        traces = source if selection is None else selection.owner
        return PanelEngine(traces).frame(panel, selection, **options)

    return _taking(f'a Dashboard\'s panel_frame("{panel}")', frame_of)


def draws_only(what: str) -> Callable[[Draw], Draw]:
    """Let a chart refuse everything but a frame, which `what` returns: no set of traces has it."""
    return _taking(what, None)


def _taking(
    what: str, frame_of: Callable[[Any, dict[str, Any]], pd.DataFrame] | None
) -> Callable[[Draw], Draw]:
    def decorate(draw: Draw) -> Draw:
        own = inspect.signature(draw).parameters

        @wraps(draw)
        def drawn(frame: Any, *places: Any, **options: Any) -> Any:
            if frame_of is not None and isinstance(frame, (TraceSet, Trace, Selection)):
                theirs = {name: options.pop(name) for name in [*options] if name not in own}
                source = TraceSet([frame]) if isinstance(frame, Trace) else frame
                frame = frame_of(source, theirs)
            if not isinstance(frame, pd.DataFrame):
                others = ", or runs it on a TraceSet, a Trace or a Selection" if frame_of else ""
                load = " Load files first: traces = hw.load(path)." if frame_of else ""
                raise TypeError(
                    f"charts.{draw.__name__} draws the DataFrame of {what}{others}; it was given"
                    f" a {type(frame).__name__}.{load}"
                )
            return draw(frame, *places, **options)

        return drawn

    return decorate


def require(frame: pd.DataFrame, analysis: str, *columns: str) -> None:
    """Raise a `TraceError` where columns are missing: it names them and the frame's analysis."""
    _require(frame, f"Give the frame of hta_widgets.analysis.{analysis}.", columns)


def require_diff(frame: pd.DataFrame, table: str, *columns: str) -> None:
    """As `require`, of a frame that compares two runs."""
    _require(frame, f"Give the frame of hta_widgets.diff.{table}.", columns)


def require_panel(frame: pd.DataFrame, panel: str, *columns: str) -> None:
    """As `require`, of a frame that a dashboard's panel shows."""
    _require(frame, f'Give what a Dashboard\'s panel_frame("{panel}") returns.', columns)


def require_measure(measure: str, known: Collection[str]) -> None:
    """Raise a `ValueError` for a measure that is not one of the `known`."""
    if measure not in known:
        raise ValueError(f"no measure {measure!r}: there are {', '.join(known)}")


def _require(frame: pd.DataFrame, remedy: str, columns: tuple[str, ...]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing:
        named = ", ".join(f"'{name}'" for name in missing)
        raise TraceError(
            f"the frame to draw has no column{'s' if len(missing) > 1 else ''} {named}",
            remedy=remedy,
        )

"""What every view of a job has: the shared state as traits, and methods that change it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import pandas as pd
import traitlets as t

from hta_widgets.errors import TraceError
from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.chrome import export_trace
from hta_widgets.text import Time
from hta_widgets.text import as_ns
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.readers.load import load
from hta_widgets.readers.live import is_profiler
from hta_widgets.live.tile_engine import TileEngine
from hta_widgets.live.rpc import Answer
from hta_widgets.live.rpc import serve
from hta_widgets.widgets.state import State

__all__ = ["MOST_UNFOLDED", "LinkedView"]

#: More ranks are folded unless the caller says otherwise.
MOST_UNFOLDED = 16

_PLAIN = ("selected_event", "search", "color", "pinned", "scope")


def shown_window(start: Time, end: Time) -> tuple[int, int]:
    """Return the ns of a window to show.

    Raises
    ------
    TraceError
        Where these are no times, or it has no length.
    """
    window = as_ns(start), as_ns(end)
    if window[1] <= window[0]:
        raise TraceError(
            f"a window must end after it starts, not {start} to {end}",
            remedy='Give start_ns < end_ns since the origin, in ns or as in "12.3ms".',
        )
    return window


class Selected(t.Instance):  # type: ignore[type-arg] # older traitlets take none
    """A selection of a view's traces; takes what `LinkedView.select` does."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Make a selection of what is assigned."""
        if value is None or isinstance(value, (str, pd.DataFrame)):
            value = obj.traces.select(value)
        return super().validate(obj, value)


class Window(t.Tuple):
    """A window; takes times as `LinkedView.zoom_to` does."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Make ns of what is assigned."""
        if isinstance(value, (tuple, list)) and len(value) == 2:
            value = tuple(as_ns(time) for time in value)
        return super().validate(obj, value)


class LinkedView(anywidget.AnyWidget):
    """A view of a job; it mirrors the state that linked views share.

    Parameters
    ----------
    traces : TraceSet, Trace, Selection, or what `hta_widgets.load` takes
        What to draw. Of a `Selection`, its ranks and window are drawn.
    engine : TileEngine, optional
        Of the same traces, where another view has one.
    state : State, optional
        The state to follow; one of its own without it.
    color : {"kind", "name"}
        How events are coloured at first.
    **traits
        The view's own traits.
    """

    state = anywidget.WidgetTrait().tag(sync=True)
    _scene = t.Dict().tag(sync=True)

    view = Window(t.Int(), t.Int(), allow_none=True)
    selection: t.Instance[Selection] = Selected(Selection)
    selected_event = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None)
    search = t.Unicode("")
    color = t.Enum(("kind", "name"), default_value="kind")
    pinned = t.List(t.Unicode())
    scope = t.Enum(("selection", "view"), default_value="selection")

    def __init__(
        self,
        traces: TraceSet | Trace | Selection | Any,
        *,
        engine: TileEngine | None = None,
        state: State | None = None,
        color: str = "kind",
        **traits: Any,
    ) -> None:
        self.traces = as_traces(traces, type(self).__name__)
        self.engine = engine or TileEngine(self.traces)
        start_ns, end_ns = self.traces.span_ns
        self._whole = (int(start_ns), max(int(end_ns), 1))
        self._mirroring = False
        super().__init__(
            state=state or State(view=self._whole, color=color),
            view=self._whole,
            selection=Selection(traces=self.traces),
            color=color,
            **traits,
        )
        self._follow(self.state)
        self.observe(self._to_state, names=["view", "selection", *_PLAIN])
        serve(self, self._answer)

    @property
    def scene(self) -> dict[str, Any]:
        """What the page draws that does not change with the window."""
        found: dict[str, Any] = self._scene
        return found

    @property
    def whole(self) -> tuple[int, int]:
        """From the first event to the end of the last one, ns since the origin."""
        return self._whole

    def answer(self, request: dict[str, Any]) -> Answer:
        """Answer one request of a page, of docs/protocol.md."""
        return self._answer(request)

    def zoom_to(self, start_ns: Time, end_ns: Time) -> None:
        """Show a window.

        Parameters
        ----------
        start_ns, end_ns : int or str
            The window since the origin: ns, or text such as ``"12.3ms"``.

        Raises
        ------
        TraceError
            If the window has no length.
        """
        self.view = shown_window(start_ns, end_ns)

    def select(self, what: str | pd.DataFrame | Selection | None) -> Selection:
        """Select events, and show which they are.

        Parameters
        ----------
        what : str, DataFrame, Selection or None
            A pandas query over the event columns, a frame of events (with ``rank`` and ``id``),
            a ready `Selection`, or None to select everything again.

        Returns
        -------
        Selection
            What is selected now.
        """
        if what is None:
            self.selection = Selection(traces=self.traces)
        elif isinstance(what, Selection):
            self.selection = what.of(self.traces)
        else:
            self.selection = self.traces.select(what)
        return self.selection

    def selected_events(self) -> pd.DataFrame:
        """Return the events of the selection, whole, as ``TraceSet.events`` does.

        Returns
        -------
        DataFrame
            The columns of ``Trace.events`` and ``rank``; all events if nothing is selected.
        """
        return self.selection.events()

    def export(self, path: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write the selection as a new trace file; see `hta_widgets.export_trace`."""
        return export_trace(self.traces, Path(path), self.selection, **options)

    def undo(self) -> bool:
        """Go back one change of view, selection, search, colour or pins; False if none is left."""
        return bool(self.state.undo())

    def redo(self) -> bool:
        """Take back one `undo`; False if there is none."""
        return bool(self.state.redo())

    def link(self, other: LinkedView) -> None:
        """Let two views share window, selection, search, colours and pins from now on.

        Parameters
        ----------
        other : Timeline or Dashboard
            Takes over this view's state; both follow each other in the page and in Python.
        """
        if not isinstance(other, LinkedView):
            raise TypeError(
                f"a Timeline or Dashboard links with another, not a {type(other).__name__}"
            )
        if other.state is not self.state:
            other._follow(self.state)

    def close(self) -> None:
        """Close the widget; what its page still waits for is left."""
        self._stop()
        super().close()

    def _stop(self) -> None:
        # A widget whose making has failed is closed as well.
        if hasattr(self, "engine"):
            self.engine.stop()

    def _follow(self, state: State) -> None:
        if self.state is not state:
            self.state.unobserve(self._from_state)
            self.state = state
        self._from_state(None)
        state.observe(self._from_state)

    def _from_state(self, _change: object) -> None:
        """Mirror the shared state into this view's own traits."""
        if self._mirroring:
            return
        self._mirroring = True
        try:
            self.view = self.state.view or self._whole
            for name in _PLAIN:
                setattr(self, name, getattr(self.state, name))
            selection = Selection.from_json(self.state.selection, self.traces)
            if selection != self.selection:
                self.selection = selection
        finally:
            self._mirroring = False

    def _to_state(self, change: Mapping[str, Any]) -> None:
        if self._mirroring:
            return
        name, value = change["name"], change["new"]
        if name != "selection":
            setattr(self.state, name, value)
            return
        with self.state.one_change():
            self.state.selection = None if value.is_everything else value.to_json()
            self.state.ranks_from = ""

    @t.validate("view")
    def _has_length(self, proposal: Mapping[str, Any]) -> tuple[int, int]:
        start, end = proposal["value"]
        if end <= start:
            raise t.TraitError(f"view must end after it starts, not {start} to {end}")
        return (start, end)

    def _answer(self, request: dict[str, Any]) -> Answer:
        if request["op"] == "export":
            return self._export_from_page(request), None
        return self.engine.answer(request)

    def _export_from_page(self, request: Mapping[str, Any]) -> dict[str, Any]:
        report = export_trace(
            self.traces,
            Path(str(request["path"])).expanduser(),
            Selection.from_json(request.get("selection"), self.traces),
            clip=bool(request.get("clip", False)),
            counters="own" if request.get("counters", False) else False,
            scrub=bool(request.get("scrub", False)),
        )
        return {
            "path": str(report.path),
            "events": report.events,
            "flows": report.flows,
            "dropped": report.dropped,
            "bytes": report.bytes,
        }


def as_traces(source: Any, viewer: str = "Timeline") -> TraceSet:
    """Return the traces that a view is asked to draw; what `hw.load` takes is loaded.

    Raises
    ------
    TypeError
        For anything else.
    TraceError
        Where nothing can be read, or a selection belongs to no traces.
    """
    found = known_or_loaded(source, viewer)
    if isinstance(found, Trace):
        return TraceSet([found])
    if isinstance(found, Selection):
        return found.owner.subset(ranks=found.ranks, start_ns=found.start_ns, end_ns=found.end_ns)
    return found


def known_or_loaded(source: Any, viewer: str) -> TraceSet | Trace | Selection:
    """Return what a view is given, loaded where it is something to load."""
    if isinstance(source, (TraceSet, Trace, Selection)):
        return source
    if isinstance(source, (str, os.PathLike, list, tuple, Mapping)) or is_profiler(source):
        return load(source)
    raise TypeError(
        f"{viewer} takes a TraceSet, a Trace, a Selection, or what hw.load takes, such as a path;"
        f" not a {type(source).__name__}"
    )

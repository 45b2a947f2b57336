"""Common parts of all views: shared state with history, loading, requests and export."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import anywidget
import pandas as pd
import traitlets as t

from hta_widgets import options
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.export.pages.format import read_asset
from hta_widgets.export.pages.page import save_html
from hta_widgets.export.pictures.picture import Fallback, timeline_fallback
from hta_widgets.export.traces.files import ExportReport, export_trace
from hta_widgets.facts import facts
from hta_widgets.files import target_path, write_errors
from hta_widgets.live import operations
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer, RequestError, answer, serve
from hta_widgets.readers.load import is_profiler, load
from hta_widgets.text import Time, as_ns
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import ClockName, Selection, TraceSet

#: Traits shared by linked views. A history entry contains a value for each of them.
SHARED = (
    "view", "selection", "selected_event", "search", "color", "pinned", "ranks_from", "scope",
)  # fmt: skip
#: What figures cover.
SCOPES = ("selection", "view", "job")
#: Traits with the same value in views and in the state. All others are converted.
_SIMPLE_TRAITS = ("clock", "selected_event", "search", "color", "pinned", "scope")
#: Maps the names of clocks in views to those in `TraceSet.with_clock`.
_CLOCKS: Mapping[str, ClockName] = {"recorded": "host", "fitted": "fitted"}
_TIMES = ("start_ns", "end_ns")
_HISTORY = ("past", "future")
HISTORY_LENGTH: int = facts("limits")["history_entries"]
Clock = Literal["auto", "recorded", "fitted"]
Color = Literal["kind", "name", "bound"]
Height = Annotated[int, range(120, 1 << 31)]  # in CSS pixels
MAX_UNFOLDED = 16  # if there are more ranks, similar ones are folded by default


def page_target(path: str, *, overwrite: bool) -> Path:
    """Return the path of a file that the page asks to write, or raise an error."""
    target = target_path(path)
    if options.export_dir is not None:
        folder = target_path(options.export_dir).resolve()
        with write_errors(folder):
            target = folder / target
            # Only the folder is resolved. If the file itself is a link, the link is replaced.
            is_inside = target.name != ".." and target.parent.resolve().is_relative_to(folder)
        if not is_inside:
            raise TraceError(
                "is outside of export_dir",
                path=target,
                remedy=f"Give a name in {folder}, or change hw.options.export_dir.",
            )
    with write_errors(target):
        exists = target.is_symlink() or target.exists()
    if exists and not overwrite:
        raise RequestError(
            "exists already",
            path=target,
            remedy="Write it again to replace it.",
            code="file_exists",
        )
    return target


class State(anywidget.AnyWidget):
    """The shared state of linked views: a widget without a view.

    Views in the page observe it directly, so linked views work while the kernel is busy or
    disconnected. Views in Python observe the same traits.
    """

    view = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None).tag(sync=True)
    selection = t.Dict(allow_none=True, default_value=None).tag(sync=True)
    selected_event = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None).tag(sync=True)
    search = t.Unicode("").tag(sync=True)
    color = t.Enum(get_args(Color), default_value="kind").tag(sync=True)
    pinned = t.List(t.Unicode()).tag(sync=True)
    ranks_from = t.Unicode("").tag(sync=True)
    scope = t.Enum(SCOPES, default_value="selection").tag(sync=True)
    #: Shared as well, but not part of the history.
    clock = t.Enum(tuple(_CLOCKS), default_value="recorded")
    _history: t.Dict[str, Any] = t.Dict({"past": [], "future": []}).tag(sync=True)

    def __init__(self, **traits: object) -> None:
        self._esm = read_asset("state.js")
        self._recording = False
        #: Id of the current act if the act also changes other states.
        self.act: str | None = None
        super().__init__(**traits)
        self._last = self.snapshot()
        self._recording = True
        self.observe(self._record, names=list(SHARED))

    def snapshot(self) -> dict[str, Any]:
        """Return the shared values in JSON form, as for a history entry."""
        values = {name: getattr(self, name) for name in SHARED}
        return {
            name: list(value) if isinstance(value, (tuple, list)) else value
            for name, value in values.items()
        }

    def undo(self) -> bool:
        """Undo the last change of the shared state; return False if none is left."""
        return self._step("past", "future")

    def redo(self) -> bool:
        """Redo the last undone change; return False if none is left."""
        return self._step("future", "past")

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply values from the page. They are not recorded, since the page records its changes."""
        with self.without_history():
            super().set_state(sync_data)

    def move(self, by_ns: int) -> None:
        """Move the windows in the current values and in the history."""

        def shift_times(values: Mapping[str, Any]) -> dict[str, Any]:
            shifted = {**values}
            if shifted["view"] is not None:
                shifted["view"] = [time + by_ns for time in shifted["view"]]
            if shifted["selection"] is not None:
                shifted["selection"] = {
                    key: value + by_ns if key in _TIMES and value is not None else value
                    for key, value in shifted["selection"].items()
                }
            return shifted

        current = shift_times(self.snapshot())
        with self.without_history(), self.hold_sync():
            self.view, self.selection = current["view"], current["selection"]
            self._history = {
                key: [shift_times(entry) for entry in self._history[key]] for key in _HISTORY
            }

    @contextmanager
    def group_changes(self) -> Iterator[None]:
        """Group several assignments into one history entry."""
        before = self.snapshot()
        with self.without_history(), self.hold_sync():
            yield
        if self.snapshot() != before:
            self._push(before)

    @contextmanager
    def without_history(self) -> Iterator[None]:
        """Keep assignments out of the history."""
        recording, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = recording
            self._last = self.snapshot()

    def _record(self, _change: object) -> None:
        if not self._recording:
            return
        snapshot = self.snapshot()
        if snapshot != self._last:
            before, self._last = self._last, snapshot
            self._push(before)

    def _push(self, before: dict[str, Any]) -> None:
        past = [*self._history["past"], before][-HISTORY_LENGTH:]
        act = {} if self.act is None else {"together": self.act}
        self._history = {"past": past, "future": [], **act}

    def _step(self, source: str, target: str) -> bool:
        entries = list(self._history[source])
        if not entries:
            return False
        entry = entries.pop()
        history = {source: entries, target: [*self._history[target], self.snapshot()]}
        with self.without_history(), self.hold_sync():
            for name in SHARED:
                setattr(self, name, entry.get(name, self.trait_defaults()[name]))
            self._history = {key: history[key] for key in _HISTORY}
        return True


def validate_window(start: Time, end: Time) -> tuple[int, int]:
    """Convert a window to ns, or raise a `TraceError` if it has no length."""
    window = as_ns(start), as_ns(end)
    if window[1] <= window[0]:
        raise TraceError(
            f"a window must end after it starts, not {start} to {end}",
            remedy='Give start_ns < end_ns since the origin, in ns or as in "12.3ms".',
        )
    return window


class SelectionTrait(t.Instance):  # type: ignore[type-arg] # older traitlets take none
    """A trait for a selection of a view's traces. It accepts what `LinkedView.select` does."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Convert an assigned value to a selection."""
        if value is None or isinstance(value, (str, pd.DataFrame)):
            value = obj.traces.select(value)
        elif isinstance(value, Selection):
            value = rebind_selection(value, obj.traces)
        return super().validate(obj, value)


def rebind_selection(selection: Selection, traces: TraceSet) -> Selection:
    """Bind a selection to `traces`. On another clock, its window moves with the lowest rank."""
    owner = selection.traces
    offset_ns = 0
    if owner is not None and owner.clock != traces.clock:
        offset_ns = traces.origin_offset_ns - owner.origin_offset_ns
    edges = selection.start_ns, selection.end_ns
    start, end = (None if edge is None else edge + offset_ns for edge in edges)
    return replace(selection, start_ns=start, end_ns=end, traces=traces)


class WindowTrait(t.Tuple):
    """A trait for a window. It accepts the same times as `LinkedView.zoom_to`."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Convert assigned times to ns."""
        if isinstance(value, (tuple, list)) and len(value) == 2:
            value = tuple(as_ns(time) for time in value)
        return super().validate(obj, value)


class LinkedView(anywidget.AnyWidget):
    """A view of a job that follows the shared state of linked views.

    `traces` may be anything that `Timeline` accepts. By default, the view has its own `engine` and
    `state`. To share them with another view of the same traces, pass those of that view. `traits`
    are the traits of the subclass.
    """

    state = anywidget.WidgetTrait().tag(sync=True)
    _scene = t.Dict().tag(sync=True)

    view = WindowTrait(t.Int(), t.Int(), allow_none=True)
    selection: t.Instance[Selection] = SelectionTrait(Selection)
    selected_event = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None)
    search = t.Unicode("")
    color = t.Enum(get_args(Color), default_value="kind")
    pinned = t.List(t.Unicode())
    scope = t.Enum(SCOPES, default_value="selection")
    clock = t.Enum(tuple(_CLOCKS), default_value="recorded").tag(sync=True)

    def __init__(
        self,
        traces: TraceSet | Trace | Selection | Any,
        *,
        engine: TileEngine | None = None,
        state: State | None = None,
        color: Color = "kind",
        clock: Clock | None = None,
        **traits: object,
    ) -> None:
        self.traces = traces_to_draw(traces, type(self).__name__, clock)
        self.engine = engine or TileEngine(self.traces)
        self._engines = {self.traces.clock: (self.traces, self.engine)}
        self._is_syncing = False
        clock_name = next(name for name, of in _CLOCKS.items() if of == self.traces.clock)
        super().__init__(
            state=state or State(view=self.whole, color=color, clock=clock_name),
            view=self.whole,
            selection=Selection(traces=self.traces),
            color=color,
            clock=clock_name,
            **traits,
        )
        self.observe(self._switch, names="clock")
        self._follow(self.state)
        self.observe(self._to_state, names=["view", "selection", *_SIMPLE_TRAITS])
        serve(self, self.answer)

    @property
    def scene(self) -> dict[str, Any]:
        """The ranks and tracks, independent of the window."""
        scene: dict[str, Any] = self._scene
        return scene

    def _switch(self, _change: object) -> None:
        """Switch to the other clock. Windows keep their position on the rank that does not move."""
        # Set the clock of the state first, since each change below copies the state to this view.
        is_first = self.state.clock != self.clock
        self.state.clock = self.clock
        name = _CLOCKS[self.clock]
        if name == self.traces.clock:
            return
        if name not in self._engines:
            traces = self.traces.with_clock(name)
            self._engines[name] = traces, TileEngine(traces)
        self.engine.stop()
        whole_range, offset_ns = self.whole, self.traces.origin_offset_ns
        self.traces, self.engine = self._engines[name]
        with self.hold_sync(), self.state.without_history():
            self._redraw()
            self._from_state(None)
            if is_first:
                shows_all = self.view == whole_range
                self.state.move(self.traces.origin_offset_ns - offset_ns)
                if shows_all:
                    self.view = self.whole

    def _redraw(self) -> None:
        self._scene = self.engine.scene()

    @property
    def whole(self) -> tuple[int, int]:
        """The time range of all ranks, in ns since the origin."""
        start_ns, end_ns = self.traces.span_ns
        return int(start_ns), max(int(end_ns), 1)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer a request described in docs/protocol-requests.md."""
        for trace in self.traces.values():
            trace.require_whole()
        return answer(request, *self._answerers())

    def _answerers(self) -> Sequence[object]:
        return self, self.engine

    def zoom_to(self, start_ns: Time, end_ns: Time) -> None:
        """Show a window.

        Parameters
        ----------
        start_ns, end_ns : int or str
            Window since the origin, in ns or as text such as ``"12.3ms"``.

        Raises
        ------
        TraceError
            If the window is empty.
        """
        self.view = validate_window(start_ns, end_ns)

    @check_arguments
    def select(
        self,
        what: str | pd.DataFrame | Selection | None = None,
        *,
        sql: str | None = None,
        **conditions: Any,
    ) -> Selection:
        """Select events.

        Parameters
        ----------
        what : str, DataFrame or Selection, optional
            A pandas query over the event columns, a frame with the columns ``rank`` and ``id``, or
            a `Selection`.
        sql : str, optional
            A query for `TraceSet.sql` that returns ``rank`` and ``id``, instead of `what`.
        **conditions
            ``start_ns``, ``end_ns``, ``ranks``, ``tracks``, ``ids`` and ``launches``, as in
            `TraceSet.select`. If neither `what` nor a condition is given, everything is selected.

        Returns
        -------
        Selection
            The new selection.
        """
        if sql is not None:
            if what is not None:
                raise TraceError("select() takes either sql= or a query or frame, not both")
            what = self.traces.sql(sql)
        if isinstance(what, Selection):
            what = rebind_selection(what, self.traces)
        self.selection = self.traces.select(what, **conditions)
        return self.selection

    def selected_events(self) -> pd.DataFrame:
        """Return the selected events, not clipped to the window, as in ``TraceSet.events``.

        Returns
        -------
        DataFrame
            The columns of ``Trace.events``, plus ``rank``. If nothing is selected, the frame has
            the clicked event or, if none is clicked, all events.
        """
        return (self._clicked_event() or self.selection).events()

    @check_arguments
    def export(self, path: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write the selection to a new trace file; see `hta_widgets.export_trace`."""
        return export_trace(self.traces, target_path(path), self.selection, **options)

    @check_arguments
    def save_html(self, path: str | os.PathLike[str], *, max_mb: float = 25) -> str:
        """Write this view as a self-contained page that works offline and without a kernel.

        Parameters
        ----------
        path : path-like
        max_mb : float, default 25
            Page size in MB up to which detail is embedded, level by level. The page states where
            detail is missing.

        Returns
        -------
        str
            The path.
        """
        target = target_path(path)  # raises errors before the slow work begins
        part, state = self._dashboard_part(), self.state.snapshot()
        return save_html(target, self.engine, self._scene, state, max_mb=max_mb, dashboard=part)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self._fallback().add_to(super()._repr_mimebundle_(**kwargs))

    def _fallback(self) -> Fallback:
        return timeline_fallback(self.engine, self._scene, self.state.snapshot())

    def _dashboard_part(self) -> Mapping[str, Any] | None:
        return None

    def undo(self) -> bool:
        """Undo the last change of view, selection, search, color or pins; False if none is left."""
        return bool(self.state.undo())

    def redo(self) -> bool:
        """Redo the last undone change; return False if none is left."""
        return bool(self.state.redo())

    @check_arguments
    def link(self, other: LinkedView) -> None:
        """Link two views, so that they share window, selection, search, colors and pins.

        Parameters
        ----------
        other : Timeline or Dashboard
            The view to link. It takes over the state of this view.
        """
        if other.state is not self.state:
            other._follow(self.state)

    def close(self) -> None:
        """Close the widget and cancel the running requests of its page."""
        self._stop()
        super().close()

    def _stop(self) -> None:
        # If the engine is missing, `__init__` has failed.
        if hasattr(self, "engine"):
            self.engine.stop()

    def _follow(self, state: State) -> None:
        if self.state is not state:
            self.state.unobserve(self._from_state)
            self.state = state
        self._from_state(None)
        state.observe(self._from_state)

    def _from_state(self, _change: object) -> None:
        if self._is_syncing:
            return
        self._is_syncing = True
        try:
            self.view = self.state.view or self.whole
            for name in _SIMPLE_TRAITS:
                setattr(self, name, getattr(self.state, name))
            self.selection = self._current_selection()
        finally:
            self._is_syncing = False

    def _current_selection(self) -> Selection:
        return Selection.from_json(self.state.selection, self.traces)

    def _clicked_event(self) -> Selection | None:
        event = self.state.selected_event
        if event is None or event[0] not in self.traces or self.state.selection is not None:
            return None
        return self.traces.select(ids={tuple(event)})

    def _to_state(self, change: Mapping[str, Any]) -> None:
        if self._is_syncing:
            return
        name, value = change["name"], change["new"]
        if name != "selection":
            setattr(self.state, name, value)
            return
        with self.state.group_changes():
            self.state.selection = None if value.is_everything else value.to_json()
            self.state.ranks_from = ""
            if value.is_everything:
                self.state.selected_event = None

    @t.validate("view")
    def _validate_view(self, proposal: Mapping[str, Any]) -> tuple[int, int]:
        start, end = proposal["value"]
        if end <= start:
            raise t.TraitError(f"view must end after it starts, not {start} to {end}")
        return (start, end)

    def _on_export(self, request: operations.ExportRequest) -> Answer:
        report = export_trace(
            self.traces,
            page_target(request.path, overwrite=request.overwrite),
            Selection.from_json(request.selection, self.traces),
            clip=request.clip,
            keep_launches=request.launches,
            counters="own" if request.counters else False,
            scrub=request.scrub,
        )
        reply = {
            "path": str(report.path),
            "events": report.events,
            "flows": report.flows,
            "dropped": report.dropped,
            "bytes": report.bytes,
        }
        return reply, None


def traces_to_draw(
    source: object, viewer: str = "Timeline", clock: Clock | None = None
) -> TraceSet:
    """Load the argument of a view; return its traces, on the given clock if it is not None."""
    loaded = load_if_needed(source, viewer)
    if isinstance(loaded, Trace):
        loaded = TraceSet([loaded])
    elif isinstance(loaded, Selection):
        loaded = loaded.owner.subset(
            ranks=loaded.ranks, start_ns=loaded.start_ns, end_ns=loaded.end_ns
        )
    return with_same_clock(clock, loaded)[0]


def with_same_clock(clock: Clock | None, *sets: TraceSet) -> tuple[TraceSet, ...]:
    """Return all sets on the same clock. "auto" selects the fitted one if any set needs it."""
    if clock is None:
        return sets
    if clock == "auto":
        if not any(len(traces) > 1 and clock_fit(traces).is_needed for traces in sets):
            return sets
        clock = "fitted"
    # Map by id, so that a trace set that is passed twice remains a single set.
    moved = {id(traces): traces.with_clock(_CLOCKS[clock]) for traces in sets}
    return tuple(moved[id(traces)] for traces in sets)


def load_if_needed(source: object, viewer: str) -> TraceSet | Trace | Selection:
    """Return the argument of a view, loaded if it is a path or another source."""
    if isinstance(source, (TraceSet, Trace, Selection)):
        return source
    if isinstance(source, (str, os.PathLike, list, tuple, Mapping)) or is_profiler(source):
        return load(source)
    raise TraceError(
        f"{viewer} takes a TraceSet, a Trace, a Selection, or what hw.load takes, such as a path;"
        f" not a {type(source).__name__}"
    )

"""The zoomable timeline of all ranks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import pandas as pd
import traitlets as t

from hta_widgets.errors import TraceError
from hta_widgets.export import ExportReport, export_trace
from hta_widgets.export.html import save_html
from hta_widgets.model import Selection, Trace, TraceSet
from hta_widgets.tiles import TileEngine
from hta_widgets.widgets.assets import asset
from hta_widgets.widgets.rpc import Answer, serve
from hta_widgets.widgets.state import State

__all__ = ["Timeline"]

#: More ranks are folded unless the caller says otherwise.
MOST_UNFOLDED = 16

_PLAIN = ("selected_event", "search", "color", "pinned")


class Timeline(anywidget.AnyWidget):
    """Draw every rank of a job on one zoomable timeline.

    Every pixel shows the exact share of its time that a lane was busy, and nothing with a
    duration vanishes at any zoom. Press ``?`` in the timeline for its keys and gestures.

    Parameters
    ----------
    traces : TraceSet, Trace or Selection
        What to draw. Of a `Selection`, its ranks and window are drawn.
    tracks : str or sequence of str, optional
        Show only tracks whose key matches this regular expression, or that are listed.
    height : int, default 480
        Height of the drawing in CSS pixels; toolbar, status line and panels come on top.
    color : {"kind", "name"}, default "kind"
        Colour events by what they are, or give each name its own shade of that colour.

    folded : bool, optional
        Fold ranks that behave alike (`analysis.rank_clusters`) into one row each, so that only
        these and the outliers have rows; numbers stay those of all ranks. Default: above 16 ranks.

    Attributes
    ----------
    view : tuple of int
        Shown window, ns since ``TraceSet.origin_ns``. Assign None for the whole job.
    selection : Selection
        What is selected; a `Selection` of everything if nothing is.
    selected_event : tuple of int or None
        ``(rank, id)`` of the event whose details are shown.
    search : str
        Marked names: plain text, or ``/regular expression/``.
    color : str
        ``"kind"`` or ``"name"``.
    pinned : list of str
        ``"5"`` pins rank 5 to the top, ``"5/GPU 0 · stream 7"`` one of its tracks.
    folded : bool
        Whether ranks that behave alike are folded; of this timeline alone, and not undone.

    Examples
    --------
    >>> traces = hw.load("runs/llama-8b/")
    >>> timeline = hw.Timeline(traces)
    >>> timeline.zoom_to(12_000_000, 18_000_000)
    >>> timeline.select("name.str.contains('nccl') and dur_ns > 1_000_000")
    >>> timeline.selected_events()
    """

    state = anywidget.WidgetTrait().tag(sync=True)
    height = t.Int(480, min=120).tag(sync=True)
    folded = t.Bool(False).tag(sync=True)
    _scene = t.Dict().tag(sync=True)

    view = t.Tuple(t.Int(), t.Int(), allow_none=True)
    selection = t.Instance(Selection)
    selected_event = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None)
    search = t.Unicode("")
    color = t.Enum(("kind", "name"), default_value="kind")
    pinned = t.List(t.Unicode())

    def __init__(
        self,
        traces: TraceSet | Trace | Selection,
        *,
        tracks: str | Sequence[str] | None = None,
        height: int = 480,
        color: str = "kind",
        folded: bool | None = None,
    ) -> None:
        self._esm = asset("timeline.js").read_text("utf-8")
        self._css = asset("timeline.css").read_text("utf-8")
        self.traces = _as_traces(traces)
        self.engine = TileEngine(self.traces)
        self._whole = (int(self.traces.start_ns), max(int(self.traces.end_ns), 1))
        self._mirroring = False
        scene = _only_tracks(self.engine.scene(), tracks)
        super().__init__(
            state=State(view=self._whole, color=color),
            height=height,
            folded=len(self.traces) > MOST_UNFOLDED if folded is None else folded,
            _scene=scene,
            view=self._whole,
            selection=Selection(traces=self.traces),
            color=color,
        )
        self._follow(self.state)
        self.observe(self._to_state, names=["view", "selection", *_PLAIN])
        serve(self, self._answer)

    def zoom_to(self, start_ns: int, end_ns: int) -> None:
        """Show a window.

        Parameters
        ----------
        start_ns, end_ns : int
            The window, ns since the origin.

        Raises
        ------
        TraceError
            If the window has no length.
        """
        if end_ns <= start_ns:
            raise TraceError(
                f"a window must end after it starts, not {start_ns} to {end_ns}",
                remedy="Give start_ns < end_ns, in ns since the origin.",
            )
        self.view = (int(start_ns), int(end_ns))

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

    def save_html(self, path: str | os.PathLike[str], *, max_mb: float = 25) -> str:
        """Write this timeline as one self-contained page that needs no kernel and no network.

        Parameters
        ----------
        path : path-like
            The file to write.
        max_mb : float, default 25
            Embed detail level by level until the page would be larger than this; the page says
            where detail was left out.

        Returns
        -------
        str
            The path that was written.
        """
        return save_html(path, self.engine, self._scene, self.state.snapshot(), max_mb=max_mb)

    def link(self, other: Timeline) -> None:
        """Let two timelines share view, selection, search, colours and pins from now on.

        Parameters
        ----------
        other : Timeline
            Takes over this timeline's state; both follow each other in the page and in Python.
        """
        if other.state is not self.state:
            other._follow(self.state)

    def _follow(self, state: State) -> None:
        if self.state is not state:
            self.state.unobserve(self._from_state)
            self.state = state
        self._from_state(None)
        state.observe(self._from_state)

    def _from_state(self, _change: object) -> None:
        """Mirror the shared state into this timeline's own traits."""
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
        if name == "selection":
            value = None if value.is_everything else value.to_json()
        setattr(self.state, name, value)

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


def _as_traces(source: TraceSet | Trace | Selection) -> TraceSet:
    if isinstance(source, TraceSet):
        return source
    if isinstance(source, Trace):
        return TraceSet([source])
    if isinstance(source, Selection) and source.traces is not None:
        return source.traces.subset(
            ranks=source.ranks, start_ns=source.start_ns, end_ns=source.end_ns
        )
    raise TypeError(f"Timeline draws a TraceSet, a Trace or a Selection, not {type(source)}")


def _only_tracks(scene: dict[str, Any], tracks: str | Sequence[str] | None) -> dict[str, Any]:
    if tracks is None:
        return scene
    if isinstance(tracks, str):
        pattern = re.compile(tracks)
        keep = lambda key: pattern.search(key) is not None  # noqa: E731
    else:
        wanted = set(tracks)
        keep = wanted.__contains__
    known = {track["key"] for rank in scene["ranks"] for track in rank["tracks"]}
    if not any(keep(key) for key in known):
        raise TraceError(
            f"no track matches {tracks!r}",
            remedy=f"Tracks are named like {', '.join(repr(key) for key in sorted(known)[:4])}.",
        )
    ranks = [
        {**rank, "tracks": [track for track in rank["tracks"] if keep(track["key"])]}
        for rank in scene["ranks"]
    ]
    return {**scene, "ranks": ranks}

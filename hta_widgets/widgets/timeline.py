"""The zoomable timeline of all ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import compress
from typing import Any

import traitlets as t

from hta_widgets.arguments import check_arguments, match_pattern, require_pattern
from hta_widgets.charts.theme import ThemeName
from hta_widgets.errors import TraceError
from hta_widgets.export.pages.format import read_asset
from hta_widgets.export.pictures.picture import timeline_svg
from hta_widgets.files import write_text
from hta_widgets.live.job import TileEngine
from hta_widgets.text import Time, as_window
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet
from hta_widgets.widgets.view import (
    MAX_UNFOLDED,
    Clock,
    Color,
    Height,
    LinkedView,
    State,
    traces_to_draw,
)


class Timeline(LinkedView):
    """Draw all ranks of a job on a zoomable timeline.

    Each pixel of a lane shows the exact share of time for which the lane is busy, and events of
    nonzero duration are visible at every zoom level. Press ``?`` in the timeline for its keys and
    gestures.

    Parameters
    ----------
    traces : TraceSet, Trace, Selection, or what hta_widgets.load takes
        What to draw. A `Selection` restricts ranks and time.
    tracks : str or sequence of str, optional
        Draw only tracks whose key matches a regular expression or is in a sequence.
    height : int, default 480
        Maximum height in CSS px, excluding toolbar, status line and panels. The timeline is lower
        if its rows need less space. Users can change the height by dragging the lower edge.
    color : {"kind", "name", "bound"}, default "kind"
        Color events by kind, or in a shade of the kind's color that depends on the name. With
        ``"kind"``, host calls are colored by name in views shorter than a step. With ``"bound"``,
        colors show whether FLOPs or bytes limit the work, and how close it is to that limit; jobs
        recorded without shapes are colored by kind.
    folded : bool, optional
        Draw each cluster of similar ranks (`analysis.rank_clusters`) as a single row, and outliers
        as separate rows. Figures still cover all ranks. Default: True if there are more than 16
        ranks.
    clock : {"auto", "recorded", "fitted"} or None, default "auto"
        The clock to use: as recorded, or fitted so that all ranks leave a collective at the same
        time (`TraceSet.with_clock`). ``"auto"`` matches all collectives and takes the fitted clock
        if the residual of any rank on the recorded clock is larger than twice its residual on the
        fitted clock plus 1 µs. None keeps the clock of the traces.

    Attributes
    ----------
    view : tuple of int
        The time window, in ns since ``TraceSet.origin_ns``. Assign None to show the whole job.
    selection : Selection
        The selection. If nothing is selected: the clicked event, or everything.
    selected_event : tuple of int or None
        ``(rank, id)`` of the event whose details are shown.
    search : str
        Text that highlighted names contain, or ``/regular expression/``.
    color : {"kind", "name", "bound"}
        How events are colored; see the parameter `color`.
    pinned : list of str
        What is pinned to the top: ``"5"`` for rank 5, ``"5/GPU 0 · stream 7"`` for one of its
        tracks.
    folded : bool
        Whether similar ranks are folded. Not shared by linked views and not part of the history.
    clock : {"recorded", "fitted"}
        The clock in use. Assign to it, or click its badge in the page, to change it. Times in
        `view`, `selection` and frames are on this clock, as are the ``traces`` of this view, which
        can be passed to analyses and `export_trace`. Windows keep their position on the lowest
        rank. The clock is shared between linked views, and undo ignores it.

    Examples
    --------
    >>> traces = hw.load("runs/llama-8b/")
    >>> timeline = hw.Timeline(traces)
    >>> timeline.zoom_to(12_000_000, 18_000_000)
    >>> timeline.select("name.str.contains('nccl') and dur_ns > 1_000_000")
    >>> timeline.selected_events()
    """

    height = t.Int(480, min=120).tag(sync=True)
    folded = t.Bool(False).tag(sync=True)

    @check_arguments
    def __init__(
        self,
        traces: TraceSet | Trace | Selection | Any,
        *,
        tracks: str | Sequence[str] | None = None,
        height: Height = 480,
        color: Color = "kind",
        folded: bool | None = None,
        clock: Clock | None = "auto",
        _engine: TileEngine | None = None,
        _state: State | None = None,
    ) -> None:
        self._esm, self._css = read_asset("timeline.js"), read_asset("widgets.css")
        drawn = traces_to_draw(traces, "Timeline", clock)
        engine = _engine or TileEngine(drawn)
        self._tracks = tracks
        super().__init__(
            drawn,
            engine=engine,
            state=_state,
            color=color,
            height=height,
            folded=len(drawn) > MAX_UNFOLDED if folded is None else folded,
            _scene=_keep_tracks(engine.scene(), tracks),
        )

    def _current_selection(self) -> Selection:
        return self._clicked_event() or super()._current_selection()

    def _redraw(self) -> None:
        self._scene = _keep_tracks(self.engine.scene(), self._tracks)

    @check_arguments
    def to_svg(
        self,
        path: str | os.PathLike[str],
        *,
        width: float = 1200,
        view: tuple[Time, Time] | None = None,
        theme: ThemeName = "light",
    ) -> str:
        """Write the current view as an SVG file: all rows, with a legend and a scale bar.

        The picture is drawn in Python and needs no browser. Ranks are folded as in this timeline.
        Ranks that a user unfolds in the page appear only in pictures exported there.

        Parameters
        ----------
        path : path-like
        width : float, default 1200
            Width in px. From 900 px on, the picture shows totals per rank; below 760 px, it has no
            lane names.
        view : tuple of int, optional
            Window since the origin, in ns or as text such as ``"12.3ms"``. Default: the current
            window.
        theme : {"light", "dark"}

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            If the width is too small, the window has no length, the theme is unknown or the file
            cannot be written.

        Examples
        --------
        >>> timeline.to_svg("window.svg", view=(12_000_000, 18_000_000))  # doctest: +SKIP
        """
        state = self.state.snapshot()
        if view is not None:
            state["view"] = list(as_window(view))
        # If ranks were selected in another panel of the dashboard, only these ranks are shown.
        ranks = (state["selection"] or {}).get("ranks")
        is_chosen_elsewhere = state["ranks_from"] not in {"", "timeline"}
        text = timeline_svg(
            self.engine,
            self._scene,
            state,
            width=width,
            height=self.height,
            theme=theme,
            folded=self.folded,
            only=set(ranks) if ranks and is_chosen_elsewhere else None,
        )
        return write_text(path, text)


def _keep_tracks(scene: dict[str, Any], tracks: str | Sequence[str] | None) -> dict[str, Any]:
    if tracks is None:
        return scene
    keys = sorted({track["key"] for rank in scene["ranks"] for track in rank["tracks"]})
    if isinstance(tracks, str):
        require_pattern(tracks, f"tracks={tracks!r}")
        wanted = set(compress(keys, match_pattern(tracks, keys)))
    else:
        try:
            wanted = set(tracks)
        except TypeError:
            raise TraceError(
                f"tracks={tracks!r} is neither a string nor a list",
                remedy="Give a regular expression, or a list of track names.",
            ) from None
    if wanted.isdisjoint(keys):
        raise TraceError(
            f"no track matches {tracks!r}",
            remedy=f"Tracks are named like {', '.join(map(repr, keys[:4]))}.",
        )
    ranks = [
        {**rank, "tracks": [track for track in rank["tracks"] if track["key"] in wanted]}
        for rank in scene["ranks"]
    ]
    return {**scene, "ranks": ranks}

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
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
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
    """Draw every rank of a job on one zoomable timeline.

    Every pixel shows the exact share of its time that a lane is busy, and events with a duration
    are visible at every zoom. Press ``?`` in the timeline for its keys and gestures.

    Parameters
    ----------
    traces : TraceSet, Trace, Selection, or what hta_widgets.load takes
        What to draw. For a `Selection`, its ranks and window are drawn.
    tracks : str or sequence of str, optional
        Show only tracks whose key matches this regular expression, or is in this sequence.
    height : int, default 480
        Maximum height of the drawing in CSS pixels, without toolbar, status line and panels. The
        drawing is lower if its rows need less. Users set it by dragging the lower edge.
    color : {"kind", "name", "bound"}, default "kind"
        Color events by kind, or give each name its own shade of the kind's color. With
        ``"kind"``, calls of the host are colored by name in views shorter than a step. With
        ``"bound"``, the color shows what limits the work, FLOPs or bytes, and how close it comes
        to that limit; jobs without shapes are colored by kind.
    folded : bool, optional
        Draw each group of similar ranks (`analysis.rank_clusters`) as one row, and outliers as
        rows of their own; numbers still cover all ranks. Default: above 16 ranks.
    clock : {"auto", "recorded", "fitted"} or None, default "auto"
        The clock to draw on: as recorded, or fitted so that ranks leave collectives together
        (`TraceSet.with_clock`). ``"auto"`` matches all collectives, and takes the fitted clock if
        the residual of a rank on the recorded clock exceeds twice that on the fitted one plus 1 µs.
        None: the clock of the traces.

    Attributes
    ----------
    view : tuple of int
        Shown window, ns since ``TraceSet.origin_ns``. Assign None for the whole job.
    selection : Selection
        What is selected; if nothing is, the clicked event, or else everything.
    selected_event : tuple of int or None
        ``(rank, id)`` of the event whose details are shown.
    search : str
        Marked names: plain text, or ``/regular expression/``.
    color : {"kind", "name", "bound"}
        How events are colored.
    pinned : list of str
        ``"5"`` pins rank 5 to the top, ``"5/GPU 0 · stream 7"`` one of its tracks.
    folded : bool
        Whether similar ranks are folded; linked views do not share it, and undo ignores it.
    clock : {"recorded", "fitted"}
        The clock that is drawn; assign it, or press its badge in the page. All times of `view`,
        `selection` and frames are on this clock. So are the ``traces`` of this view: pass them to
        analyses and `export_trace`. Windows keep their place on the lowest rank. Linked views share
        the clock, and undo ignores it.

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
        """Write what is shown as a vector picture: all rows, with a legend and a scale bar.

        The picture is drawn in Python, so it needs no browser. Ranks are folded as in this
        timeline. Ranks that a user opened in a page are only drawn by the page's own export.

        Parameters
        ----------
        path : path-like
        width : float, default 1200
            In px. A picture of at least 900 px has totals per rank; one below 760 px has no names
            of lanes.
        view : tuple of int, optional
            The window since the origin, in ns or as in ``"12.3ms"``. Default: the one shown.
        theme : {"light", "dark"}

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            If the picture is too narrow, the window has no length, the theme is unknown, or the
            file cannot be written.

        Examples
        --------
        >>> timeline.to_svg("window.svg", view=(12_000_000, 18_000_000))  # doctest: +SKIP
        """
        state = self.state.snapshot()
        if view is not None:
            state["view"] = list(as_window(view))
        # Ranks that another panel of a dashboard selected are the only ones shown.
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
                f"tracks={tracks!r} is neither text nor a list",
                remedy="Give a regular expression, or a list of names of tracks.",
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

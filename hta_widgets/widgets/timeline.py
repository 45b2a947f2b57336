"""The zoomable timeline of all ranks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import traitlets as t

from hta_widgets.errors import TraceError
from hta_widgets.export.page import save_html
from hta_widgets.live.job import TileEngine
from hta_widgets.text import Time
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.widgets.assets import asset
from hta_widgets.widgets.view import (
    MOST_UNFOLDED,
    LinkedView,
    State,
    as_traces,
    write_svg,
)


class Timeline(LinkedView):
    """Draw every rank of a job on one zoomable timeline.

    Every pixel shows the exact share of its time that a lane was busy, and nothing with a
    duration vanishes at any zoom. Press ``?`` in the timeline for its keys and gestures.

    Parameters
    ----------
    traces : TraceSet, Trace, Selection, or what `hta_widgets.load` takes
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

    height = t.Int(480, min=120).tag(sync=True)
    folded = t.Bool(False).tag(sync=True)

    def __init__(
        self,
        traces: TraceSet | Trace | Selection | Any,
        *,
        tracks: str | Sequence[str] | None = None,
        height: int = 480,
        color: str = "kind",
        folded: bool | None = None,
        _engine: TileEngine | None = None,
        _state: State | None = None,
    ) -> None:
        self._esm = asset("timeline.js").read_text("utf-8")
        self._css = asset("timeline.css").read_text("utf-8")
        drawn = as_traces(traces)
        engine = _engine or TileEngine(drawn)
        super().__init__(
            drawn,
            engine=engine,
            state=_state,
            color=color,
            height=height,
            folded=len(drawn) > MOST_UNFOLDED if folded is None else folded,
            _scene=_only_tracks(engine.scene(), tracks),
        )

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

    def to_svg(
        self,
        path: str | os.PathLike[str],
        *,
        width: float = 1200,
        view: tuple[Time, Time] | None = None,
        theme: str = "light",
    ) -> str:
        """Write what is shown as a vector picture: all rows, with a legend and a scale bar.

        The picture is drawn in Python, from the events themselves, so it needs no browser. Ranks
        are folded as in this timeline; ranks that were opened in a page are not known here: the
        page's own export draws those too.

        Parameters
        ----------
        path : path-like
            The file to write.
        width : float, default 1200
            Of the picture, in px; from 900 on it has totals per rank, below 760 no names of lanes.
        view : tuple of int, optional
            The window since the origin, in ns or as in ``"12.3ms"``. Default: the one shown.
        theme : {"light", "dark"}
            Its colours.

        Returns
        -------
        str
            The path that was written.

        Raises
        ------
        TraceError
            If the picture is too narrow, the window has no length, there is no such theme, or the
            file cannot be written.

        Examples
        --------
        >>> timeline.to_svg("window.svg", view=(12_000_000, 18_000_000))  # doctest: +SKIP
        """
        return write_svg(self, path, width=width, window=view, theme=theme)


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

"""Answers what a dashboard asks: the one object between a `TraceSet` and its panels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis, taxonomy
from hta_widgets.analysis.rank_time_heatmap import HEATMAP_METRICS
from hta_widgets.model import Selection, TraceSet
from hta_widgets.model.keeping import keep_for_pages

from .catalog import PANELS, panel_of, without_own
from .format_panels import analysis_of
from .frames import CLOCK, MAKERS
from .headline import headline
from .reply import as_json

__all__ = ["PanelEngine"]

Request = Mapping[str, Any]
Answer = tuple[dict[str, Any], bytes | None]

MOST_BINS = 4096
MOST_FRAMES = 100


class PanelEngine:
    """The frames of a dashboard's panels, for any selection.

    Parameters
    ----------
    traces : TraceSet

    Examples
    --------
    >>> engine = PanelEngine(traces)  # doctest: +SKIP
    >>> engine.frame("breakdown", traces.select(start_ns=0, end_ns=5_000_000))  # doctest: +SKIP
    """

    def __init__(self, traces: TraceSet) -> None:
        # Pages are answered at once, whatever a cluster is busy with.
        self.traces = traces.on(None)
        keep_for_pages()
        self._kept: OrderedDict[Hashable, pd.DataFrame] = OrderedDict()

    def frame(
        self, panel: str, selection: Selection | None = None, *, top: int | None = None
    ) -> pd.DataFrame:
        """Return what a panel shows.

        Parameters
        ----------
        panel : str
            A panel's id.
        selection : Selection, optional
            The whole one; the panel's own dimension is dropped here.
        top : int, optional
            How many rows tables have at most.
        """
        return self._frame(panel, selection, top).copy()

    def analysis(self, name: str, selection: Selection | None = None) -> pd.DataFrame:
        """Return the frame of the analysis behind a panel, in full.

        Parameters
        ----------
        name : str
            A panel's id, or the name of its analysis.
        selection : Selection, optional
            As in `frame`.
        """
        panel = panel_of(name)
        if not panel.analysis:
            return self.frame(panel.id, selection)
        by_format = analysis_of(self.traces, panel, self._of(panel.id, selection))
        if by_format is not None:
            return by_format
        function = getattr(analysis, panel.analysis)
        found: pd.DataFrame = function(self.traces, selection=self._of(panel.id, selection))
        return found

    def headline(self) -> dict[str, Any]:
        """Return what matters most in the whole job, as the page takes it."""
        return headline(self.traces).to_json()

    def answer(self, request: Request) -> Answer:
        """Answer ``panels`` or ``heatmap``, as docs/protocol.md describes them.

        Returns
        -------
        reply : dict
            JSON values.
        buffer : bytes or None
        """
        op = request.get("op")
        if op == "panels":
            return self._panels(request), None
        if op == "heatmap":
            return self._heatmap(request)
        raise ValueError(f"unknown op {op!r}; the ops are panels, heatmap")

    def _frame(self, panel: str, selection: Selection | None, top: int | None) -> pd.DataFrame:
        """Return what a panel shows; nobody may change it.

        Most brushes leave some panels as they were: those that write what was brushed.
        """
        if panel not in PANELS:
            raise ValueError(f"there is no panel {panel!r}; the panels are {', '.join(PANELS)}")
        chosen = self._of(panel, selection)
        key = (panel, top, taxonomy.version(), chosen)
        if key not in self._kept:
            self._kept[key] = MAKERS[panel](self.traces, chosen, top)
            while len(self._kept) > MOST_FRAMES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _of(self, panel: str, selection: Selection | None) -> Selection:
        return without_own(PANELS[panel], Selection() if selection is None else selection)

    def _panels(self, request: Request) -> dict[str, Any]:
        selection = Selection.from_json(request.get("selection"))
        top = request.get("top")
        return {
            "panels": {
                str(panel): as_json(
                    self._frame(str(panel), selection, None if top is None else int(top))
                )
                for panel in request["panels"]
            }
        }

    def _heatmap(self, request: Request) -> Answer:
        metric = str(request["metric"])
        start, end, bins = (int(request[key]) for key in ("start", "end", "bins"))
        if metric not in HEATMAP_METRICS:
            raise ValueError(f"no metric {metric!r}; they are {', '.join(HEATMAP_METRICS)}")
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        if not 1 <= bins <= MOST_BINS:
            raise ValueError(f"bins must be within 1 … {MOST_BINS}, not {bins}")
        selection = self._of("heatmap", Selection.from_json(request.get("selection")))
        frame = analysis.rank_time_heatmap(
            self.traces,
            metric=metric,
            bins=bins,
            clock=CLOCK,
            selection=selection,
            window=(start, end),
        )
        values = np.ascontiguousarray(frame["value_ns"].to_numpy(np.float64)).astype("<f8")
        attrs = {key: frame.attrs[key] for key in ("matched", "note") if key in frame.attrs}
        reply = {
            "ranks": frame["rank"].to_numpy()[::bins].tolist(),
            "start": start,
            "end": end,
            "bins": bins,
            "exact": True,
            "attrs": attrs,
        }
        return reply, values.tobytes()

"""Answers what a dashboard asks: the one object between a `TraceSet` and its panels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from hta_widgets import analysis, taxonomy
from hta_widgets.analysis.rank_time_heatmap import HEATMAP_METRICS
from hta_widgets.model import Selection, TraceSet
from hta_widgets.model.keeping import keep_for_pages
from hta_widgets.model.turns import in_turns
from hta_widgets.tiles.matched import matched
from hta_widgets.tiles.patience import PENDING, Deadline, Gradual, Recent

from .catalog import PANELS, panel_of, without_own
from .format_panels import analysis_of
from .frames import CLOCK, MAKERS
from .headline import Headline, headline
from .reply import as_json

__all__ = ["PanelEngine"]

Request = Mapping[str, Any]
Answer = tuple[dict[str, Any], bytes | None]
T = TypeVar("T")

MOST_BINS = 4096
MOST_FRAMES = 100
#: Panels whose charts draw a dot a rank.
_MARKED = ("kernel_durations", "steps")


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
        self._told: Headline | None = None
        #: What is being made for pages.
        self._under_way: Recent[Any] = Recent()

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

        Returns
        -------
        DataFrame
            With ``.attrs["late_ranks"]`` and ``.attrs["fact_ranks"]`` if the panel's chart marks
            ranks: those that the headline says the others wait for, and those it states as a fact.
        """
        found = self._frame(panel, selection, top).copy()
        if panel in _MARKED:
            named = self._headline()
            found.attrs |= {"late_ranks": named.late_ranks, "fact_ranks": named.fact_ranks}
        return found

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
        return self._headline().to_json()

    def _headline(self) -> Headline:
        if self._told is None:
            self._told = headline(self.traces)
        return self._told

    def headline_by(self, deadline: Deadline) -> dict[str, Any] | None:
        """Go on with the headline until the deadline; None where there is more to do by then."""
        return self._made_by(deadline, "headline", self.headline)

    def answer(self, request: Request) -> Answer:
        """Answer ``panels`` or ``heatmap``, as docs/protocol.md describes them.

        With ``within_ms`` a page gets what is there by then, and asks again for the rest.

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

    def has_frame(self, panel: str, selection: Selection | None, deadline: Deadline) -> bool:
        """Go on with what a panel shows until the deadline; say whether `frame` has it at once."""
        return self._frame_by(deadline, panel, selection, None) is not None

    def _frame(self, panel: str, selection: Selection | None, top: int | None) -> pd.DataFrame:
        """Return what a panel shows; nobody may change it.

        Most brushes leave some panels as they were: those that write what was brushed.
        """
        key, make = self._work(panel, selection, top)
        return self._kept[key] if key in self._kept else self._keep(key, make())

    def _frame_by(
        self, deadline: Deadline, panel: str, selection: Selection | None, top: int | None
    ) -> pd.DataFrame | None:
        """Return the same, or None where there is more to do by then."""
        key, make = self._work(panel, selection, top)
        found = self._kept[key] if key in self._kept else self._made_by(deadline, key, make)
        return None if found is None else self._keep(key, found)

    def _work(
        self, panel: str, selection: Selection | None, top: int | None
    ) -> tuple[Hashable, Callable[[], pd.DataFrame]]:
        if panel not in PANELS:
            raise ValueError(f"there is no panel {panel!r}; the panels are {', '.join(PANELS)}")
        chosen = self._of(panel, selection)
        key = (panel, top, taxonomy.version(), chosen)
        return key, lambda: MAKERS[panel](self.traces, chosen, top)

    def _keep(self, key: Hashable, frame: pd.DataFrame) -> pd.DataFrame:
        self._kept[key] = frame
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_FRAMES:
            self._kept.popitem(last=False)
        return frame

    # --- what takes long --------------------------------------------------------------------------

    def _made_by(self, deadline: Deadline, key: Hashable, make: Callable[[], T]) -> T | None:
        """Return what is made, or None where there is more to do by then."""
        work: Gradual[T] = self._under_way.get(key, lambda: self._steps(make))
        return work.value if work.by(deadline) else None

    def _steps(self, make: Callable[[], T]) -> Generator[None, None, T]:
        # Most of it is about waits as well; timeline and panels wait for the same work.
        yield from matched(self.traces).steps()
        return (yield from in_turns(make))

    def stop(self) -> None:
        """End what is unfinished, as where the page is closed; who asks again begins anew."""
        self._under_way.stop()

    def _of(self, panel: str, selection: Selection | None) -> Selection:
        return without_own(PANELS[panel], Selection() if selection is None else selection)

    def _panels(self, request: Request) -> dict[str, Any]:
        selection = Selection.from_json(request.get("selection"))
        top = None if request.get("top") is None else int(request["top"])
        asked = [str(panel) for panel in request["panels"]]
        if request.get("within_ms") is None:
            return {"panels": {one: as_json(self._frame(one, selection, top)) for one in asked}}
        deadline = Deadline.of(request)
        found: dict[str, Any] = {}
        for at, panel in enumerate(asked):
            if at and deadline.has_passed:
                return {"panels": found, "left": asked[at:]}
            frame = self._frame_by(deadline, panel, selection, top)
            if frame is None:
                return {"panels": found, "left": asked[at:]}
            found[panel] = as_json(frame)
        return {"panels": found}

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

        def binned() -> pd.DataFrame:
            return analysis.rank_time_heatmap(
                self.traces,
                metric=metric,
                bins=bins,
                clock=CLOCK,
                selection=selection,
                window=(start, end),
            )

        if request.get("within_ms") is None:
            frame: pd.DataFrame | None = binned()
        else:
            key = ("heatmap", taxonomy.version(), metric, start, end, bins, selection)
            frame = self._made_by(Deadline.of(request), key, binned)
        if frame is None:
            return dict(PENDING), None
        values = np.ascontiguousarray(frame["value_ns"].to_numpy(np.float64)).astype("<f8")
        kept = ("matched", "note", "span_ns")
        attrs = {key: frame.attrs[key] for key in kept if key in frame.attrs}
        reply = {
            "ranks": frame["rank"].to_numpy()[::bins].tolist(),
            "start": start,
            "end": end,
            "bins": bins,
            "exact": True,
            "attrs": attrs,
        }
        return reply, values.tobytes()

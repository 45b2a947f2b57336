"""The dashboard of a job: linked panels, a headline and the timeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd
import traitlets as t

from hta_widgets import charts
from hta_widgets.analysis.clusters import HEATMAP_METRICS
from hta_widgets.arguments import check_arguments
from hta_widgets.charts.defined import draw_definition, fill_device_word, rows_content
from hta_widgets.charts.definition import rows_definition
from hta_widgets.charts.figure import FigureStyle
from hta_widgets.charts.theme import LIGHT
from hta_widgets.errors import TraceError, UnknownNameError
from hta_widgets.export.pages.format import read_asset
from hta_widgets.export.pages.page import OfflineData, embed
from hta_widgets.export.pictures.bars import bars_svg
from hta_widgets.export.pictures.drawing import side_width, stacked_svg
from hta_widgets.export.pictures.picture import Fallback
from hta_widgets.files import table_bytes, write_table
from hta_widgets.live import operations
from hta_widgets.live.background import NotReadyError, deadline_after
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.live.operations import Answer
from hta_widgets.panels.added import (
    WHOLE_JOB_FRAMES,
    is_kept_in_pages,
    whole_job_frame,
    without_data,
)
from hta_widgets.panels.frames import (
    ADDED,
    base_tables,
    chart_panels,
    empty_panels,
    offered_panels,
    panel_of,
    panels as known_panels,
    resolve_panels,
    small_frame_to_json,
)
from hta_widgets.panels.groupings import GROUPED_FRAMES
from hta_widgets.panels.headline import HeadlineFinding, text_of
from hta_widgets.readers.formats import all_formats
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet
from hta_widgets.widgets.timeline import Timeline
from hta_widgets.widgets.view import (
    MAX_UNFOLDED,
    Clock,
    Color,
    Height,
    LinkedView,
    page_target,
    traces_to_draw,
)

#: Traits that are written unchanged to saved pages.
_SAVED = ("height", "folded", "panels", "metric", "_headline", "_about", "_tables")
#: Charts shown in notebook outputs without a kernel, and their width in px.
_DRAWN_PANELS, _DRAWN_WIDTH = ("breakdown", "overlap"), side_width(900)
#: Maximum time in ms that a notebook output waits for the headline.
_HEADLINE_MS = 2000

T = TypeVar("T")


class SelectionCache(Mapping[str, T], Generic[T]):
    """Values by name, computed on access and kept until `clear`. `canonical` resolves aliases."""

    def __init__(
        self, names: tuple[str, ...], make: Callable[[str], T], canonical: Callable[[str], str]
    ) -> None:
        self._names, self._make, self._canonical = names, make, canonical
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        key = self._canonical(name)
        if key not in self._values:
            self._values[key] = self._make(key)
        return self._values[key]

    def __contains__(self, name: object) -> bool:
        try:
            self._canonical(str(name))
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<values of the current selection: {', '.join(self._names)}>"

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()


class Dashboard(LinkedView):
    """Show how a job spends its time, by rank and over time, in linked panels.

    The dashboard has a headline, charts, a rank × time heatmap, tables and the timeline of one job.
    Selecting something in one panel filters the others: click a bar, a cell or a row, or drag over
    a time range. Ctrl+click adds to the selection; clicking the selection itself or empty space
    clears it. A chart highlights its own selection instead of being filtered by it. Press
    ``Ctrl+Z`` to undo.

    Parameters
    ----------
    traces : TraceSet, Trace, Selection, or what hta_widgets.load takes
        What to show. A `Selection` restricts ranks and time.
    panels : list of str, or list of lists of str, optional
        The panels to show: ``timeline, heatmap, breakdown, overlap, steps, kernels,
        kernel_durations, kernel_types, idle, queue, operators, selection, problems``. A flat list
        is arranged to fit the width; in a list of lists, each inner list is a row. Default: all
        panels with data; a line below them lists the rest. Users can hide and show panels.
    height : int, optional
        Maximum height of the timeline in CSS px. Default: depends on the number of ranks.
    color : {"kind", "name", "bound"}, default "kind"
        As in `Timeline`.
    folded : bool, optional
        As in `Timeline`.
    clock : {"auto", "recorded", "fitted"} or None, default "auto"
        As in `Timeline`.

    Attributes
    ----------
    selection : Selection
        The selection, by default everything. Assign to it, or call `select`. Clicking an event does
        not filter the panels; the event is only in `selected_events`.
    scope : {"selection", "view", "job"}
        The data that figures cover: the selection (the whole job if nothing is selected), the
        events in the window of the timeline, or the whole job.
    view : tuple of int
        Time window of the timeline, in ns since ``TraceSet.origin_ns``.
    panels : list
        The panels shown, in the form of the parameter `panels`.
    metric : str
        The metric shown in the heatmap.
    frames : mapping of str to DataFrame
        ``frames["kernel_breakdown"]`` is the result of that analysis for the current selection,
        ignoring what was selected in its own panel. Panel ids can also be used. Frames are computed
        on access and cached until the selection changes.
    charts : mapping of str to bokeh.plotting.figure
        Bokeh charts of the current selection, keyed by panel. Each chart works on its own.
    headline : str
        The most important facts about the whole job, as sentences.
    findings : list of HeadlineFinding
        The causes of lost time, most important first. Each has a `kind`, a `share` of the run, a
        `text`, and a `selection` that shows it.
    selected_event, search, color, pinned, folded, clock
        As in `Timeline`.

    Raises
    ------
    TraceError
        If a name in `panels` or `metric` is unknown.

    Examples
    --------
    >>> dash = hw.Dashboard(hw.load("runs/llama-8b/"))  # doctest: +SKIP
    >>> dash.select("name.str.contains('nccl') and dur_ns > 1_000_000")  # doctest: +SKIP
    >>> dash.frames["kernel_breakdown"]  # doctest: +SKIP
    >>> print(dash.headline, *(finding.text for finding in dash.findings))  # doctest: +SKIP
    >>> dash.observe(lambda change: print(change.new), names="selection")  # doctest: +SKIP
    """

    height = t.Int(None, min=120, allow_none=True).tag(sync=True)
    folded = t.Bool(False).tag(sync=True)
    panels: t.List[Any] = t.List().tag(sync=True)
    metric = t.Unicode("").tag(sync=True)
    _about = t.Dict().tag(sync=True)
    _tables = t.Dict().tag(sync=True)
    _headline = t.Dict(allow_none=True, default_value=None).tag(sync=True)

    @check_arguments
    def __init__(
        self,
        traces: TraceSet | Trace | Selection | Any,
        *,
        panels: Sequence[str | Sequence[str]] | None = None,
        height: Height | None = None,
        color: Color = "kind",
        folded: bool | None = None,
        clock: Clock | None = "auto",
    ) -> None:
        self._esm, self._css = read_asset("dashboard.js"), read_asset("widgets.css")
        drawn = traces_to_draw(traces, "Dashboard", clock)
        workers = {
            (trace.job, trace.worker) for trace in drawn.values() if trace.format == "byteps"
        }
        offered = offered_panels(drawn.formats, workers=len(workers))
        engine = TileEngine(drawn)
        scene = engine.scene()
        left_out = _panels_without_data(drawn, scene, offered)
        without = set(chain.from_iterable(left_out.values()))
        self._filled = [name for name in offered if name not in without]
        self.panel_engine = PanelEngine(drawn)
        self._create_caches(offered)
        labels = {format_.name: format_.label for format_ in all_formats()}
        super().__init__(
            drawn,
            engine=engine,
            color=color,
            height=height,
            folded=len(drawn) > MAX_UNFOLDED if folded is None else folded,
            panels=resolve_panels(panels, self._filled),
            _about={
                "format": ", ".join(labels.get(name, name) for name in drawn.formats),
                "panels": [name for name in offered if name not in without or name not in ADDED],
                "left_out": left_out,
            },
            _tables=base_tables(drawn),
            _scene=scene,
        )
        self.observe(self._clear_frames, names=["selection", "scope", "view"])

    def _create_caches(self, offered: Collection[str]) -> None:
        names = tuple(name for name in known_panels() if name in {*offered, "summary"})
        self.frames = SelectionCache(names, self._analysis, self._panel_id)
        self._panel_frames = SelectionCache(names, self._panel_frame, self._panel_id)
        chart_names = tuple(name for name in chart_panels() if name in offered)
        self.charts = SelectionCache(chart_names, self._chart, self._chart_id)

    def _redraw(self) -> None:
        self.panel_engine.stop()
        self.panel_engine = PanelEngine(self.traces)
        self._clear_frames({"name": "clock"})
        self.__dict__.pop("_offline", None)
        # Findings in the headline select time windows, which depend on the clock.
        self.set_trait("_headline", None)
        self._tables = base_tables(self.traces)
        super()._redraw()

    @cached_property
    def timeline(self) -> Timeline:
        """The timeline as a separate view that is linked to this dashboard."""
        return Timeline(
            self.traces, color=self.color, clock=None, _engine=self.engine, _state=self.state
        )

    @check_arguments
    def panel_frame(self, panel: str) -> pd.DataFrame:
        """Return the data that a panel shows for the current selection.

        Parameters
        ----------
        panel : str
            Id of a panel, such as ``"breakdown"``, or ``"summary"`` for the number of selected
            events.
        """
        return self._panel_frames[panel]

    @check_arguments
    def export_table(self, name: str, path: str | os.PathLike[str]) -> str:
        """Write a frame from `frames` to a file.

        Parameters
        ----------
        name : str
            Id of a panel, or name of the analysis that it shows.
        path : path-like
            A path that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            If the suffix is unknown or the file cannot be written.
        """
        return write_table(self.frames[name], path)

    @property
    def headline(self) -> str:
        """The most important facts about the whole job, as sentences."""
        return str(self.panel_engine.job_headline)

    @property
    def findings(self) -> list[HeadlineFinding]:
        """The causes of lost time, most important first."""
        return self.panel_engine.job_headline.findings

    def _dashboard_part(self) -> dict[str, Any]:
        if self._headline is None:
            self._headline = self.panel_engine.headline()
        saved = {name: getattr(self, name) for name in _SAVED}
        shown = [name for row in self.panels for name in ([row] if isinstance(row, str) else row)]
        offered = {*self._filled, *shown, *GROUPED_FRAMES}
        frames: dict[str, Any] = {name: None for name in WHOLE_JOB_FRAMES if name in offered}
        for name in frames:
            if is_kept_in_pages(name, self.traces, shown):
                frames[name] = small_frame_to_json(whole_job_frame(self.traces, name))
        return {**saved, "_tables": {**self._tables, **frames}}

    def _fallback(self) -> Fallback:
        view = super()._fallback()
        late_ranks: list[int] = []
        sentences: list[str] = []
        headline = self.panel_engine.headline_until(deadline_after(_HEADLINE_MS))
        if headline is not None:
            late_ranks = headline["late_ranks"]
            parts = [headline["headline"], *headline["more"]]
            sentences = [text for text in map(text_of, parts) if text]
        names = [name for name in _DRAWN_PANELS if name in self._filled] if view.pictures else []
        drawn = [svg for name in names if (svg := self._chart_svg(name, late_ranks))]
        pictures = [stacked_svg(drawn, side_by_side=True)] if drawn else []
        return replace(view, sentences=sentences, pictures=[*pictures, *view.pictures])

    def _chart_svg(self, panel: str, late_ranks: Sequence[int]) -> str:
        frame = self.panel_frame(panel).copy(deep=False)
        title = fill_device_word(rows_definition(panel).title, frame)
        style = FigureStyle(title, LIGHT, None)
        frame.attrs = {**frame.attrs, "late_ranks": late_ranks}
        if self.folded:
            groups = self.engine.answer({"op": "clusters"})[0]["clusters"]
            frame.attrs["folded"] = [group["ranks"] for group in groups]
        content, style, _ = rows_content(panel, frame, style)
        return "" if content is None else bars_svg(content, style, _DRAWN_WIDTH, late_ranks)

    @property
    def _shown_selection(self) -> Selection:
        if self.scope == "selection":
            return self.selection
        if self.scope == "job":
            return self.traces.select()
        return self.traces.select(start_ns=self.view[0], end_ns=self.view[1])

    def _clear_frames(self, change: Mapping[str, Any]) -> None:
        if change["name"] == "view" and self.scope != "view":
            return
        for cache in (self.frames, self.charts, self._panel_frames):
            cache.clear()

    def _analysis(self, panel: str) -> pd.DataFrame:
        return self.panel_engine.analysis(panel, self._shown_selection)

    def _panel_frame(self, panel: str) -> pd.DataFrame:
        return self.panel_engine.frame(panel, self._shown_selection)

    def _chart(self, panel: str) -> Any:
        if panel in ADDED:
            return draw_definition(panel, self._panel_frames[panel])
        return getattr(charts, panel_of(panel).analysis)(self.frames[panel])

    def _panel_id(self, name: str) -> str:
        try:
            return panel_of(name).id
        except ValueError:
            raise _unknown_name_error("panel", name, self.frames) from None

    def _chart_id(self, name: str) -> str:
        panel = self._panel_id(name)
        if panel not in chart_panels():
            raise _unknown_name_error("chart", name, self.charts)
        return panel

    @t.validate("panels")
    def _validate_panels(self, proposal: Mapping[str, Any]) -> Any:
        return resolve_panels(proposal["value"], self._filled)

    @t.validate("metric")
    def _validate_metric(self, proposal: Mapping[str, Any]) -> Any:
        metric = proposal["value"]
        if metric and metric not in HEATMAP_METRICS:
            raise TraceError(
                f"the heatmap has no metric {metric!r}",
                remedy=f"The metrics are {', '.join(HEATMAP_METRICS)}.",
            )
        return metric

    def _answerers(self) -> Sequence[object]:
        return self, self.panel_engine, self.engine

    def _on_offline(self, request: operations.OfflineRequest) -> Answer:
        return self._offline.chunk(request.chunk)

    def _on_headline(self, request: operations.HeadlineRequest) -> Answer:
        if self._headline is None:
            self._headline = self.panel_engine.headline_until(request.deadline)
        if self._headline is None:
            raise NotReadyError
        return {}, None

    def _on_export_table(self, request: operations.ExportTableRequest) -> Answer:
        path = page_target(request.path, overwrite=request.overwrite)
        return {"path": self.export_table(request.name, path)}, None

    def _on_table(self, request: operations.TableRequest) -> Answer:
        panel = self._panel_id(request.panel)
        self.panel_engine.wait_for_frame(panel, self._shown_selection, request.deadline)
        return {}, table_bytes(self._panel_frames[panel], request.format)

    def _on_save_html(self, request: operations.SaveHtmlRequest) -> Answer:
        target = page_target(request.path, overwrite=request.overwrite)
        path = self.save_html(target, max_mb=request.max_mb)
        return {"path": path, "bytes": Path(path).stat().st_size}, None

    @cached_property
    def _offline(self) -> OfflineData:
        return OfflineData(partial(embed, self.engine, self._scene, self.state.snapshot()))

    def _stop(self) -> None:
        super()._stop()
        if hasattr(self, "panel_engine"):
            self.panel_engine.stop()


def _panels_without_data(
    traces: TraceSet, scene: Mapping[str, Any], offered: Collection[str]
) -> dict[str, list[str]]:
    panels = empty_panels(traces.formats, scene)
    if ADDED[0] in offered:
        for reason, added in without_data(traces, scene).items():
            panels[reason] = [*panels.get(reason, ()), *added]
    return panels


def _unknown_name_error(noun: str, name: str, names: Iterable[str]) -> UnknownNameError:
    remedy = f"The {noun}s of this job are {', '.join(names)}."
    return UnknownNameError(f"no {noun} {name!r}", remedy=remedy)

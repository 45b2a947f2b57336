"""The view of two runs: both timelines, tables, findings and a joint history."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import anywidget
import pandas as pd
import traitlets as t

from hta_widgets import diff
from hta_widgets.analysis.operator_diff import DiffSource
from hta_widgets.arguments import check_arguments
from hta_widgets.charts.theme import ThemeName
from hta_widgets.diff.align import Base
from hta_widgets.diff.compare import Comparison, Pairing
from hta_widgets.diff.records import Finding
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.tables import table_functions
from hta_widgets.errors import TraceError, UnknownNameError
from hta_widgets.export.pages.diff_page import comparison_content, save_diff
from hta_widgets.export.pages.format import read_asset
from hta_widgets.export.pages.page import OfflineData
from hta_widgets.export.pictures.drawing import class_events, stacked_svg
from hta_widgets.export.pictures.picture import Fallback, timeline_fallback, timeline_svg
from hta_widgets.export.traces.files import ExportReport, export_pair
from hta_widgets.files import write_text
from hta_widgets.live import operations
from hta_widgets.live.comparison import DiffAnswers, compute_frames_ahead
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer, answer, serve
from hta_widgets.text import Time
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet
from hta_widgets.widgets.dashboard import SelectionCache
from hta_widgets.widgets.pair_history import PairHistory
from hta_widgets.widgets.timeline import Timeline
from hta_widgets.widgets.view import (
    Clock,
    Height,
    LinkedView,
    load_if_needed,
    page_target,
    rebind_selection,
    validate_window,
    with_same_clock,
)

SideName = Literal["before", "after"]
SIDES: tuple[SideName, SideName] = ("before", "after")


class SideTimeline(Timeline):
    """The timeline of one run. It opens a comm only when it is displayed separately.

    The page of a comparison draws both runs and needs only the state of each timeline.
    """

    def open(self) -> None:
        """Do nothing. The comm is opened by `model_id`."""

    @property
    def model_id(self) -> str:
        """The id of the model. The first access opens the model."""
        super().open()
        model_id: str = super().model_id
        return model_id


def whole_selections(before: Any, after: Any, clock: Clock | None) -> list[Selection]:
    """Return both sides as selections, with their trace sets on the same kind of clock."""
    sides = [_as_selection(load_if_needed(side, "TraceDiff")) for side in (before, after)]
    owners = with_same_clock(clock, *(side.owner for side in sides))
    return [rebind_selection(side, owner) for side, owner in zip(sides, owners, strict=True)]


def _as_selection(source: DiffSource) -> Selection:
    if isinstance(source, Selection):
        return source.owner.select(source)
    traces = TraceSet([source], like=TraceSet([])) if isinstance(source, Trace) else source
    return traces.select()


def swap_sides(comparison: Comparison, sources: Sequence[Selection]) -> Comparison:
    """Return the comparison with its sides swapped."""
    before, after = comparison.sides
    steps = None
    if before.has_steps:
        steps = dict(zip(after.steps.tolist(), before.steps.tolist(), strict=True))
    ranks = {after_rank: before_rank for before_rank, after_rank in comparison.rank_pairs}
    return diff.compare(
        sources[1],
        sources[0],
        ranks="auto" if comparison.by_rank_means else ranks,
        steps=steps or "auto",
        labels=(after.label, before.label),
    )


def first_window(
    side: RunSide, source: Selection, range_ns: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the initial window of a side: its steps, or None to show everything.

    Steps are shown if the source has a window, or if they take less than half of the range.
    """
    starts, ends = side.envelope()
    start_ns = int(starts.min())
    end_ns = max(int(ends.max()), start_ns + 1)
    has_window = source.start_ns is not None or source.end_ns is not None
    is_small = 2 * (end_ns - start_ns) < range_ns[1] - range_ns[0]
    return (start_ns, end_ns) if has_window or is_small else None


def aligned_window(
    comparison: Comparison, base: Any, lead: int, window: tuple[int, int]
) -> tuple[int, int]:
    """Return the window on the other side that corresponds to a window on the side `lead`."""
    alignment = diff.align(comparison, base)
    maps = alignment.before, alignment.after
    middle = (window[0] + window[1]) // 2
    offset_ns = int(maps[1 - lead].to_own(maps[lead].to_common([middle]))[0]) - middle
    return window[0] + offset_ns, window[1] + offset_ns


#: Frames that are available for any two runs with events.
_FRAME_NAMES = ("waterfall", "waterfall_cause", "waterfall_operator", "waterfall_kernel", "steps",
           "changes", "names", "operators", "pairs", "icicle", "slots")  # fmt: skip
#: Traits that are written unchanged to saved pages.
_SAVED = ("align", "swapped", "coupled", "height", "color", "pair", "_about")


class TraceDiff(anywidget.AnyWidget):
    """Show the differences between two runs on a common time axis, call by call.

    The view consists of a headline, the aligned steps of both runs, the causes of the difference,
    names that changed, the operator tree of both runs, and the timelines, with each rank of the
    second run below the same rank of the first. If a call is selected on one side, its partner is
    shown on the other.

    Parameters
    ----------
    before, after : TraceSet, Trace, Selection, or what hta_widgets.load takes
        Two jobs, or two selections of ranks, steps or windows in the same job.
    ranks : {"auto", "number", "representative"} or mapping, optional
        How to pair ranks. See `hta_widgets.diff.compare`.
    steps : {"auto", "number", "order"} or mapping, optional
        How to pair steps. See `hta_widgets.diff.compare`.
    labels : (str, str), optional
        Names of the sides.
    align : {"steps", "first_step", "collectives", "absolute", "scaled"}, default "steps"
        How to place the runs on a common time axis. See `hta_widgets.diff.align`.
    height : int, default 820
        Maximum total height of the two timelines in CSS px.
    color : {"change", "kind", "name"}, default "change"
        Color events by how they changed, or as in a `Timeline`.
    clock : {"auto", "recorded", "fitted"} or None, default "auto"
        The clock of both sides, as in `Timeline`. With ``"auto"``, both sides use the fitted clock
        if it is clearly better for either of them.

    Attributes
    ----------
    left, right : Timeline
        The timelines of the two runs. They are not coupled if displayed separately.
    table : DataFrame
        Count and time of each name in both runs; the result of `hta_widgets.diff.names`.
    frames : mapping of str to DataFrame
        Tables by name: ``waterfall, waterfall_cause, waterfall_operator, waterfall_kernel, steps,
        changes, names, operators, pairs, icicle, slots``, and any tables of the traces' formats.
        Computed on access.
    findings : list of Finding
        The changes as sentences.
    selection : (Selection, Selection)
        The selections on both sides.
    pair : int or None
        Index in ``comparison.rank_pairs`` of the pair of ranks shown; None for all pairs.
    align, coupled, swapped, color
        The settings of the page. Assign to change them. Swapping sides only affects the page.

    Raises
    ------
    TraceError
        If a side has no ranks, or if a rank or step does not exist.

    Examples
    --------
    >>> view = hw.TraceDiff(hw.load("runs/a"), hw.load("runs/b"))  # doctest: +SKIP
    >>> view.table.head()  # doctest: +SKIP
    >>> hw.TraceDiff(traces.select(ranks=[0]), traces.select(ranks=[5]))  # doctest: +SKIP
    """

    left_state = anywidget.WidgetTrait().tag(sync=True)
    right_state = anywidget.WidgetTrait().tag(sync=True)
    align = t.Enum(diff.BASES, default_value="steps").tag(sync=True)
    coupled = t.Bool(True).tag(sync=True)
    swapped = t.Bool(False).tag(sync=True)
    height = t.Int(820, min=120).tag(sync=True)
    color = t.Enum(("change", "kind", "name"), default_value="change").tag(sync=True)
    pair = t.Int(None, allow_none=True).tag(sync=True)
    _about = t.Dict().tag(sync=True)
    _scenes: t.List[Any] = t.List().tag(sync=True)

    @check_arguments
    def __init__(
        self,
        before: DiffSource | Any,
        after: DiffSource | Any,
        *,
        ranks: Pairing | None = None,
        steps: Any = "auto",
        labels: tuple[str, str] | None = None,
        align: Base = "steps",
        height: Height = 820,
        color: Literal["change", "kind", "name"] = "change",
        clock: Clock | None = "auto",
    ) -> None:
        self._esm, self._css = read_asset("diff.js"), read_asset("widgets.css")
        self.sources = whole_selections(before, after, clock)
        self.comparison: Comparison = diff.compare(
            *self.sources, ranks=ranks or "auto", steps=steps, labels=labels
        )
        self._answers = DiffAnswers(
            self.comparison, partial(swap_sides, self.comparison, self.sources)
        )
        self.left, self.right = (
            SideTimeline(
                side.traces.subset(ranks=side.ranks),
                height=max(height // 2, 120),
                folded=len(side.ranks) > 8,
                clock=None,
            )
            for side in self.comparison.sides
        )
        self.frames: SelectionCache[pd.DataFrame] = SelectionCache(
            (*_FRAME_NAMES, *self._answers.tables), self._frame, self._check_frame_name
        )
        super().__init__(
            left_state=self.left.state,
            right_state=self.right.state,
            align=align,
            height=height,
            color=color,
            _about=self._answers.about(),
            _scenes=[self.left.scene, self.right.scene],
        )
        self._connect_timelines()
        serve(self, self.answer)

    def _connect_timelines(self) -> None:
        for number, timeline in enumerate(self.sides):
            window = first_window(
                self.comparison.sides[number], self.sources[number], timeline.whole
            )
            if window is not None:
                timeline.state.view = window
            # A run may be part of several comparisons with different classes of change.
            timeline.engine.classes_of = partial(self._answers.classes_of, number)
        self._history = PairHistory(self.sides)

    @property
    def sides(self) -> tuple[Timeline, Timeline]:
        """The timelines of the runs before and after."""
        return self.left, self.right

    @property
    def table(self) -> pd.DataFrame:
        """Count and time of each name (`hta_widgets.diff.names`), or the table of the format."""
        if self._answers.has_events:
            return self.frames["names"]
        tables = self._answers.tables
        return self.frames["mpi_routines" if "mpi_routines" in tables else tables[0]]

    @cached_property
    def findings(self) -> list[Finding]:
        """The changes as sentences, most important first; empty if nothing changed."""
        return diff.findings(self.comparison)

    def _check_frame_name(self, name: str) -> str:
        names = (*_FRAME_NAMES, *self._answers.tables)
        if name not in names:
            remedy = f"The frames are {', '.join(names)}."
            raise UnknownNameError(f"no frame {name!r}", remedy=remedy)
        return name

    def _frame(self, name: str) -> pd.DataFrame:
        comparison = self.comparison
        if name in self._answers.tables:
            return table_functions(comparison)[name](comparison)
        match name.partition("_"):
            case "waterfall", _, level:
                kind: Any = level or "kind"
                return diff.waterfall(comparison, kind)
            case "slots", _, _:
                return diff.align(comparison, self.align).slots
            case "operators", _, _:
                return diff.operators_diff(comparison)
            case _:
                frame: pd.DataFrame = getattr(diff, name)(comparison)
                return frame

    @property
    def selection(self) -> tuple[Selection, Selection]:
        """The selections on both sides, before and after."""
        return self.left.selection, self.right.selection

    @check_arguments
    def select(self, what: str | tuple[Any, Any] | None) -> tuple[Selection, Selection]:
        """Select events on both sides.

        Parameters
        ----------
        what : str, pair or None
            A pandas query over the event columns for both sides, a pair of arguments for
            `Timeline.select` (before, after), or None to select everything.

        Returns
        -------
        (Selection, Selection)
        """
        queries = what if isinstance(what, tuple) else (what, what)
        with self._history.group_changes():
            for view, query in zip(self.sides, queries, strict=True):
                view.select(query)
        return self.selection

    @check_arguments
    def zoom_to(self, start_ns: Time, end_ns: Time, *, side: SideName = "before") -> None:
        """Show a window on one side, and the corresponding window on the other side.

        Parameters
        ----------
        start_ns, end_ns : int or str
            Window since the origin of that side, in ns or as text such as ``"12.3ms"``.
        side : {"before", "after"}, default "before"
            The side that the window refers to. If the sides are coupled, the other side follows
            according to the alignment.

        Raises
        ------
        TraceError
            If the window has no length or the side is unknown.
        """
        lead = SIDES.index(side)
        window = validate_window(start_ns, end_ns)
        with self._history.group_changes():
            if self.coupled and self._answers.has_events:
                other = aligned_window(self.comparison, self.align, lead, window)
                self.sides[1 - lead].zoom_to(*other)
            # The page follows the side that moved last.
            self.sides[lead].zoom_to(*window)

    @check_arguments
    def link(self, other: LinkedView, *, side: SideName = "after") -> None:
        """Link the timeline of one side to a timeline or dashboard of the same run.

        Parameters
        ----------
        other : Timeline or Dashboard
            The view to link. It takes over the state of that side.
        side : {"before", "after"}, default "after"
        """
        self.sides[SIDES.index(side)].link(other)

    def selected_events(self) -> pd.DataFrame:
        """Return the selected events on both sides.

        Returns
        -------
        DataFrame
            As in ``TraceSet.events``, with ``side`` (``before`` or ``after``) as the first column.
        """
        parts = []
        for word, view in zip(SIDES, self.sides, strict=True):
            events = view.selected_events().copy()
            events.insert(0, "side", word)
            parts.append(events)
        return pd.concat(parts, ignore_index=True)

    @check_arguments
    def export(self, path: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write both sides to a single trace file; see `hta_widgets.export.export_pair`.

        Only selected events are written. If nothing is selected on a side, all of its compared
        events are written.
        """
        chosen = [
            source if view.selection.is_everything else view.selection.of(source.traces)
            for source, view in zip(self.sources, self.sides, strict=True)
            if source.traces is not None
        ]
        labels = options.pop("labels", tuple(self._about["labels"]))
        return export_pair(chosen[0], chosen[1], Path(path), labels=labels, **options)

    def undo(self) -> bool:
        """Undo the last change of window or selection, on the side or sides that it affected."""
        return self._history.undo()

    def redo(self) -> bool:
        """Redo the last undone step; return False if nothing is left to redo."""
        return self._history.redo()

    @check_arguments
    def to_svg(
        self, path: str | os.PathLike[str], *, width: float = 1200, theme: ThemeName = "light"
    ) -> str:
        """Write both timelines as an SVG file in the current colors, the run before on top.

        Parameters
        ----------
        path : path-like
        width : float, default 1200
            In px.
        theme : {"light", "dark"}

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            As for `Timeline.to_svg`, and if the runs have no events.
        """
        if not self._answers.has_events:
            raise TraceError("these runs have no events to draw", remedy="See `frames`.")
        comparison = self.comparison
        by_change = self.color == "change"
        ranks = None if self.pair is None else comparison.rank_pairs[self.pair]
        drawn = [
            timeline_svg(
                view.engine,
                {**view.scene, "title": f"{name}: {side.label}"},
                {**view.state.snapshot(), "color": self.color},
                width=width,
                height=view.height,
                theme=theme,
                folded=view.folded,
                only=None if ranks is None else [ranks[number]],
                classed=class_events(self._answers, number, theme) if by_change else None,
            )
            for number, (view, name, side) in enumerate(
                zip(self.sides, SIDES, comparison.sides, strict=True)
            )
        ]
        return write_text(path, stacked_svg(drawn))

    @check_arguments
    def save_html(self, path: str | os.PathLike[str], *, max_mb: float = 25) -> str:
        """Write this comparison as a self-contained page that works offline and without a kernel.

        Parameters
        ----------
        path : path-like
        max_mb : float, default 25
            Page size in MB up to which detail is embedded. The page states what is left out.

        Returns
        -------
        str
            The path.
        """
        traits = {name: getattr(self, name) for name in _SAVED}
        return save_diff(path, self._answers, self._drawn_sides(), traits, max_mb=max_mb)

    def _drawn_sides(self) -> list[tuple[TileEngine, dict[str, Any], dict[str, Any]]]:
        return [(view.engine, view.scene, view.state.snapshot()) for view in self.sides]

    @cached_property
    def _offline(self) -> OfflineData:
        traits = {"_about": self._about}
        return OfflineData(partial(comparison_content, self._answers, self._drawn_sides(), traits))

    @t.validate("pair")
    def _validate_pair(self, proposal: Any) -> Any:
        pair, count = proposal["value"], len(self.comparison.rank_pairs)
        if pair is not None and not 0 <= pair < count:
            remedy = f"Pairs are numbered 0 to {count - 1}."
            raise TraceError(f"no pair of ranks {pair}", remedy=remedy)
        return pair

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        compute_frames_ahead(self._answers, self.align, swapped=self.swapped, pair=self.pair)
        return self._fallback().add_to(super()._repr_mimebundle_(**kwargs))

    def _fallback(self) -> Fallback:
        title = f"{' → '.join(self._about['labels'])} · {self._about['facts']}"
        sides = [
            timeline_fallback(engine, {**scene, "title": f"{word}: {label}"}, state, width=450)
            for (engine, scene, state), word, label in zip(
                self._drawn_sides(), SIDES, self._about["labels"], strict=True
            )
        ]
        # At half the usual width, because two full pictures are often too large for a notebook.
        pictures = [picture for side in sides for picture in side.pictures]
        return Fallback(
            title,
            sentences=self._answers.main_findings(),
            pictures=[stacked_svg(pictures, side_by_side=True)] if pictures else [],
        )

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer a request described in docs/protocol-requests.md."""
        if isinstance(request, Mapping) and "side" in request:
            side = request["side"]
            if side not in (0, 1):
                raise TraceError(f"no side {side!r}", remedy="The sides are 0 and 1.")
            return self.sides[int(side)].answer(request)
        return answer(request, self, self._answers)

    def _on_offline(self, request: operations.OfflineRequest) -> Answer:
        return self._offline.chunk(request.chunk)

    def _on_export_pair(self, request: operations.ExportPairRequest) -> Answer:
        report = self.export(page_target(request.path, overwrite=request.overwrite))
        return {"path": str(report.path), "events": report.events, "bytes": report.bytes}, None

    def _on_save_html(self, request: operations.SaveHtmlRequest) -> Answer:
        target = page_target(request.path, overwrite=request.overwrite)
        written = self.save_html(target, max_mb=request.max_mb)
        return {"path": written, "bytes": Path(written).stat().st_size}, None

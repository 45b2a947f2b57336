"""TraceDiff."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol

import anywidget
import numpy as np
import pandas as pd
import traitlets as t

from hta_widgets import diff
from hta_widgets.analysis.diff_ops import Side
from hta_widgets.diff.compare import Comparison, Pairing, RunSide
from hta_widgets.diff.findings import Finding
from hta_widgets.diff.tables import makers
from hta_widgets.errors import TraceError
from hta_widgets.export.page_diff import DiffOffline, save_diff
from hta_widgets.export.svg.drawing import LEAST_BESIDE_PX, classed, side_width, stacked_svg
from hta_widgets.export.svg.picture import timeline_svg
from hta_widgets.export.trace import ExportReport, export_pair
from hta_widgets.live import operations
from hta_widgets.live.comparison import DiffAnswers, answer_ahead
from hta_widgets.live.operations import Answer, answer, serve
from hta_widgets.text import Time
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.widgets.assets import asset
from hta_widgets.widgets.dashboard import Following
from hta_widgets.widgets.timeline import Timeline
from hta_widgets.widgets.view import (
    LinkedView,
    known_or_loaded,
    shown_window,
    write_text,
)

SideName = Literal["before", "after"]
SIDES: tuple[SideName, SideName] = ("before", "after")


def known_word(what: str, word: str, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known."""
    if word not in known:
        raise TraceError(f"there is no {what} {word!r}", remedy=f"They are {', '.join(known)}.")


class SideTimeline(Timeline):
    """The timeline of one run: it goes to a page only where somebody shows it by itself.

    The page of a comparison draws both runs, and needs no more of these than their states.
    """

    def open(self) -> None:
        """Wait until somebody asks which model this is."""

    @property
    def model_id(self) -> str:
        """What a page that shows this timeline calls it."""
        super().open()
        found: str = super().model_id
        return found


def place_of(side: str) -> int:
    """Return 0 for before and 1 for after."""
    if side not in SIDES:
        raise TraceError(f"there is no side {side!r}", remedy='Give "before" or "after".')
    return 0 if side == "before" else 1


def whole_selection(source: Any) -> Selection:
    """Return a side as a selection, which still knows the other ranks of its set."""
    found = known_or_loaded(source, "TraceDiff")
    if isinstance(found, Selection):
        return found.owner.select(found)
    return (TraceSet([found], like=TraceSet([])) if isinstance(found, Trace) else found).select()


def turned(both: Comparison, sources: tuple[Selection, Selection]) -> Comparison:
    """Return a comparison the other way round."""
    steps = None
    if both.before.has_steps:
        steps = dict(zip(both.after.steps.tolist(), both.before.steps.tolist(), strict=True))
    return diff.compare(
        sources[1],
        sources[0],
        ranks="auto" if both.by_rank_means else {b: a for a, b in both.rank_pairs},
        steps=steps or "auto",
        labels=(both.after.label, both.before.label),
    )


def first_window(
    side: RunSide, source: Selection, whole: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the window that a side is shown with at first; None for the whole."""
    low, high = side.envelope()
    window = int(low.min()), max(int(high.max()), int(low.min()) + 1)
    is_cut = source.start_ns is not None or source.end_ns is not None
    is_small = 2 * (window[1] - window[0]) < whole[1] - whole[0]
    return window if is_cut or is_small else None


def beside(both: Comparison, base: str, lead: int, window: tuple[int, int]) -> tuple[int, int]:
    """Return the window of the other side that lies beside one of side `lead`, as long as it."""
    line = diff.align(both, base)  # type: ignore[arg-type]
    maps: tuple[Any, Any] = (line.before, line.after)
    middle = np.array([(window[0] + window[1]) // 2], np.int64)
    there = int(maps[1 - lead].to_own(maps[lead].to_common(middle))[0])
    moved = there - int(middle[0])
    return window[0] + moved, window[1] + moved


def frame_of(both: Comparison, name: str, base: Any) -> pd.DataFrame:
    """Return a frame that every comparison of events has, by its name."""
    if name.startswith("waterfall"):
        level: Any = name.removeprefix("waterfall").lstrip("_") or "kind"
        return diff.waterfall(both, level)
    if name == "operators":
        return diff.operators_diff(both)
    if name == "slots":
        return diff.align(both, base).slots
    found: pd.DataFrame = getattr(diff, name)(both)
    return found


def diff_svg(
    sides: Sequence[Timeline],
    answers: DiffAnswers,
    *,
    color: str,
    arrange: str,
    pair: int | None,
    width: float,
    theme: str,
) -> str:
    """Return the picture, arranged and coloured as a page is that shows these timelines."""
    both = answers.both
    ranks = None if pair is None else both.rank_pairs[pair]
    is_beside = arrange == "beside" and width >= LEAST_BESIDE_PX
    drawn = [
        timeline_svg(
            view.engine,
            {**view.scene, "title": f"{word}: {side.label}"},
            {**view.state.snapshot(), "color": color},
            width=side_width(width) if is_beside else width,
            height=view.height,
            theme=theme,
            folded=view.folded,
            only=None if ranks is None else [ranks[place]],
            classed=classed(answers, place, theme) if color == "change" else None,
        )
        for place, (view, word, side) in enumerate(zip(sides, SIDES, both.sides, strict=True))
    ]
    return stacked_svg(drawn, beside=is_beside)


class _View(Protocol):
    state: Any

    def undo(self) -> bool: ...

    def redo(self) -> bool: ...


class PairHistory:
    """The order of the changes of several views, each of which keeps its own values.

    Whatever changes or undoes them, here or in a page, their histories tell: this one only keeps
    whose turn it is. `js/src/compare/timelines.ts` does the same for the page's buttons.
    """

    def __init__(self, views: Sequence[_View]) -> None:
        self._views = views
        self._past: list[tuple[int, ...]] = []
        self._future: list[tuple[int, ...]] = []
        self._group: list[int] | None = None
        self._together: str | None = None
        #: what is left of an entry that somebody else has begun to undo or redo
        self._rest: tuple[int, ...] | None = None
        for place, view in enumerate(views):
            view.state.observe(
                lambda change, place=place: self._heard(place, change["old"], change["new"]),
                names="_history",
            )

    @contextmanager
    def one_change(self) -> Iterator[None]:
        """Group what changes meanwhile, on whichever side, into one step."""
        self._group = []
        try:
            yield
        finally:
            group, self._group = self._group, None
            if group:
                self._push(tuple(dict.fromkeys(group)))

    def undo(self) -> bool:
        """Go back one step; False if there is none."""
        return self._step(self._past, self._future, "undo")

    def redo(self) -> bool:
        """Take back one `undo`; False if there is none."""
        return self._step(self._future, self._past, "redo")

    def _step(self, source: list[tuple[int, ...]], target: list[tuple[int, ...]], way: str) -> bool:
        while source:
            places = source.pop()
            self._together = self._rest = None
            self._group = []
            try:
                done = [place for place in places if getattr(self._views[place], way)()]
            finally:
                self._group = None
            if done:
                target.append(tuple(done))
                return True
        return False

    def _heard(self, place: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        past = len(new["past"]) - len(old["past"])
        future = len(new["future"]) - len(old["future"])
        if self._group is not None:
            self._group.append(place)
        elif past < 0 < future:
            self._turn(place, self._past, self._future)
        # A change forgets what was undone: where one was, a redo looks like it.
        elif future < 0 < past and new["future"]:
            self._turn(place, self._future, self._past)
        # A full history grows no more: its last entry is another one.
        elif not new["future"] and new["past"] and (past > 0 or new["past"] != old["past"]):
            self._changed(place, new.get("together"))

    def _changed(self, place: int, together: str | None) -> None:
        """Count a change; what the page changed on both sides in one act arrives one by one."""
        if together and together == self._together and place not in self._past[-1]:
            self._past[-1] = (*self._past[-1], place)
        else:
            self._push((place,))
            self._together = together

    def _push(self, places: tuple[int, ...]) -> None:
        self._past.append(places)
        self._future.clear()
        self._together = self._rest = None

    def _turn(
        self, place: int, source: list[tuple[int, ...]], target: list[tuple[int, ...]]
    ) -> None:
        """Somebody else undid or redid on one side; of an entry of both, one by one."""
        for at in reversed(range(len(source))):
            entry = source[at]
            if place in entry:
                rest = tuple(one for one in entry if one != place)
                source[at : at + 1] = [rest] if rest else []
                if entry is self._rest and target:
                    target[-1] = (*target[-1], place)
                else:
                    target.append((place,))
                self._rest = rest or None
                return


#: What `frames` has of every pair of runs with events.
_FRAMES = ("waterfall", "waterfall_cause", "waterfall_operator", "waterfall_kernel", "steps",
           "changes", "names", "operators", "pairs", "icicle", "slots")  # fmt: skip
#: The traits that a saved page shows as they are.
_SAVED = ("align", "arrange", "swapped", "coupled", "height", "color", "pair", "_about")
#: How the two timelines may lie.
_ARRANGEMENTS = ("stacked", "beside")


class TraceDiff(anywidget.AnyWidget):
    """Show what changed between two runs: side by side, on one time axis, call by call.

    A headline in words; all steps of both runs, each pair of them starting in line; where the
    difference comes from; names that changed; the operator tree of both; and two timelines that
    zoom together. Select a call on one side: its partner is shown on the other.

    Parameters
    ----------
    before, after : TraceSet, Trace, Selection, or what `hta_widgets.load` takes
        Two jobs; two ranks, two steps or two windows of one, as selections.
    ranks : {"auto", "number", "representative"} or mapping, optional
        Which ranks belong together; see `hta_widgets.diff.compare`.
    steps : {"auto", "number", "order"} or mapping, optional
        Which steps belong together; see `hta_widgets.diff.compare`.
    labels : (str, str), optional
        Names of the two sides.
    align : {"steps", "first_step", "collectives", "absolute", "scaled"}, default "steps"
        How times of one run are brought to the other's; see `hta_widgets.diff.align`.
    arrange : {"stacked", "beside"}, default "stacked"
        The timelines one above the other, or beside each other where a page is 900 px wide.
    height : int, default 230
        Height of each of the two drawings of timelines in CSS pixels.
    color : {"change", "kind", "name"}, default "change"
        Colour events by what became of them, or as a `Timeline` does.

    Attributes
    ----------
    left, right : Timeline
        The timelines of before and after; alone they are not coupled.
    table : DataFrame
        What each name costs in both runs: `hta_widgets.diff.names`.
    frames : mapping of str to DataFrame
        All tables: ``waterfall, waterfall_cause, waterfall_operator, waterfall_kernel, steps,
        changes, names, operators, pairs, icicle, slots``, and those that the formats have; made
        when asked for.
    findings : list of Finding
        What changed, in words.
    selection : (Selection, Selection)
        What is selected before and after.
    pair : int or None
        Which of the pairs of ranks (``comparison.rank_pairs``) the page is of; None for all.
    align, arrange, coupled, swapped, color
        As the page shows them; assign to change them there. Swapping concerns the page alone.

    Raises
    ------
    TraceError
        Where a side has no ranks, or a rank or step is not there.

    Examples
    --------
    >>> view = hw.TraceDiff(hw.load("runs/a"), hw.load("runs/b"))  # doctest: +SKIP
    >>> view.table.head()  # doctest: +SKIP
    >>> hw.TraceDiff(traces.select(ranks=[0]), traces.select(ranks=[5]))  # doctest: +SKIP
    """

    left_state = anywidget.WidgetTrait().tag(sync=True)
    right_state = anywidget.WidgetTrait().tag(sync=True)
    align = t.Enum(diff.BASES, default_value="steps").tag(sync=True)
    arrange = t.Enum(_ARRANGEMENTS, default_value="stacked").tag(sync=True)
    coupled = t.Bool(True).tag(sync=True)
    swapped = t.Bool(False).tag(sync=True)
    height = t.Int(230, min=120).tag(sync=True)
    color = t.Enum(("change", "kind", "name"), default_value="change").tag(sync=True)
    pair = t.Int(None, allow_none=True).tag(sync=True)
    _about = t.Dict().tag(sync=True)
    _scenes: t.List[Any] = t.List().tag(sync=True)

    def __init__(
        self,
        before: Side | Any,
        after: Side | Any,
        *,
        ranks: Pairing | None = None,
        steps: Any = "auto",
        labels: tuple[str, str] | None = None,
        align: str = "steps",
        arrange: str = "stacked",
        height: int = 230,
        color: str = "change",
    ) -> None:
        known_word("time base", align, diff.BASES)
        known_word("arrangement", arrange, _ARRANGEMENTS)
        self._esm = asset("diff.js").read_text("utf-8")
        self._css = asset("diff.css").read_text("utf-8")
        self.sources = whole_selection(before), whole_selection(after)
        self.comparison: Comparison = diff.compare(
            *self.sources, ranks=ranks or "auto", steps=steps, labels=labels
        )
        self._answers = DiffAnswers(self.comparison, lambda: turned(self.comparison, self.sources))
        self.left, self.right = (
            SideTimeline(
                side.traces.subset(ranks=side.ranks), height=height, folded=len(side.ranks) > 8
            )
            for side in self.comparison.sides
        )
        self.frames: Following[pd.DataFrame] = Following(
            (*_FRAMES, *self._answers.tables), self._frame, self._known_frame
        )
        super().__init__(
            left_state=self.left.state,
            right_state=self.right.state,
            align=align,
            arrange=arrange,
            height=height,
            color=color,
            _about=self._answers.about(),
            _scenes=[self.left.scene, self.right.scene],
        )
        for source, timeline, side in zip(
            self.sources, self.sides, self.comparison.sides, strict=True
        ):
            window = first_window(side, source, timeline.whole)
            if window is not None:
                timeline.state.view = window
        self._steps_back = PairHistory(self.sides)
        # Their own classes, whichever of several comparisons a run is part of.
        for place, timeline in enumerate(self.sides):
            timeline.engine.classes_of = partial(self._answers.classes_of, place)
        serve(self, self.answer)

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def sides(self) -> tuple[Timeline, Timeline]:
        """The timelines of before and after."""
        return self.left, self.right

    @property
    def table(self) -> pd.DataFrame:
        """What each name costs in both runs: `hta_widgets.diff.names`, or what the format has."""
        if self._answers.has_events:
            return self.frames["names"]
        own = self._answers.tables
        return self.frames["mpi_routines" if "mpi_routines" in own else own[0]]

    @cached_property
    def findings(self) -> list[Finding]:
        """What changed, most important first, as sentences; empty where nothing did."""
        return diff.findings(self.comparison)

    def _known_frame(self, name: str) -> str:
        known = (*_FRAMES, *self._answers.tables)
        if name not in known:
            raise KeyError(f"there is no frame {name!r}; there are {', '.join(known)}")
        return name

    def _frame(self, name: str) -> pd.DataFrame:
        both = self.comparison
        if name in self._answers.tables:
            return makers(both)[name](both)
        return frame_of(both, name, self.align)

    # --- selecting and taking away ----------------------------------------------------------------

    @property
    def selection(self) -> tuple[Selection, Selection]:
        """What is selected before and after."""
        return self.left.selection, self.right.selection

    def select(self, what: str | tuple[Any, Any] | None) -> tuple[Selection, Selection]:
        """Select events on both sides.

        Parameters
        ----------
        what : str, pair or None
            A pandas query over the event columns, for both sides; two of what `Timeline.select`
            takes, for before and after; or None to select everything again.

        Returns
        -------
        (Selection, Selection)
        """
        both = what if isinstance(what, tuple) else (what, what)
        with self._steps_back.one_change():
            for view, one in zip(self.sides, both, strict=True):
                view.select(one)
        return self.selection

    def zoom_to(self, start_ns: Time, end_ns: Time, *, side: SideName = "before") -> None:
        """Show a window of one side, and on the other what lies beside it.

        Parameters
        ----------
        start_ns, end_ns : int or str
            The window since the origin of that side: ns, or text such as ``"12.3ms"``.
        side : {"before", "after"}, default "before"
            Whose times these are. The other one follows by the chosen alignment, as long as the
            sides are coupled.

        Raises
        ------
        TraceError
            If the window has no length, or there is no such side.
        """
        lead = place_of(side)
        window = shown_window(start_ns, end_ns)
        with self._steps_back.one_change():
            if self.coupled and self._answers.has_events:
                other = beside(self.comparison, self.align, lead, window)
                self.sides[1 - lead].zoom_to(*other)
            # The page follows who moved last.
            self.sides[lead].zoom_to(*window)

    def link(self, other: LinkedView, *, side: SideName = "after") -> None:
        """Let a timeline or dashboard of one of the runs share window and selection with it.

        Parameters
        ----------
        other : Timeline or Dashboard
            Takes over the state of that side's timeline; both follow each other.
        side : {"before", "after"}, default "after"
            Which run it is of.
        """
        self.sides[place_of(side)].link(other)

    def selected_events(self) -> pd.DataFrame:
        """Return the selected events of both sides.

        Returns
        -------
        DataFrame
            As ``TraceSet.events`` gives them, with ``side`` (``before``, ``after``) in front.
        """
        parts = []
        for word, view in zip(SIDES, self.sides, strict=True):
            events = view.selected_events().copy()
            events.insert(0, "side", word)
            parts.append(events)
        return pd.concat(parts, ignore_index=True)

    def export(self, path: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write both sides as one trace, each with its name; see `hta_widgets.export.export_pair`.

        What is selected goes out, of a side without a selection all that is compared.
        """
        chosen = [
            source if view.selection.is_everything else view.selection.of(source.traces)
            for source, view in zip(self.sources, self.sides, strict=True)
            if source.traces is not None
        ]
        labels = options.pop("labels", tuple(self._about["labels"]))
        return export_pair(chosen[0], chosen[1], Path(path), labels=labels, **options)

    def undo(self) -> bool:
        """Go back one change of window or selection, on the side that changed last."""
        return self._steps_back.undo()

    def redo(self) -> bool:
        """Take back one `undo`; False if there is none."""
        return self._steps_back.redo()

    def to_svg(
        self, path: str | os.PathLike[str], *, width: float = 1200, theme: str = "light"
    ) -> str:
        """Write both timelines as one vector picture, arranged and coloured as they are shown.

        Parameters
        ----------
        path : path-like
            The file to write.
        width : float, default 1200
            Of the picture, in px.
        theme : {"light", "dark"}
            Its colours.

        Returns
        -------
        str
            The path that was written.

        Raises
        ------
        TraceError
            As `Timeline.to_svg`; and where nothing has a time.
        """
        if not self._answers.has_events:
            raise TraceError("these runs have no events to draw", remedy="See `frames`.")
        shown = {name: getattr(self, name) for name in ("color", "arrange", "pair")}
        picture = diff_svg(self.sides, self._answers, **shown, width=width, theme=theme)
        return write_text(path, picture)

    def save_html(self, path: str | os.PathLike[str], *, max_mb: float = 25) -> str:
        """Write this comparison as one page that needs no kernel and no network.

        Parameters
        ----------
        path : path-like
            The file to write.
        max_mb : float, default 25
            Embed detail until the page would be larger than this; the page says what is left out.

        Returns
        -------
        str
            The path that was written.
        """
        traits = {name: getattr(self, name) for name in _SAVED}
        return save_diff(path, self._answers, self._drawn_sides(), traits, max_mb=max_mb)

    def _drawn_sides(self) -> list[Any]:
        return [(view.engine, view.scene, view.state.snapshot()) for view in self.sides]

    @cached_property
    def _offline(self) -> DiffOffline:
        return DiffOffline(self._answers, self._drawn_sides(), {"_about": self._about})

    @t.validate("pair")
    def _known_pair(self, proposal: Any) -> Any:
        pair, count = proposal["value"], len(self.comparison.rank_pairs)
        if pair is not None and not 0 <= pair < count:
            raise TraceError(
                f"there is no pair of ranks {pair}", remedy=f"They count from 0 to {count - 1}."
            )
        return pair

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        answer_ahead(self._answers, self.align, swapped=self.swapped, pair=self.pair)
        return super()._repr_mimebundle_(**kwargs)

    # --- what the page asks -----------------------------------------------------------------------

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer one request of a page, of docs/protocol.md."""
        if "side" in request:
            return self.sides[int(request["side"])].answer(request)
        return answer(request, self, self._answers)

    def _on_offline(self, request: operations.Offline) -> Answer:
        return self._offline.chunk(request.chunk)

    def _on_export_pair(self, request: operations.ExportPair) -> Answer:
        report = self.export(Path(request.path).expanduser())
        return {"path": str(report.path), "events": report.events, "bytes": report.bytes}, None

    def _on_save_html(self, request: operations.SaveHtml) -> Answer:
        written = self.save_html(Path(request.path).expanduser())
        return {"path": written, "bytes": Path(written).stat().st_size}, None

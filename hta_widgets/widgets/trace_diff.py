"""Two runs side by side: aligned, matched, explained."""

# ruff: noqa: SLF001 - it consists of two timelines, and asks them for what pages ask

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import pandas as pd
import traitlets as t

from hta_widgets import diff
from hta_widgets.analysis.diff_ops import Side
from hta_widgets.diff import Comparison, Finding
from hta_widgets.diff.sides import Pairing
from hta_widgets.diff.tables import makers
from hta_widgets.errors import TraceError
from hta_widgets.export import ExportReport
from hta_widgets.export.diff_page import DiffAnswers, save_diff
from hta_widgets.export.pair import export_pair
from hta_widgets.model import Selection, Trace, TraceSet
from hta_widgets.widgets.assets import asset
from hta_widgets.widgets.following import Following
from hta_widgets.widgets.rpc import Answer, serve
from hta_widgets.widgets.timeline import Timeline

__all__ = ["TraceDiff"]

#: What `frames` has of every pair of runs with events.
_FRAMES = ("waterfall", "waterfall_cause", "waterfall_operator", "waterfall_kernel", "steps",
           "changes", "names", "operators", "pairs", "icicle", "slots")  # fmt: skip
#: The traits that a saved page shows as they are.
_SAVED = ("align", "swapped", "coupled", "height", "_about")


class TraceDiff(anywidget.AnyWidget):
    """Show what changed between two runs: side by side, on one time axis, call by call.

    A headline in words; all steps of both runs, each pair of them starting in line; where the
    difference comes from; names that changed; the operator tree of both; and two timelines that
    zoom together. Select a call on one side: its partner is shown on the other.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        Two jobs; two ranks, two steps or two windows of one, as selections.
    ranks : {"auto", "number", "representative"} or mapping, optional
        Which ranks belong together; see `hta_widgets.diff.compare`.
    steps : {"auto", "number", "order"} or mapping, optional
        Which steps belong together; see `hta_widgets.diff.compare`.
    labels : (str, str), optional
        Names of the two sides.
    align : {"steps", "first_step", "collectives", "absolute", "scaled"}, default "steps"
        How times of one run are brought to the other's; see `hta_widgets.diff.align`.
    height : int, default 230
        Height of each of the two drawings of timelines in CSS pixels.

    Attributes
    ----------
    left, right : Timeline
        The timelines of before and after; alone they are not coupled.
    table : DataFrame
        What each name costs in both runs: `hta_widgets.diff.names`.
    frames : mapping of str to DataFrame
        All tables: ``waterfall, steps, changes, names, operators, pairs, icicle``, and those that
        the formats have; made when asked for.
    findings : list of Finding
        What changed, in words.
    selection : (Selection, Selection)
        What is selected before and after.
    align, coupled, swapped
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
    coupled = t.Bool(True).tag(sync=True)
    swapped = t.Bool(False).tag(sync=True)
    height = t.Int(230, min=120).tag(sync=True)
    _about = t.Dict().tag(sync=True)
    _scenes: t.List[Any] = t.List().tag(sync=True)

    def __init__(
        self,
        before: Side,
        after: Side,
        *,
        ranks: Pairing | None = None,
        steps: Any = "auto",
        labels: tuple[str, str] | None = None,
        align: str = "steps",
        height: int = 230,
    ) -> None:
        if align not in diff.BASES:
            raise TraceError(
                f"there is no time base {align!r}", remedy=f"They are {', '.join(diff.BASES)}."
            )
        self._esm = asset("diff.js").read_text("utf-8")
        self._css = asset("diff.css").read_text("utf-8")
        self.sources = _whole_selection(before), _whole_selection(after)
        self.comparison: Comparison = diff.compare(
            *self.sources, ranks=ranks or "auto", steps=steps, labels=labels
        )
        self._answers = DiffAnswers(self.comparison, self._swapped_comparison)
        self.left, self.right = (
            Timeline(
                side.traces.subset(ranks=side.ranks), height=height, folded=len(side.ranks) > 8
            )
            for side in self.comparison.sides
        )
        self.frames: Following[pd.DataFrame] = Following(
            (*_FRAMES, *self._answers.tables), self._frame, self._known_frame
        )
        self._order: list[Timeline] = []
        self._undone: list[Timeline] = []
        super().__init__(
            left_state=self.left.state,
            right_state=self.right.state,
            align=align,
            height=height,
            _about=self._answers.about(),
            _scenes=[self.left._scene, self.right._scene],
        )
        for source, timeline, side in zip(
            self.sources, self.sides, self.comparison.sides, strict=True
        ):
            if source.start_ns is not None or source.end_ns is not None:
                low, high = side.envelope()
                timeline.state.view = (int(low[0]), max(int(high[-1]), int(low[0]) + 1))
            timeline.state.observe(
                lambda change, view=timeline: self._remember(view, change), names="_history"
            )
        serve(self, self._answer)

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def sides(self) -> tuple[Timeline, Timeline]:
        """The timelines of before and after."""
        return self.left, self.right

    @property
    def table(self) -> pd.DataFrame:
        """What each name costs in both runs: `hta_widgets.diff.names`, or what the format has."""
        return self.frames["names" if self._answers.has_events else self._answers.tables[0]]

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
        if name.startswith("waterfall"):
            level: Any = name.removeprefix("waterfall").lstrip("_") or "kind"
            return diff.waterfall(both, level)
        if name == "operators":
            return diff.operators_diff(both)
        if name == "slots":
            base: Any = self.align
            return diff.align(both, base).slots
        found: pd.DataFrame = getattr(diff, name)(both)
        return found

    def _swapped_comparison(self) -> Comparison:
        both = self.comparison
        steps = None
        if both.before.has_steps:
            steps = dict(zip(both.after.steps.tolist(), both.before.steps.tolist(), strict=True))
        return diff.compare(
            self.sources[1],
            self.sources[0],
            ranks="auto" if both.by_rank_means else {b: a for a, b in both.rank_pairs},
            steps=steps or "auto",
            labels=(both.after.label, both.before.label),
        )

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
        for view, one in zip(self.sides, both, strict=True):
            view.select(one)
        return self.selection

    def selected_events(self) -> pd.DataFrame:
        """Return the selected events of both sides.

        Returns
        -------
        DataFrame
            As ``TraceSet.events`` gives them, with ``side`` (``before``, ``after``) in front.
        """
        parts = []
        for word, view in zip(("before", "after"), self.sides, strict=True):
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
        return self._step(self._order, self._undone, "undo")

    def redo(self) -> bool:
        """Take back one `undo`; False if there is none."""
        return self._step(self._undone, self._order, "redo")

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
        sides = [(view.engine, view._scene, view.state.snapshot()) for view in self.sides]
        return save_diff(path, self._answers, sides, traits, max_mb=max_mb)

    def _remember(self, view: Timeline, change: Mapping[str, Any]) -> None:
        before, after = (len(change[word]["past"]) for word in ("old", "new"))
        if after > before and not change["new"]["future"]:
            self._order.append(view)
            self._undone.clear()

    def _step(self, source: list[Timeline], target: list[Timeline], way: str) -> bool:
        while source:
            view = source.pop()
            if getattr(view, way)():
                target.append(view)
                return True
        return False

    # --- what the page asks -----------------------------------------------------------------------

    def _answer(self, request: dict[str, Any]) -> Answer:
        if "side" in request:
            return self.sides[int(request["side"])]._answer(request)
        found = self._answers.answer(request)
        if found is not None:
            return found, None
        path = Path(str(request.get("path", ""))).expanduser()
        if request["op"] == "export_pair":
            report = self.export(path)
            return {"path": str(report.path), "events": report.events, "bytes": report.bytes}, None
        if request["op"] == "save_html":
            written = self.save_html(path)
            return {"path": written, "bytes": Path(written).stat().st_size}, None
        raise ValueError(f"unknown op {request['op']!r}")


def _whole_selection(source: Side) -> Selection:
    """Return a side as a selection, which still knows the other ranks of its set."""
    if isinstance(source, Trace):
        return TraceSet([source], like=TraceSet([])).select()
    if isinstance(source, TraceSet):
        return source.select()
    if isinstance(source, Selection) and source.traces is not None:
        return source
    raise TypeError(f"TraceDiff compares a TraceSet, a Trace or a Selection, not {type(source)}")

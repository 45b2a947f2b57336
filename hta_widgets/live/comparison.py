"""Answer the requests of pages that compare two runs.

`DiffAnswers` computes each frame on first request. `compute_frames_ahead` computes the first frames
that a page needs while the page is still loading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import diff
from hta_widgets.diff.align import lanes
from hta_widgets.diff.changes import changed_kinds, changed_names
from hta_widgets.diff.compare import Comparison, conditions
from hta_widgets.diff.sentences import kind_labels
from hta_widgets.diff.tables import table_functions
from hta_widgets.live import operations
from hta_widgets.live.background import BackgroundTask, deadline_after
from hta_widgets.live.operations import Answer, answer
from hta_widgets.live.pair_table import PairTable, class_overview
from hta_widgets.panels.frames import frame_to_json
from hta_widgets.text import plural
from hta_widgets.trace.arrays import Codes
from hta_widgets.trace.memo import memo
from hta_widgets.trace.names import short_name

#: Tables that have their own panels on the page.
_OWN_PLACE = {"waterfall", "steps", "changes", "names", "operators"}
#: Maximum number of rows: names and waterfall parts, call tree nodes, other tables.
_MAX_NAMES, _MAX_NODES, _MAX_ROWS = 2000, 6000, 300
#: Maximum total number of events on both sides for which a page requests everything at once.
_FEW_EVENTS = 250_000
#: Maximum number of events for computing frames ahead. More could delay the next notebook cell.
_MAX_EVENTS = 1_000_000
_MAIN_FINDINGS = 3  # number of findings in a notebook output
_FINDINGS_MS = 3000  # time limit for the findings, which are omitted if it expires
#: Pause after each frame that is computed ahead, so that requests can be answered.
_PAUSE_S = 0.002


class DiffAnswers:
    """Answers the requests of a comparison page. Answers are computed when first requested."""

    def __init__(self, both: Comparison, swapped: Callable[[], Comparison]) -> None:
        self.both = both
        self._swapped = swapped
        self._findings = BackgroundTask(lambda: diff.findings(both))
        self.memo: dict[Any, Any] = {}

    def about(self) -> dict[str, Any]:
        """Return the description of the comparison that the page shows first."""
        both = self.both
        before_ranks, after_ranks = (len(side.ranks) for side in both.sides)
        facts = f"{before_ranks} → {plural(after_ranks, 'rank')}"
        if before_ranks == after_ranks:
            facts = f"{plural(before_ranks, 'rank')} each"
        if both.before.has_steps:
            facts += f" · {plural(both.step_count, 'step')}"
        unmatched = max(len(both.before_alone), len(both.after_alone))
        formats = {part.trace.format for side in both.sides for part in side.parts.values()}
        return {
            "labels": [side.label for side in both.sides],
            "facts": facts,
            "conditions": conditions(both),
            "cautions": [{"kind": caution.kind, "text": caution.text} for caution in both.cautions],
            "rank_pairs": [list(pair) for pair in both.rank_pairs],
            "by_rank_means": both.by_rank_means,
            "steps": both.step_count if both.before.has_steps else 0,
            "matched": self._matching_text(unmatched),
            "all_matched": not unmatched,
            "kind_words": kind_labels(both),
            "has_events": self.has_events,
            "has_device": self.has_device,
            "is_small": self.events <= _FEW_EVENTS,
            "tables": self.tables if not self.has_events or formats != {"kineto"} else [],
        }

    def _matching_text(self, unmatched: int) -> str:
        both = self.both
        if not both.before.has_steps:
            return "no steps: the whole runs are compared"
        how = {"number": "by number", "order": "in their order", "whole": ""}[both.matched_by]
        if both.before.on_device:
            how += ", on the devices"
        all_steps = plural(both.step_count + unmatched, "step")
        return f"{both.step_count} of {all_steps} matched {how}".strip()

    @property
    def has_events(self) -> bool:
        """Whether both sides have events rather than only totals."""
        return all(any(len(part.trace) for part in side.parts.values()) for side in self.both.sides)

    @property
    def has_device(self) -> bool:
        """Whether at least one side has device work."""
        return any(
            len(part.device_work_rows()) for side in self.both.sides for part in side.parts.values()
        )

    @property
    def events(self) -> int:
        """The number of events compared, on both sides together."""
        parts = (part for side in self.both.sides for part in side.parts.values())
        return sum(len(part.rows) for part in parts)

    def main_findings(self) -> list[str]:
        """Return the main findings as sentences, or [] if computing them takes too long."""
        if self.events > _MAX_EVENTS or not self._findings.wait_until(deadline_after(_FINDINGS_MS)):
            return []
        return [finding.text for finding in self._findings.value[:_MAIN_FINDINGS]]

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables that trace formats or `add_table` provide."""
        return [name for name in table_functions(self.both) if name not in _OWN_PLACE]

    def frame(self, name: str) -> dict[str, Any]:
        """Return a frame as JSON for the page."""
        base_name, _, pair = name.partition("@")
        if pair:
            return self.answers_of_pair(int(pair)).frame(base_name)
        return memo(self, ("frame", name), lambda: frame_to_json(self._frame(name)))

    def frames(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return several frames, omitting those that fail. A separate request returns the error."""
        frames = {}
        for name in names:
            with suppress(Exception):
                frames[name] = self.frame(name)
        return frames

    def _frame(self, name: str) -> pd.DataFrame:
        """Return a frame by its request name, for example ``waterfall:kind`` or ``names:3``."""
        kind, _, rest = name.partition(":")
        both = self.both
        match kind:
            case "slots":
                return self._alignment(rest).slots
            case "segments":
                return self._alignment(rest).segments()
            case "lanes":
                return mean_lanes(both, self._alignment("steps"))
            case "waterfall":
                level, _, step = rest.partition(":")
                return self._waterfall(level, int(step) if step else None)
            case "names":
                return self._names(int(rest) if rest else None)
            case "steps":
                return diff.steps(both)
            case "icicle":
                return _with_short_names(_largest_nodes(self.tree))
            case "findings":
                findings = diff.findings(self._swapped() if rest == "swapped" else both)
                rows = [(finding.kind, finding.text, finding.diff_ns) for finding in findings]
                return pd.DataFrame(rows, columns=["kind", "text", "diff_ns"])
            case "changes":
                return _with_short_names(diff.changes(both)).head(_MAX_ROWS)
            case "overview":
                return self.overview
            case "table":
                frame = table_functions(both)[rest](both)
                shown = frame.head(_MAX_ROWS)
                shown.attrs = {**frame.attrs, "rows": len(frame)}
                return shown
            case _:
                raise ValueError(f"a comparison has no frame {name!r}")

    def _waterfall(self, level: Any, step: int | None) -> pd.DataFrame:
        frame = _with_short_names(diff.waterfall(self.both, level, step=step))
        column, changed = ("name", changed_names) if "name" in frame else ("kind", changed_kinds)
        # Kinds are tested only over all steps, not for a single step.
        tested = changed(self.both) if step is None or column == "name" else frozenset()
        return frame.assign(is_change=frame[column].isin(tested)).head(_MAX_NAMES)

    def answers_of_pair(self, pair: int) -> DiffAnswers:
        """Return the answers for a single pair of ranks."""
        count = len(self.both.rank_pairs)
        if not 0 <= pair < count:
            raise ValueError(f"no pair of ranks {pair}: pairs are numbered 0 to {count - 1}")
        swapped_ranks = self.both.rank_pairs[pair][::-1]

        def compare_swapped() -> Comparison:
            swapped = self._swapped()
            return comparison_of_pair(swapped, swapped.rank_pairs.index(swapped_ranks))

        return memo(
            self,
            ("pair", pair),
            lambda: DiffAnswers(comparison_of_pair(self.both, pair), compare_swapped),
        )

    def _alignment(self, base: Any) -> diff.Alignment:
        return memo(self, ("alignment", base), lambda: diff.align(self.both, base))

    def _names(self, step: int | None) -> pd.DataFrame:
        both = self.both if step is None else comparison_of_step(self.both, step)
        device: Any = "gpu" if self.has_device else "cpu"
        table = diff.names(both, device=device, short_names=True)
        if not len(table):
            # Some formats do not distinguish host from device.
            device = "all"
            table = diff.names(both, device=device, short_names=True)
        names = table.head(_MAX_NAMES)[
            ["name", "kind", "before_count", "after_count", "before_ns", "after_ns", "diff_ns",
             "change", "replaced_by"]
        ].copy()  # fmt: skip
        names["is_change"] = names["name"].isin({short_name(name) for name in changed_names(both)})
        members = memo(self, ("members", device), lambda: self._names_by_short_name(device))
        names["members"] = [members.get(name, [name]) for name in names["name"].tolist()]
        names.attrs = {**table.attrs, "device": device, "names": len(table)}
        return names

    def _names_by_short_name(self, device: Any) -> dict[str, list[str]]:
        """Map each short name to its full names, largest difference first."""
        members: dict[str, list[str]] = {}
        for name in diff.names(self.both, device=device)["name"].tolist():
            members.setdefault(short_name(name), []).append(name)
        return members

    @cached_property
    def tree(self) -> pd.DataFrame:
        """The call paths of device work or, if the runs have no device work, of host events."""
        paths = diff.icicle(self.both, "device" if self.has_device else "host")
        return paths if len(paths) else diff.icicle(self.both, "host")

    @cached_property
    def pair_table(self) -> PairTable:
        """The matched events."""
        return PairTable(self.both, self.tree)

    @cached_property
    def overview(self) -> pd.DataFrame:
        """The device time of each event class, in `BINS` equal intervals per side."""
        return class_overview(self.both, self.pair_table.classes)

    def classes_of(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank, or None if the rank is not compared."""
        return self.pair_table.classes.of_rank(side, rank)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer a request about the comparison."""
        return answer(request, self)

    def _on_frame(self, request: operations.FrameRequest) -> Answer:
        return self.frame(request.name), None

    def _on_frames(self, request: operations.FramesRequest) -> Answer:
        return {"frames": self.frames(request.names)}, None

    def _on_partner(self, request: operations.PartnerRequest) -> Answer:
        partner = self.pair_table.partner_of(request.of, request.rank, request.id)
        if request.pair is not None:
            # The nodes of a rank pair's tree have their own numbers.
            node = matching_node(
                self.tree, partner["node"], self.answers_of_pair(request.pair).tree
            )
            partner = {**partner, "node": node}
        return partner, None

    def _on_path_events(self, request: operations.PathEventsRequest) -> Answer:
        if request.pair is None:
            return self.pair_table.events_of(request.node), None
        pair_answers = self.answers_of_pair(request.pair)
        node = matching_node(pair_answers.tree, request.node, self.tree)
        return self.pair_table.events_of(node, pair_answers.both.rank_pairs[0]), None

    def _on_change_events(self, request: operations.ChangeEventsRequest) -> Answer:
        pair_answers = self if request.pair is None else self.answers_of_pair(request.pair)
        ranks = None if request.pair is None else pair_answers.both.rank_pairs[0]
        changes = diff.changes(pair_answers.both)
        if request.row >= len(changes):
            raise ValueError(f"change {request.row} does not exist; there are {len(changes)}")
        return self.pair_table.events_of_change(changes.iloc[request.row], ranks), None

    def _on_classes(self, _request: operations.ClassesRequest) -> Answer:
        return self.pair_table.classes.counts(), None


def comparison_of_step(both: Comparison, step: int) -> Comparison:
    """Return the comparison restricted to one pair of steps."""
    before, after = (side.of_steps(np.array([step])) for side in both.sides)
    none = np.empty(0, np.int64)
    return replace(
        both, before=before, after=after, before_alone=none, after_alone=none, part_of=(both, step)
    )


def comparison_of_pair(both: Comparison, pair: int) -> Comparison:
    """Return the comparison restricted to one pair of ranks."""
    ranks = both.rank_pairs[pair]
    before, after = (
        replace(side, parts={rank: side.parts[rank]}, windows={rank: side.windows[rank]})
        for side, rank in zip(both.sides, ranks, strict=True)
    )
    return replace(
        both,
        before=before,
        after=after,
        rank_pairs=[ranks],
        by_rank_means=False,
        part_of=(both, None),
    )


def matching_node(tree: pd.DataFrame, node: int, other: pd.DataFrame) -> int:
    """Return the node of `other` with the same path and name as `node`, or -1 if there is none."""
    if not 0 <= node < len(tree):
        return -1
    path, name = tree["path"].iloc[node], tree["name"].iloc[node]
    nodes = np.flatnonzero((other["path"] == path) & (other["name"] == name))
    return int(nodes[0]) if len(nodes) else -1


def mean_lanes(both: Comparison, alignment: diff.Alignment) -> pd.DataFrame:
    """Return the mean of `hta_widgets.diff.align.lanes` over all rank pairs."""
    count = len(both.rank_pairs)
    parts = [lanes(both, alignment, pair=pair) for pair in range(count)]
    if count == 1:
        return parts[0]
    keys = ["slot", "side", "lane", "cell"]
    mean_shares = pd.concat(parts, ignore_index=True).groupby(keys, sort=True, as_index=False).sum()
    mean_shares["busy_ns"] //= count
    mean_shares.attrs = {**parts[0].attrs, "pairs": count}
    return mean_shares


def _with_short_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column of short names for each column of names; a cell may list several names."""
    short_columns = {"name": "short", "before_names": "before_short", "after_names": "after_short"}
    shorts = {
        short: ["; ".join(map(short_name, text.split("; "))) for text in frame[column]]
        for column, short in short_columns.items()
        if column in frame
    }
    return frame.assign(**shorts)


def _largest_nodes(tree: pd.DataFrame) -> pd.DataFrame:
    size = np.maximum(tree["before_ns"].to_numpy(), tree["after_ns"].to_numpy())
    if len(tree) > _MAX_NODES:
        # A parent is at least as large as its children, so the largest nodes form a tree.
        tree = tree[size >= np.sort(size)[-_MAX_NODES]]
    return tree[
        ["node", "parent", "depth", "name", "kind", "before_count", "after_count", "before_ns",
         "after_ns", "status"]
    ]  # fmt: skip


def first_frame_tasks(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> Iterator[Callable[[], object]]:
    """Yield a task for each frame that `js/src/compare/charts.ts` requests first."""
    for name in ("segments", "slots"):
        yield partial(answers.frame, f"{name}:{base}")
    shown = answers if pair is None else answers.answers_of_pair(pair)
    findings = "findings:swapped" if swapped else "findings"
    lanes = ("slots:steps", "lanes") if answers.has_device else ()
    for name in ("waterfall:kind", "steps", *lanes, "names", "changes", findings, "icicle"):
        yield partial(shown.frame, name)

    def expand_largest_kind() -> None:
        largest = shown.frame("waterfall:kind")["columns"]["kind"][:1]
        shown.frame("waterfall:cause" if largest == ["idle"] else "waterfall:operator")

    yield expand_largest_kind
    yield partial(answers.answer, {"op": "classes"})


def compute_frames_ahead(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> None:
    """Run `first_frame_tasks` in the kernel's event loop while the page loads.

    Each task is a separate callback, so requests are answered in between. Nothing is computed for
    large runs, or if no event loop is running.
    """
    if not answers.has_events or answers.events > _MAX_EVENTS:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    tasks = first_frame_tasks(answers, base, swapped=swapped, pair=pair)

    def run_next() -> None:
        try:
            next(tasks)()
        except Exception:  # noqa: BLE001 - no task left, or the page's own request gets the error
            return
        loop.call_later(_PAUSE_S, run_next)

    loop.call_soon(run_next)

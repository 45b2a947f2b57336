"""Answer requests about two runs, and classify their events for the colours of timelines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import diff
from hta_widgets.diff.align import Base, lanes
from hta_widgets.diff.changes import changes
from hta_widgets.diff.compare import Comparison, conditions
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.sentences import kind_labels
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.tables import table_functions
from hta_widgets.facts import facts
from hta_widgets.live import operations
from hta_widgets.live.operations import Answer, answer
from hta_widgets.panels.frames import frame_to_json
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.tiles.replies import ClassCounts, PairEvents, Partner, Ties
from hta_widgets.trace.arrays import Bools, Codes, Ints, Rows
from hta_widgets.trace.names import short_name

#: Classes of events by code. Slower and faster have three degrees each: less than a third longer
#: than the other event, less than twice as long, and longer.
CLASSES: tuple[str, ...] = tuple(facts("event_classes")["light"])
_THIRD, _TWICE = 4 / 3, 2.0
_BETWEEN = " > "

DEVICE = ("compute", "communication", "memory")


def rows_of_change(pairs: pd.DataFrame, change: pd.Series) -> Rows:
    """Return the rows of `pairs` that belong to a change.

    These are the changed operators of its name and their device work: all work below operators that
    were added, removed or moved, and the work that slower and faster operators launched. For
    replaced work, it is only the work itself.
    """
    word, name = str(change["change"]), str(change["name"])
    status = pairs["status"].to_numpy()
    named = _category_mask(pairs["name"], lambda text: text == name)
    device = pairs["kind"].isin(DEVICE).to_numpy()
    launched = device & _category_mask(
        pairs["path"], lambda text: text == name or text.endswith(_BETWEEN + name)
    )
    if word in {"slower", "faster"}:
        matched = (pairs["before_id"] >= 0).to_numpy() & (pairs["after_id"] >= 0).to_numpy()
        return np.flatnonzero(matched & (status != "replaced") & (named & ~device | launched))
    if word == "replaced":
        return np.flatnonzero((status == word) & launched)
    if str(change["measure"]) == "kernel":
        return np.flatnonzero((status == word) & named & device)
    within = f"{_BETWEEN}{name}{_BETWEEN}"
    below = _category_mask(pairs["path"], lambda text: within in f"{_BETWEEN}{text}{_BETWEEN}")
    return np.flatnonzero((status == word) & (named & ~device | below & device))


def _category_mask(column: pd.Series, holds: Callable[[str], bool]) -> Bools:
    """Return a mask of the rows for whose category `holds` is true."""
    # The last entry is for missing values, -1.
    flags = np.array([*map(holds, column.cat.categories), False], dtype=np.bool_)
    mask: Bools = flags[column.cat.codes.to_numpy()]
    return mask


class EventClasses:
    """A class for every event of both sides; `rows` has the pair of each event by side and rank."""

    def __init__(
        self,
        of_pairs: Codes,
        rows: Sequence[Mapping[int, Rows]],
        rank_pairs: Sequence[tuple[int, int]],
    ) -> None:
        self.of_pairs = of_pairs
        self._rank_pairs = rank_pairs
        # The last entry is for index -1, events without a pair.
        codes = np.append(of_pairs, np.uint8(CLASSES.index("not_compared")))
        self._by_rank = [{rank: codes[pair] for rank, pair in side.items()} for side in rows]

    def of_rank(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank, by id; None if the rank is not compared."""
        return self._by_rank[side].get(rank)

    def counts(self) -> ClassCounts:
        """Return how many events have each class."""
        by_rank = [
            {number: np.bincount(codes, minlength=len(CLASSES)) for number, codes in side.items()}
            for side in self._by_rank
        ]
        none = np.zeros(len(CLASSES), np.int64)
        return {
            "counts": [sum(side.values(), none).tolist() for side in by_rank],
            "pair_counts": [
                [side[rank].tolist() for side, rank in zip(by_rank, ranks, strict=True)]
                for ranks in self._rank_pairs
            ],
        }


def classes_of_pairs(pairs: pd.DataFrame) -> Codes:
    """Return the class of each pair."""
    before, after = pairs["before_ns"].to_numpy(), pairs["after_ns"].to_numpy()
    ratio = np.maximum(before, after) / np.maximum(np.minimum(before, after), 1)
    size = (ratio >= _THIRD).astype(np.int64) + (ratio >= _TWICE)
    changed = size + np.where(after > before, CLASSES.index("slower_1"), CLASSES.index("faster_1"))
    names = {"added": "only_here", "removed": "only_here", "changed": "slower_1"}
    statuses = pairs["status"].cat.categories
    class_of = np.array([CLASSES.index(names.get(name, name)) for name in statuses])
    unchanged = class_of[pairs["status"].cat.codes.to_numpy()]
    codes: Codes = np.where(pairs["status"] == "changed", changed, unchanged).astype(np.uint8)
    return codes


# --- answers --------------------------------------------------------------------------------------


Ranks = tuple[int, int]  # before and after

BINS = 600  # of the overview; a minimap has about as many px
_DEVICE = [KINDS.index(kind) for kind in DEVICE]
MAX_MARKED = 20_000  # events of one call path
_MAX_CHANGES = 60  # changes whose events a saved page can mark
#: Tables that have their own place in the page.
_OWN_PLACE = {"waterfall", "steps", "changes", "names", "operators"}
_MAX_NAMES = 2000
_MAX_NODES = 6000
_MAX_ROWS = 300
# Events of both sides.
_FEW_EVENTS = 250_000  # maximum for requesting all answers in one request
_MAX_EVENTS = 1_000_000  # maximum for preparing answers; more could delay the next cell
_PAUSE_S = 0.002  # pause between two prepared answers, in which requests of the page are handled


def class_overview(both: Comparison, classes: EventClasses) -> pd.DataFrame:
    """Return the device time of each class in `BINS` equal intervals of each side."""
    columns: dict[str, Ints] = {}
    attrs: dict[str, int] = {}
    for place, (word, side) in enumerate(zip(("before", "after"), both.sides, strict=True)):
        work = [
            _device_time_by_class(side, rank, classes.of_rank(place, rank)) for rank in side.parts
        ]
        start, end, code = (np.concatenate(column) for column in zip(*work, strict=True))
        if not len(start):
            continue
        first, last = int(start.min()), int(end.max())
        edges = first + (last - first) * np.arange(BINS + 1, dtype=np.int64) // BINS
        attrs |= {f"{word}_start_ns": first, f"{word}_end_ns": last}
        for class_code in np.unique(code).tolist():
            of = code == class_code
            columns[f"{word}_{class_code}"] = _time_between_edges(start[of], end[of], edges)
    overview = pd.DataFrame(columns, index=range(BINS))
    overview.attrs.update(attrs)
    return overview


def _device_time_by_class(
    side: RunSide, rank: int, codes: Codes | None
) -> tuple[Ints, Ints, Codes]:
    part = side.parts[rank]
    rows = np.flatnonzero(np.isin(part.table.kind, _DEVICE))
    start = part.table.start_ns[rows] + part.trace.shift_ns
    unknown = np.full(len(rows), len(CLASSES) - 1, np.uint8)
    return start, start + part.table.dur_ns[rows], unknown if codes is None else codes[rows]


def _time_between_edges(start: Ints, end: Ints, edges: Ints) -> Ints:
    """Return the time of intervals, which may overlap, between neighbouring edges."""
    first = edges[0]
    time = _distance_sums_before(start - first, edges - first) - _distance_sums_before(
        end - first, edges - first
    )
    times: Ints = np.diff(time)
    return times


def _distance_sums_before(marks: Ints, edges: Ints) -> Ints:
    """Return for each edge the sum of its distances from all marks before it."""
    marks = np.sort(marks)
    at = marks.searchsorted(edges)
    sums = np.concatenate([[0], np.cumsum(marks)])
    distances: Ints = at * edges - sums[at]
    return distances


class PairTable:
    """The pairs of a comparison."""

    def __init__(self, diff: Comparison, tree: pd.DataFrame) -> None:
        frame = pairs(diff)
        self._frame, self._changes = frame, changes(diff)
        self.statuses = [str(name) for name in frame["status"].cat.categories]
        self.status = frame["status"].cat.codes.to_numpy().astype(np.int64)
        self.rank = [frame[f"{side}_rank"].to_numpy() for side in ("before", "after")]
        self.id = [frame[f"{side}_id"].to_numpy() for side in ("before", "after")]
        self.kind = frame["kind"].cat.codes.to_numpy().astype(np.int64)
        self.node = _node_of_pairs(frame, tree)
        self.start, self.dur = (np.zeros((2, len(frame)), np.int64) for _ in range(2))
        #: by side and rank, the row of each event in the table of pairs, -1 for none
        self._row_of: tuple[dict[int, Ints], dict[int, Ints]] = ({}, {})
        for k, side in enumerate(diff.sides):
            for rank, part in side.parts.items():
                rows = np.flatnonzero((self.rank[k] == rank) & (self.id[k] >= 0))
                ids = self.id[k][rows]
                row_of = self._row_of[k][rank] = np.full(len(part.table), -1, np.int64)
                row_of[ids] = rows
                self.start[k, rows] = part.table.start_ns[ids] + part.trace.shift_ns
                self.dur[k, rows] = part.table.dur_ns[ids]
        self.classes = EventClasses(classes_of_pairs(frame), self._row_of, diff.rank_pairs)

    def partner_of(self, side: int, rank: int, event: int) -> Partner:
        """Return the status of an event, and rank and id of its partner."""
        rows = self._row_of[side].get(rank)
        row = -1 if rows is None or not 0 <= event < len(rows) else int(rows[event])
        if row < 0:
            return {"status": None, "rank": -1, "id": -1, "node": -1}
        other = 1 - side
        return {
            "status": self.statuses[self.status[row]],
            "rank": int(self.rank[other][row]),
            "id": int(self.id[other][row]),
            "node": int(self.node[row]),
        }

    def longest_links(self, side: int, start_ns: int, end_ns: int, most: int) -> Ties:
        """Return the longest pieces of device work in a window, with their partners."""
        start, dur = self.start[side], self.dur[side]
        is_in_window = (
            self.is_device & (self.id[side] >= 0) & (start < end_ns) & (start + dur > start_ns)
        )
        rows = np.flatnonzero(is_in_window & (self.id[1 - side] >= 0))
        size = np.maximum(self.dur[0][rows], self.dur[1][rows])
        rows = rows[np.argsort(-size, kind="stable")[:most]]
        return {
            "of": int(is_in_window.sum()),
            "ties": [
                [int(values[row]) for k in (0, 1) for values in (self.start[k], self.dur[k])]
                for row in rows.tolist()
            ],
        }

    def events_of(self, node: int, ranks: Ranks | None = None) -> PairEvents:
        """Return the events of one call path, by side, as (rank, id); of all ranks by default."""
        return self._events(np.flatnonzero((self.node == node) & (node >= 0)), ranks)

    def events_of_change(self, change: pd.Series, ranks: Ranks | None = None) -> PairEvents:
        """Return the events of a row of `hta_widgets.diff.changes`, by side, as (rank, id)."""
        return self._events(rows_of_change(self._frame, change), ranks)

    def _events(self, rows: Rows, ranks: Ranks | None) -> PairEvents:
        events = []
        for k in (0, 1):
            side_rows = rows[self.id[k][rows] >= 0]
            if ranks is not None:
                side_rows = side_rows[self.rank[k][side_rows] == ranks[k]]
            side_rows = side_rows[:MAX_MARKED]
            events.append(
                np.stack([self.rank[k][side_rows], self.id[k][side_rows]], axis=1).tolist()
            )
        return {"events": events}

    @property
    def is_device(self) -> Bools:
        """Whether each pair is device work."""
        return np.isin(self.kind, _DEVICE)

    def rows_of_changes(self) -> list[Ints]:
        """Return the pairs of each of the first changes."""
        count = min(len(self._changes), _MAX_CHANGES)
        return [rows_of_change(self._frame, self._changes.iloc[row]) for row in range(count)]


def _node_of_pairs(frame: pd.DataFrame, tree: pd.DataFrame) -> Ints:
    """Return the node of each pair; -1 if its call path is not in the tree."""
    node = {key: number for number, key in enumerate(zip(tree["path"], tree["name"], strict=True))}
    group = frame.groupby(["path", "name"], observed=True, sort=False).ngroup()
    keys = frame.loc[~group.duplicated(), ["path", "name"]].itertuples(index=False, name=None)
    nodes = np.array([node.get(key, -1) for key in keys], np.int64)
    pair_nodes: Ints = nodes[group.to_numpy()]
    return pair_nodes


class DiffAnswers:
    """Answers to the page of a comparison; computed on first request, and kept."""

    def __init__(self, both: Comparison, swapped: Any) -> None:
        self.both = both
        self._swapped = swapped
        self._kept: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, diff.Alignment] = {}
        self._pairs: dict[int, DiffAnswers] = {}
        self._named: dict[str, dict[str, list[str]]] = {}

    # --- facts ------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return the facts that the page shows before any frame."""
        both = self.both
        ranks = [len(side.ranks) for side in both.sides]
        facts = [
            f"{plural(ranks[0], 'rank')} each"
            if ranks[0] == ranks[1]
            else f"{ranks[0]} → {plural(ranks[1], 'rank')}"
        ]
        if both.before.has_steps:
            facts.append(plural(both.step_count, "step"))
        alone = [len(both.before_alone), len(both.after_alone)]
        formats = {part.trace.format for side in both.sides for part in side.parts.values()}
        matched = {"number": "by number", "order": "in their order", "whole": ""}[both.matched_by]
        matched += ", on the devices" * both.before.on_device
        steps = both.step_count + max(alone)
        return {
            "labels": [side.label for side in both.sides],
            "facts": " · ".join(facts),
            "conditions": conditions(both),
            "cautions": [{"kind": caution.kind, "text": caution.text} for caution in both.cautions],
            "rank_pairs": [list(pair) for pair in both.rank_pairs],
            "by_rank_means": both.by_rank_means,
            "steps": both.step_count if both.before.has_steps else 0,
            "matched": f"{both.step_count} of {plural(steps, 'step')} matched {matched}".strip()
            if both.before.has_steps
            else "no steps: the whole is compared",
            "all_matched": not any(alone),
            "kind_words": kind_labels(both),
            "has_events": self.has_events,
            "has_device": self.has_device,
            "is_small": self.is_small,
            "tables": self.tables if not self.has_events or formats != {"kineto"} else [],
        }

    @property
    def has_events(self) -> bool:
        """Whether both sides have events, not only totals."""
        return all(any(len(part.trace) for part in side.parts.values()) for side in self.both.sides)

    @property
    def has_device(self) -> bool:
        """Whether any side has device work."""
        return any(
            len(part.device_work_rows()) for side in self.both.sides for part in side.parts.values()
        )

    @property
    def events(self) -> int:
        """The number of compared events of both sides."""
        parts = (part for side in self.both.sides for part in side.parts.values())
        return sum(len(part.rows) for part in parts)

    @property
    def is_small(self) -> bool:
        """Whether the runs are so small that all answers together are fast."""
        return self.events <= _FEW_EVENTS

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables of formats and of `add_table`."""
        return [name for name in table_functions(self.both) if name not in _OWN_PLACE]

    # --- frames -----------------------------------------------------------------------------------

    def frame(self, name: str) -> dict[str, Any]:
        """Return a frame, as the page draws it."""
        name, _, pair = name.partition("@")
        if pair:
            return self.answers_of_pair(int(pair)).frame(name)
        if name not in self._kept:
            self._kept[name] = frame_to_json(self._frame(name))
        return self._kept[name]

    def frames(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return several frames, skipping failed ones, whose errors single requests get."""
        frames = {}
        for name in names:
            with suppress(Exception):
                frames[name] = self.frame(name)
        return frames

    def _frame(self, name: str) -> pd.DataFrame:
        kind, _, rest = name.partition(":")
        both = self.both
        match kind:
            case "slots":
                return self._mean_lanes(rest).slots
            case "segments":
                return self._mean_lanes(rest).segments()
            case "lanes":
                return mean_lanes(both, self._mean_lanes("steps"))
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
        frame = diff.waterfall(self.both, level, step=step)
        return _with_short_names(frame).head(_MAX_NAMES)

    def answers_of_pair(self, pair: int) -> DiffAnswers:
        """Return the answers of one pair of ranks."""
        count = len(self.both.rank_pairs)
        if not 0 <= pair < count:
            raise ValueError(f"no pair of ranks {pair}: they count from 0 to {count - 1}")
        if pair not in self._pairs:
            swapped_pair = self.both.rank_pairs[pair][::-1]

            def compare_swapped() -> Comparison:
                swapped_run = self._swapped()
                return comparison_of_pair(swapped_run, swapped_run.rank_pairs.index(swapped_pair))

            self._pairs[pair] = DiffAnswers(comparison_of_pair(self.both, pair), compare_swapped)
        return self._pairs[pair]

    def _mean_lanes(self, base: str) -> diff.Alignment:
        if base not in self._lines:
            kind: Base = base  # type: ignore[assignment]
            self._lines[base] = diff.align(self.both, kind)
        return self._lines[base]

    def _names(self, step: int | None) -> pd.DataFrame:
        both = self.both if step is None else comparison_of_step(self.both, step)
        device: Any = "gpu" if self.has_device else "cpu"
        table = diff.names(both, device=device, short_names=True)
        if not len(table):
            # Some formats do not separate host and device.
            device = "all"
            table = diff.names(both, device=device, short_names=True)
        names = table.head(_MAX_NAMES)[
            ["name", "kind", "before_count", "after_count", "before_ns", "after_ns", "diff_ns",
             "change", "replaced_by"]
        ].copy()  # fmt: skip
        members = self._names_by_short_name(device)
        names["members"] = [members.get(name, [name]) for name in names["name"].tolist()]
        names.attrs = {**table.attrs, "device": device, "names": len(table)}
        return names

    def _names_by_short_name(self, device: Any) -> dict[str, list[str]]:
        """Return the names of all steps behind each short name, those that differ most first."""
        if device not in self._named:
            members: dict[str, list[str]] = {}
            for name in diff.names(self.both, device=device)["name"].tolist():
                members.setdefault(short_name(name), []).append(name)
            self._named[device] = members
        return self._named[device]

    @cached_property
    def tree(self) -> pd.DataFrame:
        """The call paths of the compared device work; those of the hosts if there is none."""
        paths = diff.icicle(self.both, "device" if self.has_device else "host")
        return paths if len(paths) else diff.icicle(self.both, "host")

    # --- pairs ------------------------------------------------------------------------------------

    @cached_property
    def pair_table(self) -> PairTable:
        """The pairs of events."""
        return PairTable(self.both, self.tree)

    @cached_property
    def overview(self) -> pd.DataFrame:
        """The device time of each event class in `BINS` equal intervals of each side."""
        return class_overview(self.both, self.pair_table.classes)

    def classes_of(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank; None if the rank is not compared."""
        return self.pair_table.classes.of_rank(side, rank)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer one request about the comparison."""
        return answer(request, self)

    def _on_frame(self, request: operations.FrameRequest) -> Answer:
        return self.frame(request.name), None

    def _on_frames(self, request: operations.FramesRequest) -> Answer:
        return {"frames": self.frames(request.names)}, None

    def _on_partner(self, request: operations.PartnerRequest) -> Answer:
        partner = self.pair_table.partner_of(request.of, request.rank, request.id)
        if request.pair is not None:
            # A pair of ranks has its own tree.
            node = matching_node(
                self.tree, partner["node"], self.answers_of_pair(request.pair).tree
            )
            partner = {**partner, "node": node}
        return partner, None

    def _on_ties(self, request: operations.TiesRequest) -> Answer:
        return self.pair_table.longest_links(
            request.of, request.start, request.end, request.most
        ), None

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
            raise ValueError(f"no change {request.row} among {len(changes)}")
        return self.pair_table.events_of_change(changes.iloc[request.row], ranks), None

    def _on_classes(self, _request: operations.ClassesRequest) -> Answer:
        return self.pair_table.classes.counts(), None


def comparison_of_step(both: Comparison, step: int) -> Comparison:
    """Return the comparison of one pair of steps."""
    before, after = (side.of_steps(np.array([step])) for side in both.sides)
    none = np.empty(0, np.int64)
    return replace(
        both,
        before=before,
        after=after,
        before_alone=none,
        after_alone=none,
        part_of=(both, step),
    )


def comparison_of_pair(both: Comparison, pair: int) -> Comparison:
    """Return the comparison of one pair of ranks."""
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
    """Return the node of another tree with the same name and path; -1 for none."""
    if not 0 <= node < len(tree):
        return -1
    path, name = tree["path"].iloc[node], tree["name"].iloc[node]
    nodes = np.flatnonzero((other["path"] == path) & (other["name"] == name))
    return int(nodes[0]) if len(nodes) else -1


def mean_lanes(both: Comparison, line: diff.Alignment) -> pd.DataFrame:
    """Return `hta_widgets.diff.align.lanes` as means over the pairs of ranks."""
    count = len(both.rank_pairs)
    parts = [lanes(both, line, pair=pair) for pair in range(count)]
    if count == 1:
        return parts[0]
    keys = ["slot", "side", "lane", "cell"]
    mean_shares = pd.concat(parts, ignore_index=True).groupby(keys, sort=True, as_index=False).sum()
    mean_shares["busy_ns"] //= count
    mean_shares.attrs = {**parts[0].attrs, "pairs": count}
    return mean_shares


def _with_short_names(frame: pd.DataFrame) -> pd.DataFrame:
    if "name" not in frame:
        return frame
    return frame.assign(short=[short_name(name) for name in frame["name"].tolist()])


def _largest_nodes(tree: pd.DataFrame) -> pd.DataFrame:
    """Return the largest nodes of a call tree, without the columns that the page does not show."""
    size = np.maximum(tree["before_ns"].to_numpy(), tree["after_ns"].to_numpy())
    if len(tree) > _MAX_NODES:
        # A node is at least as large as those below it, so the rest is still a tree.
        tree = tree[size >= np.sort(size)[-_MAX_NODES]]
    return tree[
        ["node", "parent", "depth", "name", "kind", "before_count", "after_count", "before_ns",
         "after_ns", "status"]
    ]  # fmt: skip


def compute_first_frames(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> Iterator[None]:
    """Compute the first frames that `js/src/compare/charts.ts` requests, one per iteration.

    They are kept, so that the page's requests only fetch them.
    """
    shown = answers if pair is None else answers.answers_of_pair(pair)
    yield
    for name in (f"segments:{base}", f"slots:{base}"):
        answers.frame(name)
    findings = "findings:swapped" if swapped else "findings"
    lanes = ("slots:steps", "lanes") if answers.has_device else ()
    for name in ("waterfall:kind", "steps", *lanes, "names", "changes", findings, "icicle"):
        yield
        shown.frame(name)
    # The page expands the largest kind.
    largest = shown.frame("waterfall:kind")["columns"]["kind"][:1]
    yield
    shown.frame("waterfall:cause" if largest == ["idle"] else "waterfall:operator")
    yield
    answers.answer({"op": "classes"})


def compute_frames_ahead(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> None:
    """Run `compute_first_frames` in the kernel's event loop, one per callback, as the page loads.

    Requests of the page are answered in between. Without a running loop, or for large runs, nothing
    is prepared.
    """
    if not answers.has_events or answers.events > _MAX_EVENTS:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    work = compute_first_frames(answers, base, swapped=swapped, pair=pair)

    def advance() -> None:
        try:
            next(work)
        except Exception:  # noqa: BLE001 - the page requests it again, and gets the error
            return
        loop.call_later(_PAUSE_S, advance)

    loop.call_soon(advance)

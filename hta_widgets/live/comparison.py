"""Answers about two runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import diff
from hta_widgets.diff.align import Base, lanes
from hta_widgets.diff.changes import changes
from hta_widgets.diff.compare import Comparison, RunSide, conditions
from hta_widgets.diff.findings import kind_labels
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.tables import makers
from hta_widgets.live import operations
from hta_widgets.live.event_classes import CLASSES, Codes, EventClasses, rows_of_change
from hta_widgets.live.operations import Answer, answer
from hta_widgets.panels.frames import as_json
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.trace.names import short_name

#: A minimap is about as many px wide.
BINS = 600
_DEVICE = [KINDS.index(kind) for kind in ("compute", "communication", "memory")]
_SIDES = ("before", "after")

Ints = npt.NDArray[np.int64]


def class_overview(both: Comparison, classes: EventClasses) -> pd.DataFrame:
    """Return the time of device work of each class in equal parts of both sides."""
    columns: dict[str, Ints] = {}
    attrs: dict[str, int] = {}
    for place, (word, side) in enumerate(zip(_SIDES, both.sides, strict=True)):
        work = [_device(side, rank, classes.of_rank(place, rank)) for rank in side.parts]
        start, end, code = (np.concatenate(column) for column in zip(*work, strict=True))
        if not len(start):
            continue
        edges = _edges(int(start.min()), int(end.max()))
        attrs |= {f"{word}_start_ns": int(edges[0]), f"{word}_end_ns": int(edges[-1])}
        for one in np.unique(code).tolist():
            of = code == one
            columns[f"{word}_{one}"] = _time_in(start[of], end[of], edges)
    found = pd.DataFrame(columns, index=range(BINS))
    found.attrs.update(attrs)
    return found


def _edges(start: int, end: int) -> Ints:
    return start + (end - start) * np.arange(BINS + 1, dtype=np.int64) // BINS


def _device(side: RunSide, rank: int, codes: Codes | None) -> tuple[Ints, Ints, Codes]:
    part = side.parts[rank]
    rows = np.flatnonzero(np.isin(part.table.kind, _DEVICE))
    start = part.table.start_ns[rows] + part.trace.shift_ns
    unknown = np.full(len(rows), len(CLASSES) - 1, np.uint8)
    return start, start + part.table.dur_ns[rows], unknown if codes is None else codes[rows]


def _time_in(start: Ints, end: Ints, edges: Ints) -> Ints:
    """Return what intervals, which may overlap, take between neighbouring edges."""
    first = edges[0]
    time = _before(start - first, edges - first) - _before(end - first, edges - first)
    found: Ints = np.diff(time)
    return found


def _before(marks: Ints, edges: Ints) -> Ints:
    """Return the sum of the distances from all marks before each edge to it."""
    marks = np.sort(marks)
    at = marks.searchsorted(edges)
    sums = np.concatenate([[0], np.cumsum(marks)])
    found: Ints = at * edges - sums[at]
    return found


#: One before and one after.
Ranks = tuple[int, int]

#: More events of one call path are not marked.
MOST_EVENTS = 20_000
#: More changes have no events to mark in a saved page.
_MOST_CHANGES = 60
_DEVICE_COLUMNS = ("compute", "communication", "memory")


class PairTable:
    """The pairs of a comparison."""

    def __init__(self, diff: Comparison, tree: pd.DataFrame) -> None:
        frame = pairs(diff)
        self._frame, self._changes = frame, changes(diff)
        self.classes = EventClasses(diff, frame)
        self.statuses = [str(name) for name in frame["status"].cat.categories]
        self.status = frame["status"].cat.codes.to_numpy().astype(np.int64)
        self.rank = [frame[f"{side}_rank"].to_numpy() for side in ("before", "after")]
        self.id = [frame[f"{side}_id"].to_numpy() for side in ("before", "after")]
        self.kind = frame["kind"].cat.codes.to_numpy().astype(np.int64)
        self.node = _nodes(frame, tree)
        self.start, self.dur = zip(
            *(
                _times(side, rank, ids)
                for side, rank, ids in zip(diff.sides, self.rank, self.id, strict=True)
            ),
            strict=True,
        )
        self._row_of = [
            _rows_by_id(side, rank, ids)
            for side, rank, ids in zip(diff.sides, self.rank, self.id, strict=True)
        ]

    def partner(self, side: int, rank: int, event: int) -> dict[str, Any]:
        """Return what became of an event: its status, and rank and id on the other side."""
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

    def ties(self, side: int, start_ns: int, end_ns: int, most: int) -> dict[str, Any]:
        """Return the longest pieces of device work in a window, with their partners."""
        device = self.is_device
        start, dur = self.start[side], self.dur[side]
        there = device & (self.id[side] >= 0) & (start < end_ns) & (start + dur > start_ns)
        rows = np.flatnonzero(there & (self.id[1 - side] >= 0))
        size = np.maximum(self.dur[0][rows], self.dur[1][rows])
        rows = rows[np.argsort(-size, kind="stable")[:most]]
        return {
            "of": int(there.sum()),
            "ties": [
                [int(values[row]) for k in (0, 1) for values in (self.start[k], self.dur[k])]
                for row in rows.tolist()
            ],
        }

    def events_of(self, node: int, ranks: Ranks | None = None) -> dict[str, Any]:
        """Return the events of one call path, by side, as (rank, id); of all ranks by default."""
        return self._events(np.flatnonzero((self.node == node) & (node >= 0)), ranks)

    def events_of_change(self, change: pd.Series, ranks: Ranks | None = None) -> dict[str, Any]:
        """Return the events of a row of `hta_widgets.diff.changes`, by side, as (rank, id)."""
        return self._events(rows_of_change(self._frame, change), ranks)

    def _events(self, rows: npt.NDArray[np.intp], ranks: Ranks | None) -> dict[str, Any]:
        found = []
        for k in (0, 1):
            there = rows[self.id[k][rows] >= 0]
            if ranks is not None:
                there = there[self.rank[k][there] == ranks[k]]
            there = there[:MOST_EVENTS]
            found.append(np.stack([self.rank[k][there], self.id[k][there]], axis=1).tolist())
        return {"events": found}

    @property
    def is_device(self) -> npt.NDArray[np.bool_]:
        """Whether each pair is device work."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in _DEVICE_COLUMNS])

    def rows_of_changes(self) -> list[Ints]:
        """Return the pairs of each of the first changes."""
        count = min(len(self._changes), _MOST_CHANGES)
        return [rows_of_change(self._frame, self._changes.iloc[row]) for row in range(count)]


def _nodes(frame: pd.DataFrame, tree: pd.DataFrame) -> Ints:
    """Return the node of each pair, -1 where the tree does not draw its call path."""
    node = {
        (path, name): number
        for number, (path, name) in enumerate(
            zip(tree["path"].tolist(), tree["name"].tolist(), strict=True)
        )
    }
    paths, names = frame["path"].cat, frame["name"].cat
    packed = paths.codes.to_numpy().astype(np.int64) * (len(names.categories) + 1)
    packed += names.codes.to_numpy()
    distinct, inverse = np.unique(packed, return_inverse=True)
    path_texts, name_texts = list(paths.categories), list(names.categories)
    width = len(name_texts) + 1
    numbers = np.array(
        [node.get((path_texts[k // width], name_texts[k % width]), -1) for k in distinct.tolist()],
        dtype=np.int64,
    )
    found: Ints = numbers[inverse] if len(numbers) else np.empty(0, np.int64)
    return found


def _rows_by_id(side: RunSide, rank: Ints, ids: Ints) -> dict[int, Ints]:
    """Return by rank the row of each event, by its id; -1 for none."""
    found = {}
    for number, part in side.parts.items():
        rows = np.flatnonzero((rank == number) & (ids >= 0))
        found[number] = np.full(len(part.table), -1, np.int64)
        found[number][ids[rows]] = rows
    return found


def _times(side: RunSide, rank: Ints, ids: Ints) -> tuple[Ints, Ints]:
    start, dur = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    for number, part in side.parts.items():
        rows = np.flatnonzero((rank == number) & (ids >= 0))
        start[rows] = part.table.start_ns[ids[rows]] + part.trace.shift_ns
        dur[rows] = part.table.dur_ns[ids[rows]]
    return start, dur


#: Tables that have a place of their own in the page.
_OWN_PLACE = {"waterfall", "steps", "changes", "names", "operators"}
_MOST_NAMES = 2000
_MOST_NODES = 6000
_MOST_ROWS = 300
#: Events of both sides. With more, all answers together take longer than users call an instant.
_FEW_EVENTS = 250_000


class DiffAnswers:
    """What the page asks of a comparison; made when it is asked for, and kept."""

    def __init__(self, both: Comparison, swapped: Any) -> None:
        self.both = both
        self._swapped = swapped
        self._kept: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, diff.Alignment] = {}
        self._pairs: dict[int, DiffAnswers] = {}

    # --- what is there at once --------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what the page says before any frame is made."""
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
        matched = {"number": "by number", "order": "in their order", "whole": ""}[both.matched_by]
        whole = both.step_count + max(alone)
        return {
            "labels": [side.label for side in both.sides],
            "facts": " · ".join(facts),
            "conditions": conditions(both),
            "cautions": [{"kind": one.kind, "text": one.text} for one in both.cautions],
            "rank_pairs": [list(pair) for pair in both.rank_pairs],
            "by_rank_means": both.by_rank_means,
            "steps": both.step_count if both.before.has_steps else 0,
            "matched": f"{both.step_count} of {plural(whole, 'step')} matched {matched}".strip()
            if both.before.has_steps
            else "no steps: the whole is compared",
            "all_matched": not any(alone),
            "kind_words": kind_labels(both),
            "has_events": self.has_events,
            "has_device": self.has_device,
            "is_small": self.is_small,
            "tables": self.tables if not self.has_events or self._other_format else [],
        }

    @property
    def has_events(self) -> bool:
        """Whether there is anything with a time."""
        return all(any(len(part.trace) for part in side.parts.values()) for side in self.both.sides)

    @property
    def has_device(self) -> bool:
        """Whether any side has device work."""
        return any(
            len(part.busy_rows()) for side in self.both.sides for part in side.parts.values()
        )

    @property
    def events(self) -> int:
        """How many events are compared, of both sides."""
        parts = (part for side in self.both.sides for part in side.parts.values())
        return sum(len(part.rows) for part in parts)

    @property
    def is_small(self) -> bool:
        """Whether all answers together are a matter of an instant."""
        return self.events <= _FEW_EVENTS

    @property
    def _other_format(self) -> bool:
        return any(
            part.trace.format != "kineto"
            for side in self.both.sides
            for part in side.parts.values()
        )

    @cached_property
    def tables(self) -> list[str]:
        """Return the names of tables that only some formats have."""
        return [name for name in makers(self.both) if name not in _OWN_PLACE]

    # --- frames -----------------------------------------------------------------------------------

    def frame(self, name: str) -> dict[str, Any]:
        """Return a frame, as the page draws it."""
        name, _, pair = name.partition("@")
        if pair:
            return self.of_pair(int(pair)).frame(name)
        if name not in self._kept:
            self._kept[name] = self._made(name)
        return self._kept[name]

    def frames(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return several frames; who asks for one that cannot be made by itself hears why."""
        found = {}
        for name in names:
            with suppress(Exception):
                found[name] = self.frame(name)
        return found

    def _made(self, name: str) -> dict[str, Any]:
        what, _, rest = name.partition(":")
        both = self.both
        if what == "slots":
            return as_json(self._line(rest).slots)
        if what == "segments":
            return as_json(self._line(rest).segments())
        if what == "lanes":
            return as_json(mean_lanes(both, self._line("steps")))
        if what == "waterfall":
            level, _, step = rest.partition(":")
            found = diff.waterfall(both, level, step=int(step) if step else None)  # type: ignore[arg-type]
            return as_json(_with_short(found).head(_MOST_NAMES))
        if what == "names":
            return as_json(self._names(int(rest) if rest else None))
        if what == "steps":
            return as_json(diff.steps(both))
        if what == "icicle":
            return as_json(_with_short(_cut(self.tree)))
        if what == "findings":
            told = diff.findings(self._swapped() if rest == "swapped" else both)
            return as_json(pd.DataFrame(told, columns=["kind", "text", "diff_ns"]))
        if what == "changes":
            return as_json(_with_short(diff.changes(both)).head(_MOST_ROWS))
        if what == "overview":
            return as_json(self.overview)
        if what == "table":
            found = makers(both)[rest](both)
            shown = found.head(_MOST_ROWS)
            shown.attrs = {**found.attrs, "rows": len(found)}
            return as_json(shown)
        raise ValueError(f"a comparison has no frame {name!r}")

    def of_pair(self, pair: int) -> DiffAnswers:
        """Return the answers of one pair of ranks alone."""
        if not 0 <= pair < len(self.both.rank_pairs):
            raise ValueError(f"there is no pair of ranks {pair}: {len(self.both.rank_pairs)} are")
        if pair not in self._pairs:
            turned_pair = self.both.rank_pairs[pair][::-1]

            def swapped() -> Comparison:
                whole = self._swapped()
                return one_pair(whole, whole.rank_pairs.index(turned_pair))

            self._pairs[pair] = DiffAnswers(one_pair(self.both, pair), swapped)
        return self._pairs[pair]

    def _line(self, base: str) -> diff.Alignment:
        if base not in self._lines:
            kind: Base = base  # type: ignore[assignment]
            self._lines[base] = diff.align(self.both, kind)
        return self._lines[base]

    def _names(self, step: int | None) -> pd.DataFrame:
        both = self.both if step is None else one_step(self.both, step)
        device: Any = "gpu" if self.has_device else "cpu"
        found = diff.names(both, device=device, short_names=True)
        if not len(found):
            # Of some formats nothing is told apart by device.
            device = "all"
            found = diff.names(both, device=device, short_names=True)
        rows = len(found)
        found = found.head(_MOST_NAMES)
        full = diff.names(both, device=device)["name"].tolist()
        members: dict[str, list[str]] = {}
        for name in full:
            members.setdefault(short_name(name), []).append(name)
        attrs = dict(found.attrs)
        found = found[
            ["name", "kind", "before_count", "after_count", "before_ns", "after_ns", "diff_ns",
             "change", "replaced_by"]
        ].copy()  # fmt: skip
        found["members"] = [members.get(name, [name]) for name in found["name"].tolist()]
        found.attrs = {**attrs, "device": device, "names": rows}
        return found

    @cached_property
    def tree(self) -> pd.DataFrame:
        """The call paths of the work that is compared: of devices, else of hosts."""
        found = diff.icicle(self.both, "device" if self.has_device else "host")
        return found if len(found) else diff.icicle(self.both, "host")

    # --- pairs ------------------------------------------------------------------------------------

    @cached_property
    def pair_table(self) -> PairTable:
        """Which event's partner is which."""
        return PairTable(self.both, self.tree)

    @cached_property
    def overview(self) -> pd.DataFrame:
        """The device work of each class in equal parts of both sides."""
        return class_overview(self.both, self.pair_table.classes)

    def classes_of(self, side: int, rank: int) -> Codes | None:
        """Return what became of each event of a rank, as a class; None where that is not known."""
        return self.pair_table.classes.of_rank(side, rank)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer what only a comparison knows."""
        return answer(request, self)

    def _on_frame(self, request: operations.Frame) -> Answer:
        return self.frame(request.name), None

    def _on_frames(self, request: operations.Frames) -> Answer:
        return {"frames": self.frames(request.names)}, None

    def _on_partner(self, request: operations.Partner) -> Answer:
        found = self.pair_table.partner(request.of, request.rank, request.id)
        if request.pair is not None:
            # A pair of ranks has a tree of its own.
            node = same_path(self.tree, found["node"], self.of_pair(request.pair).tree)
            found = {**found, "node": node}
        return found, None

    def _on_ties(self, request: operations.Ties) -> Answer:
        return self.pair_table.ties(request.of, request.start, request.end, request.most), None

    def _on_path_events(self, request: operations.PathEvents) -> Answer:
        if request.pair is None:
            return self.pair_table.events_of(request.node), None
        own = self.of_pair(request.pair)
        node = same_path(own.tree, request.node, self.tree)
        return self.pair_table.events_of(node, own.both.rank_pairs[0]), None

    def _on_change_events(self, request: operations.ChangeEvents) -> Answer:
        own = self if request.pair is None else self.of_pair(request.pair)
        ranks = None if request.pair is None else own.both.rank_pairs[0]
        change = diff.changes(own.both).iloc[request.row]
        return self.pair_table.events_of_change(change, ranks), None

    def _on_classes(self, _request: operations.ClassesOf) -> Answer:
        return self.pair_table.classes.counts(), None


def one_step(both: Comparison, step: int) -> Comparison:
    """Return the comparison of one pair of steps."""
    places = np.array([step])
    none = np.empty(0, np.int64)
    return replace(
        both,
        before=both.before.of_steps(places),
        after=both.after.of_steps(places),
        before_alone=none,
        after_alone=none,
    )


def one_pair(both: Comparison, pair: int) -> Comparison:
    """Return the comparison of one pair of ranks."""
    ranks = both.rank_pairs[pair]
    before, after = (
        replace(side, parts={rank: side.parts[rank]}, windows={rank: side.windows[rank]})
        for side, rank in zip(both.sides, ranks, strict=True)
    )
    return replace(both, before=before, after=after, rank_pairs=[ranks], by_rank_means=False)


def same_path(tree: pd.DataFrame, node: int, other: pd.DataFrame) -> int:
    """Return the node of another tree that is called alike on the same path; -1 for none."""
    if node < 0:
        return -1
    path, name = tree["path"].iloc[node], tree["name"].iloc[node]
    found = np.flatnonzero((other["path"] == path) & (other["name"] == name))
    return int(found[0]) if len(found) else -1


def mean_lanes(both: Comparison, line: diff.Alignment) -> pd.DataFrame:
    """Return `hta_widgets.diff.lanes.lanes` as means over the pairs of ranks."""
    count = len(both.rank_pairs)
    parts = [lanes(both, line, pair=pair) for pair in range(count)]
    if count == 1:
        return parts[0]
    keys = ["slot", "side", "lane", "cell"]
    found = pd.concat(parts, ignore_index=True).groupby(keys, sort=True, as_index=False).sum()
    found["busy_ns"] //= count
    found.attrs = {**parts[0].attrs, "pairs": count}
    return found


def _with_short(frame: pd.DataFrame) -> pd.DataFrame:
    if "name" in frame:
        attrs = dict(frame.attrs)
        frame = frame.assign(short=[short_name(name) for name in frame["name"].tolist()])
        frame.attrs = attrs
    return frame


def _cut(tree: pd.DataFrame) -> pd.DataFrame:
    """Leave out what would be too small to see, and how it is called from outside."""
    attrs = dict(tree.attrs)
    size = np.maximum(tree["before_ns"].to_numpy(), tree["after_ns"].to_numpy())
    if len(tree) > _MOST_NODES:
        floor = float(np.sort(size)[-_MOST_NODES])
        # A node is at least as large as those below it: what is left is a tree.
        tree = tree[size >= floor]
    tree = tree[
        ["node", "parent", "depth", "name", "kind", "before_count", "after_count", "before_ns",
         "after_ns", "status"]
    ]  # fmt: skip
    tree.attrs = attrs
    return tree


#: Of both sides. Of more, one answer may keep the next cell waiting for too long.
_MOST_EVENTS = 1_000_000
#: Between two answers the kernel takes what it was asked, one request in each round of its loop.
_PAUSE_S = 0.002


def first_answers(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> Iterator[None]:
    """Make what `js/src/compare/charts.ts` asks for at first, one answer at a time.

    They are kept, so that the page's own asking costs no more than the way there and back.
    """
    shown = answers if pair is None else answers.of_pair(pair)
    yield
    for name in (f"segments:{base}", f"slots:{base}"):
        answers.frame(name)
    findings = "findings:swapped" if swapped else "findings"
    lanes = ("slots:steps", "lanes") if answers.has_device else ()
    for name in ("waterfall:kind", "steps", *lanes, "names", "changes", findings, "icicle"):
        yield
        shown.frame(name)
    # The page unfolds the largest kind.
    largest = shown.frame("waterfall:kind")["columns"]["kind"][:1]
    yield
    shown.frame("waterfall:cause" if largest == ["idle"] else "waterfall:operator")
    yield
    answers.answer({"op": "classes"})


def answer_ahead(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> None:
    """Begin with `first_answers`, each in a turn of its own of the kernel's event loop.

    A page takes a while to load, in which the kernel has nothing else to do; what it is asked
    meanwhile comes in between. Where no such loop runs, and of large runs, the page asks first.
    """
    if not answers.has_events or answers.events > _MOST_EVENTS:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    work = first_answers(answers, base, swapped=swapped, pair=pair)

    def turn() -> None:
        try:
            next(work)
        except Exception:  # noqa: BLE001 - the page asks for it itself, and hears why it fails
            return
        loop.call_later(_PAUSE_S, turn)

    loop.call_soon(turn)

"""The frames that a page of a comparison draws, by name, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import diff
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.alignment import Base
from hta_widgets.diff.cautions import conditions
from hta_widgets.formats.byteps.format_findings import kind_labels
from hta_widgets.diff.lanes import lanes
from hta_widgets.diff.tables import makers
from hta_widgets.live.class_overview import class_overview
from hta_widgets.live.class_overview import class_parts
from hta_widgets.live.event_classes import CLASSES
from hta_widgets.live.event_classes import Codes
from hta_widgets.export.svg.event_looks import GROUPS
from hta_widgets.export.svg.event_looks import looks
from hta_widgets.live.pair_table import PairTable
from hta_widgets.export.svg.class_colours import Classed
from hta_widgets.text import plural
from hta_widgets.trace.names import short_name
from hta_widgets.panels.reply import as_json

__all__ = ["DiffAnswers"]

#: Tables that have a place of their own in the page.
_OWN_PLACE = {"waterfall", "steps", "changes", "names", "operators"}
_MOST_NAMES = 2000
_MOST_NODES = 6000
_MOST_ROWS = 300
#: Events of both sides. With more, all answers together take longer than users call an instant.
_FEW_EVENTS = 250_000


class DiffAnswers:
    """What the page asks of a comparison; made when it is asked for, and kept.

    Parameters
    ----------
    both : Comparison
        Its sides as the user gave them.
    swapped : function
        Makes the comparison the other way round, for its sentences.
    """

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
        """Return a frame, as the page draws it.

        Parameters
        ----------
        name : str
            ``slots:BASE, segments:BASE, lanes, waterfall:LEVEL[:STEP], names[:STEP], steps,
            icicle, findings, findings:swapped, changes, overview, table:NAME``; with ``@PAIR``
            behind it, of one pair of ranks alone.
        """
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
            return as_json(_with_short(_cut(self._tree)))
        if what == "findings":
            told = diff.findings(self._swapped() if rest == "swapped" else both)
            return as_json(pd.DataFrame(told, columns=["kind", "text", "diff_ns"]))
        if what == "changes":
            return as_json(_with_short(diff.changes(both)).head(_MOST_ROWS))
        if what == "overview":
            return as_json(self._overview)
        if what == "table":
            found = makers(both)[rest](both)
            shown = found.head(_MOST_ROWS)
            shown.attrs = {**found.attrs, "rows": len(found)}
            return as_json(shown)
        raise ValueError(f"a comparison has no frame {name!r}")

    def of_pair(self, pair: int) -> DiffAnswers:
        """Return the answers of one pair of ranks alone.

        Raises
        ------
        ValueError
            If there is no such pair.
        """
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
    def _tree(self) -> pd.DataFrame:
        found = diff.icicle(self.both, "device" if self.has_device else "host")
        return found if len(found) else diff.icicle(self.both, "host")

    # --- pairs ------------------------------------------------------------------------------------

    @cached_property
    def pair_table(self) -> PairTable:
        """Which event's partner is which."""
        return PairTable(self.both, self._tree)

    @cached_property
    def _overview(self) -> pd.DataFrame:
        return class_overview(self.both, self.pair_table.classes)

    def classed(self, side: int, theme: str) -> Classed:
        """Return what pictures of a side need to be coloured by what became of each event."""
        counts = self.pair_table.classes.counts()["counts"]
        there = {code for side_ in counts for code, count in enumerate(side_) if count}
        groups = [
            (name, [code for code in map(CLASSES.index, names) if code in there])
            for name, names in GROUPS
        ]
        return Classed(
            partial(self.classes_of, side),
            looks(theme),
            [(name, codes) for name, codes in groups if codes],
            class_parts(self._overview, side),
        )

    def classes_of(self, side: int, rank: int) -> Codes | None:
        """Return what became of each event of a rank, as a class; None where that is not known."""
        return self.pair_table.classes.of_rank(side, rank)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Answer what only a comparison knows; None for any other request."""
        op = request["op"]
        if op == "frame":
            return self.frame(str(request["name"]))
        if op == "frames":
            return {"frames": self.frames(map(str, request["names"]))}
        pair = request.get("pair")
        if pair is not None and op in {"partner", "path_events", "change_events"}:
            return self._of_pair_answer(request, self.of_pair(int(pair)))
        if op == "partner":
            return self._partner(request)
        if op == "ties":
            return self.pair_table.ties(
                int(request["of"]), int(request["start"]), int(request["end"]), int(request["most"])
            )
        if op == "path_events":
            return self.pair_table.events_of(int(request["node"]))
        if op == "change_events":
            change = diff.changes(self.both).iloc[int(request["row"])]
            return self.pair_table.events_of_change(change)
        if op == "classes":
            return self.pair_table.classes.counts()
        return None

    def _partner(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self.pair_table.partner(int(request["of"]), int(request["rank"]), int(request["id"]))

    def _of_pair_answer(self, request: Mapping[str, Any], own: DiffAnswers) -> dict[str, Any]:
        """Answer with the changes and the tree of one pair of ranks, and its calls alone."""
        ranks, op = own.both.rank_pairs[0], request["op"]
        if op == "partner":
            found = self._partner(request)
            return {**found, "node": same_path(self._tree, found["node"], own._tree)}
        if op == "path_events":
            node = same_path(own._tree, int(request["node"]), self._tree)
            return self.pair_table.events_of(node, ranks)
        change = diff.changes(own.both).iloc[int(request["row"])]
        return self.pair_table.events_of_change(change, ranks)


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

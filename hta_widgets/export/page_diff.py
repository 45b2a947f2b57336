"""Save a comparison as one page: frames, pairs of events, and the steps and sides that fit."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hta_widgets import diff
from hta_widgets.diff.align import BASES
from hta_widgets.export.page import embed
from hta_widgets.export.page_format import (
    Block,
    ColumnWriter,
    Content,
    ascii_json,
    packed,
    save_page,
)
from hta_widgets.live.comparison import DiffAnswers, PairTable
from hta_widgets.live.job import TileEngine
from hta_widgets.text import plural

_CODE = ("diff.js", "state.js", "diff.css")
#: Bytes of the document, the footer and the tags of blocks.
_FRAME_BYTES = 12_000
#: The dimensions that divide the kinds of the waterfall.
LEVELS = ("kind", "cause", "operator", "kernel")
#: Shares of single steps and of single pairs of ranks in the bytes that are left after code,
#: whole frames and pairs. More frames would take too long to compute.
_STEPS_SHARE = 0.25
_PAIRS_SHARE = 0.15
_MOST_STEPS = 200
_MOST_PAIRS = 64
_MOST_NAMES = 100
#: Number of parts of a kind that the page draws (`js/src/compare/waterfall.ts`).
_MOST_PARTS = 8
_SIDES = ("before", "after")

Side = tuple[TileEngine, dict[str, Any], dict[str, Any]]


def save_diff(
    path: str | os.PathLike[str],
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    *,
    max_mb: float = 25,
) -> str:
    """Write a comparison as one self-contained page."""
    return save_page(
        path,
        " → ".join(traits["_about"]["labels"]),
        _CODE,
        [engine for engine, _, _ in sides],
        lambda room, saved_at: held(answers, sides, traits, room - _FRAME_BYTES, saved_at),
        max_mb=max_mb,
        least_mb=1,
        remedy="Code, words and frames of a page take about as much.",
    )


def held(
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
) -> Content:
    """Return the content of a page of a comparison; both runs' events get the remaining bytes.

    Whole frames and pairs of events are always included.
    """
    saved_at = saved_at or datetime.now(UTC)
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    own = [packed("frames", ascii_json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = pair_columns(answers.pair_table)
        own.append(columns.block("pairs"))
        document["pairs"] = {
            "columns": columns.specs,
            "statuses": answers.pair_table.statuses,
            **answers.pair_table.classes.counts(),
        }
    fixed = sum(block.size_bytes for block in own)
    steps = HeldSteps(answers, (limit_bytes - fixed) * _STEPS_SHARE)
    pairs = HeldPairs(answers, (limit_bytes - fixed) * _PAIRS_SHARE)
    fixed += steps.size_bytes + pairs.size_bytes
    document["traits"]["_about"] = {**traits["_about"], **steps.about(), **pairs.about()}
    sizes: list[tuple[str, int]] = []
    words: list[str] = []
    blocks: list[Block] = []
    for place, (side, word) in enumerate(zip(sides, _SIDES, strict=True)):
        left = limit_bytes - fixed - sum(block.size_bytes for block in blocks)
        made = embed(*side, left / (len(sides) - place), saved_at, widget="timeline")
        of_side = [packed("document", ascii_json(made.document)), *made.blocks]
        blocks += [replace(block, name=f"{word}-{block.name}") for block in of_side]
        sizes += [(f"{word}: {name}", size) for name, size in made.sizes]
        words.append(f"{word.capitalize()}: {made.words}")
    sizes += [
        ("frames and pairs", sum(block.size_bytes for block in own)),
        ("single steps", steps.size_bytes),
        ("single pairs of ranks", pairs.size_bytes),
    ]
    words += [text for text in (steps.words, pairs.words) if text]
    blocks = [*own, *steps.blocks, *pairs.blocks, *blocks]
    return Content(document, blocks, sizes, " ".join(words))


def _frame_names(answers: DiffAnswers) -> list[str]:
    names = [f"table:{name}" for name in answers.about()["tables"]]
    names += ["findings", "findings:swapped"]
    if not answers.has_events:
        return names
    names += [f"{what}:{base}" for base in BASES for what in ("slots", "segments")]
    names += ["lanes", *(f"waterfall:{level}" for level in LEVELS)]
    names += ["names", "steps", "changes", "icicle", "overview"]
    return names


class HeldBlocks:
    """Blocks of frames, called ``word-N``, packed in the order of `frames` while all fit.

    `numbers` has the number of each block, ascending.
    """

    def __init__(
        self, limit_bytes: float, word: str, frames: Iterable[tuple[int, dict[str, Any]]]
    ) -> None:
        self.blocks: list[Block] = []
        self.numbers: list[int] = []
        self.size_bytes = 0
        for number, each in frames:
            block = packed(f"{word}-{number}", ascii_json(each))
            if self.size_bytes + block.size_bytes > limit_bytes:
                break
            self.blocks.append(block)
            self.numbers.append(number)
            self.size_bytes += block.size_bytes
        self.numbers.sort()


class HeldPairs(HeldBlocks):
    """The pairs of ranks whose own steps, waterfall and names a page holds."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        count = len(answers.both.rank_pairs)
        self.of = count if answers.has_events and count > 1 else 0
        frames = ((pair, _frames(answers, pair)) for pair in range(min(self.of, _MOST_PAIRS)))
        super().__init__(limit_bytes, "pair", frames)

    @property
    def words(self) -> str:
        """Text on the pairs that are left out; empty if there are none."""
        held = len(self.numbers)
        if held == self.of:
            return ""
        return f"{held} of {plural(self.of, 'pair')} of ranks can be chosen in this page."

    def about(self) -> dict[str, Any]:
        """Return the document's entry for the pairs of ranks that can be chosen."""
        return {"held_pairs": self.numbers} if self.of else {}


def _frames(answers: DiffAnswers, pair: int) -> dict[str, Any]:
    frames = _frames_drawn(answers, f"@{pair}")
    for name in ("slots:steps", "steps", "lanes"):
        frames[f"{name}@{pair}"] = answers.frame(f"{name}@{pair}")
    return frames


class HeldSteps(HeldBlocks):
    """The steps whose own waterfall and names a page holds, those that changed most first."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        self.of = answers.both.step_count if answers.has_events else 0
        steps = _most_changed(answers) if self.of else []
        frames = ((step, _frames_drawn(answers, f":{step}")) for step in steps)
        super().__init__(limit_bytes, "step", frames)

    @property
    def words(self) -> str:
        """Text on the steps that are left out; empty if there are none."""
        held = len(self.numbers)
        if held == self.of:
            return ""
        if held == 0:
            return "No step can be chosen in this page: there was no room for their own figures."
        return (
            f"{held} of {plural(self.of, 'step')} can be chosen in this page, "
            "those that changed most."
        )

    def about(self) -> dict[str, Any]:
        """Return the document's entries for the steps that can be chosen."""
        return {"held_steps": self.numbers, "held_words": self.words} if self.words else {}


def _most_changed(answers: DiffAnswers) -> list[int]:
    change = np.abs(diff.steps(answers.both)["diff_ns"].to_numpy())
    return [int(step) for step in np.argsort(-change, kind="stable")[:_MOST_STEPS]]


def _frames_drawn(answers: DiffAnswers, of: str) -> dict[str, Any]:
    """Return the waterfalls and names of one part, ``:step`` or ``@pair``, as a page draws them."""
    frames = {
        f"waterfall:{level}{of}": _parts_drawn(answers.frame(f"waterfall:{level}{of}"))
        for level in LEVELS
    }
    return {**frames, f"names{of}": _names_drawn(answers.frame(f"names{of}"))}


def _names_drawn(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of names that changed most, without the full names behind short ones.

    The page takes those from the names of the whole comparison.
    """
    columns = {
        name: values[:_MOST_NAMES] for name, values in frame["columns"].items() if name != "members"
    }
    return {"rows": min(frame["rows"], _MOST_NAMES), "columns": columns, "attrs": frame["attrs"]}


def _parts_drawn(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that a page draws of each kind, with the kind's others as one."""
    columns: dict[str, list[Any]] = frame["columns"]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for row, kind in enumerate(columns["kind"]):
        by_kind[kind].append(row)
    made: dict[str, list[Any]] = {name: [] for name in columns}
    for rows in by_kind.values():
        shown = rows if len(rows) <= _MOST_PARTS + 1 else rows[:_MOST_PARTS]
        rest = rows[len(shown) :]
        for name, values in columns.items():
            made[name] += [values[row] for row in shown]
            if rest and name.endswith("_ns"):
                made[name].append(sum(values[row] for row in rest))
            elif rest:
                words = {"name": f"{len(rest)} more", "short": f"{len(rest)} more"}
                made[name].append(words.get(name, values[rest[0]] if name == "kind" else None))
    return {"rows": len(made["kind"]), "columns": made, "attrs": frame["attrs"]}


def pair_columns(table: PairTable) -> ColumnWriter:
    """Return the columns from which a page answers requests about pairs of calls."""
    out = ColumnWriter()
    device = table.is_device
    for k in (0, 1):
        out.ints(f"rank{k}", table.rank[k] + 1, delta=True)
        out.ints(f"id{k}", table.id[k] + 1, delta=True)
        # The page reads the times of other pairs from their events.
        out.ints(f"start{k}", table.start[k][device], delta=True)
        out.ints(f"dur{k}", table.dur[k][device])
    out.ints("status", table.status)
    out.ints("class", table.classes.of_pairs)
    out.ints("node", table.node + 1)
    for row, rows in enumerate(table.rows_of_changes()):
        out.ints(f"change{row}", rows.astype(np.int64), delta=True)
    out.ints("device", device)
    return out

"""Save a comparison to a page, with its frames, its matched events, and both timelines.

The frames of the whole comparison and the matched events are always included. Frames of single
steps and rank pairs get a share of the remaining space. The timelines get the rest.
"""

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
from hta_widgets.export.pages.format import (
    Block,
    ColumnWriter,
    PageContent,
    ascii_json,
    pack_block,
    save_page,
)
from hta_widgets.export.pages.page import embed, total_size
from hta_widgets.live.comparison import DiffAnswers
from hta_widgets.live.job import TileEngine
from hta_widgets.live.pair_table import PairTable
from hta_widgets.text import plural

_CODE = ("diff.js", "state.js", "widgets.css")
#: Size of a page without its code and blocks: document, footer and block tags.
_FRAME_BYTES = 12_000
#: Levels of detail of the waterfall.
LEVELS = ("kind", "cause", "operator", "kernel")
#: Maximum shares for single steps and for single rank pairs, relative to the space left by the
#: code, the frames of the whole comparison, and the matched events.
_STEPS_SHARE = 0.25
_PAIRS_SHARE = 0.15
#: Maximum numbers of steps and rank pairs with separate frames, which are slow to compute.
_MAX_STEPS = 200
_MAX_PAIRS = 64
#: Maximum number of names in the frame for a single step or rank pair.
_MAX_NAMES = 100
#: Number of waterfall parts per kind that the page draws (see `js/src/compare/waterfall.ts`).
_MAX_PARTS = 8
#: The engine, the scene and the view state of a run.
Side = tuple[TileEngine, dict[str, Any], dict[str, Any]]


def save_diff(
    path: str | os.PathLike[str],
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    *,
    max_mb: float = 25,
) -> str:
    """Write a comparison to a self-contained page."""
    return save_page(
        path,
        " → ".join(traits["_about"]["labels"]),
        _CODE,
        [engine for engine, _, _ in sides],
        lambda limit_bytes, saved_at: comparison_content(
            answers, sides, traits, limit_bytes - _FRAME_BYTES, saved_at
        ),
        max_mb=max_mb,
        min_mb=1,
        remedy="The code, texts and frames of a page take about 1 MB.",
    )


def comparison_content(
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
) -> PageContent:
    """Return the content of a comparison's page. Events of both runs fill the remaining space."""
    saved_at = saved_at or datetime.now(UTC)
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    comparison_blocks = [pack_block("frames", ascii_json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = pair_columns(answers.pair_table)
        comparison_blocks.append(columns.block("pairs"))
        document["pairs"] = {
            "columns": columns.specs,
            "statuses": answers.pair_table.statuses,
            **answers.pair_table.classes.counts(),
        }
    left_bytes = limit_bytes - total_size(comparison_blocks)
    steps = StepBlocks(answers, left_bytes * _STEPS_SHARE)
    pairs = PairBlocks(answers, left_bytes * _PAIRS_SHARE)
    left_bytes -= steps.size_bytes + pairs.size_bytes
    document["traits"]["_about"] = {**traits["_about"], **steps.about, **pairs.about}
    # The second side also gets the space that the first side leaves unused.
    before = _side_content("before", sides[0], left_bytes / 2, saved_at)
    after = _side_content("after", sides[1], left_bytes - total_size(before.blocks), saved_at)
    sizes = [
        *before.sizes,
        *after.sizes,
        ("frames and pairs", total_size(comparison_blocks)),
        ("individual steps", steps.size_bytes),
        ("individual pairs of ranks", pairs.size_bytes),
    ]
    words = filter(None, (before.words, after.words, steps.words, pairs.words))
    blocks = [*comparison_blocks, *steps.blocks, *pairs.blocks, *before.blocks, *after.blocks]
    return PageContent(document, blocks, sizes, " ".join(words))


def _side_content(word: str, side: Side, limit_bytes: float, saved_at: datetime) -> PageContent:
    """Return the timeline of a side as blocks whose names begin with `word`."""
    content = embed(*side, limit_bytes, saved_at, widget="timeline")
    blocks = [pack_block("document", ascii_json(content.document)), *content.blocks]
    return PageContent(
        document={},
        blocks=[replace(block, name=f"{word}-{block.name}") for block in blocks],
        sizes=[(f"{word}: {name}", size) for name, size in content.sizes],
        words=f"{word.capitalize()}: {content.words}",
    )


def _frame_names(answers: DiffAnswers) -> list[str]:
    tables = [f"table:{name}" for name in answers.about()["tables"]]
    names = [*tables, "findings", "findings:swapped"]
    if answers.has_events:
        names += [f"{request}:{base}" for base in BASES for request in ("slots", "segments")]
        names += ["lanes", *(f"waterfall:{level}" for level in LEVELS)]
        names += ["names", "steps", "changes", "icicle", "overview"]
    return names


class FrameBlocks:
    """Blocks of frames up to a size limit. Their names are, for example, ``step-3``.

    `numbers` contains the numbers of the included frames, in ascending order. `words` describes the
    frames that are missing, if any. `about` contains entries for the document.
    """

    words = ""
    about: Mapping[str, Any] = {}

    def __init__(
        self, limit_bytes: float, word: str, frames: Iterable[tuple[int, dict[str, Any]]]
    ) -> None:
        self.blocks: list[Block] = []
        self.numbers: list[int] = []
        self.size_bytes = 0
        for number, frame in frames:
            block = pack_block(f"{word}-{number}", ascii_json(frame))
            if self.size_bytes + block.size_bytes > limit_bytes:
                break
            self.blocks.append(block)
            self.numbers.append(number)
            self.size_bytes += block.size_bytes
        self.numbers.sort()


class PairBlocks(FrameBlocks):
    """The steps, waterfalls and names of single rank pairs, in separate frames."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        count = len(answers.both.rank_pairs)
        total = count if answers.has_events and count > 1 else 0
        other_frames = ("slots:steps", "steps", "lanes")
        pairs = range(min(total, _MAX_PAIRS))
        frames = ((pair, _frames_in_page(answers, f"@{pair}", other_frames)) for pair in pairs)
        super().__init__(limit_bytes, "pair", frames)
        held = len(self.numbers)
        if total:
            self.about = {"held_pairs": self.numbers}
        if held < total:
            self.words = f"{held} of {plural(total, 'pair')} of ranks can be chosen in this page."


class StepBlocks(FrameBlocks):
    """The waterfalls and names of single steps in separate frames, largest change first."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        total = answers.both.step_count if answers.has_events else 0
        change = diff.steps(answers.both)["diff_ns"].abs().to_numpy() if total else np.empty(0)
        steps = np.argsort(-change, kind="stable")[:_MAX_STEPS].tolist()
        frames = ((step, _frames_in_page(answers, f":{step}")) for step in steps)
        super().__init__(limit_bytes, "step", frames)
        held = len(self.numbers)
        if held == total:
            return
        self.words = (
            f"{held} of {plural(total, 'step')} can be chosen in this page, "
            "those that changed most."
            if held
            else "No step can be chosen in this page: the figures of individual steps did not fit."
        )
        self.about = {"held_steps": self.numbers, "held_words": self.words}


def _frames_in_page(answers: DiffAnswers, subject: str, more: Sequence[str] = ()) -> dict[str, Any]:
    """Return the frames of a step (``:3``) or of a rank pair (``@3``).

    Waterfalls and names are reduced to what the page draws. Frames in `more` are complete.
    """
    frames = {
        f"waterfall:{level}{subject}": _parts_in_page(answers.frame(f"waterfall:{level}{subject}"))
        for level in LEVELS
    }
    frames[f"names{subject}"] = _names_in_page(answers.frame(f"names{subject}"))
    return frames | {f"{name}{subject}": answers.frame(f"{name}{subject}") for name in more}


def _names_in_page(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the names with the largest changes, omitting the column of full names.

    The page takes full names from the frame of the whole comparison.
    """
    columns = {
        name: values[:_MAX_NAMES] for name, values in frame["columns"].items() if name != "members"
    }
    return {"rows": min(frame["rows"], _MAX_NAMES), "columns": columns, "attrs": frame["attrs"]}


def _parts_in_page(frame: dict[str, Any]) -> dict[str, Any]:
    """Return, for each kind, the rows that the page draws and one row that sums up the rest."""
    columns: dict[str, list[Any]] = frame["columns"]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for row, kind in enumerate(columns["kind"]):
        by_kind[kind].append(row)
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    for kind, rows in by_kind.items():
        shown = rows if len(rows) <= _MAX_PARTS + 1 else rows[:_MAX_PARTS]
        other_rows = rows[len(shown) :]
        label = f"{len(other_rows)} more"
        others: dict[str, Any] = {"kind": kind, "name": label, "short": label}
        for name, values in columns.items():
            parts[name] += [values[row] for row in shown]
            if name.endswith("_ns"):
                others[name] = sum(values[row] for row in other_rows)
            if other_rows:
                parts[name].append(others.get(name))
    return {"rows": len(parts["kind"]), "columns": parts, "attrs": frame["attrs"]}


def pair_columns(table: PairTable) -> ColumnWriter:
    """Return the columns that the page needs for requests about matched events."""
    writer = ColumnWriter()
    for side in (0, 1):
        writer.ints(f"rank{side}", table.rank[side] + 1, delta=True)
        writer.ints(f"id{side}", table.id[side] + 1, delta=True)
    writer.ints("status", table.status)
    writer.ints("class", table.classes.of_pairs)
    writer.ints("node", table.node + 1)
    for number, rows in enumerate(table.rows_of_changes()):
        writer.ints(f"change{number}", rows.astype(np.int64), delta=True)
    return writer

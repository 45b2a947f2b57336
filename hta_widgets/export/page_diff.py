"""A saved page of a comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hta_widgets import diff
from hta_widgets.diff.align import BASES
from hta_widgets.export.held_blocks import HeldBlocks, frames_drawn
from hta_widgets.export.page import TEXT_PER_BYTE, OfflineData, embed, joined
from hta_widgets.export.page_format import (
    Block,
    ascii_json,
    code_blocks,
    footer_text,
    host_script,
    packed,
    page_parts,
    page_target,
    source_files,
    version_text,
    write_page,
)
from hta_widgets.live.comparison import DiffAnswers
from hta_widgets.live.job import TileEngine
from hta_widgets.text import plural

#: Each takes a while to make.
_MOST_PAIRS = 64


class HeldPairs(HeldBlocks):
    """The pairs of ranks whose own steps, waterfall and names a page holds.

    Parameters
    ----------
    answers : DiffAnswers
        Of the comparison.
    limit_bytes : float
        What their blocks may take together.

    Attributes
    ----------
    blocks : list of Block
        ``pair-N``: the frames of pair N by their names.
    numbers : list of int
        Which are held, ascending.
    """

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        count = len(answers.both.rank_pairs)
        self.of = count if answers.has_events and count > 1 else 0
        frames = ((pair, _frames(answers, pair)) for pair in range(min(self.of, _MOST_PAIRS)))
        super().__init__(limit_bytes, "pair", frames)

    @property
    def words(self) -> str:
        """What is left out; empty for nothing."""
        held = len(self.numbers)
        if held == self.of:
            return ""
        return f"{held} of {plural(self.of, 'pair')} of ranks can be chosen in this page."

    def about(self) -> dict[str, Any]:
        """Return what the page has to know before anybody chooses a pair of ranks."""
        return {"held_pairs": self.numbers} if self.of else {}


def _frames(answers: DiffAnswers, pair: int) -> dict[str, Any]:
    frames = frames_drawn(answers, f"@{pair}")
    for name in ("slots:steps", "steps", "lanes"):
        frames[f"{name}@{pair}"] = answers.frame(f"{name}@{pair}")
    return frames


#: Each takes a while to make.
_MOST_STEPS = 200


class HeldSteps(HeldBlocks):
    """The steps whose own waterfall and names a page holds.

    Parameters
    ----------
    answers : DiffAnswers
        Of the comparison.
    limit_bytes : float
        What their blocks may take together. The steps that changed most come first.

    Attributes
    ----------
    blocks : list of Block
        ``step-N``: the frames of step N by their names.
    numbers : list of int
        Which are held, ascending.
    """

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        self.of = answers.both.step_count if answers.has_events else 0
        steps = _most_changed(answers)[:_MOST_STEPS] if self.of else []
        frames = ((step, frames_drawn(answers, f":{step}")) for step in steps)
        super().__init__(limit_bytes, "step", frames)

    @property
    def words(self) -> str:
        """What is left out; empty for nothing."""
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
        """Return what the page has to know before anybody chooses a step."""
        return {"held_steps": self.numbers, "held_words": self.words} if self.words else {}


def _most_changed(answers: DiffAnswers) -> list[int]:
    change = np.abs(diff.steps(answers.both)["diff_ns"].to_numpy())
    return [int(step) for step in np.argsort(-change, kind="stable")]


#: What the waterfall's kinds are parted by.
LEVELS = ("kind", "cause", "operator", "kernel")
#: Of what code, whole frames and pairs leave, the parts that single steps and single pairs of
#: ranks may take.
_STEPS_SHARE = 0.25
_PAIRS_SHARE = 0.15
_SIDES = ("before", "after")

Side = tuple[TileEngine, dict[str, Any], dict[str, Any]]


@dataclass(slots=True)
class Held:
    """Blocks of a comparison, and what is said of them.

    Attributes
    ----------
    document : dict
        What the page reads first.
    blocks : list of Block
        Without that of the document.
    sizes : list of (str, int)
        What takes how many bytes, in words.
    words : list of str
        What is in, and what is left out.
    """

    document: dict[str, Any]
    blocks: list[Block] = field(default_factory=list)
    sizes: list[tuple[str, int]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def held(
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    limit_bytes: float,
    *,
    saved_at: datetime | None = None,
) -> Held:
    """Return all that fits of a comparison.

    Parameters
    ----------
    answers : DiffAnswers
    sides : two of (TileEngine, scene, state)
        Before and after.
    traits : mapping
        Of the widget's model.
    limit_bytes : float
        Whole frames and pairs of events are always in. Of what these leave, single steps may take
        a quarter and single pairs of ranks 15 %; both runs' events share the rest.
    saved_at : datetime, optional
        By default now.
    """
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    own = [packed("frames", ascii_json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = answers.pair_table.write()
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
    found = Held(document)
    blocks: list[Block] = []
    for place, side in enumerate(sides):
        left = limit_bytes - fixed - sum(block.size_bytes for block in blocks)
        word = _SIDES[place]
        made, sizes, words = _side_blocks(side, left / (len(sides) - place), saved_at)
        blocks += [replace(block, name=f"{word}-{block.name}") for block in made]
        found.sizes += [(f"{word}: {name}", size) for name, size in sizes]
        found.words.append(f"{word.capitalize()}: {words}")
    found.sizes += [
        ("frames and pairs", sum(block.size_bytes for block in own)),
        ("single steps", steps.size_bytes),
        ("single pairs of ranks", pairs.size_bytes),
    ]
    found.blocks = [*own, *steps.blocks, *pairs.blocks, *blocks]
    found.words += [words for words in (steps.words, pairs.words) if words]
    return found


def _side_blocks(
    side: Side, limit_bytes: float, saved_at: datetime | None
) -> tuple[list[Block], list[tuple[str, int]], str]:
    engine, scene, state = side
    embedded = embed(engine, scene, state, limit_bytes)
    document = {
        "version": 1,
        "scene": embedded.scene,
        "state": state,
        "saved": {
            "at": (saved_at or datetime.now(UTC)).isoformat(timespec="seconds"),
            "by": f"hta_widgets {version_text()}",
            "files": [],
            "embedded": embedded.sizes,
        },
        "origin_ns": None if engine.traces.origin_ns is None else str(engine.traces.origin_ns),
        "widget": "timeline",
        **embedded.document,
    }
    blocks = [packed("document", ascii_json(document)), *embedded.blocks]
    return blocks, embedded.sizes, str(embedded.scene["embedded"]["text"])


def _frame_names(answers: DiffAnswers) -> list[str]:
    names = [f"table:{name}" for name in answers.about()["tables"]]
    names += ["findings", "findings:swapped"]
    if not answers.has_events:
        return names
    names += [f"{what}:{base}" for base in BASES for what in ("slots", "segments")]
    names += ["lanes", *(f"waterfall:{level}" for level in LEVELS)]
    names += ["names", "steps", "changes", "icicle", "overview"]
    return names


class DiffOffline(OfflineData):
    """Prepares in the background what a saved page of a comparison would hold.

    Parameters
    ----------
    answers : DiffAnswers
    sides : two of (TileEngine, scene, state)
        Before and after.
    traits : mapping
        With ``_about``: what the page knows of the comparison.
    max_mb : float, default 25
        As of `OfflineData`.
    """

    def __init__(
        self,
        answers: DiffAnswers,
        sides: Sequence[Side],
        traits: Mapping[str, Any],
        *,
        max_mb: float = 25,
    ) -> None:
        super().__init__(sides[0][0], sides[0][1], max_mb=max_mb)
        self._answers, self._sides, self._traits = answers, sides, traits

    def _made(self) -> tuple[bytes, dict[str, tuple[int, int]]]:
        found = held(self._answers, self._sides, self._traits, self._limit_bytes * TEXT_PER_BYTE)
        return joined(found.document, found.blocks)


_CODE = ("diff.js", "state.js", "diff.css")
#: Document, footer and what is around blocks.
_FRAME_BYTES = 12_000


def save_diff(
    path: str | os.PathLike[str],
    answers: DiffAnswers,
    sides: Sequence[tuple[TileEngine, dict[str, Any], dict[str, Any]]],
    traits: Mapping[str, Any],
    *,
    max_mb: float = 25,
) -> str:
    """Write a comparison as one self-contained page.

    Parameters
    ----------
    path : path-like
        The file to write.
    answers : DiffAnswers
        Frames and pairs; all that fit a page are embedded.
    sides : two of (TileEngine, scene, state)
        Before and after.
    traits : mapping
        Of the widget's model.
    max_mb : float, default 25
        How large the file may become. Single steps have a quarter of what frames and pairs leave,
        those that changed most first, single pairs of ranks 15 %; both sides share the rest.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    TraceError
        If `max_mb` is no size, or the file cannot be written.
    """
    target = page_target(
        path,
        max_mb,
        least_mb=1,
        remedy="Code, words and frames of a page take about as much.",
    )
    host = host_script()
    code = code_blocks(_CODE)
    code_bytes = len(host) + sum(block.size_bytes for block in code)
    saved_at = datetime.now(UTC)
    found = held(
        answers, sides, traits, max_mb * 1e6 - code_bytes - _FRAME_BYTES, saved_at=saved_at
    )
    files = source_files(*(engine for engine, _, _ in sides))
    whole = [packed("document", ascii_json(found.document)), *code, *found.blocks]
    sizes = [*found.sizes, ("code", code_bytes)]
    footer = footer_text(saved_at, files, sizes, " ".join(found.words))
    labels = traits["_about"]["labels"]
    write_page(target, page_parts(" → ".join(labels), footer, host, whole), max_mb)
    return str(target)

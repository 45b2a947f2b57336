"""What a page holds of a comparison when there is no kernel: frames, pairs, both runs' events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hta_widgets.diff.alignment import BASES
from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.pair_blocks import HeldPairs
from hta_widgets.export.step_blocks import HeldSteps
from hta_widgets.export.blocks import Block
from hta_widgets.export.plan import embed
from hta_widgets.export.blocks import packed
from hta_widgets.export.page_file import ascii_json
from hta_widgets.export.page_file import version_text
from hta_widgets.live.tile_engine import TileEngine

__all__ = ["LEVELS", "Held", "held"]

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

"""What a page holds of single steps: a block for each, as many as there is room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hta_widgets import diff
from hta_widgets.export.diff_page.answers import DiffAnswers
from hta_widgets.export.embed.blocks import Block, packed
from hta_widgets.export.page_file import ascii_json
from hta_widgets.formats import plural

__all__ = ["HeldSteps", "names_drawn", "parts_drawn", "within"]

_LEVELS = ("kind", "cause", "operator", "kernel")
#: Each takes a while to make.
_MOST_STEPS = 200
_MOST_NAMES = 100
#: As many parts of a kind as the page draws (`js/src/compare/waterfall.ts`), less the rest.
_MOST_PARTS = 8


class HeldSteps:
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
    steps : list of int
        Which are held, ascending.
    """

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        self.blocks: list[Block] = []
        self.steps: list[int] = []
        self.size_bytes = 0
        self.of = answers.both.step_count if answers.has_events else 0
        steps = _most_changed(answers)[:_MOST_STEPS] if self.of else []
        frames = ((step, _frames(answers, step)) for step in steps)
        for step, block in within(limit_bytes, "step", frames):
            self.blocks.append(block)
            self.steps.append(step)
            self.size_bytes += block.size_bytes
        self.steps.sort()

    @property
    def words(self) -> str:
        """What is left out; empty for nothing."""
        held = len(self.steps)
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
        return {"held_steps": self.steps, "held_words": self.words} if self.words else {}


def _most_changed(answers: DiffAnswers) -> list[int]:
    change = np.abs(diff.steps(answers.both)["diff_ns"].to_numpy())
    return [int(step) for step in np.argsort(-change, kind="stable")]


def _frames(answers: DiffAnswers, step: int) -> dict[str, Any]:
    frames = {
        f"waterfall:{level}:{step}": parts_drawn(answers.frame(f"waterfall:{level}:{step}"))
        for level in _LEVELS
    }
    frames[f"names:{step}"] = names_drawn(answers.frame(f"names:{step}"))
    return frames


def within(
    limit_bytes: float, word: str, frames: Iterable[tuple[int, dict[str, Any]]]
) -> Iterator[tuple[int, Block]]:
    """Pack frames one number after the other, as long as all blocks fit into so many bytes."""
    size_bytes = 0
    for number, each in frames:
        block = packed(f"{word}-{number}", ascii_json(each))
        size_bytes += block.size_bytes
        if size_bytes > limit_bytes:
            return
        yield number, block


def names_drawn(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of names that changed most, without the full names behind short ones.

    These a page knows from the names of the whole comparison.
    """
    columns = {
        name: values[:_MOST_NAMES] for name, values in frame["columns"].items() if name != "members"
    }
    return {"rows": min(frame["rows"], _MOST_NAMES), "columns": columns, "attrs": frame["attrs"]}


def parts_drawn(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that a page draws of each kind, and the others of that kind as one."""
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

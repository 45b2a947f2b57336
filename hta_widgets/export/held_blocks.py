"""Blocks that a page holds of single parts of a comparison, as many as there is room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hta_widgets.export.page_format import Block, ascii_json, packed
from hta_widgets.live.comparison import DiffAnswers

__all__ = ["HeldBlocks", "frames_drawn"]

_LEVELS = ("kind", "cause", "operator", "kernel")
_MOST_NAMES = 100
#: As many parts of a kind as the page draws (`js/src/compare/waterfall.ts`), less the rest.
_MOST_PARTS = 8


class HeldBlocks:
    """Frames by number, packed one number after the other as long as all blocks fit.

    Parameters
    ----------
    limit_bytes : float
        What the blocks may take together.
    word : str
        What blocks are called before their number.
    frames : iterable of (int, dict)
        Made when they are asked for.

    Attributes
    ----------
    blocks : list of Block
    numbers : list of int
        Of the blocks, ascending.
    size_bytes : int
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


def frames_drawn(answers: DiffAnswers, of: str) -> dict[str, Any]:
    """Return the waterfalls and names of one part, ``:step`` or ``@pair``, as a page draws them."""
    frames = {
        f"waterfall:{level}{of}": _parts_drawn(answers.frame(f"waterfall:{level}{of}"))
        for level in _LEVELS
    }
    return {**frames, f"names{of}": _names_drawn(answers.frame(f"names{of}"))}


def _names_drawn(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of names that changed most, without the full names behind short ones.

    These a page knows from the names of the whole comparison.
    """
    columns = {
        name: values[:_MOST_NAMES] for name, values in frame["columns"].items() if name != "members"
    }
    return {"rows": min(frame["rows"], _MOST_NAMES), "columns": columns, "attrs": frame["attrs"]}


def _parts_drawn(frame: dict[str, Any]) -> dict[str, Any]:
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

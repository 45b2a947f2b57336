"""What makes two runs less than comparable: other hardware, other sizes, other clocks, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hta_widgets.text import plural
from hta_widgets.trace.trace import Trace

from hta_widgets.diff.own_numbers import own_numbers

if TYPE_CHECKING:
    from hta_widgets.diff.sides import Comparison
    from hta_widgets.diff.sides import RunSide

__all__ = ["Caution", "both_have_frames", "cautions_of", "conditions"]

_VENDORS = (
    ("AMD", ("amd", "radeon", "instinct", "mi2", "mi3")),
    ("NVIDIA", ("nvidia", "tesla", "geforce", "quadro", "rtx")),
    ("MTIA", ("artemis", "mtia")),
)


#: Kinds of cautions of what a run ran on, without which no difference can be understood.
CONDITIONS = ("vendor", "gpu", "world_size")


class Caution(NamedTuple):
    """One thing to know, and what it is about.

    ``kind`` is one of ``empty, gpu, vendor, world_size, ranks, rank, steps, clock, resolution,
    format, stacks, device``.
    """

    kind: str
    text: str


def cautions_of(diff: Comparison) -> list[Caution]:
    """Return what a reader must know before trusting differences, the gravest first."""
    before, after = diff.sides
    found: list[Caution] = []

    def differ(kind: str, words: str, one: str, other: str) -> None:
        if one and other and one != other:
            found.append(Caution(kind, f"{words} {one} → {other}"))

    empty = [side.label for side in diff.sides if _is_empty(side)]
    if len(empty) == 2:
        text = f"{empty[0]} and {empty[1]} hold no events: there is nothing to compare"
        found.append(Caution("empty", text))
    elif empty:
        text = f"{empty[0]} holds no events: all of the other side is without a counterpart"
        found.append(Caution("empty", text))
    differ("vendor", "different makers of GPUs:", _vendor(before), _vendor(after))
    differ("gpu", "different GPUs:", _gpus(before), _gpus(after))
    differ("format", "different formats:", _formats(before), _formats(after))
    differ("world_size", "world size", _world_size(before), _world_size(after))
    if diff.by_rank_means:
        found.append(
            Caution(
                "ranks",
                f"{len(before.ranks)} ranks against {len(after.ranks)}: times are means over ranks",
            )
        )
    found += _ranks(diff)
    found += _steps(diff)
    differ("clock", "different clocks:", before.traces.clock, after.traces.clock)
    differ(
        "resolution",
        "times are as fine as",
        f"{_resolution(before)} ns",
        f"{_resolution(after)} ns",
    )
    stacks = [_has_stacks(side) for side in diff.sides]
    if stacks[0] != stacks[1]:
        having = before if stacks[0] else after
        found.append(
            Caution("stacks", f"only {having.label} holds Python functions: they are left out")
        )
    works = [_has_work(side) for side in diff.sides]
    if works[0] != works[1] and not empty:
        lacking = after if works[0] else before
        found.append(Caution("device", f"{lacking.label} holds no device work"))
    return found


def conditions(diff: Comparison) -> str:
    """Return as a sentence what the runs ran on differently, "" where that is the same."""
    told = [one.text for one in diff.cautions if one.kind in CONDITIONS]
    return f"The runs are not alike: {'; '.join(told)}." if told else ""


def _is_empty(side: RunSide) -> bool:
    """Whether a selection holds nothing; profiles, which have no events, say all in tables."""
    return not any(
        len(part.rows) or part.trace.format == "mpi-profile" for part in side.parts.values()
    )


def _ranks(diff: Comparison) -> list[Caution]:
    left_out = [
        Caution(
            "ranks",
            f"{plural(len(side.left_out), 'rank')} of {side.label} without steps "
            f"{'is' if len(side.left_out) == 1 else 'are'} left out: "
            f"{', '.join(map(str, side.left_out[:4]))}{', …' * (len(side.left_out) > 4)}",
        )
        for side in diff.sides
        if side.left_out
    ]
    return left_out + _other_ranks(diff)


def _other_ranks(diff: Comparison) -> list[Caution]:
    own = [own_numbers(side.parts) for side in diff.sides]
    renamed: list[tuple[int, int]] = []
    other: list[tuple[int, int]] = []
    for a, b in diff.rank_pairs:
        if a != b:
            (renamed if own[0][a] == own[1][b] else other).append((a, b))
    found = []
    if other:
        found.append(Caution("rank", f"different rank{'s' * (len(other) > 1)}: {_listed(other)}"))
    if renamed:
        found.append(
            Caution(
                "rank",
                "the same ranks under other numbers, as several files of a run state one rank: "
                f"{_listed(renamed)}",
            )
        )
    return found


def _listed(pairs: list[tuple[int, int]]) -> str:
    return ", ".join(f"{a} → {b}" for a, b in pairs[:4]) + (", …" if len(pairs) > 4 else "")


def _steps(diff: Comparison) -> list[Caution]:
    alone = len(diff.before_alone), len(diff.after_alone)
    found = []
    if any(alone):
        whole = diff.step_count + alone[0], diff.step_count + alone[1]
        found.append(
            Caution(
                "steps",
                f"{whole[0]} steps against {whole[1]}: {diff.step_count} are compared",
            )
        )
    if diff.matched_by == "order":
        found.append(Caution("steps", "steps have other numbers: they are matched in their order"))
    return found


def _gpus(side: RunSide) -> str:
    counted: Counter[str] = Counter()
    for part in side.parts.values():
        devices = part.trace.metadata.get("deviceProperties")
        names = [
            str(device.get("name", ""))
            for device in (devices if isinstance(devices, list) else [])
            if isinstance(device, dict)
        ]
        counted.update({name for name in names if name})
    return ", ".join(sorted(counted))


def _vendor(side: RunSide) -> str:
    text = _gpus(side).lower()
    return next((vendor for vendor, marks in _VENDORS if any(mark in text for mark in marks)), "")


def _formats(side: RunSide) -> str:
    return ", ".join(sorted(side.formats))


def _world_size(side: RunSide) -> str:
    sizes = {part.trace.world_size for part in side.parts.values()} - {0}
    return ", ".join(map(str, sorted(sizes)))


def _resolution(side: RunSide) -> int:
    return max(part.trace.resolution_ns for part in side.parts.values())


def _has_stacks(side: RunSide) -> bool:
    return any(_stacks_on(part.trace) for part in side.parts.values())


def both_have_frames(diff: Comparison) -> bool:
    """Whether both sides hold Python functions, which else are left out."""
    return all(_has_stacks(side) for side in diff.sides)


def _stacks_on(trace: Trace) -> bool:
    """Whether a rank's file holds Python functions."""
    table = trace.table
    codes = [k for k, text in enumerate(table.categories.values) if text == "python_function"]
    return bool(codes) and bool(np.isin(table.category, codes).any())


def _has_work(side: RunSide) -> bool:
    return any(len(part.busy_rows()) for part in side.parts.values())

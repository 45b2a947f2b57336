"""What is compared with what: the two sides of a comparison, their ranks and their steps."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.diff_ops import Side
from hta_widgets.analysis.diff_ops import parts_of
from hta_widgets.analysis.rank_clusters import rank_clusters
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.step_times import Waits
from hta_widgets.analysis.step_times import waits_of
from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.diff.cautions import Caution
from hta_widgets.diff.cautions import cautions_of
from hta_widgets.diff.families import formats_of
from hta_widgets.diff.families import with_time_lines
from hta_widgets.diff.own_numbers import own_numbers
from hta_widgets.diff.side_steps import steps_within
from hta_widgets.diff.side_steps import whole

__all__ = ["Comparison", "Pairing", "RunSide", "compare"]

Ints = npt.NDArray[np.int64]

#: How ranks find their partners.
Pairing = Literal["auto", "number", "representative"] | Mapping[int, int]


@dataclass(frozen=True, eq=False)
class RunSide:
    """One side: the selected events of its ranks, and its steps.

    Attributes
    ----------
    label : str
        What the side is called.
    traces : TraceSet
        The set that the ranks are of.
    parts : dict of int to Part
        The selected events of each rank that is compared.
    steps : array of int
        Numbers of the steps that all these ranks have and that the selection holds whole; a
        single -1 where there are none and the whole counts as one stretch.
    windows : dict of int to array
        By rank, start and end of each step, (steps, 2), in the times that users see.
    left_out : tuple of int
        Ranks that have no steps, where others do.
    tabled : dict of int to Part
        Ranks that only tables of their format compare: BytePS servers beside workers, MPI profiles
        beside time lines.
    """

    label: str
    traces: TraceSet
    parts: dict[int, Part]
    steps: Ints
    windows: dict[int, Ints]
    left_out: tuple[int, ...] = ()
    tabled: dict[int, Part] = field(default_factory=dict)

    @property
    def ranks(self) -> list[int]:
        """The ranks that are compared."""
        return list(self.parts)

    @property
    def table_ranks(self) -> list[int]:
        """All ranks, those included that only tables compare."""
        return [*self.parts, *self.tabled]

    @property
    def formats(self) -> set[str]:
        """Formats of the files of all ranks."""
        return formats_of(self.parts) | formats_of(self.tabled)

    @property
    def has_steps(self) -> bool:
        """Whether there are steps, or the whole is one stretch."""
        return not (len(self.steps) == 1 and self.steps[0] < 0)

    @cached_property
    def waits(self) -> Waits:
        """When the ranks wait in collectives."""
        return waits_of(self.traces)

    def of_steps(self, places: Ints) -> RunSide:
        """Return the side with only some of its steps."""
        return RunSide(
            self.label,
            self.traces,
            self.parts,
            self.steps[places],
            {rank: windows[places] for rank, windows in self.windows.items()},
            self.left_out,
            self.tabled,
        )

    def envelope(self) -> tuple[Ints, Ints]:
        """Return from when to when each step runs on any of the ranks."""
        every = np.stack(list(self.windows.values()))
        return every[:, :, 0].min(axis=0), every[:, :, 1].max(axis=0)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs side by side: whose ranks and steps belong together.

    Attributes
    ----------
    before, after : RunSide
        Both with the steps that belong together alone, in order.
    rank_pairs : list of (int, int)
        Ranks whose events are matched and whose timelines stand side by side.
    by_rank_means : bool
        Whether all ranks of each side count and not only the paired ones, because there are
        more of them on one side.
    before_alone, after_alone : array of int
        Numbers of the steps that have no partner.
    matched_by : {"number", "order", "whole"}
        How the steps were brought together.
    """

    before: RunSide
    after: RunSide
    rank_pairs: list[tuple[int, int]]
    by_rank_means: bool
    before_alone: Ints
    after_alone: Ints
    matched_by: str
    #: what others derived from it and may ask for again
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def sides(self) -> tuple[RunSide, RunSide]:
        """Before and after."""
        return self.before, self.after

    @property
    def step_count(self) -> int:
        """How many pairs of steps there are; 1 where the whole is one stretch."""
        return len(self.before.steps)

    @property
    def same_steps(self) -> bool:
        """Whether steps of one number are compared, which may differ from others by nature."""
        return self.matched_by == "number"

    @cached_property
    def cautions(self) -> list[Caution]:
        """What a reader must know before trusting differences, in words."""
        return cautions_of(self)


def compare(
    before: Side,
    after: Side,
    *,
    ranks: Pairing = "auto",
    steps: Mapping[int, int] | Literal["auto", "number", "order"] = "auto",
    labels: tuple[str, str] | None = None,
) -> Comparison:
    """Bring two runs together: which ranks, and which steps, are compared with which.

    Everything else in `hta_widgets.diff` takes what this returns.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        Two jobs, two ranks of one job, two windows, two steps: of a selection its events, cut at
        its window. Of a window the steps count that lie in it as a whole; where one side has none,
        the windows themselves are what is compared.
    ranks : {"auto", "number", "representative"} or mapping, default "auto"
        ``"number"``: ranks of the same number; of MPI, of the number that their files state, as a
        rank's profile and time line are two files. ``"representative"``: the rank that stands for
        the largest cluster of `hta_widgets.analysis.rank_clusters` with that of the other side,
        and so on. A mapping of before's to after's ranks. ``"auto"``: one rank with one rank
        whatever their numbers, else by number; where the numbers of ranks differ, times are then
        means over all ranks of each side, and events are matched between ranks of one number.
    steps : {"auto", "number", "order"} or mapping, default "auto"
        Which ``ProfilerStep#n`` belong together: those of one number, those in the same place, or
        as a mapping says. ``"auto"``: by number where any number is on both sides, else by order.
    labels : (str, str), optional
        Names of the sides; by default what they differ in: folder, rank or step.

    Returns
    -------
    Comparison

    Raises
    ------
    TraceError
        Where a side has no ranks, or a rank or step is not there, or the sides are of formats that
        have nothing in common.

    Examples
    --------
    >>> before, after = hw.load("runs/a"), hw.load("runs/b")  # doctest: +SKIP
    >>> diff = compare(before, after)  # doctest: +SKIP
    >>> diff = compare(before[0], before[5])  # doctest: +SKIP
    >>> waterfall(diff)  # doctest: +SKIP
    """
    found = {
        word: {part.rank: part for part in parts_of(source)}
        for word, source in (("before", before), ("after", after))
    }
    for word, parts in found.items():
        if not parts:
            raise TraceError(f"no ranks {word}", remedy="Give traces, or a selection of some.")
    owners = _traces_of(before), _traces_of(after)
    lines, tabled = with_time_lines(found["before"], found["after"])
    if isinstance(ranks, Mapping):
        # By hand, servers may be compared with servers.
        lines, tabled = (found["before"], found["after"]), ({}, {})
    pairs, means = _pairs(ranks, *lines, owners)
    kept = [
        parts if means else {rank: parts[rank] for rank in dict.fromkeys(pair[k] for pair in pairs)}
        for k, parts in enumerate(lines)
    ]
    names = labels or _labels(*kept)
    sides = [
        _side(label, owner, parts) for label, owner, parts in zip(names, owners, kept, strict=True)
    ]
    if sides[0].has_steps != sides[1].has_steps:
        sides = [
            _whole_side(label, owner, parts)
            for label, owner, parts in zip(names, owners, kept, strict=True)
        ]
    pairs = [(a, b) for a, b in pairs if a in sides[0].parts and b in sides[1].parts]
    if not pairs:
        pairs = [(sides[0].ranks[0], sides[1].ranks[0])]
    sides = [replace(side, tabled=more) for side, more in zip(sides, tabled, strict=True)]
    matched_by, places = _step_pairs(sides[0], sides[1], steps)
    if labels is None and names == ("before", "after") and len(places) == 1:
        numbers = [int(side.steps[places[0, k]]) for k, side in enumerate(sides)]
        if sides[0].has_steps and numbers[0] != numbers[1]:
            sides = [
                replace(side, label=f"step {number}")
                for side, number in zip(sides, numbers, strict=True)
            ]
    alone = [
        np.delete(side.steps, places[:, k]) if side.has_steps else np.empty(0, np.int64)
        for k, side in enumerate(sides)
    ]
    return Comparison(
        sides[0].of_steps(places[:, 0]),
        sides[1].of_steps(places[:, 1]),
        pairs,
        means,
        alone[0],
        alone[1],
        matched_by,
    )


def _traces_of(source: Side) -> TraceSet:
    if isinstance(source, TraceSet):
        return source
    if isinstance(source, Trace):
        # Its times stay those of the set that it came from.
        return TraceSet([source], like=TraceSet([]))
    if isinstance(source, Selection) and source.traces is not None:
        return source.traces
    raise TraceError("this selection belongs to no traces", remedy="Make it with traces.select().")


def _labels(before: dict[int, Part], after: dict[int, Part]) -> tuple[str, str]:
    folders = [_folder(side) for side in (before, after)]
    if all(folders) and folders[0] != folders[1]:
        return folders[0], folders[1]
    if len(before) == len(after) == 1 and list(before) != list(after):
        return f"rank {next(iter(before))}", f"rank {next(iter(after))}"
    return "before", "after"


def _folder(side: dict[int, Part]) -> str:
    """Return the folder that holds all files of a side; of BytePS each worker has one in it."""
    folders = {str(Path(part.trace.path).resolve().parent) for part in side.values()}
    try:
        return Path(os.path.commonpath(folders)).name
    except ValueError:
        return ""


# --- ranks ----------------------------------------------------------------------------------------


def _pairs(
    ranks: Pairing,
    before: Mapping[int, Part],
    after: Mapping[int, Part],
    owners: tuple[TraceSet, TraceSet],
) -> tuple[list[tuple[int, int]], bool]:
    """Return which ranks belong together, and whether times are means over all ranks."""
    if isinstance(ranks, Mapping):
        by_hand = [(int(a), int(b)) for a, b in ranks.items()]
        for place, there in ((0, before), (1, after)):
            missing = sorted({pair[place] for pair in by_hand} - set(there))
            if missing or not by_hand:
                raise TraceError(
                    f"no rank {', '.join(map(str, missing))} {('before', 'after')[place]}",
                    remedy=f"The ranks are {', '.join(map(str, there))}.",
                )
        return by_hand, False
    if ranks == "representative":
        chosen = [
            _representatives(owner, list(side))
            for owner, side in zip(owners, (before, after), strict=True)
        ]
        return list(zip(*chosen, strict=False)), False
    if ranks not in {"auto", "number"}:
        raise TraceError(
            f"ranks cannot be paired by {ranks!r}",
            remedy='Give "auto", "number", "representative" or {before_rank: after_rank}.',
        )
    numbers = [own_numbers(side) for side in (before, after)]
    theirs = {number: rank for rank, number in numbers[1].items()}
    common = [(rank, theirs[number]) for rank, number in numbers[0].items() if number in theirs]
    if ranks == "number":
        if not common:
            raise TraceError(
                "no rank has the same number on both sides",
                remedy="Pair them by hand: ranks={before_rank: after_rank}.",
            )
        return common, False
    if len(before) == len(after) and len(common) < len(before):
        return list(zip(before, after, strict=True)), False
    means = len(before) != len(after)
    return common or [(next(iter(before)), next(iter(after)))], means


def _representatives(traces: TraceSet, ranks: list[int]) -> list[int]:
    clusters = rank_clusters(traces, ranks=ranks).sort_values("cluster", kind="stable")
    return list(dict.fromkeys(clusters["representative"].tolist())) or ranks[:1]


# --- steps ----------------------------------------------------------------------------------------


def _side(label: str, traces: TraceSet, parts: dict[int, Part]) -> RunSide:
    found = {rank: steps_within(part) for rank, part in parts.items()}
    having = {rank: one for rank, one in found.items() if len(one[0])}
    if not having:
        return _whole_side(label, traces, parts)
    # A rank without steps, such as a server's, cannot be compared step by step.
    left_out = tuple(rank for rank in parts if rank not in having)
    parts = {rank: part for rank, part in parts.items() if rank in having}
    common = next(iter(having.values()))[0]
    for numbers, _ in having.values():
        common = np.intersect1d(common, numbers)
    if not len(common):
        return _whole_side(label, traces, parts)
    windows = {
        rank: bounds[np.searchsorted(numbers, common)] for rank, (numbers, bounds) in having.items()
    }
    order = np.argsort(next(iter(windows.values()))[:, 0], kind="stable")
    windows = {rank: bounds[order] for rank, bounds in windows.items()}
    return RunSide(label, traces, parts, common[order], windows, left_out)


def _whole_side(label: str, traces: TraceSet, parts: dict[int, Part]) -> RunSide:
    windows = {rank: whole(part) for rank, part in parts.items()}
    return RunSide(label, traces, parts, np.array([-1], dtype=np.int64), windows)


def _step_pairs(
    before: RunSide, after: RunSide, how: Mapping[int, int] | str
) -> tuple[str, npt.NDArray[np.int64]]:
    """Return how steps were matched, and the places of those that belong together, (pairs, 2)."""
    if not before.has_steps:
        return "whole", np.zeros((1, 2), dtype=np.int64)
    if isinstance(how, Mapping):
        places = [[_place(before, int(a)), _place(after, int(b))] for a, b in sorted(how.items())]
        if not places or any(b[1] <= a[1] for a, b in itertools.pairwise(places)):
            raise TraceError(f"{how!r} crosses steps", remedy="Keep their order on both sides.")
        return "number", np.array(places, dtype=np.int64)
    if how not in {"auto", "number", "order"}:
        raise TraceError(f"steps cannot be matched by {how!r}", remedy='Say "number" or "order".')
    common = np.isin(before.steps, after.steps)
    if how == "number" and not common.any():
        raise TraceError("no step has the same number on both sides", remedy='Say steps="order".')
    if how != "order" and common.any():
        mine = np.flatnonzero(common)
        order = np.argsort(after.steps)
        theirs = order[np.searchsorted(after.steps[order], before.steps[mine])]
        return "number", np.stack([mine, theirs], axis=1)
    first = np.arange(min(len(before.steps), len(after.steps)))
    return "order", np.stack([first, first], axis=1)


def _place(side: RunSide, step: int) -> int:
    found = np.flatnonzero(side.steps == step)
    if not len(found):
        raise TraceError(
            f"{side.label} has no step {step}",
            remedy=f"The steps are {', '.join(map(str, side.steps.tolist()))}.",
        )
    return int(found[0])

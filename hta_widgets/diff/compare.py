"""Two runs, their ranks and steps paired."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.clusters import rank_clusters
from hta_widgets.analysis.diff_ops import Side, parts_of
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.steps import clipped_steps, host_steps
from hta_widgets.analysis.stragglers import Waits, waits_of
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import all_formats, provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Parts = dict[int, Part]


def is_host_only(name: str) -> bool:
    """Whether files of a format have no device work: calls that communicate keep the host."""
    return any(one.host_only for one in all_formats() if one.name == name)


def formats_of(parts: Parts) -> set[str]:
    """Return the formats of the files of some ranks."""
    return {part.trace.format for part in parts.values()}


def with_time_lines(before: Parts, after: Parts) -> tuple[tuple[Parts, Parts], tuple[Parts, Parts]]:
    """Return the ranks whose events are compared, and those that only tables compare.

    Servers beside workers keep another clock and have no steps; profiles beside time lines have no
    events, and state the same calls once more.
    """
    formats = formats_of(before), formats_of(after)
    shared = formats[0] & formats[1]
    known = {one.name: one for one in all_formats()}
    if not shared:
        both = formats[0] | formats[1]
        if all(both <= {name, *known[name].compared_with} for name in both if name in known):
            return (before, after), ({}, {})
        names = {name: known[name].plural if name in known else name for name in both}
        words = [" and ".join(names[name] for name in sorted(one)) for one in formats]
        raise TraceError(
            f"{words[0]} cannot be compared with {words[1]}",
            remedy="Compare two runs of the same format.",
        )
    shared -= {name for name in shared if name in known and known[name].beside in shared}
    kept, tabled = (
        tuple(
            {rank: part for rank, part in side.items() if (part.trace.format in shared) is wanted}
            for side in (before, after)
        )
        for wanted in (True, False)
    )
    return (kept[0], kept[1]), (tabled[0], tabled[1])


def own_numbers(parts: Mapping[int, Part]) -> dict[int, int]:
    """Return the number by which each rank finds its partner in another run.

    A set holds every file under a rank of its own: an MPI rank's profile and its time line state
    the same one, and the second gets a number that is free. Among those that are compared the
    stated one counts again, as long as it tells them apart.
    """
    numbers = {}
    for rank, part in parts.items():
        stated = part.trace.stated_rank if is_host_only(part.trace.format) else None
        numbers[rank] = rank if stated is None else stated
    return numbers if len(set(numbers.values())) == len(numbers) else {rank: rank for rank in parts}


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
    return not any(len(part.rows) or part.trace.profile is not None for part in side.parts.values())


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


#: What can be told of replaced work, in the order of the categories of ``how``.
HOW: tuple[str, ...] = ("", "fused", "split", "other library", "other kernels")

#: By what is typical of their kernels' names; the first that is found counts.
_LIBRARIES = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("NCCL", r"^(nccl|rccl)"),
        ("Triton", r"^triton_|_0d1d"),
        ("FlashAttention", r"flash_(fwd|bwd|attn)|flash::|fmha_"),
        ("CUTLASS", r"cutlass"),
        ("cuDNN", r"cudnn|implicit_convolve|wgrad_alg|dgrad_engine"),
        ("MIOpen", r"miopen"),
        ("Tensile", r"^Cijk_"),
        ("cuBLAS", r"^(maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_|gemm|gemv|splitK"),
        ("PyTorch", r"at::|at_cuda_detail|c10::"),
    )
)


def libraries(names: Sequence[str]) -> list[str]:
    """Return the libraries that kernels are of, as far as their names tell, in order."""
    found = (
        next((library for library, pattern in _LIBRARIES if pattern.search(name)), "")
        for name in names
    )
    return [name for name in dict.fromkeys(found) if name]


def how_replaced(
    before: Sequence[str], after: Sequence[str], before_count: float, after_count: float
) -> str:
    """Return the word of `HOW` for work that took the place of other work.

    Kernels of which none is of a library of the other side are of another library, however many
    they are; else fewer are fused, more are split.
    """
    one, other = set(libraries(before)), set(libraries(after))
    if one and other and not one & other:
        return "other library"
    if round(before_count, 6) == round(after_count, 6):
        return "other kernels"
    return "fused" if after_count < before_count else "split"


Ints = npt.NDArray[np.int64]

_OTHER = KINDS.index("other")


def steps_within(part: Part) -> tuple[Ints, Ints]:
    """Return numbers and bounds of the steps that the selection holds whole.

    Of BytePS, whose files hold no more of a step than its synchronisations, a step lasts from the
    first of them to the first of the next step; the last one, whose end no file tells, is left out
    where there are others.
    """
    table = part.table
    steps_of = provided("steps", {part.trace.format})
    if steps_of:
        numbers, start, end = steps_of[0](part)
    else:
        whole_rank = Part(part.trace, np.arange(len(table)), None, None)
        numbers, start, end = host_steps(whole_rank)
    kept = np.isin(numbers, np.unique(table.step[part.rows]))
    kept &= ~np.isin(numbers, clipped_steps(part.trace))
    if part.low is not None:
        kept &= start >= part.low
    if part.high is not None:
        kept &= end <= part.high
    bounds = np.stack([start, end], axis=1) + part.trace.shift_ns
    return numbers[kept], bounds[kept]


def whole(part: Part) -> Ints:
    """Return the window, or where it is open, from the first to the last event, (1, 2)."""
    table = part.table
    rows = part.rows[table.kind[part.rows] != _OTHER]
    rows = rows if len(rows) else part.rows
    first = int(table.start_ns[rows].min()) if len(rows) else 0
    last = int(table.end_ns[rows].max()) if len(rows) else first
    low = first if part.low is None else part.low
    high = max(last if part.high is None else part.high, low)
    return np.array([[low, high]], dtype=np.int64) + part.trace.shift_ns


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

"""Pair the ranks and steps of two runs, and list what limits their comparison."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hta_widgets.analysis.clusters import rank_clusters
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.analysis.cross_rank.waits import CollectiveWaits, collective_waits
from hta_widgets.analysis.diff_ops import DiffSource, side_parts
from hta_widgets.analysis.scope import RankPart
from hta_widgets.analysis.steps import clipped_steps, device_edges, host_steps, steps_ahead
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import all_formats, formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import consecutive_runs, duration, plural, run_text
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.host_stack import category_mask
from hta_widgets.trace.intervals import subtract, total_length, union
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

PartsByRank = dict[int, RankPart]
#: Ways to pair ranks.
Pairing = Literal["auto", "number", "representative"] | Mapping[int, int]

#: Kinds of cautions about hardware and the number of ranks.
CONDITIONS = ("vendor", "gpu", "world_size")
_VENDORS = (
    ("AMD", ("amd", "radeon", "instinct", "mi2", "mi3")),
    ("NVIDIA", ("nvidia", "tesla", "geforce", "quadro", "rtx")),
    ("MTIA", ("artemis", "mtia")),
)
_OTHER = KINDS.index("other")
_MIN_OUTSIDE_SHARE = 0.01  # of the steps' time; smaller differences are not reported


class Caution(NamedTuple):
    """A fact that limits the comparison.

    ``kind`` is one of ``empty, gpu, vendor, world_size, ranks, rank, steps, clock, resolution,
    format, stacks, device``.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class RunSide:
    """One side: the selected events of its ranks, and its steps.

    Attributes
    ----------
    label : str
    traces : TraceSet
        The set of the ranks.
    parts : dict of int to Part
        The selected events of each rank that is compared.
    steps : array of int
        Numbers of the steps that all these ranks have and that the selection holds completely; a
        single -1 if there are none and the whole selection is compared.
    windows : dict of int to array
        By rank, start and end of each step, (steps, 2), with the clock's shift. They do not
        overlap: a step ends where the next one begins. See `compare` on hosts that are ahead.
    left_out : tuple of int
        Ranks without steps, if others have some.
    tabled : dict of int to Part
        Ranks that only the tables of their format compare: BytePS servers next to workers, MPI
        profiles of one job next to time lines of another.
    overlap_ns : int
        Longest time by which the steps of a rank overlapped.
    on_device : bool
        Whether the steps are those of the devices.
    """

    label: str
    traces: TraceSet
    parts: PartsByRank
    steps: Ints
    windows: dict[int, Ints]
    left_out: tuple[int, ...] = ()
    tabled: PartsByRank = field(default_factory=dict)
    overlap_ns: int = 0
    on_device: bool = False

    @property
    def ranks(self) -> list[int]:
        """The ranks that are compared."""
        return list(self.parts)

    @property
    def table_ranks(self) -> list[int]:
        """All ranks, including those that are compared in tables only."""
        return [*self.parts, *self.tabled]

    @property
    def formats(self) -> set[str]:
        """Formats of the files of all ranks."""
        return _formats_of(self.parts) | _formats_of(self.tabled)

    @property
    def is_totals(self) -> bool:
        """Whether all its files are profiles: totals of a run, without events."""
        return all(part.trace.is_totals for part in self.parts.values())

    @property
    def has_steps(self) -> bool:
        """Whether steps are compared, not the whole selection."""
        return not (len(self.steps) == 1 and self.steps[0] < 0)

    @cached_property
    def waits(self) -> CollectiveWaits:
        """The waits of the ranks in collectives."""
        return collective_waits(self.traces)

    def of_steps(self, places: Ints) -> RunSide:
        """Return the side with only some of its steps."""
        windows = {rank: windows[places] for rank, windows in self.windows.items()}
        return replace(self, steps=self.steps[places], windows=windows)

    def envelope(self) -> tuple[Ints, Ints]:
        """Return the first start and the last end of each step on any rank."""
        every = np.stack(list(self.windows.values()))
        return every[:, :, 0].min(axis=0), every[:, :, 1].max(axis=0)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs with their ranks and steps paired.

    Attributes
    ----------
    before, after : RunSide
        Both with the paired steps only, in order.
    rank_pairs : list of (int, int)
        Ranks whose events are matched and whose timelines are shown together.
    by_rank_means : bool
        Whether times are means over all ranks of each side, not only the paired ones, because the
        sides have different numbers of ranks. Times of matched calls are means over the pairs.
    before_alone, after_alone : array of int
        Numbers of the steps without a partner.
    matched_by : {"number", "order", "whole"}
        How the steps were paired.
    """

    before: RunSide
    after: RunSide
    rank_pairs: list[tuple[int, int]]
    by_rank_means: bool
    before_alone: Ints
    after_alone: Ints
    matched_by: str
    #: the whole comparison that has this pair of ranks or, at a place, of steps
    part_of: tuple[Comparison, int | None] | None = field(default=None, repr=False)
    #: cached results, see `hta_widgets.trace.memo`
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def sides(self) -> tuple[RunSide, RunSide]:
        """Before and after."""
        return self.before, self.after

    @property
    def step_count(self) -> int:
        """The number of pairs of steps; 1 if whole selections are compared."""
        return len(self.before.steps)

    @property
    def same_steps(self) -> bool:
        """Whether steps are paired by number, so that tests may compare each with its partner."""
        return self.matched_by == "number"

    @cached_property
    def cautions(self) -> list[Caution]:
        """The facts that limit the comparison, the most important first."""
        return _cautions(self)


@check_arguments
def compare(
    before: DiffSource,
    after: DiffSource,
    *,
    ranks: Pairing = "auto",
    steps: Mapping[int, int] | Literal["auto", "number", "order"] = "auto",
    labels: tuple[str, str] | None = None,
) -> Comparison:
    """Pair the ranks and steps of two runs.

    The result is the argument of all other functions of `hta_widgets.diff`.

    A step is the host's range ``ProfilerStep#n``. If hosts of a side leave most of the compared
    steps before their devices do the work (``ahead`` of `hta_widgets.analysis.step_times`), steps
    of both sides are those of the devices: from the end of the previous step's work, for the first
    from its first start, to the end of its own. `findings` states it.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        Two jobs, two ranks of one job, two windows, two steps. For a selection, its events are
        compared, cut at its window, and the steps that are completely in the window. If one side
        has no such step, the windows themselves are compared.
    ranks : {"auto", "number", "representative"} or mapping, default "auto"
        ``"number"``: by the number of the rank; for MPI the number that the file states.
        ``"representative"``: the representatives of
        the clusters of `hta_widgets.analysis.rank_clusters`, largest first. A mapping of before's
        to after's ranks. ``"auto"``: a single rank with a single rank, whatever their numbers, else
        by number. If the sides have different numbers of ranks, times are means over all ranks of
        each side, and events are matched between ranks with the same number, whose means `changes`,
        `icicle` and `operators_diff` have.
    steps : {"auto", "number", "order"} or mapping, default "auto"
        Pair ``ProfilerStep#n`` by number, by order, or by a mapping of before's to after's numbers.
        ``"auto"``: by number if the sides have a number in common, else by order.
    labels : (str, str), optional
        Names of the sides. Default: the folders, ranks or steps in which they differ.

    Returns
    -------
    Comparison

    Raises
    ------
    TraceError
        If a side has no ranks, a rank or step does not exist, or the formats of the sides cannot be
        compared.
    """
    chosen = (
        {part.rank: part for part in side_parts(before)},
        {part.rank: part for part in side_parts(after)},
    )
    for word, parts in zip(("before", "after"), chosen, strict=True):
        if not parts:
            raise TraceError(f"no ranks {word}", remedy="Give traces, or a selection of some.")
    owners = _trace_set_of(before), _trace_set_of(after)
    lines, tabled = _ranks_by_format(*chosen)
    if isinstance(ranks, Mapping):
        # A mapping may also pair servers, which only tables compare otherwise.
        lines, tabled = chosen, ({}, {})
    pairs, means = _rank_pairs(ranks, *lines, owners)
    kept = [
        parts if means else {rank: parts[rank] for rank in dict.fromkeys(pair[k] for pair in pairs)}
        for k, parts in enumerate(lines)
    ]
    names = labels or _labels(*kept)
    every = list(zip(names, owners, kept, strict=True))
    sides = [_side(*arguments) for arguments in every]
    if all(side.has_steps for side in sides) and any(map(_is_ahead, sides)):
        sides = [_side(*arguments, on_device=True) for arguments in every]
    if sides[0].has_steps != sides[1].has_steps:
        sides = [_whole_side(*arguments) for arguments in every]
    pairs = [(a, b) for a, b in pairs if a in sides[0].parts and b in sides[1].parts]
    pairs = pairs or [(sides[0].ranks[0], sides[1].ranks[0])]
    sides = [replace(side, tabled=more) for side, more in zip(sides, tabled, strict=True)]
    matched_by, places = _step_pairs(sides[0], sides[1], steps)
    alone = [
        np.delete(side.steps, places[:, k]) if side.has_steps else np.empty(0, np.int64)
        for k, side in enumerate(sides)
    ]
    before_side, after_side = (side.of_steps(places[:, k]) for k, side in enumerate(sides))
    if labels is None and names == ("before", "after") and len(places) == 1:
        numbers = int(before_side.steps[0]), int(after_side.steps[0])
        if before_side.has_steps and numbers[0] != numbers[1]:
            before_side = replace(before_side, label=f"step {numbers[0]}")
            after_side = replace(after_side, label=f"step {numbers[1]}")
    return Comparison(before_side, after_side, pairs, means, alone[0], alone[1], matched_by)


def is_host_only(name: str) -> bool:
    """Return whether files of a format have no device work, only calls on the host."""
    return any(format_.comparison.host_only for format_ in formats_named([name]))


def both_have_frames(diff: Comparison) -> bool:
    """Return whether both sides have Python functions, which are ignored otherwise."""
    return all(_has_stacks(side) for side in diff.sides)


def step_at(side: RunSide, rank: int, time_ns: Ints) -> Ints:
    """Return the compared step of a rank that runs at each of the times, -1 for none."""
    windows = side.windows[rank]
    at = np.searchsorted(windows[:, 0], time_ns, side="right") - 1
    return np.where((at >= 0) & (time_ns < windows[np.maximum(at, 0), 1]), at, -1)


def conditions(diff: Comparison) -> str:
    """Return the differences of GPU, vendor and world size as a sentence, "" if there are none."""
    texts = [caution.text for caution in diff.cautions if caution.kind in CONDITIONS]
    return f"The runs are not alike: {'; '.join(texts)}." if texts else ""


def paired_ranks(diff: Comparison) -> str:
    """Describe the ranks whose calls are matched: ``ranks 0–3``."""
    numbers = sorted(before for before, _ in diff.rank_pairs)
    words = ", ".join(map(run_text, consecutive_runs(numbers)))
    if any(before != after for before, after in diff.rank_pairs):
        words = _format_pairs(diff.rank_pairs)
    return f"rank{'s' * (len(numbers) > 1)} {words}"


def _formats_of(parts: PartsByRank) -> set[str]:
    return {part.trace.format for part in parts.values()}


def _ranks_by_format(
    before: PartsByRank, after: PartsByRank
) -> tuple[tuple[PartsByRank, PartsByRank], tuple[PartsByRank, PartsByRank]]:
    """Return the ranks whose events are compared, and those compared in tables only."""
    # Servers have another clock than workers and no steps; profiles have no events, and repeat the
    # calls of time lines.
    formats = _formats_of(before), _formats_of(after)
    shared = formats[0] & formats[1]
    known = {format_.name: format_ for format_ in all_formats()}
    if not shared:
        both = formats[0] | formats[1]
        if all(
            both <= {name, *known[name].comparison.compared_with} for name in both if name in known
        ):
            return (before, after), ({}, {})
        names = {name: known[name].plural if name in known else name for name in both}
        words = [
            " and ".join(names[name] for name in sorted(format_names)) for format_names in formats
        ]
        raise TraceError(
            f"{words[0]} cannot be compared with {words[1]}",
            remedy="Compare two runs of the same format.",
        )
    shared -= {name for name in shared if name in known and known[name].comparison.beside in shared}

    def split(parts: PartsByRank) -> tuple[PartsByRank, PartsByRank]:
        lines = {rank: part for rank, part in parts.items() if part.trace.format in shared}
        return lines, {rank: part for rank, part in parts.items() if rank not in lines}

    (one, one_tabled), (other, other_tabled) = split(before), split(after)
    return (one, other), (one_tabled, other_tabled)


def _trace_set_of(source: DiffSource) -> TraceSet:
    if isinstance(source, TraceSet):
        return source
    if isinstance(source, Trace):
        # With `like`, the rank keeps the times that it has in its own set.
        return TraceSet([source], like=TraceSet([]))
    if isinstance(source, Selection) and source.traces is not None:
        return source.traces
    raise TraceError("this selection belongs to no traces", remedy="Make it with traces.select().")


def _labels(before: PartsByRank, after: PartsByRank) -> tuple[str, str]:
    folders = [_folder(side) for side in (before, after)]
    if all(folders) and folders[0] != folders[1]:
        return folders[0], folders[1]
    if len(before) == len(after) == 1 and list(before) != list(after):
        return f"rank {next(iter(before))}", f"rank {next(iter(after))}"
    return "before", "after"


def _folder(side: PartsByRank) -> str:
    """Return the name of the common folder of a side's files."""
    folders = {str(Path(part.trace.path).resolve().parent) for part in side.values()}
    try:
        return Path(os.path.commonpath(folders)).name
    except ValueError:
        return ""


# --- ranks ----------------------------------------------------------------------------------------


def _rank_pairs(
    ranks: Pairing, before: PartsByRank, after: PartsByRank, owners: tuple[TraceSet, TraceSet]
) -> tuple[list[tuple[int, int]], bool]:
    """Return the pairs of ranks, and whether times are means over all ranks."""
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
    numbers = [_stated_numbers(side) for side in (before, after)]
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


def _stated_numbers(parts: PartsByRank) -> dict[int, int]:
    """Return the number by which each rank is paired."""
    # Of several MPI jobs in a set, later ones get free numbers. Stated ranks are used if those of
    # the compared ranks are distinct.
    numbers = {}
    for rank, part in parts.items():
        stated = part.trace.stated_rank if is_host_only(part.trace.format) else None
        numbers[rank] = rank if stated is None else stated
    return numbers if len(set(numbers.values())) == len(numbers) else {rank: rank for rank in parts}


def _representatives(traces: TraceSet, ranks: list[int]) -> list[int]:
    clusters = rank_clusters(traces, ranks=ranks).sort_values("cluster", kind="stable")
    return list(dict.fromkeys(clusters["representative"].tolist())) or ranks[:1]


# --- steps ----------------------------------------------------------------------------------------


def _is_ahead(side: RunSide) -> bool:
    """Return whether the hosts leave most of the steps before the devices do their work."""
    ahead = np.isin(side.steps, steps_ahead(side.traces))
    return 2 * int(ahead.sum()) > len(ahead)


def _side(label: str, traces: TraceSet, parts: PartsByRank, *, on_device: bool = False) -> RunSide:
    steps_by_rank = {rank: _steps_within(part, on_device=on_device) for rank, part in parts.items()}
    having = {
        rank: steps_of_rank
        for rank, steps_of_rank in steps_by_rank.items()
        if len(steps_of_rank[0])
    }
    if not having:
        return _whole_side(label, traces, parts)
    # A rank without steps, such as a server's, cannot be compared step by step.
    left_out = tuple(rank for rank in parts if rank not in having)
    parts = {rank: part for rank, part in parts.items() if rank in having}
    common = next(iter(having.values()))[0]
    for numbers, *_ in having.values():
        common = np.intersect1d(common, numbers)
    if not len(common):
        return _whole_side(label, traces, parts)
    windows = {
        rank: bounds[np.searchsorted(numbers, common)]
        for rank, (numbers, bounds, _) in having.items()
    }
    order = np.argsort(next(iter(windows.values()))[:, 0], kind="stable")
    windows = {rank: bounds[order] for rank, bounds in windows.items()}
    overlap_ns = max(overlap_ns for *_, overlap_ns in having.values())
    about: dict[str, Any] = {"overlap_ns": overlap_ns, "on_device": on_device}
    return RunSide(label, traces, parts, common[order], windows, left_out, **about)


def _whole_side(label: str, traces: TraceSet, parts: PartsByRank) -> RunSide:
    windows = {rank: _whole_window(part) for rank, part in parts.items()}
    return RunSide(label, traces, parts, np.array([-1], dtype=np.int64), windows)


def _steps_within(part: RankPart, *, on_device: bool) -> tuple[Ints, Ints, int]:
    """Return numbers and bounds of the steps that the selection holds completely.

    The bounds do not overlap, so that no time counts twice: a step ends where the next one begins.
    Also returns the time by which the steps overlapped.
    """
    table = part.table
    steps_of = load_references(
        format_.comparison.steps for format_ in formats_named([part.trace.format])
    )
    if steps_of:
        numbers, start, end = steps_of[0](part)
    else:
        numbers, start, end = host_steps(RankPart(part.trace, np.arange(len(table)), None, None))
    worked, first, last = device_edges(part.trace)
    if on_device and len(worked):
        # Copies for later steps may begin early, so a step begins where the previous one is done.
        order = np.argsort(last, kind="stable")
        numbers, end = worked[order], last[order]
        start = np.append(first[order][:1], end[:-1])
    kept = np.isin(numbers, np.unique(table.step[part.rows]))
    kept &= ~np.isin(numbers, clipped_steps(part.trace))
    if part.low is not None:
        kept &= start >= part.low
    if part.high is not None:
        kept &= end <= part.high
    order = np.argsort(start, kind="stable")
    last = np.maximum.accumulate(end[order])
    until = np.minimum(last, np.append(start[order][1:], last[-1:]))
    overlap_ns = int((end - start).sum() - (until - start[order]).sum())
    end = until[np.argsort(order)]
    bounds = np.stack([start, end], axis=1) + part.trace.shift_ns
    return numbers[kept], bounds[kept], overlap_ns


def _whole_window(part: RankPart) -> Ints:
    """Return the window, (1, 2); open ends are at the first start and the last end of events."""
    table = part.table
    rows = part.rows[table.kind[part.rows] != _OTHER]
    rows = rows if len(rows) else part.rows
    first = int(table.start_ns[rows].min()) if len(rows) else 0
    last = int(table.end_ns[rows].max()) if len(rows) else first
    low = first if part.low is None else part.low
    high = max(last if part.high is None else part.high, low)
    return np.array([[low, high]], dtype=np.int64) + part.trace.shift_ns


def _step_pairs(before: RunSide, after: RunSide, how: Mapping[int, int] | str) -> tuple[str, Ints]:
    """Return how steps were paired, and the positions of the pairs, (pairs, 2)."""
    if not before.has_steps:
        return "whole", np.zeros((1, 2), dtype=np.int64)
    if isinstance(how, Mapping):
        places = [
            [_step_position(before, int(a)), _step_position(after, int(b))]
            for a, b in sorted(how.items())
        ]
        if not places or any(b[1] <= a[1] for a, b in itertools.pairwise(places)):
            raise TraceError(f"{how!r} crosses steps", remedy="Keep their order on both sides.")
        return "number", np.array(places, dtype=np.int64)
    common = np.isin(before.steps, after.steps)
    if how == "number" and not common.any():
        raise TraceError("no step has the same number on both sides", remedy='Give steps="order".')
    if how != "order" and common.any():
        mine = np.flatnonzero(common)
        order = np.argsort(after.steps)
        theirs = order[np.searchsorted(after.steps[order], before.steps[mine])]
        return "number", np.stack([mine, theirs], axis=1)
    first = np.arange(min(len(before.steps), len(after.steps)))
    return "order", np.stack([first, first], axis=1)


def _step_position(side: RunSide, step: int) -> int:
    found = np.flatnonzero(side.steps == step)
    if not len(found):
        raise TraceError(
            f"{side.label} has no step {step}",
            remedy=f"The steps are {', '.join(map(str, side.steps.tolist()))}.",
        )
    return int(found[0])


# --- cautions -------------------------------------------------------------------------------------


def _cautions(diff: Comparison) -> list[Caution]:
    before, after = diff.sides
    cautions: list[Caution] = []

    def add(kind: str, text: str) -> None:
        cautions.append(Caution(kind, text))

    def differ(kind: str, words: str, before_text: str, after_text: str) -> None:
        if before_text and after_text and before_text != after_text:
            add(kind, f"{words} {before_text} → {after_text}")

    empty = [side.label for side in diff.sides if _is_empty(side)]
    if len(empty) == 2:
        add("empty", f"no events in {empty[0]} and {empty[1]}: there is nothing to compare")
    elif empty:
        add("empty", f"no events in {empty[0]}: all of the other side is without a counterpart")
    gpus = _gpus(before), _gpus(after)
    differ("vendor", "different makers of GPUs:", *map(_vendor, gpus))
    differ("gpu", "different GPUs:", *gpus)
    differ(
        "format", "different formats:", *(", ".join(sorted(side.formats)) for side in diff.sides)
    )
    differ("world_size", "world size", _world_size(before), _world_size(after))
    if diff.by_rank_means:
        ranks = f"{plural(len(before.ranks), 'rank')} against {len(after.ranks)}"
        calls = any(len(part.rows) for side in diff.sides for part in side.parts.values())
        times = f"{ranks}: times are means over all ranks of each side"
        add("ranks", f"{times}, and calls are matched on {paired_ranks(diff)}" if calls else times)
    for side in diff.sides:
        if side.left_out:
            some = f"{plural(len(side.left_out), 'rank')} of {side.label}"
            listed = ", ".join(map(str, side.left_out[:4])) + ", …" * (len(side.left_out) > 4)
            verb = "is" if len(side.left_out) == 1 else "are"
            add("ranks", f"{some} without steps {verb} left out: {listed}")
    numbers_of_sides = [_stated_numbers(side.parts) for side in diff.sides]
    unequal = [(a, b) for a, b in diff.rank_pairs if a != b]
    renamed = [(a, b) for a, b in unequal if numbers_of_sides[0][a] == numbers_of_sides[1][b]]
    other = [pair for pair in unequal if pair not in renamed]
    if other:
        add("rank", f"different rank{'s' * (len(other) > 1)}: {_format_pairs(other)}")
    if renamed:
        reason = "the same ranks under other numbers, as several files of a run state one rank"
        add("rank", f"{reason}: {_format_pairs(renamed)}")
    cautions += [Caution("steps", text) for text in _step_cautions(diff)]
    differ("clock", "different clocks:", before.traces.clock, after.traces.clock)
    for side in diff.sides:
        if drift := clock_fit(side.traces).drift_note:
            add("clock", f"{side.label}: {drift}")
    finest = [max(p.trace.resolution_ns for p in side.parts.values()) for side in diff.sides]
    differ("resolution", "times are as fine as", f"{finest[0]} ns", f"{finest[1]} ns")
    stacks = [_has_stacks(side) for side in diff.sides]
    if stacks[0] != stacks[1]:
        having = before if stacks[0] else after
        add("stacks", f"only {having.label} holds Python functions: they are left out")
    work = [
        any(len(part.device_work_rows()) for part in side.parts.values()) for side in diff.sides
    ]
    if work[0] != work[1] and not empty and not (before.is_totals or after.is_totals):
        lacking = after if work[0] else before
        add("device", f"no device work in {lacking.label}")
    return cautions


def _step_cautions(diff: Comparison) -> Iterator[str]:
    """Yield what limits the comparison of steps."""
    steps = [diff.step_count + len(alone) for alone in (diff.before_alone, diff.after_alone)]
    if max(steps) > diff.step_count:
        verb = "is" if diff.step_count == 1 else "are"
        yield f"{plural(steps[0], 'step')} against {steps[1]}: {diff.step_count} {verb} compared"
    having = [
        side
        for side in diff.sides
        if any((part.table.step[part.rows] >= 0).any() for part in side.parts.values())
    ]
    if len(having) == 1 and not any(map(_is_empty, diff.sides)):
        yield f"only {having[0].label} has steps: each side is compared as a whole"
    if diff.matched_by == "order":
        yield "steps have other numbers: they are matched in their order"
    for side in diff.sides:
        if side.overlap_ns:
            shared = f"steps of {side.label} overlap by {duration(side.overlap_ns)}"
            yield f"{shared}: that time counts for the later step only"
    outside = [_outside_ns(side) for side in diff.sides]
    least = _MIN_OUTSIDE_SHARE * max(map(_length_ns, diff.sides))
    if abs(outside[1] - outside[0]) >= max(least, 1):
        times = " → ".join(duration(round(time)) for time in outside)
        yield f"device work that runs outside of the compared steps counts in none: {times}"


def _is_empty(side: RunSide) -> bool:
    """Return whether a side has neither events nor profiles, which have totals instead."""
    return not any(len(part.rows) or part.trace.profile is not None for part in side.parts.values())


def _length_ns(side: RunSide) -> float:
    """Return the time of all steps, the mean over ranks."""
    return float(np.mean([(bounds[:, 1] - bounds[:, 0]).sum() for bounds in side.windows.values()]))


def _outside_ns(side: RunSide) -> float:
    """Return the time of work that steps launched and that runs outside, the mean over ranks."""
    found = []
    for rank, part in side.parts.items() if side.has_steps else ():
        rows = part.device_work_rows()
        rows = rows[(part.table.stream[rows] >= 0) & np.isin(part.table.step[rows], side.steps)]
        steps = union(*(side.windows[rank] - part.trace.shift_ns).T)
        found.append(total_length(subtract(union(*part.clip_rows(rows)), steps)))
    return float(np.mean(found or [0]))


def _format_pairs(pairs: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{a} → {b}" for a, b in pairs[:4]) + (", …" if len(pairs) > 4 else "")


def _gpus(side: RunSide) -> str:
    devices = [part.trace.metadata.get("deviceProperties") for part in side.parts.values()]
    every = [device for one in devices if isinstance(one, list) for device in one]
    names = {str(device.get("name", "")) for device in every if isinstance(device, dict)}
    return ", ".join(sorted(names - {""}))


def _vendor(gpus: str) -> str:
    text = gpus.lower()
    return next((vendor for vendor, marks in _VENDORS if any(mark in text for mark in marks)), "")


def _world_size(side: RunSide) -> str:
    sizes = {part.trace.world_size for part in side.parts.values()} - {0}
    return ", ".join(map(str, sorted(sizes)))


def _has_stacks(side: RunSide) -> bool:
    return any(category_mask(part.trace, "python_function").any() for part in side.parts.values())

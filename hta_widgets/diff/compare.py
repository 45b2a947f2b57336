"""Pairs the ranks and steps of two runs, and lists what limits the comparison.

For example, run A has ranks 0 and 1 with steps 3, 4 and 5, and run B has rank 0 with steps 4, 5 and
6. Steps 4 and 5 are paired, and so is rank 0. Times are means over all ranks of each run, because A
has a rank that B lacks. A `Caution` states each of these limits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hta_widgets.analysis.clusters import rank_clusters
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.analysis.operator_diff import DiffSource, side_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.sides import PartsByRank, RunSide, formats_of, is_host_only, make_sides
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import all_formats, formats_named
from hta_widgets.text import consecutive_runs, duration, plural, run_text
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.host_stack import category_mask
from hta_widgets.trace.intervals import subtract, total_length, union
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Ways to pair ranks.
Pairing = Literal["auto", "number", "representative"] | Mapping[int, int]

#: Kinds of cautions about hardware, profilers and the number of ranks.
CONDITIONS = ("vendor", "gpu", "format", "world_size")
_VENDORS = (
    ("AMD", ("amd", "radeon", "instinct", "mi2", "mi3")),
    ("NVIDIA", ("nvidia", "tesla", "geforce", "quadro", "rtx")),
    ("MTIA", ("artemis", "mtia")),
)
_DRIFT_CORRECTED = "waits, transfers and late ranks are corrected for it; timelines are not"
_MIN_OUTSIDE_SHARE = 0.01  # share of step time; smaller differences are not reported


class Caution(NamedTuple):
    """A fact that limits the comparison.

    ``kind`` is one of ``empty, gpu, vendor, world_size, ranks, rank, steps, clock, resolution,
    format, stacks, device``.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs with paired ranks and steps.

    Attributes
    ----------
    before, after : RunSide
        Both sides, restricted to the paired steps, in order.
    rank_pairs : list of (int, int)
        Ranks whose events are matched and whose timelines are shown together.
    by_rank_means : bool
        Whether times are means over all ranks of each side, because a side has a rank that the
        other lacks. Times of matched calls are always means over the pairs of ranks.
    before_alone, after_alone : array of int
        Numbers of the unpaired steps.
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
    #: the comparison that contains this one, and the position of its pair of steps (None: all)
    part_of: tuple[Comparison, int | None] | None = field(default=None, repr=False)
    #: cached results, see `hta_widgets.trace.memo`
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def sides(self) -> tuple[RunSide, RunSide]:
        """Before and after."""
        return self.before, self.after

    @property
    def step_count(self) -> int:
        """Number of pairs of steps; 1 if whole selections are compared."""
        return len(self.before.steps)

    @property
    def has_totals(self) -> bool:
        """Whether a side has only totals, without events."""
        return self.before.is_totals or self.after.is_totals

    @property
    def is_of_devices(self) -> bool:
        """Whether device profilers, such as PyTorch's or Nsight, wrote every file on both sides."""
        formats = formats_named(self.before.formats | self.after.formats)
        return all("kineto" in (each.name, *each.comparison.compared_with) for each in formats)

    @property
    def step_ns(self) -> float:
        """Mean duration of a step on the side with the longer steps."""
        return max(side.step_ns for side in self.sides)

    @property
    def same_steps(self) -> bool:
        """Whether steps are paired by number, so that tests may compare the steps of each pair."""
        return self.matched_by == "number"

    @cached_property
    def cautions(self) -> list[Caution]:
        """Facts that limit the comparison, the most important first."""
        return [
            *_empty_cautions(self),
            *_condition_cautions(self),
            *_rank_cautions(self),
            *(Caution("steps", text) for text in _step_cautions(self)),
            *_clock_cautions(self),
            *_content_cautions(self),
        ]


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

    The other functions in `hta_widgets.diff` take the result as argument.

    A step is the host's range ``ProfilerStep#n``. If the hosts of a side leave most of the compared
    steps before their devices do the work (``ahead`` of `hta_widgets.analysis.step_times`), the
    steps of both sides are those of the devices. Such a step extends from the end of the previous
    step's work to the end of its own work; the first step starts with its first work. In that case,
    `findings` includes a caution.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        Two jobs, two ranks of a job, two windows, or two steps. A selection contributes its events,
        clipped to its window, and the steps that lie completely within the window. If a side has no
        such step, the windows themselves are compared.
    ranks : {"auto", "number", "representative"} or mapping, default "auto"
        ``"number"``: by rank number; for MPI, the number given in the file. ``"representative"``:
        the representatives of the clusters of `hta_widgets.analysis.rank_clusters`, largest first.
        A mapping: ranks before to ranks after. ``"auto"``: if each side has a single rank, these
        two; otherwise by number, or by order if the sides have equally many ranks without a common
        number. If a side has a rank that the other lacks, times are means over all ranks of each
        side, and events are matched between ranks with the same number; `changes`, `icicle` and
        `operators_diff` return means over these pairs.
    steps : {"auto", "number", "order"} or mapping, default "auto"
        Pair ``ProfilerStep#n`` by number, by order, or by a mapping from numbers before to numbers
        after. ``"auto"``: by number if the sides have a number in common, otherwise by order.
    labels : (str, str), optional
        Names of the sides. Default: the folders, ranks or steps that differ between the sides.

    Returns
    -------
    Comparison

    Raises
    ------
    TraceError
        If a side has no ranks, a rank or step does not exist, or the formats of the sides cannot be
        compared.
    """
    selected = (
        {part.rank: part for part in side_parts(before)},
        {part.rank: part for part in side_parts(after)},
    )
    for word, parts in zip(("before", "after"), selected, strict=True):
        if not parts:
            raise TraceError(f"no ranks {word}", remedy="Give traces, or a selection of some.")
    owners = _trace_set_of(before), _trace_set_of(after)
    compared, tabled = _ranks_by_format(*selected)
    if isinstance(ranks, Mapping):
        # A mapping may also pair servers, which are otherwise compared only in tables.
        compared, tabled = selected, ({}, {})
    pairs, by_rank_means = _rank_pairs(ranks, *compared, owners)
    if not by_rank_means:
        compared = (
            {rank: compared[0][rank] for rank, _ in pairs},
            {rank: compared[1][rank] for _, rank in pairs},
        )
    side_labels = labels or _labels(*compared)
    sides = make_sides(list(zip(side_labels, owners, compared, strict=True)))
    sides = [replace(side, tabled=parts) for side, parts in zip(sides, tabled, strict=True)]
    # Sides may omit ranks that have no steps.
    pairs = [(a, b) for a, b in pairs if a in sides[0].parts and b in sides[1].parts]
    pairs = pairs or [(sides[0].ranks[0], sides[1].ranks[0])]
    matched_by, positions = _step_pairs(sides[0], sides[1], steps)
    steps_alone = [
        np.delete(side.steps, positions[:, k]) if side.has_steps else np.empty(0, np.int64)
        for k, side in enumerate(sides)
    ]
    sides = [side.of_steps(positions[:, k]) for k, side in enumerate(sides)]
    is_unnamed = labels is None and side_labels == ("before", "after")
    # A side that is compared as a whole has a single step, -1.
    if is_unnamed and len(positions) == 1 and sides[0].steps[0] != sides[1].steps[0]:
        sides = [replace(side, label=f"step {side.steps[0]}") for side in sides]
    return Comparison(
        sides[0], sides[1], pairs, by_rank_means, steps_alone[0], steps_alone[1], matched_by
    )


def both_have_frames(diff: Comparison) -> bool:
    """Return whether both sides have Python functions; otherwise, comparisons ignore them."""
    return all(_has_stacks(side) for side in diff.sides)


def is_condition(diff: Comparison, caution: Caution) -> bool:
    """Return whether a caution is about the conditions of the runs as a whole.

    For host files, only formats on both sides count; additional formats on one side do not.
    """
    return caution.kind in CONDITIONS and (caution.kind != "format" or diff.is_of_devices)


def conditions(diff: Comparison) -> str:
    """Describe how hardware, formats and world sizes differ; "" if they do not."""
    texts = [caution.text for caution in diff.cautions if is_condition(diff, caution)]
    return f"The runs differ: {'; '.join(texts)}." if texts else ""


def paired_ranks(diff: Comparison) -> str:
    """Return the ranks whose calls are matched, as a string: ``ranks 0–3``."""
    numbers = sorted(before for before, _ in diff.rank_pairs)
    words = ", ".join(map(run_text, consecutive_runs(numbers)))
    if any(before != after for before, after in diff.rank_pairs):
        words = _format_pairs(diff.rank_pairs)
    return f"rank{'s' if len(numbers) > 1 else ''} {words}"


def _ranks_by_format(
    before: PartsByRank, after: PartsByRank
) -> tuple[tuple[PartsByRank, PartsByRank], tuple[PartsByRank, PartsByRank]]:
    """Return the ranks whose events are compared, and those compared only in tables."""
    # Servers have no steps, and their clock differs from the workers'. Profiles have no events, and
    # they repeat the calls of timelines.
    before_names, after_names = formats_of(before), formats_of(after)
    shared = before_names & after_names
    if not shared:
        both = before_names | after_names
        if any(both <= {each.name, *each.comparison.compared_with} for each in formats_named(both)):
            return (before, after), ({}, {})
        raise TraceError(
            f"{_plurals(before_names)} cannot be compared with {_plurals(after_names)}",
            remedy="Compare two runs of the same format.",
        )
    shared -= {each.name for each in formats_named(shared) if each.comparison.beside in shared}

    def split(parts: PartsByRank) -> tuple[PartsByRank, PartsByRank]:
        with_events = {rank: part for rank, part in parts.items() if part.trace.format in shared}
        return with_events, {rank: parts[rank] for rank in parts if rank not in with_events}

    (events_before, tabled_before), (events_after, tabled_after) = split(before), split(after)
    return (events_before, events_after), (tabled_before, tabled_after)


def _plurals(format_names: set[str]) -> str:
    plurals = {format_.name: format_.plural for format_ in all_formats()}
    return " and ".join(plurals.get(name, name) for name in sorted(format_names))


def _trace_set_of(source: DiffSource) -> TraceSet:
    if isinstance(source, TraceSet):
        return source
    if isinstance(source, Trace):
        # With `like`, the rank keeps its times from its own trace set.
        return TraceSet([source], like=TraceSet([]))
    if isinstance(source, Selection) and source.traces is not None:
        return source.traces
    remedy = "Make it with traces.select()."
    raise TraceError("this selection is not bound to traces", remedy=remedy)


def _labels(before: PartsByRank, after: PartsByRank) -> tuple[str, str]:
    folders = [_folder(side) for side in (before, after)]
    if all(folders) and folders[0] != folders[1]:
        return folders[0], folders[1]
    if len(before) == len(after) == 1 and list(before) != list(after):
        return f"rank {next(iter(before))}", f"rank {next(iter(after))}"
    return "before", "after"


def _folder(side: PartsByRank) -> str:
    folders = {str(Path(part.trace.path).resolve().parent) for part in side.values()}
    try:
        return Path(os.path.commonpath(folders)).name
    except ValueError:
        return ""


def _rank_pairs(
    ranks: Pairing, before: PartsByRank, after: PartsByRank, owners: tuple[TraceSet, TraceSet]
) -> tuple[list[tuple[int, int]], bool]:
    """Return the pairs of ranks, and whether times are means over all ranks."""
    if isinstance(ranks, Mapping):
        return _pairs_by_hand(ranks, before, after), False
    if ranks == "representative":
        chosen = []
        for owner, side in zip(owners, (before, after), strict=True):
            clusters = rank_clusters(owner, ranks=list(side)).sort_values("cluster", kind="stable")
            chosen.append([*dict.fromkeys(clusters["representative"].tolist())] or [*side][:1])
        return list(zip(*chosen, strict=False)), False
    number_of = _stated_numbers(before)
    after_rank = {number: rank for rank, number in _stated_numbers(after).items()}
    common = [
        (rank, after_rank[number]) for rank, number in number_of.items() if number in after_rank
    ]
    if ranks == "number":
        if not common:
            raise TraceError(
                "no rank has the same number on both sides",
                remedy="Pair them explicitly: ranks={before_rank: after_rank}.",
            )
        return common, False
    if len(before) == len(after) and not common:
        return list(zip(before, after, strict=True)), False
    means = len(common) < max(len(before), len(after))
    return common or [(next(iter(before)), next(iter(after)))], means


def _pairs_by_hand(
    ranks: Mapping[int, int], before: PartsByRank, after: PartsByRank
) -> list[tuple[int, int]]:
    pairs = [(int(rank_before), int(rank_after)) for rank_before, rank_after in ranks.items()]
    for position, (word, side) in enumerate((("before", before), ("after", after))):
        missing = sorted({pair[position] for pair in pairs} - set(side))
        if missing or not pairs:
            raise TraceError(
                f"no rank {', '.join(map(str, missing))} {word}",
                remedy=f"The ranks are {', '.join(map(str, side))}.",
            )
    return pairs


def _stated_numbers(parts: PartsByRank) -> dict[int, int]:
    # If a trace set has several MPI jobs, ranks of later jobs are renumbered. The numbers given in
    # the files are used if they are distinct among the compared ranks.
    numbers = {}
    for rank, part in parts.items():
        stated = part.trace.stated_rank if is_host_only(part.trace.format) else None
        numbers[rank] = rank if stated is None else stated
    return numbers if len(set(numbers.values())) == len(numbers) else {rank: rank for rank in parts}


def _step_pairs(before: RunSide, after: RunSide, how: Mapping[int, int] | str) -> tuple[str, Ints]:
    """Return how steps were paired, and the positions of each pair on both sides."""
    if not before.has_steps:
        return "whole", np.zeros((1, 2), dtype=np.int64)
    if isinstance(how, Mapping):
        positions = [
            [_step_position(before, int(step_before)), _step_position(after, int(step_after))]
            for step_before, step_after in sorted(how.items())
        ]
        positions_after = [position for _, position in positions]
        if not positions or (np.diff(positions_after) <= 0).any():
            raise TraceError(f"{how!r} crosses steps", remedy="Keep their order on both sides.")
        return "number", np.array(positions, dtype=np.int64)
    common = np.isin(before.steps, after.steps)
    if how == "number" and not common.any():
        raise TraceError("no step has the same number on both sides", remedy='Give steps="order".')
    if how != "order" and common.any():
        before_positions = np.flatnonzero(common)
        order = np.argsort(after.steps)
        wanted = before.steps[before_positions]
        after_positions = order[np.searchsorted(after.steps[order], wanted)]
        return "number", np.stack([before_positions, after_positions], axis=1)
    first = np.arange(min(len(before.steps), len(after.steps)))
    return "order", np.stack([first, first], axis=1)


def _step_position(side: RunSide, step: int) -> int:
    positions = np.flatnonzero(side.steps == step)
    if not len(positions):
        raise TraceError(
            f"{side.label} has no step {step}",
            remedy=f"The steps are {', '.join(map(str, side.steps.tolist()))}.",
        )
    return int(positions[0])


def _difference(kind: str, words: str, before_text: str, after_text: str) -> list[Caution]:
    """Return a caution if a value is known on both sides and differs."""
    if not before_text or not after_text or before_text == after_text:
        return []
    return [Caution(kind, f"{words} {before_text} → {after_text}")]


def _empty_cautions(diff: Comparison) -> Iterator[Caution]:
    empty = [side.label for side in diff.sides if _is_empty(side)]
    rest = "there is nothing to compare"
    if len(empty) == 1:
        rest = "the events of the other side have no counterpart"
    if empty:
        yield Caution("empty", f"no events in {' and '.join(empty)}: {rest}")


def _condition_cautions(diff: Comparison) -> Iterator[Caution]:
    gpus = [_gpus(side) for side in diff.sides]
    formats = [", ".join(sorted(side.formats)) for side in diff.sides]
    yield from _difference("vendor", "different GPU vendors:", *map(_vendor, gpus))
    yield from _difference("gpu", "different GPUs:", *gpus)
    yield from _difference("format", "different formats:", *formats)
    yield from _difference("world_size", "world size", *map(world_size_text, diff.sides))


def _rank_cautions(diff: Comparison) -> Iterator[Caution]:
    before, after = diff.sides
    if diff.by_rank_means:
        ranks = f"{plural(len(before.ranks), 'rank')} against {len(after.ranks)}"
        if len(before.ranks) == len(after.ranks):
            ranks = f"{len(diff.rank_pairs)} of {plural(len(before.ranks), 'rank')}"
            ranks += " are on both sides"
        text = f"{ranks}: times are means over all ranks of each side"
        if any(len(part.rows) for side in diff.sides for part in side.parts.values()):
            text += f", and calls are matched on {paired_ranks(diff)}"
        yield Caution("ranks", text)
    for side in diff.sides:
        if side.left_out:
            ranks = f"{plural(len(side.left_out), 'rank')} of {side.label}"
            verb = "is" if len(side.left_out) == 1 else "are"
            listed = ", ".join(map(str, side.left_out[:4]))
            more = ", …" if len(side.left_out) > 4 else ""
            yield Caution("ranks", f"{ranks} without steps {verb} left out: {listed}{more}")
    numbers_before, numbers_after = (_stated_numbers(side.parts) for side in diff.sides)
    unequal = [pair for pair in diff.rank_pairs if pair[0] != pair[1]]
    renamed = [pair for pair in unequal if numbers_before[pair[0]] == numbers_after[pair[1]]]
    different = [pair for pair in unequal if pair not in renamed]
    if different:
        nouns = f"rank{'s' if len(different) > 1 else ''}"
        yield Caution("rank", f"different {nouns}: {_format_pairs(different)}")
    if renamed:
        reason = "the same ranks under new numbers, because files of a run state the same rank"
        yield Caution("rank", f"{reason}: {_format_pairs(renamed)}")


def _clock_cautions(diff: Comparison) -> Iterator[Caution]:
    clocks = [side.traces.clock for side in diff.sides]
    yield from _difference("clock", "different clocks:", *clocks)
    for side in diff.sides:
        if drift := clock_fit(side.traces).drift_text:
            yield Caution("clock", f"{side.label}: {drift}; {_DRIFT_CORRECTED}")
    resolutions = [
        max(part.trace.resolution_ns for part in side.parts.values()) for side in diff.sides
    ]
    texts = [f"{time_ns} ns" for time_ns in resolutions]
    yield from _difference("resolution", "times have a resolution of", *texts)


def _content_cautions(diff: Comparison) -> Iterator[Caution]:
    with_stacks = [side.label for side in diff.sides if _has_stacks(side)]
    if len(with_stacks) == 1:
        yield Caution("stacks", f"only {with_stacks[0]} holds Python functions: they are left out")
    without_work = [
        side.label
        for side in diff.sides
        if not any(len(part.device_work_rows()) for part in side.parts.values())
    ]
    if len(without_work) == 1 and not any(map(_is_empty, diff.sides)) and not diff.has_totals:
        yield Caution("device", f"no device work in {without_work[0]}")


def _step_cautions(diff: Comparison) -> Iterator[str]:
    steps = [diff.step_count + len(unpaired) for unpaired in (diff.before_alone, diff.after_alone)]
    if max(steps) > diff.step_count:
        verb = "is" if diff.step_count == 1 else "are"
        yield f"{plural(steps[0], 'step')} against {steps[1]}: {diff.step_count} {verb} compared"
    sides_with_steps = [
        side
        for side in diff.sides
        if any((part.table.step[part.rows] >= 0).any() for part in side.parts.values())
    ]
    if len(sides_with_steps) == 1 and not any(map(_is_empty, diff.sides)):
        yield f"only {sides_with_steps[0].label} has steps: each side is compared as a whole"
    for side in (side for side in diff.sides if not side.has_steps):
        pause_ns = max(
            int(np.diff(window)[0, 0] - side.step_lengths(rank)[0])
            for rank, window in side.windows.items()
        )
        if pause_ns:
            between = f"{duration(pause_ns)} between the windows of {side.label}"
            yield f"without steps, the {between} are left out"
    if diff.matched_by == "order" and not np.array_equal(diff.before.steps, diff.after.steps):
        yield "step numbers differ: steps are matched in order"
    for side in diff.sides:
        # Rounding may move the end of a step beyond the next start, by up to the resolution.
        resolution_ns = max(part.trace.resolution_ns for part in side.parts.values())
        if side.overlap_ns > resolution_ns * len(side.steps):
            shared = f"steps of {side.label} overlap by {duration(side.overlap_ns)}"
            yield f"{shared}: that time counts for the later step only"
    outside = [_outside_ns(side) for side in diff.sides]
    min_ns = _MIN_OUTSIDE_SHARE * diff.step_ns * diff.step_count
    if abs(outside[1] - outside[0]) >= max(min_ns, 1):
        times = " → ".join(duration(round(time)) for time in outside)
        yield f"device work outside the compared steps counts in no step: {times}"


def _is_empty(side: RunSide) -> bool:
    """Return whether a side has neither events nor profiles (which have totals instead)."""
    return not any(len(part.rows) or part.trace.profile is not None for part in side.parts.values())


def _outside_ns(side: RunSide) -> float:
    """Return how long the steps' work runs outside of the steps, as a mean over ranks."""
    times_ns = []
    for rank, part in side.parts.items() if side.has_steps else ():
        rows = part.device_work_rows()
        rows = rows[(part.table.stream[rows] >= 0) & np.isin(part.table.step[rows], side.steps)]
        steps = union(*(side.windows[rank] - part.trace.shift_ns).T)
        times_ns.append(total_length(subtract(union(*part.clip_rows(rows)), steps)))
    return float(np.mean(times_ns or [0]))


def _format_pairs(pairs: Sequence[tuple[int, int]]) -> str:
    texts = [f"{before} → {after}" for before, after in pairs[:4]]
    return ", ".join(texts) + (", …" if len(pairs) > 4 else "")


def _gpus(side: RunSide) -> str:
    devices = [part.trace.metadata.get("deviceProperties") for part in side.parts.values()]
    records = [device for items in devices if isinstance(items, list) for device in items]
    names = {str(device.get("name", "")) for device in records if isinstance(device, dict)}
    return ", ".join(sorted(names - {""}))


def _vendor(gpus: str) -> str:
    text = gpus.lower()
    return next((vendor for vendor, marks in _VENDORS if any(mark in text for mark in marks)), "")


def world_size_text(side: RunSide) -> str:
    """Return the world sizes given in the files; "" if none is given."""
    sizes = {part.trace.world_size for part in side.parts.values()} - {0}
    return ", ".join(map(str, sorted(sizes)))


def _has_stacks(side: RunSide) -> bool:
    return any(category_mask(part.trace, "python_function").any() for part in side.parts.values())

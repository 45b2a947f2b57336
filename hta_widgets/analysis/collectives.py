"""Collectives over all ranks: arrivals, waits and bandwidths; times by stream and process group."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.comm_events import (
    OPERATIONS,
    CommEvents,
    Header,
    bytes_of,
    unsized,
    unsized_note,
)
from hta_widgets.analysis.matching import (
    Group,
    Matching,
    counted,
    identified,
    matching,
    recorded_shift,
    stated_rank,
    world_size,
)
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    by_column,
    categorical,
    count_kinds,
    narrowed,
    on_hosts_note,
    over_ranks,
    parts,
    result,
    scoped,
)
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import number_runs, run_text
from hta_widgets.trace.arrays import Bools, Floats, Ints, Rows
from hta_widgets.trace.event_args import event_args, numbers_of
from hta_widgets.trace.intervals import Covered, intersect, total, union
from hta_widgets.trace.memo import memo, memoized
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Clock = Literal["host", "fitted"]

#: Collectives whose members give or take different amounts; the largest is the message.
_ROOTED = [OPERATIONS.index(name) for name in ("gather", "scatter")]
#: Collectives in which each link carries 2(n-1)/n of the message, (n-1)/n, or all of it.
_ALL_REDUCE = [OPERATIONS.index("all_reduce")]
_SHARED = [
    OPERATIONS.index(name)
    for name in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
]
_WHOLE = [OPERATIONS.index(name) for name in ("broadcast", "reduce", "send_recv")]

_TIMES: dict[str, type] = {
    "count": np.int64,
    "communication_ns": np.int64,
    "overlapped_ns": np.int64,
    "exposed_ns": np.int64,
    "overlap_share": np.float64,
    "sum_ns": np.int64,
    "max_ns": np.int64,
}

_GROUP = ("Process Group Name", "Process Group Description", "Process Group Ranks")
_COLLECTIVE = "Collective name"
_ELEMENTS = ("In msg nelems", "Out msg nelems")
_DTYPE = "dtype"

#: More elements than any message has; keeps products within int64.
_MAX_ELEMENTS = 1 << 50

#: The purposes of process groups; ``all`` has every rank of the job.
GROUP_KINDS: tuple[str, ...] = ("data", "tensor", "pipeline", "context", "expert", "all", "unknown")

#: Words of descriptions as PyTorch, DeepSpeed and Megatron give them. The first that occurs counts:
#: ``EXPERT_DATA_PARALLEL`` reduces gradients, ``PIPELINE_MODEL_PARALLEL`` passes activations on.
_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("data", frozenset({"dp", "ddp", "fsdp", "hsdp", "data", "replicate", "shard", "zero"})),
    ("pipeline", frozenset({"pp", "pipe", "pipeline"})),
    ("tensor", frozenset({"tp", "tensor"})),
    ("context", frozenset({"cp", "context", "sp", "sequence", "ulysses"})),
    ("expert", frozenset({"ep", "expert", "moe"})),
    ("tensor", frozenset({"mp", "model"})),
    ("all", frozenset({"default", "world"})),
)

_PARALLEL_GROUPS: dict[str, type] = {
    "group": str,
    "rank": np.int64,
    "ranks": str,
    "position": np.int64,
    "size": np.int64,
    "kind": np.int64,
    "guessed": bool,
    "description": str,
    "operations": str,
    "collectives": np.int64,
    "time_ns": np.int64,
    "bytes": np.int64,
}

_SEND_RECV = OPERATIONS.index("send_recv")
_ALL_TO_ALL = OPERATIONS.index("all_to_all")


@scoped
def collectives(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return arrival, wait, transfer and bandwidth of each rank in each collective.

    A collective moves data once the last of its ranks has arrived; until then the others wait.
    Events of different ranks are matched by process group and sequence number, or by order, names,
    sizes and times within the group where files have no numbers; sends are matched with their
    receives. Whole collectives are matched before anything is selected, so the last arrival is
    that of all ranks whose files are there.

    Bandwidths are defined as in nccl-tests: the algorithm's is ``size / time``, the bus's
    multiplies it by the part that each link carries: ``2(n-1)/n`` for all-reduce, ``(n-1)/n`` for
    all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for broadcast, reduce and
    send-receive. Size is the larger of a rank's input and output; time is the transfer, without
    the wait.

    Parameters
    ----------
    clock : {"host", "fitted"}, optional
        The clock of the times, see `TraceSet.with_clock`. Default: that of the set.
    selection : Selection, optional
        Rows are returned of the selected events; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; events are not cut at its edges.

    Returns
    -------
    DataFrame
        Sorted by collective, then rank. ``collective`` (int64), from 0 in order of time; ``name``
        (categorical), as the file has it; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks where names repeat;
        ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the device
        event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64), last
        arrival less own arrival; ``transfer_ns`` (int64), own end less last arrival, negative where
        a rank left before the last one came; ``last_rank`` (int64), the last to come, -1 where
        several did at once; ``exposed_ns`` (int64), how long the event ran while the rank computed
        nothing; ``algbw_gb_s`` and ``busbw_gb_s`` (float64, NaN where unknown); ``ranks`` and
        ``group_size`` (int64), how many ranks' events there are, and how many the group has
        (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, and collectives that are
        ``matched`` on all their ranks, ``partly_matched``, ``unmatched`` (one rank's event alone),
        and of one rank (``alone``); the note names missing ranks and unknown types of elements.
        ``.attrs["clock"]`` is the clock of the times, ``.attrs["matched_by"]`` counts collectives
        by how they were matched.
    """
    chosen = narrowed(traces, **scope)
    match = matching(traces)
    name = traces.clock if clock is None else clock
    times = arrivals(traces, match, name)
    kept, matched = counted(match, chosen)
    rows = np.flatnonzero(kept)
    size, algorithm, bus = _bandwidths(match, times)
    trace, group = match.trace[rows], match.group[rows]
    names: dict[str, int] = {}
    named = match.taken("name")
    for mine, events in zip(match.of_trace, match.events, strict=True):
        codes = [names.setdefault(text, len(names)) for text in events.names]
        named[mine] = np.array(codes, dtype=np.int64)[named[mine]]
    return result(
        {
            "collective": match.collective[rows],
            "name": categorical(named[rows], list(names)),
            "operation": categorical(match.taken("operation")[rows], OPERATIONS),
            "group": categorical(group, [one.label for one in match.groups]),
            "size_bytes": size[rows],
            "rank": np.array(traces.ranks, dtype=np.int64)[trace],
            "id": match.taken("rows")[rows],
            "step": steps_of(match)[rows],
            "arrival_ns": times.arrival_ns[rows],
            "wait_ns": times.wait_ns[rows],
            "transfer_ns": (times.end_ns - times.last_ns)[rows],
            "end_ns": times.end_ns[rows],
            "last_rank": times.last_rank[rows],
            "exposed_ns": _exposed(traces, match, times, name)[rows],
            "algbw_gb_s": algorithm[rows],
            "busbw_gb_s": bus[rows],
            "ranks": match.each(match.sizes())[rows],
            "group_size": match.each(match.expected)[rows],
        },
        matched=matched,
        note=_note(match, kept, matched, traces),
        copy=False,
        clock=name,
        matched_by=match.matched_by,
        groups={one.label: {"ranks": list(one.ranks), "size": one.size} for one in match.groups},
    )


# --- times ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Times of the entries of a `Matching`, on one clock."""

    shifts_ns: Ints
    arrival_ns: Ints
    end_ns: Ints
    last_ns: Ints
    last_rank: Ints
    is_last: Bools

    @property
    def wait_ns(self) -> Ints:
        """From each arrival to the last."""
        return self.last_ns - self.arrival_ns


def arrivals(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return the times at which ranks arrive and leave, on a clock."""
    if clock not in {"host", "fitted"}:
        raise TraceError(
            f"there is no clock {clock!r}", remedy='The clocks are "host" and "fitted".'
        )
    shifts = np.array([trace.shift_ns for trace in match.traces], dtype=np.int64)
    if clock != traces.clock:
        shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
        if clock == "fitted":
            fit = clock_fit(traces)
            shifts += fit.lift_ns - fit.offset_ns
    own = shifts[match.trace]
    arrival, end = match.taken("start_ns") + own, match.taken("end_ns") + own
    last = match.spread(np.maximum, arrival)
    at_last = arrival == last
    is_shared = match.spread(np.add, at_last.astype(np.int64)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    latest = match.spread(np.maximum, np.where(at_last, ranks, -1))
    # A rank that has left did not wait for later ones.
    last = np.where(match.taken("early") == 1, np.minimum(last, end), last)
    return Arrivals(
        shifts, arrival, end, last, np.where(is_shared, -1, latest), at_last & ~is_shared
    )


def steps_of(match: Matching) -> Ints:
    """Return the step of each entry, -1 for none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for mine, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[mine] = of_rank[match.place[mine]]
    return steps


@memoized
def covered_by_compute(trace: Trace) -> Covered:
    """Return how long a rank has computed before any instant of its table."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("compute")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return Covered(*union(start, start + table.dur_ns[rows]))


def _exposed(traces: TraceSet, match: Matching, times: Arrivals, clock: Clock) -> Ints:
    """Return how long each entry ran while its rank computed nothing."""

    def derive() -> Ints:
        each = [
            (times.arrival_ns[mine] - shift, times.end_ns[mine] - shift)
            for mine, shift in zip(match.of_trace, times.shifts_ns.tolist(), strict=True)
        ]
        exposed = times.end_ns - times.arrival_ns
        found = over_ranks(match.traces, computed_between, each=each, executor=match.executor)
        for mine, computed in zip(match.of_trace, found, strict=True):
            exposed[mine] -= computed
        return exposed

    return memo(traces, ("exposed", clock), derive)


def computed_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return how long a rank computes in each interval of its table's times."""
    covered = covered_by_compute(trace)
    computed: Ints = covered(end_ns) - covered(start_ns)
    return computed


# --- bandwidth ------------------------------------------------------------------------------------


def _bandwidths(match: Matching, times: Arrivals) -> tuple[Ints, Floats, Floats]:
    """Return the message's size, and the algorithm's and the bus's bandwidth, in GB/s."""
    size, operation = match.taken("size_bytes"), match.taken("operation")
    size = np.where(np.isin(operation, _ROOTED), match.spread(np.maximum, size), size)
    members = match.each(np.where(match.expected > 0, match.expected, match.sizes()))
    share = (members - 1) / np.maximum(members, 1)
    factor = np.select(
        [np.isin(operation, codes) for codes in (_ALL_REDUCE, _SHARED, _WHOLE)],
        [2 * share, share, np.ones(len(match))],
        np.nan,
    )
    transfer = times.end_ns - times.last_ns
    known = (size > 0) & (transfer > 0)
    # Bytes per nanosecond are 10^9 bytes per second.
    algorithm = np.full(len(match), np.nan)
    algorithm[known] = size[known] / transfer[known]
    return size, algorithm, algorithm * factor


# --- what is missing -----------------------------------------------------------------------------


def _note(match: Matching, kept: Bools, matched: dict[str, int], traces: TraceSet) -> str:
    if not matched["communication"]:
        none = "no communication on a device is selected"
        return "; ".join(filter(None, [none, on_hosts_note(traces.values())]))
    ranks = len(traces)
    parts = []
    if matched["alone"]:
        parts.append(f"{matched['alone']} events are of groups of one rank")
    if matched["unmatched"]:
        parts.append(f"{matched['unmatched']} events are on one rank only and not among the rows")
    if matched["partly_matched"]:
        parts.append(
            f"{matched['partly_matched']} collectives lack events of some of their ranks, which"
            " may have come later than the last one here"
        )
    if match.missing_ranks:
        parts.append(
            f"files of {match.missing_ranks} of {match.missing_ranks + ranks} ranks are missing"
        )
    parts.append(
        unsized_note(
            unsized(events, match.place[mine[kept[mine]]])
            for mine, events in zip(match.of_trace, match.events, strict=True)
        )
    )
    return "; ".join(filter(None, parts))


@scoped
def communication_by_stream(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return how long each device stream communicates, and how much of it computing hides.

    Returns
    -------
    DataFrame
        One row per rank and stream that communicates, in that order, int64 except for the share:

        - ``rank, stream``; ``count`` of communication kernels
        - ``communication_ns``: when any of them runs
        - ``overlapped_ns``: the part during which the rank computes on any stream;
          ``exposed_ns``: the rest
        - ``overlap_share``: ``overlapped_ns`` of ``communication_ns``, 0..1
        - ``sum_ns, max_ns``: of the kernels' durations

    Notes
    -----
    Overlap is defined as in `comm_comp_overlap`, but by stream and with all compute of the rank,
    selected or not. Times of streams that communicate at the same time add up to more than the
    rank's.
    """
    chosen = parts(traces, **scope)
    rows = [
        (rank, *row)
        for rank, found in zip(chosen.ranks, over_ranks(chosen, _by_stream), strict=True)
        for row in found
    ]
    note = ["no communication kernels matched", on_hosts_note(traces.values())] if not rows else []
    return result(
        by_column(rows, {"rank": np.int64, "stream": np.int64, **_TIMES}),
        matched=count_kinds(chosen, BUSY[:2]),
        note="; ".join(filter(None, note)),
    )


@scoped
def communication_by_group(
    traces: TraceSet, *, by_collective: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long each process group communicates, how exposed, and how many bytes.

    Groups and sizes are read from the args of communication kernels, which PyTorch writes since
    version 2.3.

    Parameters
    ----------
    by_collective : bool, default False
        One row per collective of a group, such as ``allreduce``.

    Returns
    -------
    DataFrame
        One row per rank and process group, in order of ranks, most time first:

        - ``rank``; ``group, description, group_ranks``: the group's name, purpose and ranks as in
          the file; text, empty if missing
        - ``collective`` (text, with `by_collective`)
        - ``count, communication_ns, overlapped_ns, exposed_ns, overlap_share, sum_ns, max_ns`` as
          in `communication_by_stream`
        - ``in_bytes, out_bytes`` (int64): the known sizes of this rank's input and output, added
          up; -1 if none is known; not cut by the window

    Notes
    -----
    Sizes are elements times the size of their type, before any
    algorithm; `collectives` has bandwidths.
    """
    chosen = parts(traces, **scope)
    args = (*_GROUP, _COLLECTIVE) if by_collective else _GROUP
    of_ranks = over_ranks(chosen, _by_group, args)
    rows = [
        (rank, *row) for rank, found in zip(chosen.ranks, of_ranks, strict=True) for row in found
    ]
    names = ("group", "description", "group_ranks", "collective")[: len(args)]
    texts: dict[str, type] = dict.fromkeys(names, str)
    note = ""
    if not rows:
        note = "no communication kernels matched"
    elif not any(row[1] for row in rows):
        note = "the files do not say which process group a kernel belongs to"
    return result(
        by_column(
            rows, {"rank": np.int64, **texts, **_TIMES, "in_bytes": np.int64, "out_bytes": np.int64}
        ),
        matched=count_kinds(chosen, BUSY[:2]),
        note=note,
    )


def _by_stream(part: Part) -> list[tuple[Any, ...]]:
    rows = part.of_kinds("communication")
    stream = part.table.stream[rows]
    return [(one, *_spent(part, rows[stream == one])) for one in np.unique(stream).tolist()]


def _by_group(part: Part, labelled: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return labels, times and bytes of each group of a rank, most time first."""
    rows = part.of_kinds("communication")
    args = event_args(part.trace, rows, (*_GROUP, _COLLECTIVE, *_ELEMENTS, _DTYPE))
    labels = zip(*(args[key] for key in labelled), strict=True)
    # Missing args count as empty text.
    texts = [tuple("" if one is None else str(one) for one in event) for event in labels]
    of_group: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        of_group[text].append(place)
    sizes = [_bytes(args[elements], args[_DTYPE]) for elements in _ELEMENTS]
    found = [
        (*text, *_spent(part, rows[places]), *(_total(size[places]) for size in sizes))
        for text, places in of_group.items()
    ]
    return sorted(found, key=lambda row: -row[len(labelled) + 1])


def _spent(part: Part, rows: Rows) -> tuple[float, ...]:
    """Return the values of `_TIMES` of some kernels of a rank."""
    start, end = part.clipped(rows)
    pieces = union(start, end)
    time, hidden = total(pieces), total(intersect(pieces, part.covered_by_all("compute")))
    duration = end - start
    share = hidden / time if time else float("nan")
    return len(rows), time, hidden, time - hidden, share, int(duration.sum()), int(duration.max())


def _bytes(elements: list[Any], dtypes: list[Any]) -> Ints:
    """Return the size of each message, -1 if unknown."""
    count = numbers_of(elements)
    size = np.array([bytes_of(str(dtype)) for dtype in dtypes], dtype=np.int64)
    stated = (count >= 0) & (count < _MAX_ELEMENTS) & (size > 0)
    return np.where(stated, np.where(stated, count, 0) * size, -1)


def _total(sizes: Ints) -> int:
    """Add up the known sizes; -1 if none is known."""
    known = sizes[sizes >= 0]
    return int(known.sum()) if len(known) else -1


@scoped
def parallel_groups(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the ranks and the purpose of each process group.

    Groups are those that the files' headers list and those that communication kernels name. The
    purpose is that of its description (``mesh_tp``, ``DATA_PARALLEL_GROUP``, …). Without one, it is
    guessed:

    - a group of every rank of the job is ``all``, which is certain;
    - a group that only sends and receives is ``pipeline``;
    - a group with all-to-all as at least half of its collectives is ``expert``;
    - a group of adjacent ranks is ``tensor``;
    - a group of ranks with equal distances is ``data``;
    - others are ``unknown``, as are streams of kernels that name no group.

    Parameters
    ----------
    selection : Selection, optional
        Only this communication is counted; all groups are returned.

    Returns
    -------
    DataFrame
        One row per group and rank that is loaded, groups of more ranks first. ``group`` (text),
        as in `collectives`; ``rank`` (int64); ``ranks`` (text), the members, such as ``0-7`` or
        ``0, 4, 8``, empty where unknown; ``position`` (int64), the rank's among them, -1
        unknown; ``size`` (int64, -1 unknown); ``kind`` (categorical): ``data``, ``tensor``,
        ``pipeline``, ``context``, ``expert``, ``all`` or ``unknown``; ``guessed`` (bool), whether
        the kind is a guess; ``description`` (text), as in the file; ``operations`` (text), the
        rank's operations in the group and their counts; ``collectives`` (int64), the number of
        these events; ``time_ns`` (int64), how long any of them runs, including waits; ``bytes``
        (int64), the known sizes of their messages, added up, -1 if none is known.

    Notes
    -----
    HTA has no process groups. The header's list is ``distributedInfo.pg_config`` of PyTorch.
    """
    chosen = parts(traces, **scope)
    match = matching(traces)
    numbers, groups, groups_of = _all_groups(match)
    kinds = _kinds(match, numbers, groups)
    number_of = {trace.rank: number for number, trace in enumerate(match.traces)}
    places = [number_of[rank] for rank in chosen.ranks]
    each = [(match.events[place], numbers[place], groups_of[place]) for place in places]
    spent_of = over_ranks(chosen, _group_times, each=each)
    rows: list[tuple[Any, ...]] = []
    without_size: list[Counter[str]] = []
    for place, of_rank in zip(places, spent_of, strict=True):
        rank = stated_rank(match.traces[place])
        for number, (spent, unknown) in zip(groups_of[place], of_rank, strict=True):
            group, (kind, guessed) = groups[number], kinds[number]
            members = ", ".join(run_text(run, "-") for run in number_runs(group.ranks))
            position = group.ranks.index(rank) if rank in group.ranks else -1
            rows.append(
                (
                    (-group.size, number, place), group.label, match.traces[place].rank, members,
                    position, group.size, GROUP_KINDS.index(kind), guessed, group.description,
                    *spent,
                )
            )  # fmt: skip
            without_size.append(unknown)
    rows.sort(key=itemgetter(0))
    if not chosen:
        notes = ["no ranks are selected"]
    elif not rows:
        notes = ["neither headers nor communication kernels tell of process groups"]
    else:
        missing = match.missing_ranks
        notes = [
            f"files of {missing} ranks are missing" if missing else "",
            unsized_note(without_size),
        ]
    columns = by_column((row[1:] for row in rows), _PARALLEL_GROUPS)
    columns["kind"] = categorical(columns["kind"], GROUP_KINDS)
    return result(
        columns,
        matched={"groups": len(groups), **count_kinds(chosen, ("communication",))},
        note="; ".join(filter(None, notes)),
    )


def stage_of(traces: TraceSet) -> dict[int, int]:
    """Return the pipeline stage of each rank: its position in its pipeline group, 0 without one.

    Ranks of different stages do different work, so they are not to be compared.
    """
    match = matching(traces)
    numbers, groups, groups_of = _all_groups(match)
    kinds = _kinds(match, numbers, groups)
    found = {}
    for own, trace in zip(groups_of, match.traces, strict=True):
        rank = stated_rank(trace)
        members = [groups[number].ranks for number in own if kinds[number][0] == "pipeline"]
        found[trace.rank] = max((one.index(rank) for one in members if rank in one), default=0)
    return found


# --- process groups -------------------------------------------------------------------------------


def _all_groups(match: Matching) -> tuple[list[list[int]], list[Group], list[list[int]]]:
    """Return the number of each group of each rank's `CommEvents`, all groups, and each rank's.

    The last are, ascending, the groups of the rank's kernels and those that its header lists.
    """
    numbers, groups = identified(match.traces, match.events, match.headers)
    groups_of = [set(own) for own in numbers]
    by_members: dict[tuple[str, tuple[int, ...]], int] = {}
    for place, (mine, events) in enumerate(zip(numbers, match.events, strict=True)):
        for number, own in zip(mine, events.groups, strict=True):
            if own.stream < 0:
                by_members.setdefault((own.name, groups[number].ranks), number)
                if not groups[number].description:
                    groups[number].description = _described(match.headers[place], events, own.name)
    for place, trace in enumerate(match.traces):
        own_rank = stated_rank(trace)
        for group in match.headers[place].groups:
            name, ranks = group.name, group.ranks
            if own_rank not in ranks:
                continue
            number = by_members.setdefault((name, ranks), len(groups))
            if number == len(groups):
                label = (
                    name if all(one.label != name for one in groups) else f"{name} {list(ranks)}"
                )
                groups.append(Group(label, ranks, len(ranks), named=True))
            groups_of[place].add(number)
            groups[number].description = groups[number].description or group.description
    return numbers, groups, [sorted(own) for own in groups_of]


def _described(header: Header, events: CommEvents, name: str) -> str:
    """Return a group's purpose in a file, from its header or the group's first event."""
    for group in header.groups:
        if group.name == name and group.ranks and group.description:
            return group.description
    return next((one.description for one in events.groups if one.name == name), "")


def _kinds(
    match: Matching, numbers: Sequence[Sequence[int]], groups: Sequence[Group]
) -> list[tuple[str, bool]]:
    """Return the purpose of each group, and whether it is a guess."""
    used = np.zeros((len(groups), len(OPERATIONS)), dtype=np.int64)
    for mine, events in zip(numbers, match.events, strict=True):
        if len(events.rows):
            group = np.array(mine, dtype=np.int64)[events.group]
            np.add.at(used, (group, events.operation), 1)
    listed = [len(group.ranks) for header in match.headers for group in header.groups]
    world = max([world_size(match.headers), *listed])
    return [_kind(group, counts, world) for group, counts in zip(groups, used, strict=True)]


def _kind(group: Group, used: Ints, world: int) -> tuple[str, bool]:
    """Return the purpose of a group, and whether it is a guess; `used` counts its operations."""
    everyone = group.named and 1 < group.size == world
    words = set(re.findall(r"[a-z]+", group.description.lower()))
    for kind, signs in _WORDS:
        if words & signs and (kind != "all" or everyone):
            return kind, False
    if everyone:
        return "all", False
    count = int(used.sum())
    if not group.named:
        # Kernels alone do not suffice: NCCL's all-to-all sends and receives.
        return "unknown", True
    if count and used[_SEND_RECV] == count:
        return "pipeline", True
    if count and 2 * used[_ALL_TO_ALL] >= count:
        return "expert", True
    apart = np.unique(np.diff(np.array(sorted(group.ranks))))
    if len(group.ranks) >= 2 and len(apart) == 1:
        return ("tensor" if apart[0] == 1 else "data"), True
    return "unknown", True


def _group_times(
    part: Part, events: CommEvents, numbers: Sequence[int], groups: Sequence[int]
) -> list[tuple[tuple[str, int, int, int], Counter[str]]]:
    """Return a rank's operations, times and bytes in each of `groups`, and its unknown types."""
    selected = part.has(events.rows)
    group = np.array(numbers, dtype=np.int64)[events.group]
    found = []
    for number in groups:
        own = (group == number) & selected
        often = Counter(events.operation[own].tolist())
        operations = ", ".join(f"{OPERATIONS[code]} {n}" for code, n in often.most_common())
        time_ns = total(union(*part.clipped(events.rows[own])))
        spent = operations, int(own.sum()), time_ns, _total(events.size_bytes[own])
        found.append((spent, unsized(events, own)))
    return found

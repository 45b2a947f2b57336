"""Collectives, bandwidths, groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.comm_events import (
    OPERATIONS,
    CommEvents,
    Header,
    unsized,
    unsized_note,
)
from hta_widgets.analysis.matching import (
    Matching,
    counted,
    identified,
    matching,
    recorded_shift,
)
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Window,
    categorical,
    count_kinds,
    narrowed,
    on_hosts_note,
    over_ranks,
    parts,
    result,
)
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import number_runs, run_text
from hta_widgets.trace.event_args import event_args, numbers_of
from hta_widgets.trace.intervals import Covered, Intervals, intersect, total, union
from hta_widgets.trace.memo import memo, memoized
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Clock = Literal["host", "fitted"]

#: Members give or take different amounts, and only the largest is the message.
_ROOTED = [OPERATIONS.index(name) for name in ("gather", "scatter")]


def collectives(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per collective and rank: when it came, how long it waited, how fast it was.

    A collective moves data once the last of its ranks has arrived; until then the others wait.
    Events of different ranks are matched by process group and sequence number, or by order, names,
    sizes and times within the group where files have no numbers; sends are matched with their
    receives. Whole collectives are matched before anything is selected, so the last arrival is
    that of all ranks whose files are there.

    Bandwidths are those of nccl-tests: the algorithm's is ``size / time``, the bus's multiplies
    with what each link has to carry: ``2(n-1)/n`` for all-reduce, ``(n-1)/n`` for all-gather,
    reduce-scatter, all-to-all, gather and scatter, 1 for broadcast, reduce and send-receive. Size
    is the larger of a rank's input and output; time is the transfer, without the wait.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        Whose times: as recorded, or as `TraceSet.with_clock` moves them. Default: those of the
        set.
    selection : Selection, optional
        Rows are returned of the events selected; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Rows are whole: nothing is cut at its edges.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        Sorted by collective, then rank. ``collective`` (int64), from 0 in order of time; ``name``
        (categorical), as the file has it; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks where names repeat;
        ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the device
        event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64), last
        arrival less own arrival; ``transfer_ns`` (int64), own end less last arrival, negative where
        a rank left before the last one came; ``last_rank`` (int64), who came last, -1 where
        several did at once; ``exposed_ns`` (int64), how long the event ran while the rank computed
        nothing; ``algbw_gb_s`` and ``busbw_gb_s`` (float64, NaN where unknown); ``ranks`` and
        ``group_size`` (int64), how many ranks' events there are, and how many the group has
        (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, and collectives that are
        ``matched`` on all their ranks, ``partly_matched``, ``unmatched`` (one rank's event alone),
        and of one rank (``alone``); the note says what is missing, and which types
        of elements are not known. ``.attrs["clock"]`` says whose
        times these are, ``.attrs["matched_by"]`` what collectives were matched by.

    Raises
    ------
    TraceError
        For an unknown clock.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> frame = collectives(traces, clock="fitted")  # doctest: +SKIP
    >>> frame.groupby("last_rank").wait_ns.sum()  # doctest: +SKIP
    """
    chosen = narrowed(traces, selection, window, ranks)
    match = matching(traces)
    name = traces.clock if clock is None else clock
    times = arrivals(traces, match, name)
    kept, matched = counted(match, chosen)
    rows = np.flatnonzero(kept)
    size, algorithm, bus = _bandwidths(match, times)
    trace, group = match.trace[rows], match.group[rows]
    names: dict[str, int] = {}
    lookup = [
        np.array([names.setdefault(text, len(names)) for text in one.names], dtype=np.int64)
        for one in match.events
    ]
    named = match.taken("name")
    for number, codes in enumerate(lookup):
        mine = match.of_trace[number]
        named[mine] = codes[named[mine]]
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
    is_last: Flags

    @property
    def wait_ns(self) -> Ints:
        """From each arrival to the last."""
        return self.last_ns - self.arrival_ns


def arrivals(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return when ranks arrive and leave, on the clock asked for."""
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
    arrival = match.taken("start_ns") + own
    end = match.taken("end_ns") + own
    if not len(match):
        return Arrivals(shifts, arrival, end, arrival, arrival, np.zeros(0, dtype=bool))
    last = match.each(np.maximum.reduceat(arrival, match.starts))
    at_last = arrival == last
    several = match.each(np.add.reduceat(at_last.astype(np.int64), match.starts)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    who = match.each(np.maximum.reduceat(np.where(at_last, ranks, -1), match.starts))
    # Who has left did not wait for those that came later.
    last = np.where(match.taken("early") == 1, np.minimum(last, end), last)
    return Arrivals(shifts, arrival, end, last, np.where(several, -1, who), at_last & ~several)


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


def _bandwidths(
    match: Matching, times: Arrivals
) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the message's size, and the algorithm's and the bus's bandwidth, in GB/s."""
    size, operation = match.taken("size_bytes"), match.taken("operation")
    if len(match):
        largest = match.each(np.maximum.reduceat(size, match.starts))
        size = np.where(np.isin(operation, _ROOTED), largest, size)
    members = match.each(np.where(match.expected > 0, match.expected, match.sizes()))
    share = (members - 1) / np.maximum(members, 1)
    factors = {
        "all_reduce": 2 * share,
        "reduce_scatter": share,
        "all_gather": share,
        "all_to_all": share,
        "gather": share,
        "scatter": share,
        "broadcast": np.ones(len(match)),
        "reduce": np.ones(len(match)),
        "send_recv": np.ones(len(match)),
    }
    factor = np.full(len(match), np.nan)
    for name, values in factors.items():
        mine = operation == OPERATIONS.index(name)
        factor[mine] = values[mine]
    transfer = times.end_ns - times.last_ns
    known = (size > 0) & (transfer > 0)
    # Bytes per nanosecond are 10^9 bytes per second.
    algorithm = np.full(len(match), np.nan)
    algorithm[known] = size[known] / transfer[known]
    return size, algorithm, algorithm * factor


# --- what is missing -----------------------------------------------------------------------------


def _note(match: Matching, kept: Flags, matched: dict[str, int], traces: TraceSet) -> str:
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


Rows = npt.NDArray[np.intp]

_TIMES = ("count", "communication_ns", "overlapped_ns", "exposed_ns", "sum_ns", "max_ns")

_GROUP = ("Process Group Name", "Process Group Description", "Process Group Ranks")
_COLLECTIVE = "Collective name"
_ELEMENTS = ("In msg nelems", "Out msg nelems")
_DTYPE = "dtype"

#: Bytes of an element, by PyTorch's names of its types.
_SIZE = {
    "bool": 1, "byte": 1, "char": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "qint8": 1, "quint8": 1,
    "bfloat16": 2, "half": 2, "short": 2, "uint16": 2,
    "complexhalf": 4, "float": 4, "int": 4, "qint32": 4, "uint32": 4,
    "complexfloat": 8, "double": 8, "long": 8, "uint64": 8,
    "complexdouble": 16,
}  # fmt: skip

#: More elements than any message has; keeps products within int64.
_MOST_ELEMENTS = 1 << 50


def communication_by_stream(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each device stream communicates, and how much of it computing hides.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; times are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank and stream that communicates, in that order, integers but for the share:

        - ``rank, stream``; ``count`` of communication kernels
        - ``communication_ns``: when any of them runs
        - ``overlapped_ns``: of that, when the rank computes on any stream; ``exposed_ns``: the rest
        - ``overlap_share``: ``overlapped_ns`` of ``communication_ns``, 0..1
        - ``sum_ns, max_ns``: of the kernels' durations

    Notes
    -----
    Overlap is defined as in `comm_comp_overlap`, here for each stream alone, with all computing of
    the rank, selected or not; times of streams that
    communicate at once add up to more than the rank's.

    Examples
    --------
    >>> communication_by_stream(traces, ranks=[0])  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    keys: list[tuple[int, int]] = []
    times = []
    for rank, found in zip(chosen.ranks, over_ranks(chosen, _by_stream), strict=True):
        for stream, spent in found:
            keys.append((rank, stream))
            times.append(spent)
    return result(
        {
            "rank": np.array([rank for rank, _ in keys], dtype=np.int64),
            "stream": np.array([stream for _, stream in keys], dtype=np.int64),
            **_columns(times),
        },
        matched=count_kinds(chosen, BUSY[:2]),
        note=""
        if keys
        else "; ".join(
            filter(None, ["no communication kernels matched", on_hosts_note(traces.values())])
        ),
    )


def communication_by_group(
    traces: TraceSet,
    *,
    by_collective: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each process group communicates, how exposed, and how many bytes.

    Groups and sizes are what PyTorch writes into the args of communication kernels (since 2.3);
    they are read from the files again.

    Parameters
    ----------
    traces : TraceSet
    by_collective : bool, default False
        One row per collective of a group, such as ``allreduce``.
    selection, window, ranks
        What to work on, as in `communication_by_stream`.

    Returns
    -------
    DataFrame
        One row per rank and process group, in order of ranks, most time first:

        - ``rank``; ``group, description, group_ranks``: the group's name, what it is for, and its
          ranks, as the file writes them; text, empty where the file does not say
        - ``collective`` (text, with `by_collective`)
        - ``count, communication_ns, overlapped_ns, exposed_ns, overlap_share, sum_ns, max_ns`` as
          in `communication_by_stream`
        - ``in_bytes, out_bytes`` (int64): size of what this rank puts in and gets out, added over
          the kernels that state it; -1 where none does; not cut by the window

    Notes
    -----
    HTA has no such analysis. Sizes are elements times the size of their type, before any
    algorithm; `collectives` has bandwidths.

    Examples
    --------
    >>> communication_by_group(traces, by_collective=True)  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    labels: list[tuple[str, ...]] = []
    numbers: list[int] = []
    times, sizes = [], []
    labelled = (*_GROUP, *([_COLLECTIVE] if by_collective else []))
    of_ranks = over_ranks(chosen, _by_group, labelled)
    for rank, found in zip(chosen.ranks, of_ranks, strict=True):
        for label, spent, size in found:
            numbers.append(rank)
            labels.append(label)
            times.append(spent)
            sizes.append(size)
    names = ("group", "description", "group_ranks", *(["collective"] if by_collective else []))
    table = np.array(sizes, dtype=np.int64).reshape(-1, len(_ELEMENTS))
    return result(
        {
            "rank": np.array(numbers, dtype=np.int64),
            **{
                name: pd.array([label[place] for label in labels], dtype="str")
                for place, name in enumerate(names)
            },
            **_columns(times),
            "in_bytes": table[:, 0],
            "out_bytes": table[:, 1],
        },
        matched=count_kinds(chosen, BUSY[:2]),
        note=_group_note(labels),
    )


def _by_stream(part: Part) -> list[tuple[int, tuple[int, ...]]]:
    rows = part.of_kinds("communication")
    stream = part.table.stream[rows]
    compute = part.covered_by_all("compute") if len(rows) else Intervals.none()
    return [(one, _spent(part, rows[stream == one], compute)) for one in np.unique(stream).tolist()]


def _by_group(
    part: Part, labelled: Sequence[str]
) -> list[tuple[tuple[str, ...], tuple[int, ...], list[int]]]:
    """Return label, times and bytes of each group of a rank, most time first."""
    rows = part.of_kinds("communication")
    compute = part.covered_by_all("compute") if len(rows) else Intervals.none()
    args = event_args(part.trace, rows, (*_GROUP, _COLLECTIVE, *_ELEMENTS, _DTYPE))
    code, groups = _grouped([args[key] for key in labelled])
    of_bytes = [_bytes(args[elements], args[_DTYPE]) for elements in _ELEMENTS]
    spent = [_spent(part, rows[code == group], compute) for group in range(len(groups))]
    return [
        (groups[group], spent[group], [_stated(size[code == group]) for size in of_bytes])
        for group in sorted(range(len(groups)), key=lambda group: -spent[group][1])
    ]


def _group_note(labels: Sequence[tuple[str, ...]]) -> str:
    if not labels:
        return "no communication kernels matched"
    if any(label[0] for label in labels):
        return ""
    return "the files do not say which process group a kernel belongs to"


def _spent(part: Part, rows: Rows, compute: Intervals) -> tuple[int, ...]:
    """Return the values of `_TIMES` of some kernels of a rank that computes at `compute`."""
    start, end = part.clipped(rows)
    pieces = union(start, end)
    time, hidden = total(pieces), total(intersect(pieces, compute))
    lasts = end - start
    return len(rows), time, hidden, time - hidden, int(lasts.sum()), int(lasts.max())


def _columns(times: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    table = np.array(times, dtype=np.int64).reshape(-1, len(_TIMES))
    count, time, hidden, exposed, spent, most = table.T
    return {
        "count": count,
        "communication_ns": time,
        "overlapped_ns": hidden,
        "exposed_ns": exposed,
        "overlap_share": hidden / np.where(time > 0, time, np.nan),
        "sum_ns": spent,
        "max_ns": most,
    }


def _grouped(values: Sequence[list[Any]]) -> tuple[Ints, list[tuple[str, ...]]]:
    """Number the distinct combinations of args; return each event's number, and what it stands for.

    Args that are absent count as empty text.
    """
    codes: dict[tuple[str, ...], int] = {}
    code = [
        codes.setdefault(tuple("" if one is None else str(one) for one in event), len(codes))
        for event in zip(*values, strict=True)
    ]
    return np.array(code, dtype=np.int64), list(codes)


def _bytes(elements: list[Any], dtypes: list[Any]) -> Ints:
    """Return the size of each message, -1 where it is not stated."""
    count = numbers_of(elements)
    size = np.array([_SIZE.get(str(dtype).lower(), 0) for dtype in dtypes], dtype=np.int64)
    stated = (count >= 0) & (count < _MOST_ELEMENTS) & (size > 0)
    return np.where(stated, np.where(stated, count, 0) * size, -1)


def _stated(sizes: Ints) -> int:
    known = sizes[sizes >= 0]
    return int(known.sum()) if len(known) else -1


#: What process groups are for; ``all`` has every rank of the job.
GROUP_KINDS: tuple[str, ...] = (
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "all",
    "unknown",
)

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

_SEND_RECV = OPERATIONS.index("send_recv")
_ALL_TO_ALL = OPERATIONS.index("all_to_all")


def parallel_groups(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return which ranks form which process groups, and what the groups are for.

    Groups are those that the files' headers list and those that communication kernels name. What
    one is for is what its description says (``mesh_tp``, ``DATA_PARALLEL_GROUP``, …). Where that
    says nothing, it is guessed:

    - a group of every rank of the job is ``all``, which is no guess;
    - one that only sends and receives passes activations on: ``pipeline``;
    - one of which at least half of the collectives are all-to-all: ``expert``;
    - one of adjacent ranks, which are next to each other on a host: ``tensor``;
    - one of ranks that are equally far apart: ``data``;
    - else ``unknown``, as are streams that stand for groups where kernels name none.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        Only this communication is counted; groups are returned all the same.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; times are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per group and rank that is loaded, groups of more ranks first. ``group`` (text),
        as in `collectives`; ``rank`` (int64); ``ranks`` (text), the members, such as ``0-7`` or
        ``0, 4, 8``, empty where no file says; ``position`` (int64), the rank's among them, -1
        unknown; ``size`` (int64, -1 unknown); ``kind`` (categorical): ``data``, ``tensor``,
        ``pipeline``, ``context``, ``expert``, ``all`` or ``unknown``; ``guessed`` (bool), whether
        that is no more than a guess; ``description`` (text), as in the file; ``operations`` (text),
        what the rank runs in the group and how often; ``collectives`` (int64), how many events that
        are; ``time_ns`` (int64), how long any of them runs, waits included; ``bytes`` (int64),
        their messages added up, -1 where none states its size.

    Notes
    -----
    HTA has no process groups. The header's list is ``distributedInfo.pg_config`` of PyTorch.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> parallel_groups(traces).drop_duplicates("group")[
    ...     ["group", "ranks", "kind"]
    ... ]  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    match = matching(traces)
    numbers, groups = _all_groups(match)
    world = _world(match.headers)
    of_trace = {trace.rank: number for number, trace in enumerate(match.traces)}
    used = _operations(match, numbers, len(groups))
    kinds = [_kind(one, used[number], world) for number, one in enumerate(groups)]
    rows: list[tuple[int, int, _Spent]] = []
    headed = _in_headers(groups, len(numbers))
    places = [of_trace[rank] for rank in chosen.ranks]
    own_groups = [sorted(set(numbers[place]) | headed[place]) for place in places]
    each = [
        (match.events[place], numbers[place], mine)
        for place, mine in zip(places, own_groups, strict=True)
    ]
    of_ranks = over_ranks(chosen, _group_times, each=each)
    for place, mine, spent in zip(places, own_groups, of_ranks, strict=True):
        rows += [(number, place, one) for number, one in zip(mine, spent, strict=True)]
    rows.sort(key=lambda row: (-groups[row[0]].size, row[0], row[1]))
    own = [groups[number] for number, _, _ in rows]
    whole = [_stated_rank(match.traces[place]) for _, place, _ in rows]
    return result(
        {
            "group": pd.array([one.label for one in own], dtype="str"),
            "rank": np.array([match.traces[place].rank for _, place, _ in rows], dtype=np.int64),
            "ranks": pd.array([_listed(one.ranks) for one in own], dtype="str"),
            "position": np.array(
                [
                    one.ranks.index(rank) if rank in one.ranks else -1
                    for one, rank in zip(own, whole, strict=True)
                ],
                dtype=np.int64,
            ),
            "size": np.array([one.size for one in own], dtype=np.int64),
            "kind": categorical(
                np.array([GROUP_KINDS.index(kinds[number][0]) for number, _, _ in rows], np.int64),
                GROUP_KINDS,
            ),
            "guessed": np.array([kinds[number][1] for number, _, _ in rows], dtype=bool),
            "description": pd.array([one.description for one in own], dtype="str"),
            "operations": pd.array([spent.operations for _, _, spent in rows], dtype="str"),
            "collectives": np.array([spent.count for _, _, spent in rows], dtype=np.int64),
            "time_ns": np.array([spent.time_ns for _, _, spent in rows], dtype=np.int64),
            "bytes": np.array([spent.size_bytes for _, _, spent in rows], dtype=np.int64),
        },
        matched={"groups": len(groups), **count_kinds(chosen, ("communication",))},
        note=_parallel_note(chosen, match, rows),
    )


def stage_of(traces: TraceSet) -> dict[int, int]:
    """Return the pipeline stage of each rank: its position in its pipeline group, 0 without one.

    Ranks of different stages do different work, so they are not to be compared.
    """
    match = matching(traces)
    numbers, groups = _all_groups(match)
    used = _operations(match, numbers, len(groups))
    world = _world(match.headers)
    pipelines = {
        number
        for number, one in enumerate(groups)
        if _kind(one, used[number], world)[0] == "pipeline"
    }
    found = {}
    headed = _in_headers(groups, len(numbers))
    for place, trace in enumerate(match.traces):
        rank, stage = _stated_rank(trace), 0
        for number in (set(numbers[place]) | headed[place]) & pipelines:
            members = groups[number].ranks
            stage = max(stage, members.index(rank) if rank in members else 0)
        found[trace.rank] = stage
    return found


# --- which groups there are -----------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """A process group, and the ranks (by position in the set) whose headers list it."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool
    description: str = ""
    listed_by: set[int] = field(default_factory=set)


def _in_headers(groups: Sequence[_Known], count: int) -> list[set[int]]:
    """Return for each rank the numbers of the groups that its header says it is in."""
    found: list[set[int]] = [set() for _ in range(count)]
    for number, one in enumerate(groups):
        for place in one.listed_by:
            found[place].add(number)
    return found


def _all_groups(match: Matching) -> tuple[list[list[int]], list[_Known]]:
    """Return the number of each group of each rank's `CommEvents`, and all groups."""
    numbers, named = identified(match.traces, match.events, match.headers)
    groups = [_Known(one.label, one.ranks, one.size, one.named) for one in named]
    by_members: dict[tuple[str, tuple[int, ...]], int] = {}
    for place, (mine, events) in enumerate(zip(numbers, match.events, strict=True)):
        for number, own in zip(mine, events.groups, strict=True):
            if own.stream < 0:
                by_members.setdefault((own.name, groups[number].ranks), number)
                if not groups[number].description:
                    groups[number].description = _described(match.headers[place], events, own.name)
    for place, trace in enumerate(match.traces):
        own_rank = _stated_rank(trace)
        for group in match.headers[place].groups:
            name, ranks = group.name, group.ranks
            if own_rank not in ranks:
                continue
            number = by_members.setdefault((name, ranks), len(groups))
            if number == len(groups):
                label = (
                    name if all(one.label != name for one in groups) else f"{name} {list(ranks)}"
                )
                groups.append(_Known(label, ranks, len(ranks), True))
            groups[number].listed_by.add(place)
            groups[number].description = groups[number].description or group.description
    return numbers, groups


def _described(header: Header, events: CommEvents, name: str) -> str:
    """Return what a file calls a group's purpose, in its header or on the group's first event."""
    for group in header.groups:
        if group.name == name and group.ranks and group.description:
            return group.description
    code = next((k for k, one in enumerate(events.groups) if one.name == name), -1)
    return events.descriptions[code] if 0 <= code < len(events.descriptions) else ""


def _stated_rank(trace: Trace) -> int:
    return trace.rank if trace.stated_rank is None else trace.stated_rank


def _world(headers: Sequence[Header]) -> int:
    """Return how many ranks the job has, as far as files say; -1 if none does."""
    return max(
        (
            size
            for header in headers
            for size in (header.world_size, *(len(group.ranks) or -1 for group in header.groups))
        ),
        default=-1,
    )


# --- what they are for ----------------------------------------------------------------------------


def _kind(group: _Known, used: Ints, world: int) -> tuple[str, bool]:
    """Return what a group is for, and whether that is a guess; `used` counts its operations."""
    everyone = group.named and 1 < group.size == world
    words = set(re.findall(r"[a-z]+", group.description.lower()))
    for kind, signs in _WORDS:
        if words & signs and (kind != "all" or everyone):
            return kind, False
    if everyone:
        return "all", False
    count = int(used.sum())
    if not group.named:
        # Kernels alone do not tell: NCCL's all-to-all sends and receives.
        return "unknown", True
    if count and used[_SEND_RECV] == count:
        return "pipeline", True
    if count and 2 * used[_ALL_TO_ALL] >= count:
        return "expert", True
    apart = np.unique(np.diff(np.array(sorted(group.ranks))))
    if len(group.ranks) >= 2 and len(apart) == 1:
        return ("tensor" if apart[0] == 1 else "data"), True
    return "unknown", True


def _operations(match: Matching, numbers: Sequence[Sequence[int]], count: int) -> Ints:
    """Return how often each group runs each operation, over all ranks and all of their time."""
    used = np.zeros((count, len(OPERATIONS)), dtype=np.int64)
    for mine, events in zip(numbers, match.events, strict=True):
        if len(events.rows):
            group = np.array(mine, dtype=np.int64)[events.group]
            np.add.at(used, (group, events.operation), 1)
    return used


# --- what ranks spend in them ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spent:
    operations: str
    count: int
    time_ns: int
    size_bytes: int
    unsized: Counter[str]


def _group_times(
    part: Part, events: CommEvents, numbers: Sequence[int], groups: Sequence[int]
) -> list[_Spent]:
    """Return what a rank spends in each of `groups`."""
    selected = np.zeros(len(part.trace), dtype=bool)
    selected[part.rows] = True
    group = np.array(numbers, dtype=np.int64)[events.group] if len(events.rows) else events.group
    found = []
    for number in groups:
        mine = (group == number) & selected[events.rows]
        size = events.size_bytes[mine]
        often = Counter(events.operation[mine].tolist())
        found.append(
            _Spent(
                ", ".join(f"{OPERATIONS[code]} {count}" for code, count in often.most_common()),
                int(mine.sum()),
                total(union(*part.clipped(events.rows[mine]))),
                int(size[size >= 0].sum()) if (size >= 0).any() else -1,
                unsized(events, mine),
            )
        )
    return found


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as text; runs of three and more as ``first-last``."""
    return ", ".join(run_text(run, "-") for run in number_runs(ranks))


def _parallel_note(
    chosen: Sequence[Part], match: Matching, rows: Sequence[tuple[int, int, _Spent]]
) -> str:
    if not chosen:
        return "no ranks are selected"
    if not rows:
        return "neither headers nor communication kernels tell of process groups"
    parts = [unsized_note(spent.unsized for _, _, spent in rows)]
    if match.missing_ranks:
        parts.insert(0, f"files of {match.missing_ranks} ranks are missing")
    return "; ".join(filter(None, parts))

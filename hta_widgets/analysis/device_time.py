"""Device time by kind, stream and process group, and how much of it overlaps.

Every instant of a device counts once. For example, a rank that computes from 0 to 60 ns and
communicates from 40 to 100 ns computes for 60 ns, communicates for 60 ns, and is busy for 100 ns.
Of the communication, 20 ns are hidden by compute and 40 ns are exposed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import (
    bytes_of,
    job_header,
    message_bytes,
    sum_known_bytes,
)
from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame
from hta_widgets.analysis.idle import unrecorded_work
from hta_widgets.analysis.map_ranks import map_ranks, map_working_ranks
from hta_widgets.analysis.notes import (
    count_host_collectives,
    missing_ranks_note,
    on_hosts_note,
    prelaunched_note,
)
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    RankParts,
    Window,
    count_by_kind,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.columns import event_args, to_int64
from hta_widgets.trace.intervals import clip, intersect, subtract, total_length, union
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.traceset import Selection, TraceSet

#: HTA's names of kinds, in the order in which labels combine them.
_WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}

_TIMES = {
    **int64("idle_ns compute_ns non_compute_ns span_ns busy_ns communication_ns memory_ns"),
    **int64("exposed_communication_ns exposed_memory_ns unrecorded_ns"),
}  # fmt: skip

#: Columns of communication times.
_COMMUNICATION = {
    **int64("count communication_ns overlapped_ns exposed_ns"), "overlap_share": "float64",
    **int64("sum_ns max_ns"),
}  # fmt: skip

#: Args of communication kernels.
_GROUP = ("Process Group Name", "Process Group Description", "Process Group Ranks")
_COLLECTIVE = "Collective name"
_ELEMENTS = ("In msg nelems", "Out msg nelems")
_DTYPE = "dtype"


@check_arguments
def temporal_breakdown(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Split each rank's device time into idle time, compute and other work.

    The span extends from the first start to the last end of the rank's device work in the whole
    job, on all streams. It is clipped to the window, so times of adjacent windows add up. Every
    instant of the span counts once: as computing if a compute kernel runs, else as non-compute if
    anything communicates or copies, else as idle. Hence, to the nanosecond, ``idle_ns + compute_ns
    + non_compute_ns == span_ns`` and ``exposed_communication_ns + exposed_memory_ns ==
    non_compute_ns``. Synchronization rows on a stream are waits, not work. Only selected events are
    used: in a selection of communication, all of it is exposed.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank whose span overlaps the window; times are int64:

        - ``rank``
        - ``idle_ns, compute_ns, non_compute_ns, span_ns``
        - ``idle_pct, compute_pct, non_compute_pct``: percentages of the span, 0..100; NaN for a
          span of 0 ns
        - ``busy_ns``: time with any work; ``communication_ns, memory_ns``: time with work of that
          kind, regardless of other work
        - ``exposed_communication_ns``: communicating and not computing; ``exposed_memory_ns``:
          copying, neither computing nor communicating
        - ``unrecorded_ns``: the part of ``idle_ns`` during which the device was probably busy with
          work that is not in the file, as in `device_idle_breakdown`
    """
    chosen = rank_parts(traces, selection, window, ranks)
    working = map_working_ranks(chosen, _device_times)
    rows = [(rank, *times) for rank, times in working.items()]
    column = columns_of_rows(rows, {"rank": "int64", **_TIMES})
    span = np.where(column["span_ns"] > 0, column["span_ns"], np.nan)
    shares = {
        f"{name}_pct": 100.0 * column[f"{name}_ns"] / span
        for name in ("idle", "compute", "non_compute")
    }
    first = ("rank", "idle_ns", "compute_ns", "non_compute_ns", "span_ns")
    return result_frame(
        {**{name: column[name] for name in first}, **shares, **column},
        matched=count_by_kind(chosen),
        note=(missing_ranks_note(chosen.ranks, working), prelaunched_note(chosen)),
        **device_word_attrs(chosen.owner),
    )


#: Keys of notes, as in `missing_ranks_note`.
_NO_COMMUNICATION = ("no_communication", "no_communication_on")
_NO_COMMUNICATION_TIME = ("no_communication_time", "no_communication_time_on")


def _device_times(part: RankPart) -> tuple[int, ...] | None:
    """Return the values of the columns `_TIMES`; None if the window has none of the rank's span."""
    if part.span is None:
        return None
    span_ns = part.recorded_span_ns
    busy_ns = total_length(part.union_of_kinds(*DEVICE_WORK_KINDS))
    compute, communication, memory = (part.union_of_kinds(kind) for kind in DEVICE_WORK_KINDS)
    compute_ns = total_length(compute)
    exposed_ns = total_length(subtract(communication, compute))
    return (
        span_ns - busy_ns,
        compute_ns,
        busy_ns - compute_ns,
        span_ns,
        busy_ns,
        total_length(communication),
        total_length(memory),
        exposed_ns,
        busy_ns - compute_ns - exposed_ns,
        total_length(clip(unrecorded_work(part.trace), *part.span)),
    )


@check_arguments
def kernel_type_breakdown(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    per_rank: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the time of each kind of device work, separately and overlapping with others.

    Every busy instant of a rank's device counts for exactly one label, which names the kinds that
    run then, such as ``COMPUTATION overlapping COMMUNICATION``. Times are summed over ranks.

    Parameters
    ----------
    traces : TraceSet
    per_rank : bool, default False
        Return one row per rank and label, with shares of the rank's busy time.
    include_memory : bool, default True
        Whether to include copies and fills.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per label that occurs, most time first:

        - ``rank`` (int64, only with `per_rank`; rows are then ordered by rank)
        - ``kernel_type`` (str): the label
        - ``sum_ns`` (int64)
        - ``share`` (float): ``sum_ns`` as a share of all rows, or of the rank's rows, 0..1
    """
    chosen = rank_parts(traces, selection, window, ranks)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    times_by_rank = list(map_ranks(chosen, _times_by_kind_set, kinds))
    times = np.array(times_by_rank, dtype=np.int64).reshape(-1, 1 << len(kinds))
    times[:, 0] = 0  # without work of any kind, the device is idle
    if not per_rank:
        times = times.sum(axis=0, keepdims=True)
    row, label = np.nonzero(times)
    sum_ns = times[row, label]
    order = np.lexsort((label, -sum_ns, row))
    row, label, sum_ns = row[order], label[order], sum_ns[order]
    words = [
        [_WORDS[kind] for bit, kind in enumerate(kinds) if kind_bits >> bit & 1]
        for kind_bits in label.tolist()
    ]
    rank = np.array(chosen.ranks, dtype=np.int64)
    matched = count_by_kind(chosen, kinds)
    missing = [kind for kind, count in matched.items() if not count]
    return result_frame(
        {
            **({"rank": rank[row]} if per_rank else {}),
            "kernel_type": pd.array([*map(" overlapping ".join, words)], dtype="str"),
            "sum_ns": sum_ns,
            "share": sum_ns / times.sum(axis=1)[row],
        },
        matched=matched,
        note=note_text("no_kernels_of", kinds=", ".join(missing)) if missing else "",
        **device_word_attrs(chosen.owner),
    )


def _times_by_kind_set(part: RankPart, kinds: Sequence[str]) -> list[int]:
    """Return the time of each combination of kinds, where bit n of the index stands for kind n."""
    edges, changes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for bit, kind in enumerate(kinds):
        start, end = part.union_of_kinds(kind)
        edges += start, end
        changes += np.full(len(start), 1 << bit), np.full(len(end), -(1 << bit))
    time = np.concatenate(edges)
    order = np.argsort(time, kind="stable")
    # Intervals of one kind never overlap, so each running kind sets one bit of the running sum.
    running = np.cumsum(np.concatenate(changes)[order])[:-1]
    length = np.diff(time[order])
    return [int(length[running == bits].sum()) for bits in range(1 << len(kinds))]


@check_arguments
def comm_comp_overlap(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the share of each rank's communication that overlaps compute.

    ``overlap_share`` is the time during which the rank both computes and communicates, divided by
    the time during which it communicates. Concurrent communication kernels count once. All compute
    of the rank in the window is included, whether or not it is selected.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank, including ranks without communication:

        - ``rank`` (int64)
        - ``communication_ns, overlapped_ns`` (int64): time of any communication, and of
          communication while computing
        - ``overlap_share`` (float): 0..1, NaN without communication
        - ``exposed_ns`` (int64): communicating and not computing
        - ``compute_ns`` (int64): computing at all

        ``.attrs["note"]`` lists ranks without communication kernels (`hta_widgets.taxonomy.add`
        adds rules for their names), and ranks whose communication kernels all last 0 ns.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    times = np.array(list(map_ranks(chosen, _communication_overlap)), dtype=np.int64).reshape(-1, 4)
    communicating, overlapped, computing, kernels = times.T
    rank = np.array(chosen.ranks, dtype=np.int64)
    with_kernels = rank[kernels > 0].tolist()
    with_time = rank[(communicating > 0) | (kernels == 0)].tolist()
    notes = (
        missing_ranks_note(chosen.ranks, with_kernels, _NO_COMMUNICATION),
        missing_ranks_note(chosen.ranks, with_time, _NO_COMMUNICATION_TIME),
    )
    return result_frame(
        {
            "rank": rank,
            "communication_ns": communicating,
            "overlapped_ns": overlapped,
            "overlap_share": overlapped / np.where(communicating > 0, communicating, np.nan),
            "exposed_ns": communicating - overlapped,
            "compute_ns": computing,
        },
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=dict.fromkeys(notes),  # without ranks, the notes are the same
    )


def _communication_overlap(part: RankPart) -> tuple[int, int, int, int]:
    """Return communication, overlapped and compute time, and the number of communication events."""
    communication = part.union_of_kinds("communication")
    compute = part.union_of_all_of_kinds("compute")
    return (
        total_length(communication),
        total_length(intersect(communication, compute)),
        total_length(compute),
        int(part.kind_counts[KINDS.index("communication")]),
    )


@check_arguments
def communication_by_stream(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each device stream's communication time, and the part hidden by compute.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and communicating stream, in this order, int64 except for the share:

        - ``rank, stream``; ``count``, the number of communication kernels
        - ``communication_ns``: the time during which any of them runs
        - ``overlapped_ns``: the part during which the rank computes on any stream;
          ``exposed_ns``: the rest
        - ``overlap_share``: ``overlapped_ns / communication_ns``, 0..1
        - ``sum_ns, max_ns``: sum and maximum of the kernels' durations

    Notes
    -----
    Overlap is defined as in `comm_comp_overlap`, but per stream: all compute of the rank is used,
    selected or not. Concurrent times of several streams add up to more than the rank's time.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    rows = _rows_of_ranks(chosen, _communication_of_streams)
    note: tuple[str, ...] = ()
    if not rows:
        on_hosts = on_hosts_note(map_ranks(chosen.owner, count_host_collectives))
        note = (note_text("no_communication"), on_hosts)
    return result_frame(
        columns_of_rows(rows, {**int64("rank stream"), **_COMMUNICATION}),
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=note,
    )


@check_arguments
def communication_by_group(
    traces: TraceSet,
    *,
    by_collective: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each process group's communication time, its exposed part, and its bytes.

    Groups and sizes are read from args of communication kernels, which PyTorch 2.3 and later write.

    Parameters
    ----------
    traces : TraceSet
    by_collective : bool, default False
        Return one row per collective of a group, such as ``allreduce``.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and process group, ordered by rank, most time first:

        - ``rank``; ``group, description, group_ranks``: the group's name, purpose and ranks as in
          the file, as text; empty if missing. The purpose is read from the kernels, or else from
          the header
        - ``collective`` (str, with `by_collective`)
        - ``count, communication_ns, overlapped_ns, exposed_ns, overlap_share, sum_ns, max_ns`` as
          in `communication_by_stream`
        - ``in_bytes, out_bytes`` (int64): sums of the known sizes of this rank's inputs and
          outputs; -1 if none is known; not clipped by the window

    Notes
    -----
    A size is the number of elements times the bytes per element. The collective's algorithm may
    move a different number of bytes; `collectives` returns bandwidths.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    args = (*_GROUP, _COLLECTIVE) if by_collective else _GROUP
    rows = _rows_of_ranks(chosen, _communication_of_groups, args)
    texts = ["group", "description", "group_ranks"] + ["collective"] * by_collective
    schema = {"rank": "int64", **dict.fromkeys(texts, "str"), **_COMMUNICATION}
    note = ""
    if not rows:
        note = note_text("no_communication")
    elif not any(group for _, group, *_ in rows):
        note = "the files do not state which process group a kernel belongs to"
    return result_frame(
        columns_of_rows(rows, {**schema, **int64("in_bytes out_bytes")}),
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=note,
    )


def _rows_of_ranks(
    chosen: RankParts, function: Callable[..., list[Any]], *args: Any
) -> list[tuple[Any, ...]]:
    rows_by_rank = zip(chosen.ranks, map_ranks(chosen, function, *args), strict=True)
    return [(rank, *row) for rank, rows in rows_by_rank for row in rows]


def _communication_of_streams(part: RankPart) -> list[tuple[Any, ...]]:
    rows = part.rows_of_kinds("communication")
    stream = part.table.stream[rows]
    return [
        (number, *_communication_times(part, rows[stream == number]).values())
        for number in np.unique(stream).tolist()
    ]


def _communication_of_groups(part: RankPart, labeled: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return labels, times and bytes of each of a rank's groups, most time first.

    `labeled` are the args that distinguish groups. Missing args are empty strings.
    """
    rows = part.rows_of_kinds("communication")
    args = event_args(part.trace, rows, (*_GROUP, _COLLECTIVE, *_ELEMENTS, _DTYPE))
    purposes = {group.name: group.description for group in job_header(part.trace).groups}
    events_of_group: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for event, labels in enumerate(zip(*(args[key] for key in labeled), strict=True)):
        group, description, *others = ("" if label is None else str(label) for label in labels)
        description = description or purposes.get(group, "")
        events_of_group[group, description, *others].append(event)
    bytes_each = np.array([bytes_of(str(dtype)) for dtype in args[_DTYPE]], dtype=np.int64)
    sizes = [message_bytes(to_int64(args[elements]), bytes_each) for elements in _ELEMENTS]
    groups = []
    for labels, events in events_of_group.items():
        times = _communication_times(part, rows[events])
        known_bytes = (sum_known_bytes(size[events]) for size in sizes)
        groups.append((*labels, *times.values(), *known_bytes))
    time_column = len(labeled) + list(_COMMUNICATION).index("communication_ns")
    return sorted(groups, key=itemgetter(time_column), reverse=True)


def _communication_times(part: RankPart, rows: Rows) -> dict[str, float]:
    start, end = part.clip_rows(rows)
    communicating = union(start, end)
    time_ns = total_length(communicating)
    hidden_ns = total_length(intersect(communicating, part.union_of_all_of_kinds("compute")))
    return {
        "count": len(rows),
        "communication_ns": time_ns,
        "overlapped_ns": hidden_ns,
        "exposed_ns": time_ns - hidden_ns,
        "overlap_share": hidden_ns / time_ns if time_ns else float("nan"),
        "sum_ns": int((end - start).sum()),
        "max_ns": int((end - start).max()),
    }

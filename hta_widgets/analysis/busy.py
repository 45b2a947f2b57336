"""Device time by kind, stream and process group, its overlap, and totals of selected events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.comm_events import bytes_of, sum_known_bytes
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    RankParts,
    Scope,
    categorical,
    columns_of_rows,
    count_by_kind,
    host_names,
    map_ranks,
    on_hosts_note,
    prelaunched_note,
    rank_parts,
    result_frame,
    stack_blocks,
    statistics_by_name,
    with_scope,
)
from hta_widgets.facts import facts, note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.replies import Totals
from hta_widgets.trace.arrays import Ints, Rows, sum_by_group
from hta_widgets.trace.columns import event_args, to_int64
from hta_widgets.trace.intervals import intersect, subtract, total_length, union
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

#: HTA's names of kinds, in the order in which they appear in a label.
_WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}

_TIMES = (
    "idle_ns compute_ns non_compute_ns span_ns busy_ns communication_ns memory_ns"
    " exposed_communication_ns exposed_memory_ns"
)

#: Columns of communication times.
_COMMUNICATION = "count communication_ns overlapped_ns exposed_ns overlap_share:f sum_ns max_ns"


_GROUP = ("Process Group Name", "Process Group Description", "Process Group Ranks")
_COLLECTIVE = "Collective name"
_ELEMENTS = ("In msg nelems", "Out msg nelems")
_DTYPE = "dtype"
_MAX_NAMES: int = facts("limits")["totals_names"]

#: Numbers of elements from here on count as unknown, which keeps sizes within int64.
_MAX_ELEMENTS = 1 << 50


@with_scope
def temporal_breakdown(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Split each rank's device time into idle, computing and other work.

    The span runs from the first start to the last end of the rank's device work in the whole job,
    on all streams, and is cut at the window's edges; times of adjacent windows add up. Every
    instant of the span counts once: as computing if any compute kernel runs, else as non-compute
    if anything communicates or copies, else as idle. Hence, to the nanosecond,
    ``idle_ns + compute_ns + non_compute_ns == span_ns`` and
    ``exposed_communication_ns + exposed_memory_ns == non_compute_ns``.
    Synchronisation rows on a stream are waits, not work. Only selected events count: in a
    selection of communication, all of it is exposed.

    Returns
    -------
    DataFrame
        One row per rank whose span the window touches; times int64:

        - ``rank``
        - ``idle_ns, compute_ns, non_compute_ns, span_ns``
        - ``idle_pct, compute_pct, non_compute_pct``: of the span, 0..100; NaN for a span of 0 ns
        - ``busy_ns``: time with any work; ``communication_ns, memory_ns``: time with work of that
          kind, whatever else runs
        - ``exposed_communication_ns``: communicating and not computing; ``exposed_memory_ns``:
          copying, neither computing nor communicating
    """
    chosen = rank_parts(traces, **scope)
    found = dict(zip(chosen.ranks, map_ranks(chosen, _device_times), strict=True))
    working = {rank: times for rank, times in found.items() if times is not None}
    column = columns_of_rows([(rank, *times) for rank, times in working.items()], f"rank {_TIMES}")
    span = np.where(column["span_ns"] > 0, column["span_ns"], np.nan)
    shares = {
        f"{name}_pct": 100 * column[f"{name}_ns"] / span
        for name in ("idle", "compute", "non_compute")
    }
    first = ("rank", "idle_ns", "compute_ns", "non_compute_ns", "span_ns")
    return result_frame(
        {**{name: column[name] for name in first}, **shares, **column},
        matched=count_by_kind(chosen),
        note=(missing_ranks_note(chosen.ranks, working), prelaunched_note(chosen)),
    )


#: Keys of the notes for a lack of work on all ranks, and on the listed ranks only.
_NO_WORK = ("no_device_work", "no_device_work_on")
_NO_COMMUNICATION = ("no_communication", "no_communication_on")
_NO_COMMUNICATION_TIME = ("no_communication_time", "no_communication_time_on")


def missing_ranks_note(
    chosen: Sequence[int], having: Collection[int], notes: tuple[str, str] = _NO_WORK
) -> str:
    """Return a note on the selected ranks missing from `having`; empty if none is missing."""
    without = [str(rank) for rank in chosen if rank not in having]
    if not without:
        return "" if chosen else note_text("no_ranks")
    if len(without) == len(chosen):
        return note_text(notes[0])
    named = f"rank{'s' * (len(without) > 1)} {', '.join(without)}"
    return note_text(notes[1], ranks=named)


def _device_times(part: RankPart) -> tuple[int, ...] | None:
    """Return the values of the columns `_TIMES`, or None if the rank has no span in the window."""
    if part.span is None:
        return None
    start, end = part.span
    span = end - start
    busy = total_length(part.union_of_kinds(*DEVICE_WORK_KINDS))
    compute, communication, memory = (part.union_of_kinds(kind) for kind in DEVICE_WORK_KINDS)
    computing = total_length(compute)
    exposed = total_length(subtract(communication, compute))
    return (
        span - busy,
        computing,
        busy - computing,
        span,
        busy,
        total_length(communication),
        total_length(memory),
        exposed,
        busy - computing - exposed,
    )


@with_scope
def kernel_type_breakdown(
    traces: TraceSet, *, include_memory: bool = True, per_rank: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the time of each kind of device work, alone and overlapping others.

    Every busy instant of a rank's device counts for exactly one label: the kinds that run then,
    such as ``COMPUTATION overlapping COMMUNICATION``. Times are added over ranks.

    Parameters
    ----------
    per_rank : bool, default False
        Return one row per rank and label; shares are then of the rank's busy time.

    Returns
    -------
    DataFrame
        One row per label that occurs, most time first:

        - ``rank`` (int64, only with `per_rank`; rows are then in order of ranks)
        - ``kernel_type`` (text): the label
        - ``sum_ns`` (int64)
        - ``share`` (float): ``sum_ns`` as a share of all rows, or of the rank's rows, 0..1
    """
    chosen = rank_parts(traces, **scope)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    found = list(map_ranks(chosen, _times_by_kind_set, kinds))
    times = np.array(found, dtype=np.int64).reshape(-1, 1 << len(kinds))
    times[:, 0] = 0
    if not per_rank:
        times = times.sum(axis=0, keepdims=True)
    row, label = np.nonzero(times)
    spent = times[row, label]
    order = np.lexsort((label, -spent, row))
    row, label, spent = row[order], label[order], spent[order]
    rank = np.array(chosen.ranks, dtype=np.int64)
    matched = count_by_kind(chosen, kinds)
    missing = [kind for kind, count in matched.items() if not count]
    return result_frame(
        {
            **({"rank": rank[row]} if per_rank else {}),
            "kernel_type": pd.array([_label(code, kinds) for code in label.tolist()], dtype="str"),
            "sum_ns": spent,
            "share": spent / times.sum(axis=1)[row],
        },
        matched=matched,
        note=note_text("no_kernels_of", kinds=", ".join(missing)) if missing else "",
    )


def _label(code: int, kinds: Sequence[str]) -> str:
    return " overlapping ".join(_WORDS[kind] for bit, kind in enumerate(kinds) if code >> bit & 1)


def _times_by_kind_set(part: RankPart, kinds: Sequence[str]) -> list[int]:
    """Return the time of each combination of kinds; bit n of the index is kind n."""
    covers = [part.union_of_kinds(kind) for kind in kinds]
    time = np.concatenate([edge for cover in covers for edge in (cover.start, cover.end)])
    change = np.concatenate(
        [
            np.full(len(edge), sign << bit, dtype=np.int64)
            for bit, cover in enumerate(covers)
            for sign, edge in ((1, cover.start), (-1, cover.end))
        ]
    )
    order = np.argsort(time, kind="stable")
    running = np.cumsum(change[order])[:-1]
    length = np.diff(time[order])
    return [int(length[running == code].sum()) for code in range(1 << len(covers))]


@with_scope
def comm_comp_overlap(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the share of each rank's communication that overlaps computing.

    ``overlap_share`` is the time in which the rank computes and communicates, divided by the time
    in which it communicates; concurrent communication kernels count once. All computing of the
    rank in the window counts, whether it is selected or not.

    Returns
    -------
    DataFrame
        One row per rank, including ranks without communication:

        - ``rank`` (int64)
        - ``communication_ns, overlapped_ns`` (int64): communicating at all, and while computing
        - ``overlap_share`` (float): 0..1, NaN without communication
        - ``exposed_ns`` (int64): communicating and not computing
        - ``compute_ns`` (int64): computing at all

        ``.attrs["note"]`` lists ranks without communication kernels (`hta_widgets.taxonomy.add`
        adds rules for their names) and ranks whose communication kernels all last 0 ns.
    """
    chosen = rank_parts(traces, **scope)
    times = np.array(list(map_ranks(chosen, _communication_overlap)), dtype=np.int64).reshape(-1, 4)
    communicating, overlapped, computing, kernels = times.T
    ranks = np.array(chosen.ranks, dtype=np.int64)
    return result_frame(
        {
            "rank": ranks,
            "communication_ns": communicating,
            "overlapped_ns": overlapped,
            "overlap_share": overlapped / np.where(communicating > 0, communicating, np.nan),
            "exposed_ns": communicating - overlapped,
            "compute_ns": computing,
        },
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=dict.fromkeys(
            missing_ranks_note(chosen.ranks, ranks[having].tolist(), notes)
            for having, notes in (
                (kernels > 0, _NO_COMMUNICATION),
                ((communicating > 0) | (kernels == 0), _NO_COMMUNICATION_TIME),
            )
        ),
    )


def _communication_overlap(part: RankPart) -> tuple[int, int, int, int]:
    communication, compute = (
        part.union_of_kinds("communication"),
        part.union_of_all_of_kinds("compute"),
    )
    kernels = int(part.kind_counts[KINDS.index("communication")])
    return (
        total_length(communication),
        total_length(intersect(communication, compute)),
        total_length(compute),
        kernels,
    )


@with_scope
def communication_by_stream(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return each device stream's communication time, and the part that computing hides.

    Returns
    -------
    DataFrame
        One row per rank and stream that communicates, in that order, int64 except for the share:

        - ``rank, stream``; ``count`` of communication kernels
        - ``communication_ns``: the time in which any of them runs
        - ``overlapped_ns``: the part during which the rank computes on any stream;
          ``exposed_ns``: the rest
        - ``overlap_share``: ``overlapped_ns / communication_ns``, 0..1
        - ``sum_ns, max_ns``: sum and maximum of the kernels' durations

    Notes
    -----
    Overlap is defined as in `comm_comp_overlap`, but by stream: all compute of the rank counts,
    selected or not. Times of streams that communicate at the same time add up to more than the
    rank's.
    """
    chosen = rank_parts(traces, **scope)
    rows = _rows_of_ranks(chosen, _communication_of_streams)
    return result_frame(
        columns_of_rows(rows, f"rank stream {_COMMUNICATION}"),
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=()
        if rows
        else (note_text("no_communication"), on_hosts_note(map_ranks(traces, host_names))),
    )


@with_scope
def communication_by_group(
    traces: TraceSet, *, by_collective: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return each process group's communication time, its exposed part, and its bytes.

    Groups and sizes are read from the args of communication kernels, which PyTorch writes since
    version 2.3.

    Parameters
    ----------
    by_collective : bool, default False
        Return one row per collective of a group, such as ``allreduce``.

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
    A size is the number of elements times the bytes of their type, not the bytes that the algorithm
    of the collective moves; `collectives` returns bandwidths.
    """
    chosen = rank_parts(traces, **scope)
    args = (*_GROUP, _COLLECTIVE) if by_collective else _GROUP
    rows = _rows_of_ranks(chosen, _communication_of_groups, args)
    texts = "group:t description:t group_ranks:t" + " collective:t" * by_collective
    note = ""
    if not rows:
        note = note_text("no_communication")
    elif not any(row[1] for row in rows):
        note = "the files do not say which process group a kernel belongs to"
    return result_frame(
        columns_of_rows(rows, f"rank {texts} {_COMMUNICATION} in_bytes out_bytes"),
        matched=count_by_kind(chosen, DEVICE_WORK_KINDS[:2]),
        note=note,
    )


def _rows_of_ranks(
    chosen: RankParts, function: Callable[..., list[Any]], *args: Any
) -> list[tuple[Any, ...]]:
    """Return the rows that `function` returns for each rank, with the rank as first value."""
    found = zip(chosen.ranks, map_ranks(chosen, function, *args), strict=True)
    return [(rank, *row) for rank, rows in found for row in rows]


def _communication_of_streams(part: RankPart) -> list[tuple[Any, ...]]:
    rows = part.rows_of_kinds("communication")
    stream = part.table.stream[rows]
    return [
        (number, *_communication_columns(part, rows[stream == number]))
        for number in np.unique(stream).tolist()
    ]


def _communication_of_groups(part: RankPart, labelled: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return labels, times and bytes of each group of a rank, most time first."""
    rows = part.rows_of_kinds("communication")
    args = event_args(part.trace, rows, (*_GROUP, _COLLECTIVE, *_ELEMENTS, _DTYPE))
    labels = zip(*(args[key] for key in labelled), strict=True)
    # Missing args count as empty text.
    texts = [tuple("" if value is None else str(value) for value in event) for event in labels]
    of_group: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        of_group[text].append(place)
    sizes = [_message_bytes(args[elements], args[_DTYPE]) for elements in _ELEMENTS]
    rows_of_groups = [
        (
            *text,
            *_communication_columns(part, rows[places]),
            *(sum_known_bytes(size[places]) for size in sizes),
        )
        for text, places in of_group.items()
    ]
    return sorted(rows_of_groups, key=lambda row: -row[len(labelled) + 1])


def _communication_columns(part: RankPart, rows: Rows) -> tuple[float, ...]:
    """Return the values of the columns `_COMMUNICATION` for some kernels of a rank."""
    start, end = part.clip_rows(rows)
    pieces = union(start, end)
    time, hidden = (
        total_length(pieces),
        total_length(intersect(pieces, part.union_of_all_of_kinds("compute"))),
    )
    duration = end - start
    share = hidden / time if time else float("nan")
    return len(rows), time, hidden, time - hidden, share, int(duration.sum()), int(duration.max())


def _message_bytes(elements: list[Any], dtypes: list[Any]) -> Ints:
    """Return the size of each message, -1 if unknown."""
    count = to_int64(elements)
    size = np.array([bytes_of(str(dtype)) for dtype in dtypes], dtype=np.int64)
    stated = (count >= 0) & (count < _MAX_ELEMENTS) & (size > 0)
    return np.where(stated, np.where(stated, count, 0) * size, -1)


def totals(traces: TraceSet, selection: Selection | None = None, limit: int = _MAX_NAMES) -> Totals:
    """Return totals by kind and by name as JSON values, for the panel next to a selection."""
    every = _sum_up(rank_parts(traces, selection))
    by_name = _sort_totals(every, ["kind", "name"])
    shown = _to_records(by_name.head(limit).assign(short=lambda rows: rows["name"].map(short_name)))
    return {
        "events": int(by_name["count"].sum()),
        "kinds": _to_records(_sort_totals(every, ["kind"])),
        "names": shown,
        "names_total": len(by_name),
    }


def totals_by(traces: TraceSet, keys: list[str], **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the time of the selected events by ``kind``, or by ``kind`` and ``name``.

    Durations are clipped to the window; events that overlap or enclose each other all count.
    ``device_ns`` and ``host_ns`` are the parts of ``sum_ns`` on device streams and elsewhere.
    """
    return _sort_totals(_sum_up(rank_parts(traces, **scope)), keys)


def _sum_up(chosen: RankParts) -> pd.DataFrame:
    """Return one row per rank, name and kind."""
    blocks = []
    for part in chosen:
        columns, code = statistics_by_name(part, part.rows)
        on_device = part.table.stream[part.rows] >= 0
        device_ns = np.where(on_device, part.durations(part.rows), 0)
        blocks.append({**columns, "device_ns": sum_by_group(code, device_ns, len(columns["name"]))})
    return pd.DataFrame(stack_blocks(blocks, "kind name:s count sum_ns min_ns max_ns device_ns"))


def _sort_totals(every: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row per group, most time first, then most events, then by kind."""
    added = {"count": "sum", "sum_ns": "sum", "min_ns": "min", "max_ns": "max", "device_ns": "sum"}
    frame = every.groupby(keys, sort=False).agg(added).reset_index()
    order = np.lexsort((frame["kind"], -frame["count"], -frame["sum_ns"]))
    frame = frame.iloc[order].reset_index(drop=True)
    frame["kind"] = categorical(frame["kind"].to_numpy(), KINDS)
    frame.insert(list(frame).index("min_ns"), "mean_ns", frame["sum_ns"] / frame["count"])
    frame["host_ns"] = frame["sum_ns"] - frame["device_ns"]
    counts = np.bincount(every["kind"], every["count"], len(KINDS)).astype(np.int64).tolist()
    frame.attrs["matched"] = {kind: n for kind, n in zip(KINDS, counts, strict=True) if n}
    if not len(frame):
        frame.attrs["note"] = note_text("no_events")
    return frame


def _to_records(frame: pd.DataFrame) -> list[Any]:
    named = frame.rename(columns=lambda name: str(name).removesuffix("_ns"))
    return named.astype(object).to_dict("records")

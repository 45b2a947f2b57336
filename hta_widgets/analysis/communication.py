"""Where communication goes: by device stream and by process group, hidden and exposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.event_args import numbers_of
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import intersect
from hta_widgets.trace.intervals import total
from hta_widgets.trace.intervals import union

from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import on_hosts_note
from hta_widgets.analysis.scope import parts

__all__ = ["communication_by_group", "communication_by_stream"]

Ints = npt.NDArray[np.int64]
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

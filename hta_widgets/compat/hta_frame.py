"""One rank's events as HTA's frames show them: µs, and names and categories as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.trace import Trace

if TYPE_CHECKING:
    from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
    from hta_widgets.compat.configs.parser_config import AttributeSpec

__all__ = ["first_event_ns", "hta_frame", "hta_rows", "in_us", "number_or_text", "symbols_of"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_COMPLETE = 0
_ANNOTATION = KINDS.index("annotation")
_WHOLE = re.compile(r"-?\d{1,18}")


def in_us(nanoseconds: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return times in µs: whole numbers where all of them are, else fractions."""
    times = np.asarray(nanoseconds, dtype=np.int64)
    return times // 1000 if not (times % 1000).any() else times / 1000


def hta_rows(table: EventTable) -> Rows:
    """Return the events that HTA's frames hold, in file order.

    Those are complete events that have a category. The profiler's own span, of category
    ``Trace``, is not among them.
    """
    apart = [code for code, text in enumerate(table.categories.values) if text in ("", "Trace")]
    member = table.phase == _COMPLETE
    for code in apart:
        member &= table.category != code
    rows = np.flatnonzero(member)
    return rows[np.argsort(table.record[rows], kind="stable")]


def first_event_ns(traces: Iterable[Trace]) -> int:
    """Return when the first event starts that HTA's frames hold, on the set's clock.

    HTA's times are since then. A set's own are since the earliest event of any kind, which mostly
    is the profiler's own span.
    """
    starts = []
    for trace in traces:
        table = trace.table
        apart = [code for code, text in enumerate(table.categories.values) if text in ("", "Trace")]
        member = (table.phase == _COMPLETE) & ~np.isin(table.category, apart)
        if member.any():  # rows ascend by start
            starts.append(int(table.start_ns[int(member.argmax())]) + trace.shift_ns)
    return min(starts, default=0)


def symbols_of(table: EventTable, rows: Rows) -> list[str]:
    """Return the categories and names of some events, each once."""
    used: list[str] = []
    for codes, pool in ((table.category, table.categories), (table.name, table.names)):
        used += [pool[code] for code in np.unique(codes[rows]).tolist()]
    return used


def hta_frame(
    trace: Trace,
    rows: Rows,
    symbols: TraceSymbolTable,
    *,
    zero_ns: int,
    columns: Sequence[AttributeSpec] = (),
) -> pd.DataFrame:
    """Return some events of a rank as HTA's frames show them.

    Parameters
    ----------
    trace : Trace
    rows : array of int
        Ids of the events, in the order in which the frame has them.
    symbols : TraceSymbolTable
        Must hold their names and categories.
    zero_ns : int
        What time 0 of the frame is on the set's clock.
    columns : sequence of AttributeSpec, optional
        Args that become columns; they are read from the file.

    Returns
    -------
    DataFrame
        The index is the column ``index``, an event's place in ``traceEvents``. ``cat, name`` are
        numbers of `symbols`; ``pid, tid`` as in the file; ``ts, dur, end`` in µs (float64);
        ``stream`` (-1: host, and annotations on the device); ``correlation``;
        ``index_correlation``, the ``index`` of the call that launched a device event, and of the
        last event that a call launched (-1: has no correlation, 0: its partner is not there);
        ``iteration``, n of ``ProfilerStep#n`` (-1: none). Then `columns`.

    Notes
    -----
    Other than in HTA, ``end`` counts from the same instant as ``ts``, device events of stream 0
    have an iteration, and operators with a ``stream`` arg (Triton's) are host events.
    """
    table = trace.table
    numbers = symbols.sym_index
    start = table.start_ns[rows] + trace.shift_ns - zero_ns
    data: dict[str, Any] = {
        "index": table.record[rows],
        "cat": _renumbered(table.category[rows], table.categories.values, numbers),
        "name": _renumbered(table.name[rows], table.names.values, numbers),
        "pid": _track_values(table, rows, [track.pid for track in table.tracks]),
        "tid": _track_values(table, rows, [track.tid for track in table.tracks]),
        "ts": start / 1000,
        "dur": table.dur_ns[rows] / 1000,
        "stream": np.where(table.kind[rows] == _ANNOTATION, -1, table.stream[rows]).astype(
            np.int64
        ),
        "correlation": table.correlation[rows],
        "index_correlation": _partners(trace)[rows],
        "iteration": table.step[rows],
        "end": (start + table.dur_ns[rows]) / 1000,
    }
    if columns:
        found = event_args(trace, rows, [spec.raw_name for spec in columns])
        for spec in columns:
            if spec.name not in data:
                data[spec.name] = _arg_values(found[spec.raw_name], spec.default_value)
    frame = pd.DataFrame(data)
    frame.index = pd.Index(data["index"])
    return frame


def number_or_text(values: Sequence[str]) -> npt.NDArray[Any]:
    """Return process or thread ids as numbers where they are; whole numbers where all are."""
    parsed = [int(value) if _WHOLE.fullmatch(value) else value for value in values]
    if all(isinstance(value, int) for value in parsed):
        return np.array(parsed, dtype=np.int64)
    column = np.empty(len(parsed), dtype=object)
    column[:] = parsed
    return column


def _track_values(table: EventTable, rows: Rows, values: list[str]) -> npt.NDArray[Any]:
    tracks = table.track[rows]
    used = np.unique(tracks)
    place = np.zeros(len(values), dtype=np.intp)
    place[used] = np.arange(len(used))
    picked = number_or_text([values[track] for track in used.tolist()])
    column: npt.NDArray[Any] = picked[place[tracks]]
    return column


def _renumbered(codes: npt.NDArray[Any], values: Sequence[str], numbers: dict[str, int]) -> Ints:
    lookup = np.array([numbers.get(value, -1) for value in values], dtype=np.int64)
    picked: Ints = lookup[codes]
    return picked


def _partners(trace: Trace) -> Ints:
    """For each event the place in the file of its partner across the launch."""
    table = trace.table
    partner = np.where(table.correlation == -1, -1, 0)
    launch = trace.launch_of
    launched = np.flatnonzero(launch >= 0)
    partner[launched] = table.record[launch[launched]]
    partner[launch[launched]] = table.record[launched]
    return partner


def _arg_values(values: list[Any], default: Any) -> Any:
    filled = [default if value is None else value for value in values]
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        column = pd.to_numeric(pd.Series(filled, dtype=object), errors="coerce").fillna(default)
        return column.to_numpy()
    array = np.empty(len(filled), dtype=object)
    array[:] = filled
    return array

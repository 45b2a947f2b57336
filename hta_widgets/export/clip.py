"""Cut records at the edges of a window."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.export.members import Members
from hta_widgets.formats.kineto.times import micros
from hta_widgets.formats.kineto.times import nanoseconds
from hta_widgets.trace.record_fields import Fields
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["Clip"]

_CLIPPED = "hta_clipped"
_ARROW = (b'"s"', b'"t"', b'"f"')


class Clip:
    """Cuts what crosses the edge of a rank's window.

    A cut event says in ``args["hta_clipped"]`` what its record stated before: ``ts``, ``dur``.

    Parameters
    ----------
    members : Members
        Its window must have two sides.
    """

    def __init__(self, members: Members) -> None:
        trace = members.trace
        self._low = 0 if members.start_ns is None else members.start_ns
        self._high = np.iinfo(np.int64).max if members.end_ns is None else members.end_ns
        #: nanoseconds from a record's own time to one since the trace's first event
        self._base_ns = members.written_zero_ns
        rows = members.rows
        start_ns, end_ns = trace.table.start_ns[rows], trace.table.end_ns[rows]
        out = (start_ns < self._low) | (end_ns > self._high)
        cut = rows[out]
        records = trace.table.record[cut].tolist()
        self._complete = dict(zip(records, cut.tolist(), strict=True))
        self._table = trace.table
        ends = trace.table.end_record
        self._ends = {ends[row]: row for row in cut.tolist() if row in ends}
        self._moved = _moved(members, self._low, self._high)

    def __call__(self, number: int, text: bytes) -> bytes:
        """Return the record, cut where that is needed."""
        if number in self._complete:
            return self._cut(text, self._complete[number])
        if number in self._ends:
            return self._cut_end(text, self._ends[number])
        return self.settle(text) if number in self._moved else text

    def _cut(self, text: bytes, row: int) -> bytes:
        fields = decode_fields(text)
        if fields is None:
            return text
        start_ns = int(self._table.start_ns[row])
        end_ns = start_ns + int(self._table.dur_ns[row])
        first, last = max(start_ns, self._low), min(end_ns, self._high)
        was = {}
        if first != start_ns:
            was["ts"] = fields["ts"]
            fields["ts"] = micros(first + self._base_ns)
        if "dur" in fields:
            was["dur"] = fields["dur"]
            fields["dur"] = micros(last - first)
        if was:
            _mark(fields, was)
        return encode_fields(fields)

    def _cut_end(self, text: bytes, row: int) -> bytes:
        fields = decode_fields(text)
        end_ns = int(self._table.start_ns[row] + self._table.dur_ns[row])
        if fields is None or end_ns <= self._high:
            return text
        was = {"ts": fields["ts"]}
        fields["ts"] = micros(self._high + self._base_ns)
        _mark(fields, was)
        return encode_fields(fields)

    def settle(self, text: bytes) -> bytes:
        """Take an end of an arrow, or of an async interval, along into the window."""
        fields = decode_fields(text)
        time_ns = None if fields is None else nanoseconds(fields.get("ts", b""))
        if fields is None or time_ns is None:
            return text
        # An arrow has to end inside of its event, which ends at the window's edge.
        last = self._high - (fields.get("ph") in _ARROW)
        inside_ns = max(min(time_ns - self._base_ns, last), self._low)
        if inside_ns == time_ns - self._base_ns:
            return text
        fields["ts"] = micros(inside_ns + self._base_ns)
        return encode_fields(fields)


def _mark(fields: Fields, was: dict[str, bytes]) -> None:
    args = decode_fields(fields.get("args", b"{}"))
    if args is not None:
        args[_CLIPPED] = encode_fields(was)
        fields["args"] = encode_fields(args)


def _moved(members: Members, low: int, high: int) -> frozenset[int]:
    """Return the flow records and async records whose time may lie beyond the window's edge."""
    trace = members.trace
    flows, table = trace.flow_table, trace.table
    moved: list[npt.NDArray[np.int64]] = []
    for rows, records in (
        (flows.source, flows.source_record),
        (flows.target, flows.target_record),
    ):
        out = (table.start_ns[rows] < low) | (table.end_ns[rows] > high)
        moved.append(records[out & (records >= 0)])
    asyncs = trace.async_table
    moved.append(asyncs.record[(asyncs.start_ns < low) & (asyncs.record >= 0)])
    return frozenset(np.concatenate(moved).tolist())

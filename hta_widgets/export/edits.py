"""Edit single records for an export: clip, adapt flows."""

from __future__ import annotations

import numpy as np

from hta_widgets.analysis.steps import CLIPPED
from hta_widgets.export.members import KEEP, Members
from hta_widgets.formats.kineto.times import micros, nanoseconds_of_text as nanoseconds
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import Fields, decode_fields, encode_fields

_ARROW = (b'"s"', b'"t"', b'"f"')


class Clip:
    """Cuts the records that cross an edge of a rank's window.

    ``args["hta_clipped"]`` of a cut event keeps the recorded ``ts`` and ``dur``.
    """

    def __init__(self, members: Members) -> None:
        trace = members.trace
        self._low = 0 if members.start_ns is None else members.start_ns
        self._high = np.iinfo(np.int64).max if members.end_ns is None else members.end_ns
        #: nanoseconds to add to a record's time to count it from the trace's first event
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
        """Return the record, cut if it crosses an edge."""
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
        """Move an end of an arrow or of an async interval into the window."""
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
        args[CLIPPED] = encode_fields(was)
        fields["args"] = encode_fields(args)


def _moved(members: Members, low: int, high: int) -> frozenset[int]:
    """Return the flow records and async records whose time may lie beyond the window's edge."""
    trace = members.trace
    flows, table = trace.flow_table, trace.table
    moved: list[Ints] = []
    for rows, records in (
        (flows.source, flows.source_record),
        (flows.target, flows.target_record),
    ):
        out = (table.start_ns[rows] < low) | (table.end_ns[rows] > high)
        moved.append(records[out & (records >= 0)])
    asyncs = trace.async_table
    moved.append(asyncs.record[(asyncs.start_ns < low) & (asyncs.record >= 0)])
    return frozenset(np.concatenate(moved).tolist())


_THREAD = ("pid", "tid")


class FlowThreads:
    """Writes process and thread of a flow record as in the record of its event."""

    def __init__(self, members: Members) -> None:
        trace, fate = members.trace, members.fate
        flows, table = trace.flow_table, trace.table
        self._track: dict[int, int] = {}
        self._own: dict[int, dict[str, bytes]] = {}
        if trace.source is None or not members.flows:
            return
        for rows, records in (
            (flows.source, flows.source_record),
            (flows.target, flows.target_record),
        ):
            kept = records >= 0
            kept[kept] = fate[records[kept]] == KEEP
            self._track.update(
                zip(records[kept].tolist(), table.track[rows[kept]].tolist(), strict=True)
            )
        tracks, first = np.unique(table.track[members.rows], return_index=True)
        examples = table.record[members.rows[first]]
        track_of = dict(zip(examples.tolist(), tracks.tolist(), strict=True))
        for number, text in trace.source.records(examples):
            fields = decode_fields(text) or {}
            self._own[track_of[number]] = {key: fields[key] for key in _THREAD if key in fields}

    def __call__(self, number: int, text: bytes) -> bytes:
        """Return the record with the thread as in the record of its event."""
        own = self._own.get(self._track.get(number, -1))
        if own is None:
            return text
        fields = decode_fields(text)
        if fields is None or all(fields.get(key) == value for key, value in own.items()):
            return text
        # Only if it is the same thread: an arrow may start outside of its event.
        if any(_plain(fields.get(key, b"")) != _plain(value) for key, value in own.items()):
            return text
        return encode_fields({**fields, **own})


def _plain(raw: bytes) -> bytes:
    return raw.strip(b'"')

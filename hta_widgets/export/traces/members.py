"""Choose which records of a rank to export, clip them, and adapt their flows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from hta_widgets.analysis.steps import CLIPPED
from hta_widgets.export.traces.scrub import Scrubber
from hta_widgets.trace.arrays import Bools, Codes, Ints
from hta_widgets.trace.columns import decode_fields, encode_fields
from hta_widgets.trace.host_stack import add_enclosing_rows
from hta_widgets.trace.merged_format import ExportPart
from hta_widgets.trace.record_times import base_time_ns, micros, nanoseconds_of_text as nanoseconds
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection

DROP, KEEP, ASK = 0, 1, 2


class _RecordHeader(msgspec.Struct, gc=False):
    ph: str = ""
    ts: Raw = Raw(b"")
    cat: str | None = ""
    name: str | None = ""
    id: Raw = Raw(b"")
    pid: int | str | float | None = None
    tid: int | str | float | None = None


_decode_header = msgspec.json.Decoder(_RecordHeader).decode


@dataclass(slots=True)
class Members:
    """The part of one rank to export.

    Times are in ns since `Trace.zero_ns`.
    """

    trace: Trace
    rows: Ints  # ids of the exported events
    fate: Codes  # for each record in the file: `KEEP`, `DROP`, or `ASK` (`accepts` decides)
    whole: bool  # whether the whole rank is selected
    #: The edges of the window, or None if open.
    start_ns: int | None = None
    end_ns: int | None = None
    #: Number of exported flows, and number of omitted records by type.
    flows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    #: Process and thread ids of the exported events if tracks are selected, otherwise None.
    threads: frozenset[tuple[str, str]] | None = None
    #: (start, end) of the exported async intervals, by category, id and name.
    asyncs: dict[tuple[str, str, str], list[tuple[int, int]]] = field(default_factory=dict)
    #: Whether to write counter samples.
    counters: bool = False
    #: Rows of counter samples that are not records of the file.
    samples: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    #: Nanoseconds to add to all times, and whether the result is on the fitted clock.
    move_ns: int = 0
    fitted: bool = False
    #: Whether to clip records to the window.
    clip: bool = False
    #: Removes private data from records, if set.
    scrub: Scrubber | None = None
    #: For one side of a pair of runs: its title, the ns added to its base time, and more metadata.
    title: str = ""
    side_move_ns: int = 0
    stated: dict[str, Any] = field(default_factory=dict)
    #: The part of the job that the file will declare, or None for the whole job.
    part: ExportPart | None = None

    @property
    def written_zero_ns(self) -> int:
        """`Trace.zero_ns`, converted to the times of the exported records."""
        return self.trace.zero_ns - base_time_ns(self.trace.metadata) + self.move_ns

    def accepts(self, text: bytes) -> bool:
        """Return whether to export a record that no table contains; count omitted records."""
        try:
            record = _decode_header(text)
        except msgspec.DecodeError:
            return self.whole
        if record.ph == "M":
            return True
        if record.ph == "C" and not self.counters:
            return self._leave_out("counters")
        if self.whole:
            return True
        recorded_ns = nanoseconds(bytes(record.ts))
        if recorded_ns is None:
            return False
        time_ns = recorded_ns - (self.trace.zero_ns - base_time_ns(self.trace.metadata))
        if record.ph in {"e", "F"}:  # the interval may end after the window
            key = (record.cat or "", bytes(record.id).decode(), record.name or "")
            return any(start <= time_ns <= end for start, end in self.asyncs.get(key, []))
        if not self.in_window(time_ns):
            return False
        if record.ph in {"s", "t", "f"}:
            return self._leave_out("flows")
        thread = tuple("" if part is None else str(part) for part in (record.pid, record.tid))
        is_other_thread = self.threads is not None and thread not in self.threads
        if is_other_thread or record.ph in {"X", "B", "E"}:
            return self._leave_out("others")
        return True

    def in_window(self, time_ns: int) -> bool:
        """Return whether a time is in the half-open window."""
        has_begun = self.start_ns is None or time_ns >= self.start_ns
        return has_begun and (self.end_ns is None or time_ns < self.end_ns)

    def _leave_out(self, kind: str) -> bool:
        self.left_out[kind] = self.left_out.get(kind, 0) + 1
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The parameters of `hta_widgets.export_trace` that select and modify records."""

    clip: bool = False
    keep_parents: bool = True
    keep_launches: bool = False
    counters: bool | Literal["own"] = False
    scrub: bool = False


def choose_members(trace: Trace, selection: Selection, options: ExportOptions) -> Members | None:
    """Choose the records of a rank to export; return None if none of its events is selected."""
    if selection.ranks is not None and trace.rank not in selection.ranks:
        return None
    table = trace.table
    records = 0 if trace.source is None else len(trace.source)
    is_whole = replace(selection, ranks=None).is_everything and not trace.part
    chosen = selection.mask(trace)
    may_have_asyncs = is_by_time(selection) and not len(table) and bool(records)
    if not (chosen.any() or may_have_asyncs or (is_whole and records)):
        return None
    if options.keep_launches and not is_whole:
        _add_launches(trace, chosen, selection if options.clip else Selection())
    if options.keep_parents and not is_whole:
        add_enclosing_rows(chosen, table.parent)
    rows = np.flatnonzero(chosen)
    start_ns, end_ns = _window(trace, selection, rows)
    members = Members(trace, rows, np.full(records, ASK, np.uint8), is_whole, start_ns, end_ns)
    members.counters, members.clip = bool(options.counters), options.clip
    if options.scrub:
        members.scrub = Scrubber(trace.metadata, trace.host)
    if selection.tracks is not None:
        members.threads = frozenset(
            (table.tracks[code].pid, table.tracks[code].tid)
            for code in np.unique(table.track[rows]).tolist()
        )
    if records:
        _choose_events(members, chosen)
        _choose_flows(members, chosen)
        _choose_instants(members)
        _choose_asyncs(members)
    _choose_counters(members)
    return members if len(rows) or is_whole or members.asyncs else None


def is_by_time(selection: Selection) -> bool:
    """Return whether a selection restricts only time and ranks, keeping records without a row."""
    return (selection.query, selection.ids, selection.tracks) == (None, None, None)


def _add_launches(trace: Trace, chosen: Bools, window: Selection) -> None:
    """Add the calls in a window that launched chosen events to `chosen`."""
    calls = trace.launch_of[chosen]
    is_launch = np.zeros_like(chosen)
    is_launch[calls[calls >= 0]] = True
    chosen |= is_launch & Selection(start_ns=window.start_ns, end_ns=window.end_ns).mask(trace)


def _window(trace: Trace, selection: Selection, rows: Ints) -> tuple[int | None, int | None]:
    """Return the window to export. If only some events are selected, they limit its open sides."""
    start_ns, end_ns = selection.start_ns, selection.end_ns
    low = None if start_ns is None else start_ns - trace.shift_ns
    high = None if end_ns is None else end_ns - trace.shift_ns
    if len(rows) and (trace.part or not is_by_time(selection)):
        if low is None:
            low = int(trace.table.start_ns[rows].min())
        if high is None:
            high = int(trace.table.end_ns[rows].max()) + 1
    return low, high


def _choose_events(members: Members, chosen: Bools) -> None:
    """Keep the records of chosen events. An event may have a second record for its end."""
    table, fate = members.trace.table, members.fate
    fate[table.record] = DROP
    fate[table.record[chosen]] = KEEP
    for row, record in table.end_record.items():
        fate[record] = KEEP if chosen[row] else DROP


def _choose_flows(members: Members, chosen: Bools) -> None:
    """Keep the flows between selected events; count the flows with only one end selected."""
    flows, fate = members.trace.flow_table, members.fate
    has_records = (flows.source_record >= 0) & (flows.target_record >= 0)
    both = chosen[flows.source] & chosen[flows.target]
    either = chosen[flows.source] | chosen[flows.target]
    is_member = has_records if members.whole else has_records & both
    records = np.stack([flows.source_record, flows.target_record])
    fate[records[:, has_records]] = DROP
    fate[records[:, is_member]] = KEEP
    members.flows = int(is_member.sum())
    if cut := int((has_records & either & ~is_member).sum()):
        members.left_out["flows"] = cut


def _choose_instants(members: Members) -> None:
    table, fate = members.trace.instant_table, members.fate
    fate[table.record] = DROP
    is_member = _rows_within(members, table.time_ns, table.time_ns)
    if members.threads is not None:
        threads = zip(table.pid, table.tid, strict=True)
        is_member &= np.array([thread in members.threads for thread in threads], dtype=bool)
    fate[table.record[is_member]] = KEEP


def _choose_asyncs(members: Members) -> None:
    """Keep the first record of each async interval; `Members.accepts` decides about the rest."""
    table, trace = members.trace.async_table, members.trace
    names, categories = trace.table.names, trace.table.categories
    stated = table.record >= 0  # derived intervals have no record
    members.fate[table.record[stated]] = DROP
    end_ns = table.start_ns + np.maximum(table.dur_ns, 0)
    is_member = _rows_within(members, table.start_ns, end_ns) & stated
    if members.threads is not None:
        processes = {pid for pid, _ in members.threads}
        is_member &= np.array([pid in processes for pid in table.pid], dtype=bool)
    members.fate[table.record[is_member]] = KEEP
    for row in np.flatnonzero(is_member).tolist():
        key = (categories[table.category[row]], table.async_id[row], names[table.name[row]])
        span = (int(table.start_ns[row]), int(end_ns[row]))
        members.asyncs.setdefault(key, []).append(span)


def _choose_counters(members: Members) -> None:
    """Keep or count the counter records, and choose the samples that have no record."""
    table = members.trace.counter_table
    has_record = (table.record >= 0) & bool(len(members.fate))
    stored, derived = np.flatnonzero(has_record), np.flatnonzero(~has_record)
    # A record contains one sample of each of its series.
    record, first = np.unique(table.record[stored], return_index=True)
    time_ns = table.time_ns[stored[first]]
    members.fate[record] = DROP
    is_member = _rows_within(members, time_ns, time_ns)
    samples = derived[_rows_within(members, table.time_ns[derived], table.time_ns[derived])]
    if members.counters:
        members.fate[record[is_member]] = KEEP
        members.samples = np.union1d(samples, _last_before(members, derived))
    elif left_out := int(is_member.sum()) + len(samples):
        members.left_out["counters"] = left_out


def _last_before(members: Members, rows: Ints) -> Ints:
    """Return the last of `rows` before the window for each series: the value at its start."""
    if members.whole or members.start_ns is None:
        return rows[:0]
    table = members.trace.counter_table
    before = rows[table.time_ns[rows] <= members.start_ns]
    is_last_of_series: Bools = np.diff(table.series_id[before], append=-1) != 0
    return before[is_last_of_series]


def _rows_within(members: Members, start_ns: Ints, end_ns: Ints) -> Bools:
    is_within = np.ones(len(start_ns), dtype=bool)
    if members.whole:
        return is_within
    if members.start_ns is not None:
        # The second condition includes intervals without duration.
        is_within &= (end_ns > members.start_ns) | (start_ns >= members.start_ns)
    if members.end_ns is not None:
        is_within &= start_ns < members.end_ns
    return is_within


#: A series name with the id that distinguishes counters of the same name: ``Queue Length[7]``.
_WITH_ID = re.compile(r"(.*)\[([^\[\]]*)\]", re.DOTALL)


def samples_of(members: Members) -> Iterator[bytes]:
    """Yield the samples to export. Values from before the window are moved to its start."""
    table = members.trace.counter_table
    rows = members.samples
    low = None if members.whole else members.start_ns
    base_ns = members.written_zero_ns
    for code in np.unique(table.series_id[rows]).tolist():
        head, tail = _sample_template(table.series[code])
        series_rows = rows[table.series_id[rows] == code]
        times, values = table.time_ns[series_rows], table.value[series_rows]
        if low is not None:
            times = np.maximum(times, low)
        for time_ns, value in zip(times.tolist(), values.tolist(), strict=True):
            yield head + micros(time_ns + base_ns) + tail % _value_text(value)


def _sample_template(series: tuple[str, str, str]) -> tuple[bytes, bytes]:
    """Return the JSON text before and after a sample's time; the latter has ``%s`` for a value."""
    pid, name, label = series
    match = _WITH_ID.fullmatch(name)
    fields: dict[str, Any] = {"ph": "C", "name": name}
    if match:
        fields |= {"name": match[1], "id": _number_as_written(match[2])}
    fields["pid"] = _number_as_written(pid)
    tail = b', "args": {' + json_text(label).replace(b"%", b"%%") + b": %s}}"
    return json_text(fields)[:-1] + b', "ts": ', tail


def _value_text(value: float) -> bytes:
    """Return a value as JSON. NaN becomes 0, since counters in trace files cannot have gaps."""
    if math.isnan(value):
        return b"0"
    return (str(int(value)) if value.is_integer() else repr(value)).encode()


def _number_as_written(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def records_of(members: Members) -> Iterator[bytes]:
    """Yield the names of processes and threads, then all events as complete events."""
    table = members.trace.table
    for track in table.tracks:
        pid, tid = _number_as_written(track.pid), _number_as_written(track.tid)
        for name, value in (("process_name", track.process), ("thread_name", track.label)):
            record = {"name": name, "pid": pid, "tid": tid, "ph": "M", "args": {"name": value}}
            yield json_text(record)
    base_ns = members.written_zero_ns
    for row in members.rows.tolist():
        track = table.tracks[table.track[row]]
        numbers = {"stream": int(table.stream[row]), "correlation": int(table.correlation[row])}
        args = {name: number for name, number in numbers.items() if number >= 0}
        fields = {
            "ph": b'"X"',
            "cat": json_text(table.categories[table.category[row]]),
            "name": json_text(table.names[table.name[row]]),
            "pid": json_text(_number_as_written(track.pid)),
            "tid": json_text(_number_as_written(track.tid)),
            "ts": micros(int(table.start_ns[row]) + base_ns),
            "dur": micros(int(table.dur_ns[row])),
        }
        if args:
            fields["args"] = json_text(args)
        yield encode_fields(fields)


def json_text(value: object) -> bytes:
    """Return a value as JSON without escaping non-ASCII characters."""
    return json.dumps(value, ensure_ascii=False).encode()


_ARROW = (b'"s"', b'"t"', b'"f"')


class _CutEvent(NamedTuple):
    start_ns: int
    end_ns: int
    stated_ns: int  # time in the record: `start_ns`, or `end_ns` for the separate record of the end


class RecordClipper:
    """Clips records to the window of a rank.

    The recorded ``ts`` and ``dur`` of a clipped event are kept in ``args["hta_clipped"]``.
    """

    def __init__(self, members: Members) -> None:
        trace = members.trace
        self._low = 0 if members.start_ns is None else members.start_ns
        self._high = np.iinfo(np.int64).max if members.end_ns is None else members.end_ns
        #: Subtract this from the time of a record to get ns since `Trace.zero_ns`.
        self._base_ns = members.written_zero_ns
        table, rows = trace.table, members.rows
        is_cut = (table.start_ns[rows] < self._low) | (table.end_ns[rows] > self._high)
        self._event_of_record: dict[int, _CutEvent] = {}
        for row in rows[is_cut].tolist():
            start, end = int(table.start_ns[row]), int(table.end_ns[row])
            self._event_of_record[int(table.record[row])] = _CutEvent(start, end, start)
            if row in table.end_record and end > self._high:
                self._event_of_record[table.end_record[row]] = _CutEvent(start, end, end)
        self._moved = _records_to_move(members, self._low, self._high)

    def __call__(self, number: int, text: bytes) -> bytes:
        """Return the record, clipped if it crosses an edge of the window."""
        if number not in self._event_of_record:
            return self.move_into_window(text) if number in self._moved else text
        fields = decode_fields(text)
        if fields is None:
            return text
        event = self._event_of_record[number]
        first_ns, last_ns = max(event.start_ns, self._low), min(event.end_ns, self._high)
        inside_ns = first_ns if event.stated_ns == event.start_ns else last_ns
        recorded = {}
        if inside_ns != event.stated_ns:
            recorded["ts"] = fields["ts"]
            fields["ts"] = micros(inside_ns + self._base_ns)
        if "dur" in fields:
            recorded["dur"] = fields["dur"]
            fields["dur"] = micros(last_ns - first_ns)
        args = decode_fields(fields.get("args", b"{}"))
        if recorded and args is not None:
            args[CLIPPED] = encode_fields(recorded)
            fields["args"] = encode_fields(args)
        return encode_fields(fields)

    def move_into_window(self, text: bytes) -> bytes:
        """Move the end point of a flow or of an async interval into the window."""
        fields = decode_fields(text)
        time_ns = None if fields is None else nanoseconds(fields.get("ts", b""))
        if fields is None or time_ns is None:
            return text
        # A flow must end before its event, which may end at the edge of the window.
        last_ns = self._high - 1 if fields.get("ph") in _ARROW else self._high
        inside_ns = max(min(time_ns - self._base_ns, last_ns), self._low)
        if inside_ns == time_ns - self._base_ns:
            return text
        fields["ts"] = micros(inside_ns + self._base_ns)
        return encode_fields(fields)


def _records_to_move(members: Members, low: int, high: int) -> frozenset[int]:
    """Return the flow and async records whose times may be outside the window."""
    table, asyncs = members.trace.table, members.trace.async_table
    rows, records = _flow_ends(members.trace)
    is_outside = (table.start_ns[rows] < low) | (table.end_ns[rows] > high)
    early_asyncs = asyncs.record[(asyncs.start_ns < low) & (asyncs.record >= 0)]
    return frozenset([*records[is_outside].tolist(), *early_asyncs.tolist()])


def _flow_ends(trace: Trace) -> tuple[Ints, Ints]:
    """Return the rows and the records at both ends of all flows that have records."""
    flows = trace.flow_table
    rows = np.concatenate([flows.source, flows.target])
    records = np.concatenate([flows.source_record, flows.target_record])
    return rows[records >= 0], records[records >= 0]


_THREAD = ("pid", "tid")


class FlowThreads:
    """Writes process and thread ids of flows in the same form as those of events."""

    def __init__(self, members: Members) -> None:
        trace, table = members.trace, members.trace.table
        self._track_of_record: dict[int, int] = {}
        self._ids_of_track: dict[int, dict[str, bytes]] = {}
        if trace.source is None or not members.flows:
            return
        rows, records = _flow_ends(trace)
        is_written = members.fate[records] == KEEP
        self._track_of_record = dict(
            zip(records[is_written].tolist(), table.track[rows[is_written]].tolist(), strict=True)
        )
        # The first exported event of each track determines the form of the ids.
        tracks, first = np.unique(table.track[members.rows], return_index=True)
        examples = table.record[members.rows[first]]
        track_of_example = dict(zip(examples.tolist(), tracks.tolist(), strict=True))
        for number, text in trace.source.records(examples):
            fields = decode_fields(text) or {}
            ids = {key: fields[key] for key in _THREAD if key in fields}
            self._ids_of_track[track_of_example[number]] = ids

    def __call__(self, number: int, text: bytes) -> bytes:
        """Return the record with its ids in the form used by its event."""
        event_ids = self._ids_of_track.get(self._track_of_record.get(number, -1))
        if event_ids is None or (fields := decode_fields(text)) is None:
            return text
        flow_ids = {key: fields.get(key, b"") for key in event_ids}
        # Ids of other threads stay the same, since a flow may begin outside its event.
        is_same_thread = all(
            flow_ids[key].strip(b'"') == event_ids[key].strip(b'"') for key in event_ids
        )
        if flow_ids == event_ids or not is_same_thread:
            return text
        return encode_fields({**fields, **event_ids})

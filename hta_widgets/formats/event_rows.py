"""Builds traces from the events of a profiler's file with several processes and devices.

Readers add the events of each table or line as one block of columns. A rank is a process with one
of its devices. A host call belongs to the device on which it launches work or that it names,
otherwise to the device on which its thread launches most::

    rows = EventRows(path)
    rows.add(
        start_ns=[5, 9],
        end_ns=[8, 12],
        name=rows.name_codes(["gemm", "copy"]),
        category="kernel",
        place=rows.place("GPU 0", "7", "GPU 0", "stream 7"),
        device=0,
        stream=7,
        correlation=[1, 2],
    )
    build_traces(rows, "rocpd", lambda process, device: RankFacts(), "Record with rocprofv3.")

The columns stay in memory, so the file is not read again. The args of each event are a code that
refers to a pool of distinct strings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import Outcome
from hta_widgets.readers.ranks import is_rank
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    Rows,
    distinct_codes,
    first_positions,
    narrow,
)
from hta_widgets.trace.build import build_trace, step_numbers
from hta_widgets.trace.columns import (
    CopyTable,
    CounterTable,
    RankColumns,
    RecordSource,
    StringPool,
    parse_json,
)
from hta_widgets.trace.problems import ProblemKind, Problems
from hta_widgets.trace.record_times import BASE_KEY, FIRST_NS, LAST_NS, micros
from hta_widgets.trace.short_paths import map_texts, shorten_paths, shorten_record
from hta_widgets.trace.trace import Trace

#: Columns of events, followed by the columns stored with a rank's records.
_COLUMNS = (
    "start_ns", "end_ns", "name", "category", "place", "process", "device", "target", "stream",
    "correlation", "size_bytes", "args", "phase",
)  # fmt: skip
_STORED = tuple(name for name in _COLUMNS if name not in ("process", "target"))
#: Columns that usually fit in 32 bits.
_SMALL = frozenset(_COLUMNS) - {"start_ns", "end_ns", "process"}
_COLUMN_ARGS = frozenset({"device", "stream", "correlation", "bytes", "memory bandwidth (GB/s)"})
_TEXT_COLUMNS = ("name", "category", "args")
_M, _X, _SAMPLE, _ASYNC_BEGIN, _ASYNC_END = map(ord, "MXCbe")

#: Environment variables that give the rank, most reliable first.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
#: One value per event, or a single value that applies to all events.
Column = int | Sequence[int] | Ints
#: The name, sample times and values of a series.
Series = tuple[str, Ints, Floats]


def rank_of_variables(variables: Mapping[str, object]) -> int | None:
    """Return the rank given by environment variables; None if none of them gives it."""
    texts = (str(variables.get(name, "")) for name in RANK_VARIABLES)
    ranks = [int(text) for text in texts if text.isdecimal() and len(text) < 10]
    return next(filter(is_rank, ranks), None)


def parse_json_object(text: Any) -> dict[str, Any]:
    """Return the JSON object in `text`; {} if it has another type."""
    value = parse_json(text)
    return value if isinstance(value, dict) else {}


def device_properties(number: int, **stated: Any) -> dict[str, Any]:
    """Return a device's known properties, under PyTorch's keys."""
    values = {key: value for key, value in stated.items() if value not in (None, "")}
    return {"id": number, **values}


class RowPlace(NamedTuple):
    """A host thread or a device stream, with its names."""

    pid: str
    tid: str
    process: str = ""
    thread: str = ""
    sort_index: int = -1


@dataclass(frozen=True, slots=True)
class RankFacts:
    """Identity of a rank in a file; its event times count from `epoch_ns`."""

    epoch_ns: int = 0
    host: str | None = None
    rank: int | None = None
    #: properties of the device under PyTorch's keys
    device_properties: Mapping[str, Any] = field(default_factory=dict)
    further_metadata: Mapping[str, Any] = field(default_factory=dict)
    series: Sequence[Series] = ()
    #: whether device work has no recorded launches and belongs to the step in which it starts
    has_steps_of_device: bool = False
    #: device name shown on tracks; by default derived from its number
    label: str = ""

    def trace_metadata(self) -> dict[str, Any]:
        """Return the top-level keys of a trace file of this rank."""
        metadata: dict[str, Any] = {BASE_KEY: self.epoch_ns}
        if self.device_properties:
            metadata["deviceProperties"] = [self.device_properties]
        if self.host:
            metadata["host_name"] = self.host
        if self.rank is not None:
            metadata["distributedInfo"] = {"rank": self.rank}
        return metadata | dict(self.further_metadata)


class EventRows:
    """The events of a file, as blocks of columns, and the problems found while reading it."""

    def __init__(self, path: str) -> None:
        self.path, self.problems = path, Problems()
        self.name, self.category, self.args = StringPool(), StringPool(), StringPool(("{}",))
        self.places: list[RowPlace] = []
        self._code_of_place: dict[RowPlace, int] = {}
        self._blocks: list[dict[str, Ints]] = []

    def note(self, kind: ProblemKind, count: int | Bools, detail: str) -> None:
        """Report a problem that affects some events, given as a count or a mask."""
        self.problems.add(kind, int(np.sum(count)), detail, file=self.path)

    @property
    def first_ns(self) -> int:
        """The earliest start of any event; 0 if none was added."""
        starts = (block["start_ns"] for block in self._blocks)
        return min((int(start_ns.min()) for start_ns in starts if len(start_ns)), default=0)

    def place(self, *names: Any) -> int:
        """Return the code of a thread or stream, given the fields of its `RowPlace`."""
        place = RowPlace(*names)
        code = self._code_of_place.setdefault(place, len(self.places))
        if code == len(self.places):
            self.places.append(place)
        return code

    def place_codes(self, place_of: Callable[..., RowPlace], *columns: Ints) -> Ints:
        """Return the place code of each row; `place_of` receives the row's values."""
        distinct, code = distinct_rows(*columns)
        return np.array([self.place(*place_of(*row)) for row in distinct], np.int64)[code]

    def stream_codes(self, label: str, device: Ints, stream: Ints) -> Ints:
        """Return the stream code of each row; `label` is a format such as ``GPU {}``."""

        def place_of(device: int, stream: int) -> RowPlace:
            name = label.format(device)
            return RowPlace(name, str(stream), name, f"stream {stream}")

        return self.place_codes(place_of, device, stream)

    def category_codes(self, categories: Iterable[str]) -> Ints:
        """Return the code of each category."""
        return np.array([self.category.add(category) for category in categories], np.int64)

    def name_codes(self, names: Iterable[str]) -> Ints:
        """Return the code of each name."""
        return np.array([self.name.add(name) for name in names], np.int64)

    def names_by_id(self, name_of: Callable[[int], str], ids: Ints) -> Ints:
        """Return the name code of each id; `name_of` is called once per distinct id."""
        return map_distinct(ids, lambda number: self.name.add(name_of(number)))

    def args_codes(self, args: Iterable[Mapping[str, Any]]) -> Ints:
        """Return the code of each event's args."""
        texts = map(msgspec.json.encode, args)
        return np.array([self.args.add(text.decode()) for text in texts], np.int64)

    def args_by_row(self, args_of: Callable[..., Mapping[str, Any]], *columns: Ints) -> Ints:
        """Return the args code of each row; `args_of` is called once per distinct row."""
        distinct, code = distinct_rows(*columns)
        return self.args_codes(args_of(*row) for row in distinct)[code]

    def add(
        self,
        *,
        start_ns: Column,
        end_ns: Column,
        name: Column,
        category: str | Column,
        place: Column,
        process: Column = 0,
        device: Column = -1,
        target: Column = -1,
        stream: Column = -1,
        correlation: Column = -1,
        size_bytes: Column = -1,
        args: Column = 0,
        phase: str | Column = "X",
        is_outer: bool = False,
    ) -> None:
        """Add events.

        ``device`` is -1 on the host, where ``target`` may give a call's device. A call and its
        device work share a ``correlation`` greater than 0. Phases are ``X``; ``i`` for instants;
        ``b`` for ranges that need not nest; ``B`` and ``E`` for the ends of ranges; and ``C`` for
        counter samples, whose values are the args. Events with `is_outer` contain other events with
        the same times.
        """
        if isinstance(category, str):
            category = self.category.add(category)
        if isinstance(phase, str):
            phase = ord(phase)
        values = (
            start_ns, end_ns, name, category, place, process, device, target, stream,
            np.where(np.asarray(correlation) > 0, correlation, -1), size_bytes, args, phase,
        )  # fmt: skip
        # Arrays keep their dtype so that 32-bit columns are not widened.
        arrays = (np.asarray(value, getattr(value, "dtype", np.int64)) for value in values)
        columns = narrow_columns(dict(zip(_COLUMNS, arrays, strict=True)))
        count = len(columns["start_ns"])
        block = {name: np.broadcast_to(column, count) for name, column in columns.items()}
        # Of several events with the same times, the first contains the others.
        self._blocks.insert(0 if is_outer else len(self._blocks), block)

    def columns(self) -> dict[str, Ints]:
        """Return all events."""
        if not self._blocks:
            return {name: np.empty(0, np.int64) for name in _COLUMNS}
        # They are kept as a single block, so that memory holds them only once.
        self._blocks[:] = [join_columns(self._blocks)]
        return dict(self._blocks[0])

    def take_columns(self) -> dict[str, Ints]:
        """Return all events and drop them from this object."""
        events = self.columns()
        self._blocks.clear()
        return events


def join_columns(blocks: Sequence[dict[str, Ints]]) -> dict[str, Ints]:
    """Join the rows of several blocks. Columns are removed from the blocks to free memory."""
    names = list(blocks[0])
    return narrow_columns(
        {name: np.concatenate([block.pop(name) for block in blocks]) for name in names}
    )


def narrow_columns(columns: Mapping[str, Ints]) -> dict[str, Ints]:
    """Return event columns as 32-bit integers if the values fit; times are unchanged."""
    return {name: narrow(values) if name in _SMALL else values for name, values in columns.items()}


def select_rows(columns: Mapping[str, Ints], rows: Rows | Bools | slice) -> dict[str, Ints]:
    """Return the given rows of columns, without copying if they are all the rows."""
    if isinstance(rows, np.ndarray) and rows.dtype == bool and rows.all():
        return dict(columns)
    return {name: values[rows] for name, values in columns.items()}


def values_by_id(ids: Ints, values: Ints, wanted: Ints) -> Ints:
    """Return the value in the first row of each wanted id; -1 for missing or negative ids."""
    found = np.append(values, -1)[first_positions(ids, wanted)]
    return np.where(wanted >= 0, found, -1)


def map_distinct(values: Array, number_of: Callable[[int], int]) -> Ints:
    """Map each value to a number; `number_of` is called once per distinct value."""
    code, distinct = pd.factorize(values)
    return np.array([number_of(value) for value in distinct.tolist()], np.int64)[code]


def distinct_rows(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the distinct rows of columns by first occurrence, and each row's position in them."""
    # The codes of the columns are digits of one number; `count` is the place value of the next
    # digit. Groups of pandas would need three times the memory.
    code, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        digit, values = pd.factorize(column)
        if count * max(len(values), 1) >= 1 << 62:
            code, combined = pd.factorize(code)
            count = len(combined)
        code = code * len(values) + digit
        count *= max(len(values), 1)
    code = pd.factorize(code)[0]
    _, first_rows = np.unique(code, return_index=True)
    return list(zip(*(column[first_rows].tolist() for column in columns), strict=True)), code


def build_traces(
    rows: EventRows,
    format_name: str,
    facts_of: Callable[[int, int], RankFacts],
    how_to_record: str,
) -> Outcome:
    """Return one trace per process and device; the device is -1 if the file has no devices."""
    events = timed_columns(rows)
    ranks = list(_rank_masks(events, rows))
    del events["process"], events["target"]
    traces = []
    for number, (process, device, mask) in enumerate(ranks, 1):
        rank_events = select_rows(events, mask)
        if number == len(ranks):
            # Free the columns before building the last rank, because a file may hold a single large
            # rank.
            events.clear()
        facts = facts_of(process, device)
        traces.append(build_rank(rows, rank_events, format_name, facts, device))
    if not traces:
        message = "holds no device or host events with plausible times"
        raise TraceError(message, path=rows.path, remedy=how_to_record)
    return Outcome(tuple(traces), rows.problems)


def timed_columns(rows: EventRows) -> dict[str, Ints]:
    """Take all events from `rows`; return those with plausible times and report the rest."""
    events = rows.take_columns()
    start_ns, end_ns = events["start_ns"], events["end_ns"]
    is_timed = (start_ns > FIRST_NS) & (end_ns < LAST_NS) & (end_ns >= start_ns)
    rows.note("skipped", ~is_timed, "events with impossible times")
    return select_rows(events, is_timed)


def ranks_of(events: Mapping[str, Ints]) -> list[tuple[int, ...]]:
    """Return (process, device) pairs with work; if there is none, each process with device -1."""
    process, is_work = events["process"], events["device"] >= 0
    pairs = distinct_rows(process[is_work], events["device"][is_work])[0]
    return sorted(pairs) or [(number, -1) for number in np.unique(process[process >= 0]).tolist()]


def _rank_masks(events: Mapping[str, Ints], rows: EventRows) -> Iterator[tuple[int, int, Bools]]:
    """Yield each rank's process, device and rows."""
    ranks = ranks_of(events)
    process_of_row, device_of_row = events["process"], events["device"].copy()
    is_work = device_of_row >= 0
    if not is_work.any():
        rows.note("skipped", process_of_row < 0, "events without a thread and process")
        yield from ((process, -1, process_of_row == process) for process, _ in ranks)
        return
    _note_left_out(events, is_work, rows)
    devices_of: defaultdict[int, list[int]] = defaultdict(list)
    for process, device in ranks:
        devices_of[process].append(device)
    for process, devices in devices_of.items():
        is_of_process = process_of_row == process
        is_call = is_of_process & ~is_work
        if len(devices) == 1:
            device_of_row[is_call] = devices[0]
        else:
            work = select_rows(events, is_of_process & is_work)
            device_of_row[is_call] = _devices_of_calls(work, select_rows(events, is_call), devices)
    for process, device in ranks:
        yield process, device, (process_of_row == process) & (device_of_row == device)


def _note_left_out(events: Mapping[str, Ints], is_work: Bools, rows: EventRows) -> None:
    """Report device work without recorded launches, and processes that are not ranks."""
    process, correlation = events["process"], events["correlation"]
    work_ids, call_ids = (ids[ids > 0] for ids in (correlation[is_work], correlation[~is_work]))
    has_no_links = len(work_ids) + len(call_ids) > 0 and not np.isin(work_ids, call_ids).any()
    rows.note(
        "part",
        int(is_work.sum()) if has_no_links else 0,
        "device events whose host calls were not recorded: launches, operators and the"
        " causes of idle time are unknown",
    )
    is_left_out = ~np.isin(process, process[is_work])
    rows.note(
        "part",
        is_left_out,
        "processes without device work do not become ranks; the events of"
        f" {len(np.unique(process[is_left_out])):,} of them are left out",
    )


def _devices_of_calls(
    work: Mapping[str, Ints], calls: Mapping[str, Ints], devices: Sequence[int]
) -> Ints:
    """Return the device of each call of a process that has several (ascending) `devices`."""
    launch_device = values_by_id(work["correlation"], work["device"], calls["correlation"])
    device = np.where(np.isin(calls["target"], devices), calls["target"], launch_device)
    # Each call with a known device votes for the device of its thread.
    threads, thread = np.unique(calls["place"], return_inverse=True)
    votes = np.zeros((len(threads), len(devices)), np.int64)
    is_vote = device >= 0
    np.add.at(votes, (thread[is_vote], np.searchsorted(devices, device[is_vote])), 1)
    device_of_thread = np.array(devices)[votes.argmax(axis=1)]
    return np.where(is_vote, device, device_of_thread[thread])


def build_rank(
    rows: EventRows,
    events: dict[str, Ints],
    format_name: str,
    facts: RankFacts,
    device: int = -1,
    **fields: Any,
) -> Trace:
    """Build a trace from `events`, replacing their codes; `fields` are passed to `build_trace`."""
    texts = {}
    for name in _TEXT_COLUMNS:
        pool: StringPool = getattr(rows, name)
        used, code = distinct_codes(events[name])
        texts[name], events[name] = StringPool(pool[code] for code in used), narrow(code)
    used, place = distinct_codes(events["place"])
    places, events["place"] = [rows.places[code] for code in used], narrow(place)
    naming = list(_naming_records(places, events["device"], events["place"]))
    ends = select_rows(events, events["phase"] == _ASYNC_BEGIN)
    if len(ends["phase"]):
        ends |= {"start_ns": ends["end_ns"], "phase": np.full_like(ends["phase"], _ASYNC_END)}
        events = {name: np.concatenate([values, ends[name]]) for name, values in events.items()}
    notes = Problems()
    trace = build_trace(
        _rank_columns(events, texts, places, naming, facts.epoch_ns),
        rank=0 if facts.rank is None else facts.rank,
        path=rows.path,
        metadata=facts.trace_metadata(),
        source=ColumnRecords(rows.path, events, texts, places, naming, facts.trace_metadata()),
        problems=notes,
        consume=True,
        format=format_name,
        host=facts.host or None,
        stated_rank=facts.rank,
        local_rank=device,
        **fields,
    )
    for problem in notes:  # omits the rank, which may change later
        rows.note(problem.kind, problem.count, problem.detail)
    if facts.has_steps_of_device:
        _assign_steps_of_device(trace)
    if not facts.series or not len(trace):
        return trace
    return trace.replace(counter_table=_counter_table(facts, device, trace, rows))


def _assign_steps_of_device(trace: Trace) -> None:
    """Assign device work without a step to the host's step range in which it starts."""
    table = trace.table
    numbers = step_numbers(table.names.values)[table.name]
    ranges = np.flatnonzero((numbers >= 0) & (table.stream < 0))
    if not len(ranges):
        return
    work = np.flatnonzero((table.stream >= 0) & (table.step < 0))
    # Index of the last range that starts before each event; the range may end before the event.
    position = np.searchsorted(table.start_ns[ranges], table.start_ns[work], side="right") - 1
    last_range = ranges[np.maximum(position, 0)]
    is_inside = (position >= 0) & (table.start_ns[work] < table.end_ns[last_range])
    table.step[work[is_inside]] = table.step[last_range[is_inside]]


def _counter_table(facts: RankFacts, device: int, trace: Trace, rows: EventRows) -> CounterTable:
    first_event_ns = trace.zero_ns - facts.epoch_ns
    label = facts.label or f"GPU {max(device, 0)}"
    names, times_ns, values = zip(*facts.series, strict=True)
    time_ns, value = np.concatenate(times_ns), np.concatenate(values)
    series_id = np.repeat(np.arange(len(names), dtype=np.int32), list(map(len, times_ns)))
    order = np.lexsort((time_ns, series_id))
    samples = order[time_ns[order] >= first_event_ns]
    too_early = len(order) - len(samples)
    rows.note("part", too_early, "counter samples before the first event")
    return CounterTable(
        time_ns=time_ns[samples] - first_event_ns,
        series_id=series_id[samples],
        value=value[samples],
        series=[(label, name, "value") for name in names],
        record=np.full(len(samples), -1, np.int64),
    )


def _rank_columns(
    events: Mapping[str, Ints],
    texts: Mapping[str, StringPool],
    places: Sequence[RowPlace],
    naming: Sequence[dict[str, Any]],
    epoch_ns: int,
) -> RankColumns:
    """Return the columns of events, followed by rows for the records that name tracks."""
    count, total = len(events["start_ns"]), len(events["start_ns"]) + len(naming)
    names, pids, tids = StringPool(texts["name"].values), StringPool(), StringPool()
    pid_of_place = np.array([pids.add(place.pid) for place in places], np.int64)
    tid_of_place = np.array([tids.add(place.tid) for place in places], np.int64)

    def column(values: Array, naming_values: Any, dtype: Any = np.int64) -> Array:
        extended = np.concatenate([values, np.broadcast_to(naming_values, len(naming))])
        return extended.astype(dtype)

    phase, dur_ns = events["phase"], events["end_ns"] - events["start_ns"]
    samples = np.flatnonzero(phase == _SAMPLE)
    flow = np.full(total, -1, np.int32)
    async_count = np.count_nonzero(phase == _ASYNC_BEGIN)
    # The ends of asynchronous ranges come last, in the same order as their begins.
    for letter in (_ASYNC_BEGIN, _ASYNC_END):
        flow[np.flatnonzero(phase == letter)] = np.arange(async_count)
    name, pid, tid = (
        [pool.add(str(record[key])) for record in naming]
        for pool, key in ((names, "name"), (pids, "pid"), (tids, "tid"))
    )
    return RankColumns(
        phase=column(phase, _M, np.uint8),
        start_ns=column(events["start_ns"] + epoch_ns, 0),
        dur_ns=column(np.where(phase == _X, dur_ns, -1), -1),
        timed=np.arange(total) < count,
        name=column(events["name"], name, np.int32),
        category=column(events["category"], 0, np.int32),
        pid=column(pid_of_place[events["place"]], pid, np.int32),
        tid=column(tid_of_place[events["place"]], tid, np.int32),
        stream=column(events["stream"], -1),
        correlation=column(events["correlation"], -1),
        flow=flow,
        names=names,
        categories=StringPool(texts["category"].values),
        pids=pids,
        tids=tids,
        flow_ids=StringPool(map(str, range(async_count))),
        small_args={
            **{count + number: record["args"] for number, record in enumerate(naming)},
            **{row: json.loads(texts["args"][events["args"][row]]) for row in samples.tolist()},
        },
        record=np.arange(total, dtype=np.int64),
        copies=_copy_table(events["size_bytes"], dur_ns),
    )


def _copy_table(size_bytes: Ints, dur_ns: Ints) -> CopyTable:
    """Return the copies among events. Only copies have a size."""
    copies = np.flatnonzero(size_bytes >= 0)
    size_bytes, dur_ns = size_bytes[copies], dur_ns[copies]
    unknown_rates = np.full(len(copies), np.nan)
    gb_per_s = np.divide(size_bytes, dur_ns, out=unknown_rates, where=dur_ns > 0)
    return CopyTable(copies, gb_per_s, size_bytes)


def _naming_records(
    places: Sequence[RowPlace], device: Ints, place: Ints
) -> Iterator[dict[str, Any]]:
    """Yield metadata records that name the places, given the device and place of each event."""
    device_places = set(np.unique(place[device >= 0]).tolist())
    named_pids: set[str] = set()
    for code, (pid, tid, process, thread, sort_index) in enumerate(places):
        process_id, thread_id = _as_id(pid), _as_id(tid)
        if process and pid not in named_pids:
            named_pids.add(pid)
            yield _naming_record(process_id, 0, "process_name", name=process)
            if code in device_places:
                yield _naming_record(process_id, 0, "process_labels", labels=pid)
        if thread:
            yield _naming_record(process_id, thread_id, "thread_name", name=thread)
        if sort_index >= 0:
            yield _naming_record(process_id, thread_id, "thread_sort_index", sort_index=sort_index)


def _naming_record(pid: int | str, tid: int | str, what: str, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _as_id(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 19 else text


class ColumnRecords(RecordSource):
    """The records of a rank, generated from its columns. They can be pickled and stored."""

    def __init__(
        self,
        path: str,
        columns: Mapping[str, Ints],
        texts: Mapping[str, StringPool],
        places: Sequence[RowPlace],
        naming: Sequence[dict[str, Any]],
        metadata: Mapping[str, Any],
    ) -> None:
        self.path = path
        self._metadata = map_texts(dict(metadata), shorten_paths)
        self.metadata_text = {key: json.dumps(value).encode() for key, value in metadata.items()}
        self._columns = narrow_columns({name: columns[name] for name in _STORED})
        self._async_begins = np.flatnonzero(columns["phase"] == _ASYNC_BEGIN)
        self._naming = map_texts(list(naming), shorten_paths)
        self._places = [(shorten_paths(place.pid), shorten_paths(place.tid)) for place in places]
        self._texts = {name: _short_texts(pool) for name, pool in texts.items()}
        keys = ('"flops"', '"bytes accessed"')
        #: whether any event's args give its work in FLOPs or bytes
        self.states_work = any(key in text for text in texts["args"].values for key in keys)

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        facts = {
            "kind": "columns",
            "path": self.path,
            "texts": {name: pool.values for name, pool in self._texts.items()},
            "places": [list(place) for place in self._places],
            "naming": self._naming,
            "metadata": self._metadata,
        }
        return StoredSource(facts, dict(self._columns))

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> ColumnRecords:
        """Return the records that `to_stored` described."""
        texts = {name: StringPool(values) for name, values in facts["texts"].items()}
        return cls(
            facts["path"], {name: column(name) for name in _STORED}, texts,
            [RowPlace(*place) for place in facts["places"]], facts["naming"], facts["metadata"],
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._columns["start_ns"]) + len(self._naming)

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[Any]] | None:
        """Return the values of some args for some records; None for args that are columns."""
        if not _COLUMN_ARGS.isdisjoint(keys):
            return None
        # The last records name tracks. They have no args, so they get the code -1.
        code_of_record = np.append(self._columns["args"], -1)
        codes = code_of_record[np.minimum(records, len(code_of_record) - 1)]
        distinct, position = np.unique(codes, return_inverse=True)
        texts = self._texts["args"]
        decoded = [json.loads(texts[code]) if code >= 0 else {} for code in distinct.tolist()]
        args_of_record = [decoded[index] for index in position.tolist()]
        return {key: [args.get(key) for args in args_of_record] for key in keys}

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        events = len(self._columns["start_ns"])
        for number in wanted.tolist():
            if number < events:
                yield number, self._event_record(number)
            else:
                yield number, json.dumps(self._naming[number - events]).encode()

    def _event_record(self, number: int) -> bytes:
        row = {name: int(values[number]) for name, values in self._columns.items()}
        dur_ns, phase = row["end_ns"] - row["start_ns"], chr(row["phase"])
        pid, tid = self._places[row["place"]]
        args = json.loads(self._texts["args"][row["args"]])
        args |= {key: row[key] for key in ("device", "stream", "correlation") if row[key] >= 0}
        if row["size_bytes"] >= 0:
            args["bytes"] = row["size_bytes"]
            if dur_ns > 0:
                args["memory bandwidth (GB/s)"] = row["size_bytes"] / dur_ns
        record = {
            "ph": phase,
            "cat": self._texts["category"][row["category"]],
            "name": self._texts["name"][row["name"]],
            "pid": _as_id(pid),
            "tid": _as_id(tid),
            "args": args,
        }
        times_ns = {"ts": row["start_ns"]}
        if phase == "X":
            times_ns["dur"] = dur_ns
        elif phase == "i":
            record["s"] = "t"
        elif phase == "b":
            record["id"] = int(np.searchsorted(self._async_begins, number))
        elif phase == "e":  # ends come last, in the same order as their begins
            first_end = len(self._columns["phase"]) - len(self._async_begins)
            record |= {"id": number - first_end, "args": {}}
        written = (b', "%s": %s' % (key.encode(), micros(ns)) for key, ns in times_ns.items())
        return json.dumps(record).encode()[:-1] + b"".join(written) + b"}"


def _short_texts(pool: StringPool) -> StringPool:
    """Return names or args (JSON), with the folders removed from paths."""
    return StringPool(
        shorten_record(text.encode()).decode() if text[:1] == "{" else shorten_paths(text)
        for text in pool.values
    )

"""Write a selection of a job as Chrome trace JSON that other tools open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.derived_counters import with_counters
from hta_widgets.analysis.scope import part_of
from hta_widgets.errors import TraceError
from hta_widgets.export.clip import Clip
from hta_widgets.export.clock import ExportClock
from hta_widgets.export.clock import clock_moves
from hta_widgets.export.clock import clock_note
from hta_widgets.export.clock import moved_record
from hta_widgets.export.flow_threads import FlowThreads
from hta_widgets.export.members import ASK
from hta_widgets.export.members import DROP
from hta_widgets.export.members import Members
from hta_widgets.export.members import base_time
from hta_widgets.export.members import members_of
from hta_widgets.export.merge import Scope
from hta_widgets.export.output import Output
from hta_widgets.export.output import Target
from hta_widgets.export.samples import samples_of
from hta_widgets.export.scrub import Scrub
from hta_widgets.export.synthetic import records_of
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace import selection as selections
from hta_widgets.trace.rank_scope import IDENTITY
from hta_widgets.trace.rank_scope import MARK
from hta_widgets.trace.rank_scope import ExportPart
from hta_widgets.trace.rank_scope import part_in

__all__ = [
    "ExportOptions",
    "ExportReport",
    "export_trace",
    "metadata_records",
    "records_of_members",
    "top_level",
]

_RANK_WITH_SPACE = re.compile(rb'"rank":\s+\d')
_FIRST = (MARK, "schemaVersion", "deviceProperties", "distributedInfo")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote.

    Attributes
    ----------
    path : Path
        The file, or the directory.
    events : int
        Complete events and begin/end pairs.
    flows : int
        Arrows whose two ends are both in the file.
    dropped : int
        What was left out although it touches the selection: arrows of which one end is not
        selected or not in the file, and samples of counters.
    bytes : int
        Size on disk.
    ranks : tuple of int
    left_out : dict
        `dropped` by what it was: ``"flows"``, ``"counters"``, ``"others"``.
    samples : int
        Samples of counters that no file holds: derived ones, those of the window.
    clock : {"recorded", "fitted"}
        Of the times written.
    """

    path: Path
    events: int
    flows: int
    dropped: int
    bytes: int
    ranks: tuple[int, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    clock: Literal["recorded", "fitted"] = "recorded"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How records are written; see `export_trace`."""

    clip: bool
    keep_parents: bool
    counters: bool
    scrub: bool
    moves_ns: Mapping[int, int]


def export_trace(
    traces: TraceSet | Trace,
    path: str | Path,
    selection: Selection | pd.DataFrame | str | None = None,
    *,
    clip: bool = False,
    keep_parents: bool = True,
    counters: bool | Literal["own"] = False,
    scrub: bool = False,
    clock: ExportClock = "recorded",
) -> ExportReport:
    """Write selected events as a trace file that Perfetto, HTA and this package open.

    Records are copied as they stand in their files. Of the rest, what belongs to the events goes
    with them: metadata, the files' own top-level keys, flows of which both ends are selected, and
    the instants and async intervals of the window. Where a part is written of a file that gives a
    thread's id now as a number and now as a string, flows use the one that their events use.

    Parameters
    ----------
    traces : TraceSet or Trace
    path : path-like
        ``.json`` or ``.json.gz``: one file, which holds several ranks merged if the selection has
        events of several; ids and processes are then scoped by rank. Without a suffix: a directory
        of one file a rank.
    selection : Selection, DataFrame or str, optional
        What to write, as `TraceSet.select` takes it; everything if left out.
    clip : bool, default False
        Cut events at the edges of the selection's window, to the nanosecond, instead of writing
        them whole. A cut event says in ``args["hta_clipped"]`` what its record stated. Perfetto
        reads times as floating-point numbers; of two events that are cut at one edge, it may take
        the inner one to end later than the outer one, and leave it out.
    keep_parents : bool, default True
        Also write the events that enclose a selected one.
    counters : bool or "own", default False
        Also write samples of counters: those of the set, and those that its events tell, the
        length of queues and the bandwidth of copies (`hta_widgets.analysis.with_counters`). With
        ``"own"`` those of the set alone.
    scrub : bool, default False
        Leave out host names, users, environment and directories.
    clock : {"recorded", "set"}, default "recorded"
        Whose times are written: those of the files, or those of the clock that `traces` are on.
        After ``traces.with_clock("fitted")`` that moves all timed records of a rank by one offset,
        exactly; the file says so under ``"hta_widgets"``: ``"clock": "fitted"``, and as
        ``offset_ns`` what was subtracted from the rank's recorded times. Offsets differ from those
        of `hta_widgets.analysis.clock_offsets` by one number for all ranks where files do not
        count from the epoch and a time would be negative, and for ranks whose clocks have nothing
        in common with the others' (see `TraceSet.problems`). Windows are in the times of `traces`
        either way.

    Returns
    -------
    ExportReport

    Raises
    ------
    TraceError
        If nothing is selected, the place cannot be written, or no clock could be fitted.

    Examples
    --------
    >>> window = traces.select(start_ns=12_000_000, end_ns=18_000_000, ranks=[0, 5])
    >>> hw.export_trace(traces, "window.json.gz", window).events
    4711
    >>> hw.export_trace(traces.with_clock("fitted"), "one-clock.json.gz", clock="set").clock
    'fitted'
    """
    if not isinstance(traces, (TraceSet, Trace)):
        raise TraceError(
            f"export_trace writes a TraceSet or a Trace, not a {type(traces).__name__}",
            remedy="Load it first: traces = hw.load(path).",
        )
    moves_ns = clock_moves(traces, clock)
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    if not isinstance(selection, Selection):
        selection = Selection() if selection is None else traces.select(selection)
    if counters not in (False, True, "own"):
        raise TraceError(f"counters are False, True or 'own', not {counters!r}")
    if counters is True:
        traces = with_counters(traces, ranks=selection.ranks)
    options = ExportOptions(clip, keep_parents, bool(counters), scrub, moves_ns)
    target = Target.of(path)
    ranks = [
        members
        for trace in traces.values()
        if (members := _members(trace, selection, options, len(traces))) is not None
    ]
    if not ranks:
        raise TraceError(
            "nothing to export: the selection holds no events",
            remedy="Widen its window, or loosen its query.",
        )
    if target.is_directory:
        names = {f"rank-{members.trace.rank}.json.gz": members for members in ranks}
        with target.directory(names):
            for name, members in names.items():
                with target.file(name) as out:
                    _write_rank(out, members, options, several=len(ranks) > 1)
    else:
        with target.file() as out:
            if len(ranks) == 1:
                _write_rank(out, ranks[0], options, several=False)
            else:
                _write_merged(out, ranks, options)
    left_out: dict[str, int] = {}
    for members in ranks:
        for what, count in members.left_out.items():
            left_out[what] = left_out.get(what, 0) + count
    return ExportReport(
        path=target.path,
        events=sum(len(members.rows) for members in ranks),
        flows=sum(members.flows for members in ranks),
        dropped=sum(left_out.values()),
        bytes=target.written_bytes,
        ranks=tuple(members.trace.rank for members in ranks),
        left_out=left_out,
        samples=sum(len(members.samples) for members in ranks),
        clock="fitted" if moves_ns else "recorded",
    )


def _members(
    trace: Trace, selection: Selection, options: ExportOptions, job_ranks: int
) -> Members | None:
    members = members_of(
        trace,
        selection,
        keep_parents=options.keep_parents,
        counters=options.counters,
    )
    if members is not None:
        members.move_ns = options.moves_ns.get(trace.rank, 0)
        members.part = _part(members, selection, job_ranks)
    return members


def _part(members: Members, selection: Selection, job_ranks: int) -> ExportPart | None:
    """Say of what part of the job this is an export; None where that is all of it."""
    trace, table, rows = members.trace, members.trace.table, members.rows
    chosen = job_ranks if selection.ranks is None else len(set(selection.ranks))
    if not len(rows) or (members.whole and chosen >= job_ranks):
        return None
    before = part_in(trace.metadata)
    # Absolute, as recorded.
    first, last = table.first_ns + trace.zero_ns, table.last_ns + trace.zero_ns
    low, high = first, last
    if before is not None:
        low, high = before.start_ns, before.end_ns
    if members.start_ns is not None:
        low = max(low, members.start_ns + trace.zero_ns)
    if members.end_ns is not None:
        high = min(high, members.end_ns + trace.zero_ns)
    start_ns, end_ns = table.start_ns[rows] + trace.zero_ns, table.end_ns[rows] + trace.zero_ns
    work = part_of(trace, Selection()).edges
    moved_ns = trace.zero_ns + members.move_ns
    return ExportPart(
        start_ns=low + members.move_ns,
        end_ns=high + members.move_ns,
        work_start_ns=0 if work is None else work[0] + moved_ns,
        work_end_ns=0 if work is None else work[1] + moved_ns,
        cut_events=int(((start_ns < low) | (end_ns > high)).sum()),
        all_time=low <= first and high >= last and (before is None or before.all_time),
        all_events=(selection.query, selection.ids, selection.tracks) == (None, None, None)
        and (before is None or before.all_events),
        job_ranks=max(job_ranks, 0 if before is None else before.job_ranks),
    )


# --- one rank -----------------------------------------------------------------------------------


def _write_rank(out: Output, members: Members, options: ExportOptions, *, several: bool) -> None:
    trace = members.trace
    values = top_level(trace, options, state_rank=several, part=members.part)
    out.write(b"{\n")
    for key, raw in values.items():
        out.write(_json(key) + b": " + raw + b",\n")
    out.write(b'"traceEvents": [\n')
    out.write_list(records_of_members(members, options))
    out.write(b"\n]\n}\n")


def top_level(
    trace: Trace, options: ExportOptions, *, state_rank: bool, part: ExportPart | None = None
) -> dict[str, bytes]:
    """Return the file's own keys, as JSON; what names the rank comes early."""
    own: Mapping[str, bytes] = getattr(trace.source, "metadata_text", None) or {
        key: _json(value) for key, value in trace.metadata.items()
    }
    values = Scrub(trace.metadata).top_level(own) if options.scrub else dict(own)
    values.pop("traceEvents", None)
    note = clock_note(trace.metadata, options.moves_ns.get(trace.rank)) or {}
    note |= _identity(trace, scrub=options.scrub)
    if part is not None:
        note |= part.mark()
    if note and (options.moves_ns or part is not None or MARK not in values):
        told = trace.metadata.get(MARK)
        values[MARK] = _json({**(told if isinstance(told, Mapping) else {}), **note})
    info = values.get("distributedInfo")
    if info is not None and b'"rank"' in info and not _RANK_WITH_SPACE.search(info):
        values["distributedInfo"] = _json(json.loads(info))  # HTA looks for "rank": 0, with a space
    elif state_rank and (info is None or b'"rank"' not in info):
        stated = json.loads(info) if info is not None else {}
        values["distributedInfo"] = _json({**stated, "rank": trace.rank})
    first = {key: values.pop(key) for key in _FIRST if key in values}
    return first | values


def _identity(trace: Trace, *, scrub: bool) -> dict[str, Any]:
    """Say whose file it is where only its folder told: that of a worker's GPU, or of a server."""
    numbers = {"worker": trace.worker, "local_rank": trace.local_rank, "server": trace.server}
    known: dict[str, Any] = {name: number for name, number in numbers.items() if number >= 0}
    if known and trace.job and not scrub:
        known["job"] = trace.job
    return {IDENTITY: known} if known else {}


def records_of_members(members: Members, options: ExportOptions) -> Iterator[bytes]:
    """Yield the records that go out, in the file's order."""
    trace = members.trace
    if trace.source is None:
        yield from records_of(members)
        yield from samples_of(members)
        return
    clip = Clip(members) if options.clip and not members.whole else None
    threads = None if members.whole else FlowThreads(members)
    scrub = Scrub(trace.metadata) if options.scrub else None
    fate, move_ns = members.fate, members.move_ns
    for number, text in trace.source.records(np.flatnonzero(fate != DROP)):
        record = text
        if fate[number] == ASK:
            if not members.wants(record):
                continue
            if move_ns:
                record = moved_record(record, move_ns)
            if clip is not None:
                record = clip.settle(record)
        else:
            if threads is not None:
                record = threads(number, record)
            if move_ns:
                record = moved_record(record, move_ns)
            if clip is not None:
                record = clip(number, record)
        yield record if scrub is None else scrub.record(record)
    yield from samples_of(members)


# --- several ranks in one file --------------------------------------------------------------------


def _write_merged(out: Output, ranks: list[Members], options: ExportOptions) -> None:
    bases = [base_time(members.trace) for members in ranks]
    # Files of one job share their base, as a rule; else the earliest serves for all.
    base_ns = min((base for base in bases if base), default=0)
    head: dict[str, Any] = {"merged": 1, "ranks": []}
    for members, own_ns in zip(ranks, bases, strict=True):
        trace = members.trace
        texts = top_level(trace, options, state_rank=False, part=members.part)
        head["ranks"].append(
            {
                "rank": trace.rank,
                "file": f"rank-{trace.rank}" if options.scrub else Path(trace.path).name,
                "shift_ns": own_ns - base_ns,
                "metadata": {key: json.loads(raw) for key, raw in texts.items()},
            }
        )
    out.write(b"{\n" + _json(MARK) + b": " + _json(head) + b",\n")
    out.write(b'"schemaVersion": 1,\n"displayTimeUnit": "ms",\n')
    if base_ns:
        out.write(f'"baseTimeNanoseconds": {base_ns},\n'.encode())
    out.write(b'"traceEvents": [\n')
    for position, (members, own_ns) in enumerate(zip(ranks, bases, strict=True)):
        scope = Scope(members.trace.rank, position, metadata_records(members), own_ns - base_ns)
        out.write_list(map(scope, records_of_members(members, options)))
    out.write(b"\n]\n}\n")


def metadata_records(members: Members) -> Iterator[bytes]:
    """Yield the rank's metadata records."""
    trace = members.trace
    if trace.source is None:
        return
    for _, text in trace.source.records(np.flatnonzero(members.fate == ASK)):
        if b'"M"' in text:
            yield text


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# `Selection.export` lives in a room below this one.
selections.exporter = export_trace

"""Write a selection, several ranks, or two runs to trace files for other viewers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.counters import with_counters
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.analysis.operator_diff import DiffSource
from hta_widgets.analysis.scope import rank_part
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.compare import Comparison, compare
from hta_widgets.diff.sides import RunSide
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.members import (
    ASK,
    DROP,
    ExportOptions,
    FlowThreads,
    Members,
    RecordClipper,
    choose_members,
    is_by_time,
    json_text,
    records_of,
    samples_of,
)
from hta_widgets.export.traces.merging import MergeScope
from hta_widgets.files import Output, Target
from hta_widgets.trace.columns import decode_json
from hta_widgets.trace.merged_format import IDENTITY_KEY, MARK_KEY, ExportPart, stated_export_part
from hta_widgets.trace.record_times import BASE_KEY, base_time_ns, move_record
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

ExportClock = Literal["recorded", "set"]
ClockName = Literal["recorded", "fitted"]
_RANK_WITH_SPACE = re.compile(rb'"rank":\s+\d')
#: Top-level keys that readers expect in the first bytes of a file.
_FIRST = (MARK_KEY, "schemaVersion", "deviceProperties", "distributedInfo")
#: Offset of the second run's ranks, or a larger power of ten if the first run's ranks reach it.
AFTER_RANKS = 1000


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Summary of an export.

    Attributes
    ----------
    path : Path
        The file or directory.
    events : int
        Number of complete events and begin/end pairs.
    flows : int
        Number of flows written with both ends.
    dropped : int
        Number of selected records that were not written: flows with only one end in the selection
        or in the file, and counter samples.
    bytes : int
        Size on disk.
    ranks : tuple of int
        The exported ranks.
    left_out : dict
        `dropped` by record type: ``"flows"``, ``"counters"``, ``"others"``.
    samples : int
        Number of counter samples that are not in the input files: samples of derived counters, and
        those added at the start of the window.
    clock : {"recorded", "fitted"}
        The clock of the exported times.
    """

    path: Path
    events: int
    flows: int
    dropped: int
    bytes: int
    ranks: tuple[int, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    clock: ClockName = "recorded"


@check_arguments
def export_trace(
    traces: TraceSet | Trace,
    path: str | Path,
    selection: Selection | pd.DataFrame | str | None = None,
    *,
    clip: bool = False,
    keep_parents: bool = True,
    keep_launches: bool = False,
    counters: bool | Literal["own"] = False,
    scrub: bool = False,
    clock: ExportClock = "recorded",
) -> ExportReport:
    """Write selected events to a trace file for Perfetto, HTA or this package.

    Records are copied unchanged. Metadata, top-level keys, flows with both ends selected, and
    instants and async intervals in the window are also copied. If a file writes a thread id
    sometimes as a number and sometimes as a string, flows use the form of their events.

    Parameters
    ----------
    traces : TraceSet or Trace
    path : path-like
        With the suffix ``.json`` or ``.json.gz``, a single file. If events of several ranks are
        selected, it is a merged file, in which ids and processes are unique to each rank. Without a
        suffix, a directory with one file per rank.
    selection : Selection, DataFrame or str, optional
        What to write, as in `TraceSet.select`. Default: everything.
    clip : bool, default False
        Cut events exactly at the edges of the selection's window instead of writing them whole. The
        recorded times of a cut event are kept in ``args["hta_clipped"]``. Perfetto parses times as
        floating-point numbers: if nested events are cut at the same edge, rounding may move the end
        of the inner event past that of the outer one. Perfetto then drops the inner event.
    keep_parents : bool, default True
        Also write the events that enclose selected events.
    keep_launches : bool, default False
        Also write the calls that launched selected events and, if `keep_parents` is True, the
        operators around the calls. With `clip`, calls outside the window are omitted.
    counters : bool or "own", default False
        Also write counter samples: those in `traces`, and those derived by
        `hta_widgets.analysis.with_counters` (queue length and copy bandwidth). ``"own"`` writes
        only those in `traces`.
    scrub : bool, default False
        Remove host names, user names, environment variables and directories.
    clock : {"recorded", "set"}, default "recorded"
        Write the recorded times, or those on the clock of `traces`. After
        ``traces.with_clock("fitted")``, "set" shifts all timed records of a rank by the same exact
        offset. The key ``"hta_widgets"`` of the file then contains ``"clock": "fitted"`` and
        ``offset_ns``, the number that was subtracted from the recorded times. The offsets differ
        from `hta_widgets.analysis.clock_offsets` in two cases. If files do not count from the epoch
        and a time would be negative, all ranks are shifted by the same additional amount. Ranks
        whose clocks are unrelated (see `TraceSet.problems`) are moved to a common clock. The window
        of the selection always refers to the times of `traces`.

    Returns
    -------
    ExportReport

    Raises
    ------
    TraceError
        If nothing is selected, if `path` cannot be written or is an input file of `traces`, or if
        no clock can be fitted.

    Examples
    --------
    >>> window = traces.select(start_ns=12_000_000, end_ns=18_000_000, ranks=[0, 5])
    >>> hw.export_trace(traces, "window.trace.json.gz", window).events
    4711
    >>> hw.export_trace(traces.with_clock("fitted"), "one-clock.trace.json.gz", clock="set").clock
    'fitted'
    """
    moves_ns = _clock_moves(traces, clock)
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    if not isinstance(selection, Selection):
        selection = Selection() if selection is None else traces.select(selection)
    target = Target.of(path)
    options = ExportOptions(
        clip=clip,
        keep_parents=keep_parents,
        keep_launches=keep_launches,
        counters=counters,
        scrub=scrub,
    )
    ranks = choose_ranks(traces, selection, options, moves_ns)
    names = [_rank_file_name(members) for members in ranks] if target.is_directory else []
    require_not_input(traces.values(), target.path, *(target.path / name for name in names))
    _write_ranks(target, ranks)
    clock_name: ClockName = "fitted" if moves_ns else "recorded"
    return make_report(target.path, target.written_bytes, ranks, clock_name)


def choose_ranks(
    traces: TraceSet,
    selection: Selection,
    options: ExportOptions,
    moves_ns: Mapping[int, int] | None = None,
) -> list[Members]:
    """Return the part of each rank to write; raise `TraceError` if no events are selected.

    `moves_ns` contains the shift of each rank to the fitted clock. None keeps the recorded times.
    """
    if selection.traces is not None and len(traces) > 1:
        # A selection's window is on the clock of the trace set from which it was created.
        traces = traces.with_clock(selection.traces.clock)
    if options.counters is True:
        traces = with_counters(traces, ranks=selection.ranks)
    ranks: list[Members] = []
    for rank, trace in traces.items():
        if members := choose_members(trace, selection, options):
            members.fitted = bool(moves_ns)
            members.move_ns = (moves_ns or {}).get(rank, 0)
            members.part = _part_of_export(members, selection, len(traces))
            ranks.append(members)
    if not ranks:
        raise TraceError(
            "nothing to export: the selection contains no events",
            remedy="Widen its window, or loosen its query. Profiles of a whole run have no events.",
        )
    return ranks


def require_not_input(traces: Iterable[Trace], *targets: Path) -> None:
    """Raise a `TraceError` if a target is one of the files from which the traces were read."""
    inputs = {Path(trace.path).resolve() for trace in traces if trace.path}
    for target in targets:
        if target.resolve() in inputs:
            raise TraceError(
                "is a file that the traces were read from",
                path=target,
                remedy="Choose another path; input files are not overwritten.",
            )


def _rank_file_name(members: Members) -> str:
    return f"rank-{members.trace.rank}.trace.json.gz"


def _write_ranks(target: Target, ranks: Sequence[Members]) -> None:
    """Write ranks to a directory, to a single file, or to a merged file."""
    if target.is_directory:
        names = {_rank_file_name(members): members for members in ranks}
        with target.directory(names) as folder:
            for name, members in names.items():
                with folder(name) as out:
                    write_rank(out, members, state_rank=len(ranks) > 1)
        return
    with target.file() as out:
        if len(ranks) == 1:
            write_rank(out, ranks[0])
            return
        # Files of a job usually have the same base time. Otherwise, the earliest is used for all.
        bases = [base for members in ranks if (base := base_time_ns(members.trace.metadata))]
        _write_merged(out, ranks, min(bases, default=0))


@check_arguments
def export_pair(
    before: DiffSource,
    after: DiffSource,
    path: str | Path,
    *,
    labels: tuple[str, str] | None = None,
    base: Literal["first_step", "absolute"] = "first_step",
    clip: bool = False,
    counters: bool = False,
    scrub: bool = False,
) -> ExportReport:
    """Write two runs to one merged trace file for Perfetto or this package.

    The ranks of `after` are increased by 1000, or by a larger power of ten if `before` has such
    ranks. Process names include the run, for example ``before · rank 3 · python``.
    """
    target = Target.of(path)
    if target.is_directory:
        raise TraceError(
            "is not a file name", path=path, remedy="End the name with .json or .json.gz."
        )
    # The default labels are folder names, which `scrub` must not write.
    diff = compare(before, after, labels=labels or (("before", "after") if scrub else None))
    before_ns, after_ns = _moves_of_pair(diff) if base == "first_step" else (0, 0)
    options = ExportOptions(clip=clip, counters=counters, scrub=scrub)
    before_ranks = _side_ranks("before", diff.before.label, before, 0, before_ns, options)
    offset = _rank_offset(before)
    after_ranks = _side_ranks("after", diff.after.label, after, offset, after_ns, options)
    require_not_input([*diff.before.traces.values(), *diff.after.traces.values()], target.path)
    base_ns = max(0, min(base_time_ns(members.trace.metadata) for members in before_ranks))
    ranks = [*before_ranks, *after_ranks]
    with target.file() as out:
        _write_merged(out, ranks, base_ns)
    return make_report(target.path, target.written_bytes, ranks, "recorded")


def require_fitted_clock(traces: TraceSet) -> None:
    """Raise a `TraceError` if no collective determines clock offsets between the ranks."""
    if not clock_fit(traces).collectives.any():
        raise TraceError(
            "a clock cannot be fitted: no collective is found on two ranks"
            if len(traces) > 1
            else "a clock cannot be fitted: that requires two ranks or more",
            remedy="Export the recorded times.",
        )


def make_report(
    path: Path, size_bytes: int, ranks: Sequence[Members], clock: ClockName
) -> ExportReport:
    """Return the report of an export."""
    left_out: Counter[str] = Counter()
    for members in ranks:
        left_out.update(members.left_out)
    return ExportReport(
        path=path,
        events=sum(len(members.rows) for members in ranks),
        flows=sum(members.flows for members in ranks),
        dropped=left_out.total(),
        bytes=size_bytes,
        ranks=tuple(members.trace.rank for members in ranks),
        left_out=dict(left_out),
        samples=sum(len(members.samples) for members in ranks),
        clock=clock,
    )


def _clock_moves(traces: TraceSet | Trace, clock: ExportClock) -> dict[int, int]:
    """Return the ns to add to each rank's times, or {} if the recorded times are kept."""
    if clock == "recorded":
        return {}
    if isinstance(traces, Trace) and traces.clock_offset_ns:
        raise TraceError(
            "a single rank has no reference for its fitted clock",
            path=traces.path,
            remedy=f"Export traces.subset(ranks=[{traces.rank}]) instead.",
        )
    if isinstance(traces, Trace) or traces.clock != "fitted":
        return {}
    if len(traces) > 1 and not any(trace.clock_offset_ns for trace in traces.values()):
        require_fitted_clock(traces)
    return _moves_to_fitted_clock(traces)


def _moves_to_fitted_clock(traces: TraceSet) -> dict[int, int]:
    """Return, for each rank, the ns to add to its times to move them to the fitted clock."""
    # The absolute time of each rank's origin. The values differ only if clocks are unrelated. Such
    # ranks are moved to a common clock; otherwise, the next reader would align them differently.
    zeros_ns = {
        rank: trace.zero_ns - trace.shift_ns - trace.clock_offset_ns
        for rank, trace in traces.items()
        if len(trace)
    }
    if traces.origin_ns is not None:
        lift_ns = traces.origin_offset_ns
        zero_ns = traces.origin_ns + lift_ns
    else:
        # Without an origin, times keep the offset that makes them positive, since viewers drop
        # negative times. The most common zero time is used; among equally common ones, the latest.
        counts = Counter(zeros_ns.values())
        lift_ns = 0
        zero_ns = max(counts, key=lambda zero_ns: (counts[zero_ns], zero_ns), default=0)
    return {
        rank: zero_ns - zeros_ns.get(rank, zero_ns) - trace.clock_offset_ns - lift_ns
        for rank, trace in traces.items()
    }


def _clock_note(metadata: Mapping[str, Any], move_ns: int | None) -> dict[str, Any] | None:
    """Return the clock entry of the key ``"hta_widgets"``, or None if the times are as recorded.

    `move_ns` is the shift by this export. `metadata` may describe an earlier shift.
    """
    earlier = metadata.get(MARK_KEY)
    earlier_ns = earlier.get("offset_ns") if isinstance(earlier, Mapping) else None
    if not isinstance(earlier_ns, int):
        return None if move_ns is None else {"clock": "fitted", "offset_ns": -move_ns}
    return {"clock": "fitted", "offset_ns": earlier_ns - (move_ns or 0)}


def _part_of_export(members: Members, selection: Selection, job_ranks: int) -> ExportPart | None:
    """Return the part of the job in a rank's file, or None for a whole job or no events."""
    trace, table, rows = members.trace, members.trace.table, members.rows
    selected_ranks = job_ranks if selection.ranks is None else len(set(selection.ranks))
    if not len(rows) or (members.whole and selected_ranks >= job_ranks):
        return None
    earlier = stated_export_part(trace.metadata)
    # Bounds of the part in ns since `Trace.zero_ns`
    low_ns, high_ns = table.first_ns, table.last_ns
    if earlier is not None:
        low_ns, high_ns = earlier.start_ns - trace.zero_ns, earlier.end_ns - trace.zero_ns
    if members.start_ns is not None:
        low_ns = max(low_ns, members.start_ns)
    if members.end_ns is not None:
        high_ns = min(high_ns, members.end_ns)
    is_cut = (table.start_ns[rows] < low_ns) | (table.end_ns[rows] > high_ns)
    work_ns = rank_part(trace, Selection()).edges
    written_zero_ns = trace.zero_ns + members.move_ns
    has_all_time = low_ns <= table.first_ns and high_ns >= table.last_ns
    return ExportPart(
        start_ns=low_ns + written_zero_ns,
        end_ns=high_ns + written_zero_ns,
        work_start_ns=0 if work_ns is None else work_ns[0] + written_zero_ns,
        work_end_ns=0 if work_ns is None else work_ns[1] + written_zero_ns,
        cut_events=int(is_cut.sum()),
        all_time=has_all_time and (earlier is None or earlier.all_time),
        all_events=is_by_time(selection) and (earlier is None or earlier.all_events),
        job_ranks=max(job_ranks, 0 if earlier is None else earlier.job_ranks),
    )


def own_keys(trace: Trace) -> dict[str, bytes]:
    """Return the top-level keys of a rank's file as JSON, excluding the events."""
    texts: Mapping[str, bytes] = getattr(trace.source, "metadata_text", None) or {
        key: json_text(value) for key, value in trace.metadata.items()
    }
    return {key: raw for key, raw in texts.items() if key != "traceEvents"}


def write_file(out: Output, keys: Mapping[str, bytes], *records: Iterable[bytes]) -> None:
    """Write a trace file from its top-level keys and its records."""
    out.write(b"{\n")
    for key, raw in keys.items():
        out.write(json_text(key) + b": " + raw + b",\n")
    out.write(b'"traceEvents": [\n')
    for batch in records:
        out.write_list(batch)
    out.write(b"\n]\n}\n")


def write_rank(out: Output, members: Members, *, state_rank: bool = False) -> None:
    """Write a rank to a file. `state_rank` adds the rank number if the input lacks it."""
    write_file(out, _top_level(members, state_rank=state_rank), _records_to_write(members))


def _top_level(members: Members, *, state_rank: bool) -> dict[str, bytes]:
    """Return the file's top-level keys as JSON, beginning with those that identify the rank."""
    trace, scrub = members.trace, members.scrub
    texts = own_keys(trace)
    if scrub:
        texts = scrub.top_level(texts)
    note = _clock_note(trace.metadata, members.move_ns if members.fitted else None) or {}
    note |= _identity(trace, scrub=scrub is not None)
    if members.part is not None:
        note |= members.part.mark()
    if note and (members.fitted or members.part is not None or MARK_KEY not in texts):
        earlier = trace.metadata.get(MARK_KEY)
        if scrub:
            earlier = scrub.value(earlier)
        texts[MARK_KEY] = json_text({**(earlier if isinstance(earlier, Mapping) else {}), **note})
    info = texts.get("distributedInfo", b"{}")
    if b'"rank"' not in info:
        if state_rank:
            fields = decode_json(info)
            fields = fields if isinstance(fields, dict) else {}
            texts["distributedInfo"] = json_text({**fields, "rank": trace.rank})
    elif not _RANK_WITH_SPACE.search(info):
        # HTA requires a space after the colon of "rank".
        texts["distributedInfo"] = json_text(decode_json(info))
    first = {key: texts[key] for key in _FIRST if key in texts}
    return first | texts


def _identity(trace: Trace, *, scrub: bool) -> dict[str, Any]:
    """Return the worker, GPU or server, otherwise known only from the file's folder name."""
    numbers = {"worker": trace.worker, "local_rank": trace.local_rank, "server": trace.server}
    identity: dict[str, Any] = {name: number for name, number in numbers.items() if number >= 0}
    if identity and trace.job and not scrub:
        identity["job"] = trace.job
    return {IDENTITY_KEY: identity} if identity else {}


def _records_to_write(members: Members) -> Iterator[bytes]:
    records = chain(_edited_records(members), samples_of(members))
    return map(members.scrub.record, records) if members.scrub else records


def _edited_records(members: Members) -> Iterator[bytes]:
    trace = members.trace
    if trace.source is None:
        yield from records_of(members)
        return
    clip = RecordClipper(members) if members.clip and not members.whole else None
    threads = None if members.whole else FlowThreads(members)
    fate, move_ns = members.fate, members.move_ns
    for number, text in trace.source.records(np.flatnonzero(fate != DROP)):
        record, is_asked = text, fate[number] == ASK
        if is_asked and not members.accepts(record):
            continue
        if threads is not None and not is_asked:
            record = threads(number, record)
        if move_ns:
            record = move_record(record, move_ns)
        if clip is not None:
            record = clip.move_into_window(record) if is_asked else clip(number, record)
        yield record


def _write_merged(out: Output, ranks: Sequence[Members], base_ns: int) -> None:
    head: dict[str, Any] = {"merged": 1, "ranks": []}
    records: list[Iterator[bytes]] = []
    for position, members in enumerate(ranks):
        trace = members.trace
        shift_ns = base_time_ns(trace.metadata) + members.side_move_ns - base_ns
        texts = _top_level(members, state_rank=False)
        head["ranks"].append(
            {
                "rank": trace.rank,
                "file": f"rank-{trace.rank}" if members.scrub else Path(trace.path).name,
                "shift_ns": shift_ns,
                "format": trace.format,
                "metadata": {key: decode_json(raw) for key, raw in texts.items()} | members.stated,
            }
        )
        records.append(map(MergeScope(members, position, shift_ns), _records_to_write(members)))
    keys = {MARK_KEY: json_text(head), "schemaVersion": b"1", "displayTimeUnit": b'"ms"'}
    if base_ns:
        keys[BASE_KEY] = str(base_ns).encode()
    write_file(out, keys, *records)


def _traces_and_selection(source: DiffSource) -> tuple[list[Trace], Selection]:
    if isinstance(source, Trace):
        return [source], Selection()
    if isinstance(source, Selection):
        return list(source.traces.values()) if source.traces is not None else [], source
    return list(source.values()), Selection()


def _rank_offset(before: DiffSource) -> int:
    highest = max((trace.rank for trace in _traces_and_selection(before)[0]), default=0)
    offset = AFTER_RANKS
    while highest >= offset:
        offset *= 10
    return offset


def _first_step_ns(side: RunSide) -> int:
    """Return the recorded start of a side's earliest step."""
    start_ns, rank = min((int(windows[0, 0]), rank) for rank, windows in side.windows.items())
    trace = side.parts[rank].trace
    return start_ns - trace.shift_ns + trace.zero_ns


def _moves_of_pair(diff: Comparison) -> tuple[int, int]:
    """Return the shift of each side, in ns, that aligns the starts of their first steps.

    The first run is shifted only if a time would become negative.
    """
    move_ns = _first_step_ns(diff.before) - _first_step_ns(diff.after)
    earliest_ns = min(
        part.trace.zero_ns + (move_ns if side is diff.after else 0)
        for side in diff.sides
        for part in side.parts.values()
    )
    lift_ns = max(0, -earliest_ns)
    return lift_ns, move_ns + lift_ns


def _side_ranks(
    side: str, label: str, source: DiffSource, offset: int, move_ns: int, options: ExportOptions
) -> list[Members]:
    """Return the ranks of one side of a pair, with `offset` added to their numbers."""
    side_title = side if label == side else f"{side} {label}"
    ranks: list[Members] = []
    traces, selection = _traces_and_selection(source)
    for trace in traces:
        if not (members := choose_members(trace, selection, options)):
            continue
        ranks.append(members)
        base_ns = base_time_ns(trace.metadata) + move_ns
        note = {"side": side, "label": label, "rank": trace.rank, "moved_ns": move_ns}
        members.stated[MARK_KEY] = note
        if base_ns or BASE_KEY in trace.metadata:
            members.stated[BASE_KEY] = base_ns
        members.trace = trace.replace(rank=trace.rank + offset)
        members.title, members.side_move_ns = f"{side_title} · rank {trace.rank}", move_ns
    if not ranks:
        raise TraceError(f"nothing to export: no event is selected in the {side!r} run")
    return ranks

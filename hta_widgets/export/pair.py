"""Write two runs as one trace file, with both sides named, for any viewer of Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hta_widgets.analysis.diff_ops import Side
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import compare
from hta_widgets.errors import TraceError
from hta_widgets.export.chrome import ExportOptions
from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.chrome import metadata_records
from hta_widgets.export.chrome import records_of_members
from hta_widgets.export.chrome import top_level
from hta_widgets.export.members import Members
from hta_widgets.export.members import base_time
from hta_widgets.export.members import members_of
from hta_widgets.export.merge import Scope
from hta_widgets.export.output import Output
from hta_widgets.export.output import Target
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.rank_scope import MARK

__all__ = ["AFTER_RANKS", "export_pair"]

#: What is added to the ranks of the side after; more where the side before has such ranks.
AFTER_RANKS = 1000

_BASE = "baseTimeNanoseconds"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One rank in the making: what goes out, under which number and name, moved by how much."""

    members: Members
    side: str
    label: str
    own_rank: int
    move_ns: int

    @property
    def base_ns(self) -> int:
        """What the rank's own times count from, once they are moved."""
        return base_time(self.members.trace) + self.move_ns


def export_pair(
    before: Side,
    after: Side,
    path: str | Path,
    *,
    labels: tuple[str, str] | None = None,
    base: Literal["first_step", "absolute"] = "first_step",
    clip: bool = False,
    counters: bool = False,
    scrub: bool = False,
) -> ExportReport:
    """Write two runs as one merged trace, which Perfetto and this package open.

    Ranks of the side after get other numbers, 1000 and more (a further zero where before has
    such ranks), and processes are called by their side: ``before · rank 3 · python``.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        Of a selection what it selects.
    path : path-like
        ``.json`` or ``.json.gz``.
    labels : (str, str), optional
        Names of the sides; see `hta_widgets.diff.compare`.
    base : {"first_step", "absolute"}, default "first_step"
        ``"first_step"``: the side after is moved, so that the first steps that belong together
        start at once. ``"absolute"``: the times that the files state.
    clip, counters, scrub
        As in `export_trace`; counters are those that the files hold.

    Returns
    -------
    ExportReport

    Raises
    ------
    TraceError
        If a side has no events, or the place cannot be written.

    Notes
    -----
    The file is as docs/merged-format.md says. Each rank's ``metadata`` also holds, under
    ``"hta_widgets"``, its ``side, label``, its own ``rank``, and ``moved_ns``, what was added to
    its recorded times; its ``baseTimeNanoseconds`` has that added too.

    Examples
    --------
    >>> export_pair(before, after, "pair.json.gz").ranks  # doctest: +SKIP
    (3, 1001)
    """
    target = Target.of(path)
    if target.is_directory:
        raise TraceError(
            "a pair is one file", path=path, remedy="End the name with .json or .json.gz."
        )
    if base not in {"first_step", "absolute"}:
        raise TraceError(f"a pair has no base {base!r}", remedy='Say "first_step" or "absolute".')
    options = ExportOptions(clip, True, bool(counters), scrub, {})
    diff = compare(before, after, labels=labels)
    moves = _moves(diff) if base == "first_step" else (0, 0)
    entries = [
        *_entries("before", diff.before.label, before, 0, moves[0], options),
        *_entries("after", diff.after.label, after, _offset(before), moves[1], options),
    ]
    for side in ("before", "after"):
        if not any(entry.side == side for entry in entries):
            raise TraceError(
                f"nothing to export: no events {side}", remedy="Widen what is selected."
            )
    with target.file() as out:
        _write(out, entries, options)
    left_out: dict[str, int] = {}
    for entry in entries:
        for what, count in entry.members.left_out.items():
            left_out[what] = left_out.get(what, 0) + count
    return ExportReport(
        path=target.path,
        events=sum(len(entry.members.rows) for entry in entries),
        flows=sum(entry.members.flows for entry in entries),
        dropped=sum(left_out.values()),
        bytes=target.written_bytes,
        ranks=tuple(entry.members.trace.rank for entry in entries),
        left_out=left_out,
        samples=sum(len(entry.members.samples) for entry in entries),
    )


def _traces(source: Side) -> tuple[list[Trace], Selection]:
    if isinstance(source, Trace):
        return [source], Selection()
    if isinstance(source, Selection):
        return list(source.traces.values()) if source.traces is not None else [], source
    return list(source.values()), Selection()


def _offset(before: Side) -> int:
    highest = max((trace.rank for trace in _traces(before)[0]), default=0)
    offset = AFTER_RANKS
    while highest >= offset:
        offset *= 10
    return offset


def _moves(diff: Comparison) -> tuple[int, int]:
    """Return what is added to recorded times, so that the first steps start at once.

    Both sides move where a time would be negative otherwise.
    """
    starts = []
    for side in diff.sides:
        rank, windows = min(side.windows.items(), key=lambda item: int(item[1][0, 0]))
        trace = side.parts[rank].trace
        starts.append(int(windows[0, 0]) - trace.shift_ns + trace.zero_ns)
    move = starts[0] - starts[1]
    earliest = min(
        (
            part.trace.zero_ns + (move if side is diff.after else 0)
            for side in diff.sides
            for part in side.parts.values()
        ),
    )
    lift = max(0, -earliest)
    return lift, move + lift


def _entries(
    side: str, label: str, source: Side, offset: int, move_ns: int, options: ExportOptions
) -> Iterable[_Entry]:
    traces, selection = _traces(source)
    for trace in traces:
        members = members_of(
            trace, selection, keep_parents=options.keep_parents, counters=options.counters
        )
        if members is not None:
            members.trace = trace.replace(rank=trace.rank + offset)
            yield _Entry(members, side, label, trace.rank, move_ns)


def _write(out: Output, entries: list[_Entry], options: ExportOptions) -> None:
    bases = [base_time(entry.members.trace) for entry in entries if entry.side == "before"]
    base_ns = max(0, min(bases))
    head: dict[str, Any] = {"merged": 1, "ranks": []}
    for entry in entries:
        trace = entry.members.trace
        texts = top_level(trace, options, state_rank=False)
        metadata = {key: json.loads(raw) for key, raw in texts.items()}
        metadata[MARK] = {
            "side": entry.side,
            "label": entry.label,
            "rank": entry.own_rank,
            "moved_ns": entry.move_ns,
        }
        if entry.base_ns or _BASE in metadata:
            metadata[_BASE] = entry.base_ns
        head["ranks"].append(
            {
                "rank": trace.rank,
                "file": f"rank-{trace.rank}" if options.scrub else Path(trace.path).name,
                "shift_ns": entry.base_ns - base_ns,
                "metadata": metadata,
            }
        )
    out.write(b"{\n" + _json(MARK) + b": " + _json(head) + b",\n")
    out.write(b'"schemaVersion": 1,\n"displayTimeUnit": "ms",\n')
    if base_ns:
        out.write(f'"{_BASE}": {base_ns},\n'.encode())
    out.write(b'"traceEvents": [\n')
    for position, entry in enumerate(entries):
        members = entry.members
        scope = Scope(
            members.trace.rank,
            position,
            metadata_records(members),
            entry.base_ns - base_ns,
            f"{_whose(entry)} · rank {entry.own_rank}",
        )
        out.write_list(map(scope, records_of_members(members, options)))
    out.write(b"\n]\n}\n")


def _whose(entry: _Entry) -> str:
    return entry.side if entry.label == entry.side else f"{entry.side} {entry.label}"


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()

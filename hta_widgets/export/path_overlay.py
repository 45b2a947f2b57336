"""A rank's trace with its critical path marked, for viewers that draw flows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.graph import path_of
from hta_widgets.analysis.critical.rules import DEPENDENCY
from hta_widgets.analysis.critical.rules import EDGE_TYPES
from hta_widgets.analysis.critical.rules import LAUNCH
from hta_widgets.analysis.critical.rules import SYNC
from hta_widgets.analysis.critical.window import trace_of
from hta_widgets.errors import TraceError
from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.members import Members
from hta_widgets.export.members import base_time
from hta_widgets.export.output import Target
from hta_widgets.export.synthetic import records_of
from hta_widgets.formats.kineto.times import micros
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["export_critical_path", "write_overlay"]

Ints = npt.NDArray[np.int64]

#: Name and category of the arrows, as in HTA's files.
_ARROW = b'"critical_path"'
#: What stays whole where only the path is written: what the program named, and Python.
_FRAME_OF_PATH = ("user_annotation", "python_function")
#: Edges that are drawn where not all are.
_DRAWN = (DEPENDENCY, LAUNCH, SYNC)


class _Head(msgspec.Struct, gc=False):
    """As much of a record as tells whether it goes out."""

    ph: str = ""
    cat: str | None = ""


_head = msgspec.json.Decoder(_Head).decode


def export_critical_path(
    traces: TraceSet,
    path: str | Path,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
    only_path: bool = True,
    all_edges: bool = False,
    replace_input: bool = False,
) -> ExportReport:
    """Write a rank's trace with its critical path marked.

    Events of the path get ``"critical": 1`` in their args, and arrows named ``critical_path``
    lead along its edges, with ``weight`` (µs), ``critical`` and ``type`` in their args. All other
    records are copied as they stand.

    Parameters
    ----------
    traces : TraceSet
    path : path-like
        The file to write, ``.json`` or ``.json.gz``.
    rank, annotation, instance, data_load_events
        As in `hta_widgets.analysis.critical_path`.
    only_path : bool, default True
        Leave out complete events that are not on the path, except ranges that the program names
        and Python functions; and the file's arrows that would lead to them.
    all_edges : bool, default False
        Draw every edge of the graph, not only the path's launches, waits and steps between
        operators; not together with `only_path`, which has no ends for them.
    replace_input : bool, default False
        Whether the file that the rank was read from may be replaced.

    Returns
    -------
    ExportReport
        ``events`` counts complete events, ``flows`` the arrows that were drawn.

    Raises
    ------
    TraceError
        Where there is no such range, or the file cannot be written.

    Examples
    --------
    >>> export_critical_path(traces, "path.json.gz", rank=0)  # doctest: +SKIP
    """
    graph = path_of(trace_of(traces, rank), annotation, instance, data_load_events=data_load_events)
    if graph is None:
        raise TraceError(
            f"no event of rank {rank} has {annotation!r} in its name",
            path=traces[rank].path,
            remedy='Give part of the name of a range, or "" for the whole rank.',
        )
    return write_overlay(
        graph, path, only_path=only_path, all_edges=all_edges, replace_input=replace_input
    )


def write_overlay(
    graph: CriticalPath,
    path: str | Path,
    *,
    only_path: bool = True,
    all_edges: bool = False,
    replace_input: bool = False,
) -> ExportReport:
    """Write the trace of a path that was found already; see `export_critical_path`."""
    trace = graph.trace
    target = Target.of(path)
    if target.is_directory:
        raise TraceError(
            "is not the name of a trace file",
            path=target.path,
            remedy="End it with .json or .json.gz.",
        )
    own = Path(trace.path).resolve() if trace.path else None
    if not replace_input and target.path.resolve() == own:
        raise TraceError(
            "is the file that the rank was read from",
            path=target.path,
            remedy="Choose another name, or say replace_input=True.",
        )
    drawn = _edges_to_draw(graph, every=all_edges and not only_path)
    overlay = _Overlay(graph, drawn, only_path=only_path)
    with target.file() as out:
        out.write(b"{\n")
        for key, raw in _top_level(trace).items():
            out.write(_json(key) + b": " + raw + b",\n")
        out.write(b'"traceEvents": [\n')
        out.write_list(overlay.records())
        out.write_list(overlay.arrows())
        out.write(b"\n]\n}\n")
    return ExportReport(
        path=target.path,
        events=overlay.events,
        flows=overlay.flows,
        dropped=overlay.dropped,
        bytes=target.written_bytes,
        ranks=(trace.rank,),
        left_out={"events": overlay.dropped} if overlay.dropped else {},
    )


def _edges_to_draw(graph: CriticalPath, *, every: bool) -> Ints:
    edges = graph.edges
    if not every:
        return graph.on_path[np.isin(edges.type[graph.on_path], _DRAWN)]
    # A launch that did not bind its kernel says nothing.
    kept = (edges.type != LAUNCH) | (edges.weight_ns > 0)
    kept[graph.on_path] = True
    return np.flatnonzero(kept)


class _Overlay:
    """The records of the file, marked, and the arrows between them."""

    def __init__(self, graph: CriticalPath, drawn: Ints, *, only_path: bool) -> None:
        self.events = self.flows = self.dropped = 0
        self._graph, self._drawn, self._only_path = graph, drawn, only_path
        edges, rows = graph.edges, graph.nodes.row
        record = graph.trace.table.record
        self._critical = set(record[graph.path_events].tolist())
        ends = np.concatenate((rows[edges.source[drawn]], rows[edges.target[drawn]]))
        self._wanted = set(record[np.unique(ends)].tolist())
        self._flows = self._flows_within() if only_path else frozenset()
        #: process and thread of the ends of arrows, as the file writes them
        self._place: dict[int, tuple[bytes, bytes]] = {}

    def records(self) -> Iterator[bytes]:
        for number, text in self._all():
            try:
                head = _head(text)
            except msgspec.DecodeError:
                yield text
                continue
            if head.ph == "X":
                on_path = number in self._critical
                if self._only_path and not on_path and head.cat not in _FRAME_OF_PATH:
                    self.dropped += 1
                    continue
                self.events += 1
            elif self._only_path and head.ph in ("s", "t", "f") and number not in self._flows:
                continue
            yield self._marked(number, text)

    def _flows_within(self) -> frozenset[int]:
        """Records of the file's own arrows between events that stay."""
        trace = self._graph.trace
        table, flows = trace.table, trace.flow_table
        stays = np.array([name in _FRAME_OF_PATH for name in table.categories.values], dtype=bool)
        kept = stays[table.category] if len(stays) else np.zeros(len(table), dtype=bool)
        kept[self._graph.path_events] = True
        both = kept[flows.source] & kept[flows.target] & (flows.source_record >= 0)
        ends = np.concatenate((flows.source_record[both], flows.target_record[both]))
        return frozenset(ends.tolist())

    def _all(self) -> Iterator[tuple[int, bytes]]:
        trace = self._graph.trace
        if trace.source is not None:
            yield from trace.source.records(np.arange(len(trace.source), dtype=np.int64))
            return
        # Without a file, records are made from the columns, names first and then row by row.
        rows = np.arange(len(trace), dtype=np.int64)
        nothing = np.empty(0, dtype=np.uint8)
        made = records_of(Members(trace, rows, nothing, True, None, None, 0))
        names = 2 * len(trace.tracks)
        record = trace.table.record.tolist()
        for place, text in enumerate(made):
            yield (record[place - names] if place >= names else -1), text

    def _marked(self, number: int, text: bytes) -> bytes:
        if number not in self._critical and number not in self._wanted:
            return text
        fields = decode_fields(text) or {}
        self._place[number] = (fields.get("pid", b"0"), fields.get("tid", b"0"))
        if number not in self._critical:
            return text
        args = fields.get("args", b"{}").strip()
        inner = args[1:-1].strip() if args.startswith(b"{") else b'"args": ' + args
        fields["args"] = b'{"critical": 1' + (b", " + inner if inner else b"") + b"}"
        return encode_fields(fields)

    def arrows(self) -> Iterator[bytes]:
        graph = self._graph
        edges = graph.edges
        on_path = np.zeros(len(edges), dtype=bool)
        on_path[graph.on_path] = True
        for number, edge in enumerate(self._drawn.tolist()):
            args = _json(
                {
                    "weight": int(edges.weight_ns[edge]) // 1000,
                    "critical": bool(on_path[edge]),
                    "type": f"critical_path_{EDGE_TYPES[edges.type[edge]]}",
                }
            )
            self.flows += 1
            yield self._end(int(edges.source[edge]), b'"s"', number, args)
            yield self._end(int(edges.target[edge]), b'"f"', number, args)

    def _end(self, node: int, phase: bytes, number: int, args: bytes) -> bytes:
        graph = self._graph
        trace, row = graph.trace, int(graph.nodes.row[node])
        table = trace.table
        time = int(graph.nodes.time_ns[node])
        if not graph.nodes.is_start[node] and table.dur_ns[row] > 0:
            time -= 1  # an event's end is no longer part of it
        pid, tid = self._place[int(table.record[row])]
        fields = {
            "ph": phase,
            "id": str(number).encode(),
            "pid": pid,
            "tid": tid,
            "ts": micros(time + trace.zero_ns - base_time(trace)),
            "cat": _ARROW,
            "name": _ARROW,
            "args": args,
        }
        if phase == b'"f"':
            fields["bp"] = b'"e"'
        return encode_fields(fields)


def _top_level(trace: Trace) -> dict[str, bytes]:
    own: dict[str, Any] = getattr(trace.source, "metadata_text", None) or {
        key: _json(value) for key, value in trace.metadata.items()
    }
    return {key: bytes(raw) for key, raw in own.items() if key != "traceEvents"}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()

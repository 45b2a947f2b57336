"""Export traces with the overlays of HTA: counters, critical paths and kernel sequences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from hta_widgets.analysis.counters import COUNTER_KINDS, CounterKind, with_counters
from hta_widgets.analysis.critical.graph import CriticalPath, critical_path_of
from hta_widgets.analysis.critical.nodes import DEPENDENCY, EDGE_TYPES, LAUNCH, SYNC
from hta_widgets.analysis.kernels_by_operator import SequencePatterns, find_patterns
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import ExportReport, export_trace, own_keys, write_file
from hta_widgets.export.traces.members import Members, json_text, records_of
from hta_widgets.files import Target, target_path
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import RecordSource, decode_fields, encode_fields
from hta_widgets.trace.record_times import base_time_ns, micros
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet


def add_counters(
    traces: TraceSet | Trace,
    path: str | Path,
    *,
    kinds: Iterable[CounterKind] = COUNTER_KINDS,
    ranks: Iterable[int] | None = None,
) -> ExportReport:
    """Write traces with counters for queue lengths and copy bandwidth.

    The records of a rank are written as by `export_trace`, followed by its counters: ``Queue
    Length``, with the stream as its id, and ``Memcpy HtoD``, ``Memset``, etc., with the rate
    ``Memcpy BW`` in GB/s. The names are the same as in HTA. Unlike HTA, which writes to the input
    folder, this function writes to `path`, which must not be an input file.
    """
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    chosen = traces.select(ranks=ranks)
    with_samples = with_counters(traces, kinds, ranks=chosen.ranks)
    return export_trace(with_samples, path, chosen, counters="own")


#: Name and category of the flows, as in HTA.
_ARROW = b'"critical_path"'
#: Additional categories that `only_path` keeps.
_FRAME_OF_PATH = ("user_annotation", "python_function")
#: Edge types that are drawn by default.
_DRAWN = (DEPENDENCY, LAUNCH, SYNC)


class _PhaseAndCategory(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = ""


_decode_phase_and_category = msgspec.json.Decoder(_PhaseAndCategory).decode


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
    """Write the trace of a rank, marking its critical path.

    Events on the path get the argument ``"critical": 1``. Flows named ``critical_path`` follow the
    path's edges; their arguments are ``weight`` (in µs), ``critical`` and ``type``. All other
    records are copied unchanged.
    """
    graph = critical_path_of(traces[rank], annotation, instance, data_load_events=data_load_events)
    if graph is None:
        raise TraceError(
            f"no event of rank {rank} has {annotation!r} in its name",
            path=traces[rank].path,
            remedy='Give part of a range name, or "" for the whole rank.',
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
    """Write the trace of a given critical path; see `export_critical_path`."""
    trace = graph.trace
    target = Target.of(path)
    if target.is_directory:
        raise TraceError(
            "is not the name of a trace file",
            path=target.path,
            remedy="End it with .json or .json.gz.",
        )
    input_path = Path(trace.path).resolve() if trace.path else None
    if not replace_input and target.path.resolve() == input_path:
        raise TraceError(
            "is the file that the rank was read from",
            path=target.path,
            remedy="Choose another name, or pass replace_input=True.",
        )
    edges = _edges_to_draw(graph, with_others=all_edges and not only_path)
    overlay = _Overlay(graph, edges, only_path=only_path)
    with target.file() as out:
        write_file(out, own_keys(trace), overlay.records(), overlay.arrows())
    return ExportReport(
        path=target.path,
        events=overlay.events,
        flows=overlay.flows,
        dropped=overlay.dropped,
        bytes=target.written_bytes,
        ranks=(trace.rank,),
        left_out={"events": overlay.dropped} if overlay.dropped else {},
    )


def _edges_to_draw(graph: CriticalPath, *, with_others: bool) -> Ints:
    """Return the edges of the path to draw and, with `with_others`, edges outside the path."""
    edges = graph.edges
    if not with_others:
        return graph.on_path[np.isin(edges.type[graph.on_path], _DRAWN)]
    # A launch that did not delay its kernel has weight 0.
    is_drawn = (edges.type != LAUNCH) | (edges.weight_ns > 0)
    is_drawn[graph.on_path] = True
    return np.flatnonzero(is_drawn)


class _Overlay:
    """The records of a file, with the critical path marked and flows along the `drawn` edges."""

    def __init__(self, graph: CriticalPath, drawn: Ints, *, only_path: bool) -> None:
        self.events = self.flows = self.dropped = 0
        self._graph, self._drawn, self._only_path = graph, drawn, only_path
        edges, rows = graph.edges, graph.nodes.row
        record = graph.trace.table.record
        #: Records of events on the path (`_critical`), and of events with a flow (`_arrow_ends`).
        self._critical = set(record[graph.path_events].tolist())
        ends = np.concatenate((rows[edges.source[drawn]], rows[edges.target[drawn]]))
        self._arrow_ends = set(record[np.unique(ends)].tolist())
        self._flows = self._flows_within() if only_path else frozenset()
        #: Raw process and thread ids of events at either end of a flow, keyed by record.
        self._thread_of: dict[int, tuple[bytes, bytes]] = {}

    def records(self) -> Iterator[bytes]:
        for number, text in self._all_records():
            try:
                head = _decode_phase_and_category(text)
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
            yield self._mark_record(number, text)

    def _flows_within(self) -> frozenset[int]:
        """Return the records of the file's own flows between events that are kept."""
        table, flows = self._graph.trace.table, self._graph.trace.flow_table
        categories = enumerate(table.categories.values)
        frame_codes = [code for code, name in categories if name in _FRAME_OF_PATH]
        is_within = np.isin(table.category, frame_codes)
        is_within[self._graph.path_events] = True
        both = is_within[flows.source] & is_within[flows.target] & (flows.source_record >= 0)
        ends = np.concatenate((flows.source_record[both], flows.target_record[both]))
        return frozenset(ends.tolist())

    def _all_records(self) -> Iterator[tuple[int, bytes]]:
        """Yield each record with its number, or -1 for the names of tracks without a file."""
        trace = self._graph.trace
        if trace.source is not None:
            yield from trace.source.records(np.arange(len(trace.source), dtype=np.int64))
            return
        # Without a file, `records_of` yields two name records per track, then one record per row.
        rows = np.arange(len(trace), dtype=np.int64)
        members = Members(trace, rows, np.empty(0, dtype=np.uint8), whole=True)
        numbers = [-1] * (2 * len(trace.tracks)) + trace.table.record.tolist()
        yield from zip(numbers, records_of(members), strict=True)

    def _mark_record(self, number: int, text: bytes) -> bytes:
        """Return a record, marked if it is on the path; store its thread for flows."""
        if number not in self._critical and number not in self._arrow_ends:
            return text
        fields = decode_fields(text) or {}
        self._thread_of[number] = (fields.get("pid", b"0"), fields.get("tid", b"0"))
        if number not in self._critical:
            return text
        args = fields.get("args", b"{}").strip()
        # Args are copied unchanged. A value that is not an object becomes the arg "args".
        inner = args[1:-1].strip() if args.startswith(b"{") else b'"args": ' + args
        fields["args"] = b'{"critical": 1' + (b", " + inner if inner else b"") + b"}"
        return encode_fields(fields)

    def arrows(self) -> Iterator[bytes]:
        """Yield two records per drawn edge, and count the edges. Exhaust `records` first."""
        graph = self._graph
        edges = graph.edges
        on_path = np.zeros(len(edges), dtype=bool)
        on_path[graph.on_path] = True
        for number, edge in enumerate(self._drawn.tolist()):
            args = json_text(
                {
                    "weight": int(edges.weight_ns[edge]) // 1000,
                    "critical": bool(on_path[edge]),
                    "type": f"critical_path_{EDGE_TYPES[edges.type[edge]]}",
                }
            )
            self.flows += 1
            yield self._arrow_end(int(edges.source[edge]), b'"s"', number, args)
            yield self._arrow_end(int(edges.target[edge]), b'"f"', number, args)

    def _arrow_end(self, node: int, phase: bytes, number: int, args: bytes) -> bytes:
        """Return the start or end record of a flow, placed on the event of `node`."""
        graph = self._graph
        trace, row = graph.trace, int(graph.nodes.row[node])
        table = trace.table
        time_ns = int(graph.nodes.time_ns[node])
        if not graph.nodes.is_start[node] and table.dur_ns[row] > 0:
            # Viewers bind a flow to the enclosing event, whose end is exclusive.
            time_ns -= 1
        pid, tid = self._thread_of[int(table.record[row])]
        fields = {
            "ph": phase,
            "id": str(number).encode(),
            "pid": pid,
            "tid": tid,
            "ts": micros(time_ns + trace.zero_ns - base_time_ns(trace.metadata)),
            "cat": _ARROW,
            "name": _ARROW,
            "args": args,
        }
        if phase == b'"f"':
            fields["bp"] = b'"e"'
        return encode_fields(fields)


_PREFIX = "overlaid_"
_PATTERNS = "Patterns"
_SUFFIXES = (".json", ".json.gz", ".gz")


def export_patterns(
    traces: TraceSet | Trace,
    operator_name: str,
    folder: str | Path,
    *,
    rank: int | None = None,
    min_pattern_len: int = 3,
    top_k: int = 5,
    every_depth: bool = False,
    compress_other_kernels: bool = False,
    beside_input: bool = False,
) -> ExportReport:
    """Write the trace of a rank, marking frequent kernel sequences of an operator.

    In each occurrence, the operator, the host events below it, and the work it launched get
    ``args["Patterns"]`` with the pattern and its count. To find them in a viewer, search for
    ``Patterns`` or for a kernel name. All other records are copied unchanged.
    """
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    trace = traces[traces.ranks[0] if rank is None else rank]
    if trace.source is None:
        raise TraceError(
            f"patterns cannot be marked: rank {trace.rank} has no file",
            remedy="Choose a rank that was read from a trace file.",
        )
    path = _overlay_target(trace, target_path(folder), beside_input=beside_input)
    part = rank_parts(traces, ranks=[trace.rank])[0]
    patterns = find_patterns(
        part, operator_name, min_pattern_len, top_k=top_k, every_depth=every_depth
    )
    if not patterns.texts:
        raise TraceError(
            f"nothing to mark: no {operator_name!r} on rank {trace.rank} launched"
            f" {min_pattern_len} or more device events",
            path=trace.path,
            remedy="Give another operator, or a smaller min_pattern_len.",
        )
    marks = _marks(trace, patterns)
    others = _NameCompressor(trace) if compress_other_kernels else None
    overlaid = TraceSet(
        [trace.replace(source=_MarkedRecords(trace.source, marks, others))], like=traces
    )
    return export_trace(overlaid, path, counters="own")


def _overlay_target(trace: Trace, folder: Path, *, beside_input: bool) -> Path:
    if not folder.is_dir():
        raise TraceError("the folder does not exist", path=folder, remedy="Create it first.")
    input_path = Path(trace.path).resolve()
    if not beside_input and folder.resolve() == input_path.parent:
        raise TraceError(
            "is the folder that the trace was read from",
            path=folder,
            remedy="Choose another one, or pass beside_input=True.",
        )
    suffix = "" if input_path.name.lower().endswith(_SUFFIXES) else ".json"
    return folder / f"{_PREFIX}{input_path.name}{suffix}"


def _marks(trace: Trace, patterns: SequencePatterns) -> dict[int, bytes]:
    """Return the mark of each record: the event's pattern and its count, as JSON."""
    texts = [
        json_text({text: count})
        for text, count in zip(patterns.texts, patterns.count.tolist(), strict=True)
    ]
    # Outside of occurrences, `below` is -1, which indexes the appended -1.
    pattern = np.append(patterns.pattern, -1)[patterns.below]
    rows = np.flatnonzero(pattern >= 0)
    records = trace.table.record[rows].tolist()
    codes = pattern[rows].tolist()
    return {record: texts[code] for record, code in zip(records, codes, strict=True)}


@dataclass
class _MarkedRecords(RecordSource):
    """The records of a file, with patterns added to args. `edit` changes all other records."""

    source: RecordSource
    marks: dict[int, bytes]
    edit: Callable[[dict[str, bytes]], bool] | None

    def __post_init__(self) -> None:
        self.path = self.source.path
        self.metadata_text = getattr(self.source, "metadata_text", None)

    def __len__(self) -> int:
        return len(self.source)

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        for number, text in self.source.records(wanted):
            yield number, self._edit_record(number, text)

    def _edit_record(self, number: int, text: bytes) -> bytes:
        mark = self.marks.get(number)
        fields = None if mark is None and self.edit is None else decode_fields(text)
        if fields is None:
            return text
        if mark is not None:
            args = decode_fields(fields.get("args", b"{}")) or {}
            fields["args"] = encode_fields({**args, _PATTERNS: mark})
        elif self.edit is None or not self.edit(fields):
            return text
        return encode_fields(fields)


class _NameCompressor:
    """Removes args and replaces names with numbers, listed in the args of the profiler's event."""

    def __init__(self, trace: Trace) -> None:
        numbers = {name: str(number) for number, name in enumerate(trace.table.names.values)}
        self._numbers = {name: json_text(number) for name, number in numbers.items()}
        self._legend = json_text({number: name for name, number in numbers.items()})

    def __call__(self, fields: dict[str, bytes]) -> bool:
        """Compress a record in place; return False if it is not an event."""
        if fields.get("ph") != b'"X"' or "name" not in fields:
            return False
        name = json.loads(fields["name"])
        if "PyTorch Profiler" in str(name):
            fields["args"] = self._legend
        else:
            fields["args"] = b"{}"
            fields["name"] = self._numbers.get(name, fields["name"])
        return True

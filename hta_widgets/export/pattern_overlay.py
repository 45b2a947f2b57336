"""A trace with marks on the kernel sequences that recur, to be searched for in a viewer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.scope import parts
from hta_widgets.analysis.sequences import Patterns
from hta_widgets.analysis.sequences import find_patterns
from hta_widgets.errors import TraceError
from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.chrome import export_trace
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["export_patterns"]

Ints = npt.NDArray[np.int64]

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
    """Write a rank's trace with the frequent kernel sequences of an operator marked.

    Each occurrence's operator, what lies below it on the host and what it launched get
    ``args["Patterns"]``: the pattern, and how often it occurs. Search for ``Patterns``, or for a
    kernel's name, in the viewer. Everything else stays as it is in the file.

    Parameters
    ----------
    traces : TraceSet or Trace
    operator_name : str
        What the operators' names contain; see `frequent_kernel_sequences`.
    folder : path-like
        Where to write ``overlaid_<name of the trace's file>``.
    rank : int, optional
        The rank to write; the first by default.
    min_pattern_len : int, default 3
        How many device events an occurrence has at least.
    top_k : int, default 5
        How many patterns are marked, the most frequent.
    every_depth : bool, default False
        As in `frequent_kernel_sequences`.
    compress_other_kernels : bool, default False
        Leave out the args of complete events that are in no pattern, and write numbers for their
        names; the record ``PyTorch Profiler``, where the file has it, says which number is which
        name. HTA does so by default.
    beside_input : bool, default False
        Allow `folder` to be the one that the trace was read from, where the next look into the
        folder finds the rank twice.

    Returns
    -------
    ExportReport

    Raises
    ------
    TraceError
        Where nothing recurs under such an operator, the trace has no file, or the folder is not
        there or is the trace's own.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> export_patterns(traces, "aten::linear", "patterns/", rank=0)  # doctest: +SKIP
    """
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    trace = traces[traces.ranks[0] if rank is None else rank]
    if trace.source is None:
        raise TraceError(
            f"rank {trace.rank} has no file to mark patterns in",
            remedy="Choose a rank that was read from a trace file.",
        )
    path = _target(trace, Path(folder).expanduser(), beside_input=beside_input)
    part = parts(traces, ranks=[trace.rank])[0]
    found = find_patterns(
        part, operator_name, min_pattern_len, top_k=top_k, every_depth=every_depth
    )
    if not found.texts:
        raise TraceError(
            f"nothing to mark: no {operator_name!r} on rank {trace.rank} launched"
            f" {min_pattern_len} or more device events",
            path=trace.path,
            remedy="Give another operator, or a smaller min_pattern_len.",
        )
    marked = _Marked(trace.source, _marks(trace, found))
    source = _Compressed(marked, trace) if compress_other_kernels else marked
    overlaid = TraceSet([trace.replace(source=source)], like=traces)
    return export_trace(overlaid, path, counters="own")


def _target(trace: Trace, folder: Path, *, beside_input: bool) -> Path:
    if not folder.is_dir():
        raise TraceError("the folder does not exist", path=folder, remedy="Create it first.")
    own = Path(trace.path).resolve()
    if not beside_input and folder.resolve() == own.parent:
        raise TraceError(
            "is the folder that the trace was read from",
            path=folder,
            remedy="Choose another one, or give beside_input=True.",
        )
    suffix = "" if own.name.lower().endswith(_SUFFIXES) else ".json"
    return folder / f"{_PREFIX}{own.name}{suffix}"


def _marks(trace: Trace, found: Patterns) -> dict[int, bytes]:
    """Return the JSON text of ``Patterns`` by record."""
    texts = [
        json.dumps({text: count}, ensure_ascii=False).encode()
        for text, count in zip(found.texts, found.count.tolist(), strict=True)
    ]
    pattern = np.append(found.pattern, -1)[found.below]
    rows = np.flatnonzero(pattern >= 0)
    records = trace.table.record[rows].tolist()
    return {
        record: texts[place] for record, place in zip(records, pattern[rows].tolist(), strict=True)
    }


class _Marked:
    """Gives a file's records with the marks of patterns in their args."""

    def __init__(self, source: RecordSource, marks: dict[int, bytes]) -> None:
        self.path = source.path
        self.metadata_text = getattr(source, "metadata_text", None)
        self.marks = marks
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def record(self, index: int) -> bytes:
        return self._mark(index, self._source.record(index))

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        for number, text in self._source.records(indices):
            yield number, self._mark(number, text)

    def _mark(self, number: int, text: bytes) -> bytes:
        mark = self.marks.get(number)
        fields = None if mark is None else decode_fields(text)
        if mark is None or fields is None:
            return text
        args = decode_fields(fields.get("args", b"{}")) or {}
        fields["args"] = encode_fields({**args, _PATTERNS: mark})
        return encode_fields(fields)


class _Compressed:
    """Gives the records of events that carry no mark without args, and numbers for their names."""

    def __init__(self, source: _Marked, trace: Trace) -> None:
        self.path = source.path
        self.metadata_text = source.metadata_text
        self._source = source
        table = trace.table
        known = {name: number for number, name in enumerate(table.names.values)}
        self._numbers = {name: json.dumps(str(number)).encode() for name, number in known.items()}
        names = {str(number): name for name, number in known.items()}
        self._legend = json.dumps(names, ensure_ascii=False).encode()

    def __len__(self) -> int:
        return len(self._source)

    def record(self, index: int) -> bytes:
        return self._compress(index, self._source.record(index))

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        for number, text in self._source.records(indices):
            yield number, self._compress(number, text)

    def _compress(self, number: int, text: bytes) -> bytes:
        if number in self._source.marks:
            return text
        fields = decode_fields(text)
        if fields is None or fields.get("ph") != b'"X"' or "name" not in fields:
            return text
        name = json.loads(fields["name"])
        if "PyTorch Profiler" in str(name):
            fields["args"] = self._legend
        else:
            fields["args"] = b"{}"
            fields["name"] = self._numbers.get(name, fields["name"])
        return encode_fields(fields)

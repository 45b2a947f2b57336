"""Traces with counters that their files do not hold: length of queues, bandwidth of copies."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hta_widgets.analysis.derived_counters import COUNTER_KINDS
from hta_widgets.analysis.derived_counters import CounterKind
from hta_widgets.analysis.derived_counters import with_counters
from hta_widgets.errors import TraceError
from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.chrome import export_trace
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = ["add_counters"]


def add_counters(
    traces: TraceSet | Trace,
    path: str | Path,
    *,
    kinds: CounterKind | Iterable[CounterKind] = COUNTER_KINDS,
    ranks: Iterable[int] | None = None,
    selection: Selection | None = None,
    scrub: bool = False,
) -> ExportReport:
    """Write traces with the length of their queues and the bandwidth of their copies as counters.

    The rank's records are written as `export_trace` writes them, and after them the counters:
    ``Queue Length`` with the stream as its id, and ``Memcpy HtoD``, ``Memset``, … with their rate
    as ``Memcpy BW``, in GB/s. These are HTA's names, so what reads its files reads these. Unlike
    HTA, which writes beside its input, where the next look finds the rank twice, this writes where
    it is told, and over no input.

    Parameters
    ----------
    traces : TraceSet or Trace
    path : path-like
        As in `export_trace`: a file, or a directory of one file a rank.
    kinds : iterable of str
        ``"queue_length"``, ``"memory_bandwidth"``; see `hta_widgets.analysis.with_counters`.
    ranks : iterable of int, optional
        The ranks to write; all by default.
    selection : Selection, optional
        The events to write; counters are of all events, cut to its window.
    scrub : bool, default False
        Leave out host names, users, environment and directories.

    Returns
    -------
    ExportReport
        Its ``samples`` says how many samples were added.

    Raises
    ------
    TraceError
        Where the path is that of a file which the traces were read from, or cannot be written.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> add_counters(traces, "with_counters.json.gz", ranks=[0])  # doctest: +SKIP
    """
    if isinstance(traces, Trace):
        traces = TraceSet([traces])
    chosen = traces.select(selection, ranks=ranks)
    written = traces.ranks if chosen.ranks is None else list(chosen.ranks)
    _refuse_inputs(traces, Path(path).expanduser(), written)
    return export_trace(
        with_counters(traces, kinds, ranks=written), path, chosen, counters="own", scrub=scrub
    )


def _refuse_inputs(traces: TraceSet, path: Path, ranks: Iterable[int]) -> None:
    inputs = {Path(trace.path).resolve() for trace in traces.values() if trace.path}
    targets = [path, *(path / f"rank-{rank}.json.gz" for rank in ranks)]
    for target in targets:
        if target.resolve() in inputs:
            raise TraceError(
                "is a file that the traces were read from",
                path=target,
                remedy="Choose another place; the input stays as it is.",
            )

"""Copies of traces that also hold counters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from enum import Flag, auto
from pathlib import Path
from typing import Literal

from hta_widgets.compat.scope import kept_of
from hta_widgets.export.overlays import add_counters
from hta_widgets.trace.traceset import TraceSet

__all__ = ["TimeSeriesTypes", "write_traces_with_counters"]


class TimeSeriesTypes(Flag):
    """Which counters to add; combine with ``|``."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


_KINDS: dict[TimeSeriesTypes, Literal["queue_length", "memory_bandwidth"]] = {
    TimeSeriesTypes.QUEUE_LENGTH: "queue_length",
    TimeSeriesTypes.MEMCPY_BANDWIDTH: "memory_bandwidth",
}


def write_traces_with_counters(
    traces: TraceSet,
    time_series: TimeSeriesTypes | None,
    ranks: Iterable[int],
    suffix: str,
    output_dir: str | Path | None,
) -> list[Path]:
    """Write one file per rank; see `TraceAnalysis.generate_trace_with_counters`."""
    asked = TimeSeriesTypes(0) if time_series is None else time_series
    kinds = [kind for flag, kind in _KINDS.items() if flag in asked] or list(_KINDS.values())
    word = suffix.removesuffix(".gz").removesuffix(".json") or "_with_counters"
    folder = _folder(traces, output_dir)
    written = []
    for rank in ranks:
        source = Path(traces[rank].path).name
        stem = source.removesuffix(".gz").removesuffix(".json")
        ending = ".json.gz" if source.endswith(".gz") else ".json"
        report = add_counters(
            kept_of(traces), folder / f"{stem}{word}{ending}", kinds=kinds, ranks=[rank]
        )
        written.append(Path(report.path))
        print(f"rank {rank} with counters: {report.path}")  # noqa: T201 - says where it went
    return written


def _folder(traces: TraceSet, output_dir: str | Path | None) -> Path:
    if output_dir is not None:
        folder = Path(output_dir).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    inputs = {Path(trace.path).resolve().parent for trace in traces.values()}
    here = Path.cwd()
    return here if here not in inputs else Path(tempfile.mkdtemp(prefix="hta-widgets-"))

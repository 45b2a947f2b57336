"""Metrics of the device and its allocated memory as counters."""

from __future__ import annotations

import numpy as np

from hta_widgets.formats.event_rows import Series
from hta_widgets.formats.nsight.rank_columns import RankRows
from hta_widgets.formats.nsight.recording import Gpu
from hta_widgets.formats.nsight.tables import process_of
from hta_widgets.readers.sqlite import Database

_METRICS, _METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ALLOCATED = "Memory allocated by CUDA since the recording began"
_GPU_MASK = (1 << 32) - 1
_ALLOCATION, _FREE = 0, 1


def counters_of_rank(database: Database, rank: RankRows, gpu: Gpu) -> list[Series]:
    """Return the series of a rank's device."""
    return [*_metrics(database, gpu), *_memory(database, rank)] if rank.device >= 0 else []


def _metrics(database: Database, gpu: Gpu) -> list[Series]:
    """Return the sampled metrics of a device."""
    rows = [
        row
        for row in database.rows(_METRICS, ("timestamp", "typeId", "metricId", "value"))
        if all(isinstance(value, int) for value in row[:3]) and isinstance(row[3], (int, float))
    ]
    if not rows:
        return []
    names = {
        (kind, metric): name
        for kind, metric, name in database.rows(_METRIC_NAMES, ("typeId", "metricId", "metricName"))
        if isinstance(name, str)
    }
    time_ns, kinds, metrics = (
        np.array(column, np.int64) for column in list(zip(*rows, strict=True))[:3]
    )
    values = np.array([row[3] for row in rows], np.float64)
    of_gpu = (kinds & _GPU_MASK) == gpu.number
    series = []
    for kind, metric in np.unique(np.stack([kinds, metrics])[:, of_gpu], axis=1).T.tolist():
        at = np.flatnonzero((kinds == kind) & (metrics == metric) & np.isfinite(values))
        name = names.get((kind, metric), f"metric {metric}")
        series.append((name, time_ns[at], values[at]))
    return series


def _memory(database: Database, rank: RankRows) -> list[Series]:
    """Return the memory that a rank has allocated and not freed."""
    columns = database.integers(
        _MEMORY, ("start", "globalPid", "deviceId", "bytes", "memoryOperationType")
    )
    of_rank = (process_of(columns["globalPid"]) == rank.process) & (
        columns["deviceId"] == rank.device
    )
    rows = np.flatnonzero(of_rank & np.isin(columns["memoryOperationType"], (_ALLOCATION, _FREE)))
    if not len(rows):
        return []
    rows = rows[np.argsort(columns["start"][rows], kind="stable")]
    is_allocation = columns["memoryOperationType"][rows] == _ALLOCATION
    size = columns["bytes"][rows]
    level = np.cumsum(np.where(is_allocation, size, -size)).astype(np.float64)
    return [(_ALLOCATED, columns["start"][rows], level)]

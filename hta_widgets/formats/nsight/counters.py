"""Metrics of the device, its allocated memory, and metrics of network cards as counters."""

from __future__ import annotations

import numpy as np

from hta_widgets.formats.event_rows import Series, distinct_rows
from hta_widgets.formats.nsight.recording import Gpu
from hta_widgets.formats.nsight.tables import processes_of
from hta_widgets.readers.sqlite import Database

_METRICS, _METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ALLOCATED = "memory allocated since the recording began (bytes)"
_GPU_MASK = (1 << 32) - 1
_ALLOCATION, _FREE = 0, 1
_NETWORK, _NETWORK_NAMES = "NET_NIC_METRIC", "TARGET_INFO_NETWORK_METRICS"


def device_metrics(database: Database, gpu: Gpu) -> list[Series]:
    """Return the sampled metrics of a device."""
    where = f"typeId & {_GPU_MASK} = {gpu.number} and typeof(value) in ('integer', 'real')"
    columns = ("timestamp", "typeId", "metricId", "value")
    has_values = set(columns) <= set(database.columns_of(_METRICS))
    rows = database.rows(_METRICS, columns, where=where, kinds=(int,) * 3) if has_values else []
    if not rows:
        return []
    named = database.rows(
        _METRIC_NAMES, ("typeId", "metricId", "metricName"), kinds=(int, int, str)
    )
    names = {(type_id, metric_id): name for type_id, metric_id, name in named}
    *integers, reals = zip(*rows, strict=True)
    time_ns, type_ids, metric_ids = (np.array(column, np.int64) for column in integers)
    values = np.array(reals, np.float64)
    metrics, metric = distinct_rows(type_ids, metric_ids)
    series = []
    for number, (type_id, metric_id) in enumerate(metrics):
        samples = np.flatnonzero((metric == number) & np.isfinite(values))
        name = names.get((type_id, metric_id), f"metric {metric_id}")
        series.append((name, time_ns[samples], values[samples]))
    return series


def allocated_memory(database: Database, process: int, device: int) -> list[Series]:
    """Return the memory of a device that a process has allocated and not freed."""
    columns = database.integers(
        _MEMORY, ("start", "globalPid", "deviceId", "bytes", "memoryOperationType")
    )
    of_rank = (processes_of(columns["globalPid"]) == process) & (columns["deviceId"] == device)
    rows = np.flatnonzero(of_rank & np.isin(columns["memoryOperationType"], (_ALLOCATION, _FREE)))
    if not len(rows):
        return []
    rows = rows[np.argsort(columns["start"][rows], kind="stable")]
    is_allocation = columns["memoryOperationType"][rows] == _ALLOCATION
    size = columns["bytes"][rows]
    level = np.cumsum(np.where(is_allocation, size, -size)).astype(np.float64)
    return [(_ALLOCATED, columns["start"][rows], level)]


def network_metrics(database: Database) -> list[Series]:
    """Return the metrics of network cards, by card and port."""
    keys = ("globalId", "portId", "metricsListId", "metricsIdx")
    columns = database.integers(_NETWORK, ("start", *keys, "value"))
    named = database.rows(_NETWORK_NAMES, (*keys[2:], "name"), kinds=(int, int, str))
    names = {(list_id, index): name for list_id, index, name in named}
    nic_names = dict(database.rows("TARGET_INFO_NIC_INFO", ("nicId", "name")))
    pairs = database.rows("NIC_ID_MAP", ("globalId", "nicId"))
    name_of_card = {global_id: nic_names.get(nic_id) for global_id, nic_id in pairs}
    metrics, metric = distinct_rows(*(columns[key] for key in keys))
    series = []
    for number, (card, port, list_id, index) in enumerate(metrics):
        samples = np.flatnonzero(metric == number)
        name = names.get((list_id, index), f"metric {index}")
        label = f"{name_of_card.get(card) or f'NIC {card}'} port {port}: {name}"
        values = columns["value"][samples].astype(np.float64)
        series.append((label, columns["start"][samples], values))
    return series

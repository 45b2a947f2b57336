"""Metrics of the device, its allocated memory, and metrics of network cards as counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.event_rows import Series
from hta_widgets.formats.nsight.tables import machine_of, process_of, processes_of
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import Floats, Ints

_METRICS, _METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ALLOCATED = "memory allocated since the recording began (bytes)"
_GPU_MASK = (1 << 32) - 1
_ALLOCATION, _FREE = 0, 1
_NETWORK, _NETWORK_NAMES = "NET_NIC_METRIC", "TARGET_INFO_NETWORK_METRICS"


def device_metrics(database: Database) -> dict[tuple[int, int], list[Series]]:
    """Return the sampled metrics of devices by machine and number."""
    named = database.rows(_METRIC_NAMES, "typeId metricId metricName", kinds=(int, int, str))
    names = {(type_id, metric_id): name for type_id, metric_id, name in named}
    series: defaultdict[tuple[int, int], list[Series]] = defaultdict(list)
    samples = _samples_by_key(database, _METRICS, "timestamp", "typeId metricId")
    for key, times_ns, values in samples:
        type_id, metric_id = key
        name = names.get((type_id, metric_id), f"metric {metric_id}")
        machine = machine_of(process_of(type_id))
        series[machine, type_id & _GPU_MASK].append((name, times_ns, values))
    return series


def network_metrics(database: Database) -> list[Series]:
    """Return the metrics of network cards, by card and port."""
    named = database.rows(_NETWORK_NAMES, "metricsListId metricsIdx name", kinds=(int, int, str))
    names = {(list_id, index): name for list_id, index, name in named}
    nic_names = dict(database.rows("TARGET_INFO_NIC_INFO", "nicId name"))
    pairs = database.rows("NIC_ID_MAP", "globalId nicId")
    name_of_card = {global_id: nic_names.get(nic_id) for global_id, nic_id in pairs}
    series = []
    keys = "globalId portId metricsListId metricsIdx"
    for key, times_ns, values in _samples_by_key(database, _NETWORK, "start", keys):
        card, port, list_id, index = key
        name = names.get((list_id, index), f"metric {index}")
        label = f"{name_of_card.get(card) or f'NIC {card}'} port {port}: {name}"
        series.append((label, times_ns, values))
    return series


def _samples_by_key(
    database: Database, table: str, time: str, keys: str
) -> Iterator[tuple[Any, Ints, Floats]]:
    """Yield the times and values of the samples of each distinct key."""
    samples = pd.DataFrame(database.integers(table, f"{time} {keys}", reals="value"))
    samples = samples[np.isfinite(samples["value"])]
    for key, of_key in samples.groupby(keys.split(), sort=False):
        yield key, of_key[time].to_numpy(), of_key["value"].to_numpy()


def allocated_memory(database: Database, process: int, device: int) -> list[Series]:
    """Return the memory of a device that a process has allocated and not freed."""
    columns = "start globalPid deviceId bytes memoryOperationType"
    events = pd.DataFrame(database.integers(_MEMORY, columns))
    is_change = events["memoryOperationType"].isin((_ALLOCATION, _FREE))
    is_change &= processes_of(events["globalPid"].to_numpy()) == process
    changes = events[is_change & (events["deviceId"] == device)].sort_values("start", kind="stable")
    if not len(changes):
        return []
    is_allocation = changes["memoryOperationType"] == _ALLOCATION
    level = changes["bytes"].where(is_allocation, -changes["bytes"]).cumsum()
    return [(_ALLOCATED, changes["start"].to_numpy(), level.to_numpy(np.float64))]

"""Facts of an export other than events: clock, host, devices, threads, sampled counters.

Exports contain all environment variables, the command line and the program's output. Only the
environment variables that give a rank are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.event_rows import RANK_VARIABLES, Series, rank_of_variables
from hta_widgets.formats.nsight.tables import (
    ID_MASK,
    machine_of,
    process_of,
    processes_of,
    texts_by_id,
)
from hta_widgets.readers.ranks import is_rank
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.record_times import LAST_NS
from hta_widgets.trace.short_paths import shorten_paths

_SEVERE = 3
_LOSS = re.compile(r"dropped|not all\b.*\bcollected", re.IGNORECASE)
_MAX_DIAGNOSTICS = 20
_METRICS, _METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ALLOCATED = "memory allocated since the recording began (bytes)"
_GPU_MASK = (1 << 32) - 1
_ALLOCATION, _FREE = 0, 1
_NETWORK, _NETWORK_NAMES = "NET_NIC_METRIC", "TARGET_INFO_NETWORK_METRICS"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device of a process."""

    number: int  # on the host if the export gives it, else in the process
    name: str = ""
    sms: int | None = None
    memory_bytes: int | None = None
    uuid: str = ""


#: Devices for each machine, process id and ordinal in the process. Unknown keys are None.
_DevicesOfProcesses = defaultdict[tuple[int | None, int | None, int], set[Gpu]]


class Recording:
    """Facts that an export gives about its recording."""

    def __init__(self, database: Database) -> None:
        options: dict[str, str] = {}
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            options.update(database.rows(table, "name value", kinds=(str, str)))
        version = re.match(r"[\d.]{1,40}", options.get("EXPORT_PRODUCT_VERSION", ""))
        self.version = version[0] if version else ""
        #: whether the file was extracted from another export
        self.is_cut = any(name.startswith("DERIVED_") for name in options)
        #: UTC at time 0 of the events; None if unknown
        self.epoch_ns = _epoch_ns(database, options)
        #: names of processes and, by process and thread, of their threads
        self.processes = {
            process_of(process): PurePath(shorten_paths(name).replace("\\", "/")).name
            for process, name in database.rows("PROCESSES", "globalPid name", kinds=(int, str))
        }
        self.threads = _thread_names(database)
        self.mpi_ranks: dict[int, int] = {
            process_of(thread): rank
            for thread, rank in database.rows("MPI_RANKS", "globalTid rank", kinds=(int, int))
            if is_rank(rank)
        }
        #: messages of Nsight Systems about lost events, with the process
        self.diagnostics = _diagnostics(database)
        self.rank_of_variables = _rank_of_variables(database)
        #: host names by machine id, the highest 16 bits of a global id; None if unknown
        self._hosts = _hosts(database)
        #: devices by machine and number; (None, number) is the first device with that number
        self._gpus = _gpus(database)
        self._devices = _devices_of_processes(database, self._gpus)
        self._network = _network_metrics(database)
        self._metrics = _device_metrics(database)
        #: machines and numbers of the ranks' devices
        self._used_gpus: set[tuple[int, int]] = set()

    @property
    def unclear_devices(self) -> int:
        """Number of devices whose facts differ between processes with the same id."""
        return sum(len(gpus) > 1 for gpus in self._devices.values())

    def gpu(self, process: int, device: int) -> Gpu:
        """Return a device of a process. Under MIG, it has fewer multiprocessors than the GPU."""
        machine, pid = machine_of(process), process & ID_MASK
        keys = (machine, pid, device), (None, pid, device), (None, None, device)
        gpus = next((self._devices[key] for key in keys if key in self._devices), set())
        stated = next(iter(gpus)) if len(gpus) == 1 else Gpu(device)
        number = stated.number
        gpu = self._gpus.get((machine, number)) or self._gpus.get((None, number)) or Gpu(number)
        return replace(gpu, name=stated.name or gpu.name, sms=stated.sms or gpu.sms)

    def take_series(self, database: Database, process: int, device: int) -> list[Series]:
        """Return the counters of a rank. The first rank also gets the host's counters."""
        network, self._network = self._network, []
        if device < 0:
            return network
        gpu = self.gpu(process, device).number
        keys = [key for key in self._metrics if key[1] == gpu]
        if len({machine for machine, _ in self._metrics}) > 1:
            keys = [key for key in keys if key[0] == machine_of(process)]
        self._used_gpus.update(keys)
        metrics = [series for key in keys for series in self._metrics[key]]
        return [*metrics, *_allocated_memory(database, process, device), *network]

    @property
    def unused_samples(self) -> int:
        """Number of metric samples from devices that no rank uses."""
        unused = self._metrics.keys() - self._used_gpus
        return sum(len(times_ns) for gpu in unused for _, times_ns, _ in self._metrics[gpu])

    def host(self, process: int) -> str | None:
        """Return the name of a process's host; None if unknown."""
        names = set(self._hosts.values())
        return next(iter(names)) if len(names) == 1 else self._hosts.get(machine_of(process))


def _epoch_ns(database: Database, options: Mapping[str, str]) -> int | None:
    if options.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return 0
    begins = database.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", kinds=(int,))
    return next((epoch_ns for (epoch_ns,) in begins if 0 < epoch_ns < LAST_NS), None)


def _hosts(database: Database) -> dict[int | None, str]:
    columns, where = "name value globalVid", "name = 'Hostname'"
    rows = database.rows("TARGET_INFO_SYSTEM_ENV", columns, where=where, kinds=(str, str))
    return {
        machine_of(process_of(global_id)) if isinstance(global_id, int) else None: host
        for _, host, global_id in rows
    }


def _thread_names(database: Database) -> dict[tuple[int, int], str]:
    rows = sorted(database.rows("ThreadNames", "priority globalTid nameId", kinds=(int, int, int)))
    texts = texts_by_id(database, [name for _, _, name in rows])
    return {
        (process_of(thread), thread & ID_MASK): shorten_paths(texts[name])
        for _, thread, name in rows
        if name in texts
    }


def _diagnostics(database: Database) -> list[tuple[int | None, str]]:
    rows = database.rows("DIAGNOSTIC_EVENT", "text severity globalPid", kinds=(str,))
    return [
        (process_of(process) if isinstance(process, int) else None, text)
        for text, severity, process in rows
        if (isinstance(severity, int) and severity >= _SEVERE) or _LOSS.search(text)
    ][:_MAX_DIAGNOSTICS]


def _rank_of_variables(database: Database) -> int | None:
    """Return the rank in the environment of the launched process; other variables are not read."""
    wanted = " or ".join(f"value glob '{name}=[0-9]*'" for name in RANK_VARIABLES)
    rows = database.rows("META_DATA_CAPTURE", "value", where=f"({wanted})", kinds=(str,))
    return rank_of_variables(dict(text.split("=", 1) for (text,) in reversed(rows)))


def _gpus(database: Database) -> dict[tuple[int | None, int], Gpu]:
    table = "TARGET_INFO_GPU"
    key = "id" if "id" in database.columns_of(table) else "deviceId"
    gpus: dict[tuple[int | None, int], Gpu] = {}
    columns = f"{key} name smCount totalMemory uuid vmId"
    for number, name, sms, memory, uuid, machine_id in database.rows(table, columns, kinds=(int,)):
        gpu = Gpu(number, _text(name), _count(sms), _count(memory), _text(uuid))
        gpus.setdefault((None, number), gpu)
        if isinstance(machine_id, int):
            gpus[machine_of(process_of(machine_id)), number] = gpu
    return gpus


def _devices_of_processes(
    database: Database, gpus: Mapping[tuple[int | None, int], Gpu]
) -> _DevicesOfProcesses:
    """Return devices as seen by processes. The machine is derived from the device's UUID."""
    machine_of_uuid = {gpu.uuid: machine for (machine, _), gpu in gpus.items() if gpu.uuid}
    devices: _DevicesOfProcesses = defaultdict(set)
    columns = "gpuId cudaId pid numMultiprocessors uuid"
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", columns, kinds=(int, int, int))
    for number, device, pid, sms, uuid in rows:
        devices[machine_of_uuid.get(uuid), pid, device].add(Gpu(number, sms=_count(sms)))
    columns = "deviceId name pid numMultiprocessors"
    rows = database.rows("TARGET_INFO_CUDA_GPU", columns, kinds=(int, str))  # of 2021
    for device, name, pid, sms in rows:
        pid_or_none = pid if isinstance(pid, int) else None
        devices[None, pid_or_none, device].add(Gpu(device, name, _count(sms)))
    return devices


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _device_metrics(database: Database) -> dict[tuple[int, int], list[Series]]:
    named = database.rows(_METRIC_NAMES, "typeId metricId metricName", kinds=(int, int, str))
    names = {(type_id, metric_id): name for type_id, metric_id, name in named}
    series: defaultdict[tuple[int, int], list[Series]] = defaultdict(list)
    samples = _samples_by_key(database, _METRICS, "timestamp", "typeId metricId")
    for (type_id, metric_id), times_ns, values in samples:
        name = names.get((type_id, metric_id), f"metric {metric_id}")
        machine = machine_of(process_of(type_id))
        series[machine, type_id & _GPU_MASK].append((name, times_ns, values))
    return series


def _network_metrics(database: Database) -> list[Series]:
    named = database.rows(_NETWORK_NAMES, "metricsListId metricsIdx name", kinds=(int, int, str))
    names = {(list_id, index): name for list_id, index, name in named}
    nic_names = dict(database.rows("TARGET_INFO_NIC_INFO", "nicId name"))
    pairs = database.rows("NIC_ID_MAP", "globalId nicId")
    name_of_card = {global_id: nic_names.get(nic_id) for global_id, nic_id in pairs}
    series = []
    keys = "globalId portId metricsListId metricsIdx"
    samples = _samples_by_key(database, _NETWORK, "start", keys)
    for (card, port, list_id, index), times_ns, values in samples:
        name = names.get((list_id, index), f"metric {index}")
        label = f"{name_of_card.get(card) or f'NIC {card}'} port {port}: {name}"
        series.append((label, times_ns, values))
    return series


def _samples_by_key(
    database: Database, table: str, time: str, keys: str
) -> Iterator[tuple[Any, Ints, Floats]]:
    samples = pd.DataFrame(database.integers(table, f"{time} {keys}", reals="value"))
    samples = samples[np.isfinite(samples["value"])]
    for key, of_key in samples.groupby(keys.split(), sort=False):
        yield key, of_key[time].to_numpy(), of_key["value"].to_numpy()


def _allocated_memory(database: Database, process: int, device: int) -> list[Series]:
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

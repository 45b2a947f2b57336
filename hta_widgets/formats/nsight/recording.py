"""Facts of an export about its recording: clock, host, devices, processes, threads.

Exports contain all environment variables, the command line and the output of the program. Of these,
only environment variables that state a rank are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from hta_widgets.formats.event_rows import RANK_VARIABLES
from hta_widgets.formats.nsight.nvtx import domain_names
from hta_widgets.formats.nsight.tables import (
    ID_MASK,
    id_in_system,
    machine_of,
    process_of,
    texts_by_id,
)
from hta_widgets.readers.ranks import is_rank
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.record_times import LAST_NS
from hta_widgets.trace.short_paths import shorten_paths

_SEVERE = 3
_LOSS = re.compile(r"dropped|not all\b.*\bcollected", re.IGNORECASE)
_MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device of a process."""

    number: int  # on the host, or in the process if the export does not state that
    name: str = ""
    sms: int = 0
    memory_bytes: int = 0

    @property
    def label(self) -> str:
        """The name of its tracks."""
        return f"GPU {self.number}"

    def properties(self) -> dict[str, Any]:
        """Return the properties under the keys that PyTorch writes."""
        stated = {"name": self.name, "numSms": self.sms, "totalGlobalMem": self.memory_bytes}
        return {"id": self.number, **{key: value for key, value in stated.items() if value}}


@dataclass(slots=True)
class Recording:
    """Facts that an export states about its recording."""

    #: UTC at time 0 of the events; None if it is unknown
    epoch_ns: int | None
    #: version of Nsight Systems
    version: str
    #: whether the file was cut from another export
    is_cut: bool
    #: names of hosts by machine, the highest 16 bits of a global id; None if no row states it
    hosts: dict[int | None, str]
    processes: dict[int, str]
    #: by process and thread
    threads: dict[tuple[int, int], str]
    mpi_ranks: dict[int, int]
    #: names of NVTX domains by process and number
    domains: dict[tuple[int, int], str]
    #: messages of Nsight Systems on lost events, with the process
    diagnostics: list[tuple[int | None, str]]
    #: the rank in the environment of the launched process
    rank_of_variables: int | None
    #: devices by machine and number
    gpus: dict[tuple[int | None, int], Gpu]
    #: devices by the id and the ordinal that a process has for them
    devices: dict[tuple[int | None, int], Gpu]

    def gpu(self, process: int, device: int) -> Gpu:
        """Return a device of a process. With MIG, it has fewer multiprocessors than the GPU."""
        ordinals = (id_in_system(process), device), (None, device)
        stated = next((self.devices[key] for key in ordinals if key in self.devices), Gpu(device))
        number = stated.number
        gpus = (machine_of(process), number), (None, number)
        gpu = next((self.gpus[key] for key in gpus if key in self.gpus), Gpu(number))
        return replace(gpu, name=stated.name or gpu.name, sms=stated.sms or gpu.sms)

    def host(self, process: int) -> str | None:
        """Return the name of the host of a process, if it is known."""
        names = set(self.hosts.values())
        return next(iter(names)) if len(names) == 1 else self.hosts.get(machine_of(process))


def read_recording(database: Database) -> Recording:
    """Read what an export states about its recording."""
    options = _export_options(database)
    version = re.match(r"[\d.]{1,40}", options.get("EXPORT_PRODUCT_VERSION", ""))
    in_utc = options.get("EXPORT_PARAM_TIME_NORMALIZE") == "true"
    begin = database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",), kinds=(int,))
    epoch_ns = next((epoch_ns for (epoch_ns,) in begin if 0 < epoch_ns < LAST_NS), None)
    processes = database.rows("PROCESSES", ("globalPid", "name"), kinds=(int, str))
    mpi_ranks = database.rows("MPI_RANKS", ("globalTid", "rank"), kinds=(int, int))
    return Recording(
        epoch_ns=0 if in_utc else epoch_ns,
        version=version[0] if version else "",
        is_cut=any(name.startswith("DERIVED_") for name in options),
        hosts=_hosts(database),
        processes={
            process_of(process): PurePath(shorten_paths(name).replace("\\", "/")).name
            for process, name in processes
        },
        threads=_thread_names(database),
        mpi_ranks={process_of(thread): rank for thread, rank in mpi_ranks if is_rank(rank)},
        domains=domain_names(database),
        diagnostics=_diagnostics(database),
        rank_of_variables=_rank_of_variables(database),
        gpus=_gpus(database),
        devices=_devices_of_processes(database),
    )


def _export_options(database: Database) -> dict[str, str]:
    """Return the version and the parameters of the export by name."""
    options: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        options.update(database.rows(table, ("name", "value"), kinds=(str, str)))
    return options


def _hosts(database: Database) -> dict[int | None, str]:
    columns, where = ("name", "value", "globalVid"), "name = 'Hostname'"
    rows = database.rows("TARGET_INFO_SYSTEM_ENV", columns, where=where, kinds=(str, str))
    return {
        machine_of(process_of(global_id)) if isinstance(global_id, int) else None: host
        for _, host, global_id in rows
    }


def _thread_names(database: Database) -> dict[tuple[int, int], str]:
    columns = ("priority", "globalTid", "nameId")
    rows = sorted(database.rows("ThreadNames", columns, kinds=(int, int, int)))
    texts = texts_by_id(database, (name for _, _, name in rows))
    return {
        (process_of(thread), thread & ID_MASK): shorten_paths(texts[name])
        for _, thread, name in rows
        if name in texts
    }


def _diagnostics(database: Database) -> list[tuple[int | None, str]]:
    rows = database.rows("DIAGNOSTIC_EVENT", ("text", "severity", "globalPid"), kinds=(str,))
    return [
        (process_of(process) if isinstance(process, int) else None, text)
        for text, severity, process in rows
        if (isinstance(severity, int) and severity >= _SEVERE) or _LOSS.search(text)
    ][:_MAX_DIAGNOSTICS]


def _rank_of_variables(database: Database) -> int | None:
    """Return the rank in the environment of the launched process; nothing else is fetched."""
    wanted = " or ".join(f"value glob '{name}=[0-9]*'" for name in RANK_VARIABLES)
    rows = database.rows("META_DATA_CAPTURE", ("value",), where=f"({wanted})", kinds=(str,))
    ranks: dict[str, int] = {}
    for (text,) in rows:
        name, _, value = text.partition("=")
        if value.isdecimal() and is_rank(int(value[:20])):
            ranks.setdefault(name, int(value[:20]))
    return next((ranks[name] for name in RANK_VARIABLES if name in ranks), None)


def _gpus(database: Database) -> dict[tuple[int | None, int], Gpu]:
    """Return devices by machine and number; by None and number, the first device."""
    table = "TARGET_INFO_GPU"
    key = "id" if "id" in database.columns_of(table) else "deviceId"
    gpus: dict[tuple[int | None, int], Gpu] = {}
    columns = (key, "name", "smCount", "totalMemory", "vmId")
    for number, name, sms, memory, machine_id in database.rows(table, columns, kinds=(int,)):
        gpu = Gpu(number, name if isinstance(name, str) else "", _count(sms), _count(memory))
        gpus.setdefault((None, number), gpu)
        if isinstance(machine_id, int):
            gpus[machine_of(process_of(machine_id)), number] = gpu
    return gpus


def _devices_of_processes(database: Database) -> dict[tuple[int | None, int], Gpu]:
    """Return devices as processes see them, by process id (None if it is unknown) and ordinal."""
    columns = ("gpuId", "cudaId", "pid", "numMultiprocessors")
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", columns, kinds=(int, int, int))
    devices: dict[tuple[int | None, int], Gpu] = {
        (pid, device): Gpu(number, sms=_count(sms)) for number, device, pid, sms in rows
    }
    columns = ("deviceId", "name", "pid", "numMultiprocessors")
    rows = database.rows("TARGET_INFO_CUDA_GPU", columns, kinds=(int, str))  # of 2021
    for device, name, pid, sms in rows:
        devices[pid if isinstance(pid, int) else None, device] = Gpu(device, name, _count(sms))
    return devices


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0

"""Facts of an export about its recording: clock, host, devices, processes, threads.

Exports hold all environment variables, the command line and the output of the program. Only values
with the names that this module lists are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from hta_widgets.formats.event_rows import RANK_VARIABLES
from hta_widgets.formats.nsight.nvtx import domain_names
from hta_widgets.formats.nsight.tables import ID_BITS, ID_MASK, id_in_system, texts_by_id
from hta_widgets.readers.ranks import is_rank
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.record_times import LAST_NS
from hta_widgets.trace.short_paths import shorten_paths

_SEVERE = 3
_LOSS = re.compile(r"dropped|not all\b.*\bcollected", re.IGNORECASE)
_MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device as its process numbers it."""

    number: int  # on the host, if the export states it
    name: str = ""
    sms: int = 0
    memory_bytes: int = 0

    @property
    def label(self) -> str:
        """Its name on tracks."""
        return f"GPU {self.number}"

    def properties(self) -> dict[str, Any]:
        """Return the properties under the keys that PyTorch writes."""
        stated = {"name": self.name, "numSms": self.sms, "totalGlobalMem": self.memory_bytes}
        return {"id": self.number, **{key: value for key, value in stated.items() if value}}


@dataclass(slots=True)
class Recording:
    """A recording.

    Attributes
    ----------
    epoch_ns : int or None
        UTC at time 0 of the events.
    version : str
        Of Nsight Systems.
    hosts : dict of int or None to str
        Names of hosts by hardware and virtual machine; None for an export that states neither.
    cut : bool
        Whether the file was cut from another export.
    processes : dict of int to str
        Names of processes.
    threads : dict of (process, thread) to str
        Names of threads.
    mpi_ranks : dict of int to int
        Ranks by process.
    domains : dict of (process, number) to str
        Names of NVTX domains.
    diagnostics : list of (process or None, text)
        Nsight's messages on lost events.
    """

    epoch_ns: int | None = None
    version: str = ""
    hosts: dict[int | None, str] = field(default_factory=dict)
    cut: bool = False
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    mpi_ranks: dict[int, int] = field(default_factory=dict)
    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    diagnostics: list[tuple[int | None, str]] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)
    _gpus: dict[tuple[int | None, int], Gpu] = field(default_factory=dict)

    def gpu(self, process: int, device: int) -> Gpu:
        """Return a device of a process."""
        pid = id_in_system(process)
        return self._gpus.get((pid, device)) or self._gpus.get((None, device)) or Gpu(device)

    def host(self, process: int) -> str | None:
        """Return the name of the host of a process, if it is known."""
        names = set(self.hosts.values())
        return next(iter(names)) if len(names) == 1 else self.hosts.get(process >> ID_BITS)

    def rank_of_variables(self) -> int | None:
        """Return the rank in the environment of the process that was launched."""
        return next(
            (self.variables[name] for name in RANK_VARIABLES if name in self.variables), None
        )


def read_recording(database: Database) -> Recording:
    """Read what an export states about its recording."""
    version, cut, in_utc = _export_options(database)
    epoch_ns = _first_integer(database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    if epoch_ns is not None and not 0 < epoch_ns < LAST_NS:
        epoch_ns = None
    return Recording(
        epoch_ns=0 if in_utc else epoch_ns,
        version=version,
        hosts=_hosts(database),
        cut=cut,
        processes=dict(_process_names(database)),
        threads=_thread_names(database),
        mpi_ranks={
            thread >> ID_BITS: rank
            for thread, rank in database.rows("MPI_RANKS", ("globalTid", "rank"))
            if isinstance(thread, int) and is_rank(rank)
        },
        domains=domain_names(database),
        diagnostics=_diagnostics(database),
        variables=_rank_variables(database),
        _gpus=_gpus(database),
    )


def _export_options(database: Database) -> tuple[str, bool, bool]:
    """Return the version, and whether events were cut, and times are UTC."""
    options: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        rows = database.rows(table, ("name", "value"))
        options.update((name, str(value)) for name, value in rows if isinstance(name, str))
    version = re.match(r"[\d.]{1,40}", options.get("EXPORT_PRODUCT_VERSION", ""))
    return (
        version[0] if version else "",
        any(name.startswith("DERIVED_") for name in options),
        options.get("EXPORT_PARAM_TIME_NORMALIZE") == "true",
    )


def _first_integer(database: Database, table: str, column: str) -> int | None:
    values = [value for (value,) in database.rows(table, (column,)) if isinstance(value, int)]
    return values[0] if values else None


def _hosts(database: Database) -> dict[int | None, str]:
    if "name" not in database.columns_of("TARGET_INFO_SYSTEM_ENV"):
        return {}
    columns = ("globalVid", "value")
    rows = database.rows("TARGET_INFO_SYSTEM_ENV", columns, where="name = 'Hostname'")
    return {
        machine >> 2 * ID_BITS if isinstance(machine, int) else None: name
        for machine, name in rows
        if isinstance(name, str)
    }


def _process_names(database: Database) -> Iterable[tuple[int, str]]:
    """Yield names of processes, without the folders of their programs."""
    for process, name in database.rows("PROCESSES", ("globalPid", "name")):
        if isinstance(process, int) and isinstance(name, str):
            yield process >> ID_BITS, PurePath(shorten_paths(name).replace("\\", "/")).name


def _thread_names(database: Database) -> dict[tuple[int, int], str]:
    rows = [
        row
        for row in database.rows("ThreadNames", ("priority", "globalTid", "nameId"))
        if all(isinstance(value, int) for value in row)
    ]
    texts = texts_by_id(database, (name for _, _, name in rows))
    return {
        (thread >> ID_BITS, thread & ID_MASK): shorten_paths(texts[name])
        for _, thread, name in sorted(rows)
        if name in texts
    }


def _diagnostics(database: Database) -> list[tuple[int | None, str]]:
    if "severity" not in database.columns_of("DIAGNOSTIC_EVENT"):
        return []
    rows = database.rows("DIAGNOSTIC_EVENT", ("severity", "text", "globalPid"))
    return [
        (process >> ID_BITS if isinstance(process, int) else None, text)
        for severity, text, process in rows
        if isinstance(text, str)
        and ((isinstance(severity, int) and severity >= _SEVERE) or _LOSS.search(text))
    ][:_MAX_DIAGNOSTICS]


def _rank_variables(database: Database) -> dict[str, int]:
    """Return the environment variables that state a rank; no others are fetched."""
    if "value" not in database.columns_of("META_DATA_CAPTURE"):
        return {}
    wanted = " or ".join(f"value glob '{name}=[0-9]*'" for name in RANK_VARIABLES)
    variables: dict[str, int] = {}
    for (text,) in database.rows("META_DATA_CAPTURE", ("value",), where=f"({wanted})"):
        name, _, value = str(text).partition("=")
        if name in RANK_VARIABLES and value.isdecimal() and is_rank(int(value[:20])):
            variables.setdefault(name, int(value[:20]))
    return variables


def _gpus(database: Database) -> dict[tuple[int | None, int], Gpu]:
    """Return devices by process and number; by None and number if no process is stated."""
    gpus: dict[tuple[int | None, int], Gpu] = {}
    table = "TARGET_INFO_GPU"
    key = "id" if "id" in database.columns_of(table) else "deviceId"
    on_host: dict[int, Gpu] = {}
    for number, name, sms, memory in database.rows(table, (key, "name", "smCount", "totalMemory")):
        if isinstance(number, int):
            gpu = Gpu(number, _text(name), _count(sms), _count(memory))
            on_host[number] = gpus[None, number] = gpu
    columns = ("gpuId", "cudaId", "pid", "numMultiprocessors")
    for number, device, pid, sms in database.rows("TARGET_INFO_CUDA_DEVICE", columns):
        if isinstance(number, int) and isinstance(device, int) and isinstance(pid, int):
            gpu = on_host.get(number, Gpu(number))
            gpus[pid, device] = replace(gpu, sms=_count(sms) or gpu.sms)  # fewer with MIG
    columns = ("deviceId", "pid", "name", "numMultiprocessors")
    for device, pid, name, sms in database.rows("TARGET_INFO_CUDA_GPU", columns):  # of 2021
        if isinstance(device, int):
            process = pid if isinstance(pid, int) else None
            gpus[process, device] = Gpu(device, _text(name), _count(sms))
    return gpus


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0

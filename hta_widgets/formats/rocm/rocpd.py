"""Reader of rocprofv3's rocpd databases, and of the older databases of rocmProfileData.

Each process has a set of tables whose names end in its id, so a merged file has several sets. A
call and the kernel that it launches share a ``stack_id``. The ``correlation_id`` is set by the
program and is mostly 0::

    rocpd_region_0a1b           hipLaunchKernel, event 1     rocpd_event_0a1b  1: stack_id 23804
    rocpd_kernel_dispatch_0a1b  kernel 10, event 2                             2: stack_id 23804

From schema 4 on, events have ``start_id``, ``end_id`` and ``track_id`` instead of times, process,
thread, agent and stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.event_rows import (
    RankFacts,
    map_distinct,
    parse_json_object,
    rank_of_variables,
    values_by_id,
)
from hta_widgets.formats.rocm.events import (
    LAUNCH_COLUMNS,
    RocmProcess,
    RocmRows,
    category_of_calls,
    copy_name,
    gpu_properties,
)
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.trace.arrays import Ints

_SET = re.compile(r"rocpd_(?:kernel_dispatch|region|memory_copy)(_.*|)")
_OLD = {"rocpd_op", "rocpd_api", "rocpd_string"}
#: Columns of events that schema 4 stores in the table of tracks.
_TRACK_COLUMNS = "pid tid agent_id queue_id stream_id"
_PROCESS_BITS = 32
_KERNEL_NAMES = ("display_name", "formatted_kernel_name", "kernel_name")


def is_rocpd(start: FileStart) -> bool:
    """Return whether a file has the tables of rocprofv3 or rocmProfileData."""
    return any(name.startswith("rocpd_") for name in start.tables)


def read_rocpd(
    path: str, *, advance: Advance = None, steps: str | None = None, **_: object
) -> Outcome:
    """Read the ranks of a database; `steps` is a regular expression for the names of steps."""
    rows = RocmRows(path)
    facts: dict[tuple[int, int], RankFacts] = {}
    with Database(path, advance) as database:
        if database.tables >= _OLD:
            _read_old(database, rows)
        else:
            matches = filter(None, map(_SET.fullmatch, database.tables))
            for number, suffix in enumerate(sorted({match[1] for match in matches})):
                table_set = _TableSet(database, suffix, number, rows)
                table_set.read()
                facts |= table_set.facts()
        database.report(rows.problems)
    return rows.build("rocpd", facts, steps)


def companions_of(path: str) -> list[tuple[Path, bool]]:
    """Return the other files that rocprofv3 writes for a run."""
    return [(Path(path).with_suffix(ending), True) for ending in (".json", ".pftrace")]


class _TableSet(RocmProcess):
    """The tables of one process, or of all processes if table names have no ids."""

    def __init__(self, database: Database, suffix: str, number: int, rows: RocmRows) -> None:
        self._database, self._suffix = database, suffix
        gpus: dict[int, dict[str, Any]] = {}
        cpus = set()
        agents = self._table_rows(
            "info_agent", "id type type_index absolute_index product_name name extdata"
        )
        for agent, kind, gpu, index, product, name, extra in agents:
            if kind != "GPU":
                cpus.add(agent)
                continue
            number_in_host = next(filter(_is_index, (gpu, index)), agent)
            model = next((text for text in (product, name) if isinstance(text, str) and text), "")
            units = parse_json_object(extra).get("cu_count")
            gpus[agent] = gpu_properties(number_in_host, model, units)
        super().__init__(rows, number << _PROCESS_BITS, gpus, cpus)
        processes = self._table_rows("info_process", "id pid")
        threads = self._table_rows("info_thread", "id tid")
        self._pid_of = {key: pid for key, pid in processes if _is_index(pid)}
        self._tid_of = {key: tid for key, tid in threads if _is_index(tid)}

    def read(self) -> None:
        kernels = self._event_columns("kernel_dispatch", "agent_id kernel_id", *LAUNCH_COLUMNS)
        names = self._names("info_kernel_symbol", _KERNEL_NAMES, kernels["kernel_id"])
        self._add_kernels(kernels, names)
        copies = self._event_columns(
            "memory_copy", "name_id dst_agent_id src_agent_id size queue_id"
        )
        self._add_copies(copies, self._names("string", ("string",), copies["name_id"], copy_name))
        self._add_regions()

    def facts(self) -> dict[tuple[int, int], RankFacts]:
        nodes = self._database.rows(self._table("info_node"), "hostname", kinds=(str,))
        hosts = {name for (name,) in nodes}
        host = hosts.pop() if len(hosts) == 1 else None
        facts = {}
        for process, environment in self._table_rows("info_process", "id environment"):
            devices = {device for user, device in self._used if user == process}
            rank = rank_of_variables(parse_json_object(environment)) if len(devices) == 1 else None
            for gpu in self._gpus.values():
                facts[self._first_process + process, gpu["id"]] = RankFacts(0, host, rank, gpu)
        return facts

    def _add_regions(self) -> None:
        columns = self._event_columns("region", "tid name_id")
        kinds = columns["category_id"]
        table, text_column = self._table("info_category"), "name"
        if table not in self._database.tables:  # before schema 4
            table, text_column = self._table("string"), "string"
        texts = self._database.texts_of(table, text_column, kinds)
        add = self._rows.category.add
        self._rows.add_calls(
            map_distinct(kinds, lambda kind: add(category_of_calls(texts.get(kind, "")))),
            start_ns=columns["start"], end_ns=columns["end"],
            name=self._names("string", ("string",), columns["name_id"]),
            process=self._first_process + columns["pid"],
            pid=map_distinct(columns["pid"], lambda row_id: self._pid_of.get(row_id, row_id)),
            tid=map_distinct(columns["tid"], lambda row_id: self._tid_of.get(row_id, row_id)),
            correlation=columns["stack_id"],
        )  # fmt: skip

    def _table(self, name: str) -> str:
        return f"rocpd_{name}{self._suffix}"

    def _table_rows(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        return self._database.rows(self._table(name), columns, kinds=(int,))

    def _event_columns(self, name: str, *further: str) -> dict[str, Ints]:
        """Return columns of a table of events, including columns joined from other tables."""
        table = self._table(name)
        present = self._database.columns_of(table)
        references = [key for key in ("start_id", "end_id", "track_id") if key in present]
        wanted = ["start end pid stream_id event_id", *further, *references]
        columns = self._database.integers(table, " ".join(wanted))
        for key in ("stack_id", "category_id"):
            columns[key] = values_by_id(self._events["id"], self._events[key], columns["event_id"])
        for key, column in (("start_id", "start"), ("end_id", "end")):
            if key in references:
                value = values_by_id(self._times["id"], self._times["value"], columns[key])
                columns[column] = np.where(value < 0, NO_TIME, value)
        if "track_id" in references:
            tracks = self._database.integers(self._table("track"), f"id {_TRACK_COLUMNS}")
            for column in set(_TRACK_COLUMNS.split()).intersection(columns).difference(present):
                columns[column] = values_by_id(tracks["id"], tracks[column], columns["track_id"])
        return columns

    @cached_property
    def _events(self) -> dict[str, Ints]:
        return self._database.integers(self._table("event"), "id stack_id category_id")

    @cached_property
    def _times(self) -> dict[str, Ints]:
        return self._database.integers(self._table("timestamp"), "id value")

    def _names(
        self,
        table: str,
        columns: Sequence[str],
        ids: Ints,
        convert: Callable[[str], str] = str,
    ) -> Ints:
        """Return the codes of names from the first of `columns` that the table has."""
        texts = {-1: "event without a name"}
        for column in columns:
            unnamed = np.setdiff1d(ids, list(texts))
            texts |= self._database.texts_of(self._table(table), column, unnamed)
        noun = table.removeprefix("info_").replace("_", " ")
        return self._rows.names_by_id(
            lambda row_id: convert(texts.get(row_id, "")) or f"{noun} {row_id}", ids
        )


def _is_index(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 31


def _old_category(operation: str) -> str:
    """Return the category of an operation such as ``CopyDeviceToHost``."""
    if re.match(r"Copy|Fill", operation):
        return "gpu_memcpy" if operation[0] == "C" else "gpu_memset"
    return "gpu_sync" if re.match(r"Barrier|Marker|Signal", operation) else "kernel"


def _read_old(database: Database, rows: RocmRows) -> None:
    """Read a database of rocmProfileData, which has a table of links."""
    columns = database.integers("rocpd_op", "id gpuId queueId start end description_id opType_id")
    links = database.integers("rocpd_api_ops", "api_id op_id")
    calls = database.integers("rocpd_api", "id pid tid start end apiName_id args_id")
    description, kind = columns["description_id"], columns["opType_id"]
    text_ids = (description, kind, calls["apiName_id"], calls["args_id"])
    texts = database.texts_of("rocpd_string", "string", *text_ids)

    def name_of(text_id: int) -> str:
        return copy_name(texts.get(text_id) or "operation")

    add = rows.category.add
    if len(kind):
        described = [text_id for text_id, text in texts.items() if text]
        call = values_by_id(links["op_id"], links["api_id"], columns["id"])
        copies = database.integers("rocpd_copyapi", "api_ptr_id", optional="size")
        size_bytes = values_by_id(copies["api_ptr_id"], copies["size"], call)
        category = map_distinct(kind, lambda text_id: add(_old_category(texts.get(text_id, ""))))
        rows.add_work(
            start_ns=columns["start"], end_ns=columns["end"], category=category,
            name=rows.names_by_id(
                name_of, np.where(np.isin(description, described), description, kind)
            ),
            process=_processes_of_calls(call, calls, columns["gpuId"]),
            device=np.maximum(columns["gpuId"], 0), stream=columns["queueId"], correlation=call,
            size_bytes=np.where(category == add("gpu_memcpy"), size_bytes, -1),
        )  # fmt: skip
    marker_ids = [text_id for text_id, text in texts.items() if text == "UserMarker"]
    is_marker = np.isin(calls["apiName_id"], marker_ids)
    rows.add_calls(
        np.where(is_marker, add("user_annotation"), add("cuda_runtime")),
        start_ns=calls["start"], end_ns=calls["end"],
        name=rows.names_by_id(name_of, np.where(is_marker, calls["args_id"], calls["apiName_id"])),
        process=calls["pid"], pid=calls["pid"], tid=calls["tid"], correlation=calls["id"],
    )  # fmt: skip


def _processes_of_calls(call: Ints, calls: dict[str, Ints], gpu: Ints) -> Ints:
    """Return each operation's calling process, else its GPU's main process, else the first."""
    process = values_by_id(calls["id"], calls["pid"], call)
    used = pd.DataFrame({"gpu": gpu, "process": process})[process >= 0]
    usual = used.groupby("gpu")["process"].agg(lambda processes: processes.mode().iloc[0])
    first = calls["pid"].min() if len(calls["pid"]) else 0
    usual_of_gpu = usual.reindex(gpu, fill_value=first).to_numpy()
    return np.where(process >= 0, process, usual_of_gpu)

"""Reader of the database of Ascend's profiler, ``ascend_pytorch_profiler_N.db``.

Each device task has a global id, by which a second table lists names and shapes of compute tasks.
Collectives are rows of a third table, so their tasks are not counted::

    TASK               globalTaskId 7, 2.4 … 2.6 ms, stream 2, connectionId 936
    COMPUTE_TASK_INFO  globalTaskId 7, name → "Conv2D1"
    PYTORCH_API        "aten::conv2d", connectionId → CONNECTION_IDS → 936

If the device's own processor expands a collective, there are also scheduling tasks for it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hta_widgets.formats.ascend.trace_view import rank_of_folder
from hta_widgets.formats.event_rows import (
    EventRows,
    RankFacts,
    RowPlace,
    build_traces,
    device_properties,
    map_distinct,
    select_rows,
    values_by_id,
)
from hta_widgets.formats.kineto.ascend_rows import NO_WORK_CATEGORY, NOT_WORK
from hta_widgets.formats.steps import add_profiler_steps
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.ranks import is_rank
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import Ints

_TEXTS = "STRING_IDS"
_DEVICE_LABEL = "NPU {}"
_EVENTS = {"TASK", "COMMUNICATION_OP", "CANN_API", "PYTORCH_API"}
_TID_MASK = (1 << 32) - 1
#: Categories of PyTorch's rows, by a word in their type name. All other rows are operators.
_CATEGORIES = {"queue": "enqueue", "trace": "python_function", "python": "python_function",
               "mstx": "user_annotation"}  # fmt: skip
#: Type names, for databases that lack the table of type names.
_TYPES = {50002: "queue", 50003: "trace", 50004: "mstx"}
_COPY = re.compile(r"(PCIE_DMA|SDMA|MEMCPY|MEMSET)\w*")
_COMPUTE = re.compile(r"(AI_?|MIX_|KERNEL_|DSA|DVPP|AICPU)\w*")
#: Tasks that occur only in collectives.
_COLLECTIVE_TASK = re.compile(r"RDMA\w*|Notify[ _]Wait", re.IGNORECASE)
_COLLECTIVE = re.compile(r"hcom_([A-Za-z]+?)_{1,2}\w*")
#: c10d's name for each HCCL name, for collectives with equal counts of input and output.
_SAME_COUNT = {
    "allreduce": "allreduce", "broadcast": "broadcast", "reduce": "reduce", "send": "send",
    "receive": "recv",
}  # fmt: skip
#: Stream number of the first group. Groups themselves have no streams.
_FIRST_GROUP = 10_000
#: Element types such as ``FP32`` or ``FP8E4M3``, and c10d's names for their kinds.
_DTYPE = re.compile(r"(?P<kind>B?FP|U?INT)(?P<bits>\d+)(?P<layout>E\d\w*)?")
_KINDS = {"FP": "float", "BFP": "bfloat", "INT": "int", "UINT": "uint"}


def is_database(start: FileStart) -> bool:
    """Return whether a file has the tables of Ascend's profiler."""
    tables = start.tables
    return _TEXTS in tables and bool(tables & _EVENTS) and "StringIds" not in tables


def read_database(path: str, *, advance: Advance = None, **_: object) -> Outcome:
    """Read the rank of a database."""
    rows = EventRows(path)
    with Database(path, advance) as database:
        tables = _AscendTables(database, rows, rank_of_folder(path))
        tables.read_tasks()
        tables.read_collectives()
        tables.read_calls()
        tables.read_marks()
        tables.read_operators()
        tables.read_steps()
        database.report(rows.problems)
        record = "Record with torch_npu.profiler and export_type=ExportType.Db."
        return build_traces(rows, "ascend-db", tables.facts, record)


class _AscendTables:
    def __init__(self, database: Database, rows: EventRows, folder_rank: int | None) -> None:
        self._database, self._rows, self._folder_rank = database, rows, folder_rank
        self._tasks = database.integers(
            "TASK", "startNs endNs deviceId streamId", optional="connectionId globalTaskId taskType"
        )
        for key in ("deviceId", "streamId"):
            self._tasks[key] = np.maximum(self._tasks[key], 0)
        #: the tasks of collectives
        self._parts = database.integers("COMMUNICATION_TASK_INFO", "globalTaskId", optional="opId")
        self._devices: list[int] = np.unique(self._tasks["deviceId"]).tolist()
        detail = "the database has no table TASK: collectives are its only device work"
        self._rows.note("part", int("TASK" not in database.tables), detail)

    def facts(self, _process: int, device: int) -> RankFacts:
        pairs = self._database.rows("RANK_DEVICE_MAP", "deviceId rankId", kinds=(int, int))
        ranks = {device: rank for device, rank in pairs if is_rank(rank)}
        models = dict(self._database.rows("NPU_INFO", "id name"))
        hosts = self._database.rows("HOST_INFO", "hostName", kinds=(str,))
        host = hosts[0][0] if len(hosts) == 1 else None
        model = str(models.get(device, ""))
        properties = device_properties(device, name=model) if device >= 0 else {}
        return RankFacts(0, host, ranks.get(device, self._folder_rank), properties)

    def read_tasks(self) -> None:
        tasks = self._tasks
        task_ids, task_type = tasks["globalTaskId"], tasks["taskType"]
        computations, schedules = (
            self._database.integers(table, "globalTaskId name opType")
            for table in ("COMPUTE_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO")
        )
        named = {key: np.concatenate([computations[key], schedules[key]]) for key in schedules}
        name, op_type = (
            values_by_id(named["globalTaskId"], named[key], task_ids) for key in ("name", "opType")
        )
        is_compute = np.isin(task_ids, computations["globalTaskId"])
        is_part = np.isin(task_ids, self._parts["globalTaskId"])
        is_part |= np.isin(task_ids, schedules["globalTaskId"])
        texts = self._texts(task_type, name, op_type)
        add = self._rows.category.add
        category = map_distinct(task_type, lambda code: add(_category(texts.get(code, ""))))
        category[is_part] = add(NO_WORK_CATEGORY)
        category[is_compute] = add("kernel")
        is_unnamed = (category == add("kernel")) & (name < 0)
        self._rows.note("part", is_unnamed, "tasks without a name in the database; named by type")

        def args_of(task_code: int, op_code: int) -> dict[str, str]:
            args = {"Task Type": texts.get(task_code, "")}
            return args | {"op type": texts.get(op_code, "")} if op_code >= 0 else args

        device, stream = tasks["deviceId"], tasks["streamId"]
        self._rows.add(
            start_ns=tasks["startNs"], end_ns=tasks["endNs"], category=category,
            name=self._names(np.where(name >= 0, name, task_type), texts, "task"),
            place=self._rows.stream_codes(_DEVICE_LABEL, device, stream), device=device,
            stream=stream, correlation=_ids(tasks["connectionId"]),
            args=self._rows.args_by_row(args_of, task_type, op_type),
        )  # fmt: skip

    def read_collectives(self) -> None:
        """Read collectives, each as a single event on its group's track."""
        columns = self._database.integers(
            "COMMUNICATION_OP", "startNs endNs connectionId",
            optional="opName groupName dataType count deviceId opId",
        )  # fmt: skip
        if not len(columns["rowid"]):
            types = self._texts(self._tasks["taskType"])
            codes = [code for code, text in types.items() if _COLLECTIVE_TASK.fullmatch(text)]
            detail = "collective tasks whose collectives are missing: communication is unknown"
            self._rows.note("part", np.isin(self._tasks["taskType"], codes), detail)
        texts = self._texts(columns["opName"], columns["groupName"])
        dtypes = dict(self._database.rows("ENUM_HCCL_DATA_TYPE", "id name"))
        device = self._devices_of_collectives(columns)
        groups, group = np.unique(columns["groupName"], return_inverse=True)
        labels = [texts.get(code, f"group {number}") for number, code in enumerate(groups.tolist())]

        def place_of(device: int, group: int) -> RowPlace:
            npu, thread = _DEVICE_LABEL.format(device), f"{labels[group]} communication"
            return RowPlace(npu, str(_FIRST_GROUP + group), npu, thread)

        def args_of(name: int, group_name: int, dtype: int, count: int) -> dict[str, Any]:
            names = (texts.get(name, ""), texts.get(group_name, ""), str(dtypes.get(dtype, "")))
            return _collective_args(*names, count)

        args_columns = (columns[key] for key in ("opName", "groupName", "dataType", "count"))
        self._rows.add(
            start_ns=columns["startNs"], end_ns=columns["endNs"], category="kernel",
            place=self._rows.place_codes(place_of, device, group),
            name=self._names(columns["opName"], texts, "hcom_collective"), device=device,
            stream=_FIRST_GROUP + group, correlation=_ids(columns["connectionId"]),
            args=self._rows.args_by_row(args_of, *args_columns),
        )  # fmt: skip

    def _devices_of_collectives(self, columns: dict[str, Ints]) -> Ints:
        """Return each collective's device: as stated, else from its tasks, else the first one."""
        tasks, parts = self._tasks, self._parts
        task_device = tasks["deviceId"]
        part_device = values_by_id(tasks["globalTaskId"], task_device, parts["globalTaskId"])
        devices = (
            columns["deviceId"],
            values_by_id(parts["opId"], part_device, columns["opId"]),
            values_by_id(_ids(tasks["connectionId"]), task_device, _ids(columns["connectionId"])),
        )
        device = np.select([column >= 0 for column in devices], devices, -1)
        is_unknown = device < 0
        if len(self._devices) > 1:
            first = _DEVICE_LABEL.format(self._devices[0])
            detail = f"collectives without a device; assigned to {first}"
            self._rows.note("repaired", is_unknown, detail)
        return np.where(is_unknown, (self._devices or [0])[0], device)

    def read_calls(self) -> None:
        """Read CANN calls. A call within an operator has no link, because the operator has it."""
        columns = self._database.integers("CANN_API", "startNs endNs globalTid connectionId name")
        ids = _ids(columns["connectionId"])
        is_in_operator = np.isin(ids, self._connections()["connectionId"])
        self._add_calls(columns, "cuda_runtime", np.where(is_in_operator, -1, ids))

    def read_operators(self) -> None:
        """Read PyTorch's operators, functions and ranges."""
        columns = self._database.integers(
            "PYTORCH_API", "startNs endNs globalTid name",
            optional="connectionId sequenceNumber inputShapes inputDtypes type",
        )  # fmt: skip
        type_names = dict(self._database.rows("ENUM_API_TYPE", "id name"))

        def category_of(type_: int) -> int:
            name = str(type_names.get(type_) or _TYPES.get(type_, "")).lower()
            categories = (category for word, category in _CATEGORIES.items() if word in name)
            return self._rows.category.add(next(categories, "cpu_op"))

        connections = self._connections()
        ids = _ids(connections["connectionId"])
        links = values_by_id(connections["id"], ids, columns["connectionId"])
        categories = map_distinct(columns["type"], category_of)
        self._add_calls(columns, categories, links, args=self._operator_args(columns))

    def read_steps(self) -> None:
        """Read each device's steps, unless ranges mark the steps."""
        rows = self._database.rows("STEP_TIME", "id startNs endNs", kinds=(int, int, int))
        if any(name.startswith("ProfilerStep#") for name in self._rows.name.values):
            return
        steps = [row for row in rows if all(0 <= value < 1 << 62 for value in row)]
        numbers, start_ns, end_ns = np.array(steps, np.int64).reshape(-1, 3).T
        place = self._rows.place("host", "0", "host", "Steps")
        for device in self._devices if steps else []:
            times_ns = {"start_ns": start_ns, "end_ns": end_ns}
            add_profiler_steps(self._rows, numbers, **times_ns, place=place, target=device)

    def read_marks(self) -> None:
        columns = self._database.integers(
            "MSTX_EVENTS", "startNs endNs globalTid message connectionId"
        )
        self._add_calls(columns | {"name": columns["message"]}, "user_annotation", -1)

    def _add_calls(
        self, columns: dict[str, Ints], category: str | Ints, correlation: int | Ints, args: Any = 0
    ) -> None:
        self._rows.add(
            start_ns=columns["startNs"], end_ns=columns["endNs"], category=category,
            name=self._names(columns["name"], self._texts(columns["name"]), "call"),
            place=self._rows.place_codes(_thread_place, columns["globalTid"]),
            correlation=correlation, args=args,
        )  # fmt: skip

    def _operator_args(self, columns: dict[str, Ints]) -> Ints:
        texts = self._texts(columns["inputShapes"], columns["inputDtypes"])

        def args_of(sequence: int, shapes: int, dtypes: int) -> dict[str, Any]:
            args = {
                "Sequence number": sequence if sequence >= 0 else None,
                "Input Dims": _shape_lists(texts.get(shapes)),
                "Input type": texts[dtypes].split(";") if texts.get(dtypes) else None,
            }
            return {key: value for key, value in args.items() if value is not None}

        keys = ("sequenceNumber", "inputShapes", "inputDtypes")
        return self._rows.args_by_row(args_of, *(columns[key] for key in keys))

    def _connections(self) -> dict[str, Ints]:
        columns = self._database.integers("CONNECTION_IDS", "id connectionId")
        is_of_task = np.isin(columns["connectionId"], self._tasks["connectionId"])
        return select_rows(columns, is_of_task)

    def _texts(self, *codes: Ints) -> dict[int, str]:
        return self._database.texts_of(_TEXTS, "value", *codes)

    def _names(self, codes: Ints, texts: dict[int, str], default: str) -> Ints:
        return self._rows.names_by_id(lambda code: texts.get(code, default), codes)


def _ids(connection: Ints) -> Ints:
    """Return connections as correlation ids. The profiler writes 2^32 - 1 if there is none."""
    return np.where((connection > 0) & (connection < _TID_MASK), connection, -1)


def _thread_place(thread: int) -> RowPlace:
    tid = thread & _TID_MASK
    return RowPlace(str(thread >> 32), str(tid), "python", f"thread {tid}")


def _category(task_type: str) -> str:
    if _COPY.fullmatch(task_type) and not NOT_WORK.fullmatch(task_type):
        return "gpu_memcpy"
    return "kernel" if _COMPUTE.fullmatch(task_type) else NO_WORK_CATEGORY


def _collective_args(name: str, group: str, data_type: str, count: int) -> dict[str, Any]:
    args: dict[str, Any] = {"Process Group Name": group, "data type": data_type, "count": count}
    match = _COLLECTIVE.fullmatch(name)
    if match is None:
        return args
    operation = match[1].lower()
    args["Collective name"] = _SAME_COUNT.get(operation, operation)
    dtype = _DTYPE.fullmatch(data_type.upper())
    if operation in _SAME_COUNT and dtype is not None and count >= 0:
        layout = f"_{dtype['layout'].lower()}" if dtype["layout"] else ""
        args["dtype"] = _KINDS[dtype["kind"]] + dtype["bits"] + layout
        args |= {"In msg nelems": count, "Out msg nelems": count}
    return args


def _shape_lists(text: str | None) -> list[list[int]] | None:
    """Return shapes such as ``"8,3;8"`` as lists."""
    if not text or not re.fullmatch(r"[\d,;\s]*", text):
        return None
    return [[int(size) for size in shape.split(",") if size.strip()] for shape in text.split(";")]

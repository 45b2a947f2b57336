"""Writes databases of Ascend's profiler, with its schema of 2025."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

EPOCH_NS = 1_736_410_576_000_000_000
SECRET = "hunter2-token"
_TABLES = {
    "TASK": "startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, streamId",
    "COMPUTE_TASK_INFO": "name, globalTaskId, taskType, opType, blockDim, inputShapes, waitNs",
    "COMMUNICATION_TASK_INFO": "name, globalTaskId, taskType, planeId",
    "COMMUNICATION_OP": "opName, startNs, endNs, connectionId, groupName, opId, dataType, count",
    "CANN_API": "startNs, endNs, type, globalTid, connectionId, name",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid, connectionId, name, sequenceNumber,"
    " inputShapes, inputDtypes, type",
    "CONNECTION_IDS": "id, connectionId",
    "RANK_DEVICE_MAP": "rankId, deviceId",
    "NPU_INFO": "id, name",
    "HOST_INFO": "hostUid, hostName",
    "ENUM_HCCL_DATA_TYPE": "id, name",
    "ENUM_API_TYPE": "id, name",
    "META_DATA": "name, value",
    "STEP_TIME": "id, startNs, endNs",
}


def write_ascend_database(
    path: Path, *, rank: int = 0, late_ns: int = 0, marks: bool = True
) -> Path:
    """Write one step: a matrix product, a copy, and an all-reduce that ranks end together."""
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts) + 1)

    def at(us: int) -> int:
        return EPOCH_NS + 1000 * us

    late, thread = late_ns // 1000, (77 << 32) + 78
    none = (1 << 32) - 1
    work = late + 100
    rows = {
        "TASK": [
            (at(work), at(work + 50), rank, 11, 1, 0, text("AI_CORE"), 2),
            (at(work + 50), at(work + 60), rank, 12, 2, 0, text("PCIE_DMA_SQE"), 2),
            (at(work + 60), at(400), rank, none, 3, 0, text("SDMA"), 4),
            (at(work + 60), at(399), rank, none, 4, 0, text("Notify Wait"), 4),
            (at(401), at(402), rank, none, 5, 0, text("EVENT_RECORD_SQE"), 2),
        ],
        "COMPUTE_TASK_INFO": [
            (text("aclnnMm_MatMul"), 1, text("AI_CORE"), text("MatMul"), 8, 0, 0)
        ],
        "COMMUNICATION_TASK_INFO": [(text("SDMA"), 3, 0, 0), (text("Notify_Wait"), 4, 0, 0)],
        "COMMUNICATION_OP": [
            (
                text("hcom_allReduce__586_0_1"),
                at(work + 60),
                at(400),
                13,
                text("group 586"),
                1,
                4,
                1024,
            )
        ],
        "CANN_API": [
            (at(work - 40), at(work - 30), 1, thread, 11, text("launch")),
            (at(work - 20), at(work - 18), 1, thread, 13, text("HcclAllReduce")),
        ],
        "PYTORCH_API": [
            (
                at(work - 50),
                at(work - 25),
                thread,
                1,
                text("aten::mm"),
                5,
                text("8,3;3,4"),
                text("float;float"),
                1,
            ),
            (at(work - 60), at(work - 10), thread, -1, text("train.py(3): step"), -1, 0, 0, 3),
            *(
                [(at(0), at(500), thread, -1, text("ProfilerStep#50"), -1, 0, 0, 1)]
                if marks
                else []
            ),
        ],
        "CONNECTION_IDS": [(1, 900), (1, 11)],
        "RANK_DEVICE_MAP": [(rank, rank)],
        "NPU_INFO": [(rank, "Ascend910B")],
        "HOST_INFO": [("0", "host7")],
        "ENUM_HCCL_DATA_TYPE": [(4, "FP32")],
        "ENUM_API_TYPE": [(1, "op"), (2, "queue"), (3, "trace")],
        "META_DATA": [("ENV_VARIABLES", SECRET)],
        "STEP_TIME": [(50, at(0), at(500))],
    }
    rows["STRING_IDS"] = [(code, value) for value, code in texts.items()]
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for table, columns in {**_TABLES, "STRING_IDS": "id INTEGER PRIMARY KEY, value"}.items():
            database.execute(f"create table {table} ({columns})")
            for row in rows[table]:
                database.execute(f"insert into {table} values ({','.join('?' * len(row))})", row)
        database.commit()
    return path

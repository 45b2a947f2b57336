"""Compare the time to load an Nsight Systems export with that for JSON of the same events.

    python benchmarks/databases.py [--events 1000000] [--repeat 3]

A process with one device launches each kernel with a separate call. The same events are written to
SQLite tables and to JSON. Both files are loaded without the cache on one core.
"""

import argparse
import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import _harness as harness
from _harness import DATA

JSON_ROW, SQLITE_ROW = "Kineto JSON", "Nsight SQLite"
NAMES = 200
PROCESS = 1 << 48 | 4000 << 24
TABLES = """
create table StringIds (id integer primary key, value text);
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer,
  contextId integer, streamId integer, correlationId integer, globalPid integer,
  demangledName integer, shortName integer, registersPerThread integer, gridX integer,
  gridY integer, gridZ integer, blockX integer, blockY integer, blockZ integer,
  staticSharedMemory integer, dynamicSharedMemory integer, graphNodeId integer);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer,
  globalTid integer, correlationId integer, nameId integer, returnValue integer);
insert into StringIds values (0, 'cudaLaunchKernel_v7000');
insert into TARGET_INFO_SESSION_START_TIME values (1780000000000000000);
"""


def write_database(path: Path, count: int) -> None:
    """Write an export with `count` kernels and one call for each."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        names = ((code, f"kernel_{code}<int>") for code in range(1, NAMES + 1))
        database.executemany("insert into StringIds values (?, ?)", names)
        kernels = (
            (n * 5000 + 3000, n * 5000 + 6000, 0, 1, 7, n + 1, PROCESS, n % NAMES + 1,
             n % NAMES + 1, 32, 64, 1, 1, 128, 1, 1, 0, 0, None)
            for n in range(count)
        )  # fmt: skip
        slots = ",".join("?" * 19)
        database.executemany(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({slots})", kernels)
        calls = ((n * 5000, n * 5000 + 1500, 0, PROCESS + 4001, n + 1, 0, 0) for n in range(count))
        slots = ",".join("?" * 7)
        database.executemany(f"insert into CUPTI_ACTIVITY_KIND_RUNTIME values ({slots})", calls)
        database.commit()


def write_json(path: Path, count: int) -> None:
    """Write the same events in the format of PyTorch's profiler."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1780000000000000000,\n')
        file.write('"traceEvents": [{}')
        for n in range(count):
            kernel = {
                "ph": "X", "cat": "kernel", "name": f"kernel_{n % NAMES + 1}<int>", "pid": 0,
                "tid": 7, "ts": n * 5 + 3, "dur": 3, "args": {
                    "device": 0, "stream": 7, "correlation": n + 1, "grid": [64, 1, 1],
                    "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0},
            }  # fmt: skip
            call = {
                "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4000,
                "tid": 4001, "ts": n * 5, "dur": 1.5, "args": {"correlation": n + 1},
            }  # fmt: skip
            file.write(f",\n{json.dumps(kernel)},\n{json.dumps(call)}")
        file.write("]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="number of device events")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    cases = {}
    for row, write, name in (
        (JSON_ROW, write_json, f"events-{options.events}.json"),
        (SQLITE_ROW, write_database, f"events-{options.events}.sqlite"),
    ):
        path = DATA / name
        if not path.exists():
            write(path, options.events)
        work = f"hw.load({str(path)!r}, cache=False, progress=False)"
        setup = "import hta_widgets as hw; hw.load"
        cases[row] = (partial(harness.run_code, setup, work, core=0), options.repeat)
    facts = harness.machine()
    print(harness.describe(facts))
    print(harness.table(harness.measure(cases), JSON_ROW))


if __name__ == "__main__":
    main()

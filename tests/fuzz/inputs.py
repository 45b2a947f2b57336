"""Damaged trace files: small samples of every format and shared cases, with changed bytes."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.ascend_database import write_ascend_database
from support.flight_dumps import write_hang
from support.memory_snapshots import write_snapshot
from support.nsight_export import write_export
from support.recorded import SHARED
from support.rocm_files import rocprof_json, write_rocpd, write_rpd
from support.small import call, copy, event, kernel, nccl
from support.xplane_profile import gpu_profile, tpu_profile

import hta_widgets as hw
from hta_widgets.demo import write_byteps_job, write_mpi_job
from hta_widgets.trace.merged_format import ExportPart

#: Files by their path in the loaded folder.
Sample = dict[str, bytes]
#: A function that changes the text of a file.
Change = Callable[[random.Random, bytes], bytes]

#: Unlikely but valid JSON, and nearly valid JSON, used to replace any value.
NASTY = (
    *("null", "true", "false", "0", "-0", "1", "-1", "1.5", "-1.5", "1e3", "1e-9", "0.0005"),
    *(str(sign * (1 << bits) + one) for bits in (31, 32, 53, 62, 63, 64) for sign in (1, -1)
      for one in (-1, 0, 1)),
    *("1e15", "3.4e15", "9.2e15", "-9.2e15", "1e18", "1e300", "1e999", "1e999999999", "9" * 5000),
    *("NaN", "Infinity", "-Infinity", "01", "1.", "+1", "0x10", "1_000"),
    *('""', '"x"', '"7"', '"-1"', '"1e5"', '"²"', r'"\ud800"', r'"\q"', r'"\u0000"', '"\t"'),
    *('"' + "a" * 20_000 + '"', '"=1+1"', '"</script>"', '"../../x"', '"Comm.a"', '"push-9"'),
    *("[]", "{}", "[1]", "[[]]", '{"a": 1}', '{"rank": 1}', "[null]", '[{"ranks": 1}]', "[" * 50),
    *("[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000),
)  # fmt: skip
TOP = ("distributedInfo", "hta_widgets", "baseTimeNanoseconds", "deviceProperties", "traceEvents",
       "schemaVersion", "displayTimeUnit", "rank", "stackFrames", "", "__class__")  # fmt: skip
#: Templates for top-level values; `@` stands for a nasty value.
SHAPES = (
    '{"rank": @, "world_size": @, "backend": @, "pg_config": @}',
    '{"pg_config": [{"pg_name": @, "pg_desc": @, "pg_size": @, "ranks": @}]}',
    '{"merged": 1, "ranks": [{"rank": @, "metadata": @, "shift_ns": @}]}',
    '{"identity": {"worker": @, "local_rank": @, "server": @, "job": @}, "clock": @}',
    json.dumps({"part": {field.name: "@" for field in fields(ExportPart)}}).replace('"@"', "@"),
)
#: Words from text formats and from fields that readers parse.
WORDS = (b'"ph": "B"', b'"ph": "E"', b'"ph": "b"', b'"ph": "e"', b'"ph": "s"', b'"ph": "f"',
         b'"ph": "i"', b'"ph": "C"', b'"ph": "M"', b"MPI_Allreduce", b"Data for MPI rank 0 of 2:",
         b"]", b"}", b'"', b"\\", b"\0", b"\xff\xfe", b"\x1f\x8b", b"\n", b",")  # fmt: skip
SQL_VALUES = (
    *("null", "0", "-1", "1", "1.5", "1e300", "'x'", "'1,2'", "''", "x'00'", "x'ff'", "rowid"),
    *(str(sign * (1 << bits) - (sign < 0)) for bits in (24, 31, 48, 53, 62) for sign in (1, -1)),
    *("9223372036854775807", "-9223372036854775807 - 1", "hex(zeroblob(5000))"),
    *("'iteration 5'", "'aten::mm, op_id = 2, sizes = [[['", "'</script>'", "zeroblob(40)"),
    *("char(0)", "cast(x'80ff' as text)", "0x7fffffffffff"),
)

#: From this seed on, inputs also have structural changes; earlier seeds keep their inputs.
STRUCTURAL_FROM = 1_795_700_000_000
#: From this seed on, inputs include the shared cases from public reports.
CASES_FROM = 1_795_897_000_000
#: From this seed on, 20 % of the inputs are databases.
DATABASES_FROM = 1_795_930_000_000
#: From this seed on, inputs also have long names and documents with different base times.
LONG_NAMES_FROM = 1_795_950_000_000
#: From this seed on, a third of the inputs are PyTorch dumps.
DUMPS_FROM = 1_795_980_000_000
#: Texts longer than this are not changed further, because changes may repeat them.
MAX_CHANGED_BYTES = 4 << 20
DUMPS = ("flight-recorder", "flight-json", "memory-snapshot")
#: From this seed on, a quarter of the inputs are files of other profilers.
PROFILERS_FROM = 1_795_990_000_000
DATABASE = "nsight"
PROFILERS = ("xplane", "tpu", "rocprof-json", "rocpd", "rpd", "ascend-db")
_DATABASES = (DATABASE, *PROFILERS[3:])


@cache
def cases() -> dict[str, Sample]:
    """Return the shared cases, one per folder with files; empty without shared data."""
    root = SHARED.parent / "cases"
    folders = sorted({path.parent for path in root.rglob("*") if path.parent != root})
    return {
        f"case-{folder.relative_to(root)}".replace("/", "-"): sample
        for folder in folders
        if (sample := {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})
    }


@cache
def samples() -> dict[str, Sample]:
    """Return a small job in every format, and exports of this package."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        job = {f"rank-{rank}.json": _kineto(rank) for rank in (0, 1)}
        for path, text in job.items():
            (folder / "job" / path).parent.mkdir(exist_ok=True)
            (folder / "job" / path).write_bytes(text)
        traces = hw.load(folder / "job", cache=False, progress=False)
        hw.export_trace(traces, folder / "merged.json", counters=True)
        half = traces.select(start_ns=2_000, end_ns=40_000)
        hw.export_trace(traces, folder / "clipped", half, clip=True)
        write_byteps_job(
            folder / "byteps", 1, 1, 1, 2, None, gradients=2, first_step=1, truth_path=folder / "t"
        )
        write_mpi_job(folder / "mpi", ranks=2, steps=1, truth_path=folder / "t")
        line = {path.name: path.read_bytes()[: 48 * 60] for path in (folder / "mpi").glob("*.trc")}
        profiles = {path.name: path.read_bytes() for path in (folder / "mpi").glob("mpi_*")}
        return {
            "kineto": job,
            "gzip": {"rank-0.json.gz": gzip.compress(job["rank-0.json"], mtime=0)},
            "merged": {"merged.json": (folder / "merged.json").read_bytes()},
            "clipped": _tree(folder / "clipped"),
            "byteps": _tree(folder / "byteps"),
            "mpi-profile": profiles,
            "mpi-trace": line,
            "mixed": {**job, **line},
            "flight-recorder": _tree(write_hang(folder / "flight")),
            "flight-json": _tree(write_hang(folder / "flight-json", as_json=True)),
            "memory-snapshot": {"a.pickle": write_snapshot(folder / "a.pickle").read_bytes()},
            "xplane": {"a.xplane.pb": gpu_profile()},
            "tpu": {"a.xplane.pb": tpu_profile()},
            "rocprof-json": {"1_results.json": json.dumps(rocprof_json(3, 2)).encode()},
            "rocpd": {"a.db": write_rocpd(folder / "a.db").read_bytes()},
            "rpd": {"a.rpd": write_rpd(folder / "a.rpd").read_bytes()},
            "ascend-db": {"b.db": write_ascend_database(folder / "b.db").read_bytes()},
            DATABASE: {"a.sqlite": write_export(folder / "a.sqlite").read_bytes()},
        }


def _tree(folder: Path) -> Sample:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _kineto(rank: int) -> bytes:
    """Return a rank of two steps with every kind of record."""
    at: dict[str, Any] = {"pid": 10, "tid": 1}
    group = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 64,
             "Out msg nelems": 64, "Group size": 2, "Process Group Name": "0",
             "Process Group Ranks": "[0, 1]"}  # fmt: skip
    records: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
        {"ph": "M", "name": "thread_sort_index", "pid": 10, "tid": 1, "args": {"sort_index": 3}},
        event("user_annotation", "ProfilerStep#4", 0, 30_000, pid=10),
        event("user_annotation", "ProfilerStep#5", 30_000, 60_000, pid=10),
    ]
    for step in (0, 30_000):
        first = step // 1000 + 1
        records += [
            event("cpu_op", "aten::mm", step + 500, step + 4_000, pid=10, **{"External id": first}),
            call(step + 1_000, step + 2_000, first),
            call(step + 2_500, step + 3_000, first + 1, name="cudaMemcpyAsync"),
            kernel(step + 3_000, step + 9_000 + rank, launch=first, **{"External id": first}),
            copy(step + 9_500, step + 11_000, launch=first + 1, bytes=4096),
            event("cpu_op", "c10d::allreduce_", step + 4_500, step + 6_000, pid=10),
            call(step + 5_000, step + 5_500, first + 2),
            nccl(step + 8_000 + rank * 500, step + 14_000, launch=first + 2, **group),
            call(step + 15_000, step + 20_000, name="cudaDeviceSynchronize"),
            {"ph": "s", "id": first, "cat": "ac2g", "name": "ac2g", "ts": step / 1000 + 1, **at},
            {"ph": "f", "id": first, "cat": "ac2g", "name": "ac2g", "ts": step / 1000 + 3, "pid": 0,
             "tid": 7, "bp": "e"},
            {"ph": "C", "name": "memory", "ts": step / 1000 + 2, **at, "args": {"used": step}},
            {"ph": "i", "s": "p", "name": "[memory]", "ts": step / 1000 + 2, **at,
             "args": {"Bytes": 512, "Device Type": 1, "Device Id": 0, "Total Allocated": 4096}},
            {"ph": "b", "id": first, "cat": "io", "name": "read", "ts": step / 1000 + 1, **at},
            {"ph": "e", "id": first, "cat": "io", "name": "read", "ts": step / 1000 + 5, **at},
            {"ph": "B", "name": "forward", "ts": step / 1000 + 21, **at},
            {"ph": "E", "name": "forward", "ts": step / 1000 + 25, **at},
        ]  # fmt: skip
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 1 << 36}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": [
            {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2,
             "ranks": [0, 1]}]},
        "traceEvents": records,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceName": "/home/user/trace.json",
    }  # fmt: skip
    return json.dumps(head).encode()


def damaged(seed: int) -> tuple[str, Sample]:
    """Return the name of a sample and its files, some of them changed; a seed gives one input."""
    draw = random.Random(seed)
    choices = samples() | (cases() if seed >= CASES_FROM else {})
    others = (DATABASE, *DUMPS, *PROFILERS)
    name = draw.choice([name for name in choices if name not in others])
    if seed >= DATABASES_FROM and draw.random() < 0.2:
        name = DATABASE
    if seed >= DUMPS_FROM and draw.random() < 0.33:
        name = draw.choice(DUMPS)
    if seed >= PROFILERS_FROM and draw.random() < 0.25:
        name = draw.choice(PROFILERS)
    files = dict(choices[name])
    path = draw.choice(list(files))
    text = files[path]
    packed = path.endswith(".gz") and draw.random() < 0.5
    if packed:
        text = gzip.decompress(text)
    changes: tuple[Change, ...] = (_bytes, _fields, _fields, _top)
    if seed >= STRUCTURAL_FROM:
        changes = (*changes, *STRUCTURAL, *STRUCTURAL)
    if seed >= LONG_NAMES_FROM:
        changes = (*changes, _append_other_base, _lengthen_name)
    if name in ("xplane", "tpu"):
        changes = (_bytes,)
    if name in _DATABASES:
        changes = (_rows, _rows, _rows, _bytes)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if len(text) > MAX_CHANGED_BYTES:
            break
        change = draw.choice(changes)
        with contextlib.suppress(ValueError, IndexError):  # nothing to change
            text = change(draw, text)
    files[path] = gzip.compress(text, mtime=0) if packed else text
    return name, files


def _bytes(draw: random.Random, text: bytes) -> bytes:
    """Flip, remove, repeat, move or insert some bytes, or truncate the text."""
    at = draw.randrange(len(text) + 1)
    size = draw.choice((1, 1, 2, 8, 64, 1000))
    part, rest = text[at : at + size], text[at + size :]
    match draw.randrange(6):
        case 0:
            return text[:at] + bytes(byte ^ (1 << draw.randrange(8)) for byte in part) + rest
        case 1:
            return text[:at] + rest
        case 2:
            return text[:at] + part * draw.choice((2, 3, 50)) + rest
        case 3:
            to = draw.randrange(len(text) + 1)
            return (text[:at] + rest)[:to] + part + (text[:at] + rest)[to:]
        case 4:
            return text[:at] + draw.choice((*WORDS, draw.choice(NASTY).encode())) + text[at:]
        case _:
            return text[:at]


def _rows(draw: random.Random, text: bytes) -> bytes:
    """Change values, columns or tables of a database; an unreadable one keeps its bytes."""
    connected = contextlib.closing(sqlite3.connect(":memory:"))
    with connected as database, contextlib.suppress(sqlite3.Error, MemoryError):
        database.deserialize(text)
        table, column = draw.choice(_columns(database))
        value = draw.choice((*SQL_VALUES, f"(select {column} from {table} limit 1)"))
        some = f"rowid % {draw.choice((1, 2, 5, 50))} = 0"
        statement = draw.choice(
            (
                *(f"update {table} set {column} = {value} where {some}",) * 8,
                f"delete from {table} where {some}",
                f"insert into {table} select * from {table}",
                f"alter table {table} rename column {column} to other",
                f"alter table {table} drop column {column}",
                f"drop table {table}",
                f"update {table} set rowid = rowid * 1000000007",
            )
        )
        database.execute(statement)
        database.commit()
        return database.serialize()
    return text


def _columns(database: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = database.execute("select name from sqlite_master where type = 'table'").fetchall()
    return [
        (table, row[1])
        for (table,) in tables
        for row in database.execute(f"pragma table_info({table})")
    ]


_VALUE = re.compile(rb'(?<=[:\[,\s])(?:"[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false|null)')


def _fields(draw: random.Random, text: bytes) -> bytes:
    """Replace a value or key, sometimes all occurrences."""
    result = list(_VALUE.finditer(text))
    match = draw.choice(result)
    nasty = draw.choice(NASTY).encode()
    if draw.random() < 0.15:
        nasty = draw.choice(result)[0]
    if draw.random() < 0.15 and len(match[0]) > 1:
        return text.replace(match[0], nasty)
    return text[: match.start()] + nasty + text[match.end() :]


def _top(draw: random.Random, text: bytes) -> bytes:
    """Add a top-level key as the first or last one."""
    shape = draw.choice((*SHAPES, "@", "@"))
    while "@" in shape:
        shape = shape.replace("@", draw.choice(("0", "1", *NASTY)), 1)
    key = f"{json.dumps(draw.choice(TOP))}: {shape}".encode()
    if draw.random() < 0.5:
        at = text.index(b"{") + 1
        return text[:at] + key + b", " + text[at:]
    at = text.rindex(b"}")
    return text[:at] + b", " + key + text[at:]


_PAIR = re.compile(rb'"([A-Za-z_][^"\\]*)"\s*:\s*("[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false|null)')
_KEY = re.compile(rb'"([A-Za-z_][^"\\]*)"(?=\s*:)')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(-?[0-9]+)')
_NAME = re.compile(rb'"name"\s*:\s*"([^"\\]*)"')
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[(.*)\]', re.DOTALL)


def _duplicate_key(draw: random.Random, text: bytes) -> bytes:
    """Repeat a key of an object with another value."""
    match = draw.choice(list(_PAIR.finditer(text)))
    other = draw.choice((match[2], draw.choice(NASTY).encode()))
    pair = b'"%s": %s, ' % (match[1], other)
    return text[: match.start()] + pair + text[match.start() :]


def _escape_key(draw: random.Random, text: bytes) -> bytes:
    """Escape a letter of a key, sometimes in all occurrences."""
    match = draw.choice(list(_KEY.finditer(text)))
    name, at = match[1].decode(), draw.randrange(len(match[1]))
    digits = draw.choice(("%04x", "%04X")) % ord(name[at])
    escaped = f'"{name[:at]}\\u{digits}{name[at + 1 :]}"'.encode()
    if draw.random() < 0.3:
        return text.replace(match[0], escaped)
    return text[: match.start()] + escaped + text[match.end() :]


def _nest(draw: random.Random, text: bytes) -> bytes:
    """Put the document into another document or a list."""
    key = json.dumps(draw.choice((*TOP, "args", "x"))).encode()
    match draw.randrange(5):
        case 0:
            return b"[" + text + b"]"
        case 1:
            return b"{" + key + b": " + text + b"}"
        case 2:
            return b"{" + key + b": " + text + b", " + text.lstrip()[1:]
        case 3:
            return text.rstrip()[:-1] + b", " + key + b": " + text + b"}"
        case _:
            match = draw.choice(list(_PAIR.finditer(text)))
            return text[: match.start(2)] + text + text[match.end(2) :]


def _concatenate(draw: random.Random, text: bytes) -> bytes:
    """Append the document or a part of it to itself."""
    between = draw.choice(
        (b"", b"\n", b",", b"\0", b"\xef\xbb\xbf", b"]", b"}", b"garbage", b"{" * 500)
    )
    again = text[: draw.randrange(len(text) + 1)] if draw.random() < 0.3 else text
    return between.join((text, *(again,) * draw.choice((1, 1, 2, 5))))


def _repeat_list(draw: random.Random, text: bytes) -> bytes:
    """Repeat the list of events: the whole list, an empty one, or another value."""
    match = draw.choice(list(_LIST.finditer(text)))
    values = (b"[" + match[1] + b"]", b"[]", b"null", b"{}", b'"x"', b"[1, 2]", b"[[")
    for _ in range(draw.choice((1, 1, 2, 150))):
        pair = b'"traceEvents": ' + draw.choice(values if len(text) < 1 << 20 else values[1:])
        at = draw.choice((match.start(), match.end()))
        text = text[:at] + (pair + b", " if at == match.start() else b", " + pair) + text[at:]
        match = draw.choice(list(_LIST.finditer(text)))
    return text


def _append_other_base(draw: random.Random, text: bytes) -> bytes:
    """Append the document with another base time, or with none."""
    match = draw.choice(list(_BASE.finditer(text)))
    base = draw.choice((b"0", b"1700000000000000500", b"1800000000000000000", b"-5", b"null"))
    return text + b"\n" + text[: match.start(1)] + base + text[match.end(1) :]


def _lengthen_name(draw: random.Random, text: bytes) -> bytes:
    """Repeat a name until it has up to 1 MB."""
    match = draw.choice(list(_NAME.finditer(text)))
    size = draw.choice((5_000, 40_000, 1_000_000))
    name = (match[1] + draw.choice((b"", b"<", b"(", b"_", b"::", b" "))) or b"x"
    return text[: match.start(1)] + name * (size // len(name)) + text[match.end(1) :]


STRUCTURAL: tuple[Change, ...] = (_duplicate_key, _escape_key, _nest, _concatenate, _repeat_list)

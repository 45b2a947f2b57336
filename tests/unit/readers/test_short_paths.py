"""User names in paths and secrets, planted in files of each format, reach no output.

Secrets in `support` files, in environments and command lines, start with the user's name.
"""

import json
import sqlite3
from contextlib import closing

import pytest
from support import xplane_profile as xplane
from support.ascend_database import write_ascend_database
from support.flight_dumps import dump, entry, write_dumps
from support.memory_snapshots import T0, block, segment, write_snapshot
from support.nsight_export import write_export
from support.outputs import records_of, unpacked_outputs
from support.rocm_files import rocprof_json, write_rocpd, write_rpd

import hta_widgets as hw
from hta_widgets.trace.short_paths import shorten_paths, shorten_record

USER = "hunter2"
PATHS = rf" /home/{USER}/a.py;C:\Users\{USER} x\b.py ~{USER} /data/{USER}/c.py(3) (/Users/{USER})"


def plant_in_tables(path, *columns):
    with closing(sqlite3.connect(path)) as database:
        for table, column in columns:
            database.execute(f'update "{table}" set {column} = {column} || ?', (PATHS,))
        database.commit()


def ascend_json(folder):
    threads = [
        {"ph": "M", "name": f"{what}_name", "pid": 2, "tid": 2, "args": {"name": name}}
        for what, name in (("process", "Ascend Hardware"), ("thread", "Stream 2" + PATHS))
    ]
    call = {
        "ph": "X",
        "cat": "python_function",
        "name": "f" + PATHS,
        "pid": 1,
        "tid": 9,
        "ts": "1000.250",
        "dur": 20,
        "args": {"Call stack": f"{PATHS};\r\n{PATHS}"},
    }
    kernel = {
        "ph": "X",
        "name": "MatMul",
        "pid": 2,
        "tid": 2,
        "ts": "1030.500",
        "dur": 40.25,
        "args": {"Task Type": "AI_CORE", "Call stack": "/root/f.py(3): f" + PATHS},
    }
    counter = {"ph": "C", "name": "c" + PATHS, "pid": 1, "ts": "1001.000", "args": {"v": 1}}
    events = [*threads, call, kernel, counter]
    (folder / "trace_view.json").write_text(json.dumps(events))


def ascend_db(folder):
    path = write_ascend_database(folder / "ascend_pytorch_profiler_0.db")
    plant_in_tables(path, ("STRING_IDS", "value"))


def nsight(folder):
    path = write_export(folder / "report.sqlite", ranks=1)
    tables = [("StringIds", "value"), ("PROCESSES", "name"), ("DIAGNOSTIC_EVENT", "text")]
    plant_in_tables(path, *tables, ("TARGET_INFO_GPU_METRICS", "metricName"))
    with closing(sqlite3.connect(path)) as database:
        database.execute("update NVTX_EVENTS set text = text || ? where domainId = 0", (PATHS,))
        database.commit()


def rocpd(folder):
    path = write_rocpd(folder / "900_results.db")
    plant_in_tables(path, ("rocpd_string_0000aaa", "string"))
    plant_in_tables(path, ("rocpd_info_kernel_symbol_0000aaa", "display_name"))
    plant_in_tables(path, ("rocpd_info_thread_0000aaa", "name"))


def rpd(folder):
    plant_in_tables(write_rpd(folder / "matmul.rpd"), ("rocpd_string", "string"))


def rocprof(folder):
    text = json.dumps(rocprof_json()).replace('"gemm"', json.dumps("gemm" + PATHS))
    (folder / "70_results.json").write_text(text)


def jax(folder):
    kernel = ("k" + PATHS, 10_000_000, 20_000_000, {"hlo_op": "dot" + PATHS, "source": PATHS})
    host = ("$train.py:3" + PATHS, 0, 5_000_000, {"long_name": PATHS})
    planes = (xplane.plane("/device:GPU:0", {"Stream #1(Compute)": [kernel]}),
              xplane.plane("/host:CPU", {"python" + PATHS: [host]}))  # fmt: skip
    (folder / "node0.xplane.pb").write_bytes(xplane.profile(*planes))


def jax_json(folder):
    names = (("process", 0, "/device:GPU:0"), ("thread", 13, "Stream #13(Compute)" + PATHS))
    naming = [
        {"ph": "M", "name": f"{what}_name", "pid": 1, "tid": tid, "args": {"name": name}}
        for what, tid, name in names
    ]
    kernel = {"ph": "X", "name": "k" + PATHS, "pid": 1, "tid": 13, "ts": 10.5, "dur": 4,
              "args": {"source": "/root/f.py:3" + PATHS, "hlo_op": "dot" + PATHS}}  # fmt: skip
    (folder / "node0.trace.json").write_text(json.dumps({"traceEvents": [*naming, kernel]}))


def flight_recorder(folder):
    frames = [{"name": "f" + PATHS, "filename": f"/home/{USER}/t.py", "line": 3}]
    call = entry("0", 1, "started", frames=frames, profiling_name="nccl:all_reduce" + PATHS)
    call["process_group"] = ("0", "dp" + PATHS)
    write_dumps(folder, {0: dump([call], {"0": [0, 1]})})


def memory_snapshot(folder):
    frames = [{"name": "f" + PATHS, "filename": rf"C:\Users\{USER}\t.py", "line": 3}]
    traces = [[{"action": "alloc", "addr": 1, "size": 512, "stream": 0, "frames": frames,
                "time_us": T0, "user_metadata": PATHS, "compile_context": PATHS}]]  # fmt: skip
    ranges = [{"name": "fwd" + PATHS, "stage": stage, "device": 0, "time_us": T0 + at}
              for at, stage in enumerate(("START", "END"))]  # fmt: skip
    segments = [segment(0, [block(1, 512) | {"frames": frames}])]
    write_snapshot(folder / "mem.pickle", segments=segments, device_traces=traces,
                   external_annotations=ranges)  # fmt: skip


FORMATS = (ascend_json, ascend_db, nsight, rocpd, rpd, rocprof, jax, jax_json,
           flight_recorder, memory_snapshot)  # fmt: skip


@pytest.mark.parametrize("write", FORMATS)
def test_no_secret_or_user_reaches_any_output(write, tmp_path, monkeypatch):
    monkeypatch.setattr("hta_widgets.readers.load._MIN_CACHED_BYTES", 0)
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    read, cached = (hw.load(tmp_path / "in", progress=False) for _ in range(2))
    outputs = unpacked_outputs(cached, tmp_path / "out")
    outputs["records"] = b"".join(text for trace in read.values() for text in records_of(trace))
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    outputs["cache"] = b"".join(path.read_bytes() for path in files)
    outputs["names"] = read.events(columns=["name", "track"]).to_csv().encode()
    outputs["problems"] = read.problems.to_csv().encode()
    assert [name for name, text in outputs.items() if USER.encode() in text] == []
    assert b".py" in outputs["records"]
    assert len(files) > 1  # the entry was not rebuilt


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/home/ann/a.py(31): f;\r\n/x/y/b.py(3): g", "a.py(31): f;\r\nb.py(3): g"),
        (r"C:\Users\Ann Lee\Lib\site-packages\torch\nn\f.py(3): g", "torch/nn/f.py(3): g"),
        ("file:///home/ann/x.py and /home/bob or ~eve/y", "x.py and ~ or y"),
        ("PATH=/x:/home/ann/bin:/data/ann/lib", "PATH=/x:bin:lib"),
        (r"\\server\ann\x.py, /export/home/ann", "x.py, ~"),
        ("jit(f)/jit(main)/mul Foo::~Foo() a / b app/users/v.py", None),
        ("/device:GPU:0 /job:localhost/replica:0 https://h/x/y GB/s", None),
    ],
)  # fmt: skip
def test_paths_in_texts(text, short):
    assert shorten_paths(text) == (text if short is None else short)


def test_numbers_of_a_record_stay_as_written():
    record = rb'{"ts":123.450,"a":["\/home\/ann\/x",{"/home/ann":1e400}],"n":null}'
    assert shorten_record(record) == b'{"ts":123.450,"a":["x",{"~":1e400}],"n":null}'
    assert shorten_record(b'{"a": NaN, "b": "/home/ann"}') == b'{"a": NaN, "b": "~"}'
    assert shorten_record(b'{"a": 1.0, "b": "x/y"}') == b'{"a": 1.0, "b": "x/y"}'

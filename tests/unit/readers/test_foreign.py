"""Files from other programs are named, with advice on what to do next."""

import io
import json
import sqlite3
import tarfile
import zipfile

import pytest

import hta_widgets as hw
from hta_widgets import TraceError


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def plane(name, size):
    body = b"\x12" + bytes([len(name)]) + name + b"\x22" + b"x" * size
    return b"\x0a" + varint(len(body)) + body


def tar_of(name, text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return out.getvalue()


def zip_of(name, text):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, text)
    return out.getvalue()


FILES = {
    "host.xplane.pb": (plane(b"/device:GPU:3", 400), "no device or host events", "jax.profiler"),
    "tpu": (plane(b"/host:CPU", 70_000), "no device or host events", "jax.profiler"),
    "rank0_et.json": (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "Chakra", "same run"),
    "profile.speedscope.json": (
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}',
        "speedscope",
        "chrometrace",
    ),
    "1_results.json": (
        b'{\n"rocprofiler-sdk-tool": [{}]}',
        "no device or host events",
        "--runtime-trace",
    ),
    "run.nsys-rep": (b"NVIDIA Tegra Profiler Report v9", "Nsight Systems", "--include-blobs true"),
    "chakra.0.et": (b"\7\x0a\x050.0.4\x10\x08\1\x12\5hello", "Chakra", "same run"),
    "odd.qdrep": (b"\1\2\3", "Nsight Systems", "--type sqlite"),
    "k.ncu-rep": (b"NVR\0\1\2", "Nsight Compute", "ncu-ui"),
    "traces.zip": (zip_of("a.json", b"[]"), "zip archive", "Unpack"),
    "traces.tar": (tar_of("a.json", b"[]"), "tar archive", "Unpack"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_named_with_the_next_step(write, name):
    contents, what, remedy = FILES[name]
    with pytest.raises(TraceError) as raised:
        hw.load(write(contents, name))
    assert what in raised.value.message
    assert remedy in str(raised.value)
    assert "Perfetto" not in str(raised.value)


@pytest.mark.parametrize("name", ["run.nsys-rep", "traces.zip", "profile.speedscope.json"])
def test_a_folder_names_the_next_step_too(tmp_path, name):
    contents, what, remedy = FILES[name]
    (tmp_path / name).write_bytes(contents)
    (tmp_path / "empty.json").touch()
    with pytest.raises(TraceError, match=what) as raised:
        hw.load(tmp_path, cache=False)
    assert remedy in str(raised.value)
    record = {"ph": "X", "name": "a", "ts": 1, "dur": 1}
    (tmp_path / "rank0.json").write_text(json.dumps([record]))
    (detail,) = hw.load(tmp_path, cache=False).problems.query("kind == 'foreign'")["detail"]
    assert what in detail
    assert remedy.removesuffix(".") in detail


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (b"\x0a\4\x08\1\x10\2\x12\5" * 9, "binary file"),
        (b"\x1b[32mINFO\x1b[0m ready\a\n", "text that is not JSON"),
    ],
)
def test_binary_files_are_told_from_logs_with_colors(write, contents, what):
    with pytest.raises(TraceError, match=what):
        hw.load(write(contents, "log"), cache=False)


def test_databases_are_told_apart(tmp_path):
    for table, what in (("StringIds", "Nsight"), ("rocpd_metadata_0a", "rocpd")):
        path = tmp_path / f"{table}.db"
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE {table} (id INTEGER)")
        with pytest.raises(TraceError, match=what):
            hw.load(path)


def test_a_trace_with_such_keys_stays_a_trace(load_one):
    head = {"pg_config": [{"pg_name": "0"}], "entries": "x" * 2000, "nodes": [], "schema": 1}
    trace, _ = load_one([{"ph": "X", "name": "op", "ts": 1, "dur": 2}], distributedInfo=head)
    assert len(trace) == 1


@pytest.mark.parametrize("name", ["events.json", "events.jsonl", "log.txt"])
@pytest.mark.parametrize("separator", ["\n", "\r\n", "\n\n"])
def test_json_lines_are_named_with_the_next_step(tmp_path, name, separator):
    records = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": n, "dur": 1} for n in range(3)]
    path = tmp_path / name
    path.write_text(separator.join(map(json.dumps, records)) + separator)
    with pytest.raises(hw.TraceError, match=r"is JSON Lines, one object per line\. .*jq -s"):
        hw.load(path, cache=False, progress=False)
    # Two traces on separate lines of a file are not JSON Lines.
    path.write_text("\n".join([json.dumps({"traceEvents": records})] * 2))
    assert len(hw.load(path, cache=False, progress=False)[0]) == 6


@pytest.mark.parametrize("size", [20_000, 100_000, 3_000_000])
@pytest.mark.parametrize("blank", [" ", "\n", "\t\r\n "])
def test_any_number_of_blanks_before_a_trace(tmp_path, size, blank):
    record = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"v": 7}}
    path = tmp_path / "trace.json"
    for contents in ({"traceEvents": [record]}, [record]):
        path.write_text(blank * (size // len(blank)) + json.dumps(contents))
        trace = hw.load(path, cache=False, progress=False)[0]
        assert trace.args(0) == {"v": 7}
    path.write_text(blank * (size // len(blank)))
    with pytest.raises(hw.TraceError, match=r"is (blank text|empty)"):
        hw.load(path, cache=False, progress=False)

"""Files of other programs are named as what they are, with what to do next."""

import io
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
    "host.xplane.pb": (plane(b"/device:GPU:3", 400), "no events of devices", "jax.profiler"),
    "tpu": (plane(b"/host:CPU", 70_000), "no events of devices", "jax.profiler"),
    "rank0_et.json": (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "Chakra", "same run"),
    "profile.speedscope.json": (
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}',
        "speedscope",
        "chrometrace",
    ),
    "1_results.json": (
        b'{\n"rocprofiler-sdk-tool": [{}]}',
        "no events of devices",
        "--runtime-trace",
    ),
    "run.nsys-rep": (b"NVIDIA Tegra Profiler Report v9", "Nsight Systems", "--include-blobs true"),
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

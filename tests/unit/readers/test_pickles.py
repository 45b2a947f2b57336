"""Pickles: plain values are read, everything else is refused, and no code runs."""

import os
import pickle
import struct
import subprocess

import pytest

import hta_widgets as hw
from hta_widgets.readers import pickles
from hta_widgets.readers.pickles import read_pickle
from hta_widgets.trace.problems import Problems


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def nested_pairs(depth):
    """Return tuples with shared items, which have 2 ** depth paths."""
    steps = (bytes([104, k, 104, k, 0x86, 113, k + 1]) for k in range(depth))
    return b"\x80\x02]q\x00" + b"".join(steps) + b"."


CODE = "can run code"
REFUSED = {
    "REDUCE": (lambda path: pickle.dumps(Runs(path)), "posix.system.*" + CODE),
    "protocol 2": (lambda path: pickle.dumps([Runs(path)], 2), CODE),
    "INST": (lambda path: f"(S'touch {path}'\nios\nsystem\n.", r"os\.system"),
    "OBJ": (lambda path: f"(cos\nsystem\nS'touch {path}'\no.", r"os\.system"),
    "STACK_GLOBAL": (lambda _: b"\x80\x04\x8c\x02os\x8c\x06system\x93.", r"os\.system"),
    "builtins": (lambda _: b"\x80\x02cbuiltins\neval\n(X\x01\x00\x00\x001tR.", r"builtins\.eval"),
    "EXT1": (lambda _: b"\x80\x02\x82\x01.", "damaged"),
    "persistent id": (lambda _: b"\x80\x02P1\n.", "outside the file"),
    "BUILD": (lambda _: b"\x80\x02}}b.", "damaged"),
    "length of 1 TB": (lambda _: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.", "memory"),
    "memo of 32 GB": (lambda _: b"\x80\x02Nr" + struct.pack("<I", 2**31 - 8) + b".", "memory"),
    "memo of 1 GB": (lambda _: b"\x80\x02Nr" + struct.pack("<I", 2**26) + b".", "memory"),
    "shared tuples": (lambda _: nested_pairs(60), "32 deep"),
    "deep lists": (lambda _: b"\x80\x02" + b"]" * 9000 + b"a" * 8999 + b".", "32 deep"),
    "long integer": (lambda _: pickle.dumps([1 << 65]), "more than 64 bits"),
    "bytes": (lambda _: pickle.dumps([b"x"]), "holds bytes"),
    "set as key": (lambda _: pickle.dumps({frozenset(): 1}), "frozenset"),
    "long text": (lambda _: pickle.dumps("x" * (2 << 20)), "a string of"),
    "underflow": (lambda _: b"\x80\x020.", "damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_code_and_bombs_are_refused(name, tmp_path):
    make, why = REFUSED[name]
    ran, path = tmp_path / "ran", tmp_path / "dump"
    data = make(ran)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(hw.TraceError, match=why) as caught:
        read_pickle(str(path), path.read_bytes(), Problems())
    assert str(path) in str(caught.value)
    assert caught.value.remedy
    assert not ran.exists()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_values_come_back_with_shared_parts_shared(protocol, tmp_path):
    frame = {"name": "f", "line": 1, "share": 0.5, "none": None, "flag": True}
    value = {"entries": [{"frames": [frame], "size": (1 << 62, -1)}] * 3}
    path = tmp_path / "dump"
    path.write_bytes(pickle.dumps(value, protocol))
    problems = Problems()
    read = read_pickle(str(path), path.read_bytes(), problems)
    assert read == value
    assert read["entries"][0] is read["entries"][2]
    assert not list(problems)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_ends_early_is_read_up_to_there(protocol, tmp_path):
    value = {"version": "2.10", "entries": [{"n": n, "t": ("a", n)} for n in range(1000)]}
    path = tmp_path / "dump"
    data = pickle.dumps(value, protocol)
    path.write_bytes(data[: len(data) // 2])
    problems = Problems()
    entries = read_pickle(str(path), path.read_bytes(), problems)["entries"]
    assert 100 < len(entries) < 1000
    assert entries[:-1] == value["entries"][: len(entries) - 1]
    assert [problem.kind for problem in problems] == ["truncated"]


def test_a_frame_that_claims_too_much_is_no_danger(tmp_path):
    path = tmp_path / "dump"
    path.write_bytes(b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"]\x94.")
    assert read_pickle(str(path), path.read_bytes(), Problems()) == []


def test_dumps_share_a_process_unless_one_is_refused(tmp_path, monkeypatch):
    starts, popen = [], subprocess.Popen
    pickles._end_idle()
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: starts.append(a) or popen(*a, **k))
    for number in range(3):
        assert read_pickle("dump", pickle.dumps([number]), Problems()) == [number]
    assert len(starts) == 1
    with pytest.raises(hw.TraceError, match="bytes"):
        read_pickle("dump", pickle.dumps([b"x"]), Problems())
    assert read_pickle("dump", pickle.dumps({"a": 1}), Problems()) == {"a": 1}
    assert len(starts) == 2

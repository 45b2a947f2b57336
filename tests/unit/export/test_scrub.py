"""Scrubbing removes data about people and machines, and nothing else."""

import json

import pytest

from hta_widgets.export.trace import export_trace

SECRETS = [
    "alice",
    "gpu-node-7",
    "tok-123",
    "/home",
    "/opt/secret",
    "10.1.2.3",
    "C:\\\\Users",
    "bob",
]


@pytest.fixture
def private(trace_file, load):
    """A trace with personal and machine data."""
    records = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0,
         "args": {"name": "/home/alice/env/bin/python train.py --token tok-123"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1,
         "args": {"name": "thread 1 (python)"}},
        {"ph": "X", "name": "/home/alice/train/loop.py(31): step", "pid": 1, "tid": 1, "ts": 0,
         "dur": 9, "args": {"Call stack": "/opt/secret/x.py(5): f;loop.py(3): g", "Python id": 4}},
        {"ph": "X", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
         "args": {"host": "gpu-node-7", "user": "bob", "cwd": "/x/y", "env": {"A": "tok-123"},
                  "Input Dims": [[2, 3]], "note": "seen on gpu-node-7 by alice@example.org",
                  "win": "C:\\Users\\bob\\a.py", "ratio": "3/4", "External id": 8}},
        {"ph": "X", "name": "void k<a::b/c>(int)", "cat": "kernel", "pid": 0, "tid": 7, "ts": 4,
         "dur": 1, "args": {"stream": 7, "profile": "kept"}},
    ]  # fmt: skip
    return load(
        trace_file(
            records,
            schemaVersion=1,
            distributedInfo={"rank": 0, "backend": "nccl", "master_host": "10.1.2.3"},
            deviceProperties=[{"id": 0, "name": "NVIDIA A100"}],
            hostname="gpu-node-7",
            username="alice",
            traceName="/home/alice/runs/t.json",
            environment={"TOKEN": "tok-123"},
            job_owner="bob",
            profile_memory=1,
        )
    )


def test_private_data_is_removed(private, tmp_path, document):
    report = export_trace(private, tmp_path / "out.json", scrub=True)
    text = report.path.read_text()
    document(report.path)
    # Only what the file's keys or paths tell is known to be a name; "bob" stands in such a path.
    left = [secret for secret in SECRETS if secret in text]
    assert left == []


def test_useful_data_stays(private, tmp_path, document):
    written = document(export_trace(private, tmp_path / "out.json", scrub=True).path)
    assert set(written) == {
        "schemaVersion",
        "distributedInfo",
        "deviceProperties",
        "profile_memory",
        "traceEvents",
    }
    assert written["distributedInfo"] == {"rank": 0, "backend": "nccl"}
    by_name = {r["name"]: r for r in written["traceEvents"]}
    assert by_name["process_name"]["args"] == {"name": "python"}
    assert by_name["thread_name"]["args"] == {"name": "thread 1 (python)"}
    assert by_name["loop.py(31): step"]["args"]["Call stack"] == "x.py(5): f;loop.py(3): g"
    add = by_name["aten::add"]["args"]
    assert add["Input Dims"] == [[2, 3]]
    assert add["External id"] == 8
    assert add["ratio"] == "3/4"
    assert add["win"] == "a.py"
    assert set(add) == {"Input Dims", "note", "win", "ratio", "External id"}
    assert by_name["void k<a::b/c>(int)"]["args"] == {"stream": 7, "profile": "kept"}


def test_without_scrub_all_of_it_stays(private, tmp_path):
    text = export_trace(private, tmp_path / "out.json").path.read_text()
    assert all(secret in text for secret in SECRETS)


def test_merged_files_are_scrubbed_as_well(trace_file, load, tmp_path):
    for rank in (0, 1):
        record = {
            "ph": "X",
            "name": "a",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 1,
            "args": {"host": "h"},
        }
        keys = {"distributedInfo": {"rank": rank}, "hostname": f"gpu-node-{rank}"}
        trace_file([record], f"gpu-node-{rank}_1.json", **keys)
    traces = load(tmp_path.glob("gpu*.json"))
    text = export_trace(traces, tmp_path / "out.json", scrub=True).path.read_text()
    assert "gpu-node" not in text
    assert json.loads(text)["hta_widgets"]["ranks"][1]["file"] == "rank-1"
    assert load(tmp_path / "out.json").ranks == [0, 1]

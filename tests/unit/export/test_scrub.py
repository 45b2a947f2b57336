"""Scrubbing removes data about people and machines and nothing else."""

import json

import pytest

from hta_widgets.export.traces.files import export_trace
from hta_widgets.export.traces.scrub import Scrubber

pytestmark = pytest.mark.slow

SECRETS = ["alice", "gpu-node-7", "tok-123", "/home", "/opt/secret", "10.1.2.3", "C:\\\\Users",
           "bob"]  # fmt: skip


def x(name="a", ts=0, **more):
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 1} | more


@pytest.fixture
def private(trace_file, load):
    """A trace with data about people and machines."""
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
    document(report.path)
    # Only names in keys or paths of the file can be found; "bob" is in such a path.
    assert [secret for secret in SECRETS if secret in report.path.read_text()] == []


def test_useful_data_stays(private, tmp_path, document):
    written = document(export_trace(private, tmp_path / "out.json", scrub=True).path)
    args = {r["name"]: r["args"] for r in written.pop("traceEvents")}
    assert written == {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 0, "backend": "nccl"},
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
        "profile_memory": 1,
    }
    assert args["process_name"] == {"name": "python"}
    assert args["thread_name"] == {"name": "thread 1 (python)"}
    assert args["loop.py(31): step"]["Call stack"] == "x.py(5): f;loop.py(3): g"
    assert args["aten::add"].pop("note")
    assert args["aten::add"] == {
        "Input Dims": [[2, 3]],
        "win": "a.py",
        "ratio": "3/4",
        "External id": 8,
    }
    assert args["void k<a::b/c>(int)"] == {"stream": 7, "profile": "kept"}


def test_without_scrub_all_of_it_stays(private, tmp_path):
    text = export_trace(private, tmp_path / "out.json").path.read_text()
    assert all(secret in text for secret in SECRETS)


def test_merged_files_are_scrubbed_as_well(trace_file, load, tmp_path):
    for rank in (0, 1):
        keys = {"distributedInfo": {"rank": rank}, "hostname": f"gpu-node-{rank}"}
        trace_file([x(args={"host": "h"})], f"gpu-node-{rank}_1.json", **keys)
    traces = load(tmp_path.glob("gpu*.json"))
    text = export_trace(traces, tmp_path / "out.json", scrub=True).path.read_text()
    assert "gpu-node" not in text
    assert json.loads(text)["hta_widgets"]["ranks"][1]["file"] == "rank-1"
    assert load(tmp_path / "out.json").ranks == [0, 1]


#: Text of an event arg, and the part that must be removed.
CANARIES = {
    "home after a colon": ("PYTHONPATH=/x:/home/carol/bin", "carol"),
    "home at the end": ("started in /home/carol", "carol"),
    "home elsewhere": ("/mnt/nfs/home/carol/x.py", "carol"),
    "home of an old system": ("/usr/people/carol/x.py", "carol"),
    "home of a user": ("~carol/runs/x.py", "carol"),
    "home of a user, one name": ("python ~carol/x.py", "carol"),
    "home of a user in quotes": ("open('~carol.b/x')", "carol"),
    "home of a user after a sign": ("--out=~carol/x", "carol"),
    "host after a word": ("rank 3 on host carol-7", "carol"),
    "host as a label": ("on host carol", "carol"),
    "node after a word": ("GPU 0 at the node carol.cluster", "carol"),
    "host after a colon": ("Hostname: carol7, pid 3", "carol"),
    "user after a word": ("started by user Carol_B", "carol"),
    "machine with a sign": ("machine_name='carol'", "carol"),
    "escaped home": (r"\/home\/carol\/x.py", "carol"),
    "twice escaped home": (r"\\/home\\/carol\\/x.py", "carol"),
    "home in Windows": (r"C:\Users\carol", "carol"),
    "shared folder": (r"\\fileserver\carol\x.py", "fileserver"),
    "home in JSON in a text": ('{"a": [{"b": "\\u002fhome\\u002fcarol/x.py"}]}', "carol"),
    "host in JSON in a text": ('{"a": [{"hostname": "carol"}]}', "carol"),
    "URL": ("see https://carol.example.org/x?token=1", "carol"),
    "store": ("tcp://carol-node:29500", "carol"),
    "IPv4": ("connect to 10.20.30.40:29500", "10.20"),
    "IPv6": ("connect to [fe80::1ff:fe23:4567:890a]", "fe80"),
    "global IPv6": ("connect to 2001:db8::1", "db8"),
    "MAC": ("device 3c:52:82:aa:bb:cc", "3c:52"),
    "name with an address": ("on ip-10-20-30-40.ec2.internal", "10-20"),
    "mail": ("by carol@example.org", "carol"),
    "ssh": ("rsync carol@node7:/data/x", "carol"),
    "option": ("train.py --token carol --lr 1", "carol"),
    "variable": ("HF_TOKEN=carol WORLD=2", "carol"),
    "password": ("db password: carol", "carol"),
    "key": ("api_key='carol'", "carol"),
    "header": ("Authorization: Bearer carolcarol", "carol"),
    "token of a hub": ("x hf_carolcarolcarol y", "carol"),
    "token of a cloud": ("x AKIACAROLCAROLCA y", "CAROL"),
    "host of the file": ("from gpu-node-7.cluster to GPU-NODE-7", "node-7"),
    "half of a surrogate pair": ("\ud800 /home/carol/x", "carol"),
}


@pytest.mark.parametrize("name", CANARIES)
def test_canaries(name, trace_file, load, tmp_path):
    text, canary = CANARIES[name]
    args = {"note": text, "deep": [[{"nested": {"a": text}}]], text: 1, "ratio": 1.50}
    records = [x(text, args=args), x("b", tid=text), json.dumps(text)]
    job = trace_file(records, hostname="gpu-node-7.cluster", distributedInfo={"a": text})
    out = export_trace(load(job), tmp_path / "out.json", scrub=True).path
    assert canary.lower() not in out.read_text().lower()
    assert len(load(out).events()) == 2
    assert '"ratio":1.5' in out.read_text()


@pytest.mark.parametrize("user", ["carol", "CORP\\carol", "carol@corp", "Änne-carol", "Öz-carol"])
def test_names_of_users_go_in_any_form(user, trace_file, load, tmp_path):
    notes = {"a": f"run by {user} today", "b": f"x {user.upper()} y"}
    job = load(trace_file([x(args=notes)], username=user))
    out = export_trace(job, tmp_path / "out.json", scrub=True)
    assert "carol" not in out.path.read_text().lower()


def test_command_lines_without_folders_keep_the_program(trace_file, load, tmp_path, document):
    command = {"name": "process_name", "ph": "M", "pid": 1, "tid": 0,
               "args": {"name": "python train.py --run acme"}}  # fmt: skip
    job = load(trace_file([command, x()]))
    written = document(export_trace(job, tmp_path / "out.json", scrub=True).path)
    assert written["traceEvents"][0]["args"] == {"name": "python"}


@pytest.mark.parametrize(
    "key",
    ["hostname", "nested.hostname", "master_addr", "MASTER_ADDR", "url", "ip", "mac", "token",
     "HF_TOKEN", "password", "passphrase", "masterAddr", "api_key", "owner",
     "SLURM_NODELIST", "env", "cwd", "e-mail"],
)  # fmt: skip
def test_private_keys_go_at_any_depth(key, trace_file, load, tmp_path):
    args = {"deep": [{"a": {key: "carol", "kept": 1}}], key: "carol"}
    record = x(args=args) | {key: "carol"}
    job = trace_file([record], distributedInfo={"rank": 0, "a": {key: "carol"}})
    out = export_trace(load(job), tmp_path / "out.json", scrub=True).path
    assert "carol" not in out.read_text()
    assert '"kept":1' in out.read_text()


@pytest.mark.parametrize(
    "text",
    ["void k<a::b/c>(int)", "c10::add<at::Half, 128>", "aten::to", "3/4", "cutlass_80_x::f(float*)",
     "token_embedding::forward", "ProfilerStep#3", "num_tokens=128", "a / b", "12:34:56", "v1.2.3",
     "copy from host to device", "Memcpy HtoD (Pageable -> Device)", "~BatchNorm::forward",
     "cudaLaunchHostFunc", "user_annotation", "GraphNode::run", "node: 3", "host=0"],
)  # fmt: skip
def test_names_of_kernels_stay(text):
    record = json.dumps({"ph": "X", "name": text, "args": {"num_tokens": 5, "note": text}}).encode()
    assert json.loads(Scrubber({}).record(record)) == json.loads(record)


@pytest.mark.parametrize(
    "unit",
    ["a", "/", "a/", "/a", "\\", "\\\\", "@", "a@", ".", "a.", "1.", "token", "-", "~", "file:",
     "[", "a:", "::", "home/", " ", '"', "ip-1-", "ab:", "=", "{"],
)  # fmt: skip
def test_long_texts_do_not_hang(unit):
    # If the time were quadratic in the length, this would take minutes.
    text = json.dumps({"name": unit * (250_000 // len(unit)) + "/x/", "args": {}}).encode()
    assert json.loads(Scrubber({"hostname": "node"}).record(text))["args"] == {}


def test_a_host_in_the_label_of_a_process_goes(trace_file, load, tmp_path):
    label = {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0,
             "args": {"labels": "GPU 0 on host carol-node"}}  # fmt: skip
    out = export_trace(load(trace_file([label, x()])), tmp_path / "out.json", scrub=True).path
    assert "carol" not in out.read_text()
    assert "GPU 0 on host scrubbed" in out.read_text()

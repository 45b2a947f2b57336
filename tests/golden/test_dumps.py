"""PyTorch's dumps and snapshots, compared with figures of independent programs."""

import json

import pytest
from support.recorded import SHARED

import hta_widgets as hw
from hta_widgets import analysis

FOLDER, GOLDEN = SHARED / "profilers", SHARED.parent / "golden/profilers"
JOBS = {
    "hang": "hang_nccl_trace_rank_*",
    "hang json": "hang_json_nccl_trace_rank_*",
    "gloo pickle": "gloo_fr_rank_*",
    "gloo json": "gloo_fr_json_rank_*",
}

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="no shared data")


def golden(name):
    return json.loads((GOLDEN / name).read_text())


@pytest.mark.parametrize("job", JOBS)
def test_collectives_of_the_flight_recorder(job):
    wanted = golden("flight_recorder.json")[job]
    traces = hw.load(FOLDER / "flight_recorder" / JOBS[job], progress=False, cache=False)
    assert {str(rank): len(traces[rank]) for rank in traces} == wanted["entries"]
    states = analysis.collective_states(traces)
    for name, group in wanted["groups"].items():
        number, description = name.split("/")
        of = states[states["group"] == f"{description} ({number})"]
        assert sorted(set(of["rank"])) == group["members"]
        assert of["sequence"].nunique() == group["collectives"]
        unfinished = of[of["state"] != "finished"]
        found = {}
        for sequence, rows in unfinished.groupby("sequence"):
            present = rows[rows["state"] != "absent"]
            calls = present[["operation", "state"]].to_numpy().tolist()
            absent = rows["rank"][rows["state"] == "absent"].tolist()
            ranks = dict(zip(present["rank"].astype(str), calls, strict=True))
            found[str(sequence)] = {"ranks": ranks, "absent": absent}
        assert found == group["unfinished_or_differing"]


@pytest.mark.parametrize("name", golden("memory_snapshot.json") if FOLDER.exists() else [])
def test_memory_of_snapshots(name):
    path = FOLDER / "memory_snapshot" / name
    if not path.exists():
        pytest.skip(f"{name} is not shared")
    wanted = golden("memory_snapshot.json")[name]
    traces = hw.load(path, progress=False, cache=False)
    segments = analysis.snapshot_segments(traces)
    assert len(segments) == wanted["segments"]
    assert segments["total_bytes"].sum() == wanted["segment_bytes"]
    assert segments["used_bytes"].sum() == wanted["active_bytes_at_end"]
    assert segments["free_blocks"].sum() == wanted["blocks_by_state"]["inactive"]
    timeline, peak = analysis.snapshot_timeline(traces), analysis.snapshot_peak(traces)
    snapshot = traces[0].profile
    for memory in snapshot.devices:
        of = wanted["devices"][str(memory.device)]
        rows = timeline[timeline["device"] == snapshot.label(memory.device)]
        changes = of["actions"]["alloc"] + of["actions"]["free_completed"]
        assert len(rows) == changes
        assert rows["change_bytes"].sum() == of["net_bytes"]
        assert memory.start_bytes == of["allocated_at_start_bytes"]
        assert rows["used_bytes"].max() == of["peak_bytes"]
        assert sum(stack < 0 for stack in memory.stack) == of["frees_of_older_blocks"]
        assert set(peak["peak_event"]) == {of["peak_event"]}
        assert peak["bytes"].sum() == of["peak_bytes"]

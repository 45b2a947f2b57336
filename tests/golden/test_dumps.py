"""Dumps and snapshots of PyTorch: figures of independent programs."""

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

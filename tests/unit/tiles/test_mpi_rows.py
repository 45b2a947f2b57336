"""MPI on the timeline: calls are communication with waits; profiles have nothing to draw."""

import hta_widgets as hw
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.panels.headline import headline
from hta_widgets.tiles.cells import unpack
from hta_widgets.trace.selection import Selection


def test_calls_are_communication_and_profiles_beside_them_have_no_rows(tmp_path):
    truth = write_mpi_job(tmp_path / "job", ranks=4, steps=3, slow_rank=2)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert len(traces) == 8
    engine = TileEngine(traces)
    scene = engine.scene()
    assert [rank["rank"] for rank in scene["ranks"]] == [0, 1, 2, 3]
    (row,) = scene["ranks"][0]["summary"]
    assert (row["role"], row["label"]) == ("comm", "MPI")
    (track,) = scene["ranks"][0]["tracks"]
    assert track["key"] == "MPI · calls"
    assert row["wait"] != track["wait"] >= 0
    start, end = scene["range"]
    found, _ = engine.answer({"op": "lateness", "start": start, "end": end})
    imposed = dict(zip(found["ranks"], found["imposed"], strict=True))
    assert max(imposed, key=imposed.get) == truth["slow_rank"]
    # Headline, red row and table of ranks name the same one; what costs most in the strip is its.
    assert found["late"] == [truth["slow_rank"]]
    assert str(headline(traces)).startswith("Rank 2 spends least time in MPI")
    table = PanelEngine(traces).frame("mpi_ranks", Selection())
    assert table["rank"][table["is_straggler"]].tolist() == [2]
    reply, buffer = engine.answer({"op": "ribbon", "start": start, "end": end, "bins": 1})
    columns = unpack(reply["columns"], buffer)
    assert columns["job_rank"].tolist() == [2]
    texts = hw.load(sorted((tmp_path / "job").glob("mpi_profile*")), cache=False, progress=False)
    alone = TileEngine(texts).scene()
    assert len(alone["ranks"]) == 4
    assert alone["events"] == 0

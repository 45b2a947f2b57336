"""Sums that the page computes from its tables equal the analyses of the same selection."""

import json
import shutil
import subprocess

import pytest
from support.flight_dumps import write_hang
from support.memory_snapshots import write_snapshot

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import base_tables, frame_to_json, offered_panels
from hta_widgets.trace.traceset import Selection

pytestmark = pytest.mark.slow


def frames_of(node, repo, traces, brushes):
    """Yield the results of the page and of the kernel for each selection and panel."""
    panels = [name for name in offered_panels(traces.formats) if "_" in name]
    requested = [(panel, brush) for brush in brushes for panel in panels]
    request = {
        "tables": base_tables(traces),
        "asked": [{"panel": panel, "selection": brush.to_json()} for panel, brush in requested],
    }
    command = [node, str(repo / "tests" / "support" / "table_frames.mjs")]
    text = json.dumps(request, allow_nan=False)
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=repo, check=True)
    engine = PanelEngine(traces)
    for (panel, brush), result in zip(requested, json.loads(done.stdout), strict=True):
        yield panel, brush, result, frame_to_json(engine.frame(panel, brush))


def check(node, repo, traces, brushes):
    """Compare all frames; return the panels that have rows."""
    filled = set()
    for panel, brush, result, wanted in frames_of(node, repo, traces, brushes):
        where = f"{panel} of {brush}"
        assert result["rows"] == wanted["rows"], where
        if not wanted["rows"]:
            continue
        filled.add(panel)
        for name, values in wanted["columns"].items():
            same = result["columns"][name]
            if any(isinstance(value, float) for value in values):
                assert [a is None for a in same] == [b is None for b in values], where
                expected = [value for value in values if value is not None]
                ours = [value for value in same if value is not None]
                assert ours == pytest.approx(expected, rel=1e-9), where
            else:
                assert same == values, f"{name} of {where}"
    return filled


@pytest.fixture(scope="module")
def packages(repo):
    if not (repo / "node_modules" / "esbuild").is_dir():
        pytest.skip("the front end's packages are not installed (`make setup` does it)")


def test_byteps(tmp_path, node, repo, packages):
    write_byteps_job(tmp_path / "job", workers=3, local_ranks=2, servers=2, steps=4, slow_worker=1)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    length = traces.end_ns
    brushes = [
        Selection(),
        Selection(ranks=(0, 1, 4)),
        Selection(ranks=(6,)),
        Selection(start_ns=length // 3, end_ns=length // 2),
        Selection(start_ns=length // 2, end_ns=length // 2 + 1_500_000, ranks=(2, 3, 7)),
        Selection(start_ns=length // 2, end_ns=length // 2),
        Selection(query="name in ['Comm.byteps.gradient_1']"),
    ]
    assert check(node, repo, traces, brushes) == {
        name for name in offered_panels(traces.formats) if "_" in name
    }
    workers = traces.subset(ranks=[0, 1, 2, 3])
    check(node, repo, workers, [Selection(), Selection(start_ns=length // 3)])


def test_a_share_at_the_limit(tmp_path, node, repo, packages):
    for worker, short in enumerate([(), (0, 1, 2, 3)]):
        path = tmp_path / "job" / f"worker{worker}" / "0" / "comm.json"
        path.parent.mkdir(parents=True)
        pid = "Comm.byteps.w"
        record = {"ph": "X", "pid": pid, "name": f"{pid}.PULL", "tid": "327680", "cat": "Comm"}
        times = [{"ts": 100 * k, "dur": 10 if k in short else 30} for k in range(5)]
        path.write_text(json.dumps({"traceEvents": [record | time for time in times]}))
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert "byteps_blame" in check(node, repo, traces, [Selection()])
    blame = PanelEngine(traces).frame("byteps_blame", Selection())
    assert blame["straggler"].tolist() == [False, True]


def test_mpi(tmp_path, node, repo, packages):
    write_mpi_job(tmp_path / "job", ranks=5, slow_rank=3, hosts=2)
    # Rank 1 has only a timeline, and another job has only profiles.
    (tmp_path / "job" / "mpi_profile.90001.1").unlink()
    write_mpi_job(tmp_path / "job", ranks=4, slow_rank=1, hosts=1, traces=False, job=90002)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert traces.ranks == list(range(9))
    brushes = [
        Selection(),
        Selection(ranks=(0, 3)),
        Selection(ranks=(1, 3)),
        Selection(ranks=(5, 8)),
        Selection(start_ns=0, end_ns=1_000_000),
        Selection(query="name in ['MPI_Bcast']"),
    ]
    assert len(check(node, repo, traces, brushes)) == 6


def test_dumps(tmp_path, node, repo, packages):
    write_hang(tmp_path / "job")
    write_snapshot(tmp_path / "job" / "memory.pickle")
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    brushes = [Selection(), Selection(ranks=(0,)), Selection(start_ns=0, end_ns=1)]
    assert check(node, repo, traces, brushes) == {
        *("flight_hang", "flight_collectives", "snapshot_peak", "snapshot_segments")
    }


def test_keys_go_to_the_page_as_text(tmp_path):
    write_byteps_job(tmp_path / "job", workers=2, servers=2, steps=2)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    keys = [text for text, _, _ in base_tables(traces)["requests"]["attrs"]["keys"]]
    assert all(isinstance(key, str) for key in keys)
    assert max(int(key) for key in keys) > 2**63


def test_nodes_are_named_by_their_workers_if_these_are_certain(tmp_path):
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=1, servers=2, steps=3)

    def names():
        traces = hw.load(tmp_path / "job", cache=False, progress=False)
        return set(hw.Dashboard(traces).panel_frame("byteps_stragglers")["label"])

    assert names() == {"worker 0 (node 9)", "worker 1 (node 11)"}
    for folder in list((tmp_path / "job").glob("worker*")):
        shutil.rmtree(folder)
    assert names() == {"node 9 (ps rank 0)", "node 11 (ps rank 1)"}


def test_panels_go_by_the_formats():
    assert "timeline" not in offered_panels(["mpi-profile"])
    assert "timeline" in offered_panels(["mpi-profile", "mpi-trace"])
    assert "kernels" not in offered_panels(["byteps", "byteps-server"])
    assert {"kernels", "byteps_gradients"} <= set(offered_panels(["kineto", "byteps"]))
    assert "byteps_clock" not in offered_panels(["byteps"])
    alone = offered_panels(["byteps"], workers=1)
    assert {"byteps_blame", "byteps_stragglers"}.isdisjoint(alone)
    assert offered_panels(["kineto"])[:2] == ["timeline", "heatmap"]

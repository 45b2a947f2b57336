"""Figures of small jobs, compared exactly with the known truth."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import analysis, cli
from hta_widgets.analysis.efficiency.modules import module_owners
from hta_widgets.demo import write_exact_job
from hta_widgets.panels.headline import headline as headline_of
from hta_widgets.trace.graph_captures import captured_trace


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact") / "pipeline"
    truth = write_exact_job(folder, "pipeline")
    return load(folder), truth


def test_bubbles_of_every_stage_and_step(pipeline):
    traces, truth = pipeline
    frame = analysis.pipeline_bubbles(traces)
    names = ["schedule_ns", "forward_ns", "backward_ns", "bubble_ns"]
    for row in frame.to_dict("records"):
        stage = truth["stages"][row["stage"]]
        assert [row[name] for name in names] == [stage[name] for name in names]
    assert len(frame) == truth["ranks"] * truth["steps"]
    # By hand: the last stage waits for three forward and three backward passes and six messages.
    assert truth["stages"][3]["bubble_ns"] == 3 * 40_000 + 3 * 80_000 + 6 * 5_000


def test_the_headline_names_the_bubbles_and_the_uneven_stage(pipeline):
    traces, truth = pipeline
    headline = headline_of(traces)
    # Two steps per rank, from the first pass to the last kernel of the run.
    bubble_ns = truth["steps"] * sum(stage["bubble_ns"] for stage in truth["stages"])
    times = analysis.temporal_breakdown(traces)
    share = bubble_ns / times["span_ns"].sum()
    assert " ".join(headline.text.split()) == (
        f"Pipeline bubbles take {100 * share:.0f} % of each rank's GPU span on average, with 4"
        " stages; compute of stage 3 is 50 % over the mean of the others."
    )
    assert headline.findings[0].selection.ranks == (3,)


def test_passes_and_bytes_and_flops_of_a_pipeline(pipeline):
    traces, truth = pipeline
    passes = analysis.pipeline_passes(traces)
    assert len(passes) == 2 * 2 * 4 * 4  # steps, directions, stages, micro-batches
    assert (passes["end_ns"] - passes["start_ns"]).eq(passes["compute_ns"]).all()
    sent = analysis.traffic(traces).groupby("rank")["bytes"].sum()
    for rank, size in sent.items():
        assert size == sum(
            value for key, value in truth["sent_bytes"].items() if key.startswith(f"{rank} ")
        )
    steps = analysis.step_efficiency(traces)
    assert steps["flops"].tolist() == [
        stage["flops"] for stage in truth["stages"] for _ in range(truth["steps"])
    ]
    peak = 312_000  # FLOPs per ns of an A100 in BF16
    assert steps["mfu"].tolist() == pytest.approx(
        (steps["flops"] / steps["step_ns"] / peak).tolist()
    )
    assert analysis.traffic(traces)["inter_node_bytes"].sum() == 2 * 8_388_608


def test_splits_of_experts_although_one_list_is_cut(tmp_path):
    truth = write_exact_job(tmp_path / "moe", "moe")
    frame = analysis.all_to_all_matrix(traces := load(tmp_path / "moe"))
    matrix = frame.pivot(index="sender", columns="receiver", values="bytes")
    assert matrix.to_numpy().tolist() == truth["matrix"]
    assert frame.attrs["inter_node_bytes"] == truth["inter_node_bytes"]
    assert (frame.attrs["mismatches"], frame.attrs["nodes"]) == (0, "file")
    assert set(frame.loc[frame["sender"] == 3, "source"]) == {"receiver"}
    assert analysis.step_efficiency(traces)["flops"].tolist() == truth["flops"]


def test_operators_modules_and_tokens_of_a_replayed_graph(tmp_path):
    truth = write_exact_job(tmp_path / "job", "graph")
    traces = load(tmp_path / "job" / "replay", capture=tmp_path / "job" / "capture")
    assert analysis.graph_replays(traces)["matched_share"].tolist() == [1, 1]
    steps = analysis.serving_steps(traces)
    assert steps["tokens"].tolist() == truth["tokens"]
    assert steps["phase"].tolist() == truth["phases"]
    work = analysis.operator_efficiency(traces)
    matrix = work[work["flops_kind"] == "matrix"]
    assert (matrix["flops"] * matrix["count"]).sum() == truth["flops"]
    tree = analysis.modules(traces, fold=False).set_index("path")
    for layer in range(2):
        products = [f"Block_{layer}.Linear_{2 * layer + each}" for each in range(2)]
        assert tree.loc[products, "device_self_ns"].tolist() == [2 * 6_000, 2 * 5_000]
    captured = captured_trace(traces[0])
    table, owners = captured.table, module_owners(captured)
    kernels = np.flatnonzero(table.stream >= 0)
    kernels = kernels[np.argsort(table.start_ns[kernels])]
    names = [table.names[name] for name in table.name[kernels].tolist()]
    graph = kernels[[not name.startswith("ampere") for name in names]]
    call = captured.launch_of[graph]
    operators = [table.names[table.name[row]] for row in table.parent[call].tolist()]
    modules = [owners.names[owner].split(": ")[-1] for owner in owners.owner[call].tolist()]
    assert operators == [node["operator"] for node in truth["replays"]]
    assert modules == [node["module"].split(".")[-1] for node in truth["replays"]]


def test_the_command_line_writes_them(tmp_path, capsys):
    assert cli.main(["demo", str(tmp_path / "experts"), "--kind", "moe"]) == 0
    assert "4 ranks, 1 step" in capsys.readouterr().out
    assert json.loads((tmp_path / "experts_truth.json").read_text())["kind"] == "moe"
    assert cli.main(["demo", str(tmp_path / "a"), "--kind", "moe", "--format", "mpi"]) == 2

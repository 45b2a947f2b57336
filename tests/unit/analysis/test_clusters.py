"""Clusters of ranks, compared with brute force for given features and with the truth of jobs."""

import numpy as np
import pytest
from support.small import call, event, kernel, load

import hta_widgets as hw
from hta_widgets.analysis import rank_clusters
from hta_widgets.analysis.clusters import TIMES, RankFeatures, cluster_ranks
from hta_widgets.demo.job import write_demo

pytestmark = pytest.mark.slow

USUAL = {
    "step_ns": 1000.0,
    "own_ns": 900.0,
    "compute_ns": 600.0,
    "idle_ns": 100.0,
    "exposed_communication_ns": 300.0,
    "exposed_wait_ns": 100.0,
}


def features(*ranks, error=0, lost=None, kernels=None):
    """Return features of ranks, each given by its differences from the default."""
    times = np.array([[{**USUAL, **rank}.get(name, 0.0) for name in TIMES] for rank in ranks])
    count = len(ranks)
    return RankFeatures(
        times, np.full_like(times, error), np.zeros(count) if lost is None else np.array(lost),
        np.ones((count, 1)) if kernels is None else np.array(kernels), ["gemm", "softmax"],
        np.full(count, 3), True,
    )  # fmt: skip


def found(given, *, stage=None, tolerance=0.05, most=16):
    stages = np.zeros(len(given.times_ns), dtype=np.int64) if stage is None else np.array(stage)
    return cluster_ranks(given, stages, tolerance, most)


def test_alike_within_the_tolerance():
    clusters = found(features({}, {"compute_ns": 649.0}, {"compute_ns": 651.0}))
    assert clusters.cluster.tolist() == [0, 0, 0]
    # The second rank is similar to both others, which differ from each other.
    assert clusters.representative.tolist() == [1, 1, 1]
    np.testing.assert_allclose(clusters.distance, [49 / 50, 0, 2 / 50])
    assert clusters.why == ["", "", ""]


def test_one_that_is_slow_stands_out_with_the_cause_first():
    slow = {"compute_ns": 750.0, "exposed_wait_ns": 0.0, "exposed_communication_ns": 200.0}
    clusters = found(features({}, {}, slow, {}, lost=[0, 0, 0.12, 0]))
    assert clusters.is_outlier.tolist() == [False, False, True, False]
    assert clusters.representative.tolist() == [0, 0, 2, 0]
    assert clusters.from_typical[2] == pytest.approx(3)
    assert clusters.why[2] == (
        "computes 25 % longer; costs the others 12 % more of their time; "
        "waits for 10 % less of a step"
    )


def test_other_kernels_are_named():
    clusters = found(features({}, {}, {}, kernels=[[0.9, 0.1], [0.9, 0.1], [0.7, 0.3]]))
    assert clusters.why[2] == "runs other kernels: gemm takes 20 % less of its compute time"
    assert clusters.from_typical[2] == pytest.approx(4)


def test_nobody_stands_out_where_all_differ_or_none_is_typical():
    different = [{"compute_ns": 600.0 + 100 * k} for k in range(4)]
    assert not found(features(*different)).is_outlier.any()
    halves = found(features({}, {}, {"idle_ns": 300.0}, {"idle_ns": 300.0}))
    assert halves.cluster.tolist() == [0, 0, 1, 1]
    assert not halves.is_outlier.any()
    assert halves.why[2] == "its device is idle for 20 % more of a step"


def test_stages_are_kept_apart():
    slow = {"compute_ns": 900.0}
    inputs = features({}, {}, slow, slow, slow, {"compute_ns": 300.0})
    clusters = found(inputs, stage=[0, 0, 1, 1, 1, 1])
    assert clusters.representative.tolist() == [0, 0, 2, 2, 2, 5]
    assert clusters.is_outlier.tolist() == [False] * 5 + [True]
    assert clusters.why[5] == "computes 67 % shorter"


def test_scatter_and_what_may_be_waiting_tell_no_ranks_apart():
    inputs = features({}, {}, {"idle_ns": 190.0}, error=40.0)
    assert not found(inputs).is_outlier.any()
    assert found(features({}, {}, {"idle_ns": 190.0}, error=10.0)).is_outlier[2]
    # The file of the other rank is missing, so the 200 ns may or may not be waiting time.
    unknown = {"exposed_wait_ns": 0.0, "unmatched_exposed_ns": 200.0}
    assert found(features({}, {}, unknown)).why == ["", "", ""]
    assert found(features({}, {}, {"exposed_wait_ns": 0.0})).is_outlier[2]


def test_too_many_clusters_widen_the_tolerance():
    different = [{"compute_ns": 600.0 + 60 * k} for k in range(9)]
    assert found(features(*different)).cluster.max() == 8
    few = found(features(*different), most=3)
    assert few.cluster.max() <= 2
    # Nine ranks, 6 % of a step apart: any three consecutive ranks form a cluster.
    assert few.tolerance == pytest.approx(0.05 * 1.5)
    assert (few.distance <= 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_every_rank_is_like_its_representative(seed):
    rng = np.random.default_rng(seed)
    times = rng.normal(1.0, 0.1, (40, len(TIMES))) * 1000
    times[:, TIMES.index("unmatched_exposed_ns")] = 0
    lost, ones = rng.random(40) * 0.1, np.ones((40, 1))
    inputs = RankFeatures(times, 0 * times, lost, ones, ["gemm"], np.ones(40, dtype=int), True)
    clusters = found(inputs, most=40)
    name = {name: times[:, k] for k, name in enumerate(TIMES)}
    transfer = name["exposed_communication_ns"] - name["exposed_wait_ns"]
    step = np.median(name["step_ns"])
    compared = [name["compute_ns"], name["idle_ns"], name["exposed_wait_ns"], transfer]
    for rank, other in enumerate(clusters.representative.tolist()):
        apart = max(abs(item[rank] - item[other]) / step for item in [*compared, name["step_ns"]])
        apart = max(apart, abs(inputs.lost_share[rank] - inputs.lost_share[other]))
        assert clusters.distance[rank] == pytest.approx(apart / 0.05)
        assert clusters.distance[rank] <= 1
        assert clusters.representative[other] == other


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("options", [{}, {"straggler": None}])
def test_a_straggler_is_the_outlier_and_healthy_ranks_are_alike(tmp_path, seed, ranks, options):
    shape = {"ranks": ranks, "steps": 3, "events_per_step": 1500}
    truth = write_demo(tmp_path / "job", seed=seed, **shape, **options)
    frame = rank_clusters(hw.load(tmp_path / "job", cache=False, progress=False))
    slow = [] if options else [truth["straggler"]]
    assert (frame.attrs["outliers"], frame.attrs["clusters"]) == (slow, 1 + len(slow))
    assert frame["steps"].tolist() == [3] * ranks
    why = frame.set_index("rank")["why"]
    assert [text[:10] for text in why[slow]] == ["computes 2"] * len(slow)
    assert set(why.drop(slow)) == {""}


def test_ranks_are_compared_over_the_steps_that_all_have(tmp_path):
    def run(first, last, dur):
        rank = []
        for number in range(first, last + 1):
            at, launch = 1000 * number, 10 + number
            rank += [
                event("user_annotation", f"ProfilerStep#{number}", at, at + 1000, pid=10),
                call(at + 10, at + 20, launch),
                kernel(at + 100, at + 100 + (dur if number == 3 else 700), launch=launch),
            ]
        return rank

    frame = rank_clusters(load(tmp_path, run(1, 3, 200), run(3, 5, 200), run(2, 3, 220)))
    assert frame["steps"].tolist() == [1, 1, 1]
    assert frame["compute_ns"].tolist() == [200, 200, 220]
    assert frame["cluster"].tolist() == [0, 0, 0]


def test_one_rank_no_steps_no_device_nothing(tmp_path):
    alone = rank_clusters(load(tmp_path, [kernel(5, 9)]))
    assert alone[["rank", "cluster", "representative"]].to_numpy().tolist() == [[0, 0, 0]]
    assert "load several" in alone.attrs["note"]
    hosts = rank_clusters(load(tmp_path, [event("cpu_op", "a", 1, 9)], [], [call(3, 90)]))
    assert hosts["cluster"].tolist() == [0, 0, 0]
    assert "no steps" in hosts.attrs["note"]
    empty = rank_clusters(load(tmp_path, [kernel(5, 9)]), ranks=[])
    assert empty.empty
    assert empty.dtypes.to_dict() == alone.dtypes.to_dict()
    for wrong in ({"tolerance": 0}, {"max_clusters": 0}):
        with pytest.raises(hw.TraceError, match="positive"):
            rank_clusters(load(tmp_path, [kernel(5, 9)]), **wrong)

"""Jobs with drifting clocks, compared with the same jobs without drift."""

import numpy as np
import pytest
from support.small import call, event, load, nccl

from hta_widgets import analysis, diff as hd

STEP_NS = 100_000_000
TRANSFER_NS = 100_000


def job(tmp_path, *drift_ppm, groups=None, steps=20, late_ns=0):
    """Load steps of ranks that leave collectives together; rank 1 arrives late."""
    groups = groups or [tuple(range(len(drift_ppm)))]
    ranks = []
    for rank, ppm in enumerate(drift_ppm):

        def at(time, ppm=ppm):
            return time + time * ppm // 1_000_000

        records = []
        for number in range(steps):
            start = at(number * STEP_NS)
            records.append(
                event("user_annotation", f"ProfilerStep#{number}", start, start + STEP_NS, pid=10)
            )
            for place, group in enumerate(groups):
                if rank not in group:
                    continue
                launch = number * len(groups) + place + 1
                begin = number * STEP_NS + (place + 1) * 10_000_000
                args = {"Process Group Name": str(place), "Process Group Ranks": str([*group])}
                records += [
                    event(
                        "cpu_op",
                        "nccl:all_reduce",
                        start + 1000 * launch,
                        start + 1000 * launch + 500,
                        pid=10,
                    ),
                    call(start + 1000 * launch + 100, start + 1000 * launch + 200, launch=launch),
                    nccl(
                        at(begin - late_ns * (rank != 1)),
                        at(begin + TRANSFER_NS),
                        launch=launch,
                        **args,
                    ),
                ]
        ranks.append(records)
    return load(tmp_path, *ranks)


def transfer_ns(diff):
    times = hd.waterfall(diff, "cause").set_index("cause")["after_ns"]
    return int(times["communication_transfer"])


@pytest.mark.parametrize("drift_ppm", [(0, 20), (-10, 0, 30)])
def test_drift_is_no_change_of_collectives(tmp_path, drift_ppm):
    diff = hd.compare(job(tmp_path, *[0] * len(drift_ppm)), job(tmp_path, *drift_ppm))
    assert transfer_ns(diff) == pytest.approx(20 * TRANSFER_NS, rel=0.001)
    assert hd.findings(diff) == []
    (caution,) = [caution.text for caution in diff.cautions if caution.kind == "clock"]
    assert "drift by up to" in caution
    assert caution.endswith(
        "waits, transfers and late ranks are corrected for it; timelines are not"
    )


def test_drift_is_known_through_ranks_of_several_groups(tmp_path):
    # Ranks 0 and 3 share no group. Each rank has one collective per step in each of its groups.
    groups = [(0, 1), (1, 2), (2, 3)]
    even, drifting = (
        job(tmp_path, *drift_ppm, groups=groups) for drift_ppm in ((0,) * 4, (0, 10, 20, 40))
    )
    diff = hd.compare(even, drifting)
    # Ranks 0 and 3 have one collective per step, the others two.
    assert transfer_ns(diff) == pytest.approx(20 * 1.5 * TRANSFER_NS, rel=0.01)
    assert hd.findings(diff) == []


@pytest.mark.parametrize("drift_ppm", [(0, 20, 0), (-200, 20, 7, 0)])
def test_drift_over_ten_seconds_is_corrected(tmp_path, drift_ppm):
    late_ns = 200_000
    even, drifting = (
        job(tmp_path, *ppm, steps=100, late_ns=late_ns) for ppm in ([0] * len(drift_ppm), drift_ppm)
    )
    calls = analysis.collectives(drifting, clock="fitted")
    assert calls["last_rank"].eq(1).all()
    np.testing.assert_allclose(calls.query("rank != 1")["wait_ns"], late_ns, rtol=0.001)
    np.testing.assert_allclose(calls["transfer_ns"], TRANSFER_NS, rtol=0.001)
    assert "corrected for it, after which ranks leave them within" in calls.attrs["note"]
    names = ["is_straggler", "score", "imposed_wait_ns", "lost_share"]
    verdicts = [analysis.stragglers(traces)[names].astype(float) for traces in (even, drifting)]
    np.testing.assert_allclose(*verdicts, rtol=0.002)
    paths = [analysis.job_critical_path(traces, annotation="") for traces in (even, drifting)]
    assert paths[0]["name"].tolist() == paths[1]["name"].tolist()
    np.testing.assert_allclose(*(path["dur_ns"] for path in paths), rtol=0.001, atol=1)
    assert [path.attrs["jumps"] for path in paths] == [1, 1]
    assert paths[1].attrs["residual_ns"] < 10

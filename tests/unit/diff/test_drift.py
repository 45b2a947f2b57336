"""Jobs whose clocks drift, compared with the same job on clocks that do not."""

import pytest
from support.small import call, event, load, nccl

from hta_widgets import diff as hd

STEP_NS = 100_000_000
TRANSFER_NS = 100_000


def job(tmp_path, *drift_ppm, groups=None):
    """Twenty steps of ranks that arrive at and leave collectives together."""
    groups = groups or [tuple(range(len(drift_ppm)))]
    ranks = []
    for rank, ppm in enumerate(drift_ppm):

        def at(time, ppm=ppm):
            return time + time * ppm // 1_000_000

        records = []
        for number in range(20):
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
                    nccl(at(begin), at(begin + TRANSFER_NS), launch=launch, **args),
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
        "waits and transfers are corrected for it, timelines and late ranks are not"
    )


def test_drift_is_known_through_ranks_of_several_groups(tmp_path):
    # No group has ranks 0 and 3 in it; each rank has a collective a step in each of its groups.
    groups = [(0, 1), (1, 2), (2, 3)]
    even, drifting = (
        job(tmp_path, *drift_ppm, groups=groups) for drift_ppm in ((0,) * 4, (0, 10, 20, 40))
    )
    diff = hd.compare(even, drifting)
    # The ends have one collective a step, the others two.
    assert transfer_ns(diff) == pytest.approx(20 * 1.5 * TRANSFER_NS, rel=0.01)
    assert hd.findings(diff) == []

"""Every function for every way to choose two sides: jobs, ranks, steps, windows, job sizes."""

import numpy as np
import pytest
from support.turned import assert_mirrored

from hta_widgets import diff as hd

pytestmark = pytest.mark.slow

LEVELS = ("kind", "cause", "operator", "kernel")
SHORT = {"ranks": 2, "steps": 3, "events_per_step": 700}


def window(traces, first, last):
    start, length = traces.start_ns, traces.end_ns - traces.start_ns
    return traces.select(start_ns=start + int(first * length), end_ns=start + int(last * length))


#: Functions that choose the two sides, given the default job and `jobs`.
WAYS = {
    "two jobs": lambda usual, jobs: (usual, jobs(1, ("slow_operator", "extra_copy"))[0]),
    "two ranks": lambda usual, _: (usual.select(ranks=[0]), usual.select(ranks=[2])),
    "two ranks alone": lambda usual, _: (usual[1], usual[3]),
    "two steps": lambda usual, _: (usual.select("step == 1"), usual.select("step == 3")),
    "two steps of a rank": lambda usual, _: (
        usual.select("step == 0", ranks=[1]), usual.select("step == 4", ranks=[1])
    ),
    "two windows of whole steps": lambda usual, _: (window(usual, 0, 0.55), window(usual, 0.3, 1)),
    "two windows within a step": lambda usual, _: (
        window(usual, 0.52, 0.56), window(usual, 0.7, 0.78)
    ),
    "other sizes": lambda usual, jobs: (usual, jobs(5, shape=tuple(SHORT.items()))[0]),
    "a job and a rank": lambda usual, jobs: (usual, jobs(1)[0].select(ranks=[1])),
}  # fmt: skip


@pytest.fixture(scope="module", params=WAYS)
def sides(request, jobs):
    return WAYS[request.param](jobs(0)[0], jobs)


def lengths(diff):
    """Return the mean step times over ranks, rounded half up as a total."""
    for side in diff.sides:
        windows = np.stack(list(side.windows.values()))
        total, ranks = int((windows[:, :, 1] - windows[:, :, 0]).sum()), len(side.ranks)
        yield (2 * total + ranks) // (2 * ranks)


def by_key(frame, *keys):
    return frame.set_index([frame[key].astype(str) for key in keys]).sort_index()


def test_all_that_is_derived_holds_and_turns_round_with_the_sides(sides):
    present, back = hd.compare(*sides), hd.compare(*reversed(sides))
    expected = list(lengths(present))
    for by in LEVELS:
        bars, turned = hd.waterfall(present, by), hd.waterfall(back, by)
        assert [bars["before_ns"].sum(), bars["after_ns"].sum()] == expected
        assert bars["diff_ns"].sum() == expected[1] - expected[0]
        keys = ["kind", "cause", *(["name"] if by in {"operator", "kernel"} else [])]
        first, other = by_key(bars, *keys), by_key(turned, *keys)
        assert (first["diff_ns"] == -other["diff_ns"]).all()
        assert (first["before_ns"] == other["after_ns"]).all()
        each = [hd.waterfall(present, by, step=k) for k in range(present.step_count)]
        # With several ranks, the mean of each step is rounded separately.
        assert abs(sum(first["diff_ns"].sum() for first in each) - bars["diff_ns"].sum()) <= len(
            each
        )
    steps = hd.steps(present)
    kinds = [name for name in steps if name.endswith("_diff_ns")]
    assert (steps[kinds].sum(axis=1) == steps["diff_ns"]).all()
    assert (steps["diff_ns"] == -hd.steps(back)["diff_ns"]).all()
    for device in ("gpu", "cpu", "all"):
        first, other = (by_key(hd.names(diff, device=device), "name") for diff in (present, back))
        assert (first["diff_ns"] == -other["diff_ns"]).all()
        assert (first["before_count"] == other["after_count"]).all()
    first, other = (by_key(hd.operators_diff(diff), "name") for diff in (present, back))
    for measure in ("diff_host_self_ns", "diff_device_ns"):
        assert np.allclose(first[measure], -other[measure])
    for measure in ("device", "host"):
        trees = [hd.icicle(diff, measure) for diff in (present, back)]
        first, other = (by_key(tree, "path", "name", "kind") for tree in trees)
        assert np.allclose(first["diff_ns"].sort_values(), -other["diff_ns"].sort_values()[::-1])
    assert_mirrored(*sides)
    pairs = hd.pairs(present)
    assert (pairs["diff_ns"] == pairs["after_ns"] - pairs["before_ns"]).all()
    assert set(hd.tables(present)) == {"waterfall", "steps", "changes", "names", "operators"}
    for base in hd.BASES:
        line = hd.align(present, base)
        for side in (line.before, line.after):
            assert (side.to_own(side.to_common(side.own_start)) == side.own_start).all()
    assert isinstance(hd.findings(present), list)


def test_one_step_a_side_is_said_to_tell_little(jobs):
    before, after = jobs(0)[0], jobs(1, ("extra_copy",))[0]
    findings = hd.findings(hd.compare(before.select("step == 2"), after.select("step == 2")))
    assert [item.kind for item in findings] == ["slight", "added", "caution"]
    assert findings[-1].text.startswith("With one step on each side")

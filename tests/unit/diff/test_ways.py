"""Every function on every way of choosing two sides: jobs, ranks, steps, windows, sizes of jobs."""

import numpy as np
import pytest
from support.turned import assert_mirrored

from hta_widgets import diff as hd

LEVELS = ("kind", "cause", "operator", "kernel")
SHORT = {"ranks": 2, "steps": 3, "events_per_step": 700}


def two_jobs(jobs):
    return jobs(0)[0], jobs(1, ("slow_operator", "extra_copy"))[0]


def two_ranks(jobs):
    traces, _ = jobs(0)
    return traces.select(ranks=[0]), traces.select(ranks=[2])


def two_ranks_alone(jobs):
    traces, _ = jobs(0)
    return traces[1], traces[3]


def two_steps(jobs):
    traces, _ = jobs(0)
    return traces.select("step == 1"), traces.select("step == 3")


def two_steps_of_a_rank(jobs):
    traces, _ = jobs(0)
    return traces.select("step == 0", ranks=[1]), traces.select("step == 4", ranks=[1])


def window(traces, first, last):
    start, end = traces.start_ns, traces.end_ns
    length = end - start
    return traces.select(start_ns=start + int(first * length), end_ns=start + int(last * length))


def two_windows_of_whole_steps(jobs):
    traces, _ = jobs(0)
    return window(traces, 0, 0.55), window(traces, 0.3, 1)


def two_windows_within_a_step(jobs):
    traces, _ = jobs(0)
    return window(traces, 0.52, 0.56), window(traces, 0.7, 0.78)


def other_sizes(jobs):
    return jobs(0)[0], jobs(5, shape=tuple(SHORT.items()))[0]


def a_job_and_a_rank(jobs):
    return jobs(0)[0], jobs(1)[0].select(ranks=[1])


WAYS = [
    two_jobs, two_ranks, two_ranks_alone, two_steps, two_steps_of_a_rank,
    two_windows_of_whole_steps, two_windows_within_a_step, other_sizes, a_job_and_a_rank,
]  # fmt: skip


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.__name__)
def sides(request, jobs):
    return request.param(jobs)


def lengths(diff):
    """Mean over ranks of the steps' lengths, rounded half up as a total."""
    for side in diff.sides:
        windows = np.stack(list(side.windows.values()))
        total, ranks = int((windows[:, :, 1] - windows[:, :, 0]).sum()), len(side.ranks)
        yield (2 * total + ranks) // (2 * ranks)


def by_key(frame, *keys):
    return frame.set_index([frame[key].astype(str) for key in keys]).sort_index()


def test_all_that_is_derived_holds_and_turns_round_with_the_sides(sides):
    there, back = hd.compare(*sides), hd.compare(*reversed(sides))
    expected = list(lengths(there))
    for by in LEVELS:
        bars, turned = hd.waterfall(there, by), hd.waterfall(back, by)
        assert [bars["before_ns"].sum(), bars["after_ns"].sum()] == expected
        assert bars["diff_ns"].sum() == expected[1] - expected[0]
        keys = ["kind", "cause", *(["name"] if by in {"operator", "kernel"} else [])]
        one, other = by_key(bars, *keys), by_key(turned, *keys)
        assert (one["diff_ns"] == -other["diff_ns"]).all()
        assert (one["before_ns"] == other["after_ns"]).all()
        each = [hd.waterfall(there, by, step=k) for k in range(there.step_count)]
        # With several ranks, means of single steps are rounded separately.
        assert abs(sum(one["diff_ns"].sum() for one in each) - bars["diff_ns"].sum()) <= len(each)
    steps = hd.steps(there)
    kinds = [name for name in steps if name.endswith("_diff_ns")]
    assert (steps[kinds].sum(axis=1) == steps["diff_ns"]).all()
    assert (steps["diff_ns"] == -hd.steps(back)["diff_ns"]).all()
    for device in ("gpu", "cpu", "all"):
        one, other = (by_key(hd.names(diff, device=device), "name") for diff in (there, back))
        assert (one["diff_ns"] == -other["diff_ns"]).all()
        assert (one["before_count"] == other["after_count"]).all()
    one, other = (by_key(hd.operators_diff(diff), "name") for diff in (there, back))
    for measure in ("diff_host_self_ns", "diff_device_ns"):
        assert np.allclose(one[measure], -other[measure])
    for measure in ("device", "host"):
        trees = [hd.icicle(diff, measure) for diff in (there, back)]
        one, other = (by_key(tree, "path", "name", "kind") for tree in trees)
        assert np.allclose(one["diff_ns"].sort_values(), -other["diff_ns"].sort_values()[::-1])
    assert_mirrored(*sides)
    pairs = hd.pairs(there)
    assert (pairs["diff_ns"] == pairs["after_ns"] - pairs["before_ns"]).all()
    assert set(hd.tables(there)) == {"waterfall", "steps", "changes", "names", "operators"}
    for base in hd.BASES:
        line = hd.align(there, base)
        for side in (line.before, line.after):
            assert (side.to_own(side.to_common(side.own_start)) == side.own_start).all()
    assert isinstance(hd.findings(there), list)


def test_of_other_sizes_means_are_told_as_such(jobs):
    diff = hd.compare(*other_sizes(jobs))
    assert diff.by_rank_means
    assert diff.rank_pairs == [(0, 0), (1, 1)]
    texts = [caution.text for caution in diff.cautions]
    assert "4 ranks against 2: times are means over ranks" in texts
    assert "world size 4 → 2" in texts


def test_one_step_a_side_is_said_to_tell_little(jobs):
    before, after = jobs(0)[0], jobs(1, ("extra_copy",))[0]
    found = hd.findings(hd.compare(before.select("step == 2"), after.select("step == 2")))
    assert [one.kind for one in found] == ["added", "caution"]
    assert found[-1].text.startswith("With one step on each side")

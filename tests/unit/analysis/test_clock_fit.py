"""Clocks fitted from collectives, for jobs whose clocks are known."""

import numpy as np
import pytest
from support.collective_job import US, collective
from support.small import load

import hta_widgets as hw
import hta_widgets.diff
from hta_widgets.analysis import clock_offsets, collectives
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit


def job(tmp_path, groups, skew_us, *, count=9, noise_us=0, seed=0, start_us=1000):
    """Load ranks that run all-reduces in one group after another, on skewed clocks."""
    rng = np.random.default_rng(seed)
    events = [[] for _ in skew_us]
    now = start_us
    for turn in range(count):
        for group in groups:
            now += int(rng.integers(100, 900))
            for rank in group:
                off = skew_us[rank] + int(rng.integers(-noise_us, noise_us + 1))
                start = now - int(rng.integers(10, 90))
                span = ((start + off) * US, (now + off) * US)
                single = collective(*span, ranks=tuple(group), group=str(group), seq=turn)
                events[rank].append(single)
    return load(tmp_path, *events)


def turns(lates, **args):
    """Return a collective of 100 µs per millisecond; `lates` delays their ends, in µs."""
    for k, late in enumerate(lates):
        end = k * 1000 + 100 + late
        yield collective(k * 1000 * US, end * US, seq=k, **args)


def test_offsets_of_one_group(tmp_path):
    skew = [0, 250, -180, 40]
    frame = clock_offsets(job(tmp_path, [[0, 1, 2, 3]], skew))
    assert frame["rank"].tolist() == [0, 1, 2, 3]
    assert frame.offset_ns.tolist() == [item * US for item in skew]
    assert frame.residual_ns.tolist() == [0, 0, 0, 0]
    assert frame.collectives.tolist() == [9, 9, 9, 9]
    assert frame.part.tolist() == [0, 0, 0, 0]
    assert frame.drift_ppm.isna().all()
    # The ends of ranks 1 to 3 are off by 250, -180 and 40 µs, and so on.
    assert frame.recorded_residual_ns[1] > 200 * US
    assert "note" not in frame.attrs
    # Ranks without a common group are compared through other ranks.
    skew = [0, 300, -200, 75, 10]
    frame = clock_offsets(job(tmp_path, [[0, 1], [1, 2], [2, 3], [3, 4]], skew))
    assert frame.offset_ns.tolist() == [item * US for item in skew]


def test_parts_that_nothing_connects_keep_their_clock_and_say_so(tmp_path):
    frame = clock_offsets(job(tmp_path, [[0, 1], [2, 3]], [0, 300, 500, 520]))
    assert frame.offset_ns.tolist() == [0, 300 * US, 0, 20 * US]
    assert frame.part.tolist() == [0, 0, 1, 1]
    assert "no collectives connect these parts" in frame.attrs["note"]
    assert "0, 1; 2, 3" in frame.attrs["note"]
    # A rank without collectives is a separate part.
    frame = clock_offsets(job(tmp_path, [[0, 2]], [0, 0, 70]))
    assert frame.offset_ns.tolist() == [0, 0, 70 * US]
    assert frame.residual_ns.tolist() == [0, -1, 0]
    assert frame.collectives.tolist() == [9, 0, 9]


def test_noise_is_stated(tmp_path):
    skew = [0, 400, -300, 120, 60, -90]
    frame = clock_offsets(job(tmp_path, [[0, 1, 2, 3, 4, 5]], skew, count=200, noise_us=10))
    assert abs(frame.offset_ns.to_numpy() / US - skew).max() < 4
    # Ends are spread evenly over ±10 µs, so half of them are within 5 µs.
    assert frame.residual_ns.between(3 * US, 7 * US).all()


def test_single_collectives_that_go_wrong_do_not_matter(tmp_path):
    wrong = [350 if k in (2, 5, 6) else 50 for k in range(9)]
    traces = load(tmp_path, list(turns([0] * 9)), list(turns(wrong)))
    assert clock_offsets(traces).offset_ns.tolist() == [0, 50 * US]


@pytest.mark.parametrize(
    ("name", "is_said"), [("broadcast", True), ("reduce", True), ("all_reduce", False)]
)
def test_what_limits_the_fit_of_collectives_that_ranks_leave_early_is_said(tmp_path, name, is_said):
    frame = clock_offsets(load(tmp_path, *(list(turns([late] * 6, name=name)) for late in (0, 30))))
    assert frame["offset_ns"].tolist() == [0, 30_000]
    assert ("may leave before others arrive" in frame.attrs.get("note", "")) == is_said


def test_broadcasts_count_only_where_nothing_better_is(tmp_path):
    ranks = [list(turns([late] * 6, name="broadcast")) for late in (0, 30)]
    assert clock_offsets(load(tmp_path, *ranks)).offset_ns.tolist() == [0, 30 * US]
    good = [collective((k * 1000 + 500) * US, (k * 1000 + 600) * US, seq=10 + k) for k in range(3)]
    frame = clock_offsets(load(tmp_path, *(rank + good for rank in ranks)))
    assert frame.offset_ns.tolist() == [0, 0]
    assert frame.collectives.tolist() == [3, 3]


def test_drift_of_long_traces_is_stated(tmp_path):
    ends = np.arange(1, 41) * 100_000_000  # over four seconds
    fast = ends + ends // 50_000  # 20 ppm
    ranks = [
        [collective(end - 5_000, end, seq=k) for k, end in enumerate(each.tolist())]
        for each in (ends, fast)
    ]
    traces = load(tmp_path, *ranks)
    # Each rank relative to the other.
    assert clock_offsets(traces).drift_ppm.tolist() == pytest.approx([-20, 20], rel=0.01)
    # 20 ppm of the 3.9 s between the first and last end.
    note = collectives(traces, clock="fitted").attrs["note"].replace("\u202f", " ")
    assert note.startswith("clocks drift by up to 20 ppm, 78.0 µs over the collectives")
    assert clock_fit(traces).drift_ns.tolist() == pytest.approx([78_000, 78_000], rel=0.001)
    cautions = hta_widgets.diff.compare(traces, traces.subset(ranks=[0])).cautions
    (caution,) = [one.text for one in cautions if one.kind == "clock"]
    assert "clocks drift by up to 20 ppm" in caution


def test_ends_that_scatter_are_no_drift(tmp_path):
    ends = np.arange(1, 41) * 100_000_000
    rng = np.random.default_rng(1)
    ranks = [
        [collective(end - 50_000, end, seq=k) for k, end in enumerate(each.tolist())]
        for each in (ends, ends + rng.integers(-10_000, 10_000, 40))
    ]
    traces = load(tmp_path, *ranks)
    assert clock_offsets(traces).drift_ppm.notna().all()
    assert clock_fit(traces).drift_ns.tolist() == [0, 0]
    assert collectives(traces, clock="fitted").attrs.get("note", "") == ""


# Each rank is compared with the median of all others. If one of three ranks is off, the other two
# are compared with the midpoint between a right clock and the wrong one.
@pytest.mark.parametrize(
    ("off", "apart"),
    [
        ([0, 1], [-1, 1]),
        ([0, 0, 1], [-0.5, -0.5, 1]),
        ([0, 0, 0, 1], [0, 0, 0, 1]),
        ([0, 0, 1, 1], [-1, -1, 1, 1]),
        ([0, 1, 0, 0, 0, 0, -1, 0], [0, 1, 0, 0, 0, 0, -1, 0]),
    ],
)
def test_each_rank_is_compared_with_the_median_of_the_others(tmp_path, off, apart):
    skewed = clock_offsets(job(tmp_path, [list(range(len(off)))], [400 * item for item in off]))
    assert skewed.offset_ns.tolist() == [400 * US * item for item in off]
    assert skewed.recorded_residual_ns.tolist() == [400 * US * abs(item) for item in apart]
    assert skewed.residual_ns.tolist() == [0] * len(off)
    ends = np.arange(1, 41) * 100_000_000  # over four seconds
    ranks = [
        [
            collective(end - 5_000, end, ranks=tuple(range(len(off))), seq=k)
            for k, end in enumerate((ends + item * ends // 50_000).tolist())  # 20 ppm
        ]
        for item in off
    ]
    drifting = clock_offsets(load(tmp_path, *ranks))
    assert drifting.drift_ppm.tolist() == pytest.approx([20 * item for item in apart], rel=0.001)


def test_with_clock_moves_ranks_and_back(tmp_path):
    skew = [0, 250, -180, 40]
    traces = job(tmp_path, [[0, 1, 2, 3]], skew)
    fitted = traces.with_clock("fitted")
    assert (traces.clock, fitted.clock) == ("host", "fitted")
    ends = collectives(fitted).groupby("collective").end_ns
    assert ends.nunique().tolist() == [1] * 9
    assert collectives(traces).groupby("collective").end_ns.nunique().min() == 4
    assert fitted.with_clock("fitted") is fitted
    back = fitted.with_clock("host")
    assert back.clock == "host"
    assert back.events().equals(traces.events())
    assert back.origin_ns == traces.origin_ns
    # Subsets of a set use its clock.
    part = fitted.subset(ranks=[0, 2])
    assert part.clock == "fitted"
    assert part.events().equals(fitted.events(ranks=[0, 2]))
    assert part.with_clock("host").events().equals(traces.events(ranks=[0, 2]))


def test_no_event_comes_to_lie_before_zero(tmp_path):
    """Rank 1's clock is ahead by more than the time before its first event."""
    traces = job(tmp_path, [[0, 1]], [0, 5_000])
    fitted = traces.with_clock("fitted")
    assert fitted.start_ns == 0
    assert traces[0].start_ns == 0
    # All ranks are shifted, rank 0 by the offset of the origin.
    assert fitted[0].start_ns == clock_fit(traces).origin_offset_ns > 0
    assert collectives(traces, clock="fitted").equals(collectives(fitted))
    assert collectives(fitted, clock="host").equals(collectives(traces))


def test_exports_hold_the_recorded_times(tmp_path):
    traces = job(tmp_path, [[0, 1]], [0, 250])
    path = tmp_path / "out.json"
    hw.export_trace(traces.with_clock("fitted"), path)
    again = hw.load(path, cache=False, progress=False)
    assert again.events().start_ns.tolist() == traces.events().start_ns.tolist()


def test_windows_restrict_the_fit(tmp_path):
    traces = load(tmp_path, list(turns([0] * 8)), list(turns([40] * 4 + [90] * 4)))
    assert clock_offsets(traces, window=(0, 4_000 * US)).offset_ns.tolist() == [0, 40 * US]
    assert clock_offsets(traces, window=(4_000 * US, 9_000 * US)).offset_ns[1] == 90 * US
    assert clock_offsets(traces, ranks=[1])["rank"].tolist() == [1]
    nothing = clock_offsets(traces, window=(5, 5))
    assert nothing.residual_ns.tolist() == [-1, -1]
    assert "selection or window contains no collective" in nothing.attrs["note"]
    alone = clock_offsets(load(tmp_path, [collective(0, 10 * US)]))
    assert alone[["offset_ns", "residual_ns"]].to_numpy().tolist() == [[0, -1]]
    assert "no collective is found on two ranks" in alone.attrs["note"]
    with pytest.raises(hw.TraceError, match="clock= takes 'host' or 'fitted', not 'utc'"):
        traces.with_clock("utc")

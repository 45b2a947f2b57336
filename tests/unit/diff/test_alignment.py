"""Two runs on one time axis, with positions calculated by hand."""

import numpy as np
import pytest
from support.small import event, load, nccl

import hta_widgets as hw
from hta_widgets import diff as hd


def steps(*bounds, first=1):
    return [
        event("user_annotation", f"ProfilerStep#{first + k}", start, end, pid=10)
        for k, (start, end) in enumerate(bounds)
    ]


@pytest.fixture
def pair(tmp_path):
    """Steps of 100, 200 and 50 ns, and of 150, 120 and 50 ns with a pause after the second."""
    before = load(tmp_path, steps((10, 110), (110, 310), (330, 380)))
    after = load(tmp_path, steps((40, 190), (190, 310), (310, 360)))
    return hd.compare(before, after)


def gaps(found):
    return [tuple(row) for row in found.gaps.itertuples(index=False)]


def test_steps_start_in_line_and_slots_are_as_long_as_the_longer(pair):
    result = hd.align(pair, "steps")
    slots = result.slots
    # Work after a step belongs to its slot: the second step of "before" continues to 330.
    columns = ["before_label", "common_start_ns", "common_end_ns", "delta_ns"]
    assert slots[columns].to_numpy().tolist() == [
        ["ProfilerStep#1", 10, 160, 50],
        ["ProfilerStep#2", 160, 360, -80],
        ["ProfilerStep#3", 380, 430, 0],
    ]
    for side, start in (("before", [10, 110, 330]), ("after", [40, 190, 310])):
        assert getattr(result, side).to_common(start).tolist() == [10, 160, 380]
    assert gaps(result) == [("before", 110, 160), ("after", 280, 380)]
    # The map extends beyond the first and last step.
    assert result.before.to_common([0, 379, 380, 500]).tolist() == [0, 429, 430, 550]
    assert result.after.to_common([0, 360]).tolist() == [-30, 430]
    # The inverse maps a gap to the instant at which it begins.
    assert result.before.to_own([109, 110, 140, 160, 550]).tolist() == [109, 110, 110, 110, 500]
    # Segments are the pieces of both maps.
    rows = result.segments()
    ours = rows[rows["side"] == "after"]
    assert ours["own_start_ns"].tolist() == result.after.own_start.tolist()
    own, common = (rows[f"{word}_end_ns"] - rows[f"{word}_start_ns"] for word in ("own", "common"))
    assert (own <= common).all()
    with pytest.raises(hw.TraceError, match=r"base= takes 'absolute', .*, not 'warp'"):
        hd.align(pair, "warp")


def test_a_repeated_step_keeps_its_name_and_has_its_own_number(tmp_path):
    records = [step for at in (0, 200) for step in steps((at, at + 90), (at + 90, at + 180))]
    slots = hd.align(hd.compare(load(tmp_path, records), load(tmp_path, records))).slots
    labels = ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#1 (step 3)"]
    assert slots["before_label"].tolist() == [*labels, "ProfilerStep#2 (step 4)"]


def test_moved_as_a_whole(pair):
    absolute = hd.align(pair, "absolute")
    assert absolute.after.to_common([0, 40, 999]).tolist() == [0, 40, 999]
    assert gaps(absolute) == []
    first = hd.align(pair, "first_step")
    assert first.before.to_common([10]).tolist() == first.after.to_common([40]).tolist() == [10]
    assert first.after.to_own(first.after.to_common([-5, 7, 10**15])).tolist() == [-5, 7, 10**15]
    assert first.slots["common_start_ns"].tolist() == [10, 110, 280]


def test_stretched_to_the_length_of_the_longer(pair):
    # 370 and 320 ns from the start of the first step to the end of the last.
    result = hd.align(pair, "scaled")
    assert result.before.to_common([10, 200, 380]).tolist() == [10, 200, 380]
    assert result.after.to_common([40, 200, 359, 360]).tolist() == [10, 195, 378, 380]
    assert gaps(result) == []
    inside = np.arange(-100, 1000)
    assert (result.after.to_own(result.after.to_common(inside)) == inside).all()


def test_a_pair_of_long_runs_is_exact_beyond_64_bits(tmp_path):
    hours = 3_600_000_000_000
    before = load(tmp_path, steps((0, 7 * hours)))
    after = load(tmp_path, steps((0, 5 * hours + 1)))
    result = hd.align(hd.compare(before, after), "scaled")
    inside = np.array([0, 1, 12_345_678_901_234, 5 * hours])
    common = result.after.to_common(inside)
    assert common.tolist() == [t * 7 * hours // (5 * hours + 1) for t in inside.tolist()]
    assert (result.after.to_own(common) == inside).all()


def test_collectives_start_in_line(tmp_path):
    def side(*starts):
        end = max(starts) + 100
        return load(tmp_path, [*steps((5, end)), *(nccl(at, at + 10) for at in starts)])

    # Without launches events have no step, but their times are within one.
    diff = hd.compare(side(20, 120, 150), side(30, 90, 200))
    result = hd.align(diff, "collectives")
    columns = ["before_start_ns", "after_start_ns", "common_start_ns"]
    assert result.slots[columns].to_numpy().tolist() == [
        [20, 30, 20],
        [120, 90, 120],
        [150, 200, 230],
    ]
    assert gaps(result) == [("before", 150, 230), ("after", 80, 120)]
    none = hd.align(hd.compare(side(20).select("kind != 'communication'"), side(20)), "collectives")
    assert none.slots.attrs["note"] == "no collectives match: steps are aligned instead"
    assert len(none.slots) == 1


def test_of_several_ranks_a_step_runs_from_the_first_start_to_the_last_end(tmp_path):
    before = load(tmp_path, steps((10, 100), (100, 200)), steps((20, 120), (120, 190)))
    after = load(tmp_path, steps((10, 100), (100, 150)), steps((10, 90), (95, 150)))
    slots = hd.align(hd.compare(before, after)).slots
    columns = ["before_start_ns", "before_end_ns", "after_start_ns"]
    assert slots[columns].to_numpy().tolist() == [[10, 120, 10], [100, 200, 95]]

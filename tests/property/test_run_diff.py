"""Properties of all comparisons of two runs: sums, unique partners, symmetry."""

import itertools
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from support.examples import examples
from support.random_job import write_job
from support.turned import assert_mirrored

import hta_widgets as hw
from hta_widgets import diff as hd
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.training_step import CHANGES
from hta_widgets.diff.align import TimeMap
from hta_widgets.diff.sequences import align_positions
from hta_widgets.diff.trees import mix_hash

LEVELS = ("kind", "cause", "operator", "kernel")


#: Event details are read from the files on first access.
FOLDER = tempfile.TemporaryDirectory()


@cache
def random_job(seed):
    folder = Path(FOLDER.name) / f"random-{seed}"
    folder.mkdir()
    return hw.load(write_job(folder, seed), cache=False, progress=False)


@cache
def demo(seed, changes=()):
    folder = Path(FOLDER.name) / f"demo-{seed}-{len(changes)}"
    write_demo(folder, seed=seed, changes=changes, ranks=2, steps=2, events_per_step=700)
    return hw.load(folder, cache=False, progress=False)


KINDS = {"compute": "compute", "communication": "communication", "memory": "copies"}


def moments(trace, windows):
    """Sum the time of each kind in windows, interval by interval between adjacent edges."""
    work = trace.events.query("stream >= 0 and dur_ns > 0 and kind in @KINDS")
    start, kind = work["start_ns"].to_numpy(), work["kind"].to_numpy(str)
    end = start + work["dur_ns"].to_numpy()
    result = dict.fromkeys((*KINDS.values(), "idle"), 0)
    for low, high in windows:
        edges = np.unique(np.clip(np.concatenate([[low, high], start, end]), low, high))
        for begin, stop in itertools.pairwise(edges.tolist()):
            running = set(kind[(start <= begin) & (end >= stop)])
            result[next((KINDS[item] for item in KINDS if item in running), "idle")] += stop - begin
    return result


@settings(max_examples=examples(8))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_bars_add_up_to_the_step_times(one, other):
    before, after = demo(one), demo(other, CHANGES)
    diff = hd.compare(before, after)
    for word, traces in (("before", before), ("after", after)):
        events = traces.events()
        full = int(
            events.loc[
                (events["stream"] < 0) & events["name"].astype(str).str.startswith("ProfilerStep"),
                "dur_ns",
            ].sum()
        )
        for by in LEVELS:
            frame = hd.waterfall(diff, by)
            # Means over two ranks are rounded half up, and only once.
            assert frame[f"{word}_ns"].sum() == (full + 1) // 2
            assert frame["diff_ns"].sum() == frame.attrs["after_ns"] - frame.attrs["before_ns"]
    steps = hd.steps(diff)
    kinds = [column for column in steps if column.endswith("_diff_ns")]
    assert (steps[kinds].sum(axis=1) == steps["diff_ns"]).all()


@settings(max_examples=examples(12))
@given(st.integers(0, 40), st.integers(0, 40))
def test_each_moment_is_of_the_kind_that_looking_at_it_tells(one, other):
    diff = hd.compare(random_job(one)[0], random_job(other)[1])
    frame = hd.waterfall(diff)
    for word, side in zip(("before", "after"), diff.sides, strict=True):
        (rank,) = side.ranks
        expected = moments(side.parts[rank].trace, side.windows[rank].tolist())
        got = frame.set_index("cause")[f"{word}_ns"].to_dict()
        got["idle"] += got.pop("host", 0)
        assert got == expected
        for by in LEVELS[1:]:
            kinds = hd.waterfall(diff, by).groupby("kind", observed=True)[f"{word}_ns"].sum()
            assert kinds.get("compute", 0) == expected["compute"]
            assert kinds.get("communication", 0) == expected["communication"]


@settings(max_examples=examples(12))
@example(15, 0)
@example(0, 15)
@given(st.integers(0, 40), st.integers(0, 40))
def test_each_event_has_one_row_and_one_partner_at_most(one, other):
    before, after = random_job(one), random_job(other)
    diff = hd.compare(before, after)
    frame = hd.pairs(diff)
    # Python functions are compared only if both sides have them.
    both = all(
        any(
            (side.parts[rank].trace.events["category"] == "python_function").any()
            for rank in side.ranks
        )
        for side in diff.sides
    )
    for place, (word, side) in enumerate(zip(("before", "after"), diff.sides, strict=True)):
        ours = frame[frame[f"{word}_id"] >= 0]
        assert not ours.duplicated([f"{word}_rank", f"{word}_id"]).any()
        expected = 0
        for pair in diff.rank_pairs:
            events = side.parts[pair[place]].trace.events
            busy = events["kind"].isin(["compute", "communication", "memory"])
            host = (events["stream"] < 0) & (events["kind"] != "sync")
            compared = events["step"].isin([-1, *side.steps.tolist()]) | (not side.has_steps)
            stacks = events["category"] == "python_function"
            named = events["name"].astype(str).str.startswith("ProfilerStep")
            remaining = (((events["stream"] >= 0) & busy) | host) & ~named & compared
            expected += int((remaining & (both | ~stacks)).sum())
        assert len(ours) == expected
    joined = frame[(frame["before_id"] >= 0) & (frame["after_id"] >= 0)]
    assert set(joined["status"]) <= {"same", "changed", "moved", "replaced"}
    alone = frame[(frame["before_id"] < 0) | (frame["after_id"] < 0)]
    assert set(alone["status"]) <= {"added", "removed", "replaced"}
    itself = hd.compare(before, before)
    assert set(hd.pairs(itself)["status"]) <= {"same"}
    assert hd.findings(itself) == []


@pytest.mark.parametrize(
    ("one", "other"), [*((k, (5 * k + 3) % 14) for k in range(14)), (6, 37), (14, 11), (17, 38)]
)
def test_turned_round_the_same_is_told_the_other_way(one, other):
    assert_mirrored(random_job(one), random_job(other))


@pytest.mark.parametrize(("one", "other"), [(0, 1), (7, 40), (100, 3), (60_001, 60_000)])
def test_turned_round_demo_jobs_tell_the_same_changes(one, other):
    before, after = demo(one), demo(other, CHANGES)
    assert_mirrored(before, after)
    assert_mirrored(before.select("step == 0"), after.select("step == 1"))


@st.composite
def maps(draw):
    count = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(0, 10**13), min_size=count, max_size=count))
    longer = [
        length if length == 0 else length + draw(st.integers(0, 10**13)) for length in lengths
    ]
    gaps = [draw(st.integers(0, 10**6)) for _ in range(count)]
    own = np.cumsum([draw(st.integers(-(10**9), 10**9)), *lengths])
    starts, at = [], draw(st.integers(-(10**9), 10**9))
    for length, gap in zip(longer, gaps, strict=True):
        starts.append(at)
        at += length + gap
    starts = np.array(starts)
    return TimeMap(own[:-1], own[1:], starts, starts + np.array(longer))


@given(maps(), st.lists(st.integers(-(10**14), 10**14), min_size=1, max_size=20))
def test_every_instant_comes_back(found, instants):
    edges = np.concatenate([found.own_start, found.own_end, found.own_end - 1, instants])
    common = found.to_common(edges)
    assert (found.to_own(common) == edges).all()
    gap_start, gap_end = found.gaps()
    assert not ((common[:, None] >= gap_start) & (common[:, None] < gap_end)).any()
    order = np.argsort(edges, kind="stable")
    assert (np.diff(common[order]) >= np.sign(np.diff(edges[order]))).all()


def worth(a, b, ha, hb, pairs):
    return sum(3 if ha[i] == hb[j] else 2 if a[i] == b[j] else -(10**9) for i, j in pairs)


def best(a, b, ha, hb):
    """Return the value of the best pairing, found by recursion."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, j in itertools.product(range(len(a)), range(len(b))):
        gain = 3 if ha[i] == hb[j] else 2 if a[i] == b[j] else 0
        table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j], table[i][j] + gain)
    return table[-1][-1]


calls = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=14)


@given(calls, calls)
def test_no_pairing_in_order_is_worth_more(mine, theirs):
    names = [np.array([name for name, _ in side], dtype=np.int64) for side in (mine, theirs)]
    hashes = [
        mix_hash(np.array([4 * name + below for name, below in side], dtype=np.uint64))
        for side in (mine, theirs)
    ]
    pairs = align_positions(*names, *hashes)
    assert (np.diff(pairs, axis=0) > 0).all()
    assert worth(*names, *hashes, pairs.tolist()) == best(*names, *hashes)
    turned = align_positions(*names[::-1], *hashes[::-1])
    assert turned[:, ::-1].tolist() == pairs.tolist()

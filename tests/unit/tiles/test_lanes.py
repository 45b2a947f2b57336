"""Filling lanes: memory, eviction, layers of async events, unusual columns."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.tiles.cells import event_tiles, measure_cells
from hta_widgets.tiles.details import MAX_HISTOGRAM_BINS, args_of_record, duration_figures
from hta_widgets.tiles.lanes import index_lane
from hta_widgets.tiles.layout import MAX_LAYERS, async_groups
from hta_widgets.tiles.rank_index import MAX_TABLES, LaneBudget, RankIndex
from hta_widgets.tiles.tile_reply import NameKeys
from hta_widgets.trace.columns import AsyncTable, StringPool
from hta_widgets.trace.conditions import trace_index


def a_lane(starts, durs, kinds=0, *, slices=True):
    starts, durs = np.asarray(starts, np.int64), np.asarray(durs, np.int64)
    kinds = np.broadcast_to(np.asarray(kinds, np.uint8), starts.shape)
    return index_lane(starts, durs, kinds, np.arange(len(starts)) if slices else None)


def test_bytes_per_event():
    count = 64_000
    starts = np.arange(count) * 10
    assert a_lane(starts, np.full(count, 10)).nbytes <= 20.2 * count
    # Overlapping events keep their durations, which cannot be derived from the union.
    assert a_lane(starts, np.full(count, 11)).nbytes <= 28.2 * count + 16
    # Nested calls, as on a folded host thread, have a short union.
    nested = a_lane(np.arange(count), np.arange(count)[::-1] + 1, slices=False)
    assert nested.nbytes <= 16.1 * count


def test_counts_saturate_but_are_exact_inside():
    lane = a_lane(np.zeros(70_000), np.full(70_000, 5))
    assert measure_cells(lane, np.array([0, 8])).count.tolist() == [70_000]
    from_tiles = event_tiles(lane, 3, 0, 1)
    assert from_tiles.count[0, 0] == 65_535


def test_an_empty_lane():
    lane = a_lane([], [])
    assert measure_cells(lane, np.array([0, 5, 9])).count.tolist() == [0, 0]
    assert lane.spans.extent == (0, 0)
    assert len(lane.long_events(0, 10, 1)) == 0


def test_overlapped_events_are_told():
    lane = a_lane([0, 5, 20, 25, 40], [10, 5, 10, 3, 5])
    at = lane.long_events(0, 100, 1)
    assert at.tolist() == [0, 1, 2, 3, 4]
    assert lane.overlap_mask(at).tolist() == [False, True, False, True, False]


def test_a_lane_without_rows_says_so():
    with pytest.raises(ValueError, match="no rows"):
        a_lane([0], [5], slices=False).durations(np.array([0]))


def test_what_was_not_used_for_longest_goes_first():
    lane = a_lane([0, 10], [5, 5])
    budget = LaneBudget(2 * lane.nbytes).lanes
    for key in ("a", "b"):
        budget.put(key, [lane])
    assert budget.get("a") == [lane]
    budget.put("c", [lane])
    assert budget.get("b") is None
    assert budget.get("a") == [lane]
    assert budget.used == 2 * lane.nbytes
    assert LaneBudget(0).lanes.put("alone", [lane]) == [lane]


def test_tables_of_ranks_out_of_sight_are_let_go():
    budget, result = LaneBudget(0), []

    def table(rank):
        return budget.tables.get_or_compute(rank, lambda: result.append(rank) or f"table of {rank}")

    for rank in range(MAX_TABLES + 1):
        assert table(rank) == f"table of {rank}"
    assert table(MAX_TABLES) == f"table of {MAX_TABLES}"
    assert table(1) == "table of 1"
    assert result == list(range(MAX_TABLES + 1))
    table(0)
    assert result[-1] == 0


def test_lanes_keep_nothing_of_their_table():
    starts, durs = np.array([0, 5, 20]), np.array([10, 5, 10])
    rows, kinds = np.arange(3), np.zeros(3, np.uint8)
    for spread in (1, 7):
        lane = index_lane(starts * spread, durs, kinds, rows)
        remaining = [
            lane.rows,
            lane.durs,
            lane.longest,
            lane.spans.sorted_starts,
            lane.spans.cover.prefix,
        ]
        inputs = (durs, kinds, rows)
        shared = [a for a in remaining for b in inputs if a is not None and np.shares_memory(a, b)]
        assert shared == []


def test_lanes_that_were_forgotten_are_made_again(engine):
    rank = engine.job.ranks[0]
    index = RankIndex(rank, LaneBudget(0), lambda: engine.lateness)
    before = [index.lane(lane)[1].nbytes for lane in range(rank.lane0, rank.lane0 + rank.lanes)]
    again = [index.lane(lane)[1].nbytes for lane in range(rank.lane0, rank.lane0 + rank.lanes)]
    assert before == again


def asyncs(starts, durs, pids=None):
    count = len(starts)
    return AsyncTable(
        np.array(starts, np.int64),
        np.array(durs, np.int64),
        np.zeros(count, np.int32),
        np.zeros(count, np.int16),
        [""] * count,
        pids or ["1"] * count,
        np.arange(count),
    )


def test_asyncs_take_the_first_free_layer_or_share_the_last():
    (group,) = async_groups(asyncs([0, 2, 4, 6, 20], [10, 2, 1, -1, 1]), StringPool(["io"]))
    assert (group.layer.tolist(), group.layers) == ([0, 1, 1, 1, 0], 2)
    (group,) = async_groups(asyncs(range(50), [1000] * 50), StringPool(["io"]))
    assert group.layer.tolist() == [*range(MAX_LAYERS), *[MAX_LAYERS - 1] * (50 - MAX_LAYERS)]


def test_asyncs_are_grouped_by_process():
    groups = async_groups(asyncs([0, 1, 2], [5, 5, 5], ["1", "2", "1"]), StringPool(["io"]))
    assert [group.rows.tolist() for group in groups] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("record", "args"),
    [
        (b'{"name":"x"}', []),
        (b'{"args":{}}', []),
        (b'{"args":[1,2]}', [("args", "[1,2]")]),
        (
            b' {"args": {"n": 1.50, "big": 123456789012345678901234567890, "e": 1E5, "t": true}} ',
            [("n", "1.50"), ("big", "123456789012345678901234567890"), ("e", "1E5"), ("t", "true")],
        ),
        (
            '{"args":{"nest":{"b":[1.0,null,"ü"],"a":{}},"none":null,"html":"<b>"}}'.encode(),
            [("nest", '{"b":[1.0,null,"ü"],"a":{}}'), ("none", "null"), ("html", "<b>")],
        ),
        (b'{"args":{"twice":1,"twice":2}}', [("twice", "1"), ("twice", "2")]),
        (
            b'{"args":{"tab":"a\tb","bad":NaN,"\xff":0}}',
            [("tab", "a\tb"), ("bad", "NaN"), ("�", "0")],
        ),
        (b'{"args":{"quote":["say \\"a\\""]}}', [("quote", '["say \\"a\\""]')]),
    ],
)
def test_args_as_text(record, args):
    assert args_of_record(record) == args


def test_a_cut_record_is_an_error():
    with pytest.raises(ValueError, match=r"delimiter|property|value"):
        args_of_record(b'{"args":{"a":1')


@pytest.mark.parametrize(
    ("durs", "scale"),
    [
        ([5], "linear"),
        ([0, 0, 0], "linear"),
        ([1, 2], "linear"),
        ([0, 10**9], "linear"),
        ([100, 150, 160, 180], "linear"),
        ([10, 100, 1000, 10_000, 33], "log"),
        (list(range(1, 100_000, 7)), "log"),
        ([2**53 - 1, 1], "log"),
    ],
)
def test_histograms_hold_every_event(durs, scale):
    figures = duration_figures(np.array(durs, np.int64))
    assert figures["scale"] == scale
    assert len(figures["counts"]) <= MAX_HISTOGRAM_BINS
    assert len(figures["edges"]) == len(figures["counts"]) + 1
    assert sum(figures["counts"]) == figures["count"] == len(durs)
    assert figures["edges"] == sorted(set(figures["edges"]))
    assert (figures["edges"][0], figures["min"]) == (min(durs), min(durs))
    assert figures["sum"] == sum(durs)


def test_events_that_touch_do_not_overlap():
    assert a_lane([0, 10, 20], [10, 10, 10]).spans.is_disjoint
    mixed = a_lane([0, 10, 15, 30], [10, 10, 2, 5])
    assert mixed.overlap_mask(mixed.long_events(0, 100, 1)).tolist() == [False, False, True, False]


def test_events_open_at_an_instant(traces):
    index = trace_index(traces[0])
    events = traces[0].events
    end = events["start_ns"] + events["dur_ns"]
    for time in (0, 1, 5_000, 15_000, 22_001, 50_000, 60_000, 100_000):
        still = events.index[(events["start_ns"] < time) & (end > time)]
        assert index.rows_running_at(time).tolist() == still.tolist()


def test_names_keep_their_keys():
    names = NameKeys()
    one_side, other = (
        StringPool(["aten::add", "aten::mul"]),
        StringPool(["aten::mul", "aten::add", "aten::div"]),
    )
    first = names.keys(one_side, np.array([1]))
    both = names.keys(one_side, np.array([0, 1, 1]))
    assert both[1] == both[2] == first[0] != both[0]
    assert names.keys(other, np.array([0, 1])).tolist() == [both[1], both[0]]
    assert names.texts(both) == {str(both[0]): "aten::add", str(both[1]): "aten::mul"}

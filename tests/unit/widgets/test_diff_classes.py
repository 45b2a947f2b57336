"""The class of each event, as the page colours it; the events of a change."""

import numpy as np
import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets import diff
from hta_widgets.demo.job import write_demo
from hta_widgets.live.event_classes import CLASSES, classes_of_pairs, rows_of_change
from hta_widgets.tiles.cells import unpack


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    work = tmp_path_factory.mktemp("classes")
    write_demo(work / "a", ranks=2, steps=3, seed=0)
    write_demo(work / "b", ranks=2, steps=3, seed=1, changes=["extra_copy", "slow_operator"])
    return [hw.load(work / side, cache=False, progress=False) for side in "ab"]


@pytest.fixture(scope="module")
def view(sides):
    return hw.TraceDiff(*sides)


def test_classes_say_by_how_much_the_longer_is_longer():
    words = ("same", "changed", "added", "removed", "moved", "replaced")
    rows = [
        ("same", 100, 101, "same"),
        ("changed", 100, 120, "slower_1"),
        ("changed", 99, 132, "slower_2"),
        ("changed", 100, 200, "slower_3"),
        ("changed", 132, 99, "faster_2"),
        ("changed", 120, 100, "faster_1"),
        ("changed", 100, 0, "faster_3"),
        ("added", 0, 50, "only_here"),
        ("removed", 50, 0, "only_here"),
        ("moved", 10, 30, "moved"),
        ("replaced", 10, 30, "replaced"),
    ]
    pairs = pd.DataFrame(
        {
            "status": pd.Categorical([row[0] for row in rows], categories=words),
            "before_ns": [row[1] for row in rows],
            "after_ns": [row[2] for row in rows],
        }
    )
    texts = [CLASSES[code] for code in classes_of_pairs(pairs).tolist()]
    assert texts == [row[3] for row in rows]


def test_every_event_of_a_tile_has_the_class_of_its_pair(view):
    pairs = view.frames["pairs"]
    for side, word in enumerate(("before", "after")):
        engine = view.sides[side].engine
        lane = next(
            track["lane0"]
            for track in engine.scene()["ranks"][1]["tracks"]
            if track["role"] == "stream" and not track["communication"]
        )
        part = {"lanes": [lane], "first": 0, "last": 1 << 12}
        reply, buffer = view.answer(
            {"rpc": "1", "side": side, "op": "tiles", "level": 7, "parts": [part], "classed": True}
        )
        columns = unpack(reply["columns"], buffer)
        of = dict(zip(columns["slice_id"].tolist(), columns["slice_class"].tolist(), strict=True))
        mine = pairs[(pairs[f"{word}_rank"] == 1) & pairs[f"{word}_id"].isin(of)]
        assert len(mine) > 50
        expected = {
            "same": {"same"}, "changed": {name for name in CLASSES if name[-2] == "_"},
            "added": {"only_here"}, "removed": {"only_here"}, "moved": {"moved"},
            "replaced": {"replaced"},
        }  # fmt: skip
        for event, status in zip(mine[f"{word}_id"], mine["status"], strict=True):
            assert CLASSES[of[event]] in expected[status]
    counts = view._answers.answer({"op": "classes"})[0]["counts"]
    assert [sum(side) for side in counts] == [
        sum(len(trace.table) for trace in side.traces.values()) for side in view.sides
    ]


def test_events_of_one_pair_of_ranks_are_counted_by_themselves(view):
    reply = view._answers.answer({"op": "classes"})[0]
    pairs = view.frames["pairs"]
    whole, by_pair = np.array(reply["counts"]), np.array(reply["pair_counts"])
    assert (by_pair.sum(axis=0) == whole).all()
    changed = [CLASSES.index(name) for name in CLASSES if name[-2] == "_"]
    for pair, (before, after) in enumerate(view._answers.both.rank_pairs):
        mine = pairs[(pairs["before_rank"] == before) & (pairs["after_rank"] == after)]
        counts = by_pair[pair]
        assert counts[0, changed].sum() == counts[1, changed].sum()
        assert counts[0, changed].sum() == (mine["status"] == "changed").sum()
        assert counts[1, CLASSES.index("only_here")] == (mine["status"] == "added").sum()
    assert (by_pair[0] != by_pair[1]).any()


def test_a_change_marks_the_calls_that_it_is_about(view):
    changes, pairs = view.frames["changes"], view.frames["pairs"]
    slower, added = changes.iloc[0], changes.iloc[1]
    assert [slower["change"], added["change"]] == ["slower", "added"]
    rows = pairs.iloc[rows_of_change(pairs, slower)]
    # The operator 12 times a step, in 3 steps on 2 ranks, and its one kernel each.
    assert set(rows["name"][rows["kind"] == "cpu"]) == {"aten::gelu"}
    assert (rows["kind"] == "cpu").sum() == (rows["kind"] == "compute").sum() == 12 * 3 * 2
    assert (rows["before_id"] >= 0).all()
    rows = pairs.iloc[rows_of_change(pairs, added)]
    assert set(rows["status"]) == {"added"}
    assert "Memcpy DtoD (Device -> Device)" in set(rows["name"])
    reply = view._answers.answer({"op": "change_events", "row": 1})[0]
    assert reply["events"][0] == []
    assert len(reply["events"][1]) == len(rows)


def test_changes_and_tree_of_one_pair_of_ranks_mark_its_calls_alone(view):
    answers, pairs = view._answers, view.frames["pairs"]
    changes = answers.frame("changes@1")["columns"]
    row = changes["name"].index("aten::gelu")
    before, after = answers.answer({"op": "change_events", "row": row, "pair": 1})[0]["events"]
    # As often as on both ranks in the test above, by half.
    assert len(before) == len(after) == 12 * 3 * 2
    assert {rank for rank, _ in before + after} == {1}
    tree = answers.frame("icicle@1")["columns"]
    node = tree["node"][tree["name"].index("aten::gelu")]
    asked = {"node": node, "pair": 1}
    found = answers.answer({"op": "path_events", **asked})[0]["events"]
    calls = pairs[(pairs["name"] == "aten::gelu") & (pairs["before_rank"] == 1)]
    assert 0 < len(found[0]) <= len(calls)
    assert {rank for rank, _ in found[0] + found[1]} == {1}
    # Such a call is that node's, whichever tree the page shows.
    of_all = answers.answer({"op": "partner", "of": 0, "rank": 1, "id": found[0][0][1]})[0]
    of_pair = answers.answer(
        {"op": "partner", "of": 0, "rank": 1, "id": found[0][0][1], "pair": 1}
    )[0]
    assert of_pair["node"] == node
    assert (of_pair["rank"], of_pair["id"]) == (of_all["rank"], of_all["id"])
    turned = answers.frame("findings:swapped@1")["columns"]["text"]
    assert len(turned) == len(answers.frame("findings@1")["columns"]["text"])


def test_one_pair_of_ranks_has_its_own_figures(view, sides):
    alone = diff.compare(*(side.select(ranks=[1]) for side in sides))
    answers = view._answers
    for name, frame in (
        ("waterfall:kind@1", diff.waterfall(alone)),
        ("steps@1", diff.steps(alone)),
    ):
        columns = answers.frame(name)["columns"]
        assert columns["before_ns"] == frame["before_ns"].tolist()
        assert columns["after_ns"] == frame["after_ns"].tolist()
    texts = [one.text for one in diff.findings(alone)]
    assert answers.frame("findings@1")["columns"]["text"] == texts
    assert texts != answers.frame("findings")["columns"]["text"]
    with pytest.raises(ValueError, match="no pair of ranks 2"):
        answers.frame("names@2")
    with pytest.raises(hw.TraceError, match="no pair of ranks 2"):
        view.pair = 2
    # Lanes of all pairs are means: as much work as half of both together.
    parts = [sum(answers.frame(f"lanes@{pair}")["columns"]["busy_ns"]) for pair in (0, 1)]
    mean = sum(answers.frame("lanes")["columns"]["busy_ns"])
    assert mean == pytest.approx(np.mean(parts), rel=0.02)

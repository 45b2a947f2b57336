"""The comparison as a Python object; drawing is tested in a browser."""

import base64
import gzip
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support import small

import hta_widgets as hw
from hta_widgets import cli, diff
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.diff.align import LANES, lanes
from hta_widgets.diff.match import match_ranks
from hta_widgets.export.pages.diff_page import StepBlocks
from hta_widgets.export.pictures.drawing import class_parts, class_styles
from hta_widgets.live.comparison import comparison_of_pair, comparison_of_step
from hta_widgets.live.pair_table import (
    BINS,
    CLASSES,
    PairTable,
    classes_of_pairs,
    rows_of_change,
)
from hta_widgets.tiles.packing import unpack

pytestmark = pytest.mark.slow


def test_its_numbers_are_those_of_the_comparison(shown, sides):
    both = diff.compare(*(side.select() for side in sides))
    assert shown.table.equals(diff.names(both))
    assert [finding.text for finding in shown.findings] == [
        finding.text for finding in diff.findings(both)
    ]
    bars = shown.frames["waterfall"]
    assert bars["diff_ns"].sum() == bars.attrs["after_ns"] - bars.attrs["before_ns"]
    assert set(shown.frames) >= {"waterfall", "steps", "changes", "names", "pairs", "icicle"}
    with pytest.raises(KeyError, match="no frame 'nothing'"):
        shown.frames["nothing"]


def test_two_ranks_of_one_job_keep_what_waits_for_whom(sides):
    view = hw.TraceDiff(sides[0].select(ranks=[0]), sides[0].select(ranks=[1]))
    assert view.left.traces.ranks == [0]
    assert view.right.traces.ranks == [1]
    assert view.frames["waterfall_cause"].attrs["communication_split"]
    assert view._about["labels"] == ["rank 0", "rank 1"]


def test_both_sides_have_one_history(view):
    view.select("kind == 'communication'")
    chosen = view.selected_events()
    assert set(chosen["side"]) == {"before", "after"}
    assert set(chosen["kind"]) == {"communication"}
    view.left.zoom_to(10, 2_000)
    assert view.undo()
    assert view.left.view == (view.left.traces.start_ns, view.left.traces.end_ns)
    # Selecting on both sides was a single change.
    assert view.undo()
    assert view.left.selection.is_everything
    assert view.right.selection.is_everything
    assert not view.undo()
    assert view.redo()
    assert not view.right.selection.is_everything
    assert view.redo()
    assert view.left.view == (10, 2_000)
    assert not view.redo()
    # An undo on one side removes the step from the pair's history.
    assert view.left.undo()
    assert view.undo()
    assert view.left.selection.is_everything
    assert not view.undo()


def test_python_names_an_act_of_both_sides_for_the_page(view):
    """Steps arrive one by one; two actions have two names, and a change of one side has none."""
    acts = []
    for query in ("kind == 'compute'", "kind == 'memory'"):
        view.select(query)
        acts.append({side.state._history.get("together") for side in view.sides})
    assert [len(names) for names in acts] == [1, 1]
    assert acts[0] != acts[1]
    view.left.zoom_to(0, 1000)
    assert "together" not in view.left.state._history


def test_a_redo_by_the_page_keeps_the_other_sides_redo(view):
    for timeline in view.sides:
        timeline.zoom_to(10, 2_000)
    assert view.undo()
    assert view.undo()
    # The future of the side has one entry, so its lengths change as after a new zoom.
    view.left.state.redo()
    assert view.redo()
    assert [timeline.view for timeline in view.sides] == [(10, 2_000)] * 2


def test_a_new_zoom_after_an_undo_is_no_redo(view):
    view.left.zoom_to(10, 2_000)
    assert view.undo()
    view.left.zoom_to(10, 3_000)
    assert not view.redo()
    assert view.undo()
    assert view.left.view == view.left.whole


def test_a_moved_clock_is_no_change_of_the_history(view):
    view.left.zoom_to(10, 2_000)
    view.right.zoom_to(10, 2_000)
    view.left.state.move(5)
    assert view.undo()
    assert view.right.view == view.right.whole
    assert view.undo()
    assert not view.undo()


def test_what_the_page_changes_on_both_sides_at_once_is_one_change(view):
    for act in ("1", "2"):
        for timeline in view.sides:
            state = timeline.state
            past = [*state._history["past"], state.snapshot()]
            history = {"past": past, "future": [], "together": act}
            state.set_state({"view": (10, 1_000 * int(act)), "_history": history})
    assert view.undo()
    assert [timeline.view for timeline in view.sides] == [(10, 1_000)] * 2
    assert view.undo()
    assert [timeline.view for timeline in view.sides] == [t.whole for t in view.sides]
    assert not view.undo()
    assert view.redo()
    assert [timeline.view for timeline in view.sides] == [(10, 1_000)] * 2
    # The page undoes and redoes steps of both sides; each remains one step.
    for way in ("undo", "redo"):
        for timeline in view.sides:
            getattr(timeline.state, way)()
    assert view.undo()
    assert [timeline.view for timeline in view.sides] == [t.whole for t in view.sides]
    assert not view.undo()


def test_the_pair_is_written_as_one_trace(view, tmp_path):
    report = view.export(tmp_path / "pair.json.gz")
    again = hw.load(tmp_path / "pair.json.gz", cache=False, progress=False)
    assert again.ranks == [0, 1, 1000, 1001] == list(report.ranks)


def test_what_is_no_base_or_no_side_is_refused(sides):
    with pytest.raises(hw.TraceError, match=r"align= takes .* or 'scaled', not 'weeks'"):
        hw.TraceDiff(*sides, align="weeks")
    with pytest.raises(hw.TraceError, match="not a int"):
        hw.TraceDiff(sides[0], 5)


def answers(view, **request):
    reply, buffer = view.answer({"rpc": "1", **request})
    assert buffer is None
    return json.loads(json.dumps(reply))


def test_every_partner_that_the_page_asks_for_is_that_of_pairs(shown):
    pairs = shown.frames["pairs"]
    rows = pairs.sample(200, random_state=0).itertuples()
    for row in rows:
        for of, ours, theirs in (("before", 0, "after"), ("after", 1, "before")):
            event = getattr(row, f"{of}_id")
            if event < 0:
                continue
            request = {"of": ours, "rank": getattr(row, f"{of}_rank"), "id": event}
            reply = answers(shown, op="partner", **request)
            assert reply["id"] == getattr(row, f"{theirs}_id")
            assert reply["status"] == row.status
    assert answers(shown, op="partner", of=0, rank=0, id=10**9)["status"] is None


def test_nodes_of_the_tree_know_their_calls(shown):
    tree = shown.frames["icicle"]
    pairs = shown.frames["pairs"]
    for row in tree.sample(30, random_state=1).itertuples():
        reply = answers(shown, op="path_events", node=row.node)["events"]
        ours = pairs[(pairs["name"] == row.name) & (pairs["path"] == row.path)]
        for k, side in enumerate(("before", "after")):
            ids = ours.loc[ours[f"{side}_id"] >= 0, [f"{side}_rank", f"{side}_id"]]
            assert sorted(map(tuple, reply[k])) == sorted(map(tuple, ids.to_numpy().tolist()))


def test_cells_of_the_strip_hold_all_busy_time_of_the_steps(sides):
    both = diff.compare(*sides)
    line = diff.align(both)
    result = lanes(both, line, pair=1, bins=300)
    assert len(result) <= 300 * 2 * len(LANES) + 6 * len(line.slots)
    assert (result["busy_ns"] <= result.attrs["cell_ns"]).all()
    # Ranks start their steps at different times.
    start, end = (int(time) for time in both.after.windows[1][1])
    busy = result.query("slot == 1 and side == 1 and lane == 0")["busy_ns"].sum()
    breakdown = hw.analysis.temporal_breakdown(sides[1], ranks=[1], window=(start, end))
    assert busy == breakdown["compute_ns"].sum()


def test_another_step_has_its_own_frames(shown):
    full = answers(shown, op="frame", name="waterfall:kind")
    single = [answers(shown, op="frame", name=f"waterfall:kind:{step}") for step in range(3)]
    assert sum(step["attrs"]["after_ns"] for step in single) == pytest.approx(
        full["attrs"]["after_ns"], abs=3
    )
    names = answers(shown, op="frame", name="names:1")
    assert names["attrs"]["steps"] == 1
    with pytest.raises(ValueError, match="no frame"):
        shown.answer({"rpc": "1", "op": "frame", "name": "weather"})


def test_a_page_holds_each_step_by_itself(shown):
    held = StepBlocks(shown._answers, 1e6)
    assert held.numbers == [0, 1, 2]
    assert (held.words, held.about) == ("", {})
    for block in held.blocks:
        step = int(block.name.removeprefix("step-"))
        frames = json.loads(gzip.decompress(base64.b64decode(block.text)))
        for name, frame in frames.items():
            full = answers(shown, op="frame", name=name)
            for column in ("before_ns", "after_ns", "diff_ns"):
                # Small parts are merged and names are shortened; the drawing stays the same.
                if name.startswith("waterfall"):
                    assert sum(frame["columns"][column]) == sum(full["columns"][column]), name
                else:
                    assert frame["columns"][column] == full["columns"][column][:100]
            assert {len(values) for values in frame["columns"].values()} == {frame["rows"]}
        parts = frames[f"waterfall:kernel:{step}"]["columns"]
        assert max(parts["kind"].count(kind) for kind in parts["kind"]) <= 9
        assert any(name.endswith(" more") for name in parts["short"])


def test_a_page_without_room_holds_the_steps_that_changed_most(shown):
    change = diff.align(shown.comparison).slots["delta_ns"].abs()
    full = StepBlocks(shown._answers, 1e6)
    held = StepBlocks(shown._answers, full.size_bytes - 1)
    assert held.size_bytes < full.size_bytes
    assert sorted(held.numbers) == sorted(change.nlargest(2).index)
    assert held.about["held_words"].startswith("2 of 3 steps can be chosen in this page")
    none = StepBlocks(shown._answers, -1)
    assert none.about["held_steps"] == []
    assert none.words.startswith("No step can be chosen")


def test_mpi_profiles_are_compared_by_their_tables(tmp_path):
    for place, seed in (("a", 0), ("b", 1)):
        write_mpi_job(tmp_path / place, ranks=2, steps=2, seed=seed, hosts=1)
    view = hw.TraceDiff(*(sorted((tmp_path / place).glob("*mpi_profile*")) for place in "ab"))
    assert not view._about["has_events"]
    assert view.table.equals(view.frames["mpi_routines"])
    assert len(view.table)


def test_a_tree_of_nothing_matches_nothing(shown):
    table = PairTable(shown.comparison, shown.frames["icicle"].iloc[:0])
    assert (table.node == -1).all()


def test_the_command_line_says_what_changed(folders, tmp_path, capsys):
    out = tmp_path / "diff.html"
    code = cli.main(["diff", *map(str, folders), "--ranks", "0", "-o", str(out)])
    assert code == 0
    text = capsys.readouterr().out
    assert "aten::contiguous is new" in text
    assert f"{out.as_uri()} (" in text
    assert out.stat().st_size < 25e6


def test_single_steps_and_pairs_are_not_matched_again(tmp_path):
    for place, changes in enumerate(([], ["fused_kernel"])):
        folder = tmp_path / str(place)
        write_demo(folder, ranks=2, steps=3, events_per_step=400, seed=place, changes=changes)
    both = diff.compare(*(hw.load(tmp_path / place, progress=False) for place in "01"))
    pair = comparison_of_pair(both, 0)
    for part in (pair, comparison_of_step(both, 1), comparison_of_step(pair, 1)):
        table = diff.names(part, device="gpu", short_names=True)
        assert not any(
            key[0] is match_ranks.__wrapped__ for key in part.memo if isinstance(key, tuple)
        )
        alone = diff.names(replace(part, part_of=None), device="gpu", short_names=True)
        pd.testing.assert_frame_equal(table, alone)
        assert (table["replaced_by"] != "").any()


def test_the_command_line_says_what_limits_a_comparison(tmp_path, capsys):
    def side(place, first, steps):
        events = []
        for at in range(steps):
            low = at * 1000
            name = f"ProfilerStep#{first + at}"
            events += [
                small.event("user_annotation", name, low, low + 1000, pid=10),
                small.call(low + 10, low + 20, at),
                small.kernel(low + 100, low + 900, launch=at),
            ]
        return written(place, events)

    def written(place, events):
        (tmp_path / place).mkdir()
        return str(small.write(tmp_path / place, events))

    before, after = side("before", 1, 3), side("after", 11, 2)
    out = ["-o", str(tmp_path / "diff.html")]
    assert cli.main(["diff", before, after, *out]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "Nothing changed beyond the noise.",
        "3 steps against 2: 2 are compared.",
        "Step numbers differ: steps are matched in order.",
    ]
    empty = written("empty", [])
    for sides in ((before, empty), (empty, before)):
        assert cli.main(["diff", *sides, *out]) == 2
        assert f"{empty}: holds no trace events" in capsys.readouterr().err


def test_zooming_shows_what_lies_beside_it(view):
    slots = diff.align(view.comparison, "steps").slots
    start = int(slots["before_start_ns"][1])
    view.zoom_to(start + 1_000, start + 51_000)
    assert view.left.view == (start + 1_000, start + 51_000)
    start = int(slots["after_start_ns"][1])
    assert view.right.view == (start + 1_000, start + 51_000)
    # One step of the history, whichever side leads.
    assert view.undo()
    assert view.left.view == view.left.whole
    assert view.right.view == view.right.whole
    view.coupled = False
    view.zoom_to(0, "0.5us", side="after")
    assert (view.left.view, view.right.view) == (view.left.whole, (0, 500))
    with pytest.raises(hw.TraceError, match="end after it starts"):
        view.zoom_to(5, 5)
    with pytest.raises(hw.TraceError, match="side= takes 'before' or 'after', not 'left'"):
        view.zoom_to(1, 5, side="left")


def test_steps_that_are_compared_are_in_view_at_first(sides):
    view = hw.TraceDiff(sides[0].select("step == 0"), sides[0].select("step == 2"))
    slots = view.frames["slots"]
    assert view.left.view[0] == slots["before_start_ns"][0]
    assert view.right.view[0] == slots["after_start_ns"][0]


def test_a_timeline_of_one_run_follows_its_side(view, sides):
    alone = hw.Timeline(sides[1])
    view.link(alone)
    view.right.zoom_to(100, 900)
    assert alone.view == (100, 900)
    alone.select("kind == 'memory'")
    assert not view.right.selection.is_everything
    assert view.left.selection.is_everything


def test_both_timelines_are_one_picture(view, tmp_path):
    path = tmp_path / "both.svg"
    assert view.to_svg(path, width=900) == str(path)
    root = ET.fromstring(path.read_text("utf-8"))
    parts = list(root)
    assert [part.tag.rpartition("}")[2] for part in parts] == ["svg", "svg"]
    tops = [float(part.get("y")) for part in parts]
    assert tops[1] > float(parts[0].get("height")) >= 100
    assert float(root.get("height")) == tops[1] + float(parts[1].get("height"))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    words = "".join(root.itertext())
    assert "before: a" in words
    assert "after: b" in words


def test_a_smaller_page_holds_less_and_says_so(folders, tmp_path):
    work = tmp_path / "long"
    for place, seed in (("a", 0), ("b", 1)):
        write_demo(work / place, ranks=2, steps=8, seed=seed)
    view = hw.TraceDiff(work / "a", work / "b")
    view.save_html(tmp_path / "whole.html", max_mb=25)
    full = (tmp_path / "whole.html").read_text("utf-8")
    room_mb = (tmp_path / "whole.html").stat().st_size / 2e6
    view.save_html(tmp_path / "part.html", max_mb=room_mb)
    page = (tmp_path / "part.html").read_text("utf-8")
    assert len(page.encode()) <= room_mb * 1e6
    assert "Before: All events" in full
    assert "from 4 files (" in full  # file names are the same in both runs
    assert "Before: All events" not in page
    assert "overview" in page


def test_the_page_is_kept_while_the_kernel_lives(view):
    offline = view._offline
    assert offline.join(60)
    reply = view.answer({"rpc": "1", "op": "offline"})[0]
    assert reply["state"] == "ready", reply
    names = set(reply["blocks"])
    assert {"document", "frames", "pairs", "before-document", "after-document"} <= names
    assert {"step-0", "step-2", "pair-0", "pair-1", "before-rank-0", "after-rank-1"} <= names


def test_other_formats_have_their_own_words_for_kinds(view, tmp_path):
    assert view._about["kind_words"] == {}
    write_mpi_job(tmp_path / "mpi", ranks=2, steps=2, slow_rank=None)
    traces = hw.load(tmp_path / "mpi", progress=False, cache=False)
    words = hw.TraceDiff(traces, traces)._about["kind_words"]
    assert words == {"communication": "MPI", "cpu": "outside of MPI"}


def test_classes_are_those_of_tested_changes_by_how_much_they_changed():
    """``a`` is a third slower and ``b`` is new; other differences are noise, even large ones."""
    rows = [
        ("a", "cpu", "", 0, 0, "changed", "slower_2"),
        ("k", "compute", "a", 1, 1, "same", "slower_2"),
        ("k", "compute", "c", 2, 2, "changed", "same"),
        ("b", "cpu", "", -1, 3, "added", "only_here"),
        ("c", "cpu", "", 3, 4, "changed", "same"),
        ("d", "cpu", "", 4, -1, "removed", "same"),
    ]
    columns = ["name", "kind", "path", "before_id", "after_id", "status", "expected"]
    pairs = pd.DataFrame(rows, columns=columns)
    for name in ("name", "kind", "path", "status"):
        pairs[name] = pairs[name].astype("category")
    changes = pd.DataFrame(
        [("slower", "device", "a", 300.0, 400.0), ("added", "operator", "b", 0.0, 50.0)],
        columns=["change", "measure", "name", "before_ns", "after_ns"],
    )
    texts = [CLASSES[code] for code in classes_of_pairs(pairs, changes).tolist()]
    assert texts == pairs["expected"].tolist()


def test_every_event_of_a_tile_has_the_class_of_its_change(shown):
    pairs = shown.frames["pairs"]
    is_gelu = pairs["path"].astype("str").str.endswith("aten::gelu")
    for side, word in enumerate(("before", "after")):
        engine = shown.sides[side].engine
        lane = next(
            track["lane0"]
            for track in engine.scene()["ranks"][1]["tracks"]
            if track["role"] == "stream" and not track["communication"]
        )
        part = {"lanes": [lane], "first": 0, "last": 1 << 12}
        reply, buffer = shown.answer(
            {"rpc": "1", "side": side, "op": "tiles", "level": 7, "parts": [part], "classed": True}
        )
        columns = unpack(reply["columns"], buffer)
        of = dict(zip(columns["slice_id"].tolist(), columns["slice_class"].tolist(), strict=True))
        ours = pairs[(pairs[f"{word}_rank"] == 1) & pairs[f"{word}_id"].isin(of)]
        slower = ours[is_gelu[ours.index]]
        assert len(slower) > 20
        assert {CLASSES[of[event]] for event in slower[f"{word}_id"]} == {"slower_3"}
        others = ours[~is_gelu[ours.index] & (ours["status"] != "added")]
        assert {CLASSES[of[event]] for event in others[f"{word}_id"]} == {"same"}
    counts = shown._answers.answer({"op": "classes"})[0]["counts"]
    assert [sum(side) for side in counts] == [
        sum(len(trace.table) for trace in side.traces.values()) for side in shown.sides
    ]


def test_events_of_one_pair_of_ranks_are_counted_by_themselves(shown):
    reply = shown._answers.answer({"op": "classes"})[0]
    full, by_pair = np.array(reply["counts"]), np.array(reply["pair_counts"])
    assert (by_pair.sum(axis=0) == full).all()
    slower = [CLASSES.index(name) for name in CLASSES if name.startswith("slower")]
    for counts in by_pair:
        # The operator runs 12 times per step, in 3 steps, with one kernel each.
        assert counts[:, slower].sum(axis=1).tolist() == [72, 72]
        assert counts[0, CLASSES.index("only_here")] == 0 < counts[1, CLASSES.index("only_here")]


def test_a_change_marks_the_calls_that_it_is_about(shown):
    changes, pairs = shown.frames["changes"], shown.frames["pairs"]
    slower, added = changes.iloc[0], changes.iloc[1]
    assert [slower["change"], added["change"]] == ["slower", "added"]
    rows = pairs.iloc[rows_of_change(pairs, slower)]
    # The operator runs 12 times per step, in 3 steps on 2 ranks, with one kernel each.
    assert set(rows["name"][rows["kind"] == "cpu"]) == {"aten::gelu"}
    assert (rows["kind"] == "cpu").sum() == (rows["kind"] == "compute").sum() == 12 * 3 * 2
    assert (rows["before_id"] >= 0).all()
    rows = pairs.iloc[rows_of_change(pairs, added)]
    assert set(rows["status"]) == {"added"}
    assert "Memcpy DtoD (Device -> Device)" in set(rows["name"])
    reply = shown._answers.answer({"op": "change_events", "row": 1})[0]
    assert reply["events"][0] == []
    assert len(reply["events"][1]) == len(rows)


def test_changes_and_tree_of_one_pair_of_ranks_mark_its_calls_alone(shown):
    answers, pairs = shown._answers, shown.frames["pairs"]
    changes = answers.frame("changes@1")["columns"]
    row = changes["name"].index("aten::gelu")
    before, after = answers.answer({"op": "change_events", "row": row, "pair": 1})[0]["events"]
    # Half as many as on both ranks in the test above.
    assert len(before) == len(after) == 12 * 3 * 2
    assert {rank for rank, _ in before + after} == {1}
    tree = answers.frame("icicle@1")["columns"]
    node = tree["node"][tree["name"].index("aten::gelu")]
    reply = answers.answer({"op": "path_events", "node": node, "pair": 1})[0]["events"]
    calls = pairs[(pairs["name"] == "aten::gelu") & (pairs["before_rank"] == 1)]
    assert 0 < len(reply[0]) <= len(calls)
    assert {rank for rank, _ in reply[0] + reply[1]} == {1}
    # The call belongs to this node in every tree on the page.
    request = {"op": "partner", "of": 0, "rank": 1, "id": reply[0][0][1]}
    of_all, of_pair = (answers.answer({**request, **more})[0] for more in ({}, {"pair": 1}))
    assert of_pair["node"] == node
    assert (of_pair["rank"], of_pair["id"]) == (of_all["rank"], of_all["id"])
    turned = answers.frame("findings:swapped@1")["columns"]["text"]
    assert len(turned) == len(answers.frame("findings@1")["columns"]["text"])


def test_one_pair_of_ranks_has_its_own_figures(shown, sides):
    alone = diff.compare(*(side.select(ranks=[1]) for side in sides))
    answers = shown._answers
    for name, make in (("waterfall:kind@1", diff.waterfall), ("steps@1", diff.steps)):
        columns, frame = answers.frame(name)["columns"], make(alone)
        assert columns["before_ns"] == frame["before_ns"].tolist()
        assert columns["after_ns"] == frame["after_ns"].tolist()
    texts = [finding.text for finding in diff.findings(alone)]
    assert answers.frame("findings@1")["columns"]["text"] == texts
    assert texts != answers.frame("findings")["columns"]["text"]
    with pytest.raises(ValueError, match="no pair of ranks 2"):
        answers.frame("names@2")
    with pytest.raises(hw.TraceError, match="no pair of ranks 2"):
        shown.pair = 2
    # Lanes of all pairs are means: half of the work of the two pairs together.
    parts = [sum(answers.frame(f"lanes@{pair}")["columns"]["busy_ns"]) for pair in (0, 1)]
    mean = sum(answers.frame("lanes")["columns"]["busy_ns"])
    assert mean == pytest.approx(np.mean(parts), rel=0.02)


SVG = "{http://www.w3.org/2000/svg}"
SLOWER = [class_styles("light")[CLASSES.index(f"slower_{size}")].color for size in (1, 2, 3)]
COMPUTE = "#1f77c0"


def drawn(shown, path, **options):
    shown.to_svg(path, **options)
    text = path.read_text("utf-8")
    return ET.fromstring(text), text


def ink(root, fill):
    """Return how much is drawn in a color: the text length of its paths."""
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("fill") == fill]
    return sum(len(path) for path in paths)


def test_a_picture_has_the_colors_that_the_page_has(shown, tmp_path, monkeypatch):
    root, text = drawn(shown, tmp_path / "change.svg")
    words = [element.text for element in root.iter(f"{SVG}text")]
    for name in ("slower", "only here", "same"):
        assert words.count(name) == 2, name
    assert ink(root, SLOWER[-1]) > 0
    assert ink(root, class_styles("light")[CLASSES.index("same")].color) > 2000
    # Only the totals and their keys have kinds.
    by_change = ink(root, COMPUTE)
    assert "CPU" not in words[words.index("slower") : words.index("whole job")]
    monkeypatch.setattr(shown, "color", "kind")
    root, text = drawn(shown, tmp_path / "kind.svg")
    assert ink(root, COMPUTE) > 10 * by_change
    assert not any(color in text for color in SLOWER)


def test_of_one_pair_of_ranks_the_picture_has_these(shown, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "pair", 1)
    root, _ = drawn(shown, tmp_path / "pair.svg")
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert sum(word.startswith("1 of 2 ranks") for word in words) == 2


def test_the_overview_holds_all_device_work_of_each_class(shown):
    overview = shown._answers.overview
    kinds = ("compute", "communication", "memory")
    for side, word in enumerate(("before", "after")):
        result = {}
        for rank, trace in shown.sides[side].traces.items():
            codes = shown._answers.classes_of(side, rank)
            events = trace.events
            device = events["kind"].isin(kinds).to_numpy()
            for code in np.unique(codes[device]).tolist():
                of = device & (codes == code)
                result[code] = result.get(code, 0) + int(events["dur_ns"].to_numpy()[of].sum())
        columns = [name for name in overview if name.startswith(word)]
        assert {int(name.split("_")[1]): int(overview[name].sum()) for name in columns} == result
        parts = class_parts(overview, side)
        full = sum(parts.shares.values())
        assert len(full) == BINS
        assert set(np.round(full, 9).tolist()) <= {0.0, 1.0}
        # Before and after all device work, nothing can be split.
        outside = np.array([parts.start_ns - 10**6, parts.end_ns + 10**6], np.float64)
        assert all((share == 0).all() for _, share in parts.at(outside))

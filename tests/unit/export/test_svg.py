"""A view as a vector picture: well-formed, true to scale, and small."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pandas as pd
import pytest
from support.collective_job import US, collective
from support.small import call, copy, event, kernel, load

import hta_widgets as hw
from hta_widgets.charts.figure import FigureStyle
from hta_widgets.charts.rows import Bars, RowsContent, Scale
from hta_widgets.charts.theme import LIGHT
from hta_widgets.demo.job import write_demo
from hta_widgets.export.pictures.bars import bars_svg
from hta_widgets.export.pictures.drawing import SIZE_PX, text_width
from hta_widgets.export.pictures.picture import timeline_svg
from hta_widgets.live.job import TileEngine

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
COMPUTE, MEMORY = "#1f77c0", "#2b968c"
LEFT, ACROSS = 164, 1200 - 164 - 128
LANE_PX = 24  # height of a compute lane if a single rank fills the view


def draw(traces, **options):
    engine = TileEngine(traces)
    state = {"view": options.pop("view", None)} | options.pop("state", {})
    text = timeline_svg(engine, engine.scene(), state, opened=(), **options)
    return ET.fromstring(text), text


def paths(root, fill):
    return "".join(path.get("d") for path in root.iter(f"{SVG}path") if path.get("fill") == fill)


def boxes(data):
    """Return left, width and height of each rectangle in a path."""
    result = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v([\d.]+)h-[\d.]+z", data)
    return [tuple(map(float, box)) for box in result]


def words(root):
    return [text.text for text in root.iter(f"{SVG}text")]


def test_rectangles_lie_where_their_events_are(tmp_path):
    traces = load(tmp_path, [kernel(100, 300), kernel(300, 301), kernel(500, 900, name="relu")])
    root, _ = draw(traces, view=[0, 1000])
    [first, second] = [box for box in boxes(paths(root, COMPUTE)) if box[2] == LANE_PX]
    assert first == pytest.approx((LEFT + ACROSS * 0.1, ACROSS * 0.2 - 1, LANE_PX), abs=0.01)
    assert second == pytest.approx((LEFT + ACROSS * 0.5, ACROSS * 0.4 - 1, LANE_PX), abs=0.01)
    assert {"gemm", "relu", "rank 0", "compute"} <= set(words(root))


@pytest.mark.parametrize("height", [None, 600])
def test_lanes_are_named_in_whole_words_next_to_the_facts_of_ranks(tmp_path, height):
    write_demo(tmp_path / "job", ranks=3, steps=2, seed=0)
    traces = hw.load(tmp_path / "job", progress=False, cache=False).with_clock("fitted")
    root, _ = draw(traces, **({} if height is None else {"height": height}))
    names = words(root)
    assert names.count("communication") == 3
    assert sum(name.startswith("waits ") for name in names) == 2
    assert not [name for name in names if re.search(r"\bcomm\b", name)]


def test_a_picture_without_devices_has_no_column_of_totals(tmp_path):
    root, _ = draw(load(tmp_path, [event("cpu_op", "aten::add", 500, 1000)]), view=[0, 1000])
    drawn = "".join(path.get("d") for path in root.iter(f"{SVG}path"))
    assert "M682 127V107H1200V127z" in drawn, "the event ends at the right edge"


def test_columns_are_as_high_as_the_share_of_time_that_is_covered(tmp_path):
    # Busy for a quarter of every microsecond in the first half, three quarters in the second;
    # copies are a separate kind.
    events = [kernel(at, at + (250 if at < 500_000 else 750)) for at in range(0, 900_000, 1000)]
    events += [copy(at, at + 1000) for at in range(950_000, 1_000_000, 1000)]
    root, text = draw(load(tmp_path, events), view=[0, 1_000_000 // ACROSS * ACROSS])
    tops = re.findall(r"V([\d.]+)H([\d.]+)", paths(root, COMPUTE))
    [base] = re.findall(r"M[\d.]+ ([\d.]+)V", paths(root, COMPUTE))[-1:]
    heights = {round(float(base) - float(top), 2) for top, _ in tops}
    assert {LANE_PX / 4, LANE_PX * 3 / 4} <= heights
    wide = [float(x) for top, x in tops if float(base) - float(top) == LANE_PX / 4]
    assert wide, "equal neighbours are one step"
    assert len(text) < 60_000


def test_waits_are_hatched_and_a_dotted_line_leads_to_late_kernels(tmp_path):
    pairs = [(at * 100 * US, at * 100 * US + (60 * US)) for at in range(6)]
    early = [collective(low, high + 20 * US, seq=at) for at, (low, high) in enumerate(pairs)]
    late = [collective(high, high + 20 * US, seq=at) for at, (_, high) in enumerate(pairs)]
    root, text = draw(load(tmp_path, early, late))
    hatched = [box for box in boxes(paths(root, "url(#hta-wait-light)")) if box[1] > 20]
    per_us = ACROSS / 580
    assert [width for _, width, _ in hatched[:6]] == pytest.approx([60 * per_us] * 6, rel=0.02)
    assert 'id="hta-wait-light"' in text
    dotted = [path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray") == "2 2"]
    ends = [
        [float(x) for x in pair]
        for path in dotted
        for pair in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path.get("d"))
    ]
    lengths = [right - left for left, right in ends if right - left > 20]
    assert lengths == pytest.approx([60 * per_us] * 6, rel=0.02)
    message = words(root)
    assert "last in 6 of 6" in message or "last 6/6" in message
    assert "causes the wait" in message
    assert any(said_.startswith("waiting ") for said_ in message)


def test_the_figure_of_folded_ranks_names_whose_it_is(tmp_path):
    same = [kernel(at * 1000, at * 1000 + 500) for at in range(20)]
    root, _ = draw(load(tmp_path, *[same] * 4), folded=True)
    message = words(root)
    assert "ranks 0\u20133" in message
    [fact] = [text for text in message if text is not None and "busy" in text]
    assert re.fullmatch("rank [0-3] busy 10.0\u202fµs", fact)


def test_everything_but_the_selected_area_is_dimmed(tmp_path):
    traces = load(tmp_path, *[[kernel(0, 1000)]] * 3)
    chosen = {"selection": {"start_ns": 200, "end_ns": 600, "ranks": [1]}}
    root, _ = draw(traces, view=[0, 1000], state=chosen)
    veils = [path for path in root.iter(f"{SVG}path") if path.get("fill-opacity") == "0.66"]
    dimmed = [box for veil in veils for box in boxes(veil.get("d"))]
    # Rank 0, both sides of the window on rank 1, rank 2.
    widths = [ACROSS, 0.2 * ACROSS, 0.4 * ACROSS, ACROSS]
    assert [width for _, width, _ in dimmed] == pytest.approx(widths, abs=0.01)


def test_names_of_dimmed_events_stay_readable(tmp_path):
    traces = load(tmp_path, *[[kernel(0, 1000, name=name)] for name in ("alpha", "beta")])
    chosen = {"selection": {"start_ns": 10, "end_ns": 1000, "ranks": [1]}}
    root, _ = draw(traces, view=[0, 1000], state=chosen)
    # The whole name on the unselected rank, and the part to the left of the window.
    other_rank, before_window = root.findall(f".//{SVG}svg")
    assert [words(other_rank), words(before_window)] == [["alpha"], ["beta"]]
    widths = [float(box.get("width")) for box in (other_rank, before_window)]
    assert widths == pytest.approx([ACROSS, 0.01 * ACROSS], abs=0.01)
    assert other_rank.find(f"{SVG}text").get("fill") == "#4b5563"


def test_names_are_escaped_and_never_markup(tmp_path):
    name = "</text><script>alert(1)</script>&amp; \x00\x1b <ns::f<int>>"
    events = [kernel(0, 1000, name=name), event("cpu_op", name, 0, 1000, pid=10, tid=1)]
    engine = TileEngine(load(tmp_path, events))
    text = timeline_svg(engine, {**engine.scene(), "title": name}, {}, opened=[0])
    assert "<script" not in text
    assert ET.fromstring(text).find(f"{SVG}title").text.startswith("</text><script>")


def test_what_is_shown_is_said(tmp_path):
    traces = load(tmp_path, [kernel(0, 1000)], [kernel(0, 1000)], [kernel(0, 1000)])
    chosen = {"selection": {"start_ns": 200, "end_ns": 400, "ranks": [1]}, "color": "name"}
    root, _ = draw(traces, view=[100, 600], only=[1, 2], state=chosen, theme="dark")
    title = root.find(f"{SVG}title").text
    assert "2 of 3 ranks" in title
    assert "500" in title
    frames = [rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke") == "#7db7ff"]
    left = [float(rect.get("x")) for rect in frames if rect.get("stroke-width") == "1.5"]
    assert min(abs(x - (LEFT + ACROSS / 5)) for x in left) <= 1


def test_a_long_name_and_many_ranks_fit(tmp_path):
    long_name = "void " + "very_long_namespace::" * 12 + "kernel<float>(int)"
    ranks = [[kernel(0, 1000 + rank, name=long_name), call(0, 10)] for rank in range(256)]
    root, text = draw(load(tmp_path, *ranks))
    assert (
        sum(message is not None and message.startswith("rank ") for message in words(root)) == 256
    )
    assert len(text) < 2_000_000
    assert all(len(message) < 200 for message in words(root))


@pytest.mark.parametrize("events", [[], [event("cpu_op", "aten::add", 0, 100, pid=1, tid=1)]])
def test_a_job_without_a_device_is_a_picture_too(tmp_path, events):
    root, _ = draw(load(tmp_path, events))
    assert "rank 0" in words(root)
    assert "compute" not in words(root)


def test_impossible_pictures_are_refused_in_words(tmp_path):
    traces = load(tmp_path, [kernel(0, 1000)])
    with pytest.raises(hw.TraceError, match="320 px"):
        draw(traces, width=100)
    with pytest.raises(hw.TraceError, match="window"):
        draw(traces, view=[5, 5])


@pytest.mark.parametrize("folded", [False, True])
def test_texts_left_of_the_lanes_do_not_overlap(tmp_path, folded):
    write_demo(tmp_path / "job", ranks=8, steps=2)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    root, _ = draw(traces, width=900, height=360 if folded else 800, folded=folded)
    boxes_of_texts = []
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.get("x")), float(text.get("y"))
        width = text_width(text.text, bold=text.get("font-weight") is not None)
        left = x - width if text.get("text-anchor") == "end" else x
        if x < LEFT:
            boxes_of_texts.append((left, left + width, y, text.text))
    assert len(boxes_of_texts) > 8
    for (left, right, y, text), (left_2, right_2, y_2, text_2) in combinations(boxes_of_texts, 2):
        is_apart = abs(y - y_2) >= SIZE_PX or left >= right_2 or left_2 >= right
        assert is_apart, (text, text_2)


KINDS_OF_BARS = ["compute", "transfer", "waiting", "communication without partners", "idle"]


def bars_picture(names, subtitle, width):
    marks = [Bars(0.0, "end", "#1f77c0", name) for name in names]
    content = RowsContent(
        pd.DataFrame({"row": [0], "end": [4.0]}), ["rank 0"], marks, Scale(end=4.0)
    )
    return ET.fromstring(bars_svg(content, FigureStyle("Time", LIGHT, None, subtitle), width))


@pytest.mark.parametrize(("width", "lines"), [(240, 3), (900, 1)])
def test_a_chart_has_its_whole_legend_above_its_bars(width, lines):
    root = bars_picture(KINDS_OF_BARS, "", width)
    entries = [text for text in root.iter(f"{SVG}text") if text.text in KINDS_OF_BARS]
    assert [entry.text for entry in entries] == KINDS_OF_BARS
    assert len({entry.get("y") for entry in entries}) == lines
    for entry in entries:
        assert float(entry.get("x")) + text_width(entry.text) <= width
    bars = [box for box in root.iter(f"{SVG}text") if box.text == "rank 0"]
    assert float(bars[0].get("y")) > max(float(entry.get("y")) for entry in entries) + SIZE_PX


def test_a_chart_without_notes_has_no_line_for_them():
    heights = [
        float(bars_picture(["compute"], subtitle, 400).get("height"))
        for subtitle in ("", "one note")
    ]
    assert heights[0] < heights[1]

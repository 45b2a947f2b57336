"""Pictures of a comparison: coloured and arranged as its page is."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.export.svg.drawing import COLOURS, GROUPS, class_parts
from hta_widgets.live.comparison import BINS
from hta_widgets.live.event_classes import CLASSES

SVG = "{http://www.w3.org/2000/svg}"
SLOWER = [COLOURS["light"][f"slower_{size}"] for size in (1, 2, 3)]
COMPUTE = "#1f77c0"


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    work = tmp_path_factory.mktemp("pictures")
    write_demo(work / "a", ranks=2, steps=3, seed=0)
    write_demo(work / "b", ranks=2, steps=3, seed=1, changes=["extra_copy", "slow_operator"])
    return hw.TraceDiff(*(hw.load(work / side, cache=False, progress=False) for side in "ab"))


def drawn(view, path, **options):
    view.to_svg(path, **options)
    text = path.read_text("utf-8")
    return ET.fromstring(text), text


def ink(root, fill):
    """Return how much is drawn in a colour: the length of its paths as text."""
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("fill") == fill]
    return sum(len(path) for path in paths)


def test_a_picture_has_the_colours_that_the_page_has(view, tmp_path):
    root, text = drawn(view, tmp_path / "change.svg")
    words = [one.text for one in root.iter(f"{SVG}text")]
    for name in ("slower", "only here", "same"):
        assert words.count(name) == 2, name
    assert all(ink(root, colour) > 0 for colour in SLOWER[-1:])
    assert ink(root, COLOURS["light"]["same"]) > 2000
    # Kinds are left in the totals and their keys alone.
    by_change = ink(root, COMPUTE)
    assert "CPU" not in words[words.index("slower") : words.index("whole job")]
    try:
        view.color = "kind"
        root, text = drawn(view, tmp_path / "kind.svg")
    finally:
        view.color = "change"
    assert ink(root, COMPUTE) > 10 * by_change
    assert not any(colour in text for colour in SLOWER)


def test_of_one_pair_of_ranks_the_picture_has_these(view, tmp_path):
    try:
        view.pair = 1
        root, _ = drawn(view, tmp_path / "pair.svg")
    finally:
        view.pair = None
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert sum(word.startswith("1 of 2 ranks") for word in words) == 2


def test_pictures_lie_as_the_timelines_do(view, tmp_path):
    stacked = drawn(view, tmp_path / "stacked.svg", width=1200)[0]
    try:
        view.arrange = "beside"
        root, _ = drawn(view, tmp_path / "beside.svg", width=1200)
        narrow = drawn(view, tmp_path / "narrow.svg", width=800)[0]
    finally:
        view.arrange = "stacked"
    assert root.get("width") == "1200"
    assert float(root.get("height")) < float(stacked.get("height"))
    [left, right] = root.findall(f"{SVG}svg")
    assert float(right.get("x")) == float(left.get("width")) + 12
    # Two of them would have no room there.
    assert [one.get("x") for one in narrow.findall(f"{SVG}svg")] == [None, None]


def test_colours_and_legend_are_those_of_the_page(repo):
    source = (repo / "js" / "src" / "facts" / "event_classes.ts").read_text("utf-8")
    for theme, colours in COLOURS.items():
        block = re.search(rf"{theme}: {{(.*?)}}", source, re.DOTALL)[1]
        assert dict(re.findall(r'(\w+): "(#\w+)"', block)) == dict(colours)
        assert list(colours) == list(CLASSES)
    groups = re.findall(r'name: "([\w ]+)",\s+words: "[^"]+",\s+classes: \[([^\]]+)\]', source)
    assert [(name, tuple(re.findall(r"\w+", of))) for name, of in groups] == list(GROUPS)


def test_the_overview_holds_all_device_work_of_each_class(view):
    overview = view._answers.overview
    kinds = ("compute", "communication", "memory")
    for side, word in enumerate(("before", "after")):
        found = {}
        for rank, trace in view.sides[side].traces.items():
            codes = view._answers.classes_of(side, rank)
            events = trace.events
            device = events["kind"].isin(kinds).to_numpy()
            for code in np.unique(codes[device]).tolist():
                of = device & (codes == code)
                found[code] = found.get(code, 0) + int(events["dur_ns"].to_numpy()[of].sum())
        columns = [name for name in overview if name.startswith(word)]
        assert {int(name.split("_")[1]): int(overview[name].sum()) for name in columns} == found
        parts = class_parts(overview, side)
        whole = sum(parts.shares.values())
        assert len(whole) == BINS
        assert set(np.round(whole, 9).tolist()) <= {0.0, 1.0}
        # Before and after all device work there is none to be parted.
        outside = np.array([parts.start_ns - 10**6, parts.end_ns + 10**6], np.float64)
        assert all((share == 0).all() for _, share in parts.at(outside))

"""The contents of a saved page, and their encoding."""

import base64
import json
import re
import zlib

import numpy as np
import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.errors import TraceError
from hta_widgets.export.pages.format import ColumnWriter
from hta_widgets.export.pages.overview import CellGrid
from hta_widgets.export.pages.page import (
    _by_importance,
    _fixed_bytes,
    embed,
    save_html,
)
from hta_widgets.live.job import TileEngine
from hta_widgets.tiles.rank_index import LaneBudget, RankIndex

pytestmark = pytest.mark.slow

DELTA, ZIGZAG, FLOAT = 1, 2, 4


def unpacked(block):
    return zlib.decompress(base64.b64decode(block.text), 31)


def read(data, spec):
    """Decode a column with plain integers and loops."""
    offset, length, width, flags = spec
    planes = [data[offset + k * length : offset + (k + 1) * length] for k in range(width)]
    if flags & FLOAT:
        raw = bytes(planes[k][i] for i in range(length) for k in range(width))
        return np.frombuffer(raw, f"<f{width}").tolist()
    values = [sum(planes[k][i] << 8 * k for k in range(width)) for i in range(length)]
    if flags & ZIGZAG:
        values = [v // 2 if v % 2 == 0 else -(v + 1) // 2 for v in values]
    if flags & DELTA:
        values = [sum(values[: i + 1]) for i in range(length)]
    return values


@pytest.mark.parametrize(
    "values",
    [[], [0], [5, 5, 5], [-1, 3, 1 << 40, 0], [(1 << 52) - 1, 0], [255, 256], [-(1 << 51)]],
)
@pytest.mark.parametrize("delta", [False, True])
def test_columns_come_back(values, delta):
    writer = ColumnWriter()
    writer.ints("before", [1, 2, 3])
    writer.ints("column", values, delta=delta)
    writer.floats("floats", np.array([0.1, -3.0]))
    data = unpacked(writer.block("x"))
    assert read(data, writer.specs["before"]) == [1, 2, 3]
    assert read(data, writer.specs["column"]) == values
    assert read(data, writer.specs["floats"]) == [0.1, -3.0]
    assert len(data) == sum(length * width for _, length, width, _ in writer.specs.values())


def test_what_a_page_cannot_count_is_refused():
    with pytest.raises(TraceError, match=r"cannot store start exactly.*54 bits"):
        ColumnWriter().ints("start", [1 << 53])


@pytest.mark.parametrize(
    ("start", "end", "most", "expected"),
    [
        (0, 100, 100, (0, 0, 100)),
        (0, 101, 100, (1, 0, 51)),
        (1000, 1001, 2, (0, 1000, 1)),
        (5, 5, 2, (0, 5, 1)),
        (-7, 9, 4, (3, -1, 3)),
        (1023, 1025, 2, (0, 1023, 2)),
    ],
)
def test_a_grid_covers_its_range(start, end, most, expected):
    grid = CellGrid.finest(start, end, most)
    assert (grid.level, grid.first, grid.cells) == expected
    assert grid.edges[0] <= start
    assert grid.edges[-1] >= end
    assert len(grid.edges) == grid.cells + 1


def test_ranks_that_matter_come_first():
    scene = {"steps_rank": 2}
    state = {
        "selected_event": [6, 11],
        "selection": {"ranks": [4, 99], "ids": [[1, 5], [1, 6]]},
        "pinned": ["3", "0/GPU 0 · stream 7"],
    }
    assert _by_importance(list(range(8)), scene, state) == [6, 4, 1, 3, 0, 2, 5, 7]
    assert _by_importance([0, 1, 2], scene, {"selection": None}) == [2, 0, 1]
    # Most important: the selected rank, the rank waited for, the rank whose steps are shown.
    state = {"selection": {"ranks": [1]}}
    assert _by_importance(list(range(6)), scene, state, late=[5, 1]) == [1, 5, 2, 0, 3, 4]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = write_job(tmp_path_factory.mktemp("job"), seed=1, ranks=3, events=900)
    return TileEngine(hw.load(folder, progress=False, cache=False))


def size(made):
    return sum(block.size_bytes for block in made.blocks)


def test_detail_leaves_in_order_as_the_room_shrinks(engine):
    everything = {"level": "all", "text": "All events."}
    scene = engine.scene()
    complete = embed(engine, scene, {}, 1e9)
    assert complete.document["scene"]["embedded"] == everything | {
        "ranks_full": [0, 1, 2],
        "ranks_args": [0, 1, 2],
    }
    sizes = dict(complete.sizes)
    assert sizes["collectives"] > 0
    assert size(complete) == sum(sizes.values())
    state, fixed = {"selected_event": [1, 0]}, _fixed(engine)
    seen = []
    for share in (0.99, 0.7, *np.linspace(0.6, 0, 7)):
        room = size(complete) * share
        result = embed(engine, scene, state, room + fixed)
        embedded = result.document["scene"]["embedded"]
        seen.append((len(embedded["ranks_full"]), len(embedded["ranks_args"])))
        assert set(embedded["ranks_args"]) <= set(embedded["ranks_full"])
        if embedded["ranks_full"]:
            assert 1 in embedded["ranks_full"]
            assert size(result) <= room
        assert (embedded["level"] == "all") == (len(embedded["ranks_full"]) == 3)
        for rank in result.document["scene"]["ranks"]:
            assert ("overview_level" in rank) == (rank["rank"] not in embedded["ranks_full"])
    assert seen == sorted(seen, reverse=True)
    assert (seen[0][0], seen[-1]) == (3, (0, 0))
    assert seen[0][1] < 3
    assert {full for full, _ in seen} >= {3, 2, 1, 0}


def _fixed(engine):
    indices = [RankIndex(rank, LaneBudget(0), lambda: engine.lateness) for rank in engine.job.ranks]
    return _fixed_bytes(indices, engine.scene())


def test_a_rank_without_its_rows_cannot_be_opened(engine):
    result = embed(engine, engine.scene(), {}, 0)
    assert result.document["scene"]["embedded"]["text"] == "Overview only: no individual events."
    for rank, header in zip(
        result.document["scene"]["ranks"], result.document["ranks"], strict=True
    ):
        assert rank["tracks"] == []
        assert [lane["lane"] for lane in header["lanes_kept"]] == [
            row["lane"] for row in rank["summary"]
        ]
        assert header["cells"] <= 256


@pytest.fixture
def front_end(tmp_path, monkeypatch):
    """A front end of a few bytes that needs no build."""
    folder = tmp_path / "static"
    folder.mkdir()
    for name in ("page.js", "timeline.js", "state.js", "widgets.css"):
        (folder / name).write_text(f"/* {name} */ '</script>'")
    monkeypatch.setattr("hta_widgets.export.pages.format._STATIC", folder)
    return folder


def test_the_page_is_one_safe_file(engine, front_end, tmp_path):
    path = tmp_path / "page.html"
    title = "<title>&\ud800 </title><script>"
    scene = {**engine.scene(), "title": title}
    assert save_html(path, engine, scene, {"view": None}) == str(path)
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>&lt;title&gt;&amp;? &lt;/title&gt;&lt;script&gt;</title>" in text
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy
    (nonce,) = set(re.findall(r"'nonce-([\w-]{22})'", policy))
    assert not re.search(r"(src|href)=", text)
    assert "<noscript>" in text
    # The text of a module cannot close the script element that contains it.
    assert f'<script type="module" nonce="{nonce}">/* page.js */ \'<\\/script>\'</script>' in text
    assert text.count("<script") == text.count("</script>")
    blocks = dict(
        re.findall(r'<script type="application/x-hta-block" id="hta-([^"]+)">([^<]*)<', text)
    )
    document = json.loads(zlib.decompress(base64.b64decode(blocks["document"]), 31))
    assert document["scene"]["title"] == title
    assert document["saved"]["files"][0]["name"] == "rank-0.json"
    assert document["saved"]["files"][0]["bytes"] > 1000
    assert document["origin_ns"] == str(engine.traces.origin_ns)
    assert {"rank-0", "rank-1", "rank-2", "timeline.js", "args-0-0"} <= set(blocks)
    module = zlib.decompress(base64.b64decode(blocks["timeline.js"]), 31).decode()
    assert module == (front_end / "timeline.js").read_text()


def test_a_page_replaces_the_one_before_or_leaves_it(engine, front_end, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr("hta_widgets.export.pages.format._page_parts", lambda *_: ["half", 1])
        with pytest.raises(TypeError):
            save_html(path, engine, engine.scene(), {})
    assert path.read_text() == "before"
    save_html(path, engine, engine.scene(), {})
    assert path.read_text().startswith("<!doctype html>")
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["page.html"]


def test_bad_places_and_sizes_are_named(engine, front_end, tmp_path):
    with pytest.raises(TraceError, match=r"nowhere.*cannot be written.*Does the folder exist"):
        save_html(tmp_path / "nowhere" / "page.html", engine, engine.scene(), {})
    for wrong in (0, -1, float("nan")):
        with pytest.raises(TraceError, match=r"max_mb must be at least 0\.1"):
            save_html(tmp_path / "page.html", engine, engine.scene(), {}, max_mb=wrong)
    (front_end / "page.js").unlink()
    with pytest.raises(FileNotFoundError, match="Run `make build`"):
        save_html(tmp_path / "page.html", engine, engine.scene(), {})


def test_a_page_that_had_to_become_larger_says_so(engine, front_end, tmp_path):
    (front_end / "timeline.js").write_bytes(np.random.default_rng(0).bytes(150_000).hex().encode())
    with pytest.warns(UserWarning, match=r"more than max_mb=0\.1: a page contains at least"):
        save_html(tmp_path / "page.html", engine, engine.scene(), {}, max_mb=0.1)


def changed_job(tmp_path, **more):
    """Return the page of a job whose first file was changed after loading."""
    engine = TileEngine(hw.load(write_job(tmp_path, seed=2, **more), progress=False, cache=False))
    (tmp_path / "rank-0.json").write_text("another file")
    return embed(engine, engine.scene(), {}, 1e9)


def test_arguments_that_cannot_be_read_are_explained(front_end, tmp_path):
    result = changed_job(tmp_path, ranks=1)
    args = result.document["ranks"][0]["args"]
    assert args["state"] == "unreadable"
    assert "was changed after it was loaded" in args["reason"]
    assert result.document["scene"]["embedded"]["text"] == "All events, no arguments."


def test_collectives_of_files_that_are_gone_leave_a_note(tmp_path):
    result = changed_job(tmp_path)
    assert "was changed after it was loaded" in result.document["collectives"]["note"]
    assert result.document["collectives"]["columns"] == {}
    assert not [block for block in result.blocks if block.name == "collectives"]


def test_one_rank_alone_needs_no_collectives(tmp_path):
    folder = write_job(tmp_path, seed=1, ranks=1)
    engine = TileEngine(hw.load(folder, progress=False, cache=False))
    result = embed(engine, engine.scene(), {}, 1e9)
    assert dict(result.sizes)["collectives"] == 0
    assert result.document["collectives"]["columns"] == {}
    assert all(rank["overlays"] == [] for rank in result.document["ranks"])


def test_collectives_count_in_the_size_and_are_there_for_overviews(engine):
    result = embed(engine, engine.scene(), {}, 0)
    [block] = [block for block in result.blocks if block.name == "collectives"]
    header, data = result.document["collectives"], unpacked(block)
    assert dict(result.sizes)["collectives"] == block.size_bytes
    frame = engine.lateness.frame
    assert header["counts"] == [int((frame["rank"] == rank).sum()) for rank in (0, 1, 2)]
    specs = header["columns"]
    assert read(data, specs["start"]) == frame["start_ns"].tolist()
    assert read(data, specs["wait"]) == frame["wait_ns"].tolist()
    names = [result.document["names"][at] for at in read(data, specs["name"])]
    events = {rank: engine.traces[rank].events["name"] for rank in (0, 1, 2)}
    assert names == [events[r][i] for r, i in zip(frame["rank"], frame["id"], strict=True)]

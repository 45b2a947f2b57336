"""The table of formats: one record adds a format to all layers, and a broken one does no harm."""

import dataclasses
from importlib.metadata import EntryPoint

import pytest
from support import toy_format

import hta_widgets as hw
from hta_widgets import analysis, diff
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.panels.frames import all_panels, offered_panels
from hta_widgets.panels.headline import headline
from hta_widgets.readers import formats


@pytest.fixture
def registered(monkeypatch):
    """Register formats like installed packages do."""

    def register(**references):
        points = [
            EntryPoint(name, value, formats.ENTRY_POINTS) for name, value in references.items()
        ]
        monkeypatch.setattr(formats, "entry_points", lambda **_: points)
        formats._formats_and_faults.cache_clear()

    yield register
    monkeypatch.undo()
    formats._formats_and_faults.cache_clear()


@pytest.fixture
def jobs(registered, tmp_path):
    """Return two toy jobs of two ranks; ``b`` takes longer in the second."""
    registered(toy=f"{toy_format.__name__}:FORMAT")
    for job, longest in (("before", 5), ("after", 9)):
        for rank in range(2):
            text = f"# toy\n{rank} 0 3 a\n{rank} 4 {longest} b\n"
            (tmp_path / job).mkdir(exist_ok=True)
            (tmp_path / job / f"{rank}.toy").write_text(text)
    return [hw.load(tmp_path / job, progress=False) for job in ("before", "after")]


@pytest.mark.parametrize("folder", ["toy-1.0.dist-info", "Toy.egg-info"])
def test_entry_points_are_found_in_the_metadata_of_packages(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend("x" * 5000)  # a folder that cannot exist
    monkeypatch.syspath_prepend(tmp_path)
    group = "hta_widgets.toys"
    assert not list(formats.entry_points(group))
    (tmp_path / folder).mkdir()
    name = "PKG-INFO" if folder.endswith(".egg-info") else "METADATA"
    (tmp_path / folder / name).write_text("Name: toy\nVersion: 1.0\n")
    (tmp_path / folder / "entry_points.txt").write_text(f"[{group}]\ntoy = toy:FORMAT\n")
    assert [point.value for point in formats.entry_points(group)] == ["toy:FORMAT"]


def test_every_reference_of_the_table_is_there():
    groups = [
        getattr(format_, name)
        for format_ in formats.all_formats()
        for name in ("reading", "analyses", "views", "comparison")
    ]
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            texts = value.values() if isinstance(value, dict) else value
            for text in texts if isinstance(value, dict | tuple) else [texts]:
                if isinstance(text, str) and ":" in text:
                    assert formats.resolve_reference(text) is not None


def test_a_format_of_another_package_is_read_and_drawn(jobs):
    before, _ = jobs
    assert before.formats == ["toy"]
    assert before.ranks == [0, 1]
    assert before[0].frame()["dur_ns"].tolist() == [3000, 5000]
    rows = [row for rank in TileEngine(before).scene()["ranks"] for row in rank["summary"]]
    assert len(rows) >= 2


def test_it_is_asked_for_by_name(jobs, tmp_path):
    assert len(hw.load(tmp_path / "before", format="toy", progress=False)) == 2
    with pytest.raises(hw.TraceError, match="of the format toy"):
        hw.load(tmp_path / "before", format="kineto", progress=False)


def test_it_has_an_analysis_a_panel_and_a_headline(jobs):
    before, _ = jobs
    assert analysis.toy_totals(before)["dur_ns"].tolist() == [3000, 5000] * 2
    assert "toy_totals" in all_panels()
    assert offered_panels(["toy"]) == ["timeline", "toy_totals", "selection", "problems"]
    assert PanelEngine(before).frame("toy_totals", None)["name"].tolist() == ["a", "b"] * 2
    assert headline(before).text == "b takes most time."


def test_two_jobs_have_its_table(jobs):
    table = diff.tables(diff.compare(*jobs))["toy_totals"]
    assert table.iloc[0]["name"] == "b"
    assert table.iloc[0]["diff_dur_ns"] == 8000
    with pytest.raises(hw.TraceError, match="toy_totals"):
        diff.add_table("toy_totals", diff.steps)


def test_two_jobs_have_its_finding(jobs):
    findings = diff.findings(diff.compare(*jobs))
    total = next(finding for finding in findings if finding.kind == "total")
    # 5 µs, then 9 - 4 + 4 = 9 µs, on each of two ranks.
    assert total.text == "b differs most in total: 10.0\u202fµs → 18.0\u202fµs."
    assert (total.before, total.after, total.diff_ns) == (10_000, 18_000, 8000)


@pytest.mark.parametrize(
    "reference", ["no_such_package:FORMAT", "json:dumps", "hta_widgets.readers.formats:_BROKEN"]
)
def test_a_broken_one_is_a_problem_and_no_more(registered, write, reference):
    registered(broken=reference)
    traces = hw.load(write([{"ph": "X", "name": "op", "ts": 0, "dur": 1}]), progress=False)
    result = traces.problems
    assert len(traces) == 1
    assert result["detail"].str.contains("the format 'broken' cannot be used").sum() == 1

"""The benchmarks page is generated from results and lists missing ones."""

import re
import sys
import xml.etree.ElementTree as ET

import pytest

MARK = re.compile(r"<!-- (generated|end): ([\w-]+) -->")


@pytest.fixture(scope="module")
def report(repo):
    sys.path.insert(0, str(repo / "benchmarks"))
    try:
        import _report

        yield _report
    finally:
        sys.path.remove(str(repo / "benchmarks"))


def row(name, seconds=None, added_mb=10.0, note=""):
    runs = [] if seconds is None else [{"seconds": seconds, "added_mb": added_mb, "peak_mb": 50.0}]
    return {"name": name, "runs": runs, "note": note}


@pytest.fixture
def results(report):
    move = {
        "took_s": 2.0, "busy_s": 0.5, "frames": 100, "drawn": 60, "work_p50_ms": 1.0,
        "work_p95_ms": 3.0, "gap_p95_ms": 17.0, "gap_max_ms": 40.0, "slow_share": 0.02,
    }  # fmt: skip
    return report.Results(
        {
            "load": {
                "small": [
                    row("ours", 0.2, 20),
                    row("ours, from a store", 0.001),
                    row("HTA 0.6.1", 1.6, 130),
                    row("Perfetto UI", note="Perfetto's UI is not installed (`make interop`)"),
                    row("msgspec, decoding alone", 0.1, 80),
                ],
                "large": "no tool: set HTA_SHARED",
                "job": [row("json + pandas", note="did not fit into 16 GB (40 of 64 files)")],
            },
            "big": {
                "rows": {
                    "load, no cache": {"seconds": 50.0, "peak_mb": 900.0, "said": 1000},
                    "HTA, part": {
                        "seconds": 30.0, "peak_mb": 1.0, "said": {"ranks": 4, "events": 100},
                    },
                }
            },
            "viewers": {
                "small": {"ours": {"zoom": move}, "catapult viewer": "failed: its page crashed"}
            },
        },
        {
            "tiles": {
                "seconds": 61.0, "failed": "", "quick": False, "date": "2026-11-21",
                "text": "AMD, 2 processors, load 0.1\n\n## Views\n\n| a |\n|---|\n| 7 |\n"
                "written to x.json\n",
            },
            "brush": {"seconds": 600.0, "failed": "not done after 600 s", "text": ""},
        },
    )  # fmt: skip


def cells(text, name):
    line = next(line for line in text.splitlines() if line.startswith(f"| {name}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_times_stand_beside_ours(report, results):
    text = report.loading(results)
    assert cells(text, "ours")[1] == "0.2 s, +20 MB"
    assert cells(text, "HTA")[1:] == ["1.6 s, +130 MB", "8× faster"]
    assert cells(text, "msgspec")[2] == "2× slower"
    assert cells(report.again(results), "from a store")[2] == "1,600×"


def test_an_anchor_that_is_missing_is_named(report, results):
    text = report.loading(results)
    assert "not installed" in cells(text, "Perfetto UI")[1]
    assert cells(text, "orjson + pandas")[1] == "not measured"
    assert "40 of 64 files" in cells(report.job(results), "json + pandas")[1]
    assert "its page crashed" in cells(report.viewers(results), "catapult viewer")[1]
    assert report.PARTS["brush"](results) == "brush: not done after 600 s."
    assert "Not measured" in report.PARTS["ranks"](results)


def test_a_part_of_a_job_is_scaled_by_events(report, results):
    assert results.big_seconds("HTA 0.6.1") == 300.0


def test_what_a_script_printed_is_kept_without_its_machine(report, results):
    assert report.PARTS["tiles"](results) == "**Views**\n\n| a |\n|---|\n| 7 |"


def test_the_picture_shows_what_there_is_and_says_what_is_not(report, results):
    root = ET.fromstring(report.chart.svg(report.chart.groups(results)))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "8× · 1.6 s" in words
    assert "6× · 300 s" in words
    assert "Perfetto's UI is not installed (`make interop`)" in words
    # A group without measurements has no heading.
    assert not any(text.startswith("Load 311 MB") for text in words)


def test_the_machine_is_named_with_its_dates(report, results):
    facts = {
        "processor": "EPYC",
        "processors": 2,
        "python": "3.11.7",
        "commit": "abc",
        "numpy": "2",
    }
    results.steps["tiles"]["machine"] = facts
    results.steps["brush"] |= {"machine": facts | {"commit": "def"}, "date": "2026-11-22"}
    text = (
        "EPYC, 2 processors; Python 3.11.7, numpy 2; commit abc to def; 2026-11-21 to 2026-11-22."
    )
    assert report.PARTS["machine"](results) == text


def test_words_around_the_parts_stay(report, results):
    page = "Before.\n<!-- generated: took -->\nold\n<!-- end: took -->\nAfter.\n"
    once = report.filled(page, results)
    assert once.startswith("Before.\n<!-- generated: took -->\n| script |")
    assert once.endswith("<!-- end: took -->\nAfter.\n")
    assert "old" not in once
    assert report.filled(once, results) == once


def test_the_page_has_every_part_once_and_in_pairs(report, repo):
    text = "".join(page.read_text("utf-8") for page in report.PAGES)
    marks = MARK.findall(text)
    assert marks == [(kind, name) for name in report.PARTS for kind in ("generated", "end")]
    picture = (repo / "docs/img/performance.svg").read_text("utf-8")
    assert ET.fromstring(picture).tag.endswith("svg")

"""Notebook outputs where widgets do not run: text, and a picture in HTML."""

import base64
import re
from html import escape as html_escape
from xml.etree import ElementTree as ET

import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.export.pictures import picture
from hta_widgets.live import comparison
from hta_widgets.widgets import dashboard

pytestmark = pytest.mark.slow

MAX_BYTES = 150_000


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    monkeypatch.setattr(dashboard, "_HEADLINE_MS", 60_000)


def load_demo(folder, **options):
    write_demo(folder, **options)
    return hw.load(folder, cache=False, progress=False)


def bundle(view):
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert len(data["text/html"]) <= MAX_BYTES
    return data["text/plain"], data["text/html"]


def texts_of(html):
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    return list(ET.fromstring(base64.b64decode(data)).itertext())


def test_a_dashboard_keeps_headline_charts_and_timeline(tmp_path):
    text, html = bundle(hw.Dashboard(load_demo(tmp_path / "job", ranks=8, steps=2)))
    title, headline, *_ = text.split("\n")
    assert title.startswith("job · 8 ranks · ")
    assert html_escape(headline) in html
    assert "rank 5" in headline
    drawn = texts_of(html)
    assert {"Where GPU time goes", "Communication and overlap", "waiting"} <= {*drawn}
    assert {"ProfilerStep#0", "causes the wait"} <= {*drawn}
    # The notes and the legend of a chart are complete.
    assert "transfer and waiting: communication that no compute hides" in " ".join(drawn)


def test_similar_ranks_share_rows_of_a_large_job(tmp_path):
    _, html = bundle(hw.Dashboard(load_demo(tmp_path / "job", ranks=20, steps=1)))
    drawn = texts_of(html)
    assert drawn.count("rank 5") >= 2
    assert any(re.match(r"1\d ranks: 0–4", text) for text in drawn)
    assert "similar ranks share a row: mean, line: min to max" in " ".join(drawn)
    assert "idle" in drawn


def test_names_are_text(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    text, html = bundle(hw.Timeline(load_demo(tmp_path / name, ranks=2, steps=1)))
    assert text.startswith(name)
    assert "<img src=x" not in html
    assert any(name[:12] in drawn for drawn in texts_of(html))


@pytest.mark.parametrize("control", ["\x1b[31m", "\n", "\x07"])
def test_control_characters_of_names_do_not_reach_a_terminal(tmp_path, control):
    text, _ = bundle(hw.Timeline(load_demo(tmp_path / f"a{control}b", ranks=2, steps=1)))
    assert text.startswith(f"a\\u{ord(control[0]):04x}")
    assert control not in text


def test_a_comparison_keeps_its_answer_and_both_timelines(sides):
    text, html = bundle(hw.TraceDiff(*sides))
    title, headline, *others = text.split("\n")
    assert title.startswith("a → b · 2 ranks each")
    # `sides` has these changes; see conftest.py.
    assert re.match(r"After takes .* longer a step: ", headline)
    assert any("aten::gelu is slower" in sentence for sentence in others)
    assert html_escape(headline) in html
    assert {"before: a", "after: b"} <= {*texts_of(html)}


def test_a_large_comparison_is_shown_without_waiting_for_findings(sides, monkeypatch):
    monkeypatch.setattr(comparison, "_MAX_EVENTS", 10)
    text, _ = bundle(hw.TraceDiff(*sides))
    assert text.split("\n")[1:] == []


def test_too_many_events_are_not_drawn(traces, monkeypatch):
    monkeypatch.setattr(picture, "_MAX_DRAWN_EVENTS", 5)
    for view in (hw.Timeline(traces), hw.Dashboard(traces)):
        text, html = bundle(view)
        assert "2 ranks" in text
        assert "<img" not in html


def test_a_picture_that_is_too_large_is_left_out(traces, monkeypatch):
    monkeypatch.setattr(picture, "_MAX_BYTES", 500)
    text, html = bundle(hw.Timeline(traces))
    assert text in html
    assert "<img" not in html

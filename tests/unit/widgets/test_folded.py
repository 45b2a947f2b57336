"""Folding similar ranks in a timeline: its default, its trait, and views that share it."""

import pytest
from support.random_job import write_job

from hta_widgets.readers.load import load
from hta_widgets.widgets.timeline import MOST_UNFOLDED, Timeline


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = write_job(tmp_path_factory.mktemp("job"), seed=1)
    return load(folder, cache=False, progress=False)


@pytest.fixture(autouse=True)
def no_front_end(monkeypatch):
    """Python's side works the same whether the front end is built or not."""
    for room in ("timeline", "view"):
        monkeypatch.setattr(f"hta_widgets.widgets.{room}.asset", lambda _: "export default {}")


@pytest.fixture
def timeline(traces):
    return Timeline(traces)


def test_few_ranks_are_not_folded_unless_asked_for(traces, timeline):
    assert timeline.folded is False
    assert Timeline(traces, folded=True).folded is True


def test_many_ranks_are_folded_unless_refused(traces, monkeypatch):
    monkeypatch.setattr(type(traces), "__len__", lambda _: MOST_UNFOLDED + 1)
    assert Timeline(traces).folded is True
    assert Timeline(traces, folded=False).folded is False
    monkeypatch.setattr(type(traces), "__len__", lambda _: MOST_UNFOLDED)
    assert Timeline(traces).folded is False


def test_the_page_hears_of_it_and_linked_timelines_keep_their_own(traces, timeline):
    assert "folded" in timeline.keys
    other = Timeline(traces)
    timeline.link(other)
    timeline.folded = True
    assert other.folded is False
    timeline.undo()
    assert timeline.folded is True

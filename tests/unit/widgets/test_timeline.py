"""The timeline as a Python object; what it draws is tested in a browser."""

import pytest
import traitlets
from support.random_job import write_job

import hta_widgets as hw


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 3), cache=False, progress=False)


def test_no_view_is_the_whole_job(traces):
    timeline = hw.Timeline(traces)
    whole = timeline.view
    timeline.zoom_to(whole[0] + 10, whole[1] - 10)
    assert timeline.view == (whole[0] + 10, whole[1] - 10)
    timeline.view = None
    assert timeline.view == whole == (traces.start_ns, traces.end_ns)


def test_a_view_without_length_is_refused(traces):
    timeline = hw.Timeline(traces)
    with pytest.raises(traitlets.TraitError, match="end after it starts"):
        timeline.view = (5, 5)


def test_undo_goes_back_one_change(traces):
    timeline = hw.Timeline(traces)
    before = timeline.view
    timeline.zoom_to(100, 200)
    assert timeline.undo()
    assert timeline.view == before
    assert timeline.redo()
    assert timeline.view == (100, 200)

"""Scopes of analyses: the ranks that exist, and the intersection of windows."""

import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.scope import narrowed, parts


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 1), cache=False, progress=False)


def test_a_rank_that_is_not_there_is_refused(traces):
    with pytest.raises(hw.TraceError, match="no rank 9"):
        parts(traces, ranks=[0, 9])


def test_one_rank_is_no_set(traces):
    with pytest.raises(hw.TraceError, match=r"ranks=\[0\]"):
        parts(traces[0])


def test_a_window_narrows_a_selection(traces):
    chosen = narrowed(traces, traces.select(start_ns=100, end_ns=500), (200, 900), [1])
    assert (chosen.start_ns, chosen.end_ns, chosen.ranks) == (200, 500, (1,))


def test_a_window_may_be_text(traces):
    chosen = narrowed(traces, window=("0.2us", "0.0009 ms"))
    assert (chosen.start_ns, chosen.end_ns) == (200, 900)
    with pytest.raises(hw.TraceError, match="ends"):
        analysis.job_critical_path(traces, window=("9us", "1us"))


def test_windows_that_do_not_meet_hold_nothing(traces):
    found = parts(traces, traces.select(start_ns=100, end_ns=200), (300, 400))
    assert [len(part.rows) for part in found] == [0, 0]


def test_a_text_is_a_query(traces):
    text = "kind == 'communication'"
    found = [part.rows.tolist() for part in parts(traces, text)]
    assert found == [part.rows.tolist() for part in parts(traces, traces.select(text))]
    assert any(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"traces": "/runs/job"}, "not on str"),
        ({"selection": 5}, "5 is no selection"),
        ({"window": "1ms"}, r"no window.*\(start_ns, end_ns\)"),
        ({"window": ("1ms", "later")}, "'later' is no time"),
        ({"ranks": "01"}, "'01' names no ranks"),
        ({"window": (5,)}, "no window"),
        ({"window": (500, 100)}, "before it starts"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(traces, arguments, words):
    with pytest.raises(hw.TraceError, match=words):
        parts(**{"traces": traces, **arguments})


def test_what_hides_communication_need_not_be_selected(traces):
    whole = analysis.comm_comp_overlap(traces)
    chosen = analysis.comm_comp_overlap(traces, selection="kind == 'communication'")
    assert whole["overlapped_ns"].sum() > 0
    columns = ["communication_ns", "overlapped_ns", "exposed_ns"]
    assert chosen[columns].equals(whole[columns])

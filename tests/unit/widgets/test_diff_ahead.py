"""A comparison computes its first frames while its page loads, but no timeline."""

import asyncio
import threading
from itertools import pairwise

import pytest

import hta_widgets as hw
from hta_widgets import diff
from hta_widgets.live import comparison as answers_module, comparison as diff_ahead
from hta_widgets.live.comparison import first_frame_tasks

pytestmark = pytest.mark.slow

FIRST = (
    "segments:steps", "slots:steps", "waterfall:kind", "steps", "lanes", "names", "changes",
    "findings", "icicle",
)  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """Names of frames that are computed instead of taken from a cache."""
    names = []
    make = answers_module.DiffAnswers._frame

    def noted(self, name):
        names.append(name)
        return make(self, name)

    monkeypatch.setattr(answers_module.DiffAnswers, "_frame", noted)
    return names


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(diff_ahead, "_PAUSE_S", 0)


def show_in_a_kernel(view, turns=100):
    """Display a view in a running event loop, and let the loop continue for a while."""

    async def run():
        view._repr_mimebundle_()
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(run())


def asked(view, names):
    return view.answer({"rpc": "1", "op": "frames", "names": list(names)})[0]["frames"]


def test_the_page_finds_its_first_answers_made(view, sides, made):
    show_in_a_kernel(view)
    assert set(FIRST) < set(made)
    done = len(made)
    frames = asked(view, FIRST)
    assert set(frames) == set(FIRST)
    assert len(made) == done
    untouched = hw.TraceDiff(*sides)
    assert frames == asked(untouched, FIRST)


def test_what_the_page_shows_is_what_is_made(view, made):
    view.align, view.swapped, view.pair = "absolute", True, 1
    show_in_a_kernel(view)
    done = len(made)
    asked(view, ["segments:absolute", "slots:absolute", "findings:swapped@1", "icicle@1"])
    assert len(made) == done
    assert "findings" not in made


def test_every_answer_has_a_turn_of_its_own(view, made):
    counts = []
    for task in first_frame_tasks(view._answers, "steps"):
        task()
        counts.append(len(made))
    # A kernel that receives another request meanwhile replies after one or two frames.
    assert max(later - before for before, later in pairwise(counts)) <= 2


def test_nothing_is_made_without_a_loop_or_of_large_runs(view, made, monkeypatch):
    view._repr_mimebundle_()
    monkeypatch.setattr(diff_ahead, "_MAX_EVENTS", 10)
    show_in_a_kernel(view)
    assert made == []


def test_an_output_does_not_wait_long_for_its_sentences(view, monkeypatch):
    released = threading.Event()
    find = diff.findings

    def find_late(both):
        released.wait(60)
        return find(both)

    monkeypatch.setattr(diff, "findings", find_late)
    monkeypatch.setattr(answers_module, "_FINDINGS_MS", 10)
    assert view._answers.main_findings() == []
    released.set()
    monkeypatch.setattr(answers_module, "_FINDINGS_MS", 60_000)
    sentences = view._answers.main_findings()
    assert sentences == [finding.text for finding in find(view.comparison)[:3]]
    assert sentences


def test_a_page_is_told_whether_it_may_ask_for_all_at_once(view, monkeypatch):
    assert view._answers.about()["is_small"]
    monkeypatch.setattr(answers_module, "_FEW_EVENTS", 10)
    assert not view._answers.about()["is_small"]


def test_what_cannot_be_made_is_left_to_be_asked_for(view, monkeypatch):
    def fail(*_, **__):
        raise hw.TraceError("is no longer there", path="a.json")

    with monkeypatch.context() as broken:
        broken.setattr(diff, "names", fail)
        show_in_a_kernel(view)
        assert set(asked(view, ["steps", "names", "nonsense"])) == {"steps"}
        with pytest.raises(hw.TraceError, match="no longer there"):
            view.answer({"rpc": "1", "op": "frame", "name": "names"})
    assert set(asked(view, ["names"])) == {"names"}


def test_a_side_goes_to_a_page_only_where_it_is_shown(view):
    assert view.comm is not None
    assert view.left.comm is None
    view.left.zoom_to(0, 1_000)
    assert view.left.state.view == (0, 1_000)
    bundle = view.left._repr_mimebundle_()[0]
    assert view.left.comm is not None
    assert view.left.model_id in str(bundle)
    assert view.right.comm is None
    view.right.close()

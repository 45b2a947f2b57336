"""Models on the wire, shared state of pages, progress, cancellation and errors."""

import contextlib
import importlib
import os
import signal
import time
from pathlib import Path

import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.host import session as module
from hta_widgets.host.session import PROTOCOL

load = importlib.import_module("hta_widgets.readers.load")


@pytest.fixture
def job(tmp_path, built):
    folder = tmp_path / "job"
    folder.mkdir()
    return str(write_job(folder, 1))


def opened(hosted, job, view="dashboard", paths=None, **options):
    """Return a host, a page, and the dashboard model."""
    host = hosted(**options)
    page = host.page()
    page.put(type="open", id=1, view=view, paths=paths or [job])
    host.run()
    return host, page, page.last("opened")["model"]


def update(page, model, **state):
    data = {"method": "update", "state": state, "buffer_paths": []}
    page.put(type="comm_msg", comm=model, data=data)


def test_a_page_is_greeted_and_gets_the_models(hosted, job):
    _, page, model = opened(hosted, job)
    hello = page.heard[0][0]
    assert hello["type"] == "hello"
    assert (hello["protocol"], hello["pid"]) == (PROTOCOL, os.getpid())
    assert hello["again"] == "hta-widgets view x"
    models = page.models()
    assert page.kinds()[-1] == "opened"
    state = models[model]
    assert state["state"].removeprefix("anywidget:") in models
    # Only Jupyter's front ends need layouts, and texts are sent as hashes.
    assert all(value["_model_module"] == "anywidget" for value in models.values())
    assert "layout" not in state
    assert len(state["_esm"]) == len(state["_css"]) == 32


def test_texts_are_sent_on_request(hosted, job):
    host, page, model = opened(hosted, job)
    key = page.models()[model]["_esm"]
    page.put(type="text", key=key)
    page.put(type="text", key="nothing")
    host.run()
    (first, [text]), (_, [nothing]) = page.heard[-2:]
    assert first == {"type": "text", "key": key}
    assert bytes(text).decode().endswith("\n") or len(text) > 100_000
    assert bytes(nothing) == b""


def test_numbers_are_those_of_python(hosted, job):
    host, page, model = opened(hosted, job)
    traces = hw.load(job, progress=False, cache=False)
    page.ask(model, "stats", start=0, end=int(traces.end_ns))
    host.run()
    [reply] = page.replies()
    assert reply["ok"]
    expected = hw.Dashboard(traces).answer({"op": "stats", "start": 0, "end": int(traces.end_ns)})
    assert reply["reply"] == expected[0]


def test_pages_share_models_and_only_the_one_that_asked_gets_the_reply(hosted, job):
    host, page, model = opened(hosted, job)
    other = host.page()
    other.put(type="open", id=7, view="dashboard", paths=[job])
    host.run()
    assert other.last("opened") == {"type": "opened", "model": model, "id": 7}
    state = other.models()[model]["state"].removeprefix("anywidget:")
    other.ask(model, "stats", start=0, end=10)
    update(other, state, search="nccl")
    host.run()
    assert len(other.replies()) == 1
    assert page.replies() == []
    assert {"search": "nccl"} in page.updates("echo_update")
    assert other.updates("echo_update") == []
    # A page that joins later gets the current state.
    later = host.page()
    host.run()
    assert later.models()[state]["search"] == "nccl"


def test_a_timeline_follows_a_page(hosted, job):
    host, page, model = opened(hosted, job)
    state = page.models()[model]["state"].removeprefix("anywidget:")
    update(page, state, view=[5, 9])
    host.run()
    [dash] = host.session._widgets.values()
    assert dash.view == (5, 9)
    dash.zoom_to(10, 20)
    assert [10, 20] in [update.get("view") for update in page.updates("update")]


def test_other_pages_are_answered_during_a_load(hosted, job, tmp_path, monkeypatch):
    host, page, model = opened(hosted, job)
    (tmp_path / "other").mkdir()
    paths = [str(write_job(tmp_path / "other", 1))]
    other, third = host.page(), host.page()
    real, seen = load.load, []

    def slow(source, progress):
        page.ask(model, "stats", start=0, end=10)
        third.put(type="open", id=3, view="dashboard", paths=[job])
        progress(1, 2)
        seen.append((len(page.replies()), third.kinds()[-1]))
        return real(source, progress=progress)

    monkeypatch.setattr(load, "load", slow)
    other.put(type="open", id=2, view="dashboard", paths=paths)
    host.run()
    # A second load waits for the first.
    assert seen == [(1, "comm_open")]
    assert other.last("opened")["id"] == 2
    host.run()
    assert third.last("opened") == {"type": "opened", "model": model, "id": 3}


def test_a_load_is_cancelled_while_another_page_is_answered(hosted, job, tmp_path, monkeypatch):
    host, page, model = opened(hosted, job)
    other = host.page()

    def slow(source, progress):
        page.ask(model, "stats", start=0, end=10)
        other.put(type="cancel", id=2)
        progress(1, 2)
        raise AssertionError("it goes on")

    monkeypatch.setattr(load, "load", slow)
    monkeypatch.setattr(module, "_interrupt_main", lambda _signal: None)
    other.put(type="open", id=2, view="dashboard", paths=[str(tmp_path)])
    host.run()
    assert other.last("failed")["cancelled"]
    assert len(page.replies()) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"type": "nonsense"},
        {},
        {"type": "comm_msg"},
        {"type": "comm_msg", "comm": "none", "data": {"method": "request_state"}},
        {"type": "text"},
        {"type": "cancel"},
        {"type": "cancel", "id": 1},
    ],
)
def test_unknown_messages_are_dropped(hosted, message):
    host = hosted()
    page = host.page()
    page.put(**message)
    host.run()
    assert set(page.kinds()) <= {"hello", "text"}


def test_a_bad_message_does_not_end_the_host(hosted, job):
    host, page, model = opened(hosted, job)
    page.put(type="comm_msg", comm=model, data={"method": "update", "state": {"height": "high"}})
    page.put(type="comm_msg", comm=model, data={})
    page.ask(model, "stats", start=0, end=10)
    host.run()
    assert [reply["ok"] for reply in page.replies()] == [True]


def test_errors_carry_what_is_wrong_where_and_what_to_do(hosted, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("not a trace")
    host = hosted(lambda path: path if path != "secret" else None)
    page = host.page()
    requests = [
        ("dashboard", [str(broken)]),
        ("dashboard", ["secret"]),
        ("wild", []),
        ("diff", [str(broken)]),
    ]
    for number, (view, paths) in enumerate(requests):
        page.put(type="open", id=number, view=view, paths=paths)
    host.run()
    failed = [message for message, _ in page.heard if message["type"] == "failed"]
    assert [message["id"] for message in failed] == [0, 1, 2, 3]
    assert {message["kind"] for message in failed} == {"TraceError"}
    with pytest.raises(hw.TraceError) as error:
        hw.load(broken)
    text = {"message": error.value.message, "path": str(broken), "remedy": error.value.remedy}
    assert {key: failed[0][key] for key in text} == text
    for message, words in zip(
        failed[1:], ("not among the files", "unknown view", "two sides"), strict=True
    ):
        assert words in message["message"]


def test_a_comparison(hosted, job):
    host, page, model = opened(hosted, job, "diff", [job, job])
    assert {"left_state", "right_state"} <= page.models()[model].keys()
    page.ask(model, "frames", names=["changes"])
    host.run()
    assert page.replies()[-1]["ok"]


def test_progress_is_reported(hosted, job):
    _, page, _ = opened(hosted, job)
    at = [message for message, _ in page.heard if message["type"] == "progress"]
    of = sum(path.stat().st_size for path in Path(job).iterdir())
    assert [item["stage"] for item in at][-1] == "draw"
    assert at[-2] == {"type": "progress", "id": 1, "stage": "read", "done": of, "of": of}


@pytest.fixture
def endless(monkeypatch):
    """A load that continues until it is interrupted."""
    running = []

    def read(_source, *, progress):
        running.append(True)
        progress(1, 2)
        while True:
            time.sleep(0.005)

    monkeypatch.setattr(load, "load", read)
    return running


def test_a_cancel_ends_the_load_and_nothing_else(hosted, endless, in_background):
    host = hosted()
    page = host.page()
    page.put(type="open", id=3, view="dashboard", paths=["x"])
    page.put(type="text", key="k")

    def cancel():
        page.put(type="cancel", id=2)  # cancels another request
        host.page().put(type="cancel", id=3)  # from a page that does not wait for this load
        page.put(type="cancel", id=3)
        page.put(type="cancel", id=3)

    in_background(lambda: endless, cancel)
    host.run()
    assert page.kinds() == ["hello", "progress", "text", "progress", "failed"]
    failed = page.last("failed")
    assert (failed["id"], failed["cancelled"]) == (3, True)


def test_a_cancel_does_not_end_a_load_that_another_page_waits_for(hosted, monkeypatch):
    host = hosted()
    first, second = host.page(), host.page()

    def read(_source, *, progress):
        second.put(type="open", id=4, view="dashboard", paths=["x"])
        second.put(type="cancel", id=4)
        progress(1, 2)
        raise hw.TraceError("the load goes on")

    monkeypatch.setattr(load, "load", read)
    first.put(type="open", id=3, view="dashboard", paths=["x"])
    host.run()
    cancelled = {"type": "failed", "cancelled": True, "message": "Cancelled.", "id": 4}
    assert second.last("failed") == cancelled
    assert "goes on" in first.last("failed")["message"]
    assert second.kinds().count("failed") == 1


def test_ctrl_c_ends_the_host_also_during_a_load(hosted, endless, in_background):
    host = hosted()
    host.page().put(type="open", id=3, view="dashboard", paths=["x"])
    in_background(lambda: endless, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        host.run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_that_swallows_the_interrupt_is_the_last_one(hosted, monkeypatch, number):
    host = hosted()
    page = host.page()
    handled = []

    def answer(*_message):
        handled.append(True)
        with contextlib.suppress(KeyboardInterrupt):  # as `live.operations.serve` does
            signal.raise_signal(number)

    monkeypatch.setattr(host.session.hub, "receive", answer)
    page.put(type="comm_msg")
    page.put(type="comm_msg")
    host.run()
    assert len(handled) == 1


def test_a_load_without_pages_is_cancelled_after_a_while(
    hosted, endless, in_background, monkeypatch
):
    monkeypatch.setattr(module, "_GRACE_S", 0.01)
    host = hosted()
    page = host.page()
    page.put(type="open", id=3, view="dashboard", paths=["x"])
    in_background(lambda: endless, lambda: host.session.leave(page.name))
    host.run()
    assert "failed" not in page.kinds()


def test_a_page_that_asks_for_the_same_waits_for_it(hosted, endless, in_background, monkeypatch):
    host = hosted()
    first, second = host.page(), host.page()
    first.put(type="open", id=3, view="dashboard", paths=["x"])

    def join():
        second.put(type="open", id=4, view="dashboard", paths=["x"])
        host.session.leave(first.name)
        second.put(type="cancel", id=4)

    in_background(lambda: endless, join)
    host.run()
    assert (second.last("failed")["id"], second.last("failed")["cancelled"]) == (4, True)
    assert len(endless) == 1


def test_views_that_no_page_shows_are_closed(hosted, job, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED_WIDGETS", 1)
    host = hosted(lambda _path: job)
    page = host.page()
    for number, name in enumerate("abc"):
        page.put(type="open", id=number, view="dashboard", paths=[name])
    host.run()
    assert [request.paths for request in host.session._widgets] == [("b",), ("c",)]
    assert page.kinds().count("comm_close") == 2  # dashboard and state
    page.put(type="open", id=4, view="dashboard", paths=["a"])
    host.run()
    assert page.last("opened")["model"] in page.models()


def test_a_written_file_is_offered_to_the_page(hosted, job, tmp_path):
    host, page, model = opened(hosted, job, offer=lambda path: (path.name, "/file/once"))
    page.ask(model, "export", path=str(tmp_path / "out.json"))
    page.ask(model, "export", path=str(tmp_path / "no" / "out.json"))
    host.run()
    done, failed = page.replies()
    assert (done["reply"]["path"], done["reply"]["download"]) == ("out.json", "/file/once")
    assert failed["ok"] is False

"""Widgets opened in a kernel for JupyterLab's extension."""

import comm
import pytest
from support.background import held_up, settled

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.host import kernel
from hta_widgets.live.background import deadline_after


class Comm(comm.base_comm.BaseComm):
    """Records what widgets publish."""

    sent: list

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        self.sent.append((msg_type, self.comm_id, data))


@pytest.fixture
def job(tmp_path):
    write_demo(tmp_path / "job", ranks=2, steps=1, seed=0)
    return str(tmp_path / "job")


@pytest.fixture
def page(monkeypatch):
    """Messages of widgets and other published messages."""
    sent, published = [], []
    monkeypatch.setattr(Comm, "sent", sent, raising=False)
    monkeypatch.setattr(comm, "create_comm", Comm)
    monkeypatch.setattr(kernel, "_shown", {})
    monkeypatch.setattr(
        kernel, "publish_display_data", lambda data: published.append(data[kernel.MIME])
    )
    return sent, published


def test_traces_and_dashboard_are_the_users(job, page):
    _, published = page
    traces, dash = kernel.show(job)
    assert traces.ranks == [0, 1]
    assert isinstance(dash, hw.Dashboard)
    stages = [item for item in published if item["type"] == "progress"]
    assert [item["stage"] for item in (stages[0], stages[-1])] == ["import", "draw"]
    assert {item["stage"] for item in stages} == {"import", "read", "draw"}
    assert published[-1] == {"type": "opened", "model": dash.model_id}


def test_the_headline_does_not_wait_for_the_page(job, page):
    with held_up():
        _, dash = kernel.show(job)
    settled()
    assert dash.panel_engine.headline_until(deadline_after(0)) is not None


def test_a_page_that_is_reloaded_gets_the_whole_state_of_the_same_models(job, page):
    sent, published = page
    _, dash = kernel.show(job)
    del sent[:], published[:]
    assert kernel.show(job)[1] is dash
    assert {model for _, model, _ in sent} == {dash.model_id, dash.state.model_id}
    for kind, _, data in sent:
        assert (kind, data["method"]) == ("comm_msg", "update")
        assert data["state"]["_esm"]
        assert data["state"]["_model_module"] == "anywidget"
    assert published == [{"type": "opened", "model": dash.model_id}]


def test_a_comparison_gives_both_runs(job, page):
    before, after, diff = kernel.show(job, job, view="diff")
    assert before.ranks == after.ranks == [0, 1]
    assert isinstance(diff, hw.TraceDiff)


def test_an_error_reaches_the_page_and_the_user(tmp_path, page):
    _, published = page
    with pytest.raises(hw.TraceError) as error:
        kernel.show(str(tmp_path / "none.trace.json"))
    importing, failed = published
    assert importing == {"type": "progress", "stage": "import"}
    assert failed["type"] == "failed"
    assert failed["kind"] == "TraceError"
    assert failed["message"] == error.value.message
    assert str(failed["path"]).endswith("none.trace.json")

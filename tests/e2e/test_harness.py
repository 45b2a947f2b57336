"""The fixtures themselves: what other tests rely on must be able to fail."""

import json

import pytest
from playwright.sync_api import Error, expect
from support.browser import Guard, click, drag, is_local, wheel

PAD = """
import anywidget, traitlets
class Pad(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
      const pad = document.createElement("div");
      pad.className = "pad";
      pad.style.cssText = "width: 300px; height: 100px; background: teal";
      const say = text => { model.set("said", text); model.save_changes(); };
      let from = null;
      pad.addEventListener("pointerdown", e => { from = e.offsetX; });
      pad.addEventListener("pointerup", e => say(`${from}-${e.offsetX} ${e.shiftKey}`));
      const turn = e => { e.preventDefault(); say(`wheel ${e.deltaY} ${e.ctrlKey}`); };
      pad.addEventListener("wheel", turn, { passive: false });
      model.on("change:color", () => { pad.style.background = model.get("color"); });
      el.append(pad);
    } };
    '''
    said = traitlets.Unicode("").tag(sync=True)
    color = traitlets.Unicode("teal").tag(sync=True)
pad = Pad()
pad
"""


@pytest.mark.parametrize("fixture", ["notebook", "notebook7"])
def test_widget_and_kernel_talk(request, fixture, kernel):
    page = request.getfixturevalue(fixture)(PAD)
    pad = page.locator(".pad")
    expect(pad).to_be_visible()

    drag(pad, (20, 50), (120, 50), keys=["Shift"])
    kernel.wait_for("pad.said == '20-120 true'")
    wheel(pad, (50, 50), 120, keys=["Control"])
    kernel.wait_for("pad.said == 'wheel 120 true'")
    click(pad, (-10, 50))
    kernel.wait_for("pad.said == '290-290 false'")

    kernel("pad.color = 'rgb(1, 2, 3)'")
    expect(pad).to_have_css("background-color", "rgb(1, 2, 3)")
    assert kernel.value("[1, 'a', None]") == [1, "a", None]


@pytest.mark.screenshots
def test_theme_and_screenshot(notebook, theme, screenshot):
    page = notebook("1 + 1")
    shades = {}
    for name in ("dark", "light"):
        theme(name)
        shades[name] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shades["dark"] != shades["light"]
    assert screenshot(page, "harness").read_bytes().startswith(b"\x89PNG")


def test_errors_come_back(notebook, kernel):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        notebook("1 / 0")
    with pytest.raises(AssertionError, match="name 'absent' is not defined"):
        kernel("absent")
    with pytest.raises(AssertionError, match=r"not within 0\.2 s: 1 > 2"):
        kernel.wait_for("1 > 2", seconds=0.2)


def test_guard_sees_what_leaves_the_machine(new_context):
    context = new_context()
    guard = Guard()
    guard.watch(context)
    page = context.new_page()
    with page.expect_event("requestfailed"):
        page.set_content("<img src='http://192.0.2.1/x.png'>")
    with page.expect_event("websocket"):
        page.evaluate("void new WebSocket('ws://192.0.2.1/socket')")
    with context.expect_event("weberror"):
        page.evaluate("void setTimeout(() => { throw new Error('from a page') })")
    assert guard.errors == ["from a page"]
    assert guard.outside == ["http://192.0.2.1/x.png", "ws://192.0.2.1/socket"]
    assert is_local("http://127.0.0.1:8888/lab")
    assert not is_local("http://127.0.0.1.example/lab")


def test_perfetto_judges(perfetto, tmp_path):
    first = {"ph": "X", "name": "mm", "pid": 1, "tid": 1, "ts": 10, "dur": 4}
    crossing = first | {"name": "add", "ts": 12}
    path = tmp_path / "trace.json"

    path.write_text(json.dumps({"traceEvents": [first]}))
    assert perfetto(path) == {}
    assert perfetto.query("SELECT name, dur FROM slice") == [["mm", "4000"]]

    path.write_text(json.dumps({"traceEvents": [first, crossing]}))
    assert perfetto(path) == {"slice_drop_overlapping_complete_event": 1}

    path.write_text("no trace")
    with pytest.raises(Error, match="Cannot open this file"):
        perfetto(path)

"""Counters that analyses derive, drawn as tracks in JupyterLab."""

from playwright.sync_api import expect
from support import recorded

JOB = recorded.DATA / "gpu"


def test_queues_and_copies_are_tracks(notebook, kernel, page, screenshot):
    notebook(
        "import hta_widgets as hw; from hta_widgets import analysis",
        f"ts = analysis.with_counters(hw.load({str(JOB)!r}, ranks=[0], progress=False))",
        "tl = hw.Timeline(ts, height=800); tl",
    )
    root = page.locator(".hta-root")
    expect(root.locator(".hta-words")).to_contain_text("Whole job")
    screenshot(root, "derived_counters")
    labels = kernel.value(
        "[t['label'] for t in tl.engine.scene()['ranks'][0]['tracks'] if t['role'] == 'counter']"
    )
    assert labels == [
        *(f"GPU 0 memory (bytes) {what}" for what in ("allocated", "reserved")),
        *(f"Queue Length[{stream}]" for stream in (7, 20, 24, 28)),
        *("Memcpy DtoH", "Memcpy HtoD", "Memset"),
    ]

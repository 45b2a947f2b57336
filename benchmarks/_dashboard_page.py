"""Measure the size and first paint times of a saved dashboard, for `brush.py`."""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import REPO

sys.path.insert(0, str(REPO / "tests"))

from playwright.sync_api import sync_playwright
from support import browser as hands

import hta_widgets as hw

__all__ = ["paint_text", "saved_dashboard"]

#: Records which parts are visible in each frame after navigation.
_WATCH = """
window.seen = {};
const parts = {
  frame: () => document.querySelector(".hta-dash .hta-toolbar"),
  headline: () => document.querySelector(".hta-headline:not([hidden]) h2"),
  timeline: () => /compute|CPU/.test(document.querySelector(".hta-words")?.textContent ?? ""),
  charts: () => {
    const panes = [...document.querySelectorAll(".hta-pane-chart, .hta-pane-heatmap")];
    const near = panes.filter(one => one.getBoundingClientRect().top < innerHeight);
    return near.length > 0 && near.every(one => {
      const seek = node => [...node.querySelectorAll("*")].some(
        el => (el.tagName === "CANVAS" && el.width > 0) || (el.shadowRoot && seek(el.shadowRoot)));
      return seek(one);
    });
  },
};
const look = () => {
  for (const [name, there] of Object.entries(parts)) {
    if (seen[name] === undefined && there()) seen[name] = performance.now();
  }
  if (Object.keys(seen).length < Object.keys(parts).length) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def saved_dashboard(traces: hw.TraceSet, *, rounds: int = 5) -> dict[str, Any]:
    """Save a dashboard and open it several times; return its size, and median times in ms."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        begin = time.perf_counter()
        path = Path(hw.Dashboard(traces).save_html(Path(folder) / "page.html"))
        saved_s = time.perf_counter() - begin
        timeline = Path(hw.Timeline(traces).save_html(Path(folder) / "timeline.html"))
        browser = playwright.chromium.launch(executable_path=str(hands.CHROMIUM), args=hands.FLAGS)
        result: dict[str, list[float]] = {}
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1440, "height": 1000})
            page = context.new_page()
            page.add_init_script(_WATCH)
            page.goto(path.as_uri())
            page.wait_for_function("() => Object.keys(window.seen).length === 4", timeout=60_000)
            paints = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
            )
            seen = {"first paint": paints, **page.evaluate("window.seen")}
            for name, value in seen.items():
                result.setdefault(name, []).append(value)
            context.close()
        browser.close()
        return {
            "size_mb": path.stat().st_size / 1e6,
            "timeline_only_mb": timeline.stat().st_size / 1e6,
            "save_s": saved_s,
            "seen_ms": {name: statistics.median(values) for name, values in result.items()},
        }


def paint_text(result: dict[str, Any]) -> str:
    seen = ", ".join(f"{name} {ms:.0f} ms" for name, ms in result["seen_ms"].items())
    return (
        f"saved dashboard: {result['size_mb']:.2f} MB (timeline alone "
        f"{result['timeline_only_mb']:.2f} MB), written in {result['save_s']:.1f} s; opened: {seen}"
    )

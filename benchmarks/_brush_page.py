"""Measure how fast a saved page responds in headless Chromium without a kernel, for `brush.py`."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _harness import REPO, quantile_table, quantiles

sys.path.insert(0, str(REPO / "tests"))

from playwright.sync_api import sync_playwright
from support import browser as hands

import hta_widgets as hw
from hta_widgets.export.pages.page import save_html
from hta_widgets.live.job import TileEngine

__all__ = ["in_page", "page_table"]

#: Sends requests one after another; returns the time of each, and the durations of long tasks.
_ASK = """
async ({ requests }) => {
  const source = globalThis[Symbol.for("hta_widgets.page_sources")].get("page");
  const longest = [];
  const observer = new PerformanceObserver(list => {
    for (const { duration } of list.getEntries()) longest.push(duration);
  });
  observer.observe({ type: "longtask" });
  const spent = [];
  for (const { op, ...request } of requests) {
    const begin = performance.now();
    const { reply } = await source.ask(op, request);
    JSON.stringify(reply).length;
    spent.push(performance.now() - begin);
  }
  await new Promise(resolve => setTimeout(resolve, 100));
  observer.disconnect();
  return { spent, longest };
}
"""


def in_page(
    traces: hw.TraceSet,
    panels: Sequence[str],
    brushes: Sequence[tuple[str, dict[str, Any]]],
    *,
    bins: int,
    max_mb: float = 25,
) -> dict[str, Any]:
    """Brush a saved page; return times in ms per panel, per kind of brush, and at the start."""
    engine = TileEngine(traces)
    state = {"view": None, "selection": None, "selected_event": None}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        save_html(path, engine, engine.scene(), state, max_mb=max_mb)
        size = path.stat().st_size
        browser = playwright.chromium.launch(executable_path=str(hands.CHROMIUM), args=hands.FLAGS)
        page = browser.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector(".hta-root canvas")
        page.wait_for_timeout(1000)

        def ask(requests: list[dict[str, Any]]) -> dict[str, list[float]]:
            reply: dict[str, list[float]] = page.evaluate(_ASK, {"requests": requests})
            return reply

        def panels_request(ids: Sequence[str], selection: object) -> dict[str, Any]:
            return {"op": "panels", "panels": list(ids), "selection": selection}

        heatmap = {
            "op": "heatmap", "metric": "waiting", "start": int(traces.start_ns),
            "end": int(traces.end_ns), "bins": bins,
        }  # fmt: skip
        scene = page.evaluate(
            "() => globalThis[Symbol.for('hta_widgets.page_sources')].get('page').job.page.scene"
        )
        first = ask([panels_request(panels, None), {**heatmap, "selection": None}])
        kinds: dict[str, list[float]] = {}
        longest: list[float] = []
        for kind, selection in brushes:
            result = ask([panels_request(panels, selection), {**heatmap, "selection": selection}])
            kinds.setdefault(kind, []).append(sum(result["spent"]))
            longest += result["longest"]
        apart: dict[str, list[float]] = {panel: [] for panel in (*panels, "heatmap")}
        for _, selection in brushes:
            # Each window differs from earlier ones, because answers are cached.
            other = {**selection}
            if "start_ns" in other:
                other["start_ns"] += 1
            for panel in panels:
                apart[panel] += ask([panels_request([panel], other)])["spent"]
            apart["heatmap"] += ask([{**heatmap, "selection": other}])["spent"]
        browser.close()
    return {
        "size_mb": size / 1e6,
        "ranks_full": len(scene["embedded"]["ranks_full"]),
        "first_ms": sum(first["spent"]),
        "first_longest_ms": max(first["longest"], default=0),
        "longest_ms": max(longest, default=0),
        "panels": {panel: quantiles(values) for panel, values in apart.items()},
        "brushes": {kind: quantiles(values) for kind, values in kinds.items()},
        "total": quantiles([value for values in kinds.values() for value in values]),
    }


def page_table(result: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each panel and each kind of brush."""
    rows = {**result["panels"], **result["brushes"], "**all panels**": result["total"]}
    return (
        f"{quantile_table('page, ms', rows)}\n\n"
        f"page of {result['size_mb']:.1f} MB, {result['ranks_full']} ranks with all events; "
        f"first answer {result['first_ms']:.0f} ms, longest task in it "
        f"{result['first_longest_ms']:.0f} ms, longest after it {result['longest_ms']:.0f} ms"
    )

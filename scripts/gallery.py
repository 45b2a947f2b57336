"""Take screenshots of all views and charts in both themes, at three widths: `make pictures`.

    python scripts/gallery.py pictures [NAME …]

If names are given, only those views and charts are drawn. `pictures/index.html` shows each picture
next to that of the previous run, changed pictures first.
"""

from __future__ import annotations

import html
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from playwright.sync_api import Browser, sync_playwright

import hta_widgets as hw
from hta_widgets import analysis, charts, diff
from hta_widgets.demo.job import write_demo

from pictures import CHROMIUM, FLAGS, REPO, collective, jobs, wait_for_frames, words_on

WIDTHS = (700, 1100, 1800)
THEMES = ("light", "dark")
#: Charts drawn from the analysis of the same name.
SIMPLE = (
    "temporal_breakdown",
    "kernel_type_breakdown",
    "comm_comp_overlap",
    "communication_by_group",
    "communication_by_stream",
    "device_idle_breakdown",
    "idle_time_breakdown",
    "kernel_breakdown",
    "kernel_duration_by_rank",
    "operators",
    "user_annotation_breakdown",
    "launch_stats",
    "queue_length",
    "memory_bandwidth",
    "clock_offsets",
    "stragglers",
    "stragglers_by_step",
    "step_times",
    "rank_clusters",
    "parallel_groups",
)


def views(work: Path, made: list[hw.TraceSet]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each view and a function that makes the widget."""
    job, slower, byteps, mpi = made

    def many() -> hw.Dashboard:
        write_demo(work / "many", ranks=64, steps=3, seed=0)
        return hw.Dashboard(hw.load(work / "many", cache=False, progress=False))

    def selected() -> hw.Dashboard:
        dashboard = hw.Dashboard(job)
        dashboard.selection = hw.Selection(80_000_000, 90_000_000, (2, 3))
        return dashboard

    def recorded(name: str) -> hw.Dashboard:
        return hw.Dashboard(hw.load(REPO / "tests/data" / name, cache=False, progress=False))

    yield "dashboard", lambda: hw.Dashboard(job)
    yield "dashboard_selection", selected
    yield "dashboard_one_rank", lambda: hw.Dashboard(job.subset(ranks=[0]))
    yield "dashboard_64_ranks", many
    yield "dashboard_cpu_only", lambda: recorded("cpu_stacks.json.gz")
    yield "dashboard_recorded", lambda: recorded("gpu")
    yield "dashboard_byteps", lambda: hw.Dashboard(byteps)
    yield "dashboard_mpi", lambda: hw.Dashboard(mpi)
    yield "timeline", lambda: hw.Timeline(job)
    yield "timeline_event", lambda: collective(job)
    yield "diff", lambda: hw.TraceDiff(job, slower)


def drawings(
    traces: hw.TraceSet, slower: hw.TraceSet
) -> Iterator[tuple[str, Callable[..., Any], pd.DataFrame]]:
    """Yield the name, chart and frame of each analysis."""
    for name in SIMPLE:
        yield name, getattr(charts, name), getattr(analysis, name)(traces)
    matched = analysis.collectives(traces, clock="fitted")
    yield "collectives", charts.collectives, matched
    yield "arrivals", charts.arrivals, matched
    job_path = analysis.job_critical_path(traces)
    yield "job_critical_path", charts.job_critical_path, job_path
    yield "job_path_summary", charts.job_path_summary, analysis.job_path_summary(job_path)
    first = traces.ranks[0]
    yield "critical_path", charts.critical_path, analysis.critical_path(traces, rank=first)
    sequences = analysis.frequent_kernel_sequences(traces, "AddmmBackward0", ranks=[first])
    yield "frequent_kernel_sequences", charts.frequent_kernel_sequences, sequences
    yield "diff_ops", charts.diff_ops, analysis.diff_ops(traces, slower)
    both = diff.compare(traces, slower)
    for name in ("waterfall", "steps", "changes", "names", "icicle"):
        yield f"diff_{name}", getattr(charts, f"diff_{name}"), getattr(diff, name)(both)


def draw(browser: Browser, work: Path, out: Path, wanted: list[str]) -> None:
    """Write the pictures."""
    result = jobs(work)
    for name, make in views(work, result):
        if not wanted or name in wanted:
            page = Path(make().save_html(work / f"{name}.html"))
            for theme in THEMES:
                shoot(browser, page, out, theme, words_on)
    for name, chart, frame in drawings(*result[:2]):
        if wanted and f"chart_{name}" not in wanted:
            continue
        for theme in THEMES:
            figure = chart(frame, theme=theme)
            page = charts.to_html(figure, work / f"chart_{name}.html", theme=theme)
            shoot(browser, page, out, theme, drawn)


def drawn(tab: Any) -> None:
    """Wait until a figure is drawn."""
    tab.wait_for_function("Bokeh.documents.length && Bokeh.documents[0].is_idle")
    wait_for_frames(tab)


def shoot(browser: Browser, page: Path, out: Path, theme: Any, ready: Callable[..., Any]) -> None:
    """Take a screenshot of a page at each width."""
    for width in WIDTHS:
        # A panel is filled only when it scrolls into view.
        size = {"width": width, "height": 4000 if ready is words_on else 60}
        tab = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
        tab.on("console", lambda message: report(page, message))
        tab.goto(page.resolve().as_uri())
        ready(tab)
        tab.set_viewport_size({"width": width, "height": 60})
        tab.screenshot(path=out / f"{page.stem}_{width}_{theme}.png", full_page=True)
        tab.close()


def report(page: Path, message: Any) -> None:
    """Print the errors and warnings of a page."""
    if message.type in {"warning", "error"}:
        sys.stderr.write(f"{page.name}: {message.text}\n")


def index(folder: Path) -> str:
    """Return a page with each picture next to its previous version, changed pictures first."""
    rows = []
    for now in (folder / "new").glob("*.png"):
        before = folder / "old" / now.name
        is_changed = not before.exists() or before.read_bytes() != now.read_bytes()
        rows.append((not is_changed, now.name))
    parts = ["<!doctype html><meta charset=utf-8><title>Pictures</title>"]
    parts.append("<style>img{width:49%;vertical-align:top;border:1px solid gray}</style>")
    for is_same, name in sorted(rows):
        images = "".join(f'<img src="{side}/{name}" alt="{side}">' for side in ("old", "new"))
        parts.append(f"<h2>{html.escape(name)}: {'same' if is_same else 'changed'}</h2>{images}")
    return "\n".join(parts)


def main(folder: Path, wanted: list[str]) -> None:
    """Draw all views and charts, or only the `wanted` ones; keep the previous pictures."""
    old, new = folder / "old", folder / "new"
    if new.exists() and not wanted:
        shutil.rmtree(old, ignore_errors=True)
        new.rename(old)
    new.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        draw(browser, Path(work), new, wanted)
        browser.close()
    (folder / "index.html").write_text(index(folder), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

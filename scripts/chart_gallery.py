"""Write every chart of a job as a page and as pictures, to be looked at.

    python scripts/chart_gallery.py screenshots/charts [PATH …] --theme dark --width 800

Without paths a demo job of 8 ranks is drawn. Pictures need Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import hta_widgets as hw
from hta_widgets import analysis, charts, diff
from hta_widgets.demo.job import write_demo

#: Drawn from the job's frame of the same name.
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


def drawings(traces: hw.TraceSet) -> Iterator[tuple[str, Callable[..., Any], pd.DataFrame]]:
    """Yield the name, chart and frame of each analysis that there is."""
    for name in SIMPLE:
        if hasattr(analysis, name):
            yield name, getattr(charts, name), getattr(analysis, name)(traces)
    matched = analysis.collectives(traces, clock="fitted")
    yield "collectives", charts.collectives, matched
    yield "arrivals", charts.arrivals, matched
    job_path = analysis.job_critical_path(traces)
    yield "job_critical_path", charts.job_critical_path, job_path
    yield "job_path_summary", charts.job_path_summary, analysis.job_path_summary(job_path)
    first = traces.ranks[0]
    path = analysis.critical_path(traces, rank=first)
    yield "critical_path", charts.critical_path, path
    busiest = analysis.operators(traces, ranks=[first])
    if len(busiest):
        names = busiest.sort_values("device_total_ns", ascending=False)["name"]
        found = (
            analysis.frequent_kernel_sequences(traces, str(name), ranks=[first]) for name in names
        )
        frame = next((frame for frame in found if len(frame)), pd.DataFrame())
        yield "frequent_kernel_sequences", charts.frequent_kernel_sequences, frame
    if len(traces) > 1:
        halves = [traces.subset(ranks=[rank]) for rank in traces.ranks[:2]]
        yield "diff_ops", charts.diff_ops, analysis.diff_ops(*halves)
        both = diff.compare(*halves)
        for name in ("waterfall", "steps", "changes", "names", "icicle"):
            yield f"diff_{name}", getattr(charts, f"diff_{name}"), getattr(diff, name)(both)


def main() -> None:
    """Read what to draw from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--theme", choices=("light", "dark"), action="append")
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--ranks", type=int, default=8, help="of the demo job")
    parser.add_argument("--fixed", action="store_true", help="give charts the width")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = arguments.paths
        if not paths:
            write_demo(folder, ranks=arguments.ranks, steps=3)
            paths = [folder]
        traces = hw.load(paths if len(paths) > 1 else paths[0], cache=False, progress=False)
        made = list(drawings(traces))
    arguments.out.mkdir(parents=True, exist_ok=True)
    pages = []
    for theme in arguments.theme or ["light"]:
        for width in arguments.width or [800]:
            for name, chart, frame in made:
                figure = chart(frame, theme=theme, width=width - 16 if arguments.fixed else None)
                page = arguments.out / f"{name}_{theme}_{width}.html"
                pages.append((charts.to_html(figure, page, theme=theme), width))
    take_pictures(pages)


def take_pictures(pages: list[tuple[Path, int]]) -> None:
    """Write a picture beside each page."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - pages work without
    except ImportError:
        sys.exit("Playwright is not installed: pages, but no pictures")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from support.browser import CHROMIUM, FLAGS  # noqa: PLC0415 - it takes Playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for page, width in pages:
            tab = browser.new_page(viewport={"width": width, "height": 60})
            tab.on("console", lambda message, page=page: report(page, message))
            tab.goto(page.resolve().as_uri())
            tab.wait_for_function("Bokeh.documents.length && Bokeh.documents[0].is_idle")
            tab.wait_for_timeout(150)
            tab.screenshot(path=page.with_suffix(".png"), full_page=True)
            tab.close()
        browser.close()


def report(page: Path, message: Any) -> None:
    """Print what a page complains about."""
    if message.type in {"warning", "error"}:
        sys.stderr.write(f"{page.name}: {message.text}\n")


if __name__ == "__main__":
    main()

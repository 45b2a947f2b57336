"""Print every figure of idle and waiting that dashboards show, so that a person can compare them.

For each trace below a folder: headline, legend and status line of the timeline, side column, bars
of "Where GPU time goes", causes of idle time and heatmap, of the whole job. Figures of one quantity
must agree.

    python scripts/page_figures.py ../shared/traces > figures.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hta_widgets as hw
from hta_widgets.errors import TraceError
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.panels.headline import headline
from hta_widgets.text import duration, share

_MEASURES = ("waiting", "idle")


def main(folder: Path) -> None:
    """Print the figures of all traces below a folder."""
    for path in trace_folders(folder):
        sys.stdout.write(f"\n== {path.relative_to(folder)}\n")
        try:
            traces = hw.load(path, progress=False)
            lines = [f"{place:<10}{text}\n" for place, text in figures(traces)]
        except TraceError as error:
            lines = [f"not loaded: {str(error).splitlines()[0]}\n"]
        sys.stdout.writelines(lines)
        sys.stdout.flush()


def trace_folders(folder: Path) -> list[Path]:
    """Return the folders that hold files themselves."""
    return sorted({path.parent for path in folder.rglob("*") if path.is_file()} - {folder})


def figures(traces: hw.TraceSet) -> Iterator[tuple[str, str]]:
    """Yield the place of each figure on the page, and the figure."""
    job_headline = headline(traces)
    yield "headline", job_headline.text
    for parts in job_headline.sentences:
        yield "", "".join(part if isinstance(part, str) else part["text"] for part in parts)
    if not len(traces) or traces.end_ns <= traces.start_ns:
        return
    window = dict(zip(("start", "end"), map(int, traces.span_ns), strict=True))
    engine, panels = TileEngine(traces), PanelEngine(traces)
    stats, _ = engine.answer({"op": "stats", **window})
    late: dict[str, Any] = engine.answer({"op": "lateness", **window})[0]
    span = sum(stats["span"])
    run = duration(window["end"] - window["start"])
    yield "run", f"{run}; mean span {_mean(stats['span'])}" if span else f"{run}; no device work"
    if not span:
        return
    yield "legend", f"{_shares(stats['kinds'])}; wait {share(sum(late['wait']) / span)}"
    yield "status", f"exposed {_part(stats['exposed'], span)}, idle {_part(stats['idle'], span)}"
    if len(late["late"]) == 1:
        min_wait_ns = 0.02 * (window["end"] - window["start"])
        positions = [at for at, wait in enumerate(late["wait_for_late"]) if wait >= min_wait_ns]
        waits = [late["wait_for_late"][at] for at in positions]
        spans = sum(stats["span"][at] for at in positions)
        waiting = f"{len(positions)} wait {_mean(waits)} each ({_part(waits, spans)})"
        yield "", f"{waiting} for rank {late['late'][0]}"
    wait = dict(zip(late["ranks"], late["exposed_wait"], strict=True))
    exposed = [wait.get(rank, 0) for rank in stats["ranks"]]
    yield "side", f"exposed wait {_range(exposed, stats)}, idle {_range(stats['idle'], stats)}"
    bars = panels.frame("breakdown")
    span_ns = max(int(bars["span_ns"].sum()), 1)
    columns = {
        "compute": "compute_ns",
        "exposed communication": "exposed_communication_ns",
        "exposed wait": "exposed_wait_ns",
        "idle": "idle_ns",
    }
    of_span = {
        name: float(bars[column].fillna(0).sum()) / span_ns for name, column in columns.items()
    }
    yield "bars", _shares(of_span)
    causes = panels.frame("idle")
    by_cause = causes.groupby("idle_category", observed=True)["idle_ns"].sum()
    yield "causes", _shares((by_cause / max(int(by_cause.sum()), 1)).to_dict())
    yield (
        "heatmap",
        ", ".join(f"{name} {share(_heatmap(panels, name, window))}" for name in _MEASURES),
    )


def _heatmap(panels: PanelEngine, metric: str, window: dict[str, int]) -> float:
    request = {"op": "heatmap", "metric": metric, "bins": 10, "selection": None, **window}
    reply, values = panels.answer(request)
    total = float(np.frombuffer(values or b"", "<f8").sum())
    span = int(sum(reply["attrs"]["span_ns"]))
    return total / max(span, 1)


def _shares(parts: dict[Any, float]) -> str:
    return ", ".join(f"{name} {share(part)}" for name, part in parts.items() if part > 0)


def _part(times: Sequence[int], total: int) -> str:
    return share(sum(times) / max(total, 1))


def _mean(times: Sequence[int]) -> str:
    positive = [time for time in times if time > 0]
    return duration(sum(positive) / max(len(positive), 1))


def _range(times: Sequence[int], stats: dict[str, Any]) -> str:
    parts = [time / span for time, span in zip(times, stats["span"], strict=True) if span > 0]
    return f"{share(min(parts))} to {share(max(parts))}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))

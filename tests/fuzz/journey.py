"""What a user does with a trace set, and conditions that hold for any file contents."""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import hta_widgets as hw
from hta_widgets import analysis, charts, diff
from hta_widgets.panels.frames import chart_panels
from hta_widgets.trace.traceset import TraceSet

from .inputs import damaged


def _takes_only_traces(name: str) -> bool:
    parameters = signature(getattr(analysis, name)).parameters.values()
    return [part.name for part in parameters if part.default is part.empty] == ["traces"]


ANALYSES = tuple(filter(_takes_only_traces, analysis.__all__))


@dataclass(frozen=True, slots=True)
class Finding:
    """A call that neither succeeded nor raised a `TraceError`, or that lost something."""

    seed: int
    step: str
    error: str
    place: str

    @property
    def kind(self) -> tuple[str, str]:
        """Return what findings with the same cause have in common."""
        return re.sub(r"\d+", "n", self.error)[:60], self.place


class _Journey:
    def __init__(self, seed: int, share: float, drawn: float) -> None:
        self.seed = seed
        self.findings: list[Finding] = []
        self._share, self._draw = share, random.Random(seed)
        self._drawn, self._draw_chart = drawn, random.Random(seed)

    def sometimes(self, step: str, what: Callable[[], Any]) -> Any:
        """Run a step with probability `share`, otherwise skip it."""
        return self.call(step, what) if self._draw.random() < self._share else None

    def chart(self, name: str, traces: TraceSet) -> None:
        """Sometimes draw a chart; all charts take three times as long as all other steps."""
        if self._draw_chart.random() < self._drawn:
            self.sometimes(f"charts.{name}", partial(getattr(charts, name), traces))

    def call(self, step: str, what: Callable[[], Any]) -> Any:
        """Return the result; None after a `TraceError`, which is a valid outcome."""
        try:
            return what()
        except hw.TraceError:
            return None
        except Exception as error:  # noqa: BLE001 - to be found
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if "/hta_widgets/" in frame.filename] or frames
            place = f"{own[-1].filename.rpartition('/hta_widgets/')[2]}:{own[-1].lineno}"
            text = f"{type(error).__name__}: {str(error)[:200]}"
            self.findings.append(Finding(self.seed, step, text, place))
            return None


def run(seed: int, share: float = 1.0, drawn: float = 1.0) -> list[Finding]:
    """Load one damaged input, run all steps or a share of them, and return the findings.

    `drawn` is the share of charts drawn in these steps.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        sample, files = damaged(seed)
        for path, text in files.items():
            target = folder / sample / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        return journey(folder / sample, folder, seed, share, drawn)


def journey(
    source: Path, folder: Path, seed: int, share: float, drawn: float = 1.0
) -> list[Finding]:
    """Load a source, run all steps or a share of them, and return the findings."""
    taken = _Journey(seed, share, drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _travel(taken, source, folder)
    return taken.findings


def _load(path: Path | str) -> TraceSet:
    return hw.load(path, cache=False, progress=False)


def _travel(journey: _Journey, source: Path, folder: Path) -> None:
    traces = journey.call("load", lambda: _load(source))
    if traces is None:
        return
    for step in ("summary", "events", "__repr__", "_repr_html_"):
        journey.call(step, getattr(traces, step))
    journey.call("problems", lambda: _is_sound(traces))
    journey.call("losses", lambda: _states_losses(traces))
    some = journey.sometimes
    for name in ANALYSES:
        some(name, partial(getattr(analysis, name), traces))
        if name in charts.__all__:
            journey.chart(name, traces)
    for rank in traces.ranks[:2]:
        for function in (analysis.critical_path, analysis.with_critical_path):
            some(function.__name__, partial(function, traces, rank))
    some("diff_ops", lambda: analysis.diff_ops(traces, traces))
    for trace in traces.values():
        some("frames", lambda of=trace: (of.instants, of.asyncs, of.counters, of.flows))
        some("args", lambda of=trace: [of.args(row) for row in range(len(of))])
    timeline = some("Timeline", lambda: hw.Timeline(traces))
    if timeline is not None:
        some("to_svg", lambda: timeline.to_svg(folder / "view.svg"))
        for request in _requests(traces, timeline.scene):
            some(f"op {request['op']}", partial(timeline.answer, request))
    dashboard = some("Dashboard", lambda: hw.Dashboard(traces))
    if dashboard is not None:
        names = [name for name in chart_panels() if name in dashboard.panels]
        for request in (
            {"op": "headline"},
            {"op": "panels", "panels": names},
            {"op": "heatmap", "metric": "busy", "start": 0, "end": 10_000, "bins": 8},
        ):
            some(f"op {request['op']}", partial(dashboard.answer, request))
        some("save_html", lambda: dashboard.save_html(folder / "page.html"))
        journey.call("close", dashboard.close)
    compared = some("compare", lambda: diff.compare(traces, traces))
    if compared is not None:
        some("findings", lambda: diff.findings(compared))
        some("tables", lambda: diff.tables(compared))
    some("save", lambda: _saved(traces, folder))
    if sum(map(len, traces.values())):
        start, end = traces.span_ns
        middle = traces.select(start_ns=start + (end - start) // 4, end_ns=end - (end - start) // 4)
        some("export", lambda: _exported(traces, folder / "whole"))
        some("merge", lambda: _exported(traces, folder / "merged.json"))
        some("clip", lambda: _load(_export(traces, folder / "clip", middle, clip=True)))
        some("scrub", lambda: _load(_export(traces, folder / "scrub.json", scrub=True)))


def _requests(traces: TraceSet, scene: dict[str, Any]) -> list[dict[str, Any]]:
    start, end = traces.span_ns
    lanes = list(range(min(8, scene["lanes"])))
    window = {"start": start, "end": max(end, start + 1)}
    level = max(0, (end - start).bit_length() - 8)
    first = start >> level
    requests: list[dict[str, Any]] = [
        {"op": "tiles", "level": min(level, 52), "parts": [
            {"lanes": lanes[:1], "first": first >> 8, "last": (first >> 8) + 2}]},
        {"op": "minimap", "bins": 50},
        {"op": "stats", **window},
        {"op": "search", "text": "a"},
        {"op": "find", "text": "e"},
        {"op": "marks", "text": "a", "bins": 20, "lanes": lanes, **window},
        {"op": "totals"},
        {"op": "lateness", **window},
        {"op": "ribbon", "bins": 8, **window},
        {"op": "clusters"},
    ]  # fmt: skip
    if lanes:
        requests.append({"op": "cell", "lane": 0, **window})
        requests.append({"op": "snap", "lane": 0, "time": start, "tolerance": 100})
    for trace in traces.values():
        if len(trace):
            of = {"rank": trace.rank, "id": len(trace) // 2}
            requests += [{"op": "event", **of}, {"op": "neighbor", **of}]
    return requests


def _is_sound(traces: TraceSet) -> None:
    """Raise an error if a time is outside the span of the set."""
    traces.problems  # noqa: B018 - may fail
    start, end = traces.start_ns, traces.end_ns
    for trace in traces.values():
        begin = trace.table.start_ns + trace.shift_ns
        stop = begin + trace.table.dur_ns
        if not (np.all(stop >= begin) and np.all(begin >= start) and np.all(stop <= end)):
            raise AssertionError("an event is outside of the set's span")


def _is_time(value: object) -> bool:
    """Return whether a value is a time in µs. Longer times are reported as repaired."""
    return type(value) in (int, float) and abs(value) < 1e12  # type: ignore[operator]


class _Object(dict[str, Any]):
    """A JSON object that keeps all values of repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _states_losses(traces: TraceSet) -> None:
    """Raise if complete events that Python finds in a Kineto file were lost silently."""
    lossy = {problem.file for problem in traces.problem_list if not problem.is_harmless}
    # A file with several devices yields several ranks.
    events_of = Counter[str]()
    for trace in traces.values():
        events_of[trace.path] += int((trace.events["phase"] == "X").sum())
    for trace in traces.values():
        file = Path(trace.path)
        if trace.format != "kineto" or trace.path in lossy or "merged" in trace.path:
            continue
        if not file.is_file():  # a store may contain any path
            continue
        text = file.read_bytes()
        try:
            plain = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
            pairs = json.loads(plain, object_pairs_hook=_Object).pairs
            lists = [value for key, value in pairs if key == "traceEvents"]
        except (ValueError, OSError, EOFError, AttributeError, RecursionError, zlib.error):
            continue
        stated = sum(
            isinstance(record, dict)
            and record.get("ph") == "X"
            and all(_is_time(record.get(field)) for field in ("ts", "dur"))
            for records in lists
            for record in (records if isinstance(records, list) else ())
        )
        if events_of[trace.path] < stated:
            lost = stated - events_of[trace.path]
            raise AssertionError(f"{lost} events are missing, and no problem states it")


def _events(traces: TraceSet) -> list[tuple[Any, ...]]:
    frame = traces.events(columns=["dur_ns", "name", "category"])
    rows = frame[["rank", "dur_ns", "name", "category"]].astype({"name": str, "category": str})
    return sorted(rows.itertuples(index=False, name=None))


def _saved(traces: TraceSet, folder: Path) -> None:
    again = _load(traces.save(folder / "kept.store"))
    if _events(again) != _events(traces) or not again.problems.equals(traces.problems):
        raise AssertionError("a saved set differs from what was saved")


def _export(traces: TraceSet, path: Path, *what: Any, **options: Any) -> Path:
    return hw.export_trace(traces, path, *what, **options).path


def _exported(traces: TraceSet, path: Path) -> None:
    again = _load(_export(traces, path))
    if _by_contents(again) != _by_contents(traces):
        raise AssertionError("an export holds other events")


def _by_contents(traces: TraceSet) -> list[tuple[Any, ...]]:
    """Return durations and names of events; guessed ranks may be guessed differently."""
    return sorted(row[1:3] for row in _events(traces))

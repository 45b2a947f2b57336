"""Measure the kernel's work for a timeline: preparation, new views and other requests.

Requests resemble the page's: an answer may take 30 ms and 0.8 MB, and the rest is requested
again. Processor time and wall time are measured; the latter includes other work on the machine. The
script prints Markdown tables and writes ``benchmarks/results/tiles.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _harness import describe, machine, save
from _job import stored_job
from _made_up import made_up

from hta_widgets.live.job import TileEngine
from hta_widgets.readers.load import load
from hta_widgets.trace.traceset import TraceSet

PIXELS = 1150  # width of the lanes in a typical notebook
IN_SIGHT = 60  # lanes visible at a typical height
RANKS_IN_SIGHT = 12
MOST_TILES = 512  # per request of the page
PATIENCE = {"within_ms": 30}
LIMITS = {**PATIENCE, "most_bytes": 800_000, "compact": True, "gzip": True}
SHARES = (1.0, 0.1, 0.01, 0.0001)

Request = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--path", help="a job or a store on disk; default: ten million events, stored"
    )
    parser.add_argument("--made-up", action="store_true", help="use a made-up job in memory")
    parser.add_argument("--ranks", type=int, default=64, help="of a made-up job")
    parser.add_argument("--events", type=int, default=10_000_000, help="of a made-up job")
    parser.add_argument("--views", type=int, default=60)
    options = parser.parse_args()
    facts = machine()
    traces, ready = got_ready(options)
    engine, more = first_answers(traces)
    results = {
        "events": sum(len(trace) for trace in traces.values()),
        "ranks": len(traces),
        "ready": [*ready, *more],
        "views": list(views(engine, options.views)),
        "requests": list(requests(engine)),
        "memory": panned(engine),
    }
    print(describe(facts))
    print(f"\n{len(traces)} ranks, {results['events']:,} events\n")
    print_tables(results)
    save("tiles", results)


def got_ready(options: argparse.Namespace) -> tuple[TraceSet, list[dict[str, Any]]]:
    if options.made_up:
        return made_up(options.ranks, options.events), []
    stored = Path(options.path) if options.path else stored_job()
    opened = Spent()
    traces = opened.on(lambda: load(stored, progress=False))
    return traces, [{"what": "open the traces", **opened.figures}]


@dataclass
class Spent:
    """Times and bytes of answers: totals, and the maximum of a single answer."""

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    longest_cpu_ms: float = 0.0
    bytes: int = 0
    largest_bytes: int = 0
    answers: int = 0
    slices: int = 0

    def on(self, work: Callable[[], Any]) -> Any:
        """Measure a function call as one answer."""
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        cpu = (time.process_time() - cpu) * 1e3
        self.cpu_ms += cpu
        self.wall_ms += (time.perf_counter() - wall) * 1e3
        self.longest_cpu_ms = max(self.longest_cpu_ms, cpu)
        self.answers += 1
        return result

    def ask(self, engine: TileEngine, request: Request) -> dict[str, Any]:
        """Send one request; return the reply without its binary columns."""
        reply, buffer = self.on(lambda: engine.answer(request))
        size = len(buffer or b"") + len(json.dumps(reply))
        self.bytes += size
        self.largest_bytes = max(self.largest_bytes, size)
        return dict(reply)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the measured figures for the results."""
        return {
            "cpu_ms": self.cpu_ms,
            "wall_ms": self.wall_ms,
            "longest_cpu_ms": self.longest_cpu_ms,
            "answers": self.answers,
            "bytes": self.bytes,
        }


def until_there(engine: TileEngine, request: Request) -> Spent:
    """Repeat a request until its answer is complete, like the page."""
    spent = Spent()
    while spent.ask(engine, {**request, **PATIENCE}).get("pending"):
        pass
    return spent


def show(engine: TileEngine, lanes: list[int], start: int, width: int) -> Spent:
    """Request a new view until its last tile has arrived, like the page."""
    spent = Spent()
    level = max(0, (width // PIXELS).bit_length() - 1)
    first, last = start >> (level + 8), ((start + width - 1) >> (level + 8)) + 1
    at_once = max(1, MOST_TILES // (last - first))
    for at in range(0, len(lanes), at_once):
        parts = [{"lanes": lanes[at : at + at_once], "first": first, "last": last}]
        while parts:
            reply = spent.ask(engine, {"op": "tiles", "level": level, "parts": parts, **LIMITS})
            parts = reply.get("left", [])
            spent.slices += reply["columns"]["slice_id"][2]
    return spent


def first_answers(traces: TraceSet) -> tuple[TileEngine, list[dict[str, Any]]]:
    """Time all requests for a new timeline, in the same order as the page."""
    laid_out, described = Spent(), Spent()
    engine = laid_out.on(lambda: TileEngine(traces))
    scene = described.on(engine.scene)
    described.bytes = len(json.dumps(scene))
    start, end = scene["range"]
    window = {"start": start, "end": end}
    ribbon = {"op": "ribbon", **window, "bins": PIXELS}
    ribbon["ranks"] = [rank["rank"] for rank in scene["ranks"]][:RANKS_IN_SIGHT]
    steps = [
        ("lay out lanes", laid_out),
        ("describe them (scene)", described),
        ("first view: lanes in sight", show(engine, folded(scene)[:IN_SIGHT], start, end - start)),
        ("shares of the view (stats)", until_there(engine, {"op": "stats", **window})),
        ("minimap", until_there(engine, {"op": "minimap", "bins": PIXELS})),
        ("match collectives (lateness)", until_there(engine, {"op": "lateness", **window})),
        ("late arrivals (ribbon)", until_there(engine, ribbon)),
        ("similar ranks (clusters)", until_there(engine, {"op": "clusters"})),
    ]
    return engine, [{"what": what, **spent.figures} for what, spent in steps]


def folded(scene: dict[str, Any]) -> list[int]:
    return [row["lane"] for rank in scene["ranks"] for row in rank["summary"]]


def opened(rank: dict[str, Any]) -> list[int]:
    return [
        lane
        for track in rank["tracks"]
        for lane in range(track["lane0"], track["lane0"] + track["lanes"])
    ]


def views(engine: TileEngine, count: int) -> Iterator[dict[str, Any]]:
    """Yield figures for random new views: each set of lanes with each share of the time span."""
    scene = engine.scene()
    all_lanes = [lane for rank in scene["ranks"] for lane in opened(rank)]

    def anywhere(lanes: list[int]) -> Callable[[random.Random], list[int]]:
        def choose(rng: random.Random) -> list[int]:
            first = rng.randrange(max(1, len(lanes) - IN_SIGHT + 1))
            return lanes[first : first + IN_SIGHT]

        return choose

    single = opened(scene["ranks"][len(scene["ranks"]) // 2])
    cases: list[tuple[str, Callable[[random.Random], list[int]]]] = [
        ("folded ranks", anywhere(folded(scene))),
        ("one rank opened", lambda _: single),
        ("all ranks opened", anywhere(all_lanes)),
    ]
    for title, choose in cases:
        for share in SHARES:
            yield {"view": title, "share": share, **figures_of(engine, choose, share, count)}


def figures_of(
    engine: TileEngine, choose: Callable[[random.Random], list[int]], share: float, count: int
) -> dict[str, Any]:
    """Return figures for new views in random places, without cached tiles."""
    rng = random.Random(1)
    start, end = engine.scene()["range"]
    width = max(int((end - start) * share), PIXELS)
    shown = [
        show(engine, choose(rng), start + int(rng.random() * max(end - start - width, 1)), width)
        for _ in range(count)
    ]
    spent = sorted(item.cpu_ms for item in shown)
    return {
        "cpu_p50_ms": statistics.median(spent),
        "cpu_p95_ms": spent[int(0.95 * (len(spent) - 1))],
        "cpu_max_ms": spent[-1],
        "wall_p50_ms": statistics.median(item.wall_ms for item in shown),
        "longest_answer_cpu_ms": max(item.longest_cpu_ms for item in shown),
        "view_p50_bytes": statistics.median(item.bytes for item in shown),
        "view_max_bytes": max(item.bytes for item in shown),
        "largest_answer_bytes": max(item.largest_bytes for item in shown),
        "slices_p50": statistics.median(item.slices for item in shown),
    }


def requests(engine: TileEngine) -> Iterator[dict[str, Any]]:
    """Yield the times of requests about events and windows, sent once and then five times more."""
    scene = engine.scene()
    start, end = scene["range"]
    lanes = folded(scene)[:IN_SIGHT]
    middle = (start + end) // 2
    window = {"start": middle, "end": middle + (end - start) // 50}
    brush = {"start_ns": window["start"], "end_ns": window["end"]}
    named = {**brush, "query": "kind == 'communication'"}
    rank = scene["ranks"][0]["rank"]
    binned = {"start": start, "end": end, "bins": PIXELS, "lanes": lanes}
    for title, request in (
        ("stats of a window", {"op": "stats", **window}),
        ("event", {"op": "event", "rank": rank, "id": 1000}),
        ("cell", {"op": "cell", "lane": lanes[0], **window}),
        ("search, plain", {"op": "search", "text": "nccl"}),
        ("search, expression", {"op": "search", "text": "/operator_.*7$/"}),
        ("find next", {"op": "find", "text": "nccl", "from": None, "direction": 1}),
        ("marks of a search", {"op": "marks", "text": "nccl", **binned}),
        ("totals of the whole job", {"op": "totals"}),
        ("brush: totals of a fiftieth", {"op": "totals", "selection": brush}),
        ("brush: totals of its communication", {"op": "totals", "selection": named}),
        ("brush: marks of its communication", {"op": "marks", "selection": named, **binned}),
        ("neighbor", {"op": "neighbor", "rank": rank, "id": 1000, "direction": 1}),
        ("snap", {"op": "snap", "lane": lanes[0], "time": middle, "tolerance": 10_000}),
    ):
        first = until_there(engine, request)
        again = []
        for _ in range(5):
            spent = Spent()
            spent.ask(engine, request)
            again.append(spent.cpu_ms)
        yield {
            "request": title,
            "first_cpu_ms": first.cpu_ms,
            "longest_cpu_ms": first.longest_cpu_ms,
            "answers": first.answers,
            "again_cpu_ms": statistics.median(again),
        }


def panned(engine: TileEngine) -> dict[str, Any]:
    """Return the memory of this process before and after showing all ranks at three zoom levels."""
    before = resident()
    scene = engine.scene()
    start, end = scene["range"]
    most = before["rss_mb"]
    for share in (1.0, 0.05, 0.001):
        width = int((end - start) * share)
        for rank in scene["ranks"]:
            show(engine, opened(rank), (start + end - width) // 2, width)
            most = max(most, resident()["rss_mb"])
    return {
        "before_mb": before["rss_mb"],
        "most_mb": most,
        "peak_mb": resident()["peak_mb"],
        "own_mb": resident()["own_mb"],
    }


def resident() -> dict[str, float]:
    text = Path("/proc/self/status").read_text()
    fields = {"rss_mb": "VmRSS", "peak_mb": "VmHWM", "own_mb": "RssAnon"}
    matched = {name: re.search(rf"{key}:\s+(\d+) kB", text) for name, key in fields.items()}
    return {name: int(match[1]) / 1e3 if match else 0.0 for name, match in matched.items()}


def print_tables(results: dict[str, Any]) -> None:
    table(
        "Getting ready",
        ("step", "processor", "wall", "answers", "longest answer", "bytes"),
        [
            (
                row["what"], ms(row["cpu_ms"]), ms(row["wall_ms"]), str(row["answers"]),
                ms(row["longest_cpu_ms"]), kb(row["bytes"]),
            )
            for row in results["ready"]
        ],
    )  # fmt: skip
    table(
        "New views",
        ("view", "p50", "p95", "most", "wall p50", "longest answer", "bytes p50", "most",
         "largest answer"),
        [
            (
                f"{row['view']}, {row['share']:.4g} of the job", ms(row["cpu_p50_ms"]),
                ms(row["cpu_p95_ms"]), ms(row["cpu_max_ms"]), ms(row["wall_p50_ms"]),
                ms(row["longest_answer_cpu_ms"]), kb(row["view_p50_bytes"]),
                kb(row["view_max_bytes"]), kb(row["largest_answer_bytes"]),
            )
            for row in results["views"]
        ],
    )  # fmt: skip
    table(
        "Other requests",
        ("request", "first", "answers", "longest answer", "again"),
        [
            (
                row["request"], ms(row["first_cpu_ms"]), str(row["answers"]),
                ms(row["longest_cpu_ms"]), ms(row["again_cpu_ms"]),
            )
            for row in results["requests"]
        ],
    )  # fmt: skip
    memory = results["memory"]
    print(
        f"Every rank opened, at three zooms: at most {memory['most_mb']:.0f} MB of memory "
        f"({memory['before_mb']:.0f} before), {memory['own_mb']:.0f} MB not mapped from files."
    )


def table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print(f"**{title}**\n")
    print(f"| {' | '.join(head)} |")
    print(f"|---|{'---:|' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def ms(milliseconds: float) -> str:
    return f"{milliseconds:,.1f} ms" if milliseconds < 10_000 else f"{milliseconds / 1e3:.1f} s"


def kb(size: float) -> str:
    return f"{size / 1e3:,.0f} kB" if size else "–"


if __name__ == "__main__":
    main()

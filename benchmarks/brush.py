"""Measure how long it takes after a brush until all charts of a dashboard are updated.

The brushes on a demo job of a million events are random: windows, ranks, both, names and kinds. In
the kernel, each panel is timed from the request to the JSON text, separately and together. With
``--page``, brushes are timed in a saved page without a kernel. Tables show processor time, which
other work on the machine hardly affects, since a single thread works. The results also contain wall
times.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

from _harness import describe, machine, quantile_table, quantiles, save
from _job import demo_job, stored_job

import hta_widgets as hw
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import ADDED, offered_panels, panels as known_panels
from hta_widgets.trace.query import QueryClauses

#: Panels that the dashboard requests after a brush.
SHOWN = {*offered_panels(["kineto"]), "summary"} - {"heatmap", *ADDED}
ASKED = tuple(panel for panel in known_panels() if panel in SHOWN)
BINS = 240
WITHIN_MS = 30  # as in the page


def brushes(traces: hw.TraceSet, count: int, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Return random selections in the form sent by the page, with their kinds."""
    rng = random.Random(seed)
    start, end = traces.start_ns, traces.end_ns
    names = hw.analysis.kernel_breakdown(traces, ranks=[traces.ranks[0]])["name"].tolist()
    kinds = ["compute", "communication", "memory"]

    def window() -> dict[str, Any]:
        length = int((end - start) * 10 ** rng.uniform(-3, -0.5))
        low = rng.randrange(start, end - length)
        return {"start_ns": low, "end_ns": low + length}

    def ranks() -> dict[str, Any]:
        return {"ranks": sorted(rng.sample(traces.ranks, rng.randint(1, 3)))}

    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "window": window,
        "ranks": ranks,
        "window and ranks": lambda: {**window(), **ranks()},
        "name": lambda: {"query": QueryClauses(names=(rng.choice(names[:20]),)).query},
        "name and window": lambda: {
            **window(),
            "query": QueryClauses(names=(rng.choice(names[:20]),)).query,
        },
        "kind": lambda: {"query": QueryClauses(kinds=(rng.choice(kinds),)).query},
    }
    return [(kind, maker()) for _ in range(count) for kind, maker in makers.items()]


def timed(engine: PanelEngine, request: dict[str, Any]) -> float:
    """Return the processor time in ms for one answer as JSON text."""
    begin = time.process_time()
    reply, _ = engine.answer(request)
    json.dumps(reply)
    return (time.process_time() - begin) * 1e3


def in_pieces(traces: hw.TraceSet, metric: str = "waiting") -> dict[str, dict[str, float]]:
    """Open the dashboard like a page: take partial answers after 30 ms, and ask again.

    For each panel, return the number of answers, and the processor time in ms of the longest
    answer, during which other messages have to wait, and of all answers.
    """
    engine = PanelEngine(traces)
    window = {"start": traces.start_ns, "end": traces.end_ns, "bins": BINS}
    heatmap = {"op": "heatmap", "metric": metric, **window}
    result = {}
    for name in (*ASKED, "heatmap", "headline"):
        request = heatmap if name == "heatmap" else {"op": "panels", "panels": [name]}
        spent, is_left = [], True
        while is_left:
            begin = time.process_time()
            if name == "headline":
                is_left = engine.headline_until(time.perf_counter() + WITHIN_MS / 1000) is None
            else:
                reply, _ = engine.answer({**request, "selection": None, "within_ms": WITHIN_MS})
                json.dumps(reply)
                is_left = bool(reply.get("left") or reply.get("pending"))
            spent.append((time.process_time() - begin) * 1e3)
        result[name] = {"answers": len(spent), "longest_ms": max(spent), "total_ms": sum(spent)}
    return result


def in_kernel(traces: hw.TraceSet, count: int, seed: int) -> dict[str, Any]:
    """Brush in the kernel; return times per panel, per kind of brush, and of the first answer."""
    full = {"op": "panels", "panels": list(ASKED), "selection": None}
    heatmap = {
        "op": "heatmap", "metric": "waiting", "start": traces.start_ns, "end": traces.end_ns,
        "bins": BINS,
    }  # fmt: skip
    pieces = in_pieces(traces)
    engine = PanelEngine(traces)
    kinds: dict[str, list[float]] = {}
    clock: list[float] = []
    for kind, selection in brushes(traces, count, seed):
        begin = time.perf_counter()
        spent = timed(engine, {**full, "selection": selection})
        spent += timed(engine, {**heatmap, "selection": selection})
        kinds.setdefault(kind, []).append(spent)
        clock.append((time.perf_counter() - begin) * 1e3)
    panels: dict[str, list[float]] = {panel: [] for panel in (*ASKED, "heatmap")}
    for _, selection in brushes(traces, count, seed + 1):
        for panel in ASKED:
            request = {"op": "panels", "panels": [panel], "selection": selection}
            panels[panel].append(timed(engine, request))
        panels["heatmap"].append(timed(engine, {**heatmap, "selection": selection}))
    totals = [value for values in kinds.values() for value in values]
    return {
        "pieces": pieces,
        "first_ms": sum(item["total_ms"] for item in pieces.values()),
        "panels": {panel: quantiles(values) for panel, values in panels.items()},
        "brushes": {kind: quantiles(values) for kind, values in kinds.items()},
        "total": quantiles(totals),
        "total_on_the_clock": quantiles(clock),
    }


def table(result: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each panel and each kind of brush."""
    rows = {
        **result["panels"],
        **result["brushes"],
        "**all panels**": result["total"],
        "all panels, on the clock": result["total_on_the_clock"],
    }
    return quantile_table("kernel, ms", rows)


def pieces_table(pieces: dict[str, dict[str, float]]) -> str:
    """Return a Markdown table with a row per panel, for the whole job."""
    lines = ["| whole job, first time | answers | longest | together |", "|---|---:|---:|---:|"]
    for name, item in pieces.items():
        spent = f"{item['longest_ms']:.0f} ms | {item['total_ms']:,.0f} ms"
        lines.append(f"| {name} | {item['answers']:.0f} | {spent} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--brushes", type=int, default=20, help="number of brushes of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stored", action="store_true", help="64 ranks of 158 k events, stored")
    parser.add_argument("--page", action="store_true", help="also measure a page without a kernel")
    arguments = parser.parse_args()
    path = stored_job() if arguments.stored else demo_job(arguments.ranks, arguments.steps)
    traces = hw.load(path, progress=False)
    events = sum(len(trace) for trace in traces.values())
    kernel = in_kernel(traces, arguments.brushes, arguments.seed)
    print(describe(machine()))
    print(f"\n{len(traces)} ranks, {events:,} events\n")
    print(table(kernel))
    print(f"\nwhole job, after loading: {kernel['first_ms']:.0f} ms\n")
    print(pieces_table(kernel["pieces"]))
    results: dict[str, Any] = {"events": events, "kernel": kernel}
    if arguments.page:
        from _brush_page import in_page, page_table
        from _dashboard_page import paint_text, saved_dashboard

        page_brushes = brushes(traces, arguments.brushes, arguments.seed)
        results["page"] = in_page(traces, ASKED, page_brushes, bins=BINS)
        print(f"\n{page_table(results['page'])}")
        results["dashboard"] = saved_dashboard(hw.load(demo_job(8, 5), progress=False))
        print(f"\n{paint_text(results['dashboard'])}")
    save("brush", results)


if __name__ == "__main__":
    main()

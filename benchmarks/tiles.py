"""Times the tile engine: indexing, new views, and what else the page asks for.

Run ``python benchmarks/tiles.py`` for a job made up in memory, or name one on disk:
``python benchmarks/tiles.py --path demo-job``. Prints Markdown tables. Times are processor time on
one core.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hta_widgets.model import Trace, TraceSet
from hta_widgets.model.table import (
    AsyncTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    Pool,
    Track,
)
from hta_widgets.readers import load
from hta_widgets.tiles import TileEngine
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.stats import DeviceTimes

PIXELS = 1600
LANES = 60
MOST_LANES = 400  # no page asks for more at once
COMPUTE, COMMUNICATION, MEMORY, SYNC, CPU, ANNOTATION = range(6)
NAMES = [
    *(f"aten::operator_{k}" for k in range(400)),
    *(f"void kernel_{k}<float, {k}>(float*, int)" for k in range(200)),
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "Memcpy DtoH (Device -> Pageable)",
    "cudaLaunchKernel",
    "cudaDeviceSynchronize",
    "## forward ##",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", help="a job on disk instead of a made-up one")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--views", type=int, default=60)
    options = parser.parse_args()
    if options.path:
        traces = load(options.path, progress=False)
    else:
        traces = made_up(options.ranks, options.events)
    events = sum(len(trace) for trace in traces.values())
    print(f"{len(traces)} ranks, {events:,} events, numpy {np.__version__}\n")
    table("Index", ("what", "time", "memory"), index_rows(traces, events))
    engine = TileEngine(traces)
    table("New views", ("view", "median", "p95", "payload", "slices"), view_rows(engine, options))
    table("Other requests", ("request", "first", "again"), request_rows(engine))


def table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print(f"**{title}**\n")
    print(f"| {' | '.join(head)} |")
    print(f"|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    # All of it runs on one core, and other work on the machine must not count.
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"


# --- what is measured -------------------------------------------------------------------------


class _Unlimited:
    """Keeps every lane, to count what all of them take."""

    def __init__(self) -> None:
        self.kept: dict[Any, list[Any]] = {}

    def get(self, key: Any) -> list[Any] | None:
        return self.kept.get(key)

    def put(self, key: Any, lanes: list[Any]) -> list[Any]:
        self.kept[key] = lanes
        return lanes

    def bytes(self) -> int:
        return sum(lane.nbytes for lanes in self.kept.values() for lane in lanes)


def index_rows(traces: TraceSet, events: int) -> list[tuple[str, ...]]:
    laid_out, engine = timed(lambda: TileEngine(traces))
    described, scene = timed(engine.scene)
    rows = [
        ("lay out lanes", ms(laid_out), "–"),
        ("scene", ms(described), f"{len(json.dumps(scene)) / 1e6:.2f} MB of JSON"),
    ]

    def fill(chosen: Callable[[Any], Any]) -> tuple[float, int]:
        budget = _Unlimited()
        indices = [RankIndex(rank, budget) for rank in engine.job.ranks]
        spent, _ = timed(
            lambda: [index.lane(lane) for index in indices for lane in chosen(index.rank)]
        )
        return spent, budget.bytes()

    for what, chosen in (
        ("folded lanes of all ranks", lambda rank: [row.lane for row in rank.summary]),
        ("event lanes of all ranks", lambda rank: [row.lane0 for row in rank.tracks]),
    ):
        spent, size = fill(chosen)
        rows.append((what, ms(spent), f"{size / events:.1f} B/event"))
    indices = [RankIndex(rank, _Unlimited()) for rank in engine.job.ranks]
    device, made = timed(lambda: DeviceTimes.of(indices))
    size = sum(cover.nbytes for cover in made.covers.values())
    rows.append(("unions of device time", ms(device), f"{size / events:.1f} B/event"))
    return rows


def view_rows(engine: TileEngine, options: argparse.Namespace) -> list[tuple[str, ...]]:
    scene = engine.scene()
    start, end = scene["range"]
    folded = [row["lane"] for rank in scene["ranks"] for row in rank["summary"]]
    opened = [
        lane
        for rank in scene["ranks"]
        for track in rank["tracks"]
        for lane in range(track["lane0"], track["lane0"] + track["lanes"])
    ]
    every = [("folded", folded[:LANES]), ("opened", opened[:LANES])]
    if len(folded) <= MOST_LANES:
        every.append(("all folded", folded))
    return [
        one_view(
            f"{title}, {len(lanes)} lanes, {share:.4g} of the job",
            engine, lanes, (start, end), share, options.views,
        )
        for title, lanes in every
        for share in (1.0, 0.1, 0.01, 0.0001)
    ]  # fmt: skip


def one_view(
    title: str,
    engine: TileEngine,
    lanes: list[int],
    job: tuple[int, int],
    share: float,
    views: int,
) -> tuple[str, ...]:
    rng = random.Random(1)
    spent, sizes, slices = [], [], []
    for view in range(views + 1):
        width = max(int((job[1] - job[0]) * share), PIXELS)
        low = job[0] + int(rng.random() * max(job[1] - job[0] - width, 1))
        level = max(0, (width // PIXELS).bit_length() - 1)
        part = {
            "lanes": lanes,
            "first": low >> (level + 8),
            "last": ((low + width) >> (level + 8)) + 1,
        }
        took, (reply, buffer) = timed(
            lambda part=part, level=level: engine.answer(
                {"op": "tiles", "level": level, "parts": [part]}
            )
        )
        if view:  # the first one also fills the lanes
            spent.append(took)
            sizes.append(len(buffer or b"") + len(json.dumps(reply)))
            slices.append(reply["columns"]["slice_id"][2])
    p95 = sorted(spent)[int(0.95 * (len(spent) - 1))]
    return (
        title,
        ms(statistics.median(spent)),
        ms(p95),
        f"{statistics.median(sizes) / 1e3:.0f} kB (most {max(sizes) / 1e3:.0f})",
        f"{statistics.median(slices):.0f}",
    )


def request_rows(engine: TileEngine) -> list[tuple[str, ...]]:
    scene = engine.scene()
    start, end = scene["range"]
    lanes = [row["lane"] for rank in scene["ranks"] for row in rank["summary"]][:LANES]
    middle = (start + end) // 2
    window = {"start": middle, "end": middle + (end - start) // 50}
    selection = {"start_ns": window["start"], "end_ns": window["end"]}
    rank = scene["ranks"][0]["rank"]
    requests: list[tuple[str, dict[str, Any]]] = [
        ("stats of a window", {"op": "stats", **window}),
        ("minimap, 1000 bins", {"op": "minimap", "bins": 1000}),
        ("event", {"op": "event", "rank": rank, "id": 1000}),
        ("cell", {"op": "cell", "lane": lanes[0], **window}),
        ("search, plain", {"op": "search", "text": "nccl"}),
        ("search, expression", {"op": "search", "text": "/operator_.*7$/"}),
        ("find next", {"op": "find", "text": "nccl", "from": None, "direction": 1}),
        ("marks of a rare name", {"op": "marks", "text": "nccl", "start": start, "end": end,
                                  "bins": PIXELS, "lanes": lanes}),
        ("marks of half of all events", {"op": "marks", "text": "operator", "start": start,
                                         "end": end, "bins": PIXELS, "lanes": lanes}),
        ("totals of a fiftieth", {"op": "totals", "selection": selection}),
        ("neighbor", {"op": "neighbor", "rank": rank, "id": 1000, "direction": 1}),
        ("snap", {"op": "snap", "lane": lanes[0], "time": middle, "tolerance": 10_000}),
    ]  # fmt: skip
    rows = []
    for title, request in requests:
        first, _ = timed(lambda request=request: engine.answer(request))
        again = [timed(lambda request=request: engine.answer(request))[0] for _ in range(5)]
        rows.append((title, ms(first), ms(statistics.median(again))))
    return rows


# --- a made-up job ----------------------------------------------------------------------------


def made_up(ranks: int, events: int) -> TraceSet:
    """A job like a training run: two busy host threads, compute and communication streams."""
    pool = Pool(NAMES)
    return TraceSet([rank_of(number, events // ranks, pool) for number in range(ranks)])


def rank_of(number: int, events: int, names: Pool) -> Trace:
    rng = np.random.default_rng(number)
    span = events * 9_000
    parts = [
        nested(rng, 0, int(events * 0.45), span, 6),
        nested(rng, 1, int(events * 0.33), span, 5),
        stream(rng, 2, int(events * 0.19), span, (COMPUTE, MEMORY), 400),
        stream(rng, 3, events - int(events * 0.97), span, (COMMUNICATION,), 600),
    ]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    order = np.lexsort((-columns["dur"], columns["start"]))
    columns = {key: column[order] for key, column in columns.items()}
    none = np.full(len(order), -1)
    track = [
        Track("1", "100", "thread", "thread 100 (python)", "python", -1, (0, 0, 0, 0), 6, 6),
        Track("1", "200", "thread", "thread 200 (pt_autograd_0)", "python", -1, (0, 1, 0, 0), 5, 5),
        Track("0", "7", "stream", "stream 7", "GPU 0", 7, (1, 7, 1, 0), 1, 1),
        Track("0", "40", "stream", "stream 40", "GPU 0", 40, (1, 40, 1, 0), 1, 1),
    ]
    table_ = EventTable(
        start_ns=columns["start"] - columns["start"][0],
        dur_ns=columns["dur"],
        name=columns["name"].astype(np.int32),
        category=np.zeros(len(order), np.int16),
        kind=columns["kind"].astype(np.uint8),
        track=columns["track"].astype(np.int32),
        depth=columns["depth"].astype(np.int16),
        parent=none.astype(np.int32),
        stream=none.astype(np.int32),
        correlation=none,
        step=none,
        phase=np.zeros(len(order), np.uint8),
        record=np.arange(len(order)),
        names=names,
        categories=Pool(["op"]),
        tracks=track,
    )
    empty = np.empty(0, np.int64)
    small = empty.astype(np.int32)
    trace = Trace(
        rank=number,
        path=f"made-up/rank-{number}.json",
        metadata={},
        flow_table=FlowTable(small.astype(np.uint8), empty, empty, []),
        counter_table=CounterTable(empty, small, empty.astype(float), [], empty),
        instant_table=InstantTable(empty, small, small.astype(np.int16), [], [], [], empty),
        async_table=AsyncTable(empty, empty, small, small.astype(np.int16), [], [], empty),
        zero_ns=int(columns["start"][0]),
        _table=table_,
    )
    # The taxonomy does not know the made-up names: keep the kinds as they are.
    trace._rules_version = _rules_version()  # noqa: SLF001
    return trace


def _rules_version() -> int:
    from hta_widgets import taxonomy  # noqa: PLC0415

    return taxonomy.version()


def nested(rng: Any, track: int, count: int, span: int, depths: int) -> dict[str, Any]:
    """Calls within calls: each depth has twice as many, within the middle of those above."""
    outer = max(count // (2**depths - 1), 1)
    edges = np.sort(rng.integers(0, span, 2 * outer))
    start, end = edges[0::2], edges[1::2] + 1
    starts, durs, depth = [start], [end - start], [np.zeros(len(start), int)]
    for level in range(1, depths):
        middle = (start + end) // 2
        start, end = (
            np.column_stack((start + (middle - start) // 8, middle + (end - middle) // 8)).ravel(),
            np.column_stack((middle - (middle - start) // 8, end - (end - middle) // 8)).ravel(),
        )
        starts.append(start)
        durs.append(end - start)
        depth.append(np.full(len(start), level))
    total = sum(map(len, starts))
    kinds = np.where(rng.random(total) < 0.01, ANNOTATION, CPU)
    kinds[rng.random(total) < 0.005] = SYNC
    return {
        "start": np.concatenate(starts),
        "dur": np.concatenate(durs),
        "depth": np.concatenate(depth),
        "track": np.full(total, track),
        "kind": kinds,
        "name": rng.integers(0, 400, total),
    }


def stream(
    rng: Any, track: int, count: int, span: int, kinds: tuple[int, ...], first_name: int
) -> dict[str, Any]:
    """One after the other, with gaps."""
    edges = np.sort(rng.integers(0, span, 2 * count))
    kind = np.where(rng.random(count) < 0.05, kinds[-1], kinds[0])
    return {
        "start": edges[0::2],
        "dur": edges[1::2] - edges[0::2],
        "depth": np.zeros(count, int),
        "track": np.full(count, track),
        "kind": kind,
        "name": first_name + rng.integers(0, 1 if first_name >= 600 else 200, count),
    }


if __name__ == "__main__":
    main()

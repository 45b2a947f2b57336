"""Make a job in memory. Each rank has two busy host threads and two streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets.trace.columns import (
    AsyncTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    StringPool,
    Track,
)
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = ["made_up"]

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


def made_up(ranks: int, events: int) -> TraceSet:
    """Make a job that resembles training: host threads, compute and communication streams."""
    pool = StringPool(NAMES)
    return TraceSet([rank_of(number, events // ranks, pool) for number in range(ranks)])


def rank_of(number: int, events: int, names: StringPool) -> Trace:
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
        categories=StringPool(["op"]),
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
    # The taxonomy has no rules for these names, so their kinds are set here.
    trace._rules_version = _rules_version()  # noqa: SLF001
    return trace


def _rules_version() -> int:
    from hta_widgets import taxonomy

    return taxonomy.version()


def nested(rng: Any, track: int, count: int, span: int, depths: int) -> dict[str, Any]:
    """Make nested calls. Each call has two children, centered in its two halves."""
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
    """Return consecutive events on a stream, with gaps between them."""
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

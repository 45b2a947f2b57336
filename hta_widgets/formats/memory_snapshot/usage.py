"""Analyses of memory snapshots: memory over time by use, peak by frame, fragmentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame, stack_blocks
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.formats.memory_snapshot.snapshots import (
    BEFORE,
    NO_STACK,
    USES,
    DeviceMemory,
    MemorySnapshot,
    amounts_by_use,
    use_of,
)
from hta_widgets.formats.stack_frames import frame_text
from hta_widgets.trace.conditions import normalize_ranks
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

NO_SNAPSHOTS = note_text("no_snapshots")


class RankMemory(NamedTuple):
    """Memory of a device in the snapshot of a rank."""

    trace: Trace
    memory: DeviceMemory

    @property
    def label(self) -> str:
        """PyTorch's name for the device."""
        return str(self.trace.profile.label(self.memory.device))


def snapshot_memories(traces: TraceSet, ranks: Iterable[int] | None = None) -> list[RankMemory]:
    """Return the devices of all snapshots."""
    return [
        RankMemory(trace, memory)
        for trace in _snapshot_traces(traces, ranks)
        for memory in trace.profile.devices
    ]


def _snapshot_traces(traces: TraceSet, ranks: Iterable[int] | None) -> list[Trace]:
    wanted = None if ranks is None else set(normalize_ranks(ranks))
    return [
        trace
        for rank, trace in traces.items()
        if isinstance(trace.profile, MemorySnapshot) and (wanted is None or rank in wanted)
    ]


def _note_without_memory(traces: TraceSet, ranks: Iterable[int] | None) -> str:
    has_snapshots = bool(_snapshot_traces(traces, ranks))
    return "the snapshots have no device memory" if has_snapshots else NO_SNAPSHOTS


@check_arguments
def snapshot_timeline(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the memory in use after each allocation and release, by use.

    Parameters
    ----------
    traces : TraceSet
        Device memory snapshots.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per event, ordered by rank, device and position in the ring:

        - ``rank`` (int64), ``device`` (category), ``event`` (int64): position in the ring
        - ``time_ns, change_bytes, used_bytes, reserved_bytes`` (int64)
        - ``before the recording``, ``forward and other``, ``backward``, ``optimizer`` and ``no
          stack`` (int64): bytes in use, by what allocated them; they add up to ``used_bytes``.
          Backward and optimizer are recognized by the files on the stack. Blocks allocated on
          autograd's threads have no stack
    """
    blocks = []
    for rank_memory in snapshot_memories(traces, ranks):
        trace, memory = rank_memory
        blocks.append(
            {
                "rank": trace.rank,
                "device": (np.zeros(len(memory.place), np.int64), [rank_memory.label]),
                "event": memory.column("place"),
                "time_ns": memory.column("time_ns") - trace.zero_ns + trace.shift_ns,
                "change_bytes": memory.column("change_bytes"),
                "used_bytes": memory.levels,
                "reserved_bytes": memory.column("reserved_bytes"),
                **dict(zip(USES, amounts_by_use(trace.profile, memory).T, strict=True)),
            }
        )
    schema = {
        **int64("rank"), "device": "category",
        **int64("event time_ns change_bytes used_bytes reserved_bytes"),
        **dict.fromkeys(USES, "int64"),
    }  # fmt: skip
    columns = stack_blocks(blocks, schema)
    count = len(columns["rank"])
    note = _note_without_memory(traces, ranks)
    if blocks:
        note = "the snapshots have no history: _record_memory_history() was off"
    return result_frame(columns, matched={"events": count}, note="" if count else note)


def _blocks_at_peak(memory: DeviceMemory) -> Iterator[tuple[int, int]]:
    """Yield size and stack of each block in use at the peak; the stack is -1 if unknown."""
    live: dict[int, tuple[int, int]] = {}
    older_bytes = memory.start_bytes
    _, last = memory.peak
    events = zip(memory.address, memory.change_bytes, memory.stack, strict=True)
    for address, change, stack in islice(events, last + 1):
        if change > 0:
            live[address] = change, stack
        elif live.pop(address, None) is None:
            older_bytes += change
    yield from live.values()
    yield from memory.older
    unknown_bytes = older_bytes - sum(size for size, _ in memory.older)
    if unknown_bytes > 0:
        yield unknown_bytes, -1


@check_arguments
def snapshot_peak(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the memory in use at the peak, by the user frame that allocated it.

    Parameters
    ----------
    traces : TraceSet
        Device memory snapshots.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per device, use and frame, the largest first:

        - ``rank`` (int64), ``device`` (object)
        - ``use`` (object): as the columns of `snapshot_timeline`
        - ``where`` (object): the innermost frame of user code
        - ``bytes, blocks, largest_bytes`` (int64): blocks in use at the peak; memory from before
          the recording whose blocks are unknown counts as one block
        - ``peak_bytes, peak_event, peak_ns, reserved_bytes`` (int64): the largest number of bytes
          in use, the position of its event in the ring and its time (both -1 for the start), and
          the memory reserved at that time
    """
    rows = [row for memory in snapshot_memories(traces, ranks) for row in _peak_rows(memory)]
    schema = {
        **int64("rank"), "device": "object", "use": "object", "where": "object",
        **int64("bytes blocks largest_bytes peak_bytes peak_event peak_ns reserved_bytes"),
    }  # fmt: skip
    columns = columns_of_rows(rows, schema)
    return result_frame(
        columns,
        matched={"blocks": int(columns["blocks"].sum())},
        note="" if rows else _note_without_memory(traces, ranks),
    )


def _peak_rows(rank_memory: RankMemory) -> list[tuple[Any, ...]]:
    trace, memory = rank_memory
    names = [(use_of(stack), frame_text(stack, NO_STACK)) for stack in trace.profile.stacks]
    names.append((BEFORE, BEFORE))  # for stack -1
    sizes_of: dict[tuple[str, str], list[int]] = defaultdict(list)
    for size, stack in _blocks_at_peak(memory):
        sizes_of[names[stack]].append(size)
    peak_bytes, position = memory.peak
    event, peak_ns, reserved_bytes = -1, -1, memory.start_reserved_bytes
    if position >= 0:
        event = memory.place[position]
        peak_ns = memory.time_ns[position] - trace.zero_ns + trace.shift_ns
        reserved_bytes = memory.reserved_bytes[position]
    peak = peak_bytes, event, peak_ns, reserved_bytes
    rows = [
        (trace.rank, rank_memory.label, use, where, sum(sizes), len(sizes), max(sizes), *peak)
        for (use, where), sizes in sizes_of.items()
    ]
    return sorted(rows, key=lambda row: (-row[4], row[3]))  # by size, then by frame


@check_arguments
def snapshot_segments(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the segments that the allocator holds at the end, and their fragmentation.

    Parameters
    ----------
    traces : TraceSet
        Device memory snapshots.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per segment, ordered by rank, device and address:

        - ``rank`` (int64), ``device`` (object)
        - ``kind`` (object): ``small`` or ``large``; ``stream, address`` (int64): addresses of 2^63
          or more, as on XPU, are reduced by 2^64
        - ``is_expandable`` (bool)
        - ``total_bytes, used_bytes, free_bytes, free_blocks, largest_free_bytes`` (int64): blocks
          that wait for streams count as used
        - ``fragmentation`` (float64): share of free memory outside of the largest free block, NaN
          if nothing is free
    """
    rows: list[dict[str, Any]] = []
    for trace in _snapshot_traces(traces, ranks):
        snapshot = trace.profile
        for segment in sorted(snapshot.segments, key=lambda entry: (entry.device, entry.address)):
            free_bytes = segment.total_bytes - segment.used_bytes
            fragmentation = np.nan
            if free_bytes > 0:
                fragmentation = max(1 - segment.largest_free_bytes / free_bytes, 0.0)
            row = asdict(segment) | {
                "rank": trace.rank,
                "address": (segment.address + (1 << 63)) % (1 << 64) - (1 << 63),
                "device": snapshot.label(segment.device),
                "free_bytes": free_bytes,
                "fragmentation": fragmentation,
            }
            rows.append(row)
    schema: dict[str, Any] = {
        **int64("rank"), "device": "object", "kind": "object", **int64("stream address"),
        "is_expandable": "bool",
        **int64("total_bytes used_bytes free_bytes free_blocks largest_free_bytes"),
        "fragmentation": "float64",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(([row[name] for name in schema] for row in rows), schema),
        matched={"segments": len(rows)},
        note="" if rows else _note_without_memory(traces, ranks),
    )

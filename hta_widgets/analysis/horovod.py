"""The rank of a Horovod job that is ready last.

Horovod reduces a tensor once all ranks have computed it. Its timeline, which one rank writes for
the whole job, has a phase ``NEGOTIATE_ALLREDUCE`` for each tensor. When a rank is ready, an event
without duration, named after the rank's number, is added to the phase.

For example, ranks 0, 1 and 2 are ready at 10, 12 and 40 ns. Rank 2 is last, and the others wait for
30 and 28 ns. These are not the ranks of `collectives`: the timeline is the file of one process, so
it is a single rank in its trace set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, concat_arrays, int64, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.trace.arrays import Ints, Rows, last_true_positions
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.traceset import Selection, TraceSet

#: Prefix of phases in which ranks become ready.
NEGOTIATION = "NEGOTIATE_"
_RANK = re.compile(r"\d{1,9}")
_NO_NEGOTIATIONS = (
    "no negotiations of Horovod: phases NEGOTIATE_… with an event for each rank, in files of"
    " HOROVOD_TIMELINE"
)


@check_arguments
def horovod_readiness(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how often each rank of a Horovod job is ready last, and how long the others wait.

    A rank that is ready for a tensor waits until the last rank is ready.

    Parameters
    ----------
    traces : TraceSet
        Horovod timelines, as written with ``HOROVOD_TIMELINE``.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        Restricts the tensors to those with a selected event of a ready rank, in this window and
        these files.

    Returns
    -------
    DataFrame
        One row per rank of the job. ``rank`` (int64), its number in the file; ``negotiations``
        (int64), how often it was ready for a tensor together with others; ``score`` (float64), the
        share of these in which it alone was last; ``wait_ns`` (int64), the sum of its own waits;
        ``imposed_wait_ns`` (int64), the sum of the others' waits when it alone was last;
        ``blocked_ns`` (int64), the time during which at least one other rank waits for it.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(chosen, _ready_times))
    phase, rank, ready_ns = (
        concat_arrays([times[column] for times in results]) for column in range(3)
    )
    file = np.repeat(np.arange(len(results)), [len(phases) for phases, _, _ in results])
    ready = pd.DataFrame({"file": file, "phase": phase, "rank": rank, "ready_ns": ready_ns})
    ready = ready.sort_values("ready_ns").drop_duplicates(["file", "phase", "rank"])
    negotiations = ready.groupby(["file", "phase"])["ready_ns"]
    ready["first_ns"] = negotiations.transform("min")
    ready["last_ns"] = negotiations.transform("max")
    ready = ready[negotiations.transform("size") > 1]
    ready["wait_ns"] = ready["last_ns"] - ready["ready_ns"]
    is_last = ready["wait_ns"] == 0
    keys = [ready["file"], ready["phase"]]
    ready["is_only_last"] = is_last & (is_last.groupby(keys).transform("sum") == 1)
    ready["wait_of_all_ns"] = ready["wait_ns"].groupby(keys).transform("sum")
    rows = [_readiness_of_rank(rank, events) for rank, events in ready.groupby("rank")]
    schema = int64("rank negotiations") | {"score": "float64"}
    return result_frame(
        columns_of_rows(rows, {**schema, **int64("wait_ns imposed_wait_ns blocked_ns")}),
        matched={"negotiations": len(negotiations), "ready": len(ready)},
        note="" if rows else _NO_NEGOTIATIONS,
    )


def _readiness_of_rank(rank: Any, events: pd.DataFrame) -> tuple[Any, ...]:
    last_alone = events[events["is_only_last"]]
    blocked = union(last_alone["first_ns"].to_numpy(), last_alone["last_ns"].to_numpy())
    return (
        rank,
        len(events),
        len(last_alone) / len(events),
        int(events["wait_ns"].sum()),
        int(last_alone["wait_of_all_ns"].sum()),
        total_length(blocked),
    )


def _ready_times(part: RankPart) -> tuple[Ints, Ints, Ints]:
    """Return the phase, rank and time, on the trace set's clock, of each event of a ready rank."""
    table, names = part.table, part.table.names.values
    is_phase = np.array([name.startswith(NEGOTIATION) for name in names], dtype=bool)
    if not is_phase.any():
        return (np.empty(0, np.int64),) * 3
    numbers = np.array([int(name) if _RANK.fullmatch(name) else -1 for name in names], np.int64)
    rows = np.flatnonzero(numbers[table.name] >= 0)
    phase = _phase_of(table, rows, np.flatnonzero(is_phase[table.name]))
    rows, phase = rows[phase >= 0], phase[phase >= 0]
    is_selected = np.isin(phase, phase[part.contains(rows)])
    rows, phase = rows[is_selected], phase[is_selected]
    return phase, numbers[table.name[rows]], table.start_ns[rows] + part.trace.shift_ns


def _phase_of(table: EventTable, rows: Rows, phases: Rows) -> Ints:
    """Return the phase around each event: the last to begin on its track; -1 if it has ended.

    The last rank's event may be at the very end of the phase, and then is not its child.
    """
    merged = np.concatenate((phases, rows))
    is_event = np.arange(len(merged)) >= len(phases)
    order = np.lexsort((is_event, table.start_ns[merged], table.track[merged]))
    latest = last_true_positions(~is_event[order])
    phase = np.full(len(merged), -1, dtype=np.int64)
    phase[order] = np.where(latest >= 0, merged[order[latest]], -1)
    phase = phase[is_event]
    is_within = (phase >= 0) & (table.track[phase] == table.track[rows])
    is_within &= table.end_ns[phase] >= table.start_ns[rows]
    return np.where(is_within, phase, -1)

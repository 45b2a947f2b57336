"""The small tables beside the events: counters, instants, async intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .pairs import match_brackets
from .problems import Problems
from .table import (
    AsyncTable,
    CategoryCodes,
    CounterTable,
    InstantTable,
    Pool,
    RankColumns,
)

__all__ = ["asyncs", "category_codes", "counters", "instants"]

Rows = npt.NDArray[np.intp]


def category_codes(columns: RankColumns, rows: Rows) -> CategoryCodes:
    """Return the categories of `rows`, in two bytes each where they fit."""
    codes = columns.category[rows]
    fits = len(columns.categories) <= np.iinfo(np.int16).max
    return codes.astype(np.int16) if fits else codes


def instants(columns: RankColumns, rows: Rows, zero_ns: int) -> InstantTable:
    """Return the instants among `rows`, sorted by time."""
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    return InstantTable(
        time_ns=columns.start_ns[rows] - zero_ns,
        name=columns.name[rows],
        category=category_codes(columns, rows),
        pid=[columns.pids[code] for code in columns.pid[rows]],
        tid=[columns.tids[code] for code in columns.tid[rows]],
        scope=[columns.scope.get(row, "t") for row in rows.tolist()],
        record=columns.record[rows],
    )


def counters(columns: RankColumns, rows: Rows, zero_ns: int, problems: Problems) -> CounterTable:
    """Return the samples of counters: one per series in a record's args."""
    series: dict[tuple[str, str, str], int] = {}
    time_ns: list[int] = []
    series_id: list[int] = []
    value: list[float] = []
    record: list[int] = []
    bad = 0
    for row in rows.tolist():
        number = int(columns.record[row])
        name = columns.names[columns.name[row]]
        if columns.flow[row] >= 0:
            name = f"{name}[{columns.flow_ids[columns.flow[row]].strip(chr(34))}]"
        for label, raw in (columns.small_args.get(number) or {}).items():
            sample = _number(raw)
            if sample is None:
                bad += 1
                continue
            key = (columns.pids[columns.pid[row]], name, str(label))
            time_ns.append(int(columns.start_ns[row]) - zero_ns)
            series_id.append(series.setdefault(key, len(series)))
            value.append(sample)
            record.append(number)
    problems.add("skipped", bad, "counter samples that are no numbers")
    ids, times = np.array(series_id, dtype=np.int32), np.array(time_ns, dtype=np.int64)
    order = np.lexsort((times, ids))
    return CounterTable(
        time_ns=times[order],
        series_id=ids[order],
        value=np.array(value, dtype=np.float64)[order],
        series=list(series),
        record=np.array(record, dtype=np.int64)[order],
    )


def _number(raw: Any) -> float | None:
    try:
        sample = float(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return sample if math.isfinite(sample) else None


def asyncs(columns: RankColumns, rows: Rows, zero_ns: int, problems: Problems) -> AsyncTable:
    """Return async intervals: begins and ends paired by category, id and name.

    A begin without an end is kept, with a duration of -1; an end without a begin is counted only.
    """
    phase = columns.phase[rows]
    opens = (phase == ord("b")) | (phase == ord("S"))
    closes = (phase == ord("e")) | (phase == ord("F"))
    ends_matter = np.flatnonzero(opens | closes)
    rows, opens = rows[ends_matter], opens[ends_matter]
    keys = np.stack(
        [columns.category[rows], columns.flow[rows], columns.name[rows]], axis=1
    ).astype(np.int64)
    group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1) if len(rows) else keys[:, 0]
    begins, ends, alone = match_brackets(group, columns.start_ns[rows], opens)
    open_alone = alone[opens[alone]]
    problems.add("unpaired", len(open_alone), "async begins without an end; kept without duration")
    problems.add("unpaired", len(alone) - len(open_alone), "async ends without a begin")
    first = np.concatenate((rows[begins], rows[open_alone]))
    dur = np.concatenate(
        (
            columns.start_ns[rows[ends]] - columns.start_ns[rows[begins]],
            np.full(len(open_alone), -1, dtype=np.int64),
        )
    )
    order = np.argsort(columns.start_ns[first], kind="stable")
    first, dur = first[order], dur[order]
    return AsyncTable(
        start_ns=columns.start_ns[first] - zero_ns,
        dur_ns=dur,
        name=columns.name[first],
        category=category_codes(columns, first),
        async_id=[_text(columns.flow_ids, code) for code in columns.flow[first]],
        pid=[columns.pids[code] for code in columns.pid[first]],
        record=columns.record[first],
    )


def _text(pool: Pool, code: int) -> str:
    return pool[code] if code >= 0 else ""

"""The small tables beside the events: counters, instants, async intervals."""

from __future__ import annotations

import math
from array import array
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.columns import (
    AsyncTable,
    CategoryCodes,
    CounterTable,
    InstantTable,
    Pool,
    RankColumns,
)
from hta_widgets.trace.grouping import match_brackets
from hta_widgets.trace.problems import Problems

__all__ = ["asyncs", "category_codes", "counters", "instants"]

Rows = npt.NDArray[np.intp]

#: Args that are decoded together: fast, and few enough to be held.
_AT_ONCE = 4096


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
    # Codes tell apart what they stand for: names are made once for each of them.
    known: dict[tuple[int, int, int, str], int] = {}
    series_id, value, place = array("i"), array("d"), array("q")
    bad = 0
    codes = zip(
        *(getattr(columns, name)[rows].tolist() for name in ("pid", "name", "flow")),
        strict=True,
    )
    numbers = columns.record[rows].tolist()
    args = chain.from_iterable(
        _args_of(columns, numbers[first : first + _AT_ONCE])
        for first in range(0, len(numbers), _AT_ONCE)
    )
    for at, (said, (pid, name, flow)) in enumerate(zip(args, codes, strict=True)):
        for label, raw in said.items():
            sample = _number(raw)
            if sample is None:
                bad += 1
                continue
            code = known.get((pid, name, flow, label))
            if code is None:
                key = (columns.pids[pid], _counter_name(columns, name, flow), str(label))
                code = known[pid, name, flow, label] = series.setdefault(key, len(series))
            series_id.append(code)
            value.append(sample)
            place.append(at)
    problems.add("skipped", bad, "counter samples that are no numbers")
    ids, places = np.array(series_id, np.int32), np.array(place, np.int64)
    times = columns.start_ns[rows][places] - zero_ns
    order = np.lexsort((times, ids))
    return CounterTable(
        time_ns=times[order],
        series_id=ids[order],
        value=np.array(value, np.float64)[order],
        series=list(series),
        record=columns.record[rows][places][order],
    )


def _args_of(columns: RankColumns, numbers: list[int]) -> list[dict[str, Any]]:
    many = getattr(columns.small_args, "many", None)
    if many is None:
        return [columns.small_args.get(number) or {} for number in numbers]
    found: list[dict[str, Any]] = many(numbers)
    return found


def _counter_name(columns: RankColumns, name: int, flow: int) -> str:
    text = columns.names[name]
    return text if flow < 0 else f"{text}[{columns.flow_ids[flow].strip(chr(34))}]"


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

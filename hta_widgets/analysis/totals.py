"""Counts and times of selected events, by kind and by name.

Durations are summed even if events overlap. In `device_time`, an instant of a device counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, int64, stack_blocks
from hta_widgets.analysis.scope import RankPart, RankParts, rank_parts
from hta_widgets.facts import facts, note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Array,
    Ints,
    Rows,
    distinct_codes,
    group_statistics,
    sum_by_group,
)
from hta_widgets.trace.names import short_name
from hta_widgets.trace.traceset import Selection, TraceSet

if TYPE_CHECKING:
    from hta_widgets.tiles.replies import Totals

_MAX_NAMES: int = facts("limits")["totals_names"]


def totals(traces: TraceSet, selection: Selection | None = None, limit: int = _MAX_NAMES) -> Totals:
    """Return totals by kind and by name as JSON values, for the panel next to a selection."""
    sums = event_sums(rank_parts(traces, selection))
    by_name = totals_by(sums, ["kind", "name"])
    shown = _to_records(by_name.head(limit).assign(short=lambda rows: rows["name"].map(short_name)))
    return {
        "events": int(by_name["count"].sum()),
        "kinds": _to_records(totals_by(sums, ["kind"])),
        "names": shown,
        "names_total": len(by_name),
    }


def event_sums(chosen: RankParts) -> pd.DataFrame:
    """Return counts and times of the selected events by rank, name and kind."""
    blocks = []
    for part in chosen:
        columns, code = statistics_by_name(part, part.rows)
        on_device = part.table.stream[part.rows] >= 0
        device_ns = np.where(on_device, part.durations(part.rows), 0)
        blocks.append({**columns, "device_ns": sum_by_group(code, device_ns, len(columns["name"]))})
    schema = {"kind": "int64", "name": "object", **int64("count sum_ns min_ns max_ns device_ns")}
    return pd.DataFrame(stack_blocks(blocks, schema))


def totals_by(sums: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the time of the selected events by ``kind``, or by ``kind`` and ``name``.

    Rows are sorted by time, then by number of events, then by kind. Durations are clipped to the
    window and summed, even if events overlap or nest. ``device_ns`` and ``host_ns`` are the parts
    of ``sum_ns`` on device streams and elsewhere.
    """
    aggregation = {"count": "sum", "sum_ns": "sum", "min_ns": "min", "max_ns": "max"}
    by_key = sums.groupby(keys, sort=False)
    frame = by_key.agg({**aggregation, "device_ns": "sum"}).reset_index()
    order = np.lexsort((frame["kind"], -frame["count"], -frame["sum_ns"]))
    frame = frame.iloc[order].reset_index(drop=True)
    frame["kind"] = categorical(frame["kind"].to_numpy(), KINDS)
    frame.insert(list(frame).index("min_ns"), "mean_ns", frame["sum_ns"] / frame["count"])
    frame["host_ns"] = frame["sum_ns"] - frame["device_ns"]
    counts = np.bincount(sums["kind"], sums["count"], len(KINDS)).astype(np.int64).tolist()
    frame.attrs["matched"] = {
        kind: count for kind, count in zip(KINDS, counts, strict=True) if count
    }
    if not len(frame):
        frame.attrs["note"] = note_text("no_events")
    return frame


def _to_records(frame: pd.DataFrame) -> list[Any]:
    named = frame.rename(columns=lambda name: str(name).removesuffix("_ns"))
    return named.astype(object).to_dict("records")


def statistics_by_name(part: RankPart, rows: Rows) -> tuple[dict[str, Array], Ints]:
    """Return statistics of durations by name and kind as columns, and each event's row in them."""
    table = part.table
    name_and_kind = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    occurring, code = distinct_codes(name_and_kind)
    statistics = group_statistics(code, len(occurring), part.durations(rows))
    names = [table.names[name_code] for name_code in (occurring // len(KINDS)).tolist()]
    columns = {
        "rank": np.full(len(occurring), part.rank, dtype=np.int64),
        "kind": occurring % len(KINDS),
        "name": np.array(names, dtype=object),
        "count": statistics.count,
        "sum_ns": statistics.sum,
        "min_ns": statistics.min,
        "max_ns": statistics.max,
        "std_ns": statistics.std,
    }
    return columns, code

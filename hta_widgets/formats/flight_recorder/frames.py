"""Frames of the flight-recorder panels, tables of pages, and the headline."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame
from hta_widgets.formats.flight_recorder.states import (
    NO_DUMPS,
    Hang,
    collective_hangs,
    collective_states,
    find_hangs,
    flight_jobs,
    last_call,
    note_without_hang,
    ranks_text,
    short_operation,
)
from hta_widgets.panels.frames import whole_job_panel
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.panels.headline_words import Piece
from hta_widgets.trace.traceset import Selection, TraceSet

#: Limits of the hang panel: collectives before and after the hang, and ranks.
_BEFORE, _AFTER, _MAX_RANKS = 6, 3, 64
_MAX_COLLECTIVES = 1000
_HANG_SCHEMA = {
    "group": "str", "rank": "int64", "keys": "str", "sequence": "int64",
    **dict.fromkeys(("state", "operation", "sizes", "where"), "str"), "is_missing": "bool",
    "last": "str", "last_where": "str", "is_different": "bool",
}  # fmt: skip


def _hang_frame(traces: TraceSet) -> pd.DataFrame:
    """Return each rank's states around the first hang; ``others`` counts ranks not shown."""
    hangs = find_hangs(traces)
    rows = _rows_around(traces, hangs[0]) if hangs else []
    return result_frame(
        columns_of_rows(rows, _HANG_SCHEMA),
        matched={"collectives": len(rows)},
        note="" if rows else note_without_hang(traces),
        sentence=hangs[0].sentence if hangs else "",
        others=max(len(hangs[0].ranks) - _MAX_RANKS, 0) if hangs else 0,
    )


def _rows_around(traces: TraceSet, hang: Hang) -> list[tuple[Any, ...]]:
    """Return the rows of `_HANG_SCHEMA` for collectives near a hang, missing ranks first."""
    states = collective_states(traces)
    is_near = (states["job"] == hang.job) & (states["group"] == hang.group)
    is_near &= states["is_p2p"] == hang.is_p2p
    is_near &= states["sequence"].between(hang.sequence - _BEFORE, hang.sequence + _AFTER)
    missing = {*hang.absent, *hang.differing, *hang.without_dump}
    ranks = sorted(hang.ranks, key=lambda rank: (rank not in missing, rank))[:_MAX_RANKS]
    near = states[is_near & states["rank"].isin(ranks)].drop_duplicates(["sequence", "rank"])
    near = near.sort_values("rank", key=lambda rank: rank.map(ranks.index), kind="stable")
    dumps = next(job.dumps for job in flight_jobs(traces) if job.name == hang.job)
    rows = []
    state: Any
    for state in near.itertuples(index=False):
        key = str(state.key) if state.key >= 0 else ""
        dump = dumps.get(state.rank)
        last, last_where = last_call(dump) if dump else ("no dump is loaded", "")
        is_different = state.sequence == hang.sequence and state.rank in hang.differing
        rows.append((
            state.group, state.rank, key, state.sequence, state.state,
            short_operation(state.operation), state.input_sizes, state.where,
            state.rank in missing, last, last_where, is_different,
        ))  # fmt: skip
    return rows


def _collectives_frame(traces: TraceSet) -> pd.DataFrame:
    """Return a row per collective: unfinished ones first, then the latest."""
    states = collective_states(traces)
    keys = ["job", "group", "sequence", "is_p2p"]
    states = states.assign(is_unfinished=states["state"] != "finished")
    totals = states.groupby(keys)[["is_unfinished", "created_ns"]].max().reset_index()
    totals = totals.sort_values(["is_unfinished", "created_ns"], ascending=False, kind="stable")
    shown = totals[keys].iloc[:_MAX_COLLECTIVES].merge(states, "left", keys)
    states_of: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for state in shown.itertuples(index=False):
        states_of[state.job, state.group, state.sequence, state.is_p2p].append(state)
    rows = list(map(_collective_row, states_of.values()))
    texts = dict.fromkeys(("name", "label", "group", "job"), "object")
    more = dict.fromkeys(("waiting", "missing", "sizes", "dtype", "where", "keys"), "object")
    schema = {**texts, **int64("sequence"), "is_p2p": "bool", **int64("finished ranks"), **more}
    return result_frame(
        columns_of_rows(map(dict.values, rows), schema),
        matched={"collectives": len(totals)},
        note="" if rows else NO_DUMPS,
        total=len(totals),
    )


def _collective_row(states: list[Any]) -> dict[str, Any]:
    """Return the row of a collective, given its rows in `collective_states`, one per rank."""
    collective = states[0]
    states_of_rank: dict[int, set[str]] = defaultdict(set)
    for state in states:  # a batch gives a rank one state per part
        states_of_rank[state.rank].add(state.state)
    waiting, missing = (
        [rank for rank, of_rank in states_of_rank.items() if of_rank & members]
        for members in ({"started", "scheduled"}, {"absent", "no dump"})
    )
    calls = [state for state in states if state.operation]
    operations = dict.fromkeys(short_operation(call.operation) for call in calls)
    if len(operations) > 1:
        operations.pop("coalesced", None)  # it is the batch of the other operations
    label = f"{' or '.join(operations)} #{collective.sequence}"
    selected = set(missing or waiting)
    key_of = {state.rank: str(state.key) for state in states if state.key >= 0}
    return {
        "name": f"{label} · {collective.group}",
        "label": label,
        "group": collective.group,
        "job": collective.job,
        "sequence": collective.sequence,
        "is_p2p": collective.is_p2p,
        "finished": sum(of_rank == {"finished"} for of_rank in states_of_rank.values()),
        "ranks": len(states_of_rank),
        "waiting": ranks_text(waiting),
        "missing": ranks_text(missing),
        "sizes": " or ".join(sorted({call.input_sizes for call in calls})[:2]),
        "dtype": calls[0].dtype,
        "where": calls[0].where,
        "keys": ",".join(key for rank, key in key_of.items() if rank in selected),
    }


#: A dump shows what ranks did last, so neither windows nor ranks restrict these panels.
PANELS = (
    whole_job_panel("flight_hang", _hang_frame, collective_hangs),
    whole_job_panel("flight_collectives", _collectives_frame, collective_states),
)


def headline(traces: TraceSet) -> tuple[list[HeadlineFinding], list[list[Piece]], list[Piece]]:
    """Return the hangs as findings, and a sentence for a job without hangs."""
    keys = {job.name: job.key_of for job in flight_jobs(traces)}
    findings = [
        _finding(hang, keys[hang.job], is_only=len(keys) == 1) for hang in find_hangs(traces)
    ]
    note = note_without_hang(traces)
    return findings, [], [f"No rank waits in a collective: {note}."]


def _finding(hang: Hang, key_of: dict[int, int], *, is_only: bool) -> HeadlineFinding:
    """Return a finding that selects the ranks that caused a hang, or else the waiting ranks."""
    missing = [*hang.absent, *hang.differing]
    ranks = missing or hang.waiting
    keys = [key_of[rank] for rank in ranks if rank in key_of]
    text = hang.sentence
    parts: list[Piece] = [text]
    if len(keys) == 1 and missing and text.startswith(subject := f"Rank {missing[0]}"):
        parts = [{"rank": keys[0], "text": subject}, text.removeprefix(subject)]
    label = f"Select rank{'s' * (len(keys) > 1)} {ranks_text(ranks)}"
    label += f" of {hang.job}" if hang.job and not is_only else ""
    kind = "waiting" if missing and hang.is_cause else "hang"
    selection = Selection(ranks=tuple(sorted(keys))) if keys else Selection()
    return HeadlineFinding(kind, 1.0, parts, label if keys else "", selection)

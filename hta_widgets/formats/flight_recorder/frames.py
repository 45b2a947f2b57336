"""Frames of the flight recorder's panels, the tables of pages, and the headline."""

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
    hang_text,
    note_without_hang,
    ranks_text,
    short_operation,
)
from hta_widgets.panels.frames import frame_to_json, whole_job_panel
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.panels.headline_words import Piece
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

#: Limits of the panel of the hang: collectives around it, and ranks, the missing ones first.
_BEFORE, _AFTER, _MAX_RANKS = 6, 3, 64
_MAX_COLLECTIVES = 1000


def _hang_frame(traces: TraceSet) -> pd.DataFrame:
    """Return the states of the collectives around the first hang, by rank of its group."""
    hangs = find_hangs(traces)
    rows: list[tuple[Any, ...]] = []
    ranks: list[int] = []
    if hangs:
        hang = hangs[0]
        states = collective_states(traces)
        is_near = (states["job"] == hang.job) & (states["group"] == hang.group)
        is_near &= states["is_p2p"] == hang.is_p2p
        is_near &= states["sequence"].between(hang.sequence - _BEFORE, hang.sequence + _AFTER)
        near = states[is_near & states["rank"].isin(hang.ranks)]
        near = near.drop_duplicates(["sequence", "rank"])
        missing = [*hang.absent, *hang.differing, *hang.without_dump]
        ranks = sorted(hang.ranks, key=lambda rank: (rank not in missing, rank))
        last = {job.name: job.last_calls for job in flight_jobs(traces)}[hang.job]
        for rank in ranks[:_MAX_RANKS]:
            did, where = last.get(rank, ("no dump is loaded", ""))
            rows += [
                (
                    *(hang.group, rank, "" if row["key"] < 0 else str(row["key"])),
                    *(row["sequence"], row["state"], short_operation(row["operation"])),
                    *(row["input_sizes"], row["where"], rank in missing, did, where),
                    row["sequence"] == hang.sequence and rank in hang.differing,
                )
                for row in near[near["rank"] == rank].to_dict("records")
            ]
    texts = dict.fromkeys(("state", "operation", "sizes", "where"), "object")
    schema = {
        "group": "object", **int64("rank"), "keys": "object", **int64("sequence"), **texts,
        "is_missing": "bool", "last": "object", "last_where": "object", "is_different": "bool",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema),
        matched={"collectives": len(rows)},
        note="" if rows else note_without_hang(traces),
        sentence=hang_text(hangs[0]) if hangs else "",
        others=max(len(ranks) - _MAX_RANKS, 0),
    )


def _collectives_frame(traces: TraceSet) -> pd.DataFrame:
    """Return a row per collective: the unfinished ones first, then the latest."""
    states = collective_states(traces)
    keys = ["job", "group", "sequence", "is_p2p"]
    states = states.assign(is_unfinished=states["state"] != "finished")
    totals = states.groupby(keys)[["is_unfinished", "created_ns"]].max().reset_index()
    totals = totals.sort_values(["is_unfinished", "created_ns"], ascending=False, kind="stable")
    shown = totals[keys].iloc[:_MAX_COLLECTIVES]
    of_collective: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for each in shown.merge(states, "left", keys).itertuples(index=False):
        of_collective[each.job, each.group, each.sequence, each.is_p2p].append(each)
    rows = []
    for (job, group, sequence, is_p2p), states_of in of_collective.items():
        ranks_of: dict[str, list[int]] = defaultdict(list)
        for each in states_of:
            ranks_of[each.state].append(each.rank)
        calls = [each for each in states_of if each.operation]
        waiting = [*ranks_of["started"], *ranks_of["scheduled"]]
        missing = [*ranks_of["absent"], *ranks_of["no dump"]]
        sizes = sorted({each.input_sizes for each in calls})
        operation = " or ".join(dict.fromkeys(short_operation(each.operation) for each in calls))
        chosen = set(missing or waiting)
        selects = [str(each.key) for each in states_of if each.rank in chosen and each.key >= 0]
        number = f"{operation} #{sequence}"
        rows.append(
            (
                *(f"{number} · {group}", number, group, job, sequence, is_p2p),
                *(len(ranks_of["finished"]), len({each.rank for each in states_of})),
                *(ranks_text(waiting), ranks_text(missing), " or ".join(sizes[:2])),
                *(calls[0].dtype, calls[0].where, ",".join(selects)),
            )
        )
    texts = dict.fromkeys(("name", "label", "group", "job"), "object")
    more = dict.fromkeys(("waiting", "missing", "sizes", "dtype", "where", "keys"), "object")
    schema = {**texts, **int64("sequence"), "is_p2p": "bool", **int64("finished ranks"), **more}
    return result_frame(
        columns_of_rows(rows, schema),
        matched={"collectives": len(totals)},
        note="" if rows else NO_DUMPS,
        total=len(totals),
    )


#: A dump states what ranks did last, so that neither windows nor ranks narrow these panels.
PANELS = (
    whole_job_panel("flight_hang", _hang_frame, collective_hangs),
    whole_job_panel("flight_collectives", _collectives_frame, collective_states),
)


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the panels' frames, which pages without a kernel show as they are."""
    return {
        "flight_hang": frame_to_json(_hang_frame(traces)),
        "flight_collectives": frame_to_json(_collectives_frame(traces)),
    }


def headline(traces: TraceSet) -> tuple[list[HeadlineFinding], list[list[Piece]], list[Piece]]:
    """Return the hangs as findings, no further sentences, and the sentence without a hang."""
    keys = {job.name: job.key_of for job in flight_jobs(traces)}
    findings = [
        _finding(hang, keys[hang.job], is_only=len(keys) == 1) for hang in find_hangs(traces)
    ]
    note = note_without_hang(traces)
    return findings, [], [f"No rank waits in a collective: {note}."]


def _finding(hang: Hang, key_of: dict[int, int], *, is_only: bool) -> HeadlineFinding:
    missing = [*hang.absent, *hang.differing]
    chosen = [key_of[rank] for rank in missing or hang.waiting if rank in key_of]
    text = hang_text(hang)
    parts: list[Piece] = [text]
    if len(chosen) == 1 and missing and text.startswith(subject := f"Rank {missing[0]}"):
        parts = [{"rank": chosen[0], "text": subject}, text.removeprefix(subject)]
    label = f"Select rank{'s' * (len(chosen) > 1)} {ranks_text(missing or hang.waiting)}"
    label += f" of {hang.job}" if hang.job and not is_only else ""
    kind = "waiting" if missing and hang.is_cause else "hang"
    selection = Selection(ranks=tuple(sorted(chosen))) if chosen else Selection()
    return HeadlineFinding(kind, 1.0, parts, label if chosen else "", selection)

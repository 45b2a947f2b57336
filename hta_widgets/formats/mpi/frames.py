"""Frames of the MPI panels, tables of pages, and the headline.

Profiles are totals of a run, so windows do not apply to them. The selected ranks restrict the
tables of routines. The table of ranks always has all ranks, because it compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.frames import text_column
from hta_widgets.facts import facts
from hta_widgets.formats.byteps.frames import restrict_to_format
from hta_widgets.formats.mpi.model import MPI_FORMATS
from hta_widgets.formats.mpi.ranks import costly_ranks, mpi_stragglers
from hta_widgets.panels.frames import (
    FrameMaker,
    Panel,
    catalog_panel,
    frame_to_json,
    small_frame_to_json,
    take_columns,
)
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.panels.headline_words import Piece
from hta_widgets.text import duration, share, size_range
from hta_widgets.trace.query import parse_clauses
from hta_widgets.trace.traceset import Selection, TraceSet

#: Maps (job, MPI rank) to the keys of the rank's files in the trace set.
_Keys = dict[tuple[str, int], list[int]]


def by_routine(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum `mpi_routines` over each job's ranks, and add the minimum and the maximum."""
    groups = frame.groupby(["job", "routine"], sort=True)
    sums = groups[["calls", "bytes", "time_s"]].sum()
    sums.insert(0, "ranks", groups.size())
    sums["is_io"] = groups["is_io"].first()
    for name, row in (("min", groups["time_s"].idxmin()), ("max", groups["time_s"].idxmax())):
        sums[f"{name}_s"] = frame["time_s"].loc[row].to_numpy()
        sums[f"{name}_rank"] = frame["rank"].loc[row].to_numpy()
    sums["mean_s"] = sums["time_s"] / sums["ranks"]
    comm = sums["time_s"].where(~sums["is_io"], 0.0).groupby(level="job").transform("sum")
    sums["share_of_time"] = (sums["time_s"] / comm).where(~sums["is_io"] & (comm > 0))
    sums["mean_us"] = np.where(sums["calls"] > 0, sums["time_s"] * 1e6 / sums["calls"], np.nan)
    sums = _with_text_keys(sums.reset_index())
    order = np.lexsort((sums["name"], -sums["calls"], -sums["time_s"], sums["job"]))
    sums = sums.iloc[order].reset_index(drop=True)
    sums.attrs = dict(frame.attrs)
    return sums


def by_size(sizes: pd.DataFrame, routines: pd.DataFrame) -> pd.DataFrame:
    """Sum `mpi_message_sizes` over each job's ranks.

    For calls of routines without bins, sizes are -1.
    """
    columns, place = ["calls", "time_s", "bytes"], ["job", "routine"]
    groups = sizes.groupby([*place, "size_lo", "size_hi"], sort=True)
    rows = groups[columns].sum().reset_index()
    totals = routines.groupby(place, sort=True)[columns].sum()
    binned = pd.MultiIndex.from_frame(rows[place])
    plain = totals[~totals.index.isin(binned)].reset_index().assign(size_lo=-1, size_hi=-1)
    rows = pd.concat([rows, plain[rows.columns]], ignore_index=True)
    for name in columns:
        sums = rows.groupby(place)[name].transform("sum")
        rows[f"share_of_{name.removesuffix('_s')}"] = (rows[name] / sums).where(sums > 0)
    rows["mean_us"] = np.where(rows["calls"] > 0, rows["time_s"] * 1e6 / rows["calls"], np.nan)
    time = rows.groupby(place)["time_s"].transform("sum")
    order = np.lexsort((rows["size_lo"], rows["routine"], -time, rows["job"]))
    rows = _with_text_keys(rows.iloc[order].reset_index(drop=True))
    rows.attrs = dict(sizes.attrs)
    return rows


def _with_text_keys(sums: pd.DataFrame) -> pd.DataFrame:
    """Return sums with job and routine as strings; without rows, pandas makes them objects."""
    texts = {"job": text_column(sums["job"]), "routine": text_column(sums["routine"])}
    return sums.assign(**texts).rename(columns={"routine": "name"})


def _keys_of_ranks(traces: TraceSet) -> _Keys:
    keys_by_rank: _Keys = {}
    for key in [rank for rank, trace in traces.items() if trace.format in MPI_FORMATS]:
        frame = analysis.mpi_routines(traces, ranks=[key], stale=True)
        if len(frame):
            job, mpi_rank = frame[["job", "rank"]].iloc[0]
            keys_by_rank.setdefault((str(job), int(mpi_rank)), []).append(key)
    return keys_by_rank


def _scope(traces: TraceSet, selection: Selection) -> dict[str, Any]:
    """Return the arguments that restrict an analysis to the selected MPI ranks."""
    ranks = restrict_to_format(traces, selection, *MPI_FORMATS).ranks
    return {} if ranks is None else {"ranks": ranks}


def _ranks_frame(traces: TraceSet, _selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return `mpi_ranks` with stragglers marked and each rank's keys as text."""
    names = [
        *("job", "rank", "host", "comm_s", "noncomm_s", "elapsed_s", "comm_share"),
        *("cpu_utilisation", "rss_mib", "stale"),
    ]
    frame = analysis.mpi_ranks(traces)
    late, keys_of = mpi_stragglers(traces), _keys_of_ranks(traces)
    places = [(str(job), int(rank)) for job, rank in zip(frame["job"], frame["rank"], strict=True)]
    keys = [",".join(map(str, keys_of.get(place, []))) for place in places]
    rank_rows = frame[names].assign(
        is_straggler=np.array([place in late for place in places], bool),
        keys=pd.Series(keys, dtype=object),
    )
    rank_rows.attrs = dict(frame.attrs)
    return rank_rows


def _routines_frame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    routines = analysis.mpi_routines(traces, **_scope(traces, selection))
    return _with_note(by_routine(routines), traces)


def _with_note(frame: pd.DataFrame, traces: TraceSet) -> pd.DataFrame:
    """Add the note of `mpi_ranks`, which lists the ranks with tables of routines."""
    note = str(analysis.mpi_ranks(traces).attrs.get("note", ""))
    if note:
        frame.attrs["note"] = note
    return frame


def _sizes_frame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return the message sizes, restricted to the selected routines if there are any."""
    scope = _scope(traces, selection)
    sizes = analysis.mpi_message_sizes(traces, **scope)
    frame = by_size(sizes, analysis.mpi_routines(traces, **scope))
    names = parse_clauses(selection.query).names
    if names is not None and frame["name"].isin(names).any():
        frame = frame[frame["name"].isin(names)].reset_index(drop=True)
        frame.attrs = dict(sizes.attrs)
    return _with_note(frame, traces)


def _hosts_frame(traces: TraceSet, _selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.mpi_hosts(traces)
    hosts = take_columns(frame, [str(name) for name in frame])
    hosts.insert(0, "name", hosts["host"])
    return hosts


def _panel(name: str, frame: FrameMaker) -> Panel:
    def base_frame(traces: TraceSet, selection: Selection) -> pd.DataFrame:
        run = getattr(analysis, facts("panels")[name]["analysis"])
        rows: pd.DataFrame = run(traces, **_scope(traces, selection))
        return rows

    return catalog_panel(name, frame=frame, base_frame=base_frame)


#: In the order in which they are offered to users. Windows do not apply to totals of a run.
PANELS = (
    _panel("mpi_ranks", _ranks_frame),
    _panel("mpi_sizes", _sizes_frame),
    _panel("mpi_routines", _routines_frame),
    _panel("mpi_routine_table", _routines_frame),
    _panel("mpi_messages", _sizes_frame),
    _panel("mpi_hosts", _hosts_frame),
)


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the tables from which a page computes these panels.

    Profiles and timelines have separate rows, because either may be selected without the other.
    """
    ranks_by_format = [
        [rank for rank, trace in traces.items() if trace.format == name] for name in MPI_FORMATS
    ]
    columns = ["job", "rank", "key", "source", "routine", "calls", "bytes", "time_s"]
    note = str(analysis.mpi_ranks(traces).attrs.get("note", ""))

    def rows(analyze: Callable[..., pd.DataFrame], *more_columns: str) -> Any:
        frames = [analyze(traces, ranks=ranks) for ranks in ranks_by_format if ranks]
        table = pd.concat(frames, ignore_index=True)[[*columns, *more_columns]]
        table.attrs = {"note": note}
        return small_frame_to_json(table)

    return {
        "routines": rows(analysis.mpi_routines, "is_io"),
        "sizes": rows(analysis.mpi_message_sizes, "size_lo", "size_hi"),
        "mpi_ranks": frame_to_json(_ranks_frame(traces, Selection(), None)),
        "mpi_hosts": frame_to_json(_hosts_frame(traces, Selection(), None)),
    }


#: Smallest share of its routine's time for which a message size is reported.
_MIN_SHARE_OF_TIME = 0.1
#: Smallest ratio of its share of time to its share of bytes for which it is reported.
_OF_BYTES = 2.0
#: A rank is named if its time in MPI is below that of other ranks by this share of the run.
_MIN_LOST_SHARE = 0.01


def headline(traces: TraceSet) -> tuple[list[HeadlineFinding], list[list[Piece]], list[Piece]]:
    """Return findings, further sentences, and the sentence for a run without findings."""
    imbalance = analysis.mpi_imbalance(traces)
    keys = _keys_of_ranks(traces)
    has_several_jobs = len(imbalance) > 1
    stragglers, costly = sorted(mpi_stragglers(traces)), costly_ranks(traces)
    findings: list[HeadlineFinding] = []
    suspects: list[list[Piece]] = []
    for row in imbalance.to_dict("records"):
        of_job = f" of {row['job']}" if has_several_jobs else ""
        stragglers_of_job = [rank for job, rank in stragglers if job == row["job"]]
        findings += [_straggler_finding(row, rank, keys, of_job) for rank in stragglers_of_job]
        if not stragglers_of_job:
            suspects += _suspect_sentences(row, costly.get(row["job"]), keys, of_job)
    details: list[list[Piece]] = [
        [f"{job}: {text}" if has_several_jobs else text] for job, text in _costly_sizes(traces)
    ]
    hosts = analysis.mpi_hosts(traces)
    slow_hosts = ", ".join(hosts["host"][hosts["is_slow"]])
    if slow_hosts:
        details.append([f"All ranks of {slow_hosts} wait least: the others wait for that host."])
    details += suspects
    if not len(imbalance):
        return findings, details, []
    ranks = analysis.mpi_ranks(traces)
    in_mpi = share(float(np.nansum(ranks["comm_s"]) / max(np.nansum(ranks["elapsed_s"]), 1e-300)))
    no_findings = f"No rank is a straggler: ranks spend {in_mpi} of their time in MPI."
    if len(ranks) == 1:
        no_findings = f"The rank spends {in_mpi} of its time in MPI, and waits for no other rank."
    return findings, details, [no_findings]


def _suspect_sentences(
    row: dict[Any, Any], costly: tuple[int, float] | None, keys: _Keys, of_job: str
) -> list[list[Piece]]:
    """Return a sentence about the rank that may delay others, if any."""
    if costly is not None:
        rank, lost_share = costly
        cost = share(lost_share)
        text = f"{of_job} keeps the others waiting for {cost} of their time, maybe by chance."
    elif row["stands_out"] and row["lost_share"] >= _MIN_LOST_SHARE:
        rank = row["comm_min_rank"]
        lost = share(row["lost_share"])
        text = (
            f"{of_job} spends less time in MPI than the others, by {lost} of the run, maybe by"
            " chance."
        )
    else:
        return []
    return [[_rank_piece(row["job"], rank, keys), text]]


def _straggler_finding(row: dict[Any, Any], rank: int, keys: _Keys, of_job: str) -> HeadlineFinding:
    others = int(row["ranks"]) - 1
    trace_ranks = keys.get((row["job"], rank), [])
    wait = f"the other {others} wait for it" if others > 1 else "the other rank waits for it"
    text = f"{of_job} comes last where it costs most time: {wait}."
    if rank == row["comm_min_rank"]:
        text = (
            f"{of_job} spends the least time in MPI, {duration(row['comm_min_s'] * 1e9)}"
            f" (mean {duration(row['comm_mean_s'] * 1e9)}): {wait}."
        )
    parts: list[Piece] = [_rank_piece(row["job"], rank, keys), text]
    lost_share = 1 - row["comm_min_s"] / max(row["comm_mean_s"], 1e-300)  # the mean may be 0
    chosen = Selection(ranks=tuple(trace_ranks)) if trace_ranks else Selection()
    return HeadlineFinding("waiting", float(lost_share), parts, f"Select rank {rank}", chosen)


def _rank_piece(job: str, rank: int, keys: _Keys) -> Piece:
    trace_ranks = keys.get((job, rank), [])
    return {"rank": trace_ranks[0], "text": f"Rank {rank}"} if trace_ranks else f"Rank {rank}"


def _costly_sizes(traces: TraceSet) -> list[tuple[str, str]]:
    """Describe, for each job, the all-reduce size with a far larger share of time than of bytes."""
    frame = analysis.mpi_message_sizes(traces, routine="MPI_Allreduce")
    sentences = []
    for job, rows in frame.groupby("job", sort=True):
        sums = rows.groupby(["size_lo", "size_hi"])[["calls", "time_s", "bytes"]].sum()
        shares = sums / sums.sum().where(sums.sum() > 0, 1)
        is_costly = shares["time_s"] >= _MIN_SHARE_OF_TIME
        is_costly &= shares["time_s"] >= _OF_BYTES * shares["bytes"]
        costly = shares[is_costly]
        if not len(costly):
            continue
        excess = costly["time_s"] - costly["bytes"]
        costliest = costly.loc[[excess.idxmax()]].reset_index().iloc[0]
        of_bytes, percent = share(costliest["bytes"]), costliest["bytes"] * 100
        if 0 < percent < 1:
            digits = -int(np.floor(np.log10(percent)))  # to keep one significant digit
            of_bytes = f"{percent:.{digits}f}\u202f%"
        size = size_range(int(costliest["size_lo"]), int(costliest["size_hi"]))
        text = (
            f"Of all Allreduce calls, those of {size} are {share(costliest['calls'])} by number,"
            f" {share(costliest['time_s'])} by time and {of_bytes} by bytes."
        )
        sentences.append((str(job), text))
    return sentences

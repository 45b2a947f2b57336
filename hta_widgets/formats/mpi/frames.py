"""What panels show of MPI profiles: the analyses' rows, put together over ranks.

Profiles are totals of a run, so windows do not apply. Ranks of a selection say whose tables of
routines count; the table of all ranks is always whole, as one of it alone compares nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.formats.byteps.frames import of_format
from hta_widgets.formats.mpi.ranks import mpi_stragglers
from hta_widgets.panels.catalog import Panel
from hta_widgets.panels.frames import as_json, rows_or_none, taken
from hta_widgets.panels.headline import Finding, Piece
from hta_widgets.text import duration, share, size_range
from hta_widgets.trace.query import read_clauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

_FORMATS = ("mpi-profile", "mpi-trace")


def with_stragglers(traces: TraceSet, ranks: pd.DataFrame) -> pd.DataFrame:
    """Say of each row of `mpi_ranks` whether it is for this rank that the others wait."""
    late = mpi_stragglers(traces)
    flags = [pair in late for pair in zip(ranks["job"], ranks["rank"], strict=True)]
    return ranks.assign(is_straggler=np.array(flags, bool))


def by_routine(frame: pd.DataFrame) -> pd.DataFrame:
    """Add up `mpi_routines` over the ranks of each job, with who has least and most."""
    groups = frame.groupby(["job", "routine"], sort=True)
    found = groups[["calls", "bytes", "time_s"]].sum()
    found.insert(0, "ranks", groups.size())
    found["is_io"] = groups["is_io"].first()
    for name, pick in (("min", "idxmin"), ("max", "idxmax")):
        at = getattr(groups["time_s"], pick)()
        found[f"{name}_s"] = frame["time_s"].loc[at].to_numpy()
        found[f"{name}_rank"] = frame["rank"].loc[at].to_numpy()
    found["mean_s"] = found["time_s"] / found["ranks"]
    told = found["time_s"].where(~found["is_io"], 0.0)
    comm = told.groupby(level="job").transform("sum")
    found["share_of_time"] = (found["time_s"] / comm).where(~found["is_io"] & (comm > 0))
    found["mean_us"] = np.where(found["calls"] > 0, found["time_s"] * 1e6 / found["calls"], np.nan)
    found = found.reset_index().rename(columns={"routine": "name"})
    order = np.lexsort((found["name"], -found["calls"], -found["time_s"], found["job"]))
    found = found.iloc[order].reset_index(drop=True)
    found.attrs = dict(frame.attrs)
    return found


def by_size(sizes: pd.DataFrame, routines: pd.DataFrame) -> pd.DataFrame:
    """Add up `mpi_message_sizes` over the ranks of each job.

    Calls of routines without bins have sizes of -1.
    """
    columns, place = ["calls", "time_s", "bytes"], ["job", "routine"]
    groups = sizes.groupby([*place, "size_lo", "size_hi"], sort=True)
    found = groups[columns].sum().reset_index()
    whole = routines.groupby(place, sort=True)[columns].sum().reset_index()
    binned = set(zip(found["job"], found["routine"], strict=True))
    missing = [pair not in binned for pair in zip(whole["job"], whole["routine"], strict=True)]
    plain = whole[np.array(missing, bool)].assign(size_lo=-1, size_hi=-1)
    found = pd.concat([found, plain[found.columns]], ignore_index=True)
    for name in columns:
        sums = found.groupby(place)[name].transform("sum")
        found[f"share_of_{name.removesuffix('_s')}"] = np.where(
            sums > 0, found[name] / sums, np.nan
        )
    found["mean_us"] = np.where(found["calls"] > 0, found["time_s"] * 1e6 / found["calls"], np.nan)
    time = found.groupby(place)["time_s"].transform("sum")
    order = np.lexsort((found["size_lo"], found["routine"], -time, found["job"]))
    found = found.iloc[order].reset_index(drop=True).rename(columns={"routine": "name"})
    found.attrs = dict(sizes.attrs)
    return found


def keys_of_ranks(traces: TraceSet) -> dict[tuple[str, int], list[int]]:
    """Return for each MPI rank of each job the ranks of the set that its files have become."""
    keys = [rank for rank, trace in traces.items() if trace.format in _FORMATS]
    found: dict[tuple[str, int], list[int]] = {}
    for key in keys:
        frame = analysis.mpi_routines(traces, ranks=[key], stale=True)
        if len(frame):
            place = (str(frame["job"].iloc[0]), int(frame["rank"].iloc[0]))
            found.setdefault(place, []).append(key)
    return found


# --- the panels -----------------------------------------------------------------------------------


def _ranks(traces: TraceSet, _selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = with_stragglers(traces, analysis.mpi_ranks(traces))
    found = frame[
        [
            *("job", "rank", "host", "comm_s", "noncomm_s", "elapsed_s", "comm_share"),
            *("cpu_utilisation", "rss_mib", "stale", "is_straggler"),
        ]
    ].copy()
    known = keys_of_ranks(traces)
    places = zip(frame["job"], frame["rank"], strict=True)
    keys = [",".join(map(str, known.get((job, int(rank)), []))) for job, rank in places]
    found["keys"] = pd.Series(keys, dtype=object)
    found.attrs = dict(frame.attrs)
    return found


def _scope(traces: TraceSet, selection: Selection) -> dict[str, Any]:
    ranks = of_format(traces, selection, *_FORMATS).ranks
    return {} if ranks is None else {"ranks": ranks}


def _routines(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    found = by_routine(analysis.mpi_routines(traces, **_scope(traces, selection)))
    return _noted(found, traces)


def _noted(frame: pd.DataFrame, traces: TraceSet) -> pd.DataFrame:
    """Say of which ranks there are tables of routines."""
    note = str(analysis.mpi_ranks(traces).attrs.get("note", ""))
    if note:
        frame.attrs["note"] = note
    return frame


def _sizes(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    scope = _scope(traces, selection)
    sizes = analysis.mpi_message_sizes(traces, **scope)
    found = by_size(sizes, analysis.mpi_routines(traces, **scope))
    return _noted(_named(found, selection), traces)


def _named(frame: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """Keep the routines that are selected by name, if any of those is one."""
    names = read_clauses(selection.query).names
    if names is None or not frame["name"].isin(names).any():
        return frame
    found = frame[frame["name"].isin(names)].reset_index(drop=True)
    found.attrs = dict(frame.attrs)
    return found


def _hosts(traces: TraceSet, _selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.mpi_hosts(traces)
    found = taken(frame, [str(name) for name in frame])
    found.insert(0, "name", found["host"])
    return found


def _whole(analysed: str) -> Callable[[TraceSet, Selection], pd.DataFrame]:
    def whole(traces: TraceSet, selection: Selection) -> pd.DataFrame:
        found: pd.DataFrame = getattr(analysis, analysed)(traces, **_scope(traces, selection))
        return found

    return whole


#: In the order of the list from which users choose; windows do not apply to totals of a run.
PANELS = tuple(
    Panel(name, analysed, own, is_chart=is_chart, frame=frame, whole=_whole(analysed))
    for name, analysed, own, is_chart, frame in (
        ("mpi_ranks", "mpi_ranks", ("ranks", "window", "names"), True, _ranks),
        ("mpi_sizes", "mpi_message_sizes", ("names", "window"), True, _sizes),
        ("mpi_routines", "mpi_routines", ("names", "window"), True, _routines),
        ("mpi_routine_table", "mpi_routines", ("names", "window"), False, _routines),
        ("mpi_messages", "mpi_message_sizes", ("window",), False, _sizes),
        ("mpi_hosts", "mpi_hosts", ("ranks", "window", "names"), False, _hosts),
    )
)


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the rows with which a page computes these panels."""
    routines, sizes = _routine_rows(traces)
    return {
        "routines": routines,
        "sizes": sizes,
        "mpi_ranks": as_json(_ranks(traces, Selection(), None)),
        "mpi_hosts": as_json(_hosts(traces, Selection(), None)),
    }


def _routine_rows(traces: TraceSet) -> tuple[Any, Any]:
    """Return routines and sizes by profiles and by time lines: either may be selected alone."""
    routines, sizes = [], []
    for name in ("mpi-profile", "mpi-trace"):
        ranks = [rank for rank, trace in traces.items() if trace.format == name]
        if ranks:
            routines.append(analysis.mpi_routines(traces, ranks=ranks))
            sizes.append(analysis.mpi_message_sizes(traces, ranks=ranks))
    names = ["job", "rank", "key", "source", "routine", "calls", "bytes", "time_s"]
    both = pd.concat(routines, ignore_index=True)[[*names, "is_io"]]
    note = str(analysis.mpi_ranks(traces).attrs.get("note", ""))
    both.attrs = {"note": note}
    binned = pd.concat(sizes, ignore_index=True)[[*names, "size_lo", "size_hi"]]
    binned.attrs = {"note": note}
    return rows_or_none(both), rows_or_none(binned)


# --- the headline ---------------------------------------------------------------------------------

#: Messages of a size are told of that take this share of their routine's time …
_MUCH_TIME = 0.1
#: … and this many times their share of its bytes.
_OF_BYTES = 2.0
#: Of the run: how much less than the others a rank must spend in MPI to be named as a fact.
_WORTH_SAYING = 0.01


def headline(traces: TraceSet) -> tuple[list[Finding], list[list[Piece]], list[Piece]]:
    """Return what matters most: findings, more sentences, and one for where nothing is found."""
    found: list[Finding] = []
    more: list[list[Piece]] = []
    uneven = analysis.mpi_imbalance(traces)
    keys = keys_of_ranks(traces)
    several = len(uneven) > 1
    late = sorted(mpi_stragglers(traces))
    facts: list[list[Piece]] = []
    for row in uneven.to_dict("records"):
        job = f" of {row['job']}" if several else ""
        named = [rank for name, rank in late if name == row["job"]]
        found += [_straggler(row, rank, keys, job) for rank in named]
        if not named and row["stands_out"] and row["lost_share"] >= _WORTH_SAYING:
            lost = share(row["lost_share"])
            text = f"{job} spends {lost} of the run less in MPI than the others, maybe by chance."
            facts.append([_rank_piece(row["job"], row["comm_min_rank"], keys), text])
    for job_name, costly in _costly_sizes(traces):
        more.append([f"{f'{job_name}: ' if several else ''}{costly}"])
    hosts = analysis.mpi_hosts(traces)
    slow = hosts["host"][hosts["is_slow"]].tolist()
    if slow:
        more.append([f"All ranks of {', '.join(slow)} wait least: the others wait for that host."])
    more += facts
    if not len(uneven):
        return found, more, []
    ranks = analysis.mpi_ranks(traces)
    of_all = float(np.nansum(ranks["comm_s"]) / max(np.nansum(ranks["elapsed_s"]), 1e-300))
    if len(ranks) == 1:
        alone = f"The rank spends {share(of_all)} of its time in MPI, and waits for nobody."
        return found, more, [alone]
    return (
        found,
        more,
        [f"No rank is a straggler: ranks spend {share(of_all)} of their time in MPI."],
    )


def _straggler(
    row: dict[Any, Any], rank: int, keys: dict[tuple[str, int], list[int]], job: str
) -> Finding:
    others = int(row["ranks"]) - 1
    own = keys.get((row["job"], rank), [])
    wait = f"the other {f'{others} wait' if others > 1 else 'rank waits'} for it"
    text = f"{job} comes last where it costs most time: {wait}."
    if rank == row["comm_min_rank"]:
        text = (
            f"{job} spends least time in MPI, {duration(row['comm_min_s'] * 1e9)}"
            f" (mean {duration(row['comm_mean_s'] * 1e9)}): {wait}."
        )
    parts: list[Piece] = [_rank_piece(row["job"], rank, keys), text]
    lost = 1 - row["comm_min_s"] / max(row["comm_mean_s"], 1e-300)
    chosen = Selection(ranks=tuple(own)) if own else Selection()
    return Finding("waiting", float(lost), parts, f"Select rank {rank}", chosen)


def _rank_piece(job: str, rank: int, keys: dict[tuple[str, int], list[int]]) -> Piece:
    own = keys.get((job, rank), [])
    return {"rank": own[0], "text": f"Rank {rank}"} if own else f"Rank {rank}"


def _costly_sizes(traces: TraceSet) -> list[tuple[str, str]]:
    """Say of each job which all-reduces take most time beyond their share of the bytes."""
    frame = analysis.mpi_message_sizes(traces, routine="MPI_Allreduce")
    names = ["calls", "time_s", "bytes"]
    said = []
    for job, rows in frame.groupby("job", sort=True):
        by_size = rows.groupby(["size_lo", "size_hi"])[names].sum()
        part = by_size / by_size.sum().where(by_size.sum() > 0, 1)
        found = part[(part["time_s"] >= _MUCH_TIME) & (part["time_s"] >= _OF_BYTES * part["bytes"])]
        if not len(found):
            continue
        most = found.loc[[(found["time_s"] - found["bytes"]).idxmax()]].reset_index().iloc[0]
        text = (
            f"Allreduce of {size_range(int(most['size_lo']), int(most['size_hi']))}:"
            f" {share(most['calls'])} of calls, {share(most['time_s'])} of Allreduce time,"
            f" {_fine(most['bytes'])} of bytes."
        )
        said.append((str(job), text))
    return said


def _fine(part: float) -> str:
    """Return a share to one digit where it is small: that it is tiny is what matters."""
    if not 0 < part < 0.01:
        return share(part)
    percent = part * 100
    digits = max(0, -int(np.floor(np.log10(percent))))
    return f"{percent:.{digits}f}\u2009%"

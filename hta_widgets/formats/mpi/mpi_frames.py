"""What panels show of MPI profiles: the analyses' rows, put together over ranks.

Profiles are totals of a run, so windows do not apply. Ranks of a selection say whose tables of
routines count; the table of all ranks is always whole, as one of it alone compares nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.stragglers import mpi_stragglers
from hta_widgets.formats.byteps.byteps_frames import of_format
from hta_widgets.panels.columns import taken
from hta_widgets.trace.query import read_clauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

__all__ = ["MPI_MAKERS", "by_routine", "by_size", "keys_of_ranks", "with_stragglers"]

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


MPI_MAKERS: dict[str, Any] = {
    "mpi_ranks": _ranks,
    "mpi_sizes": _sizes,
    "mpi_messages": _sizes,
    "mpi_routines": _routines,
    "mpi_routine_table": _routines,
    "mpi_hosts": _hosts,
}

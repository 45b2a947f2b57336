"""MPI's ranks by their share of communication: who waits, and for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats import duration, share

from .canvas import blank, sentences
from .frames import draws_panel, require
from .inks import stacked
from .rows import Column, Tooltip, rows_chart, time_ticks
from .theme import Theme, theme_of

__all__ = ["mpi_ranks"]

_RANK = ("job", "rank", "host", "comm_s", "noncomm_s", "elapsed_s", "comm_share")


@draws_panel("mpi_ranks")
def mpi_ranks(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Time in MPI, by rank",
) -> Any:
    """Draw each rank's elapsed time as compute and communication, the least communication last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_ranks`, or a dashboard's panel of that name.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A bar a rank, sorted by the share of communication, hosts together where there are several:
        the host whose ranks communicate most first. For whom the others wait is marked: of traces
        as a dashboard judges, of a frame where its column ``is_straggler`` says so.

    Examples
    --------
    >>> charts.mpi_ranks(traces)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "mpi_ranks", *_RANK)
    known = frame[frame["comm_s"].notna() & frame["elapsed_s"].notna()]
    if known.empty:
        return blank(frame, title, colors, width)
    data = _sorted(known)
    data["row"] = np.arange(len(data))
    late = data.get("is_straggler", pd.Series(False, data.index)).to_numpy(bool)
    compute, comm = data["noncomm_s"] * 1e9, data["comm_s"] * 1e9
    others, own = np.where(late, 0, comm), np.where(late, comm, 0)
    marks, ends = stacked(
        data,
        [
            ("compute", "outside of MPI", compute),
            ("communication", "in MPI", others),
            ("late", "in MPI: waited for", own),
        ],
        colors,
    )
    data["compute_text"] = [duration(each) for each in compute]
    data["comm_text"] = [duration(each) for each in comm]
    data["elapsed_text"] = [duration(each * 1e9) for each in data["elapsed_s"]]
    data["share_text"] = [share(each) for each in data["comm_share"]]
    jobs = data["job"].nunique()
    return rows_chart(
        data,
        _rank_names(data, jobs),
        marks,
        x_end=max(ends) * 1.01 or 1.0,
        title=title,
        subtitle=sentences(
            "elapsed time; outside of MPI is at most what was computed",
            _said(data, late),
        ),
        theme=colors,
        width=width,
        head="rank",
        ticks=time_ticks(max(ends)),
        columns=[
            Column("in MPI", list(data["share_text"])),
            Column("elapsed", list(data["elapsed_text"]), 420),
        ],
        tooltip=Tooltip(
            "rank @{rank} · @{host}",
            [
                ("outside of MPI", "@{compute_text}"),
                ("in MPI", "@{comm_text} · @{share_text}"),
                ("elapsed", "@{elapsed_text}"),
            ],
        ),
    )


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    data = frame.reset_index(drop=True)
    by_host = data.groupby(["job", "host"])["comm_share"].transform("mean")
    order = np.lexsort((data["rank"], -data["comm_share"], data["host"], -by_host, data["job"]))
    return data.iloc[order].reset_index(drop=True)


def _rank_names(data: pd.DataFrame, jobs: int) -> list[str]:
    hosts = data.groupby("job")["host"].nunique().max() > 1
    return [
        " · ".join(
            part
            for part in (
                str(job) if jobs > 1 else "",
                str(host) if hosts else "",
                f"rank {rank}",
            )
            if part
        )
        for job, host, rank in zip(data["job"], data["host"], data["rank"], strict=True)
    ]


def _said(data: pd.DataFrame, late: Any) -> str:
    words = []
    for job, rank in zip(data["job"][late], data["rank"][late], strict=True):
        others = int((data["job"] == job).sum()) - 1
        words.append(f"rank {rank} has the least time in MPI: the other {others} wait for it")
    return "; ".join(words)

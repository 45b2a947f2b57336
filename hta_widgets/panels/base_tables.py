"""What a page is given of BytePS and MPI files, so that it counts by itself what is selected.

The rows of these analyses are few next to events: a page holds them once, live and saved alike,
and adds them up by the analyses' definitions (``js/src/dash/by_format``). Keys are text: they have
64 bits, which JavaScript's numbers have not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import worker_rows
from hta_widgets.formats.byteps.byteps_requests import requests_of

from hta_widgets.formats.byteps.byteps_frames import BYTEPS_MAKERS
from hta_widgets.formats.mpi.mpi_frames import MPI_MAKERS
from hta_widgets.panels.reply import as_json

__all__ = ["MOST_ROWS", "base_tables"]

#: Of more rows than this a page is given none: the kernel answers then.
MOST_ROWS = 100_000


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the rows that a page counts with, by name; None where there are too many.

    Parameters
    ----------
    traces : TraceSet

    Returns
    -------
    dict
        JSON values: each table as ``{rows, columns, attrs}``.
    """
    formats = set(traces.formats)
    tables: dict[str, Any] = {}
    if formats & {"byteps", "byteps-server"}:
        tables["files"] = as_json(_files(traces))
    if "byteps" in formats:
        gradients = analysis.byteps_gradients(traces)
        names = ["rank", "tensor", "start_ns", "total_ns", "busy_ns", "queue_ns", "tail_ns"]
        kept = gradients[[*names, "critical"]]
        kept.attrs = {key: gradients.attrs[key] for key in ("note",) if key in gradients.attrs}
        tables["gradients"] = _some(kept)
        tables["stages"] = _some(_stages(traces))
    if "byteps-server" in formats:
        tables["requests"] = _some(_requests(traces))
    if {"byteps", "byteps-server"} <= formats:
        tables["byteps_clock"] = as_json(BYTEPS_MAKERS["byteps_clock"](traces, Selection(), None))
    if formats & {"mpi-profile", "mpi-trace"}:
        tables["routines"], tables["sizes"] = _mpi(traces)
        for name in ("mpi_ranks", "mpi_hosts"):
            tables[name] = as_json(MPI_MAKERS[name](traces, Selection(), None))
    return tables


def _some(frame: pd.DataFrame) -> Any:
    return as_json(frame) if len(frame) <= MOST_ROWS else None


def _files(traces: TraceSet) -> pd.DataFrame:
    """Return what the ranks of the set are."""
    of = list(traces.values())
    return pd.DataFrame(
        {
            "rank": [trace.rank for trace in of],
            "job": pd.Series([trace.job or "" for trace in of], dtype=object),
            "format": pd.Series([trace.format for trace in of], dtype=object),
            "worker": [trace.worker for trace in of],
            "local_rank": [trace.local_rank for trace in of],
            "server": [trace.server for trace in of],
            "root": [trace.format == "byteps" and worker_rows(trace).is_root for trace in of],
        }
    )


def _stages(traces: TraceSet) -> pd.DataFrame:
    """Return every stage of every partition; stages in the order of `byteps_stages`."""
    order = list(analysis.byteps_stages(traces)["stage"].cat.categories)
    frames = []
    for trace in traces.values():
        if trace.format != "byteps":
            continue
        rows = worker_rows(trace)
        parts = rows.parts
        frames.append(
            pd.DataFrame(
                {
                    "rank": trace.rank,
                    "stage": np.array([order.index(name) for name in rows.stages])[parts.stage],
                    "key": parts.key,
                    "step": parts.step,
                    "start_ns": parts.start_ns + trace.shift_ns,
                    "dur_ns": parts.dur_ns,
                    "queue_ns": np.where(parts.complete, parts.queue_ns, 0),
                }
            )
        )
    found = pd.concat(frames, ignore_index=True)
    # They only tell partitions apart.
    found["key"] = np.unique(found["key"], return_inverse=True)[1]
    found.attrs = {"stages": order}
    return found


def _requests(traces: TraceSet) -> pd.DataFrame:
    """Return every request, those without an end too: of these ``dur_ns`` is -1."""
    known = analysis.byteps_requests(traces)
    waits = known.groupby(["rank", "id"])["wait_ns"].first()
    names = known.groupby(["rank", "key"])[["tensor", "partition"]].first()
    frames: list[pd.DataFrame] = []
    keys: list[list[Any]] = []
    for trace in traces.values():
        if trace.format != "byteps-server":
            continue
        requests = requests_of(trace)
        unique, at = np.unique(requests.key, return_inverse=True)
        meant = [
            names.loc[(trace.rank, key)] if (trace.rank, key) in names.index else None
            for key in unique
        ]
        found = pd.DataFrame(
            {
                "rank": trace.rank,
                "key": at.reshape(-1) + len(keys),
                "push": requests.push.astype(np.int64),
                "node": requests.node,
                "iteration": requests.iteration,
                "start_ns": requests.start_ns + trace.shift_ns,
                "dur_ns": np.where(requests.closed, requests.end_ns - requests.start_ns, -1),
            }
        )
        place = pd.MultiIndex.from_arrays([found["rank"], requests.row])
        found["wait_ns"] = waits.reindex(place).fillna(0).astype(np.int64).to_numpy()
        frames.append(found)
        keys += [
            [
                str(key),
                "" if mean is None else str(mean["tensor"]),
                -1 if mean is None else int(mean["partition"]),
            ]
            for key, mean in zip(unique.tolist(), meant, strict=True)
        ]
    whole = pd.concat(frames, ignore_index=True)
    whole.attrs = {"keys": keys}
    return whole


def _mpi(traces: TraceSet) -> tuple[Any, Any]:
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
    return _some(both), _some(binned)

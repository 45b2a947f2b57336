"""Which ranks of a set are BytePS workers and servers, and what is selected of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import WorkerRows
from hta_widgets.formats.byteps.byteps import worker_rows
from hta_widgets.formats.byteps.byteps_requests import Requests
from hta_widgets.formats.byteps.byteps_requests import requests_of

from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import parts

__all__ = ["CONSISTENT_SHARE", "server_parts", "told_jobs", "worker_parts"]

Bools = npt.NDArray[np.bool_]

#: Who is last this often is late by more than chance.
CONSISTENT_SHARE = 0.8
NO_WORKERS = "no BytePS worker traces (comm.json) among what was loaded"
NO_SERVERS = "no BytePS server profiles (server_profile.json) among what was loaded"


def worker_parts(
    traces: TraceSet,
    selection: Selection | str | None,
    window: tuple[int, int] | None,
    ranks: Iterable[int] | None,
) -> list[tuple[Part, WorkerRows, Bools]]:
    """Return the workers' GPUs, their rows, and which events are selected, by id."""
    found = []
    for part in parts(traces, selection, window, ranks):
        if part.trace.format == "byteps":
            chosen = np.zeros(len(part.trace), np.bool_)
            chosen[part.rows] = True
            found.append((part, worker_rows(part.trace), chosen))
    return found


def server_parts(
    traces: TraceSet,
    selection: Selection | str | None,
    window: tuple[int, int] | None,
    ranks: Iterable[int] | None,
) -> list[tuple[Part, Requests, Bools]]:
    """Return the servers, their requests, and which of these are selected.

    Requests that were never answered are no events: they count where nothing is selected by name,
    kind or id, and where they begin in the window.
    """
    found = []
    for part in parts(traces, selection, window, ranks):
        if part.trace.format != "byteps-server":
            continue
        requests = requests_of(part.trace)
        chosen = np.zeros(len(part.trace) + 1, np.bool_)
        chosen[part.rows] = True
        picked = chosen[requests.row]  # row -1 is the last entry: not chosen
        if len(part.rows) == len(part.trace) or (part.low, part.high) != (None, None):
            opened = ~requests.closed
            if part.low is not None:
                opened &= requests.start_ns >= part.low
            if part.high is not None:
                opened &= requests.start_ns < part.high
            picked |= opened
        found.append((part, requests, picked))
    return found


def told_jobs(found: Iterable[Part]) -> list[str]:
    """Return the jobs of some ranks, in order; nothing for those that no folder names."""
    return sorted({part.trace.job or "" for part in found})

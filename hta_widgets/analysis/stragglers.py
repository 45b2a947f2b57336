"""Find ranks that keep the others waiting, how much that costs, and its cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.model import KINDS, Selection, Trace, TraceSet
from hta_widgets.model.intervals import union
from hta_widgets.model.mpi_jobs import mpi_jobs

from .collectives import Clock
from .imposed_waits import (
    ImposedWaits,
    companions,
    imposed_waits,
    mean_share,
    median_arrival,
    step_shares,
    step_time,
)
from .lateness import PARTS, costly_share
from .mpi_imbalance import mpi_imbalance
from .over_ranks import over_ranks
from .process_groups import loaded_ranks
from .results import result
from .scope import narrowed

__all__ = [
    "Judgement",
    "LastRank",
    "judgement",
    "mpi_stragglers",
    "stragglers",
    "stragglers_by_step",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# A straggler has to cost more than `costly_share`, and to meet these limits.
_STEADY = 0.8  # of what is costly, in the median step
_STAND_OUT = 2.0  # times the typical other rank
_STALL = 0.25  # of a step: one such step is more than noise
_WORTH_NAMING = 0.02  # of the others' time, on average, where only some steps are slow
_LEAST_COLLECTIVES = 4  # ranks with fewer are not judged

# Limits for naming a rank that is not a straggler.
_NEARLY_ALWAYS = 0.9  # of its collectives it is last at
_WORTH_SAYING = 0.01  # of the run, which the others wait for it on average

_CAUSES = {
    "waiting": "waiting elsewhere",
    "data_loading": "data loading",
    "host": "launch-bound host",
    "compute": "slower kernels",
}
_EXTRA_WORK = "extra work"
_HOST_WORK = "host work"


def stragglers(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how often each rank comes last to collectives, what that costs, and its cause.

    The rank that arrives last at a matched collective (`collectives`) makes the others wait. Some
    rank always does; a straggler does so more than by chance, and at a cost that matters.
    The measure is time lost: waits of the others in which they compute nothing, as a share of
    their time, per step. A rank is a consistent straggler if it costs them 5 % on average over
    many steps, nearly as much in the median step, and twice what the typical rank does. With few
    steps and ranks the limit is higher, 5 % times 1 + 1 / steps + 12 / (ranks · steps²), and half
    as much again for two ranks, each compared with the other alone. A rank is an occasional
    straggler if it stalls them for a quarter of a step's time in some steps. Lateness that a rank
    inherits by waiting in another group, such as for its neighbour in tensor parallelism, is not
    counted against it. A rank is never a straggler if a file is missing from one of its groups,
    because the late rank may be the missing one, or if it has fewer than four collectives.

    The cause is what took longer than on the other ranks (median) between the previous collective
    of the group and the arrival: kernels, which are slower or more; waiting in other collectives;
    the device idle while the host loads data; the device idle otherwise, behind a slow host.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        Whose times. Default: those of the set, or the fitted ones where ends of collectives
        disagree on the recorded clock by clearly more than on the fitted one.
    selection : Selection, optional
        Only collectives of which an event is selected count.
    window : (start_ns, end_ns), optional
        Narrows the selection in time.
    ranks : iterable of int, optional
        Only these ranks are returned; whom they make wait is counted over all.

    Returns
    -------
    DataFrame
        One row per rank. ``rank`` (int64); ``host`` (str); ``collectives`` (int64), how many
        matched ones it takes part in; ``score`` (float64), the share of them at which it arrives
        last, alone; ``late_ns_mean`` (float64), its arrival less the median arrival, on average;
        ``imposed_wait_ns`` (int64), the others' waits where it is last, added up (of ranks that
        come last at once the lowest is charged); ``wait_ns``
        (int64), its own waits; ``lost_ns`` (int64), the part of the imposed waits in which the
        others compute nothing and that the rank did not inherit; ``lost_share`` (float64), what
        the others lose of their time, averaged over steps; ``is_straggler`` (bool); ``pattern``
        (``"consistent"``, ``"occasional"`` or ``""``); ``cause`` (``"slower kernels"``, ``"extra
        work"``, ``"launch-bound host"``, ``"host work"`` where no rank has a
        device, ``"data loading"``, ``"waiting elsewhere"`` or ``""``);
        ``late_compute_ns, late_waiting_ns, late_data_loading_ns, late_host_ns`` (int64), where
        the rank is last: how much longer each took than on the others.

        Ranks that are late and inherited it are no stragglers and have the cause ``"waiting
        elsewhere"``. ``.attrs["clock"]`` says whose times were used, ``.attrs["matched"]`` as in
        `collectives`.

    Notes
    -----
    HTA's method with the same aim ranks candidates by the start times of the longest kernels
    called ``ncclKernel…`` and always returns some.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> found = stragglers(traces)  # doctest: +SKIP
    >>> found[found.is_straggler]  # doctest: +SKIP
    """
    chosen = narrowed(traces, selection, window, ranks)
    work = imposed_waits(traces, chosen, clock)
    match, count = work.match, len(traces)
    last, trace = work.last, match.trace
    taken = np.bincount(trace[work.kept], minlength=count)
    imposed, lost = np.zeros((2, count), dtype=np.int64)
    np.add.at(imposed, trace[last], work.imposed_ns)
    np.add.at(lost, trace[last], work.lost_ns)
    middle = median_arrival(match, work.times)
    late = np.bincount(
        trace[work.kept], (work.times.arrival_ns - middle)[work.kept], minlength=count
    )
    own = np.zeros(count, dtype=np.int64)
    np.add.at(own, trace[work.kept], work.times.wait_ns[work.kept])
    excess = {part: _excess(work, part, count) for part in PARTS}
    shares, raw = step_shares(work, count)
    lacking = np.array(match.lacking, dtype=bool)
    pattern, likely = _patterns(shares), _patterns(shares, sure=False)
    inherited = (likely == "") & (_patterns(raw, sure=False) != "")
    # Who comes last of those loaded may have waited for one that is not.
    unsure = lacking | (taken < _LEAST_COLLECTIVES)
    pattern[unsure] = ""
    cause = np.where(inherited & ~unsure, _CAUSES["waiting"], "").astype(object)
    named = np.flatnonzero(pattern != "")
    cause[named] = _causes(traces, excess, named)
    shown = np.flatnonzero([chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks])
    columns = {
        "rank": np.array(traces.ranks, dtype=np.int64),
        "host": np.array([header.host for header in match.headers], dtype=object),
        "collectives": taken,
        "score": np.bincount(trace[last], work.alone, minlength=count) / np.maximum(taken, 1),
        "late_ns_mean": late / np.maximum(taken, 1),
        "imposed_wait_ns": imposed,
        "wait_ns": own,
        "lost_ns": lost,
        "lost_share": np.nan_to_num(mean_share(shares)),
        "is_straggler": pattern != "",
        "pattern": pattern,
        "cause": cause,
        **{f"late_{part}_ns": np.rint(values).astype(np.int64) for part, values in excess.items()},
    }
    if not len(match):
        shown = shown[:0]
    return result(
        {name: values[shown] for name, values in columns.items()},
        matched=work.matched,
        note=_note(work, count),
        clock=work.clock,
    )


def stragglers_by_step(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return what `stragglers` adds up, step by step.

    Parameters and definitions as in `stragglers`. Where the trace has no steps, the run is cut
    into as many stretches as the rarest of its collectives occurs.

    Returns
    -------
    DataFrame
        One row per rank and step with matched collectives. ``rank`` (int64); ``step`` (int64), n
        of ``ProfilerStep#n``, or the stretch's number where there are none (``.attrs["steps"]``
        says which); ``collectives`` (int64); ``score`` (float64); ``imposed_wait_ns`` and
        ``lost_ns`` (int64); ``lost_share`` (float64).

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> steps = stragglers_by_step(traces)  # doctest: +SKIP
    >>> steps.pivot(index="step", columns="rank", values="lost_share")  # doctest: +SKIP
    """
    chosen = narrowed(traces, selection, window, ranks)
    work = imposed_waits(traces, chosen, clock)
    match, count = work.match, len(traces)
    numbers, column = np.unique(work.step, return_inverse=True)
    size = (len(numbers), count)
    taken, last, imposed, lost = np.zeros((4, *size), dtype=np.int64)
    np.add.at(taken, (column[work.kept], match.trace[work.kept]), 1)
    at_last = (column[work.last], match.trace[work.last])
    np.add.at(last, at_last, work.alone)
    np.add.at(imposed, at_last, work.imposed_ns)
    np.add.at(lost, at_last, work.lost_ns)
    step_ns = step_time(work, numbers, column)
    share = lost / (step_ns * np.maximum(companions(match, count), 1))
    wanted = np.array(
        [chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks], dtype=bool
    )
    rank, step = np.nonzero((taken > 0).T & wanted.reshape(-1, 1))
    return result(
        {
            "rank": np.array(traces.ranks, dtype=np.int64)[rank],
            "step": numbers[step],
            "collectives": taken[step, rank],
            "score": last[step, rank] / np.maximum(taken[step, rank], 1),
            "imposed_wait_ns": imposed[step, rank],
            "lost_ns": lost[step, rank],
            "lost_share": share[step, rank],
        },
        matched=work.matched,
        note=_note(work, count),
        clock=work.clock,
        steps="ProfilerStep" if work.stated_steps else "stretches",
    )


# --- the judgement of a whole job -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastRank:
    """A rank that arrives last at nearly all of its collectives and is no straggler.

    Attributes
    ----------
    rank : int
    wait_ns : float
        How long each of the others waits for it, on average; moments of several waits once.
    hidden_share : float
        How much of that they compute in.
    cause : str
        As in `stragglers`; empty where files of ranks are missing.
    """

    rank: int
    wait_ns: float
    hidden_share: float
    cause: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The late ranks of a job; every page, panel and message reads them from here.

    Attributes
    ----------
    stragglers : list of int
        Ranks that the others wait for, most costly first: `stragglers` of the whole job, and
        `mpi_stragglers` for ranks that have only profiles.
    causes : dict of int to str
        Cause of each, empty if the events do not show one.
    last : list of LastRank
        Ranks that are last at 90 % of their collectives or more, and for which the others wait
        1 % of the run or more. They are stated as facts, not as causes.
    loaded, of : int
        Number of ranks with files, and number of ranks of the job as stated in the files.
    """

    stragglers: list[int]
    causes: dict[int, str]
    last: list[LastRank]
    loaded: int
    of: int


def judgement(traces: TraceSet) -> Judgement:
    """Return the late ranks of the whole job, whatever part of it is shown.

    Examples
    --------
    >>> judgement(hw.load("runs/job")).stragglers  # doctest: +SKIP
    [5]
    """
    found = stragglers(traces)
    work = imposed_waits(traces, Selection(), None)
    missing = work.match.missing_ranks
    late = found[found["is_straggler"]].sort_values("lost_ns", ascending=False, kind="stable")
    ranks = [int(rank) for rank in late["rank"]]
    causes = dict(zip(ranks, late["cause"].astype(str), strict=True))
    named = mpi_stragglers(traces)
    for job in mpi_jobs(traces.values()) if named else ():
        # A rank's time line and its profile are one rank: the line is what a page shows.
        files = {one.stated_rank: one.rank for one in job.profiles + job.lines}
        late_files = [key for rank, key in files.items() if (job.name, rank) in named]
        ranks += [key for key in late_files if key not in causes]
    loaded = len(loaded_ranks(traces.values()))
    return Judgement(ranks, causes, _last(traces, work, found), loaded, loaded + missing)


def mpi_stragglers(traces: TraceSet) -> set[tuple[str, int]]:
    """Return job and MPI rank of the ranks that the others wait for.

    These are the ranks of a job's time line that `stragglers` names; if it names none, those that
    `mpi_imbalance` names by their time in MPI.
    """
    jobs = mpi_jobs(traces.values())
    if not jobs:
        return set()
    late = stragglers(traces)
    keys = set(late["rank"][late["is_straggler"]].tolist())
    uneven = mpi_imbalance(traces)
    found = set()
    for name, rank in uneven.loc[uneven["is_straggler"], ["job", "straggler_rank"]].to_numpy():
        found.add((str(name), int(rank)))
    for job in jobs:
        named = {(job.name, int(o.stated_rank or 0)) for o in job.lines if o.rank in keys}
        if named:
            found = {one for one in found if one[0] != job.name} | named
    return found


def _last(traces: TraceSet, work: ImposedWaits, found: pd.DataFrame) -> list[LastRank]:
    """Return the ranks that are last at nearly all collectives and are not stragglers."""
    match = work.match
    start_ns, end_ns = traces.span_ns
    run_ns = max(end_ns - start_ns, 1)
    others = np.maximum(companions(match, len(traces)), 1)
    last = []
    for place, row in enumerate(found.to_dict("records")):
        always = row["collectives"] >= _LEAST_COLLECTIVES and row["score"] >= _NEARLY_ALWAYS
        if row["is_straggler"] or not always:
            continue
        mine = match.trace[work.last] == place
        wait_ns = _waited_at(work, match.collective[work.last[mine]]) / int(others[place])
        if wait_ns < _WORTH_SAYING * run_ns:
            continue
        cause = str(row["cause"])
        if not cause and not match.lacking[place]:
            excess = {part: found[f"late_{part}_ns"].to_numpy(float) for part in PARTS}
            (cause,) = _causes(traces, excess, np.array([place]))
        imposed, lost = (int(values[mine].sum()) for values in (work.imposed_ns, work.raw_ns))
        last.append(LastRank(int(row["rank"]), wait_ns, 1 - lost / max(imposed, 1), cause))
    return sorted(last, key=lambda one: -one.wait_ns)


def _waited_at(work: ImposedWaits, collectives: Ints) -> int:
    """Add up over ranks how long each waits at these collectives."""
    waited = 0
    for entries in work.match.of_trace:
        mine = entries[np.isin(work.match.collective[entries], collectives)]
        start = work.times.arrival_ns[mine]
        covered = union(start, start + work.times.wait_ns[mine])
        waited += int((covered.end - covered.start).sum())
    return waited


# --- whether a rank is one ------------------------------------------------------------------------


def _patterns(shares: Floats, *, sure: bool = True) -> npt.NDArray[np.object_]:
    """Return for each rank whether it is a straggler: consistent, occasional, or "" for none.

    `sure`: of one or two steps so much is asked that it is hardly by chance.
    """
    count = shares.shape[1]
    found = np.full(count, "", dtype=object)
    mean = mean_share(shares)
    for rank in range(count):
        own = shares[~np.isnan(shares[:, rank]), rank]
        others = np.delete(mean, rank)
        others = others[~np.isnan(others)]
        if not len(own) or not len(others) or mean[rank] < _STAND_OUT * np.median(others):
            continue
        bar = costly_share(len(own), len(others) + 1, sure=sure)
        if mean[rank] >= bar and np.median(own) >= _STEADY * bar:
            found[rank] = "consistent"
        elif mean[rank] >= _WORTH_NAMING and own.max() >= _STALL:
            found[rank] = "occasional"
    return found


def _excess(work: ImposedWaits, part: str, count: int) -> Floats:
    """Add up how much longer a part took where the rank came last."""
    values = np.nan_to_num(work.late.excess_ns[part][work.last])
    found = np.zeros(count)
    np.add.at(found, work.match.trace[work.last], values)
    return found


def _causes(traces: TraceSet, excess: Mapping[str, Floats], late: Ints) -> list[str]:
    """Return the cause of each late rank: what took longer there than on the others."""
    if not len(late):
        return []
    found_of = np.array(list(over_ranks(traces, _kernels)), dtype=np.float64).reshape(-1, 3)
    kernels, mean_ns, on_device = found_of[:, 0], found_of[:, 1], bool(found_of[:, 2].any())
    found = []
    for rank in late.tolist():
        part = max(PARTS, key=lambda name: excess[name][rank])
        cause = _CAUSES[part] if on_device or part != "host" else _HOST_WORK
        if part == "compute":
            others = np.delete(np.arange(len(kernels)), rank)
            more = kernels[rank] / max(float(np.median(kernels[others])), 1e-12)
            longer = mean_ns[rank] / max(float(np.median(mean_ns[others])), 1.0)
            if more > max(longer, 1.0):
                cause = _EXTRA_WORK
        found.append(cause)
    return found


def _kernels(trace: Trace) -> tuple[float, float, bool]:
    """Return a rank's compute kernels per time, their mean time, and whether it has a device."""
    table = trace.table
    on_device = table.stream >= 0
    compute = (table.kind == KINDS.index("compute")) & on_device
    number = int(compute.sum())
    span = max(trace.end_ns - trace.start_ns, 1)
    mean = float(table.dur_ns[compute].sum()) / max(number, 1)
    return number / span, mean, bool(on_device.any())


def _note(work: ImposedWaits, count: int) -> str:
    if count < 2:
        return "one rank keeps no other waiting: load several"
    if not len(work.match):
        return "no collective is found on two ranks, so none can be seen to wait for another"
    if not len(work.kept):
        return (
            "the selection or window holds none of the collectives that are on two ranks, so"
            " nothing is told of who is late"
        )
    parts = []
    if work.match.missing_ranks:
        parts.append(
            f"files of {work.match.missing_ranks} ranks are missing, which may be later than"
            " those here"
        )
    if work.matched["unmatched"]:
        parts.append(f"{work.matched['unmatched']} events have no partner and do not count")
    return "; ".join(parts)

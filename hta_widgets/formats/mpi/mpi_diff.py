"""Two MPI runs side by side: where the time goes, routines, ranks, imbalance, waiting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from hta_widgets.analysis.collectives import collectives
from hta_widgets.analysis.scope import result
from hta_widgets.analysis.stragglers import mpi_stragglers
from hta_widgets.diff.beside import beside, of_sides
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.statistics import mean_parts
from hta_widgets.formats.mpi.ranks import mpi_imbalance, mpi_ranks
from hta_widgets.formats.mpi.routines import (
    MpiRank,
    mpi_compare,
    mpi_negotiation,
    mpi_scope,
)

__all__ = [
    "mpi_imbalances",
    "mpi_negotiations",
    "mpi_rank_times",
    "mpi_routine_times",
    "mpi_size_times",
    "mpi_times",
    "mpi_waits",
]

#: What is not spent in a routine.
OUTSIDE = "outside of MPI"


def mpi_times(diff: Comparison) -> pd.DataFrame:
    """Return where the difference of the elapsed times comes from: routines, and the rest.

    Parameters
    ----------
    diff : Comparison
        Of profiles or time lines.

    Returns
    -------
    DataFrame
        One row per routine and one for ``"outside of MPI"``, by the size of the difference:
        ``routine`` (str); ``before_ns, after_ns, diff_ns`` (int64): means over the ranks that have
        tables of routines, rounded so that they add up to the mean elapsed time;
        ``change_share`` (float64). ``.attrs["before_ns"], .attrs["after_ns"]`` are the elapsed
        times. Profiles print times to the millisecond.

    Examples
    --------
    >>> bars = mpi_times(diff)  # doctest: +SKIP
    >>> bars["diff_ns"].sum() == bars.attrs["after_ns"] - bars.attrs["before_ns"]  # doctest: +SKIP
    True
    """
    sides = [_times(side) for side in diff.sides]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    before, after = (
        np.array([side.get(name, 0) for name in names], dtype=np.int64) for side in sides
    )
    change = after - before
    order = np.array(
        sorted(range(len(names)), key=lambda k: (-abs(int(change[k])), names[k])), dtype=np.intp
    )
    base = before[order].astype(np.float64)
    return result(
        {
            "routine": pd.array([names[k] for k in order.tolist()], dtype="str"),
            "before_ns": before[order],
            "after_ns": after[order],
            "diff_ns": change[order],
            "change_share": change[order] / np.where(base > 0, base, np.nan),
        },
        matched={"routines": len(names)},
        note="" if names else "no ranks with tables of routines",
        before_ns=int(before.sum()),
        after_ns=int(after.sum()),
    )


def _times(side: RunSide) -> dict[str, int]:
    ranks: list[MpiRank] = mpi_scope(side.traces, ranks=side.table_ranks).ranks
    sums: dict[str, int] = {}
    for rank in ranks:
        inside = 0
        for row in rank.routines:
            time = round(row.time_s * 1e9)
            inside += time
            sums[row.routine] = sums.get(row.routine, 0) + time
        # Calls of several threads may take longer than the rank.
        sums[OUTSIDE] = sums.get(OUTSIDE, 0) + max(round(rank.elapsed_s * 1e9) - inside, 0)
    if not ranks:
        return {}
    means = mean_parts(np.array(list(sums.values()), dtype=np.int64), len(ranks))
    return dict(zip(sums, means.tolist(), strict=True))


def mpi_routine_times(diff: Comparison) -> pd.DataFrame:
    """Return calls, bytes and time of each routine: `mpi_compare`, sizes together."""
    return _compared(diff, by_size=False)


def mpi_size_times(diff: Comparison) -> pd.DataFrame:
    """Return calls, bytes and time of each routine and bin of message sizes: `mpi_compare`."""
    return _compared(diff, by_size=True)


def _compared(diff: Comparison, *, by_size: bool) -> pd.DataFrame:
    before, after = diff.sides
    return mpi_compare(
        before.traces,
        after.traces,
        by_size=by_size,
        before_ranks=before.table_ranks,
        after_ranks=after.table_ranks,
    )


def mpi_rank_times(diff: Comparison) -> pd.DataFrame:
    """Return what each rank spent in and outside of MPI in both runs.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per rank: ``rank`` (int64; where no rank is on both sides, one row per pair of ranks
        that `compare` made, called ``"0 → 4"``, and of ranks without a partner their number as
        text); of ``comm_s``, ``noncomm_s``, ``elapsed_s``, ``comm_share`` and ``rss_mib``:
        ``before_…, after_…, diff_…`` (float64); ``before_host, after_host``. Of several jobs on a
        side the last that has the rank; the note says so.

    Examples
    --------
    >>> mpi_rank_times(diff)[["rank", "diff_noncomm_s"]]  # doctest: +SKIP
    """
    sides, note = _each(diff, mpi_ranks, "rank")
    sides = _in_pairs(diff, sides)
    measures = ["comm_s", "noncomm_s", "elapsed_s", "comm_share", "rss_mib"]
    return beside(sides, ["rank"], measures, ["host"], note=note)


def mpi_imbalances(diff: Comparison) -> pd.DataFrame:
    """Return how uneven the ranks are in both runs, and for whom the others wait.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row: of ``ranks``, ``comm_mean_s``, ``comm_min_s``, ``comm_max_s``, ``imbalance_pct``,
        ``noncomm_mean_s``, ``noncomm_ratio`` and ``straggler_z`` of
        `hta_widgets.analysis.mpi_imbalance`: ``before_…, after_…, diff_…`` (float64); of
        ``straggler_rank``, ``is_straggler`` and ``comm_min_rank``: ``before_…, after_…``;
        ``before_late`` and ``after_late``: tuples of the ranks that the others wait for, as the
        run's own page names them, of which ``straggler_rank`` is one.

    Examples
    --------
    >>> mpi_imbalances(diff)[["before_imbalance_pct", "after_imbalance_pct"]]  # doctest: +SKIP
    """
    sides, note = _each(diff, mpi_imbalance, "job")
    sides = [_judged(side, table.tail(1)) for side, table in zip(diff.sides, sides, strict=True)]
    measures = [
        "ranks", "comm_mean_s", "comm_min_s", "comm_max_s", "imbalance_pct", "noncomm_mean_s",
        "noncomm_ratio", "straggler_z",
    ]  # fmt: skip
    facts = ["straggler_rank", "is_straggler", "late", "comm_min_rank"]
    found = beside(sides, ["job"], measures, facts, note=note)
    attrs = found.attrs
    found = found.drop(columns="job")
    found.attrs = attrs
    return found


def _judged(side: RunSide, table: pd.DataFrame) -> pd.DataFrame:
    """Return the row of a job with who is late in it by events where there are, else by totals."""
    named = mpi_stragglers(side.traces)
    late = [sorted(rank for job, rank in named if job == own) for own in table["job"]]
    first = [
        candidate if candidate in ranks or not ranks else ranks[0]
        for candidate, ranks in zip(table["straggler_rank"].tolist(), late, strict=True)
    ]
    return table.assign(
        job="",
        straggler_rank=first,
        is_straggler=[bool(ranks) for ranks in late],
        late=pd.Series([tuple(ranks) for ranks in late], table.index, dtype=object),
    )


def mpi_negotiations(diff: Comparison) -> pd.DataFrame:
    """Return what messages of a few bytes, with which Horovod negotiates, cost in both runs.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per rank: ``rank``, as in `mpi_rank_times`; of ``calls``, ``time_s``,
        ``share_of_calls``, ``share_of_time`` and ``share_of_bytes`` of
        `hta_widgets.analysis.mpi_negotiation`: ``before_…, after_…, diff_…`` (float64).

    Examples
    --------
    >>> mpi_negotiations(diff)[["rank", "diff_time_s"]]  # doctest: +SKIP
    """
    sides, note = _each(diff, mpi_negotiation, "rank")
    sides = _in_pairs(diff, sides)
    measures = ["calls", "time_s", "share_of_calls", "share_of_time", "share_of_bytes"]
    return beside(sides, ["rank"], measures, note=note)


def mpi_waits(diff: Comparison) -> pd.DataFrame:
    """Return how long ranks wait for each other in the collectives of two time lines.

    Parameters
    ----------
    diff : Comparison
        Of time lines.

    Returns
    -------
    DataFrame
        One row per routine, by the change of waiting: ``name`` (str); per rank, means (float64):
        ``before_…, after_…, diff_…`` of ``count``, ``wait_ns`` (from the own to the last arrival)
        and ``transfer_ns`` (from then to the end).

    Examples
    --------
    >>> mpi_waits(diff)[["name", "diff_wait_ns", "diff_transfer_ns"]]  # doctest: +SKIP
    """
    sides = []
    for side in diff.sides:
        frame = collectives(side.traces, ranks=side.ranks, clock=side.waits.clock)
        frame = frame.assign(name=frame["name"].astype(str), count=1.0)
        sums = frame.groupby("name", sort=True)[["count", "wait_ns", "transfer_ns"]].sum()
        sides.append((sums / max(len(side.ranks), 1)).reset_index())
    return beside(sides, ["name"], ["count", "wait_ns", "transfer_ns"], by="wait_ns")


def _in_pairs(diff: Comparison, sides: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return rows called by the pairs of ranks that they are of, where no rank is on both sides."""
    own = [_numbers(side) for side in diff.sides]
    compared = [set(one.values()) for one in own]
    if compared[0] & compared[1]:
        return sides
    pairs = [(own[0][a], own[1][b]) for a, b in diff.rank_pairs]
    found = []
    for k, (frame, ranks) in enumerate(zip(sides, compared, strict=True)):
        named = [(pair[k], f"{pair[0]} → {pair[1]}") for pair in pairs]
        named += [(rank, str(rank)) for rank in sorted(ranks - {rank for rank, _ in named})]
        # Rank 0's file tells of ranks that are not compared, too.
        rows = {int(rank): row for row, rank in enumerate(frame["rank"].tolist())}
        named = [(rank, label) for rank, label in named if rank in rows]
        chosen = frame.iloc[[rows[rank] for rank, _ in named]]
        found.append(chosen.assign(rank=[label for _, label in named]))
    return found


def _numbers(side: RunSide) -> dict[int, int]:
    """Return the number that each rank's file states, which tables call it by."""
    parts = {**side.parts, **side.tabled}
    stated = {rank: part.trace.stated_rank for rank, part in parts.items()}
    return {rank: rank if number is None else number for rank, number in stated.items()}


def _each(
    diff: Comparison, table: Callable[..., pd.DataFrame], key: str
) -> tuple[list[pd.DataFrame], str]:
    """Return a table of both sides, one row per key, and what must be said of it."""
    found, notes = of_sides(diff, table)
    if any(len(set(frame["job"])) > 1 for frame in found):
        notes.append("of several jobs the last one is shown")
    return [frame.drop_duplicates(key, keep="last") for frame in found], "; ".join(notes)

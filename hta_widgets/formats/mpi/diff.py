"""Two MPI runs side by side: where the time goes, routines, ranks, imbalance, waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from hta_widgets.analysis.collectives import collectives
from hta_widgets.analysis.scope import result
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.findings import Finding, is_profiles
from hta_widgets.diff.statistics import mean_parts
from hta_widgets.diff.tables import beside, of_sides, rows_of
from hta_widgets.formats.mpi.ranks import mpi_imbalance, mpi_ranks, mpi_stragglers
from hta_widgets.formats.mpi.routines import (
    MpiRank,
    mpi_compare,
    mpi_negotiation,
    mpi_scope,
)
from hta_widgets.text import count, duration, duration_delta, plural, share_delta, size

#: What is not spent in a routine.
OUTSIDE = "outside of MPI"


def mpi_times(diff: Comparison) -> pd.DataFrame:
    """Return where the difference of the elapsed times comes from: routines, and the rest."""
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
    """Return what each rank spent in and outside of MPI in both runs."""
    sides, note = _each(diff, mpi_ranks, "rank")
    sides = _in_pairs(diff, sides)
    measures = ["comm_s", "noncomm_s", "elapsed_s", "comm_share", "rss_mib"]
    return beside(sides, ["rank"], measures, ["host"], note=note)


def mpi_imbalances(diff: Comparison) -> pd.DataFrame:
    """Return how uneven the ranks are in both runs, and for whom the others wait."""
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
    """Return what messages of a few bytes, with which Horovod negotiates, cost in both runs."""
    sides, note = _each(diff, mpi_negotiation, "rank")
    sides = _in_pairs(diff, sides)
    measures = ["calls", "time_s", "share_of_calls", "share_of_time", "share_of_bytes"]
    return beside(sides, ["rank"], measures, note=note)


def mpi_waits(diff: Comparison) -> pd.DataFrame:
    """Return how long ranks wait for each other in the collectives of two time lines."""
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


PROFILE_TABLES = {
    "mpi_times": mpi_times,
    "mpi_routines": mpi_routine_times,
    "mpi_message_sizes": mpi_size_times,
    "mpi_negotiation": mpi_negotiations,
    "mpi_ranks": mpi_rank_times,
    "mpi_imbalance": mpi_imbalances,
}
TIME_LINE_TABLES = PROFILE_TABLES | {"mpi_waits": mpi_waits}


# --- findings -------------------------------------------------------------------------------------

KIND_WORDS = {"communication": "time in MPI", "host": "time outside of MPI"}
KIND_LABELS = {"communication": "MPI", "cpu": "outside of MPI"}
#: Of two totals of runs, which do not show how times spread.
_RELATIVE_ALONE = 0.2
_OF_RUN = 0.01
_LEAST_NS = 20_000_000  # two of the digits that mpitrace prints of a job's ranks
#: Waiting, of which one run has little that another has not: of the longer, and of the run.
_WAIT, _WAIT_OF_RUN = 0.5, 0.05
_MOST = 6


def findings(diff: Comparison) -> Iterator[Finding]:
    """Yield changes of routines, numbers of calls, waiting, and who is waited for.

    A profile does not show how a run spreads: its times must differ by 20 % of the longer, 1 % of
    the run and 20 ms; numbers of calls are exact. Waiting in time lines must differ by half of the
    longer and 5 % of the run.
    """
    if is_profiles(diff):
        yield from _mpi_totals(diff)
    yield from _mpi_calls(diff)
    if "mpi-trace" in diff.before.formats & diff.after.formats:
        yield from _mpi_waiting(diff)
    yield from _mpi_straggler(diff)


def _mpi_totals(diff: Comparison) -> list[Finding]:
    frame = mpi_times(diff)
    if frame.empty:
        return []
    before, after = frame.attrs["before_ns"], frame.attrs["after_ns"]
    found: list[Finding] = []
    if _differs(before, after, max(before, after)):
        way = "longer" if after > before else "less"
        text = (
            f"After takes {duration(abs(after - before))} {way}: {duration(before)} → "
            f"{duration(after)}, {share_delta((after - before) / before) if before else 'new'} "
            "(mean over ranks)."
        )
        found.append(Finding("headline", text, float(after - before)))
    for row in rows_of(frame.head(_MOST)):
        if not _differs(row.before_ns, row.after_ns, max(before, after)):
            continue
        what = "Time outside of MPI" if row.routine == OUTSIDE else row.routine
        change = f", {share_delta(row.diff_ns / row.before_ns)}" if row.before_ns else ""
        text = (
            f"{what} takes {'longer' if row.diff_ns > 0 else 'less'}: {duration(row.before_ns)} → "
            f"{duration(row.after_ns)} a rank{change}."
        )
        found.append(Finding("routine", text, float(row.diff_ns)))
    return found


def _differs(before: int, after: int, run: int) -> bool:
    gap = abs(after - before)
    return gap >= max(_RELATIVE_ALONE * max(before, after), _OF_RUN * run, _LEAST_NS)


def _mpi_calls(diff: Comparison) -> list[Finding]:
    frame = mpi_size_times(diff)
    frame = frame[(frame["diff_calls"].abs() > 1e-9)]
    order = frame["diff_bytes"].abs().to_numpy().argsort(kind="stable")[::-1]
    found = []
    for row in rows_of(frame.iloc[order].head(_MOST)):
        sized = f" of {_bytes(row.size_lo, row.size_hi)}" if row.size_hi >= 0 else ""
        before, after = _calls(row.before_calls), _calls(row.after_calls)
        if row.before_calls == 0:
            text = f"{row.routine}{sized} is new: {_noun(after)} a rank"
        elif row.after_calls == 0:
            text = f"{row.routine}{sized} is gone: {_noun(before)} a rank"
        else:
            text = f"{row.routine}{sized} goes from {before} to {_noun(after)} a rank"
        time_ns = row.diff_time_s * 1e9
        delta = f", {duration_delta(time_ns)}" if abs(time_ns) >= 0.5e6 else ""
        found.append(Finding("calls", f"{text}{delta}.", time_ns))
    left = len(frame) - _MOST
    if left > 0:
        text = f"{plural(left, 'other size')} of messages are called another number of times."
        found.append(Finding("more", text, 0.0))
    return found


def _bytes(low: int, high: int) -> str:
    return size(high) if low in {high, 0} else f"{count(low)} to {count(high)} bytes"


def _calls(number: float) -> str:
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _noun(calls: str) -> str:
    return f"{calls} call{'s' * (calls != '1')}"


def _mpi_waiting(diff: Comparison) -> list[Finding]:
    frame = mpi_waits(diff)
    before, after = (float(frame[f"{side}_wait_ns"].sum()) for side in ("before", "after"))
    gap, most = after - before, max(before, after)
    windows = [np.stack(list(side.windows.values())) for side in diff.sides]
    run_ns = max(float((one[:, :, 1] - one[:, :, 0]).sum(axis=1).mean()) for one in windows)
    if most == 0 or abs(gap) < max(_WAIT * most, _WAIT_OF_RUN * run_ns):
        return []
    change = f", {share_delta(gap / before)}" if before else ""
    text = (
        f"Ranks wait {'longer' if gap > 0 else 'less'} for each other: {duration(before)} → "
        f"{duration(after)} a rank{change}."
    )
    return [Finding("waiting", text, gap)]


def _mpi_straggler(diff: Comparison) -> list[Finding]:
    frame = mpi_imbalances(diff)
    if len(frame) != 1:
        return []
    row = next(rows_of(frame))
    # A side that has no such row names nobody.
    was, now = (set(ranks or ()) for ranks in (row.before_late, row.after_late))
    found = []
    for rank in sorted(now - was):
        why = "it comes last where it costs most time"
        if rank == row.after_comm_min_rank:
            why = (
                f"it has the least time in MPI and {row.after_noncomm_ratio:.2f} times the mean "
                "outside of it"
            )
        found.append(Finding("straggler", f"The others now wait for rank {rank}: {why}.", 0.0))
    gone = [f"The others no longer wait for rank {rank}." for rank in sorted(was - now)]
    return found + [Finding("straggler", text, 0.0) for text in gone]

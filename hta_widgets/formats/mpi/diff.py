"""Comparison of two MPI runs: times, routines, ranks, imbalance, waiting, findings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.collectives import collectives
from hta_widgets.analysis.cross_rank.comm_events import stated_rank
from hta_widgets.analysis.frames import result_frame
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding, time_change
from hta_widgets.diff.sentences import longer_or_less, relative_text, times_text
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.stats import mean_parts
from hta_widgets.diff.tables import analyse_sides, iter_rows, join_sides
from hta_widgets.formats.mpi.ranks import mpi_imbalance, mpi_ranks, mpi_stragglers
from hta_widgets.formats.mpi.routines import mpi_compare, mpi_negotiation, mpi_scope
from hta_widgets.text import count, duration_delta, mean_count, plural, size

#: Name of the time of a run that is not spent in a routine.
OUTSIDE = "outside of MPI"


def mpi_times(diff: Comparison) -> pd.DataFrame:
    """Return the time in each routine and outside of MPI, which add up to the elapsed time."""
    sides = [_times(side) for side in diff.sides]
    frame = pd.DataFrame(
        [(name, *(side.get(name, 0) for side in sides)) for name in {**sides[0], **sides[1]}],
        columns=["routine", "before_ns", "after_ns"],
    ).astype({"routine": "str", "before_ns": np.int64, "after_ns": np.int64})
    frame["diff_ns"] = frame["after_ns"] - frame["before_ns"]
    frame["change_share"] = (frame["diff_ns"] / frame["before_ns"]).where(frame["before_ns"] > 0)
    order = np.lexsort((frame["routine"], -frame["diff_ns"].abs()))
    columns: dict[Any, Any] = frame.iloc[order].reset_index(drop=True).to_dict("series")
    return result_frame(
        columns,
        matched={"routines": len(frame)},
        note="" if len(frame) else "no ranks with routine tables",
        before_ns=int(frame["before_ns"].sum()),
        after_ns=int(frame["after_ns"].sum()),
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9) if math.isfinite(seconds) else 0


def _times(side: RunSide) -> dict[str, int]:
    """Return the mean time per rank in ns, keyed by routine, and outside of MPI."""
    ranks = mpi_scope(side.traces, ranks=side.table_ranks).ranks
    sums = Counter[str]()
    for rank in ranks:
        times = [(row.routine, _ns(row.time_s)) for row in rank.routines]
        for routine, time in times:
            sums[routine] += time
        # Calls of several threads may add up to more than the elapsed time.
        sums[OUTSIDE] += max(_ns(rank.elapsed_s) - sum(time for _, time in times), 0)
    if not ranks:
        return {}
    # Times in damaged files may be centuries, but their sum must fit in int64.
    max_ns = (1 << 62) // len(sums)
    times_ns = [min(max(time, -max_ns), max_ns) for time in sums.values()]
    means = mean_parts(np.array(times_ns, dtype=np.int64), len(ranks))
    return dict(zip(sums, means.tolist(), strict=True))


def mpi_routine_times(diff: Comparison, *, by_size: bool = False) -> pd.DataFrame:
    """Return calls, bytes and time by routine, or by routine and size bin, from `mpi_compare`."""
    before, after = diff.sides
    return mpi_compare(
        before.traces,
        after.traces,
        by_size=by_size,
        before_ranks=before.table_ranks,
        after_ranks=after.table_ranks,
    )


def mpi_rank_times(diff: Comparison) -> pd.DataFrame:
    """Return each rank's time inside and outside of MPI in both runs."""
    sides, note = _by_key(diff, mpi_ranks, "rank")
    measures = ["comm_s", "noncomm_s", "elapsed_s", "comm_share", "rss_mib"]
    return join_sides(_in_pairs(diff, sides), ["rank"], measures, ["host"], note=note)


def mpi_imbalances(diff: Comparison) -> pd.DataFrame:
    """Return the imbalance between ranks in both runs, and the ranks for which others wait."""
    sides, note = _by_key(diff, mpi_imbalance, "job")
    sides = [
        _with_late_ranks(side, table.tail(1)) for side, table in zip(diff.sides, sides, strict=True)
    ]
    measures = [
        "ranks", "comm_mean_s", "comm_min_s", "comm_max_s", "imbalance_pct", "noncomm_mean_s",
        "noncomm_ratio", "straggler_z",
    ]  # fmt: skip
    facts = ["straggler_rank", "is_straggler", "late", "comm_min_rank"]
    return join_sides(sides, ["job"], measures, facts, note=note).drop(columns="job")


def _with_late_ranks(side: RunSide, table: pd.DataFrame) -> pd.DataFrame:
    """Add each job's stragglers to its row; they may not include the candidate from the totals."""
    stragglers = mpi_stragglers(side.traces)
    late = [tuple(sorted(rank for job, rank in stragglers if job == name)) for name in table["job"]]
    straggler_rank = [
        candidate if candidate in ranks or not ranks else ranks[0]
        for candidate, ranks in zip(table["straggler_rank"].tolist(), late, strict=True)
    ]
    return table.assign(
        job="",
        straggler_rank=straggler_rank,
        is_straggler=list(map(bool, late)),
        late=pd.Series(late, table.index, dtype=object),
    )


def mpi_negotiations(diff: Comparison) -> pd.DataFrame:
    """Return the cost of Horovod's negotiation (messages of a few bytes) in both runs."""
    sides, note = _by_key(diff, mpi_negotiation, "rank")
    measures = ["calls", "time_s", "share_of_calls", "share_of_time", "share_of_bytes"]
    return join_sides(_in_pairs(diff, sides), ["rank"], measures, note=note)


def mpi_waits(diff: Comparison) -> pd.DataFrame:
    """Return how long ranks wait for each other in the collectives of two time lines."""
    sides = []
    for side in diff.sides:
        frame = collectives(side.traces, ranks=side.ranks, clock=side.waits.clock)
        frame = frame.assign(name=frame["name"].astype(str), count=1.0)
        sums = frame.groupby("name", sort=True)[["count", "wait_ns", "transfer_ns"]].sum()
        sides.append((sums / max(len(side.ranks), 1)).reset_index())
    return join_sides(sides, ["name"], ["count", "wait_ns", "transfer_ns"], by="wait_ns")


def _in_pairs(diff: Comparison, sides: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Label each row with its pair of ranks, unless a rank number occurs on both sides."""
    numbers_of_sides = [_numbers(side) for side in diff.sides]
    compared = [set(numbers.values()) for numbers in numbers_of_sides]
    if compared[0] & compared[1]:
        return sides
    pairs = [(numbers_of_sides[0][a], numbers_of_sides[1][b]) for a, b in diff.rank_pairs]
    frames = []
    for side, (frame, ranks) in enumerate(zip(sides, compared, strict=True)):
        labels = {pair[side]: f"{pair[0]} → {pair[1]}" for pair in pairs}
        labels |= {rank: str(rank) for rank in sorted(ranks - set(labels))}
        # Rank 0's file also lists ranks that are not compared.
        present = set(frame["rank"].tolist())
        order = [rank for rank in labels if rank in present]
        chosen = frame.set_index("rank").loc[order].reset_index()
        frames.append(chosen.assign(rank=[labels[rank] for rank in order]))
    return frames


def _numbers(side: RunSide) -> dict[int, int]:
    """Return the rank number stated in each file, which tables also use."""
    return {rank: stated_rank(part.trace) for rank, part in {**side.parts, **side.tabled}.items()}


def _by_key(
    diff: Comparison, table: Callable[..., pd.DataFrame], key: str
) -> tuple[list[pd.DataFrame], str]:
    """Return each side's table with one row per key, and a note."""
    results, notes = analyse_sides(diff, table)
    if any(len(set(frame["job"])) > 1 for frame in results):
        notes.append("there are several jobs; the last one is shown")
    return [frame.drop_duplicates(key, keep="last") for frame in results], "; ".join(notes)


PROFILE_TABLES = {
    "mpi_times": mpi_times,
    "mpi_routines": mpi_routine_times,
    "mpi_message_sizes": partial(mpi_routine_times, by_size=True),
    "mpi_negotiation": mpi_negotiations,
    "mpi_ranks": mpi_rank_times,
    "mpi_imbalance": mpi_imbalances,
}
TIME_LINE_TABLES = PROFILE_TABLES | {"mpi_waits": mpi_waits}


KIND_WORDS = {"communication": "time in MPI", "host": "time outside of MPI"}
KIND_LABELS = {"communication": "MPI", "cpu": "outside of MPI"}
#: Smallest relative difference at which two totals, whose spread is unknown, count as different.
_RELATIVE_SINGLE = 0.2
_OF_RUN = 0.01
_MIN_NS = 20_000_000  # two units of the last digit printed by mpitrace
#: Two waiting times count as different from this share of the longer one, and of the run.
_WAIT, _WAIT_OF_RUN = 0.5, 0.05
_MAX_FINDINGS = 6
_MIN_SHOWN_NS = 0.5e6  # smaller differences in calls' time are not shown


def findings(diff: Comparison) -> Iterator[Finding]:
    """Yield changes in routines, call counts, waiting and stragglers.

    A profile does not show how times vary within a run, so two times must differ by 20 % of the
    longer one, by 1 % of the run and by 20 ms. Call counts are exact. Waiting times of time lines
    must differ by half of the longer one and by 5 % of the run.
    """
    records = [*_changed_calls(diff)]
    if "mpi-trace" in diff.before.formats & diff.after.formats:
        records += _changed_waits(diff)
    records += _late_ranks(diff)
    if diff.has_totals:
        total, *routines = _changed_totals(diff)
        # The total is included if it changed or if other changes follow.
        if total.kind == "headline" or routines or records:
            yield total
        yield from routines
    yield from records


def _changed_totals(diff: Comparison) -> Iterator[Finding]:
    frame = mpi_times(diff)
    before, after = frame.attrs["before_ns"], frame.attrs["after_ns"]
    run_ns = max(before, after)
    is_significant = _is_significant(before, after, run_ns)
    yield time_change(
        "headline" if is_significant else "slight",
        before,
        after,
        topic="headline",
        measure="step",
        details={"is_untested": not is_significant},
    )
    for row in iter_rows(frame.head(_MAX_FINDINGS)):
        if _is_significant(row.before_ns, row.after_ns, run_ns):
            yield time_change(
                "routine", row.before_ns, row.after_ns, name=row.routine, measure="time"
            )


def _is_significant(before: int, after: int, run: int) -> bool:
    gap = abs(after - before)
    return gap >= max(_RELATIVE_SINGLE * max(before, after), _OF_RUN * run, _MIN_NS)


def _changed_calls(diff: Comparison) -> Iterator[Finding]:
    frame = mpi_routine_times(diff, by_size=True)
    frame = frame[(frame["diff_calls"].abs() > 1e-9)]
    order = frame["diff_bytes"].abs().to_numpy().argsort(kind="stable")[::-1]
    for row in iter_rows(frame.iloc[order].head(_MAX_FINDINGS)):
        yield Finding(
            "calls",
            diff_ns=row.diff_time_s * 1e9,
            name=row.routine,
            measure="calls",
            before_count=row.before_calls,
            after_count=row.after_calls,
            weight=abs(row.diff_bytes),
            details={"min_size": row.size_lo, "max_size": row.size_hi},
        )
    if len(frame) > _MAX_FINDINGS:
        yield Finding("more", topic="more_sizes", details={"count": len(frame) - _MAX_FINDINGS})


def _changed_waits(diff: Comparison) -> list[Finding]:
    frame = mpi_waits(diff)
    before, after = (float(frame[f"{side}_wait_ns"].sum()) for side in ("before", "after"))
    run_ns = diff.step_ns * diff.step_count
    change = time_change("waiting", before, after, measure="communication_wait")
    longer_ns = max(before, after)
    is_large = change.weight >= max(_WAIT * longer_ns, _WAIT_OF_RUN * run_ns)
    return [change] if longer_ns > 0 and is_large else []


def _late_ranks(diff: Comparison) -> Iterator[Finding]:
    frame = mpi_imbalances(diff)
    if len(frame) != 1:
        return
    row = next(iter_rows(frame))
    # A side without a row has no stragglers.
    before, after = (set(ranks or ()) for ranks in (row.before_late, row.after_late))
    for rank in [*sorted(after - before), *sorted(before - after)]:
        details: dict[str, Any] = {"appears": rank in after}
        if rank == row.after_comm_min_rank:
            details["noncomm_ratio"] = row.after_noncomm_ratio
        yield Finding("straggler", topic="late_mpi_rank", ranks=(rank,), details=details)


def _routine_text(finding: Finding, _diff: Comparison) -> str:
    subject = "Time outside of MPI" if finding.name == OUTSIDE else finding.name
    return f"{subject} takes {longer_or_less(finding)}: {_rank_times_text(finding)}"


def _waiting_text(finding: Finding, _diff: Comparison) -> str:
    return f"Ranks wait {longer_or_less(finding)} for each other: {_rank_times_text(finding)}"


def _rank_times_text(finding: Finding) -> str:
    return f"{times_text(finding)} a rank{relative_text(finding)}."


def _calls_text(finding: Finding, _diff: Comparison) -> str:
    low, high = finding.details["min_size"], finding.details["max_size"]
    sized = size(high) if low in {high, 0} else f"{count(low)} to {count(high)} bytes"
    subject = f"{finding.name} of {sized}" if high >= 0 else finding.name
    if finding.before_count == 0:
        change = f"is new: {_calls_noun(finding.after_count)}"
    elif finding.after_count == 0:
        change = f"is gone: {_calls_noun(finding.before_count)}"
    else:
        before = mean_count(finding.before_count)
        change = f"goes from {before} to {_calls_noun(finding.after_count)}"
    time_ns = finding.diff_ns
    delta = f", {duration_delta(time_ns)}" if abs(time_ns) >= _MIN_SHOWN_NS else ""
    return f"{subject} {change} a rank{delta}."


def _calls_noun(number: float) -> str:
    text = mean_count(number)
    return f"{text} call{'s' if text != '1' else ''}"


def _more_sizes_text(finding: Finding, _diff: Comparison) -> str:
    sizes = plural(finding.details["count"], "other message size")
    return f"The number of calls with {sizes} differs too."


def _late_rank_text(finding: Finding, _diff: Comparison) -> str:
    (rank,), ratio = finding.ranks, finding.details.get("noncomm_ratio")
    if not finding.details["appears"]:
        return f"The others no longer wait for rank {rank}."
    reason = "it comes last where it costs most time"
    if ratio is not None:
        reason = f"it has the least time in MPI and {ratio:.2f} times the mean outside of it"
    return f"The others now wait for rank {rank}: {reason}."


FINDING_WORDS = {
    "routine": _routine_text,
    "calls": _calls_text,
    "more_sizes": _more_sizes_text,
    "waiting": _waiting_text,
    "late_mpi_rank": _late_rank_text,
}

"""Tables and findings of two BytePS runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.families import BYTEPS, MPI
from hta_widgets.formats.byteps.byteps_tables import (
    byteps_lag,
    byteps_stages,
    byteps_workers,
)
from hta_widgets.formats.byteps.workers import byteps_gradient_stages, byteps_gradients
from hta_widgets.formats.mpi.mpi_diff import (
    OUTSIDE,
    mpi_imbalances,
    mpi_size_times,
    mpi_times,
    mpi_waits,
)
from hta_widgets.text import (
    count,
    duration,
    duration_delta,
    plural,
    share,
    share_delta,
    size,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One kind of piece of a GPU's steps: its cause, its stage, and its time in each step."""

    cause: str
    stage: str
    times_ns: npt.NDArray[np.int64]


def byteps_chain(side: RunSide, rank: int) -> list[Piece]:
    """Return what the steps of a GPU wait for, piece by piece.

    Of the tensor that ends last in a step, the partition that ends last: its stages, the queues
    before them, and what comes after its last stage. They do not overlap, so with the time outside
    of them, in which the framework computes, they add up to the step.
    """
    owner = side.traces
    chosen = byteps_gradients(owner, ranks=[rank])
    chosen = chosen[chosen["critical"] & (chosen["critical_partition"] >= 0)]
    stages = byteps_gradient_stages(owner, ranks=[rank])
    kept = dict(zip(chosen["step"].tolist(), chosen["tensor"].astype(str).tolist(), strict=True))
    mine = stages["tensor"].astype(str).to_numpy(dtype=object) == np.array(
        [kept.get(step) for step in stages["step"].tolist()], dtype=object
    )
    stages = stages[mine]
    found: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
    place = {step: k for k, step in enumerate(side.steps.tolist())}
    windows = side.windows[rank].tolist()

    def add(cause: str, stage: str, step: int, start: int, end: int) -> None:
        at = place.get(step)
        if at is None:
            return
        # What goes on into the next step is of this one no more.
        low, high = windows[at]
        time = min(end, high) - max(start, low)
        if time > 0:
            key = cause, stage
            found.setdefault(key, np.zeros(len(windows), dtype=np.int64))[at] += time

    columns = ("step", "stage", "start_ns", "dur_ns", "queue_ns", "waits_for_root")
    for step, stage, start, dur, queue, root in zip(
        *(stages[name].tolist() for name in columns), strict=True
    ):
        add("root_wait" if root else "stage_queue", stage, step, start - queue, start)
        add(_cause(stage), stage, step, start, start + dur)
    for step, start, total, tail in zip(
        *(chosen[name].tolist() for name in ("step", "start_ns", "total_ns", "tail_ns")),
        strict=True,
    ):
        add("tail", "", step, start + total - tail, start + total)
    return [Piece(cause, stage, times) for (cause, stage), times in found.items()]


def _cause(stage: str) -> str:
    if stage.startswith("COORDINATE"):
        return "coordination"
    return "copies" if stage.startswith("COPY") else "communication"


_RELATIVE = 0.05  # of the longer of two times: runs of one program differ by less
_OF_STEP = 0.01  # of a step; less does not matter
_ALPHA = 0.01
#: Of two totals of runs, which tell nothing of the spread.
_RELATIVE_ALONE = 0.2
_OF_RUN = 0.01
_LEAST_NS = 20_000_000  # two of the digits that mpitrace prints of a job's ranks
#: Waiting, of which one run has little that another has not: of the longer, and of the run.
_WAIT, _WAIT_OF_RUN = 0.5, 0.05
_SHARE = 0.25  # of partitions; who is last of equals varies by less
_MOST = 6


class Said(NamedTuple):
    """A kind of finding, its sentence, and the time that it is about."""

    kind: str
    text: str
    diff_ns: float


def kind_words(diff: Comparison) -> dict[str, str]:
    """Return the words for kinds of moments that these formats call otherwise."""
    formats = diff.before.formats
    if formats & set(MPI):
        return {"communication": "time in MPI", "host": "time outside of MPI"}
    if formats & set(BYTEPS):
        return {
            "communication": "time in REDUCE, PUSH, PULL and BROADCAST",
            "copies": "time in copies",
            "idle": "time in queues",
            "host": "time outside of synchronisations",
        }
    return {}


def kind_labels(diff: Comparison) -> dict[str, str]:
    """Return short labels for the same, by kind, as charts have room for."""
    formats = diff.before.formats
    if formats & set(MPI):
        return {"communication": "MPI", "cpu": "outside of MPI"}
    if formats & set(BYTEPS):
        return {
            "communication": "BytePS stages",
            "memory": "copies",
            "idle": "queues",
            "cpu": "outside of BytePS",
        }
    return {}


def is_profiles(diff: Comparison) -> bool:
    """Whether totals are compared, of which no events are there."""
    return all(not len(part.trace) for side in diff.sides for part in side.parts.values())


def format_findings(diff: Comparison) -> list[Said]:
    """Return what the tables of BytePS and MPI runs tell; nothing for Kineto traces.

    Stages of BytePS are told of whose work or queue differs by 5 % of the longer and 1 % of a step,
    and not by chance: by Welch's test over the steps at 1 %, divided by the number of times tested.
    A profile tells nothing of how a run spreads: its times must differ by 20 % of the longer, 1 %
    of the run and 20 ms; numbers of calls are exact. Time lines tell of waiting: of that half of
    the longer and 5 % of the run are asked for. Who is waited for is told where that is
    another on both sides, of BytePS by a quarter of the partitions at least.
    """
    shared = diff.before.formats & diff.after.formats
    found: list[Said] = []
    if "byteps" in shared:
        found += _stages(diff)
        found += _stragglers(byteps_workers(diff), lambda row: f"Worker {row.worker}")
    if "byteps-server" in shared and "byteps" not in shared:
        found += _stragglers(byteps_lag(diff), lambda row: _upper(str(row.label)))
    if shared & set(MPI):
        if is_profiles(diff):
            found += _mpi_totals(diff)
        found += _mpi_calls(diff)
        if "mpi-trace" in shared:
            found += _mpi_waiting(diff)
        found += _mpi_straggler(diff)
    return found


# --- BytePS ---------------------------------------------------------------------------------------


def _stages(diff: Comparison) -> list[Said]:
    frame = byteps_stages(diff)
    windows = [np.stack(list(side.windows.values())) for side in diff.sides]
    step_ns = max(float((one[:, :, 1] - one[:, :, 0]).mean()) for one in windows)
    rows: list[tuple[float, Said]] = []
    tested = 2 * len(frame)
    for row in _rows(frame):
        for measure in ("work", "queue"):
            before, after = (
                getattr(row, f"before_{measure}_ns"),
                getattr(row, f"after_{measure}_ns"),
            )
            likely = getattr(row, f"{measure}_p_value")
            gap, most = after - before, max(before, after)
            if np.isnan(likely):
                told = abs(gap) >= _RELATIVE_ALONE * most
            else:
                told = abs(gap) >= _RELATIVE * most and likely * tested < _ALPHA
            if told and abs(gap) >= _OF_STEP * step_ns:
                rows.append((abs(gap), Said("stage", _stage(row, measure, before, after), gap)))
    rows.sort(key=lambda item: -item[0])
    return [said for _, said in rows[:_MOST]]


def _stage(row: Any, measure: str, before: float, after: float) -> str:
    if measure == "work":
        what = row.stage
    elif row.waits_for_root:
        what = "Waiting for the root GPU"
    else:
        what = f"Queueing before {row.stage}"
    change = f", {share_delta((after - before) / before)}" if before else ""
    way = "longer" if after > before else "less"
    return (
        f"{what} takes {way}: {duration(before)} → {duration(after)} a step and GPU that has it, "
        f"partitions added up{change}."
    )


def _stragglers(frame: pd.DataFrame, name: Callable[[Any], str]) -> list[Said]:
    found = []
    for row in _rows(frame):
        before, after = (bool(row.before_straggler), bool(row.after_straggler))
        score = "blame" if hasattr(row, "after_blame") else "score"
        gap = abs(getattr(row, f"diff_{score}"))
        # A share that is near the limit for stragglers crosses it by chance.
        if before == after or gap < _SHARE:
            continue
        shares = " → ".join(share(getattr(row, f"{word}_{score}")) for word in ("before", "after"))
        why = "shortest pull" if score == "blame" else "last push"
        text = (
            f"{name(row)} is {'now' if after else 'no longer'} the one that the others wait for: "
            f"it has the {why} of {shares} of partitions."
        )
        found.append(Said("straggler", text, 0.0))
    return found


# --- MPI ------------------------------------------------------------------------------------------


def _mpi_totals(diff: Comparison) -> list[Said]:
    frame = mpi_times(diff)
    if frame.empty:
        return []
    before, after = frame.attrs["before_ns"], frame.attrs["after_ns"]
    found: list[Said] = []
    if _differs(before, after, max(before, after)):
        way = "longer" if after > before else "less"
        text = (
            f"After takes {duration(abs(after - before))} {way}: {duration(before)} → "
            f"{duration(after)}, {share_delta((after - before) / before) if before else 'new'} "
            "(mean over ranks)."
        )
        found.append(Said("headline", text, float(after - before)))
    for row in _rows(frame.head(_MOST)):
        if not _differs(row.before_ns, row.after_ns, max(before, after)):
            continue
        what = "Time outside of MPI" if row.routine == OUTSIDE else row.routine
        change = f", {share_delta(row.diff_ns / row.before_ns)}" if row.before_ns else ""
        text = (
            f"{what} takes {'longer' if row.diff_ns > 0 else 'less'}: {duration(row.before_ns)} → "
            f"{duration(row.after_ns)} a rank{change}."
        )
        found.append(Said("routine", text, float(row.diff_ns)))
    return found


def _differs(before: int, after: int, run: int) -> bool:
    gap = abs(after - before)
    return gap >= max(_RELATIVE_ALONE * max(before, after), _OF_RUN * run, _LEAST_NS)


def _mpi_calls(diff: Comparison) -> list[Said]:
    frame = mpi_size_times(diff)
    frame = frame[(frame["diff_calls"].abs() > 1e-9)]
    order = frame["diff_bytes"].abs().to_numpy().argsort(kind="stable")[::-1]
    found = []
    for row in _rows(frame.iloc[order].head(_MOST)):
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
        found.append(Said("calls", f"{text}{delta}.", time_ns))
    left = len(frame) - _MOST
    if left > 0:
        text = f"{plural(left, 'other size')} of messages are called another number of times."
        found.append(Said("more", text, 0.0))
    return found


def _bytes(low: int, high: int) -> str:
    return size(high) if low in {high, 0} else f"{count(low)} to {count(high)} bytes"


def _calls(number: float) -> str:
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _noun(calls: str) -> str:
    return f"{calls} call{'s' * (calls != '1')}"


def _mpi_waiting(diff: Comparison) -> list[Said]:
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
    return [Said("waiting", text, gap)]


def _mpi_straggler(diff: Comparison) -> list[Said]:
    frame = mpi_imbalances(diff)
    if len(frame) != 1:
        return []
    row = next(iter(_rows(frame)))
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
        found.append(Said("straggler", f"The others now wait for rank {rank}: {why}.", 0.0))
    gone = [f"The others no longer wait for rank {rank}." for rank in sorted(was - now)]
    return found + [Said("straggler", text, 0.0) for text in gone]


def _rows(frame: pd.DataFrame) -> Any:
    yield from frame.itertuples(index=False)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]

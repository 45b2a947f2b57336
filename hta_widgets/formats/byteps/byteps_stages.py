"""What the stages of BytePS's pipeline take on each GPU, and how long tasks queue before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import STAGES
from hta_widgets.trace.intervals import total
from hta_widgets.trace.intervals import union

from hta_widgets.formats.byteps.byteps_files import NO_WORKERS
from hta_widgets.formats.byteps.byteps_files import worker_parts
from hta_widgets.formats.byteps.byteps_gradients import byteps_gradients
from hta_widgets.analysis.results import by_column
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import result

__all__ = ["byteps_bandwidth", "byteps_stages", "byteps_steps"]

Ints = npt.NDArray[np.int64]


def byteps_stages(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per GPU and stage how often, how long, how concurrently, and the queue before it.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected events count.
    window : (int, int), optional
        Only events that overlap it; their times are clipped to it, queues are whole.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per GPU and stage, along the pipeline, with

        ``rank, worker, local_rank`` : int64
        ``stage`` : category
            In the order of the pipeline; stages that BytePS itself does not have are placed
            behind those that they follow.
        ``count, sum_ns, union_ns`` : int64
            ``union_ns`` is when at least one partition was in the stage: ``sum_ns / union_ns``
            were at a time.
        ``mean_ns`` : float64
        ``max_ns`` : int64
        ``queue_ns`` : int64
            What tasks waited before the stage, since the one before ended or, of first stages,
            since the synchronisation began. Of a cut file, partitions that lack a stage in a step
            do not count here.
        ``root`` : bool
            Whether the GPU is the one that talks to the servers.
        ``waits_for_root`` : bool
            Whether ``queue_ns`` is waiting for the root's word: on other GPUs, the whole way to
            the servers and back lies in the queue before COPYH2D.
        ``job`` : object

    Notes
    -----
    Facts: BytePS's source. Grouped REDUCE and BROADCAST calls overlap and end together; PUSH and
    PULL include the network's and the server's queues, and PULL the other workers' pushes.

    Examples
    --------
    >>> stages = analysis.byteps_stages(traces)  # doctest: +SKIP
    >>> stages.assign(at_a_time=stages.sum_ns / stages.union_ns)  # doctest: +SKIP
    """
    found = worker_parts(traces, selection, window, ranks)
    order: list[str] = list(STAGES)
    for _, rows, _ in found:
        order = _merged(order, rows.stages)
    lines: list[tuple[object, ...]] = []
    matched = dict.fromkeys(STAGES, 0)
    others = 0
    for part, rows, chosen in found:
        others += rows.others
        for code, name in enumerate(rows.stages):
            at = np.flatnonzero((rows.parts.stage == code) & chosen[rows.parts.row])
            matched[name] = matched.get(name, 0) + len(at)
            if not len(at):
                continue
            start, end = part.clipped(rows.parts.row[at])
            lines.append(
                (
                    part.rank,
                    part.trace.worker,
                    part.trace.local_rank,
                    order.index(name),
                    len(at),
                    int((end - start).sum()),
                    total(union(start, end)),
                    float((end - start).mean()),
                    int((end - start).max()),
                    int(rows.parts.queue_ns[at][rows.parts.complete[at]].sum()),
                    rows.is_root,
                    name == "COPYH2D" and not rows.is_root,
                    part.trace.job,
                )
            )
    columns = by_column(lines, _COLUMNS)
    return result(
        {**columns, "stage": categorical(columns["stage"], order)},
        matched={**matched, "others": others},
        note="" if found else NO_WORKERS,
    )


_COLUMNS = {
    "rank": np.int64,
    "worker": np.int64,
    "local_rank": np.int64,
    "stage": np.int64,
    "count": np.int64,
    "sum_ns": np.int64,
    "union_ns": np.int64,
    "mean_ns": np.float64,
    "max_ns": np.int64,
    "queue_ns": np.int64,
    "root": np.bool_,
    "waits_for_root": np.bool_,
    "job": object,
}


def _merged(order: list[str], more: list[str]) -> list[str]:
    """Put stages that are not known yet behind the one that they follow."""
    result_ = list(order)
    before = ""
    for name in more:
        if name not in result_:
            result_.insert(result_.index(before) + 1 if before else 0, name)
        before = name
    return result_


def byteps_steps(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per GPU and step how long its synchronisations took together, and what came last.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        Which synchronisations count; each counts whole.

    Returns
    -------
    DataFrame
        One row per GPU and step, with ``rank, worker, local_rank, step`` (int64), ``start_ns,
        span_ns`` (int64, from the first start to the last end of a synchronisation), ``sum_ns,
        union_ns`` (int64, of the synchronisations), ``concurrency`` (float64, their ratio),
        ``tensor`` (object, the one that ends last) and ``critical_key`` (int64).

    Examples
    --------
    >>> analysis.byteps_steps(traces).groupby("worker")["span_ns"].median()  # doctest: +SKIP
    """
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    rows = []
    keys = ["rank", "worker", "local_rank", "step"]
    for place, group in gradients.groupby(keys, sort=True):
        start = group["start_ns"].to_numpy()
        end = start + group["total_ns"].to_numpy()
        last = (
            group[group["critical"]].iloc[0]
            if group["critical"].any()
            else group.iloc[int(end.argmax())]
        )
        covered = total(union(start, end))
        rows.append(
            (
                *place,
                int(start.min()),
                int(end.max() - start.min()),
                int((end - start).sum()),
                covered,
                float((end - start).sum() / covered),
                str(last["tensor"]),
                int(last["critical_key"]),
            )
        )
    names = [*keys, "start_ns", "span_ns", "sum_ns", "union_ns"]
    others = {"concurrency": np.float64, "tensor": object, "critical_key": np.int64}
    return result(
        by_column(rows, dict.fromkeys(names, np.int64) | others),
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


def byteps_bandwidth(
    traces: TraceSet,
    sizes: Mapping[int, int],
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the rate at which root GPUs push to and pull from the servers.

    Traces state no sizes, so the caller must. The rate is bytes per time in which anything was
    under way: pushes overlap, so a mean of single ones would be too low. Pulls wait for the other
    workers, so theirs is a lower bound.

    Parameters
    ----------
    traces : TraceSet
    sizes : mapping of int to int
        Bytes of each partition by its key.
    selection, window, ranks
        Which events count; each counts whole.

    Returns
    -------
    DataFrame
        One row per root GPU and stage: ``rank, worker, local_rank`` (int64)``, stage``
        (category)``, bytes, union_ns`` (int64)``, mb_per_s`` (float64) and ``without_size``
        (int64, events that were left out because their key has none).

    Raises
    ------
    TraceError
        Where no key has a size.

    Examples
    --------
    >>> sizes = {26148864: 4096000, 26148865: 1024}  # doctest: +SKIP
    >>> analysis.byteps_bandwidth(traces, sizes)  # doctest: +SKIP
    """
    if not sizes:
        raise TraceError("no sizes given", remedy="Give the bytes of each partition by its key.")
    stages = ("PUSH", "PULL")
    lines: list[tuple[float, ...]] = []
    matched = dict.fromkeys(stages, 0)
    found = worker_parts(traces, selection, window, ranks)
    for part, rows, chosen in found:
        known = np.array([int(sizes.get(key, -1)) for key in rows.parts.key.tolist()], np.int64)
        for code, stage in enumerate(stages):
            at = (rows.parts.stage == rows.stages.index(stage)) & chosen[rows.parts.row]
            matched[stage] += int(at.sum())
            sized = at & (known >= 0)
            if not sized.any():
                continue
            start = rows.parts.start_ns[sized]
            covered = total(union(start, start + rows.parts.dur_ns[sized]))
            size = int(known[sized].sum())
            rate = size / covered * 1e3 if covered else np.nan
            trace = part.trace
            lines.append(
                (
                    *(part.rank, trace.worker, trace.local_rank),
                    *(code, size, covered, rate),
                    int((at & ~sized).sum()),
                )
            )
    names = ("rank", "worker", "local_rank", "stage", "bytes", "union_ns")
    others = {"mb_per_s": np.float64, "without_size": np.int64}
    whole = by_column(lines, dict.fromkeys(names, np.int64) | others)
    return result(
        {**whole, "stage": categorical(whole["stage"], stages)},
        matched=matched,
        note="" if found else NO_WORKERS,
    )

"""Where the time of each gradient's synchronisation goes: work, queues, and what comes after."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import StageRows
from hta_widgets.formats.byteps.byteps import TotalRows
from hta_widgets.formats.byteps.byteps import WorkerRows
from hta_widgets.formats.byteps.byteps import partition

from hta_widgets.formats.byteps.byteps_files import NO_WORKERS
from hta_widgets.formats.byteps.byteps_files import worker_parts
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import joined_columns
from hta_widgets.analysis.results import result

__all__ = ["byteps_gradient_stages", "byteps_gradients"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def byteps_gradients(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return what each synchronisation of each tensor spent its time on.

    BytePS cuts a tensor into partitions, which go through the stages of a pipeline one by one. A
    stage ends the moment its task enters the next queue, so the gap to the next stage is waiting
    in that queue and nothing else. Of the partition that ends last, the critical one,

        total = work (its stages) + queue (its gaps) + tail (until the framework was told),

    exactly. Stages of other partitions overlap with these and are not added.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only synchronisations whose ``total`` event is selected; each counts whole.
    window : (int, int), optional
        Only those that overlap it.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per worker, GPU, tensor and step, with

        ``rank`` : int64
        ``worker, local_rank`` : int64
        ``tensor`` : category
            Without the ``Comm.`` of the file.
        ``step`` : int64
            From 0 in the file; BytePS does not write which step of the training it was.
        ``start_ns, total_ns`` : int64
        ``busy_ns, queue_ns, tail_ns`` : int64
            Of the critical partition; -1 where the file has no stage of the tensor and step.
        ``critical_partition`` : int64
            ``key & 0xFFFF``, -1 for none.
        ``critical_key`` : int64
        ``critical`` : bool
            Whether it ends last of all tensors of its GPU and step: what the step waits for.
        ``root`` : bool
            Whether the GPU is the one that talks to the servers. On other GPUs ``queue_ns`` holds
            the way to the servers and back.
        ``job`` : object

        ``.attrs["unfinished"]``: how many totals state no duration; they are left out.
        ``.attrs["incomplete"]``: rows that have partitions which lack a stage, as the file was cut
        off; these cannot be found critical.

    Notes
    -----
    Definition: BytePS's source; a maintainer's remark that bars "may include queuing" holds within
    REDUCE, BROADCAST, PUSH and PULL alone, whose own queues are not seen.

    Examples
    --------
    >>> gradients = analysis.byteps_gradients(traces)  # doctest: +SKIP
    >>> gradients.groupby("tensor", observed=True)["queue_ns"].sum().nlargest(5)  # doctest: +SKIP
    """
    found = worker_parts(traces, selection, window, ranks)
    names: dict[str, int] = {}
    blocks: list[dict[str, Ints]] = []
    jobs: list[str | None] = []
    matched = {"totals": 0, "stages": 0}
    unfinished = incomplete = 0
    for part, rows, chosen in found:
        totals = rows.totals
        kept = chosen[totals.row] & (totals.dur_ns > 0)
        unfinished += int((chosen[totals.row] & (totals.dur_ns == 0)).sum())
        matched["totals"] += int(kept.sum())
        matched["stages"] += int(chosen[rows.parts.row].sum())
        of_total = _critical(rows)
        own = _sorted(totals, np.flatnonzero(kept))
        incomplete += int(of_total["incomplete"][own].sum())
        code = np.array([names.setdefault(name, len(names)) for name in rows.tensors], np.int64)
        count = len(own)
        jobs += [part.trace.job] * count
        blocks.append(
            {
                "rank": np.full(count, part.rank),
                "worker": np.full(count, part.trace.worker),
                "local_rank": np.full(count, part.trace.local_rank),
                "tensor": code[totals.tensor[own]] if count else np.empty(0, np.int64),
                "step": totals.step[own],
                "start_ns": totals.start_ns[own] + part.trace.shift_ns,
                "total_ns": totals.dur_ns[own],
                "busy_ns": of_total["busy"][own],
                "queue_ns": of_total["queue"][own],
                "tail_ns": of_total["tail"][own],
                "critical_partition": of_total["partition"][own],
                "critical_key": of_total["key"][own],
                "critical": of_total["last"][own],
                "root": np.full(count, rows.is_root),
            }
        )
    data = joined_columns(blocks, _COLUMNS, critical=np.bool_, root=np.bool_)
    return result(
        {
            **{name: data[name] for name in ("rank", "worker", "local_rank")},
            "tensor": categorical(data["tensor"], list(names)),
            **{name: data[name] for name in _COLUMNS[4:]},
            "job": pd.Series(jobs, dtype=object),
        },
        matched=matched,
        note=_note(len(found), unfinished, incomplete),
        unfinished=unfinished,
        incomplete=incomplete,
    )


_COLUMNS = (
    "rank",
    "worker",
    "local_rank",
    "tensor",
    "step",
    "start_ns",
    "total_ns",
    "busy_ns",
    "queue_ns",
    "tail_ns",
    "critical_partition",
    "critical_key",
    "critical",
    "root",
)


def _note(workers: int, unfinished: int, incomplete: int) -> str:
    if not workers:
        return NO_WORKERS
    notes = []
    if unfinished:
        notes.append(f"{unfinished} synchronisations were not finished and are left out")
    if incomplete:
        notes.append(
            f"{incomplete} have partitions that the file cuts off: another may be the critical one"
        )
    return "; ".join(notes)


def _sorted(totals: TotalRows, at: Ints) -> Ints:
    return at[np.lexsort((totals.tensor[at], totals.start_ns[at], totals.step[at]))]


def _critical(rows: WorkerRows) -> dict[str, Ints]:
    """Return for each total what its critical partition did; -1 where it has none."""
    totals, parts = rows.totals, rows.parts
    none = np.full(len(totals.row), -1, np.int64)
    answer = {name: none.copy() for name in ("busy", "queue", "tail", "partition", "key")}
    answer["incomplete"] = np.zeros(len(none), np.int64)  # totals that have incomplete ones
    answer["last"] = _last_of_step(totals)
    starts = np.flatnonzero(parts.first)
    if not len(starts) or not len(none):
        return answer
    end = parts.start_ns + parts.dur_ns
    of_partition = {
        "busy": np.add.reduceat(parts.dur_ns, starts),
        "queue": np.add.reduceat(parts.queue_ns, starts),
        "end": np.maximum.reduceat(end, starts),
    }
    tensor, step, key = parts.tensor[starts], parts.step[starts], parts.key[starts]
    # The last to end; of several that end at once, the one with the lowest key.
    steps = int(max(totals.step.max(), step.max())) + 1
    whole = parts.complete[starts]
    torn = np.zeros(len(rows.tensors) * steps, np.int64)
    torn[(tensor * steps + step)[~whole]] = 1
    answer["incomplete"] = torn[totals.tensor * steps + totals.step]
    order = np.lexsort((-key, of_partition["end"], step, tensor))
    order = order[whole[order]]
    if not len(order):
        return answer
    last = np.append((np.diff(tensor[order]) != 0) | (np.diff(step[order]) != 0), True)
    critical = order[last]
    place = np.full(len(rows.tensors) * steps, -1, np.int64)
    place[tensor[critical] * steps + step[critical]] = critical
    at = place[totals.tensor * steps + totals.step]
    known = at >= 0
    found = at[known]
    answer["busy"][known] = of_partition["busy"][found]
    answer["queue"][known] = of_partition["queue"][found]
    answer["tail"][known] = (totals.start_ns + totals.dur_ns)[known] - of_partition["end"][found]
    answer["key"][known] = key[found]
    answer["partition"][known] = partition(key[found])
    return answer


def _last_of_step(totals: TotalRows) -> Ints:
    """Tell the total that ends last in each step."""
    last = np.zeros(len(totals.row), np.int64)
    # Of several that end at once, the one that began first.
    order = np.lexsort((-totals.start_ns, totals.start_ns + totals.dur_ns, totals.step))
    ends = np.append(np.diff(totals.step[order]) != 0, True) if len(order) else order[:0]
    last[order[np.flatnonzero(ends)]] = 1
    return last


def byteps_gradient_stages(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return, stage by stage, what the critical partition of each synchronisation did.

    The rows of one tensor and step, and the ``tail_ns`` of `byteps_gradients`, add up to its
    ``total_ns``: a stage's own time, and the queue before it. On GPUs other than the root the queue
    before COPYH2D is the whole way to the servers and back: waiting for the root, not copying.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        As for `byteps_gradients`.

    Returns
    -------
    DataFrame
        One row per stage of a critical partition: ``rank, worker, local_rank`` (int64)``, tensor``
        (category)``, step, stage`` (category, in the order of the pipeline)``, start_ns, dur_ns,
        queue_ns`` (int64) and ``waits_for_root`` (bool).

    Examples
    --------
    >>> stages = analysis.byteps_gradient_stages(traces)  # doctest: +SKIP
    >>> stages.groupby("stage", observed=True)[["dur_ns", "queue_ns"]].sum()  # doctest: +SKIP
    """
    found = worker_parts(traces, selection, window, ranks)
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    tensors: dict[str, int] = {}
    stages: list[str] = []
    for _, rows, _ in found:
        stages += [name for name in rows.stages if name not in stages]
        for name in rows.tensors:
            tensors.setdefault(name, len(tensors))
    blocks: list[dict[str, npt.NDArray[np.generic]]] = []
    for part, rows, _ in found:
        mine = gradients[(gradients["rank"] == part.rank) & (gradients["critical_partition"] >= 0)]
        at = _of_partitions(rows.parts, mine["critical_key"], mine["step"])
        tensor_code = np.array([tensors[name] for name in rows.tensors], np.int64)
        stage_code = np.array([stages.index(name) for name in rows.stages], np.int64)
        parts = rows.parts
        copy = rows.stages.index("COPYH2D")
        waits = (parts.stage[at] == copy) & (parts.queue_ns[at] > 0) & (not rows.is_root)
        blocks.append(
            {
                "rank": np.full(len(at), part.rank),
                "worker": np.full(len(at), part.trace.worker),
                "local_rank": np.full(len(at), part.trace.local_rank),
                "tensor": tensor_code[parts.tensor[at]] if len(at) else at,
                "step": parts.step[at],
                "stage": stage_code[parts.stage[at]],
                "start_ns": parts.start_ns[at] + part.trace.shift_ns,
                "dur_ns": parts.dur_ns[at],
                "queue_ns": parts.queue_ns[at],
                "waits_for_root": waits,
            }
        )
    data = joined_columns(blocks, _STAGE_COLUMNS, waits_for_root=np.bool_)
    return result(
        {
            **data,
            "tensor": categorical(data["tensor"], list(tensors)),
            "stage": categorical(data["stage"], stages),
        },
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


_STAGE_COLUMNS = (
    "rank",
    "worker",
    "local_rank",
    "tensor",
    "step",
    "stage",
    "start_ns",
    "dur_ns",
    "queue_ns",
    "waits_for_root",
)


def _of_partitions(rows: StageRows, key: pd.Series, step: pd.Series) -> Ints:
    steps = int(rows.step.max(initial=0)) + 1
    wanted = key.to_numpy() * steps + step.to_numpy()
    return np.flatnonzero(np.isin(rows.key * steps + rows.step, wanted))

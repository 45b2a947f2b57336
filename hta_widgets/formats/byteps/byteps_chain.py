"""What each moment of a BytePS step goes to: the way of the gradient that the step waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.formats.byteps.byteps_gradients import byteps_gradient_stages
from hta_widgets.formats.byteps.byteps_gradients import byteps_gradients

from hta_widgets.diff.sides import RunSide

__all__ = ["Piece", "byteps_chain"]


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

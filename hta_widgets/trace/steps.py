"""Which training step an event belongs to."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import Pool

__all__ = ["assign_steps"]

Ints = npt.NDArray[np.int64]

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")


def assign_steps(
    start: Ints,
    end: Ints,
    name: npt.NDArray[np.int32],
    names: Pool,
    device: npt.NDArray[np.bool_],
    launch_of: tuple[Ints, Ints],
) -> Ints:
    """Return n of the enclosing ``ProfilerStep#n`` for every event, -1 outside of steps.

    Host events belong to the step in which they start, on whatever thread. Device events belong
    to the step of their launch.

    Parameters
    ----------
    start, end : arrays of int64
        Sorted by start.
    device : array of bool
        Events of the device.
    launch_of : (sources, targets)
        Rows of launching calls and of what they launched.
    """
    count = len(start)
    step = np.full(count, -1, dtype=np.int64)
    numbers = np.full(len(names), -1, dtype=np.int64)
    for code, text in enumerate(names.values):
        if text.startswith("ProfilerStep"):
            match = _STEP.match(text)
            if match and len(match[1]) < 19:
                numbers[code] = int(match[1])
    if not (numbers >= 0).any():
        return step
    # Painted in order of start, so that of steps within steps the innermost stays.
    for row in np.flatnonzero((numbers[name] >= 0) & ~device).tolist():
        low, high = np.searchsorted(start, (start[row], end[row]))
        step[low:high] = numbers[name[row]]
    step[device] = -1
    source, target = launch_of
    step[target] = step[source]
    return step

"""The ranges of NVTX that are steps.

NVTX has no steps, but programs push a range for each: ``iteration 10``, ``train_step``. The ranges
that are steps are chosen on the thread that launches most work, outside of libraries' domains:

1. the ranges whose names the parameter ``steps`` of `hta_widgets.load` matches, if it is given;
2. else the ranges called as steps are, with a number;
3. else the ranges of one name that tile most of the device's time without overlap.

Of nested candidates the outermost counts. Each chosen range gets the number in its name, or its
place in time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_widgets.formats.event_rows import STEP_NAME, match_steps
from hta_widgets.formats.nsight.tables import EventBlock
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import StringPool

_PROFILER_STEP = "ProfilerStep#"
_MIN_TILED = 0.5
_MIN_REPEATS = 2
#: Digits at the end of a name that the user's pattern matches without a group.
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")


@dataclass(frozen=True, slots=True)
class Steps:
    """Chosen ranges, in order of time.

    Attributes
    ----------
    rows : array of int
        Positions among the ranges.
    numbers : array of int
    rule : str
        How they were chosen, for a note.
    ranges : EventBlock or None
        The ranges that `rows` are positions in; by default those of the rank.
    """

    rows: Rows
    numbers: Ints
    rule: str
    ranges: EventBlock | None = None


def find_steps(
    ranges: EventBlock,
    domains: Sequence[str],
    pool: StringPool,
    device_span_ns: int,
    pattern: str | None = None,
) -> Steps | None:
    """Return the steps among the push and pop ranges of one thread; None if there are none."""
    names = {code: pool[code] for code in np.unique(ranges.name).tolist()}
    if pattern is None and any(name.startswith(_PROFILER_STEP) for name in names.values()):
        return None  # they are steps already
    unnamed = [code for code, domain in enumerate(domains) if not domain]
    free = np.flatnonzero(np.isin(ranges.domain, unnamed))
    free = free[np.argsort(ranges.start_ns[free], kind="stable")]
    codes = np.array(list(names))[match_steps(list(names.values()), pattern)]
    chosen = free[np.isin(ranges.name[free], codes)]
    if pattern is not None:
        return _number_steps(ranges, chosen, names, _LAST_NUMBER, f"called like {pattern!r}")
    if len(chosen):
        example = names[int(ranges.name[chosen[0]])]
        return _number_steps(ranges, chosen, names, STEP_NAME, f"called as {example!r}")
    return _find_tiling(ranges, free, names, device_span_ns)


def _number_steps(
    ranges: EventBlock, chosen: Rows, names: dict[int, str], number: re.Pattern[str], rule: str
) -> Steps | None:
    rows = _outermost(ranges, chosen)
    if not len(rows):
        return None
    matches = [number.search(names[code]) for code in ranges.name[rows].tolist()]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < len(rows) or len(set(numbers)) < len(numbers):
        return Steps(rows, np.arange(len(rows)), f"{rule}, numbered in order")
    return Steps(rows, np.array(numbers, np.int64), rule)


def _find_tiling(
    ranges: EventBlock, free: Rows, names: dict[int, str], device_span_ns: int
) -> Steps | None:
    """Return the ranges of the name that tiles most of the time, if it tiles enough of it."""
    codes = ranges.name[free]
    durations = ranges.end_ns[free] - ranges.start_ns[free]
    best: tuple[int, Rows] | None = None
    for code in np.unique(codes).tolist():
        of_name = codes == code
        rows = free[of_name]
        if len(rows) < _MIN_REPEATS or "::" in names[code]:
            continue
        starts, ends = ranges.start_ns[rows], ranges.end_ns[rows]
        if (starts[1:] < ends[:-1]).any():
            continue
        length = int(durations[of_name].sum())
        if length >= _MIN_TILED * device_span_ns and (best is None or length > best[0]):
            best = length, rows
    if best is None:
        return None
    rows = best[1]
    name = names[int(ranges.name[rows[0]])]
    return Steps(rows, np.arange(len(rows)), f"called {name!r}, numbered in order")


def _outermost(ranges: EventBlock, rows: Rows) -> Rows:
    """Return the ranges that begin after all ranges before them have ended."""
    if not len(rows):
        return rows
    reach = np.maximum.accumulate(ranges.end_ns[rows])
    is_first = np.ones(len(rows), bool)
    is_first[1:] = ranges.start_ns[rows[1:]] >= reach[:-1]
    return np.asarray(rows[is_first])

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
from typing import NamedTuple

import numpy as np

from hta_widgets.formats.event_rows import STEP_NAME, match_steps, select_rows
from hta_widgets.formats.nsight.nvtx import LIBRARY, NvtxRanges
from hta_widgets.formats.nsight.tables import Columns
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import StringPool

_PROFILER_STEP = "ProfilerStep#"
_MIN_TILED = 0.5
_MIN_REPEATS = 2
#: Digits at the end of a name that the user's pattern matches without a group.
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")


class Steps(NamedTuple):
    """Chosen ranges in order of time, their numbers, and how they were chosen, for a note."""

    ranges: Columns
    numbers: Ints
    rule: str


def steps_of_device(
    work: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool, pattern: str | None
) -> Steps | None:
    """Return the steps of a device's work, among the ranges of its process; None for none."""
    launching = calls["thread"][
        np.isin(calls["correlation"], work["correlation"][work["correlation"] > 0])
    ]
    threads, counts = np.unique(
        launching if len(launching) else ranges.columns["thread"], return_counts=True
    )
    if not len(threads):
        return None
    of_thread = ranges.select(ranges.columns["thread"] == threads[counts.argmax()]).of_phase("X")
    span = int(work["end_ns"].max() - work["start_ns"].min()) if len(work["start_ns"]) else 0
    return _find_steps(of_thread, pool, span, pattern)


def _find_steps(
    ranges: NvtxRanges, pool: StringPool, device_span_ns: int, pattern: str | None
) -> Steps | None:
    """Return the steps among the push and pop ranges of one thread; None if there are none."""
    columns = ranges.columns
    names = {code: pool[code] for code in np.unique(columns["name"]).tolist()}
    if pattern is None and any(name.startswith(_PROFILER_STEP) for name in names.values()):
        return None  # they are steps already
    of_program = [n for n, domain in enumerate(ranges.domains) if not LIBRARY.fullmatch(domain)]
    free = np.flatnonzero(np.isin(columns["domain"], of_program))
    free = free[np.argsort(columns["start_ns"][free], kind="stable")]
    columns = select_rows(columns, free)
    codes = np.array(list(names))[match_steps(list(names.values()), pattern)]
    is_chosen = np.isin(columns["name"], codes)
    chosen = select_rows(columns, is_chosen)
    if pattern is not None:
        return _number_steps(chosen, names, _LAST_NUMBER, f"called like {pattern!r}")
    if is_chosen.any():
        example = names[int(chosen["name"][0])]
        return _number_steps(chosen, names, STEP_NAME, f"called as {example!r}")
    return _find_tiling(columns, names, device_span_ns)


def _number_steps(
    chosen: Columns, names: dict[int, str], number: re.Pattern[str], rule: str
) -> Steps | None:
    ranges = select_rows(chosen, _outermost(chosen))
    codes = ranges["name"].tolist()
    if not codes:
        return None
    matches = [number.search(names[code]) for code in codes]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < len(codes) or len(set(numbers)) < len(numbers):
        return Steps(ranges, np.arange(len(codes)), f"{rule}, numbered in order")
    return Steps(ranges, np.array(numbers, np.int64), rule)


def _find_tiling(ranges: Columns, names: dict[int, str], device_span_ns: int) -> Steps | None:
    """Return the ranges of the name that tiles most of the time, if it tiles enough of it."""
    best: tuple[int, Columns] | None = None
    for code, name in names.items():
        of_name = select_rows(ranges, ranges["name"] == code)
        starts, ends = of_name["start_ns"], of_name["end_ns"]
        is_repeated = len(starts) >= _MIN_REPEATS and "::" not in name
        if not is_repeated or (starts[1:] < ends[:-1]).any():
            continue
        length = int((ends - starts).sum())
        if length >= _MIN_TILED * device_span_ns and (best is None or length > best[0]):
            best = length, of_name
    if best is None:
        return None
    name = names[int(best[1]["name"][0])]
    numbers = np.arange(len(best[1]["name"]))
    return Steps(best[1], numbers, f"called {name!r}, numbered in order")


def _outermost(ranges: Columns) -> Rows:
    """Return the ranges that begin after all ranges before them have ended."""
    reach = np.maximum.accumulate(ranges["end_ns"])
    return np.flatnonzero(np.append(True, ranges["start_ns"][1:] >= reach[:-1])[: len(reach)])

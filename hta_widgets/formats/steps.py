"""Find the ranges of a program that are steps.

Most profilers do not record steps, but programs name a range for each step: ``iteration 10``,
``train_step``. In each rank, a ``ProfilerStep#n`` is added around

1. the ranges whose names match the parameter ``steps`` of `hta_widgets.load`, if it is not None;
2. else the ranges with a usual name for steps and a number;
3. else the ranges of a single name that tile most of the device's time without overlap.

The threads that launch most of the rank's work are searched first, because PyTorch launches the
backward pass on another thread. If candidates are nested, only the outermost ones count. The number
of a step is the number in its range's name, or the range's position in time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.arguments import match_pattern
from hta_widgets.formats.event_rows import EventRows, ranks_of, select_rows
from hta_widgets.trace.arrays import Ints

Columns = dict[str, Ints]

_PROFILER_STEP = "ProfilerStep#"
_STEP_NAME = re.compile(
    r"\s*(?:train(?:ing)?[ _-]?)?(?:step|iter(?:ation)?|batch)[ _#:=-]*(\d{1,18})\s*", re.IGNORECASE
)
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_MIN_TILED = 0.5
_MIN_REPEATS = 2


class _Steps(NamedTuple):
    """Chosen ranges in order of time, their numbers, and the rule by which they were chosen."""

    ranges: Columns
    numbers: Ints
    rule: str


def add_steps(rows: EventRows, pattern: str | None, noun: str) -> None:
    """Add the steps of each rank, and report them; `noun` is the word for the ranges."""
    names = rows.name.values
    if pattern is None and any(name.startswith(_PROFILER_STEP) for name in names):
        return
    events = rows.columns()
    is_range = (events["device"] < 0) & (events["phase"] == ord("X"))
    if pattern is None:
        is_range &= events["category"] == rows.category.add("user_annotation")
    ranges = select_rows(events, is_range)
    ranges = select_rows(ranges, np.argsort(ranges["start_ns"], kind="stable"))
    for process, device in ranks_of(events):
        is_of_rank = (ranges["process"] == process) & np.isin(ranges["target"], (-1, device))
        rank_ranges = select_rows(ranges, is_of_rank)
        launch_threads, span_ns = _launches_of_rank(events, process, device)
        steps = _find_steps(rank_ranges, launch_threads, names, span_ns, pattern)
        if steps is None:
            continue
        detail = f"{noun} {steps.rule} are taken as steps, each within an added {_PROFILER_STEP}n"
        rows.note("repaired", len(steps.numbers), detail)
        chosen = [names[code] for code in steps.ranges["name"].tolist()]
        add_profiler_steps(
            rows, steps.numbers,
            **{key: steps.ranges[key] for key in ("start_ns", "end_ns", "place", "process")},
            args=rows.args_codes({noun.removesuffix("s"): name} for name in chosen),
            target=device, is_outer=True,
        )  # fmt: skip


def add_profiler_steps(rows: EventRows, numbers: Ints, **columns: Any) -> None:
    """Add a ``ProfilerStep#n`` per number; `columns` are further arguments of `EventRows.add`."""
    names = rows.name_codes(f"{_PROFILER_STEP}{number}" for number in numbers.tolist())
    rows.add(name=names, category="user_annotation", **columns)


def _launches_of_rank(events: Columns, process: int, device: int) -> tuple[Ints, int]:
    """Return the thread of each launch of a rank's work, and the time over which work starts."""
    is_of_process = events["process"] == process
    is_work = is_of_process & (events["device"] == device) & (device >= 0)
    ids = events["correlation"][is_work]
    is_launch = is_of_process & (events["device"] < 0)
    is_launch &= np.isin(events["correlation"], ids[ids > 0])
    span_ns = int(np.ptp(events["start_ns"][is_work])) if is_work.any() else 0
    return events["place"][is_launch], span_ns


def _find_steps(
    ranges: Columns, launch_threads: Ints, names: Sequence[str], span_ns: int, pattern: str | None
) -> _Steps | None:
    """Return the steps among a rank's ranges (in order of time); None if there are none.

    `launch_threads` has the thread of each launch of the rank's work.
    """
    launching, launches = np.unique(launch_threads, return_counts=True)
    busiest_first = launching[np.argsort(-launches, kind="stable")].tolist()
    places = dict.fromkeys([*busiest_first, *np.unique(ranges["place"]).tolist()])
    threads = [select_rows(ranges, ranges["place"] == place) for place in places]
    is_step = (
        np.array([_STEP_NAME.fullmatch(name) is not None for name in names], bool)
        if pattern is None
        else match_pattern(pattern, names)
    )
    for thread_ranges in threads:
        chosen = select_rows(thread_ranges, is_step[thread_ranges["name"]])
        if not len(chosen["name"]):
            continue
        if pattern is not None:
            return _number_steps(chosen, names, _LAST_NUMBER, f"that match {pattern!r}")
        example = names[int(chosen["name"][0])]
        return _number_steps(chosen, names, _STEP_NAME, f"named like {example!r}")
    if pattern is not None:
        return None
    tilings = (_find_tiling(thread_ranges, names, span_ns) for thread_ranges in threads)
    return next(filter(None, tilings), None)


def _number_steps(
    chosen: Columns, names: Sequence[str], number: re.Pattern[str], rule: str
) -> _Steps:
    """Return the outermost ranges as steps, numbered by name if all of these numbers differ."""
    # A range is outermost if it begins after all previous ranges have ended.
    last_end_ns = np.maximum.accumulate(chosen["end_ns"])
    is_outermost = np.append(True, chosen["start_ns"][1:] >= last_end_ns[:-1])
    ranges = select_rows(chosen, is_outermost)
    codes = ranges["name"].tolist()
    numbers = [int(match[1]) for code in codes if (match := number.search(names[code]))]
    if len(numbers) < len(codes) or len(set(numbers)) < len(numbers):
        return _Steps(ranges, np.arange(len(codes)), f"{rule}, numbered in order")
    return _Steps(ranges, np.array(numbers, np.int64), rule)


def _find_tiling(ranges: Columns, names: Sequence[str], span_ns: int) -> _Steps | None:
    """Return the ranges whose name tiles most time; None if no name tiles half of `span_ns`."""
    longest_ns, steps = 0, None
    for code in np.unique(ranges["name"]).tolist():
        name_ranges = select_rows(ranges, ranges["name"] == code)
        start_ns, end_ns = name_ranges["start_ns"], name_ranges["end_ns"]
        is_repeated = len(start_ns) >= _MIN_REPEATS and "::" not in names[code]
        if not is_repeated or (start_ns[1:] < end_ns[:-1]).any():
            continue
        total_ns = int((end_ns - start_ns).sum())
        if total_ns >= _MIN_TILED * span_ns and (steps is None or total_ns > longest_ns):
            rule = f"called {names[code]!r}, numbered in order"
            longest_ns, steps = total_ns, _Steps(name_ranges, np.arange(len(start_ns)), rule)
    return steps

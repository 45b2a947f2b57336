"""The ranges of a program that are steps.

Most profilers have no steps, but programs name a range for each: ``iteration 10``, ``train_step``.
For each rank, a ``ProfilerStep#n`` is put around

1. the ranges whose names the parameter ``steps`` of `hta_widgets.load` matches, if it is given;
2. else the ranges called as steps are, with a number;
3. else the ranges of one name that tile most of the device's time without overlap.

The thread that launches most of the rank's work is looked through first, then the others, as
PyTorch launches the backward pass on a thread of its own. Only the outermost of nested
candidates counts. Each chosen range gets the number in its name, or its place in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.arguments import match_pattern
from hta_widgets.formats.event_rows import EventRows, ranks_of, select_rows
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.problems import Problems

#: Columns of events.
Columns = dict[str, Ints]

_PROFILER_STEP = "ProfilerStep#"
#: What programs call the ranges of their steps.
_STEP_NAME = re.compile(
    r"\s*(?:train(?:ing)?[ _-]?)?(?:step|iter(?:ation)?|batch)[ _#:=-]*(\d{1,18})\s*", re.IGNORECASE
)
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_MIN_TILED = 0.5
_MIN_REPEATS = 2


class _Steps(NamedTuple):
    """Chosen ranges in order of time, their numbers, and how they were chosen."""

    ranges: Columns
    numbers: Ints
    rule: str


def add_steps(
    rows: EventRows, pattern: str | None, noun: str, path: str, problems: Problems
) -> None:
    """Add the steps of each rank, and report them; ranges are called `noun` in texts."""
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
        of_rank = (ranges["process"] == process) & np.isin(ranges["target"], (-1, device))
        work = (events["process"] == process) & (events["device"] == device) & (device >= 0)
        ids = events["correlation"][work]
        is_launch = (events["process"] == process) & (events["device"] < 0)
        is_launch &= np.isin(events["correlation"], ids[ids > 0])
        launching = events["place"][is_launch]
        span_ns = int(np.ptp(events["start_ns"][work])) if work.any() else 0
        steps = _find_steps(select_rows(ranges, of_rank), launching, names, span_ns, pattern)
        if steps is None:
            continue
        detail = f"steps are {noun}; those {steps.rule} got a {_PROFILER_STEP}n around them"
        problems.add("repaired", len(steps.numbers), detail, file=path)
        chosen = [names[code] for code in steps.ranges["name"].tolist()]
        rows.add(
            **{key: steps.ranges[key] for key in ("start_ns", "end_ns", "place", "process")},
            category="user_annotation", target=device, is_outer=True,
            name=rows.name_codes(f"{_PROFILER_STEP}{n}" for n in steps.numbers.tolist()),
            args=rows.args_codes({noun.removesuffix("s"): name} for name in chosen),
        )  # fmt: skip


def _find_steps(
    ranges: Columns, launching: Ints, names: Sequence[str], span_ns: int, pattern: str | None
) -> _Steps | None:
    """Return the steps among the ranges of a rank, which are in order of time; None for none."""
    threads = list(_ranges_by_thread(ranges, launching))
    codes = np.flatnonzero(_are_steps(names, pattern))
    for of_thread in threads:
        chosen = select_rows(of_thread, np.isin(of_thread["name"], codes))
        if len(chosen["name"]):
            if pattern is not None:
                return _number_steps(chosen, names, _LAST_NUMBER, f"called like {pattern!r}")
            example = names[int(chosen["name"][0])]
            return _number_steps(chosen, names, _STEP_NAME, f"called as {example!r}")
    tiling = (_find_tiling(of_thread, names, span_ns) for of_thread in threads)
    return None if pattern is not None else next(filter(None, tiling), None)


def _ranges_by_thread(ranges: Columns, launching: Ints) -> Iterator[Columns]:
    """Yield the ranges of each thread, first of those that launch most."""
    threads, launches = np.unique(launching, return_counts=True)
    busiest_first = threads[np.argsort(-launches, kind="stable")].tolist()
    for thread in dict.fromkeys([*busiest_first, *np.unique(ranges["place"]).tolist()]):
        yield select_rows(ranges, ranges["place"] == thread)


def _are_steps(names: Sequence[str], pattern: str | None) -> Bools:
    if pattern is not None:
        return match_pattern(pattern, names)
    return np.array([_STEP_NAME.fullmatch(name) is not None for name in names], bool)


def _number_steps(
    chosen: Columns, names: Sequence[str], number: re.Pattern[str], rule: str
) -> _Steps:
    """Return the outermost of some ranges, which begin after all before them have ended."""
    reach = np.maximum.accumulate(chosen["end_ns"])
    ranges = select_rows(chosen, np.append(True, chosen["start_ns"][1:] >= reach[:-1]))
    codes = ranges["name"].tolist()
    numbers = [int(match[1]) for code in codes if (match := number.search(names[code]))]
    if len(numbers) < len(codes) or len(set(numbers)) < len(numbers):
        return _Steps(ranges, np.arange(len(codes)), f"{rule}, numbered in order")
    return _Steps(ranges, np.array(numbers, np.int64), rule)


def _find_tiling(ranges: Columns, names: Sequence[str], span_ns: int) -> _Steps | None:
    """Return the ranges of the name that tiles most of the time, if it tiles enough of it."""
    best: tuple[int, Columns] | None = None
    for code in np.unique(ranges["name"]).tolist():
        of_name = select_rows(ranges, ranges["name"] == code)
        starts, ends = of_name["start_ns"], of_name["end_ns"]
        is_repeated = len(starts) >= _MIN_REPEATS and "::" not in names[code]
        if not is_repeated or (starts[1:] < ends[:-1]).any():
            continue
        length_ns = int((ends - starts).sum())
        if length_ns >= _MIN_TILED * span_ns and (best is None or length_ns > best[0]):
            best = length_ns, of_name
    if best is None:
        return None
    name = names[int(best[1]["name"][0])]
    numbers = np.arange(len(best[1]["name"]))
    return _Steps(best[1], numbers, f"called {name!r}, numbered in order")

"""Lateness of ranks at collectives, and the parts of their time before arrival."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from hta_widgets.analysis.collectives import Arrivals, compute_of, computed_between
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.scope import busy_rows, over_ranks
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.host_stack import of_name
from hta_widgets.trace.intervals import Covered, Intervals, intersect, subtract, union
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.trace import Trace

#: The parts of a rank's time before it arrives.
PARTS: tuple[str, ...] = ("compute", "waiting", "data_loading", "host")

# Healthy ranks differ by a few percent, by noise; stragglers cost more than these limits.
_COSTLY = 0.05  # of the others' time, on average over many steps
_OF_TWO = 1.5  # factor for two ranks, as each is compared with only one other
_BY_CHANCE = 12.0  # divided by ranks times steps squared: relative increase for few of them

_DATA_LOADING = re.compile(r"data_?load|DataLoader|data_?iter|next_batch", re.IGNORECASE)
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.py\(\d+\): )")


@dataclass(frozen=True, slots=True, eq=False)
class Lateness:
    """The lateness of each entry of a `Matching`, and the share that the rank itself causes."""

    late_ns: Floats
    own_share: Floats
    exposed_wait_ns: Ints
    excess_ns: dict[str, Floats]


def costly_share(steps: int, ranks: int, *, sure: bool = True) -> float:
    """Return the minimum share of their time that the others lose to a straggler.

    The fewer the steps and ranks, the more often one of them is slowest by chance. With `sure` the
    limit for one or two steps is so high that chance hardly reaches it.
    """
    few = 1 / steps + (_BY_CHANCE / ranks / steps**2 if sure else 0.0)
    return _COSTLY * (1 + few) * (_OF_TWO if ranks == 2 else 1.0)


def lateness(match: Matching, times: Arrivals, step: Ints) -> Lateness:
    """Compare each arrival, and the time before it, with the collective's other entries."""
    late = times.arrival_ns - others_median(times.arrival_ns.astype(np.float64), match)
    before = _previous_entries(match, times)
    end = np.where(before >= 0, times.end_ns[before], _NEVER)
    since = np.minimum(end, times.arrival_ns)
    waited = _waited_elsewhere(match, times, before) + _unmatched(match, times, since)
    inherited = _inherited(match, times, step, late, waited)
    share = np.clip(1.0 - inherited / np.maximum(late, 1.0), 0.0, 1.0)
    spent, exposed = _spent(match, times, since)
    spent["waiting"] = waited.astype(np.float64)
    excess = {
        part: np.where(since == _NEVER, np.nan, spent[part] - others_median(spent[part], match))
        for part in PARTS
    }
    return Lateness(late, np.where(late > 0, share, 1.0), exposed, excess)


def others_median(values: Floats, match: Matching) -> Floats:
    """Return for each entry the median of its collective's other entries."""
    sizes = match.sizes()
    order = np.lexsort((values, match.collective))
    ordered = values[order]
    count, first = match.each(sizes), match.each(match.starts)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values)) - first
    low, high = (count - 2) // 2, (count - 1) // 2
    # Removing an entry before the median shifts the median's position up by one.
    low = low + (place <= low)
    high = high + (place <= high)
    found: Floats = (ordered[first + low] + ordered[first + high]) / 2
    return found


_NEVER = int(np.iinfo(np.int64).min) // 2


def _previous_entries(match: Matching, times: Arrivals) -> Ints:
    """Return the entry before each one in the same sequence of its rank; -1 for the first."""
    order = np.lexsort((times.arrival_ns, match.lane, match.trace))
    sequences = pd.Series(order).groupby([match.trace[order], match.lane[order]])
    before = np.empty(len(match), dtype=np.int64)
    before[order] = sequences.shift(fill_value=-1)
    return before


def _waited_elsewhere(match: Matching, times: Arrivals, before: Ints) -> Ints:
    """Return each rank's wait in other collectives since its arrival at the collective before."""
    # The wait may begin before it leaves that collective, as collectives and compute overlap.
    known = before >= 0
    since = np.where(known, times.arrival_ns[before], _NEVER)
    there = np.where(known, times.wait_ns[before], 0)
    waited = np.zeros(len(match), dtype=np.int64)
    for entries in match.of_trace:
        mine = entries[np.argsort(times.arrival_ns[entries], kind="stable")]
        arrival = times.arrival_ns[mine]
        total = np.concatenate(([0], np.cumsum(times.wait_ns[mine])))
        own = np.arange(len(mine))
        first = np.minimum(np.searchsorted(arrival, since[mine], side="left"), own)
        waited[mine] = np.maximum(total[own] - total[first] - there[mine], 0)
    return waited


def _unmatched(match: Matching, times: Arrivals, since: Ints) -> Ints:
    """Return each rank's unmatched communication before it arrived, without compute meanwhile."""
    # It counts as waiting, as its share of waiting is unknown.
    found = np.zeros(len(match), dtype=np.int64)
    of_rank = zip(match.traces, match.events, match.of_trace, times.shifts_ns.tolist(), strict=True)
    for trace, events, mine, shift in of_rank:
        unknown = ~events.is_alone
        unknown[match.place[mine]] = False
        if unknown.any() and len(mine):
            pieces = union(events.start_ns[unknown], events.end_ns[unknown])
            exposed = Covered(*subtract(pieces, compute_of(trace)))
            found[mine] = exposed(times.arrival_ns[mine] - shift) - exposed(since[mine] - shift)
    return found


def _inherited(match: Matching, times: Arrivals, step: Ints, late: Floats, waited: Ints) -> Floats:
    """Return how much of each lateness came from waiting in other groups."""
    # A rank that computes while a collective runs is as late to the next one, without a wait in
    # between. So inherited lateness is carried on, as long as the rank is that late.
    order = np.lexsort((times.arrival_ns, step, match.lane, match.trace))
    more = np.maximum(waited - others_median(waited.astype(np.float64), match), 0.0)
    added = np.rint(more[order]).astype(np.int64)
    bound = np.rint(np.maximum(late[order], 0.0)).astype(np.int64)
    keys = np.stack([match.trace[order], match.lane[order], step[order]])
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    # carried[c] = min(bound[c], carried[c-1] + added[c]) is a running minimum after subtracting
    # the sums; a step down at each new sequence restarts it.
    total = np.cumsum(added)
    before = total - added
    start = before[np.flatnonzero(opens)][np.cumsum(opens) - 1] if len(order) else before
    gain = total - start
    low = np.minimum(bound - gain, 0)
    deep = int(-low.min(initial=0)) + 1
    down = np.cumsum(opens) * deep
    carried = np.minimum.accumulate(low - down) + down + gain
    found = np.empty(len(order))
    found[order] = carried
    return found


def _spent(match: Matching, times: Arrivals, since: Ints) -> tuple[dict[str, Floats], Ints]:
    """Return the parts of each rank's time before it arrived, and its waits without computing."""
    spent = {part: np.zeros(len(match)) for part in ("compute", "data_loading", "host")}
    exposed = times.wait_ns
    each = []
    for mine, shift in zip(match.of_trace, times.shifts_ns.tolist(), strict=True):
        arrival = times.arrival_ns[mine] - shift
        start = np.where(since[mine] == _NEVER, arrival, since[mine] - shift)
        each.append((start, arrival, times.last_ns[mine] - shift))
    found = over_ranks(match.traces, _spent_by_rank, each=each, executor=match.executor)
    for mine, (before, computed) in zip(match.of_trace, found, strict=True):
        for part, values in before.items():
            spent[part][mine] = values
        exposed[mine] -= computed
    return spent, exposed


def _spent_by_rank(
    trace: Trace, start: Ints, arrival: Ints, last: Ints
) -> tuple[dict[str, Ints], Ints]:
    """Return the parts of a rank's time before it arrived, and its computing until the last."""
    loading, idle = _idle(trace)
    before = {
        "compute": computed_between(trace, start, arrival),
        "data_loading": loading(arrival) - loading(start),
        "host": idle(arrival) - idle(start),
    }
    return before, computed_between(trace, arrival, last)


@lru_cache(maxsize=1 << 14)
def loads_data(name: str) -> bool:
    """Return whether a host event loads data, by its name without folders of Python files."""
    return _DATA_LOADING.search(_FOLDERS.sub("", name)) is not None


@memoized
def _idle(trace: Trace) -> tuple[Covered, Covered]:
    """Return the device's idle time while the host loads data, and its other idle time."""
    table = trace.table
    end = table.start_ns + table.dur_ns
    busy = busy_rows(trace)
    whole = Intervals.none()
    if len(table):
        whole = union(table.start_ns[:1], end.max(keepdims=True))
    idle = subtract(whole, union(table.start_ns[busy], end[busy]))
    loads = of_name(trace, loads_data)
    loading = intersect(idle, union(table.start_ns[loads], end[loads]))
    return Covered(*loading), Covered(*subtract(idle, loading))

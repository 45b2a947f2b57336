"""Notes about what a frame excludes, or why it is empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, RankParts, host_collectives
from hta_widgets.facts import facts, note_text
from hta_widgets.text import plural, rank_list
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.trace import Trace

#: Keys of notes, for when no selected rank has work and when only the listed ranks lack it.
_NO_WORK = ("no_device_work", "no_device_work_on")


def missing_ranks_note(
    chosen: Sequence[int], having: Collection[int], notes: tuple[str, str] = _NO_WORK
) -> str:
    """Return a note about the selected ranks that are not in `having`; "" if all are."""
    without = [rank for rank in chosen if rank not in having]
    if not without:
        return "" if chosen else note_text("no_ranks")
    if len(without) == len(chosen):
        return note_text(notes[0])
    return note_text(notes[1], ranks=rank_list(without))


def count_host_collectives(trace: Trace) -> Counter[str]:
    """Count a rank's host collectives by name."""
    return count_by_name(trace, host_collectives(trace))


def count_by_name(trace: Trace, rows: Rows) -> Counter[str]:
    """Count the events in `rows` by name."""
    codes, counts = np.unique(trace.table.name[rows], return_counts=True)
    names = [trace.table.names[code] for code in codes.tolist()]
    return Counter(dict(zip(names, counts.tolist(), strict=True)))


def on_hosts_note(
    counts: Iterable[Counter[str]], meaning: str = "which are not device work and not counted here"
) -> str:
    """Return a note about communication on hosts, given the ranks' `count_host_collectives`."""
    totals = sum(counts, Counter[str]())
    if not totals:
        return ""
    most_frequent = max(totals, key=totals.__getitem__)
    events = f"the hosts have {totals.total()} communication events"
    return f"{events}, such as {most_frequent}, {meaning}"


def prelaunched_note(chosen: RankParts) -> str:
    """Return a note about selected device work that was launched before the recording."""
    times = np.array(list(map_ranks(chosen, _prelaunched_time)), dtype=np.int64).reshape(-1, 3)
    count, prelaunched_ns, all_ns = times.sum(axis=0).tolist()
    if not count:
        return ""
    share = int(100 * prelaunched_ns / max(all_ns, 1) + 0.5)
    exported = any(trace.stated_work_ns is not None for trace in chosen.traces)
    period = "the exported window" if exported else "recording"
    return (
        f"{count} of the device events, {share} % of their time, were launched before {period}"
        ' began; the query "prelaunched == False" leaves them out'
    )


def outside_operators_note(outside_ns: int, device_ns: int) -> str:
    """Return a note about device time that no operator launched; "" if its share is small."""
    share = int(100 * outside_ns / max(device_ns, 1) + 0.5)
    is_large = share >= facts("limits")["outside_operators_pct"]
    return note_text("outside_operators", share=share) if is_large else ""


def _prelaunched_time(part: RankPart) -> tuple[int, int, int]:
    """Return the number and duration of prelaunched device events, and the duration of all."""
    rows = part.device_work_rows()
    dur_ns, is_prelaunched = part.durations(rows), part.trace.prelaunched[rows]
    return int(is_prelaunched.sum()), int(dur_ns[is_prelaunched].sum()), int(dur_ns.sum())


def ambiguous_note(collectives: int) -> str:
    """Return a note about collectives whose times match several others; "" if there are none."""
    if not collectives:
        return ""
    return (
        f"{plural(collectives, 'collective')} may match either of two on other ranks: the files"
        " have no sequence numbers, and the times fit both, so waits are uncertain"
    )

"""Leave out files that repeat the contents of another file in another encoding.

PyTorch can dump its flight recorder and memory as JSON and as pickle, and a folder may hold a trace
and a compressed copy::

    nccl_trace_rank_0         pickle
    nccl_trace_rank_0.json    JSON     left out: nccl_trace_rank_0 holds the same run

Two files are such copies if the caller named neither of them, their names have different suffixes,
they state the same ranks, and they hold the same events at the same times. The first by name is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from hta_widgets.readers.discovery import FoundFile
from hta_widgets.readers.formats import Outcome
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace


def drop_encodings(
    files: Sequence[FoundFile], outcomes: Sequence[Outcome], problems: Problems
) -> tuple[list[FoundFile], list[Outcome]]:
    """Report copies in other encodings; return the other files and their outcomes."""
    originals: dict[object, list[int]] = {}
    remaining = []
    for place, (file, outcome) in enumerate(zip(files, outcomes, strict=True)):
        similar = originals.setdefault((file.format, *map(_outline, outcome.traces)), [])
        first = next((other for other in similar if _is_copy(files, outcomes, other, place)), None)
        if first is None:
            similar.append(place)
            remaining.append(place)
        else:
            detail = f"left out: {PurePath(files[first].path).name} holds the same run"
            problems.add("duplicate_rank", 1, detail, file=file.path)
    return [files[place] for place in remaining], [outcomes[place] for place in remaining]


def _outline(trace: Trace) -> tuple[object, ...]:
    return trace.stated_rank, len(trace), len(trace.async_table), trace.start_ns, trace.end_ns


def _is_copy(
    files: Sequence[FoundFile], outcomes: Sequence[Outcome], first: int, other: int
) -> bool:
    """Return whether two files whose traces have equal outlines hold the same run."""
    pair = files[first], files[other]
    traces = outcomes[first].traces
    is_filled = any(len(trace) + len(trace.async_table) for trace in traces)
    if not is_filled or any(file.named for file in pair) or len(set(map(_encoding, pair))) < 2:
        return False
    return all(
        _has_same_events(before, after)
        for before, after in zip(traces, outcomes[other].traces, strict=True)
    )


def _encoding(file: FoundFile) -> tuple[str, ...]:
    """Return the suffixes that state the encoding of a file, such as ``.json`` and ``.gz``."""
    suffixes = PurePath(file.path).suffixes
    count = 2 if suffixes[-1:] in ([".gz"], [".zst"]) else 1
    return tuple(suffix for suffix in suffixes[-count:] if not suffix[1:].isdecimal())


def _has_same_events(first: Trace, other: Trace) -> bool:
    pools = [np.array(trace.table.names.values, dtype=object) for trace in (first, other)]
    tables = ((first.table, other.table), (first.async_table, other.async_table))
    return all(
        np.array_equal(before.start_ns, after.start_ns)
        and np.array_equal(before.dur_ns, after.dur_ns)
        and np.array_equal(pools[0][before.name], pools[1][after.name])
        for before, after in tables
    )

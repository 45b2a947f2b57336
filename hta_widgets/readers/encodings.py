"""Removes files that repeat the events of another file of the job.

PyTorch can dump its flight recorder and memory both as JSON and as pickle, a folder may contain a
trace and a compressed copy, and tools write their results next to the traces that they read::

    nccl_trace_rank_0           pickle
    nccl_trace_rank_0.json      JSON              left out: nccl_trace_rank_0 holds the same run
    rank-1.json                 a trace
    rank-1_with_counters.json   written by HTA    left out: rank-1.json holds the same run
    merged.json                 ranks 0 and 1     its rank 1 is left out, too

Two files are copies if they have the same events at the same times, the caller named neither, and
one of these conditions holds: their encodings differ; one has several ranks and the other one of
these ranks; or both state one rank and the name of one contains the other's name. Files of a single
rank are preferred, and among these the shortest name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from hta_widgets.readers.discovery import FoundFile
from hta_widgets.readers.formats import Outcome
from hta_widgets.readers.ranks import have_same_events
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace


def drop_copies(
    files: Sequence[FoundFile], outcomes: Sequence[Outcome], problems: Problems
) -> tuple[list[FoundFile], list[Outcome]]:
    """Report traces that repeat traces of other files; return the other files and outcomes."""
    originals: dict[object, list[tuple[FoundFile, Outcome, Trace]]] = {}
    remaining: dict[int, Outcome] = {}
    order = sorted(
        range(len(files)),
        key=lambda place: (len(outcomes[place].traces) > 1, len(_stem(files[place]))),
    )
    for place in order:
        file, outcome = files[place], outcomes[place]
        traces = []
        repeated: set[int] = set()  # a trace of another file has at most one copy here
        for trace in outcome.traces:
            outline = len(trace), len(trace.async_table), trace.zero_ns, trace.end_ns
            similar = originals.setdefault((file.format, outline), [])
            copied = (
                (original, id(earlier))
                for original, holder, earlier in similar
                if any(outline[:2])  # without events, traces are not copies
                and id(earlier) not in repeated
                and _may_repeat((original, file), (holder, outcome))
                and have_same_events(earlier, trace)
            )
            original, number = next(copied, (None, 0))
            if original is None:
                similar.append((file, outcome, trace))
                traces.append(trace)
            else:
                repeated.add(number)
                detail = f"left out: {PurePath(original.path).name} holds the same run"
                problems.add("duplicate_rank", 1, detail, file=file.path)
        if traces or not outcome.traces:
            remaining[place] = outcome._replace(traces=tuple(traces))
    places = sorted(remaining)
    return [files[place] for place in places], [remaining[place] for place in places]


def _may_repeat(pair: tuple[FoundFile, FoundFile], outcomes: tuple[Outcome, Outcome]) -> bool:
    """Return whether files may hold the same events, judging by names, ranks and encodings."""
    if any(file.named for file in pair) or pair[0] == pair[1]:
        return False
    ranks = [[trace.stated_rank for trace in outcome.traces] for outcome in outcomes]
    if (len(ranks[0]) > 1) != (len(ranks[1]) > 1):
        return len({PurePath(file.path).parent for file in pair}) == 1
    if ranks[0] != ranks[1]:
        return False
    if len(set(map(_encoding, pair))) > 1:
        return True
    short, long = map(_stem, pair)
    if short == long or len(ranks[0]) > 1 or ranks[0] == [None]:
        return False
    # As a word: "rank-1" is part of "rank-1_with_counters", but not of "rank-10".
    return re.search(rf"(?<![^\W_]){re.escape(short)}(?![^\W_])", long) is not None


def _stem(file: FoundFile) -> str:
    """Return the name of a file without the suffixes that state its encoding."""
    name = PurePath(file.path).name
    return name.removesuffix("".join(_encoding(file)))


def _encoding(file: FoundFile) -> tuple[str, ...]:
    """Return the suffixes that state a file's encoding, such as ``.json`` and ``.gz``."""
    suffixes = PurePath(file.path).suffixes
    count = 2 if suffixes[-1:] in ([".gz"], [".zst"]) else 1
    return tuple(suffix for suffix in suffixes[-count:] if not suffix[1:].isdecimal())

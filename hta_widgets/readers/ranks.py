"""Assigns ranks to files from their metadata or names, otherwise in the order of names.

``worker0`` or ``rank_0`` in a name means rank 0. Coordinates such as ``TP-0-DP-1`` are sorted in
the order in which frameworks number ranks. If several files state the same rank, the file whose run
has the most other files gets it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from hta_widgets.readers.formats import formats_named
from hta_widgets.text import duration
from hta_widgets.trace.columns import as_integer
from hta_widgets.trace.problems import ANOTHER_RUN, POSSIBLE_DUPLICATE, Problems
from hta_widgets.trace.shared_clock import clock_groups
from hta_widgets.trace.summary import most_frequent_size
from hta_widgets.trace.trace import Trace

#: A global rank; a name may also state the rank on the node, as in ``rank_9_local_rank_1``.
_RANK = re.compile(r"(?i)(?<!local[-_ ])(?<![a-z])rank[-_ =:]{0,2}\[?(\d+)\]?")
_LOCAL_RANK = re.compile(r"(?i)local[-_ ]?rank[-_ =:]{0,2}\[?(\d+)\]?")
#: File names of `hta_widgets.trace_handler`, with the rank of the process.
_RECORDED = re.compile(r"_rank-(\d+)-of-\d+_step-\d+\.pt\.trace\.json(?:\.gz)?$")
_WORKER = re.compile(r"(?i)(?<![a-z])worker[-_ ]?(\d+)")
_PATTERNS = (_RANK, _LOCAL_RANK, _WORKER)
#: -TP-0-DP-1-PP-0-EP-0, dp0_tp1 …: one coordinate per kind of parallelism
_DIMENSIONS = re.compile(r"(?i)(?<![a-z])(dp|pp|tp|ep|cp|sp)[-_ =:]{0,2}(\d+)(?!\d)")
_ORDER = ("pp", "dp", "cp", "sp", "ep", "tp")

LAST_RANK = (1 << 31) - 1


def is_rank(value: object) -> bool:
    """Return whether a value is a whole number that can be a rank."""
    return (
        hasattr(value, "__index__")
        and not isinstance(value, bool)
        and 0 <= value.__index__() <= LAST_RANK
    )


def stated_rank(
    metadata: Mapping[str, Any], problems: Problems | None = None, file: str | None = None
) -> int | None:
    """Return the rank stated in a file's metadata; report a rank that is too large."""
    for holder in (metadata.get("distributedInfo"), metadata):
        rank = as_integer(holder.get("rank"), math.inf) if isinstance(holder, Mapping) else -1
        if is_rank(rank):
            return rank
        if problems is not None and rank > LAST_RANK:
            problems.add("repaired", 1, f"a rank above {LAST_RANK:,}; it is ignored", file=file)
    return None


def assign_ranks(
    paths: Sequence[str],
    requested: Sequence[int | None],
    stated: Sequence[int | None],
    problems: Problems,
    by_order: Sequence[bool] = (),
    cut: Collection[str | None] = (),
    traces: Sequence[Trace] = (),
) -> list[int]:
    """Assign a unique rank to every file.

    Parameters
    ----------
    paths : sequence of str
        In the order in which files without a rank are numbered.
    requested, stated : sequence of int or None
        Ranks from the caller and from the metadata of the files.
    problems : Problems
        Receives guessed and duplicate ranks.
    by_order : sequence of bool, optional
        Whether each file is numbered after all others if it states no rank.
    cut : collection of str, optional
        Paths of truncated files.
    traces : sequence of Trace, optional
        The trace of each file, for choosing between files that state the same rank. The file whose
        run has the most other ranks is preferred, then a file that is not truncated.
    """
    claims: list[_RankClaim] = []
    stated_ranks = [rank for rank in stated if rank is not None]
    if len(traces) == len(stated) and len(set(stated_ranks)) < len(stated_ranks):
        claims = _rank_claims(traces, stated, cut)
    ranks = list(requested)
    used = {rank for rank in requested if rank is not None}
    duplicates = _assign_stated_ranks(ranks, used, stated, claims)
    without_rank = [
        file for file, rank in enumerate(ranks) if rank is None and stated[file] is None
    ]
    numbered_last = [file for file in without_rank if by_order and by_order[file]]
    unknown = [file for file in without_rank if file not in numbered_last]
    guesses, source_text = _guess_ranks([paths[file] for file in unknown], used)
    for file, guess in zip(unknown, guesses, strict=True):
        ranks[file] = guess
        used.add(guess)
        if not _is_recorded_as(paths[file], guess):
            detail = f"{_reason_for_guess(file, paths, ranks)}; taken as {guess} {source_text}"
            problems.add("guessed_rank", 1, detail, guess, paths[file])
    for file in duplicates:
        rank = next(rank for rank in itertools.count() if rank not in used)
        ranks[file] = rank
        used.add(rank)
        holder = ranks.index(stated[file])
        early = ", and ends early" if paths[file] in cut else ""
        name = _distinct_name(paths[holder], paths[file])
        difference = _describe_difference(claims[file], claims[holder], name) if claims else ""
        detail = f"states rank {stated[file]}, as {name} does{early}{difference}"
        problems.add("duplicate_rank", 1, f"{detail}; kept as rank {rank}", rank, paths[file])
    for rank, file in enumerate(numbered_last, max(used, default=-1) + 1):
        ranks[file] = rank
    return [rank for rank in ranks if rank is not None]


def _reason_for_guess(file: int, paths: Sequence[str], ranks: Sequence[int | None]) -> str:
    """Return why the rank of a file was guessed; `ranks` are the ranks assigned so far."""
    count = paths.count(paths[file])
    if count > 1:
        return f"is one of {count} ranks or devices in the file"
    named = _rank_of_name(paths[file])
    if named is not None and named != ranks[file] and named in ranks:
        name = _distinct_name(paths[ranks.index(named)], paths[file])
        return f"its name states rank {named}, which is that of {name}"
    return "the file states no rank"


def _assign_stated_ranks(
    ranks: list[int | None],
    used: set[int],
    stated: Sequence[int | None],
    claims: Sequence[_RankClaim],
) -> list[int]:
    """Assign the stated ranks that are free; return files whose stated rank is taken."""
    duplicates = []
    files: Sequence[int] = range(len(stated))
    if claims:
        files = sorted(files, key=lambda file: claims[file].order)
    for file in files:
        rank = stated[file]
        if ranks[file] is not None or rank is None:
            continue
        if rank in used:
            duplicates.append(file)
        else:
            ranks[file] = rank
            used.add(rank)
    return duplicates


@dataclass(frozen=True, slots=True)
class _RankClaim:
    """Facts that show whether a file belongs with the files of other ranks."""

    trace: Trace
    job: str
    world_size: int
    host: str
    #: number of the group of files whose times overlap, directly or through others; -1 without
    #: events
    window: int
    is_cut: bool
    #: number of ranks of the same run, of the same run and window, and of the same run and host
    agree: tuple[int, ...] = ()
    #: sorts the best claim first
    order: tuple[Any, ...] = ()


def _rank_claims(
    traces: Sequence[Trace], stated: Sequence[int | None], cut: Collection[str | None]
) -> list[_RankClaim]:
    """Return each file's claim; files of one format, job, world size and clock are one run."""
    sizes = [trace.world_size or int(getattr(trace.profile, "ntasks", 0)) for trace in traces]
    usual = most_frequent_size(sizes)
    timed = [trace for trace in traces if len(trace)]
    clocks = {id(trace): n for n, group in enumerate(clock_groups(timed)) for trace in group}
    windows = _window_numbers(timed)
    claims, keys = [], []
    ranks: dict[Any, set[int | None]] = defaultdict(set)
    run_numbers: dict[Any, int] = {}
    for trace, rank, size in zip(traces, stated, sizes, strict=True):
        job = trace.job or _stated_value(trace, "job_id", "run_id")
        host = trace.host or _stated_value(trace, "host_name")
        window = windows.get(id(trace), -1)
        run = trace.format, job, size or usual, clocks.get(id(trace), -1)
        run_numbers.setdefault(run, len(run_numbers))
        claims.append(_RankClaim(trace, job, size, host, window, is_cut=trace.path in cut))
        keys.append((run, (run, window), (run, host, "host")))
        for key in keys[-1]:
            ranks[key].add(rank)
    for place, (claim, keys_of_trace) in enumerate(zip(claims, keys, strict=True)):
        trace, run_number = claim.trace, run_numbers[keys_of_trace[0]]
        agree = tuple(len(ranks[key] - {None}) for key in keys_of_trace)
        fewer = tuple(-number for number in agree)
        yields = any(format_.reading.is_dump for format_ in formats_named([trace.format]))
        order = (yields, trace.is_totals, *fewer, run_number, claim.window, claim.is_cut, place)
        claims[place] = replace(claim, agree=agree, order=order)
    return claims


def _window_numbers(traces: Sequence[Trace]) -> dict[int, int]:
    """Return a window number by trace `id`; traces that overlap, even through others, share it."""
    numbers: dict[int, int] = {}
    window, end_ns = -1, -1
    for trace in sorted(traces, key=lambda trace: trace.zero_ns):
        window += trace.zero_ns > end_ns
        numbers[id(trace)] = window
        end_ns = max(end_ns, trace.zero_ns + trace.table.last_ns)
    return numbers


def _stated_value(trace: Trace, *keys: str) -> str:
    return next((str(trace.metadata[key]) for key in keys if trace.metadata.get(key)), "")


def _describe_difference(claim: _RankClaim, holder: _RankClaim, name: str) -> str:
    """Describe how a file differs from `name`, the file that got the rank stated by both."""
    if claim.job != holder.job and claim.job and holder.job:
        return f", and belongs to job {claim.job}, not {holder.job}"
    if claim.trace.format != holder.trace.format or claim.trace.is_totals != holder.trace.is_totals:
        return ""
    differs = [
        f"its {attribute} is {value}, not {other}"
        for attribute, value, other in (
            ("world size", claim.world_size, holder.world_size),
            ("host", claim.host, holder.host),
        )
        if value != other and value and other
    ]
    if claim.window != holder.window and -1 not in (claim.window, holder.window):
        apart_ns = claim.trace.zero_ns - holder.trace.zero_ns
        differs.append(
            f"it starts {duration(abs(apart_ns))} {'later' if apart_ns > 0 else 'earlier'}"
        )
    if not differs and (claim.is_cut or have_same_events(claim.trace, holder.trace)):
        return f": {POSSIBLE_DUPLICATE}"
    if not differs:
        events, other_events = len(claim.trace), len(holder.trace)
        differs = [f"it has {events:,} events, not {other_events:,}"]
        if events == other_events:
            differs = ["its events differ"]
    pairs = zip(claim.agree, holder.agree, strict=True)
    fewer, more = next(((few, many) for few, many in pairs if few != many), (0, 0))
    unknown_text = "; it is unknown which of the two belongs with the other ranks"
    if more:
        unknown_text = (
            f"; files of {more - 1} other ranks agree with {name}, and {fewer - 1} with this file"
        )
    return f", and is {ANOTHER_RUN}: {', '.join(differs)}{unknown_text}"


def have_same_events(first: Trace, second: Trace) -> bool:
    """Return whether two traces have the same events and async intervals."""

    def columns(trace: Trace) -> Iterator[Any]:
        names = np.array(trace.table.names.values, dtype=object)
        yield trace.zero_ns
        for table in (trace.table, trace.async_table):
            yield from (table.start_ns, table.dur_ns, names[table.name])

    pairs = zip(columns(first), columns(second), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def _guess_ranks(paths: Sequence[str], taken: set[int]) -> tuple[list[int], str]:
    for pattern in _PATTERNS:
        ranks = [_last_number(pattern, path) for path in paths]
        if _are_unique_and_free(ranks, taken):
            return [rank for rank in ranks if rank is not None], "from its name"
    ordered = ranks_of_coordinates([PurePath(path).name for path in paths])
    if ordered is not None and _are_unique_and_free(ordered, taken):
        return ordered, "from the coordinates in its name"
    free_ranks = (rank for rank in itertools.count() if rank not in taken)
    guesses = list(itertools.islice(free_ranks, len(paths)))
    return guesses, "from its position in the sorted names"


def _rank_of_name(path: str) -> int | None:
    ranks = (_last_number(pattern, path) for pattern in _PATTERNS)
    return next((rank for rank in ranks if rank is not None), None)


def _distinct_name(path: str, other: str) -> str:
    """Return the name of a file, or its path if `other` has the same name."""
    name = PurePath(path).name
    return path if name == PurePath(other).name else name


def _is_recorded_as(path: str, rank: int) -> bool:
    """Return whether `trace_handler` wrote the file for this rank; PyTorch omits a single rank."""
    recorded = _RECORDED.search(path)
    return recorded is not None and int(recorded[1]) == rank


def _are_unique_and_free(ranks: Sequence[int | None], taken: set[int]) -> bool:
    distinct = set(ranks)
    are_unique = bool(ranks) and len(distinct) == len(ranks)
    return are_unique and None not in distinct and taken.isdisjoint(distinct)


def _last_number(pattern: re.Pattern[str], path: str) -> int | None:
    """Return the number in the last match, in the last path component with a match, or None."""
    for part in reversed(PurePath(path).parts):
        matches = pattern.findall(part)
        if matches:
            return int(matches[-1]) if int(matches[-1]) <= LAST_RANK else None
    return None


def rank_in_name(name: str) -> str | None:
    """Return the part of a file name that states its rank or coordinates, or None."""
    for pattern in (*_PATTERNS, _DIMENSIONS):
        if parts := [match[0].lower() for match in pattern.finditer(name)]:
            return " ".join(parts)
    return None


def ranks_of_coordinates(texts: Sequence[str]) -> list[int] | None:
    """Return ranks from coordinates such as ``TP-0-DP-1``, in the order of frameworks.

    A single number, as in ``rank 3`` or ``TP03``, is the rank itself. Returns None unless all texts
    have coordinates of the same kinds and all are different.
    """
    numbers = [_last_number(_RANK, text) for text in texts]
    if _are_unique_and_free(numbers, set()):
        return [number for number in numbers if number is not None]
    coordinates = [
        {kind.lower(): int(number) for kind, number in _DIMENSIONS.findall(text)} for text in texts
    ]
    if not texts or not all(coordinates) or len({frozenset(place) for place in coordinates}) > 1:
        return None
    keys = [tuple(place[name] for name in _ORDER if name in place) for place in coordinates]
    if len(set(keys)) < len(keys):
        return None
    if len(keys[0]) == 1 and max(keys)[0] <= LAST_RANK:
        return [key[0] for key in keys]
    rank_of_key = {key: rank for rank, key in enumerate(sorted(keys))}
    return [rank_of_key[key] for key in keys]

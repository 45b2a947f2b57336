"""Which ranks form which process groups, and what the groups are for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.text import number_runs
from hta_widgets.text import run_text
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.intervals import total
from hta_widgets.trace.intervals import union

from hta_widgets.analysis.collective_args import OPERATIONS
from hta_widgets.analysis.collective_args import CommEvents
from hta_widgets.analysis.collective_args import unsized
from hta_widgets.analysis.collective_args import unsized_note
from hta_widgets.analysis.group_headers import Header
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.matching import matching
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.process_groups import identified
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import parts

__all__ = ["GROUP_KINDS", "parallel_groups", "stage_of"]

Ints = npt.NDArray[np.int64]

#: What process groups are for; ``all`` has every rank of the job.
GROUP_KINDS: tuple[str, ...] = (
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "all",
    "unknown",
)

#: Words of descriptions as PyTorch, DeepSpeed and Megatron give them. The first that occurs counts:
#: ``EXPERT_DATA_PARALLEL`` reduces gradients, ``PIPELINE_MODEL_PARALLEL`` passes activations on.
_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("data", frozenset({"dp", "ddp", "fsdp", "hsdp", "data", "replicate", "shard", "zero"})),
    ("pipeline", frozenset({"pp", "pipe", "pipeline"})),
    ("tensor", frozenset({"tp", "tensor"})),
    ("context", frozenset({"cp", "context", "sp", "sequence", "ulysses"})),
    ("expert", frozenset({"ep", "expert", "moe"})),
    ("tensor", frozenset({"mp", "model"})),
    ("all", frozenset({"default", "world"})),
)

_SEND_RECV = OPERATIONS.index("send_recv")
_ALL_TO_ALL = OPERATIONS.index("all_to_all")


def parallel_groups(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return which ranks form which process groups, and what the groups are for.

    Groups are those that the files' headers list and those that communication kernels name. What
    one is for is what its description says (``mesh_tp``, ``DATA_PARALLEL_GROUP``, …). Where that
    says nothing, it is guessed:

    - a group of every rank of the job is ``all``, which is no guess;
    - one that only sends and receives passes activations on: ``pipeline``;
    - one of which at least half of the collectives are all-to-all: ``expert``;
    - one of adjacent ranks, which are next to each other on a host: ``tensor``;
    - one of ranks that are equally far apart: ``data``;
    - else ``unknown``, as are streams that stand for groups where kernels name none.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        Only this communication is counted; groups are returned all the same.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; times are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per group and rank that is loaded, groups of more ranks first. ``group`` (text),
        as in `collectives`; ``rank`` (int64); ``ranks`` (text), the members, such as ``0-7`` or
        ``0, 4, 8``, empty where no file says; ``position`` (int64), the rank's among them, -1
        unknown; ``size`` (int64, -1 unknown); ``kind`` (categorical): ``data``, ``tensor``,
        ``pipeline``, ``context``, ``expert``, ``all`` or ``unknown``; ``guessed`` (bool), whether
        that is no more than a guess; ``description`` (text), as in the file; ``operations`` (text),
        what the rank runs in the group and how often; ``collectives`` (int64), how many events that
        are; ``time_ns`` (int64), how long any of them runs, waits included; ``bytes`` (int64),
        their messages added up, -1 where none states its size.

    Notes
    -----
    HTA has no process groups. The header's list is ``distributedInfo.pg_config`` of PyTorch.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> parallel_groups(traces).drop_duplicates("group")[
    ...     ["group", "ranks", "kind"]
    ... ]  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    match = matching(traces)
    numbers, groups = _all_groups(match)
    world = _world(match.headers)
    of_trace = {trace.rank: number for number, trace in enumerate(match.traces)}
    used = _operations(match, numbers, len(groups))
    kinds = [_kind(one, used[number], world) for number, one in enumerate(groups)]
    rows: list[tuple[int, int, _Spent]] = []
    headed = _in_headers(groups, len(numbers))
    places = [of_trace[rank] for rank in chosen.ranks]
    own_groups = [sorted(set(numbers[place]) | headed[place]) for place in places]
    each = [
        (match.events[place], numbers[place], mine)
        for place, mine in zip(places, own_groups, strict=True)
    ]
    of_ranks = over_ranks(chosen, _spent, each=each)
    for place, mine, spent in zip(places, own_groups, of_ranks, strict=True):
        rows += [(number, place, one) for number, one in zip(mine, spent, strict=True)]
    rows.sort(key=lambda row: (-groups[row[0]].size, row[0], row[1]))
    own = [groups[number] for number, _, _ in rows]
    whole = [_stated_rank(match.traces[place]) for _, place, _ in rows]
    return result(
        {
            "group": pd.array([one.label for one in own], dtype="str"),
            "rank": np.array([match.traces[place].rank for _, place, _ in rows], dtype=np.int64),
            "ranks": pd.array([_listed(one.ranks) for one in own], dtype="str"),
            "position": np.array(
                [
                    one.ranks.index(rank) if rank in one.ranks else -1
                    for one, rank in zip(own, whole, strict=True)
                ],
                dtype=np.int64,
            ),
            "size": np.array([one.size for one in own], dtype=np.int64),
            "kind": categorical(
                np.array([GROUP_KINDS.index(kinds[number][0]) for number, _, _ in rows], np.int64),
                GROUP_KINDS,
            ),
            "guessed": np.array([kinds[number][1] for number, _, _ in rows], dtype=bool),
            "description": pd.array([one.description for one in own], dtype="str"),
            "operations": pd.array([spent.operations for _, _, spent in rows], dtype="str"),
            "collectives": np.array([spent.count for _, _, spent in rows], dtype=np.int64),
            "time_ns": np.array([spent.time_ns for _, _, spent in rows], dtype=np.int64),
            "bytes": np.array([spent.size_bytes for _, _, spent in rows], dtype=np.int64),
        },
        matched={"groups": len(groups), **count_kinds(chosen, ("communication",))},
        note=_note(chosen, match, rows),
    )


def stage_of(traces: TraceSet) -> dict[int, int]:
    """Return the pipeline stage of each rank: its position in its pipeline group, 0 without one.

    Ranks of different stages do different work, so they are not to be compared.
    """
    match = matching(traces)
    numbers, groups = _all_groups(match)
    used = _operations(match, numbers, len(groups))
    world = _world(match.headers)
    pipelines = {
        number
        for number, one in enumerate(groups)
        if _kind(one, used[number], world)[0] == "pipeline"
    }
    found = {}
    headed = _in_headers(groups, len(numbers))
    for place, trace in enumerate(match.traces):
        rank, stage = _stated_rank(trace), 0
        for number in (set(numbers[place]) | headed[place]) & pipelines:
            members = groups[number].ranks
            stage = max(stage, members.index(rank) if rank in members else 0)
        found[trace.rank] = stage
    return found


# --- which groups there are -----------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """A process group, and the ranks (by position in the set) whose headers list it."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool
    description: str = ""
    listed_by: set[int] = field(default_factory=set)


def _in_headers(groups: Sequence[_Known], count: int) -> list[set[int]]:
    """Return for each rank the numbers of the groups that its header says it is in."""
    found: list[set[int]] = [set() for _ in range(count)]
    for number, one in enumerate(groups):
        for place in one.listed_by:
            found[place].add(number)
    return found


def _all_groups(match: Matching) -> tuple[list[list[int]], list[_Known]]:
    """Return the number of each group of each rank's `CommEvents`, and all groups."""
    numbers, named = identified(match.traces, match.events, match.headers)
    groups = [_Known(one.label, one.ranks, one.size, one.named) for one in named]
    by_members: dict[tuple[str, tuple[int, ...]], int] = {}
    for place, (mine, events) in enumerate(zip(numbers, match.events, strict=True)):
        for number, own in zip(mine, events.groups, strict=True):
            if own.stream < 0:
                by_members.setdefault((own.name, groups[number].ranks), number)
                if not groups[number].description:
                    groups[number].description = _described(match.headers[place], events, own.name)
    for place, trace in enumerate(match.traces):
        own_rank = _stated_rank(trace)
        for group in match.headers[place].groups:
            name, ranks = group.name, group.ranks
            if own_rank not in ranks:
                continue
            number = by_members.setdefault((name, ranks), len(groups))
            if number == len(groups):
                label = (
                    name if all(one.label != name for one in groups) else f"{name} {list(ranks)}"
                )
                groups.append(_Known(label, ranks, len(ranks), True))
            groups[number].listed_by.add(place)
            groups[number].description = groups[number].description or group.description
    return numbers, groups


def _described(header: Header, events: CommEvents, name: str) -> str:
    """Return what a file calls a group's purpose, in its header or on the group's first event."""
    for group in header.groups:
        if group.name == name and group.ranks and group.description:
            return group.description
    code = next((k for k, one in enumerate(events.groups) if one.name == name), -1)
    return events.descriptions[code] if 0 <= code < len(events.descriptions) else ""


def _stated_rank(trace: Trace) -> int:
    return trace.rank if trace.stated_rank is None else trace.stated_rank


def _world(headers: Sequence[Header]) -> int:
    """Return how many ranks the job has, as far as files say; -1 if none does."""
    return max(
        (
            size
            for header in headers
            for size in (header.world_size, *(len(group.ranks) or -1 for group in header.groups))
        ),
        default=-1,
    )


# --- what they are for ----------------------------------------------------------------------------


def _kind(group: _Known, used: Ints, world: int) -> tuple[str, bool]:
    """Return what a group is for, and whether that is a guess; `used` counts its operations."""
    everyone = group.named and 1 < group.size == world
    words = set(re.findall(r"[a-z]+", group.description.lower()))
    for kind, signs in _WORDS:
        if words & signs and (kind != "all" or everyone):
            return kind, False
    if everyone:
        return "all", False
    count = int(used.sum())
    if not group.named:
        # Kernels alone do not tell: NCCL's all-to-all sends and receives.
        return "unknown", True
    if count and used[_SEND_RECV] == count:
        return "pipeline", True
    if count and 2 * used[_ALL_TO_ALL] >= count:
        return "expert", True
    apart = np.unique(np.diff(np.array(sorted(group.ranks))))
    if len(group.ranks) >= 2 and len(apart) == 1:
        return ("tensor" if apart[0] == 1 else "data"), True
    return "unknown", True


def _operations(match: Matching, numbers: Sequence[Sequence[int]], count: int) -> Ints:
    """Return how often each group runs each operation, over all ranks and all of their time."""
    used = np.zeros((count, len(OPERATIONS)), dtype=np.int64)
    for mine, events in zip(numbers, match.events, strict=True):
        if len(events.rows):
            group = np.array(mine, dtype=np.int64)[events.group]
            np.add.at(used, (group, events.operation), 1)
    return used


# --- what ranks spend in them ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spent:
    operations: str
    count: int
    time_ns: int
    size_bytes: int
    unsized: Counter[str]


def _spent(
    part: Part, events: CommEvents, numbers: Sequence[int], groups: Sequence[int]
) -> list[_Spent]:
    """Return what a rank spends in each of `groups`."""
    selected = np.zeros(len(part.trace), dtype=bool)
    selected[part.rows] = True
    group = np.array(numbers, dtype=np.int64)[events.group] if len(events.rows) else events.group
    found = []
    for number in groups:
        mine = (group == number) & selected[events.rows]
        size = events.size_bytes[mine]
        often = Counter(events.operation[mine].tolist())
        found.append(
            _Spent(
                ", ".join(f"{OPERATIONS[code]} {count}" for code, count in often.most_common()),
                int(mine.sum()),
                total(union(*part.clipped(events.rows[mine]))),
                int(size[size >= 0].sum()) if (size >= 0).any() else -1,
                unsized(events, mine),
            )
        )
    return found


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as text; runs of three and more as ``first-last``."""
    return ", ".join(run_text(run, "-") for run in number_runs(ranks))


def _note(chosen: Sequence[Part], match: Matching, rows: Sequence[tuple[int, int, _Spent]]) -> str:
    if not chosen:
        return "no ranks are selected"
    if not rows:
        return "neither headers nor communication kernels tell of process groups"
    parts = [unsized_note(spent.unsized for _, _, spent in rows)]
    if match.missing_ranks:
        parts.insert(0, f"files of {match.missing_ranks} ranks are missing")
    return "; ".join(filter(None, parts))

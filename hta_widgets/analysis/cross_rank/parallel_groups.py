"""Process groups: their ranks, their purposes, and the pipeline stages of ranks.

For example, 8 ranks use groups of adjacent ranks (0-3, 4-7) for tensor parallelism, and groups of
every fourth rank (0 and 4, 1 and 5, …) for data parallelism.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import compute_time_between
from hta_widgets.analysis.cross_rank.comm_events import (
    OPERATIONS,
    CommEvents,
    JobHeader,
    count_unsized,
    stated_rank,
    sum_known_bytes,
    unsized_note,
)
from hta_widgets.analysis.cross_rank.comm_groups import ProcessGroup, identify_groups, world_size
from hta_widgets.analysis.cross_rank.matching import Matching, matching
from hta_widgets.analysis.frames import categorical, columns_of_rows, int64, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, count_by_kind, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.text import consecutive_runs, plural, run_text
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Purposes of process groups; ``all`` has every rank of the job.
GROUP_KINDS: tuple[str, ...] = ("data", "tensor", "pipeline", "context", "expert", "all", "unknown")

#: Words in group descriptions of PyTorch, DeepSpeed and Megatron. The first match applies. Thus
#: ``EXPERT_DATA_PARALLEL``, whose group reduces gradients, is ``data``, and
#: ``PIPELINE_MODEL_PARALLEL``, whose group passes activations on, is ``pipeline``.
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


@check_arguments
def parallel_groups(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the ranks and the purpose of each process group.

    Groups come from the headers of files and from communication kernels. The purpose of a group
    follows from its description (``mesh_tp``, ``DATA_PARALLEL_GROUP``, …). Without a description,
    the purpose is guessed:

    - a group of all ranks of the job is ``all``, which is certain;
    - a group that only sends and receives is ``pipeline``;
    - a group whose collectives are at least half all-to-all is ``expert``;
    - a group of adjacent ranks is ``tensor``;
    - a group of ranks at equal distances is ``data``;
    - others are ``unknown``, as are streams of kernels that name no group.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The communication to count, restricted by time and ranks. All groups are returned.

    Returns
    -------
    DataFrame
        One row per group and loaded rank, groups of more ranks first. ``group`` (str), as in
        `collectives`; ``rank`` (int64); ``ranks`` (str), the members, such as ``0-7`` or ``0, 4,
        8``, empty if unknown; ``position`` (int64), the rank's position among them, -1 unknown;
        ``size`` (int64, -1 unknown); ``kind`` (categorical): ``data``, ``tensor``, ``pipeline``,
        ``context``, ``expert``, ``all`` or ``unknown``; ``guessed`` (bool), whether the kind is a
        guess; ``description`` (str), as in the file; ``operations`` (str), the rank's operations in
        the group and their counts; ``collectives`` (int64), the number of these events; ``time_ns``
        (int64), how long any of them runs, including waits; ``bytes`` (int64), the sum of the known
        message sizes, -1 if none is known.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    match = matching(traces)
    numbers, groups, groups_of = _all_groups(match)
    kinds = _group_kinds(match, numbers, groups)
    number_of = {trace.rank: number for number, trace in enumerate(match.traces)}
    places = [number_of[rank] for rank in chosen.ranks]
    arguments = [(match.events[place], numbers[place], groups_of[place]) for place in places]
    traffic_of_ranks = list(map_ranks(chosen, _group_traffic, each=arguments))
    rows: dict[tuple[int, int, int], tuple[Any, ...]] = {}  # sorted by this key
    for place, traffic_of_groups in zip(places, traffic_of_ranks, strict=True):
        for number, traffic in zip(groups_of[place], traffic_of_groups, strict=True):
            group, (kind, is_guessed) = groups[number], kinds[number]
            rows[-group.size, number, place] = (
                *_membership(group, match.traces[place]), GROUP_KINDS.index(kind), is_guessed,
                group.description, *astuple(traffic)[:-1],
            )  # fmt: skip
    if rows:
        missing = match.missing_ranks
        unsized = [traffic.unsized for of_groups in traffic_of_ranks for traffic in of_groups]
        notes = [f"files of {plural(missing, 'rank')} are missing" if missing else ""]
        notes.append(unsized_note(unsized))
    elif chosen:
        notes = ["neither headers nor communication kernels name process groups"]
    else:
        notes = [note_text("no_ranks")]
    schema = {
        "group": "str", "rank": "int64", "ranks": "str", **int64("position size kind"),
        "guessed": "bool", "description": "str", "operations": "str",
        **int64("collectives time_ns bytes"),
    }  # fmt: skip
    columns = columns_of_rows((rows[key] for key in sorted(rows)), schema)
    columns["kind"] = categorical(columns["kind"], GROUP_KINDS)
    return result_frame(
        columns,
        matched={"groups": len(groups), **count_by_kind(chosen, ("communication",))},
        note=notes,
    )


def _membership(group: ProcessGroup, trace: Trace) -> tuple[str, int, str, int, int]:
    """Return the columns ``group, rank, ranks, position, size`` of a rank in a group."""
    rank, ranks = stated_rank(trace), group.ranks
    members = ", ".join(run_text(run, "-") for run in consecutive_runs(ranks))
    position = ranks.index(rank) if rank in ranks else -1
    return group.label, trace.rank, members, position, group.size


def pipeline_stages(traces: TraceSet) -> dict[int, int]:
    """Return each rank's pipeline stage: its position in its pipeline; 0 if it has none."""
    # Ranks of different stages do different work, so they must not be compared.
    ranks_of = pipelines(traces)
    return {
        trace.rank: ranks_of[trace.rank].index(stated_rank(trace)) if ranks_of[trace.rank] else 0
        for trace in traces.values()
    }


def pipelines(traces: TraceSet) -> dict[int, tuple[int, ...]]:
    """Return the ranks of each rank's pipeline; empty if it has none.

    These are the ranks of its largest pipeline group, or of the pairs that connect its stages: for
    four stages, DeepSpeed has the groups ``[0, 1]``, ``[1, 2]`` and ``[2, 3]``. If no group is a
    pipeline, they are the ranks that send to each other in a row within the group of all ranks.
    """
    match = matching(traces)
    all_numbers, groups, groups_of = _all_groups(match)
    kinds = _group_kinds(match, all_numbers, groups)
    pipelines = {
        group.ranks for group, (kind, _) in zip(groups, kinds, strict=True) if kind == "pipeline"
    }
    chains = _chains_of_pairs(pipelines) if pipelines else _chains_of_sends(match)
    ranks_of: dict[int, tuple[int, ...]] = {}
    for numbers_of_rank, trace in zip(groups_of, match.traces, strict=True):
        numbers = [number for number in numbers_of_rank if kinds[number][0] == "pipeline"]
        candidates = [groups[number].ranks for number in numbers] or list(chains)
        own_rank = stated_rank(trace)
        of_rank = [ranks for ranks in candidates if len(ranks) > 1 and own_rank in ranks]
        largest = max(of_rank, key=len, default=())
        ranks_of[trace.rank] = chains.get(largest, largest)
    return ranks_of


def _chains_of_sends(match: Matching) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return, for each pair of ranks that send in both directions, the ranks of its pipeline.

    Activations are sent to the next stage, and gradients to the previous one. A ring, such as a
    context group, does not count as a pipeline, nor do two ranks, which may be a ring. Neighbors
    that exchange borders do not count either, because they answer messages without computing.
    """
    sends: set[tuple[int, ...]] = set()
    exchanges: set[tuple[int, ...]] = set()
    for trace, events in zip(iter_ranks(match.traces), match.events, strict=True):
        ends = np.stack([events.source, events.target])[:, events.source >= 0]
        sends.update(zip(*ends.tolist(), strict=True))
        rank = stated_rank(trace)
        exchanges |= {
            (source, rank)
            for source in np.unique(events.source[events.target == rank]).tolist()
            if not _answers_after_computing(trace, events, source, rank)
        }
    pairs = {pair for pair in sends if pair[0] < pair[1] and pair[::-1] in sends} - exchanges
    return {
        pair: chain
        for pair, chain in _chains_of_pairs(pairs).items()
        if len(chain) > 2
        and {other for other in pairs if other[0] in chain} == set(pairwise(chain))
    }


def _answers_after_computing(trace: Trace, events: CommEvents, source: int, rank: int) -> bool:
    """Return whether a rank mostly computes between a message and its reply to the sender."""
    received_ns = events.end_ns[(events.source == source) & (events.target == rank)]
    sent_ns = events.start_ns[(events.source == rank) & (events.target == source)]
    count = min(len(received_ns), len(sent_ns))
    compute_ns = compute_time_between(trace, received_ns[:count], sent_ns[:count])
    return 2 * int((compute_ns > 0).sum()) > count


def _chains_of_pairs(pipelines: set[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return, for each pair of ranks, all ranks that are connected to it, in ascending order."""
    pairs = [ranks for ranks in pipelines if len(ranks) == 2]
    chain_of: dict[int, set[int]] = {}
    for pair in pairs:
        chain = set(pair).union(*(chain_of.get(rank, ()) for rank in pair))
        chain_of |= dict.fromkeys(chain, chain)
    return {pair: tuple(sorted(chain_of[pair[0]])) for pair in pairs}


def _all_groups(match: Matching) -> tuple[list[list[int]], list[ProcessGroup], list[list[int]]]:
    """Return the group numbers of each rank's `CommEvents`, all groups, and each rank's groups."""
    numbers, groups = identify_groups(match.traces, match.events, match.headers)
    groups_of = [set(numbers_of_rank) for numbers_of_rank in numbers]
    number_of: dict[tuple[str, tuple[int, ...]], int] = {}
    for numbers_of_rank, events, header in zip(numbers, match.events, match.headers, strict=True):
        for number, group_name in zip(numbers_of_rank, events.groups, strict=True):
            if group_name.stream < 0:
                group = groups[number]
                number_of.setdefault((group_name.name, group.ranks), number)
                if not group.description:
                    group.description = _stated_description(header, events, group_name.name)
    for trace, header, groups_of_rank in zip(match.traces, match.headers, groups_of, strict=True):
        for listed in header.groups:
            if stated_rank(trace) not in listed.ranks:
                continue
            number = number_of.setdefault((listed.name, listed.ranks), len(groups))
            if number == len(groups):
                is_used = any(group.label == listed.name for group in groups)
                label = f"{listed.name} {list(listed.ranks)}" if is_used else listed.name
                groups.append(ProcessGroup(label, listed.ranks, len(listed.ranks), named=True))
            groups_of_rank.add(number)
            groups[number].description = groups[number].description or listed.description
    return numbers, groups, [sorted(groups_of_rank) for groups_of_rank in groups_of]


def _stated_description(header: JobHeader, events: CommEvents, name: str) -> str:
    """Return a group's description in a file, from the header or from the group's first event."""
    listed = [group.description for group in header.groups if group.name == name and group.ranks]
    stated = [group.description for group in events.groups if group.name == name]
    return next(filter(None, [*listed, *stated[:1]]), "")


def _group_kinds(
    match: Matching, numbers: Sequence[Sequence[int]], groups: Sequence[ProcessGroup]
) -> list[tuple[str, bool]]:
    counts = np.zeros((len(groups), len(OPERATIONS)), dtype=np.int64)
    for numbers_of_rank, events in zip(numbers, match.events, strict=True):
        if len(events.rows):
            group = np.array(numbers_of_rank, dtype=np.int64)[events.group]
            np.add.at(counts, (group, events.operation), 1)
    listed_sizes = [len(group.ranks) for header in match.headers for group in header.groups]
    world = max([world_size(match.headers), *listed_sizes])
    return [_guess_kind(group, used, world) for group, used in zip(groups, counts, strict=True)]


def _guess_kind(group: ProcessGroup, used: Ints, world: int) -> tuple[str, bool]:
    """Return a group's purpose, and whether it is a guess; `used` counts its operations."""
    has_all_ranks = group.named and 1 < group.size == world
    words = set(re.findall(r"[a-z]+", group.description.lower()))
    for kind, words_of_kind in _WORDS:
        if words & words_of_kind and (kind != "all" or has_all_ranks):
            return kind, False
    if has_all_ranks:
        return "all", False
    if not group.named:
        # Kernels do not show the purpose, because NCCL's all-to-all consists of sends and receives.
        return "unknown", True
    count = int(used.sum())
    if count and used[_SEND_RECV] == count:
        return "pipeline", True
    if count and 2 * used[_ALL_TO_ALL] >= count:
        return "expert", True
    strides = np.unique(np.diff(np.array(sorted(group.ranks))))
    if len(group.ranks) >= 2 and len(strides) == 1:
        return ("tensor" if strides[0] == 1 else "data"), True
    return "unknown", True


@dataclass(frozen=True, slots=True)
class _GroupTraffic:
    operations: str  # with counts, most frequent first
    event_count: int
    time_ns: int
    size_bytes: int  # -1 if no size is known
    unsized: Counter[str]  # as in `count_unsized`


def _group_traffic(
    part: RankPart, events: CommEvents, numbers: Sequence[int], groups: Sequence[int]
) -> list[_GroupTraffic]:
    """Return a rank's traffic in each of `groups`; `numbers` are indices into `events.groups`."""
    is_selected = part.contains(events.rows)
    group = np.array(numbers, dtype=np.int64)[events.group]
    traffic = []
    for number in groups:
        is_member = (group == number) & is_selected
        counts = Counter(events.operation[is_member].tolist())
        traffic.append(
            _GroupTraffic(
                ", ".join(f"{OPERATIONS[code]} {n}" for code, n in counts.most_common()),
                int(is_member.sum()),
                total_length(union(*part.clip_rows(events.rows[is_member]))),
                sum_known_bytes(events.size_bytes[is_member]),
                count_unsized(events, is_member),
            )
        )
    return traffic

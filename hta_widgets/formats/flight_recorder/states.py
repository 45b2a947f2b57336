"""Match collectives of all ranks' dumps by process group and number, and find causes of hangs.

For example, four ranks are in one group, and rank 2 never called its collective 6::

    rank 0  1 2 3 4 5 6 ← started
    rank 1  1 2 3 4 5 6 ← started
    rank 2  1 2 3 4 5   ← absent: the others wait for it
    rank 3  1 2 3 4 5 6 ← started

A rank that is absent in one group may itself be waiting in another group. The hang in that other
group is then the cause and is listed first. If all ranks enqueued a collective and it still hangs,
an earlier call in which one of them waits, if any, is the cause.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.formats.flight_recorder.dumps import EnqueuedCollective, FlightDump, group_name
from hta_widgets.formats.stack_frames import frame_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import consecutive_runs, run_text
from hta_widgets.trace.columns import event_args, to_int64
from hta_widgets.trace.conditions import normalize_ranks
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.traceset import TraceSet

_COMMUNICATION = KINDS.index("communication")
NO_DUMPS = note_text("no_flight_dumps")
#: Rank in the trace set and id of each event, keyed by rank, process group and sequence number.
_Events = dict[tuple[int, str, int], tuple[int, int]]
_StateRow = dict[str, Any]
#: Columns of `collective_states` that are attributes of `EnqueuedCollective`.
_CALL_COLUMNS = (
    "operation", "input_sizes", "output_sizes", "dtype", "created_ns", "started_ns", "completed_ns",
)  # fmt: skip
#: Collectives that have the same shapes on all ranks.
_EQUAL_SHAPES = ("allreduce", "all_reduce", "reduce_scatter", "all_gather", "allgather", "reduce")
#: Name parts of collectives whose shapes may differ between ranks.
_UNEVEN = ("_v", "uneven", "coalesced", "alltoall", "all_to_all")
#: Operations between two ranks, given by position in the group: ``send 0->1``, ``recv 1<-0``.
_P2P = re.compile(r"(send|recv) (\d+)(->|<-)(\d+)$")
#: Stands for the collective on ranks that did not enqueue it.
_NOT_ENQUEUED = EnqueuedCollective()


@dataclass(slots=True)
class _Group:
    """A process group of a job: its ranks and, keyed by number, what each rank enqueued."""

    job: str
    label: str
    #: whether the dumps list its ranks; if so, ranks without a dump are also known
    is_listed: bool
    ranks: tuple[int, ...]
    calls: dict[int, dict[int, list[EnqueuedCollective]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    #: negative number of each send or receive, keyed by operation (names both ranks) and order
    p2p: dict[tuple[str, int], int] = field(default_factory=dict)
    #: number of the last known collective (-1 if none) of each rank with a dump
    last: dict[int, int] = field(default_factory=dict)

    def add_dump(
        self, rank: int, entries: list[EnqueuedCollective], last_enqueued: int, *, is_cut: bool
    ) -> None:
        """Add the collectives enqueued by a rank; its dump states the number `last_enqueued`."""
        sequences = [entry.sequence for entry in entries if not entry.is_p2p]
        if is_cut or not sequences:
            sequences.append(last_enqueued)
        self.last[rank] = max(sequences)
        count_of_operation: dict[str, int] = defaultdict(int)
        for entry in entries:
            sequence = entry.sequence
            if entry.is_p2p:  # a send and its receive are numbered differently
                count_of_operation[entry.operation] += 1
                transfer = entry.operation, count_of_operation[entry.operation]
                sequence = self.p2p.setdefault(transfer, -1 - len(self.p2p))
            self.calls[sequence].setdefault(rank, []).append(entry)


@dataclass(slots=True)
class _Job:
    name: str
    dumps: dict[int, FlightDump]
    key_of: dict[int, int]
    groups: list[_Group]


@dataclass(frozen=True, slots=True)
class Hang:
    """A collective that some ranks did not finish or for which they made different calls."""

    job: str
    group: str
    ranks: tuple[int, ...]
    sequence: int
    operation: str
    kind: str  # mismatch, absent, no dump or stuck
    waiting: tuple[int, ...]  # ranks that enqueued it but did not finish
    absent: tuple[int, ...]  # ranks whose dumps lack it
    without_dump: tuple[int, ...]
    differing: dict[int, str]  # call of each rank that differs from most ranks
    last: dict[int, str]  # last call of each absent rank, and its place in the code
    where: str
    #: when each waiting rank enqueued the collective; -1 if unknown
    enqueued_ns: dict[int, int]
    usual: str = ""  # the call of most ranks, if calls differ
    is_p2p: bool = False
    has_cut_dump: bool = False  # whether a rank of `without_dump` has a truncated dump
    #: False if the ranks for which it waits are themselves waiting elsewhere
    is_cause: bool = True

    @property
    def sentence(self) -> str:
        """The hang, described in one or two sentences."""
        number = "" if self.is_p2p else f" #{self.sequence}"
        what = f"{short_operation(self.operation)}{number} of {self.group}"
        wait = _subject(self.waiting, "wait") + (f" in {self.where}" if self.where else "")
        dump = "complete dump" if self.has_cut_dump else "dump"
        missing = f"no {dump} of {_subject(self.without_dump)} is loaded."
        if self.kind not in ("mismatch", "absent"):
            return self._unfinished_text(what, wait, missing)
        not_loaded = f" {missing.capitalize()}" if self.without_dump else ""
        if self.kind == "mismatch":
            return self._mismatch_text(f"; {wait}" if self.waiting else "") + not_loaded
        waits = f", for which {wait}" if self.waiting else ""
        return self._absence_text(what + waits) + not_loaded

    def _mismatch_text(self, waits: str) -> str:
        differing = next(iter(self.differing.values()))
        first_ranks = [rank for rank, call in self.differing.items() if call == differing]
        usual = sorted({*self.ranks} - {*self.differing, *self.absent, *self.without_dump})
        call = _subject(first_ranks, "call").capitalize()
        return (
            f"{call} {differing} as collective #{self.sequence} of {self.group}, but"
            f" {_subject(usual, 'call')} {self.usual}{waits}."
        )

    def _absence_text(self, what: str) -> str:
        rank = self.absent[0]
        last = "its last call" if len(self.absent) == 1 else f"the last call of rank {rank}"
        did_not = "call the other side of" if self.is_p2p else "enqueue"
        absent = _subject(self.absent).capitalize()
        return f"{absent} did not {did_not} {what}; {last} was {self.last[rank]}."

    def _unfinished_text(self, what: str, wait: str, missing: str) -> str:
        unfinished = f"{what} is unfinished: {wait}"
        if self.kind == "no dump":
            return f"{unfinished}, and {missing}"
        if self.is_p2p and _P2P.search(self.operation) is None:
            return f"{unfinished}. The dump does not state its peers."
        if not self.is_cause:
            return f"{unfinished}. One of these ranks waits in an earlier call too."
        reason = "its peer called it too" if self.is_p2p else "all of its ranks enqueued it"
        return f"{unfinished}. As {reason}, the network or a device may have failed."


@memoize
def flight_jobs(traces: TraceSet) -> list[_Job]:
    """Return the jobs of a trace set, identified by the part of the file name before the rank.

    A job whose dumps duplicate another job's is omitted.
    """
    with_dump = {
        key: trace for key, trace in traces.items() if isinstance(trace.profile, FlightDump)
    }
    ranks = [trace.profile.rank for trace in with_dump.values()]
    # File names may begin with a host. If the dumps are of different ranks, they are one job.
    is_one_job = len(set(ranks)) == len(ranks) and -1 not in ranks
    first_name = next((trace.job for trace in with_dump.values()), "")
    keys_of_job: dict[str, dict[int, int]] = defaultdict(dict)
    for key, trace in with_dump.items():
        rank = trace.profile.rank if trace.profile.rank >= 0 else trace.rank
        job_name = first_name if is_one_job else trace.job
        keys_of_job[job_name or ""].setdefault(rank, key)
    jobs: list[_Job] = []
    for job_name, key_of in keys_of_job.items():
        dumps = {rank: with_dump[key].profile for rank, key in sorted(key_of.items())}
        if not any(job.dumps == dumps for job in jobs):
            jobs.append(_Job(job_name, dumps, key_of, _groups_of(job_name, dumps)))
    return jobs


def _groups_of(job: str, dumps: dict[int, FlightDump]) -> list[_Group]:
    """Return a job's groups; if dumps list different ranks for a name, each list is a group."""
    descriptions: dict[str, str] = {}
    member_lists: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for rank, dump in dumps.items():
        descriptions |= {name: text for name, text in dump.descriptions.items() if text}
        for name, ranks in dump.members.items():
            if rank in ranks:
                member_lists[name].add(tuple(ranks))
    groups: dict[tuple[str, tuple[int, ...]], _Group] = {}
    for rank, dump in dumps.items():
        entries: dict[str, list[EnqueuedCollective]] = defaultdict(list)
        for entry in dump.entries:
            entries[entry.group].append(entry)
        for name in sorted(
            {*entries, *(name for name, ranks in dump.members.items() if rank in ranks)}
        ):
            members = min((ranks for ranks in member_lists[name] if rank in ranks), default=())
            if (name, members) not in groups:
                label = group_name(name, descriptions.get(name, ""))
                groups[name, members] = _Group(job, label, bool(members), members or tuple(dumps))
            last_enqueued = dump.enqueued.get(name, -1)
            groups[name, members].add_dump(rank, entries[name], last_enqueued, is_cut=dump.is_cut)
    # A group without a list of ranks consists of its callers, unless it is the default group.
    for group in groups.values():
        if not group.is_listed and "default_pg" not in group.label:
            group.ranks = tuple(sorted(set().union(*group.calls.values())))
    return list(groups.values())


@memoize
def find_hangs(traces: TraceSet) -> list[Hang]:
    """Return each group's first unfinished or differing collective, causes first."""
    hangs = []
    for job in flight_jobs(traces):
        hangs_of_job = [hang for group in job.groups for hang in _hangs_of(group, job)]
        hangs_of_rank: dict[int, list[Hang]] = defaultdict(list)
        for hang in hangs_of_job:
            for rank in hang.waiting:
                hangs_of_rank[rank].append(hang)
        is_blocked = [_is_blocked(hang, hangs_of_rank) for hang in hangs_of_job]
        if all(is_blocked):  # the ranks wait for each other
            is_blocked = [False] * len(hangs_of_job)
        pairs = zip(hangs_of_job, is_blocked, strict=True)
        hangs += [replace(hang, is_cause=not blocked) for hang, blocked in pairs]
    order = ("mismatch", "absent", "no dump", "stuck")
    return sorted(hangs, key=lambda h: (not h.is_cause, order.index(h.kind), -len(h.ranks)))


def _is_blocked(hang: Hang, hangs_of_rank: dict[int, list[Hang]]) -> bool:
    """Return whether another hang causes this one; `hangs_of_rank` is keyed by waiting rank."""
    others = (other for rank in hang.waiting for other in hangs_of_rank[rank])
    if any(_is_behind(hang, other) for other in others):
        return True
    others = (other for rank in hang.absent for other in hangs_of_rank[rank])
    return any(not _is_behind(other, hang) for other in others)


def _is_behind(hang: Hang, other: Hang) -> bool:
    """Return whether all ranks enqueued a collective but one still waits in an earlier one."""
    return hang.kind == "stuck" and any(
        0 <= other.enqueued_ns.get(rank, -1) < enqueued_ns
        for rank, enqueued_ns in hang.enqueued_ns.items()
    )


def _hangs_of(group: _Group, job: _Job) -> Iterator[Hang]:
    """Yield the first hang among a group's collectives, and all hangs of its sends and receives."""
    collectives = sorted(number for number in group.calls if number >= 0)
    hangs = (_hang_at(group, job, number) for number in collectives)
    yield from islice(filter(None, hangs), 1)
    transfers = sorted((number for number in group.calls if number < 0), reverse=True)
    yield from filter(None, (_hang_at(group, job, number) for number in transfers))


def _hang_at(group: _Group, job: _Job, sequence: int) -> Hang | None:
    """Return the hang of a collective or, if `sequence` is negative, of a send and its receive."""
    calls = group.calls[sequence]
    states = {rank: _state(group, job, sequence, rank) for rank in group.ranks}
    waiting = tuple(rank for rank, state in states.items() if state in {"started", "scheduled"})
    absent = tuple(rank for rank, state in states.items() if state == "absent")
    without_dump = tuple(rank for rank, state in states.items() if state == "no dump")
    differing, usual = _differing(calls) if sequence >= 0 else ({}, "")
    if not waiting and not differing and not absent:
        return None
    caller = waiting[0] if waiting else next(iter(calls))
    call = calls[caller][0]
    if sequence < 0:
        if _has_recorded_parts(group, caller, call):  # each part is reported as a separate hang
            return None
        absent, without_dump = _missing_peer(group, job, call.operation)
    kinds = {"mismatch": differing, "absent": absent, "no dump": without_dump}
    return Hang(
        job=group.job,
        group=group.label,
        ranks=group.ranks,
        sequence=call.sequence,
        operation=call.operation,
        kind=next((kind for kind, ranks in kinds.items() if ranks), "stuck"),
        waiting=waiting,
        absent=absent,
        without_dump=without_dump if waiting else (),
        differing=differing,
        last={rank: ", in ".join(filter(None, last_call(job.dumps[rank]))) for rank in absent},
        where=frame_text(job.dumps[caller].stacks[call.stack]),
        enqueued_ns={rank: calls[rank][0].created_ns for rank in waiting},
        usual=usual,
        is_p2p=call.is_p2p,
        has_cut_dump=not job.dumps.keys().isdisjoint(without_dump),
    )


def _has_recorded_parts(group: _Group, rank: int, call: EnqueuedCollective) -> bool:
    """Return whether a rank's call is a batch whose sends and receives are also recorded."""
    transfers = (group.calls[number].get(rank, ()) for number in group.p2p.values())
    others = (other for calls in transfers for other in calls if other is not call)
    is_batch = "coalesced" in call.operation
    return is_batch and any(other.sequence == call.sequence for other in others)


def _state(group: _Group, job: _Job, sequence: int, rank: int) -> str:
    """Return the state of a collective on a rank; "" if the dump does not show it."""
    calls = group.calls[sequence].get(rank)
    if calls:
        unfinished = [call.state for call in calls if not call.is_finished]
        return unfinished[0] if unfinished else "finished"
    if sequence < 0:
        return ""
    dump = job.dumps.get(rank)
    if dump is not None and sequence <= group.last.get(rank, -1):
        return ""
    return "no dump" if dump is None or dump.is_cut else "absent"


def _missing_peer(
    group: _Group, job: _Job, call_name: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the peer of a send or receive, either as absent rank or as rank without a dump."""
    match = _P2P.search(call_name)
    if match is None:
        return (), ()
    operation, position, _, peer_position = match.groups()
    if max(int(position), int(peer_position)) >= len(group.ranks):
        return (), ()
    peer = group.ranks[int(peer_position)]
    if peer not in job.dumps:
        return (), (peer,)
    other_side = f"send {peer_position}->{position}"
    if operation == "send":
        other_side = f"recv {peer_position}<-{position}"
    is_unfinished = any(
        not call.is_finished and call.operation.endswith(other_side)
        for calls in group.calls.values()
        for call in calls.get(peer, ())
    )
    if is_unfinished:
        return (), ()
    return ((), (peer,)) if job.dumps[peer].is_cut else ((peer,), ())


def _differing(calls: dict[int, list[EnqueuedCollective]]) -> tuple[dict[int, str], str]:
    """Return the calls, keyed by rank, that differ from most ranks' call, and that usual call."""
    text_of_rank = {rank: " and ".join(map(_call_words, made)) for rank, made in calls.items()}
    counts = Counter(text_of_rank.values())
    if len(counts) < 2:
        return {}, ""
    ((usual, _),) = counts.most_common(1)  # in a tie, the first call
    return {rank: text for rank, text in text_of_rank.items() if text != usual}, usual


def _call_words(call: EnqueuedCollective) -> str:
    name = short_operation(call.operation)
    lower = name.lower()
    if not lower.lstrip("_").startswith(_EQUAL_SHAPES) or any(part in lower for part in _UNEVEN):
        return name
    return f"{name} of {call.input_sizes or '?'} {call.dtype}".rstrip()


def short_operation(name: str) -> str:
    """Return an operation without its backend: ``all_reduce`` for ``nccl:all_reduce``."""
    return name.partition(":")[2] or name


def call_text(call: EnqueuedCollective, dump: FlightDump) -> str:
    """Describe a call: ``all_gather #5 of dp (2), finished``."""
    group = group_name(call.group, dump.descriptions.get(call.group, ""))
    state = "finished" if call.is_finished else call.state
    return f"{short_operation(call.operation)} #{call.sequence} of {group}, {state}"


def last_call(dump: FlightDump) -> tuple[str, str]:
    """Describe the last call of a rank, and where it was made."""
    if not dump.entries:
        return "nothing", ""
    last = dump.entries[-1]
    return call_text(last, dump), frame_text(dump.stacks[last.stack])


@memoize
def _recorded_events(traces: TraceSet) -> _Events:
    """Return rank and id of each profiler event, keyed by stated rank, group and number.

    If a collective has several events, the last one is used: its kernel or, without a device, its
    host call.
    """
    events: _Events = {}
    for key, trace in traces.items():
        if isinstance(trace.profile, FlightDump):
            continue
        rows = np.flatnonzero(trace.table.kind == _COMMUNICATION)
        args = event_args(trace, rows, ("Process Group Name", "Seq"))
        rank = trace.rank if trace.stated_rank is None else trace.stated_rank
        numbers = to_int64(args["Seq"]).tolist()
        for row, group, number in zip(
            rows.tolist(), args["Process Group Name"], numbers, strict=True
        ):
            if group is not None and number >= 0:
                events[rank, str(group), number] = key, row
    return events


def _states(group: _Group, job: _Job, events: _Events) -> Iterator[_StateRow]:
    for sequence, calls in sorted(group.calls.items()):
        is_unfinished = not all(call.is_finished for call in chain.from_iterable(calls.values()))
        for rank in group.ranks:
            state = _state(group, job, sequence, rank)
            dump = job.dumps.get(rank)
            if rank not in calls and (not state or (state == "no dump" and not is_unfinished)):
                continue
            for call in calls.get(rank, [_NOT_ENQUEUED]):
                stack = dump.stacks[call.stack] if dump and call.stack >= 0 else ()
                event_rank, event_id = events.get((rank, call.group, sequence), (-1, -1))
                yield {
                    "job": job.name,
                    "group": group.label,
                    "sequence": max(call.sequence, sequence),
                    "is_p2p": sequence < 0,
                    "rank": rank,
                    "key": job.key_of.get(rank, -1),
                    "state": state,
                    **{name: getattr(call, name) for name in _CALL_COLUMNS},
                    "duration_ms": call.duration_ms if call.duration_ms >= 0 else np.nan,
                    "where": frame_text(stack),
                    "stack": "; ".join(frame.text for frame in stack),
                    "event_rank": event_rank,
                    "event_id": event_id,
                }


@memoize
def _state_rows(traces: TraceSet) -> list[_StateRow]:
    events = _recorded_events(traces)
    pairs = [(group, job) for job in flight_jobs(traces) for group in job.groups]
    return [row for group, job in pairs for row in _states(group, job, events)]


def _texts(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "object")


@check_arguments
def collective_states(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the state of each collective on each rank, identified by process group and number.

    Parameters
    ----------
    traces : TraceSet
        Flight-recorder dumps.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per collective and rank of its process group:

        - ``job`` (object): the part of the file name before the rank
        - ``group`` (object), ``sequence`` (int64), ``is_p2p`` (bool): the process group, and the
          number of the collective within it; for sends and receives, their order on the rank
        - ``rank`` (int64): from the file name; ``key`` (int64): rank in the trace set, -1 for a
          rank without a dump
        - ``operation`` (object): empty if the rank did not enqueue it
        - ``state`` (object): ``finished``, ``started`` or ``scheduled``; ``absent`` if the rank's
          dump ends before it; ``no dump`` if other ranks have not finished it and the rank's dump
          is not loaded or was truncated before it. A rank whose dump begins after it has no row
        - ``input_sizes, output_sizes, dtype`` (object)
        - ``created_ns, started_ns, completed_ns`` (int64): epoch times at which the collective was
          enqueued, and at which the watchdog saw that it had started and completed; -1 if unknown.
          These are not the times at which it ran
        - ``duration_ms`` (float64): NaN unless TORCH_NCCL_ENABLE_TIMING was set
        - ``where, stack`` (object): the innermost frame of user code, and all frames
        - ``event_rank, event_id`` (int64): rank in the trace set and id of the event, if profiler
          traces are also loaded and their events have the args "Process Group Name" and "Seq";
          otherwise -1
    """
    rows = _state_rows(traces)
    if ranks is not None:
        wanted = set(normalize_ranks(ranks))
        rows = [row for row in rows if row["key"] in wanted]
    schema = {
        "job": "object", "group": "object", **int64("sequence"), "is_p2p": "bool",
        **int64("rank key"), **_texts("operation state input_sizes output_sizes dtype"),
        **int64("created_ns started_ns completed_ns"), "duration_ms": "float64",
        **_texts("where stack"), **int64("event_rank event_id"),
    }  # fmt: skip
    finished = sum(row["state"] == "finished" for row in rows)
    return result_frame(
        columns_of_rows(([row[name] for name in schema] for row in rows), schema),
        matched={"finished": finished, "unfinished": len(rows) - finished},
        note="" if flight_jobs(traces) else NO_DUMPS,
    )


@check_arguments
def collective_hangs(traces: TraceSet) -> pd.DataFrame:
    """Return each process group's first collective that is unfinished or was called differently.

    Parameters
    ----------
    traces : TraceSet
        Flight-recorder dumps.

    Returns
    -------
    DataFrame
        One row per hang, causes first. All columns are of type object except ``sequence`` (int64)
        and ``is_cause`` (bool):

        - ``job, group, sequence, operation``: the collective
        - ``kind``: ``mismatch`` (ranks called different operations, shapes or types), ``absent``
          (some ranks never enqueued it), ``no dump`` (only ranks without a dump may be missing) or
          ``stuck`` (all ranks enqueued it)
        - ``is_cause``: False if the ranks for which it waits are themselves waiting in another
          group, or if all ranks enqueued it and one of them waits in an earlier call
        - ``waiting, absent, without_dump``: ranks, as text
        - ``differing``: calls that differ from the call of most ranks, with their ranks
        - ``last``: what absent ranks enqueued last, and where
        - ``where``: the innermost frame of user code that called it
        - ``sentence``: a description of the hang
    """
    schema = {
        **_texts("job group"), **int64("sequence"), **_texts("operation kind"), "is_cause": "bool",
        **_texts("waiting absent without_dump differing last where sentence"),
    }  # fmt: skip
    hangs = find_hangs(traces)
    rows = [[_cell(getattr(hang, name)) for name in schema] for hang in hangs]
    return result_frame(
        columns_of_rows(rows, schema),
        matched={"hangs": len(rows)},
        note="" if rows else note_without_hang(traces),
    )


def _cell(value: Any) -> Any:
    """Return ranks, and calls keyed by rank, as text; other values are returned unchanged."""
    if isinstance(value, dict):
        return "; ".join(f"rank {rank}: {text}" for rank, text in value.items())
    return ranks_text(value) if isinstance(value, tuple) else value


def note_without_hang(traces: TraceSet) -> str:
    """Explain why no hang is shown."""
    jobs = flight_jobs(traces)
    if not jobs:
        return NO_DUMPS
    if any(dump.entries for job in jobs for dump in job.dumps.values()):
        return "all collectives in the dumps are finished"
    return "the dumps have no collectives"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks as text, with ranges: ``0, 1, 3–7``."""
    return ", ".join(map(run_text, consecutive_runs(sorted(ranks))))


def _subject(ranks: Sequence[int], verb: str = "") -> str:
    """Return ranks followed by a verb, such as ``ranks 1, 3 wait``."""
    subject = f"rank{'s' * (len(ranks) > 1)} {ranks_text(ranks)}"
    return f"{subject} {verb}{'s' * (len(ranks) == 1)}" if verb else subject

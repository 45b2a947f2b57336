"""Reader of PyTorch's flight-recorder dumps: one pickle or JSON file per rank.

A dump holds the last collectives that a rank enqueued (2,000 by default). Each entry has a process
group, a number within the group, a state and the stack of the call. Dumps differ by version:

    1.x  ``seq_id``; pickles only           2.x  ``collective_seq_id`` and ``p2p_seq_id``
    before 1.1, the list of entries alone; times in µs, ``time_created_us``
    JSON has 0 where pickles have None, numbers as strings, and no stacks
    gloo  ``state`` stays "scheduled"; a finished collective is ``retired``

The rank is the number at the end of the file name, because PyTorch's dumps do not state it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import EventRows, RankFacts, build_rank, timed_columns
from hta_widgets.formats.stack_frames import (
    DumpFrame,
    StackPool,
    as_list,
    frame_text,
    read_dump_value,
)
from hta_widgets.readers.formats import Advance, Outcome
from hta_widgets.readers.ranks import is_rank
from hta_widgets.trace.columns import as_integer, parse_json
from hta_widgets.trace.short_paths import shorten_paths

FORMAT = "flight-recorder"
#: Category of enqueued collectives. They are events without duration.
CATEGORY = "flight_recorder"
_REMEDY = "Dump it again (TORCH_NCCL_DUMP_ON_TIMEOUT=1), or copy the file again."
_RANK_AT_END = re.compile(r"(.*?)[-_.]?(?:rank)?[-_.]?(?<!\d)(\d{1,19})", re.IGNORECASE)
_ENDINGS = re.compile(r"(\.(json|pkl|pickle|gz|zst))+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EnqueuedCollective:
    """An entry of a dump. Unknown times and durations are -1."""

    group: str = ""
    sequence: int = -1
    is_p2p: bool = False
    operation: str = ""
    state: str = ""
    is_finished: bool = False
    created_ns: int = -1
    started_ns: int = -1
    completed_ns: int = -1
    duration_ms: float = -1.0
    input_sizes: str = ""
    output_sizes: str = ""
    dtype: str = ""
    stack: int = -1  # position in `FlightDump.stacks`


@dataclass(frozen=True, slots=True)
class FlightDump:
    """The dump of a rank."""

    rank: int
    version: str
    #: description of each process group, and its ranks if the dump lists them
    descriptions: dict[str, str] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)
    #: number of each group's last enqueued collective; -1 if unknown
    enqueued: dict[str, int] = field(default_factory=dict)
    entries: list[EnqueuedCollective] = field(default_factory=list)
    stacks: list[list[DumpFrame]] = field(default_factory=list)
    #: whether the file is truncated, so that later entries are missing
    is_cut: bool = False


def read_dump(path: str, *, advance: Advance = None, **_: object) -> Outcome:
    """Read a rank's dump. Each enqueued collective becomes an instant."""
    rows = EventRows(path)
    value = read_dump_value(rows, advance, remedy=_REMEDY, complete=_complete_entries)
    value = {"entries": value} if isinstance(value, list) else _mapping(value)
    if isinstance(value.get("pg_status"), dict):  # the dump may have no collectives
        value.setdefault("entries", [])
    if not isinstance(value.get("entries"), (list, tuple)):
        message = "is not a flight recorder dump: it has no list of entries"
        raise TraceError(message, path=path, remedy=_REMEDY)
    rank, job = _rank_and_job(path)
    if rank is None and is_rank(value.get("rank")):
        rank = value["rank"]
    is_cut = any(problem.kind == "truncated" for problem in rows.problems)
    dump = _DumpReader(value, -1 if rank is None else rank, is_cut=is_cut).read(rows)
    _add_collectives(rows, dump)
    facts = RankFacts(rank=rank)
    trace = build_rank(rows, timed_columns(rows), FORMAT, facts, job=job, profile=dump)
    return Outcome((trace,), rows.problems)


def _complete_entries(text: bytes) -> Any:
    """Return truncated JSON without its incomplete last entry; None if no entry is complete."""
    last_ends = list(re.finditer(rb"\}\s*,\s*\{", text))[-2:][::-1]
    values = (parse_json(text[: end.start() + 1] + b"]}") for end in last_ends)
    return next((value for value in values if value is not None), None)


def _rank_and_job(path: str) -> tuple[int | None, str]:
    name = _ENDINGS.sub("", PurePath(path).name)
    match = _RANK_AT_END.fullmatch(name)
    if match is None or not is_rank(int(match[2])):
        return None, name
    return int(match[2]), match[1] or name


class _DumpEntry:
    """An entry of a dump, and the fields that identify its collective."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.get = fields.get
        stated = self.get("process_group", self.get("pg_name"))
        texts = [
            shorten_paths(str(text))
            for text in (stated if isinstance(stated, (list, tuple)) else [stated])
            if isinstance(text, (str, int))
        ]
        name, self.description = (*texts, "", "")[:2]
        self.group = name or str(self.get("pg_id", ""))
        self.is_p2p = self.get("is_p2p") is True
        self.state = str(self.get("state") or "scheduled")
        collective, p2p, number_of_1x = (
            as_integer(self.get(key)) for key in ("collective_seq_id", "p2p_seq_id", "seq_id")
        )
        number = p2p if self.is_p2p else collective
        #: number in the group; -1 if unknown
        self.sequence = number if number >= 0 else number_of_1x
        self.is_batch = "coalesced" in str(self.get("profiling_name"))
        #: shared by a batch's operations and the entry of the batch itself, ``nccl:coalesced``, the
        #: only one that has their state
        self.batch = (self.group, self.is_p2p, collective, p2p, number_of_1x)


class _DumpReader:
    def __init__(self, value: Mapping[str, Any], rank: int, *, is_cut: bool) -> None:
        config, self._status = (
            {name: _mapping(entry) for name, entry in _mapping(value.get(key)).items()}
            for key in ("pg_config", "pg_status")
        )
        self._entries = [_DumpEntry(_mapping(entry)) for entry in value["entries"]]
        #: groups with sends and receives, which ``pg_status`` numbers together with collectives
        self._p2p_groups = {entry.group for entry in self._entries if entry.is_p2p}
        self._batches = {entry.batch: entry for entry in self._entries if entry.is_batch}
        self._stacks = StackPool()
        self._dump = FlightDump(
            rank,
            str(value.get("version") or ""),
            {name: shorten_paths(str(entry.get("desc") or "")) for name, entry in config.items()},
            {name: ranks for name, entry in config.items() if (ranks := _ranks(entry))},
            is_cut=is_cut,
        )

    def read(self, rows: EventRows) -> FlightDump:
        """Return the dump, and report entries that cannot be matched with other ranks."""
        numbered = [entry for entry in self._entries if entry.group and entry.sequence >= 0]
        self._dump.entries.extend(map(self._collective, numbered))
        if not numbered:
            self._dump.entries.extend(filter(None, map(self._last_collective, self._status)))
        self._dump.stacks.extend(self._stacks.stacks)
        detail = "entries without a process group or sequence number"
        rows.note("skipped", len(self._entries) - len(numbered), detail)
        return self._dump

    def _collective(self, entry: _DumpEntry) -> EnqueuedCollective:
        if entry.description:
            self._dump.descriptions[entry.group] = entry.description
        batch = self._batches.get(entry.batch, entry)
        status = self._status_of(entry)
        if "last_enqueued_collective" in status:
            self._dump.enqueued[entry.group] = as_integer(status["last_enqueued_collective"])
        created_us = max(as_integer(entry.get("time_created_us")), 0)
        duration = entry.get("duration_ms")
        if not isinstance(duration, (int, float)) or not duration >= 0:
            duration = -1
        return EnqueuedCollective(
            group=entry.group,
            sequence=entry.sequence,
            is_p2p=entry.is_p2p,
            operation=shorten_paths(str(entry.get("profiling_name") or "unknown")),
            state=batch.state,
            is_finished=self._is_finished(entry) or self._is_finished(batch),
            created_ns=as_integer(entry.get("time_created_ns", 1000 * created_us)) or -1,
            started_ns=as_integer(entry.get("time_discovered_started_ns")) or -1,
            completed_ns=as_integer(entry.get("time_discovered_completed_ns")) or -1,
            duration_ms=float(duration),
            input_sizes=_sizes(entry.get("input_sizes")),
            output_sizes=_sizes(entry.get("output_sizes")),
            dtype=", ".join(sorted({str(dtype) for dtype in as_list(entry.get("input_dtypes"))})),
            stack=self._stacks.add(entry.get("frames")),
        )

    def _is_finished(self, entry: _DumpEntry) -> bool:
        last_completed = as_integer(self._status_of(entry).get("last_completed_collective"))
        return (
            entry.state == "completed"
            or entry.get("retired") is True
            or as_integer(entry.get("time_discovered_completed_ns")) > 0
            or (entry.group not in self._p2p_groups and entry.sequence <= last_completed)
        )

    def _status_of(self, entry: _DumpEntry) -> Mapping[str, Any]:
        """Return the status of an entry's group, looked up by number or by name."""
        return self._status.get(str(entry.get("pg_id"))) or self._status.get(entry.group) or {}

    def _last_collective(self, group: str) -> EnqueuedCollective | None:
        """Return a group's last collective from ``pg_status``, for a dump without entries."""
        sequence, started, completed = (
            as_integer(self._status[group].get(f"last_{state}_collective"))
            for state in ("enqueued", "started", "completed")
        )
        if sequence < 0:
            return None
        return EnqueuedCollective(
            group, sequence, operation="collective", is_finished=completed >= sequence,
            state="started" if started >= sequence else "scheduled", stack=self._stacks.add(()),
        )  # fmt: skip


def _add_collectives(rows: EventRows, dump: FlightDump) -> None:
    entries = [entry for entry in dump.entries if entry.created_ns >= 0]
    tracks: dict[str, int] = {}
    places = []
    for entry in entries:
        track = str(tracks.setdefault(entry.group, len(tracks)))
        label = f"group {group_name(entry.group, dump.descriptions.get(entry.group, ''))}"
        places.append(rows.place("0", track, "enqueued collectives", label))
    names = [
        entry.operation if entry.is_finished else f"{entry.operation} (unfinished)"
        for entry in entries
    ]
    times_ns = [entry.created_ns for entry in entries]
    rows.add(
        start_ns=times_ns, end_ns=times_ns, name=rows.name_codes(names), category=CATEGORY,
        place=places, args=rows.args_codes(_args(entry, dump) for entry in entries),
    )  # fmt: skip


def _args(entry: EnqueuedCollective, dump: FlightDump) -> dict[str, Any]:
    args = {
        "Process Group Name": entry.group,
        "Process Group Description": dump.descriptions.get(entry.group, ""),
        "Seq": entry.sequence,
        "state": "finished" if entry.is_finished else entry.state,
        "In shapes": entry.input_sizes,
        "Out shapes": entry.output_sizes,
        "dtype": entry.dtype,
        "called in": frame_text(dump.stacks[entry.stack]),
        "stack": "; ".join(frame.text for frame in dump.stacks[entry.stack]),
        "duration_ms": entry.duration_ms if entry.duration_ms >= 0 else "",
    }
    return {key: arg for key, arg in args.items() if arg != ""}


def group_name(group: str, description: str) -> str:
    """Return the name of a process group with its description: ``dp (2)``."""
    return f"{description} ({group})" if description and description != group else group


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): entry for key, entry in value.items()} if isinstance(value, dict) else {}


def _ranks(config: Mapping[str, Any]) -> list[int]:
    """Return the ranks of a group. Dumps write them as a string such as ``[0, 1]``."""
    ranks = config.get("ranks")
    listed = parse_json(ranks) if isinstance(ranks, str) else ranks
    return sorted({rank for rank in as_list(listed) if is_rank(rank)})


def _sizes(sizes: Any) -> str:
    """Return one or more shapes as text, such as ``[1024, 1024]``."""
    return ", ".join(f"[{', '.join(map(str, as_list(shape)))}]" for shape in as_list(sizes))

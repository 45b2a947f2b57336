"""Rewrite the records of a rank for a merged file, with process ids that are unique to the rank.

The process ids of rank 3 start at ``3 * PID_STRIDE + 1``, and its process names include the rank.
An extra record before the first one of a process states its original id (docs/merged-format.md)::

    {"name": "hta_widgets", "ph": "M", "pid": 300001, "tid": 0, "args": {"rank": 3, "pid": 40100}}
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hta_widgets.export.traces.members import ASK, Members, json_text
from hta_widgets.trace.columns import Fields, decode_fields, decode_json, encode_fields
from hta_widgets.trace.merged_format import ID_ARGS, ID_FIELDS, MARK_KEY, PID_STRIDE, scoped_id
from hta_widgets.trace.record_times import shift_time


class MergeScope:
    """Rewrites the records of one rank.

    `position` is the rank's position in the file. `shift_ns` is added to the rank's times.
    """

    def __init__(self, members: Members, position: int, shift_ns: int) -> None:
        self.rank, self.shift_ns = members.trace.rank, shift_ns
        self._rank_title = members.title or f"rank {self.rank}"
        #: First sort index of the rank, which makes viewers list its processes together.
        self._first_sort = 1000 * position
        #: New process ids, keyed by the original id as raw JSON (`_pids`) and as text (`_numbers`).
        self._pids: dict[bytes, bytes] = {}
        self._numbers: dict[str | None, int] = {}
        self._processes = _StatedProcesses.of(members)
        sort_index = self._processes.sort_index
        by_index = sorted(sort_index, key=lambda key: (sort_index[key], key or ""))
        self._sort_places = {key: place for place, key in enumerate(by_index)}

    def __call__(self, text: bytes) -> bytes:
        """Return the rewritten record. If its process is new, metadata records precede it."""
        fields = decode_fields(text)
        if fields is None:
            return text
        stated_pid = fields.get("pid", b"")
        introduction = b"" if stated_pid in self._pids else self._introduce_process(stated_pid)
        fields["pid"] = self._pids[stated_pid]
        for name in ID_FIELDS:
            if name in fields:
                fields[name] = scoped_id(fields[name], self.rank)
        if "id2" in fields:
            self._scope_ids_within(fields, "id2", ("local", "global"))
        if "args" in fields:
            self._scope_ids_within(fields, "args", ID_ARGS)
        if self.shift_ns and "ts" in fields:
            fields["ts"] = shift_time(fields["ts"], self.shift_ns)
        if fields.get("ph") == b'"M"':
            self._name_process(fields, _process_key(stated_pid))
        return introduction + encode_fields(fields)

    def _scope_ids_within(self, fields: Fields, name: str, ids: Iterable[str]) -> None:
        """Make the ids in the object `name` of a record unique to the rank."""
        inner = decode_fields(fields[name])
        if inner is None:
            return
        scoped = {key: scoped_id(inner[key], self.rank) for key in ids if key in inner}
        if scoped:
            fields[name] = encode_fields({**inner, **scoped})

    def _name_process(self, fields: Fields, key: str | None) -> None:
        """Add the rank to a process's name or sort index, keeping the original arguments."""
        args = decode_fields(fields.get("args", b""))
        if args is None:
            return
        recorded = encode_fields(args)
        record = fields.get("name")
        if record == b'"process_name"' and "name" in args:
            args["name"] = json_text(self._title(key, _string(args["name"])))
        elif record == b'"process_sort_index"' and "sort_index" in args:
            args["sort_index"] = json_text(self._first_sort + self._sort_places.get(key, 0))
        else:
            return
        args[MARK_KEY] = recorded
        fields["args"] = encode_fields(args)

    def _title(self, key: str | None, name: str) -> str:
        label = self._processes.labels.get(key)
        return f"{self._rank_title} · {name} [{label}]" if label else f"{self._rank_title} · {name}"

    def _introduce_process(self, stated_pid: bytes) -> bytes:
        """Assign a new id to a process; return records with its original id, name and position."""
        key = _process_key(stated_pid)
        is_numbered = key in self._numbers
        pid = self._numbers.setdefault(key, self.rank * PID_STRIDE + len(self._numbers) + 1)
        self._pids[stated_pid] = str(pid).encode()
        if is_numbered:  # the original id occurs both as a number and as a string
            return b""
        identity: dict[str, Any] = {"rank": self.rank}
        if stated_pid:
            identity["pid"] = decode_json(stated_pid)
        records = [_metadata(MARK_KEY, pid, identity)]
        if key not in self._processes.named:
            name = self._title(key, key or "process")
            records.append(_metadata("process_name", pid, {"name": name, MARK_KEY: None}))
        if key not in self._sort_places:
            args = {"sort_index": self._first_sort + 999, MARK_KEY: None}  # the rank's last
            records.append(_metadata("process_sort_index", pid, args))
        return b"".join(record + b",\n" for record in records)


@dataclass(slots=True)
class _StatedProcesses:
    """The process metadata in a file, by process id."""

    named: set[str | None] = field(default_factory=set)
    labels: dict[str | None, str] = field(default_factory=dict)
    sort_index: dict[str | None, float] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Members) -> _StatedProcesses:
        processes = cls()
        if members.trace.source is None:
            return processes
        for _, text in members.trace.source.records(np.flatnonzero(members.fate == ASK)):
            if b'"M"' in text:
                record = members.scrub.record(text) if members.scrub else text
                processes.add(decode_fields(record) or {})
        return processes

    def add(self, fields: Fields) -> None:
        args = decode_fields(fields.get("args", b""))
        if args is None:
            return
        key = _process_key(fields.get("pid", b""))
        record = fields.get("name")
        if record == b'"process_name"' and "name" in args:
            self.named.add(key)
        elif record == b'"process_labels"' and "labels" in args:
            self.labels[key] = _string(args["labels"])
        elif record == b'"process_sort_index"' and "sort_index" in args:
            with suppress(ValueError):
                self.sort_index[key] = float(args["sort_index"])


def _process_key(raw: bytes) -> str | None:
    """Return a process id as text, since the number 7 and the string "7" are the same process."""
    return _string(raw) if raw else None


def _metadata(name: str, pid: int, args: dict[str, Any]) -> bytes:
    return json_text({"name": name, "ph": "M", "pid": pid, "tid": 0, "args": args})


def _string(raw: bytes) -> str:
    value = decode_json(raw)
    return value if isinstance(value, str) else raw.decode()

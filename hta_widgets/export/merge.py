"""Scope a rank's processes and ids, so that in one file of many ranks nothing connects across.

``docs/merged-format.md`` describes what this writes; `hta_widgets.readers.merged` undoes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from hta_widgets.trace.rank_scope import ID_ARGS
from hta_widgets.trace.rank_scope import ID_FIELDS
from hta_widgets.trace.rank_scope import MARK
from hta_widgets.trace.rank_scope import PID_STRIDE
from hta_widgets.trace.rank_scope import scoped_id
from hta_widgets.trace.record_fields import Fields
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields
from hta_widgets.trace.record_fields import shifted

__all__ = ["Scope", "process_key"]


class Scope:
    """Rewrites the records of one rank for a merged file.

    Parameters
    ----------
    rank : int
    position : int
        Place of the rank among those of the file.
    metadata : iterable of bytes
        The rank's metadata records, which tell which of its processes have a name and their order.
    shift_ns : int
        What has to be added to the rank's times, because its file had another base time.
    title : str, optional
        What processes are called by; ``rank <rank>`` by default.
    """

    def __init__(
        self,
        rank: int,
        position: int,
        metadata: Iterable[bytes],
        shift_ns: int = 0,
        title: str | None = None,
    ) -> None:
        self.rank, self.shift_ns = rank, shift_ns
        self._whose = title or f"rank {rank}"
        self._first_sort = 1000 * position
        self._pids: dict[bytes, bytes] = {}
        self._numbers: dict[str | None, int] = {}
        self._names, self._labels, order = _processes(metadata)
        ordered = sorted(order, key=lambda key: (order[key], key or ""))
        self._sorts = {key: place for place, key in enumerate(ordered)}

    def __call__(self, text: bytes) -> bytes:
        """Return the record as it stands in the merged file, after records that introduce it."""
        fields = decode_fields(text)
        if fields is None:
            return text
        own = fields.get("pid", b"")
        introduction = b"" if own in self._pids else self._introduce(own)
        fields["pid"] = self._pids[own]
        for name in ID_FIELDS:
            if name in fields:
                fields[name] = scoped_id(fields[name], self.rank)
        if "id2" in fields:
            self._scope_members(fields, "id2", ("local", "global"))
        if "args" in fields:
            self._scope_members(fields, "args", ID_ARGS)
        if self.shift_ns and "ts" in fields:
            fields["ts"] = shifted(fields["ts"], self.shift_ns)
        if fields.get("ph") == b'"M"':
            self._label(fields, process_key(own))
        return introduction + encode_fields(fields)

    def _scope_members(self, fields: Fields, name: str, ids: Iterable[str]) -> None:
        members = decode_fields(fields[name])
        if members is None:
            return
        found = [key for key in ids if key in members]
        for key in found:
            members[key] = scoped_id(members[key], self.rank)
        if found:
            fields[name] = encode_fields(members)

    def _label(self, fields: Fields, key: str | None) -> None:
        """Tell whose process it is; what the file says itself is kept beside."""
        args = decode_fields(fields.get("args", b""))
        if args is None:
            return
        own = encode_fields(args)
        record = fields.get("name")
        if record == b'"process_name"' and "name" in args:
            args["name"] = _json(self._title(key, _string(args["name"])))
        elif record == b'"process_sort_index"' and "sort_index" in args:
            args["sort_index"] = _json(self._first_sort + self._sorts.get(key, 0))
        else:
            return
        args[MARK] = own
        fields["args"] = encode_fields(args)

    def _title(self, key: str | None, name: str) -> str:
        label = self._labels.get(key)
        return f"{self._whose} · {name} [{label}]" if label else f"{self._whose} · {name}"

    def _introduce(self, own: bytes) -> bytes:
        """Give a process its number; return records that tell which it was, and what to call it."""
        key = process_key(own)
        known = key in self._numbers
        pid = self._numbers.setdefault(key, self.rank * PID_STRIDE + len(self._numbers) + 1)
        self._pids[own] = str(pid).encode()
        if known:  # the same process, stated once as a number and once as a string
            return b""
        says: dict[str, Any] = {"rank": self.rank}
        if own:
            says["pid"] = json.loads(own)
        records = [_metadata(MARK, pid, says)]
        if key not in self._names:
            name = self._title(key, key or "process")
            records.append(_metadata("process_name", pid, {"name": name, MARK: None}))
        if key not in self._sorts:
            last = {"sort_index": self._first_sort + 999, MARK: None}
            records.append(_metadata("process_sort_index", pid, last))
        return b"".join(record + b",\n" for record in records)


def process_key(raw: bytes) -> str | None:
    """Return a process id as text: numbers and strings of the same digits mean the same process."""
    return _string(raw) if raw else None


def _processes(
    metadata: Iterable[bytes],
) -> tuple[set[str | None], dict[str | None, str], dict[str | None, float]]:
    """Return which processes have a name, their labels, and their places in the order."""
    named: set[str | None] = set()
    labels: dict[str | None, str] = {}
    order: dict[str | None, float] = {}
    for text in metadata:
        fields = decode_fields(text)
        args = None if fields is None else decode_fields(fields.get("args", b""))
        if fields is None or args is None:
            continue
        key = process_key(fields.get("pid", b""))
        record = fields.get("name")
        if record == b'"process_name"' and "name" in args:
            named.add(key)
        elif record == b'"process_labels"' and "labels" in args:
            labels[key] = _string(args["labels"])
        elif record == b'"process_sort_index"' and "sort_index" in args:
            with suppress(ValueError):
                order[key] = float(args["sort_index"])
    return named, labels, order


def _metadata(name: str, pid: int, args: dict[str, Any]) -> bytes:
    record = {"name": name, "ph": "M", "pid": pid, "tid": 0, "args": args}
    return json.dumps(record, ensure_ascii=False).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _string(raw: bytes) -> str:
    value = json.loads(raw)
    return value if isinstance(value, str) else raw.decode()

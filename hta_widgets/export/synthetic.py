"""Records for a trace whose file has none of its own, made from its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hta_widgets.export.members import Members
from hta_widgets.formats.kineto.times import micros
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["records_of"]


def records_of(members: Members) -> Iterator[bytes]:
    """Yield names of processes and threads, then the events as complete events."""
    table = members.trace.table
    for track in table.tracks:
        at = {"pid": _number(track.pid), "tid": _number(track.tid), "ph": "M"}
        yield _json({"name": "process_name", **at, "args": {"name": track.process}})
        yield _json({"name": "thread_name", **at, "args": {"name": track.label}})
    base_ns = members.written_zero_ns
    for row in members.rows.tolist():
        track = table.tracks[table.track[row]]
        args = {}
        if table.stream[row] >= 0:
            args["stream"] = int(table.stream[row])
        if table.correlation[row] >= 0:
            args["correlation"] = int(table.correlation[row])
        fields = {
            "ph": b'"X"',
            "cat": _json(table.categories[table.category[row]]),
            "name": _json(table.names[table.name[row]]),
            "pid": _json(_number(track.pid)),
            "tid": _json(_number(track.tid)),
            "ts": micros(int(table.start_ns[row]) + base_ns),
            "dur": micros(int(table.dur_ns[row])),
        }
        if args:
            fields["args"] = _json(args)
        yield encode_fields(fields)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()

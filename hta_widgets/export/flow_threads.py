"""Let ends of arrows name their thread as their events do.

Some files write a thread's id as a string in one record and as a number in the next. Viewers take
that for two threads, and look for the event of an arrow on the wrong one.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.export.members import KEEP
from hta_widgets.export.members import Members
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["FlowThreads"]

_THREAD = ("pid", "tid")


class FlowThreads:
    """Adapts flow records.

    Parameters
    ----------
    members : Members
        Whose kept flows are meant.
    """

    def __init__(self, members: Members) -> None:
        trace, fate = members.trace, members.fate
        flows, table = trace.flow_table, trace.table
        self._track: dict[int, int] = {}
        self._own: dict[int, dict[str, bytes]] = {}
        if trace.source is None or not members.flows:
            return
        for rows, records in (
            (flows.source, flows.source_record),
            (flows.target, flows.target_record),
        ):
            kept = records >= 0
            kept[kept] = fate[records[kept]] == KEEP
            self._track.update(
                zip(records[kept].tolist(), table.track[rows[kept]].tolist(), strict=True)
            )
        tracks, first = np.unique(table.track[members.rows], return_index=True)
        examples = table.record[members.rows[first]]
        track_of = dict(zip(examples.tolist(), tracks.tolist(), strict=True))
        for number, text in trace.source.records(examples):
            fields = decode_fields(text) or {}
            self._own[track_of[number]] = {key: fields[key] for key in _THREAD if key in fields}

    def __call__(self, number: int, text: bytes) -> bytes:
        """Return the record, with its event's own way of writing the thread."""
        own = self._own.get(self._track.get(number, -1))
        if own is None:
            return text
        fields = decode_fields(text)
        if fields is None or all(fields.get(key) == value for key, value in own.items()):
            return text
        # Only if it is the same thread: an arrow may start beside its event.
        if any(_plain(fields.get(key, b"")) != _plain(value) for key, value in own.items()):
            return text
        return encode_fields({**fields, **own})


def _plain(raw: bytes) -> bytes:
    return raw.strip(b'"')

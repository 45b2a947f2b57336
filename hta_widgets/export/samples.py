"""Records of counter samples that no file holds: derived ones, or of a trace without a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from hta_widgets.export.members import Members
from hta_widgets.formats.kineto.times import micros

__all__ = ["samples_of"]

#: Counters of one name are told apart by an id, which is in the name of the series.
_WITH_ID = re.compile(r"(.*)\[([^\[\]]*)\]", re.DOTALL)


def samples_of(members: Members) -> Iterator[bytes]:
    """Yield the samples that go out; a value from before the window is told at its start."""
    table = members.trace.counter_table
    rows = members.samples
    low = None if members.whole else members.start_ns
    base_ns = members.written_zero_ns
    for code in np.unique(table.series_id[rows]).tolist():
        head, tail = _frame(table.series[code])
        own = rows[table.series_id[rows] == code]
        times, values = table.time_ns[own], table.value[own]
        if low is not None:
            times = np.maximum(times, low)
        for time_ns, value in zip(times.tolist(), values.tolist(), strict=True):
            yield head + micros(time_ns + base_ns) + tail % _number(value)


def _frame(series: tuple[str, str, str]) -> tuple[bytes, bytes]:
    """Return what stands before and after a sample's time."""
    pid, name, label = series
    found = _WITH_ID.fullmatch(name)
    fields: dict[str, Any] = {"ph": "C", "name": name}
    if found:
        fields |= {"name": found[1], "id": _as_written(found[2])}
    fields["pid"] = _as_written(pid)
    head = json.dumps(fields, ensure_ascii=False)[:-1] + ', "ts": '
    tail = ', "args": {' + json.dumps(label, ensure_ascii=False).replace("%", "%%") + ": %s}}"
    return head.encode(), tail.encode()


def _number(value: float) -> bytes:
    return (str(int(value)) if value.is_integer() else repr(value)).encode()


def _as_written(text: str) -> int | str:
    return int(text) if text.isdecimal() else text

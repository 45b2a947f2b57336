"""Decoder for the records of Chrome JSON.

The fields of `Record` and `Args` become columns. All other fields remain in the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hta_widgets.trace.call_args import CALL_KEYS, LAUNCH_KEYS, NODE_KEYS, OLD_DIMS
from hta_widgets.trace.columns import COMMUNICATION_KEYS

COMMUNICATION_FIELDS = (
    "collective", "dtype", "elements_in", "elements_out", "group_size", "group",
    "group_description", "group_ranks", "source", "target", "sequence",
)  # fmt: skip

_CALL_FIELDS = ("dims", "types", "strides", "values", "old_dims", "node", "forward")
LAUNCH_FIELDS = ("grid", "block", "registers", "shared", "blocks_per_sm", "occupancy", "limits")
#: Fields of `Args` whose values stay text until used, with their keys.
TEXT_ARGS = {
    "bandwidth": "memory bandwidth (GB/s)",
    "bytes": "bytes",
    **dict(zip(LAUNCH_FIELDS, LAUNCH_KEYS, strict=True)),
    **dict(zip(COMMUNICATION_FIELDS, COMMUNICATION_KEYS, strict=True)),
    **dict(zip(_CALL_FIELDS, (*CALL_KEYS, OLD_DIMS, *NODE_KEYS), strict=True)),
}


class Args(Struct, gc=False, rename={**TEXT_ARGS, "correlation_id": "correlation id"}):
    """Args that become columns. Except for streams and correlations, they stay text until used."""

    stream: int | str | None = -1
    correlation: int | str | None = -1
    correlation_id: int | str | None = -1  # of Paddle
    bandwidth: Raw = Raw(b"")
    bytes: Raw = Raw(b"")
    collective: Raw = Raw(b"")
    dtype: Raw = Raw(b"")
    elements_in: Raw = Raw(b"")
    elements_out: Raw = Raw(b"")
    group_size: Raw = Raw(b"")
    group: Raw = Raw(b"")
    group_description: Raw = Raw(b"")
    group_ranks: Raw = Raw(b"")
    source: Raw = Raw(b"")
    target: Raw = Raw(b"")
    sequence: Raw = Raw(b"")
    dims: Raw = Raw(b"")
    types: Raw = Raw(b"")
    strides: Raw = Raw(b"")
    values: Raw = Raw(b"")
    old_dims: Raw = Raw(b"")
    node: Raw = Raw(b"")
    forward: Raw = Raw(b"")
    grid: Raw = Raw(b"")
    block: Raw = Raw(b"")
    registers: Raw = Raw(b"")
    shared: Raw = Raw(b"")
    blocks_per_sm: Raw = Raw(b"")
    occupancy: Raw = Raw(b"")
    limits: Raw = Raw(b"")


class ScopedId(Struct, gc=False, rename={"everywhere": "global"}):
    """An id that is unique within its process, or within the whole file."""

    local: Raw = Raw(b"")
    everywhere: Raw = Raw(b"")


class Record(Struct, gc=False):
    """Fields that become columns, in Kineto's order. Numbers that must stay exact are text."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    args: Args | None = None
    id: Raw = Raw(b"")
    bp: str | None = None
    s: str | None = None
    id2: ScopedId | None = None
    scope: Raw = Raw(b"")
    bind_id: Raw = Raw(b"")
    flow_in: Raw = Raw(b"")
    flow_out: Raw = Raw(b"")


#: Stands for a missing time among starts that are decoded as integers.
NO_INTEGER = -(1 << 63)


@cache  # created when a file is read, since a cached job needs none
def timed_decoder(ts: type) -> Callable[[bytes], list[Any]]:
    """Return a decoder for records that decodes starts as type `ts` and durations as doubles.

    It is meant for files whose durations fit exactly in a double.
    """
    missing = {int: NO_INTEGER, float: math.nan, Raw: Raw(b"")}[ts]
    changed = {"ts": ("ts", ts, missing), "dur": ("dur", float, math.nan)}
    fields = [
        changed.get(field.name, (field.name, field.type, field.default))
        for field in msgspec.structs.fields(Record)
    ]
    record = msgspec.defstruct("TimedRecord", fields, gc=False)
    return msgspec.json.Decoder(list[record]).decode  # type: ignore[valid-type]


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

decode_records = msgspec.json.Decoder(list[Record]).decode
decode_bodies = msgspec.json.Decoder(list[Raw]).decode


def end_of_value(error: msgspec.DecodeError) -> int | None:
    """Return the length of the JSON value if the error is in the text after it, else None."""
    trailing = _TRAILING.search(str(error))
    return int(trailing.group(1)) - _TRAILING_SHIFT if trailing else None


def _trailing_shift() -> int:
    """Return the distance from the end of a value to the position in msgspec's error."""
    try:
        decode_bodies(b"[]x")
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing:
            return int(trailing.group(1)) - 2
    return 0


_TRAILING_SHIFT = _trailing_shift()

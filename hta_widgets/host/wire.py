"""Frames of a host's wire: one JSON object and any number of buffers, little-endian.

A frame is ``u32 n``, ``u32 length[n]`` and the parts. Each part begins at a multiple of 8, so that
a page reads typed arrays in place. Part 0 is the object in UTF-8.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

MOST_PARTS = 1024
#: Of a frame from a page; a host's own may be larger.
MOST_BYTES = 64 << 20


class WireError(Exception):
    """Bytes are not a frame; the connection cannot be used any more."""


def pack(message: dict[str, Any], buffers: Sequence[Any] = ()) -> bytes:
    """Return a frame."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    # Names in traces may contain halves of surrogate pairs, which are escaped as ASCII.
    parts = [memoryview(text.encode("ascii")), *(memoryview(part).cast("B") for part in buffers)]
    out = bytearray(struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)))
    for part in parts:
        out += bytes(-len(out) % 8)
        out += part
    return bytes(out)


def unpack(frame: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the object and the buffers of a frame."""
    view, parts = memoryview(frame), []
    try:
        (count,) = struct.unpack_from("<I", view)
        if not 1 <= count <= MOST_PARTS:
            raise WireError(f"a frame has 1 to {MOST_PARTS} parts, not {count}")
        lengths = struct.unpack_from(f"<{count}I", view, 4)
        at = 4 + 4 * count
        for length in lengths:
            at += -at % 8
            parts.append(view[at : at + length])
            at += length
        if at != len(view):
            raise WireError(f"a frame of {at} bytes has {len(view)}")
        message = json.loads(bytes(parts[0]))
    except (struct.error, ValueError, RecursionError) as error:
        raise WireError(str(error)) from None
    if not isinstance(message, dict):
        raise WireError("part 0 is not a JSON object")
    return message, parts[1:]

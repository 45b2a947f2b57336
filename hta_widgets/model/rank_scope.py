"""How ids of several ranks share one file: scoped by rank on the way out, restored on the way in.

``docs/merged-format.md`` describes the file.
"""

from __future__ import annotations

import json

__all__ = [
    "IDENTITY",
    "ID_ARGS",
    "ID_FIELDS",
    "ID_STRIDE",
    "MARK",
    "PID_STRIDE",
    "original_id",
    "scoped_id",
]

#: The top-level key, the name of its metadata records, and the key of what they changed.
MARK = "hta_widgets"
#: Under which key of the mark a file says which worker's, GPU's or server's it is.
IDENTITY = "identity"
#: An id of rank r is written as r * ID_STRIDE + id; exact in a double up to rank 9006.
ID_STRIDE = 10**12
#: Processes of rank r get the numbers from r * PID_STRIDE + 1 on.
PID_STRIDE = 100_000
#: Fields of a record, and of its args, that hold such ids.
ID_FIELDS = ("id", "bind_id")
ID_ARGS = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")

_LARGEST = 1 << 53


def scoped_id(raw: bytes, rank: int) -> bytes:
    """Return an id that no other rank has, as JSON.

    Numbers below `ID_STRIDE` are moved into the rank's own range. Negative numbers and null mean
    "none" and stay. Everything else becomes the string ``"<rank>:<its JSON text>"``.
    """
    if raw[:1] == b"-" or raw == b"null":
        return raw
    if raw.isdigit() and len(raw) <= 12 and (rank + 1) * ID_STRIDE < _LARGEST:
        return str(rank * ID_STRIDE + int(raw)).encode()
    return json.dumps(f"{rank}:{raw.decode()}", ensure_ascii=False).encode()


def original_id(raw: bytes, rank: int) -> bytes:
    """Undo `scoped_id`; anything that it did not write is returned as it is."""
    if raw.isdigit():
        number = int(raw) - rank * ID_STRIDE
        return str(number).encode() if 0 <= number < ID_STRIDE else raw
    if raw[:1] == b'"':
        text = json.loads(raw)
        prefix = f"{rank}:"
        if text.startswith(prefix):
            return str(text[len(prefix) :]).encode()
    return raw

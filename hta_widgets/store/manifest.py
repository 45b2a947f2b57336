"""The small file that makes a folder a store: what it holds, and by what it is checked."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError

from hta_widgets.store.arrow_file import Damaged

__all__ = ["MANIFEST", "VERSION", "begins_manifest", "dump_manifest", "read_manifest"]

#: Name of the file.
MANIFEST = "store.json"
#: Grows with every change that older code cannot read, or newer code would misread.
VERSION = 1

_BEGINNING = b'{"hta_widgets_store":'
_RESAVE = "Load the trace files again, and save them again."


def begins_manifest(text: bytes) -> bool:
    """Whether a file that begins so is a store's."""
    return text.startswith(_BEGINNING)


def dump_manifest(body: dict[str, Any]) -> bytes:
    """Return a manifest's bytes."""
    text = _canonical(body)
    head = json.dumps({"hta_widgets_store": VERSION, "checksum": zlib.crc32(text)})
    return head[:-1].replace(": ", ":", 1).encode() + b', "body": ' + text + b"}\n"


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a manifest says.

    Raises
    ------
    TraceError
        Where it is of another version.
    Damaged
        Where it is not as it was written, or not there.
    """
    try:
        text = path.read_bytes()
    except OSError as cause:
        raise Damaged(f"cannot be read ({cause.strerror or cause})") from None
    try:
        manifest = json.loads(text)
        version, checksum, body = (
            manifest[key] for key in ("hta_widgets_store", "checksum", "body")
        )
    except (ValueError, KeyError, TypeError):
        raise Damaged("is cut off, or was changed") from None
    if version != VERSION:
        age = "an older" if isinstance(version, int) and version < VERSION else "a newer"
        raise TraceError(
            f"is a store of version {version}, by {age} hta_widgets; this one reads {VERSION}",
            path=path,
            remedy=_RESAVE if age == "an older" else "Update hta_widgets.",
        )
    if not isinstance(body, dict) or zlib.crc32(_canonical(body)) != checksum:
        raise Damaged("was changed: its checksum differs")
    return body


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

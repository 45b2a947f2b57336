"""Read pickles that hold plain containers, texts and numbers, as PyTorch's dumps do.

Python's unpickler can run any code and take any memory. Here `plain_pickle` reads the file in a
process of its own, which refuses all code and has limits, and returns a new pickle of plain values.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.readers import plain_pickle
from hta_widgets.readers.formats import FileStart
from hta_widgets.trace.problems import Problems

_MAGIC = re.compile(rb"\x80[\x02-\x05]")
_MAX_BYTES = 1 << 32
#: Limits of the process: values take up to about 20 bytes per byte of the file.
_MEMORY_BYTES, _MEMORY_PER_BYTE = 1 << 29, 64
_CPU_S, _BYTES_PER_S = 20, 1 << 20
_REMEDY = "Dump it again with PyTorch. If it is from somebody else, ask what wrote it."


def is_pickle(start: FileStart, *words: bytes) -> bool:
    """Whether a file is a pickle of protocol 2 to 5 whose beginning holds all of `words`."""
    return _MAGIC.match(start.text) is not None and all(word in start.text for word in words)


def read_pickle(path: str, data: bytes, problems: Problems) -> Any:
    """Return the value of a pickle of plain values, the contents of a file; report an early end.

    Raises
    ------
    TraceError
        If the pickle refers to any class or function, holds anything but plain values, is damaged,
        or takes more time or memory than a file of its size should.
    """
    if len(data) > _MAX_BYTES:
        raise TraceError(
            f"has {len(data):,} bytes; pickles are read up to {_MAX_BYTES:,}",
            path=path,
            remedy="Record fewer events: max_entries= of _record_memory_history.",
        )
    cpu_s = _CPU_S + len(data) // _BYTES_PER_S
    limits = _MEMORY_BYTES + _MEMORY_PER_BYTE * len(data), cpu_s
    command = [sys.executable, "-I", "-S", plain_pickle.__file__, *map(str, limits)]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=10 * cpu_s, check=False
        )
        line, _, body = done.stdout.partition(b"\n")
        header = json.loads(line) if line else {}
    except (OSError, subprocess.TimeoutExpired, ValueError) as cause:
        raise TraceError(
            f"cannot be read in a process of its own ({type(cause).__name__})",
            path=path,
            remedy="Close other programs, and load it again.",
        ) from None
    error = header.get("error") or ("" if header else "takes too much time or memory to read")
    if error:
        raise TraceError(error, path=path, remedy=_REMEDY)
    if header["is_cut"]:
        detail = "the pickle ends early: what it holds up to there is read"
        problems.add("truncated", 1, detail, file=path)
    return plain_pickle.PlainUnpickler(io.BytesIO(body)).load()

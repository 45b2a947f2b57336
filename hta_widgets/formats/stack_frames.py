"""Read PyTorch's dumps (pickles or JSON), and the stacks in them.

Of a file's path, only the file name or the part within a package is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import EventRows
from hta_widgets.readers.formats import Advance, FileStart
from hta_widgets.readers.pickles import read_pickle
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.columns import as_integer
from hta_widgets.trace.short_paths import package_part, shorten_paths

_RUNNERS = re.compile(r"<(string|frozen .*|stdin)>|(distributed_c10d|c10d_logger)\.py")


def read_dump_value(
    rows: EventRows,
    advance: Advance,
    *,
    remedy: str,
    complete: Callable[[bytes], Any] = lambda _text: None,
) -> Any:
    """Return the value in the file of `rows`, a pickle or JSON.

    Parameters
    ----------
    complete : (bytes) -> value, optional
        If JSON is truncated, return its complete part, or None if there is none.
    """
    path = rows.path
    data = read_whole_file(path, rows.problems, advance)
    start = FileStart(path, data, len(data))
    if start.is_pickle:
        return read_pickle(path, data, rows.problems)
    try:
        return msgspec.json.decode(start.without_bom)
    except (msgspec.DecodeError, RecursionError) as cause:
        value = complete(start.without_bom) if "truncated" in str(cause) else None
        if value is None:
            raise TraceError(f"is damaged JSON ({cause})", path=path, remedy=remedy) from None
        rows.note("truncated", 1, "the JSON ends early; its complete entries are read")
        return value


def as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list; empty for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return the dictionaries in a list or tuple; [] for anything else."""
    return [entry for entry in as_list(value) if isinstance(entry, dict)]


class DumpFrame(NamedTuple):
    """A function on a stack; `is_library` is False for the user's code."""

    name: str
    file: str
    line: int
    is_library: bool

    @property
    def text(self) -> str:
        """The frame as text, for example ``forward (model.py:57)``."""
        if not self.file or self.file == "??":
            return self.name
        line = f":{self.line}" if self.line else ""
        return f"{self.name} ({self.file}{line})"


class StackPool:
    """The distinct stacks of a dump, in order of first occurrence."""

    def __init__(self) -> None:
        self._number_of: dict[tuple[DumpFrame, ...], int] = {}
        # Events of a dump share lists of frames, which outlive the pool, so ids are unique.
        self._number_of_list: dict[int, int] = {}

    def add(self, frames: Any) -> int:
        """Return the ID of the stack with these frames, innermost first."""
        number = self._number_of_list.get(id(frames))
        if number is None:
            stack = tuple(map(_stack_frame, dicts_in(frames)))
            number = self._number_of.setdefault(stack, len(self._number_of))
            self._number_of_list[id(frames)] = number
        return number

    @property
    def stacks(self) -> list[list[DumpFrame]]:
        """The stacks, indexed by ID."""
        return list(map(list, self._number_of))


def _stack_frame(frame: Mapping[str, Any]) -> DumpFrame:
    """Return a frame of a dump. Its path is relative to the package, or only a file name."""
    line = max(as_integer(frame.get("line"), 1 << 31), 0)
    name = shorten_paths(str(frame.get("name") or "unknown"))
    return _frame_at(name, str(frame.get("filename") or ""), line)


@lru_cache(maxsize=1 << 14)
def _frame_at(name: str, path: str, line: int) -> DumpFrame:
    path = path.replace("\\", "/")
    packaged = package_part(path)
    short = path.rpartition("/")[2] if packaged is None else packaged
    is_library = packaged is not None
    is_library |= short in {"", "??"} or _RUNNERS.fullmatch(short) is not None
    return DumpFrame(name, short, line, is_library)


def frame_text(stack: Sequence[DumpFrame], without: str = "") -> str:
    """Return the innermost frame of the user's code, or else of any file, as text.

    For an empty stack, return `without`.
    """
    user_frames = (frame for frame in stack if not frame.is_library)
    file_frames = (frame for frame in stack if frame.file not in {"", "??"})
    frame = next(user_frames, None) or next(file_frames, None) or next(iter(stack), None)
    return without if frame is None else frame.text

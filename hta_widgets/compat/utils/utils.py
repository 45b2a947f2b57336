"""The helpers of HTA's ``utils.utils`` that notebooks import."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.trace.intervals import union

__all__ = [
    "IdleTimeType",
    "KernelType",
    "flatten_column_names",
    "get_kernel_type",
    "get_memory_kernel_type",
    "get_symbol_column_names",
    "get_value_from_dict",
    "is_comm_kernel",
    "is_compute_kernel",
    "is_computer_kernel",
    "is_memory_kernel",
    "merge_kernel_intervals",
    "normalize_gpu_stream_numbers",
    "normalize_path",
    "shorten_name",
]

_COPY_NAME = len("Memcpy DtoH")
_CLOSING = {">": "<", ")": "("}


class KernelType(Enum):
    """What a device event does."""

    COMMUNICATION = 0
    MEMORY = 1
    COMPUTATION = 2
    OTHER = 3


class IdleTimeType(Enum):
    """Why a stream is idle."""

    HOST_WAIT = 0
    KERNEL_WAIT = 1
    OTHER = 2


#: HTA's word for each kind of device work.
KERNEL_TYPE_OF_KIND = {
    "compute": KernelType.COMPUTATION.name,
    "communication": KernelType.COMMUNICATION.name,
    "memory": KernelType.MEMORY.name,
}


def normalize_path(path: str) -> str:
    """Return a path with ``~`` and a leading ``./`` resolved."""
    resolved = Path(path).expanduser()
    return str(Path.cwd() / resolved) if path.startswith(".") else str(resolved)


def get_kernel_type(name: str) -> str:
    """Return ``COMPUTATION``, ``COMMUNICATION``, ``MEMORY`` or ``OTHER``.

    Decided by `hta_widgets.taxonomy` as for an event of category ``kernel``: rules that users
    add count here too.
    """
    kind = taxonomy.kind_of("kernel", name)
    return KERNEL_TYPE_OF_KIND.get(kind, KernelType.OTHER.name)


def is_comm_kernel(name: str) -> bool:
    """Tell whether a kernel of this name communicates."""
    return get_kernel_type(name) == KernelType.COMMUNICATION.name


def is_memory_kernel(name: str) -> bool:
    """Tell whether a device event of this name copies or fills memory."""
    return get_kernel_type(name) == KernelType.MEMORY.name


def is_compute_kernel(name: str) -> bool:
    """Tell whether a kernel of this name computes."""
    return get_kernel_type(name) == KernelType.COMPUTATION.name


is_computer_kernel = is_compute_kernel


def get_memory_kernel_type(name: str) -> str:
    """Return a copy's kind, such as ``Memcpy HtoD`` or ``Memset``."""
    if name.startswith("Memset"):
        return "Memset"
    return name[:_COPY_NAME] if name.startswith("Memcpy") else "Memcpy Unknown"


def merge_kernel_intervals(kernel_df: pd.DataFrame) -> pd.DataFrame:
    """Return the times that events cover, ``ts, end``; intervals that touch become one."""
    start = kernel_df["ts"].to_numpy()
    end = start + kernel_df["dur"].to_numpy()
    if np.issubdtype(end.dtype, np.integer):
        pieces = union(start, end)
        return pd.DataFrame({"ts": pieces.start, "end": pieces.end})
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end) if len(end) else end
    opens = np.r_[True, start[1:] > reach[:-1]] if len(end) else np.empty(0, dtype=bool)
    last = np.r_[np.flatnonzero(opens)[1:] - 1, len(end) - 1] if len(end) else opens.nonzero()[0]
    return pd.DataFrame({"ts": start[opens], "end": reach[last]})


def shorten_name(name: str) -> str:
    """Return a kernel's name without its return type, template and function arguments.

    Names of copies, and names without brackets, stay as they are.
    """
    if is_memory_kernel(name) or not any(bracket in name for bracket in "<("):
        return name
    kept: list[str] = []
    for letter in name.replace("->", ""):
        opening = _CLOSING.get(letter)
        if opening is None:
            kept.append(letter)
            continue
        while kept and kept.pop() != opening:
            pass
    return "".join(kept).split(" ")[-1]


def flatten_column_names(df: pd.DataFrame) -> None:
    """Join the levels of a frame's column names with ``_``, in place."""
    if isinstance(df.columns, pd.MultiIndex):
        df.columns = pd.Index(["_".join(map(str, levels)).rstrip("_") for levels in df.columns])


def get_symbol_column_names(df: pd.DataFrame) -> tuple[str, str]:
    """Return which columns hold names and categories as text; ``""`` where none does."""

    def first(*candidates: str) -> str:
        for column in candidates:
            if column in df.columns and pd.api.types.is_string_dtype(df[column]):
                return column
        return ""

    return first("name", "s_name"), first("cat", "s_cat")


def normalize_gpu_stream_numbers(df: pd.DataFrame) -> None:
    """Make the column ``stream`` whole numbers, in place; -1 where it is none."""
    if "stream" in df.columns:
        df["stream"] = pd.to_numeric(df["stream"], errors="coerce").fillna(-1).astype(int)


def get_value_from_dict(d: object, key: str, default: object = None) -> Any:
    """Return the value under a path of keys such as ``"a.b.c"``."""
    for part in key.split("."):
        if not isinstance(d, dict) or part not in d:
            return default
        d = d[part]
    return d

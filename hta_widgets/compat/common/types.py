"""HTA's words for kinds of devices, copies, and groups of names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from hta_widgets.errors import TraceError

__all__ = [
    "DeviceType",
    "GroupingPattern",
    "MemcpyType",
    "infer_device_type",
    "to_grouping_pattern",
]


class DeviceType(Enum):
    """Whose events."""

    UNKNOWN = 0
    CPU = 1
    GPU = 2
    ALL = 3


class MemcpyType(Enum):
    """Which way a copy goes."""

    DTOD = 0
    DTOH = 1
    HTOD = 2
    UNKNOWN = 3


@dataclass
class GroupingPattern:
    """Names that begin with what a pattern matches, or all others."""

    pattern: re.Pattern[str]
    inverse_match: bool = False
    group_name: str = ""

    def match(self, name: str) -> bool:
        """Tell whether a name belongs to the group."""
        return (self.pattern.match(name) is not None) != self.inverse_match

    def __hash__(self) -> int:
        return hash((self.pattern.pattern, self.pattern.flags, self.inverse_match))


def to_grouping_pattern(
    pattern: str | list[str] | re.Pattern[str] | GroupingPattern,
    group_name: str | None = None,
    inverse_match: bool | None = None,
) -> GroupingPattern:
    """Return the group of a pattern, or of any of several."""
    if isinstance(pattern, GroupingPattern):
        return pattern
    if isinstance(pattern, list):
        pattern = "|".join(f"({one})" for one in pattern)
    if not isinstance(pattern, (str, re.Pattern)):
        raise TraceError(f"a {type(pattern).__name__} is no pattern", remedy="Give text.")
    return GroupingPattern(re.compile(pattern), bool(inverse_match), group_name or "")


def infer_device_type(df: pd.DataFrame) -> DeviceType:
    """Return whose the events of one thread or stream are."""
    if "stream" not in df.columns or df.empty:
        return DeviceType.UNKNOWN
    if (df["stream"] >= 0).all():
        return DeviceType.GPU
    return DeviceType.CPU if (df["stream"] < 0).all() else DeviceType.UNKNOWN

"""HTA's defaults, and what it calls an attribute: an arg that becomes a column."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

__all__ = ["DEFAULT_TRACE_DIR", "AttributeSpec", "ValueType", "YamlVersion"]

#: Where HTA looks for traces when no folder is given.
DEFAULT_TRACE_DIR = "/tmp/trace"  # noqa: S108 - HTA's default


class YamlVersion(NamedTuple):
    """A version of HTA's list of args; accepted, there is one list here."""

    major: int
    minor: int
    patch: int

    def get_version_str(self) -> str:
        """Return it as ``1.0.0``."""
        return ".".join(map(str, self))

    @staticmethod
    def from_string(version_str: str) -> YamlVersion:
        """Return the version of a text such as ``1.0.0``."""
        major, minor, patch = map(int, version_str.split("."))
        return YamlVersion(major, minor, patch)


class ValueType(Enum):
    """What kind of value an arg has."""

    Int = 1
    Float = 2
    String = 3
    Object = 4


class AttributeSpec(NamedTuple):
    """An arg of events that becomes a column of `hta_frame`'s.

    Attributes
    ----------
    name : str
        The column.
    raw_name : str
        The key of ``args`` in the file.
    value_type : ValueType
    default_value
        Of events without the arg.
    min_supported_version : YamlVersion
        Without meaning here.
    """

    name: str
    raw_name: str
    value_type: ValueType
    default_value: Any
    min_supported_version: YamlVersion = YamlVersion(1, 0, 0)

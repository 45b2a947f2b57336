"""What the header of a rank's file says of the job and its process groups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.derived import derived_once

__all__ = ["Header", "HeaderGroup", "header_of", "listed_ranks", "one_of"]


@dataclass(frozen=True, slots=True)
class HeaderGroup:
    """A process group as the header lists it; no ranks where the list is no list of ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]
    is_listed: bool


@dataclass(frozen=True, slots=True)
class Header:
    """What the header says; `world_size` is -1 and `host` empty where it says nothing."""

    world_size: int
    groups: tuple[HeaderGroup, ...]
    host: str = ""


@lru_cache(maxsize=4096)
def one_of(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first of equal tuples: all ranks of a job list the same ones."""
    return ranks


@lru_cache(maxsize=4096)
def listed_ranks(text: str) -> tuple[int, ...]:
    """Return the ranks that a text lists."""
    return one_of(tuple(int(number) for number in re.findall(r"\d+", text)))


@derived_once("header")
def header_of(trace: Trace) -> Header:
    """Return what the header of a rank's file says."""
    metadata = trace.metadata
    host = str(trace.host or metadata.get("host_name") or "")
    return _read(metadata.get("distributedInfo"), host)


def _read(info: Any, host: str) -> Header:
    if not isinstance(info, dict):
        return Header(-1, (), host)
    size = info.get("world_size")
    entries = info.get("pg_config")
    groups = [
        _group(entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
    ]
    return Header(size if isinstance(size, int) else -1, tuple(groups), host)


def _group(entry: dict[str, object]) -> HeaderGroup:
    ranks = entry.get("ranks")
    is_listed = isinstance(ranks, list) and set(map(type, ranks)) <= {int, bool}
    return HeaderGroup(
        str(entry.get("pg_name", "")),
        str(entry.get("pg_desc") or ""),
        one_of(tuple(ranks)) if is_listed and isinstance(ranks, list) else (),
        is_listed,
    )

"""Which files of a folder are traces, and of which ranks."""

from __future__ import annotations

import glob
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hta_widgets.compat.configs.config import logger
from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.reader import peek_rank
from hta_widgets.readers.natural import natural_key
from hta_widgets.readers.ranks import assign_ranks
from hta_widgets.readers.streams import open_stream
from hta_widgets.trace.problems import Problems

__all__ = [
    "create_rank_to_trace_dict",
    "create_rank_to_trace_dict_from_dir",
    "get_trace_files",
    "patterns_of",
    "read_trace",
    "trace_files_in",
    "update_trace_rank",
    "warn_of_ranks",
    "write_trace",
]

_STATED = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*"?(\d+)')
_LONGEST = 4096  # bytes from "distributedInfo" to its rank
_ENDINGS = (".json", ".gz")
_COUNTERS = "_with_counters.json"
_OVERLAYS = ("overlaid_critical_path_", "overlaid_")


def trace_files_in(trace_dir: str | Path) -> list[str]:
    """Return the files directly in a folder that may be traces, in natural order.

    Those are the ones that end in ``.json`` or ``.gz``. What HTA itself wrote beside a trace (with
    counters, or overlaid) is left out: HTA takes such a file for one more trace of the same rank,
    and it may displace the real one.
    """
    folder = Path(trace_dir)
    names = {entry.name for entry in folder.iterdir() if entry.name.endswith(_ENDINGS)}
    kept = [name for name in names if _original(name) not in names - {name}]
    return sorted((str(folder / name) for name in kept), key=natural_key)


def patterns_of(files: Iterable[str]) -> list[str]:
    """Return patterns that match just these files.

    What a pattern matches may turn out to be no trace; a file that is named must be one.
    """
    return [glob.escape(name[:-1]) + f"[{name[-1]}]" for name in files]


def create_rank_to_trace_dict(file_list: Iterable[str]) -> tuple[bool, dict[int, str]]:
    """Return True, and the files by rank, as `hta_widgets.load` gives them ranks.

    Stated ranks win. A file that states none, or one that another states, gets the rank of its
    name or a free one, with a warning.
    """
    paths = sorted(file_list, key=natural_key)
    problems = Problems()
    ranks = assign_ranks(paths, [None] * len(paths), [_rank_in(path) for path in paths], problems)
    warn_of_ranks(problems)
    return True, dict(zip(ranks, paths, strict=True))


def warn_of_ranks(problems: Problems) -> None:
    """Log which files state no rank, or one that another file states, in HTA's words."""
    words = {
        "guessed_rank": "this trace file does not have the rank",
        "duplicate_rank": "has the same rank",
    }
    for problem in problems:
        if problem.kind in words:
            logger.warning("%s: %s: it %s", problem.file, words[problem.kind], problem.detail)


def _rank_in(path: str) -> int | None:
    """Return the rank that a file states, also behind its events."""
    rank = peek_rank(path)
    if rank is not None:
        return rank
    try:
        with open_stream(path) as stream:
            tail = b""
            while block := stream.read(1 << 20):
                text = tail + block
                if found := _STATED.search(text):
                    return int(found[1])
                tail = text[-_LONGEST:]
    except TraceError:
        pass  # loading it tells why
    return None


def create_rank_to_trace_dict_from_dir(trace_dir: str) -> tuple[bool, dict[int, str]]:
    """Return whether a folder holds traces, and its files by rank."""
    files = trace_files_in(trace_dir) if Path(trace_dir).is_dir() else []
    return create_rank_to_trace_dict(files) if files else (False, {})


def get_trace_files(trace_path: str) -> dict[int, str]:
    """Return the traces of a folder by rank; none, where there is no such folder."""
    return create_rank_to_trace_dict_from_dir(trace_path)[1]


def read_trace(file_path: str) -> dict[str, Any]:
    """Return a trace file's JSON value."""
    path = Path(file_path)
    if not path.name.endswith(_ENDINGS):
        raise TraceError("its name must end in .json or .gz", path=path)
    raw = path.read_bytes()
    value: dict[str, Any] = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return value


def write_trace(trace_data: dict[str, Any], file_path: str) -> None:
    """Write a JSON value to a file; compressed if its name ends in ``.gz``."""
    path = Path(file_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(trace_data).encode("utf-8")
    path.write_bytes(gzip.compress(text, 6) if path.suffix == ".gz" else text)


def update_trace_rank(file_path: str, rank: int) -> None:
    """State a rank in a trace file, which is rewritten in place.

    `hta_widgets.load` does without: it takes ``{rank: path}``.
    """
    content = read_trace(file_path)
    content["distributedInfo"] = {**content.get("distributedInfo", {}), "rank": rank}
    write_trace(content, file_path)


def _original(name: str) -> str:
    """Return which file HTA made this one from, going by its name; else its own name."""
    if _COUNTERS in name:
        return name.replace(_COUNTERS, ".json")
    for prefix in _OVERLAYS:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return ""

"""What to remember of a source of records, so that it can be made again without the reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hta_widgets.formats.kineto.record_source import FileRecords, FileState, SliceIndex
from hta_widgets.formats.kineto.records import MergedRecords
from hta_widgets.formats.mpi.timelines import TimeLineRecords
from hta_widgets.store.rank_file import Kept
from hta_widgets.trace.columns import RecordSource

__all__ = ["forget_nothing", "restore"]

Column = Callable[[str], Any]


def forget_nothing(source: RecordSource) -> Kept:
    """Return plain facts and columns that tell all of a source but the records themselves."""
    if isinstance(source, FileRecords):
        return _keep_file(source)
    if isinstance(source, MergedRecords):
        return _keep_merged(source)
    if isinstance(source, TimeLineRecords):
        return _keep_time_line(source)
    raise TypeError(f"no way to keep a {type(source).__name__}")


def restore(facts: dict[str, Any], column: Column) -> RecordSource:
    """Make the source again."""
    if facts["kind"] == "file":
        return _file(facts, column)
    if facts["kind"] == "merged":
        return _merged(facts, column)
    return _time_line(facts, column)


def _keep_file(source: FileRecords) -> Kept:
    index, state = source._index, source._state  # noqa: SLF001 - the two modules are one matter
    spans = [*index.spans.items()]
    facts = {
        "kind": "file",
        "path": source.path,
        "count": len(source),
        "state": [state.size, state.mtime_ns],
        "metadata_text": _written(source.metadata_text),
    }
    columns: dict[str, Any] = {
        "starts": np.array(index.starts, np.int64),
        "ends": np.array(index.ends, np.int64),
        "first_records": np.array(index.first_records, np.int64),
        "odd_slices": np.array([number for number, _ in spans], np.int64),
        "odd_counts": np.array([len(span) for _, span in spans], np.int64),
        "odd_spans": np.concatenate(
            [np.empty(0, np.int64), *(np.asarray(span, np.int64).ravel() for _, span in spans)]
        ),
    }
    return Kept(facts, columns)


def _file(facts: dict[str, Any], column: Column) -> FileRecords:
    counts = column("odd_counts")
    spans = np.split(column("odd_spans").reshape(-1, 2), np.cumsum(counts)[:-1])
    index = SliceIndex(
        column("starts").tolist(),
        column("ends").tolist(),
        column("first_records").tolist(),
        dict(zip(column("odd_slices").tolist(), spans, strict=False)),
    )
    size, mtime_ns = facts["state"]
    texts = _read(facts["metadata_text"])
    return FileRecords(facts["path"], index, facts["count"], texts, FileState(size, mtime_ns))


def _keep_merged(source: MergedRecords) -> Kept:
    whole = forget_nothing(source._source)  # noqa: SLF001
    facts = {
        "kind": "merged",
        "whole": whole.facts,
        "rank": source._rank,  # noqa: SLF001
        "shift_ns": source._shift_ns,  # noqa: SLF001
        "pids": _written(source._pids),  # noqa: SLF001
        "metadata_text": _written(source.metadata_text),
    }
    return Kept(facts, {**whole.columns, "numbers": source._numbers})  # noqa: SLF001


def _merged(facts: dict[str, Any], column: Column) -> MergedRecords:
    return MergedRecords(
        restore(facts["whole"], column),
        column("numbers"),
        facts["rank"],
        facts["shift_ns"],
        _read(facts["pids"]),
        _read(facts["metadata_text"]),
    )


def _keep_time_line(source: TimeLineRecords) -> Kept:
    state = source._state  # noqa: SLF001
    facts = {
        "kind": "time line",
        "path": source.path,
        "first": source._first,  # noqa: SLF001
        "count": source._count,  # noqa: SLF001
        "order": source._order,  # noqa: SLF001
        "rank": source._rank,  # noqa: SLF001
        "state": [state.size, state.mtime_ns],
        "has_io": source._has_io,  # noqa: SLF001
        "apart": source._numbers is not None,  # noqa: SLF001
    }
    numbers = np.empty(0, np.int64) if source._numbers is None else source._numbers  # noqa: SLF001
    return Kept(facts, {"numbers": numbers})


def _time_line(facts: dict[str, Any], column: Column) -> TimeLineRecords:
    first, count = facts["first"], facts["count"]
    numbers = column("numbers") if facts["apart"] else np.arange(first, first + count)
    return TimeLineRecords(
        facts["path"],
        numbers,
        facts["order"],
        facts["rank"],
        FileState(*facts["state"]),
        has_io=facts["has_io"],
    )


def _written(texts: dict[str, bytes]) -> dict[str, str]:
    return {key: bytes(text).decode("latin-1") for key, text in texts.items()}


def _read(texts: dict[str, str]) -> dict[str, bytes]:
    return {key: text.encode("latin-1") for key, text in texts.items()}

"""Reads a file according to its format, and shortens paths if the format requires it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hta_widgets.readers.formats import Outcome, format_named, resolve_reference
from hta_widgets.trace.columns import StringPool, Track
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.short_paths import map_texts, shorten_paths, shorten_record
from hta_widgets.trace.trace import Trace


def read_file(path: str, format: str, **options: object) -> Outcome:
    """Read a file; raise `TraceError` if it is not of the format."""
    reading = format_named(format).reading
    outcome: Outcome = resolve_reference(reading.read)(path, **options)
    is_shortened = [reading.shortens_paths] * len(outcome.traces)
    if reading.shortens_paths_of:
        is_shortened = list(map(resolve_reference(reading.shortens_paths_of), outcome.traces))
    if not any(is_shortened):
        return outcome
    problems = (
        replace(problem, detail=shorten_paths(problem.detail)) for problem in outcome.problems
    )
    traces = tuple(
        _shorten_paths_of_trace(trace) if shortens else trace
        for trace, shortens in zip(outcome.traces, is_shortened, strict=True)
    )
    return outcome._replace(traces=traces, problems=Problems(problems))


def _shorten_paths_of_trace(trace: Trace) -> Trace:
    table = trace.table
    names = StringPool()
    lookup = np.array([names.add(shorten_paths(name)) for name in table.names.values], np.int32)
    instants, asyncs, counters = trace.instant_table, trace.async_table, trace.counter_table
    if trace.source is not None:
        shorten_paths_of_source(trace.source)
    return trace.replace(
        _table=replace(
            table, names=names, name=lookup[table.name], tracks=list(_short_tracks(table.tracks))
        ),
        instant_table=replace(instants, name=lookup[instants.name]),
        async_table=replace(asyncs, name=lookup[asyncs.name]),
        counter_table=replace(
            counters,
            series=[
                (shorten_paths(pid), shorten_paths(name), shorten_paths(series))
                for pid, name, series in counters.series
            ],
        ),
        metadata=map_texts(trace.metadata, shorten_paths),
    )


def shorten_paths_of_source(source: Any) -> None:
    """Shorten paths in the records of a source, and in args that it has already read."""
    source.shortens_paths = True
    if texts := getattr(source, "metadata_text", None):
        source.metadata_text = {key: shorten_record(text) for key, text in texts.items()}
    if (comm_args := getattr(source, "comm_args", None)) is not None:
        source.comm_args = replace(comm_args, texts=[*map(shorten_record, comm_args.texts)])
    if (call_args := getattr(source, "call_args", None)) is not None:
        texts_of_calls = [tuple(map(shorten_record, row)) for row in call_args.texts]
        source.call_args = replace(call_args, texts=texts_of_calls)


def _short_tracks(tracks: Iterable[Track]) -> Iterable[Track]:
    """Yield tracks with short paths in their labels; labels stay unique."""
    keys: set[str] = set()
    for track in tracks:
        label = shorten_paths(track.label)
        short = replace(track, process=shorten_paths(track.process), label=label)
        if short.key in keys:
            short = replace(short, label=f"{label} ({len(keys)})")
        keys.add(short.key)
        yield short

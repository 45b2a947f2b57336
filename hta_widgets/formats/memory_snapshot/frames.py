"""Frames of the memory-snapshot panels, tables of pages, headline and comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from hta_widgets.analysis.frames import result_frame, text_column
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding
from hta_widgets.diff.tables import join_sides
from hta_widgets.formats.memory_snapshot.snapshots import BEFORE, NO_STACK
from hta_widgets.formats.memory_snapshot.usage import (
    snapshot_memories,
    snapshot_peak,
    snapshot_segments,
)
from hta_widgets.panels.frames import whole_job_panel
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.panels.headline_words import Piece
from hta_widgets.text import size
from hta_widgets.trace.traceset import Selection, TraceSet

_TOP = 20
#: Fragmentation is mentioned if at least this share of reserved memory is free.
_MIN_FREE_SHARE = 0.1


def _peak_frame(traces: TraceSet) -> pd.DataFrame:
    """Return the blocks at the highest peak of all devices, combining small rows."""
    peak = snapshot_peak(traces)
    if not len(peak):
        return peak
    peaks = peak.groupby(["rank", "device"], sort=False)["peak_bytes"].first()
    rank, device = peaks.index[int(peaks.to_numpy().argmax())]
    highest = peak[(peak["rank"] == rank) & (peak["device"] == device)]
    small = highest.iloc[_TOP:]
    if len(small):
        combined = small.iloc[:1].assign(
            use="", where=f"{len(small)} more", bytes=small["bytes"].sum(),
            blocks=small["blocks"].sum(), largest_bytes=small["largest_bytes"].max(),
        )  # fmt: skip
        highest = pd.concat([highest.iloc[:_TOP], combined], ignore_index=True)
    columns: dict[Any, Any] = highest.reset_index(drop=True).to_dict("series")
    return result_frame(
        columns, matched=peak.attrs["matched"], others=len(peaks) - 1, history=_has_history(traces)
    )


def _pools_frame(traces: TraceSet) -> pd.DataFrame:
    segments = snapshot_segments(traces)
    groups = segments.groupby(["rank", "device", "kind", "stream"], sort=True)
    sums = groups[["total_bytes", "used_bytes", "free_bytes", "free_blocks"]].sum()
    sums["largest_free_bytes"] = groups["largest_free_bytes"].max()
    sums["segments"] = groups.size()
    columns: dict[Any, Any] = sums.reset_index().to_dict("series")
    columns |= {name: text_column(columns[name]) for name in ("device", "kind")}
    note = segments.attrs.get("note", "")
    return result_frame(columns, matched=segments.attrs["matched"], note=note)


#: A snapshot shows one instant and the events before it, so these panels ignore windows and ranks.
PANELS = (
    whole_job_panel("snapshot_peak", _peak_frame, snapshot_peak),
    whole_job_panel("snapshot_segments", _pools_frame, snapshot_segments),
)


def headline(traces: TraceSet) -> tuple[list[HeadlineFinding], list[list[Piece]], list[Piece]]:
    """Return failed allocations as findings, and sentences about peak and fragmentation."""
    findings = []
    for rank_memory in snapshot_memories(traces):
        failed = rank_memory.memory.failed
        if failed:
            requested_bytes, free_bytes = failed[-1]
            text = (
                f"{rank_memory.label} of rank {rank_memory.trace.rank} is out of memory: an"
                f" allocation of {size(requested_bytes)} failed"
            )
            text += f", with {size(free_bytes)} free." if free_bytes >= 0 else "."
            chosen = Selection(ranks=(rank_memory.trace.rank,))
            finding = HeadlineFinding("memory", 1.0, [text], "Select this rank", chosen)
            findings.append(finding)
    peak = _peak_frame(traces)
    if not len(peak):
        return findings, [], []
    has_history = _has_history(traces)
    sentences: list[list[Piece]] = [[_peak_text(peak, has_history=has_history)]]
    pools = _pools_frame(traces)
    free, total = int(pools["free_bytes"].sum()), int(pools["total_bytes"].sum())
    if total and free / total >= _MIN_FREE_SHARE:
        text = (
            f"At the end, {size(free)} of {size(total)} reserved are free, in blocks of up to"
            f" {size(int(pools['largest_free_bytes'].max()))}."
        )
        sentences.append([text])
    return findings, sentences, []


def _has_history(traces: TraceSet) -> bool:
    return any(rank_memory.memory.place for rank_memory in snapshot_memories(traces))


def _peak_text(peak: pd.DataFrame, *, has_history: bool) -> str:
    """Describe a result of `_peak_frame`; without a history, it is the state at the end."""
    row = peak.iloc[0]  # the peak is the same in all rows
    before = int(peak.loc[peak["use"] == BEFORE, "bytes"].sum()) if has_history else 0
    named = peak[~peak["use"].isin([BEFORE, NO_STACK, ""])]
    contents = []
    if before:
        contents.append(f"{size(before)} from before the recording")
    if len(named):
        largest = named.iloc[0]
        contents.append(f"{size(largest['bytes'])} of {largest['where']}")
    contents_text = f": {' and '.join(contents)}" if contents else ""
    used = f"{size(row['peak_bytes'])} in use, of {size(row['reserved_bytes'])} reserved"
    device = f"{row['device']} on rank {row['rank']}"
    if has_history:
        return f"Memory of {device} peaks at {used}{contents_text}."
    return f"At the end, {device} has {used}{contents_text}. Its peak is not known."


def _compare_peaks(diff: Comparison) -> pd.DataFrame:
    sides = [snapshot_peak(side.traces) for side in diff.sides]
    keys = ["rank", "device", "use", "where"]
    return join_sides(sides, keys, ["bytes", "blocks"], by="bytes")


TABLES = {"snapshot_peak": _compare_peaks}


def findings(diff: Comparison) -> Iterator[Finding]:
    """Yield the change of the peak, and the frame that changed most."""
    before, after = (
        float(max((device.memory.peak[0] for device in snapshot_memories(side.traces)), default=0))
        for side in diff.sides
    )
    rows = _compare_peaks(diff)
    name = str(rows["where"].iloc[0]) if len(rows) else ""
    yield Finding(
        "peak", name=name, measure="memory", before=before, after=after, weight=abs(after - before),
        details={"diff_bytes": float(rows["diff_bytes"].iloc[0]) if len(rows) else 0.0},
    )  # fmt: skip


def _peak_words(finding: Finding, _diff: Comparison) -> str:
    change = finding.details["diff_bytes"]
    most = f"; {finding.name} changed most, by {'+' * (change > 0)}{size(change)}" if change else ""
    return f"Peak memory in use: {size(finding.before)} before, {size(finding.after)} after{most}."


FINDING_WORDS = {"peak": _peak_words}

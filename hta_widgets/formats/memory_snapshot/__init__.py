"""Snapshots of a device's memory, by PyTorch's allocator."""

from hta_widgets.readers.formats import (
    FileReading,
    Format,
    FormatAnalyses,
    FormatComparison,
    FormatViews,
    references,
)

SNAPSHOTS = Format(
    name="memory-snapshot",
    label="memory snapshot",
    plural="snapshots of device memory",
    reading=FileReading(
        sniff=f"{__name__}.snapshots:is_snapshot",
        words=(b"segment", b"device_traces"),
        read=f"{__name__}.snapshots:read_snapshot",
        sources={"columns": "hta_widgets.formats.event_rows:ColumnRecords"},
        profile=f"{__name__}.snapshots:MemorySnapshot",
        yields_ranks=True,
        memory_factor=12.0,
        shortens_paths=True,
    ),
    analyses=FormatAnalyses(
        functions=references(
            f"{__name__}.usage", "snapshot_peak snapshot_segments snapshot_timeline"
        )
    ),
    views=FormatViews(
        panels=f"{__name__}.frames:PANELS",
        shared_panels=("timeline",),
        base_tables=f"{__name__}.frames:base_tables",
        headline=f"{__name__}.frames:headline",
        is_urgent=True,
    ),
    comparison=FormatComparison(
        tables=f"{__name__}.frames:TABLES",
        findings=f"{__name__}.frames:findings",
        finding_words=f"{__name__}.frames:FINDING_WORDS",
        host_only=True,
    ),
)

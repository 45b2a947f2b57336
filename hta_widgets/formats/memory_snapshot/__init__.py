"""Device memory snapshots by PyTorch's allocator."""

from hta_widgets.formats.device_formats import dump_format
from hta_widgets.readers.formats import FormatComparison, references

SNAPSHOTS = dump_format(
    __name__, "memory-snapshot", "memory snapshot", "device memory snapshots",
    sniff=f"{__name__}.snapshots:is_snapshot", read="snapshots:read_snapshot",
    profile="snapshots:MemorySnapshot", words=(b"segment", b"device_traces"), memory_factor=12.0,
    functions=references(f"{__name__}.usage", "snapshot_peak snapshot_segments snapshot_timeline"),
    comparison=FormatComparison(
        tables=f"{__name__}.frames:TABLES", findings=f"{__name__}.frames:findings",
        finding_words=f"{__name__}.frames:FINDING_WORDS", host_only=True,
    ),
)  # fmt: skip

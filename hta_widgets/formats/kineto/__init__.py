"""Chrome trace-event JSON as written by PyTorch."""

from pathlib import Path

from hta_widgets.readers.formats import FileReading, FileStart, Format


def is_json(start: FileStart) -> bool:
    """Return whether a file is JSON in UTF-8."""
    return start.is_json


def copies_of(path: str) -> list[tuple[Path, bool]]:
    """Return the Perfetto copies that JAX writes next to a file, with the same events."""
    if not path.endswith((".trace.json", ".trace.json.gz")):
        return []
    return [(Path(path).with_name(f"perfetto_trace.json{end}"), True) for end in ("", ".gz")]


KINETO = Format(
    name="kineto",
    label="Kineto",
    plural="Kineto traces",
    reading=FileReading(
        sniff=f"{__name__}:is_json",
        read=f"{__name__}.reader:read_kineto",
        peek_rank=f"{__name__}.reader:peek_rank",
        companions=f"{__name__}:copies_of",
        shortens_paths_of=f"{__name__}.other_tools:has_other_profiler",
        sources={
            "file": f"{__name__}.record_source:FileRecords",
            "merged": f"{__name__}.merged:MergedRecords",
        },
    ),
)

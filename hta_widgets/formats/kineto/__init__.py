"""Chrome trace-event JSON as PyTorch writes it."""

from pathlib import Path

from hta_widgets.readers.formats import FileReading, FileStart, Format


def is_json(start: FileStart) -> bool:
    """Whether a file is JSON in UTF-8."""
    return start.is_json


def companions_of(path: str) -> list[tuple[Path, bool]]:
    """Return the copies that JAX writes for Perfetto next to the file of a host."""
    if not path.endswith((".trace.json.gz", ".trace.json")):
        return []
    names = ("perfetto_trace.json", "perfetto_trace.json.gz")
    return [(Path(path).parent / name, True) for name in names]


KINETO = Format(
    name="kineto",
    label="Kineto",
    plural="Kineto traces",
    reading=FileReading(
        sniff=f"{__name__}:is_json",
        read=f"{__name__}.reader:read_kineto",
        peek_rank=f"{__name__}.reader:peek_rank",
        companions=f"{__name__}:companions_of",
        shortens_paths_of=f"{__name__}.other_tools:has_other_profiler",
        sources={
            "file": f"{__name__}.record_source:FileRecords",
            "merged": f"{__name__}.merged:MergedRecords",
        },
    ),
)

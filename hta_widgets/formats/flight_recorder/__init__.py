"""Dumps of PyTorch's flight recorder."""

from hta_widgets.readers.formats import FileReading, Format, FormatAnalyses, FormatViews, references

DUMPS = Format(
    name="flight-recorder",
    label="flight recorder",
    plural="dumps of the flight recorder",
    reading=FileReading(
        sniff=f"{__name__}.dumps:is_dump",
        words=(b"entries", b"pg_config", b"pg_status", b"profiling_name"),
        read=f"{__name__}.dumps:read_dump",
        sources={"columns": "hta_widgets.formats.event_rows:ColumnRecords"},
        profile=f"{__name__}.dumps:FlightDump",
        yields_ranks=True,
        memory_factor=4.0,
        shortens_paths=True,
    ),
    analyses=FormatAnalyses(
        functions=references(f"{__name__}.states", "collective_hangs collective_states")
    ),
    views=FormatViews(
        panels=f"{__name__}.frames:PANELS",
        shared_panels=("timeline",),
        base_tables=f"{__name__}.frames:base_tables",
        headline=f"{__name__}.frames:headline",
        is_urgent=True,
    ),
)

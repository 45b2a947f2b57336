"""Profiles and time lines of mpitrace."""

from dataclasses import replace

from hta_widgets.readers.formats import (
    FileReading,
    Format,
    FormatAnalyses,
    FormatComparison,
    FormatViews,
    references,
)

_VIEWS = FormatViews(
    panels=f"{__name__}.frames:PANELS",
    base_tables=f"{__name__}.frames:base_tables",
    headline=f"{__name__}.frames:headline",
)
_COMPARISON = FormatComparison(
    replaces=("steps", "operators"),
    findings=f"{__name__}.diff:findings",
    finding_words=f"{__name__}.diff:FINDING_WORDS",
    kind_words=f"{__name__}.diff:KIND_WORDS",
    kind_labels=f"{__name__}.diff:KIND_LABELS",
    host_only=True,
)

PROFILES = Format(
    name="mpi-profile",
    label="MPI profile",
    plural="MPI profiles",
    reading=FileReading(
        sniff=f"{__name__}.profiles:is_profile",
        words=(b"Data for MPI rank ",),
        read=f"{__name__}.profiles:read_profiles",
        finish=f"{__name__}.profiles:finish",
        profile=f"{__name__}.model:MpiProfile",
    ),
    analyses=FormatAnalyses(
        functions=(
            *references(f"{__name__}.ranks", "mpi_hosts mpi_imbalance mpi_ranks"),
            *references(
                f"{__name__}.routines",
                "mpi_call_stacks mpi_compare mpi_message_sizes mpi_negotiation mpi_routines",
            ),
        ),
        late_ranks=f"{__name__}.ranks:late_ranks",
    ),
    views=replace(
        _VIEWS,
        charts=references(
            f"{__name__}.views", "mpi_compare mpi_message_sizes mpi_ranks mpi_routines"
        ),
        shared_panels=(),
    ),
    comparison=replace(
        _COMPARISON,
        tables=f"{__name__}.diff:PROFILE_TABLES",
        compared_with=("mpi-trace",),
        beside="mpi-trace",
    ),
)

TIME_LINES = Format(
    name="mpi-trace",
    label="MPI trace",
    plural="MPI time lines",
    reading=FileReading(
        sniff=f"{__name__}.timelines:is_time_line",
        words=(b"\0",),
        read=f"{__name__}.timelines:read_time_lines",
        sources={"time line": f"{__name__}.timelines:TimeLineRecords"},
        profile=f"{__name__}.model:MpiProfile",
    ),
    analyses=FormatAnalyses(
        collectives=f"{__name__}.timelines:mpi_calls",
        late_ranks=f"{__name__}.ranks:late_ranks",
    ),
    views=replace(_VIEWS, shared_panels=("timeline", "heatmap")),
    comparison=replace(
        _COMPARISON,
        tables=f"{__name__}.diff:TIME_LINE_TABLES",
        compared_with=("mpi-profile",),
    ),
)

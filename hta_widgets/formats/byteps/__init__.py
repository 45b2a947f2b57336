"""Traces of BytePS workers and profiles of BytePS servers."""

import re
from dataclasses import replace

from hta_widgets.readers.formats import (
    FileReading,
    Format,
    FormatAnalyses,
    FormatComparison,
    FormatViews,
    references,
)

#: Names of machine folders, into which workers and servers write.
MACHINE = re.compile(r"(?i)(worker|host|node|machine|server)s?[-_. ]?\d+")

_KINETO = "hta_widgets.formats.kineto"
_VIEWS = FormatViews(
    panels=f"{__name__}.frames:PANELS",
    shared_panels=("timeline",),
    base_tables=f"{__name__}.frames:base_tables",
    headline=f"{__name__}.frames:headline",
)
_COMPARISON = FormatComparison(
    replaces=("changes", "names", "operators"),
    findings=f"{__name__}.diff:findings",
    finding_words=f"{__name__}.diff:FINDING_WORDS",
    kind_words=f"{__name__}.diff:KIND_WORDS",
    kind_labels=f"{__name__}.diff:KIND_LABELS",
)

WORKERS = Format(
    name="byteps",
    label="BytePS",
    plural="BytePS workers' traces",
    reading=FileReading(
        sniff=f"{_KINETO}.reader:is_worker_json",
        words=(b'"Comm.',),
        read=f"{_KINETO}.reader:read_byteps",
        finish=f"{__name__}.reader:place_workers",
        keyed_by_order=True,
    ),
    analyses=FormatAnalyses(
        functions=references(
            f"{__name__}.workers",
            "byteps_bandwidth byteps_gradient_stages byteps_gradients byteps_pull_blame"
            " byteps_pulls byteps_stages byteps_steps",
        ),
        clock_offsets=f"{__name__}.servers:byteps_offsets",
    ),
    views=replace(
        _VIEWS,
        charts=references(
            f"{__name__}.views", "byteps_gradients byteps_pull_blame byteps_stages byteps_clock"
        ),
    ),
    comparison=replace(
        _COMPARISON,
        tables=f"{__name__}.diff:WORKER_TABLES",
        steps=f"{__name__}.diff:iterations",
        chain=f"{__name__}.diff:byteps_chain",
    ),
)

SERVERS = Format(
    name="byteps-server",
    label="BytePS server",
    plural="BytePS servers' profiles",
    reading=FileReading(
        sniff=f"{_KINETO}.reader:is_server_json",
        words=(b'"push-', b'"pull-'),
        read=f"{_KINETO}.reader:read_byteps",
        finish=f"{__name__}.reader:place_servers",
        keyed_by_order=True,
    ),
    analyses=FormatAnalyses(
        functions=references(
            f"{__name__}.servers",
            "byteps_arrivals byteps_clock byteps_requests byteps_servers byteps_worker_lag",
        ),
        clock_offsets=f"{__name__}.servers:byteps_offsets",
    ),
    views=replace(_VIEWS, charts=references(f"{__name__}.views", "byteps_arrivals byteps_servers")),
    comparison=replace(_COMPARISON, tables=f"{__name__}.diff:SERVER_TABLES", beside="byteps"),
)

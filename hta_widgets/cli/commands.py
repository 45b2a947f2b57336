"""The commands ``summary``, ``export``, ``report`` and ``demo``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from hta_widgets.analysis.cross_rank.clock_fit import drift_error_ns
from hta_widgets.answers.job import Job, load_events
from hta_widgets.answers.summary import efficiency_lines, summarize_job, summary_lines
from hta_widgets.cli import print_page, say
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.exact_jobs import ExactJob, write_exact_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.errors import TraceError
from hta_widgets.export import ExportReport
from hta_widgets.export.traces.files import ExportClock, export_trace, require_fitted_clock
from hta_widgets.export.traces.perfetto import export_perfetto
from hta_widgets.export.workbook import save_workbook
from hta_widgets.panels.headline import headline
from hta_widgets.text import duration, plural, size
from hta_widgets.trace.traceset import TraceSet


def summary(options: argparse.Namespace) -> None:
    """Print the main findings of a job, a line for each rank, stragglers and problems."""
    job = Job.open(options.paths, options.ranks)
    reply = summarize_job(job, efficiency=options.efficiency)
    if options.json:
        print(reply.format("json"))
        return
    clock = " · on the fitted clock" if job.traces.clock == "fitted" else ""
    say(repr(job.traces).strip("<>") + clock, *summary_lines(reply.more))
    if options.efficiency:
        say("", *efficiency_lines(reply.more["efficiency"]))


def export(options: argparse.Namespace) -> None:
    """Write part of a job as a new trace."""
    traces = load_events(options.paths, options.ranks)
    if options.fitted_clock:
        require_fitted_clock(traces)
        traces = traces.with_clock("fitted")
    selection = traces.select(options.query, start_ns=options.start, end_ns=options.end)
    parameters: dict[str, Any] = {
        "clip": options.clip,
        "keep_parents": not options.no_parents,
        "counters": options.counters,
        "scrub": options.scrub,
    }
    if options.perfetto:
        if options.fitted_clock:
            raise TraceError(
                "--perfetto writes offsets of the fitted clock, and leaves the times as they are",
                remedy="Omit --fitted-clock.",
            )
        report = export_perfetto(traces, options.out, selection, **parameters)
    else:
        clock: ExportClock = "set" if options.fitted_clock else "recorded"
        report = export_trace(traces, options.out, selection, clock=clock, **parameters)
    _print_export(report, traces)


def _print_export(report: ExportReport, traces: TraceSet) -> None:
    events, flows = plural(report.events, "event"), plural(report.flows, "flow")
    ranks, clock = plural(len(report.ranks), "rank"), ""
    if report.clock == "fitted":
        clock = ", on the fitted clock"
        if drift_ns := drift_error_ns(traces):
            clock += f" (clocks drift: ranks differ by up to {duration(drift_ns)})"
    say(f"{report.path}: {events} and {flows} of {ranks}, {size(report.bytes)}{clock}")
    if report.left_out:
        left_out = report.left_out.items()
        parts = [plural(number, nouns.removesuffix("s")) for nouns, number in left_out]
        say(f"left out: {', '.join(parts)}")


def report(options: argparse.Namespace) -> None:
    """Write a dashboard as a single HTML page."""
    # Widgets are slow to import, and other commands do not need them.
    from hta_widgets.widgets.dashboard import Dashboard
    from hta_widgets.widgets.timeline import Timeline

    viewer = Timeline if options.timeline_only else Dashboard
    traces = load_events(options.paths, options.ranks)
    path = viewer(traces).save_html(options.out, max_mb=options.max_mb)
    if text := str(headline(traces)):
        say(text)
    if options.xlsx:
        sheets = save_workbook(traces, options.xlsx)
        say(f"{options.xlsx}: {plural(len(sheets), 'table')}")
    print_page(path, options)


def demo(options: argparse.Namespace) -> None:
    """Write a made-up job; raise a `TraceError` if the folder still has files of an earlier job."""
    folder = Path(options.directory)
    times_before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json*")}
    _write_job(options)
    remaining = [
        path for path, time_ns in times_before.items() if path.stat().st_mtime_ns == time_ns
    ]
    if remaining:
        raise TraceError(
            f"older files remain in it ({len(remaining)}), such as {remaining[0].name}, and would "
            "be loaded with the job",
            path=folder,
            remedy="Remove the folder, and write the job again.",
        )


def _write_job(options: argparse.Namespace) -> None:
    has_kind = options.kind != "training"
    if options.format != "kineto" and (has_kind or options.changes):
        missing = f"--kind {options.kind}" if has_kind else "--changes"
        raise TraceError(
            f"a job of the format {options.format} has no {missing}", remedy="Omit --format."
        )
    if options.kind in get_args(ExactJob):
        truth = write_exact_job(options.directory, options.kind)
        sizes = [plural(truth["ranks"], "rank"), plural(truth["steps"], "step")]
    elif options.format == "byteps":
        truth, sizes = _write_byteps(options)
    elif options.format == "mpi":
        truth, sizes = _write_mpi(options)
    else:
        truth, sizes = _write_training(options)
    say(f"{options.directory}: {', '.join(sizes)}")
    for change in truth.get("changes", ()):
        say(f"{change['injected']}: {change['name']} is {change['change']}")
    say(f"{truth['truth_path']}: ground truth of the job")


#: The ground truth of a job, and the sizes of its parts as text.
_WrittenJob = tuple[dict[str, Any], list[str]]


def _write_byteps(options: argparse.Namespace) -> _WrittenJob:
    truth = write_byteps_job(
        options.directory,
        steps=options.steps,
        seed=options.seed,
        slow_worker=None if options.healthy else 1,
    )
    workers = f"{plural(truth['workers'], 'worker')} of {plural(truth['local_ranks'], 'GPU')}"
    steps = plural(truth["steps"], "step")
    slow = _slow_text("worker", truth["slow_worker"])
    return truth, [workers, plural(truth["servers"], "server"), steps, slow]


def _write_mpi(options: argparse.Namespace) -> _WrittenJob:
    truth = write_mpi_job(
        options.directory,
        ranks=options.ranks,
        steps=options.steps,
        slow_rank=None if options.healthy else options.straggler,
        factor=options.factor,
        hosts=min(2, max(options.ranks, 1)),
        seed=options.seed,
    )
    return truth, _sizes_of_ranks(truth["ranks"], truth, truth["slow_rank"])


def _write_training(options: argparse.Namespace) -> _WrittenJob:
    truth = write_demo(
        options.directory,
        ranks=options.ranks,
        steps=options.steps,
        seed=options.seed,
        kind=options.kind,
        straggler=None if options.healthy else options.straggler,
        factor=options.factor,
        missing=options.missing,
        uneven_us=options.uneven / 1000,
        changes=options.changes,
        modules=options.modules,
        checkpoint=options.checkpoint,
        format="json" if options.plain else "json.gz",
    )
    return truth, _sizes_of_ranks(len(truth["files"]), truth, truth["straggler"])


def _sizes_of_ranks(ranks: int, truth: Mapping[str, Any], slow: int | None) -> list[str]:
    steps, events = plural(truth["steps"], "step"), plural(int(np.sum(truth["events"])), "event")
    return [plural(ranks, "rank"), steps, events, _slow_text("rank", slow)]


def _slow_text(role: str, slow: int | None) -> str:
    return f"no {role} is slow" if slow is None else f"{role} {slow} is slow"

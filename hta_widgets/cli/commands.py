"""Run the commands, and print their results."""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from pathlib import Path

import numpy as np

from hta_widgets.answers import server
from hta_widgets.answers.comparison import (
    BASELINE,
    baseline_names,
    comment_lines,
    compare_jobs,
    open_run,
    remove_baseline,
    save_baseline,
)
from hta_widgets.answers.reply import TableReply
from hta_widgets.answers.summary import efficiency_lines, summarize_job, summary_lines
from hta_widgets.answers.tables import (
    Job,
    describe_event,
    list_tables,
    load_events,
    parse_option,
    run_table,
)
from hta_widgets.answers.verdict import parse_limit
from hta_widgets.cli import say
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_trace, require_fitted_clock
from hta_widgets.files import expand_home
from hta_widgets.panels.headline import headline


def summary(options: argparse.Namespace) -> None:
    """Print the main findings of a job, one line per rank, stragglers and problems."""
    job = Job.open(options.paths, options.ranks)
    reply = summarize_job(job, efficiency=options.efficiency)
    if options.json:
        print(reply.format("json"))
        return
    clock = " · on the fitted clock" if job.traces.clock == "fitted" else ""
    say(repr(job.traces).strip("<>") + clock, *summary_lines(reply.more))
    if options.efficiency:
        say("", *efficiency_lines(reply.more["efficiency"]))


def tables(options: argparse.Namespace) -> None:
    """Print the tables that a job has data for."""
    _print_reply(list_tables(Job.open(options.paths)), options)


def table(options: argparse.Namespace) -> None:
    """Print one table of a job."""
    reply = run_table(
        Job.open([options.job]),
        options.name,
        window=options.window,
        ranks=options.ranks,
        query=options.query,
        sort=options.sort,
        descending=options.descending,
        limit=options.limit,
        options=dict(map(parse_option, options.option)),
    )
    _print_reply(reply, options)


def event(options: argparse.Namespace) -> None:
    """Print one event with its args, callers and launches."""
    reply = describe_event(Job.open([options.job]), options.rank, options.id)
    _print_reply(reply, options)
    if options.form == "text":
        details = {key: value for key, value in reply.more.items() if value}
        say("", *(f"{key}: {json.dumps(value)}" for key, value in details.items()))


def _print_reply(reply: TableReply, options: argparse.Namespace) -> None:
    print(reply.format(options.form))
    if options.form == "csv" and (remark := reply.remark()):
        say(remark, file=sys.stderr)


def export(options: argparse.Namespace) -> None:
    """Write a part of a job as a new trace."""
    traces = load_events(options.paths, options.ranks)
    if options.fitted_clock:
        require_fitted_clock(traces)
        traces = traces.with_clock("fitted")
    report = export_trace(
        traces,
        options.out,
        traces.select(options.query, start_ns=options.start, end_ns=options.end),
        clip=options.clip,
        keep_parents=not options.no_parents,
        counters=options.counters,
        scrub=options.scrub,
        clock="set" if options.fitted_clock else "recorded",
    )
    say(
        f"{report.path}: {_count_text(report.events, 'event')} and "
        f"{_count_text(report.flows, 'flow')} of "
        f"{_count_text(len(report.ranks), 'rank')}, {report.bytes / 1e6:,.1f} MB"
        + (", on the fitted clock" if report.clock == "fitted" else "")
    )
    if report.left_out:
        parts = [
            _count_text(count, what.removesuffix("s")) for what, count in report.left_out.items()
        ]
        say(f"left out: {', '.join(parts)}")


def report(options: argparse.Namespace) -> None:
    """Write a dashboard as one page."""
    # Importing widgets takes a while, and the other commands need none.
    from hta_widgets.widgets.dashboard import Dashboard  # noqa: PLC0415
    from hta_widgets.widgets.timeline import Timeline  # noqa: PLC0415

    viewer = Timeline if options.timeline_only else Dashboard
    traces = load_events(options.paths, options.ranks)
    path = viewer(traces).save_html(options.out, max_mb=options.max_mb)
    if text := str(headline(traces)):
        say(text)
    _print_page(path, options)


def diff(options: argparse.Namespace) -> int:
    """Compare two runs: write a page, print what changed, and judge it if a limit is given."""
    limit = None if options.fail_above is None else parse_limit(options.fail_above)
    has_page = options.out is not None or (options.form == "text" and limit is None)
    before, after = open_run(options.before), open_run(options.after)
    reply = compare_jobs(
        before,
        after,
        ranks=options.ranks,
        after_ranks=options.after_ranks,
        limit_share=limit,
        metric=options.metric,
    )
    verdict = reply.more.get("verdict")
    if options.form == "text":
        say(*([verdict["text"]] if verdict else []), *reply.frame["text"])
        if reply.note:
            say(f"{reply.note[0].upper()}{reply.note[1:].rstrip('.')}.")
    else:
        print(
            "\n".join(comment_lines(reply))
            if options.form == "markdown"
            else reply.format(options.form)
        )
    if has_page:
        _write_comparison(before, after, options)
    return verdict["exit_code"] if verdict else 0


def _write_comparison(before: Job, after: Job, options: argparse.Namespace) -> None:
    from hta_widgets.widgets.trace_diff import TraceDiff  # noqa: PLC0415 - see above

    ranks = options.ranks, options.after_ranks or options.ranks
    sides = [
        job.traces.select(ranks=part) for job, part in zip((before, after), ranks, strict=True)
    ]
    path = TraceDiff(*sides).save_html(options.out or "diff.html", max_mb=options.max_mb)
    if options.form == "text":
        _print_page(path, options)


def baseline(options: argparse.Namespace) -> None:
    """Save, remove or list baselines."""
    if options.action == "list":
        say(*baseline_names())
        return
    if options.name is None or (options.action == "save") != bool(options.paths):
        raise TraceError(
            f"`baseline {options.action}` got the wrong arguments",
            remedy="Write `baseline save NAME JOB`, `baseline remove NAME` or `baseline list`.",
        )
    if options.action == "remove":
        remove_baseline(options.name)
    else:
        say(f"{BASELINE}{options.name}: {save_baseline(options.name, options.paths)}")


def mcp(options: argparse.Namespace) -> None:
    """Serve tools for language models."""
    roots = [expand_home(root) for root in options.roots]
    for root in roots:
        if not root.is_dir():
            raise TraceError("is not a folder", path=root, remedy="Give a folder of traces.")
    server.serve(roots)


def skill(options: argparse.Namespace) -> None:
    """Print or install the instructions for language models."""
    if options.folder is None:
        print(server.skill_text(), end="")
    else:
        say(server.install_skill(str(expand_home(options.folder))))


def _print_page(path: str, options: argparse.Namespace) -> None:
    """Print a page's address, and open it on request."""
    file = Path(path).resolve()
    say(f"{file.as_uri()} ({file.stat().st_size / 1e6:,.1f} MB)")
    if options.open and not webbrowser.open(file.as_uri()):
        say("no browser was found here; open the address above in one")


def demo(options: argparse.Namespace) -> None:
    """Write a made-up job."""
    if options.changes and options.format != "kineto":
        raise TraceError(
            f"a job of the format {options.format} has no --changes", remedy="Leave --format away."
        )
    common = {"steps": options.steps, "seed": options.seed}
    slow = None if options.healthy else options.straggler
    role = "rank"
    if options.format == "byteps":
        role, slow = "worker", None if options.healthy else 1
        truth = write_byteps_job(options.directory, slow_worker=slow, **common)
        workers, gpus = (
            _count_text(truth["workers"], role),
            _count_text(truth["local_ranks"], "GPU"),
        )
        sizes = [f"{workers} of {gpus}", _count_text(truth["servers"], "server")]
    elif options.format == "mpi":
        truth = write_mpi_job(
            options.directory,
            ranks=options.ranks,
            slow_rank=slow,
            factor=options.factor,
            hosts=min(2, max(options.ranks, 1)),
            **common,
        )
        slow, sizes = truth["slow_rank"], [_count_text(truth["ranks"], role)]
    else:
        truth = write_demo(
            options.directory,
            ranks=options.ranks,
            straggler=slow,
            factor=options.factor,
            missing=options.missing,
            uneven_us=options.uneven / 1000,
            changes=options.changes,
            format="json" if options.plain else "json.gz",
            **common,
        )
        slow, sizes = truth["straggler"], [_count_text(len(truth["files"]), role)]
    sizes.append(_count_text(truth["steps"], "step"))
    if "events" in truth:
        sizes.append(_count_text(int(np.sum(truth["events"])), "event"))
    sizes.append(f"no {role} is slow" if slow is None else f"{role} {slow} is slow")
    say(f"{options.directory}: {', '.join(sizes)}")
    for change in truth.get("changes", ()):
        say(f"{change['injected']}: {change['name']} is {change['change']}")
    say(f"{truth['truth_path']}: ground truth of the job")


def _count_text(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"

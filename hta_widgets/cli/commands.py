"""Run the commands, and print their results."""

from __future__ import annotations

import argparse
import json
import webbrowser
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.analysis.cross_rank.stragglers import straggler_report
from hta_widgets.cli import say
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.diff.efficiency import efficiency_diff
from hta_widgets.diff.findings import cautions
from hta_widgets.diff.tables import iter_rows
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_trace, require_fitted_clock
from hta_widgets.export.workbook import save_workbook
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import offered_panels
from hta_widgets.panels.headline import headline, text_of
from hta_widgets.panels.savings import job_efficiency, short_shapes
from hta_widgets.readers.load import load
from hta_widgets.text import UNKNOWN, count, duration, escape_controls, plural, share
from hta_widgets.trace.traceset import TraceSet

_MAX_PROBLEMS = 12
_MAX_DIFFERENCES = 5  # of operators and shapes
_MIN_DIFFERENCE = 0.01  # of the time before
#: Titles of columns of the rank table that are shown if any rank has a value.
_TITLES = {
    "comm_s": "in MPI",
    "elapsed_s": "elapsed",
    "compute_ns": "compute",
    "exposed_communication_ns": "exposed communication",
    "exposed_wait_ns": "waiting",
    "unrecorded_ns": "unrecorded work",
    "idle_ns": "idle",
}
#: Columns of `TraceSet.summary`, of the dashboard's breakdown, and of `analysis.stragglers`.
_FILE = (
    *("rank", "host", "format", "file", "events", "asyncs"),
    *("start_ns", "end_ns", "comm_s", "elapsed_s"),
)
_SPENT = (
    *("span_ns", "compute_ns", "exposed_communication_ns", "exposed_wait_ns", "unrecorded_ns"),
    "idle_ns",
)
#: Counts of collectives whose events are on all of their ranks, and on some of them.
_MATCHED = ("matched", "partly_matched")
_LATE = ("collectives", "score", "imposed_wait_ns", "lost_share")


def job_summary(traces: TraceSet) -> dict[str, Any]:
    """Return a job's contents and main findings as JSON values."""
    main, late = headline(traces), straggler_report(traces)
    stragglers = analysis.stragglers(traces)
    ranks = traces.summary()[list(_FILE)].to_dict("records")
    start_ns, end_ns = traces.span_ns
    for rank in ranks:  # profiles have no events
        rank |= {name: None for name in ("start_ns", "end_ns") if rank[name] < 0}
    parts: list[tuple[pd.DataFrame, tuple[str, ...]]] = [
        (stragglers[stragglers["collectives"] > 0], _LATE)
    ]
    if "breakdown" in offered_panels(traces.formats):
        parts.insert(0, (PanelEngine(traces).frame("breakdown"), _SPENT))
    for frame, names in parts:
        row_of_rank = frame.set_index("rank").to_dict("index")
        for rank in ranks:
            row = row_of_rank.get(rank["rank"], {})
            rank.update({name: row[name] for name in names if name in row})
    has_unrecorded = any(rank.get("unrecorded_ns") for rank in ranks)
    for rank in ranks:
        if "idle_ns" in rank:
            rank["idle_ns"] -= rank["unrecorded_ns"]
        if not has_unrecorded:
            rank.pop("unrecorded_ns", None)
    # The note is about events; profiles have none, and are judged by their sums.
    has_waits = bool((stragglers["collectives"] > 0).any())
    note = str(stragglers.attrs.get("note", "")) if has_waits or not late.stragglers else ""
    return {
        "format": traces.format,
        "clock": traces.clock,
        "events": sum(len(trace) for trace in traces.values()),
        "start_ns": int(start_ns),
        "end_ns": int(end_ns),
        "collectives": sum(stragglers.attrs["matched"][name] for name in _MATCHED),
        "headline": [text_of(parts) for parts in (main.text_parts, *main.sentences) if parts],
        "ranks": [_json_row(rank) for rank in ranks],
        "stragglers": [
            {"rank": rank, "cause": late.causes.get(rank, "")} for rank in late.stragglers
        ],
        "note": note,
        "problems": [_json_row(problem) for problem in traces.problems.to_dict("records")],
    }


def summary_lines(summary_data: Mapping[str, Any]) -> Iterator[str]:
    """Format a `job_summary` as lines: headline, ranks, stragglers, problems."""
    ranks = {rank["rank"]: rank for rank in summary_data["ranks"]}
    if summary_data["headline"]:
        yield ""
        yield from summary_data["headline"]
    yield ""
    yield from _table(list(_rank_rows(summary_data["ranks"])))
    if any("score" in rank for rank in ranks.values()):
        yield _last_at_note(summary_data)
    late = [
        _straggler_line(ranks[straggler["rank"]], straggler["cause"])
        for straggler in summary_data["stragglers"]
    ]
    if not late and any("score" in rank for rank in ranks.values()):
        late = ["no straggler is named"]
    if late:
        yield ""
        yield from late
        if summary_data["note"]:
            yield f"({summary_data['note']})"
    yield from _problem_lines(summary_data["problems"])


def _efficiency_lines(efficiency: Mapping[str, Any]) -> Iterator[str]:
    """Format a `job_efficiency`: MFU, and the operators far below the roofline."""
    if efficiency["mfu"] is not None:
        low = "at least " * efficiency["at_least"]
        part = share(efficiency["known_share"])
        peaks = f"{efficiency['device']}, {efficiency['source']}"
        yield f"MFU {low}{share(efficiency['mfu'])} of {peaks}; FLOPs known for {part} of the time"
    for operator in efficiency["operators"]:
        yield (
            f"{operator['name']} {operator['shapes']}: {duration(operator['device_ns'])} at "
            f"{share(operator['roofline_share'])} of the roofline"
        )
    if efficiency["note"]:
        yield efficiency["note"]


def _json_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row as JSON values, with None for unknown ones."""
    return {
        str(name): None if pd.isna(value) else value.item() if hasattr(value, "item") else value
        for name, value in row.items()
    }


def _rank_rows(ranks: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    columns = [name for name in _TITLES if any(rank.get(name) is not None for rank in ranks)]
    timed = ["events", "start", "duration"] if any(_is_timed(rank) for rank in ranks) else []
    last = ["last at"] if any("score" in rank for rank in ranks) else []
    titles = [_TITLES[name] for name in columns]
    yield ["rank", *timed, *titles, *last, "file"]
    for rank in ranks:
        times = [UNKNOWN] * len(timed)
        if _is_timed(rank):
            start_ns, end_ns = rank["start_ns"], rank["end_ns"]
            spans = [f"{time / 1e6:,.3f} ms" for time in (start_ns, end_ns - start_ns)]
            asyncs = f"{rank['asyncs']:,} async"
            times = [f"{rank['events']:,}" if rank["events"] or not rank["asyncs"] else asyncs]
            times += spans
        yield [
            str(rank["rank"]),
            *times,
            *(duration(_in_ns(rank, name)) for name in columns),
            *[_last_at_text(rank, "/") for _ in last],
            rank["file"],
        ]
    if "compute_ns" in columns and len(ranks) > 1:
        yield ["mean", *[""] * len(timed), *_mean_row(ranks, columns), *["" for _ in last], ""]


def _is_timed(rank: Mapping[str, Any]) -> bool:
    return rank["start_ns"] is not None


def _mean_row(ranks: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return the texts of the means of columns, with which the headline agrees."""
    times = [[_in_ns(rank, name) for rank in ranks] for name in columns]
    known = [[time for time in column if time is not None] for column in times]
    return [duration(sum(column) / len(column)) if column else UNKNOWN for column in known]


def _last_at_note(summary_data: Mapping[str, Any]) -> str:
    """State the sum of the column "last at", and why it may differ from the collectives."""
    collectives = summary_data["collectives"]
    last = sum(_last_count(rank) for rank in summary_data["ranks"] if "score" in rank)
    ties = collectives - last
    together = f"; at {count(ties)} several ranks arrive together" if ties > 0 else ""
    return (
        "last at: collectives of a rank's process groups at which it alone arrives last;"
        f" adds up to {count(last)} of the job's {plural(collectives, 'collective')}{together}"
    )


def _last_count(rank: Mapping[str, Any]) -> int:
    last: int = round(rank["score"] * rank["collectives"])
    return last


def _in_ns(rank: Mapping[str, Any], name: str) -> float | None:
    value = rank.get(name)
    return value * 1e9 if value is not None and name.endswith("_s") else value


def _last_at_text(rank: Mapping[str, Any], of: str) -> str:
    """Format the number of collectives at which a rank is last, and the number of all."""
    if "score" not in rank:
        return UNKNOWN
    return f"{count(_last_count(rank))}{of}{count(rank['collectives'])}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *numbers, last in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths, strict=False)]
        yield "  ".join([*cells, last]).rstrip()


def _straggler_line(rank: Mapping[str, Any], cause: str) -> str:
    who = f"rank {rank['rank']} is a straggler"
    if "score" not in rank:
        return f"{who}: it spends least time in MPI"
    return (
        f"{who}{f' ({cause})' if cause else ''}: last at {_last_at_text(rank, ' of ')}"
        " collectives of its groups"
    )


def _problem_lines(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for problem in problems:
        groups[str(problem["kind"]), str(problem["detail"])].append(problem)
    if groups:
        yield from ("", "problems")
    for (kind, detail), same in list(groups.items())[:_MAX_PROBLEMS]:
        files = {problem["file"] or "" for problem in same}
        where = f"{len(files)} files" if len(files) > 1 else min(files)
        number = sum(problem["count"] for problem in same)
        yield f"  {kind}: {number:,} × {detail}" + (f" ({where})" if where else "")
    if len(groups) > _MAX_PROBLEMS:
        yield f"  and {len(groups) - _MAX_PROBLEMS} more: hw.load(…).problems lists them"


def _load(paths: Sequence[str], ranks: Sequence[int] | None = None) -> TraceSet:
    traces = load(paths[0] if len(paths) == 1 else paths, ranks=ranks)
    empty = {problem.file for problem in traces.problem_list if problem.kind == "empty"}
    if all(trace.path in empty for trace in traces.values()):
        raise TraceError(
            "holds no trace events", path=paths[0], remedy="Was anything recorded while it was on?"
        )
    return traces


def summary(options: argparse.Namespace) -> None:
    """Print the main findings of a job, one line per rank, stragglers and problems."""
    traces = _load(options.paths, options.ranks)
    if clock_fit(traces).is_needed:  # as in views
        traces = traces.with_clock("fitted")
    summary = job_summary(traces)
    if options.efficiency:
        efficiency = job_efficiency(traces)
        operators = list(map(_json_row, efficiency.pop("operators")))
        summary["efficiency"] = _json_row(efficiency) | {"operators": operators}
    if options.json:
        lines = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False).split("\n")
        print(*map(escape_controls, lines), sep="\n")
    else:
        clock = " · on the fitted clock" if traces.clock == "fitted" else ""
        say(repr(traces).strip("<>") + clock, *summary_lines(summary))
        if options.efficiency:
            say("", *_efficiency_lines(summary["efficiency"]))


def export(options: argparse.Namespace) -> None:
    """Write a part of a job as a new trace."""
    traces = _load(options.paths, options.ranks)
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
    traces = _load(options.paths, options.ranks)
    path = viewer(traces).save_html(options.out, max_mb=options.max_mb)
    if text := str(headline(traces)):
        say(text)
    if options.xlsx:
        sheets = save_workbook(traces, options.xlsx)
        say(f"{options.xlsx}: {_count_text(len(sheets), 'table')}")
    _print_page(path, options)


def diff(options: argparse.Namespace) -> None:
    """Write two runs side by side as one page, and print what changed."""
    from hta_widgets.widgets.trace_diff import TraceDiff  # noqa: PLC0415 - see above

    before, after = _load([options.before]), _load([options.after])
    ranks = options.ranks, options.after_ranks or options.ranks
    view = TraceDiff(before.select(ranks=ranks[0]), after.select(ranks=ranks[1]))
    path = view.save_html(options.out, max_mb=options.max_mb)
    findings = view.findings
    if not findings:
        say("Nothing changed beyond the noise.")
    say(*(finding.text for finding in findings or cautions(view.comparison)))
    if options.efficiency:
        say(*_efficiency_differences(efficiency_diff(view.comparison)))
    _print_page(path, options)


def _efficiency_differences(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the change of the MFU, and the operators and shapes that changed most."""
    yield frame.attrs["text"] or frame.attrs["note"] or "The MFU is unknown."
    is_changed = frame["diff_device_ns"].abs() >= _MIN_DIFFERENCE * frame["before_device_ns"]
    for row in iter_rows(frame[is_changed].head(_MAX_DIFFERENCES)):
        parts = [f"{duration(row.before_device_ns)} → {duration(row.after_device_ns)} a step"]
        if row.before_roofline_share > 0 and row.after_roofline_share > 0:
            shares = share(row.before_roofline_share), share(row.after_roofline_share)
            parts.append(f"{shares[0]} → {shares[1]} of the roofline")
        shapes = short_shapes(row.input_shapes)
        yield f"{escape_controls(f'{row.name} {shapes}'.strip())}: {', '.join(parts)}"


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

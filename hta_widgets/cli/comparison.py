"""The commands ``diff`` and ``baseline``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hta_widgets.answers.comparison import (
    BASELINE,
    baseline_names,
    comment_lines,
    compare_jobs,
    efficiency_change_lines,
    open_run,
    remove_baseline,
    save_baseline,
)
from hta_widgets.answers.verdict import parse_limit
from hta_widgets.cli import print_page, say
from hta_widgets.diff.compare import compare
from hta_widgets.diff.efficiency import efficiency_diff
from hta_widgets.errors import TraceError
from hta_widgets.trace.traceset import Selection


def diff(options: argparse.Namespace) -> int:
    """Compare two runs: print what changed, judge it if a limit is given, and write a page."""
    limit = None if options.fail_above is None else parse_limit(options.fail_above)
    has_page = options.out is not None or (options.form == "text" and limit is None)
    before, after = open_run(options.before), open_run(options.after)
    ranks, after_ranks = options.ranks, options.after_ranks or options.ranks
    sides = before.traces.select(ranks=ranks), after.traces.select(ranks=after_ranks)
    reply = compare_jobs(
        before,
        after,
        ranks=ranks,
        after_ranks=after_ranks,
        limit_share=limit,
        metric=options.metric,
    )
    verdict = reply.more.get("verdict")
    if options.form == "text":
        sentences = reply.note.rstrip(".").split(". ")
        notes = [f"{text[0].upper()}{text[1:]}." for text in sentences if text]
        say(*([verdict["text"]] if verdict else []), *reply.frame["text"], *notes)
        if options.efficiency:
            say(*efficiency_change_lines(efficiency_diff(compare(*sides))))
    elif options.form == "markdown":
        print("\n".join(comment_lines(reply)))
    else:
        print(reply.format(options.form))
    if has_page or options.svg:
        _write_comparison(sides, options, has_page=has_page)
    return verdict["exit_code"] if verdict else 0


def _write_comparison(
    sides: Sequence[Selection], options: argparse.Namespace, *, has_page: bool
) -> None:
    from hta_widgets.widgets.trace_diff import TraceDiff  # slow to import

    view = TraceDiff(*sides)
    if options.svg:
        view.to_svg(options.svg)
    if not has_page:
        return
    path = view.save_html(options.out or "diff.html", max_mb=options.max_mb)
    if options.form == "text":
        print_page(path, options)


def baseline(options: argparse.Namespace) -> None:
    """Save, remove or list baselines."""
    has_name, has_paths = options.name is not None, bool(options.paths)
    takes_name, takes_paths = options.action != "list", options.action == "save"
    if (has_name, has_paths) != (takes_name, takes_paths):
        raise TraceError(
            f"`baseline {options.action}` got the wrong arguments",
            remedy="Write `baseline save NAME JOB`, `baseline remove NAME` or `baseline list`.",
        )
    if options.action == "save":
        say(f"{BASELINE}{options.name}: {save_baseline(options.name, options.paths)}")
    elif options.action == "remove":
        remove_baseline(options.name)
    else:
        say(*baseline_names() or ["no baselines; `hta-widgets baseline save NAME JOB` makes one"])

"""The commands ``tables``, ``table``, ``event`` and ``sql``. Few imports keep them fast."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import TableReply
from hta_widgets.answers.tables import (
    describe_event,
    list_tables,
    parse_option,
    run_sql,
    run_table,
)
from hta_widgets.cli import say


def tables(options: argparse.Namespace) -> None:
    """Print the tables that have data for a job, and why the others have none."""
    reply = list_tables(Job.open(options.paths))
    _print_reply(reply, options)
    if options.form == "text" and (groups := reply.more["without_data"]):
        say("", "No data for:")
        say(*(f"- {', '.join(group['tables'])}: {group['reason']}" for group in groups))


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
        columns=options.columns,
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


def sql(options: argparse.Namespace) -> None:
    """Print the rows of a query."""
    _print_reply(run_sql(Job.open([options.job]), options.query, limit=options.limit), options)


def _print_reply(reply: TableReply, options: argparse.Namespace) -> None:
    print(reply.format(options.form, shutil.get_terminal_size((120, 24)).columns))
    if options.form == "csv" and (remark := reply.remark()):
        say(remark, file=sys.stderr)

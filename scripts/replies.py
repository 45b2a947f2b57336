"""Check all tables of jobs against the JSON Schema: `python scripts/replies.py JOB…`.

Prints the replies that violate the schema and the jobs that cannot be loaded. For example::

    python scripts/replies.py shared/traces/profilers/*/* shared/traces/hta_tests/* shared/cases/*
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema

from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import TableReply
from hta_widgets.answers.summary import summarize_job
from hta_widgets.answers.tables import describe_event, list_tables, run_table
from hta_widgets.errors import TraceError

PAGE = (Path(__file__).parents[1] / "docs/answers.md").read_text("utf-8")
(SCHEMA,) = re.findall(r"^```json\n({\n  \"\$schema.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA))
FORMS = ("csv", "markdown", "text")


def replies(job: Job) -> Iterator[TableReply]:
    """Yield the replies of all commands for a job."""
    tables = list_tables(job)
    yield from (tables, summarize_job(job))
    rank, trace = next(iter(job.traces.items()))
    if len(trace):
        yield describe_event(job, rank, len(trace) // 2)
    values = {"rank": rank, "operator_name": "aten::linear"}
    for name, needs in zip(tables.frame["table"], tables.frame["needs"], strict=True):
        options = {option: values[option] for option in needs.split(", ") if option}
        yield run_table(job, name, limit=5, options=options)


def faults(reply: TableReply) -> list[str]:
    """Return violations of the schema, and check that the other formats raise no errors."""
    for form in FORMS:
        reply.format(form)  # type: ignore[arg-type]
    errors = VALIDATOR.iter_errors(json.loads(reply.format("json")))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


count = wrong = 0
for path in sys.argv[1:]:
    try:
        for reply in replies(Job.open([path])):
            count += 1
            for fault in faults(reply):
                wrong += 1
                sys.stdout.write(f"{path} {reply.table}: {fault}\n")
    except TraceError as error:
        sys.stdout.write(f"{path}: {error}\n")
sys.stdout.write(f"{count} replies, {wrong} faults\n")
sys.exit(bool(wrong))

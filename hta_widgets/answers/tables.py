"""Tables of a job by name: all analyses, and ``events``, ``ranks`` and ``problems``.

`run_table` accepts a window, ranks and an event query for each table, and sorts and limits the
rows. Its reply includes the line of Python that computes the same rows::

    run_table(job, "kernel_breakdown", ranks=[0], sort="count", limit=3)
    # traces = hw.load("job"); frame = hw.analysis.kernel_breakdown(traces, ranks=[0]).sort_…
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import TableReply
from hta_widgets.errors import TraceError, UnknownNameError
from hta_widgets.readers.formats import all_formats, formats_named
from hta_widgets.text import as_window, escape_controls
from hta_widgets.trace.traceset import TraceSet

DEFAULT_LIMIT = 50
_MAX_ARG = 2_000  # characters of an event arg
_MAX_ITEMS = 20  # parents, flows or kernels of an event

#: Descriptions of the tables that are not analyses.
_PLAIN = {
    "events": "Return the events, by rank and start.",
    "ranks": "Return one row per rank: its file, host and contents.",
    "problems": "Return what was skipped, repaired or guessed while the files were read.",
}
#: For an analysis that needs an operator name, an analysis that has rows for the same jobs.
_PROBES = {"frequent_kernel_sequences": "operator_kernels"}
#: Main columns of tables that may have rows in which all of these values are unknown (NaN or -1).
_ANSWERS = {
    "clock_offsets": ("residual_ns",),
    "comm_comp_overlap": ("overlap_share",),
    "exposed_waits": ("wait_ns",),
    "idle_interval_stats": ("mean_ns",),
    "job_critical_path": ("dur_ns",),
    "memory_bandwidth_summary": ("mean",),
    "operator_efficiency": ("flops", "least_bytes"),
    "step_efficiency": ("flops",),
}
#: Tables that compare ranks. For a single rank, they have a row but no comparison.
_NEED_RANKS = {"rank_clusters"}
#: Tables that require timed work, which dumps do not record.
_NEED_WORK = {"critical_path", "job_critical_path", "rank_clusters"}


def table_functions(traces: TraceSet) -> dict[str, Callable[..., Any]]:
    """Return the analyses that apply to the formats of a job, keyed by name."""
    added = {
        reference.rpartition(":")[2]
        for format_ in formats_named(traces.formats)
        for reference in format_.analyses.functions
    }
    names = [
        name for name in dir(analysis) if name in added or not name.startswith(("byteps_", "mpi_"))
    ]
    return {name: function for name in names if (function := table_function(name))}


def table_function(name: str) -> Callable[..., Any] | None:
    """Return an analysis by name, or None if it does not exist or does not take a job."""
    if name not in dir(analysis) or name.startswith("with_"):
        return None
    function: Callable[..., Any] = getattr(analysis, name)
    parameters = inspect.signature(function).parameters
    takes_job = next(iter(parameters)) == "traces" and "sizes" not in parameters
    return function if takes_job else None


def list_tables(job: Job) -> TableReply:
    """Return the tables that have data; ``without_data`` gives reasons for the others."""
    functions = table_functions(job.traces)
    has_events = any(map(len, job.traces.values()))
    has_problems = len(job.traces.problem_list) > 0
    reasons = {
        "events": "" if has_events else "the files hold no events",
        "ranks": "",
        "problems": "" if has_problems else "nothing was skipped, repaired or guessed",
    }
    reasons |= {name: _reason_without_data(name, functions, job.traces) for name in functions}
    rows = [(name, question, "") for name, question in _PLAIN.items()]
    for name, function in functions.items():
        question = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
        rows.append((name, question, ", ".join(required_options(function))))
    rows = [row for row in rows if not reasons[row[0]]]
    frame = pd.DataFrame(rows, columns=["table", "question", "needs"])
    without_data = [
        {"reason": reason, "tables": [name for name in reasons if reasons[name] == reason]}
        for reason in dict.fromkeys(filter(None, reasons.values()))
    ]
    return job.reply(
        frame, "tables", len(frame), code="dir(hw.analysis)", more={"without_data": without_data}
    )


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a sentence that suggests similar names, or "" if no name is similar."""
    from difflib import get_close_matches

    similar = get_close_matches(name, names)
    return f"Did you mean {' or '.join(similar)}? " if similar else ""


def required_options(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of an analysis that have no default, excluding the traces."""
    _, *parameters = inspect.signature(function).parameters.values()
    return [option.name for option in parameters if option.default is option.empty]


def _reason_without_data(
    name: str, functions: Mapping[str, Callable[..., Any]], traces: TraceSet
) -> str:
    """Return why an analysis has no data for a job, or "" if it has data for any rank."""
    dumps = {format_.name for format_ in all_formats() if format_.reading.is_dump}
    if name in _NEED_WORK and dumps.issuperset(traces.formats):
        return "dumps contain no host or device work"
    if name in _NEED_RANKS and len(traces) == 1:
        return "a single rank cannot be compared: load several ranks"
    function = functions[_PROBES.get(name, name)]
    parameters = inspect.signature(function).parameters
    scopes: list[dict[str, Any]] = [{}]
    if "rank" in parameters:
        scopes = [{"rank": rank} for rank in traces.ranks]
    elif "ranks" in parameters and len(traces) > 1:
        scopes = [{"ranks": traces.ranks[:1]}, {}]
    reason = ""
    for scope in scopes:  # a single rank with data is enough
        try:
            frame = function(traces, **scope)
        except TraceError as error:  # for example, the requested step does not exist
            reason = error.message
            continue
        if _has_answer(name, frame):
            return ""
        unknown = " and no ".join(_ANSWERS.get(name, ("row",)))
        reason = str(frame.attrs.get("note", "")) or f"no {unknown} is known"
    return reason


def _has_answer(name: str, frame: pd.DataFrame) -> bool:
    if name == "rank_clusters":  # also compares host times, which `matched` ignores
        return bool(frame["step_ns"].any())
    if name in _ANSWERS:
        return bool((frame[[*_ANSWERS[name]]] >= 0).to_numpy().any())
    return len(frame) > 0 and any(frame.attrs.get("matched", {"rows": 1}).values())


def run_table(
    job: Job,
    name: str,
    *,
    window: Any = None,
    ranks: Iterable[int] | None = None,
    query: str | None = None,
    sort: str = "",
    descending: bool = False,
    limit: int = DEFAULT_LIMIT,
    columns: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> TableReply:
    """Return the rows of a table listed by `list_tables`.

    A `window` is two times such as ``("12ms", "18ms")``, a `query` is a pandas query over event
    columns, and `options` are further parameters of the analysis. If `sort` is empty, rows keep the
    order of the analysis. A `limit` of 0 returns all rows. `columns` are the columns to return, by
    default all. Unknown tables, columns and options raise a `TraceError`, as do a window, ranks or
    a query that the table does not accept.
    """
    window_ns = None if window is None else as_window(window)
    limits: dict[str, Any] = {"ranks": ranks, "query": query, "window": window_ns}
    scope = {key: value for key, value in limits.items() if value is not None}
    make_table = _plain_table if name in _PLAIN else _run_analysis
    frame, call = make_table(job, name, scope, dict(options or {}))
    rows, code = _sort_and_limit(frame, sort, limit, descending=descending)
    if names := list(dict.fromkeys(columns)):
        for column in names:
            _require_column(rows, column)
        rows = rows[names]
        code += f"[{names!r}]"
    notes = [str(frame.attrs.get("note", ""))]
    if "window" in scope and not len(frame):
        notes.append(_outside_note(job.traces, scope["window"]))
    note = "; ".join(filter(None, notes))
    return job.reply(rows, name, len(frame), note=note, code=f"{call}{code}")


def _outside_note(traces: TraceSet, window: tuple[int, int]) -> str:
    """Return a note if a window is before or after all events, else ""."""
    start_ns, end_ns = traces.span_ns
    if window[0] <= end_ns and window[1] >= start_ns:
        return ""
    return f"the window is outside the job, whose events are from {start_ns} to {end_ns} ns"


#: Dtypes in the envelope, keyed by NumPy kind. DuckDB also returns NULL and other number sizes.
_DTYPES = {"i": "Int64", "u": "UInt64", "f": "float64", "M": "str", "m": "str"}


def run_sql(job: Job, query: str, *, limit: int = DEFAULT_LIMIT) -> TableReply:
    """Run a SELECT on the tables of a job, as `TraceSet.sql` does."""
    frame = job.traces.sql(query)
    dtypes = {
        name: _DTYPES[dtype.kind] for name, dtype in frame.dtypes.items() if dtype.kind in _DTYPES
    }
    rows, code = _sort_and_limit(frame.astype(dtypes), "", limit, descending=False)
    return job.reply(rows, "sql", len(frame), code=f"traces.sql({query!r}){code}")


def _run_analysis(
    job: Job, name: str, scope: dict[str, Any], options: dict[str, Any]
) -> tuple[pd.DataFrame, str]:
    """Return the result of an analysis and its code; if `scope` has one rank, pass it as `rank`."""
    function = table_function(name)
    if function is None:
        raise UnknownNameError(
            f"no table {name!r}",
            remedy=suggest_name(name, [*_PLAIN, *table_functions(job.traces)])
            + "The command `tables` and the tool list_analyses list those with data.",
        )
    parameters = [*inspect.signature(function).parameters][1:]
    if "rank" in parameters and "rank" not in options and len(scope.get("ranks", ())) == 1:
        options["rank"] = next(iter(scope.pop("ranks")))
    accepted = {"query" if option == "selection" else option for option in parameters}
    _require_options(name, scope, accepted)
    _require_options(name, options, {*parameters} - {"selection", "window", "ranks"})
    missing = [option for option in required_options(function) if option not in options]
    if missing:
        example = f"{missing[0]}={'0' if missing[0] == 'rank' else 'aten::linear'}"
        raise TraceError(
            f"{name} needs {' and '.join(missing)}",
            remedy=f"Give it as an option, on the command line for example --option {example}.",
        )
    arguments = options | scope
    codes = {key: repr(value) for key, value in arguments.items()}
    if "query" in arguments:
        arguments["selection"] = job.traces.select(arguments.pop("query"))
        codes["selection"] = f"traces.select({codes.pop('query')})"
    call = "".join(f", {key}={code}" for key, code in codes.items())
    frame: pd.DataFrame = function(job.traces, **arguments)
    return frame, f"hw.analysis.{name}(traces{call})"


def _plain_table(
    job: Job, name: str, scope: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[pd.DataFrame, str]:
    _require_options(name, options, ())
    if name == "events":
        start, end = scope.get("window", (None, None))
        selection = job.traces.select(
            scope.get("query"), start_ns=start, end_ns=end, ranks=scope.get("ranks")
        )
        frame = selection.events().reset_index()
        frame.insert(0, "rank", frame.pop("rank"))
        return frame, f"{selection.to_code()}.events().reset_index()"
    _require_options(name, scope, ())
    if name == "ranks":
        return pd.DataFrame(job.traces.summary()), "traces.summary()"
    return pd.DataFrame(job.traces.problems), "traces.problems"


def _require_options(name: str, options: Iterable[str], accepted: Iterable[str]) -> None:
    unknown = [option for option in options if option not in accepted]
    if unknown:
        listed = ", ".join(sorted(accepted))
        raise TraceError(
            f"{name} takes no {' and no '.join(unknown)}",
            remedy=f"It takes {listed}." if listed else "Leave it out.",
        )


def _sort_and_limit(
    frame: pd.DataFrame, sort: str, limit: int, *, descending: bool
) -> tuple[pd.DataFrame, str]:
    if limit < 0:
        raise TraceError(f"--limit must be 0 or more, not {limit}", remedy="0 means all rows.")
    code = ""
    if sort:
        _require_column(frame, sort, " to sort by")
        # Sort categories as strings instead of by their codes.
        is_text = isinstance(frame[sort].dtype, pd.CategoricalDtype)
        as_text = ", key=lambda texts: texts.astype(str)" if is_text else ""
        frame = frame.sort_values(
            sort,
            ascending=not descending,
            kind="stable",
            key=lambda values: values.astype(str) if is_text else values,
        )
        code += f".sort_values({sort!r}, ascending={not descending}, kind='stable'{as_text})"
    if limit and limit < len(frame):
        frame = frame.head(limit)
        code += f".head({limit})"
    return frame.reset_index(drop=True), code


def _require_column(frame: pd.DataFrame, name: str, use: str = "") -> None:
    if name not in frame:
        remedy = f"The columns are {', '.join(map(str, frame.columns))}."
        raise TraceError(f"no column {name!r}{use}", remedy=remedy)


def parse_option(text: str) -> tuple[str, Any]:
    """Parse ``NAME=VALUE``. A value that is not JSON is a string."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip().isidentifier():
        raise TraceError(
            f"{text!r} is not an option", remedy="Write NAME=VALUE, for example top=10."
        )
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def describe_event(job: Job, rank: int, event_id: int) -> TableReply:
    """Return one event with its args, callers and launches, and statistics of its name."""
    from hta_widgets.live.job import TileEngine  # slow to import

    event = job.traces.event(event_id, rank)  # raises a `TraceError` for an unknown rank or id
    frame = job.traces[rank].events.loc[[event.id]].reset_index()
    frame.insert(0, "rank", rank)
    request = {"op": "event", "rank": rank, "id": event.id, "table": "events"}
    answer, _ = TileEngine(job.traces.subset([rank])).answer(request)
    details = {key: answer[key] for key in ("launched_by", "kernels", "flows", "parents")}
    # The histogram of durations is useful only for drawing.
    histogram = {"edges", "counts"}
    same_name = {key: value for key, value in answer["same"].items() if key not in histogram}
    cut = [
        f"the first {_MAX_ITEMS} of {len(items)} {key} are shown"
        for key, items in details.items()
        if isinstance(items, list) and len(items) > _MAX_ITEMS
    ]
    return job.reply(
        frame,
        "events",
        1,
        note="; ".join(filter(None, [answer["args_error"], *cut])),
        code=f"traces[{rank}].events.loc[[{event.id}]]",
        more={
            "args": {key: _short_text(value) for key, value in answer["args"]},
            **{key: _short_lists(value) for key, value in details.items()},
            "same_name": same_name,
        },
    )


def _short_text(text: str) -> str:
    text = escape_controls(text)
    return text if len(text) <= _MAX_ARG else f"{text[:_MAX_ARG]}… ({len(text):,} characters)"


def _short_lists(value: Any) -> Any:
    if isinstance(value, str):
        return _short_text(value)
    if isinstance(value, Mapping):
        return {key: _short_lists(item) for key, item in value.items()}
    return [_short_lists(item) for item in value[:_MAX_ITEMS]] if isinstance(value, list) else value

"""SQL queries on a job with DuckDB: events, small tables, and each analysis as a view.

Only tables that occur in the query are computed. Events and args are Arrow streams. They are read
rank by rank, once for each occurrence in the query. Analyses run with their defaults. A query is a
single SELECT and cannot read files, the network or Python variables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

from hta_widgets import analysis
from hta_widgets.answers.tables import required_options, suggest_name, table_functions
from hta_widgets.errors import TraceError, import_extra
from hta_widgets.trace.arrow import ArgsStream
from hta_widgets.trace.traceset import TraceSet

#: Tables of single ranks, to which a column ``rank`` is added.
_RANK_TABLES = ("instants", "asyncs", "counters", "flows")
#: Settings that restrict a query to the registered tables.
_LOCKS = (
    "SET python_enable_replacements = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_NO_TABLE = re.compile(r"(Catalog Error: Table with name (\S+) does not exist)")


def run_sql(traces: TraceSet, query: str) -> pd.DataFrame:
    """Return the rows of a query; see `TraceSet.sql`."""
    duckdb = import_extra("duckdb", "sql")
    connection = duckdb.connect(":memory:")
    try:
        statements = duckdb.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise TraceError("sql() takes one SELECT", remedy="Write it as one statement.")
        # DuckDB's own `get_table_names` would open files that are named in the query.
        parsed = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        tables = {name.lower() for name in _tables_in(json.loads(parsed[0][0]))}
        for name in tables.intersection(table_names(traces)):
            connection.register(name, _table(traces, name))
        for lock in _LOCKS:
            connection.execute(lock)
        rows = connection.sql(query)
        columns = map(_column_code, rows.columns, rows.types)
        frame: pd.DataFrame = rows.project(", ".join(columns)).df()
    except duckdb.Error as error:
        raise _query_error(traces, str(error).split("\n\n")[0]) from None
    finally:
        connection.close()
    return frame


def _column_code(name: str, type_: object) -> str:
    """Return the SQL expression for a column of the result.

    Sums of integers are 128 bits wide; pandas would convert them to floating-point numbers.
    """
    quoted = '"' + name.replace('"', '""') + '"'
    return f"CAST({quoted} AS BIGINT) AS {quoted}" if str(type_) == "HUGEINT" else quoted


def _query_error(traces: TraceSet, text: str) -> TraceError:
    """Return the error for a failed query. If a table is unknown, the remedy lists all tables."""
    remedy = None
    if missing := _NO_TABLE.match(text):
        text, name = missing.groups()
        names = table_names(traces)
        plain = ", ".join(names[: names.index("problems") + 1])
        remedy = f"{suggest_name(name, names)}The tables are {plain}, and the analyses of a job."
    return TraceError(f"the query fails: {text.rstrip('.')}", remedy=remedy)


def table_names(traces: TraceSet) -> list[str]:
    """Return the names of the tables and views available in `TraceSet.sql`."""
    views = [name for name, view in table_functions(traces).items() if not required_options(view)]
    return ["events", "args", *_RANK_TABLES, "ranks", "problems", *views]


def _tables_in(tree: Any) -> Iterator[str]:
    """Yield the names of the tables in a parsed query, including the tables of its WITH clause."""
    if isinstance(tree, dict) and tree.get("type") == "BASE_TABLE":
        yield tree["table_name"]
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _tables_in(value)


def _table(traces: TraceSet, name: str) -> Any:
    if name == "events":
        return traces.select()
    if name == "args":
        return ArgsStream(list(traces.values()))
    if name in _RANK_TABLES:
        frames = [getattr(trace, name).assign(rank=rank) for rank, trace in traces.items()]
        return _arrow(pd.concat(frames, ignore_index=True))
    if name in {"ranks", "problems"}:
        return _arrow(pd.DataFrame(traces.summary() if name == "ranks" else traces.problems))
    return _arrow(getattr(analysis, name)(traces))


def _arrow(frame: pd.DataFrame) -> pa.Table:
    plain = frame.copy(deep=False)
    plain.attrs = {}
    for column in plain:
        if isinstance(plain[column].dtype, pd.CategoricalDtype):
            plain[column] = plain[column].astype(str)
    return pa.Table.from_pandas(plain, preserve_index=False)

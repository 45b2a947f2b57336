"""The tables of a comparison, by the formats of what is compared."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from hta_widgets.errors import TraceError

from hta_widgets.formats.byteps import byteps_tables
from hta_widgets.formats.mpi import mpi_diff as mpi_tables
from hta_widgets.diff.changes import changes
from hta_widgets.diff.families import BYTEPS
from hta_widgets.diff.families import MPI
from hta_widgets.diff.names import names
from hta_widgets.diff.names import operators_diff
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.steps import steps
from hta_widgets.diff.waterfall import waterfall

__all__ = ["Table", "add_table", "tables"]

#: A function from a comparison to a table of it.
Table = Callable[[Comparison], pd.DataFrame]

#: Tables by name, each with the formats that it is for; None for all that have events.
_TABLES: dict[str, tuple[frozenset[str] | None, Table]] = {}


def add_table(name: str, table: Table, *, formats: frozenset[str] | None = None) -> None:
    """Add a table to what `tables` returns.

    Parameters
    ----------
    name : str
    table : function
        From a `Comparison` to a DataFrame.
    formats : set of str, optional
        Formats that it is for (see `TraceSet.formats`); by default all that have events.

    Raises
    ------
    TraceError
        Where there is one of this name.

    Examples
    --------
    >>> add_table("stages", stages_of_two, formats=frozenset({"byteps"}))  # doctest: +SKIP
    """
    if name in _TABLES:
        raise TraceError(f"there is a table {name!r}", remedy="Give it another name.")
    _TABLES[name] = formats, table


def tables(diff: Comparison) -> dict[str, pd.DataFrame]:
    """Return the tables that the formats of both sides have.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    dict of str to DataFrame
        For Kineto traces ``waterfall, steps, changes, names, operators``.

        For BytePS ``waterfall, steps, byteps_stages, byteps_tensors, byteps_workers`` of workers'
        traces, and ``byteps_lag, byteps_servers`` of servers' profiles.

        For MPI ``mpi_times, mpi_routines, mpi_message_sizes, mpi_negotiation, mpi_ranks,
        mpi_imbalance``, of time lines ``waterfall, changes, names, mpi_waits`` too.

        And what `add_table` added.

    Examples
    --------
    >>> tables(diff)["changes"]  # doctest: +SKIP
    """
    return {name: table(diff) for name, table in makers(diff).items()}


def makers(diff: Comparison) -> dict[str, Table]:
    """Return what makes each of the `tables`, without making any."""
    before, after = (side.formats for side in diff.sides)
    events = all(any(len(part.trace) for part in side.parts.values()) for side in diff.sides)
    return {
        name: table
        for name, (formats, table) in _TABLES.items()
        if (events if formats is None else bool(formats & before) and bool(formats & after))
        and not (formats is None and name in _left_to_others(before | after))
    }


def _left_to_others(formats: set[str]) -> set[str]:
    """Return tables of events of which those of a format say the same, and better."""
    if formats & set(BYTEPS):
        # Stages of partitions are no calls of operators.
        return {"changes", "names", "operators"}
    return {"steps", "operators"} if formats & set(MPI) else set()


for _name, _table in (
    ("waterfall", waterfall),
    ("steps", steps),
    ("changes", changes),
    ("names", names),
    ("operators", operators_diff),
):
    add_table(_name, _table)
_WORKERS, _SERVERS, _LINES = (
    frozenset({name}) for name in ("byteps", "byteps-server", "mpi-trace")
)
for _name, _table, _formats in (
    ("byteps_stages", byteps_tables.byteps_stages, _WORKERS),
    ("byteps_tensors", byteps_tables.byteps_tensors, _WORKERS),
    ("byteps_workers", byteps_tables.byteps_workers, _WORKERS),
    ("byteps_lag", byteps_tables.byteps_lag, _SERVERS),
    ("byteps_servers", byteps_tables.byteps_server_times, _SERVERS),
    ("mpi_times", mpi_tables.mpi_times, frozenset(MPI)),
    ("mpi_routines", mpi_tables.mpi_routine_times, frozenset(MPI)),
    ("mpi_message_sizes", mpi_tables.mpi_size_times, frozenset(MPI)),
    ("mpi_negotiation", mpi_tables.mpi_negotiations, frozenset(MPI)),
    ("mpi_ranks", mpi_tables.mpi_rank_times, frozenset(MPI)),
    ("mpi_imbalance", mpi_tables.mpi_imbalances, frozenset(MPI)),
    ("mpi_waits", mpi_tables.mpi_waits, _LINES),
):
    add_table(_name, _table, formats=_formats)

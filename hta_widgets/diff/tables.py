"""The tables of a comparison, by the formats of what is compared."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from hta_widgets.analysis.mpi_compare import mpi_compare
from hta_widgets.errors import TraceError

from .changes import changes
from .names import names, operators_diff
from .sides import Comparison, RunSide
from .steps import steps
from .waterfall import waterfall

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
        For runs with events ``waterfall, steps, changes, names, operators``; for MPI profiles
        ``mpi_routines``, which is `hta_widgets.analysis.mpi_compare`; and what `add_table` added.

    Examples
    --------
    >>> tables(diff)["changes"]  # doctest: +SKIP
    """
    return {name: table(diff) for name, table in makers(diff).items()}


def makers(diff: Comparison) -> dict[str, Table]:
    """Return what makes each of the `tables`, without making any."""
    shared = _formats(diff.before) & _formats(diff.after)
    events = all(any(len(part.trace) for part in side.parts.values()) for side in diff.sides)
    return {
        name: table
        for name, (formats, table) in _TABLES.items()
        if (events if formats is None else bool(formats & shared))
    }


def _formats(side: RunSide) -> set[str]:
    return {part.trace.format for part in side.parts.values()}


def _mpi_routines(diff: Comparison) -> pd.DataFrame:
    before, after = diff.sides
    return mpi_compare(
        before.traces, after.traces, before_ranks=before.ranks, after_ranks=after.ranks
    )


for _name, _table in (
    ("waterfall", waterfall),
    ("steps", steps),
    ("changes", changes),
    ("names", names),
    ("operators", operators_diff),
):
    add_table(_name, _table)
add_table("mpi_routines", _mpi_routines, formats=frozenset({"mpi-profile"}))

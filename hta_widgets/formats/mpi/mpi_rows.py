"""Rows of the tables in mpitrace's text profiles, each from one line."""

from __future__ import annotations

from hta_widgets.formats.mpi.mpi_tables_model import RankRow
from hta_widgets.formats.mpi.mpi_tables_model import RoutineRow

from hta_widgets.formats.mpi.mpi_lines import ROUTINE
from hta_widgets.formats.mpi.mpi_lines import number

__all__ = ["float_of", "rank_columns", "rank_row", "routine_row"]

_NAN = float("nan")
#: Columns of the table of all ranks, by what their headings begin with.
_COLUMNS = {
    "taskid": "rank",
    "host": "host",
    "cpu": "cpu",
    "comm": "comm_s",
    "elapsed": "elapsed_s",
    "user": "user_s",
    "system": "system_s",
    "size": "rss_mib",
    "switches": "switches",
}


def routine_row(line: str) -> RoutineRow | None:
    """Return what a line says of a routine; None where it is no such line."""
    row = ROUTINE.match(line)
    if row is None:
        return None
    return RoutineRow(row[1], int(row[2]), number(row[3]), number(row[4]))


def rank_columns(headings: list[str]) -> list[str]:
    """Return the columns of the table of all ranks, of whatever generation."""
    return [
        next((to for start, to in _COLUMNS.items() if word.startswith(start)), word)
        for word in headings
    ]


def rank_row(row: dict[str, str], memory_scale: float) -> RankRow:
    """Return what a line of that table says, by column.

    Raises
    ------
    ValueError
        Where a number is none.
    """
    return RankRow(
        int(row["rank"]),
        row.get("host", ""),
        int(row.get("cpu", "-1")),
        number(row["comm_s"]),
        number(row["elapsed_s"]),
        float_of(row.get("user_s", "")),
        float_of(row.get("system_s", "")),
        float_of(row.get("rss_mib", "")) * memory_scale,
        int(row.get("switches", "-1")),
    )


def float_of(text: str) -> float:
    """Return a printed number; NaN for what is none."""
    try:
        return number(text)
    except ValueError:
        return _NAN

"""Export the tables of a job to an Excel workbook.

The first sheet lists all tables with their row counts and notes. Every table that is not empty gets
a sheet, for example ``operator_efficiency`` with one row per operator and input shapes. Column
names include units. Excel stores numbers as doubles, so integers beyond 2^53 are written as text.
Text from a trace is never interpreted as a formula.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from typing import Any, Final

import pandas as pd

from hta_widgets import analysis
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError, import_extra
from hta_widgets.files import target_path, write_atomically
from hta_widgets.trace.traceset import TraceSet

#: Analyses, in sheet order.
TABLES: Final = (
    "step_times", "temporal_breakdown", "kernel_type_breakdown", "kernel_breakdown",
    "operators", "operator_efficiency", "step_efficiency", "phase_times",
    "user_annotation_breakdown", "device_idle_breakdown", "idle_time_breakdown",
    "comm_comp_overlap", "collectives", "traffic", "communication_by_group", "stragglers",
    "exposed_waits", "pipeline_bubbles",
    "parallel_groups", "clock_offsets", "launch_stats", "launch_outliers",
    "queue_length_summary", "memory_bandwidth_summary",
    "byteps_stages", "byteps_gradients", "mpi_routines", "mpi_message_sizes", "mpi_ranks",
)  # fmt: skip
_MAX_ROWS: Final = (1 << 20) - 1  # per sheet, without the header
_LARGEST_EXACT: Final = 1 << 53
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MAX_TEXT: Final = 32_767


@check_arguments
def save_workbook(traces: TraceSet, path: str | os.PathLike[str]) -> list[str]:
    """Write the tables of a job to an Excel workbook.

    Parameters
    ----------
    traces : TraceSet
    path : str or path-like
        The file to write, ``NAME.xlsx``.

    Returns
    -------
    list of str
        The names of the tables that have a sheet. The first sheet states why others are missing.

    Raises
    ------
    TraceError
        If openpyxl is not installed, or `path` cannot be written.
    """
    target = target_path(path)
    if target.suffix.lower() != ".xlsx":
        raise TraceError(
            "a workbook is a .xlsx file", path=target, remedy="End the name with .xlsx."
        )
    openpyxl = import_extra("openpyxl", "xlsx")
    frames = {name: _table(traces, name) for name in TABLES}
    contents = pd.DataFrame(
        [(name, len(frame), frame.attrs.get("note", "")) for name, frame in frames.items()],
        columns=["table", "rows", "note"],
    )
    filled = {name: frame for name, frame in frames.items() if len(frame)}
    with write_atomically(target) as file:
        # Opening the file first ensures that an error leaves no sheet open.
        book = openpyxl.Workbook(write_only=True)
        for name, frame in {"tables": contents, **filled}.items():
            _write_sheet(book.create_sheet(name[:31]), frame)
        book.save(file)
    return list(filled)


def _table(traces: TraceSet, name: str) -> pd.DataFrame:
    """Return the result of an analysis, or an empty table that has the error as its note."""
    try:
        frame: pd.DataFrame = getattr(analysis, name)(traces)
    except TraceError as error:
        frame = pd.DataFrame()
        frame.attrs["note"] = str(error)
    if len(frame) > _MAX_ROWS:
        note = f"the first {_MAX_ROWS:,} of {len(frame):,} rows (limit of a sheet)"
        frame = frame.head(_MAX_ROWS)
        frame.attrs["note"] = note
    return frame


def _write_sheet(sheet: Any, frame: pd.DataFrame) -> None:
    sheet.freeze_panes = "A2"
    sheet.append(_cells(sheet, map(str, frame.columns)))
    for row in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        sheet.append(_cells(sheet, row))


def _cells(sheet: object, values: Iterable[Any]) -> list[Any]:
    """Convert a row to cells. Strings become text cells, which Excel never evaluates."""
    from openpyxl.cell import WriteOnlyCell  # an extra

    cells: list[Any] = []
    for value in values:
        is_whole = isinstance(value, int) and abs(value) <= _LARGEST_EXACT
        if is_whole or (isinstance(value, float) and math.isfinite(value)):
            cells.append(value)
        elif value is None or value is pd.NA or isinstance(value, float):
            cells.append(None)
        else:
            cell = WriteOnlyCell(sheet, _CONTROL.sub("\ufffd", str(value))[:_MAX_TEXT])
            cell.data_type = "s"  # not a formula, even with a leading =
            cells.append(cell)
    return cells

"""HTA's numbers for the shared traces, and the events from which HTA computed them."""

import functools
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support import recorded

import hta_widgets as hw
from hta_widgets.compat.trace import without_last_step

SHARED = recorded.SHARED.parent
GOLDEN = SHARED / "golden"

#: Calls that HTA 0.5.0 lists as launches.
LISTED = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
}  # fmt: skip

#: Reason for skipping tests without reference numbers.
MISSING = f"no reference numbers at {GOLDEN}: set HTA_SHARED to the folder that holds golden/"


def names(file: str = "*") -> list[str]:
    """Return the traces for which HTA wrote this file, for example ``hta_tests__amd_trace``."""
    if not GOLDEN.is_dir():
        return []
    return sorted({path.parent.name for path in GOLDEN.glob(f"*__*/{file}")})


def trace_path(name: str) -> Path:
    """Return the folder of a trace, whose name has the form ``GROUP__FOLDER``."""
    group, _, folder = name.partition("__")
    return SHARED / "traces" / group / folder


def whole(name: str) -> hw.TraceSet:
    return recorded.load(trace_path(name))


@functools.cache
def kept(name: str) -> hw.TraceSet:
    """Return the trace without its last step, as HTA reads it."""
    return without_last_step(whole(name))


def resolution_ns(name: str) -> int:
    """Return the resolution of a trace's times; 1000 means whole microseconds."""
    return min(trace.resolution_ns for trace in whole(name).values())


def frame(name: str, file: str, **options: Any) -> pd.DataFrame:
    """Return a table that HTA wrote."""
    return pd.read_csv(GOLDEN / name / file, **options)


def record(name: str, file: str) -> Any:
    """Return a JSON value that HTA wrote."""
    return json.loads((GOLDEN / name / file).read_text("utf-8"))


def cells(frame: pd.DataFrame, keys: Collection, columns: Collection = ()) -> dict[tuple, Any]:
    """Return {(key, …, column): value} for `columns`, or for all columns that are not keys."""
    columns = columns or [column for column in frame if column not in keys]
    rows = frame[[*keys, *columns]].to_dict("records")
    return {(*map(row.get, keys), column): row[column] for row in rows for column in columns}


def differing(expected: dict, got: dict, close: float) -> dict[Any, tuple]:
    """Return cells that exist on one side only or differ by more than `close`, with both values."""
    result = {}
    for key in {**expected, **got}:
        a, b = expected.get(key, np.nan), got.get(key, np.nan)
        # Almost all cells are equal, and a call of `isclose` takes 20 us.
        if a == b:
            continue
        is_text = isinstance(a, str) or isinstance(b, str)
        if is_text or not (np.isclose(a, b, rtol=1e-9, atol=close) or (pd.isna(a) and pd.isna(b))):
            result[key] = (a, b)
    return result

"""HTA's own numbers for the shared traces, and the events from which HTA computed them."""

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

#: Calls whose launches HTA 0.5.0 lists.
LISTED = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
}  # fmt: skip

#: Why a test of this module skips.
MISSING = f"no reference numbers at {GOLDEN}: set HTA_SHARED to the folder that holds golden/"


def names(file: str = "*") -> list[str]:
    """Return the traces for which HTA returned this file, such as ``hta_tests__amd_trace``."""
    if not GOLDEN.is_dir():
        return []
    return sorted({path.parent.name for path in GOLDEN.glob(f"*__*/{file}")})


def trace_path(name: str) -> Path:
    """Return the folder of a trace; the name has its group before the first ``__``."""
    group, _, folder = name.partition("__")
    return SHARED / "traces" / group / folder


def whole(name: str) -> hw.TraceSet:
    """Return all events of the trace."""
    return recorded.load(trace_path(name))


@functools.cache
def kept(name: str) -> hw.TraceSet:
    """Return the trace as HTA sees it: without the last step."""
    return without_last_step(whole(name))


def resolution_ns(name: str) -> int:
    """Nanoseconds of the last digit of the trace's times; 1000 are whole microseconds."""
    return min(trace.resolution_ns for trace in whole(name).values())


def frame(name: str, file: str, **options: Any) -> pd.DataFrame:
    """A table that HTA returned."""
    return pd.read_csv(GOLDEN / name / file, **options)


def record(name: str, file: str) -> Any:
    """A JSON value that HTA returned."""
    return json.loads((GOLDEN / name / file).read_text("utf-8"))


def cells(frame: pd.DataFrame, keys: Collection, columns: Collection = ()) -> dict[tuple, Any]:
    """{(key, …, column): value} of the given columns, or of all but the keys."""
    columns = columns or [column for column in frame if column not in keys]
    rows = frame[[*keys, *columns]].to_dict("records")
    return {(*map(row.get, keys), column): row[column] for row in rows for column in columns}


def differing(expected: dict, got: dict, close: float) -> dict[Any, tuple]:
    """Return cells of one side only, or that differ by more than `close`, with both values."""
    result = {}
    for key in {**expected, **got}:
        a, b = expected.get(key, np.nan), got.get(key, np.nan)
        # Almost all cells are equal, and `isclose` takes 20 us.
        if a == b:
            continue
        is_text = isinstance(a, str) or isinstance(b, str)
        if is_text or not (np.isclose(a, b, rtol=1e-9, atol=close) or (pd.isna(a) and pd.isna(b))):
            result[key] = (a, b)
    return result

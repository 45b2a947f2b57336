"""HTA's own numbers for the shared traces, and the same events as it looked at."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

import hta_widgets as hw
from hta_widgets.compat.trace import without_last_step

REPO = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HTA_SHARED", REPO.parent / "shared"))
GOLDEN = SHARED / "golden"

#: Why a test of this module skips.
MISSING = f"no reference numbers at {GOLDEN}: set HTA_SHARED to the folder that holds golden/"


def names(file: str = "*") -> list[str]:
    """Names of the traces that HTA returned this file for, such as ``hta_tests__amd_trace``."""
    if not GOLDEN.is_dir():
        return []
    return sorted({path.parent.name for path in GOLDEN.glob(f"*__*/{file}")})


def trace_path(name: str) -> Path:
    """The folder of a trace: the group, then the folder, which may hold ``__`` itself."""
    group, _, folder = name.partition("__")
    return SHARED / "traces" / group / folder


@functools.cache
def whole(name: str) -> hw.TraceSet:
    """All that the trace holds."""
    return hw.load(trace_path(name), cache=False, progress=False)


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

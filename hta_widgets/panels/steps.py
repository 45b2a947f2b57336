"""How long each rank takes for each step and its phases, against the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.model import Selection, TraceSet

from .columns import texts

__all__ = ["steps"]


def steps(traces: TraceSet, selection: Selection, clock: Any) -> pd.DataFrame:
    """Return one row per phase, step and rank; the first phase is the whole step."""
    frame = analysis.step_times(traces, clock=clock, selection=selection)
    found = pd.DataFrame(
        {
            "phase": texts(["step"] * len(frame)),
            "step": frame["step"].to_numpy(np.int64),
            "rank": frame["rank"].to_numpy(np.int64),
            "start_ns": frame["start_ns"].to_numpy(np.int64),
            "dur_ns": frame["dur_ns"].to_numpy(np.int64),
            "deviation_share": frame["dur_deviation_share"].to_numpy(np.float64),
        }
    )
    found.attrs = {key: frame.attrs[key] for key in ("matched", "note") if key in frame.attrs}
    return found

"""How long each rank takes for each step and its phases, against the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.turns import rest

from hta_widgets.panels.columns import texts

__all__ = ["STEP", "steps"]

STEP = "step"
#: Phases that take less of all steps say little, and scatter much.
LEAST_PCT = 1


def steps(traces: TraceSet, selection: Selection, clock: Any) -> pd.DataFrame:
    """Return one row per phase, step and rank: the whole step first, then its phases.

    Phases are those of `phase_times` that take 1 % of the steps' time or more, as they follow each
    other; rows are by phase, rank and step.
    """
    whole = analysis.step_times(traces, clock=clock, selection=selection)
    phases = analysis.phase_times(traces, selection=selection)
    rest()
    name, values = pd.factorize(phases["phase"])
    spent = np.zeros(len(values), dtype=np.int64)
    np.add.at(spent, name, phases["dur_ns"].to_numpy(np.int64))
    lasting = spent * 100 >= int(whole["dur_ns"].sum()) * LEAST_PCT
    phases = phases[lasting[name]] if len(whole) and len(phases) else phases.iloc[:0]
    rest()
    found = pd.DataFrame(
        {
            "phase": texts([*[STEP] * len(whole), *phases["phase"].tolist()]),
            **{
                column: np.concatenate(
                    [whole[column].to_numpy(np.int64), phases[column].to_numpy(np.int64)]
                )
                for column in ("step", "rank", "start_ns", "dur_ns")
            },
            "deviation_share": np.concatenate(
                [whole["dur_deviation_share"], phases["deviation_share"]]
            ),
        }
    )
    found.attrs = {key: whole.attrs[key] for key in ("matched", "note") if key in whole.attrs}
    return found

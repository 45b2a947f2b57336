"""FLOPs, bytes and rates of operators' calls, as columns of a rank of a saved page.

The calls of a signature share most figures, which are listed once in the rank's header. For
example, 96 calls of two signatures have 96 device times and rates, and two entries in the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets.analysis.efficiency.call_efficiency import (
    CALL_RATES,
    call_efficiency,
    classes_of_calls,
)
from hta_widgets.export.pages.format import ColumnWriter
from hta_widgets.trace.trace import Trace


def write_call_figures(writer: ColumnWriter, trace: Trace) -> list[dict[str, Any]]:
    """Write the figures of the operators' calls; return what calls of a signature share."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return []
    rows = np.flatnonzero(efficiency.call_of_event >= 0)
    writer.ints("figures_event", rows, delta=True)
    writer.ints("figures_call", efficiency.call_of_event[rows], delta=True)
    calls = efficiency.calls
    for name in ("row", "longest", "signature", "kernels", "device_ns"):
        writer.ints(f"call_{name}", calls[name].to_numpy(), delta=name in {"row", "longest"})
    writer.ints("call_class", classes_of_calls(efficiency))
    for name in CALL_RATES:
        writer.floats(f"call_{name}", calls[name].to_numpy(), "<f4")
    return efficiency.signatures

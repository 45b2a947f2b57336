"""Classes of events by what limits them and how close they come to it, for colours.

An event has the class of the operator's call that it belongs to. For example, a ``gemm`` that FLOPs
limit and that runs at 52 % of its roofline is ``compute``, at 75 % ``compute_near``, and at 12 %
``far``. The look of each class and its words are in ``facts/bound_classes.json``; codes of classes
follow those of ``facts/event_classes.json``, so a code has one meaning in all tiles.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analysis.efficiency.call_efficiency import CallEfficiency, call_efficiency
from hta_widgets.analysis.efficiency.limits import THRESHOLDS
from hta_widgets.facts import facts
from hta_widgets.trace.arrays import Codes
from hta_widgets.trace.trace import Trace

#: Shares of the roofline from which work is near it, and below which it is far from it.
NEAR_SHARE: Final = THRESHOLDS["target_roofline_share"]
FAR_SHARE: Final = 0.3
#: Certainties of figures that are not estimates.
CERTAIN: Final = ("exact", "linked", "stated")
_FIRST_CODE = len(facts("event_classes")["light"])
_CODES = {name: _FIRST_CODE + code for code, name in enumerate(facts("bound_classes")["light"])}


def classes_of_calls(efficiency: CallEfficiency) -> Codes:
    """Return the code of the class of each call."""
    bound = efficiency.values_of_calls("bound", object)
    share = efficiency.calls["roofline_share"].to_numpy()
    is_estimate = ~np.isin(efficiency.values_of_calls("certainty", object), CERTAIN)
    is_far = (bound == "overhead") | (share < FAR_SHARE)
    conditions = {
        "no_figure": bound == "unknown",
        "above_peak": efficiency.values_of_calls("above_peak", np.bool_),
        "estimate_far": is_estimate & is_far,
        "estimate": is_estimate,
        "far": is_far,
        "compute_near": (bound == "compute") & (share >= NEAR_SHARE),
        "compute": bound == "compute",
        "memory_near": share >= NEAR_SHARE,
    }
    codes = np.select(
        list(conditions.values()), [_CODES[name] for name in conditions], _CODES["memory"]
    )
    return codes.astype(np.uint8)


def bound_classes(trace: Trace) -> Codes | None:
    """Return the code of the class of each event of a rank; None without figures."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return None
    codes = np.append(classes_of_calls(efficiency), np.uint8(_CODES["no_figure"]))
    classes: Codes = codes[efficiency.call_of_event]
    return classes

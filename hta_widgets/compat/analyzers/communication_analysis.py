"""HTA's overlap of communication and computation."""

from __future__ import annotations

import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.scope import kept_of, with_attrs_of
from hta_widgets.compat.show import show
from hta_widgets.trace.traceset import TraceSet

__all__ = ["CommunicationAnalysis"]


class CommunicationAnalysis:
    """How much of communication computation hides."""

    @classmethod
    def get_comm_comp_overlap(cls, t: TraceSet, visualize: bool = True) -> pd.DataFrame:
        """Return the share per rank; see `TraceAnalysis.get_comm_comp_overlap`."""
        overlap = analysis.comm_comp_overlap(kept_of(t))
        if visualize:
            show("comm_comp_overlap", overlap)
        percentage = (100 * overlap["overlap_share"]).round(2)
        frame = pd.DataFrame({"rank": overlap["rank"], "comp_comm_overlap_pctg": percentage})
        return with_attrs_of(frame, overlap)

"""Read ``trace_view.json`` of Ascend's profiler: Chrome JSON, in a folder that states the rank.

What its rows mean is in `hta_widgets.formats.kineto.ascend_rows`, so that an exported file has the
same figures.
"""

from __future__ import annotations

from typing import Any

from hta_widgets.formats.ascend.folder import rank_of_folder
from hta_widgets.formats.kineto.reader import read_kineto
from hta_widgets.readers.formats import Advance, Outcome


def read_trace_view(path: str, *, advance: Advance = None, keepalive: Any = None) -> Outcome:
    """Read the rank of a time line."""
    outcome = read_kineto(path, advance=advance, keepalive=keepalive)
    rank = rank_of_folder(path) if len(outcome.traces) == 1 else None
    traces = [trace.replace(format="ascend") for trace in outcome.traces]
    if rank is not None:
        traces = [trace.replace(stated_rank=rank, rank=rank) for trace in traces]
    return outcome._replace(traces=tuple(traces))

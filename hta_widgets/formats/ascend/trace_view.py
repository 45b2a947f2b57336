"""Read ``trace_view.json`` of Ascend's profiler: Chrome JSON, in a folder that states the rank.

What its rows mean is in `hta_widgets.formats.kineto.ascend_rows`, so that an exported file has the
same figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hta_widgets.formats.ascend.folder import TRACE_NAME, rank_of_folder
from hta_widgets.formats.kineto.reader import is_json, read_kineto
from hta_widgets.readers.formats import FileStart, Outcome

_PROCESS = re.compile(rb'"(Ascend Hardware|CANN)"')


def is_trace_view(start: FileStart) -> bool:
    """Whether a file is a time line of Ascend's profiler."""
    if not is_json(start) or start.without_bom[:1] != b"[":
        return False
    is_named = TRACE_NAME.fullmatch(Path(start.path).name) is not None
    return is_named or _PROCESS.search(start.text) is not None


def read_trace_view(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Read the rank of a time line."""
    outcome = read_kineto(path, advance=advance, keepalive=keepalive)
    rank = rank_of_folder(path) if len(outcome.traces) == 1 else None
    traces = [trace.replace(format="ascend") for trace in outcome.traces]
    if rank is not None:
        traces = [trace.replace(stated_rank=rank, rank=rank) for trace in traces]
    return outcome._replace(traces=tuple(traces))

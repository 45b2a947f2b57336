"""Launches of CUDA and HIP graphs, and how well their kernels match the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import compress
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace import graph_captures
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

_SCHEMA: Final = {
    **dict.fromkeys(("rank", "graph", "launch_id", "kernels", "matched"), "int64"),
    "matched_share": "float64",
    **dict.fromkeys(("certainty", "capture"), "str"),
    "replays": "int64",
}


@check_arguments
def graph_replays(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the launches of graphs, and how certain the operators of their kernels are.

    The operators come from traces loaded with ``hw.load(replay, capture=...)``. The kernels of a
    graph are compared with the launches that started no work while the graph was captured.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The launches to return, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and launch: ``graph``, a number that identifies its sequence of kernels;
        ``launch_id``; ``kernels``, their number; ``matched``, how many of them match the capture;
        ``matched_share``; ``replays``, the number of launches of this graph on the rank;
        ``capture``, the annotation around the capture; and ``certainty``:

        - ``name``: the same names in the same order
        - ``name-order``: each name equally often but in another order, or equal graphs taken in
          turn
        - ``order``: the same number of calls, which do not name their kernels
        - ``partial``: the capture also has calls that launched nothing
        - ``none``: no capture, fewer than 95 % match, or several captures match
    """
    parts = rank_parts(traces, selection, window, ranks)
    rows = [row for rows_of_rank in map_ranks(parts, _replays_of_rank) for row in rows_of_rank]
    has_capture = any(trace.capture is not None for trace in parts.traces)
    note = "" if has_capture else "no capture: give hw.load the trace of the graph's capture"
    if not rows:
        note = "no graph was launched" if parts.traces else note_text("no_ranks")
    return result_frame(columns_of_rows(rows, _SCHEMA), matched={"launches": len(rows)}, note=note)


def _replays_of_rank(part: RankPart) -> list[tuple[Any, ...]]:
    replays = graph_captures.graph_replays(part.trace)
    is_chosen = part.contains(np.array([replay.launch for replay in replays], dtype=np.int64))
    replays_of_graph = Counter(replay.graph for replay in replays)
    capture = part.trace.capture
    captures = graph_captures.captured_graphs(capture) if capture else []
    rows = []
    for replay in compress(replays, is_chosen):
        kernels, matched = len(replay.kernels), int((replay.calls >= 0).sum())
        row = (part.rank, replay.graph, replay.launch, kernels, matched, matched / max(kernels, 1))
        label = captures[replay.capture].label if replay.capture >= 0 else ""
        rows.append((*row, replay.certainty, label, replays_of_graph[replay.graph]))
    return rows

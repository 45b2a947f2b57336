"""The launches of CUDA and HIP graphs, and how their kernels match the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import result_frame, stack_blocks
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
    """Return the launches of graphs, with the certainty of their kernels' operators.

    The operators come from the traces given as ``hw.load(replay, capture=...)``. A graph's kernels
    are compared with the launches that ran nothing while the graph was captured.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The launches, narrowed in time and to ranks; all by default.

    Returns
    -------
    DataFrame
        One row per rank and launch: ``graph``, a number by its kernels, ``launch_id``, ``kernels``,
        ``matched`` of them, ``matched_share``; ``replays``, launches of this graph on the rank;
        ``capture``, the annotation around the capture; and ``certainty``:

        - ``name``: same names in the same order
        - ``name-order``: the same number of each name, in another order, or equal graphs taken in
        turn
        - ``order``: the same number of calls, which do not name their kernels
        - ``partial``: the capture has calls that launched nothing
        - ``none``: no capture, fewer than 95 % match, or several captures fit
    """
    parts = rank_parts(traces, selection, window, ranks)
    blocks = list(map_ranks(parts, _replays_of_rank))
    frame = stack_blocks(blocks, _SCHEMA)
    has_capture = any(trace.capture is not None for trace in parts.traces)
    is_missing = bool(len(frame["rank"])) and not has_capture
    return result_frame(
        frame,
        matched={"launches": len(frame["rank"])},
        note=[
            note_text("no_ranks") if not blocks else "",
            "no graph was launched" if blocks and not len(frame["rank"]) else "",
            "no capture: give hw.load the trace of the graph's capture" if is_missing else "",
        ],
    )


def _replays_of_rank(part: RankPart) -> dict[str, Any]:
    trace = part.trace
    replays = graph_captures.graph_replays(trace)
    is_chosen = part.contains(np.array([replay.launch for replay in replays], dtype=np.int64))
    counts = Counter(replay.graph for replay in replays)
    replays = [replay for replay, chosen in zip(replays, is_chosen, strict=True) if chosen]
    captures = graph_captures.captured_graphs(trace.capture) if trace.capture else []
    kernels = np.array([len(replay.kernels) for replay in replays], dtype=np.int64)
    matched = np.array([(replay.calls >= 0).sum() for replay in replays], dtype=np.int64)
    return {
        "rank": part.rank,
        "graph": np.array([replay.graph for replay in replays], dtype=np.int64),
        "launch_id": np.array([replay.launch for replay in replays], dtype=np.int64),
        "kernels": kernels,
        "matched": matched,
        "matched_share": matched / np.maximum(kernels, 1),
        "certainty": [replay.certainty for replay in replays],
        "capture": [
            captures[replay.capture].label if replay.capture >= 0 else "" for replay in replays
        ],
        "replays": np.array([counts[replay.graph] for replay in replays], dtype=np.int64),
    }

"""Find changes in how device work is launched: by CUDA graphs, and into which streams.

Operators whose kernels a graph replays are gone from the calls, and kernels that move to a second
stream keep their names and times. So neither change is among those of calls. For a step of ten
kernels on stream 7, of which the second run has three on stream 13 and all in a graph:

    graphs: 0 % → 100 % of device work
    streams: the busiest stream runs 100 % → 70 % of compute kernels
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.trees import steps_of_rows
from hta_widgets.taxonomy import is_graph_launch
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.trace import Trace

# Minimum changes of a share of all device work, or of all compute kernels of a rank.
_MIN_GRAPHS_CHANGE = 0.25
_MIN_STREAMS_CHANGE = 0.02


def launch_changes(diff: Comparison) -> list[Finding]:
    """Return the changes of the shares of work that graphs launch, and that one stream runs."""
    if not diff.is_of_devices:
        return []
    results = []
    graphs = [_graphs_share(side) for side in diff.sides]
    if abs(graphs[1] - graphs[0]) >= _MIN_GRAPHS_CHANGE:
        results.append(_share_change("graphs", graphs))
    beside = [_beside_busiest_stream(side) for side in diff.sides]
    shares = [1 - sum(names.values()) for names in beside]
    if abs(shares[1] - shares[0]) >= _MIN_STREAMS_CHANGE:
        moved = {name: abs(beside[1][name] - beside[0][name]) for name in beside[0] | beside[1]}
        results.append(_share_change("streams", shares, max(moved, key=moved.__getitem__)))
    return results


def _share_change(kind: str, shares: Sequence[float], name: str = "") -> Finding:
    before, after = shares
    return Finding(kind, measure=kind, unit="share", before=before, after=after, name=name)


def _work_in_steps(side: RunSide, *kinds: str) -> Iterator[tuple[Trace, Rows]]:
    """Yield each rank with its device work of some kinds in the compared steps."""
    for part in side.parts.values():
        rows = part.rows_of_kinds(*kinds) if kinds else part.device_work_rows()
        rows = rows[part.table.stream[rows] >= 0]
        step = steps_of_rows(side, part, rows)
        yield part.trace, rows[(step >= 0) & (step < max(len(side.steps), 1))]


def _graphs_share(side: RunSide) -> float:
    """Return the share of the work with a known launch that graphs launch; NaN without such."""
    by_graphs = launched = 0
    for trace, rows in _work_in_steps(side):
        calls = trace.launch_of[rows]
        calls = calls[calls >= 0]
        launched += len(calls)
        by_graphs += int(names_match(trace, calls, is_graph_launch).sum())
    return by_graphs / launched if launched else np.nan


def _beside_busiest_stream(side: RunSide) -> Counter[str]:
    """Return the names of the kernels that do not run on the busiest stream of their rank.

    The values are shares of the compute kernels of all ranks. The busiest stream has the most.
    """
    counts, kernels = Counter[str](), 0
    for trace, rows in _work_in_steps(side, "compute"):
        kernels += len(rows)
        streams, place, calls = np.unique(
            trace.table.stream[rows], return_inverse=True, return_counts=True
        )
        if len(streams) > 1:
            codes = trace.table.name[rows[place != calls.argmax()]]
            counts.update(trace.table.names[code] for code in codes.tolist())
    return Counter({name: count / kernels for name, count in counts.items()})

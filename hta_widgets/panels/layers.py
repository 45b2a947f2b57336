"""An icicle chart of modules: the width of a bar is device time, and its children are below it.

For example, ``Mlp_0`` takes 9 µs and its bar begins at 0. Its modules ``Block ×3`` (7 µs) and
``Linear_6`` (1 µs) are the bars from 0 to 7 and from 7 to 8 of the next row; 1 µs is in neither.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.traceset import TraceSet

_SUMS = ("calls", "host_ns", "device_ns", "device_self_ns")
_DEVICE = ("forward_device_ns", "backward_device_ns", "recompute_device_ns")
_FLOPS = ("forward_flops", "backward_flops", "recompute_flops")
#: Smallest width of a drawn bar, as a share of the tree's width.
_MIN_SHARE = 0.001


def left_edges(parent: Ints, size: Floats) -> Floats:
    """Return the left edges of bars: siblings touch, and the first begins with its parent.

    Parents must precede their children.
    """
    left = np.zeros(len(size))
    # The last entry is for nodes without a parent, whose index is -1.
    next_left = np.zeros(len(size) + 1)
    for node, above in enumerate(parent.tolist()):
        left[node] = next_left[node] = next_left[above]
        next_left[above] += size[node]
    return left


def module_bars(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of `analysis.modules` as bars, with means over its ranks.

    The width of a bar is the device time, or the host time if the job has no device work.
    """
    ranks = max(frame["rank"].nunique(), 1)
    bars = _modules_by_path(frame, ranks)
    measure = "device_ns" if bars["device_ns"].any() else "host_ns"
    parent_index = pd.Index(bars.index).get_indexer(pd.Index(bars["above"]))
    size = bars[measure].to_numpy(np.float64)
    is_child = parent_index >= 0
    inner = np.bincount(parent_index[is_child], size[is_child], minlength=len(size))
    left = left_edges(parent_index, size)
    bars = bars.assign(
        name=bars.index,
        short=bars["module"],
        left_ns=left.astype(np.int64),
        right_ns=(left + size).astype(np.int64),
        own_ns=np.maximum(size - inner, 0).astype(np.int64),
        count=bars["calls"],
    )
    is_wide = size >= _MIN_SHARE * max(size[~is_child].sum(), 1)
    names = ["depth", "name", "short", "left_ns", "right_ns", "own_ns", "count", "host_ns"]
    columns = [*names, "device_ns", *_DEVICE, "tflop_per_s", "instances", "events"]
    drawn = pd.DataFrame({name: bars[name][is_wide].reset_index(drop=True) for name in columns})
    drawn.attrs = {
        "left_out": int((~is_wide).sum()),
        "ranks": ranks,
        "of_hosts": int(measure == "host_ns"),
        "note": frame.attrs.get("note", ""),
    }
    return drawn


def _modules_by_path(frame: pd.DataFrame, ranks: int) -> pd.DataFrame:
    """Return the means of each module, parents first; ``above`` is the path of the parent."""
    parent_path = frame["path"].to_numpy()[frame["parent"]]
    frame = frame.assign(above=np.where(frame["parent"] >= 0, parent_path, ""))
    groups = frame.groupby("path", sort=False)
    modules = groups[["module", "depth", "above"]].first()
    sums = groups[[*_SUMS, *_DEVICE]].sum() // ranks
    modules = modules.join(sums).join(groups["instances"].max())
    modules["events"] = groups["events"].agg(lambda texts: "\n".join(dict.fromkeys(texts)))
    flops = groups[list(_FLOPS)].sum(min_count=1).sum(axis=1, min_count=1) / ranks
    modules["tflop_per_s"] = flops / modules["device_ns"].where(modules["device_ns"] > 0) / 1e3
    return modules.sort_values("depth", kind="stable")


def layers(traces: TraceSet) -> pd.DataFrame:
    """Return the bars of all modules of a job."""
    return module_bars(analysis.modules(traces))

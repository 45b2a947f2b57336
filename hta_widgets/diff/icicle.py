"""The operator tree of both runs as one: what each call path costs before and after."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import result
from hta_widgets.errors import TraceError
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.frames import dtype_of

from hta_widgets.diff.matching import Matches
from hta_widgets.diff.matching import match
from hta_widgets.diff.moments import splits_communication
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.trees import CALL
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.diff.trees import WORK
from hta_widgets.diff.values import path_times

__all__ = ["icicle"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_STATUSES = ("same", "changed", "added", "removed")


def icicle(diff: Comparison, measure: Literal["device", "host"] = "device") -> pd.DataFrame:
    """Return the operator tree of both runs, calls of one path taken together.

    Parameters
    ----------
    diff : Comparison
    measure : {"device", "host"}, default "device"
        ``"device"``: time of device work, which forms the leaves; a node has that of all below it,
        so children add up to their parent less its own. ``"host"``: time of operators on the host;
        a node's ``self`` is what no operator below it covers, waiting for the device included.

    Returns
    -------
    DataFrame
        One row per path, parents before their children, siblings by after's or before's time,
        whichever is longer. Of the paired ranks, per step, means over steps and ranks:

        - ``node`` (int64), from 0; ``parent`` (int64), -1 for the outermost; ``depth`` (int64)
        - ``name`` (str); ``path`` (str), what encloses it, outermost first, ``" > "`` between
        - ``kind`` (category): ``cpu`` for operators and annotations, and of device work its own
        - ``before_count, after_count`` (float64)
        - ``before_ns, after_ns, diff_ns`` (float64): with all below
        - ``before_self_ns, after_self_ns, diff_self_ns`` (float64): without
        - ``status`` (category): ``added, removed``; ``changed``, another count; ``same``

        ``.attrs["without_waiting"]``: whether collectives count without waiting for other ranks,
        which both sides' files must tell.

    Examples
    --------
    >>> tree = icicle(diff)  # doctest: +SKIP
    >>> tree[tree["depth"] == 0]  # doctest: +SKIP
    """
    if measure not in {"device", "host"}:
        raise TraceError(f"no measure {measure!r}", remedy='Say "device" or "host".')
    matches = match(diff)
    parent = np.array(matches.path_parent, dtype=np.int64)
    kind = np.array(matches.path_kind, dtype=np.int64)
    taken = kind != CALL if measure == "device" else kind == OPERATOR
    depth = np.zeros(len(parent), dtype=np.int64)
    for path in range(len(parent)):  # paths, which are few; parents come first
        depth[path] = depth[parent[path]] + 1 if parent[path] >= 0 else 0
    count, total, alone = [], [], []
    for times in path_times(diff):
        count.append(_mean(times.count, len(parent)))
        own = _mean(times.device_ns if measure == "device" else times.host_ns, len(parent))
        if measure == "device":
            total.append(_summed(own, parent, depth))
            alone.append(own)
        else:
            below = np.zeros(len(parent))
            inner = np.flatnonzero((parent >= 0) & taken)
            np.add.at(below, parent[inner], own[inner])
            total.append(own)
            alone.append(np.maximum(own - below, 0.0))
    there = taken & ((count[0] > 0) | (count[1] > 0))
    order = _depth_first(parent, there, np.maximum(*total))
    position = np.full(len(parent) + 1, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    names, callers = matches.pool.names, matches.callers
    before, after = (values[order] for values in count)
    status = np.select(
        [before == 0, after == 0, ~np.isclose(before, after)],
        [_STATUSES.index(word) for word in ("added", "removed", "changed")],
        0,
    )
    columns: dict[str, object] = {
        "node": np.arange(len(order), dtype=np.int64),
        "parent": position[parent[order]],
        "depth": depth[order],
        "name": pd.array([names[matches.path_name[path]] for path in order.tolist()], dtype="str"),
        "path": pd.array([callers[path] for path in order.tolist()], dtype="str"),
        "kind": pd.Categorical.from_codes(_kinds(matches, order), dtype=dtype_of(KINDS)),
        "before_count": before,
        "after_count": after,
    }
    for word, values in (("", total), ("self_", alone)):
        columns[f"before_{word}ns"] = values[0][order]
        columns[f"after_{word}ns"] = values[1][order]
        columns[f"diff_{word}ns"] = values[1][order] - values[0][order]
    columns["status"] = pd.Categorical.from_codes(status, dtype=dtype_of(_STATUSES))
    return result(
        columns,
        matched={"paths": len(order)},
        note="" if len(order) else "no operators in the steps that are compared",
        measure=measure,
        without_waiting=measure == "device" and splits_communication(diff),
        steps=diff.step_count,
    )


def _mean(values: Floats, size: int) -> Floats:
    found: Floats = values.mean(axis=0) if len(values) else np.zeros(size)
    return found


def _summed(own: Floats, parent: Ints, depth: Ints) -> Floats:
    """Return what each path and all below it hold."""
    total = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        members = np.flatnonzero(depth == level)
        np.add.at(total, parent[members], total[members])
    return total


def _depth_first(parent: Ints, there: npt.NDArray[np.bool_], size: Floats) -> Ints:
    """Return the paths with each one's children behind it, the largest first."""
    children: dict[int, list[int]] = {}
    for path in np.flatnonzero(there).tolist():
        children.setdefault(int(parent[path]), []).append(path)
    for mine in children.values():
        mine.sort(key=lambda path: (size[path], path))  # the last is taken first
    found = []
    waiting = list(children.get(-1, []))
    while waiting:
        path = waiting.pop()
        found.append(path)
        waiting += children.get(path, [])
    return np.array(found, dtype=np.int64)


def _kinds(matches: Matches, paths: Ints) -> Ints:
    """Return the kind of each path: of device work that of its events, else ``cpu``."""
    kind = np.full(len(matches.path_name), KINDS.index("cpu"), dtype=np.int64)
    for one in matches.ranks:
        for tree, path in zip(one.trees, one.path, strict=True):
            work = np.flatnonzero(tree.kind == WORK)
            kind[path[work]] = tree.part.table.kind[tree.rows[work]]
    return kind[paths]

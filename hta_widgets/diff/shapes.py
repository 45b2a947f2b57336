"""Recognize a changed batch size from the shapes of operators' inputs.

The leading size of a call is the first dimension of its first input that has dimensions. For inputs
``[[32, 512], [512]]`` before and ``[[64, 512], [512]]`` after, it changes from 32 to 64. If the
leading sizes of most calls that changed did so by one factor, the smallest of them is the size of
the batch: an input of 32 · 512 rows has the same batch, flattened.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import match_ranks
from hta_widgets.diff.records import Finding
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Floats, Rows
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.trace import Trace

_MIN_CALLS = 3
_MAX_CALLS = 2_000  # calls whose args are read from the file
_MIN_SHARE = 0.25  # of the calls with shapes; the shapes of weights do not change
_MIN_ALIKE = 0.8  # of the calls that changed: by one factor


def shape_changes(diff: Comparison) -> list[Finding]:
    """Return the change of the inputs' leading size in the first step of the first ranks, if any.

    Only matched operators count.
    """
    ranks = match_ranks(diff).ranks
    if not ranks or diff.before.formats | diff.after.formats != {"kineto"}:
        return []
    before_tree, after_tree = ranks[0].trees
    partner = ranks[0].partner[0]
    is_compared = (partner >= 0) & (before_tree.kind == OPERATOR) & (before_tree.slot == 0)
    nodes = np.flatnonzero(is_compared)[:_MAX_CALLS]
    before = _leading_sizes(before_tree.part.trace, before_tree.rows[nodes])
    after = _leading_sizes(after_tree.part.trace, after_tree.rows[partner[nodes]])
    has_sizes = (before > 0) & (after > 0)
    before, after = before[has_sizes], after[has_sizes]
    factor = after / before
    is_changed = factor != 1
    if is_changed.sum() < max(_MIN_CALLS, _MIN_SHARE * len(factor)):
        return []
    is_alike = is_changed & np.isclose(factor, np.median(factor[is_changed]))
    if is_alike.sum() < _MIN_ALIKE * is_changed.sum():
        return []
    sizes = float(before[is_alike].min()), float(after[is_alike].min())
    counts = {"changed_calls": int(is_alike.sum()), "calls": len(factor)}
    return [Finding("shapes", measure="shapes", before=sizes[0], after=sizes[1], details=counts)]


def _leading_sizes(trace: Trace, rows: Rows) -> Floats:
    """Return the leading size of each call, NaN if its file has no shapes or is gone."""
    try:
        shapes_of_calls = event_args(trace, rows, ("Input Dims",))["Input Dims"]
    except TraceError:
        return np.full(len(rows), np.nan)
    return np.array([_leading_size(shapes) for shapes in shapes_of_calls], dtype=np.float64)


def _leading_size(shapes: object) -> float:
    for shape in shapes if isinstance(shapes, list) else ():
        # Lists of tensors have a list of shapes.
        if isinstance(shape, list) and shape and isinstance(shape[0], int):
            return float(shape[0])
    return np.nan

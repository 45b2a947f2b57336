"""Recognizes a changed batch size or sequence length from the input shapes of operators.

The leading size of a call is the first dimension of its first input that changed. For inputs
``[[512], [32, 512]]`` before and ``[[512], [64, 512]]`` after, it changes from 32 to 64. If the
leading sizes of most changed calls differ by the same factor, the smallest of them is the batch
size: an input with 32 · 512 rows is the same batch, flattened.

If inputs of three or more dimensions keep their first dimension and change an inner one, such as
``[8, 512, 4096]`` to ``[8, 1024, 4096]``, the sequence length changed. It also changes the leading
sizes of flattened inputs.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import match_ranks
from hta_widgets.diff.records import Finding
from hta_widgets.diff.tables import names
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_Shapes = list[list[int]]

_MIN_CALLS = 3
_MAX_CALLS = 2_000  # maximum number of calls whose args are read from the file
_MIN_SHARE = 0.25  # least share of calls with shapes; calls that use only weights do not change
_MIN_ALIKE = 0.8  # share of the changed calls, or of repeated names, that share a factor
#: Smallest change in the number of calls, and largest relative deviation of equal factors.
_MIN_REPETITION_CHANGE, _MAX_REPETITION_ERROR = 0.02, 0.25


@memoize
def shape_changes(diff: Comparison) -> list[Finding]:
    """Return the change of input sizes in the steps of the first ranks, if any.

    Only matched operators count. The numbers come from the first step. The last step must have
    changed by the same factor, because sizes may also vary from step to step.
    """
    if diff.before.formats | diff.after.formats != {"kineto"}:
        return []
    first = _change_in_step(diff, 0)
    last = first if diff.step_count == 1 else _change_in_step(diff, diff.step_count - 1)
    if first is None or last is None:
        return []
    is_same_factor = np.isclose(first.after / first.before, last.after / last.before)
    return [first] if is_same_factor else []


def _change_in_step(diff: Comparison, step: int) -> Finding | None:
    ranks = match_ranks(diff).ranks
    before_tree, after_tree = ranks[0].trees
    partner = ranks[0].partner[0]
    is_compared = (partner >= 0) & (before_tree.kind == OPERATOR) & (before_tree.slot == step)
    nodes = np.flatnonzero(is_compared)[:_MAX_CALLS]
    shapes = [
        _input_shapes(tree.part.trace, tree.rows[of_tree])
        for tree, of_tree in ((before_tree, nodes), (after_tree, partner[nodes]))
    ]
    pairs = [pair for pair in zip(*shapes, strict=True) if all(pair)]
    changed = np.array([size for pair in pairs if (size := _changed_size(*pair))]).reshape(-1, 4)
    if len(changed) < max(_MIN_CALLS, _MIN_SHARE * len(pairs)):
        return None
    before, after, dimension, dimensions = changed.T
    factor = after / before
    is_alike = np.isclose(factor, np.median(factor))
    if is_alike.sum() < _MIN_ALIKE * len(changed):
        return None
    has_batch = (is_alike & (dimension == 0) & (dimensions > 2)).any()
    is_counted, measure = is_alike & (dimension > 0), "sequences"
    if has_batch or not is_counted.any():
        is_counted, measure = is_alike, "shapes"
    sizes = float(before[is_counted].min()), float(after[is_counted].min())
    counts = {"changed_calls": int(is_counted.sum()), "calls": len(pairs)}
    return Finding("shapes", measure=measure, before=sizes[0], after=sizes[1], details=counts)


@memoize
def repetition_factor(diff: Comparison) -> float:
    """Return the factor by which the repeated work of a step grew; 1 if unknown.

    With three layers instead of two, each kernel of a layer runs 1.5 times as often. The factor is
    known if it holds for nearly all names that occur more than once in a step.
    """
    table = names(diff)
    before, after = (table[f"{side}_count_per_step"].to_numpy() for side in ("before", "after"))
    is_repeated = np.maximum(before, after) >= 2
    before, after = before[is_repeated], after[is_repeated]
    is_shared = (before > 0) & (after > 0)
    if is_shared.sum() < max(_MIN_CALLS, _MIN_ALIKE * len(before)):
        return 1.0
    factors = after[is_shared] / before[is_shared]
    factor = float(np.median(factors))
    change = abs(factor - 1)
    # At most half of the change, so that unchanged names differ from the median.
    max_error = min(change / 2, _MAX_REPETITION_ERROR * factor)
    equal_count = (np.abs(factors - factor) <= max_error).sum()
    is_known = change >= _MIN_REPETITION_CHANGE and equal_count >= _MIN_ALIKE * len(before)
    return factor if is_known else 1.0


def _changed_size(before: _Shapes, after: _Shapes) -> tuple[int, int, int, int] | None:
    """Return the first changed dimension: both sizes, its position, and the number of dimensions.

    An inner dimension does not count if the last one also changed: the latter is the width of the
    model or of an image, or the rows of a transposed input.
    """
    changed = ((old, new) for old, new in zip(before, after, strict=False) if old != new)
    old, new = next(changed, ([], []))
    if not old or len(old) != len(new):
        return None
    place = next(place for place, size in enumerate(old) if size != new[place])
    is_width = place > 0 and old[-1] != new[-1]
    if is_width or min(old[place], new[place]) <= 0:
        return None
    return old[place], new[place], place, len(old)


def _input_shapes(trace: Trace, rows: Rows) -> list[_Shapes]:
    """Return the shapes of each call's inputs; [] if its file has no shapes or is gone."""
    try:
        shapes_of_calls = event_args(trace, rows, ("Input Dims",))["Input Dims"]
    except TraceError:
        return [[] for _ in rows]
    return [_shapes_of(shapes) for shapes in shapes_of_calls]


def _shapes_of(shapes: object) -> _Shapes:
    # A list of tensors has a list of shapes.
    return [
        shape
        for shape in (shapes if isinstance(shapes, list) else ())
        if isinstance(shape, list) and shape and all(type(size) is int for size in shape)
    ]

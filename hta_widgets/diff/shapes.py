"""Recognize a changed batch size, or sequence length, from the shapes of operators' inputs.

The leading size of a call is the first dimension of its first input that has dimensions. For inputs
``[[32, 512], [512]]`` before and ``[[64, 512], [512]]`` after, it changes from 32 to 64. If the
leading sizes of most calls that changed did so by one factor, the smallest of them is the size of
the batch: an input of 32 · 512 rows has the same batch, flattened.

If the inputs of three or more dimensions keep their first one and change an inner one instead, such
as ``[8, 512, 4096]`` to ``[8, 1024, 4096]``, it is the length of the sequences, and the leading
sizes of flattened inputs change with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import match_ranks
from hta_widgets.diff.records import Finding
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.trace import Trace

_MIN_CALLS = 3
_MAX_CALLS = 2_000  # calls whose args are read from the file
_MIN_SHARE = 0.25  # of the calls with shapes; the shapes of weights do not change
_MIN_ALIKE = 0.8  # of the calls that changed: by one factor


def shape_changes(diff: Comparison) -> list[Finding]:
    """Return the change of the inputs' sizes in the first step of the first ranks, if any.

    Only matched operators count.
    """
    ranks = match_ranks(diff).ranks
    if not ranks or diff.before.formats | diff.after.formats != {"kineto"}:
        return []
    before_tree, after_tree = ranks[0].trees
    partner = ranks[0].partner[0]
    is_compared = (partner >= 0) & (before_tree.kind == OPERATOR) & (before_tree.slot == 0)
    nodes = np.flatnonzero(is_compared)[:_MAX_CALLS]
    shapes = [
        _first_shapes(tree.part.trace, tree.rows[of_tree])
        for tree, of_tree in ((before_tree, nodes), (after_tree, partner[nodes]))
    ]
    pairs = [pair for pair in zip(*shapes, strict=True) if all(pair)]
    changed = [size for pair in pairs if (size := _changed_size(*pair))]
    if len(changed) < max(_MIN_CALLS, _MIN_SHARE * len(pairs)):
        return []
    factor = np.array([size.after / size.before for size in changed])
    is_alike = np.isclose(factor, np.median(factor))
    alike = [size for size, matches in zip(changed, is_alike, strict=True) if matches]
    if len(alike) < _MIN_ALIKE * len(changed):
        return []
    is_batch = any(size.dimension == 0 and size.dimensions > 2 for size in alike)
    inner = [size for size in alike if size.dimension > 0]
    sizes = alike if is_batch or not inner else inner
    before, after = (float(min(size[place] for size in sizes)) for place in (0, 1))
    counts = {"changed_calls": len(sizes), "calls": len(pairs)}
    measure = "shapes" if sizes is alike else "sequences"
    return [Finding("shapes", measure=measure, before=before, after=after, details=counts)]


class _Size(NamedTuple):
    """A dimension of an input that changed, its position, and the number of dimensions."""

    before: int
    after: int
    dimension: int
    dimensions: int


def _changed_size(before: Sequence[int], after: Sequence[int]) -> _Size | None:
    """Return the first dimension that changed.

    The last of several dimensions does not count: it is the width of the model, or the rows of a
    transposed input.
    """
    if len(before) != len(after) or before == after:
        return None
    place = next(place for place, size in enumerate(before) if size != after[place])
    is_width = 0 < place == len(before) - 1
    if is_width or min(before[place], after[place]) <= 0:
        return None
    return _Size(before[place], after[place], place, len(before))


def _first_shapes(trace: Trace, rows: Rows) -> list[Sequence[int]]:
    """Return the first shape of each call, () if its file has no shapes or is gone."""
    try:
        shapes_of_calls = event_args(trace, rows, ("Input Dims",))["Input Dims"]
    except TraceError:
        return [()] * len(rows)
    return [_first_shape(shapes) for shapes in shapes_of_calls]


def _first_shape(shapes: object) -> Sequence[int]:
    for shape in shapes if isinstance(shapes, list) else ():
        # Lists of tensors have a list of shapes.
        if isinstance(shape, list) and shape and all(type(size) is int for size in shape):
            return shape
    return ()

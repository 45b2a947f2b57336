"""The calls of operators that do the work of a rank, each piece of work once.

Wrappers repeat the shapes of what they call: ``aten::conv2d``, ``convolution``, ``_convolution``
and ``cudnn_convolution`` are one convolution. Among nested operators with matrix work, the
outermost attention or convolution counts, else the innermost matrix product, else a wrapper that
calls none of these. All device work below belongs to it. Other device work belongs to the innermost
operator that is listed, else to its innermost operator.

For example, ``linear`` calls ``t`` and ``addmm``, which launches a kernel: the counted call is
``addmm``. An operator that launched nothing computed nothing, on a rank with device work: the last
operator of a checkpoint's recomputation is in the trace, but was stopped before its kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_widgets.analysis.efficiency.work import role_of
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.trace.arrays import Bools, Ints, Rows, mask_of_rows, occurring_codes
from hta_widgets.trace.host_stack import Forest, OperatorTree, operator_tree
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_NODE = "autograd::engine::evaluate_function"
_BACKWARD_SUFFIXES = tuple(f"Backward{number}" for number in ("", *range(10)))


@dataclass(frozen=True, eq=False)
class CountedCalls:
    """The counted calls of a rank, ascending, and the device work below each.

    `work` and `call_of_work` list device work with the position of its call, -1 for none.
    `launched_nothing` are matrix operators without device work, on ranks that have some.
    """

    rows: Rows
    is_matrix: Bools
    is_backward: Bools
    gradients: Ints
    work: Rows
    call_of_work: Ints
    launched_nothing: int

    def __len__(self) -> int:
        return len(self.rows)


@memoize
def counted_calls(trace: Trace) -> CountedCalls:
    """Return the counted calls of a rank."""
    tree = operator_tree(trace)
    roles = _roles(trace, tree)
    owner, is_matrix = _owners(tree.forest, roles)
    work = device_work_rows(trace)
    innermost = tree.innermost[trace.launch_of[work]]
    owner_of_work = np.append(owner, -1)[innermost]
    if (owner_of_work < 0).all() and getattr(trace.source, "states_work", False):
        return _calls_on_device(trace, work)
    launched_nothing = 0
    if len(work):
        # Masks: `numpy.unique` hashes, which is slow for numbers in order.
        launches = mask_of_rows(owner_of_work[owner_of_work >= 0], len(owner))
        is_matrix_owner = mask_of_rows(owner[is_matrix[owner]], len(owner))
        launched_nothing = int(np.count_nonzero(is_matrix_owner & ~launches))
        places = np.flatnonzero(launches)
    else:
        places = _leaves(tree.forest, owner, roles, is_matrix)
    number = np.full(len(tree.rows) + 1, -1, dtype=np.int64)
    number[places] = np.arange(len(places))
    return CountedCalls(
        tree.rows[places],
        is_matrix[places],
        _below_backward(trace, tree)[places],
        _gradient_counts(trace, tree)[places],
        work,
        number[owner_of_work],
        launched_nothing,
    )


def _calls_on_device(trace: Trace, work: Rows) -> CountedCalls:
    """Return the device work that encloses no other, each piece as a call of its own."""
    encloses = mask_of_rows(trace.table.parent[work], len(trace))[work]
    rows = work[~encloses]
    flags = np.zeros(len(rows), bool)
    call = np.where(encloses, -1, np.cumsum(~encloses) - 1)
    return CountedCalls(rows, flags, flags, np.full(len(rows), 2), work, call, 0)


def _names(trace: Trace, tree: OperatorTree) -> Ints:
    return trace.table.name[tree.rows].astype(np.int64)


def _roles(trace: Trace, tree: OperatorTree) -> dict[str, Bools]:
    """Return which operators have each role."""
    names, name = trace.table.names.values, _names(trace, tree)
    used = occurring_codes(name).tolist()
    role_of_name = {code: role_of(names[code]) for code in used}
    masks = {}
    for role in ("gemm", "outermost", "fallback", "listed"):
        wanted = np.zeros(len(names) + 1, dtype=bool)
        wanted[[code for code in used if role_of_name[code] == role]] = True
        masks[role] = wanted[name]
    return masks


def _owners(forest: Forest, roles: dict[str, Bools]) -> tuple[Ints, Bools]:
    """Return the operator that device work launched by each belongs to, and which have matrices."""
    size = len(forest.parent)
    outermost = _topmost(forest, roles["outermost"])
    below = _has_below(forest, roles["gemm"])
    products = roles["gemm"] & ~below & (outermost < 0)
    primary = roles["gemm"] | roles["outermost"]
    above = _nearest(forest, primary)
    wrappers = roles["fallback"] & (above < 0) & ~_has_below(forest, primary)
    wrappers &= ~_has_below(forest, wrappers)
    listed = roles["listed"]
    owner = np.arange(size)
    for nearest in (_nearest(forest, listed), _nearest(forest, wrappers)):
        owner = np.where(nearest >= 0, nearest, owner)
    nearest_product = _nearest(forest, products)
    owner = np.where(nearest_product >= 0, nearest_product, owner)
    owner = np.where(outermost >= 0, outermost, owner)
    is_matrix = products | wrappers | (roles["outermost"] & (outermost == np.arange(size)))
    return owner, is_matrix


def _nearest(forest: Forest, stops: Bools) -> Ints:
    """Return the nearest of `stops` at or above each operator, -1 for none."""
    nearest = np.where(stops, np.arange(len(stops)), -1)
    for members in forest.levels[1:]:
        above = nearest[forest.parent[members]]
        nearest[members] = np.where(stops[members], members, above)
    return nearest


def _topmost(forest: Forest, stops: Bools) -> Ints:
    """Return the outermost of `stops` at or above each operator, -1 for none."""
    topmost = np.where(stops, np.arange(len(stops)), -1)
    for members in forest.levels[1:]:
        above = topmost[forest.parent[members]]
        topmost[members] = np.where(above >= 0, above, topmost[members])
    return topmost


def _has_below(forest: Forest, marks: Bools) -> Bools:
    """Return which operators enclose a marked one."""
    return forest.subtree_sums(marks.astype(np.int64)) > marks


def _leaves(forest: Forest, owner: Ints, roles: dict[str, Bools], is_matrix: Bools) -> Rows:
    """Return the counted operators of a rank without device work, which has no launches."""
    listed = roles["listed"] & ~_has_below(forest, roles["listed"])
    return np.flatnonzero((owner == np.arange(len(owner))) & (is_matrix | listed))


def is_autograd_node(name: str) -> bool:
    """Return whether an operator is a node of autograd, by its name."""
    return name.startswith(_NODE) or (name.endswith(_BACKWARD_SUFFIXES) and "::" not in name)


def _below_backward(trace: Trace, tree: OperatorTree) -> Bools:
    """Return which operators are at or below a node of autograd."""
    names = trace.table.names.values
    nodes = [
        code
        for code in occurring_codes(_names(trace, tree)).tolist()
        if is_autograd_node(names[code])
    ]
    is_node = mask_of_rows(np.array(nodes, np.int64), len(names) + 1)[_names(trace, tree)]
    return _nearest(tree.forest, is_node) >= 0


def _gradient_counts(trace: Trace, tree: OperatorTree) -> Ints:
    """Return how many gradients each ``cudnn_convolution_backward`` of old files computes."""
    names, counts = trace.table.names.values, np.full(len(tree.rows), 2, dtype=np.int64)
    kinds = [
        [
            code
            for code, name in enumerate(names)
            if name == f"aten::cudnn_convolution_backward{end}"
        ]
        for end in ("", "_input", "_weight")
    ]
    if not kinds[0]:
        return counts
    name = _names(trace, tree)
    backwards = np.flatnonzero(np.isin(name, kinds[0]))
    has_child = [_has_below(tree.forest, np.isin(name, codes)) for codes in kinds[1:]]
    counts[backwards] = sum(mask[backwards].astype(np.int64) for mask in has_child)
    return counts

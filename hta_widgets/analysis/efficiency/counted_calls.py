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
from hta_widgets.trace.arrays import (
    Bools,
    Ints,
    Rows,
    distinct_codes,
    mask_of_rows,
    positions_of_rows,
)
from hta_widgets.trace.host_stack import Forest, name_mask, nearest_ancestor, operator_tree
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_NODE = "autograd::engine::evaluate_function"
_BACKWARD_SUFFIXES = tuple(f"Backward{number}" for number in ("", *range(10)))


@dataclass(frozen=True, eq=False)
class CountedCalls:
    """The counted calls of a rank, ascending, and the device work below each.

    `call_of_work` is the position of the call of each row of device work, -1 for none.
    `launched_nothing` is the number of matrix operators without device work, on ranks that have
    some.
    """

    rows: Rows
    is_matrix: Bools
    is_backward: Bools
    work: Rows
    call_of_work: Ints
    launched_nothing: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def of_work(self, rows: Rows, events: int) -> Ints:
        """Return the position of the call of some device work of a rank with `events`, or -1."""
        return np.append(self.call_of_work, -1)[positions_of_rows(self.work, events)[rows]]


@memoize
def counted_calls(trace: Trace) -> CountedCalls:
    """Return the counted calls of a rank."""
    tree = operator_tree(trace)
    used, place = distinct_codes(trace.table.name[tree.rows])
    role = np.array([role_of(trace.table.names[code]) for code in used.tolist()], dtype=object)
    roles = {name: (role == name)[place] for name in ("gemm", "outermost", "fallback", "listed")}
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
        counted = np.flatnonzero(launches)
    else:
        # Without device work, a rank has no launches to show which operators count.
        is_listed = roles["listed"] & ~_has_below(tree.forest, roles["listed"])
        counted = np.flatnonzero((owner == np.arange(len(owner))) & (is_matrix | is_listed))
    is_node = name_mask(trace, is_autograd_node)[tree.rows]
    is_backward = nearest_ancestor(tree.forest.parent, is_node)[:-1] >= 0
    call_of_operator = np.full(len(tree.rows) + 1, -1, dtype=np.int64)
    call_of_operator[counted] = np.arange(len(counted))
    return CountedCalls(
        rows=tree.rows[counted],
        is_matrix=is_matrix[counted],
        is_backward=is_backward[counted],
        work=work,
        call_of_work=call_of_operator[owner_of_work],
        launched_nothing=launched_nothing,
    )


def _calls_on_device(trace: Trace, work: Rows) -> CountedCalls:
    """Return the device work that encloses no other, each piece as a call of its own."""
    encloses = mask_of_rows(trace.table.parent[work], len(trace))[work]
    rows = work[~encloses]
    never = np.zeros(len(rows), bool)
    return CountedCalls(
        rows=rows,
        is_matrix=never,
        is_backward=never,
        work=work,
        call_of_work=np.where(encloses, -1, np.cumsum(~encloses) - 1),
    )


def _owners(forest: Forest, roles: dict[str, Bools]) -> tuple[Ints, Bools]:
    """Return the operator that counts for each operator's device work, and which do matrix work."""
    size = len(forest.parent)
    above = nearest_ancestor(forest.parent, roles["outermost"])[forest.parent]
    outermost = nearest_ancestor(forest.parent, roles["outermost"] & (above < 0))[:-1]
    below = _has_below(forest, roles["gemm"])
    products = roles["gemm"] & ~below & (outermost < 0)
    primary = roles["gemm"] | roles["outermost"]
    above = nearest_ancestor(forest.parent, primary)[:-1]
    wrappers = roles["fallback"] & (above < 0) & ~_has_below(forest, primary)
    wrappers &= ~_has_below(forest, wrappers)
    listed = roles["listed"]
    owner = np.arange(size)
    for stops in (listed, wrappers, products):
        nearest = nearest_ancestor(forest.parent, stops)[:-1]
        owner = np.where(nearest >= 0, nearest, owner)
    owner = np.where(outermost >= 0, outermost, owner)
    is_matrix = products | wrappers | (roles["outermost"] & (outermost == np.arange(size)))
    return owner, is_matrix


def _has_below(forest: Forest, targets: Bools) -> Bools:
    """Return which operators have one of `targets` below them."""
    return forest.subtree_sums(targets.astype(np.int64)) > targets


def is_autograd_node(name: str) -> bool:
    """Return whether an operator is a node of autograd, by its name."""
    return name.startswith(_NODE) or (name.endswith(_BACKWARD_SUFFIXES) and "::" not in name)

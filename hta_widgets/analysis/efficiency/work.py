"""FLOPs and minimum bytes of any operator call, and which of nested operators counts.

``facts/operators.json`` is the table of operators. It groups them by how they count when nested: of
``gemm`` operators, the innermost; of ``outermost`` operators, such as convolutions and attention,
the outermost; a ``fallback`` only if it neither contains nor is inside one of these; ``listed``
operators have no matrix products. A row names a formula, the positions of the operands among the
arguments of a call, and the operators with these arguments::

    {
        "formula": "product",
        "category": "gemm",
        "right": 2,
        "reads": [1, 3],
        "out": 4,
        "is_linear": true,
        "operators": ["sglang::deep_gemm_fp8_fp8_bf16_nt"],
    }

is the product of argument 0 and the transposed argument 2, which also reads the scales 1 and 3 and
writes argument 4. ``aten::linear``, a ``fallback``, calls ``aten::addmm``, a ``gemm`` that counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from math import isnan
from typing import Final, Literal, NamedTuple

from hta_widgets.analysis.efficiency.calls import REAL_TYPES, CallError, OperatorCall, Reason, Work
from hta_widgets.analysis.efficiency.kernel_names import match_name
from hta_widgets.analysis.efficiency.matrix_work import (
    EVERY_MATRIX,
    MATRIX_FORMULAS,
    gradients_work,
)
from hta_widgets.analysis.efficiency.vector_work import VECTOR_FORMULAS, pointwise_work
from hta_widgets.facts import facts
from hta_widgets.trace.call_args import decode_arg

#: How an operator counts when operators are nested.
Role = Literal["gemm", "outermost", "fallback", "listed", "unlisted"]

#: Larger figures come from invalid shapes, and their sums would not fit in 64 bits.
_MAX_FIGURE: Final = 1 << 60


class ListedOperator(NamedTuple):
    """A table row of an operator: its formula, its category, and how it counts when nested."""

    role: Role
    category: str
    work: partial[Work]


def unnumbered_name(name: str) -> str:
    """Return an operator's name without the number that SGLang's profiler appends.

    Examples
    --------
    >>> unnumbered_name("sglang_profiler::attention_paged_attention_ragged_100")
    'sglang_profiler::attention_paged_attention_ragged'
    """
    return re.sub(r"^(sglang_profiler::.+)_\d+$", r"\1", name)


@cache
def _table() -> dict[str, ListedOperator]:
    """Return the operators in ``facts/operators.json`` by name; a trailing ``*`` marks a prefix."""
    table: dict[str, ListedOperator] = {}
    for role, rows in facts("operators").items():
        for row in rows:
            arguments = dict(row)
            names, category = arguments.pop("operators"), arguments.pop("category")
            function = partial(_FORMULAS[arguments.pop("formula")], **arguments)
            table |= dict.fromkeys(names, ListedOperator(role, category, function))
    return table


@cache
def _find(name: str) -> ListedOperator | None:
    """Return the table row of an operator. In-place pointwise operators share a row."""
    table, name = _table(), unnumbered_name(name)
    if name in table:
        return table[name]
    out_of_place = table.get(name.removesuffix("_"))
    if out_of_place and out_of_place.work.func is pointwise_work:
        return out_of_place
    prefixes = (key for key in table if key.endswith("*") and name.startswith(key[:-1]))
    return table.get(next(prefixes, ""))


@cache
def operators_of(formula: str) -> frozenset[str]:
    """Return the operators in the table that use a formula."""
    function = _FORMULAS[formula]
    return frozenset(name for name, row in _table().items() if row.work.func is function)


def role_of(name: str) -> Role:
    """Return how an operator counts when operators are nested."""
    listed = _find(name)
    return listed.role if listed else "unlisted"


@cache
def category_of(name: str) -> str:
    """Return the category of an operator, even if it is not in the table."""
    if listed := _find(name):
        return listed.category
    return match_name("operator_categories", name.lower(), "other")


def call_work(call: OperatorCall) -> Work:
    """Return a call's FLOPs and minimum bytes; unknown figures are NaN, with a reason."""
    listed = _find(call.name)
    if listed is None:
        return Work(category_of(call.name), reason=Reason.UNLISTED)
    work = _work_by_formula(listed.work, call) if call.dims else Work(reason=Reason.NO_SHAPES)
    kind = "vector" if listed.role == "listed" else "matrix"
    types = {call.type_of(place) for place in range(len(call.types))}
    if kind == "matrix" and types & REAL_TYPES.keys():
        # A complex multiply-add consists of four real multiplications and four additions.
        work = replace(work, flops=4 * work.flops, model_flops=4 * work.model_flops)
    return replace(work, category=work.category or listed.category, kind=kind)


def _work_by_formula(formula: Callable[[OperatorCall], Work], call: OperatorCall) -> Work:
    try:
        work = formula(call)
    except CallError as error:
        return Work(reason=str(error))
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        # The arguments belong to another version of the schema.
        return Work(reason=Reason.OTHER_ARGUMENTS)
    figures = [work.flops, work.min_bytes, *(work.parameters or {}).values()]
    if any(not isinstance(figure, str) and figure >= _MAX_FIGURE for figure in figures):
        return Work(reason=Reason.OTHER_ARGUMENTS)
    has_reason = work.reason or not isnan(work.min_bytes)
    return work if has_reason else replace(work, reason=Reason.UNKNOWN_TYPE)


def _backward(call: OperatorCall, forward: str) -> Work:
    """Return the work of an autograd function's gradients, from its forward call's arguments."""
    if call.context.forward is None:
        raise CallError("the forward call is not in the file")
    dims, types, strides, values = map(decode_arg, call.context.forward)
    work = call_work(OperatorCall(forward, dims, types, strides, values))
    # Attention recomputes scores in the backward pass.
    work = gradients_work(work, 2.5 if work.category == "attention" else 2)
    return replace(work, certainty="estimate", reason=work.reason or EVERY_MATRIX)


_FORMULAS: Final = {**MATRIX_FORMULAS, **VECTOR_FORMULAS, "backward": _backward}

"""Nominal FLOPs and minimum bytes of operators without matrix products.

The FLOPs of these operators are a convention that only serves as a roofline coordinate: 1 per
output element of a pointwise operator, 5 per element of a softmax, and so on. Bytes count each
input that is read and each output that is written once. For example, ``aten::add`` of (4, 6) and
(6,), both float, has 24 FLOPs and 4 · (24 + 6 + 24) = 216 bytes.

``facts/operators.json`` lists operators and their arguments for formulas in `VECTOR_FORMULAS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, prod
from typing import Final

import numpy as np

from hta_widgets.analysis.efficiency.calls import (
    FLOATS,
    LISTS,
    REAL_TYPES,
    CallError,
    OperatorCall,
    Reason,
    Tensor,
    Work,
    item_bytes,
    promote,
)

_NAN: Final = float("nan")


def _vector(flops: float, size: float, certainty: str = "exact") -> Work:
    return Work("", float(flops), 0.0, float(size), "vector", certainty)


def pointwise_work(call: OperatorCall, operands: int, *, to: str = "", flops: int = 1) -> Work:
    """Return the work of a pointwise operator on `operands`; other tensors are ``out=``.

    The result has type `to` if that is ``bool`` or the operands are integers. If `to` is ``real``,
    complex operands give the type of their parts.
    """
    places = range(min(operands, len(call.dims)))
    tensors = [call.tensor(index) for index in places if call.is_present(index)]
    if not tensors:
        raise CallError(Reason.NO_DIMENSIONS)
    shape = np.broadcast_shapes(*(tensor.dims for tensor in tensors))
    inputs = sum(tensor.size_bytes for tensor in tensors)
    if call.name.endswith("_"):
        if not call.is_present(0):
            raise CallError(Reason.NO_DIMENSIONS)
        result = call.tensor(0)
    else:
        numbers = [call.type_of(index) for index in places if not call.is_present(index)]
        type_name = promote([tensor.type for tensor in tensors], numbers)
        if to == "real":
            type_name = REAL_TYPES.get(type_name, type_name)
        elif to == "bool" or (to and type_name not in FLOATS):
            type_name = to
        result = Tensor(shape, type_name)
    work = _vector(flops * result.elements, inputs + result.size_bytes)
    return replace(work, result=result)


def _rule(
    call: OperatorCall,
    *,
    flops_per_element: float,
    reads: Sequence[int] = (),
    writes: Sequence[int] = (),
    makes: Sequence[int] = (),
    elements_of: int | None = None,
    state: int | None = None,
    certainty: str = "exact",
    extra_bytes: int = 0,
    to: str = "",
) -> Work:
    """Return the work of an operator that reads and writes entire arguments.

    New outputs have the shapes of the arguments `makes`, and type `to` if the operands are
    integers. The argument `elements_of` determines the number of elements; by default, it is the
    first written or new output. `extra_bytes` are additionally written per element, for example for
    the mask of a dropout. The list `state` of an optimizer is read and written if it has tensors.
    """
    if state is not None and any(call.dims[state : state + 1]):
        reads, writes = (*reads, state), (*writes, state)
    counted = (*writes, *makes)[0] if elements_of is None else elements_of
    elements = sum(tensor.elements for tensor in call.items(counted))
    size = call.size_bytes(*reads, *writes) + elements * extra_bytes
    outputs = [
        Tensor(tensor.dims, to if to and tensor.type not in FLOATS else tensor.type)
        for index in makes
        for tensor in call.items(index)
    ]
    size += sum(output.elements * item_bytes(output.type) for output in outputs)
    work = _vector(flops_per_element * elements, size, "estimate" if call.has_lists else certainty)
    return replace(work, result=(outputs or call.items(counted))[0])


def _foreach(call: OperatorCall) -> Work:
    lists = tuple(place for place in range(len(call.dims)) if call.type_of(place) in LISTS)
    if not lists:
        raise CallError(Reason.NO_SHAPES)
    in_place = call.name.endswith("_")
    return _rule(
        call, flops_per_element=1, reads=lists, writes=lists[:in_place], makes=lists[in_place:1]
    )


def _reduction(
    call: OperatorCall,
    flops: int,
    *,
    index: int = 1,
    dtype: int | None = None,
    indices: str = "",
    to: str = "",
) -> Work:
    """Return the work of a reduction.

    Argument `index` lists the reduced dimensions, or is empty for all, and is followed by another
    argument. `indices` are written instead of values (``only``), in addition (``too``), or not at
    all. The result has type `to`, as in `pointwise_work`.
    """
    shape = call.shape(0)
    if call.is_present(1):  # the maximum of two tensors is pointwise
        return replace(pointwise_work(call, 2), category="elementwise")
    has_dims = len(call.dims) > index + 1
    if has_dims and not call.values:
        # The output size is unknown, but smaller than the input.
        return _vector(flops * prod(shape), call.size_bytes(0), "estimate")
    places = call.numbers(index) if has_dims else []
    reduced = {place % len(shape) for place in places} or set(range(len(shape)))
    out = prod(size for place, size in enumerate(shape) if place not in reduced)
    result_type = _result_type(call, dtype if has_dims else None, to)
    value_bytes = 0 if indices == "only" else item_bytes(result_type)
    has_indices = indices == "only" or (indices == "too" and has_dims)
    index_bytes = item_bytes("long int") if has_indices else 0
    return _vector(flops * prod(shape), call.size_bytes(0) + out * (value_bytes + index_bytes))


def _result_type(call: OperatorCall, dtype: int | None, to: str) -> str:
    type_name = call.type_of(0)
    if to == "bool" or (to and type_name not in FLOATS):
        type_name = to
    return type_name if dtype is None or to == "bool" else call.output_type(dtype, type_name)


def _top(call: OperatorCall) -> Work:
    """Return the work of ``topk(input, k, dim)``, which outputs values and their indices."""
    shape = list(call.shape(0))
    elements = prod(shape)
    k, dim = int(call.number(1)), int(call.number(2, -1))
    shape[dim % len(shape)] = k
    item_size = item_bytes(call.tensor(0).type) + item_bytes("long int")
    return _vector(elements, call.size_bytes(0) + prod(shape) * item_size)


def _softmax(call: OperatorCall, *, backward: bool) -> Work:
    elements, type_name = prod(call.shape(0)), call.type_of(0)
    if backward:
        type_name = call.output_type(3, type_name)
    elif call.values and call.flag(2):
        type_name = "float"
    flops, reads = (4, (0, 1)) if backward else (5, (0,))
    size = call.size_bytes(*reads) + elements * item_bytes(type_name)
    return _vector(flops * elements, size)


def _row_norm(
    call: OperatorCall,
    *,
    flops: tuple[int, int],
    weights: tuple[int, ...],
    groups: tuple[int, ...] = (),
) -> Work:
    """Return the work of a norm over rows: the last dimensions, or `groups` of channels.

    `flops` are counts per element, without and with `weights`. A norm writes two statistics per
    row, or one without a bias, in the weight's type, although CUDA kernels write float.
    """
    elements = prod(call.shape(0))
    if groups:
        rows = int(prod(map(call.number, groups)))
    else:
        rows = elements // max(prod(call.numbers(1)), 1)
    present = [place for place in weights if call.is_present(place)]
    size = call.size_bytes(0, *weights) + elements * item_bytes(call.type_of(0))
    size += len(weights) * rows * item_bytes(call.type_of(present[0] if present else 0))
    return _vector(flops[bool(present)] * elements, size)


def _batch_norm(call: OperatorCall) -> Work:
    """Return the work of a batch norm; arguments 1 to 4 are weight, bias and running statistics."""
    x = call.shape(0)
    elements = prod(x)
    size = call.size_bytes(0, 1, 2, 3, 4) + elements * item_bytes(call.type_of(0))
    # Files from 2021 have no values, so running statistics do not rule out training.
    if call.values and not call.flag(5, default=True):
        return _vector(2 * elements, size)
    size += call.size_bytes(3, 4)
    size += 2 * x[1] * item_bytes(call.type_of(1) if call.is_present(1) else "float")
    is_affine = call.is_present(1) or call.is_present(2)
    certainty = "exact" if call.values else "estimate"
    return _vector((7 if is_affine else 5) * elements, size, certainty)


def _norm_backward(
    call: OperatorCall, reads: tuple[int, ...], *, weight: int, mask: int | None = None
) -> Work:
    """Return the work of a norm's gradients; `mask` selects input, weight and bias.

    The gradients take 13 FLOPs per element, or 10 without gradients of weight and bias.
    """
    elements, size = prod(call.shape(0)), item_bytes(call.type_of(0))
    weighted = call.is_present(weight)
    wanted = call.mask(mask) if mask is not None and call.values else [True, weighted, weighted]
    wanted += [False] * (3 - len(wanted))
    written = elements * size * wanted[0] + call.size_bytes(weight) * (wanted[1] + wanted[2])
    flops = 13 if weighted and (wanted[1] or wanted[2]) else 10
    certainty = "exact" if mask is None or call.values else "estimate"
    return _vector(flops * elements, call.size_bytes(*reads) + written, certainty)


def _nll_loss(call: OperatorCall) -> Work:
    rows, size = call.shape(0)[0], item_bytes(call.tensor(0).type)
    return _vector(rows, rows * size + call.size_bytes(1) + 2 * size)


def _lookup_work(call: OperatorCall, *, table: int, indices: int, flops: int = 0) -> Work:
    """Return the work of looking up rows of a table, assuming distinct rows."""
    rows, width = call.shape(table)[0], prod(call.shape(table)[1:])
    lookups = prod(call.shape(indices))
    size = item_bytes(call.tensor(table).type) * width
    total = call.size_bytes(indices) + (min(lookups, rows) + lookups) * size
    return _vector(flops, total, "estimate")


def _embedding_bag(call: OperatorCall) -> Work:
    """Return the work of summing table rows per bag."""
    (rows, width), lookups = call.shape(0, 2), prod(call.shape(1))
    bags = call.shape(2)[0] - call.flag(7)  # offsets may end with the number of indices
    elements = (min(lookups, rows) + bags) * width
    size = call.size_bytes(1, 2, 6) + elements * item_bytes(call.type_of(0))
    return _vector(lookups * width, size, "estimate")


def _embedding_backward(call: OperatorCall) -> Work:
    grad = call.shape(0)
    table = int(call.number(2)) * grad[-1] * item_bytes(call.tensor(0).type)
    return _vector(prod(grad), call.size_bytes(0, 1) + table)


def _gather(call: OperatorCall) -> Work:
    count = prod(call.shape(2))
    size = call.size_bytes(2) + 2 * count * item_bytes(call.tensor(0).type)
    return _vector(0, size, "estimate")


def _unknown(call: OperatorCall, *, reason: str, flops: float = _NAN) -> Work:
    """Return the work of an operator whose arguments do not determine its bytes."""
    _ = call.shape(0)
    return Work(flops=float(flops), model_flops=float(flops), reason=reason)


def _pool(call: OperatorCall, *, ceil: int, dilation: int | None = None) -> Work:
    """Return the work of 2-D pooling. Operators with dilation also write indices.

    If the flag `ceil` is set, the last window may extend beyond the input.
    """
    x = call.shape(0)
    kernel, padding = call.numbers(1, 2), call.numbers(3, 2)
    stride = call.numbers(2) or kernel
    spread = [1, 1] if dilation is None else call.numbers(dilation, 2)
    sides = zip(x[-2:], kernel, stride, padding, spread, strict=True)
    out = prod(x[:-2])
    for length, width, step, pad, gap in sides:
        last = length + 2 * pad - gap * (width - 1) - 1  # largest possible start of a window
        count = -(-last // step) + 1 if call.flag(ceil) else last // step + 1
        starts_in_padding = (count - 1) * step >= length + pad
        out *= count - 1 if starts_in_padding else count
    size = item_bytes(call.tensor(0).type)
    size += 0 if dilation is None else item_bytes("long int")
    return _vector(out * prod(kernel), call.size_bytes(0) + out * size)


def _resize(call: OperatorCall, *, flops: int) -> Work:
    """Return the work of an operator whose argument 1 sets the last output dimensions."""
    sizes = call.numbers(1)
    if not sizes:
        raise CallError(Reason.OTHER_ARGUMENTS)
    x = call.shape(0)
    out = prod(x[: len(x) - len(sizes)]) * prod(sizes)
    elements = prod(x) if flops else 0
    return _vector(elements, call.size_bytes(0) + out * item_bytes(call.type_of(0)))


def _triton(call: OperatorCall) -> Work:
    """Return the bytes of an Inductor kernel as a lower bound that counts each pointer once.

    If a pointer has indices, an element reads at most one value from each other pointer, so lookups
    do not count whole tables. The last numeric arguments are the loop sizes.
    """
    tensors = call.tensors()
    size = sum(tensor.size_bytes for tensor in tensors)
    if any(tensor.type in {"int", "long int"} for tensor in tensors):
        loops = 1 if call.name.startswith("triton_poi_") else 2
        numbers = [int(text) for text in call.values if str(text).isdecimal()][-loops:]
        if len(numbers) < loops:
            raise CallError(Reason.DATA_DEPENDENT)
        size = sum(min(t.stored, prod(numbers)) * item_bytes(t.type) for t in tensors)
    if not size > 0:
        raise CallError(Reason.UNKNOWN_TYPE if isnan(size) else Reason.NO_SHAPES)
    return Work("", _NAN, 0.0, float(size), "vector", "estimate", "each pointer counts once")


#: Formulas, keyed by their name in the table of operators.
VECTOR_FORMULAS: Final[dict[str, Callable[..., Work]]] = {
    "pointwise": pointwise_work,
    "rule": _rule,
    "foreach": _foreach,
    "reduction": _reduction,
    "top": _top,
    "softmax": _softmax,
    "row_norm": _row_norm,
    "batch_norm": _batch_norm,
    "norm_backward": _norm_backward,
    "nll_loss": _nll_loss,
    "lookup": _lookup_work,
    "embedding_bag": _embedding_bag,
    "embedding_backward": _embedding_backward,
    "gather": _gather,
    "unknown": _unknown,
    "pool": _pool,
    "resize": _resize,
    "triton": _triton,
}

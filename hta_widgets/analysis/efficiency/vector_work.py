"""Nominal FLOPs and minimum bytes of operators without matrix products.

FLOPs of these operators are a convention, for coordinates of a roofline only: 1 per output element
of a pointwise operator, 5 per element of a softmax, and so on. Bytes are each input that is read
and each output that is written, once. For example, ``aten::add`` of (4, 6) and (6,), both float, is
24 FLOPs and 4 · (24 + 6 + 24) = 216 bytes.

`_RULES` lists operators that read, write and make arguments as they are; other tables name
pointwise operators, and operators with a function of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from hta_widgets.analysis.efficiency.calls import (
    DATA_DEPENDENT,
    FLOATS,
    NO_DIMENSIONS,
    NO_SHAPES,
    OTHER_ARGUMENTS,
    CallError,
    OperatorCall,
    Work,
    broadcast,
    item_bytes,
    promote,
)

_NAN: Final = float("nan")


def _vector(category: str, flops: float, size: float, certainty: str = "exact") -> Work:
    return Work(category, float(flops), 0.0, float(size), "vector", certainty)


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


#: Pointwise operators by number of operands; further tensors are ``out=``.
_POINTWISE: Final = {
    1: _aten(
        "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos "
        "atan sinh cosh tanh sigmoid erf erfc erfinv relu relu6 silu gelu elu selu mish softplus "
        "hardtanh hardswish hardsigmoid leaky_relu threshold clamp clamp_min clamp_max square "
        "sign sgn floor ceil round trunc frac bitwise_not logical_not isnan isinf isfinite "
        "log_sigmoid_forward nan_to_num bernoulli triu tril roll flip"
    ),
    2: _aten(
        "add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax "
        "fmin atan2 hypot bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor "
        "eq ne lt le gt ge masked_fill sigmoid_backward tanh_backward silu_backward "
        "gelu_backward elu_backward threshold_backward hardtanh_backward hardswish_backward "
        "leaky_relu_backward mse_loss smooth_l1_loss native_dropout_backward softplus_backward "
        "huber_loss _prelu_kernel xlogy logaddexp"
    ),
    3: _aten("where addcmul addcdiv lerp mse_loss_backward smooth_l1_loss_backward"),
}
_OPERANDS: Final = {name: count for count, names in _POINTWISE.items() for name in names}
_BOOLEAN: Final = _aten(
    "eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite"
)
#: Operators whose result of whole numbers is float.
_TO_FLOAT: Final = _aten(
    "div true_divide exp exp2 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan tanh sigmoid "
    "erf mean"
)
_NO_ARITHMETIC: Final = _aten("triu tril roll flip")


def _base_name(name: str) -> str:
    return name.removesuffix("_")


def _pointwise(call: OperatorCall, operands: int) -> Work:
    base = _base_name(call.name)
    places = range(min(operands, len(call.dims)))
    tensors = [call.tensor(index) for index in places if call.is_present(index)]
    if not tensors:
        raise CallError(NO_DIMENSIONS)
    shape = broadcast([tensor.dims for tensor in tensors])
    inputs = sum(tensor.size_bytes for tensor in tensors)
    if base != call.name:
        if not call.is_present(0):
            raise CallError(NO_DIMENSIONS)
        written = call.size_bytes(0)
        shape = call.shape(0)
    else:
        type_name = promote(tensors)
        if base in _TO_FLOAT and type_name not in FLOATS:
            type_name = "float"
        written = prod(shape) * item_bytes("bool" if base in _BOOLEAN else type_name)
    flops = 0 if base in _NO_ARITHMETIC else prod(shape)
    return _vector("elementwise", flops, inputs + written)


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """Arguments that an operator reads and writes, and those that its new outputs are like.

    `extra_bytes` are written for each element besides: the mask of a dropout.
    """

    category: str
    flops_per_element: float
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    certainty: str = "exact"
    extra_bytes: int = 0

    def work(self, call: OperatorCall) -> Work:
        """Return the work of a call; the first written or new output sets the elements."""
        first = (*self.writes, *self.makes)[0]
        elements = sum(tensor.elements for tensor in call.items(first))
        size = call.size_bytes(*self.reads, *self.writes) + elements * self.extra_bytes
        outputs = [tensor for index in self.makes for tensor in call.items(index)]
        size += sum(tensor.elements * item_bytes(tensor.type) for tensor in outputs)
        certainty = "estimate" if call.has_lists else self.certainty
        return _vector(self.category, self.flops_per_element * elements, size, certainty)


_Rule = ArgumentRule
#: Rules by the names of operators.
_RULES: Final = {
    name: rule
    for names, rule in {
        "aten::copy_ aten::_foreach_copy_": _Rule("copy", 0, reads=(1,), writes=(0,)),
        "aten::fill_ aten::zero_ aten::_foreach_zero_": _Rule("copy", 0, writes=(0,)),
        "aten::normal_ aten::uniform_ aten::exponential_ aten::random_ aten::bernoulli_":
            _Rule("elementwise", 1, writes=(0,)),
        "aten::clone aten::cat aten::stack": _Rule("copy", 0, reads=(0,), makes=(0,)),
        "_C_cache_ops::reshape_and_cache_flash _C_cache_ops::reshape_and_cache sglang::store_cache":
            _Rule("copy", 0, reads=(0, 1, 4), makes=(0, 1)),
        "aten::_fused_adam_ aten::_fused_adamw_":
            _Rule("optimizer", 15, reads=(0, 1, 2, 3), writes=(0, 2, 3)),
        "aten::_fused_sgd_": _Rule("optimizer", 4, reads=(0, 1, 2), writes=(0, 2)),
        "aten::cumsum aten::cumprod": _Rule("reduction", 1, reads=(0,), makes=(0,)),
        "aten::sort": _Rule("reduction", 1, reads=(0,), makes=(0,), extra_bytes=8),
        "aten::nll_loss_backward": _Rule("reduction", 0, reads=(2,), makes=(1,)),
        "aten::avg_pool2d_backward aten::_adaptive_avg_pool2d_backward":
            _Rule("reduction", 1, reads=(0,), makes=(1,)),
        "aten::scatter_add_ aten::scatter_add aten::index_add_":
            _Rule("embedding", 1, reads=(2, 3, 3), makes=(3,), certainty="estimate"),
        "aten::native_dropout aten::_fused_dropout":
            _Rule("elementwise", 1, reads=(0,), makes=(0,), extra_bytes=1),
        "_C::rms_norm aiter::rmsnorm sgl_kernel::rmsnorm sgl_kernel::gemma_rmsnorm "
        "flashinfer::rmsnorm _C::rms_norm_static_fp8_quant":
            _Rule("norm", 4, reads=(1, 2), writes=(0,)),
        "aiter::rms_norm vllm::rocm_aiter_rms_norm": _Rule("norm", 4, reads=(0, 1), makes=(0,)),
        "_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm flashinfer::fused_add_rmsnorm":
            _Rule("norm", 5, reads=(0, 1, 2), writes=(0, 1)),
        "_C::fused_add_rms_norm_static_fp8_quant":
            _Rule("norm", 5, reads=(1, 2, 3), writes=(0, 2)),
        "aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add_ck":
            _Rule("norm", 5, reads=(1, 2, 4), writes=(0, 3)),
        "_C::silu_and_mul sgl_kernel::silu_and_mul _C::gelu_and_mul sgl_kernel::gelu_and_mul "
        "_C::gelu_tanh_and_mul sgl_kernel::gelu_tanh_and_mul _C::silu_and_mul_quant":
            _Rule("elementwise", 2, reads=(1,), writes=(0,)),
        "_C::rotary_embedding sgl_kernel::rotary_embedding":
            _Rule("elementwise", 3, reads=(0, 1, 2), writes=(1, 2), certainty="estimate"),
        "sgl_kernel::apply_rope_pos_ids_cos_sin_cache":
            _Rule("elementwise", 3, reads=(0, 1, 5), writes=(2, 3), certainty="estimate"),
        "_C::static_scaled_fp8_quant _C::static_scaled_int8_quant":
            _Rule("elementwise", 1, reads=(1,), writes=(0,)),
        "_C::dynamic_scaled_fp8_quant _C::dynamic_per_token_scaled_fp8_quant "
        "_C::dynamic_scaled_int8_quant": _Rule("elementwise", 2, reads=(1,), writes=(0, 2)),
        "_C::per_token_group_fp8_quant _C::per_token_group_quant_int8 "
        "sgl_kernel::sgl_per_token_group_quant_8bit sgl_kernel::sgl_per_token_group_quant_fp8 "
        "sgl_kernel::sgl_per_token_quant_fp8": _Rule("elementwise", 2, reads=(0,), writes=(1, 2)),
    }.items()
    for name in names.split()
}  # fmt: skip


def _foreach(call: OperatorCall) -> Work:
    lists = tuple(
        index
        for index in range(len(call.dims))
        if call.type_of(index) in {"TensorList", "GenericList"}
    )
    if not lists:
        raise CallError(NO_SHAPES)
    if call.name == "aten::_foreach_norm":
        tensors = call.items(0)
        elements = sum(tensor.elements for tensor in tensors)
        return _vector("optimizer", 2 * elements, call.size_bytes(0), "estimate")
    in_place = call.name.endswith("_")
    return ArgumentRule(
        "optimizer", 1, lists, lists[:1] * in_place, lists[:1] * (not in_place)
    ).work(call)


def _reduced_shape(shape: tuple[int, ...], places: list[int], *, keep: bool) -> tuple[int, ...]:
    """Return the shape after reducing some dimensions; all of them without places."""
    reduced_dims = {place % len(shape) for place in places} or set(range(len(shape)))
    if keep:
        return tuple(1 if index in reduced_dims else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in reduced_dims)


def _reduction(
    call: OperatorCall,
    flops: int,
    *,
    index: int = 1,
    dtype: int | None = None,
    indices: str = "",
) -> Work:
    """Return the work of a reduction.

    `index` is the place of the dimensions, before that of ``keepdim``; `indices` are written
    instead of the values (``only``), after them (``too``), or not.
    """
    shape = call.shape(0)
    type_name = call.tensor(0).type
    if call.is_present(1):  # maximum of two tensors
        return _pointwise(call, 2)
    has_dims = len(call.dims) > index + 1
    if has_dims and not call.values:
        # The output is unknown, but smaller than the input.
        return _vector("reduction", flops * prod(shape), call.size_bytes(0), "estimate")
    places = call.numbers(index) if has_dims else []
    keep = call.flag(index + 1) if has_dims else False
    out = prod(_reduced_shape(shape, places, keep=keep))
    if call.name in {"aten::sum", "aten::prod"} and type_name not in FLOATS:
        type_name = "long int"
    if call.name in _TO_FLOAT and type_name not in FLOATS:
        type_name = "float"
    if dtype is not None and has_dims:
        type_name = call.output_type(dtype, type_name)
    if call.name in {"aten::any", "aten::all"}:
        type_name = "bool"
    size = 0 if indices == "only" else item_bytes(type_name)
    size += item_bytes("long int") if indices == "only" or (indices and has_dims) else 0
    return _vector("reduction", flops * prod(shape), call.size_bytes(0) + out * size)


def _top(call: OperatorCall) -> Work:
    shape = list(call.shape(0))
    place = int(call.number(2, -1)) % len(shape)
    elements = prod(shape)
    shape[place] = int(call.number(1))
    out = prod(shape) * (item_bytes(call.tensor(0).type) + item_bytes("long int"))
    return _vector("reduction", elements, call.size_bytes(0) + out)


def _softmax(call: OperatorCall, *, backward: bool) -> Work:
    elements, type_name = prod(call.shape(0)), call.type_of(0)
    if backward:
        type_name = call.output_type(3, type_name)
    elif call.values and call.flag(2):
        type_name = "float"
    flops, reads = (4, (0, 1)) if backward else (5, (0,))
    size = call.size_bytes(*reads) + elements * item_bytes(type_name)
    return _vector("softmax", flops * elements, size)


def _row_norm(
    call: OperatorCall,
    *,
    flops: tuple[int, int],
    weights: tuple[int, ...],
    groups: tuple[int, ...] = (),
) -> Work:
    """Return the work of a norm of rows: of the last dimensions, or of `groups` of channels.

    `flops` per element are without and with one of the `weights`. A norm without a bias writes one
    statistic of each row, else two.
    """
    elements, size = prod(call.shape(0)), item_bytes(call.type_of(0))
    if groups:
        rows = int(prod(map(call.number, groups)))
    else:
        rows = elements // max(prod(call.numbers(1)), 1)
    is_weighted = any(map(call.is_present, weights))
    written = (elements + len(weights) * rows) * size
    return _vector("norm", flops[is_weighted] * elements, call.size_bytes(0, *weights) + written)


def _batch_norm(call: OperatorCall) -> Work:
    x = call.shape(0)
    elements, size = prod(x), item_bytes(call.tensor(0).type)
    # Files of 2021 have no values; running statistics are there in training as well.
    training = call.flag(5, default=True) if call.values else True
    read = call.size_bytes(0, 1, 2, 3, 4) + elements * size
    affine = call.is_present(1) or call.is_present(2)
    if not training:
        return _vector("norm", 2 * elements, read)
    saved = 2 * x[1] * item_bytes(call.tensor(1).type if call.is_present(1) else "float")
    certainty = "exact" if call.values else "estimate"
    size = read + call.size_bytes(3, 4) + saved
    return _vector("norm", (7 if affine else 5) * elements, size, certainty)


def _norm_backward(
    call: OperatorCall, reads: tuple[int, ...], *, weight: int, mask: int | None = None
) -> Work:
    """Return the work of a norm's backward: 13 per element, 10 without gradients of weights."""
    elements, size = prod(call.shape(0)), item_bytes(call.tensor(0).type)
    weighted = call.is_present(weight)
    wanted = call.mask(mask) if mask is not None and call.values else [True, weighted, weighted]
    wanted += [False] * (3 - len(wanted))
    width = prod(call.shape(weight)) if weighted else 0
    written = elements * size * wanted[0] + call.size_bytes(weight) * (wanted[1] + wanted[2])
    flops = 13 if width and (wanted[1] or wanted[2]) else 10
    certainty = "exact" if mask is None or call.values else "estimate"
    return _vector("norm", flops * elements, call.size_bytes(*reads) + written, certainty)


def _nll_loss(call: OperatorCall) -> Work:
    rows, size = call.shape(0)[0], item_bytes(call.tensor(0).type)
    return _vector("reduction", rows, rows * size + call.size_bytes(1) + 2 * size)


def _lookup_work(call: OperatorCall, *, table: int, indices: int, flops: int = 0) -> Work:
    """Return the work of taking rows of a table, which are assumed to be distinct."""
    rows, width = call.shape(table)[0], prod(call.shape(table)[1:])
    lookups = prod(call.shape(indices))
    size = item_bytes(call.tensor(table).type) * width
    total = call.size_bytes(indices) + (min(lookups, rows) + lookups) * size
    return _vector("embedding", flops, total, "estimate")


def _embedding_bag(call: OperatorCall) -> Work:
    """Return the work of adding up rows of a table; bags of other lengths have equal sums."""
    (rows, width), lookups = call.shape(0, 2), prod(call.shape(1))
    bags = call.shape(2)[0] - call.flag(7)  # offsets may end with the number of indices
    elements = (min(lookups, rows) + bags) * width
    size = call.size_bytes(1, 2, 6) + elements * item_bytes(call.type_of(0))
    return _vector("embedding", lookups * width, size, "estimate")


def _embedding_backward(call: OperatorCall) -> Work:
    grad = call.shape(0)
    table = int(call.number(2)) * grad[-1] * item_bytes(call.tensor(0).type)
    return _vector("embedding", prod(grad), call.size_bytes(0, 1) + table)


def _gather(call: OperatorCall) -> Work:
    count = prod(call.shape(2))
    size = call.size_bytes(2) + 2 * count * item_bytes(call.tensor(0).type)
    return _vector("embedding", 0, size, "estimate")


def _unknown_indices(call: OperatorCall) -> Work:
    _ = call.shape(0)
    return Work("embedding", 0.0, 0.0, _NAN, "vector", "unknown", DATA_DEPENDENT)


def _pool(call: OperatorCall, *, dilation: int | None = None) -> Work:
    """Return the work of a pooling in two dimensions; one with a dilation also writes indices."""
    x = call.shape(0)
    kernel, padding = call.numbers(1, 2), call.numbers(3, 2)
    stride = call.numbers(2) or kernel
    spread = [1, 1] if dilation is None else call.numbers(dilation, 2)
    sides = zip(x[-2:], kernel, stride, padding, spread, strict=True)
    out = prod(x[:-2]) * prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sides)
    size = item_bytes(call.tensor(0).type)
    size += 0 if dilation is None else item_bytes("long int")
    return _vector("reduction", out * prod(kernel), call.size_bytes(0) + out * size)


def _resize(call: OperatorCall, *, category: str, flops: int) -> Work:
    """Return the work of an operator whose output has the last dimensions of argument 1."""
    sizes = call.numbers(1)
    if not sizes:
        raise CallError(OTHER_ARGUMENTS)
    x = call.shape(0)
    out = prod(x[: len(x) - len(sizes)]) * prod(sizes)
    elements = prod(x) if flops else 0
    return _vector(category, elements, call.size_bytes(0) + out * item_bytes(call.type_of(0)))


def _max_pool_backward(call: OperatorCall) -> Work:
    places = [index for index in (7, 6) if call.is_present(index)]
    size = call.size_bytes(0, *places) + call.size_bytes(1)
    return _vector("reduction", prod(call.shape(0)), size)


_Function = Callable[[OperatorCall], Work]
#: Inputs that are read, the weight, and the output mask.
_NORM_BACKWARDS: Final[dict[str, tuple[tuple[int, ...], int, int | None]]] = {
    "native_layer_norm_backward": ((0, 1, 3, 4, 5), 5, 7),
    "native_group_norm_backward": ((0, 1, 2, 3, 4), 4, 9),
    "native_batch_norm_backward": ((0, 1, 2, 5, 6), 2, 9),
    "cudnn_batch_norm_backward": ((0, 1, 2, 5, 6), 2, None),
    "miopen_batch_norm_backward": ((0, 1, 2, 5, 6), 2, None),
    "_fused_rms_norm_backward": ((0, 1, 3, 4), 4, 5),
}
#: Operators of PyTorch with a function of their own, by category.
_FUNCTIONS: Final[dict[str, dict[str, _Function]]] = {
    "reduction": {
        **dict.fromkeys(("sum", "prod", "mean", "nansum"), partial(_reduction, flops=1, dtype=3)),
        **dict.fromkeys(("amax", "amin", "any", "all"), partial(_reduction, flops=1)),
        **dict.fromkeys(("max", "min"), partial(_reduction, flops=1, indices="too")),
        **dict.fromkeys(("argmax", "argmin"), partial(_reduction, flops=1, indices="only")),
        **dict.fromkeys(("var", "std"), partial(_reduction, flops=3, index=1)),
        "linalg_vector_norm": partial(_reduction, flops=2, index=2, dtype=4),
        "topk": _top,
        "nll_loss_forward": _nll_loss,
        "max_pool2d_with_indices": partial(_pool, dilation=4),
        "avg_pool2d": _pool,
        "_adaptive_avg_pool2d": partial(_resize, category="reduction", flops=1),
        "max_pool2d_with_indices_backward": _max_pool_backward,
    },
    "softmax": {
        **dict.fromkeys(("_softmax", "_log_softmax"), partial(_softmax, backward=False)),
        **dict.fromkeys(
            ("_softmax_backward_data", "_log_softmax_backward_data"),
            partial(_softmax, backward=True),
        ),
    },
    "norm": {
        "native_layer_norm": partial(_row_norm, flops=(5, 7), weights=(2, 3)),
        "native_group_norm": partial(_row_norm, flops=(5, 7), weights=(1, 2), groups=(3, 6)),
        "_fused_rms_norm": partial(_row_norm, flops=(4, 4), weights=(2,)),
        **dict.fromkeys(
            (
                "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm",
                "_native_batch_norm_legit",
            ),
            _batch_norm,
        ),
        **{
            name: partial(_norm_backward, reads=reads, weight=weight, mask=mask)
            for name, (reads, weight, mask) in _NORM_BACKWARDS.items()
        },
    },
    "embedding": {
        "embedding": partial(_lookup_work, table=0, indices=1),
        "index_select": partial(_lookup_work, table=0, indices=2),
        **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
        "embedding_dense_backward": _embedding_backward,
        "gather": _gather,
        **dict.fromkeys(("index", "index_put_", "_index_put_impl_"), _unknown_indices),
    },
    "elementwise": dict.fromkeys(
        ("upsample_nearest2d", "upsample_bilinear2d", "_upsample_bilinear2d_aa"),
        partial(_resize, category="elementwise", flops=0),
    ),
}  # fmt: skip
#: Function and category of each operator, besides pointwise ones.
_LISTED: Final[dict[str, tuple[_Function, str]]] = {
    **{name: (rule.work, rule.category) for name, rule in _RULES.items()},
    **{
        f"aten::{name}": (function, category)
        for category, functions in _FUNCTIONS.items()
        for name, function in functions.items()
    },
}


def _triton(call: OperatorCall) -> Work:
    """Return the bytes of a kernel of Inductor: each pointer once, so a lower bound.

    Where one has indices, each element takes at most one value from another, so that a lookup of 32
    rows does not count the table. The last numbers among the arguments are the sizes of the loops.
    """
    tensors = call.tensors()
    has_indices = any(tensor.type in {"int", "long int"} for tensor in tensors)
    if has_indices:
        loops = 1 if call.name.startswith("triton_poi_") else 2
        numbers = [int(text) for text in call.values if str(text).isdecimal()][-loops:]
        if len(numbers) < loops:
            raise CallError(DATA_DEPENDENT)
        sizes = [min(t.stored, prod(numbers)) * item_bytes(t.type) for t in tensors]
    else:
        sizes = [tensor.size_bytes for tensor in tensors]
    if not sum(sizes):
        raise CallError(NO_SHAPES)
    size = float(sum(sizes))
    return Work("triton", _NAN, 0.0, size, "vector", "estimate", "each pointer counts once")


#: Families of operators, by the start of the name.
_FAMILIES: Final[dict[str, tuple[_Function, str]]] = {
    "aten::_foreach_": (_foreach, "optimizer"),
    **dict.fromkeys(("triton_poi_", "triton_red_", "triton_per_"), (_triton, "triton")),
}


def vector_function(name: str) -> tuple[_Function, str] | None:
    """Return the function of an operator's work and its category; None if it is not listed."""
    if name in _LISTED:
        return _LISTED[name]
    family = next((each for start, each in _FAMILIES.items() if name.startswith(start)), None)
    operands = _OPERANDS.get(_base_name(name))
    if family is None and operands is not None:
        return partial(_pointwise, operands=operands), "elementwise"
    return family

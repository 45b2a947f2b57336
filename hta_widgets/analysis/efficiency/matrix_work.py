"""FLOPs and least bytes of matrix products, convolutions and attention.

A multiply-add is 2 FLOPs. Adding a bias, scales and activations are not counted, nor is softmax in
attention. Least bytes are each input that is read and each output that is written, once.

For example, ``aten::addmm`` of (6, 8) by (8, 10) with a bias of 10 elements, all float, is
2 · 6 · 8 · 10 = 960 FLOPs and 4 · (48 + 80 + 10 + 60) = 792 bytes; causal attention of 8 queries
and 8 keys leaves 36 pairs.

All products have one formula, and so have all convolutions, their gradients, and all attention. The
tables at the end say where each operator has its operands: `MATRIX_WORK` has a function for each
operator, `OUTERMOST` and `FALLBACK` say which of nested operators counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

from hta_widgets.analysis.efficiency.calls import (
    DATA_DEPENDENT,
    NO_VALUES,
    OTHER_ARGUMENTS,
    CallError,
    OperatorCall,
    Tensor,
    Work,
    broadcast,
    elements_bytes,
    is_float4_pair,
    matrix_work,
)
from hta_widgets.analysis.efficiency.engine_work import ENGINE_WORK

_ASSUMED_TYPES: Final = "the types of tensors in a list are not in the file"


def _product(
    call: OperatorCall,
    left: int = 0,
    right: int = 1,
    *,
    added: int | None = None,
    beta: int = 3,
    scales: tuple[int, ...] = (),
    out_type: int | str | None = None,
    is_linear: bool = False,
    is_sum: bool = False,
) -> Work:
    """Return the work of ``left @ right``: matrices, batches of them, or vectors.

    `added` is a further input, unless the argument `beta` is 0; `scales` are others. `out_type` is
    the output's type, or the place of its code. The right operand of a `is_linear` product is
    transposed, and the left one has rows in all dimensions but the last; `is_sum` adds up a batch.
    """
    a, b = call.tensor(left), call.tensor(right)
    rows, columns = call.shape(left), call.shape(right)
    if is_linear:
        rows, columns = (prod(rows[:-1]), rows[-1]), call.shape(right, 2)[::-1]
    elif len(rows) == len(columns) == 1 and added is not None:  # addr: an outer product
        rows, columns = (*rows, 1), (1, *columns)
    else:
        rows = rows if len(rows) > 1 else (1, *rows)
        columns = columns if len(columns) > 1 else (*columns, 1)
    *batches, m, k = rows
    if columns[-2] != k:
        raise CallError(OTHER_ARGUMENTS)
    n = columns[-1]
    batch = prod(broadcast([batches, columns[:-2]]))
    size = call.size_bytes(left, right, *scales)
    if added is not None and not (call.values and call.number(beta, 1) == 0):
        size += call.size_bytes(added)
    type_name = a.type if out_type is None else out_type
    if isinstance(type_name, int):
        type_name = call.output_type(type_name, a.type)
    written = elements_bytes((1 if is_sum else batch) * m * n, type_name)
    return _gemm_work(call, batch, m, n, k, size + written, _layout(a, b, is_linear=is_linear))


def _addmm(call: OperatorCall) -> Work:
    """Return the work of a product that is added to argument 0, in a type of its own since 2.8."""
    has_type = len(call.dims) == 6 and not call.is_present(5)  # else a tensor for the output
    return _product(call, 1, 2, added=0, beta=3 + has_type, out_type=3 if has_type else None)


def _gemm_work(
    call: OperatorCall, batch: int, m: int, n: int, k: int, size: int, layout: str = ""
) -> Work:
    k *= 2 if is_float4_pair(call.type_of(0)) else 1
    certainty, reason = ("estimate", _ASSUMED_TYPES) if call.has_lists else ("exact", "")
    sizes: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": batch, "layout": layout}
    flops = 2 * batch * m * n * k
    return matrix_work("gemm", flops, size, certainty=certainty, reason=reason, **sizes)


def _layout(a: Tensor, b: Tensor, *, is_linear: bool) -> str:
    """Return whether each operand is transposed: ``NN``, ``NT``, ``TN`` or ``TT``."""
    if min(len(a.strides or ()), len(b.strides or ())) < 2:
        return ""
    is_transposed = [
        steps[-1] != 1 and steps[-2] == 1 for steps in (a.strides or (), b.strides or ())
    ]
    is_transposed[1] ^= is_linear
    return "".join("T" if flag else "N" for flag in is_transposed)


def _grouped_product(
    call: OperatorCall, *, offsets: int, scales: tuple[int, ...] = (), out_type: int
) -> Work:
    """Return the work of products of groups, whose bounds are the contents of a tensor."""
    a, b = call.shape(0), call.shape(1)
    ranks = (len(a), len(b))
    groups = call.tensor(offsets).elements if call.is_present(offsets) else 1
    m, k, n = a[-2], a[-1], b[-1]
    batch = a[0] if ranks == (3, 3) else 1
    # Two matrices share K, so each group writes an output.
    outputs = {(2, 3): m * n, (2, 2): groups * m * n, (3, 3): batch * m * n, (3, 2): m * n}
    if ranks not in outputs:
        raise CallError(OTHER_ARGUMENTS)
    default = "c10::BFloat16" if scales else call.type_of(0)
    type_name = call.output_type(out_type, default)
    size = call.size_bytes(0, 1, offsets, *scales) + elements_bytes(outputs[ranks], type_name)
    return _gemm_work(call, batch, m, n, k, size)


#: Places of the bias, stride, padding, dilation, output padding and groups; -1 for none.
_Places = tuple[int, int, int, int, int, int]
#: Input, weight and output or its gradient.
_Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _convolution(call: OperatorCall, places: _Places, *, transposed: bool | None = None) -> Work:
    """Return the work of a forward convolution with any number of dimensions."""
    x, w = call.shape(0), call.shape(1)
    x = (1, *x) if len(x) == len(w) - 1 else x
    if len(x) != len(w) or len(w) < 3:
        raise CallError(OTHER_ARGUMENTS)
    bias, stride, *_, group = places
    groups, strides = max(x[1] // max(w[1], 1), 1), []
    if call.values:
        transposed = call.flag(6) if transposed is None else transposed
        groups = int(call.number(group, 1)) if group >= 0 else groups
        out = _convolution_output(call, x, w, places, groups if transposed else 0)
        strides = call.numbers(stride, len(w) - 2)
    elif call.context.output is not None and len(call.context.output) == len(w):
        out, transposed = call.context.output, False
    else:
        raise CallError(NO_VALUES)
    flops = 2 * prod(w[1:]) * prod(x if transposed else out)
    size = call.size_bytes(0, 1) + elements_bytes(prod(out), call.type_of(0))
    size += call.size_bytes(bias) if bias >= 0 else 0
    return _convolution_work(call, flops, size, (x, w, out), groups, strides)


def _convolution_output(
    call: OperatorCall, x: Sequence[int], w: Sequence[int], places: _Places, groups: int
) -> tuple[int, ...]:
    """Return the shape of the output; `groups` of a transposed convolution, else 0."""
    rank = len(w) - 2
    stride, padding, dilation, extra = (
        call.numbers(place, rank) if place >= 0 else [0] * rank
        for place in (*places[1:4], places[4] if groups else -1)
    )
    reach = [d * (kernel - 1) for d, kernel in zip(dilation, w[2:], strict=True)]
    sides = zip(x[2:], stride, padding, reach, extra, strict=True)
    if groups:
        sizes = [(size - 1) * s - 2 * p + r + 1 + more for size, s, p, r, more in sides]
        return (x[0], w[1] * groups, *sizes)
    return (x[0], w[0], *((size + 2 * p - r - 1) // s + 1 for size, s, p, r, _ in sides))


def _convolution_work(
    call: OperatorCall,
    flops: int,
    size: int,
    shapes: _Shapes,
    groups: int,
    strides: Sequence[int] = (),
) -> Work:
    x, w, _ = shapes
    return matrix_work(
        "convolution",
        flops,
        size,
        certainty="exact" if call.values else "linked",
        batch=x[0],
        channels_in=x[1],
        channels_out=w[0],
        groups=groups,
        kernel_size="×".join(map(str, w[2:])),
        stride="×".join(map(str, strides)),
    )


def _gradients(
    call: OperatorCall,
    places: tuple[int, int, int],
    mask: Sequence[bool],
    *,
    groups: int = 1,
    transposed: bool = False,
) -> Work:
    """Return the work of a convolution's gradients: of input, weight and bias, as in `mask`.

    `places` are the positions of the input, the weight, and the output's gradient.
    """
    x, w, grad = shapes = call.shape(places[0]), call.shape(places[1]), call.shape(places[2])
    type_name = call.type_of(places[2])
    x_bytes, w_bytes, grad_bytes = (call.size_bytes(place) for place in places)
    size = grad_bytes
    size += (w_bytes + elements_bytes(prod(x), type_name)) * mask[0]
    size += (x_bytes + elements_bytes(prod(w), type_name)) * mask[1]
    size += elements_bytes(grad[1], type_name) * mask[2]
    flops = 2 * prod(w[1:]) * prod(x if transposed else grad) * (mask[0] + mask[1])
    groups = groups if transposed else max(x[1] // max(w[1], 1), 1)
    return _convolution_work(call, flops, size, shapes, groups)


def _convolution_backward(call: OperatorCall) -> Work:
    mask = call.mask(10)
    if len(mask) != 3:
        raise CallError(NO_VALUES)
    groups = int(call.number(9, 1))
    return _gradients(call, (1, 2, 0), mask, groups=groups, transposed=call.flag(7))


def _cudnn_convolution_backward(call: OperatorCall) -> Work:
    """Return the work of PyTorch's operator until 1.9, whose gradients are its children."""
    return _gradients(call, (0, 2, 1), [call.gradients > 1, call.gradients > 0, False])


def attention_pairs(
    queries: int, keys: int, *, left: int = -1, right: int = -1, bottom_right: bool = False
) -> int:
    """Return the number of (query, key) pairs that the mask leaves.

    `left` and `right` are the numbers of earlier and later keys that a window shows, -1 for all: a
    causal mask shows 0 later keys.

    Examples
    --------
    >>> attention_pairs(8, 8, right=0)
    36
    """
    shift = keys - queries if bottom_right else 0
    ends = queries * keys if right < 0 else _triangle(queries, keys, shift + right)
    return ends - (0 if left < 0 else _triangle(queries, keys, shift - left - 1))


def _triangle(queries: int, keys: int, shift: int) -> int:
    """Return the sum over queries i of ``min(max(i + 1 + shift, 0), keys)``."""
    first = max(-shift, 0)  # the first query that sees a key
    last = min(max(keys - shift, first), queries)  # from here on, queries see all keys
    if first >= queries:
        return 0
    count = last - first
    partly = count * (first + 1 + shift + last + shift) // 2
    return partly + (queries - last) * keys


#: Whether a mask is causal, and whether the last query sees all keys, by the text of its argument.
_MASKS: Final = {
    "False": (False, False), "True": (True, False),
    "0": (False, False), "1": (True, False), "2": (True, True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """Places of the arguments of one version of an attention operator; None for none.

    `query` is followed by key and value; `mask` is a bias, `window` the first of two sizes,
    `lengths` the sums of lengths of sequences of different lengths. `saved` is the flag that asks
    for logsumexp, True if it is always written. `bottom_right`: the last query sees all keys.
    """

    causal: int
    query: int = 0
    mask: int | None = None
    window: int | None = None
    lengths: int | None = None
    saved: bool | int = True
    backward: bool = False
    heads_last: bool = False
    bottom_right: bool = False

    def fits(self, call: OperatorCall) -> bool:
        """Return whether a call has these arguments: its causal one is a flag or kind of mask."""
        return call.value(self.causal) in _MASKS


def _attention(call: OperatorCall, versions: Sequence[AttentionArguments]) -> Work:
    """Return the work of attention, with the arguments of the first version that fits."""
    places = next((version for version in versions if version.fits(call)), None)
    if places is None:
        raise CallError(OTHER_ARGUMENTS)
    if places.lengths is not None and call.is_present(places.lengths):
        raise CallError(DATA_DEPENDENT)  # the lengths are the contents of a tensor
    q, k, v = (call.shape(places.query + number, 4) for number in range(3))
    if places.heads_last:
        q, k, v = ((s[0], s[2], s[1], s[3]) for s in (q, k, v))
    batch, heads, queries, width = q
    keys, value_width = k[2], v[3]
    left = right = -1
    if places.window is not None:
        left, right = (int(call.number(places.window + number, -1)) for number in range(2))
    is_causal, bottom_right = _MASKS[call.value(places.causal)]
    right = 0 if is_causal else right
    bottom_right |= places.bottom_right
    pairs = attention_pairs(queries, keys, left=left, right=right, bottom_right=bottom_right)
    rows, type_name = batch * heads, call.type_of(places.query)
    is_masked = places.mask is not None and call.is_present(places.mask)
    size = sum(call.size_bytes(places.query + number) for number in range(3))
    size += call.size_bytes(places.mask) if places.mask is not None else 0
    out = elements_bytes(rows * queries * value_width, type_name)
    is_saved = places.saved if isinstance(places.saved, bool) else call.flag(places.saved)
    size += 4 * rows * queries * is_saved
    if places.backward:
        flops = rows * pairs * (6 * width + 4 * value_width)
        model = rows * pairs * (4 * width + 4 * value_width)
        # The gradient of the output and the output are as large; three gradients are written.
        size += 2 * out + sum(elements_bytes(prod(shape), type_name) for shape in (q, k, v))
    else:
        flops = model = 2 * rows * pairs * (width + value_width)
        size += out
    return matrix_work(
        "attention",
        flops,
        size,
        model_flops=model,
        certainty="upper bound" if is_masked else "exact",
        batch=batch,
        heads=heads,
        kv_heads=k[1],
        query_length=queries,
        key_length=keys,
        head_size=width,
        causal=right == 0,
    )


def _data_dependent(_call: OperatorCall) -> Work:
    raise CallError(DATA_DEPENDENT)


_Function = Callable[[OperatorCall], Work]
_V = AttentionArguments
_SDPA: Final = "aten::_scaled_dot_product_"
#: Versions of operators, the newest first: 2.0 had no bias, and cuDNN's had none until 2.4.
_ATTENTION: Final = {
    f"{_SDPA}flash_attention": (_V(4),),
    f"{_SDPA}flash_attention_backward": (_V(11, query=1, backward=True),),
    f"{_SDPA}flash_attention_for_cpu": (_V(4, mask=5),),
    f"{_SDPA}flash_attention_for_cpu_backward": (_V(7, query=1, mask=8, backward=True),),
    f"{_SDPA}efficient_attention": (_V(6, mask=3, saved=4), _V(4, saved=3)),
    f"{_SDPA}efficient_attention_backward": (
        _V(11, query=1, mask=4, backward=True),
        _V(6, query=1, backward=True),
    ),
    f"{_SDPA}cudnn_attention": (_V(6, mask=3, saved=4), _V(4)),
    f"{_SDPA}cudnn_attention_backward": (
        _V(14, query=1, mask=8, backward=True),
        _V(11, query=1, backward=True),
    ),
    f"{_SDPA}fused_attention_overrideable": (_V(5, mask=3),),
    f"{_SDPA}fused_attention_overrideable_backward": (_V(13, query=1, mask=4, backward=True),),
    "flash_attn::_flash_attn_forward": (_V(5, window=6, heads_last=True, bottom_right=True),),
    "flash_attn::_flash_attn_backward": (
        _V(11, query=1, window=12, backward=True, heads_last=True, bottom_right=True),
    ),
}
_ATTENTION_KERNELS: Final = {
    "aten::_flash_attention_forward": (_V(8, lengths=3, window=11, heads_last=True),),
    "aten::_flash_attention_backward": (
        _V(11, query=1, lengths=6, window=15, backward=True, heads_last=True),
    ),
    "aten::_efficient_attention_forward": (_V(9, mask=3, lengths=4, saved=10, heads_last=True),),
}
#: Places of the arguments of forward convolutions, and whether they are transposed.
_CONVOLUTIONS: Final[dict[str, tuple[_Places, bool]]] = {
    **dict.fromkeys(
        ("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::cudnn_convolution_relu"),
        ((2, 3, 4, 5, -1, 6), False),
    ),
    **dict.fromkeys(
        (
            "aten::mkldnn_convolution",
            "aten::miopen_convolution",
            "aten::miopen_depthwise_convolution",
        ),
        ((2, 4, 3, 5, -1, 6), False),
    ),
    "aten::cudnn_convolution": ((-1, 3, 2, 4, -1, 5), False),
    "aten::cudnn_convolution_transpose": ((-1, 4, 2, 5, 3, 6), True),
    "aten::miopen_convolution_transpose": ((2, 5, 3, 6, 4, 7), True),
    "aten::_conv_depthwise2d": ((3, 4, 5, 6, -1, -1), False),
}
_PLAIN: Final = partial(_convolution, places=(2, 3, 4, 5, 7, 8))
_added_product: Final = partial(_product, left=1, right=2, added=0)

#: Matrix products: the innermost counts.
GEMMS: Final[dict[str, _Function]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm"), partial(_product, out_type=2)),
    **dict.fromkeys(("aten::mv", "aten::dot", "aten::vdot"), _product),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm"), _addmm),
    **dict.fromkeys(("aten::_addmm_activation", "aten::addmv", "aten::addr"), _added_product),
    "aten::addbmm": partial(_added_product, is_sum=True),
    "aten::_int_mm": partial(_product, out_type="int"),
    "aten::_scaled_mm": partial(_product, scales=(2, 3, 4), out_type=6),
    "aten::_scaled_mm_v2": partial(_product, scales=(2, 5, 8), out_type=9),
    "aten::_grouped_mm": partial(_grouped_product, offsets=2, out_type=4),
    "aten::_scaled_grouped_mm": partial(_grouped_product, offsets=4, scales=(2, 3, 5), out_type=7),
    "aten::_scaled_grouped_mm_v2": partial(
        _grouped_product, offsets=8, scales=(2, 5, 9), out_type=10
    ),
    "aten::_weight_int8pack_mm": partial(_product, scales=(2,), is_linear=True),
    "aiter::gemm_a16w16": partial(_product, scales=(2,), out_type=3, is_linear=True),
    "vllm::rocm_unquantized_gemm": partial(_product, scales=(2,), is_linear=True),
}

#: Convolutions and attention: the outermost counts, also where matrix products do the work.
OUTERMOST: Final[dict[str, _Function]] = {
    **dict.fromkeys(("aten::convolution", "aten::convolution_overrideable"), _PLAIN),
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution_backward": _cudnn_convolution_backward,
    **{name: partial(_attention, versions=versions) for name, versions in _ATTENTION.items()},
    "flash_attn::_flash_attn_varlen_forward": _data_dependent,
    "flash_attn::_flash_attn_varlen_backward": _data_dependent,
    **ENGINE_WORK,
}

#: Operators that count only if no operator of the lists above encloses them or is within them.
FALLBACK: Final[dict[str, _Function]] = {
    "aten::linear": partial(_product, scales=(2,), is_linear=True),
    "aten::matmul": _product,
    **{
        name: partial(_convolution, places=places, transposed=transposed)
        for name, (places, transposed) in _CONVOLUTIONS.items()
    },
    **{
        name: partial(_attention, versions=versions)
        for name, versions in _ATTENTION_KERNELS.items()
    },
}

MATRIX_WORK: Final = {**GEMMS, **OUTERMOST, **FALLBACK}

_IS_ATTENTION: Final = re.compile(r"attention|flash_attn")


def matrix_category(name: str) -> str:
    """Return the category of an operator of `MATRIX_WORK`."""
    if _IS_ATTENTION.search(name):
        return "attention"
    return "convolution" if "conv" in name else "gemm"

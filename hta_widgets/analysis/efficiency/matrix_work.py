"""FLOPs and least bytes of matrix products, convolutions and attention.

A multiply-add is 2 FLOPs. Adding a bias, scales and activations are not counted, nor is softmax in
attention. Least bytes are each input that is read and each output that is written, once.

For example, ``aten::addmm`` of (6, 8) by (8, 10) with a bias of 10 elements, all float, is
2 · 6 · 8 · 10 = 960 FLOPs and 4 · (48 + 80 + 10 + 60) = 792 bytes; causal attention of 8 queries
and 8 keys leaves 36 pairs.

`MATRIX_WORK` has a function for each operator, `OUTERMOST` and `FALLBACK` say which of nested
operators counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    elements_bytes,
    matrix_work,
)
from hta_widgets.analysis.efficiency.engine_work import ENGINE_WORK

_PACKED: Final = "float4_e2m1fn_x2"


def _product(call: OperatorCall, left: int, right: int, *, added: int | None = None) -> Work:
    """Return the work of ``left @ right``, with 2 or 3 dimensions; `added` is a further input."""
    a, b = call.tensor(left), call.tensor(right)
    if len(a.dims) < 2 or len(b.dims) != len(a.dims):
        raise CallError(OTHER_ARGUMENTS)
    *batches, m, k = a.dims
    n = b.dims[-1]
    if b.dims[-2] != k:
        raise CallError(OTHER_ARGUMENTS)
    if _PACKED in a.type:
        k *= 2
    batch = prod(batches)
    inputs = a.size_bytes + b.size_bytes
    if added is not None:
        is_read = not call.values or call.number(added + 3, 1) != 0
        inputs += call.size_bytes(added) * is_read
    written = elements_bytes(batch * m * n, a.type)
    return _gemm_work(batch, m, n, k, inputs + written, _layout(a, b))


def _gemm_work(batch: int, m: int, n: int, k: int, size: int, layout: str = "") -> Work:
    flops = 2 * batch * m * n * k
    return matrix_work("gemm", flops, size, m=m, n=n, k=k, batch=batch, layout=layout)


def _layout(a: Tensor, b: Tensor) -> str:
    """Return whether each operand is transposed: ``NN``, ``NT``, ``TN`` or ``TT``."""
    if a.strides is None or b.strides is None:
        return ""
    is_transposed = [
        len(t.strides or ()) >= 2 and (t.strides or ())[-1] != 1 and (t.strides or ())[-2] == 1
        for t in (a, b)
    ]
    return "".join("T" if flag else "N" for flag in is_transposed)


def _mm(call: OperatorCall) -> Work:
    return _product(call, 0, 1)


def _addmm(call: OperatorCall) -> Work:
    return _product(call, 1, 2, added=0)


def _addbmm(call: OperatorCall) -> Work:
    batch, m, k = call.shape(1, 3)
    n = call.shape(2, 3)[-1]
    out = call.tensor(1).type
    size = call.size_bytes(0, 1, 2) + elements_bytes(m * n, out)
    return _gemm_work(batch, m, n, k, size)


def _vector_product(call: OperatorCall, left: int, right: int, *, added: int | None = None) -> Work:
    a, b = call.shape(left), call.shape(right)
    if added is not None and len(a) == len(b) == 1:  # addr: an outer product
        m, n, k = a[0], b[0], 1
    else:
        m, n, k = prod(a[:-1]), 1, a[-1]
    size = call.size_bytes(left, right) + elements_bytes(m * n, call.tensor(left).type)
    size += 0 if added is None else call.size_bytes(added)
    return _gemm_work(1, m, n, k, size)


def _linear(call: OperatorCall, out_type: int | None = None) -> Work:
    """Return the work of ``x @ w.T + bias``."""
    x, w = call.shape(0), call.shape(1, 2)
    if x[-1] != w[1]:
        raise CallError(OTHER_ARGUMENTS)
    type_name = call.tensor(0).type
    if out_type is not None:
        type_name = call.output_type(out_type, type_name)
    m, n, k = prod(x[:-1]), w[0], x[-1]
    size = call.size_bytes(0, 1, 2) + elements_bytes(m * n, type_name)
    return _gemm_work(1, m, n, k, size)


def _matmul(call: OperatorCall) -> Work:
    a, b = call.shape(0), call.shape(1)
    if len(a) == 1 or len(b) == 1:
        return _vector_product(call, *((0, 1) if len(b) == 1 else (1, 0)))
    m, k, n = a[-2], a[-1], b[-1]
    batch = max(prod(a[:-2]), prod(b[:-2]))
    size = call.size_bytes(0, 1) + elements_bytes(batch * m * n, call.tensor(0).type)
    return _gemm_work(batch, m, n, k, size)


def _scaled_mm(call: OperatorCall) -> Work:
    a, b = call.shape(0, 2), call.shape(1, 2)
    packed = 2 if _PACKED in call.type_of(0) else 1
    m, k, n = a[0], a[1] * packed, b[1]
    written = elements_bytes(m * n, call.output_type(6, call.type_of(0)))
    layout = _layout(call.tensor(0), call.tensor(1))
    return _gemm_work(1, m, n, k, call.size_bytes(0, 1, 2, 3, 4) + written, layout)


def _grouped_mm(call: OperatorCall) -> Work:
    a, b = call.shape(0), call.shape(1)
    ranks, groups = (len(a), len(b)), call.tensor(2).elements if call.is_present(2) else 1
    m, k, n = a[-2], a[-1], b[-1]
    batch = a[0] if ranks == (3, 3) else 1
    # Two matrices share K, so each group writes an output.
    outputs = {(2, 3): m * n, (2, 2): groups * m * n, (3, 3): batch * m * n, (3, 2): m * n}
    if ranks not in outputs:
        raise CallError(OTHER_ARGUMENTS)
    size = call.size_bytes(0, 1, 2) + elements_bytes(outputs[ranks], call.tensor(0).type)
    return _gemm_work(batch, m, n, k, size)


def _out_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _transposed_size(size: int, kernel: int, stride: int, pad: int, dilation: int, out: int) -> int:
    return (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + out + 1


#: Places of the bias, stride, padding, dilation, output padding and groups; -1 for none.
_Places = tuple[int, int, int, int, int, int]


def _convolution(call: OperatorCall, places: _Places, *, transposed: bool | None = None) -> Work:
    x, w = call.shape(0), call.shape(1)
    if len(x) == len(w) - 1:
        x = (1, *x)
    if len(x) != len(w) or len(w) < 3:
        raise CallError(OTHER_ARGUMENTS)
    bias, stride, *_ = places
    if call.values:
        transposed = call.flag(6) if transposed is None else transposed
        out, groups = _output(call, x, w, places, transposed=transposed)
    elif call.context.output is not None and len(call.context.output) == len(w):
        out, groups, transposed = call.context.output, max(x[1] // max(w[1], 1), 1), False
    else:
        raise CallError(NO_VALUES)
    flops = 2 * prod(w[1:]) * (prod(x) if transposed else prod(out))
    size = call.size_bytes(0, 1) + elements_bytes(prod(out), call.tensor(0).type)
    size += call.size_bytes(bias) if bias >= 0 else 0
    certainty = "exact" if call.values else "linked"
    strides = call.numbers(stride, len(w) - 2) if call.values and stride >= 0 else ()
    return matrix_work(
        "convolution", flops, size, certainty=certainty, **_sizes(x, w, groups, strides)
    )


def _output(
    call: OperatorCall,
    x: tuple[int, ...],
    w: tuple[int, ...],
    places: _Places,
    *,
    transposed: bool,
) -> tuple[tuple[int, ...], int]:
    """Return the output's shape and the number of groups."""
    _, stride, padding, dilation, out_padding, group = places
    rank = len(w) - 2
    groups = int(call.number(group, 1)) if group >= 0 else max(x[1] // max(w[1], 1), 1)
    steps = call.numbers(stride, rank), call.numbers(padding, rank), call.numbers(dilation, rank)
    if transposed:
        more = call.numbers(out_padding, rank) if out_padding >= 0 else [0] * rank
        sizes = map(_transposed_size, x[2:], w[2:], *steps, more)
        return (x[0], w[1] * groups, *sizes), groups
    return (x[0], w[0], *map(_out_size, x[2:], w[2:], *steps)), groups


def _sizes(
    x: Sequence[int], w: Sequence[int], groups: int, strides: Sequence[int]
) -> dict[str, Any]:
    return {
        "batch": x[0],
        "channels_in": x[1],
        "channels_out": w[0],
        "groups": groups,
        "kernel_size": "×".join(map(str, w[2:])),
        "stride": "×".join(map(str, strides)),
    }


def _convolution_backward(call: OperatorCall) -> Work:
    grad, x, w = call.shape(0), call.shape(1), call.shape(2)
    mask = call.mask(10)
    if len(mask) != 3:
        raise CallError(NO_VALUES)
    return _gradients(call, (0, 1, 2), (grad, x, w), mask, transposed=call.flag(7))


def _gradients(
    call: OperatorCall,
    places: tuple[int, int, int],
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    mask: Sequence[bool],
    *,
    transposed: bool = False,
    certainty: str = "exact",
) -> Work:
    """Return the work of a convolution's gradients: of input, weight and bias, as in `mask`."""
    grad, x, w = shapes
    per_gradient = 2 * prod(w[1:]) * (prod(x) if transposed else prod(grad))
    x_bytes, w_bytes = call.size_bytes(places[1]), call.size_bytes(places[2])
    type_name = call.tensor(places[0]).type
    size = call.size_bytes(places[0])
    size += (w_bytes + elements_bytes(prod(x), type_name)) * mask[0]
    size += (x_bytes + elements_bytes(prod(w), type_name)) * mask[1]
    bias = grad[1] if len(mask) > 2 and mask[2] else 0
    groups = max(x[1] // max(w[1], 1), 1) if not transposed else 1
    return matrix_work(
        "convolution",
        per_gradient * (mask[0] + mask[1]),
        size + elements_bytes(bias, type_name),
        certainty=certainty,
        **_sizes(x, w, groups, ()),
    )


def _cudnn_convolution_backward(call: OperatorCall) -> Work:
    """Return the work of PyTorch's operator until 1.9, whose gradients are its children."""
    x, grad, w = call.shape(0), call.shape(1), call.shape(2)
    mask = [call.gradients > 1, call.gradients > 0]
    certainty = "exact" if call.values else "linked"
    return _gradients(call, (1, 0, 2), (grad, x, w), mask, certainty=certainty)


def attention_pairs(
    queries: int, keys: int, *, causal: bool, bottom_right: bool = False, left: int = -1
) -> int:
    """Return the number of (query, key) pairs that the mask leaves.

    `left` is the number of earlier keys that a sliding window shows; -1 for all.

    Examples
    --------
    >>> attention_pairs(8, 8, causal=True)
    36
    """
    if not causal and left < 0:
        return queries * keys
    shift = keys - queries if bottom_right else 0
    if left < 0:
        return _triangle(queries, keys, shift)
    # Keys up to the diagonal, less those before the window.
    ends = _triangle(queries, keys, shift) if causal else queries * keys
    return ends - _triangle(queries, keys, shift - left - 1)


def _triangle(queries: int, keys: int, shift: int) -> int:
    """Return the sum over queries i of ``min(max(i + 1 + shift, 0), keys)``."""
    first = max(-shift, 0)  # the first query that sees a key
    last = min(max(keys - shift, first), queries)  # from here on, queries see all keys
    if first >= queries:
        return 0
    count = last - first
    partly = count * (first + 1 + shift + last + shift) // 2
    return partly + (queries - last) * keys


def _attention(
    call: OperatorCall,
    *,
    causal: int,
    heads_last: bool = False,
    index: int = 0,
    backward: bool = False,
    mask: int | None = None,
    saved: bool | int = False,
    window: int | None = None,
    bottom_right: bool = False,
    lengths: int | None = None,
) -> Work:
    """Return the work of attention.

    `index` is the place of the queries; `causal`, `mask`, `window` and `lengths` are of arguments;
    `saved`: logsumexp is written, always or if the argument at this place is True.
    """
    if lengths is not None and call.is_present(lengths):
        raise CallError(DATA_DEPENDENT)  # the lengths are the contents of a tensor
    q, k, v = (call.shape(index + place, 4) for place in range(3))
    if heads_last:
        q, k, v = ((s[0], s[2], s[1], s[3]) for s in (q, k, v))
    batch, heads, queries, width = q
    keys, value_width = k[2], v[3]
    is_causal, left = call.flag(causal), -1
    if window is not None and call.values:
        left, right = int(call.number(window, -1)), int(call.number(window + 1, -1))
        is_causal = is_causal or right == 0
    pairs = attention_pairs(queries, keys, causal=is_causal, bottom_right=bottom_right, left=left)
    rows = batch * heads
    out = rows * queries * value_width
    type_name = call.tensor(index).type
    inputs = call.size_bytes(index, index + 1, index + 2)
    statistics = 4 * rows * queries
    masked = mask is not None and call.is_present(mask)
    inputs += call.size_bytes(mask) if mask is not None else 0
    if backward:
        flops = rows * pairs * (6 * width + 4 * value_width)
        model = rows * pairs * (4 * width + 4 * value_width)
        # The gradient of the output and the output are as large; three gradients are written.
        written = sum(elements_bytes(prod(shape), type_name) for shape in (q, k, v))
        size = inputs + written + 2 * elements_bytes(out, type_name) + statistics
    else:
        flops = model = 2 * rows * pairs * (width + value_width)
        is_saved = saved if isinstance(saved, bool) else call.flag(saved)
        size = inputs + elements_bytes(out, type_name) + statistics * is_saved
    return matrix_work(
        "attention",
        flops,
        size,
        model_flops=model,
        certainty="upper bound" if masked else "exact",
        batch=batch,
        heads=heads,
        kv_heads=k[1],
        query_length=queries,
        key_length=keys,
        head_size=width,
        causal=is_causal,
    )


def _data_dependent(_call: OperatorCall) -> Work:
    raise CallError(DATA_DEPENDENT)


_PLAIN: Final = (2, 3, 4, 5, 7, 8)

#: Matrix products: the innermost counts.
GEMMS: Final[dict[str, Callable[[OperatorCall], Work]]] = {
    "aten::mm": _mm,
    "aten::bmm": _mm,
    "aten::addmm": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::baddbmm": _addmm,
    "aten::addbmm": _addbmm,
    "aten::mv": partial(_vector_product, left=0, right=1),
    "aten::dot": partial(_vector_product, left=0, right=1),
    "aten::vdot": partial(_vector_product, left=0, right=1),
    "aten::addmv": partial(_vector_product, left=1, right=2, added=0),
    "aten::addr": partial(_vector_product, left=1, right=2, added=0),
    "aten::_scaled_mm": _scaled_mm,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _grouped_mm,
    "aiter::gemm_a16w16": partial(_linear, out_type=3),
    "vllm::rocm_unquantized_gemm": _linear,
}

#: Convolutions and attention: the outermost counts, also where matrix products do the work.
OUTERMOST: Final[dict[str, Callable[[OperatorCall], Work]]] = {
    "aten::convolution": partial(_convolution, places=_PLAIN),
    "aten::convolution_overrideable": partial(_convolution, places=_PLAIN),
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution_backward": _cudnn_convolution_backward,
    "aten::_scaled_dot_product_flash_attention": partial(_attention, causal=4, saved=True),
    "aten::_scaled_dot_product_flash_attention_backward": partial(
        _attention, causal=11, index=1, backward=True
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu": partial(
        _attention, causal=4, saved=True, mask=5
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": partial(
        _attention, causal=7, index=1, backward=True, mask=8
    ),
    "aten::_scaled_dot_product_efficient_attention": partial(_attention, causal=6, saved=4, mask=3),
    "aten::_scaled_dot_product_efficient_attention_backward": partial(
        _attention, causal=11, index=1, backward=True, mask=4
    ),
    "aten::_scaled_dot_product_cudnn_attention": partial(_attention, causal=6, saved=4, mask=3),
    "aten::_scaled_dot_product_cudnn_attention_backward": partial(
        _attention, causal=14, index=1, backward=True
    ),
    "flash_attn::_flash_attn_forward": partial(
        _attention, causal=5, heads_last=True, saved=True, window=6, bottom_right=True
    ),
    "flash_attn::_flash_attn_backward": partial(
        _attention, causal=11, heads_last=True, index=1, backward=True, window=12, bottom_right=True
    ),
    "flash_attn::_flash_attn_varlen_forward": _data_dependent,
    "flash_attn::_flash_attn_varlen_backward": _data_dependent,
    **ENGINE_WORK,
}

#: Operators that count only if no operator of the lists above encloses them or is within them.
FALLBACK: Final[dict[str, Callable[[OperatorCall], Work]]] = {
    "aten::linear": _linear,
    "aten::matmul": _matmul,
    **{
        f"aten::conv{dimensions}d": partial(
            _convolution, places=(2, 3, 4, 5, -1, 6), transposed=False
        )
        for dimensions in (1, 2, 3)
    },
    "aten::cudnn_convolution": partial(_convolution, places=(-1, 3, 2, 4, -1, 5), transposed=False),
    "aten::mkldnn_convolution": partial(_convolution, places=(2, 4, 3, 5, -1, 6), transposed=False),
    "aten::miopen_convolution": partial(_convolution, places=(2, 4, 3, 5, -1, 6), transposed=False),
    "aten::cudnn_convolution_transpose": partial(
        _convolution, places=(-1, 4, 2, 5, 3, 6), transposed=True
    ),
    "aten::_conv_depthwise2d": partial(_convolution, places=(3, 4, 5, 6, -1, -1), transposed=False),
    "aten::_flash_attention_forward": partial(
        _attention, causal=8, heads_last=True, saved=True, lengths=3
    ),
}

MATRIX_WORK: Final = {**GEMMS, **OUTERMOST, **FALLBACK}

#: Categories of matrix operators whose work is unknown.
_ATTENTION: Final = re.compile(r"attention|flash_attn")


def matrix_category(name: str) -> str:
    """Return the category of an operator of `MATRIX_WORK`."""
    if _ATTENTION.search(name):
        return "attention"
    return "convolution" if "conv" in name else "gemm"

"""FLOPs and least bytes of matrix products and convolutions, and which matrix operators count.

A multiply-add is 2 FLOPs. Adding a bias, scales and activations are not counted. Least bytes are
each input that is read and each output that is written, once.

For example, ``aten::addmm`` of (6, 8) by (8, 10) with a bias of 10 elements, all float, is
2 · 6 · 8 · 10 = 960 FLOPs and 4 · (48 + 80 + 10 + 60) = 792 bytes.

All products have one formula, products of groups and of packed weights another, and so have all
convolutions and their gradients. The tables at the end say where each operator has its operands:
`MATRIX_WORK` has a function for each operator, `OUTERMOST` and `FALLBACK` say which of nested
operators counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

from hta_widgets.analysis.efficiency.attention_work import (
    ATTENTION,
    ATTENTION_KERNELS,
    attention_work,
)
from hta_widgets.analysis.efficiency.calls import (
    NO_VALUES,
    OTHER_ARGUMENTS,
    CallError,
    OperatorCall,
    Tensor,
    Work,
    broadcast,
    elements_bytes,
    is_float4_pair,
    is_float8,
    matrix_work,
)
from hta_widgets.analysis.efficiency.engine_work import ENGINE_WORK, EVERY_EXPERT
from hta_widgets.trace.call_args import decode_arg

_ASSUMED_TYPES: Final = "the types of tensors in a list are not in the file"
_EVERY_MATRIX: Final = "assumes that each matrix among the arguments is a weight"
_NO_STATES: Final = "without the bytes between time steps"


def _product(
    call: OperatorCall,
    left: int = 0,
    right: int = 1,
    *,
    added: int | None = None,
    beta: int = 3,
    reads: tuple[int, ...] = (),
    out: int | None = None,
    out_type: int | str | None = None,
    is_linear: bool = False,
    is_sum: bool = False,
    is_packed: bool = False,
) -> Work:
    """Return the work of ``left @ right``: matrices, batches of them, or vectors.

    `added` is a further input, unless the argument `beta` is 0; `reads` are others. `out` is the
    place of the output; `out_type` is its type, or the place of the type's code. The right operand
    of a `is_linear` product is transposed, and the left one has rows in all dimensions but the
    last; `is_sum` adds up a batch. Bytes of `is_packed` operands are pairs of 4-bit values.
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
    size = call.size_bytes(left, right, *reads)
    if added is not None and not (call.values and call.number(beta, 1) == 0):
        size += call.size_bytes(added)
    type_name = a.type if out_type is None else out_type
    if isinstance(type_name, int):
        type_name = call.output_type(type_name, a.type)
    if out is not None and call.is_present(out):
        type_name = call.type_of(out)
    written = elements_bytes((1 if is_sum else batch) * m * n, type_name)
    k *= 2 if is_packed or is_float4_pair(a.type) else 1
    sizes = (batch, m, n, k)
    return _gemm_work(call, sizes, size + written, left, _layout(a, b, is_linear=is_linear))


def _addmm(call: OperatorCall) -> Work:
    """Return the work of a product that is added to argument 0, in a type of its own since 2.8."""
    has_type = len(call.dims) == 6 and not call.is_present(5)  # else a tensor for the output
    return _product(call, 1, 2, added=0, beta=3 + has_type, out_type=3 if has_type else None)


def _gemm_work(
    call: OperatorCall,
    sizes: tuple[int, int, int, int],
    size: int,
    left: int = 0,
    layout: str = "",
    estimate: str = "",
) -> Work:
    """Return the work of `sizes`: batch, rows, columns and depth; `left` is an operand's place."""
    batch, m, n, k = sizes
    estimate = estimate or (_ASSUMED_TYPES if call.has_lists else "")
    return matrix_work(
        "gemm",
        2 * batch * m * n * k,
        size,
        certainty="estimate" if estimate else "exact",
        reason=estimate,
        type_name=call.type_of(left),
        m=m,
        n=n,
        k=k,
        batch=batch,
        layout=layout,
    )


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
    call: OperatorCall,
    left: int = 0,
    right: int = 1,
    *,
    offsets: int | None = None,
    reads: tuple[int, ...] = (),
    out: int | None = None,
    out_type: int | None = None,
    is_linear: bool = False,
    is_packed: bool = False,
) -> Work:
    """Return the work of products of groups, whose bounds are the contents of a tensor."""
    a, b = call.shape(left), call.shape(right)
    b = (*b[:-2], *b[:-3:-1]) if is_linear else b
    ranks = (len(a), len(b))
    groups = 1
    if offsets is not None and call.is_present(offsets):
        groups, reads = call.tensor(offsets).elements, (*reads, offsets)
    m, k, n = a[-2], a[-1], b[-1]
    batch = a[0] if ranks == (3, 3) else 1
    # Two matrices share K, so each group writes an output.
    outputs = {(2, 3): m * n, (2, 2): groups * m * n, (3, 3): batch * m * n, (3, 2): m * n}
    if ranks not in outputs or b[-2] != k:
        raise CallError(OTHER_ARGUMENTS)
    type_name = call.type_of(left)
    if out is not None:
        type_name = call.type_of(out)
    elif is_float8(type_name) or is_float4_pair(type_name):
        type_name = "c10::BFloat16"
    if out_type is not None:
        type_name = call.output_type(out_type, type_name)
    size = call.size_bytes(left, right, *reads) + elements_bytes(outputs[ranks], type_name)
    k *= 2 if is_packed or is_float4_pair(call.type_of(left)) else 1
    return _gemm_work(call, (batch, m, n, k), size, left)


def _packed_product(
    call: OperatorCall, reads: tuple[int, ...], *, columns: int, dim: int | None = None
) -> Work:
    """Return the work of a product with packed weights.

    The columns are a dimension of the argument `columns`, such as that of its scales, or its value.
    """
    *rows, k = call.shape(0)
    n = int(call.number(columns)) if dim is None else call.shape(columns)[dim]
    m, type_name = prod(rows), call.type_of(0)
    size = call.size_bytes(0, *reads) + elements_bytes(m * n, type_name)
    return _gemm_work(call, (1, m, n, k), size)


def _marlin_product(call: OperatorCall, *, has_experts: bool = False) -> Work:
    """Return the work of Marlin, in any version: m, n and k are numbers that follow each other.

    With experts, each row goes to as many of them as the number before the first flag says.
    """
    m, k = call.shape(0, 2)
    numbers = [int(text) if str(text).isdecimal() else -1 for text in call.values]
    triples = zip(numbers, numbers[1:], numbers[2:], strict=False)
    n = next((n for rows, n, depth in triples if (rows, depth) == (m, k) and n > 0), 0)
    if not n:
        raise CallError(OTHER_ARGUMENTS if call.values else NO_VALUES)
    places = [place for place in range(1, len(call.dims)) if call.is_present(place)]
    type_name = call.type_of(0)
    if not has_experts:
        # The last tensor is a workspace, and one of the output's shape is the output.
        read = [place for place in places[:-1] if call.shape(place) != (m, n)]
        size = call.size_bytes(0, *read) + elements_bytes(m * n, type_name)
        return _gemm_work(call, (1, m, n, k), size)
    flags = [place for place, text in enumerate(call.values) if text in {"True", "False"}]
    rows = m * max(numbers[flags[0] - 1], 1)
    weights = [call.tensor(place) for place in places if len(call.shape(place)) == 3]
    experts = weights[0].dims[0]
    stored = sum(tensor.size_bytes for tensor in weights) * min(rows, experts) // experts
    size = call.size_bytes(0) + stored + elements_bytes(rows * n, type_name)
    return _gemm_work(call, (1, rows, n, k), size, estimate=EVERY_EXPERT)


def _te_product(call: OperatorCall) -> Work:
    """Return the work of Transformer Engine's product of transposed matrices."""
    a, out = call.shape(0), call.shape(10)
    k = a[-1] if call.number(4) else prod(a[:-1])
    m, n = prod(out[:-1]), out[-1]
    size = call.size_bytes(0, 5, 14, 10) + call.size_bytes(10) * bool(call.number(20))
    layout = "".join("T" if call.number(place) else "N" for place in (4, 9))
    return _gemm_work(call, (1, m, n, k), size, layout=layout)


def _layer(call: OperatorCall, *, weight_first: bool = False) -> Work:
    """Return the work of a layer without operators below, by the matrices among its arguments."""
    matrices = [tensor for tensor in call.tensors() if len(tensor.dims) > 1]
    if len(matrices) < 2:
        raise CallError(OTHER_ARGUMENTS)
    x = matrices.pop(int(weight_first))
    weights = [tensor for tensor in matrices if len(tensor.dims) == 2]
    m, k = prod(x.dims[:-1]), x.dims[-1]
    if not weights or weights[0].dims[1] != k:
        raise CallError(OTHER_ARGUMENTS)
    width = weights[-1].dims[0]
    size = sum(tensor.size_bytes for tensor in call.tensors()) + elements_bytes(m * width, x.type)
    return _layers(call, m, k, weights, size, _EVERY_MATRIX)


def _recurrence(call: OperatorCall, *, weights: tuple[int, ...], backward: bool = False) -> Work:
    """Return the work of recurrent layers: each matrix times the inputs of each time step."""
    x = call.shape(0)
    tensors = [tensor for place in weights for tensor in call.items(place)]
    matrices = [tensor for tensor in tensors if len(tensor.dims) == 2]
    m = prod(x[:-1])
    written = elements_bytes(m * matrices[-1].dims[1], call.type_of(0))
    size = call.size_bytes(0) + sum(tensor.size_bytes for tensor in tensors) + written
    work = _layers(call, m, x[-1], matrices, size, _NO_STATES)
    return _twice(work) if backward else work


def _layers(
    call: OperatorCall, m: int, k: int, weights: Sequence[Tensor], size: int, estimate: str
) -> Work:
    """Return the work of the products of `m` rows by each of some weights, as one product."""
    n = sum(tensor.elements for tensor in weights)
    work = _gemm_work(call, (1, m, n, 1), size, estimate=estimate)
    return replace(work, parameters={"m": m, "n": weights[0].dims[0], "k": k})


def _twice(work: Work, executed: float = 2) -> Work:
    """Return the work of gradients of the input and of the weights."""
    return replace(
        work,
        flops=executed * work.flops,
        model_flops=2 * work.model_flops,
        min_bytes=2 * work.min_bytes,
    )


def _backward(call: OperatorCall, forward: str) -> Work:
    """Return the work of an autograd function's gradients, from the arguments of its forward."""
    if call.context.forward is None:
        raise CallError("the forward call is not in the file")
    dims, types, strides, values = map(decode_arg, call.context.forward)
    work = MATRIX_WORK[forward](OperatorCall(forward, dims, types, strides, values))
    # Attention computes its scores again.
    work = _twice(work, 2.5 if work.category == "attention" else 2)
    return replace(work, certainty="estimate", reason=work.reason or _EVERY_MATRIX)


#: Places of the bias, stride, padding, dilation, output padding and groups; -1 for the default.
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
        call.numbers(place, rank) if place >= 0 else [default] * rank
        for place, default in zip(
            (*places[1:4], places[4] if groups else -1), (1, 0, 1, 0), strict=True
        )
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


_Function = Callable[[OperatorCall], Work]
#: Places of the arguments of forward convolutions, and whether they are transposed.
_CONVOLUTIONS: Final[dict[tuple[str, ...], tuple[_Places, bool]]] = {
    ("conv1d", "conv2d", "conv3d", "cudnn_convolution_relu", "miopen_convolution_relu"):
        ((2, 3, 4, 5, -1, 6), False),
    ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"): ((2, 3, 4, 7, 5, 6), True),
    ("mkldnn_convolution", "miopen_convolution", "miopen_depthwise_convolution"):
        ((2, 4, 3, 5, -1, 6), False),
    ("cudnn_convolution",): ((-1, 3, 2, 4, -1, 5), False),
    ("cudnn_convolution_add_relu", "miopen_convolution_add_relu"): ((4, 5, 6, 7, -1, 8), False),
    ("cudnn_convolution_transpose",): ((-1, 4, 2, 5, 3, 6), True),
    ("miopen_convolution_transpose",): ((2, 5, 3, 6, 4, 7), True),
    ("_conv_depthwise2d", "conv_depthwise3d", "slow_conv_dilated2d", "slow_conv_dilated3d"):
        ((3, 4, 5, 6, -1, -1), False),
    ("_slow_conv2d_forward", "thnn_conv2d", "slow_conv3d", "slow_conv3d_forward"):
        ((3, 4, 5, -1, -1, -1), False),
    ("slow_conv_transpose2d", "slow_conv_transpose3d"): ((3, 4, 5, 7, 6, -1), True),
    ("_nnpack_spatial_convolution",): ((2, 4, 3, -1, -1, -1), False),
}  # fmt: skip
_PLAIN: Final = partial(_convolution, places=(2, 3, 4, 5, 7, 8))
_added_product: Final = partial(_product, left=1, right=2, added=0)
_linear: Final = partial(_product, is_linear=True)
#: A type, and the operators of several libraries with these arguments.
_Table = dict[tuple[str, ...], Callable[[OperatorCall], Work]]


def _by_name(table: _Table, prefix: str = "") -> dict[str, _Function]:
    return {prefix + name: function for names, function in table.items() for name in names}


#: Matrix products: the innermost counts.
GEMMS: Final[dict[str, _Function]] = _by_name(
    {
        ("mm", "bmm"): partial(_product, out_type=2),
        ("mv", "dot", "vdot"): _product,
        ("addmm", "baddbmm"): _addmm,
        ("addmm_", "baddbmm_", "_addmm_activation", "addmv", "addmv_", "addr", "addr_"):
            _added_product,
        ("addbmm", "addbmm_"): partial(_added_product, is_sum=True),
        ("_int_mm",): partial(_product, out_type="int"),
        ("_scaled_mm",): partial(_product, reads=(2, 3, 4), out_type=6),
        ("_scaled_mm_v2",): partial(_product, reads=(2, 5, 8), out_type=9),
        ("_grouped_mm",): partial(_grouped_product, offsets=2, out_type=4),
        ("_scaled_grouped_mm",): partial(
            _grouped_product, offsets=4, reads=(2, 3, 5), out_type=7),
        ("_scaled_grouped_mm_v2",): partial(
            _grouped_product, offsets=8, reads=(2, 5, 9), out_type=10),
        ("_weight_int8pack_mm",): partial(_linear, reads=(2,)),
        ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"): partial(
            _packed_product, reads=(1, 3), columns=3, dim=1),
        ("_weight_int4pack_mm_with_scales_and_zeros",): partial(
            _packed_product, reads=(1, 3, 4), columns=1, dim=0),
        ("_dyn_quant_matmul_4bit",): partial(_packed_product, reads=(1,), columns=4),
        ("_mixed_dtypes_linear",): partial(_packed_product, reads=(1, 2, 3), columns=2, dim=-1),
    },
    "aten::",
) | _by_name(
    {
        # Weights with a scale for each block or row.
        ("_C::cutlass_scaled_mm", "_C::cutlass_scaled_mm_azp"): partial(
            _product, left=1, right=2, reads=(3, 4, 5, 6, 7), out=0),
        ("_C::cutlass_scaled_fp4_mm", "sgl_kernel::cutlass_scaled_fp4_mm"): partial(
            _linear, left=1, right=2, reads=(3, 4), out=0, is_packed=True),
        ("sgl_kernel::fp8_scaled_mm", "sgl_kernel::int8_scaled_mm",
         "sgl_kernel::fp8_blockwise_scaled_mm"): partial(_product, reads=(2, 3, 5), out_type=4),
        ("sgl_kernel::dsv3_fused_a_gemm",): partial(_product, left=1, right=2, out=0),
        ("sgl_kernel::dsv3_router_gemm",): partial(_linear, left=1, right=2, out=0),
        ("sgl_kernel::bmm_fp8", "flashinfer::bmm_fp8"): partial(_product, reads=(3, 4), out=2),
        ("vllm::fp8_gemm_nt_op", "sglang::deep_gemm_fp8_fp8_bf16_nt",
         "sglang::deep_gemm_mxfp8_fp8_bf16_nt"): partial(
             _linear, right=2, reads=(1, 3), out=4),
        ("vllm::w8a8_triton_block_scaled_mm_func",): partial(
            _linear, reads=(2, 3), out_type=5),
        ("fbgemm::f8f8bf16_rowwise", "fbgemm::f8f8bf16", "fbgemm::f8f8bf16_blockwise"): partial(
            _linear, reads=(2, 3, 4), out_type="c10::BFloat16"),
        ("bitsandbytes::int8_linear_matmul",): partial(_linear, out_type="int"),
        # Weights of 4 bits.
        ("_C::awq_gemm", "sgl_kernel::awq_gemm"): partial(
            _packed_product, reads=(1, 2, 3), columns=2, dim=1),
        ("_C::gptq_gemm", "sgl_kernel::gptq_gemm"): partial(
            _packed_product, reads=(1, 2, 3, 4), columns=1, dim=1),
        ("_C::machete_mm",): partial(_packed_product, reads=(1, 4, 5, 7, 8), columns=1, dim=1),
        ("_C::gptq_marlin_gemm", "_C::marlin_gemm", "_C::gptq_marlin_24_gemm",
         "_C::fp8_marlin_gemm", "_C::marlin_qqq_gemm", "sgl_kernel::gptq_marlin_gemm"):
            _marlin_product,
        ("_moe_C::moe_wna16_marlin_gemm", "sgl_kernel::moe_wna16_marlin_gemm"): partial(
            _marlin_product, has_experts=True),
        # Rows in groups.
        ("_C::cutlass_moe_mm",): partial(
            _grouped_product, left=1, right=2, reads=(3, 4, 5), out=0),
        ("_C::cutlass_fp4_group_mm",): partial(
            _grouped_product, left=1, right=2, reads=(3, 4), out=0, is_linear=True, is_packed=True),
        ("sgl_kernel::fp8_blockwise_scaled_grouped_mm",): partial(
            _grouped_product, left=6, right=7, reads=(8, 9), out=0),
        ("fbgemm::bf16bf16bf16_grouped_stacked",): partial(
            _grouped_product, reads=(2,), is_linear=True),
        ("fbgemm::f8f8bf16_rowwise_grouped_stacked",): partial(
            _grouped_product, reads=(2, 3, 4), is_linear=True),
        # AMD and Intel.
        ("aiter::gemm_a16w16",): partial(_linear, reads=(2,), out_type=3),
        ("vllm::rocm_unquantized_gemm", "mkldnn::_linear_pointwise"): partial(_linear, reads=(2,)),
        ("_rocm_C::wvSplitK", "_rocm_C::LLMM1"): partial(_linear, left=1, right=0),
        ("mkl::_mkl_linear",): partial(_linear, right=2, reads=(3,)),
        ("tex_ts::te_gemm_ts",): _te_product,
    }
)  # fmt: skip

#: Convolutions and attention: the outermost counts, also where matrix products do the work.
OUTERMOST: Final[dict[str, _Function]] = {
    **dict.fromkeys(("aten::convolution", "aten::convolution_overrideable"), _PLAIN),
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution_backward": _cudnn_convolution_backward,
    **{name: partial(attention_work, versions=versions) for name, versions in ATTENTION.items()},
    **_by_name(
        {
            ("_cudnn_rnn", "miopen_rnn"): partial(_recurrence, weights=(1,)),
            ("_cudnn_rnn_backward", "miopen_rnn_backward"): partial(
                _recurrence, weights=(1,), backward=True),
            ("mkldnn_rnn_layer",): partial(_recurrence, weights=(1, 2, 3, 4)),
            ("mkldnn_rnn_layer_backward",): partial(
                _recurrence, weights=(1, 2, 3, 4), backward=True),
        },
        "aten::",
    ),
    **ENGINE_WORK,
}  # fmt: skip

#: Operators that count only if no operator of the lists above encloses them or is within them.
FALLBACK: dict[str, _Function] = {
    "aten::linear": partial(_linear, reads=(2,)),
    "aten::matmul": _product,
    "aten::_convolution": _PLAIN,
    "_Linear": partial(_layer, weight_first=True),
    **dict.fromkeys(("_LayerNormLinear", "_LayerNormMLP"), _layer),
    **{
        f"aten::{name}": partial(_convolution, places=places, transposed=transposed)
        for names, (places, transposed) in _CONVOLUTIONS.items()
        for name in names
    },
    "mkldnn::_convolution_pointwise": partial(
        _convolution, places=(2, 4, 3, 5, -1, 6), transposed=False
    ),
    **{
        name: partial(attention_work, versions=versions)
        for name, versions in ATTENTION_KERNELS.items()
    },
}
#: Functions of autograd whose products are no operators; their gradients have no other arguments.
AUTOGRAD_FUNCTIONS: Final = ("_Linear", "_LayerNormLinear", "_LayerNormMLP", "FlashAttnFunc")
FALLBACK |= {f"{name}Backward": partial(_backward, forward=name) for name in AUTOGRAD_FUNCTIONS}

MATRIX_WORK: Final = {**GEMMS, **OUTERMOST, **FALLBACK}

_IS_ATTENTION: Final = re.compile(r"attention|flash_?attn|_fa\d_C|flash_fwd", re.IGNORECASE)


def matrix_category(name: str) -> str:
    """Return the category of an operator of `MATRIX_WORK`."""
    if _IS_ATTENTION.search(name):
        return "attention"
    return "convolution" if "conv" in name else "gemm"

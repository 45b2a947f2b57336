"""FLOPs and minimum bytes of matrix products and convolutions.

A multiply-add counts as 2 FLOPs. Bias additions, scaling and activations are not counted. The
minimum bytes are for reading each input once and writing each output once.

For example, ``aten::addmm`` of (6, 8) by (8, 10) with a bias of 10 elements, all float, has 2 · 6 ·
8 · 10 = 960 FLOPs and 4 · (48 + 80 + 10 + 60) = 792 bytes.

`MATRIX_FORMULAS` has one formula for all ordinary products, and others for grouped products, packed
weights, convolutions and gradients. ``facts/operators.json`` lists the operands.

The arguments of a call may lack the weights of experts. The grids of the kernels then show how many
(token, expert) pairs were computed. For example, each of 32 tokens is routed to 4 of 32 experts and
has 3072 hidden elements. With tiles of 16 pairs by 128 columns, triton_kernels launches one tile
for each expert and one for every 16 further pairs, in total 32 + (128 - 32) // 16 = 38. The second
product has 3072 / 128 = 24 tiles of columns, and hence a grid of 38 · 24 = 912. The first product
has a grid of 1748 = 38 · 46, so it writes 46 · 128 = 5888 columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analysis.efficiency.attention_work import (
    attention_work,
    paged_attention_work,
    unmasked_attention_work,
)
from hta_widgets.analysis.efficiency.calls import (
    FLOATS,
    CallError,
    OperatorCall,
    Reason,
    Tensor,
    Work,
    bits_of_small_float,
    item_bytes,
    matrix_work,
)

_FLOAT4: Final = "c10::Float4_e2m1fn_x2"
_ASSUMED_TYPES: Final = "the types of tensors in a list are not in the file"
EVERY_MATRIX: Final = "assumes that each matrix among the arguments is a weight"
_EVERY_GRADIENT: Final = "the file does not state which gradients are computed"
_NO_STATES: Final = "bytes moved between time steps are not counted"
_EVERY_EXPERT: Final = "assumes that tokens reach as many experts as they can"
_FROM_GRIDS: Final = "from the grids of kernels, with the padding of tiles"

#: Names of kernels that multiply by expert weights, with the tile sizes and the weight type.
_TENSORRT: Final = re.compile(
    r"bmm_\w+?_(?P<weight>(?:Mx)?E2m1|(?:Mx)?E4m3|Bfloat16|Fp16)\w*?_Fp32"
    r"_t(?P<columns>\d+)x(?P<pairs>\d+)x.*transOut"
)
#: Persistent kernels, ``_p_matmul_ogs``, are excluded: their grid is the number of compute units.
_TRITON: Final = re.compile(
    r"(?<!_p)_matmul_ogs_[NT]{3}_\w+?x\w+?x(?P<weight>\w+?)"
    r"_(?P<pairs>\d+)x(?P<columns>\d+)x\d+x(?P<splits>\d+)"
)
#: Bits per weight, including its share of the block's scale.
_WEIGHT_BITS: Final = {
    "mxe2m1": 4.25, "mxfp4": 4.25, "e2m1": 4.5, "mxe4m3": 8.25, "mxfp8": 8.25, "e4m3": 8.0,
    "fp8": 8.0, "bfloat16": 16.0, "bf16": 16.0, "fp16": 16.0,
}  # fmt: skip

_Dims = Sequence[int]
_Shapes = tuple[_Dims, _Dims, _Dims]


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
    """Return the work of ``left @ right`` for matrices, batches of matrices, or vectors.

    `added` is a further input, which is not read if the argument `beta` is 0. `reads` are other
    inputs. `out` is the position of the output. `out_type` is its type, or the position of its type
    code. In an `is_linear` product, the right operand is transposed, and all left dimensions except
    the last are rows. `is_sum` adds up a batch. Bytes of `is_packed` operands hold two values each.
    """
    a, b = call.tensor(left), call.tensor(right)
    a_dims, b_dims = call.shape(left), call.shape(right)
    if is_linear:
        a_dims, b_dims = (prod(a_dims[:-1]), a_dims[-1]), call.shape(right, 2)[::-1]
    elif len(a_dims) == len(b_dims) == 1 and added is not None:  # addr is an outer product
        a_dims, b_dims = (*a_dims, 1), (1, *b_dims)
    else:  # a vector is a row if left and a column if right
        a_dims = a_dims if len(a_dims) > 1 else (1, *a_dims)
        b_dims = b_dims if len(b_dims) > 1 else (*b_dims, 1)
    *a_batches, m, k = a_dims
    *b_batches, b_rows, n = b_dims
    if b_rows != k:
        raise CallError(Reason.OTHER_ARGUMENTS)
    batch = prod(np.broadcast_shapes(tuple(a_batches), tuple(b_batches)))
    size = call.size_bytes(left, right, *reads)
    if added is not None and not (call.values and call.number(beta, 1) == 0):
        size += call.size_bytes(added)
    outputs = m * n if is_sum else batch * m * n
    size += outputs * _output_item_bytes(call, a.type, out, out_type)
    layout = _layout(a, b, is_linear=is_linear)
    type_name = _FLOAT4 if is_packed else a.type
    return _gemm_work(call, (batch, m, n, k), size, type_name=type_name, layout=layout)


def _output_item_bytes(
    call: OperatorCall, default: str, out: int | None, out_type: int | str | None
) -> float:
    """Return the bytes per output element, from argument `out` or from `out_type`."""
    if out is not None and call.is_present(out):
        return item_bytes(call.type_of(out))
    if isinstance(out_type, int):
        out_type = call.output_type(out_type, default)
    return item_bytes(default if out_type is None else out_type)


def _addmm(call: OperatorCall) -> Work:
    """Return the work of addmm; since PyTorch 2.8, an argument may set the output type."""
    has_type = len(call.dims) == 6 and not call.is_present(5)  # otherwise, it is the output
    return _product(call, 1, 2, added=0, beta=3 + has_type, out_type=3 if has_type else None)


def _scaled_product(call: OperatorCall) -> Work:
    """Return the work of a scaled product; scales followed bias and type until PyTorch 2.4."""
    if not call.type_of(0):  # each element may pack two values
        raise CallError(Reason.UNKNOWN_TYPE)
    is_old = call.type_of(3) in {"", "Scalar"}  # otherwise, it is the second scale
    return _product(call, reads=(2, 4, 5) if is_old else (2, 3, 4), out_type=3 if is_old else 6)


def _gemm_work(
    call: OperatorCall,
    sizes: tuple[int, int, int, int],
    size: float,
    *,
    type_name: str = "",
    layout: str = "",
    estimate: str = "",
) -> Work:
    """Return the work of a batch of products; `sizes` are batch, rows, columns and depth.

    `size` is the number of bytes read and written. `estimate` states what the figures assume.
    """
    batch, m, n, k = sizes
    type_name = type_name or call.type_of(0)
    k *= 2 if bits_of_small_float(type_name) == 4 else 1
    estimate = estimate or (_ASSUMED_TYPES if call.has_lists else "")
    certainty = "estimate" if estimate else "exact"
    parameters: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": batch, "layout": layout}
    work = matrix_work(2 * batch * m * n * k, size, certainty=certainty, **parameters)
    return replace(work, reason=estimate, type_name=type_name)


def _layout(a: Tensor, b: Tensor, *, is_linear: bool) -> str:
    """Return which operands are transposed, as ``NN``, ``NT``, ``TN`` or ``TT``."""
    strides = [tensor.strides or () for tensor in (a, b)]
    if min(map(len, strides)) < 2:
        return ""
    is_transposed = [columns != 1 and rows == 1 for *_, rows, columns in strides]
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
    """Return the work of a grouped product, whose group bounds are the values of a tensor."""
    a, b = call.shape(left), call.shape(right)
    b = (*b[:-2], b[-1], b[-2]) if is_linear else b
    dimensions = (len(a), len(b))
    groups = 1
    if offsets is not None and call.is_present(offsets):
        groups, reads = call.tensor(offsets).elements, (*reads, offsets)
    m, k, n = a[-2], a[-1], b[-1]
    batch = a[0] if dimensions == (3, 3) else 1
    # The number of output matrices. Two 2-D operands share K, so each group has its own output.
    outputs = {(2, 3): 1, (2, 2): groups, (3, 3): batch, (3, 2): 1}
    if dimensions not in outputs or b[-2] != k:
        raise CallError(Reason.OTHER_ARGUMENTS)
    type_name = call.type_of(left)
    default = "c10::BFloat16" if bits_of_small_float(type_name) else type_name
    written = outputs[dimensions] * m * n * _output_item_bytes(call, default, out, out_type)
    size = call.size_bytes(left, right, *reads) + written
    type_name = _FLOAT4 if is_packed else type_name
    return _gemm_work(call, (batch, m, n, k), size, type_name=type_name)


def _packed_product(
    call: OperatorCall,
    reads: tuple[int, ...],
    *,
    left: int = 0,
    columns: int,
    dim: int | None = None,
) -> Work:
    """Return the work of a product with packed weights.

    The number of columns is dimension `dim` of the argument `columns`, such as scales. Without
    `dim`, it is the first number in that argument.
    """
    *rows, k = call.shape(left)
    n = (call.numbers(columns) or [0])[0] if dim is None else call.shape(columns)[dim]
    if not n:
        raise CallError(Reason.OTHER_ARGUMENTS)
    m, type_name = prod(rows), call.type_of(left)
    size = call.size_bytes(left, *reads) + m * n * item_bytes(type_name)
    return _gemm_work(call, (1, m, n, k), size, type_name=type_name)


def _marlin_product(call: OperatorCall, *, has_experts: bool = False) -> Work:
    """Return the work of any version of Marlin, where m, n and k are consecutive arguments.

    With experts, the number before the first flag is the number of experts per row.
    """
    m, k = call.shape(0, 2)
    numbers = [int(text) if str(text).isdecimal() else -1 for text in call.values]
    triples = zip(numbers, numbers[1:], numbers[2:], strict=False)
    n = next((n for rows, n, depth in triples if (rows, depth) == (m, k) and n > 0), 0)
    if not n:
        raise CallError(Reason.OTHER_ARGUMENTS if call.values else Reason.NO_VALUES)
    # Products of 8-bit integers are written in half precision.
    type_name = call.type_of(0) if call.type_of(0) in FLOATS else "c10::Half"
    inputs = [place for place in range(1, len(call.dims)) if call.is_present(place)]
    rows = m
    if has_experts:
        flags = [place for place, text in enumerate(call.values) if text in {"True", "False"}]
        rows *= max(numbers[flags[0] - 1], 1)
        weights = [call.tensor(place) for place in inputs if len(call.shape(place)) == 3]
        experts = weights[0].dims[0]
        read = sum(tensor.size_bytes for tensor in weights) * min(rows, experts) // experts
    else:
        # The last tensor is a workspace. A tensor with the output's shape is the output.
        read = call.size_bytes(*(at for at in inputs[:-1] if call.shape(at) != (m, n)))
    size = call.size_bytes(0) + read + rows * n * item_bytes(type_name)
    estimate = _EVERY_EXPERT if has_experts else ""
    return _gemm_work(call, (1, rows, n, k), size, estimate=estimate)


def _te_product(call: OperatorCall) -> Work:
    """Return the work of a product of Transformer Engine.

    Arguments 0 and 5 are the operands, 4 and 9 state whether they are transposed, 14 is the bias,
    10 is the output, and 20 states whether the product is added to the output.
    """
    a, out = call.shape(0), call.shape(10)
    k = a[-1] if call.number(4) else prod(a[:-1])
    m, n = prod(out[:-1]), out[-1]
    size = call.size_bytes(0, 5, 14, 10) + call.size_bytes(10) * bool(call.number(20))
    layout = "".join("T" if call.number(place) else "N" for place in (4, 9))
    return _gemm_work(call, (1, m, n, k), size, layout=layout)


def _layer(call: OperatorCall, *, weight_first: bool = False, is_grouped: bool = False) -> Work:
    """Return the work of a layer that calls no operators, from its matrix arguments.

    Each input row is multiplied by all weights, or by one of them in a grouped layer.
    """
    matrices = [tensor for tensor in call.tensors() if len(tensor.dims) > 1]
    if len(matrices) < 2:
        raise CallError(Reason.OTHER_ARGUMENTS)
    x = matrices.pop(int(weight_first))
    weights = [tensor for tensor in matrices if len(tensor.dims) == 2]
    m, k = prod(x.dims[:-1]), x.dims[-1]
    if not weights or weights[0].dims[1] != k:
        raise CallError(Reason.OTHER_ARGUMENTS)
    if is_grouped and len({weight.dims for weight in weights}) > 1:
        raise CallError(Reason.OTHER_ARGUMENTS)
    weights = weights[:1] if is_grouped else weights
    width = weights[-1].dims[0]
    size = sum(tensor.size_bytes for tensor in call.tensors()) + m * width * item_bytes(x.type)
    return _products_with_weights(call, m, k, weights, size, EVERY_MATRIX)


def _recurrence(call: OperatorCall, *, weights: tuple[int, ...], backward: bool = False) -> Work:
    """Return the work of recurrent layers: matrices multiply the inputs of each time step."""
    x = call.shape(0)
    tensors = [tensor for place in weights for tensor in call.items(place)]
    matrices = [tensor for tensor in tensors if len(tensor.dims) == 2]
    m = prod(x[:-1])
    written = m * matrices[-1].dims[1] * item_bytes(call.type_of(0))
    size = call.size_bytes(0) + sum(tensor.size_bytes for tensor in tensors) + written
    work = _products_with_weights(call, m, x[-1], matrices, size, _NO_STATES)
    return gradients_work(work) if backward else work


def _products_with_weights(
    call: OperatorCall, m: int, k: int, weights: Sequence[Tensor], size: float, estimate: str
) -> Work:
    """Return the work of multiplying `m` rows by each weight matrix.

    It equals the work of a product of depth 1 with one column per weight element.
    """
    elements = sum(tensor.elements for tensor in weights)
    work = _gemm_work(call, (1, m, elements, 1), size, estimate=estimate)
    return replace(work, parameters={"m": m, "n": weights[0].dims[0], "k": k})


def gradients_work(work: Work, executed: float = 2) -> Work:
    """Return the work of the gradients of input and weights."""
    return replace(
        work,
        flops=executed * work.flops,
        model_flops=2 * work.model_flops,
        min_bytes=2 * work.min_bytes,
    )


def _experts(call: OperatorCall, x: int, up: int, down: int, chosen: int) -> Work:
    """Return an estimate for a mixture of experts, assuming that tokens reach many experts."""
    tokens, hidden = call.shape(x)[0], call.shape(x)[-1]
    (experts, columns, depth), inner = call.shape(up, 3), call.shape(down, 3)[2]
    if depth not in {hidden, hidden // 2}:
        raise CallError(Reason.OTHER_ARGUMENTS)
    inner *= 1 if depth == hidden else 2  # 4-bit weights are packed in pairs
    pairs = tokens * call.shape(chosen, 2)[1]
    used_share = min(pairs, experts) / experts
    weights = int((call.tensor(up).size_bytes + call.tensor(down).size_bytes) * used_share)
    size = 2 * call.size_bytes(x) + weights + call.size_bytes(chosen)
    flops = 2 * pairs * hidden * (columns + inner)
    return _estimate(flops, size, (pairs, columns, hidden, experts), _EVERY_EXPERT)


def _estimate(flops: int, size: float, sizes: tuple[int, int, int, int], reason: str) -> Work:
    parameters: dict[str, Any] = dict(zip(("m", "n", "k", "batch"), sizes, strict=True))
    return matrix_work(flops, size, certainty="estimate", reason=reason, **parameters)


def match_expert_kernel(name: str) -> re.Match[str] | None:
    """Match the name of a kernel whose grid shows the work of experts."""
    return _TENSORRT.search(name) or _TRITON.search(name)


class _ExpertProduct(NamedTuple):
    blocks: int  # tiles of (token, expert) pairs
    columns: int
    tile: int  # pairs per tile
    bits: float  # of a weight


def _expert_products(call: OperatorCall, hidden: int) -> tuple[_ExpertProduct, _ExpertProduct]:
    """Return the two products of experts; the second writes `hidden` columns."""
    kernels = [(match_expert_kernel(name), grid) for name, grid in call.context.kernels if grid]
    matches = [(match, grid) for match, grid in kernels if match]
    if len(matches) != 2:
        raise CallError("weights of the experts are not among the arguments")
    # The first product includes the activation; if no kernel does, the first launch is the first
    # product. The loop begins with the second, whose `hidden` columns give the number of blocks.
    matches.sort(key=lambda pair: "glu" not in pair[0].string.lower())
    blocks, products = 0, []
    for match, grid in reversed(matches):
        sizes = match.groupdict()
        width, tiles = int(sizes["columns"]), grid[0]
        if "splits" in sizes:  # all tiles are in a single dimension
            splits = int(sizes["splits"])
            blocks = blocks or grid[0] // (-(-hidden // width) * splits)
            tiles, remainder = divmod(grid[0], max(blocks * splits, 1))
        else:
            blocks, remainder = grid[1], 0
        bits = _WEIGHT_BITS.get(sizes["weight"].lower())
        if bits is None or remainder:
            raise CallError(Reason.OTHER_ARGUMENTS)
        products.append(_ExpertProduct(blocks, tiles * width, int(sizes["pairs"]), bits))
    down, up = products
    if down.columns < hidden or down.blocks != up.blocks or down.tile != up.tile:
        raise CallError(Reason.OTHER_ARGUMENTS)
    return up, down


def _launched_experts(call: OperatorCall) -> Work:
    """Return an estimate from kernel grids, for experts whose weights are not arguments.

    A grid has a block for each tile of output columns and of an expert's tokens. With 128 experts
    and tiles of 16 tokens, 342 blocks are 128 + (888 · 4 - 128) // 16: 888 tokens, 4 experts each.
    """
    (tokens, hidden), experts = call.shape(0, 2), call.shape(1, 2)[-1]
    up, down = _expert_products(call, hidden)
    blocks = up.blocks
    # An expert's last tile may be partly filled, so a range of pair counts gives these blocks.
    min_pairs = blocks if blocks <= experts else experts + (blocks - experts) * up.tile
    max_pairs = min_pairs + (up.tile - 1 if blocks >= experts else 0)
    experts_per_token = -(-min_pairs // tokens)
    pairs = tokens * experts_per_token
    if not min_pairs or pairs > max_pairs or pairs + tokens <= max_pairs:
        raise CallError("the kernels' grids do not determine the number of experts per token")
    is_gated = any("glu" in name.lower() for name, _ in call.context.kernels)
    inner = up.columns // 2 if is_gated else up.columns
    bits = hidden * (up.columns * up.bits + inner * down.bits)
    size = 2 * call.size_bytes(0) + call.size_bytes(1) + int(min(pairs, experts) * bits / 8)
    flops = 2 * pairs * hidden * (up.columns + inner)
    return _estimate(flops, size, (pairs, up.columns, hidden, experts), _FROM_GRIDS)


def _convolution(
    call: OperatorCall,
    *,
    stride: int,
    padding: int,
    bias: int | None = None,
    dilation: int | None = None,
    output_padding: int | None = None,
    groups: int | None = None,
    transposed: bool | None = None,
) -> Work:
    """Return the work of a forward convolution in any number of dimensions.

    If `transposed` is not given, argument 6 states it.
    """
    x, w = call.shape(0), call.shape(1)
    x = (1, *x) if len(x) == len(w) - 1 else x
    if len(x) != len(w) or len(w) < 3:
        raise CallError(Reason.OTHER_ARGUMENTS)
    group_count = max(x[1] // max(w[1], 1), 1)
    strides: _Dims = ()
    if call.values:
        transposed = call.flag(6) if transposed is None else transposed
        if groups is not None:
            group_count = int(call.number(groups, 1))
        elif transposed:
            group_count = 1
        places = (stride, padding, dilation, output_padding if transposed else None)
        sizes, strides = _output_sizes(call, x, w, places, transposed=bool(transposed))
        out = x[0], w[1] * group_count if transposed else w[0], *sizes
    elif call.context.output is not None and len(call.context.output) == len(w):
        out, transposed = call.context.output, False
    else:
        raise CallError(Reason.NO_VALUES)
    flops = 2 * prod(w[1:]) * prod(x if transposed else out)
    size = call.size_bytes(0, 1, *([] if bias is None else [bias]))
    size += prod(out) * item_bytes(call.type_of(0))
    return _convolution_work(call, flops, size, (x, w, out), group_count, strides)


def _output_sizes(
    call: OperatorCall, x: _Dims, w: _Dims, places: Sequence[int | None], *, transposed: bool
) -> tuple[list[int], list[int]]:
    """Return the output size and the stride for each dimension after the channels.

    `places` are the positions of stride, padding, dilation and output padding; None: the default.
    """
    values = [
        [default] * (len(w) - 2) if place is None else call.numbers(place, len(w) - 2)
        for place, default in zip(places, (1, 0, 1, 0), strict=True)
    ]
    sizes = []
    for n, k, stride, padding, dilation, added in zip(x[2:], w[2:], *values, strict=True):
        reach = dilation * (k - 1) + 1  # from the first to the last input of an output
        if transposed:
            sizes.append((n - 1) * stride - 2 * padding + reach + added)
        else:
            sizes.append((n + 2 * padding - reach) // stride + 1)
    return sizes, values[0]


def _convolution_work(
    call: OperatorCall, flops: int, size: float, shapes: _Shapes, groups: int, strides: _Dims = ()
) -> Work:
    x, w, out = shapes
    kernel_size, stride = ("×".join(map(str, sizes)) for sizes in (w[2:], strides))
    parameters: dict[str, Any] = {"batch": x[0], "channels_in": x[1], "channels_out": out[1]}
    parameters |= {"groups": groups, "kernel_size": kernel_size, "stride": stride}
    certainty = "exact" if call.values else "linked"
    return matrix_work(flops, size, certainty=certainty, **parameters)


def _gradients(
    call: OperatorCall,
    places: tuple[int, int, int],
    mask: Sequence[bool],
    *,
    groups: int = 1,
    transposed: bool = False,
) -> Work:
    """Return the work of a convolution's gradients; `mask` selects input, weight and bias.

    `places` are the positions of the input, the weight, and the output's gradient.
    """
    x, w, grad = map(call.shape, places)
    x_bytes, w_bytes, grad_bytes = (call.size_bytes(place) for place in places)
    element_bytes = item_bytes(call.type_of(places[2]))
    size = grad_bytes + grad[1] * element_bytes * mask[2]
    size += (w_bytes + prod(x) * element_bytes) * mask[0]
    size += (x_bytes + prod(w) * element_bytes) * mask[1]
    flops = 2 * prod(w[1:]) * prod(x if transposed else grad) * (mask[0] + mask[1])
    groups = groups if transposed else max(x[1] // max(w[1], 1), 1)
    return _convolution_work(call, flops, size, (x, w, grad), groups)


def _convolution_backward(call: OperatorCall) -> Work:
    """Return the work in PyTorch 1.10 and later, or an upper bound without concrete inputs."""
    places = (1, 2, 0)
    # The gradient's batch and channels show that the convolution is not transposed.
    if not call.values and call.shape(0)[:2] == (call.shape(1)[0], call.shape(2)[0]):
        work = _gradients(call, places, (True, True, True))
        return replace(work, certainty="upper bound", reason=_EVERY_GRADIENT)
    mask, groups, transposed = call.mask(10), int(call.number(9, 1)), call.flag(7)
    if len(mask) != 3:
        raise CallError(Reason.NO_VALUES)
    return _gradients(call, places, mask, groups=groups, transposed=transposed)


def _cudnn_convolution_backward(call: OperatorCall) -> Work:
    """Return the work in PyTorch 1.9, where this operator calls another one for each gradient."""
    gradients = call.context.gradients
    return _gradients(call, (0, 2, 1), [gradients > 1, gradients > 0, False])


#: Formulas, keyed by their name in the table of operators.
MATRIX_FORMULAS: Final[dict[str, Callable[..., Work]]] = {
    "product": _product,
    "addmm": _addmm,
    "scaled_product": _scaled_product,
    "grouped_product": _grouped_product,
    "packed_product": _packed_product,
    "marlin_product": _marlin_product,
    "te_product": _te_product,
    "layer": _layer,
    "recurrence": _recurrence,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "cudnn_convolution_backward": _cudnn_convolution_backward,
    "attention": attention_work,
    "unmasked_attention": unmasked_attention_work,
    "paged_attention": paged_attention_work,
    "experts": _experts,
    "launched_experts": _launched_experts,
}

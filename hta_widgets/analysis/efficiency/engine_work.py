"""Estimates for operators of inference engines: mixtures of experts, attention over paged caches.

Neither the weights of all experts nor the lengths of requests are among the arguments of a call.
The grids of the kernels show how many pairs of token and expert were computed, and the engine
states the sums of lengths in the name of its step.

For example, each of 32 tokens has 4 of 32 experts, and 3072 hidden elements. With tiles of 16 pairs
by 128 columns, triton_kernels launches a tile for each expert, and one for each 16 further pairs,
32 + (128 - 32) // 16 = 38 in all. The second product has 3072 / 128 = 24 tiles of columns: a grid
of 38 · 24 = 912. The first one has a grid of 1748 = 38 · 46, so it writes 46 · 128 = 5888 columns.

In the same step, ``execute_32_context_0(…)_generation_32(sq32sk55086sqsq32sqsk55086)``, 32 queries
see 55086 keys. With 64 heads of 64 elements, each layer computes 2 · 64 · 55086 · (64 + 64) FLOPs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isnan
from typing import Any, Final, NamedTuple

from hta_widgets.analysis.efficiency.calls import (
    DATA_DEPENDENT,
    OTHER_ARGUMENTS,
    CallError,
    OperatorCall,
    Work,
    elements_bytes,
    matrix_work,
)

EVERY_EXPERT: Final = "assumes that tokens reach as many experts as they can"
_FROM_GRIDS: Final = "from the grids of kernels, with the padding of tiles"
_WINDOWS: Final = "layers with a sliding window compute less"

#: Products of experts: tile of outputs and of pairs, and type of the weights.
_TENSORRT: Final = re.compile(
    r"bmm_\w+?_(?P<weight>(?:Mx)?E2m1|(?:Mx)?E4m3|Bfloat16|Fp16)\w*?_Fp32"
    r"_t(?P<columns>\d+)x(?P<pairs>\d+)x.*transOut"
)
#: A persistent kernel, ``_p_matmul_ogs``, has as many blocks as the device has units.
_TRITON: Final = re.compile(
    r"(?<!_p)_matmul_ogs_[NT]{3}_\w+?x\w+?x(?P<weight>\w+?)"
    r"_(?P<pairs>\d+)x(?P<columns>\d+)x\d+x(?P<splits>\d+)"
)
#: Bits of a weight with its share of the scale of a block.
_WEIGHT_BITS: Final = {
    "mxe2m1": 4.25, "mxfp4": 4.25, "e2m1": 4.5, "mxe4m3": 8.25, "mxfp8": 8.25, "e4m3": 8.0,
    "fp8": 8.0, "bfloat16": 16.0, "bf16": 16.0, "fp16": 16.0,
}  # fmt: skip


def _experts(call: OperatorCall, x: int, up: int, down: int, chosen: int) -> Work:
    """Return an estimate for a mixture of experts: every token goes to its chosen experts."""
    tokens = call.shape(x)[0]
    wide, narrow, ids = call.shape(up, 3), call.shape(down, 3), call.shape(chosen, 2)
    rows = tokens * ids[1]
    hidden = call.shape(x)[-1]
    if wide[2] not in {hidden, hidden // 2}:
        raise CallError(OTHER_ARGUMENTS)
    inner = narrow[2] if wide[2] == hidden else narrow[2] * 2  # 4-bit weights are packed in pairs
    used = min(rows, wide[0]) / wide[0]
    weights = int((call.tensor(up).size_bytes + call.tensor(down).size_bytes) * used)
    size = 2 * call.size_bytes(x) + weights + call.size_bytes(chosen)
    flops = 2 * rows * hidden * (wide[1] + inner)
    return _estimate(flops, size, (rows, wide[1], hidden, wide[0]), EVERY_EXPERT)


def _estimate(flops: int, size: int, sizes: tuple[int, int, int, int], reason: str) -> Work:
    parameters: dict[str, Any] = dict(zip(("m", "n", "k", "batch"), sizes, strict=True))
    return matrix_work(flops, size, certainty="estimate", reason=reason, **parameters)


def match_expert_kernel(name: str) -> re.Match[str] | None:
    """Return the parts of a kernel's name whose grid shows the work of experts."""
    return _TENSORRT.search(name) or _TRITON.search(name)


class _ExpertProduct(NamedTuple):
    """A product of experts, from the grid and the name of its kernel."""

    blocks: int  # tiles of pairs of token and expert
    columns: int
    tile: int  # pairs of a tile
    bits: float  # of a weight


def _expert_products(call: OperatorCall, hidden: int) -> tuple[_ExpertProduct, _ExpertProduct]:
    """Return the first product of experts and the second, which writes `hidden` columns."""
    matches = [
        (match, grid)
        for name, grid in call.context.kernels
        if grid and (match := match_expert_kernel(name))
    ]
    if len(matches) != 2:
        raise CallError("weights of the experts are not among the arguments")
    matches.sort(key=lambda at: "glu" not in at[0].string.lower())
    blocks, products = 0, []
    for match, grid in reversed(matches):
        sizes = match.groupdict()
        width, columns = int(sizes["columns"]), grid[0]
        if "splits" in sizes:  # one dimension for all tiles
            blocks = blocks or grid[0] // (-(-hidden // width) * int(sizes["splits"]))
            columns, remainder = divmod(grid[0], max(blocks * int(sizes["splits"]), 1))
        else:
            blocks, remainder = grid[1], 0
        bits = _WEIGHT_BITS.get(sizes["weight"].lower())
        if bits is None or remainder:
            raise CallError(OTHER_ARGUMENTS)
        products.append(_ExpertProduct(blocks, columns * width, int(sizes["pairs"]), bits))
    down, up = products
    if down.columns < hidden or down.blocks != up.blocks or down.tile != up.tile:
        raise CallError(OTHER_ARGUMENTS)
    return up, down


def _launched_experts(call: OperatorCall) -> Work:
    """Return an estimate for experts whose weights are not arguments, from the grids of kernels.

    A grid has a block for each tile of outputs, and for each tile of tokens of an expert: with 128
    experts and tiles of 16 tokens, 342 blocks are 128 + (888 · 4 - 128) // 16, so that each of 888
    tokens has 4 experts.
    """
    (tokens, hidden), experts = call.shape(0, 2), call.shape(1, 2)[-1]
    up, down = _expert_products(call, hidden)
    blocks = up.blocks
    # The last tile has up to `tile` pairs, so the blocks fit a range of pairs.
    min_pairs = blocks if blocks <= experts else experts + (blocks - experts) * up.tile
    max_pairs = min_pairs + (up.tile - 1 if blocks >= experts else 0)
    experts_per_token = -(-min_pairs // tokens)
    pairs = tokens * experts_per_token
    if not min_pairs or pairs > max_pairs or pairs + tokens <= max_pairs:
        raise CallError("the grids of kernels fit no number of experts per token, or several")
    is_gated = any("glu" in name.lower() for name, _ in call.context.kernels)
    inner = up.columns // 2 if is_gated else up.columns
    bits = hidden * (up.columns * up.bits + inner * down.bits)
    size = 2 * call.size_bytes(0) + call.size_bytes(1) + int(min(pairs, experts) * bits / 8)
    flops = 2 * pairs * hidden * (up.columns + inner)
    return _estimate(flops, size, (pairs, up.columns, hidden, experts), _FROM_GRIDS)


def _paged_attention(call: OperatorCall, query: int, key: int, value: int) -> Work:
    """Return an upper bound of the work of attention over a paged cache in the engine's step.

    Queries are of (token, head, element); keys and values end with (head, element).
    """
    step = call.context.step
    if step is None:
        raise CallError(DATA_DEPENDENT)
    if isnan(step.pairs) or step.visible_tokens < 0:
        raise CallError("the engine's step does not state the sums of lengths")
    tokens, heads, width = call.shape(query, 3)
    (kv_heads, key_width), (_, value_width) = call.shape(key)[-2:], call.shape(value)[-2:]
    if step.tokens > tokens:
        raise CallError("the engine's step has more tokens than the call")
    if key_width != width or heads % kv_heads:
        raise CallError(OTHER_ARGUMENTS)
    key_type, value_type = call.tensor(key).type, call.tensor(value).type
    visible = step.visible_tokens * kv_heads
    size = elements_bytes(visible * key_width, key_type)
    size += elements_bytes(visible * value_width, value_type) + call.size_bytes(query)
    size += elements_bytes(tokens * heads * value_width, call.tensor(query).type)
    parameters: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "head_size": width}
    flops = int(2 * heads * step.pairs * (width + value_width))
    return matrix_work(flops, size, certainty="upper bound", reason=_WINDOWS, **parameters)


#: Formulas by their names in the table of operators.
ENGINE_FORMULAS: Final[dict[str, Callable[..., Work]]] = {
    "experts": _experts,
    "launched_experts": _launched_experts,
    "paged_attention": _paged_attention,
}
_NUMBERED: Final = re.compile(r"(sglang_profiler::.+)_\d+")


def unnumbered_name(name: str) -> str:
    """Return the name of an operator without the number that SGLang's profiler adds.

    Examples
    --------
    >>> unnumbered_name("sglang_profiler::attention_paged_attention_ragged_100")
    'sglang_profiler::attention_paged_attention_ragged'
    """
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else name

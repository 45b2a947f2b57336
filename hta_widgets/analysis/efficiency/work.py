"""FLOPs and least bytes of a call of any operator, and which of nested operators counts.

For example, ``aten::linear`` calls ``aten::addmm``: the role of the first is ``fallback``, that of
the second ``gemm``, so the second has the figure.
"""

from __future__ import annotations

import re
from functools import cache
from math import isnan
from typing import Final, Literal

from hta_widgets.analysis.efficiency.calls import (
    NO_SHAPES,
    OTHER_ARGUMENTS,
    UNLISTED,
    CallError,
    OperatorCall,
    Work,
)
from hta_widgets.analysis.efficiency.engine_work import unnumbered_name
from hta_widgets.analysis.efficiency.matrix_work import (
    FALLBACK,
    GEMMS,
    MATRIX_WORK,
    OUTERMOST,
    matrix_category,
)
from hta_widgets.analysis.efficiency.vector_work import vector_function

#: How an operator counts where operators are nested.
Role = Literal["gemm", "outermost", "fallback", "listed", "unlisted"]

#: Categories of operators, in the order of legends.
CATEGORIES: Final[tuple[str, ...]] = (
    "gemm", "attention", "convolution", "norm", "softmax", "elementwise", "reduction", "copy",
    "embedding", "optimizer", "triton", "communication", "other",
)  # fmt: skip

#: Words in lower-case names of unlisted operators that give their category; the first decides.
_WORDS: Final = {
    re.compile("|".join(words.split())): category
    for words, category in (
        ("^fsdp::", "copy"),
        (
            "^(c10d|nccl|rccl|gloo|symm_mem|deep_ep) record_param_comms all_?reduce all_?gather",
            "communication",
        ),
        (r"attention flash_?attn attn fmha paged m[hl]a_ _fa\d_ ^sgl_kernel::fwd", "attention"),
        ("^flashinfer::.*(prefill|decode)", "attention"),
        (r"conv(olution|\d|_)", "convolution"),
        ("topk moe_(align|sum|fused_gate) cross_?entropy", "reduction"),
        (r"(?<!fb)gemm matmul _mm\b scaled_mm ::_?\w*linear linear(backward)?$", "gemm"),
        (r"layernormmlp moe experts marlin gptq awq machete rnn lstm_ mul_mat", "gemm"),
        ("(?<!re)norm", "norm"),
        ("softmax", "softmax"),
        ("^triton_", "triton"),
        ("embedding lookup index gather scatter nonzero masked_select", "embedding"),
        ("optimizer fused_?(ada|sgd) _foreach_ multi_tensor", "optimizer"),
        (r"cop(y|ies) contiguous transpose pad cat\b cache repeat arange _local_scalar", "copy"),
        ("pool sort reduce loss", "reduction"),
        ("dropout activation rotary rope quant silu gelu swiglu upsample rand", "elementwise"),
    )
}


@cache
def role_of(name: str) -> Role:
    """Return how an operator counts."""
    name = unnumbered_name(name)
    if name in GEMMS:
        return "gemm"
    if name in OUTERMOST:
        return "outermost"
    if name in FALLBACK:
        return "fallback"
    return "listed" if vector_function(name) else "unlisted"


@cache
def category_of(name: str) -> str:
    """Return the category of an operator, listed or not."""
    name = unnumbered_name(name)
    if name in MATRIX_WORK:
        return matrix_category(name)
    if listed := vector_function(name):
        return listed[1]
    name = name.lower()
    return next((category for words, category in _WORDS.items() if words.search(name)), "other")


def call_work(call: OperatorCall) -> Work:
    """Return the FLOPs and least bytes of a call; unknown ones are NaN, with a reason."""
    category, name = category_of(call.name), unnumbered_name(call.name)
    function = MATRIX_WORK.get(name) or (vector_function(name) or (None,))[0]
    if function is None:
        return Work(category, reason=UNLISTED)
    kind = "matrix" if name in MATRIX_WORK else "vector"
    if not call.dims:
        return Work(category, kind=kind, reason=NO_SHAPES)
    try:
        return function(call)
    except CallError as error:
        return Work(category, kind=kind, reason=str(error))
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        # Arguments of another version of the schema.
        return Work(category, kind=kind, reason=OTHER_ARGUMENTS)


def has_known_matrix_flops(work: Work) -> bool:
    """Return whether the matrix FLOPs of a call are known, or none by nature."""
    return work.kind == "vector" or (work.kind == "matrix" and not isnan(work.flops))

"""How device work was replaced: fused, split up, or taken over by another library."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["HOW", "how_replaced", "libraries"]

#: What can be told of replaced work, in the order of the categories of ``how``.
HOW: tuple[str, ...] = ("", "fused", "split", "other library", "other kernels")

#: By what is typical of their kernels' names; the first that is found counts.
_LIBRARIES = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("NCCL", r"^(nccl|rccl)"),
        ("Triton", r"^triton_|_0d1d"),
        ("FlashAttention", r"flash_(fwd|bwd|attn)|flash::|fmha_"),
        ("CUTLASS", r"cutlass"),
        ("cuDNN", r"cudnn|implicit_convolve|wgrad_alg|dgrad_engine"),
        ("MIOpen", r"miopen"),
        ("Tensile", r"^Cijk_"),
        ("cuBLAS", r"^(maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_|gemm|gemv|splitK"),
        ("PyTorch", r"at::|at_cuda_detail|c10::"),
    )
)


def libraries(names: Sequence[str]) -> list[str]:
    """Return the libraries that kernels are of, as far as their names tell, in order.

    Examples
    --------
    >>> libraries(["ampere_sgemm_128x64_tn", "triton_poi_fused_relu_0", "my_kernel"])
    ['cuBLAS', 'Triton']
    """
    found = (
        next((library for library, pattern in _LIBRARIES if pattern.search(name)), "")
        for name in names
    )
    return [name for name in dict.fromkeys(found) if name]


def how_replaced(
    before: Sequence[str], after: Sequence[str], before_count: float, after_count: float
) -> str:
    """Return the word of `HOW` for work that took the place of other work.

    Kernels of which none is of a library of the other side are of another library, however many
    they are; else fewer are fused, more are split.

    Examples
    --------
    >>> how_replaced(["a", "b"], ["a_and_b"], 2, 1)
    'fused'
    """
    one, other = set(libraries(before)), set(libraries(after))
    if one and other and not one & other:
        return "other library"
    if round(before_count, 6) == round(after_count, 6):
        return "other kernels"
    return "fused" if after_count < before_count else "split"

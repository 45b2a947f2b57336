"""Tensor cores, precision and category of a kernel, by its name.

The first pattern that the lower-case name contains decides. For example,
``ampere_bf16_s16816gemm_bf16_128x64_ldg8`` runs on tensor cores in BF16, ``volta_sgemm_128x64_nn``
on ordinary units in FP32. Of a value of an
enumeration, such as ``(vllm::Fp8KVCacheDataType)0``, the value decides, not the type's name. Other
names, for example of hand-written Triton kernels, are unknown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from hta_widgets.analysis.efficiency.calls import is_float4_pair, is_float8

#: Names end after this many characters, since templates may have thousands.
_MAX_SEARCHED: Final = 2_000


class KernelUnits(NamedTuple):
    """``tensor_core`` is ``yes``, ``no`` or ``unknown``; ``precision`` is empty if unknown."""

    tensor_core: str
    precision: str


_TENSILE: Final = re.compile(r"cijk_")
_TENSILE_MATRIX: Final = re.compile(r"_mi\d+x\d+x\d+")
_NO: Final = re.compile(
    r"simt|sgemm|dgemm(?!.*d884)|cgemm|scudnn|gemv|gemmk1|splitkreduce|reducesplitk|winograd|fft2d"
    r"|dgrad_engine|wgrad_alg0|offsetskernel|im2col|nchwtonhwc|nhwctonchw|nccl|at::native|at::cuda"
    r"|elementwise|triton_(poi|red|per)_|dot_do_o|splitkv_combine|layer_?norm|batch_?norm|bn_(fw|bw)"
    r"|group_?norm|rms_?norm|softmax|transpose|subtensorop|multi_tensor|epilogue::|fbgemm_gpu::"
    r"|split_embedding|cub::|thrust|^mem(cpy|set)|fill_?buffer|reduce_wgrad|scalepackedtensor"
    r"|nllcriterion|cast_to_fp8|normalization::|moe::dev::(finalize|routing)|quantize_with_block"
    r"|reshape_and_cache|store_kv|reduce_segments|_topk_forward|_reduce_kernel|routing_(compute|memset)"
)
_YES: Final = re.compile(
    r"[hsdi]884|[hs]1688|[hs]16816|s161616|i8816|i16832|tensorop|xmma_.*gemm|hmma|imma|wgmma"
    r"|tcgen05|umma|nvjet_|cutlass3x_sm(90|100|103|120)_tensorop"
    r"|cutlass::device_kernel<.*(gemm|flash|fmha|attn)|flash_(fwd|bwd)|fmha_cutlass[fb]_(bf16|f16)"
    r"|cudnn_generated_.*sdpa|deep_gemm|triton_tem_|_matmul_ogs_|^bmm_\w+_fp32_t\d|fmhasm\d+"
    r"|xdlops|gtcx|mfma|ck.*gemm.*xdl|fmhafwdkernel|fmha_(fwd|bwd)|gemm_a8w8|gemm_a4w4|bf16gemm"
    r"|ck_tile.*gemm|\bmarlin\w*::marlin\b|gemm_forward_4bit|(single|batch)prefillwith"
)
_PRECISIONS: Final = (
    (r"d884|dgemm", "fp64"),
    # Products of two types run at the rate of the wider one.
    (r"e2m1\w{0,2}e4m3", "fp8"),
    (r"bf16x\w*fp4", "bf16"),
    (r"e2m1|fp4|mxfp4|a4w4", "fp4"),
    (r"e4m3|e5m2|fp8|qmma|a8w8", "fp8"),
    (r"bf16|bfloat16|_bbs_|_b_bs_", "bf16"),
    (r"tf32", "tf32"),
    (r"(?<![a-z])f16(?!\w*f32)|fp16|half|h884|h1688|h16816|hgemm|_hhs_|_h_hs_|_f16_", "fp16"),
    (r"(?<![a-z])i8\d*|int8|imma", "int8"),
    (r"s1688|tf32|tfloat32|tensorfloat", "tf32"),
    (r"sgemm|scudnn|simt_s|fmha_cutlass[fb]_f32", "fp32"),
)
#: A value of an enumeration among template arguments: ``(vllm::Fp8KVCacheDataType)0``, or its name.
_ENUM_VALUE: Final = re.compile(r"\((?:\w+::)*(\w+)\)(-?\d+)|\b(\w*type)::(k\w+)")
#: Values that state a type of data, by enumeration. The name of an enumeration states none.
_TYPES_OF_VALUES: Final = {
    "fp8kvcachedatatype": {
        "1": "fp8", "2": "fp8", "kfp8e4m3": "fp8", "kfp8e5m2": "fp8",
    },
}  # fmt: skip
#: ``nvjet_<inputs><accumulator><output>_``; other letters were not seen.
_NVJET: Final = {"h": "fp16", "t": "bf16", "s": "fp32"}


@cache
def kernel_units(name: str) -> KernelUnits:
    """Return whether a kernel runs on tensor cores, and its precision.

    Examples
    --------
    >>> kernel_units("volta_fp16_s884gemm_fp16_256x64_ldg8_f2f_nn")
    KernelUnits(tensor_core='yes', precision='fp16')
    """
    text = _ENUM_VALUE.sub(_type_of_value, name[:_MAX_SEARCHED].lower())
    if _TENSILE.search(text):
        uses = "yes" if _TENSILE_MATRIX.search(text) else "no"
        precision = _tensile_precision(text)
        is_matrix = uses == "yes" and precision in {"fp32", "fp64"}
        return KernelUnits(uses, f"{precision}_matrix" if is_matrix else precision)
    uses = "no" if _NO.search(text) else "yes" if _YES.search(text) else "unknown"
    nvjet = re.search(r"nvjet_(?:sm\d+_)?([a-z])[a-z]{2}_", text)
    if nvjet:
        return KernelUnits(uses, _NVJET.get(nvjet[1], ""))
    precisions = (precision for pattern, precision in _PRECISIONS if re.search(pattern, text))
    return KernelUnits(uses, next(precisions, ""))


def _type_of_value(match: re.Match[str]) -> str:
    """Return the type of data that a value of an enumeration states, else the value."""
    value = match[2] or match[4]
    return _TYPES_OF_VALUES.get(match[1] or match[3], {}).get(value, value)


def _tensile_precision(text: str) -> str:
    patterns = (
        (r"_bbs_|_b_bs_|_bss_", "bf16"), (r"_hhs_|_h_hs_|_hss_", "fp16"), (r"_f8", "fp8"),
        (r"_i8", "int8"), (r"_sb_|_s_mx", "fp32"), (r"_db_", "fp64"),
    )  # fmt: skip
    return next((precision for pattern, precision in patterns if re.search(pattern, text)), "")


#: Patterns in lower-case names of kernels that give their category; the first match decides.
_PATTERNS: Final = (
    (
        "communication",
        (
            "[nr]ccl all_?reduce all_?gather reduce_?scatter all_?to_?all cross_device_reduce"
            " multimem nvshmem deep_ep \\b(inter|intra)node::"
        ),
    ),
    ("copy", "^mem(cpy|set) reshape_and_cache store_kv"),
    ("elementwise", "rotary"),
    ("attention", "attention fmha flash sdpa attn mha_ mla_ paged"),
    (
        "convolution",
        r"conv_?\d?d convol fprop dgrad wgrad winograd igemm_ im2col bwd_(weight|data)",
    ),
    (
        "gemm",
        (
            r"gem[mv] cijk_ matmul nvjet \bbmm_ xmma splitkreduce marlin f(used_)?moe_ wvsplitk"
            " cutlass.*tensorop"
        ),
    ),
    ("triton", "^triton_"),
    ("reduction", "topk cross_?entropy"),
    ("norm", r"norm \bbn_(fw|bw)"),
    ("softmax", "softmax"),
    ("optimizer", r"multi_tensor adam \bsgd"),
    ("embedding", "gather scatter index(?!.*impl_nocast) embedding lookup"),
    ("copy", r"copy cache transpose fill memset nchwtonhwc nhwctonchw catarray \bpad"),
    ("reduction", "reduce pool argmax sort scan cumsum histogram sum_ loss"),
    ("elementwise", "elementwise silu gelu swiglu act_and_mul quant cast tensorop dropout"),
)
_CATEGORY_OF_PATTERN: Final = tuple(
    (re.compile("|".join(patterns.split())), category) for category, patterns in _PATTERNS
)


@cache
def kernel_category(name: str) -> str:
    """Return the category of a kernel, ``other`` if its name does not say.

    Examples
    --------
    >>> kernel_category("void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>")
    'attention'
    """
    text = name[:_MAX_SEARCHED].lower()
    matching = (name for pattern, name in _CATEGORY_OF_PATTERN if pattern.search(text))
    return next(matching, "other")


_OF_TYPE: Final = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "double": "fp64",
    "signed char": "int8",
}


def call_precision(units: KernelUnits, type_name: str, capability: str, *, is_amd: bool) -> str:
    """Return the precision of a matrix operator from its kernel and the type of its inputs.

    Float inputs run as FP32 or TF32 on NVIDIA's devices since 8.0, and on ordinary or matrix units
    of AMD's, which only the kernel's name shows. Empty if neither does.
    """
    if units.precision and not (units.precision == "fp32" and type_name in _OF_TYPE):
        if units.precision == "fp32" and units.tensor_core == "yes" and not is_amd:
            return "tf32"
        return units.precision
    if type_name in _OF_TYPE:
        return _OF_TYPE[type_name]
    if is_float8(type_name) or is_float4_pair(type_name):
        return "fp8" if is_float8(type_name) else "fp4"
    if type_name != "float":
        return ""
    uses_matrix = units.tensor_core == "yes"
    if is_amd:
        return {"yes": "fp32_matrix", "no": "fp32"}.get(units.tensor_core, "")
    if capability and int(capability.partition(".")[0]) < 8:
        return "fp32"
    return "tf32" if uses_matrix else "fp32" if units.tensor_core == "no" else ""

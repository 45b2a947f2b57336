"""Tensor-core use, precision and category of a kernel, derived from its name.

The first pattern in ``facts/name_patterns.json`` that matches the lower-case name applies. A
product of two types runs at the rate of the wider one. For example,
``ampere_bf16_s16816gemm_bf16_128x64_ldg8`` runs on tensor cores in BF16, and
``volta_sgemm_128x64_nn`` on ordinary units in FP32. An enumeration value, such as
``(vllm::Fp8KVCacheDataType)0``, is replaced by the type that its number stands for, because the
enumeration's name states no type. Other names, such as handwritten Triton kernels, are unknown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from hta_widgets.analysis.efficiency.calls import bits_of_small_float
from hta_widgets.analysis.efficiency.devices import UsedDevice
from hta_widgets.facts import facts

#: Only this many characters of a name are searched; template names may have thousands.
_MAX_SEARCHED: Final = 2_000


class KernelUnits(NamedTuple):
    """``tensor_core`` is ``yes``, ``no`` or ``unknown``; an unknown ``precision`` is ""."""

    tensor_core: str
    precision: str


_TENSILE: Final = re.compile(r"cijk_")
_TENSILE_MATRIX: Final = re.compile(r"_mi\d+x\d+x\d+")
#: An enumeration value in template arguments, as ``(vllm::Fp8KVCacheDataType)0`` or by name.
_ENUM_VALUE: Final = re.compile(r"\((?:\w+::)*(\w+)\)(-?\d+)|\b(\w*type)::(k\w+)")
#: ``nvjet_<inputs><accumulator><output>_``. The table has the letters found in known names.
_NVJET: Final = re.compile(r"nvjet_(?:sm\d+_)?([a-z])[a-z]{2}_")


@cache
def _patterns(table: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = facts("name_patterns")[table]
    return tuple((re.compile("|".join(patterns)), value) for value, patterns in rows)


def match_name(table: str, text: str, default: str = "") -> str:
    """Return the value of the first matching row of a table in ``name_patterns.json``."""
    return next((value for pattern, value in _patterns(table) if pattern.search(text)), default)


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
        precision = match_name("tensile_precisions", text)
        is_matrix = uses == "yes" and precision in {"fp32", "fp64"}
        return KernelUnits(uses, f"{precision}_matrix" if is_matrix else precision)
    uses = match_name("tensor_cores", text, "unknown")
    if nvjet := _NVJET.search(text):
        return KernelUnits(uses, facts("name_patterns")["nvjet_precisions"].get(nvjet[1], ""))
    return KernelUnits(uses, match_name("precisions", text))


def _type_of_value(match: re.Match[str]) -> str:
    """Return the data type that an enumeration value stands for, or the value itself.

    The enumeration's name alone states no type.
    """
    value = match[2] or match[4]
    types: dict[str, str] = facts("name_patterns")["enumerations"].get(match[1] or match[3], {})
    return types.get(value, value)


@cache
def kernel_category(name: str) -> str:
    """Return a kernel's category; ``other`` if its name does not show it.

    Examples
    --------
    >>> kernel_category("void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>")
    'attention'
    """
    return match_name("kernel_categories", name[:_MAX_SEARCHED].lower(), "other")


_OF_TYPE: Final[dict[str, str]] = {
    row["name"]: row["precision"] for row in facts("types") if "precision" in row
}


def call_precision(units: KernelUnits, type_name: str, device: UsedDevice) -> str:
    """Return the precision of a matrix operator from its kernel and its input type.

    Float inputs run as FP32 or TF32 on NVIDIA devices of compute capability 8.0 or later, and on
    ordinary or matrix units on AMD devices, as the kernel's name shows. The result may be "".
    """
    if units.precision and not (units.precision == "fp32" and type_name in _OF_TYPE):
        if units.precision == "fp32" and units.tensor_core == "yes" and not device.is_amd:
            return "tf32"
        return units.precision
    if type_name in _OF_TYPE:
        return _OF_TYPE[type_name]
    if bits := bits_of_small_float(type_name):
        return f"fp{bits}"
    if type_name != "float":
        return ""
    if not device.is_amd and 0 <= device.major < 8:
        return "fp32"
    on_matrix_units = "fp32_matrix" if device.is_amd else "tf32"
    return {"yes": on_matrix_units, "no": "fp32"}.get(units.tensor_core, "")

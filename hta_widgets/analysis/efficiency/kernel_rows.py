"""Device work that no operator in the file launched, by kernel.

Replays of CUDA graphs launch hundreds of kernels with one call, and work that was launched before
recording began has no call. Their arguments are unknown, so they have a category by their name, a
time, and a reason instead of figures. For example, the replay of a decoding step has the row
``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1``, category ``gemm``, "replayed from a graph".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from hta_widgets.analysis.efficiency.call_times import CallTimes
from hta_widgets.analysis.efficiency.precision import kernel_units
from hta_widgets.analysis.scope import RankPart
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Ints,
    Rows,
    group_by_columns,
    group_statistics,
    sum_by_group,
)
from hta_widgets.trace.intervals import CumulativeCoverage

_COMPUTE, _COMMUNICATION = KINDS.index("compute"), KINDS.index("communication")
_REASONS: Final = (
    "no launching call in the file",
    "launched outside of operators",
    "replayed from a graph",
)
_GRAPH_LAUNCH: Final = re.compile(r"graph_?launch", re.IGNORECASE)
_MAX_SEARCHED: Final = 2_000
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
    ("norm", r"norm \bbn_(fw|bw)"),
    ("softmax", "softmax"),
    ("optimizer", r"multi_tensor adam \bsgd"),
    ("embedding", "gather scatter index(?!.*impl_nocast) embedding lookup"),
    ("copy", r"copy cache transpose fill memset nchwtonhwc nhwctonchw catarray \bpad"),
    ("reduction", "reduce topk argmax sort scan cumsum histogram sum_ loss"),
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


def kernel_rows(
    part: RankPart, times: CallTimes, keys: tuple[str, ...], schema: Mapping[str, str]
) -> dict[str, Any]:
    """Return the rows of `operator_efficiency` for the selected work below no operator."""
    calls, table = times.signatures.calls, part.table
    start, end = part.clip_rows(calls.work)
    is_shown = (calls.call_of_work < 0) & part.contains(calls.work)
    if part.low is not None or part.high is not None:
        is_shown &= end > start
    work, start, end = calls.work[is_shown], start[is_shown], end[is_shown]
    kind = table.kind[work]
    coverage = part.union_of_all_of_kinds("communication")
    during = CumulativeCoverage(coverage.start, coverage.end)
    communicates = kind == _COMMUNICATION
    reason = _reasons(part, work)
    step = table.step[work] if "step" in keys else np.full(len(work), -1)
    first, group = group_by_columns([table.name[work], reason, step, communicates])
    count = len(first)
    compute_ns = np.where(kind == _COMPUTE, end - start, 0)
    overlapped_ns = np.where(communicates, 0, during(end) - during(start))
    spent = group_statistics(group, count, end - start)
    names = [table.names[code] for code in table.name[work[first]].tolist()]
    is_communication = communicates[first].tolist()
    empty = {"str": "", "int64": -1, "float64": np.nan, "bool": False}
    return {
        **{
            column: [""] * count if dtype == "str" else np.full(count, empty[dtype], dtype)
            for column, dtype in schema.items()
        },
        "rank": part.rank,
        "step": step[first].astype(np.int64),
        "name": names,
        "category": [
            "communication" if flag else kernel_category(text)
            for text, flag in zip(names, is_communication, strict=True)
        ],
        "flops_kind": ["none"] * count,
        "certainty": ["unknown"] * count,
        "reason": [
            "communication" if flag else _REASONS[code]
            for code, flag in zip(reason[first].tolist(), is_communication, strict=True)
        ],
        "precision": [kernel_units(text).precision for text in names],
        "count": spent.count,
        "kernels": spent.count,
        "device_ns": spent.sum,
        "compute_kernel_ns": sum_by_group(group, compute_ns, count),
        "overlapped_ns": sum_by_group(group, overlapped_ns, count),
        "min_ns": spent.min,
        "max_ns": spent.max,
        "inside": np.ones(count),
    }


def _reasons(part: RankPart, work: Rows) -> Ints:
    """Return the place in `_REASONS` of why each work has no operator."""
    names = part.table.names.values
    is_graph = np.array([*(bool(_GRAPH_LAUNCH.search(text)) for text in names), False])
    launch = part.trace.launch_of[work]
    return np.where(launch < 0, 0, 1 + is_graph[part.table.name[launch]])

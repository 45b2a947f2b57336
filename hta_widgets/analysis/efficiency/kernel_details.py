"""Launch geometry, occupancy and tensor-core use of kernels.

NVIDIA's profiler computes occupancy from the launch instead of measuring it: blocks of 256 threads,
2 of them on a unit of at most 2048 threads, have an occupancy of 25 %. AMD's profiler writes only
grid (in threads for ``hipExtModuleLaunchKernel``) and block; old files have them on the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isnan, prod
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.devices import device_properties, used_device, whole_number
from hta_widgets.analysis.efficiency.kernel_names import kernel_units
from hta_widgets.analysis.efficiency.modules import module_owners
from hta_widgets.analysis.efficiency.signatures import signatures
from hta_widgets.analysis.frames import float64, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, count_by_kind, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Array, Ints, Rows
from hta_widgets.trace.call_args import LaunchArgs, launch_args
from hta_widgets.trace.columns import parse_json
from hta_widgets.trace.host_stack import name_mask, operator_tree
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Kernels with a shorter mean duration are short: launching them takes as long as running them.
_SHORT_NS: Final = 10_000
#: The HIP call whose ``grid`` counts threads, used by MIOpen and hipBLASLt to launch kernels.
_IN_THREADS: Final = "hipExtModuleLaunchKernel"
_KEYS: Final = ["name", "launch"]
_UNIT_KEYS: Final = ("numSms", "maxThreadsPerMultiprocessor", "warpSize")
_GEOMETRY: Final = (
    "grid", "block", "threads", "registers", "shared_memory", "blocks_per_sm", "warps_per_sm",
    "waves", "sm_efficiency_share", "occupancy_share", "limited_by",
)  # fmt: skip
_SCHEMA: Final = {
    "rank": "int64",
    "name": "str",
    **int64("count sum_ns"),
    "mean_ns": "float64",
    **int64("min_ns max_ns"),
    **dict.fromkeys(("grid", "block"), "str"),
    **int64("threads registers shared_memory operators"),
    **float64("blocks_per_sm warps_per_sm waves occupancy_share sm_efficiency_share"),
    **dict.fromkeys(("limited_by", "tensor_core", "precision", "operator", "module"), "str"),
    "short": "bool",
}


@check_arguments
def kernel_details(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the geometry, occupancy and tensor-core use of compute kernels.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The kernels to return, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank, kernel, grid and block, ordered by rank, then by time:

        - ``count, sum_ns, mean_ns, min_ns, max_ns``; ``short``: the mean is below 10 µs
        - ``grid`` in blocks, ``block`` in threads; ``threads`` per block, ``registers`` per thread,
          ``shared_memory`` per block in bytes; -1 if the file does not have them
        - ``blocks_per_sm``: blocks of the grid per unit of the device; ``warps_per_sm``; ``waves``:
          number of rounds in which the blocks run; ``sm_efficiency_share``: share of units that
          have a block
        - ``occupancy_share``, as the profiler computes it from the launch, and ``limited_by``
        - ``tensor_core``: ``yes``, ``no`` or ``unknown``, from the kernel's name; ``no`` below
          operators without matrix work; ``precision``, empty if unknown
        - ``operator``: the one with the most time; ``operators``: how many operators launched the
          kernel; ``module``: the module's class

        ``.attrs``: ``tensor_core_share`` and ``unknown_tensor_core_share`` of the time;
        ``short_kernels`` and ``short_ns``.
    """
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    frame = pd.DataFrame(stack_blocks(list(map_ranks(parts, _details_of_rank)), _SCHEMA))
    frame = frame.sort_values(["rank", "sum_ns"], ascending=[True, False], ignore_index=True)
    time_ns = max(int(frame["sum_ns"].sum()), 1)
    time_by_use = frame.groupby("tensor_core")["sum_ns"].sum()
    short = frame[frame["short"]]
    return result_frame(
        {name: frame[name] for name in _SCHEMA},
        matched=count_by_kind(parts, ("compute",)),
        note="" if len(frame) else note_text("no_kernels_of", kinds="compute"),
        tensor_core_share=float(time_by_use.get("yes", 0) / time_ns),
        unknown_tensor_core_share=float(time_by_use.get("unknown", 0) / time_ns),
        short_kernels=int(short["count"].sum()),
        short_ns=int(short["sum_ns"].sum()),
    )


def _details_of_rank(part: RankPart) -> dict[str, Any]:
    trace, table = part.trace, part.table
    rows = part.rows_of_kinds("compute")
    rows = rows[table.stream[rows] >= 0]
    launches = launch_args(trace, rows)
    in_threads = np.append(name_mask(trace, _IN_THREADS.__eq__), False)[trace.launch_of[rows]]
    class_names = np.array(module_owners(trace).class_names, dtype=object)
    class_of_module, classes = pd.factorize(class_names)
    # Launch codes are even for grids in blocks and odd for grids in threads.
    kernels = _callers_of_kernels(trace, rows, class_of_module).assign(
        name=table.name[rows], launch=launches.code * 2 + in_threads, time_ns=part.durations(rows)
    )
    groups = kernels.groupby(_KEYS, sort=False)
    times = groups["time_ns"].agg(["count", "sum", "mean", "min", "max"])
    names, launch_codes = (times.index.get_level_values(key).tolist() for key in _KEYS)
    main_operator, main_module = (
        _value_with_most_time(kernels, key)[times.index] for key in ("operator", "module")
    )
    operators = groups["operator"].nunique() - (groups["operator"].min() < 0)  # without -1: unknown
    units = [kernel_units(table.names[name]) for name in names]
    tensor_core = [
        "no" if each.tensor_core == "unknown" and does_no_matrix_work else each.tensor_core
        for each, does_no_matrix_work in zip(units, groups["is_vector"].all(), strict=True)
    ]
    return {
        "rank": part.rank,
        "name": [table.names[name] for name in names],
        **{f"{name}_ns": times[name].to_numpy() for name in ("sum", "mean", "min", "max")},
        "count": times["count"].to_numpy(),
        **_geometry_columns(trace, launches, launch_codes),
        "tensor_core": tensor_core,
        "precision": [each.precision for each in units],
        "operator": [table.names[code] if code >= 0 else "" for code in main_operator],
        "operators": operators.to_numpy(),
        "module": [classes[code] if code >= 0 else "" for code in main_module],
        "short": times["mean"].to_numpy() < _SHORT_NS,
    }


def _geometry_columns(trace: Trace, launches: LaunchArgs, codes: Sequence[int]) -> dict[str, Array]:
    """Return the columns `_GEOMETRY` of launches, given their codes from `_details_of_rank`."""
    properties = device_properties(trace, used_device(trace).device_id)
    rows = [
        _geometry(properties, launches.texts[code // 2], in_threads=bool(code % 2))
        for code in codes
    ]
    return {key: np.array([row[key] for row in rows]) for key in _GEOMETRY}


def _callers_of_kernels(trace: Trace, rows: Rows, class_of_module: Ints) -> pd.DataFrame:
    """Return the codes of each kernel's operator name and module class; -1 if there is none.

    ``is_vector`` marks kernels whose operator does no matrix work.
    """
    tree, signature_set = operator_tree(trace), signatures(trace)
    launch = trace.launch_of[rows]
    # Index -1 (no launch, operator or call) selects the appended value.
    name_of_operator = np.append(trace.table.name[tree.rows].astype(np.int64), -1)
    # Owners below -1, such as the optimizer, are not modules.
    module = np.maximum(np.append(module_owners(trace).owner, -1)[launch], -1)
    is_vector = np.append(signature_set.texts_of_work("kind") == "vector", False)
    return pd.DataFrame(
        {
            "operator": name_of_operator[tree.innermost[launch]],
            "module": np.append(class_of_module, -1)[module],
            "is_vector": is_vector[signature_set.calls.of_work(rows, len(trace))],
        }
    )


def _value_with_most_time(kernels: pd.DataFrame, column: str) -> pd.Series:
    sums = kernels.groupby([*_KEYS, column], sort=False)["time_ns"].sum()
    ordered = sums.reset_index().sort_values("time_ns", kind="stable")
    return ordered.groupby(_KEYS)[column].last()


def _geometry(
    device: dict[str, Any], texts: tuple[bytes, ...], *, in_threads: bool
) -> dict[str, Any]:
    """Return the columns `_GEOMETRY` of a launch; `device` is an entry in ``deviceProperties``."""
    grid, block, registers, shared, blocks_per_sm, occupancy, limits = map(parse_json, texts)
    if in_threads and _is_sizes(grid) and _is_sizes(block):
        grid = [-(-total // size) for total, size in zip(grid, block, strict=False)]
    units, max_threads, warp = (max(whole_number(device.get(key)), 0) for key in _UNIT_KEYS)
    threads = prod(block) if _is_sizes(block) else -1
    per_sm = _positive(blocks_per_sm)
    if isnan(per_sm) and _is_sizes(grid) and units:
        per_sm = prod(grid) / units
    occupancy_share = _positive(occupancy) / 100
    resident = occupancy_share * max_threads / threads  # blocks that run on a unit at a time
    limiting = limits.get("limitingFactors") if isinstance(limits, dict) else ""
    limited_by = ", ".join(map(str, limiting)) if isinstance(limiting, list) else str(limiting)
    return {
        "grid": json.dumps(grid) if _is_sizes(grid) else "",
        "block": json.dumps(block) if _is_sizes(block) else "",
        "threads": threads,
        "registers": whole_number(registers),
        "shared_memory": whole_number(shared),
        "blocks_per_sm": per_sm,
        "warps_per_sm": per_sm * threads / (warp or 32) if threads > 0 else float("nan"),
        "waves": max(per_sm / resident, 1.0) if resident > 0 else float("nan"),
        "sm_efficiency_share": float(np.minimum(per_sm, 1.0)),
        "occupancy_share": occupancy_share,
        "limited_by": limited_by,
    }


def _positive(value: Any) -> float:
    """Return a value from a file as a float; NaN if it is not a positive number."""
    is_positive = isinstance(value, (int, float)) and 0 < value < float("inf")
    return float(value) if is_positive else float("nan")


def _is_sizes(value: Any) -> bool:
    is_list = isinstance(value, list) and all(type(size) is int and size > 0 for size in value)
    return is_list and whole_number(prod(value)) > 0

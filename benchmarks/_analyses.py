"""Time every analysis of the HTA interface, and print the fields of a `Run`.

    python _analyses.py MODULE FILES.json REPEAT OUT_FOLDER

MODULE contains `TraceAnalysis`, either ours or HTA's. FILES.json maps ranks to files. The script
runs in both environments.
"""

import gc
import inspect
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


#: Methods that write files and return None.
WRITES = {"generate_trace_with_counters", "get_aten_op_kernels_and_delay"}


def calls(ranks: list[int], folder: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, method and arguments of each analysis, as called in HTA's notebooks."""
    first = ranks[0]
    steps = {"rank": first, "annotation": "ProfilerStep", "instance_id": 1}
    return [
        ("temporal breakdown", "get_temporal_breakdown", {}),
        ("idle time", "get_idle_time_breakdown", {"ranks": ranks}),
        (
            "idle time, with statistics",
            "get_idle_time_breakdown",
            {"ranks": ranks, "show_idle_interval_stats": True},
        ),
        ("kernel breakdown", "get_gpu_kernel_breakdown", {}),
        ("overlap", "get_comm_comp_overlap", {}),
        ("launch statistics", "get_cuda_kernel_launch_stats", {"ranks": ranks}),
        ("operator kernels and delays", "get_aten_op_kernels_and_delay", {"ranks": ranks}),
        ("memory bandwidth, series", "get_memory_bw_time_series", {"ranks": ranks}),
        ("memory bandwidth, summary", "get_memory_bw_summary", {"ranks": ranks}),
        ("queue length, series", "get_queue_length_time_series", {"ranks": ranks}),
        ("queue length, summary", "get_queue_length_summary", {"ranks": ranks}),
        (
            "frequent sequences",
            "get_frequent_cuda_kernel_sequences",
            {"operator_name": "aten::", "output_dir": folder, "rank": first},
        ),
        ("annotations", "get_gpu_user_annotation_breakdown", {"use_gpu_annotation": False}),
        ("kernels by annotation", "get_gpu_kernels_with_user_annotations", {"rank": first}),
        ("stragglers", "get_potential_stragglers", {}),
        ("critical path of a step", "critical_path_analysis", steps),
        ("trace with counters", "generate_trace_with_counters", {"ranks": [first]}),
    ]


def forget(analysis: object) -> None:
    """Clear the caches of this package, so that every call computes its result."""
    for traces in {id(value): value for value in vars(analysis).values()}.values():
        if isinstance(traces, dict) or not hasattr(traces, "values"):
            continue
        for trace in (traces, *traces.values()):
            memo = getattr(trace, "memo", None)
            if memo is not None:
                memo.clear()


def timed(
    method: Callable[..., object], arguments: dict[str, Any], repeat: int, analysis: object
) -> float | str:
    best = float("inf")
    for _ in range(repeat):
        forget(analysis)
        gc.collect()
        start = time.perf_counter()
        try:
            answer = method(**arguments)
        except Exception as error:  # noqa: BLE001 - that it fails is the finding
            return f"{type(error).__name__}: {str(error)[:60]}"
        spent = time.perf_counter() - start
        if answer is None and method.__name__ not in WRITES:
            return "no answer"
        best = min(best, spent)
        if spent > 5:
            break
    return best


def main() -> None:
    module, files, repeat, folder = sys.argv[1:]
    listed = json.loads(Path(files).read_text())
    by_rank = {int(rank): path for rank, path in listed.items()}
    kind = import_module(module).TraceAnalysis
    start = time.perf_counter()
    analysis = kind(trace_files=by_rank, trace_dir="/")
    loaded = time.perf_counter() - start
    result = {}
    for name, method_name, requested in calls(sorted(by_rank), folder):
        method = getattr(analysis, method_name)
        takes = inspect.signature(method).parameters
        further = {"visualize": False, "output_dir": folder}
        arguments = {**{key: further[key] for key in further if key in takes}, **requested}
        result[name] = timed(method, arguments, int(repeat), analysis)
    print("\n" + json.dumps({"seconds": loaded, "added_mb": 0.0, "extra": result}))


main()

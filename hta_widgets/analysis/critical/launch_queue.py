"""Which kernels HTA takes for launched into an empty queue."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.trace import Trace

from hta_widgets.analysis.critical.rules import named

__all__ = ["found_empty"]

Rows = npt.NDArray[np.intp]

#: The launching calls that HTA counts.
_COUNTED = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemcpyAsync",
        "hipMemsetAsync",
        "hipMemcpyWithStream",
        "runFunction - job_prep_and_submit_for_execution",
    }
)


def found_empty(trace: Trace, rows: Rows) -> npt.NDArray[np.bool_]:
    """Return of which device rows the queue held only them at their call, and none at their start.

    HTA counts the launches of its list that were called less those that have started, stream by
    stream over the whole rank; a queue of unknown length is not empty.
    """
    table = trace.table
    device = np.flatnonzero(table.stream >= 0)
    call = trace.launch_of[device]
    device, call = device[call >= 0], call[call >= 0]
    counted = named(trace, call, _COUNTED.__contains__)
    device, call = device[counted], call[counted]
    count = len(device)
    time = np.concatenate((table.start_ns[call], table.start_ns[device]))
    step = np.repeat((1, -1), count)
    stream = np.tile(table.stream[device], 2)
    order = np.lexsort((-step, time, stream))
    running = np.cumsum(step[order])
    # Each stream adds up to zero.
    length = np.empty(2 * count, dtype=np.int64)
    length[order] = running
    empty = np.zeros(len(trace) + 1, dtype=bool)
    empty[device] = (length[:count] == 1) & (length[count:] == 0)
    return empty[rows]

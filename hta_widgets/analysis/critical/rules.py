"""Terms of the critical path: types of edges, bounds of time, names of waiting calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Bools, Rows
from hta_widgets.trace.trace import Trace

#: Types of edges, in the order of their codes; ``lead`` is time before or after the path.
EDGE_TYPES: Final[tuple[str, ...]] = (
    "operator",
    "dependency",
    "kernel_launch_delay",
    "kernel_kernel_delay",
    "sync_dependency",
    "lead",
)
OPERATOR, DEPENDENCY, LAUNCH, KERNEL_KERNEL, SYNC, LEAD = range(len(EDGE_TYPES))

#: The causes of time on the path: HTA's terms, then causes of time that HTA leaves out.
BOUNDS: Final[tuple[str, ...]] = (
    "cpu_bound",
    "data_loading",
    "gpu_compute_bound",
    "gpu_communication_bound",
    "gpu_memory_bound",
    "gpu_kernel_kernel_overhead",
    "gpu_kernel_launch_overhead",
    "cpu_outside_operators",
    "cpu_blocked",
    "gpu_queue_wait",
    "sync_overhead",
    "outside_path",
)

#: Events that fetch data, by default: PyTorch's own ranges.
DATA_LOADING: Final[tuple[str, ...]] = (r"DataLoader",)

#: Names of calls that wait for work launched before, and of those that may wait for their own copy.
SYNCHRONIZING: Final = re.compile(r"(cuda|hip|cu|mu|acl|aclrt)\w*Synchronize\w*", re.IGNORECASE)
COPYING: Final = re.compile(r"(cuda|hip|cu|mu|acl|aclrt)\w*Mem(cpy|set)\w*", re.IGNORECASE)
#: The calls that HTA treats as blocking.
BLOCKING_IN_HTA: Final = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventQuery",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaMemcpyAsync",
    }
)


@dataclass(frozen=True)
class Rules:
    """Options for building the graph of dependencies."""

    as_hta: bool = False
    data_loading: tuple[str, ...] = DATA_LOADING


EXACT: Final = Rules()
HTA: Final = Rules(as_hta=True, data_loading=())


def named(trace: Trace, rows: Rows, wanted: Callable[[str], object]) -> Bools:
    """Return whether the name of each event is `wanted`."""
    table = trace.table
    codes = table.name[rows]
    hits = [code for code in np.unique(codes).tolist() if wanted(table.names[code])]
    return np.isin(codes, hits)


def patterns_of(texts: Sequence[str]) -> Callable[[str], object]:
    """Return a function that searches a name for these regular expressions."""
    if not texts:
        return lambda _: False
    try:
        return re.compile("|".join(f"(?:{text})" for text in texts)).search
    except re.error as cause:
        raise TraceError(
            f"data_load_events holds no regular expression ({cause})",
            remedy="Escape what is meant as it stands, for example with re.escape.",
        ) from None

"""Which host call launched which device work."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.ordering import sorted_unique
from hta_widgets.trace.ordering import stable_order
from hta_widgets.trace.table import Pool

__all__ = ["launch_links"]

Ints = npt.NDArray[np.int64]

#: Calls that put work on a device, whatever the vendor; others that share an id only surround them.
_LAUNCHING = re.compile(r"launch|memcpy|memset|submit|enqueue", re.IGNORECASE)


def launch_links(
    start: Ints,
    name: npt.NDArray[np.int32],
    names: Pool,
    device: npt.NDArray[np.bool_],
    correlation: Ints,
) -> tuple[Ints, Ints]:
    """Join host calls and device events by correlation id.

    One call may launch many events (a CUDA graph). Of several calls that share an id (a runtime
    call and the driver call inside it) the innermost that launches is taken; where ids are used
    again later in the file, the last call before the device event.

    Parameters
    ----------
    start, name, correlation : arrays
        Columns sorted by (start, longest first).
    device : array of bool
        Events of the device; the others are calls.

    Returns
    -------
    (sources, targets)
        Rows of calls and of what they launched, by target. Each device event occurs at most once.
    """
    linked = correlation >= 0
    work = np.flatnonzero(linked & device)
    host = np.flatnonzero(linked & ~device)
    none = np.empty(0, dtype=np.int64)
    if not len(work) or not len(host):
        return none, none
    wanted = sorted_unique(correlation[work])
    code, known = _codes(correlation[host], wanted)
    host, code = host[known], code[known]
    if not len(host):
        return none, none
    host, code = _prefer_launching(host, code, name, names, len(wanted))
    host, code = _drop_shared_zero(host, code, wanted)

    by_code = stable_order(code)
    host, code = host[by_code], code[by_code]
    low = np.searchsorted(code, np.arange(len(wanted) + 1))
    work_code = np.searchsorted(wanted, correlation[work])
    first, after = low[work_code], low[work_code + 1]
    has_call = after > first
    work, first, after = work[has_call], first[has_call], after[has_call]
    chosen = after - 1
    several = np.flatnonzero(after - first > 1)
    for k in several.tolist():
        calls = host[first[k] : after[k]]
        before = int(np.searchsorted(start[calls], start[work[k]], side="right"))
        chosen[k] = first[k] + max(before - 1, 0)
    return host[chosen].astype(np.int64), work.astype(np.int64)


def _codes(values: Ints, wanted: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the position of each value in the sorted `wanted`, and whether it is there."""
    code = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    return code, wanted[code] == values


def _prefer_launching(
    host: Ints, code: Ints, name: npt.NDArray[np.int32], names: Pool, size: int
) -> tuple[Ints, Ints]:
    if np.bincount(code, minlength=size).max() <= 1:
        return host, code
    used = np.unique(name[host])
    launching_name = np.zeros(len(names), dtype=bool)
    launching_name[[n for n in used.tolist() if _LAUNCHING.search(names[n])]] = True
    launching = launching_name[name[host]]
    has_launching = np.zeros(size, dtype=bool)
    has_launching[code[launching]] = True
    kept = launching | ~has_launching[code]
    return host[kept], code[kept]


def _drop_shared_zero(host: Ints, code: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    # Tools that have no id write 0, on call after call.
    if wanted[0] != 0 or (code == 0).sum() <= 1:
        return host, code
    return host[code != 0], code[code != 0]

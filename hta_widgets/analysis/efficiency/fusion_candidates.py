"""Chains of pointwise operators that one kernel could compute, with the bytes that it would save.

For example, ``mul`` writes 8 MB, and ``add`` and then ``relu`` read and write 8 MB each. One kernel
would keep both results between them in registers: 2 · 2 · 8 MB are not moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import has_shapes
from hta_widgets.analysis.efficiency.calls import (
    NO_SHAPES_NOTE,
    CallError,
    Tensor,
    broadcast,
    item_bytes,
)
from hta_widgets.analysis.efficiency.devices import Device, added_devices, used_device
from hta_widgets.analysis.efficiency.signatures import signatures
from hta_widgets.analysis.frames import result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, RankParts, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.call_args import Texts, decode_arg
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

_MAX_BYTES: Final = 1 << 50  # larger results are of damaged shapes

_SCHEMA: Final = {
    "rank": "int64",
    **dict.fromkeys(("operators", "shape"), "str"),
    **dict.fromkeys(("length", "count", "device_ns", "saved_bytes", "total_saved_bytes"), "int64"),
    "saving_ns": "int64",
}


@check_arguments
def fusion_candidates(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return chains of pointwise operators whose kernels follow each other on a stream.

    The operators of a chain have results of the same shape, so a compiler or a kernel written by
    hand may compute them at once. The trace does not show whether one uses the result of another:
    these are candidates.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The kernels; all by default.
    window, ranks : (start_ns, end_ns), iterable of int, optional
        Narrow the selection in time and to ranks.

    Returns
    -------
    DataFrame
        One row per rank and chain, the most bytes first: ``operators``, their names in order;
        ``shape`` of the results, ``length``, ``count`` of chains, ``device_ns`` of all;
        ``saved_bytes`` of a chain, each result between two operators written and read once;
        ``total_saved_bytes``, and ``saving_ns``, their time at the device's bandwidth, -1 if
        unknown.

    Examples
    --------
    >>> fusion_candidates(traces).head()  # doctest: +SKIP
    """
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    blocks = list(map_ranks(parts, partial(_chains_of_rank, added=added_devices())))
    frame = pd.DataFrame(stack_blocks(blocks, _SCHEMA))
    order = ["rank", "total_saved_bytes"]
    frame = frame.sort_values(order, ascending=[True, False], ignore_index=True)
    return result_frame(
        {name: frame[name] for name in _SCHEMA},
        matched={"chains": int(frame["count"].sum())},
        note=_note_of(parts) if frame.empty else "",
    )


def _note_of(parts: RankParts) -> str:
    """Return why no chain was found."""
    if not parts.traces:
        return note_text("no_ranks")
    if not any(map(has_shapes, iter_ranks(parts.traces))):
        return NO_SHAPES_NOTE
    return "no two pointwise operators of one shape follow each other on a stream"


def _chains_of_rank(part: RankPart, *, added: tuple[Device, ...]) -> dict[str, Any]:
    table, calls = part.table, signatures(part.trace)
    results = [
        _result(texts) if work.category == "elementwise" else None
        for texts, work in zip(calls.texts, calls.works, strict=True)
    ]
    shapes = {shape: at for at, shape in enumerate({each[0] for each in results if each})}
    shape_of = np.array([shapes[each[0]] if each else -1 for each in results] or [-1])
    work, call = calls.calls.work, calls.calls.call_of_work
    is_chosen = part.contains(work)
    work, call = work[is_chosen], call[is_chosen]
    order = np.lexsort((table.start_ns[work], table.track[work]))
    work, call = work[order], call[order]
    code = np.append(calls.code, -1)[call]
    shape = np.where(code >= 0, shape_of[code], -1)
    follows = (shape[1:] >= 0) & (shape[1:] == shape[:-1]) & (call[1:] != call[:-1])
    follows &= table.track[work][1:] == table.track[work][:-1]
    chain = np.concatenate(([0], np.cumsum(~follows)))[: len(work)]
    time_ns = part.durations(work)
    chains: dict[tuple[int, ...], list[int]] = {}
    in_chain = np.bincount(chain)[chain] > 1 if len(chain) else np.zeros(0, bool)
    places = np.flatnonzero(in_chain)
    for members in np.split(places, np.flatnonzero(np.diff(chain[places])) + 1):
        if len(members):
            totals = chains.setdefault(tuple(code[members].tolist()), [0, 0])
            totals[0] += 1
            totals[1] += int(time_ns[members].sum())
    device = used_device(part.trace, None, added)
    bandwidth = device.memory_gb_s if device else float("nan")
    saved = [2 * sum((results[at] or ((), 0))[1] for at in key[:-1]) for key in chains]
    sums = np.array(list(chains.values()), dtype=np.int64).reshape(-1, 2)
    total = np.array(saved, dtype=np.int64) * sums[:, 0]
    is_known = bandwidth > 0
    return {
        "rank": part.rank,
        "operators": [" → ".join(calls.names[at] for at in key) for key in chains],
        "shape": ["×".join(map(str, (results[key[0]] or ((), 0))[0])) for key in chains],
        "length": np.array([len(key) for key in chains], dtype=np.int64),
        "count": sums[:, 0],
        "device_ns": sums[:, 1],
        "saved_bytes": np.array(saved, dtype=np.int64),
        "total_saved_bytes": total,
        "saving_ns": (total / bandwidth).astype(np.int64) if is_known else np.full(len(total), -1),
    }


def _result(texts: Texts) -> tuple[tuple[int, ...], int] | None:
    """Return the shape and the bytes of a pointwise operator's result, None if unknown."""
    dims, types = decode_arg(texts[0]), decode_arg(texts[1])
    try:
        tensors = [
            Tensor(tuple(shape), kind)
            for shape, kind in zip(dims, types, strict=False)
            if isinstance(shape, list) and shape and all(type(size) is int for size in shape)
        ]
        shape = broadcast([tensor.dims for tensor in tensors])
        size_bytes = prod(shape) * item_bytes(tensors[0].type) if tensors else _MAX_BYTES
    except CallError:
        return None
    return (shape, size_bytes) if size_bytes < _MAX_BYTES else None

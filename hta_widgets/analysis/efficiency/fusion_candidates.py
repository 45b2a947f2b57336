"""Chains of pointwise operators that one kernel could compute, and the bytes this would save.

For example, ``mul`` writes 8 MB, then ``add`` and ``relu`` each read and write 8 MB. A single
kernel would keep the two intermediate results in registers, and avoid moving 2 · 2 · 8 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import has_shapes
from hta_widgets.analysis.efficiency.calls import NO_SHAPES_NOTE, Tensor, Work
from hta_widgets.analysis.efficiency.devices import Device, devices_of_user, used_device
from hta_widgets.analysis.efficiency.signatures import Signatures, signatures
from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, RankParts, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.traceset import Selection, TraceSet

#: Exceeds the memory of any device, yet sums over all chains in a file fit in 64 bits.
_MAX_BYTES: Final = 1 << 40
_SCHEMA: Final = {
    "rank": "int64",
    **dict.fromkeys(("operators", "shape"), "str"),
    **int64("length count device_ns saved_bytes total_saved_bytes saving_ns"),
}
#: Index of the bytes saved by all chains of a row.
_TOTAL: Final = list(_SCHEMA).index("total_saved_bytes")


@check_arguments
def fusion_candidates(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return chains of pointwise operators whose kernels directly follow each other on a stream.

    The results of a chain's operators have the same shape, so one kernel may compute them in one
    pass. They are candidates, as traces do not show whether an operator uses the previous result.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The kernels to search, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and chain, most bytes first: ``operators``, their names in order; ``shape``
        of the results, ``length``; ``count``, the number of such chains; ``device_ns``, their total
        time; ``saved_bytes`` per chain, which counts each intermediate result as written once and
        read once; ``total_saved_bytes``, and ``saving_ns``, the time that these bytes take at the
        device's memory bandwidth, -1 if unknown.
    """
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    rows_of_ranks = map_ranks(parts, partial(_chains_of_rank, added=devices_of_user()))
    rows = [row for rows in rows_of_ranks for row in rows]
    columns = columns_of_rows(rows, _SCHEMA)
    return result_frame(
        columns,
        matched={"chains": int(columns["count"].sum())},
        note="" if rows else _note_of(parts),
    )


def _note_of(parts: RankParts) -> str:
    if not parts.traces:
        return note_text("no_ranks")
    if not any(map(has_shapes, iter_ranks(parts.traces))):
        return NO_SHAPES_NOTE
    return "no two pointwise operators of the same shape follow each other on a stream"


def _chains_of_rank(part: RankPart, *, added: tuple[Device, ...]) -> list[tuple[Any, ...]]:
    signature_set = signatures(part.trace)
    distinct = signature_set.distinct
    results = [_pointwise_result(signature.work) for signature in distinct]
    shapes = [result.dims if result else () for result in results]
    size_bytes = [int(result.size_bytes) if result else 0 for result in results]
    count: Counter[tuple[int, ...]] = Counter()
    device_ns: Counter[tuple[int, ...]] = Counter()
    for work, codes in _chains(part, signature_set, shapes):
        count[codes] += 1
        device_ns[codes] += int(part.durations(work).sum())
    bandwidth = used_device(part.trace, added).memory_gb_s
    rows = []
    for codes in count:
        operators = " → ".join(distinct[code].name for code in codes)
        shape = "×".join(map(str, shapes[codes[0]]))
        saved_bytes = sum(2 * size_bytes[code] for code in codes[:-1])
        total_bytes = saved_bytes * count[codes]
        saving_ns = int(total_bytes / bandwidth) if bandwidth > 0 else -1
        numbers = (len(codes), count[codes], device_ns[codes], saved_bytes, total_bytes, saving_ns)
        rows.append((part.rank, operators, shape, *numbers))
    return sorted(rows, key=lambda row: -row[_TOTAL])


def _pointwise_result(work: Work) -> Tensor | None:
    # Larger results come from damaged shapes.
    is_valid = work.result is not None and work.result.size_bytes < _MAX_BYTES
    return work.result if is_valid and work.category == "elementwise" else None


def _chains(
    part: RankPart, signature_set: Signatures, shapes: Sequence[tuple[int, ...]]
) -> Iterator[tuple[Rows, tuple[int, ...]]]:
    """Yield each chain's device work and the signature codes of its calls.

    A chain's kernels directly follow each other, for different calls with results of one shape.
    """
    table, calls = part.table, signature_set.calls
    numbers: dict[tuple[int, ...], int] = {(): -1}
    shape_of_code = [numbers.setdefault(shape, len(numbers)) for shape in shapes]
    is_chosen = part.contains(calls.work)
    work, call = calls.work[is_chosen], calls.call_of_work[is_chosen]
    order = np.lexsort((table.start_ns[work], table.track[work]))
    work, call = work[order], call[order]
    code = np.append(signature_set.code, -1)[call]
    shape, track = np.array([*shape_of_code, -1])[code], table.track[work]
    follows = (shape[1:] >= 0) & (shape[1:] == shape[:-1]) & (call[1:] != call[:-1])
    follows &= track[1:] == track[:-1]
    chain = np.cumsum(np.append(True, ~follows)[: len(work)]) - 1
    in_chains = np.flatnonzero(np.bincount(chain)[chain] > 1)
    for members in np.split(in_chains, np.flatnonzero(np.diff(chain[in_chains])) + 1):
        if len(members):
            yield work[members], tuple(code[members].tolist())

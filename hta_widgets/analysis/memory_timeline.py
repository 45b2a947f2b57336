"""How much memory is in use over time, by what it is for: from PyTorch's memory export."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError

from hta_widgets.analysis.results import result

__all__ = ["MEMORY_CATEGORIES", "memory_timeline"]

Ints = npt.NDArray[np.int64]

#: What memory is for, in the order of the numbers by which PyTorch writes it.
MEMORY_CATEGORIES: tuple[str, ...] = (
    "Parameter",
    "Optimizer state",
    "Input",
    "Temporary",
    "Activation",
    "Gradient",
    "Autograd",
    "Unknown",
)

#: What happens to memory, by the numbers of PyTorch's ``Action``.
_ACTIONS = {1: "preexisting", 2: "create", 3: "increment_version", 4: "destroy"}

#: What is most often given, decoded without a list per event.
_Event = tuple[int, int, int, int]
_decode_events = msgspec.json.Decoder(list[_Event]).decode

_EXPORT = 'prof.export_memory_timeline("memory.raw.json.gz", device="cuda:0")'
_REMEDY = f"Write it with {_EXPORT}."


def memory_timeline(path: str | Path) -> pd.DataFrame:
    """Return the memory in use over time, by what it is for.

    Parameters
    ----------
    path : path-like
        What ``torch.profiler.profile.export_memory_timeline`` wrote, for one device: the single
        events (``.raw.json.gz``), or the sums by category (``.json``, ``.json.gz``). Which of
        them it is shows in the content; whether it is compressed as well.

    Returns
    -------
    DataFrame
        One row per instant of change, by time:

        ``time_ns``
            int64, since the first event; of whole microseconds in files of sums
        ``Parameter, Optimizer state, Input, Temporary, Activation, Gradient, Autograd, Unknown``
            int64, bytes in use after all changes at that instant

        ``.attrs`` has ``origin_ns``, the epoch time of the first event (None: all memory was there
        before); ``peak_bytes``, the most memory of each category; ``peak_total_bytes``,
        ``peak_time_ns`` and ``at_peak_bytes``: the most memory in all, when that was, and what it
        was for; ``preexisting_bytes``, what was there before the first event (empty in files of
        sums, which do not tell). ``matched`` counts events by action, or ``instants``.

    Raises
    ------
    TraceError
        Where the file is no such export: what is wrong with it, where, and what to do.

    Notes
    -----
    Sums and categories are those of HTA's ``MemoryAnalysis`` and of PyTorch's own plot. Memory
    that was there before the first event counts from that event on; HTA has a row of its own for
    it, with the same time.

    Examples
    --------
    >>> memory = memory_timeline("memory.raw.json.gz")  # doctest: +SKIP
    >>> memory.set_index("time_ns").sum(axis=1).max() / 2**30  # doctest: +SKIP
    """
    value = _decoded(Path(path))
    if _holds_sums(value):
        return _of_sums(value, path)
    return _of_events(value, path)


def _decoded(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError as cause:
        raise TraceError(
            f"cannot be read ({cause.strerror or cause})", path=path, remedy="Check the path."
        ) from None
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error, OSError) as cause:
            raise TraceError(
                f"the compressed data is damaged ({cause})",
                path=path,
                remedy="Copy the file again, or export it again.",
            ) from None
    if data.lstrip()[:1] == b"<":
        raise TraceError(
            "is a picture of the timeline, without its numbers", path=path, remedy=_REMEDY
        )
    try:
        with contextlib.suppress(msgspec.ValidationError):
            return _decode_events(data)
        # Sums, or no export at all.
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise TraceError(
            f"is no memory timeline ({cause})",
            path=path,
            remedy="Snapshots of torch.cuda.memory are another format. " + _REMEDY
            if data[:1] == b"\x80"
            else _REMEDY,
        ) from None


def _holds_sums(value: Any) -> bool:
    """Tell ``[times, sizes]`` from a list of events, which are lists of four numbers."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(v) is list for v in value):
        return False
    return not value[1] or type(value[1][0]) is list


def _of_events(value: Any, path: str | Path) -> pd.DataFrame:
    events = _checked(value, list[_Event], path)
    table = _numbers(events, 4, path)
    time, action, amount, category = table.T
    wrong = np.flatnonzero((category < 0) | (category >= len(MEMORY_CATEGORIES)))
    if len(wrong):
        raise TraceError(
            f"there is no category {category[wrong[0]]}",
            path=path,
            place=f"event {wrong[0]}",
            remedy=f"They go from 0 to {len(MEMORY_CATEGORIES) - 1}. {_REMEDY}",
        )
    before = time < 0
    origin = int(time[~before].min()) if not before.all() else None
    order = np.argsort(np.where(before, origin or 0, time), kind="stable")
    # What was there before comes first, wherever the file has it.
    order = np.concatenate((order[before[order]], order[~before[order]]))
    amounts = np.where(category[:, None] == np.arange(len(MEMORY_CATEGORIES)), amount[:, None], 0)
    sizes = np.cumsum(amounts[order], axis=0)
    matched = {word: int((action == code).sum()) for code, word in _ACTIONS.items()}
    return _frame(
        np.where(before, origin or 0, time)[order],
        sizes,
        origin,
        matched,
        amounts[before].sum(axis=0),
    )


def _of_sums(value: Any, path: str | Path) -> pd.DataFrame:
    times, sizes = _checked(value, tuple[list[int], list[list[int]]], path)
    columns = len(MEMORY_CATEGORIES)
    if len(times) != len(sizes):
        raise TraceError(
            f"{len(times)} times but {len(sizes)} rows of sizes", path=path, remedy=_REMEDY
        )
    # The first size of a row is 0: from there on areas are stacked.
    for row, one in enumerate(sizes):
        if len(one) != columns + 1:
            raise TraceError(
                f"{len(one)} sizes instead of {columns + 1}",
                path=path,
                place=f"row {row}",
                remedy=_REMEDY,
            )
    time = _numbers([times], len(times), path)[0]
    known = time[time >= 0]
    origin = int(known.min()) if len(known) else None
    time = np.where(time < 0, origin or 0, time)
    table = _numbers(sizes, columns + 1, path)[:, 1:]
    order = np.argsort(time, kind="stable")
    return _frame(
        time[order] * 1000,
        table[order],
        None if origin is None else origin * 1000,
        {"instants": len(time)},
        None,
    )


def _checked(value: Any, expected: Any, path: str | Path) -> Any:
    try:
        return msgspec.convert(value, expected)
    except msgspec.ValidationError as cause:
        reason, _, place = str(cause).partition(" - at ")
        kind = "is a trace" if isinstance(value, dict) and "traceEvents" in value else ""
        raise TraceError(
            f"{kind or 'is no memory timeline'} ({reason[:1].lower()}{reason[1:]})",
            path=path,
            place=place.strip("`") or None,
            remedy="Give memory_events what hw.load returns for it." if kind else _REMEDY,
        ) from None


def _numbers(rows: Sequence[Sequence[int]], width: int, path: str | Path) -> Ints:
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.int64, width * len(rows))
    except OverflowError:
        raise TraceError(
            "a number is too large for 64 bits", path=path, remedy="Is the file damaged?"
        ) from None
    return flat.reshape(len(rows), width)


def _frame(
    time: Ints,
    sizes: Ints,
    origin: int | None,
    matched: dict[str, int],
    preexisting: Ints | None,
) -> pd.DataFrame:
    """Return one row per instant: the last of those at the same time."""
    last = np.append(np.flatnonzero(time[1:] != time[:-1]), len(time) - 1)[: len(time)]
    time, sizes = time[last] - (origin or 0), sizes[last]
    total = sizes.sum(axis=1)
    peak = int(total.argmax()) if len(total) else -1

    def by_category(values: Ints | None) -> dict[str, int]:
        if values is None:
            return {}
        return dict(zip(MEMORY_CATEGORIES, map(int, values), strict=True))

    return result(
        {"time_ns": time, **dict(zip(MEMORY_CATEGORIES, sizes.T, strict=True))},
        matched=matched,
        note="" if len(time) else "the file holds no events: did the device allocate memory?",
        origin_ns=origin,
        peak_bytes=by_category(sizes.max(axis=0, initial=0)),
        peak_total_bytes=int(total[peak]) if len(total) else 0,
        peak_time_ns=int(time[peak]) if len(total) else -1,
        at_peak_bytes=by_category(sizes[peak]) if len(total) else {},
        preexisting_bytes=by_category(preexisting),
    )

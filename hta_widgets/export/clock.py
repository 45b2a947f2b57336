"""Which clock the times of an export are on, and how far that moves each rank's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from hta_widgets.analysis.clock_offsets import clock_fit
from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.times import later
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.rank_scope import MARK
from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["ExportClock", "clock_moves", "clock_note", "moved_record", "refuse_unfitted"]

ExportClock = Literal["recorded", "set"]


def clock_moves(traces: TraceSet | Trace, clock: ExportClock) -> dict[int, int]:
    """Return what is to be added to the times of each rank's records; nothing: as recorded.

    Parameters
    ----------
    traces : TraceSet or Trace
    clock : {"recorded", "set"}

    Raises
    ------
    TraceError
        For an unknown clock, and where nothing was fitted.
    """
    if clock not in ("recorded", "set"):
        raise TraceError(
            f"there is no clock {clock!r} to export",
            remedy='The clocks are "recorded", and "set": the one that the traces are on.',
        )
    if clock == "recorded":
        return {}
    if isinstance(traces, Trace):
        if traces.clock_offset_ns:
            raise TraceError(
                "a rank on its own does not say what its clock was fitted to",
                path=traces.path,
                remedy=f"Export traces.subset(ranks=[{traces.rank}]) instead.",
            )
        return {}
    if traces.clock != "fitted":
        return {}
    if len(traces) > 1 and not any(trace.clock_offset_ns for trace in traces.values()):
        refuse_unfitted(traces)
    return _moves(traces)


def refuse_unfitted(traces: TraceSet) -> None:
    """Raise a `TraceError` where no collective tells how far the ranks' clocks are apart."""
    if not clock_fit(traces).collectives.any():
        raise TraceError(
            "no clock is fitted: no collective is found on two ranks"
            if len(traces) > 1
            else "no clock is fitted: that takes two ranks or more",
            remedy="Export the recorded times.",
        )


def _moves(traces: TraceSet) -> dict[int, int]:
    # Where its own clock, as recorded, says instant 0: ranks differ only if their clocks have
    # nothing in common, and are then brought onto one, or the next reader lines them up anew.
    zeros = {
        rank: trace.zero_ns - trace.shift_ns - trace.clock_offset_ns
        for rank, trace in traces.items()
        if len(trace)
    }
    if traces.origin_ns is not None:
        zero, lift = traces.origin_ns + traces.lift_ns, traces.lift_ns
    else:
        # Since nobody knows what instant 0 is, it may stay; viewers drop times below it.
        zero, lift = max(Counter(zeros.values()).items(), key=_most, default=(0, 0))[0], 0
    return {
        rank: zero - zeros.get(rank, zero) - trace.clock_offset_ns - lift
        for rank, trace in traces.items()
    }


def _most(counted: tuple[int, int]) -> tuple[int, int]:
    zero, count = counted
    return count, zero


def clock_note(metadata: Mapping[str, Any], move_ns: int | None) -> dict[str, Any] | None:
    """Return what a file says of its clock; None where its times are those recorded.

    Parameters
    ----------
    metadata : mapping
        The file's top-level keys: its times may have been moved before.
    move_ns : int, optional
        What is added to its times now, if they go out on the fitted clock.
    """
    told = metadata.get(MARK)
    before = told.get("offset_ns") if isinstance(told, Mapping) else None
    if not isinstance(before, int):
        return None if move_ns is None else {"clock": "fitted", "offset_ns": -move_ns}
    return {"clock": "fitted", "offset_ns": before - (move_ns or 0)}


def moved_record(text: bytes, move_ns: int) -> bytes:
    """Return the record with its time moved; metadata records have none that means anything."""
    fields = decode_fields(text)
    if fields is None or "ts" not in fields or fields.get("ph") == b'"M"':
        return text
    fields["ts"] = later(fields["ts"], move_ns)
    return encode_fields(fields)

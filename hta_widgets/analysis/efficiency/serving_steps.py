"""Steps of inference engines: prefill, decode, tokens per second, and device time.

Engines annotate their steps. If annotations are nested, such as SGLang's ``step[DECODE bs=32]``
inside an ``execute_…`` of the same tokens, the outermost counts. On the device, a step lasts from
the first start to the last end of the work that it launched. If the first step waits for work
launched before the recording, which is not in the file, this wait is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.engine_steps import engine_steps, step_of_events
from hta_widgets.analysis.efficiency.signatures import signatures
from hta_widgets.analysis.frames import float64, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import prelaunched_note
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import is_graph_launch
from hta_widgets.text import duration
from hta_widgets.trace.arrays import Floats, Ints, Rows, mask_of_rows
from hta_widgets.trace.graph_captures import captured_trace
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.intervals import covered_by_group
from hta_widgets.trace.traceset import Selection, TraceSet

_NO_STEPS: Final = (
    "no steps of an inference engine: annotations such as execute_context_… of vLLM or step[…] of "
    "SGLang"
)
#: Delay from launch to start that reveals unrecorded work on a seemingly idle device.
_MIN_WAIT_NS: Final = 1_000_000
_MAX_LAUNCH_NS: Final = 100_000
_NUMBERS: Final = (
    "prefill_requests", "decode_requests", "prefill_tokens", "decode_tokens", "padded_tokens",
    "tokens",
)  # fmt: skip
_SCHEMA: Final = {
    **int64("rank step"),
    **dict.fromkeys(("name", "engine", "phase"), "str"),
    **dict.fromkeys(_NUMBERS, "int64"),
    "attention_pairs": "float64",
    **int64("start_ns host_ns device_start_ns device_ns device_span_ns gap_ns waited_ns"),
    **float64("tokens_per_s flops"),
    "replayed": "bool",
}


@check_arguments
def serving_steps(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the steps of inference engines with their tokens and times.

    Steps are derived from the names of annotations by vLLM (``execute_context_…``), SGLang
    (``step[…]``), ATOM and diffusion servers. Of nested steps, only the outermost counts. Device
    work belongs to the step that launched it or its graph; work from before the recording to none.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The annotations and device work to analyze, restricted by time and ranks. Default: all.
        Device times are clipped to the window.

    Returns
    -------
    DataFrame
        One row per rank and step, in this order:

        - ``step``, counted from 0; ``name``; ``engine``; ``phase`` (``prefill``, ``decode``,
          ``mixed``)
        - ``prefill_requests, decode_requests, prefill_tokens, decode_tokens``; ``tokens``, their
          sum; ``padded_tokens`` of a padded batch; -1 if the name does not state them
        - ``attention_pairs``: (query, key) pairs of causal attention, NaN if unknown; layers with a
          sliding window compute fewer
        - ``start_ns, host_ns``; ``device_start_ns``; ``device_ns``, the time covered by its work;
          ``device_span_ns``, from the first work to the last; ``gap_ns`` to the work of the next
          step; ``waited_ns``, how long a first step waits for work that is not in the file, which
          ``device_span_ns`` excludes
        - ``tokens_per_s``, over ``device_span_ns`` and the gap, or over the host time without
          device work
        - ``flops`` of matrix work, NaN if unknown; ``replayed``: whether a graph was launched

        ``.attrs``: ``tokens_per_s`` by phase, and for ``all`` steps with the time between them;
        ``output_tokens``, the bounds of generated tokens: a prefill that ends a prompt makes one.
    """
    parts = rank_parts(traces, selection, window, ranks)
    blocks = list(map_ranks(parts, _steps_of_rank))
    frame = pd.DataFrame(stack_blocks(blocks, _SCHEMA))
    notes = [_NO_STEPS if blocks else note_text("no_ranks")]
    if len(frame):
        longest = duration(int(frame["waited_ns"].max()))
        waited = f"a first step waits {longest} for work launched before recording began: left out"
        notes = [prelaunched_note(parts), waited if frame["waited_ns"].any() else ""]
    prefills = int(frame.loc[frame["prefill_requests"] > 0, "prefill_requests"].sum())
    decoded = int(frame.loc[frame["decode_tokens"] > 0, "decode_tokens"].sum())
    return result_frame(
        {name: frame[name] for name in _SCHEMA},
        matched={"steps": len(frame)},
        note=notes,
        tokens_per_s=_rates(frame),
        output_tokens=(decoded, decoded + prefills),
    )


def _rates(frame: pd.DataFrame) -> dict[str, float]:
    """Return tokens per second for each phase, over its steps' time, and for all steps."""
    counted = frame[frame["tokens"] >= 0]
    period = counted["tokens"] / counted["tokens_per_s"]
    # Rates are per rank, because ranks may serve the same tokens or different ones.
    return {
        str(phase): float(rows["tokens"].sum() / max(period[rows.index].sum(), 1e-9))
        for phase, rows in [*counted.groupby("phase"), ("all", counted)]
        if phase and len(rows)
    }


def _steps_of_rank(part: RankPart) -> dict[str, Any]:
    table, shift_ns = part.table, part.trace.shift_ns
    recorded = engine_steps(part.trace)
    shown = np.flatnonzero(part.contains(recorded.rows) & (part.durations(recorded.rows) >= 0))
    rows, steps = recorded.rows[shown], [recorded.names[step] for step in shown.tolist()]
    size = len(rows)
    if not size:
        return {"rank": part.rank, **{name: np.empty(0, np.int64) for name in list(_SCHEMA)[1:]}}
    work = part.device_work_rows()
    step = step_of_events(part.trace, rows, part.trace.launch_of[work])
    work, step = work[step >= 0], step[step >= 0]
    is_replay = names_match(part.trace, part.trace.launch_of[work], is_graph_launch)
    times = _device_times(part, work, step, size)
    has_work = times["device_start_ns"] >= 0
    host_ns = part.durations(rows)
    stated = {
        name: np.array([getattr(step_name, name) for step_name in steps])
        for name in ("engine", "phase", *_NUMBERS, "attention_pairs")
    }
    tokens = np.where(stated["tokens"] >= 0, stated["tokens"], np.nan)
    period_ns = np.where(has_work, times["device_span_ns"] + times["gap_ns"], host_ns)
    return {
        "rank": part.rank,
        "step": np.arange(size),
        "name": [table.names[code] for code in table.name[rows].tolist()],
        **stated,
        "start_ns": table.start_ns[rows] + shift_ns,
        "host_ns": host_ns,
        **times,
        "device_start_ns": np.where(has_work, times["device_start_ns"] + shift_ns, -1),
        "tokens_per_s": tokens / np.where(period_ns > 0, period_ns, np.nan) * 1e9,
        "flops": _flops(part, work, step, size),
        "replayed": mask_of_rows(step[is_replay], size),
    }


def _device_times(part: RankPart, work: Rows, step: Ints, size: int) -> dict[str, Ints]:
    """Return the device-time columns of each step; starts are -1 for steps without work."""
    start, end = part.clip_rows(work)
    spans = pd.DataFrame({"first": start, "last": end}).groupby(step)
    has_work = mask_of_rows(step, size)
    first, last = (
        values.reindex(range(size), fill_value=0).to_numpy(copy=True)
        for values in (spans["first"].min(), spans["last"].max())
    )
    waited_ns = np.zeros(size, dtype=np.int64)
    if has_work[0]:
        recorded_start = _begin_of_recorded_work(part, work[step == 0])
        first[0], waited_ns[0] = recorded_start, recorded_start - first[0]
    # The time until the next step's work, if both steps have work.
    gap_ns = np.append(np.maximum(first[1:] - last[:-1], 0) * (has_work[1:] & has_work[:-1]), 0)
    return {
        "device_start_ns": np.where(has_work, first, -1),
        "device_ns": covered_by_group(step, start, end, size),
        "device_span_ns": last - first,
        "gap_ns": gap_ns,
        "waited_ns": waited_ns,
    }


def _begin_of_recorded_work(part: RankPart, work: Rows) -> int:
    """Return the start of the first step's work after its last wait for unrecorded work.

    For example, if an idle device starts a kernel 460 ms after its launch, the step begins with it.
    """
    start, end = part.clip_rows(work)
    order = np.argsort(start, kind="stable")
    start, launch = start[order], part.trace.launch_of[work[order]]
    idle_ns = start[1:] - np.maximum.accumulate(end[order])[:-1]
    launch_start, launch_end = part.table.start_ns[launch], part.table.end_ns[launch]
    launched_ns = np.minimum(launch_end, launch_start + _MAX_LAUNCH_NS)
    # Work waited for unrecorded work if it was launched early in the preceding idle time.
    waits = (idle_ns > _MIN_WAIT_NS) & (launched_ns[1:] < start[1:] - idle_ns * 0.9)
    return int(start[np.flatnonzero(waits).max(initial=-1) + 1])


def _flops(part: RankPart, work: Rows, step: Ints, size: int) -> Floats:
    """Return each step's known matrix FLOPs, from the operators to which its work belongs."""
    signature_set = signatures(captured_trace(part.trace))
    calls, flops = signature_set.calls, signature_set.figures("flops")
    call = calls.of_work(work, len(part.table))
    step_of_call = np.full(len(calls), -1, dtype=np.int64)
    step_of_call[call[call >= 0]] = step[call >= 0]
    is_known = calls.is_matrix & ~np.isnan(flops) & (step_of_call >= 0)
    sums = np.bincount(step_of_call[is_known], flops[is_known], minlength=size)
    return np.where(sums > 0, sums, np.nan)

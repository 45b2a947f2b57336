"""The steps that an inference engine annotates, and the step of each host event.

Of nested annotations, the outermost counts: SGLang's ``step[DECODE bs=32]`` is inside an
``execute_…`` of the same tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_widgets.analysis.efficiency.serving_names import StepName, parse_step_name
from hta_widgets.trace.arrays import Ints, Rows, mask_of_rows, positions_of_rows
from hta_widgets.trace.host_stack import category_mask, name_mask, nearest_ancestor
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace


@dataclass(frozen=True, eq=False)
class EngineSteps:
    """The steps of a rank, in the order of their starts."""

    rows: Rows
    names: list[StepName]


@memoize
def engine_steps(trace: Trace) -> EngineSteps:
    """Return the outermost annotations of steps."""
    table = trace.table
    names = table.names
    is_step = name_mask(trace, lambda name: parse_step_name(name) is not None)
    is_step &= category_mask(trace, "user_annotation|cpu_op|operator")
    rows = np.flatnonzero(is_step)
    above = nearest_ancestor(table.parent, is_step)[table.parent[rows]]
    nested, rows = rows[above >= 0], rows[above < 0]
    inner = {names[code] for code in table.name[nested].tolist()}
    engines = {step.engine for step in map(parse_step_name, inner) if step}
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    steps = [parse_step_name(names[code]) or StepName("", "") for code in table.name[rows].tolist()]
    if engines == {"sglang"}:  # its scheduler adds names in the form of vLLM's
        steps = [replace(step, engine="sglang") for step in steps]
    return EngineSteps(rows, steps)


def step_of_events(trace: Trace, steps: Rows, rows: Rows) -> Ints:
    """Return the step that encloses each host event, or begins last before it; -1 for none."""
    table = trace.table
    above = nearest_ancestor(table.parent, mask_of_rows(steps, len(table)))[rows]
    place = positions_of_rows(steps, len(table))[above]
    # Another thread may launch.
    start = table.start_ns[rows]
    before = np.searchsorted(table.start_ns[steps], start, side="right") - 1
    is_inside = (before >= 0) & (start < table.end_ns[steps[before]])
    return np.where((place < 0) & is_inside & (rows >= 0), before, place)

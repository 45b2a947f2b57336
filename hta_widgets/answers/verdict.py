"""Decide whether a run is worse than another one by more than a limit and the noise.

The samples of a run are its steps, averaged over ranks. The change of the mean is compared with the
limit and with the noise. The noise is the smallest change that the test in `hta_widgets.diff.stats`
would find significant at 1 %, given the scatter of the steps in both runs. For steps of 100, 101,
99 ms before and 107, 106, 108 ms after, and a limit of 5 %::

    change +7.0 %, noise 4.0 %, p 0.001: regressed
    # the same at a limit of 8 %: within; with one step per side: cannot tell

Step times are not judged if the work differs. With twice the batch, for example, the time per
sample is reported instead. If a step repeats its work more often, this may explain part of the
change. The run is then worse only if its time per repetition also exceeds the limit.

Inference engines have no ``ProfilerStep``. For them, the engine's own steps are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.arguments import match_pattern, require_pattern
from hta_widgets.diff.align import STEP_KINDS, kind_times
from hta_widgets.diff.compare import CONDITIONS, Comparison, world_size_text
from hta_widgets.diff.shapes import repetition_factor, shape_changes
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.stats import combined_p_value
from hta_widgets.errors import TraceError
from hta_widgets.text import count, duration, p_value as p_value_text, plural, share, share_delta
from hta_widgets.trace.arrays import Floats

Outcome = Literal["regressed", "within", "cannot tell"]

#: Exit codes of the outcomes. Errors have the exit code 2.
EXIT_CODES: dict[Outcome, int] = {"within": 0, "regressed": 1, "cannot tell": 3}
METRICS = ("step", "exposed_comm", "idle", "mfu", "kernel:REGEX")
_ALPHA = 0.01
#: Maximum noise to search for, as a share of the value before.
_MAX_NOISE = 4.0
_SAME_WORK = 0.05  # maximum relative difference between steps with the same work
_ROUNDS = 30  # bisection rounds to find the noise
_WORDS = {"regressed": "Regressed", "within": "Within the limit", "cannot tell": "Cannot tell"}
#: What changed and the unit of work, keyed by the measure in `shape_changes`.
_WORK_WORDS = {"shapes": ("batch size", "sample"), "sequences": ("sequence length", "token")}
METRIC_NAMES = {"step": "step time", "exposed_comm": "exposed communication", "idle": "idle time",
                "mfu": "MFU"}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison for one metric. Values are means over steps and ranks."""

    outcome: Outcome
    metric: str
    unit: str
    limit_share: float
    steps: int  # on each side
    before: float | None = None
    after: float | None = None
    #: ``(after - before) / before``. A lower MFU is worse; other metrics are worse if higher.
    change_share: float | None = None
    #: The smallest change that would be significant, given the scatter of these steps.
    noise_share: float | None = None
    p_value: float | None = None
    reason: str = ""  # reason for "cannot tell", or a remark
    step_name: str = ""  # name of the inference engine's steps

    @property
    def exit_code(self) -> int:
        """The exit code of the command line."""
        return EXIT_CODES[self.outcome]

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the text as JSON values."""
        return {**asdict(self), "exit_code": self.exit_code, "text": self.text}

    @property
    def text(self) -> str:
        """The verdict as a sentence."""
        metric = METRIC_NAMES.get(self.metric, self.metric)
        if self.step_name:
            metric = f"time of {self.step_name}"
        head = f"{_WORDS[self.outcome]}: {metric}"
        if self.before is None or self.after is None or self.change_share is None:
            return f"{head}; {self.reason}."
        value_text = duration if self.unit == "ns" else share
        parts = [share_delta(self.change_share), f"limit {share(self.limit_share)}"]
        if self.noise_share is not None:
            parts.append(f"noise {share(self.noise_share)}")
        reason = f"; {self.reason}" if self.reason else ""
        change = f"{value_text(self.before)} → {value_text(self.after)}"
        return f"{head} {change} ({', '.join(parts)}){reason}."


def parse_limit(text: str) -> float:
    """Parse a limit such as ``5%`` or ``0.05`` and return it as a share."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise TraceError(
            f"{text!r} is not a limit", remedy="Give a percentage above 0, for example 5%."
        )
    return value


def judge(diff: Comparison, limit_share: float, metric: str = "step") -> Verdict:
    """Return whether a metric got worse from the first to the second run by more than a limit.

    The metrics are ``step``, ``exposed_comm``, ``idle``, ``mfu``, and ``kernel:`` followed by a
    regular expression that is searched for in the names of device work.
    """
    samples_of, unit = _samples_function(metric)
    before, after = (samples_of(diff, side) for side in diff.sides)
    before_mean = float(before.mean()) if len(before) else np.nan
    after_mean = float(after.mean()) if len(after) else np.nan
    steps, reason = min(len(before), len(after)), _obstacle(diff, before, after, metric)
    undecided = Verdict("cannot tell", metric, unit, limit_share, steps, reason=reason)
    if metric == "step" and not any(side.has_steps for side in diff.sides):
        undecided = replace(undecided, step_name=_engine_step_name(diff))
    if not (np.isfinite(before_mean) and np.isfinite(after_mean) and before_mean > 0):
        return replace(undecided, reason=reason or _missing_text(metric))
    change = (after_mean - before_mean) / before_mean
    p_value, noise = _test(before, after, by_step=diff.same_steps)
    measured = replace(
        undecided,
        before=before_mean,
        after=after_mean,
        change_share=change,
        noise_share=noise,
        p_value=p_value,
    )
    return measured if reason else _decide(diff, measured, -change if metric == "mfu" else change)


def _decide(diff: Comparison, verdict: Verdict, worse: float) -> Verdict:
    """Return the verdict on comparable steps that got worse by the share `worse`."""
    limit_share, p_value, noise = verdict.limit_share, verdict.p_value, verdict.noise_share
    # The part of the change due to more work is at least zero and at most proportional to the work.
    # Splitting a changed batch into another number of parts does not change the work.
    has_factor = verdict.metric != "mfu" and not shape_changes(diff)
    factor = repetition_factor(diff) if has_factor else 1.0
    least_worse, most_worse = sorted((worse, (1 + worse) / factor - 1))
    more_work = ""
    if factor != 1.0:
        more_work = f"a step repeats nearly all of its work {factor:.3g} times as often"
    if least_worse < limit_share <= most_worse:
        return replace(verdict, reason=more_work)
    if p_value is None or noise is None:
        reason = f"{verdict.steps} steps on a side are too few for a test"
        if verdict.steps == 1:
            reason = "one step on a side has no spread"
        return replace(verdict, reason=reason)
    if worse >= limit_share and p_value >= _ALPHA:
        return replace(verdict, reason=f"the change may be chance ({p_value_text(p_value)})")
    if worse >= limit_share:
        return replace(verdict, outcome="regressed", reason=more_work)
    if noise > limit_share and most_worse + noise > limit_share:
        return replace(verdict, reason="the steps scatter more than the limit")
    return replace(verdict, outcome="within", reason=more_work)


def _missing_text(metric: str) -> str:
    kernel, sign, pattern = metric.partition(":")
    if not sign:
        return f"the run before has no {METRIC_NAMES.get(metric, metric)}"
    return f"no {kernel} name in the run before matches {pattern!r} (the search is case-sensitive)"


def _obstacle(diff: Comparison, before: Floats, after: Floats, metric: str) -> str:
    """Return why the runs cannot be compared, or "" if they can."""
    # Profilers differ in how much they slow down a run.
    differences = [caution.text for caution in diff.cautions if caution.kind in CONDITIONS]
    if differences:
        return f"the runs differ: {'; '.join(differences)}"
    counts = [len(side.parts) for side in diff.sides]
    if diff.by_rank_means and counts[0] != counts[1] and not all(map(world_size_text, diff.sides)):
        return f"the runs differ: {plural(counts[0], 'rank')} → {counts[1]}, of unknown world size"
    if not (diff.before.has_steps or (metric == "step" and len(before) and len(after))):
        return "the runs have no steps to compare"
    if metric != "mfu" and (other_work := _other_work(diff, before, after, metric)):
        return other_work
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return f"{metric} is unknown in a step"
    return ""


def _other_work(diff: Comparison, before: Floats, after: Floats, metric: str) -> str:
    """Describe how a step's work differs, with the time per unit of work; "" if it is the same.

    The MFU can always be compared, because it relates time to work.
    """
    changes, factor = shape_changes(diff), repetition_factor(diff)
    if not changes:
        return ""
    (change,) = changes
    # Half the batch, twice as often, is the same work, for example with gradient accumulation.
    if abs(factor * change.after / change.before - 1) < _SAME_WORK:
        return ""
    word, unit = _WORK_WORDS[change.measure]
    text = f"the work of a step differs: {word} {count(change.before)} → {count(change.after)}"
    if metric != "step" or factor != 1.0:
        return text
    times = before.mean() / change.before, after.mean() / change.after
    # If the batch size is unknown, only the relative change of the time per token is known.
    values = f"{' → '.join(map(duration, times))}, " if change.measure == "shapes" else ""
    return f"{text}; time per {unit} {values}{share_delta(times[1] / times[0] - 1)}"


def _test(before: Floats, after: Floats, *, by_step: bool) -> tuple[float | None, float | None]:
    """Return the p-value and, as a share, the smallest significant change; None if unknown."""
    # The steps of the second run, scaled to the mean of the first run.
    unchanged = after[:, None] * (before.mean() / max(after.mean(), 1e-300))

    def p_value_of(factor: float) -> float:
        sides = before[:, None], unchanged * factor
        return float(combined_p_value(*sides, by_step=by_step, factors=(2, 2))[0])

    p_value = p_value_of(after.mean() / before.mean())
    if np.isnan(p_value):
        return None, None
    low, high = 0.0, _MAX_NOISE
    if p_value_of(1 + high) >= _ALPHA:
        return p_value, None
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if p_value_of(1 + middle) < _ALPHA else (middle, high)
    return p_value, high


def _samples_function(metric: str) -> tuple[Callable[[Comparison, RunSide], Floats], str]:
    """Return the function that computes a metric per step, and the unit of the metric."""
    if metric == "step":
        return _step_samples, "ns"
    if metric in {"exposed_comm", "idle"}:
        kind = STEP_KINDS.index("communication" if metric == "exposed_comm" else "idle")
        return lambda diff, side: kind_times(diff, side)[:, kind].astype(np.float64), "ns"
    if metric == "mfu":
        return _mfu_samples, "share"
    if metric.startswith("kernel:"):
        pattern = metric.removeprefix("kernel:")
        require_pattern(pattern, repr(metric))
        return lambda _, side: _kernel_samples(side, pattern), "ns"
    raise TraceError(f"unknown metric {metric!r}", remedy=f"The metrics are {', '.join(METRICS)}.")


def _step_samples(diff: Comparison, side: RunSide) -> Floats:
    """Return the length of each step, averaged over ranks; empty if a run has no steps."""
    if not side.has_steps:
        return _engine_step_samples(diff, side)
    lengths: Floats = kind_times(diff, side).sum(axis=1).astype(np.float64)
    return lengths


def _engine_step_samples(diff: Comparison, side: RunSide) -> Floats:
    """Return the step times of an inference engine, averaged over ranks. May be empty."""
    steps = _engine_steps(side)
    has_name = steps["name"] == _engine_step_name(diff)
    return steps[has_name].groupby("step")["time_ns"].mean().to_numpy(np.float64)


def _engine_step_name(diff: Comparison) -> str:
    """Return the name of the engine steps to compare, or "" if the sides have none in common.

    Steps with equal names serve the same number of tokens. Of the names that occur on both sides,
    the one with the longest total time is compared.
    """
    frames = [_engine_steps(side) for side in diff.sides]
    sums = pd.concat([steps.groupby("name")["time_ns"].sum() for steps in frames], axis=1).dropna()
    return "" if sums.empty else str(sums.sum(axis=1).idxmax())


def _engine_steps(side: RunSide) -> pd.DataFrame:
    """Return rank, step, name and time of all engine steps except the last one of each rank."""
    first, last = side.envelope()
    window = int(first.min()), int(last.max())
    steps = analysis.serving_steps(side.traces, ranks=side.ranks, window=window)
    on_device_ns = steps["device_span_ns"] + steps["gap_ns"]
    time_ns = on_device_ns.where(steps["device_start_ns"] >= 0, steps["host_ns"])
    # The time of a rank's last step is unknown.
    is_last = ~steps.duplicated("rank", keep="last")
    return steps.assign(time_ns=time_ns)[~is_last]


def _mfu_samples(_: Comparison, side: RunSide) -> Floats:
    frame = analysis.step_efficiency(side.traces, ranks=side.ranks)
    means = frame.groupby("step")["mfu"].mean()
    return means.reindex(pd.Index(side.steps)).to_numpy(np.float64)


def _kernel_samples(side: RunSide, pattern: str) -> Floats:
    """Return the device time per step of work whose name matches, averaged over ranks."""
    sums = np.zeros(len(side.steps))
    order = np.argsort(side.steps, kind="stable")
    for part in side.parts.values():
        table = part.table
        is_named = match_pattern(pattern, table.names.values)
        rows = part.device_work_rows()
        rows = rows[is_named[table.name[rows]] & np.isin(table.step[rows], side.steps)]
        # The index of each row in `side.steps`, which may be unsorted.
        positions = order[np.searchsorted(side.steps[order], table.step[rows])]
        sums += np.bincount(positions, table.dur_ns[rows], len(sums))
    return sums / max(len(side.parts), 1)

"""State the differences of two runs as sentences with numbers, if they exceed noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.stragglers import stragglers
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.changes import changes, kinds_with_changed_share, libraries
from hta_widgets.diff.compare import (
    CONDITIONS,
    Comparison,
    conditions,
    is_host_only,
    paired_ranks,
)
from hta_widgets.diff.pairs import KIND_OF, splits_communication, step_times_by_cause
from hta_widgets.diff.tables import iter_rows, names
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.readers.formats import all_formats, formats_named, load_references
from hta_widgets.text import (
    consecutive_runs,
    count,
    duration,
    duration_delta,
    plural,
    run_text,
    share_delta,
)
from hta_widgets.trace.arrays import Bools, Floats
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.names import short_name

_MIN_LOST_RATIO = 0.5  # minimum relative change of lost time; less may be chance near the limit
_MIN_WAITS_RATIO = (
    0.25  # minimum change of a wait for naming its rank, as a share of the largest change
)
# Shares of a step.
_SMALL = 0.01  # smaller differences are not reported
_LARGE = 0.05  # smaller differences occur between runs of one program
_LARGE_ALONE = 0.2  # the same with one step on a side
_NOISE = ((0.2, 0.05), (_LARGE, 0.01), (_SMALL, 0.001))  # (minimum difference, maximum p-value)
_MAX_CHANGES = 8
_RULE = 5  # minimum number of operators with an equal change that are one finding

#: Kinds of a rank's own time; communication depends on the other ranks.
_EXPOSED_KIND_WORDS = {
    "compute": "compute",
    "memory": "exposed copies",
    "idle": "idle time of the device",
    "cpu": "time on the host",
}
_KIND_WORDS = {
    "compute": "compute",
    "communication": "exposed communication",
    "copies": "exposed copies",
    "idle": "idle time of the device",
    "host": "time on the host",
}
#: Words for the causes of `waterfall`.
_CAUSE_WORDS = _KIND_WORDS | {
    "communication_wait": "waiting for other ranks",
    "communication_transfer": "exposed transfer",
    "sync_wait": "idle time while the host waits for the device",
    "host_wait": "idle time before the host launches",
    "host_allocation": "idle time while the host allocates or frees memory",
    "host_data_loading": "idle time while the host loads data",
    "host_operator": "idle time while the host is inside operators",
    "host_python": "idle time while the host runs Python",
    "host_nothing": "idle time before the host launches",
    "launch_call": "idle time within calls that launch",
    "launch_latency": "idle time between launch and start",
    "kernel_wait": "idle time between kernels",
    "stream_wait": "idle time behind other streams",
    "blocked": "idle time while launched work does not start",
    "unrecorded": "idle time with work that is not recorded",
    "unknown": "idle time of unknown cause",
    "nothing_launched": "idle time with no more work",
}


class LateRank(NamedTuple):
    """A rank that keeps the others waiting on one side only; `only` is the side that has it."""

    rank: int
    appears: bool
    text: str
    diff_ns: float
    only: str = ""

    @property
    def clause(self) -> str:
        """The change as a clause without a full stop."""
        if self.only:
            return f"rank {self.rank}, which only {self.only} has, keeps the others waiting there"
        verb = "now keeps" if self.appears else "no longer keeps"
        return f"rank {self.rank} {verb} the others waiting"


@memoized
def late_ranks(diff: Comparison) -> list[LateRank]:
    """Return the ranks that keep the others waiting on one side only, the most costly first.

    `hta_widgets.analysis.stragglers` judges the compared steps of each side. A rank is returned if
    its cost at least halves or doubles and it has the same number on both sides, or if only one
    side has it or is compared with it. With a single step on each side the result is empty.
    """
    shared = [before for before, after in diff.rank_pairs if before == after]
    lone = set(diff.before.traces) ^ set(diff.after.traces)
    lone |= set(diff.before.ranks) ^ set(diff.after.ranks)
    single = diff.before.has_steps and diff.step_count == 1
    formats = diff.before.formats | diff.after.formats
    if single or formats != {"kineto"} or not splits_communication(diff):
        return []
    judged = []
    for side in diff.sides:
        low, high = side.envelope()
        window = int(low.min()), int(high.max())
        judged.append(stragglers(side.traces, window=window).set_index("rank"))
    changes, waits = _changes_outside_waits(diff, shared)
    others = "the others on both sides" if lone else "the others"
    results = []
    for place, rank in enumerate([*shared, *sorted(lone)]):
        if place < len(shared) and not all(rank in frame.index for frame in judged):
            continue
        was, now = (bool(frame["is_straggler"].get(rank, False)) for frame in judged)
        lost = [float(frame["lost_share"].get(rank, 0.0)) for frame in judged]
        if was is now or abs(lost[1] - lost[0]) < _MIN_LOST_RATIO * max(lost):
            continue
        if place < len(shared):
            text, gap = _describe(place, shared, changes, waits, appears=now)
            late = LateRank(rank, now, text.replace("the others", others), gap)
        else:
            late_side, other = diff.sides[::-1] if now else diff.sides
            frame = judged[now]
            gap = float(frame["lost_ns"][rank]) / (len(frame) - 1)
            text = f"{frame['cause'][rank]}; the others wait {duration(round(gap))} on average"
            only = "" if rank in other.traces else late_side.label
            late = LateRank(rank, now, text, gap if now else -gap, only)
        results.append((max(lost), late))
    return [late for _, late in sorted(results, key=lambda result: (-result[0], result[1].rank))]


def _changes_outside_waits(diff: Comparison, ranks: list[int]) -> tuple[dict[str, Floats], Floats]:
    """Return time before and change of each kind of own time, (ranks, 2), and changes of waits."""
    changes = {kind: np.zeros((len(ranks), 2)) for kind in _EXPOSED_KIND_WORDS}
    waits = np.zeros((len(ranks), 2))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            for cause, times in step_times_by_cause(diff, run)[rank].items():
                if KIND_OF[cause] in changes:
                    changes[KIND_OF[cause]][place, side] += times.sum()
            waits[place, side] = step_times_by_cause(diff, run)[rank]["communication_wait"].sum()
    for both in changes.values():
        both[:, 1] -= both[:, 0]
    return changes, waits[:, 1] - waits[:, 0]


def _describe(
    place: int, ranks: list[int], changes: dict[str, Floats], waits: Floats, *, appears: bool
) -> tuple[str, float]:
    """Describe the change of one rank, and return its size in ns."""
    way = 1 if appears else -1
    others = np.delete(np.arange(len(ranks)), place)

    def beyond(kind: str) -> float:
        usual = float(np.median(changes[kind][others, 1])) if len(others) else 0.0
        return way * (float(changes[kind][place, 1]) - usual)

    kind = max(changes, key=beyond)
    before, gap = changes[kind][place]
    shares = changes[kind][:, 1] / np.maximum(changes[kind][:, 0], 1)
    text = f"its {_EXPOSED_KIND_WORDS[kind]} {share_delta(shares[place]) if before else 'is new'}"
    if len(others):
        low, high = (share_delta(value) for value in (shares[others].min(), shares[others].max()))
        text += f" (the others {low} to {high})" if low != high else f" (the others {low})"
        # Positive if the others wait longer for a rank that appears, less for one that disappears.
        moved = way * waits[others]
        named = others[moved >= max(_MIN_WAITS_RATIO * float(moved.max()), 1)]
        if len(named):
            lengths = np.abs(waits[named])
            span = [duration(round(value)) for value in (lengths.min(), lengths.max())]
            numbers = ", ".join(map(run_text, consecutive_runs([ranks[k] for k in named])))
            some = f"ranks {numbers} wait" if len(named) > 1 else f"rank {numbers} waits"
            text += (
                f"; {some} {' to '.join(dict.fromkeys(span))} {'longer' if appears else 'less'}"
                f"{' each' * (len(named) > 1)}"
            )
    return text, float(gap)


class Finding(NamedTuple):
    """One finding.

    ``kind`` is ``headline, slight, straggler, kinds, name, steps, composition, pace, more,
    caution``, a change of `changes`, or for BytePS and MPI ``stage, routine, calls, waiting``;
    ``text`` is a sentence; ``diff_ns`` its difference: over all steps for the first seven, in one
    step for changes. For a straggler it is that of its own time, or if only one side has the rank,
    what it costs each of the others on average.
    """

    kind: str
    text: str
    diff_ns: float


@check_arguments
def findings(diff: Comparison) -> list[Finding]:
    """Return the changes as sentences with numbers, most important first.

    1. How much longer the steps take, with the largest cause of `waterfall`.
    2. The differences of GPU, vendor and world size.
    3. Each rank that keeps the others waiting on one side only, by
       `hta_widgets.analysis.stragglers`, also if the other side has no such rank.
    4. The kinds of time that make up the difference, the name of device work whose number of calls
       differs, and how the difference is spread over the steps.
    5. The changes with most time (see `changes`): many operators that changed by one factor as one
       finding, Python functions last. BytePS has stages and queues instead, MPI also has numbers of
       calls, and both have the ranks that others wait for (see `tables`).

    A difference of the step times is reported from 5 % on if it is significant at 1 %, from 20 % on
    at 5 %, and from 1 % on at 0.1 % (test of `steps`); with one step on a side from 20 % on.
    Differences from 1 % on at 5 % are reported with their p-value; with one step on a side and no
    other finding, those of the step and of the name that differs most. If the steps do not differ
    in length, kinds of time come first whose share of the step differs significantly, and by more
    than 5 % of the step (tests as in `changes` at 1 %, divided by the number of kinds; with one
    step on a side 20 %). The findings of swapped sides are the same in the other direction. Without
    any difference the list is empty, except for a caution if a side has no events.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    list of Finding
    """
    results: list[Finding] = []
    formats = _shared_formats(diff)
    # Some formats replace `changes` with their own table.
    has_changes = not any(
        "changes" in format_.comparison.replaces for format_ in formats_named(formats)
    )
    if not is_profiles(diff):
        late = late_ranks(diff)
        results += _step_findings(diff, late)
        at = 1 if results and results[0].kind == "headline" else 0
        results[at:at] = [
            Finding(
                "straggler",
                f"{_capitalize(late_rank.clause)}: {late_rank.text}{_over_steps(diff)}.",
                late_rank.diff_ns,
            )
            for late_rank in late
        ]
        if has_changes:
            results += _change_findings(diff, leads=not results)
    for findings_of in load_references(
        format_.comparison.findings for format_ in formats_named(formats)
    ):
        results += findings_of(diff)
    if not results and formats == {"kineto"} and diff.step_count == 1:
        results = _largest_untested_differences(diff)
    kinds = None if results else ("empty",)
    cautions = [Finding("caution", text, 0.0) for text in caution_texts(diff, kinds)]
    if results:
        unlike = conditions(diff)
        results[1:1] = [Finding("caution", unlike, 0.0)] if unlike else []
        if diff.before.has_steps and diff.step_count == 1:
            text = "With one step on each side, what is particular to it looks like a change."
            cautions.append(Finding("caution", text, 0.0))
        if has_changes and not splits_communication(diff):
            text = "Communication includes waiting for other ranks, whose events are not here."
            cautions.append(Finding("caution", text, 0.0))
    return results + cautions


def caution_texts(diff: Comparison, kinds: Container[str] | None = None) -> list[str]:
    """Return the cautions of some or all kinds as sentences, without those of `conditions`."""
    found = [
        f"{_capitalize(caution.text)}."
        for caution in diff.cautions
        if caution.kind not in CONDITIONS and (kinds is None or caution.kind in kinds)
    ]
    if diff.before.on_device and kinds is None:
        found.append("Hosts are ahead of their devices: a step ends with its last device work.")
    return found


def _shared_formats(diff: Comparison) -> set[str]:
    """Return the formats that both sides have, or that one has and the other's compare with."""
    also = {format_.name: format_.comparison.compared_with for format_ in all_formats()}
    sides = [side.formats for side in diff.sides]
    every = sides[0] | sides[1]
    return {
        format_name
        for format_name in every
        if all(side & {format_name, *also.get(format_name, ())} for side in sides)
    }


def is_profiles(diff: Comparison) -> bool:
    """Return whether a side has totals only, without events."""
    return diff.before.is_totals or diff.after.is_totals


def kind_words(diff: Comparison) -> dict[str, str]:
    """Return the words of the formats for kinds of time."""
    formats = formats_named(diff.before.formats)
    words_by_format = load_references(format_.comparison.kind_words for format_ in formats)
    return {kind: word for words in words_by_format for kind, word in words.items()}


def kind_labels(diff: Comparison) -> dict[str, str]:
    """Return the short labels of the formats for kinds of time, for charts."""
    formats = formats_named(diff.before.formats)
    words_by_format = load_references(format_.comparison.kind_labels for format_ in formats)
    return {kind: word for words in words_by_format for kind, word in words.items()}


def _step_findings(diff: Comparison, late: list[LateRank]) -> list[Finding]:
    by_step = steps(diff)
    by_kind = waterfall(diff, "kind")
    before, after = by_kind.attrs["before_ns"], by_kind.attrs["after_ns"]
    gap = after - before
    share, likely = abs(gap) / max(before, after, 1), by_step.attrs["p_value"]
    if likely is None:
        matters = share >= _LARGE_ALONE
    else:
        matters = any(share >= floor and likely < chance for floor, chance in _NOISE)
    if matters:
        text = f"{_longer_by(diff, before, after)}{_main_cause_text(diff, gap, late)}."
        return [
            Finding("headline", text, float(gap)),
            # A kind that the headline names is not repeated.
            *(
                finding
                for finding in _changed_kinds(diff, by_kind, before, after)
                if finding.text.lower() not in text
            ),
            *_main_name_text(diff, before, after),
            *_steps_text(by_step, gap),
        ]
    composition = _composition_finding(diff, by_kind, before, after)
    if not composition and likely is not None and likely < ALPHA and share >= _SMALL:
        text = f"{_longer_by(diff, before, after)}; that may be chance (p {likely:.2g})."
        composition = [Finding("slight", text, float(gap))]
    return composition


def _largest_untested_differences(diff: Comparison) -> list[Finding]:
    """Return the largest differences of a single pair of steps, which no test finds significant."""
    by_kind = waterfall(diff, "kind")
    before, after = by_kind.attrs["before_ns"], by_kind.attrs["after_ns"]
    floor = max(_SMALL * max(before, after), 1)
    each = "step" if diff.before.has_steps else "run"
    unsure = f"; one {each} on each side is too few to tell a change from noise"
    differences = []
    if abs(after - before) >= floor:
        text = f"{_longer_by(diff, before, after)}{_main_cause_text(diff, after - before, [])}"
        differences.append(Finding("slight", f"{text}{unsure}.", float(after - before)))
    table = names(diff, device="gpu", short_names=True)
    for row in iter_rows(table[table["diff_ns"].abs() >= floor].head(1)):
        share = f", {share_delta(row.diff_ns / row.before_ns)}" if row.before_ns else ""
        times = f"{duration(row.before_ns)} → {duration(row.after_ns)}{share}"
        text = f"{row.name} differs most: {times}{'' if differences else unsure}."
        differences.append(Finding("name", text, float(row.diff_ns)))
    return differences


def _change_findings(diff: Comparison, *, leads: bool) -> list[Finding]:
    """Return the changes with most time, Python functions last; `leads` if no findings precede."""
    results = []
    table = changes(diff)
    table = table.sort_values("measure", key=lambda column: column == "function", kind="stable")
    if leads and len(table) and (table["measure"] == "function").all():
        subject = "steps take" if diff.before.has_steps else "runs take"
        text = f"The {subject} as long; only Python functions came or went."
        results.append(Finding("composition", text, 0.0))
    unit = " a step" if diff.before.has_steps else ""
    even = _uniform_change_mask(table)
    listed = [_pace_text(table[even], unit)] if even.any() else []
    table = table[~even]
    is_mpi = any(map(is_host_only, diff.before.formats))
    shown = table.head(_MAX_CHANGES)
    listed += [
        _change_text(row, unit, where, is_mpi=is_mpi)
        for row, where in zip(iter_rows(shown), _caller_texts(shown), strict=True)
    ]
    if diff.by_rank_means:
        mean = f"{'mean over ' * (len(diff.rank_pairs) > 1)}{paired_ranks(diff)}"
        listed = [finding._replace(text=f"{finding.text[:-1]} ({mean}).") for finding in listed]
    results += listed
    left = len(table) - _MAX_CHANGES
    if left > 0:
        results.append(Finding("more", f"{plural(left, 'more change')} in the table.", 0.0))
    return results


def _longer_by(diff: Comparison, before: int, after: int) -> str:
    way = "longer" if after > before else "less"
    mean = " (mean over ranks)" if _is_mean_over_ranks(diff) else ""
    share = share_delta((after - before) / before) if before else "new"
    return (
        f"After takes {duration(abs(after - before))} {way}{_over_steps(diff)}: "
        f"{duration(before)} → "
        f"{duration(after)}, {share}{mean}"
    )


def _main_cause_text(diff: Comparison, gap: int, late: list[LateRank]) -> str:
    """Return the largest cause of a difference of the step times, as the end of its sentence."""
    if diff.before.formats != {"kineto"}:
        # Other formats have findings on stages and routines instead.
        return ""
    way = 1 if gap > 0 else -1
    causes = waterfall(diff, "cause").set_index("cause")["diff_ns"].rename(index=str)
    on_host = causes[causes.index.str.startswith("host_")]
    causes["host_wait"] = on_host.sum()
    if (causes * way).max() <= 0:
        return ""
    cause = str((causes * way).idxmax())
    if cause == "host_wait" and 2 * (on_host * way).max() >= causes[cause] * way:
        cause = str((on_host * way).idxmax())
    named = [one.clause for one in late if one.appears == (gap > 0)]
    if cause == "communication_wait" and named:
        return f": {' and '.join(named)}"
    words = _CAUSE_WORDS.get(cause, cause.replace("_", " "))
    return f": {words} {'grows' if way > 0 else 'shrinks'} by {duration(abs(causes[cause]))}"


def _composition_finding(
    diff: Comparison, by_kind: pd.DataFrame, before: int, after: int
) -> list[Finding]:
    """Return the kinds of time with another share of steps of about the same length."""
    shown = by_kind[by_kind["kind"].isin(kinds_with_changed_share(diff))]
    if shown.empty:
        return []
    words = _KIND_WORDS | kind_words(diff)
    parts = []
    for row in iter_rows(shown):
        share_of = f" ({share_delta(row.change_share)})" if row.before_ns else ""
        verb = "grows" if row.diff_ns > 0 else "shrinks"
        parts.append(f"{words[str(row.cause)]} {verb} by {duration(abs(row.diff_ns))}{share_of}")
    subject, verb = ("steps", "take") if diff.step_count > 1 else ("step", "takes")
    if not diff.before.has_steps:
        subject, verb = "runs", "take"
    share = (after - before) / max(before, 1)
    if abs(share) < _LARGE:
        lead = f"The {subject} {verb} as long"
    else:
        lead = f"That the {subject} {verb} longer or less may be chance ({share_delta(share)})"
    over = f",{_over_steps(diff)}" if diff.step_count > 1 else ""
    mean = ", means over ranks" if _is_mean_over_ranks(diff) else ""
    first = float(shown["diff_ns"].iloc[0])
    return [Finding("composition", f"{lead}, but {_join_with_and(parts)}{over}{mean}.", first)]


def _over_steps(diff: Comparison) -> str:
    """Describe over how many steps times are summed; "" for one step."""
    return f" over {plural(diff.step_count, 'step')}" if diff.step_count > 1 else ""


def _is_mean_over_ranks(diff: Comparison) -> bool:
    return max(len(side.ranks) for side in diff.sides) > 1


def _changed_kinds(
    diff: Comparison, by_kind: pd.DataFrame, before: int, after: int
) -> list[Finding]:
    """Return the kinds of time that grow and shrink, the largest change first."""
    shown = by_kind[by_kind["diff_ns"].abs() >= _SMALL * max(before, after)]
    words = _KIND_WORDS | kind_words(diff)
    clauses = []
    for grows, verb in ((True, "grows "), (False, "shrinks ")):
        rows = shown[(shown["diff_ns"] > 0) == grows]
        parts = [
            f"{words[str(row.cause)]} {verb * (not place)}by {duration(abs(row.diff_ns))}"
            for place, row in enumerate(iter_rows(rows))
        ]
        if parts:
            clauses.append((-abs(float(rows["diff_ns"].iloc[0])), _join_with_and(parts)))
    text = "; ".join(clause for _, clause in sorted(clauses))
    return (
        [Finding("kinds", f"{_capitalize(text)}.", float(shown["diff_ns"].iloc[0]))] if text else []
    )


def _main_name_text(diff: Comparison, before: int, after: int) -> list[Finding]:
    """Return the name of device work whose time differs most, if its count differs."""
    table = names(diff, device="gpu", short_names=True)
    floor = _SMALL * max(before, after)
    table = table[(table["diff_ns"].abs() >= floor) & (table["change"] == "changed")]
    return [
        Finding(
            "name",
            f"{row.name} goes from {count_text(row.before_count)} to {count_text(row.after_count)}"
            f"{_over_steps(diff)} ({duration_delta(row.diff_ns)}).",
            float(row.diff_ns),
        )
        for row in iter_rows(table.head(1))
    ]


def _steps_text(by_step: pd.DataFrame, total: int) -> list[Finding]:
    if len(by_step) < 2:
        return []
    gaps = by_step["diff_ns"].to_numpy() * (1 if total > 0 else -1)
    word = "slower" if total > 0 else "faster"
    number, most = (int(by_step[name].iloc[gaps.argmax()]) for name in ("after_step", "diff_ns"))
    text = f"{int((gaps > 0).sum())} of {len(by_step)} steps are {word}"
    if (gaps > 0).all():
        text = f"Every step is {word}"
    if (gaps == gaps.max()).sum() == 1:
        text = f"{text}; step {number} most, {duration_delta(most)}"
    else:
        text = f"{text}, by {duration(abs(most))} at most"
    return [Finding("steps", f"{text}.", float(most))]


def _uniform_change_mask(table: pd.DataFrame) -> Bools:
    """Return a mask of the operators that changed by one factor, if most did."""
    ratio = _log_ratio(table)
    timed = np.isfinite(ratio)
    none = np.zeros(len(table), dtype=bool)
    if timed.sum() < _RULE:
        return none
    middle = float(np.median(ratio[timed]))
    even: Bools = timed & (np.abs(ratio - middle) <= 0.2 * abs(middle))
    return even if even.sum() >= max(_RULE, timed.sum() / 2) else none


def _log_ratio(table: pd.DataFrame) -> Floats:
    """Return the logarithm of the ratio of times; NaN for changes that are not slower or faster."""
    # A logarithm, so that swapped sides only change its sign.
    before, after = (table[f"{side}_ns"].to_numpy(np.float64) for side in ("before", "after"))
    known = table["change"].isin(["slower", "faster"]).to_numpy() & (before > 0) & (after > 0)
    return np.log(np.where(known, after, np.nan) / np.where(known, before, np.nan))


def _pace_text(table: pd.DataFrame, unit: str) -> Finding:
    total = float(table["diff_ns"].sum())
    middle = float(np.expm1(np.median(_log_ratio(table))))
    text = (
        f"{plural(len(table), 'operator')} are {'slower' if total > 0 else 'faster'} alike, "
        f"{share_delta(middle)} in the median: {duration_delta(total)}{unit} together."
    )
    return Finding("pace", text, total)


def _caller_texts(table: pd.DataFrame) -> list[str]:
    """Describe the caller of each change whose name is not unique; "" for unique names."""
    # It is the innermost caller that the other changes do not have, on the path with most time.
    names = [short_name(name) for name in table["name"]]
    callers = [path.split(" > ") if path else [] for path in table["path"]]
    often = Counter(names)
    callers_of_rows = []
    for row, (name, mine, places) in enumerate(zip(names, callers, table["places"], strict=True)):
        others = {
            caller
            for k, theirs in enumerate(callers)
            if names[k] == name and k != row
            for caller in theirs
        }
        if often[name] == 1 or not (mine or others):
            callers_of_rows.append("")
            continue
        distinguishing = [caller for caller in mine if caller not in others] or mine
        where = (
            f" in {short_name(distinguishing[-1])}"
            if distinguishing
            else " outside of other operators"
        )
        more = int(places) - 1
        callers_of_rows.append(where + f" and {plural(more, 'other place')}" * (more > 0))
    return callers_of_rows


def _change_text(row: Any, unit: str, where: str, *, is_mpi: bool) -> Finding:
    name = f"{short_name(row.name)}{where}"
    word = str(row.change)
    delta = f"{duration_delta(row.diff_ns)}{unit}" if row.diff_ns else ""
    if word in {"slower", "faster"}:
        share = f", {share_delta(row.diff_ns / row.before_ns)}" if row.before_ns else ""
        how = f"is {word} on the {row.measure}"
        if is_mpi:
            how = f"takes {'longer' if row.diff_ns > 0 else 'less'}"
            unit = f"{unit} a rank"
        text = f"{name} {how}: {duration(row.before_ns)} → {duration(row.after_ns)}{unit}{share}."
    elif word == "replaced":
        before_names, after_names = _list_names(row.before_names), _list_names(row.after_names)
        which = (
            f"{before_names} → {after_names}"
            if before_names != after_names
            else f"other variants of {before_names.split(' + ')[0]}"
        )
        text = (
            f"Kernels of {name} were replaced{_how_text(row)}: {count_text(row.before_count)} → "
            f"{count_text(row.after_count)}{unit}, {which}{', ' + delta if delta else ''}."
        )
    elif word == "moved":
        text = f"{name} moved to another place ({count_text(row.after_count)}{unit})."
    else:
        often = row.after_count if word == "added" else row.before_count
        gone = "new" if word == "added" else "gone"
        text = f"{name} is {gone}: {count_text(often)}{unit}{', ' + delta if delta else ''}."
    return Finding(word, text, float(row.diff_ns))


def _how_text(row: Any) -> str:
    if row.how == "other library":
        sides = (libraries(names.split("; ")) for names in (row.before_names, row.after_names))
        return f" (another library: {' → '.join(' and '.join(side) for side in sides)})"
    return {"fused": " (fused)", "split": " (split up)"}.get(str(row.how), "")


def count_text(number: float) -> str:
    """Format a mean number of calls, without decimals if it is nearly whole."""
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _list_names(names: str) -> str:
    found = [short_name(name) for name in names.split("; ") if name]
    distinct = list(dict.fromkeys(found))
    return " + ".join(distinct[:2]) + (" + …" if len(distinct) > 2 else "")


def _join_with_and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]][len(parts) == 1 :])


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]

"""State the differences of two runs as sentences with numbers, if they exceed noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.stragglers import stragglers
from hta_widgets.arguments import checked
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.changes import changes, libraries, shifted_kinds
from hta_widgets.diff.compare import (
    CONDITIONS,
    Comparison,
    conditions,
    is_host_only,
    paired_ranks,
)
from hta_widgets.diff.pairs import KIND_OF, moments, splits_communication
from hta_widgets.diff.tables import names, rows_of
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.readers.formats import all_formats, provided
from hta_widgets.text import (
    count,
    duration,
    duration_delta,
    number_runs,
    plural,
    run_text,
    share_delta,
)
from hta_widgets.trace.arrays import Bools, Floats
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.names import short_name

_LOST = 0.5  # minimum relative change of lost time; less may be chance near the limit
_WAITS = 0.25  # minimum change of a wait for naming its rank, as a share of the largest change
# Shares of a step.
_SMALL = 0.01  # smaller differences are not reported
_LARGE = 0.05  # smaller differences occur between runs of one program
_LARGE_ALONE = 0.2  # the same with one step on a side
_NOISE = ((0.2, 0.05), (_LARGE, 0.01), (_SMALL, 0.001))  # (minimum difference, maximum p-value)
_MOST_CHANGES = 8
_RULE = 5  # minimum number of operators with an equal change that are one finding

#: Kinds of a rank's own time; communication depends on the other ranks.
_OWN = {
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
    "host_data_loading": "idle time while the host loads data",
    "host_operator": "idle time while the host is inside operators",
    "host_python": "idle time while the host runs Python",
    "host_nothing": "idle time before the host launches",
    "launch_call": "idle time within calls that launch",
    "launch_latency": "idle time between launch and start",
    "kernel_wait": "idle time between kernels",
    "stream_wait": "idle time behind other streams",
    "blocked": "idle time while launched work does not start",
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
    own, waits = _own_changes(diff, shared)
    others = "the others on both sides" if lone else "the others"
    found = []
    for place, rank in enumerate([*shared, *sorted(lone)]):
        if place < len(shared) and not all(rank in frame.index for frame in judged):
            continue
        was, now = (bool(frame["is_straggler"].get(rank, False)) for frame in judged)
        lost = [float(frame["lost_share"].get(rank, 0.0)) for frame in judged]
        if was is now or abs(lost[1] - lost[0]) < _LOST * max(lost):
            continue
        if place < len(shared):
            text, gap = _describe(place, shared, own, waits, appears=now)
            late = LateRank(rank, now, text.replace("the others", others), gap)
        else:
            one, other = diff.sides[::-1] if now else diff.sides
            frame = judged[now]
            gap = float(frame["lost_ns"][rank]) / (len(frame) - 1)
            text = f"{frame['cause'][rank]}; the others wait {duration(round(gap))} on average"
            only = "" if rank in other.traces else one.label
            late = LateRank(rank, now, text, gap if now else -gap, only)
        found.append((max(lost), late))
    return [late for _, late in sorted(found, key=lambda one: (-one[0], one[1].rank))]


def _own_changes(diff: Comparison, ranks: list[int]) -> tuple[dict[str, Floats], Floats]:
    """Return time before and change of each kind of own time, (ranks, 2), and changes of waits."""
    own = {kind: np.zeros((len(ranks), 2)) for kind in _OWN}
    waits = np.zeros((len(ranks), 2))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            for cause, times in moments(diff, run)[rank].items():
                if KIND_OF[cause] in own:
                    own[KIND_OF[cause]][place, side] += times.sum()
            waits[place, side] = moments(diff, run)[rank]["communication_wait"].sum()
    for both in own.values():
        both[:, 1] -= both[:, 0]
    return own, waits[:, 1] - waits[:, 0]


def _describe(
    place: int, ranks: list[int], own: dict[str, Floats], waits: Floats, *, appears: bool
) -> tuple[str, float]:
    """Describe the change of one rank, and return its size in ns."""
    way = 1 if appears else -1
    others = np.delete(np.arange(len(ranks)), place)

    def beyond(kind: str) -> float:
        usual = float(np.median(own[kind][others, 1])) if len(others) else 0.0
        return way * (float(own[kind][place, 1]) - usual)

    kind = max(own, key=beyond)
    before, gap = own[kind][place]
    shares = own[kind][:, 1] / np.maximum(own[kind][:, 0], 1)
    text = f"its {_OWN[kind]} {share_delta(shares[place]) if before else 'is new'}"
    if len(others):
        low, high = (share_delta(value) for value in (shares[others].min(), shares[others].max()))
        text += f" (the others {low} to {high})" if low != high else f" (the others {low})"
        # Positive if the others wait longer for a rank that appears, less for one that disappears.
        moved = way * waits[others]
        named = others[moved >= max(_WAITS * float(moved.max()), 1)]
        if len(named):
            lengths = np.abs(waits[named])
            span = [duration(round(value)) for value in (lengths.min(), lengths.max())]
            numbers = ", ".join(map(run_text, number_runs([ranks[k] for k in named])))
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


@checked
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
    found: list[Finding] = []
    formats = _shared_formats(diff)
    # Some formats have a table of their own in place of `changes`.
    has_changes = not any("changes" in one.replaces for one in all_formats() if one.name in formats)
    if not is_profiles(diff):
        late = late_ranks(diff)
        found += _of_steps(diff, late)
        at = 1 if found and found[0].kind == "headline" else 0
        found[at:at] = [
            Finding("straggler", f"{_upper(one.clause)}: {one.text}{_over(diff)}.", one.diff_ns)
            for one in late
        ]
        if has_changes:
            found += _of_changes(diff, leads=not found)
    for findings_of in provided("findings", formats):
        found += findings_of(diff)
    if not found and formats == {"kineto"} and diff.step_count == 1:
        found = _untested(diff)
    kinds = None if found else ("empty",)
    cautions = [Finding("caution", text, 0.0) for text in caution_texts(diff, kinds)]
    if found:
        unlike = conditions(diff)
        found[1:1] = [Finding("caution", unlike, 0.0)] if unlike else []
        if diff.before.has_steps and diff.step_count == 1:
            text = "With one step on each side, what is particular to it looks like a change."
            cautions.append(Finding("caution", text, 0.0))
        if has_changes and not splits_communication(diff):
            text = "Communication includes waiting for other ranks, whose events are not here."
            cautions.append(Finding("caution", text, 0.0))
    return found + cautions


def caution_texts(diff: Comparison, kinds: Container[str] | None = None) -> list[str]:
    """Return the cautions of some or all kinds as sentences, without those of `conditions`."""
    found = [
        f"{_upper(one.text)}."
        for one in diff.cautions
        if one.kind not in CONDITIONS and (kinds is None or one.kind in kinds)
    ]
    if diff.before.on_device and kinds is None:
        found.append("Hosts are ahead of their devices: a step ends with its last device work.")
    return found


def _shared_formats(diff: Comparison) -> set[str]:
    """Return the formats that both sides have, or that one has and the other's compare with."""
    also = {one.name: one.compared_with for one in all_formats()}
    sides = [side.formats for side in diff.sides]
    every = sides[0] | sides[1]
    return {one for one in every if all(side & {one, *also.get(one, ())} for side in sides)}


def is_profiles(diff: Comparison) -> bool:
    """Return whether a side has totals only, without events."""
    return diff.before.is_totals or diff.after.is_totals


def kind_words(diff: Comparison) -> dict[str, str]:
    """Return the words of the formats for kinds of time."""
    return {k: v for one in provided("kind_words", diff.before.formats) for k, v in one.items()}


def kind_labels(diff: Comparison) -> dict[str, str]:
    """Return the short labels of the formats for kinds of time, for charts."""
    return {k: v for one in provided("kind_labels", diff.before.formats) for k, v in one.items()}


def _of_steps(diff: Comparison, late: list[LateRank]) -> list[Finding]:
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
        text = f"{_longer(diff, before, after)}{_cause(diff, gap, late)}."
        return [
            Finding("headline", text, float(gap)),
            # A kind that the headline names is not repeated.
            *(one for one in _kinds(diff, by_kind, before, after) if one.text.lower() not in text),
            *_name(diff, before, after),
            *_steps(by_step, gap),
        ]
    found = _composition(diff, by_kind, before, after)
    if not found and likely is not None and likely < ALPHA and share >= _SMALL:
        text = f"{_longer(diff, before, after)}; that may be chance (p {likely:.2g})."
        found = [Finding("slight", text, float(gap))]
    return found


def _untested(diff: Comparison) -> list[Finding]:
    """Return the largest differences of a single pair of steps, which no test finds significant."""
    by_kind = waterfall(diff, "kind")
    before, after = by_kind.attrs["before_ns"], by_kind.attrs["after_ns"]
    floor = max(_SMALL * max(before, after), 1)
    each = "step" if diff.before.has_steps else "run"
    unsure = f"; one {each} on each side is too few to tell a change from noise"
    found = []
    if abs(after - before) >= floor:
        text = f"{_longer(diff, before, after)}{_cause(diff, after - before, [])}"
        found.append(Finding("slight", f"{text}{unsure}.", float(after - before)))
    table = names(diff, device="gpu", short_names=True)
    for row in rows_of(table[table["diff_ns"].abs() >= floor].head(1)):
        share = f", {share_delta(row.diff_ns / row.before_ns)}" if row.before_ns else ""
        times = f"{duration(row.before_ns)} → {duration(row.after_ns)}{share}"
        text = f"{row.name} differs most: {times}{'' if found else unsure}."
        found.append(Finding("name", text, float(row.diff_ns)))
    return found


def _of_changes(diff: Comparison, *, leads: bool) -> list[Finding]:
    """Return the changes with most time, Python functions last; `leads` if no findings precede."""
    found = []
    table = changes(diff)
    table = table.sort_values("measure", key=lambda column: column == "function", kind="stable")
    if leads and len(table) and (table["measure"] == "function").all():
        subject = "steps take" if diff.before.has_steps else "runs take"
        text = f"The {subject} as long; only Python functions came or went."
        found.append(Finding("composition", text, 0.0))
    unit = " a step" if diff.before.has_steps else ""
    even = _even_pace(table)
    listed = [_pace(table[even], unit)] if even.any() else []
    table = table[~even]
    is_mpi = any(map(is_host_only, diff.before.formats))
    shown = table.head(_MOST_CHANGES)
    listed += [
        _change(row, unit, where, is_mpi=is_mpi)
        for row, where in zip(rows_of(shown), _places(shown), strict=True)
    ]
    if diff.by_rank_means:
        mean = f"{'mean over ' * (len(diff.rank_pairs) > 1)}{paired_ranks(diff)}"
        listed = [one._replace(text=f"{one.text[:-1]} ({mean}).") for one in listed]
    found += listed
    left = len(table) - _MOST_CHANGES
    if left > 0:
        found.append(Finding("more", f"{plural(left, 'more change')} in the table.", 0.0))
    return found


def _longer(diff: Comparison, before: int, after: int) -> str:
    way = "longer" if after > before else "less"
    mean = " (mean over ranks)" if _is_mean(diff) else ""
    share = share_delta((after - before) / before) if before else "new"
    return (
        f"After takes {duration(abs(after - before))} {way}{_over(diff)}: {duration(before)} → "
        f"{duration(after)}, {share}{mean}"
    )


def _cause(diff: Comparison, gap: int, late: list[LateRank]) -> str:
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


def _composition(diff: Comparison, by_kind: pd.DataFrame, before: int, after: int) -> list[Finding]:
    """Return the kinds of time with another share of steps of about the same length."""
    shown = by_kind[by_kind["kind"].isin(shifted_kinds(diff))]
    if shown.empty:
        return []
    words = _KIND_WORDS | kind_words(diff)
    parts = []
    for row in rows_of(shown):
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
    over = f",{_over(diff)}" if diff.step_count > 1 else ""
    mean = ", means over ranks" if _is_mean(diff) else ""
    first = float(shown["diff_ns"].iloc[0])
    return [Finding("composition", f"{lead}, but {_and(parts)}{over}{mean}.", first)]


def _over(diff: Comparison) -> str:
    """Return words for the number of steps that times are summed over; "" for one step."""
    return f" over {plural(diff.step_count, 'step')}" if diff.step_count > 1 else ""


def _is_mean(diff: Comparison) -> bool:
    return max(len(side.ranks) for side in diff.sides) > 1


def _kinds(diff: Comparison, by_kind: pd.DataFrame, before: int, after: int) -> list[Finding]:
    """Return the kinds of time that grow and shrink, the largest change first."""
    shown = by_kind[by_kind["diff_ns"].abs() >= _SMALL * max(before, after)]
    words = _KIND_WORDS | kind_words(diff)
    clauses = []
    for grows, verb in ((True, "grows "), (False, "shrinks ")):
        rows = shown[(shown["diff_ns"] > 0) == grows]
        parts = [
            f"{words[str(row.cause)]} {verb * (not place)}by {duration(abs(row.diff_ns))}"
            for place, row in enumerate(rows_of(rows))
        ]
        if parts:
            clauses.append((-abs(float(rows["diff_ns"].iloc[0])), _and(parts)))
    text = "; ".join(clause for _, clause in sorted(clauses))
    return [Finding("kinds", f"{_upper(text)}.", float(shown["diff_ns"].iloc[0]))] if text else []


def _name(diff: Comparison, before: int, after: int) -> list[Finding]:
    """Return the name of device work whose time differs most, if its count differs."""
    table = names(diff, device="gpu", short_names=True)
    floor = _SMALL * max(before, after)
    table = table[(table["diff_ns"].abs() >= floor) & (table["change"] == "changed")]
    return [
        Finding(
            "name",
            f"{row.name} goes from {count_text(row.before_count)} to {count_text(row.after_count)}"
            f"{_over(diff)} ({duration_delta(row.diff_ns)}).",
            float(row.diff_ns),
        )
        for row in rows_of(table.head(1))
    ]


def _steps(by_step: pd.DataFrame, total: int) -> list[Finding]:
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


def _even_pace(table: pd.DataFrame) -> Bools:
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


def _pace(table: pd.DataFrame, unit: str) -> Finding:
    total = float(table["diff_ns"].sum())
    middle = float(np.expm1(np.median(_log_ratio(table))))
    text = (
        f"{plural(len(table), 'operator')} are {'slower' if total > 0 else 'faster'} alike, "
        f"{share_delta(middle)} in the median: {duration_delta(total)}{unit} together."
    )
    return Finding("pace", text, total)


def _places(table: pd.DataFrame) -> list[str]:
    """Return words for the caller of each change whose name occurs several times; else ""."""
    # It is the innermost caller that the other changes do not have, on the path with most time.
    names = [short_name(name) for name in table["name"]]
    callers = [path.split(" > ") if path else [] for path in table["path"]]
    often = Counter(names)
    found = []
    for row, (name, mine, places) in enumerate(zip(names, callers, table["places"], strict=True)):
        others = {
            caller
            for k, theirs in enumerate(callers)
            if names[k] == name and k != row
            for caller in theirs
        }
        if often[name] == 1 or not (mine or others):
            found.append("")
            continue
        own = [caller for caller in mine if caller not in others] or mine
        where = f" in {short_name(own[-1])}" if own else " outside of other operators"
        more = int(places) - 1
        found.append(where + f" and {plural(more, 'other place')}" * (more > 0))
    return found


def _change(row: Any, unit: str, where: str, *, is_mpi: bool) -> Finding:
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
        one, other = _listed(row.before_names), _listed(row.after_names)
        which = f"{one} → {other}" if one != other else f"other variants of {one.split(' + ')[0]}"
        text = (
            f"Kernels of {name} were replaced{_how(row)}: {count_text(row.before_count)} → "
            f"{count_text(row.after_count)}{unit}, {which}{', ' + delta if delta else ''}."
        )
    elif word == "moved":
        text = f"{name} moved to another place ({count_text(row.after_count)}{unit})."
    else:
        often = row.after_count if word == "added" else row.before_count
        gone = "new" if word == "added" else "gone"
        text = f"{name} is {gone}: {count_text(often)}{unit}{', ' + delta if delta else ''}."
    return Finding(word, text, float(row.diff_ns))


def _how(row: Any) -> str:
    if row.how == "other library":
        sides = (libraries(names.split("; ")) for names in (row.before_names, row.after_names))
        return f" (another library: {' → '.join(' and '.join(side) for side in sides)})"
    return {"fused": " (fused)", "split": " (split up)"}.get(str(row.how), "")


def count_text(number: float) -> str:
    """Format a mean number of calls, without decimals if it is nearly whole."""
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _listed(names: str) -> str:
    found = [short_name(name) for name in names.split("; ") if name]
    distinct = list(dict.fromkeys(found))
    return " + ".join(distinct[:2]) + (" + …" if len(distinct) > 2 else "")


def _and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]][len(parts) == 1 :])


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]

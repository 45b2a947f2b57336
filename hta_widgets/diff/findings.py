"""What two runs differ in, in words with numbers; silent where nothing is above the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.stragglers import stragglers
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.changes import changes, shifted_kinds
from hta_widgets.diff.compare import (
    CONDITIONS,
    Comparison,
    RunSide,
    conditions,
    is_host_only,
    libraries,
)
from hta_widgets.diff.pairs import KIND_OF, moments, splits_communication
from hta_widgets.diff.tables import names
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
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.names import short_name

Floats = npt.NDArray[np.float64]

#: Least change of the share of time lost, as a part of the larger one: a rank near the straggler
#: limit crosses it by chance.
_LOST = 0.5
_WAITS = 0.25  # of the largest change of a wait; ranks with less are not named
#: Kinds of a rank's own time. Communication is left out because it depends on the other ranks.
_OWN = {
    "compute": "compute",
    "memory": "exposed copies",
    "idle": "idle time of the device",
    "cpu": "time on the host",
}


class LateRank(NamedTuple):
    """A rank that keeps the others waiting on one side only."""

    rank: int
    appears: bool
    text: str
    diff_ns: float

    @property
    def clause(self) -> str:
        """The change as a clause without a full stop."""
        verb = "now keeps" if self.appears else "no longer keeps"
        return f"rank {self.rank} {verb} the others waiting"


@memoized
def late_ranks(diff: Comparison) -> list[LateRank]:
    """Return the ranks that keep the others waiting on one side only, the most costly first.

    `hta_widgets.analysis.stragglers` judges the compared steps of each side. A rank is returned if
    its cost at least halves or doubles and it has the same number on both sides. With a single step
    on each side the result is empty.
    """
    shared = [before for before, after in diff.rank_pairs if before == after]
    alone = diff.before.has_steps and diff.step_count == 1
    formats = diff.before.formats | diff.after.formats
    if alone or formats != {"kineto"} or not shared or not splits_communication(diff):
        return []
    judged = [_judged(side) for side in diff.sides]
    own, waits = _changes(diff, shared)
    found = []
    for place, rank in enumerate(shared):
        if not all(rank in frame.index for frame in judged):
            continue
        was, now = (bool(frame["is_straggler"][rank]) for frame in judged)
        lost = [float(frame["lost_share"][rank]) for frame in judged]
        if was is now or abs(lost[1] - lost[0]) < _LOST * max(lost):
            continue
        text, gap = _describe(place, shared, own, waits, appears=now)
        found.append((max(lost), LateRank(rank, now, text, gap)))
    return [late for _, late in sorted(found, key=lambda one: (-one[0], one[1].rank))]


def _judged(side: RunSide) -> pd.DataFrame:
    low, high = side.envelope()
    window = int(low.min()), int(high.max())
    return stragglers(side.traces, window=window, ranks=side.ranks).set_index("rank")


def _changes(diff: Comparison, ranks: list[int]) -> tuple[dict[str, Floats], Floats]:
    """Return time before and change of each kind of own time, (ranks, 2), and changes of waits."""
    own = {kind: np.zeros((len(ranks), 2)) for kind in _OWN}
    waits = np.zeros((len(ranks), 2))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            for cause, times in moments(diff, run)[rank].items():
                if KIND_OF[cause] in own:
                    own[KIND_OF[cause]][place, side] += times.sum()
            waits[place, side] = moments(diff, run)[rank]["communication_wait"].sum()
    changes = {
        kind: np.stack([one[:, 0], one[:, 1] - one[:, 0]], axis=1) for kind, one in own.items()
    }
    return changes, waits[:, 1] - waits[:, 0]


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
        # The sign is that of an appearing rank, so that a wait that matters is positive.
        moved = way * waits[others]
        most = float(moved.max())
        named = others[moved >= max(_WAITS * most, 1)]
        if len(named):
            lengths = np.abs(waits[named])
            span = [duration(round(value)) for value in (lengths.min(), lengths.max())]
            verb = "wait" if len(named) > 1 else "waits"
            text += (
                f"; {_numbers([ranks[k] for k in named])} {verb} "
                f"{' to '.join(dict.fromkeys(span))} {'longer' if appears else 'less'}"
                f"{' each' * (len(named) > 1)}"
            )
    return text, float(gap)


def _numbers(ranks: list[int]) -> str:
    """Return ``ranks 0–3, 6, 7``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(run_text, number_runs(ranks)))}"


_SMALL = 0.01  # of a step: what differs by less is no finding
_LARGE = 0.05  # by less runs of one program may differ
#: How much of the step times a difference must be, and how unlikely chance, to be told.
_NOISE = ((0.2, 0.05), (_LARGE, 0.01), (_SMALL, 0.001))
_LARGE_ALONE = 0.2  # where one step on a side tells nothing of chance
_MOST_CHANGES = 8
_RULE = 5  # so many operators that change alike are told of as one

_KIND_WORDS = {
    "compute": "compute",
    "communication": "exposed communication",
    "copies": "exposed copies",
    "idle": "idle time of the device",
    "host": "time on the host",
}

#: Those that kinds are parted into, as `waterfall` has them.
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
    "nothing_launched": "idle time after the last work",
}


class Finding(NamedTuple):
    """One finding.

    ``kind`` is ``headline, slight, straggler, kinds, name, steps, composition, pace, more,
    caution``, or one of those of `changes`, or for BytePS and MPI ``stage, routine, calls,
    waiting``; ``text`` is a sentence; ``diff_ns`` the time that it is about: of the first seven
    over all steps, of changes in one step.
    """

    kind: str
    text: str
    diff_ns: float


def findings(diff: Comparison) -> list[Finding]:
    """Return what changed, most important first, as sentences with their numbers.

    The first says how much longer the steps take, and the largest cause in the waterfall; then come
    what the runs ran on differently (GPU, maker, world size); each rank that keeps the others
    waiting on one side only, as `hta_widgets.analysis.stragglers` judges, by what changed on it and
    how much less or longer the others wait; which kinds of time make the difference; which device
    work runs another number of times; how it is spread over the steps; and the changes with most
    time (see `changes`), those of many operators by one factor as one, those of Python functions
    last; of BytePS stages and queues instead, of MPI also numbers of calls, and of both who is
    waited for (see `hta_widgets.diff.tables`).

    What is within the noise is not told: a difference of the step times that is less than 5 % of
    them or may be chance (the test of `steps` at 1 %, or at 5 % from 20 % of them on), unless it is
    at least 1 % and chance is less likely than 0.1 %; with one step on a side, less than 20 %. One
    of at least 1 % that the test finds at 5 % is told with how likely chance is. Where the steps do
    not differ but are made up otherwise, that comes first: kinds of time whose share of the step
    differs by more than 5 % of it and not by chance (tests over the steps as in `changes` at 1 %,
    divided by the number of kinds), with one step on a side by more than 20 %.
    Turned round, the same is told the other way. Without any difference the list is empty, but for
    a caution where a side holds nothing.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    list of Finding

    Examples
    --------
    >>> for finding in findings(diff):  # doctest: +SKIP
    ...     print(finding.text)
    """
    found: list[Finding] = []
    formats = diff.before.formats & diff.after.formats
    # Where a format has a table in place of `changes`, that table tells of them.
    has_changes = not any("changes" in one.replaces for one in all_formats() if one.name in formats)
    if not is_profiles(diff):
        late = late_ranks(diff)
        found += _of_steps(diff, late)
        at = 1 if found and found[0].kind == "headline" else 0
        found[at:at] = [_late(one, diff) for one in late]
        if has_changes:
            found += _of_changes(diff, leads=not found)
    for findings_of in provided("findings", formats):
        found += findings_of(diff)
    told = diff.cautions if found else [one for one in diff.cautions if one.kind == "empty"]
    told = [one for one in told if one.kind not in CONDITIONS]
    cautions = [Finding("caution", f"{_upper(one.text)}.", 0.0) for one in told]
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


def is_profiles(diff: Comparison) -> bool:
    """Whether totals are compared, of which no events are there."""
    return all(not len(part.trace) for side in diff.sides for part in side.parts.values())


def kind_words(diff: Comparison) -> dict[str, str]:
    """Return the words for kinds of time for which the formats have others."""
    return {k: v for one in provided("kind_words", diff.before.formats) for k, v in one.items()}


def kind_labels(diff: Comparison) -> dict[str, str]:
    """Return short labels for the same, as charts have room for."""
    return {k: v for one in provided("kind_labels", diff.before.formats) for k, v in one.items()}


def _of_steps(diff: Comparison, late: list[LateRank]) -> list[Finding]:
    by_step = steps(diff)
    by_kind = waterfall(diff, "kind")
    before, after = by_kind.attrs["before_ns"], by_kind.attrs["after_ns"]
    if not _matters(by_step, before, after):
        return _composition(diff, by_kind, before, after) or _slight(diff, by_step, before, after)
    first = _headline(diff, before, after, late)
    kinds = _kinds(diff, by_kind, before, after)
    return [
        first,
        # A single kind may be all that the headline tells.
        *(one for one in kinds if one.text.lower() not in first.text),
        *_name(diff, before, after),
        *_steps(by_step, after - before),
    ]


def _of_changes(diff: Comparison, *, leads: bool) -> list[Finding]:
    """Tell the changes with most time, those of Python functions last; `leads`: nothing is told."""
    found = []
    told = changes(diff)
    told = told.sort_values("measure", key=lambda column: column == "function", kind="stable")
    if leads and len(told) and (told["measure"] == "function").all():
        what = "steps take" if diff.before.has_steps else "runs take"
        text = f"The {what} as long; only Python functions came or went."
        found.append(Finding("composition", text, 0.0))
    unit = " a step" if diff.before.has_steps else ""
    alike = _alike(told)
    if alike.any():
        found.append(_pace(told[alike], unit))
    told = told[~alike]
    is_mpi = any(map(is_host_only, diff.before.formats))
    shown = told.head(_MOST_CHANGES)
    found += [
        _change(row, unit, where, is_mpi=is_mpi)
        for row, where in zip(_rows(shown), _places(shown), strict=True)
    ]
    left = len(told) - _MOST_CHANGES
    if left > 0:
        found.append(Finding("more", f"{plural(left, 'more change')} in the table.", 0.0))
    return found


def _matters(by_step: pd.DataFrame, before: int, after: int) -> bool:
    share = abs(after - before) / max(before, after, 1)
    likely = by_step.attrs["p_value"]
    if likely is None:
        return share >= _LARGE_ALONE
    return any(share >= floor and likely < chance for floor, chance in _NOISE)


def _headline(diff: Comparison, before: int, after: int, late: list[LateRank]) -> Finding:
    """Tell how much longer it takes, and the largest cause of that."""
    return Finding(
        "headline",
        f"{_longer(diff, before, after)}{_cause(diff, after - before, late)}.",
        float(after - before),
    )


def _slight(diff: Comparison, by_step: pd.DataFrame, before: int, after: int) -> list[Finding]:
    """Tell a difference that is hardly chance, but as small as that of runs of one program."""
    likely = by_step.attrs["p_value"]
    share = abs(after - before) / max(before, after, 1)
    if likely is None or likely >= ALPHA or share < _SMALL:
        return []
    text = f"{_longer(diff, before, after)}; that may be chance (p {likely:.2g})."
    return [Finding("slight", text, float(after - before))]


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
        # Stages and routines are told of next.
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


def _late(one: LateRank, diff: Comparison) -> Finding:
    return Finding("straggler", f"{_upper(one.clause)}: {one.text}{_over(diff)}.", one.diff_ns)


def _composition(diff: Comparison, by_kind: pd.DataFrame, before: int, after: int) -> list[Finding]:
    """Tell the kinds of time that steps of like length have more or less of."""
    shown = by_kind[by_kind["kind"].isin(shifted_kinds(diff))]
    if shown.empty:
        return []
    words = _KIND_WORDS | kind_words(diff)
    parts = []
    for row in _rows(shown):
        of_it = f" ({share_delta(row.change_share)})" if row.before_ns else ""
        verb = "grows" if row.diff_ns > 0 else "shrinks"
        parts.append(f"{words[str(row.cause)]} {verb} by {duration(abs(row.diff_ns))}{of_it}")
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]][len(parts) == 1 :])
    what, verb = ("steps", "take") if diff.step_count > 1 else ("step", "takes")
    if not diff.before.has_steps:
        what, verb = "runs", "take"
    share = (after - before) / max(before, 1)
    if abs(share) < _LARGE:
        lead = f"The {what} {verb} as long"
    else:
        lead = f"That the {what} {verb} longer or less may be chance ({share_delta(share)})"
    over = f",{_over(diff)}" if diff.step_count > 1 else ""
    mean = ", means over ranks" if _is_mean(diff) else ""
    first = float(shown["diff_ns"].iloc[0])
    return [Finding("composition", f"{lead}, but {listed}{over}{mean}.", first)]


def _over(diff: Comparison) -> str:
    """Return what times are sums over, where that is more than one step."""
    return f" over {plural(diff.step_count, 'step')}" if diff.step_count > 1 else ""


def _is_mean(diff: Comparison) -> bool:
    return max(len(side.ranks) for side in diff.sides) > 1


def _kinds(diff: Comparison, by_kind: pd.DataFrame, before: int, after: int) -> list[Finding]:
    """Tell the kinds that make the difference, and those against it."""
    floor = _SMALL * max(before, after)
    shown = by_kind[by_kind["diff_ns"].abs() >= floor]
    if shown.empty:
        return []
    words = _KIND_WORDS | kind_words(diff)
    clauses = []
    for grows, verb in ((True, "grows"), (False, "shrinks")):
        rows = shown[(shown["diff_ns"] > 0) == grows]
        parts = [
            f"{words[str(row.cause)]} {verb * (not place)}{' ' * (not place)}by "
            f"{duration(abs(row.diff_ns))}"
            for place, row in enumerate(_rows(rows))
        ]
        if parts:
            listed = " and ".join([", ".join(parts[:-1]), parts[-1]][len(parts) == 1 :])
            clauses.append((-abs(float(rows["diff_ns"].iloc[0])), listed))
    text = "; ".join(clause for _, clause in sorted(clauses))
    return [Finding("kinds", f"{_upper(text)}.", float(shown["diff_ns"].iloc[0]))]


def _name(diff: Comparison, before: int, after: int) -> list[Finding]:
    """Tell the one name of device work whose time differs most, if its count does."""
    table = names(diff, device="gpu", short_names=True)
    floor = _SMALL * max(before, after)
    table = table[(table["diff_ns"].abs() >= floor) & (table["change"] == "changed")]
    return [
        Finding(
            "name",
            f"{row.name} goes from {_times(row.before_count)} to {_times(row.after_count)}"
            f"{_over(diff)} ({duration_delta(row.diff_ns)}).",
            float(row.diff_ns),
        )
        for row in _rows(table.head(1))
    ]


def _steps(by_step: pd.DataFrame, total: int) -> list[Finding]:
    if len(by_step) < 2:
        return []
    same_way = by_step["diff_ns"] * (1 if total > 0 else -1) > 0
    word = "slower" if total > 0 else "faster"
    place = int((by_step["diff_ns"].to_numpy() * (1 if total > 0 else -1)).argmax())
    number, most = (int(by_step[name].iloc[place]) for name in ("after_step", "diff_ns"))
    if same_way.all():
        text = f"Every step is {word}"
    else:
        text = f"{int(same_way.sum())} of {len(by_step)} steps are {word}"
    return [
        Finding(
            "steps",
            f"{text}; step {number} most, {duration_delta(most)}.",
            float(most),
        )
    ]


def _alike(told: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which operators are slower, or faster, by one factor: as many as make a rule."""
    ratio = _log_ratio(told)
    timed = np.isfinite(ratio)
    if timed.sum() < _RULE:
        return np.zeros(len(told), dtype=bool)
    middle = float(np.median(ratio[timed]))
    alike: npt.NDArray[np.bool_] = timed & (np.abs(ratio - middle) <= 0.2 * abs(middle))
    return alike if alike.sum() >= max(_RULE, timed.sum() / 2) else np.zeros(len(told), dtype=bool)


def _log_ratio(told: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return how many times as long operators take, as a logarithm; NaN of all that are not timed.

    Turned round it is the same with the other sign, as a share of the time before is not.
    """
    times = [told[f"{side}_ns"].to_numpy(dtype=np.float64) for side in ("before", "after")]
    timed = told["change"].isin(["slower", "faster"]).to_numpy(dtype=bool)
    known = timed & (times[0] > 0) & (times[1] > 0)
    before, after = (np.where(known, time, np.nan) for time in times)
    found: npt.NDArray[np.float64] = np.log(after / before)
    return found


def _pace(told: pd.DataFrame, unit: str) -> Finding:
    total = float(told["diff_ns"].sum())
    middle = float(np.expm1(np.median(_log_ratio(told))))
    word = "slower" if total > 0 else "faster"
    return Finding(
        "pace",
        f"{plural(len(told), 'operator')} are {word} alike, {share_delta(middle)} in the median: "
        f"{duration_delta(total)}{unit} together.",
        total,
    )


def _places(told: pd.DataFrame) -> list[str]:
    """Return where each of some changes is, of names that are told of more than once; else nothing.

    That is what calls it in the place with most time: the innermost caller that the others do not
    have.
    """
    names = [short_name(name) for name in told["name"]]
    callers = [path.split(" > ") if path else [] for path in told["path"]]
    often = Counter(names)
    found = []
    for row, (name, mine, places) in enumerate(zip(names, callers, told["places"], strict=True)):
        if often[name] == 1:
            found.append("")
            continue
        others = {
            caller
            for k, theirs in enumerate(callers)
            if names[k] == name and k != row
            for caller in theirs
        }
        if not mine and not others:
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
            f"Kernels of {name} were replaced{_how(row)}: {_times(row.before_count)} → "
            f"{_times(row.after_count)}{unit}, {which}{', ' + delta if delta else ''}."
        )
    elif word == "moved":
        text = f"{name} moved to another place ({_times(row.after_count)}{unit})."
    else:
        often = row.after_count if word == "added" else row.before_count
        gone = "new" if word == "added" else "gone"
        text = f"{name} is {gone}: {_times(often)}{unit}{', ' + delta if delta else ''}."
    return Finding(word, text, float(row.diff_ns))


def _how(row: Any) -> str:
    if row.how == "other library":
        sides = (libraries(names.split("; ")) for names in (row.before_names, row.after_names))
        return f" (another library: {' → '.join(' and '.join(side) for side in sides)})"
    return {"fused": " (fused)", "split": " (split up)"}.get(str(row.how), "")


def _rows(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield rows, which mypy cannot know the columns of."""
    yield from frame.itertuples(index=False)


def _times(number: float) -> str:
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def _listed(names: str) -> str:
    found = [short_name(name) for name in names.split("; ") if name]
    distinct = list(dict.fromkeys(found))
    return " + ".join(distinct[:2]) + (" + …" if len(distinct) > 2 else "")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]

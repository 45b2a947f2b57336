"""Finds differences between two runs that exceed noise.

A finding is a record of one difference (`hta_widgets.diff.records`). `findings` collects them from
the step times, the ranks and the changes, sorts them by importance, omits those that another
finding includes, and adds a sentence to each (`hta_widgets.diff.sentences`). If a step takes 10 ms
longer in the second run, all of it compute, the records are

    headline: step 100 → 110 ms, parts: compute 60 → 70 ms
    kinds: parts: compute 60 → 70 ms    # left out, as the headline states it
    steps: 4 of 4 steps are slower, step 2 most
    slower: aten::mm on the device 5 → 15 ms a step
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.idle import HOST_CAUSES
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.causes import splits_communication
from hta_widgets.diff.changes import changes, kinds_with_changed_share
from hta_widgets.diff.compare import Comparison, conditions, is_condition
from hta_widgets.diff.late_ranks import changed_ranks, late_ranks
from hta_widgets.diff.records import Finding, rank_findings, time_change
from hta_widgets.diff.sentences import CAUTION_WORDS, WORDS, add_text
from hta_widgets.diff.shapes import shape_changes
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.tables import iter_rows, names
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.readers.formats import Format, formats_named, load_references
from hta_widgets.taxonomy import is_graph_launch
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.names import kernel_family, short_name

# Shares of a step.
_SMALL_SHARE = 0.01  # smaller differences are not reported
_LARGE_SHARE = 0.05  # smaller differences occur between runs of the same program
_LARGE_SHARE_ALONE = 0.2  # the same if a side has one step
#: Pairs of a minimum difference and a maximum p-value; a difference that satisfies any pair is
#: reported.
_LIMITS = ((0.2, 0.05), (_LARGE_SHARE, 0.01), (_SMALL_SHARE, 0.001))
_OUTLYING = 10.0  # multiple of the usual distance from the median at which a step stands out
_MIN_STEPS_OF_SHIFT = 5  # steps required to detect a change in the first or last ones
_MAX_CHANGES = 8
_MIN_UNIFORM = 5  # minimum number of operators with an equal change for a joint finding
# Minimum changes of the share of work launched by graphs, and of the share on one stream.
_MIN_GRAPHS_CHANGE, _MIN_STREAMS_CHANGE = 0.25, 0.02


@check_arguments
def findings(diff: Comparison) -> list[Finding]:
    """Return the changes as sentences with numbers, most important first.

    1. How much longer a step takes, with the largest cause of `waterfall`, or with the ranks that
       explain at least half of it.
    2. Differences in GPU, vendor and world size.
    3. Each rank that keeps the others waiting on one side only, according to
       `hta_widgets.analysis.stragglers`, even if the other side has no such rank; and the ranks
       that changed differently from the others, at most half of them. The size of the batch, if the
       shapes of inputs show that it changed. The shares of work that graphs launch, and of compute
       kernels on the busiest stream.
    4. The kinds of time that make up the difference; the kernel, merged with its variants, that
       differs because of its number of calls; and how the difference is distributed over the steps.
    5. The changes with the most time (see `changes`): many operators that changed by the same
       factor as a single finding, Python functions last. BytePS has stages and queues instead, and
       MPI also has numbers of calls. BytePS and MPI also list the ranks for which others wait (see
       `tables`).

    A difference of the step times is reported if it is at least 5 % and significant at 1 %, at
    least 20 % at 5 %, or at least 1 % at 0.1 % (test of `steps`); with one step on a side, if it is
    at least 20 %. Differences of at least 1 % at 5 % are reported with their p-value. Differences
    of at least 5 % are also reported if at most a third of the steps cause them and these steps
    stand out, by 20 % of a step and by 10 times the usual distance from the median difference. With
    one step on a side and no other finding, the changes of the step and of the name that differs
    most are reported. If there are other findings, the difference of the step times comes first,
    even if it is smaller or may be chance.

    If the steps do not differ in duration, the list begins with the kinds of time whose share of
    the step changes significantly and by more than 5 % of the step. The tests of `changes` apply,
    at a level of 1 % divided by the number of kinds. With one step on a side, the share must change
    by more than 20 % of the step instead. Swapping the sides gives the same findings in the
    opposite direction. Without any difference the list is empty, except for a caution if a side has
    no events.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    list of Finding
    """
    comparisons = [format_.comparison for format_ in _shared_formats(diff)]
    # Some formats replace `changes` with a table of their own.
    has_changes = not any("changes" in comparison.replaces for comparison in comparisons)
    records: list[Finding] = []
    late: list[Finding] = []
    if not diff.has_totals:
        late = [*late_ranks(diff), *changed_ranks(diff)]
        records += [*late, *_step_findings(diff, late)]
        if has_changes:
            records += [*shape_changes(diff), *_launch_changes(diff), *_change_findings(diff)]
    for findings_of_format in load_references(comparison.findings for comparison in comparisons):
        records += findings_of_format(diff)
    if not records and diff.is_of_devices and diff.step_count == 1:
        records = _largest_untested_differences(diff)
    if not records:
        return cautions(diff, kinds=("empty",))
    if not (diff.has_totals or any(finding.measure == "step" for finding in records)):
        records.append(_step_total(diff, late))
    records += _caution_records(diff)
    if diff.before.has_steps and diff.step_count == 1:
        records.append(Finding("caution", measure="single_step"))
    if has_changes and not splits_communication(diff):
        records.append(Finding("caution", measure="unmatched"))
    return _with_sentences(diff, records)


def cautions(diff: Comparison, kinds: Container[str] | None = None) -> list[Finding]:
    """Return what limits the comparison, as findings; `kinds` selects kinds of `Caution`."""
    return _with_sentences(diff, _caution_records(diff, kinds))


def _with_sentences(diff: Comparison, records: list[Finding]) -> list[Finding]:
    words = dict(WORDS)
    formats = formats_named(diff.before.formats | diff.after.formats)
    for words_of_format in load_references(format_.comparison.finding_words for format_ in formats):
        words |= words_of_format
    words |= CAUTION_WORDS
    return [add_text(finding, diff, words) for finding in rank_findings(records, [*words])]


def _caution_records(diff: Comparison, kinds: Container[str] | None = None) -> list[Finding]:
    records = [
        Finding("caution", measure=caution.kind, details={"clause": caution.text})
        for caution in diff.cautions
        if not is_condition(diff, caution) and (kinds is None or caution.kind in kinds)
    ]
    if kinds is None:
        if conditions(diff):
            records.append(Finding("caution", topic="conditions", measure="conditions"))
        if diff.before.on_device:
            records.append(Finding("caution", measure="on_device"))
    return records


def _shared_formats(diff: Comparison) -> list[Format]:
    """Return formats that both sides have, or that can be compared with one of the other side."""
    return [
        format_
        for format_ in formats_named(diff.before.formats | diff.after.formats)
        if all(
            side.formats & {format_.name, *format_.comparison.compared_with} for side in diff.sides
        )
    ]


def _step_findings(diff: Comparison, late: list[Finding]) -> list[Finding]:
    by_step, by_kind = steps(diff), waterfall(diff, "kind")
    lengths = _step_times(diff, "headline", p_value=by_step.attrs["p_value"])
    longer_ns = max(lengths.before, lengths.after)
    share, p_value = lengths.weight / max(longer_ns, 1), lengths.p_value
    if p_value is None:
        is_reported = share >= _LARGE_SHARE_ALONE
    else:
        is_reported = any(share >= min_share and p_value < max_p for min_share, max_p in _LIMITS)
    if is_reported:
        is_large = by_kind["diff_ns"].abs() >= _SMALL_SHARE * longer_ns * diff.step_count
        kinds = _cause_parts(diff, by_kind[is_large])
        return [
            replace(lengths, parts=_main_causes(diff, lengths, late)),
            *(Finding("kinds", diff_ns=part.diff_ns, parts=kinds) for part in kinds[:1]),
            *_main_name(diff, longer_ns),
            *_spread_over_steps(by_step, lengths),
        ]
    if composition := _composition(diff, by_kind, lengths):
        return composition
    if outlying := _outlying_steps(diff, by_step, lengths):
        total, few = _step_total(diff, late), outlying[0].details["outlying_steps"]
        return [replace(total, details={**total.details, "outlying_steps": few}), *outlying]
    if p_value is not None and p_value < ALPHA and share >= _SMALL_SHARE:
        return [_step_total(diff, late)]
    return []


def _mean_change(
    diff: Comparison, kind: str, before: float, after: float, **fields: Any
) -> Finding:
    return time_change(kind, before / diff.step_count, after / diff.step_count, **fields)


def _step_times(diff: Comparison, kind: str, **fields: Any) -> Finding:
    totals = waterfall(diff, "kind").attrs
    times = totals["before_ns"], totals["after_ns"]
    return _mean_change(diff, kind, *times, topic="headline", measure="step", **fields)


def _step_total(diff: Comparison, late: list[Finding]) -> Finding:
    """Return the change of the step time that precedes other findings; it may be chance.

    With too few steps for a test, a change of 1 % or more lists all its causes. Otherwise, it lists
    only causes that are ranks.
    """
    lengths = _step_times(diff, "slight", p_value=steps(diff).attrs["p_value"])
    if lengths.weight < _SMALL_SHARE * max(lengths.before, lengths.after):
        return lengths
    causes = _main_causes(diff, lengths, late)
    if lengths.p_value is None:
        return replace(lengths, parts=causes, details={"is_untested": True})
    return replace(lengths, parts=tuple(part for part in causes if part.ranks))


def _largest_untested_differences(diff: Comparison) -> list[Finding]:
    """Return the largest differences of a single pair of steps, which cannot be tested."""
    lengths = _step_total(diff, [])
    min_ns = max(_SMALL_SHARE * max(lengths.before, lengths.after), 1)
    table = _kernel_families(diff)
    # Only one of the two sentences mentions the lack of steps for a test.
    details = {} if lengths.details else {"is_untested": True}
    longest = [
        time_change(
            "name",
            row.before_ns,
            row.after_ns,
            topic="longest_name",
            name=row.name,
            details=details,
        )
        for row in iter_rows(table[table["diff_ns"].abs() >= min_ns].head(1))
    ]
    return [lengths, *longest] if longest or lengths.weight >= min_ns else []


def _main_causes(diff: Comparison, lengths: Finding, late: list[Finding]) -> tuple[Finding, ...]:
    """Return the largest cause of a difference in step time, or the ranks that cause it."""
    if not diff.is_of_devices:
        # Other formats have findings about stages and routines instead.
        return ()
    sign = 1 if lengths.diff_ns > 0 else -1
    causes = _largest_cause(diff, sign)
    is_wait = any(cause.measure == "communication_wait" for cause in causes)

    def explains(finding: Finding) -> bool:
        if finding.details["sign"] != sign:
            return False
        # For a rank that one side lacks, its cost takes the place of an excess.
        excess_ns: float = finding.details.get("excess_ns", finding.diff_ns)
        return (is_wait and "appears" in finding.details) or 2 * sign * excess_ns >= lengths.weight

    return tuple(filter(explains, late)) or causes


def _largest_cause(diff: Comparison, sign: int, step: int | None = None) -> tuple[Finding, ...]:
    """Return the cause that grows most, or shrinks most if `sign` is -1; empty without a change.

    `step` is the position of a single pair of steps. By default, all pairs count.
    """
    frame = waterfall(diff, "cause", step=step).set_index("cause").rename(index=str)
    causes = frame[["before_ns", "after_ns", "diff_ns"]].copy()
    on_host = causes[causes.index.isin(HOST_CAUSES)]
    # Host causes and launch calls are merged, unless one of them is half of the sum.
    causes.loc["host_wait"] = on_host.sum()
    growth_ns, host_growth_ns = causes["diff_ns"] * sign, on_host["diff_ns"] * sign
    cause = str(growth_ns.idxmax())
    if growth_ns[cause] <= 0:
        return ()
    if cause == "host_wait" and 2 * host_growth_ns.max() >= growth_ns[cause]:
        cause = str(host_growth_ns.idxmax())
    count = diff.step_count if step is None else 1
    before, after = (causes[name][cause] / count for name in ("before_ns", "after_ns"))
    return (time_change("cause", before, after, measure=cause),)


def _cause_parts(diff: Comparison, frame: pd.DataFrame) -> tuple[Finding, ...]:
    return tuple(
        _mean_change(diff, "cause", row.before_ns, row.after_ns, measure=str(row.cause))
        for row in iter_rows(frame)
    )


def _composition(diff: Comparison, by_kind: pd.DataFrame, lengths: Finding) -> list[Finding]:
    """Return the kinds of time whose share changed in steps of about the same duration.

    Otherwise, equal step times would hide that compute became communication or idle time.
    """
    parts = _cause_parts(diff, by_kind[by_kind["kind"].isin(kinds_with_changed_share(diff))])
    if not parts:
        return []
    details = {"is_as_long": lengths.weight / max(lengths.before, 1) < _LARGE_SHARE}
    # With an empty topic, the new kind is the topic.
    finding = replace(lengths, kind="composition", topic="", parts=parts, details=details)
    return [replace(finding, diff_ns=parts[0].diff_ns)]


def _main_name(diff: Comparison, longer_ns: float) -> list[Finding]:
    """Return the kernel whose time differs most because its number of calls differs."""
    table = _kernel_families(diff)
    before, after = (table[f"{side}_count"] for side in ("before", "after"))
    mean_ns = (table["before_ns"] + table["after_ns"]) / (before + after)
    # The number of calls explains at least half of the difference.
    by_count = 2 * (after - before).abs() * mean_ns >= table["diff_ns"].abs()
    is_large = table["diff_ns_per_step"].abs() >= _SMALL_SHARE * longer_ns
    table = table[is_large & by_count & (before != after) & (before > 0) & (after > 0)]
    return [
        time_change(
            "name",
            row.before_ns_per_step,
            row.after_ns_per_step,
            measure="calls",
            name=row.name,
            before_count=row.before_count_per_step,
            after_count=row.after_count_per_step,
        )
        for row in iter_rows(table.head(1))
    ]


def _kernel_families(diff: Comparison) -> pd.DataFrame:
    """Return `names`, summed over the variants of each kernel, largest difference first."""
    table = names(diff, device="gpu", short_names=True)
    families = table["name"].map(kernel_family)
    is_single = ~families.duplicated(keep=False)
    keys = table["name"].where(is_single, families)
    sums = table.groupby(keys, sort=False).sum(numeric_only=True).reset_index()
    return sums.sort_values("diff_ns", key=lambda time_ns: -time_ns.abs(), kind="stable")


def _spread_over_steps(by_step: pd.DataFrame, lengths: Finding) -> list[Finding]:
    """Return how many steps differ, and the step that differs most, unless several do equally."""
    if len(by_step) < 2:
        return []
    gaps = by_step["diff_ns"].to_numpy() * (1 if lengths.diff_ns > 0 else -1)
    row = by_step.iloc[int(gaps.argmax())]
    return [
        time_change(
            "steps",
            row["before_ns"],
            row["after_ns"],
            measure="step",
            step=int(row["after_step"]) if (gaps == gaps.max()).sum() == 1 else None,
            details={
                "moved_steps": int((gaps > 0).sum()),
                "steps": len(by_step),
                "direction": "slower" if lengths.diff_ns > 0 else "faster",
            },
        )
    ]


def _outlying_steps(diff: Comparison, by_step: pd.DataFrame, lengths: Finding) -> list[Finding]:
    """Return the few steps that differ far more than the rest, if only these change the mean.

    A test of the mean may attribute them to chance, for example a pause in one of six steps.
    """
    sign = 1 if lengths.diff_ns > 0 else -1
    gaps = by_step["diff_ns"].to_numpy() * sign
    longer_ns = max(lengths.before, lengths.after)
    is_outlying = _outlying_mask(gaps, _LARGE_SHARE_ALONE * longer_ns)
    if not is_outlying.any() or lengths.weight < _LARGE_SHARE * longer_ns:
        return []
    if gaps[is_outlying].min() <= 0 or gaps[is_outlying].sum() < gaps.sum() / 2:
        return []
    (spread,) = _spread_over_steps(by_step, lengths)
    details = {
        **spread.details,
        "moved_steps": int(is_outlying.sum()),
        "outlying_steps": by_step["after_step"][is_outlying].tolist(),
    }
    cause = _largest_cause(diff, sign, step=int(gaps.argmax()))
    return [replace(spread, parts=cause, details=details)]


def _outlying_mask(gaps: Ints, min_distance_ns: float) -> Bools:
    """Return a mask of the steps that differ far more than the rest.

    They are at most a third of all steps. The limit is half if they are the first or last steps, as
    after a change during the run.
    """

    def is_far_from(usual: Ints) -> Bools:
        middle = np.median(usual)
        spread = np.median(np.abs(usual - middle))
        is_far: Bools = gaps - middle >= max(min_distance_ns, _OUTLYING * spread)
        return is_far

    is_far = is_far_from(gaps)
    if 0 < is_far.sum() <= len(gaps) // 3:
        return is_far
    half = len(gaps) // 2
    for usual in (gaps[half:], gaps[:-half]) if len(gaps) >= _MIN_STEPS_OF_SHIFT else ():
        is_far = is_far_from(usual)
        count = int(is_far.sum())
        if 0 < count <= half and (is_far[:count].all() or is_far[-count:].all()):
            return is_far
    return np.zeros(len(gaps), dtype=bool)


def _launch_changes(diff: Comparison) -> list[Finding]:
    """Return changes in the share of work launched by graphs, and in the share on one stream.

    Comparing calls does not reveal them: replayed kernels have no operators, and kernels on another
    stream have the same names and times.
    """
    if not diff.is_of_devices:
        return []
    results = []
    graphs = [_graphs_share(side) for side in diff.sides]
    if abs(graphs[1] - graphs[0]) >= _MIN_GRAPHS_CHANGE:
        results.append(Finding("graphs", unit="share", before=graphs[0], after=graphs[1]))
    side_shares = [_beside_busiest_stream(side) for side in diff.sides]
    before, after = (1 - sum(shares.values()) for shares in side_shares)
    if abs(after - before) >= _MIN_STREAMS_CHANGE:
        moved = {
            name: abs(side_shares[1].get(name, 0) - side_shares[0].get(name, 0))
            for name in (*side_shares[0], *side_shares[1])
        }
        name = max(moved, key=moved.__getitem__)
        results.append(Finding("streams", unit="share", before=before, after=after, name=name))
    return results


def _graphs_share(side: RunSide) -> float:
    """Return the graphs' share of the work with a known launch; NaN without such work."""
    by_graphs = launched = 0
    for part in side.parts.values():
        calls = part.trace.launch_of[part.device_work_rows()]
        calls = calls[calls >= 0]
        launched += len(calls)
        by_graphs += int(names_match(part.trace, calls, is_graph_launch).sum())
    return by_graphs / launched if launched else np.nan


def _beside_busiest_stream(side: RunSide) -> dict[str, float]:
    """Return the compute kernels that run outside the busiest stream of their rank.

    The values are shares of the kernels of all ranks. The busiest stream is the one with the most
    kernels.
    """
    counts, kernels = Counter[str](), 0
    for part in side.parts.values():
        rows, table = part.rows_of_kinds("compute"), part.table
        rows = rows[table.stream[rows] >= 0]
        kernels += len(rows)
        stream = pd.Series(table.stream[rows])
        codes = table.name[rows[stream != stream.mode().min()]]
        counts.update(table.names[code] for code in codes.tolist())
    return {name: count / kernels for name, count in counts.items()}


def _change_findings(diff: Comparison) -> list[Finding]:
    """Return the changes with the most time, Python functions last."""
    table = changes(diff)
    is_function = table["measure"] == "function"
    records: list[Finding] = []
    uniform = _uniform_change_mask(table)
    if uniform.any():
        parts = tuple(_change(row) for row in iter_rows(table[uniform]))
        total = float(table.loc[uniform, "diff_ns"].sum())
        records.append(Finding("pace", diff_ns=total, parts=parts))
    rest = pd.concat([table[~uniform & ~is_function], table[~uniform & is_function]])
    shown = rest.head(_MAX_CHANGES)
    callers = _distinguishing_callers(shown)
    records += [_change(row, caller) for row, caller in zip(iter_rows(shown), callers, strict=True)]
    if len(rest) > _MAX_CHANGES:
        records.append(Finding("more", details={"count": len(rest) - _MAX_CHANGES}))
    return records


def _change(row: Any, caller: str | None = None) -> Finding:
    """Return the finding for a row of `changes`; `caller` is None if the name is unique."""
    totals = row.before_total, row.after_total
    if caller is None and row.change in {"added", "removed"} and min(totals) > 0:
        # Other calls with this name remain, so the sentence must name the caller.
        caller = row.path.split(" > ")[-1]
    sides = {name: getattr(row, name) for name in ("before_names", "after_names")}
    return time_change(
        str(row.change),
        row.before_ns,
        row.after_ns,
        topic="function" if row.measure == "function" else "change",
        name=row.name,
        measure=row.measure,
        before_count=row.before_count,
        after_count=row.after_count,
        p_value=None if np.isnan(row.p_value) else row.p_value,
        details={
            "how": str(row.how),
            "path": row.path,
            "places": row.places,
            "caller": caller,
            "totals": totals,
            **{name: [name for name in text.split("; ") if name] for name, text in sides.items()},
        },
    )


def _uniform_change_mask(table: pd.DataFrame) -> Bools:
    """If most operators changed by the same factor, return a mask of them."""
    before, after = (table[f"{side}_ns"].to_numpy(np.float64) for side in ("before", "after"))
    is_timed = table["change"].isin(["slower", "faster"]).to_numpy() & (before > 0) & (after > 0)
    # With logarithms, swapping the sides only flips the sign.
    ratio = np.log(np.where(is_timed, after, np.nan) / np.where(is_timed, before, np.nan))
    none = np.zeros(len(table), dtype=bool)
    if is_timed.sum() < _MIN_UNIFORM:
        return none
    middle = float(np.median(ratio[is_timed]))
    is_uniform: Bools = is_timed & (np.abs(ratio - middle) <= 0.2 * abs(middle))
    return is_uniform if is_uniform.sum() >= max(_MIN_UNIFORM, is_timed.sum() / 2) else none


def _distinguishing_callers(table: pd.DataFrame) -> list[str | None]:
    """Return the caller of each change whose name is not unique; None for unique names.

    On the path with the most time, this is the innermost caller not shared with another change of
    that name, or else the innermost caller; "" for outermost operators.
    """
    shown_names = [short_name(name) for name in table["name"]]
    callers = [path.split(" > ") if path else [] for path in table["path"]]
    # The number of changes, keyed by name and caller.
    changes_below = Counter(
        (name, caller)
        for name, callers_of_row in zip(shown_names, callers, strict=True)
        for caller in set(callers_of_row)
    )
    counts = Counter(shown_names)
    names_below = {name for name, _ in changes_below}
    results: list[str | None] = []
    for name, callers_of_row in zip(shown_names, callers, strict=True):
        if counts[name] == 1 or name not in names_below:
            results.append(None)
            continue
        unique = [caller for caller in callers_of_row if changes_below[name, caller] == 1]
        results.append((unique or callers_of_row or [""])[-1])
    return results

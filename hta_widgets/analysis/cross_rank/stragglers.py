"""Decide which ranks keep the others waiting at a cost that matters, and why.

`stragglers` decides in four steps:

1. The cost of a rank is the share of their time that the other ranks lose to it in each step
   (`imposed_waits.step_shares`).
2. The cost over all steps gives the rank's pattern (`_patterns`). For example, 8 ranks run 20
   steps. A rank is a consistent straggler if the others lose at least
   5 % * (1 + 1 / 20 + 12 / (8 * 20**2)) = 5.3 % of their time to it on average, nearly as much in
   the median step, and twice as much as to the typical rank. If chance is ruled out
   (`late_evidence`), 5 % are enough, also for a slow rank beside a slower one (`own_shares`).
3. Ranks about which too little is known, and ranks whose hosts keep pace, are not stragglers
   (`_verdict`).
4. The cause is the part of the rank's time with the largest excess over others (`late_causes`).

`straggler_report` adds ranks that are always last without being stragglers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import Clock
from hta_widgets.analysis.cross_rank.clock_fit import deviation_from_peers
from hta_widgets.analysis.cross_rank.comm_groups import loaded_ranks
from hta_widgets.analysis.cross_rank.imposed_waits import (
    ImposedWaits,
    charge_as_late,
    imposed_waits,
    mean_lost_shares,
    mean_share,
    own_shares,
    step_shares,
)
from hta_widgets.analysis.cross_rank.late_causes import (
    LATE_START,
    WAITING,
    excess_by_rank,
    late_causes,
)
from hta_widgets.analysis.cross_rank.late_evidence import (
    LateEvidence,
    is_beyond_chance,
    is_repeated_beyond_chance,
    late_evidence,
)
from hta_widgets.analysis.cross_rank.lateness import PARTS, start_times
from hta_widgets.analysis.cross_rank.matching import matching, selected_ranks
from hta_widgets.analysis.cross_rank.waits import unmatched_rows
from hta_widgets.analysis.frames import result_frame, text_column
from hta_widgets.analysis.notes import ambiguous_note, on_hosts_note
from hta_widgets.analysis.scope import Window, narrow_selection
from hta_widgets.arguments import check_arguments
from hta_widgets.readers.formats import all_formats, load_references
from hta_widgets.text import plural
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.traceset import Selection, TraceSet

_NOT_MATCHED = "which are not matched: their time counts as waiting, and the late rank is unknown"

#: A text for each rank.
Texts = npt.NDArray[np.object_]

# Noise makes healthy ranks differ by a few percent; the cost of a straggler exceeds these limits.
COSTLY_SHARE = 0.05  # of the others' time, on average over many steps
_FACTOR_OF_TWO = 1.5  # factor for two ranks, since each is compared with only one other
_CHANCE = 12.0  # relative increase of the limit, times the ranks and the square of the steps

# Limits for stragglers, in addition to `costly_share`.
_CONSISTENT_SHARE = 0.8  # of `costly_share`, in the median step
STAND_OUT = 2.0  # times the share of the typical other rank
_STALL_SHARE = 0.25  # of a step; a single such step is more than noise
_OCCASIONAL_SHARE = 0.02  # of the others' time, on average, if only some steps are slow
_MAX_LAUNCH_NS = 1_000_000  # longest time from launch to start without other waits
_MIN_COLLECTIVES = 4  # ranks with fewer collectives are not judged
_MIN_IF_CERTAIN = 3  # as above, if chance is ruled out

# Limits for naming a rank that is always last but not a straggler.
_NEARLY_ALWAYS_SHARE = 0.9  # of a rank's collectives, at which it must be last
_MIN_WAIT_RATIO = 0.1  # of the rank's mean wait; shorter waits are ignored
_MIN_WAIT_SHARE = 0.01  # share of the run that the others wait for it on average


@check_arguments
def stragglers(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how often each rank is last at collectives, its cost, and the cause.

    The rank that arrives last at a matched collective (`collectives`) makes the others wait. Some
    rank always arrives last, but a straggler does so at a cost that noise does not explain. The
    cost is the time without compute by which the others continue later, as a share of their time
    per step. Compute may hide a wait, but not the transfer that it delays.

    A rank is a consistent straggler if it costs the others 5 % on average over many steps, nearly
    as much in the median step, and twice as much as the typical rank. Its mean lateness must also
    exceed 3.5 times the standard error, over the steps, of the lateness of the other ranks of its
    group. Unless the lateness in several steps rules out chance, the limit is higher with few steps
    and ranks: 5 % times 1 + 1 / steps + 12 / (ranks · steps²), where only ranks of its group count
    if it costs only one of its groups. With two ranks, each is compared with only one, so the limit
    is 1.5 times as high. A rank is an occasional straggler if it stalls the others for a quarter of
    a step's time in some steps, and its worst step costs twice as much as any step of the ranks
    that are not stragglers; or if the others lose 5 % on average, and it alone is costly in more
    steps than chance would explain. If ranks take turns, as with uneven batches, none is a
    straggler.

    If several ranks are late together, only the last is charged. A rank whose own lateness is at
    least three quarters of the last rank's is judged as if it were last, unless there is only one
    step. A rank that is slow beside a slower one is a straggler if it works longer than the others
    of its group by 5 % of a step, and waits less by as much, beyond chance.

    A rank is not charged for lateness that it inherits by communicating, without compute, in
    another group, such as by waiting for its neighbor in tensor parallelism or for the stage before
    it, or over slow links. Nor is it charged for a recording that starts later than the others. A
    rank is never a straggler if a file is missing from one of its groups, because the late rank may
    be the missing one, or if it has fewer than four collectives (three if chance is ruled out) with
    events on all their ranks. Other collectives are not used for the verdict.

    The cause is the part of the time, from the arrival at the group's previous collective to this
    arrival, that exceeds the median of the other ranks most: kernels that are slower or more
    numerous; waits in other collectives, and communication without a partner or on the host (Gloo),
    whose waits are unknown; time during which the device idles while the host loads data; other
    idle time, due to a slow host; or copies without compute. No cause is stated if the excess is
    less than a quarter of the time that each of the others loses.

    The devices of a launch-bound job also idle without a late rank. A rank with a launch-bound host
    is a straggler only if its host falls behind by 5 % of a step on average, or by 25 % in some.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the set's if no collective spans two ranks.
    selection, window : Selection, (start_ns, end_ns), optional
        Only collectives with a selected event in the window are used.
    ranks : iterable of int, optional
        Only these ranks are returned; the waits that they cause are counted over all.

    Returns
    -------
    DataFrame
        One row per rank. ``rank`` (int64); ``host`` (str); ``collectives`` (int64), the number of
        its matched collectives; ``score`` (float64), the share of these at which it is the only
        last rank; ``late_ns_mean`` (float64), its arrival less the median arrival, on average;
        ``imposed_wait_ns`` (int64), the others' waits in collectives at which it is last, added up
        (if several ranks are last, the lowest is charged); ``wait_ns`` (int64), its own waits;
        ``lost_ns`` (int64), the time without compute by which collectives end later for the
        others, less the inherited share, and at most the imposed waits; if the
        last rank inherited most of its lateness, the rank that is nearly as late by itself has
        them;
        ``lost_share`` (float64), the share of their time that the others lose in the groups that
        it keeps waiting, over all steps;
        ``is_straggler`` (bool); ``pattern`` (``"consistent"``, ``"occasional"`` or ``""``);
        ``cause`` (``"slower kernels"``, ``"extra work"``, ``"launch-bound host"``, ``"host inside
        NAME"`` if the host is within events of one name meanwhile, such as ``torch.save``, ``"idle
        host"`` if the host sleeps or is mostly inside no recorded call meanwhile, ``"host
        work"`` if no rank has a device, ``"host not recorded"`` if the device idles and the file
        has no call that launches its work, ``"data loading"``, ``"memory copies"``, ``"waiting
        elsewhere"`` or ``""``); ``late_compute_ns, late_waiting_ns, late_data_loading_ns,
        late_host_ns, late_copies_ns`` (int64), by how much each took longer than on the others,
        over the collectives at which the rank is last or has the loss.

        Ranks with inherited lateness are not stragglers and have the cause ``"waiting elsewhere"``,
        or ``"late start"`` if their recordings start later.
        ``.attrs["clock"]`` is the clock of the arrivals, ``.attrs["matched"]`` as in `collectives`.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    traces = chosen.owner
    work = imposed_waits(traces, chosen, clock)
    match, times, is_counted = work.match, work.times, work.is_counted
    collectives = work.sum_by_rank(is_counted)
    median_ns = pd.Series(times.arrival_ns).groupby(match.collective).transform("median").to_numpy()
    excess = excess_by_rank(work)
    pattern, cause = _verdict(work)
    columns = {
        "rank": np.array(traces.ranks, dtype=np.int64),
        "host": text_column(header.host for header in match.headers),
        "collectives": collectives,
        "score": work.sum_by_rank(work.is_only_last) / np.maximum(collectives, 1),
        "late_ns_mean": work.sum_by_rank(np.where(is_counted, times.arrival_ns - median_ns, 0.0))
        / np.maximum(collectives, 1),
        "imposed_wait_ns": work.sum_by_rank(work.imposed_ns),
        "wait_ns": work.sum_by_rank(np.where(is_counted, times.wait_ns, 0)),
        "lost_ns": work.sum_by_rank(work.lost_ns),
        "lost_share": mean_lost_shares(work),
        "is_straggler": pattern != "",
        "pattern": text_column(pattern),
        "cause": text_column(cause),
        **{f"late_{part}_ns": np.rint(excess[part]).astype(np.int64) for part in PARTS},
    }
    shown = selected_ranks(traces, chosen) if len(match) else slice(0)
    return result_frame(
        {name: column[shown] for name, column in columns.items()},
        matched=work.matched,
        note=_straggler_notes(work),
        clock=work.clock,
    )


@check_arguments
def stragglers_by_step(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the figures of `stragglers` for each step.

    Definitions are as in `stragglers`. Without steps, the run is cut into as many stretches as its
    rarest collective has occurrences. Rarer kinds that occur only before or after the most frequent
    operation, such as a broadcast of parameters, are in no stretch: their ``step`` is -1.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the set's if no collective spans two ranks.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and step with matched collectives. ``rank`` (int64); ``step`` (int64), n
        of ``ProfilerStep#n``, or the stretch's number (see ``.attrs["steps"]``); ``collectives``
        (int64); ``score`` (float64); ``imposed_wait_ns`` and ``lost_ns`` (int64); ``lost_share``
        (float64).
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    traces = chosen.owner
    work = imposed_waits(traces, chosen, clock)
    collectives = work.sum_by_step(work.is_counted)
    place, step = np.nonzero((collectives > 0).T & selected_ranks(traces, chosen)[:, None])
    columns = {
        "collectives": collectives,
        "score": work.sum_by_step(work.is_only_last) / np.maximum(collectives, 1),
        "imposed_wait_ns": work.sum_by_step(work.imposed_ns),
        "lost_ns": work.sum_by_step(work.lost_ns),
        "lost_share": work.shares_of_others(work.lost_ns)[0],
    }
    return result_frame(
        {
            "rank": np.array(traces.ranks, dtype=np.int64)[place],
            "step": work.steps[step],
            **{name: column[step, place] for name, column in columns.items()},
        },
        matched=work.matched,
        note=_straggler_notes(work),
        clock=work.clock,
        steps="ProfilerStep" if work.stated_steps else "stretches",
    )


def _verdict(work: ImposedWaits) -> tuple[Texts, Texts]:
    """Return each rank's pattern and cause; "" for ranks that are not stragglers.

    Candidates are found first, then acquitted. Ranks that only inherit lateness have only a cause.
    """
    # The last recorded rank of a collective may have waited for a rank that has no event.
    shares, exposed_shares = step_shares(work, complete=True)
    evidence = late_evidence(work)
    pattern = _patterns(work, shares, evidence)
    is_together = (pattern == "") & _is_late_together(work, evidence)
    is_slow = _is_slow(work, shares)
    is_beside = (pattern == "") & ~is_together & is_slow
    pattern[is_together | is_beside] = "consistent"
    if not work.stated_steps:
        # An estimated step may be part of a step, and a rank is rarely equally late in every part.
        costly_counts = (np.nan_to_num(shares) >= _MIN_WAIT_SHARE).sum(axis=0)
        is_always = costly_counts >= _NEARLY_ALWAYS_SHARE * (~np.isnan(shares)).sum(axis=0)
        pattern[(pattern != "") & is_always] = "consistent"
    # The lateness may be due to a rank without a file, or the rank may have too few collectives.
    min_counts = np.where(evidence.is_certain | is_slow, _MIN_IF_CERTAIN, _MIN_COLLECTIVES)
    is_unknown = (work.complete_counts() < min_counts) | np.array(work.match.incomplete, dtype=bool)
    pattern[is_unknown] = ""
    cause = _inherited_causes(work, shares, exposed_shares)
    cause[is_unknown] = ""
    if is_together.any():
        work = charge_as_late(work, is_together)
    # Ranks beside a slower one are charged even though they cost the others nothing.
    is_charged = work.is_charged | (is_beside[work.match.trace] & work.is_counted)
    return _explain(replace(work, is_charged=is_charged), pattern, cause)


def _is_late_together(work: ImposedWaits, evidence: LateEvidence) -> Bools:
    """Return which ranks are consistent stragglers if every nearly last rank is charged."""
    # In a single step, the slowest of several ranks are often nearly as late by chance.
    if (work.steps >= 0).sum() < 2:
        return np.zeros(len(work.match.traces), dtype=bool)
    shares, _ = step_shares(charge_as_late(work), complete=True)
    is_consistent: Bools = _patterns(work, shares, evidence) == "consistent"
    return is_consistent


def _is_slow(work: ImposedWaits, shares: Floats) -> Bools:
    """Return which ranks work longer than the others beyond chance, even if never last."""
    costs = np.where(np.isnan(shares), np.nan, own_shares(work))
    is_slow = is_beyond_chance(costs)
    is_slow &= _patterns(work, costs, LateEvidence(is_slow, is_slow)) == "consistent"
    return is_slow


def _explain(work: ImposedWaits, pattern: Texts, cause: Texts) -> tuple[Texts, Texts]:
    """Return patterns and causes: add the causes of stragglers, and acquit ranks by cause."""
    excess = excess_by_rank(work)
    largest = np.stack([excess[part] for part in PARTS]).argmax(axis=0)
    is_by_host = (pattern != "") & (largest == PARTS.index("host"))
    if is_by_host.any():
        pattern[is_by_host & _keeps_pace(work)] = ""
    places = np.flatnonzero(pattern != "")
    # The time before a group's first collective is unknown.
    explained_ns = np.where(np.isnan(work.late.excess_ns["host"]), 0, work.lost_ns)
    costs_ns = work.sum_by_rank(explained_ns) / work.companion_counts()
    cause[places] = late_causes(work, places, costs_ns[places])
    # The waits of unmatched communication are unknown.
    has_matched_all = [
        not on_host and not len(unmatched_rows(work.match, number))
        for number, on_host in enumerate(work.match.on_hosts)
    ]
    pattern[(cause == WAITING) & np.array(has_matched_all, dtype=bool)] = ""
    return pattern, cause


def _later_starts(work: ImposedWaits) -> Floats:
    """Return how much later each rank's recording starts than the median of the others, in ns."""
    starts_ns = start_times(work.match, work.times)
    return deviation_from_peers(np.zeros(len(starts_ns), np.int64), starts_ns)


def _inherited_causes(work: ImposedWaits, shares: Floats, exposed_shares: Floats) -> Texts:
    """Return the cause for each rank whose cost is large only because of inherited lateness."""
    any_rank = np.ones(shares.shape[1], dtype=bool)
    evidence = LateEvidence(any_rank, any_rank)
    is_costly, is_costly_itself = (
        _patterns(work, costs, evidence) != "" for costs in (exposed_shares, shares)
    )
    inherited_ns = work.sum_by_rank(work.exposed_ns - work.lost_ns) / work.companion_counts()
    starts_later = 2 * _later_starts(work) >= inherited_ns
    cause = np.where(starts_later, LATE_START, WAITING).astype(object)
    cause[is_costly_itself | ~is_costly] = ""
    return cause


def costly_share(steps: int, ranks: int) -> float:
    """Return the share of the other ranks' time that a straggler must cost.

    The fewer the steps and ranks, the more often one of them is slowest by chance. For one or two
    steps, the limit is so high that chance rarely reaches it.
    """
    increase = 1 / steps + _CHANCE / ranks / steps**2
    return COSTLY_SHARE * (1 + increase) * (_FACTOR_OF_TWO if ranks == 2 else 1.0)


def _patterns(work: ImposedWaits, shares: Floats, evidence: LateEvidence) -> Texts:
    """Return each rank's pattern: "consistent" (steadily late), "occasional" or ""."""
    companions = work.companion_counts()
    # The fewer the ranks that a loss is measured on, the more often it is large by chance.
    is_of_group = companions < work.companion_counts(min_group_ratio=0.0)
    compared = np.where(is_of_group, companions + 1, len(companions)).tolist()
    patterns = np.full(shares.shape[1], "", dtype=object)
    means = mean_share(shares, work.step_ns)
    is_repeated = is_repeated_beyond_chance(np.nan_to_num(shares) >= COSTLY_SHARE)
    for place, mean in enumerate(means.tolist()):
        shares_of_rank = shares[~np.isnan(shares[:, place]), place]
        others = np.delete(means, place)
        others = others[~np.isnan(others)]
        if not len(shares_of_rank) or not len(others) or mean < STAND_OUT * np.median(others):
            continue
        limit = COSTLY_SHARE
        if not evidence.is_certain[place]:
            limit = costly_share(len(shares_of_rank), compared[place])
        is_costly = evidence.is_steady[place] and mean >= limit
        has_stall = mean >= _OCCASIONAL_SHARE and shares_of_rank.max() >= _STALL_SHARE
        if is_costly and np.median(shares_of_rank) >= _CONSISTENT_SHARE * limit:
            patterns[place] = "consistent"
        elif has_stall or (is_repeated[place] and mean >= COSTLY_SHARE):
            patterns[place] = "occasional"
    # If ranks take turns, as with batches of uneven lengths, none of them is a straggler.
    worst = np.nan_to_num(shares).max(axis=0, initial=0.0)
    has_turns = worst < STAND_OUT * worst[patterns == ""].max(initial=0.0)
    patterns[(patterns == "occasional") & has_turns] = ""
    return patterns


def _keeps_pace(work: ImposedWaits) -> Bools:
    """Return which ranks start collectives once launched and have hosts that hardly fall behind.

    The devices of a launch-bound job wait for the rank that launches last, but would idle for as
    long if it launched earlier. For example, a host that is always 0.4 ms behind makes the others
    wait at each collective of a step, but the step takes only 0.4 ms longer. The measure is
    therefore how far a host falls behind within a step.
    """
    match, times = work.match, work.times
    rows, called_ns = match.event_field("rows"), times.arrival_ns.copy()
    delay_ns = np.full(len(match), np.inf)  # from the launch to the start
    ranks = zip(iter_ranks(match.traces), times.clocks, match.of_trace, strict=True)
    for trace, clock, entries in ranks:
        call = trace.launch_of[rows[entries]]
        launched, call = entries[call >= 0], call[call >= 0]
        called_ns[launched] = clock.to_job(trace.table.start_ns[call])
        delay_ns[launched] = times.arrival_ns[launched] - clock.to_job(trace.table.end_ns[call])
    shape = len(work.steps), len(match.traces)
    behind_ns = np.zeros(shape)
    from_peers_ns = deviation_from_peers(match.collective, called_ns)
    np.maximum.at(behind_ns, (work.step, match.trace), from_peers_ns)
    shares = behind_ns / work.step_ns[:, None]
    is_behind = mean_share(shares, work.step_ns) >= costly_share(*shape)
    usual_delay_ns = pd.Series(delay_ns).groupby(match.trace).median().reindex(range(shape[1]))
    starts_as_launched = (usual_delay_ns < _MAX_LAUNCH_NS).to_numpy()
    return starts_as_launched & ~is_behind & (shares < _STALL_SHARE).all(axis=0)


def _straggler_notes(work: ImposedWaits) -> list[str]:
    if len(work.match.traces) < 2:
        return ["a single rank cannot keep others waiting: load several ranks"]
    on_hosts = on_hosts_note(work.match.on_hosts, _NOT_MATCHED)
    if not len(work.match):
        none = "no collective is found on two ranks, so waits for other ranks are unknown"
        return [none, on_hosts]
    if not work.is_counted.any():
        none = "the selection or window contains no collective that is on two ranks"
        return [f"{none}, so no late rank can be named", on_hosts]
    parts = [on_hosts, ambiguous_note(work.match.ambiguous)]
    if work.match.missing_ranks:
        parts.append(
            f"files of {plural(work.match.missing_ranks, 'rank')} are missing; these ranks may be"
            " later than the loaded ones"
        )
    if work.matched["unmatched"]:
        parts.append(f"{work.matched['unmatched']} events have no partner and do not count")
    if work.matched["partly_matched"]:
        parts.append(
            f"{plural(work.matched['partly_matched'], 'collective')} without events of some ranks"
            " do not count for the verdict, because those ranks may be later"
        )
    return parts


@dataclass(frozen=True, slots=True)
class LastRank:
    """A rank that is last at nearly all collectives with waits, yet not a straggler."""

    rank: int
    wait_ns: float  # mean per other rank
    hidden_share: float  # share of the waits hidden by compute
    last: int  # number of collectives at which it is last
    collectives: int
    cause: str  # empty if unknown


@dataclass(frozen=True, slots=True)
class StragglerReport:
    """The late ranks of a job, as named in all panels, pages and messages."""

    stragglers: list[int]  # most costly first
    causes: dict[int, str]  # keyed by straggler; "" if unknown
    last_ranks: list[LastRank]  # longest wait first
    late_starts_ns: dict[int, int]  # keyed by late-starting rank: delay relative to the others
    loaded_rank_count: int
    rank_count: int  # including ranks whose files are missing


def straggler_report(traces: TraceSet) -> StragglerReport:
    """Return the late ranks of the whole job."""
    match = matching(traces)
    ranks: list[int] = []
    causes: dict[int, str] = {}
    last_ranks: list[LastRank] = []
    late_starts_ns: dict[int, int] = {}
    if len(match):
        frame = stragglers(traces)
        work = imposed_waits(traces, Selection(), None)
        late = frame[frame["is_straggler"]]
        late = late.sort_values("lost_ns", ascending=False, kind="stable")
        ranks = late["rank"].tolist()
        causes = dict(zip(ranks, late["cause"].astype(str), strict=True))
        last_ranks = _always_last_ranks(traces, work, frame)
        later_ns = pd.Series(np.rint(_later_starts(work)).astype(np.int64), frame["rank"])
        late_starts_ns = later_ns[frame["cause"].to_numpy() == LATE_START].to_dict()
    for late_of in load_references(format_.analyses.late_ranks for format_ in all_formats()):
        ranks += [rank for rank in late_of(traces) if rank not in causes]
    loaded = len(loaded_ranks(traces.values()))
    rank_count = loaded + match.missing_ranks
    return StragglerReport(ranks, causes, last_ranks, late_starts_ns, loaded, rank_count)


def _always_last_ranks(
    traces: TraceSet, work: ImposedWaits, straggler_frame: pd.DataFrame
) -> list[LastRank]:
    """Return the ranks that are last at nearly all collectives but are not stragglers."""
    match = work.match
    # On the recorded clocks, the run would include the offsets between clocks.
    run_ns = sum(high - low for low, high in traces.with_clock(work.clock).windows)
    is_named = straggler_frame["is_straggler"].to_numpy()
    min_complete = _NEARLY_ALWAYS_SHARE * straggler_frame["collectives"].to_numpy()
    is_incomplete = np.array(match.incomplete, dtype=bool)
    is_known = is_incomplete | (work.complete_counts() >= min_complete)
    places = np.flatnonzero(_nearly_always_last(work) & is_known & ~is_named)
    charged = {place: work.is_charged & (match.trace == place) for place in places.tolist()}
    wait_of_place = {
        place: _total_wait_at(work, match.collective[is_last]) / work.companion_counts()[place]
        for place, is_last in charged.items()
    }
    is_long = [wait_ns >= _MIN_WAIT_SHARE * max(run_ns, 1) for wait_ns in wait_of_place.values()]
    places = places[np.array(is_long, dtype=bool)]
    # A rank whose lateness is hidden by compute is equally late at every collective of a step.
    late_ns = [wait_of_place[place] * len(work.steps) / charged[place].sum() for place in places]
    causes = late_causes(work, places, np.array(late_ns))
    last_ranks = []
    for place, cause in zip(places.tolist(), causes, strict=True):
        row, is_last = straggler_frame.iloc[place], charged[place]
        exposed_ns, imposed_ns = work.exposed_ns[is_last].sum(), work.imposed_ns[is_last].sum()
        last_ranks.append(
            LastRank(
                rank=int(row["rank"]),
                wait_ns=wait_of_place[place],
                hidden_share=float(1 - exposed_ns / max(imposed_ns, 1)),
                last=round(row["score"] * row["collectives"]),
                collectives=int(row["collectives"]),
                cause=str(row["cause"]) or ("" if is_incomplete[place] else cause),
            )
        )
    return sorted(last_ranks, key=lambda last_rank: -last_rank.wait_ns)


def _nearly_always_last(work: ImposedWaits) -> Bools:
    """Return which ranks are last at nearly all collectives, or at nearly all with waits.

    Short waits may not count, because ranks that gather after a scatter arrive together.
    """
    match = work.match
    wait_ns = np.where(work.is_counted, match.reduce_per_entry(np.add, work.times.wait_ns), 0)
    mean_wait_ns = work.sum_by_rank(wait_ns) / np.maximum(work.sum_by_rank(work.is_counted), 1)
    has_waits = work.is_counted & (wait_ns >= _MIN_WAIT_RATIO * mean_wait_ns[match.trace])
    is_last = np.zeros(len(match.traces), dtype=bool)
    # If one wait is much longer than the rest, `has_waits` keeps too few collectives.
    for counts in (work.is_counted, has_waits):
        collectives, last = work.sum_by_rank(counts), work.sum_by_rank(counts & work.is_only_last)
        is_last |= (collectives >= _MIN_COLLECTIVES) & (last >= _NEARLY_ALWAYS_SHARE * collectives)
    return is_last


def _total_wait_at(work: ImposedWaits, collectives: Ints) -> int:
    waited = 0
    for entries in work.match.of_trace:
        waiting = entries[np.isin(work.match.collective[entries], collectives)]
        start = work.times.arrival_ns[waiting]
        waited += total_length(union(start, start + work.times.wait_ns[waiting]))
    return waited

"""Turns the findings of a headline into sentences.

A sentence is a list of pieces, which are strings and ranks. The page links and marks the ranks.
Each kind of finding has a function that takes the times of the run and the finding's facts:

    WORDS["step"](times, step=7, dur_ns=12_000_000, excess=0.2)
    ["Step 7 takes 12.0 ms, 20 % over the median step."]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from hta_widgets.analysis.cross_rank.collectives import ExposedOperation
from hta_widgets.analysis.cross_rank.late_causes import cause_text
from hta_widgets.analysis.cross_rank.stragglers import LastRank, StragglerReport
from hta_widgets.facts import facts
from hta_widgets.panels.run_times import MIN_RANKS, MIN_SHARE, LateRanks, LaunchRate, RunTimes
from hta_widgets.panels.savings import Saving
from hta_widgets.text import consecutive_runs, count, duration, plural, rate, run_text, share, size
from hta_widgets.trace.names import short_name, short_operator

#: Maximum number of sentences after the headline, not counting those that are always present.
MAX_SENTENCES = 2
#: The share of exposed waits that is due to late ranks is stated only below this value.
_MAX_STATED_WAITS = 0.9
#: Ratio of the cost to the exposed waits above which late ranks also delay transfers.
_MIN_DELAYING_WAITS = 2.0
#: Smallest share of hidden communication that is stated in a healthy job.
_MIN_HIDDEN_COMMUNICATION = 0.5
#: A freeing call that takes at least this long probably initializes the device first.
_INITIALIZING_NS = 100_000_000
#: Smallest excess of the longest stage over the mean of the others in an uneven pipeline.
_UNEVEN_STAGES = 0.05
_EARLIER_WORK = "work that is not in the files"
_CAPTURING = "the host captures graphs, whose kernels run only when the graphs are replayed"
_HOST_WAIT = "the host has not launched the next work yet"
#: Names of host events up to this length are not shortened.
_MAX_HOST_NAME = 80
#: A string, or a rank: ``{"rank": 5, "text": "rank 5"}``. With ``"fact": True``, the rank is not
#: shown in red, because other ranks do not wait for it.
Piece = str | dict[str, Any]


def rank_piece(rank: int, *, begins: bool = False) -> dict[str, Any]:
    """Return a rank as a piece of a sentence."""
    return {"rank": rank, "text": f"{'R' if begins else 'r'}ank {rank}"}


def _device_nouns(times: RunTimes, *, begins: bool = True) -> str:
    if len(times.ranks) == 1:
        return f"{'T' if begins else 't'}he {times.device} is"
    return f"{times.device}s are"


def _span_text(times: RunTimes, subject: str = "device") -> str:
    """Return the name of the span to which shares in a sentence about `subject` refer."""
    if len(times.ranks) > 1:
        return f"each rank's {times.device} span"
    return "its span" if subject == "device" else f"the {times.device} span"


def _share_of_span(times_ns: dict[int, int], times: RunTimes, subject: str = "device") -> str:
    """Return the share of the spans (a mean if ranks differ), and the rank with the most time.

    If the spans differ too much for a mean, the range of the shares is stated instead.
    """
    total_ns = sum(times_ns.values())
    total_share = total_ns / times.all_ns
    shares = {rank: ns / max(times.span_ns[rank], 1) for rank, ns in times_ns.items()}
    if abs(mean(shares.values()) - total_share) >= MIN_SHARE:
        least, most = min(shares.values()), max(shares.values())
        ends = f"{share(least)} to {share(most)} of each" if least else f"up to {share(most)} of a"
        return f"{share(total_share)} of all {times.device} spans together, {ends} rank's"
    text = f"{share(total_share)} of {_span_text(times, subject)}"
    if max(shares.values()) - min(shares.values()) >= MIN_SHARE:
        text += " on average"
        rank = max(times_ns, key=times_ns.__getitem__)
        if len(times_ns) >= MIN_RANKS and 2 * times_ns[rank] > total_ns:
            text += f", most of it on rank {rank} ({share(shares[rank])} of its span)"
    return text


def _longer_by(excess: float, reference: str) -> str:
    """Return how much longer something takes, as a percentage or as a factor of at least 2."""
    if excess >= 1:
        return f"{1 + excess:.1f} times {reference}"
    return f"{share(excess)} over {reference}"


def _number_runs_text(numbers: Sequence[int]) -> str:
    runs = [run_text(run) for run in consecutive_runs(numbers)]
    return ", ".join([*runs[:3], *(["…"] if len(runs) > 3 else [])])


def _waiting_text(times: RunTimes, *, late: LateRanks, rank_count: int) -> list[Piece]:
    first, *others = late.ranks
    subject = f"{len(late.waiting)} of {plural(rank_count, 'rank')} wait"
    if len(late.waiting) == 1:
        subject = f"Rank {late.waiting[0]} waits"
    late_pieces: list[Piece] = [rank_piece(first)]
    if len(others) == 1:
        late_pieces += [" and ", rank_piece(others[0])]
    elif others:
        late_pieces += [f" and {len(others)} others"]
    if late.on_hosts:
        wait_ns = late.wait_ns / len(late.waiting)
        wait = f"{duration(wait_ns)} on the host, {share(wait_ns / times.run_ns)} of the run"
        subject += f" {'on average ' if len(late.waiting) > 1 else ''}{wait}"
        last = f", which {'arrive' if others else 'arrives'} last {_how_often_last(late)}"
        return [f"{subject}, for ", *late_pieces, "." if times.ranks else f"{last}."]
    cost_ns, cost = times.exposed_wait_ns, _exposed_waiting_text(times)
    wait_share = late.wait_ns / max(times.exposed_wait_ns, 1)
    if wait_share > _MIN_DELAYING_WAITS:
        cost_ns, part = late.wait_ns, share(late.wait_ns / times.all_ns)
        cost = f"waits and the transfers that they delay take {part} of {_span_text(times)}"
    cost += f", {_mean_text(cost_ns, len(times.ranks))}"
    if wait_share < _MAX_STATED_WAITS:
        cost += f"; {share(wait_share)} of that is for {'them' if others else f'rank {first}'}"
    return [f"{subject} for ", *late_pieces, f": {cost}."]


def _mean_text(time_ns: float, rank_count: int) -> str:
    return f"{duration(time_ns / rank_count)}{' a rank' if rank_count > 1 else ''}"


def _how_often_last(late: LateRanks) -> str:
    if not late.last:
        return "together with others"
    return f"at {count(late.last)} of {plural(late.collectives, 'collective')}"


def _exposed_waiting_text(times: RunTimes) -> str:
    part = share(times.exposed_wait_ns / times.all_ns)
    return f"exposed waiting takes {part} of {_span_text(times, 'waiting')}"


def _late_rank_text(_times: RunTimes, *, late: LateRanks, cause: str) -> list[Piece]:
    """State how often the first late rank is last, and its slow phase or the cause of the delay."""
    arrival = f" arrives last{' ' if late.last else ', '}{_how_often_last(late)}"
    reason = cause_text(cause)
    if late.phase:
        excess = _longer_by(late.phase.excess, "the median rank")
        reason = f"; its {late.phase.name} takes {duration(late.phase.dur_ns)}, {excess}"
    return [rank_piece(late.ranks[0], begins=True), arrival, reason, "."]


def _late_start_text(_times: RunTimes, *, later_ns: Mapping[int, int]) -> list[Piece]:
    rank = max(later_ns, key=later_ns.__getitem__)
    text = f" starts {duration(later_ns[rank])} after the others, which wait for it at first."
    return [rank_piece(rank, begins=True) | {"fact": True}, text]


def _last_rank_text(times: RunTimes, *, last: LastRank, report: StragglerReport) -> list[Piece]:
    """State that a rank is nearly always last without being judged to be the cause."""
    loaded, rank_count = "", report.loaded_rank_count
    if rank_count < report.rank_count:
        loaded = f" of the {plural(rank_count, 'rank')} loaded (of {report.rank_count})"
    often = f"{last.last} of {plural(last.collectives, 'collective')}"
    text = f" arrives last{loaded} at {often}{cause_text(last.cause)}; "
    if times.exposed_wait_ns <= 0:
        text += "compute hides all waits"
    else:
        text += _exposed_waiting_text(times)
        text += "; compute hides more than half of the waits" if last.hidden_share > 0.5 else ""
    return [rank_piece(last.rank, begins=True) | {"fact": True}, f"{text}."]


def _exposed_text(
    times: RunTimes,
    *,
    transfer_ns: int | None = None,
    unmatched_ns: int = 0,
    largest: ExposedOperation | None = None,
) -> list[Piece]:
    """State the exposed communication, excluding waits if `transfer_ns` is given."""
    details = f"; {_exposed_operation_text(largest)}" if largest else ""
    if transfer_ns is None:
        exposed_ns, wait_ns = times.exposed_ns, times.exposed_wait_ns
        part = _share_of_span(times.exposed_by_rank, times, "communication")
        text = f"Exposed communication takes {part}"
        text += f", {_mean_text(exposed_ns, len(times.ranks))}"
        if wait_ns >= MIN_SHARE * times.all_ns:
            text += f"; {share(wait_ns / exposed_ns)} of that is waiting"
    else:
        text = f"Exposed transfer takes {share(transfer_ns / times.all_ns)}"
        text += f" of {_span_text(times, 'transfer')}"
        if unmatched_ns >= MIN_SHARE * times.all_ns:
            text += f", communication without partners {share(unmatched_ns / times.all_ns)}"
    return [f"{text}{details}."]


def _exposed_operation_text(largest: ExposedOperation) -> str:
    name, bandwidth = largest.operation.replace("_", "-"), largest.bandwidth
    if bandwidth is None:
        part = "all" if largest.share == 1 else share(largest.share)
        return f"{part} of it in {name}"
    text = f"{name} of {size(bandwidth.size_bytes)} at {rate(bandwidth.gb_per_s)} bus bandwidth"
    if bandwidth.slow_ranks:
        text += f" on rank{'s' if len(bandwidth.slow_ranks) > 1 else ''}"
        text += f" {_number_runs_text(bandwidth.slow_ranks)}"
        text += f", {rate(bandwidth.others_gb_per_s)} on the others"
    return f"{text}{', waits included' * bandwidth.includes_waits}"


def _pipeline_text(
    times: RunTimes, *, bubble_ns: dict[int, int], stages: int, stage: int, excess: float
) -> list[Piece]:
    part = _share_of_span(bubble_ns, times, "bubbles")
    text = f"Pipeline bubbles take {part}, with {stages} stages"
    if excess >= _UNEVEN_STAGES:
        text += f"; compute of stage {stage} is {_longer_by(excess, 'the mean of the others')}"
    return [f"{text}."]


def _idle_text(
    times: RunTimes,
    *,
    cause: str,
    cause_ns: int,
    captured_ns: int,
    launches: LaunchRate | None,
    **details: Any,
) -> list[Piece]:
    """State the idle time and what its largest cause means; `details` complete the sentence."""
    meaning = _idle_meaning(cause, **details)
    if 2 * captured_ns > times.idle_ns:
        cause_ns, launches, meaning = captured_ns, None, _CAPTURING
    text = f"{_device_nouns(times)} idle {_share_of_span(times.idle_by_rank, times)}"
    total = "that"
    if launches:
        on_each = " a rank" if len(times.ranks) > 1 else ""
        bound = "launch-bound" if launches.is_launch_bound else "host-bound"
        text += f", {bound}: {count(launches.launches)} launches{on_each} of"
        text += f" {duration(launches.work_ns)}, one every {duration(launches.interval_ns)}"
        total = "the idle time"
    return [f"{text}; for {share(cause_ns / times.idle_ns)} of {total}, {meaning}."]


def _idle_meaning(
    cause: str,
    *,
    within: str,
    has_waits: bool,
    is_paused: bool,
    stalled_by: tuple[str, float] | None,
    loading: tuple[int, int] | None = None,
    **memory_calls: tuple[str, int] | None,
) -> str:
    """Describe what a cause of idle time means.

    `within` is the range that covers most of the longest gap, or "". `is_paused` is whether the
    host mostly sleeps or waits in Python. `stalled_by` is the host event that explains the idle
    time, with its share of it. `loading` has the number and the ns of launches that load code.
    """
    meaning = _HOST_WAIT if cause == "host_wait" else facts("causes")[cause]["meaning"]
    if within:
        meaning = f"{_HOST_WAIT}; most of the longest gap is within the range {within}"
    if is_paused:
        meaning = "the host sleeps in Python or waits for another thread there"
    if stalled_by:
        name, part = stalled_by
        meaning = _HOST_WAIT if cause == "host_nothing" else meaning
        within_name = name if len(name) <= _MAX_HOST_NAME else short_name(name)
        meaning += f"; {share(part)} of the idle time is within {within_name}"
    if not has_waits:
        meaning += ", as they contain no calls that wait"
    if memory_calls.get("pinned_by"):
        meaning = "the host allocates or frees pinned host memory"
    if loading:
        calls, dur_ns = loading
        meaning += f", most of it in first launches of {plural(calls, 'kernel')}"
        meaning += f" ({duration(dur_ns)}), which probably load or compile code"
    return f"{meaning}{_memory_calls_text(**memory_calls)}"


def _memory_calls_text(
    *,
    freed_by: tuple[str, int] | None = None,
    allocated_by: tuple[str, int] | None = None,
    pinned_by: tuple[str, int] | None = None,
    longest_call: tuple[str, int] | None = None,
) -> str:
    """Return a clause about calls for memory.

    `freed_by` is the call that frees memory without a cache, `pinned_by` the call for pinned
    memory, and `allocated_by` the most frequent of the remaining calls, each with its call count.
    `longest_call` is the call that takes most of the time, with its ns.
    """
    text = ""
    if most_frequent := pinned_by or allocated_by or freed_by:
        name, calls = most_frequent
        text = f" ({plural(calls, 'call')} of {name})"
    if freed_by:
        text += ": the caching allocator is off or emptied"
    if longest_call:
        name, dur_ns = longest_call
        text += f", most of it in one call of {name} ({duration(dur_ns)})"
        if name.endswith("Free") and dur_ns >= _INITIALIZING_NS:
            text += ", which probably initializes the device"
    return text


def _kernel_text(
    times: RunTimes,
    *,
    name: str,
    share_of_work: float,
    calls: int,
    variant: tuple[str, float] | None,
) -> list[Piece]:
    """State the share of a kernel; `variant` is the largest of several, with its share."""
    work = f"{share(share_of_work)} of {times.device} work"
    text = f"{name or 'Work without a name'} takes {work}, in {plural(calls, 'call')}"
    if variant is not None:
        text += f"; {share(variant[1])} in its largest variant, {variant[0]}"
    return [f"{text}."]


def _saving_text(times: RunTimes, *, saving: Saving) -> list[Piece]:
    limit = saving.bound if saving.bound in {"compute", "memory"} else f"the {times.device}"
    per_step = " a step" if saving.steps else ""
    saved = duration(saving.saving_ns / max(saving.steps, 1))
    on_rank = f" on rank {saving.rank}" if len(times.ranks) > 1 else ""
    text = f"{short_operator(saving.name)} runs at {share(saving.roofline_share)} of what {limit}"
    return [f"{text} allows; {saved}{per_step} could be saved{on_rank}."]


def _step_text(_times: RunTimes, *, step: int, dur_ns: float, excess: float) -> list[Piece]:
    return [f"Step {step} takes {duration(dur_ns)}, {_longer_by(excess, 'the median step')}."]


def _around_work_text(times: RunTimes, *, around: float) -> list[Piece]:
    owner, mean = ("Each rank's", " on average") if len(times.ranks) > 1 else ("The", "")
    span_ns = times.all_ns / len(times.ranks)
    span = f"{owner} {times.device} span is {duration(span_ns)}{mean}"
    run = f"{share(around)} of the run of {duration(times.run_ns)}"
    text = f"{span}: {run} is before the first work or after the last"
    if times.first_wait_ns:
        text += f"; for {duration(times.first_wait_ns)} of that, {_EARLIER_WORK} probably runs"
    return [f"{text}."]


def _unrecorded_text(times: RunTimes) -> list[Piece]:
    part = share(times.unrecorded_ns / times.all_ns)
    text = f"{_device_nouns(times)} probably busy with {_EARLIER_WORK}"
    rank_count = len(times.ranks)
    text += f" for {part} of {_span_text(times)}, {duration(times.unrecorded_ns / rank_count)}"
    return [f"{text}; recorded work takes {_mean_text(times.busy_ns, rank_count)}."]


def _missing_work_text(times: RunTimes, *, missing: list[int]) -> list[Piece]:
    numbers = _number_runs_text(missing)
    no_work = f"no {times.device} work in the files, and"
    if len(missing) > 1:
        return [f"Ranks {numbers} have {no_work} are not included in these figures."]
    return [f"Rank {numbers} has {no_work} is not included in these figures."]


def _missing_steps_text(
    _times: RunTimes, *, step_count: int, ranks_by_steps: Mapping[tuple[int, ...], list[int]]
) -> list[Piece]:
    texts = []
    for steps, ranks in list(ranks_by_steps.items())[:MAX_SENTENCES]:
        several = len(ranks) > 1
        subject = f"ranks {_number_runs_text(ranks)} have" if several else f"rank {ranks[0]} has"
        listed = f" ({_number_runs_text(steps)})" if steps else ""
        texts.append(f"{subject} {len(steps)} of {plural(step_count, 'step')}{listed}")
    if len(ranks_by_steps) > MAX_SENTENCES:
        texts.append("more ranks lack steps")
    text = "; ".join(texts)
    return [f"{text[:1].upper()}{text[1:]}."]


def _same_ranks_text(_times: RunTimes, *, ranks: list[int]) -> list[Piece]:
    subject = f"Rank {ranks[0]} is a file that states"
    if len(ranks) > 1:
        subject = f"Ranks {_number_runs_text(ranks)} are files that state"
    text = f"{subject} the rank of another file, perhaps of another run"
    return [f"{text}; load one run at a time to compare its ranks."]


def _impossible_times_text(_times: RunTimes, *, times_count: int) -> list[Piece]:
    verb = "are" if times_count > 1 else "is"
    text = f"{plural(times_count, 'time')} in the files cannot be right and {verb} cut or left out"
    return [f"{text}; the problems have details."]


def _no_cause_text(times: RunTimes) -> list[Piece]:
    times_ns = {
        "compute": times.compute_ns,
        "exposed communication": times.exposed_ns,
        "copies": times.exposed_memory_ns,
        "idle": times.idle_ns,
    }
    listed = [f"{name} {share(ns / times.all_ns)}" for name, ns in times_ns.items() if ns > 0]
    if not listed or not times.has_work:
        return [f"There is hardly any {times.device} work in these files."]
    text = ", ".join(listed)
    hidden_share = 1 - times.exposed_ns / max(times.communication_ns, 1)
    if times.is_healthy and times.communication_ns and hidden_share >= _MIN_HIDDEN_COMMUNICATION:
        text = f"{_device_nouns(times, begins=False)} busy {share(times.busy_ns / times.all_ns)}"
        text += f" of {_span_text(times)}"
        text += f", and compute hides {share(hidden_share)} of communication"
    return [f"No single cause stands out: {text}."]


def _last_ready_text(
    _times: RunTimes,
    *,
    rank: int,
    last: int,
    negotiations: int,
    blocked_ns: int,
    blocked_share: float,
) -> list[Piece]:
    """State how often a Horovod rank is ready last; its trace may be missing."""
    often = f"Rank {rank} is ready last for {count(last)} of {plural(negotiations, 'tensor')}"
    wait = f"the others wait for it during {duration(blocked_ns)}"
    return [f"{often}; {wait}, {share(blocked_share)} of the run."]


def _async_only_text(
    _times: RunTimes, *, contents: str, rank_count: int, span_ns: int, longest: str, longest_ns: int
) -> list[Piece]:
    text = f"{contents} of {plural(rank_count, 'rank')} over {duration(span_ns)}"
    if longest_ns >= 0:  # -1 is unknown
        text += f"; the longest is {longest} with {duration(longest_ns)}"
    return [f"{text}."]


def _no_device_text(
    times: RunTimes, *, events: int, rank_count: int, is_left_out: bool
) -> list[Piece]:
    subject = "No GPU work in these files"
    if is_left_out:
        subject = "Apart from times that cannot be right, there is no GPU work in these files"
    text = f"{subject}: {plural(events, 'event')} of {plural(rank_count, 'rank')}"
    return [f"{text} over {duration(times.run_ns)}."]


def _host_communication_text(
    times: RunTimes, *, time_ns: int, calls: Mapping[str, int], rank_count: int
) -> list[Piece]:
    name = max(calls, key=calls.__getitem__)
    others = " and others" if len(calls) > 1 else ""
    part = _share_of_run(times, time_ns, rank_count, " of the time")
    text, number = f"The host communicates {part}", plural(calls[name], "call")
    if rank_count > 1:
        text, number = f"Hosts communicate {part}", f"{number} on all ranks"
    return [f"{text}, in {name} ({number}){others}."]


def _operator_text(
    times: RunTimes, *, time_ns: int, calls: Mapping[str, int], rank_count: int
) -> list[Piece]:
    part = _share_of_run(times, time_ns, rank_count, " of the time on the host")
    return [f"{next(iter(calls))} takes {part}."]


def _share_of_run(times: RunTimes, time_ns: int, rank_count: int, subject: str) -> str:
    part = share(time_ns / (times.run_ns * rank_count))
    return f"{part}{subject}, {_mean_text(time_ns, rank_count)}"


#: Sentence functions, keyed by kind of finding.
WORDS: dict[str, Callable[..., list[Piece]]] = {
    "waiting": _waiting_text,
    "late_rank": _late_rank_text,
    "late_start": _late_start_text,
    "last_rank": _last_rank_text,
    "pipeline": _pipeline_text,
    "exposed_communication": _exposed_text,
    "idle": _idle_text,
    "kernel": _kernel_text,
    "saving": _saving_text,
    "step": _step_text,
    "unrecorded": _unrecorded_text,
    "around_work": _around_work_text,
    "missing_work": _missing_work_text,
    "same_ranks": _same_ranks_text,
    "missing_steps": _missing_steps_text,
    "impossible_times": _impossible_times_text,
    "no_cause": _no_cause_text,
    "no_device": _no_device_text,
    "async_only": _async_only_text,
    "last_ready": _last_ready_text,
    "host_communication": _host_communication_text,
    "operator": _operator_text,
}

"""The headline of a job: its most important findings, as sentences.

The functions here return findings with their numbers, `_arrange` sorts and shortens them, and
`hta_widgets.panels.headline_words` turns them into sentences. For example, three findings have
shares of 4 % (ranks wait for rank 5), 1 % (exposed communication) and 20 % (idle devices):

    waiting 0.04: the headline, because it is at least a tenth of the largest one
    late_rank: how often rank 5 is last, and in which phase it is slow
    idle 0.2: the second sentence; exposed_communication is below 2 %
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis import host_activity
from hta_widgets.analysis.cross_rank.collectives import largest_exposed_operation
from hta_widgets.analysis.cross_rank.stragglers import StragglerReport, straggler_report
from hta_widgets.analysis.horovod import NEGOTIATION
from hta_widgets.analysis.idle import HOST_CAUSES
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.panels.frames import CLOCK
from hta_widgets.panels.headline_words import MAX_SENTENCES, WORDS, Piece
from hta_widgets.panels.run_times import (
    MIN_SHARE,
    LateRanks,
    RunTimes,
    host_bound_rate,
    host_time_and_calls,
    idle_while_capturing_ns,
    late_ranks,
    range_around,
    run_times,
)
from hta_widgets.panels.savings import largest_saving
from hta_widgets.readers.formats import Format, all_formats, formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Rows
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.intervals import Intervals, intersect, total_length
from hta_widgets.trace.names import disambiguate, kernel_family, short_name
from hta_widgets.trace.query import QueryClauses
from hta_widgets.trace.trace import Trace, contents_text
from hta_widgets.trace.traceset import Selection, TraceSet

#: Smallest excess over the median step for which the slowest step is mentioned.
_MIN_STEP_EXCESS = 0.1
#: Smallest share of all device work for which a kernel is named.
_MIN_WORK_SHARE = 1 / 3
#: Share of a kernel's time above which its largest variant is named instead of the kernel.
_MAX_VARIANT_SHARE = 0.9
#: Smallest share of the first finding, relative to the finding with the largest share.
_DWARFED_SHARE = 0.1
#: Smallest share of the run for which time before and after device work is mentioned.
_MIN_SHARE_AROUND = 0.1
_COMMUNICATION = KINDS.index("communication")
#: Kinds of findings in the order of their sentences; kinds in one tuple are ordered by share.
_ORDER = (
    ("waiting", "last_ready"),
    ("host_communication",),
    ("late_rank", "late_start", "no_device", "async_only"),
    ("last_rank", "operator"),
    ("pipeline", "exposed_communication", "idle", "kernel", "saving"),
    ("step",),
)
#: Kinds whose sentences come last and are always present.
_LAST = (
    "unrecorded", "around_work", "missing_work", "missing_steps", "same_ranks", "impossible_times",
)  # fmt: skip
#: The order of kinds for the headline; kinds with equal numbers are ordered by share.
_MAIN_ORDER = {
    "waiting": 0,
    "pipeline": 1,
    "exposed_communication": 2,
    "idle": 2,
    "unrecorded": 2,
    "kernel": 3,
    "saving": 3,
}
_ORDER_OF = {kind: number for number, kinds in enumerate((*_ORDER, _LAST)) for kind in kinds}


@dataclass(frozen=True)
class HeadlineFinding:
    """A cause of lost time, as a sentence with a button that selects it."""

    #: ``waiting``, ``pipeline``, ``exposed_communication``, ``idle``, ``kernel``, ``saving`` or
    #: ``step``; for hosts without devices, ``host_communication`` or ``operator``. Other kinds only
    #: have a sentence, without `label`.
    kind: str
    share: float = 0.0  # share of the run that it costs, over all ranks, from 0 to 1
    #: The sentence as strings and ranks; pages show each rank as a link.
    parts: list[Piece] = field(default_factory=list)
    label: str = ""  # the text of the button
    selection: Selection = field(default_factory=Selection)  # what the button selects
    #: Numbers for the sentence, before `parts` are written.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        return text_of(self.parts)


@dataclass(frozen=True)
class Headline:
    """The most important finding of a job, further sentences, and all findings by importance."""

    text_parts: list[Piece] = field(default_factory=list)
    sentences: list[list[Piece]] = field(default_factory=list)
    findings: list[HeadlineFinding] = field(default_factory=list)

    @property
    def late_ranks(self) -> list[int]:
        """The ranks for which the others wait, which every panel marks in red."""
        waits = [
            finding.selection.ranks or () for finding in self.findings if finding.kind == "waiting"
        ]
        return [rank for ranks in waits for rank in ranks]

    @property
    def fact_ranks(self) -> list[int]:
        """Named ranks for which no other rank waits; panels do not mark them in red."""
        pieces = [piece for parts in (self.text_parts, *self.sentences) for piece in parts]
        return [
            int(piece["rank"]) for piece in pieces if isinstance(piece, dict) and "fact" in piece
        ]

    @property
    def marked_ranks(self) -> dict[str, list[int]]:
        """The ranks that charts mark, keyed by the frame attribute that lists them."""
        return {"late_ranks": self.late_ranks, "fact_ranks": self.fact_ranks}

    @property
    def text(self) -> str:
        """The headline alone."""
        return text_of(self.text_parts)

    def __str__(self) -> str:
        return " ".join(text_of(parts) for parts in (self.text_parts, *self.sentences) if parts)

    def to_json(self) -> dict[str, Any]:
        """Return the headline as JSON values for the page."""
        return {
            "headline": self.text_parts,
            "more": self.sentences,
            **self.marked_ranks,
            "findings": [
                {
                    "kind": finding.kind,
                    "share": finding.share,
                    "text": finding.text,
                    "label": finding.label,
                    "selection": finding.selection.to_json(),
                }
                for finding in self.findings
            ],
        }


def text_of(parts: list[Piece]) -> str:
    """Return a sentence without its links."""
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)


def headline(traces: TraceSet) -> Headline:
    """Return the most important facts about a job.

    The candidates for the headline, in order:

    1. ranks for which others wait, from `straggler_report`;
    2. pipeline bubbles, if they are most of the lost time;
    3. lost time, largest first: communication not hidden by compute, idle devices with the
       cause, work that is not in the files;
    4. a kernel whose variants take a third of all device work;
    5. if files have shapes and devices are busy for half of the time, the first rank's operator
       that could save the most time.

    Shares refer to each rank's span, from its first device work to its last. Findings below 2 % of
    the spans of all ranks are left out, except for ranks that others wait for. A finding whose
    share is less than a tenth of another finding's is not the headline. Without a finding, and in a
    healthy job without such a kernel, the headline states how time is spent. The last sentences
    give the part of the run before and after the spans, if it is large, and the ranks that lack
    some of the steps. For files without device work and for timelines of Horovod, the findings are
    ranks that others wait for, communication on the host and the operator with the most self time,
    as shares of the run. Files with hardly any device work also have the last two findings.
    """
    of_format = _headline_of_formats(traces)
    if of_format is not None:
        return of_format
    if not len(traces):
        return Headline()
    urgent = [format_ for format_ in formats_named(traces.formats) if format_.views.is_urgent]
    if urgent:
        return _headline_of_urgent(traces, urgent)
    times = run_times(traces)
    # Horovod timelines only have phases, without compute.
    readiness = pd.DataFrame() if times.compute_ns else analysis.horovod_readiness(traces)
    has_devices = any(track.stream >= 0 for trace in traces.values() for track in trace.tracks)
    if not times.ranks or not has_devices or len(readiness):
        ranked = _rank_findings(
            [
                *_last_ready_finding(traces, times, readiness),
                *_host_findings(traces, times),
                *_impossible_times(traces),
            ]
        )
        return _arrange(ranked[0], ranked[1:], times) if ranked else Headline()
    report = straggler_report(traces)
    late = late_ranks(traces, times, report.stragglers)
    rank_count = len(times.ranks) if late and not late.on_hosts else len(traces)
    causes = [*_waiting_finding(late, times, rank_count), *_device_findings(traces, times, late)]
    first = _main_finding(causes, is_healthy=times.is_healthy)
    if first is not None and first.kind == "exposed_communication":
        largest = largest_exposed_operation(traces, CLOCK)
        first = replace(first, facts={**first.facts, "largest": largest})
    others = [finding for finding in causes if first is None or finding.kind != first.kind]
    if first is not None and first.kind == "waiting" and late is not None:
        facts = {"late": late, "cause": report.causes.get(late.ranks[0], "")}
        others.append(HeadlineFinding("late_rank", facts=facts))
    others += _further_findings(traces, times, report)
    if not times.has_work:
        others += _busiest_host_events(traces, times)
    return _arrange(first or HeadlineFinding("no_cause"), _rank_findings(others), times)


def _device_findings(
    traces: TraceSet, times: RunTimes, late: LateRanks | None
) -> list[HeadlineFinding]:
    """Return the findings about device time that cost at least `MIN_SHARE` of all spans."""
    if not times.has_work:
        return []
    findings = [
        _exposed_finding(late, times),
        *_idle_finding(traces, times),
        HeadlineFinding("unrecorded", times.unrecorded_ns / times.all_ns),
        *_kernel_finding(traces, times),
        *_pipeline_finding(traces, times),
    ]
    # On a device that mostly waits for its host, faster kernels gain nothing.
    if not any(finding.kind == "idle" and finding.share > 0.5 for finding in findings):
        findings += _saving_finding(traces, times)
    return [finding for finding in findings if finding.share >= MIN_SHARE]


def _further_findings(
    traces: TraceSet, times: RunTimes, report: StragglerReport
) -> Iterator[HeadlineFinding]:
    """Yield the findings that are never the headline of a job with device work."""
    # A rank that is nearly always last but is not judged to be the cause.
    for last in report.last_ranks[:1]:
        yield HeadlineFinding("last_rank", facts={"last": last, "report": report})
    if report.late_starts_ns:
        facts = {"later_ns": report.late_starts_ns}
        yield HeadlineFinding("late_start", facts=facts)
    steps = analysis.step_times(traces)
    yield from _slowest_step(steps)
    if 1 - times.span_share >= _MIN_SHARE_AROUND:
        yield HeadlineFinding("around_work", facts={"around": 1 - times.span_share})
    # Ranks without device work count if other ranks of the same format have device work.
    formats = {traces[rank].format for rank in times.ranks}
    ranks = [rank for rank, trace in traces.items() if trace.format in formats]
    if missing := [rank for rank in ranks if rank not in times.span_ns]:
        yield HeadlineFinding("missing_work", facts={"missing": missing})
    if traces.window_ns is None:  # the window of an export cuts off steps
        yield from _missing_steps(steps, times)
    # Files with the same rank as another file were renumbered.
    problems = traces.problems
    is_kept = (problems["kind"] == "duplicate_rank") & problems["rank"].isin(traces.ranks)
    same_ranks = problems.loc[is_kept & problems["detail"].str.contains("; kept as"), "rank"]
    if len(same_ranks):
        yield HeadlineFinding("same_ranks", facts={"ranks": sorted(map(int, same_ranks))})
    yield from _impossible_times(traces)


def _main_finding(causes: Sequence[HeadlineFinding], *, is_healthy: bool) -> HeadlineFinding | None:
    """Return the finding for the headline: late ranks, else the largest loss, else the kernel."""
    order = sorted(causes, key=lambda finding: (_MAIN_ORDER[finding.kind], -finding.share))
    if is_healthy and order and order[0].kind != "waiting":
        order = [finding for finding in order if finding.kind in {"kernel", "saving"}]
    largest = max((finding.share for finding in order), default=0.0)
    return next((finding for finding in order if finding.share >= _DWARFED_SHARE * largest), None)


def _rank_findings(findings: Sequence[HeadlineFinding]) -> list[HeadlineFinding]:
    return sorted(findings, key=lambda finding: (_ORDER_OF[finding.kind], -finding.share))


def _arrange(first: HeadlineFinding, ranked: list[HeadlineFinding], times: RunTimes) -> Headline:
    """Return a headline of `first`, `MAX_SENTENCES` of `ranked`, and all sentences of `_LAST`."""
    first, *others = (
        replace(finding, parts=WORDS[finding.kind](times, **finding.facts))
        for finding in (first, *ranked)
    )
    sentences = [
        finding.parts
        for finding in others
        if finding.kind not in _LAST
        and (finding.kind != "step" or finding.share >= _MIN_STEP_EXCESS)
    ]
    last = [finding.parts for finding in others if finding.kind in _LAST]
    buttons = [finding for finding in (first, *others) if finding.label]
    return Headline(first.parts, [*sentences[:MAX_SENTENCES], *last], buttons)


def _headline_of_formats(traces: TraceSet) -> Headline | None:
    """Return the headline of the job's formats; None if any of these formats lacks one."""
    names = set(traces.formats)
    with_headline = {format_.name for format_ in all_formats() if format_.views.headline}
    if not names or not names <= with_headline:
        return None
    findings: list[HeadlineFinding] = []
    details: list[list[Piece]] = []
    no_findings: list[Piece] = []
    for headline_of in load_references(format_.views.headline for format_ in formats_named(names)):
        findings_of_format, sentences, no_findings_of_format = headline_of(traces)
        findings += findings_of_format
        details += sentences
        no_findings = no_findings_of_format or no_findings
    if not findings:
        # The first sentence describes the run.
        details = [*details[:1], no_findings, *details[1:]]
    sentences = [parts for parts in (*(finding.parts for finding in findings), *details) if parts]
    first, *others = sentences or [[]]
    return Headline(first, others[:MAX_SENTENCES], findings)


def _headline_of_urgent(traces: TraceSet, urgent: Sequence[Format]) -> Headline:
    names = {format_.name for format_ in urgent}
    others = [trace for trace in traces.values() if trace.format not in names]
    rest = headline(TraceSet(others, like=traces))
    makers = load_references(format_.views.headline for format_ in urgent)
    findings = [finding for headline_of in makers for finding in headline_of(traces)[0]]
    texts = [*(finding.parts for finding in findings), rest.text_parts]
    return Headline(texts[0], [*texts[1:], *rest.sentences], [*findings, *rest.findings])


def _waiting_finding(
    late: LateRanks | None, times: RunTimes, rank_count: int
) -> Iterator[HeadlineFinding]:
    if late is None:
        return
    ranks = f"{len(late.ranks)} ranks" if len(late.ranks) > 1 else f"rank {late.ranks[0]}"
    on_hosts_share = late.wait_ns / (times.run_ns * rank_count)
    lost_ns = max(times.exposed_wait_ns, late.wait_ns)
    yield HeadlineFinding(
        "waiting",
        on_hosts_share if late.on_hosts else lost_ns / times.all_ns,
        label=f"Select {ranks}",
        selection=Selection(ranks=tuple(late.ranks)),
        facts={"late": late, "rank_count": rank_count},
    )


def _exposed_finding(late: LateRanks | None, times: RunTimes) -> HeadlineFinding:
    """Return the finding about exposed communication, excluding waits if there are late ranks."""
    exposed_ns, facts = times.exposed_ns, dict[str, int]()
    if late is not None:
        # The finding about late ranks already reports the waits.
        unmatched_ns = min(times.unmatched_ns, exposed_ns - times.exposed_wait_ns)
        exposed_ns -= times.exposed_wait_ns + unmatched_ns
        facts = {"transfer_ns": exposed_ns, "unmatched_ns": unmatched_ns}
    return HeadlineFinding(
        "exposed_communication",
        exposed_ns / times.all_ns,
        label="Select communication",
        selection=Selection(query="kind in ['communication']"),
        facts=facts,
    )


def _idle_finding(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    if not times.idle_ns:
        return
    cause, cause_ns = _main_idle_cause(times)
    ranks = [traces[rank] for rank in times.ranks]
    selection, within = _longest_gap(traces, times, cause)
    # The sentences about other causes already name the calls.
    stall = None
    if not within and cause in {"host_wait", "host_operator", "host_python", "host_nothing"}:
        stall = host_activity.stalling_event(ranks, 0.5 * times.idle_ns)
    # Without calls that wait, the files do not show why launched work does not start.
    has_waits = cause != "blocked" or any(
        len(host_activity.stream_wait_calls(trace)) or host_activity.waiting_calls(trace).any()
        for trace in ranks
    )
    yield HeadlineFinding(
        "idle",
        times.idle_ns / times.all_ns,
        label="Longest gap",
        selection=selection,
        facts={
            "cause": cause,
            "cause_ns": cause_ns,
            "within": within,
            "captured_ns": idle_while_capturing_ns(traces, times),
            "has_waits": has_waits,
            "launches": None if stall else host_bound_rate(traces, times),
            "stalled_by": stall and (stall[0], min(stall[1] / times.idle_ns, 1.0)),
            **(_memory_call_facts(traces, times) if cause == "host_allocation" else {}),
            **(_loading_facts(traces, times, cause_ns) if cause == "launch_call" else {}),
            "is_paused": cause == "host_python" and 2 * _idle_pauses_ns(traces, times) > cause_ns,
        },
    )


def _longest_gap(traces: TraceSet, times: RunTimes, cause: str) -> tuple[Selection, str]:
    """Return the longest gap, and the range around it if it has the cause ``host_nothing``."""
    gaps = analysis.device_idle_gaps(traces, top=1)
    if not len(gaps):
        return Selection(ranks=tuple(times.ranks)), ""
    gap = gaps.iloc[0]
    start_ns, dur_ns, rank = (int(gap[name]) for name in ("start_ns", "dur_ns", "rank"))
    is_unexplained = cause == gap["idle_category"] == "host_nothing"
    within = range_around(traces[rank], start_ns, dur_ns) if is_unexplained else ""
    return Selection(start_ns, start_ns + dur_ns, (rank,)), within


def _main_idle_cause(times: RunTimes) -> tuple[str, int]:
    """Return the cause with the most idle time, and that time in ns.

    Causes on the host, including launch calls, count as one, ``host_wait``, unless one of them is
    at least half of their sum.
    """
    causes = {name: time_ns for name, time_ns in times.idle_by_cause.items() if time_ns > 0}
    on_host = {name: time_ns for name, time_ns in causes.items() if name in HOST_CAUSES}
    causes["host_wait"] = sum(on_host.values())
    cause = max(causes, key=causes.__getitem__)
    host_cause = max(on_host, key=on_host.__getitem__, default="")
    if cause == "host_wait" and 2 * on_host[host_cause] >= causes["host_wait"]:
        cause = host_cause
    return cause, causes[cause]


def _pipeline_finding(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    """Yield the finding about pipeline bubbles, if they are most of the devices' lost time."""
    frame = analysis.pipeline_bubbles(traces)
    frame = frame[frame["rank"].isin(times.ranks)]
    bubble_ns = frame.groupby("rank")["bubble_ns"].sum()
    if bubble_ns.sum() <= 0.5 * (times.idle_ns + times.exposed_ns):
        return
    computing_ns = frame["schedule_ns"] - frame["bubble_ns"]
    mean_ns = computing_ns.groupby(frame["stage"]).mean().to_dict()
    stage = max(mean_ns, key=mean_ns.__getitem__)
    others_ns = [time_ns for other, time_ns in mean_ns.items() if other != stage]
    yield HeadlineFinding(
        "pipeline",
        int(bubble_ns.sum()) / times.all_ns,
        label="Select the longest stage",
        selection=Selection(ranks=tuple(sorted(set(frame["rank"][frame["stage"] == stage])))),
        facts={
            "bubble_ns": dict.fromkeys(times.ranks, 0) | bubble_ns.to_dict(),
            "stages": int(frame["stages"].max()),
            "stage": stage,
            "excess": mean_ns[stage] * len(others_ns) / max(sum(others_ns), 1) - 1,
        },
    )


def _memory_call_facts(traces: TraceSet, times: RunTimes) -> dict[str, Any]:
    ranks = [traces[rank] for rank in times.ranks]
    pinned_by = _most_frequent_name(ranks, host_activity.pinned_memory_calls)
    freed_by = _most_frequent_name(ranks, host_activity.free_calls)
    if freed_by and not pinned_by:
        return {"freed_by": freed_by}
    rows = ((trace.table, host_activity.longest_memory_call(trace)) for trace in ranks)
    longest_calls = (
        (table.names[int(table.name[row])], int(table.dur_ns[row]))
        for table, row in rows
        if row is not None
    )
    longest_call = next(longest_calls, None)
    if pinned_by or longest_call:
        return {"pinned_by": pinned_by, "longest_call": longest_call}
    return {"allocated_by": _most_frequent_name(ranks, host_activity.memory_calls)}


def _most_frequent_name(
    ranks: list[Trace], calls_of: Callable[[Trace], Rows | Bools]
) -> tuple[str, int] | None:
    """Return the most frequent name among the calls that `calls_of` selects, and its call count."""
    names = (
        trace.table.names[code]
        for trace in ranks
        for code in trace.table.name[calls_of(trace)].tolist()
    )
    return next(iter(Counter(names).most_common(1)), None)


def _idle_pauses_ns(traces: TraceSet, times: RunTimes) -> int:
    """Return how long devices idle while hosts sleep in Python or wait for a thread."""
    parts = rank_parts(traces, ranks=times.ranks)
    idle = ((host_activity.python_pauses(part.trace), part.device_gaps()) for part in parts)
    return sum(total_length(intersect(Intervals(*gaps), pauses)) for pauses, gaps in idle)


def _loading_facts(traces: TraceSet, times: RunTimes, cause_ns: int) -> dict[str, Any]:
    """Return the number and time of launches that load code, if they are most of the cause."""
    ranks = [traces[rank] for rank in times.ranks]
    durs_ns = [trace.table.dur_ns[host_activity.loading_launches(trace)] for trace in ranks]
    launches, dur_ns = sum(map(len, durs_ns)), sum(int(of_rank.sum()) for of_rank in durs_ns)
    return {"loading": (launches, dur_ns)} if dur_ns > cause_ns / 2 else {}


def _kernel_finding(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    """Yield the finding about the kernel family with the most time, if it stands out."""
    frame = analysis.kernel_breakdown(traces)
    # Kernels on several streams overlap, so the sum of their times may exceed the busy time.
    work_ns = max(int(frame["sum_ns"].sum()), times.busy_ns)
    frame = frame[frame["kind"] != "communication"]
    if not len(frame):
        return
    by_name = frame.groupby("name", sort=False)[["sum_ns", "count"]].sum()
    names = [str(name) for name in by_name.index]
    shorts = list(map(short_name, names))
    kernels = by_name.assign(name=names, short=disambiguate(shorts, names))
    kernels["family"] = list(map(kernel_family, shorts))
    by_family = kernels.groupby("family", sort=False)["sum_ns"].sum()
    family, time_ns = str(by_family.idxmax()), int(by_family.max())
    if time_ns < _MIN_WORK_SHARE * work_ns or time_ns < MIN_SHARE * times.all_ns:
        return
    variants = kernels[kernels["family"] == family].nlargest(len(names), "sum_ns")
    if variants["sum_ns"].iloc[0] > _MAX_VARIANT_SHARE * time_ns:
        variants = variants[:1]
        time_ns = int(variants["sum_ns"].iloc[0])
    calls = int(variants["count"].sum())
    if calls == 1 and time_ns == work_ns:
        return  # a single call has all work, so it cannot stand out
    has_several = len(variants) > 1
    largest = variants["short"].iloc[0].strip(), variants["sum_ns"].iloc[0] / work_ns
    yield HeadlineFinding(
        "kernel",
        min(time_ns / times.all_ns, 1.0),
        label="Select these kernels" if has_several else "Select this kernel",
        selection=Selection(query=QueryClauses(names=tuple(sorted(variants["name"]))).query),
        facts={
            "name": family if has_several else largest[0],
            "share_of_work": time_ns / work_ns,
            "calls": calls,
            "variant": largest if has_several else None,
        },
    )


def _saving_finding(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    saving = largest_saving(traces, times.ranks[0])
    if saving is not None:
        yield HeadlineFinding(
            "saving",
            saving.saving_ns / max(times.span_ns[saving.rank], 1),
            label="Select this operator",
            selection=Selection(query=QueryClauses(names=(saving.name,)).query),
            facts={"saving": saving},
        )


def _slowest_step(frame: pd.DataFrame) -> Iterator[HeadlineFinding]:
    """Yield the finding about the slowest step, unless all steps take about the same time."""
    frame = frame[frame["dur_deviation_ns"].notna()]
    if frame["step"].nunique() <= 2:  # the median of two steps is their mean
        return
    # If hosts are ahead of devices, the duration of a step is measured on the device.
    length_ns = frame["own_ns"] + frame["exposed_wait_ns"]
    by_step = length_ns.groupby(frame["step"]).median()
    step, usual_ns = int(by_step.index[int(by_step.argmax())]), float(by_step.median())
    rows = frame[frame["step"] == step]
    start, end = int(rows["start_ns"].min()), int((rows["start_ns"] + rows["dur_ns"]).max())
    dur_ns = float(by_step.max())
    excess = dur_ns / usual_ns - 1 if usual_ns > 0 else 0.0
    if excess >= MIN_SHARE:
        yield HeadlineFinding(
            "step",
            min(excess, 1.0),
            label="Slowest step",
            selection=Selection(start, end),
            facts={"step": step, "dur_ns": dur_ns, "excess": excess},
        )


def _missing_steps(frame: pd.DataFrame, times: RunTimes) -> Iterator[HeadlineFinding]:
    step_count = frame["step"].nunique()
    ranks_by_steps: dict[tuple[int, ...], list[int]] = {}
    for rank in times.ranks:
        steps = tuple(sorted(set(frame.loc[frame["rank"] == rank, "step"].tolist())))
        if len(steps) < step_count:
            ranks_by_steps.setdefault(steps, []).append(rank)
    if ranks_by_steps:
        facts = {"step_count": step_count, "ranks_by_steps": ranks_by_steps}
        yield HeadlineFinding("missing_steps", facts=facts)


def _impossible_times(traces: TraceSet) -> Iterator[HeadlineFinding]:
    problems = traces.problems
    count = int(problems.loc[problems["kind"] == "overflow", "count"].sum())
    if count:
        yield HeadlineFinding("impossible_times", facts={"times_count": count})


def _async_finding(traces: TraceSet) -> Iterator[HeadlineFinding]:
    frames = [trace.asyncs for trace in traces.values() if len(trace.async_table)]
    if not frames:
        return
    start_ns, end_ns = traces.span_ns
    longest = pd.concat(frames).nlargest(1, "dur_ns").iloc[0]
    facts = {
        "contents": contents_text(traces.values()),
        "rank_count": len(frames),
        "span_ns": end_ns - start_ns,
        "longest": longest["name"],
        "longest_ns": longest["dur_ns"],
    }
    yield HeadlineFinding("async_only", facts=facts)


def _last_ready_finding(
    traces: TraceSet, times: RunTimes, readiness: pd.DataFrame
) -> Iterator[HeadlineFinding]:
    if not len(readiness):
        return
    last = readiness.nlargest(1, "blocked_ns").iloc[0]
    blocked_share = float(last["blocked_ns"] / (times.run_ns * len(traces)))
    if blocked_share >= MIN_SHARE:
        names = {name for trace in traces.values() for name in trace.table.names.values}
        phases = tuple(sorted(name for name in names if name.startswith(NEGOTIATION)))
        facts = {
            "rank": int(last["rank"]),
            "last": round(last["score"] * last["negotiations"]),
            "negotiations": int(last["negotiations"]),
            "blocked_ns": int(last["blocked_ns"]),
            "blocked_share": blocked_share,
        }
        yield HeadlineFinding(
            "last_ready",
            blocked_share,
            label="Select negotiations",
            selection=Selection(query=QueryClauses(names=phases).query),
            facts=facts,
        )


def _host_findings(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    filled = [trace for trace in traces.values() if len(trace)]
    if not filled:
        yield from _async_finding(traces)
        return
    late = late_ranks(traces, times, straggler_report(traces).stragglers)
    yield from _waiting_finding(late, times, len(traces))
    facts = {
        "events": sum(map(len, filled)),
        "rank_count": len(filled),
        "is_left_out": any(_impossible_times(traces)),
    }
    yield HeadlineFinding("no_device", facts=facts)
    yield from _busiest_host_events(traces, times)


def _busiest_host_events(traces: TraceSet, times: RunTimes) -> Iterator[HeadlineFinding]:
    """Yield the findings on communication on the host, and on the operator with most self time."""
    filled = [trace for trace in traces.values() if len(trace)]
    communication = host_time_and_calls(filled, lambda table: table.kind == _COMMUNICATION)
    self_times = analysis.operators(traces).groupby("name", sort=False)["cpu_self_ns"].sum()
    name = str(self_times.idxmax()) if len(self_times) and self_times.max() > 0 else ""

    def is_operator(table: EventTable) -> Bools:
        codes = [code for code, text in enumerate(table.names.values) if text == name]
        is_named: Bools = np.isin(table.name, codes) & (table.kind != _COMMUNICATION)
        return is_named

    operator = host_time_and_calls(filled, is_operator)
    for kind, (time_ns, calls), label in (
        ("host_communication", communication, "Select communication"),
        ("operator", operator, "Select this operator"),
    ):
        part = time_ns / (times.run_ns * len(filled))
        if calls and part >= MIN_SHARE:
            yield HeadlineFinding(
                kind,
                part,
                label=label,
                selection=Selection(query=QueryClauses(names=tuple(sorted(calls))).query),
                facts={"time_ns": time_ns, "calls": calls, "rank_count": len(filled)},
            )

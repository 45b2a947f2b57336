"""The headline of a job: its most important findings, as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.stragglers import (
    StragglerReport,
    collective_waits,
    exposed_waits_for,
    straggler_report,
)
from hta_widgets.facts import facts
from hta_widgets.panels.frames import CLOCK
from hta_widgets.readers.formats import all_formats, format_hooks
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import consecutive_runs, count, duration, plural, run_text, share
from hta_widgets.tiles.lateness import LatenessIndex
from hta_widgets.trace.arrays import Bools
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.names import disambiguate, short_name
from hta_widgets.trace.query import QueryClauses
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

# Findings and waits with a smaller share of the run are not reported.
MIN_SHARE: float = facts("limits")["wait_share"]
MIN_EXCESS = 0.02  # over the median rank, for a slow phase
MIN_EXCESS_SHARE = 0.1  # over the median step, for a slow step
MIN_RANKS = 3  # for a median rank; of two ranks, the slow one is half of the median
MIN_SHARE_OF_WORK = 1 / 3  # of all device work, for a kernel
DWARFED_SHARE = 0.1  # of another finding's time; a finding with less comes after it
MIN_HIDDEN_SHARE = 0.1  # of the waits for late ranks, to be stated
MAX_SENTENCES = 2
MIN_SHARE_AROUND = 0.1  # minimum share of the run for reporting the time around device work
LITTLE_WORK = 0.01  # of the run; spans of device work with a smaller share are hardly any work
_NO_GPU = {"mtia_ccp_events", "hpu_op"}  # categories of device work of other accelerators
_COMMUNICATION = KINDS.index("communication")
_PHASES = {"forward": "forward pass", "backward": "backward pass", "optimizer": "optimizer step"}
_HOST_WAIT = "the host has not launched the next work yet"
#: A text, or a rank: ``{"rank": 5, "text": "rank 5"}``. With ``"fact": True`` the rank is not shown
#: in red, because other ranks do not wait for it.
Piece = str | dict[str, Any]


@dataclass(frozen=True)
class HeadlineFinding:
    """One cause of lost time, as a sentence with a button that selects it.

    `kind` is ``waiting``, ``exposed_communication``, ``idle``, ``kernel`` or ``step``; for hosts
    without devices ``host_communication`` or ``operator``.
    """

    kind: str
    share: float  # of the run, over all ranks, 0..1
    parts: list[Piece]
    label: str  # of the button
    selection: Selection


@dataclass(frozen=True)
class Headline:
    """The most important finding of a job, further sentences, and all findings by importance."""

    text_parts: list[Piece] = field(default_factory=list)
    sentences: list[list[Piece]] = field(default_factory=list)
    findings: list[HeadlineFinding] = field(default_factory=list)

    @property
    def late_ranks(self) -> list[int]:
        """The ranks that the others wait for, which every panel marks in red."""
        waits = [
            finding.selection.ranks or () for finding in self.findings if finding.kind == "waiting"
        ]
        return [rank for ranks in waits for rank in ranks]

    @property
    def fact_ranks(self) -> list[int]:
        """Ranks that are named but not waited for, which panels do not mark in red."""
        pieces = [piece for parts in (self.text_parts, *self.sentences) for piece in parts]
        return [
            int(piece["rank"]) for piece in pieces if isinstance(piece, dict) and "fact" in piece
        ]

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
            "late_ranks": self.late_ranks,
            "fact_ranks": self.fact_ranks,
            "findings": [
                {
                    "kind": finding.kind,
                    "share": finding.share,
                    "text": text_of(finding.parts),
                    "label": finding.label,
                    "selection": finding.selection.to_json(),
                }
                for finding in self.findings
            ],
        }


def text_of(parts: list[Piece]) -> str:
    """Return a sentence without its links."""
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)


@dataclass(frozen=True)
class RunTimes:
    """Times of the ranks with device work, added up; the run is on the fitted clock."""

    start_ns: int
    run_ns: int
    span_ns: dict[int, int]
    busy_ns: int
    compute_ns: int
    exposed_ns: int
    exposed_memory_ns: int
    exposed_wait_ns: int
    #: without compute, in communication that is not matched on all ranks
    unmatched_ns: int
    idle_ns: int
    idle_by_cause: dict[str, int]
    is_gpu: bool
    exposed_by_rank: dict[int, int]
    idle_by_rank: dict[int, int]

    @property
    def ranks(self) -> list[int]:
        """The ranks with device work."""
        return list(self.span_ns)

    @property
    def all_ns(self) -> int:
        """The sum of the spans of all ranks with device work."""
        return max(sum(self.span_ns.values()), 1)


def run_times(traces: TraceSet) -> RunTimes:
    """Add up how the devices of a job spend the run."""
    frame = analysis.temporal_breakdown(traces)
    # The run includes the profiler's own span if the files have it, as in the timeline.
    start_ns, end_ns = traces.with_clock(CLOCK).span_ns
    run_ns = max(end_ns - start_ns, 1)
    waits = analysis.exposed_waits(traces, clock=CLOCK)
    idle = analysis.device_idle_breakdown(traces)
    causes = idle.groupby("idle_category", observed=True)["idle_ns"].sum()

    def by_rank(name: str) -> dict[int, int]:
        return dict(zip(frame["rank"].tolist(), frame[name].tolist(), strict=True))

    return RunTimes(
        start_ns,
        run_ns,
        by_rank("span_ns"),
        int(frame["busy_ns"].sum()),
        int(frame["compute_ns"].sum()),
        int(frame["exposed_communication_ns"].sum()),
        int(frame["exposed_memory_ns"].sum()),
        int(waits["exposed_wait_ns"].clip(lower=0).sum()),
        int(waits["unmatched_exposed_ns"].sum()),
        int(frame["idle_ns"].sum()),
        {str(cause): int(spent) for cause, spent in causes.items()},
        all(_NO_GPU.isdisjoint(trace.table.categories.values) for trace in traces.values()),
        by_rank("exposed_communication_ns"),
        by_rank("idle_ns"),
    )


@dataclass(frozen=True)
class LateRanks:
    """Ranks that the others wait for, how long these wait, and the slow phase of the first."""

    ranks: list[int]
    waiting: list[int]
    wait_ns: float
    hidden_share: float
    last: int
    collectives: int
    phase: str = ""
    phase_ns: float = 0.0
    phase_over: float = 0.0


def late_ranks(traces: TraceSet, times: RunTimes, ranks: list[int]) -> LateRanks | None:
    """Return how long the other ranks wait for `ranks`; None if they do not wait for them."""
    if not ranks:
        return None
    frame = analysis.collectives(traces, clock=CLOCK)
    lateness = LatenessIndex(traces, frame, {})
    run = lateness.sums_in_window(times.start_ns, times.start_ns + times.run_ns)
    waits = lateness.waited_for(ranks, times.start_ns, times.start_ns + times.run_ns)
    by_rank = {rank: wait for rank, wait in zip(traces, waits, strict=True) if rank not in ranks}
    long = {rank: wait for rank, wait in by_rank.items() if wait >= MIN_SHARE * times.run_ns}
    by_rank = long or by_rank
    if not any(by_rank.values()):
        return None
    first = traces.ranks.index(ranks[0])
    waited_ns = sum(by_rank.values())
    exposed_ns = exposed_waits_for(collective_waits(traces, CLOCK), ranks, list(by_rank))
    return LateRanks(
        ranks,
        list(by_rank),
        waited_ns / len(by_rank),
        1 - exposed_ns / waited_ns,
        run["last"][first],
        run["collectives"][first],
        *_slow_phase(traces, ranks[0]),
    )


def _slow_phase(traces: TraceSet, rank: int) -> tuple[str, float, float]:
    if len(traces) < MIN_RANKS:
        return "", 0.0, 0.0
    frame = analysis.phase_times(traces)
    frame = frame[frame["rank"] == rank]
    if not len(frame):
        return "", 0.0, 0.0
    by_phase = frame.groupby("phase", sort=False)
    lasting, apart, over = (
        by_phase[name].median() for name in ("dur_ns", "deviation_ns", "deviation_share")
    )
    apart = apart[over >= MIN_EXCESS]
    if not len(apart):
        return "", 0.0, 0.0
    phase = str(apart.idxmax())
    return _PHASES.get(phase, phase), float(lasting[phase]), float(over[phase])


def headline(traces: TraceSet) -> Headline:
    """Return the most important facts of a job.

    The facts, in order: ranks that others wait for, by `straggler_report`; communication that no
    compute hides; idle devices, with the cause; one kernel with a third of all device work. Shares
    are of each rank's span, from its first device work to its last. Findings below 2 % of the spans
    of all ranks are left out, except for ranks that others wait for; a finding with less than a
    tenth of another one comes after it. Further sentences are in order of time. Without a finding,
    the headline lists how time is spent. Last sentences give the part of the run before and after
    the spans, if it is large, and the ranks that lack steps of others. For files without device
    work, the facts are communication on the host and the operator with most time of its own, as
    shares of the run.
    """
    of_format = _headline_of_formats(traces)
    if of_format is not None:
        return of_format
    if not any(len(trace) for trace in traces.values()):
        return Headline()
    times = run_times(traces)
    if not times.ranks:
        return Headline(*_host_only_headline(traces, times))
    judged = straggler_report(traces)
    late = late_ranks(traces, times, judged.stragglers)
    candidates = [
        finding
        for finding in (
            _waiting_finding(late, times, len(traces)),
            _exposed_finding(late, times),
            _idle_finding(traces, times),
        )
        if finding is not None and (finding.share >= MIN_SHARE or finding.kind == "waiting")
    ]
    kernel = _kernel_finding(traces, times)
    candidates += [kernel] if kernel is not None else []
    first = _main_finding(candidates)
    rest = sorted(
        (finding for finding in candidates if finding is not first),
        key=lambda finding: -finding.share,
    )
    # The page marks late ranks in red, so the sentence that names them must not be cut.
    rest.sort(key=lambda finding: finding.kind != "waiting")
    sentences = [finding.parts for finding in rest]
    if first is not None and first.kind == "waiting" and late is not None:
        sentences.insert(0, _late_rank_details(late, judged))
    if last := _last_rank_sentence(traces, times, judged):
        sentences.insert(0 if late is None else 1, last)
    ordered = ([first] if first else []) + rest
    steps = analysis.step_times(traces)
    step = _slowest_step(steps)
    if step is not None:
        ordered.append(step)
        sentences += [step.parts] if step.share >= MIN_EXCESS_SHARE else []
    sentences = [*sentences[:MAX_SENTENCES], *_time_around_work(times)]
    if traces.window_ns is None:  # an export's window cuts steps anyway
        sentences += _missing_steps_sentence(steps, times)
    return Headline(first.parts if first else _empty_job_text(times), sentences, ordered)


def _headline_of_formats(traces: TraceSet) -> Headline | None:
    """Return the headline of the job's formats; None unless each of them has one."""
    names = set(traces.formats)
    if not names or not names <= {finding.name for finding in all_formats() if finding.headline}:
        return None
    all_findings: list[HeadlineFinding] = []
    more: list[list[Piece]] = []
    nothing: list[Piece] = []
    for headline_of in format_hooks("headline", names):
        findings, sentences, without = headline_of(traces)
        all_findings += findings
        more += sentences
        nothing = without or nothing
    sentences = [*(finding.parts for finding in all_findings[1:]), *more]
    if all_findings:
        return Headline(all_findings[0].parts, sentences[:MAX_SENTENCES], all_findings)
    if not sentences:
        return Headline(nothing)
    return Headline(sentences[0], [nothing, *sentences[1:]][:MAX_SENTENCES])


def _main_finding(candidates: Sequence[HeadlineFinding]) -> HeadlineFinding | None:
    """Return the first finding that is not much smaller than another one."""
    most = max((finding.share for finding in candidates), default=0.0)
    return next((finding for finding in candidates if finding.share >= DWARFED_SHARE * most), None)


def _rank_piece(rank: int, *, begins: bool = False) -> dict[str, Any]:
    return {"rank": rank, "text": f"{'R' if begins else 'r'}ank {rank}"}


def _device_noun(times: RunTimes) -> str:
    return "GPU" if times.is_gpu else "device"


def _device_nouns(times: RunTimes) -> str:
    if len(times.ranks) == 1:
        return f"The {_device_noun(times)} is"
    return "GPUs are" if times.is_gpu else "Devices are"


def _span_text(times: RunTimes) -> str:
    """Return the text that names the span to which shares refer."""
    return f"each rank's {_device_noun(times)} span" if len(times.ranks) > 1 else "its span"


def _share_of_span(spent: dict[int, int], times: RunTimes) -> str:
    """Return the share of spans, as a mean if ranks differ, and the rank that has most of it."""
    spent_ns = sum(spent.values())
    text = f"{share(spent_ns / times.all_ns)} of {_span_text(times)}"
    shares = {rank: ns / max(times.span_ns[rank], 1) for rank, ns in spent.items()}
    if max(shares.values()) - min(shares.values()) >= MIN_SHARE:
        text += " on average"
        most = max(spent, key=spent.__getitem__)
        if len(spent) >= MIN_RANKS and 2 * spent[most] > spent_ns:
            text += f", most of it on rank {most} ({share(shares[most])} of its span)"
    return text


def _longer_by(over: float, whose: str) -> str:
    """Describe how much longer than `whose` something takes: in percent, from 2 on as a factor."""
    return f"{1 + over:.1f} times {whose}" if over >= 1 else f"{share(over)} over {whose}"


def _waiting_finding(late: LateRanks | None, times: RunTimes, ranks: int) -> HeadlineFinding | None:
    if late is None:
        return None
    first, *others = late.ranks
    how_long = f"{'on average ' if len(late.waiting) > 1 else ''}{duration(late.wait_ns)}"
    waiting_ns = late.wait_ns * len(late.waiting)
    spans_ns = sum(times.span_ns.get(rank, 0) for rank in late.waiting)
    whose = "their" if len(late.waiting) > 1 else "its"
    of_span = f"{share(waiting_ns / max(spans_ns, 1))} of {whose} {_device_noun(times)} span"
    subject: list[Piece] = [f"{len(late.waiting)} of {plural(ranks, 'rank')} wait "]
    if len(late.waiting) == 1:
        subject = [f"Rank {late.waiting[0]} waits "]
    whom: list[Piece] = [_rank_piece(first)]
    if len(others) == 1:
        whom += [" and ", _rank_piece(others[0])]
    elif others:
        whom += [f" and {len(others)} others"]
    hides = late.hidden_share >= MIN_HIDDEN_SHARE
    hidden = f"; compute hides {share(late.hidden_share)} of that." if hides else "."
    label = f"Select rank {first}" if not others else f"Select {plural(len(late.ranks), 'rank')}"
    return HeadlineFinding(
        "waiting",
        waiting_ns / times.all_ns,
        [*subject, f"{how_long} on the stream, {of_span}, for ", *whom, hidden],
        label,
        Selection(ranks=tuple(late.ranks)),
    )


def _late_rank_details(late: LateRanks, judged: StragglerReport) -> list[Piece]:
    """Return how often the first late rank is last, and its slow phase or the delay's cause."""
    first = late.ranks[0]
    pieces: list[Piece] = [
        _rank_piece(first, begins=True),
        f" arrives last at {count(late.last)} of {plural(late.collectives, 'collective')}",
    ]
    if late.phase:
        over = _longer_by(late.phase_over, "the median rank")
        pieces += [f"; its {late.phase} takes {duration(late.phase_ns)}, {over}"]
    elif cause := judged.causes.get(first):
        pieces += [f", after {cause}"]
    return [*pieces, "."]


def _last_rank_sentence(traces: TraceSet, times: RunTimes, judged: StragglerReport) -> list[Piece]:
    """Return a sentence on a rank that is nearly always last but is not judged to be the cause."""
    for last in judged.last_ranks:
        late = late_ranks(traces, times, [last.rank])
        if late is None:
            continue
        loaded = f" of the {plural(judged.loaded, 'rank')} loaded (of {judged.of})"
        others = [span for rank, span in times.span_ns.items() if rank != last.rank]
        part = last.wait_ns * len(others) / max(sum(others), 1)
        text = (
            f" arrives last{loaded if judged.loaded < judged.of else ''} at {late.last} of"
            f" {plural(late.collectives, 'collective')}"
            f"{f', after {last.cause}' if last.cause else ''};"
            f" {'the others wait' if len(traces) > 2 else 'the other waits'}"
            f" {duration(last.wait_ns)} on the stream, {share(part)} of their"
            f" {_device_noun(times)} span"
        )
        if last.hidden_share > 0.5:
            text += ", mostly hidden by compute"
        return [_rank_piece(last.rank, begins=True) | {"fact": True}, f"{text}."]
    return []


def _exposed_finding(late: LateRanks | None, times: RunTimes) -> HeadlineFinding:
    spent, waits = times.exposed_ns, times.exposed_wait_ns
    label, selection = "Select communication", Selection(query="kind in ['communication']")
    if late is not None:
        # The finding on late ranks already reports the waits.
        unmatched = min(times.unmatched_ns, spent - waits)
        spent -= waits + unmatched
        text = f"Data transfer that no compute hides takes {share(spent / times.all_ns)}"
        text += f" of {_span_text(times)}"
        if unmatched >= MIN_SHARE * times.all_ns:
            text += f", communication without partners {share(unmatched / times.all_ns)}"
        return HeadlineFinding(
            "exposed_communication",
            spent / times.all_ns,
            [f"{text}."],
            label,
            selection,
        )
    part = _share_of_span(times.exposed_by_rank, times)
    text = f"{_device_nouns(times)} communicating {part} with no"
    text += f" compute to hide it, {duration(spent / len(times.ranks))}"
    if len(times.ranks) > 1:
        text += " a rank"
    if waits >= MIN_SHARE * times.all_ns:
        text += f"; {share(waits / spent)} of that is waiting for other ranks"
    return HeadlineFinding(
        "exposed_communication", spent / times.all_ns, [f"{text}."], label, selection
    )


def _idle_finding(traces: TraceSet, times: RunTimes) -> HeadlineFinding | None:
    if not times.idle_ns:
        return None
    text = f"{_device_nouns(times)} idle {_share_of_span(times.idle_by_rank, times)}"
    causes = {name: spent for name, spent in times.idle_by_cause.items() if spent > 0}
    on_host = {name: spent for name, spent in causes.items() if name.startswith("host_")}
    causes["host_wait"] = sum(on_host.values())
    cause = max(causes, key=causes.__getitem__)
    spent = causes[cause]
    most = max(on_host, key=on_host.__getitem__, default="")
    if cause == "host_wait" and 2 * on_host[most] >= spent:
        cause, spent = most, on_host[most]
    meaning = _HOST_WAIT if cause == "host_wait" else facts("causes")[cause]["meaning"]
    gaps = analysis.device_idle_gaps(traces, top=1)
    selection = Selection(ranks=tuple(times.ranks))
    if len(gaps):
        gap = gaps.iloc[0]
        start, rank = int(gap["start_ns"]), int(gap["rank"])
        selection = Selection(start, start + int(gap["dur_ns"]), (rank,))
        within = _range_around(traces[rank], start, int(gap["dur_ns"]))
        if within and cause == gap["idle_category"] == "host_nothing":
            meaning = f"{_HOST_WAIT}; most of the longest gap is within the range {within}"
    text += f"; for {share(spent / times.idle_ns)} of that, {meaning}"
    return HeadlineFinding(
        "idle", times.idle_ns / times.all_ns, [f"{text}."], "Longest gap", selection
    )


def _range_around(trace: Trace, start_ns: int, dur_ns: int) -> str:
    """Return the name of the host range (not a step) that lies mostly in a gap; "" if none does."""
    table, low = trace.table, start_ns - trace.shift_ns
    rows = np.flatnonzero((table.kind == KINDS.index("annotation")) & (table.stream < 0))
    rows = rows[step_numbers(table.names.values)[table.name[rows]] < 0]
    start, lasting = table.start_ns[rows], table.dur_ns[rows]
    inside = np.minimum(start + lasting, low + dur_ns) - np.maximum(start, low)
    rows = rows[2 * inside > np.maximum(lasting, dur_ns)]
    if not len(rows):
        return ""
    return short_name(table.names[int(table.name[rows[table.dur_ns[rows].argmin()]])])


def _kernel_finding(traces: TraceSet, times: RunTimes) -> HeadlineFinding | None:
    frame = analysis.kernel_breakdown(traces)
    # Kernels of several streams overlap, so the sum of their times may exceed the busy time.
    work = max(int(frame["sum_ns"].sum()), times.busy_ns)
    frame = frame[frame["kind"] != "communication"]
    if not len(frame):
        return None
    spent = frame.groupby("name", sort=False)["sum_ns"].sum()
    name, most = str(spent.idxmax()), int(spent.max())
    if most < MIN_SHARE_OF_WORK * work or most < MIN_SHARE * times.all_ns:
        return None
    calls = int(frame.loc[frame["name"] == name, "count"].sum())
    if calls == 1 and most == work:
        # All work is one call, which cannot stand out.
        return None
    names = list(spent.index)
    short = dict(zip(names, disambiguate(list(map(short_name, names)), names), strict=True))[name]
    part = f"{share(most / work)} of {_device_noun(times)} work"
    text = f"{short.strip() or 'Work without a name'} takes {part}, in {plural(calls, 'call')}."
    return HeadlineFinding(
        "kernel",
        min(most / times.all_ns, 1.0),
        [text],
        "Select this kernel",
        Selection(query=QueryClauses(names=(name,)).query),
    )


def _slowest_step(frame: pd.DataFrame) -> HeadlineFinding | None:
    """Return the step that takes longest, for a button; None if steps are even."""
    frame = frame[frame["dur_deviation_ns"].notna()]
    steps = frame["step"].nunique()
    if steps <= 1:
        return None
    lasting = frame.groupby("step")["dur_ns"].median()
    step, usual = int(lasting.index[int(lasting.argmax())]), float(lasting.median())
    rows = frame[frame["step"] == step]
    start, end = int(rows["start_ns"].min()), int((rows["start_ns"] + rows["dur_ns"]).max())
    # With two steps, the median is their mean, and neither of them stands out.
    over = float(lasting.max()) / usual - 1 if usual > 0 and steps > 2 else 0.0
    if over < MIN_SHARE:
        return None
    longer = _longer_by(over, "the median step")
    text = f"Step {step} takes {duration(float(lasting.max()))}, {longer}."
    return HeadlineFinding("step", min(over, 1.0), [text], "Slowest step", Selection(start, end))


def _span_of_run(times: RunTimes) -> float:
    return times.all_ns / (times.run_ns * len(times.ranks))


def _time_around_work(times: RunTimes) -> list[list[Piece]]:
    """Return the part of the run before and after the work of devices, if it is large."""
    around = 1 - _span_of_run(times)
    if around < MIN_SHARE_AROUND:
        return []
    one = len(times.ranks) == 1
    whose, mean = ("The", "") if one else ("Each rank's", " on average")
    whole = (
        f"{whose} {_device_noun(times)} span is {duration(times.all_ns / len(times.ranks))}{mean}"
    )
    run = f"{share(around)} of the run of {duration(times.run_ns)}"
    return [[f"{whole}: {run} lies before the first work or after the last."]]


def _missing_steps_sentence(frame: pd.DataFrame, times: RunTimes) -> list[list[Piece]]:
    """Return which ranks lack steps that others have."""
    known = set(frame["step"].tolist())
    lacking: dict[tuple[int, ...], list[int]] = {}
    for rank in times.ranks:
        steps = tuple(sorted(set(frame.loc[frame["rank"] == rank, "step"].tolist())))
        if len(steps) < len(known):
            lacking.setdefault(steps, []).append(rank)
    texts = []
    for steps, ranks in list(lacking.items())[:MAX_SENTENCES]:
        who = (
            f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {_number_runs_text(ranks)} have"
        )
        own = f" ({_number_runs_text(steps)})" if steps else ""
        texts.append(f"{who} {len(steps)} of {plural(len(known), 'step')}{own}")
    text = "; ".join([*texts, *["others lack other steps"] * (len(lacking) > len(texts))])
    return [[f"{text[:1].upper()}{text[1:]}."]] if text else []


def _number_runs_text(numbers: Sequence[int]) -> str:
    runs = [run_text(run) for run in consecutive_runs(numbers)]
    return ", ".join([*runs[:3], *["…"] * (len(runs) > 3)])


def _empty_job_text(times: RunTimes) -> list[Piece]:
    spent = {
        "compute": times.compute_ns,
        "exposed communication": times.exposed_ns,
        "copies": times.exposed_memory_ns,
        "idle": times.idle_ns,
    }
    listed = [f"{name} {share(ns / times.all_ns)}" for name, ns in spent.items() if ns > 0]
    if not listed or _span_of_run(times) < LITTLE_WORK:
        return [f"There is hardly any {_device_noun(times)} work in these files."]
    return [f"No single cause stands out: {', '.join(listed)}."]


def _host_only_headline(traces: TraceSet, times: RunTimes) -> Iterator[Any]:
    """Yield headline, sentences and findings of files without device work."""
    filled = [trace for trace in traces.values() if len(trace)]
    events = sum(map(len, filled))
    text = f"No GPU work in these files: {count(events)} events of {plural(len(filled), 'rank')}"
    first: list[Piece] = [f"{text} over {duration(times.run_ns)}."]
    all_ns = times.run_ns * len(filled)
    each = " a rank" if len(filled) > 1 else ""
    candidates = []
    spent, calls = _host_time_by_name(filled, lambda table: table.kind == _COMMUNICATION)
    if calls and spent >= MIN_SHARE * all_ns:
        most = max(calls, key=calls.__getitem__)
        ours = "The host communicates" if len(filled) == 1 else "Hosts communicate"
        text = f"{ours} {share(spent / all_ns)} of the time, {duration(spent / len(filled))}{each}"
        on_all = " on all ranks" if len(filled) > 1 else ""
        text += f", in {most} ({plural(calls[most], 'call')}{on_all})"
        text += " and others" if len(calls) > 1 else ""
        selection = Selection(query=QueryClauses(names=tuple(sorted(calls))).query)
        candidates.append(
            HeadlineFinding(
                "host_communication",
                spent / all_ns,
                [f"{text}."],
                "Select communication",
                selection,
            )
        )
    self_times = analysis.operators(traces).groupby("name", sort=False)["cpu_self_ns"].sum()
    name = str(self_times.idxmax()) if len(self_times) and self_times.max() > 0 else ""
    spent, calls = _host_time_by_name(
        filled,
        lambda table: (
            np.isin(
                table.name,
                [k for k, other_name in enumerate(table.names.values) if other_name == name],
            )
            & (table.kind != _COMMUNICATION)
        ),
    )
    if calls and spent >= MIN_SHARE * all_ns:
        text = f"{name} takes {share(spent / all_ns)} of the time on the host"
        text += f", {duration(spent / len(filled))}{each}."
        selection = Selection(query=QueryClauses(names=(name,)).query)
        candidates.append(
            HeadlineFinding("operator", spent / all_ns, [text], "Select this operator", selection)
        )
    sentences = [finding.parts for finding in candidates]
    if candidates and candidates[0].kind == "host_communication":
        first, sentences[0] = sentences[0], first
    yield first
    yield sentences
    yield candidates


def _host_time_by_name(
    filled: Sequence[Trace], is_meant: Callable[[EventTable], Bools]
) -> tuple[int, dict[str, int]]:
    """Return the time of the host events that `is_meant` selects, and their number by name."""
    spent, calls = 0, Counter[str]()
    for trace in iter_ranks(filled):
        table = trace.table
        rows = np.flatnonzero(is_meant(table) & (table.stream < 0))
        spent += total_length(
            union(table.start_ns[rows], table.start_ns[rows] + table.dur_ns[rows])
        )
        calls.update(table.names[code] for code in table.name[rows].tolist())
    return spent, calls

"""Turns findings into sentences.

Each topic has one function that takes the finding and the comparison and returns the sentence. The
tables `WORDS` and `CAUTION_WORDS` list these functions in order of importance. A format's functions
come between the two (`FormatComparison.finding_words`). Numbers become text only in this module:

    Finding("name", name="gemm", before_count=7, after_count=3, diff_ns=-40_000)
    "gemm goes from 7 to 3 a step (−40.0 µs)."
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from hta_widgets.analysis.cross_rank.late_causes import cause_text
from hta_widgets.diff.align import may_be_chance
from hta_widgets.diff.causes import splits_communication
from hta_widgets.diff.changes import changed_operations, libraries, moved_bytes
from hta_widgets.diff.compare import Comparison, conditions, paired_ranks
from hta_widgets.diff.late_ranks import changed_ranks, late_ranks, lone_ranks
from hta_widgets.diff.records import Finding, topic_of
from hta_widgets.diff.sides import is_host_only
from hta_widgets.readers.formats import formats_named, load_references
from hta_widgets.taxonomy import HOST_COLLECTIVES, HOST_LIBRARIES, kind_of
from hta_widgets.text import (
    consecutive_runs,
    count,
    duration,
    duration_delta,
    mean_count,
    p_value,
    plural,
    run_text,
    share,
    share_delta,
    size,
)
from hta_widgets.trace.columns import PARAM_COMMS
from hta_widgets.trace.names import short_name

#: Function that returns the sentence of a finding.
Wording = Callable[[Finding, Comparison], str]

#: Ratio up to which changes of times are stated in percent.
_MAX_RATIO = 10
#: Smallest stated change of the bytes of collectives, as a share of the larger number.
_MIN_BYTES_RATIO = 0.01
_OWN_TIME_WORDS = {
    "compute": "compute",
    "memory": "exposed copies",
    "idle": "idle time of the device",
    "cpu": "time on the host",
    "transfer": "exposed transfer",
}
_CAUSE_WORDS = {
    "compute": "compute", "communication": "exposed communication", "copies": "exposed copies",
    "idle": "idle time of the device", "host": "time on the host",
    "communication_wait": "waiting for other ranks", "communication_transfer": "exposed transfer",
    "sync_wait": "idle time while the host waits for the device",
    "host_wait": "idle time before the host launches",
    "host_allocation": "idle time while the host allocates or frees memory",
    "host_data_loading": "idle time while the host loads data",
    "host_operator": "idle time while the host is inside operators",
    "host_python": "idle time while the host is inside Python functions",
    "host_nothing": "idle time before the host launches",
    "launch_call": "idle time within launch calls",
    "launch_latency": "idle time between launch and start",
    "kernel_wait": "idle time between kernels",
    "stream_wait": "idle time waiting for other streams",
    "blocked": "idle time while launched work does not start",
    "unrecorded": "idle time with unrecorded work",
    "unknown": "idle time of unknown cause", "nothing_launched": "idle time after the last work",
}  # fmt: skip
#: Cautions that `compare` does not add.
_CAUTION_SENTENCES: dict[str, str] = {
    "on_device": "Hosts are ahead of their devices: a step ends with its last device work.",
    "single_step": "With one step on each side, normal variation looks like a change.",
    "unmatched": "Communication includes waiting for other ranks: not all of it is matched.",
}


def add_text(finding: Finding, diff: Comparison, words: dict[str, Wording]) -> Finding:
    """Return a finding with its sentence."""
    if finding.text:
        return finding
    return replace(finding, text=words[topic_of(finding)](finding, diff))


def kind_words(diff: Comparison) -> dict[str, str]:
    """Return the formats' words for kinds of time."""
    return _of_formats(diff, "kind_words")


def kind_labels(diff: Comparison) -> dict[str, str]:
    """Return the formats' short labels for kinds of time, for charts."""
    return _of_formats(diff, "kind_labels")


def _of_formats(diff: Comparison, field: str) -> dict[str, str]:
    formats = formats_named(diff.before.formats)
    texts = load_references(getattr(format_.comparison, field) for format_ in formats)
    return {kind: text for texts_by_kind in texts for kind, text in texts_by_kind.items()}


def times_text(finding: Finding) -> str:
    """Format the times of both sides: ``8.00 ms → 10.0 ms``."""
    return f"{duration(finding.before)} → {duration(finding.after)}"


def relative_text(finding: Finding) -> str:
    """Format the relative change for the end of a clause; "" if the value before is 0."""
    if not finding.before:
        return ""
    return f", {share_delta((finding.after - finding.before) / finding.before)}"


def longer_or_less(finding: Finding) -> str:
    """Return the word for the direction of a difference in time."""
    return "longer" if finding.diff_ns > 0 else "less"


def capitalize(text: str) -> str:
    """Return a clause with its first letter capitalized."""
    return text[:1].upper() + text[1:]


def _a_step(diff: Comparison) -> str:
    """Return " a step" if times and counts are means over steps, else ""."""
    return " a step" if diff.before.has_steps else ""


def _is_mean_over_ranks(diff: Comparison) -> bool:
    return max(len(side.ranks) for side in diff.sides) > 1


def _join_with_and(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _cause_text(part: Finding, diff: Comparison, *, verb: bool = True) -> str:
    words = _CAUSE_WORDS | kind_words(diff)
    subject = words.get(part.measure, part.measure.replace("_", " "))
    change = "grow" if part.diff_ns > 0 else "shrink"
    if not subject.endswith("copies"):
        change += "s"
    return f"{subject}{f' {change}' if verb else ''} by {duration(abs(part.diff_ns))}"


def _late_clause(finding: Finding, diff: Comparison) -> str:
    """Return a clause such as ``rank 2 now keeps the others waiting``."""
    ranks = ", ".join(map(run_text, consecutive_runs(finding.ranks)))
    subject = f"rank{'s' if len(finding.ranks) > 1 else ''} {ranks}"
    if "appears" not in finding.details:
        return f"{subject} changed {'alone' if _is_alone(finding) else 'unlike the others'}"
    appears = finding.details["appears"]
    late_side, other_side = diff.sides[::-1] if appears else diff.sides
    if finding.ranks[0] not in other_side.traces:
        return f"{subject}, which exists only in {late_side.label}, keeps the others waiting there"
    keep = "keep" if len(finding.ranks) > 1 else "keeps"
    return f"{subject} {'now' if appears else 'no longer'} {keep} the others waiting"


def _is_alone(finding: Finding) -> bool:
    """Return whether every other rank changed by less than a quarter as much as the finding."""
    if not finding.details["is_only"]:
        return False
    others = [abs(part.diff_ns) for part in finding.parts if part.kind == "other_rank"]
    return 4 * max(others, default=0) < abs(finding.diff_ns)


def _rank_cause_text(finding: Finding, diff: Comparison) -> str:
    """Return a clause about ranks that explain a change: ``rank 2 changed alone (idle +9 %)``."""
    clause = _late_clause(finding, diff)
    if finding.measure not in _OWN_TIME_WORDS:
        return clause
    return f"{clause} ({_OWN_TIME_WORDS[finding.measure]} {_own_change_text(finding)})"


def _own_change_text(finding: Finding) -> str:
    """Return the relative change of a rank's own time, or both times if their ratio is large."""
    change = share_delta(_relative(finding))
    if finding.after > _MAX_RATIO * finding.before:
        change = times_text(finding)
    return f"{change}{cause_text(finding.details.get('reason', ''))}"


def step_times_text(finding: Finding, diff: Comparison) -> str:
    """Return how much longer a step takes, why, and how certain this is."""
    mean = " (mean over ranks)" if _is_mean_over_ranks(diff) else ""
    unit = _a_step(diff)
    if not finding.diff_ns:
        return f"After takes the same time: {duration(finding.after)}{unit}{mean}."
    text = (
        f"After takes {duration(abs(finding.diff_ns))} {longer_or_less(finding)}{unit}: "
        f"{times_text(finding)}{relative_text(finding) or ', new'}{mean}"
    )
    causes = [
        _cause_text(part, diff) if part.kind == "cause" else _rank_cause_text(part, diff)
        for part in finding.parts
    ]
    if causes:
        text += f": {' and '.join(causes)}"
    if few := finding.details.get("outlying_steps"):
        verb = "cause" if len(few) > 1 else "causes"
        text += f"; {len(few)} of {plural(diff.step_count, 'step')} {verb} most of it"
    elif finding.p_value is not None and finding.kind == "slight":
        is_doubtful = may_be_chance(finding.p_value, finding.before, finding.after)
        text += f"{'; that may be chance' * is_doubtful} ({p_value(finding.p_value)})"
    return f"{text}{_untested_text(finding, diff)}."


def _untested_text(finding: Finding, diff: Comparison) -> str:
    if not finding.details.get("is_untested"):
        return ""
    unit = "step" if diff.before.has_steps else "run"
    return f"; one {unit} on each side is too few to tell a change from noise"


def _straggler_text(finding: Finding, diff: Comparison) -> str:
    clause = capitalize(_late_clause(finding, diff))
    if "cause" in finding.details:
        cost = duration(round(abs(finding.diff_ns)))
        wait = f"the others wait {cost} on average"
        reasons = "; ".join(filter(None, (finding.details["cause"], wait)))
        return f"{clause}: {reasons}{_a_step(diff)}."
    whose = "their" if len(finding.ranks) > 1 else "its"
    change = f"{whose} {_OWN_TIME_WORDS[finding.measure]} {_own_change_text(finding)}"
    waits = _waits_text(finding)
    unit = _a_step(diff) if waits else ""
    return f"{clause}: {change}{_other_ranks_text(finding, diff)}{waits}{unit}."


def _relative(finding: Finding) -> float:
    return (finding.after - finding.before) / max(finding.before, 1)


def _other_ranks_text(finding: Finding, diff: Comparison) -> str:
    """Return the range of the other ranks' relative changes, such as `` (the others +1 %)``."""
    shares = [_relative(part) for part in finding.parts if part.kind == "other_rank"]
    if not shares:
        return ""
    ends = dict.fromkeys(share_delta(end) for end in (min(shares), max(shares)))
    on_sides = " on both sides" if lone_ranks(diff) else ""
    return f" (the others{on_sides} {' to '.join(ends)})"


def _waits_text(finding: Finding) -> str:
    """Return a clause about the ranks whose waits changed; "" if there are none."""
    waits = [part for part in finding.parts if part.kind == "wait"]
    if not waits:
        return ""
    lengths = [abs(part.diff_ns) for part in waits]
    ends = dict.fromkeys(duration(round(end)) for end in (min(lengths), max(lengths)))
    numbers = ", ".join(map(run_text, consecutive_runs(part.ranks[0] for part in waits)))
    subject = f"ranks {numbers} wait" if len(waits) > 1 else f"rank {numbers} waits"
    change = "longer" if finding.details["sign"] > 0 else "less"
    return f"; {subject} {' to '.join(ends)} {change}{' each' if len(waits) > 1 else ''}"


def _shapes_text(finding: Finding, _diff: Comparison) -> str:
    sizes = f"{count(finding.before)} → {count(finding.after)}"
    changed, calls = finding.details["changed_calls"], finding.details["calls"]
    dimension, meaning = "the first dimension", "batch size"
    if finding.measure == "sequences":
        dimension, meaning = "an inner dimension", "sequence length"
    return (
        f"Shapes: {dimension} of inputs {sizes} in {count(changed)} of "
        f"{plural(calls, 'call')} of operators, as if the {meaning} changed."
    )


def _graphs_text(finding: Finding, _diff: Comparison) -> str:
    return f"Graphs launch {share(finding.before)} → {share(finding.after)} of device work."


def _streams_text(finding: Finding, _diff: Comparison) -> str:
    shares = f"{share(finding.before)} → {share(finding.after)}"
    moved = f"most of the difference comes from {short_name(finding.name)}"
    return f"The busiest stream runs {shares} of compute kernels; {moved}."


def _kinds_text(finding: Finding, diff: Comparison) -> str:
    clauses = []
    for grows in (True, False):
        parts = [part for part in finding.parts if (part.diff_ns > 0) == grows]
        if parts:
            texts = [_cause_text(part, diff, verb=part is parts[0]) for part in parts]
            clauses.append((-abs(parts[0].diff_ns), _join_with_and(texts)))
    return f"{capitalize('; '.join(clause for _, clause in sorted(clauses)))}{_a_step(diff)}."


def _composition_text(finding: Finding, diff: Comparison) -> str:
    sides = dict.fromkeys(duration(time) for time in (finding.before, finding.after))
    times = f"{' → '.join(sides)}{_a_step(diff)}"
    subject, verb = ("steps", "take") if diff.step_count > 1 else ("step", "takes")
    if not diff.before.has_steps:
        subject, verb = "runs", "take"
    lead = f"The {subject} {verb} the same time, {times}"
    if not finding.details["is_as_long"]:
        change = share_delta(_relative(finding))
        lead = f"The change in the length of the {subject} may be chance ({times}, {change})"
    parts = [
        _cause_text(part, diff) + (f" ({share_delta(_relative(part))})" if part.before else "")
        for part in finding.parts
    ]
    mean = ", means over ranks" if _is_mean_over_ranks(diff) else ""
    return f"{lead}, but {_join_with_and(parts)}{mean}."


def _name_text(finding: Finding, diff: Comparison) -> str:
    counts = f"{mean_count(finding.before_count)} to {mean_count(finding.after_count)}"
    delta = duration_delta(finding.diff_ns)
    return f"{finding.name} goes from {counts}{_a_step(diff)} ({delta})."


def _longest_name_text(finding: Finding, diff: Comparison) -> str:
    times = f"{times_text(finding)}{relative_text(finding)}"
    return f"{finding.name} differs most: {times}{_untested_text(finding, diff)}."


def _spread_text(finding: Finding, diff: Comparison) -> str:
    moved, steps = finding.details["moved_steps"], finding.details["steps"]
    word = finding.details["direction"]
    text = f"Every step is {word}" if moved == steps else f"{moved} of {steps} steps are {word}"
    if outlying := finding.details.get("outlying_steps"):
        text = f"Only {moved} of {steps} steps {'stands' if moved == 1 else 'stand'} out as {word}"
        if moved > 1:
            text += f" ({', '.join(map(run_text, consecutive_runs(outlying)))})"
    causes = "".join(f": {_cause_text(part, diff)}" for part in finding.parts)
    if finding.step is None:
        return f"{text}, by {duration(abs(finding.diff_ns))} at most{causes}."
    return f"{text}; step {finding.step} most, {duration_delta(finding.diff_ns)}{causes}."


def _pace_text(finding: Finding, diff: Comparison) -> str:
    word = "slower" if finding.diff_ns > 0 else "faster"
    middle = math.expm1(median(math.log(part.after / part.before) for part in finding.parts))
    measures = {part.measure for part in finding.parts}
    where = f" on the {measures.pop()}" if len(measures) == 1 else ""
    return (
        f"{plural(len(finding.parts), 'operator')} are {word}{where} by a similar factor, "
        f"{share_delta(middle)} in the median: {duration_delta(finding.diff_ns)}{_a_step(diff)} "
        f"together{_paired_ranks_text(diff)}."
    )


def _paired_ranks_text(diff: Comparison) -> str:
    """Return a clause naming the ranks over which calls are averaged, if these ranks differ."""
    if not diff.by_rank_means:
        return " (mean over ranks)" if late_ranks(diff) or changed_ranks(diff) else ""
    return f" ({'mean over ' if len(diff.rank_pairs) > 1 else ''}{paired_ranks(diff)})"


def _includes_waits(finding: Finding, diff: Comparison) -> bool:
    """Return whether a change is in the time of a collective, including waits for other ranks."""
    name = finding.name
    if finding.measure == "host":
        # Only the collectives of these libraries run on the host; their calls include waits.
        return bool(re.match(HOST_LIBRARIES, name))
    is_operator = bool(re.match(rf"{HOST_COLLECTIVES}|{PARAM_COMMS}", name))
    is_collective = is_operator or kind_of("kernel", name) == "communication"
    return is_collective and not splits_communication(diff)


def _change_text(finding: Finding, diff: Comparison) -> str:
    unit = _a_step(diff)
    name = f"{short_name(finding.name)}{_caller_text(finding)}"
    if re.match(PARAM_COMMS, finding.name) and (operations := changed_operations(diff, finding)):
        name += f" ({', '.join(operation.replace('_', '-') for operation in operations)})"
    if finding.kind in {"slower", "faster"}:
        text = _time_change_text(finding, diff, name)
    elif finding.kind == "replaced":
        counts = f"{mean_count(finding.before_count)} → {mean_count(finding.after_count)}"
        text = f"Kernels of {name} were replaced{_replacement_text(finding.details)}: "
        text += f"{counts}{unit}, {_work_text(finding)}{_delta_text(finding, diff)}"
    elif finding.kind == "moved":
        text = f"{name} moved to another place ({mean_count(finding.after_count)}{unit})"
    elif min(finding.details["totals"]) > 0:
        text = _call_counts_text(finding, diff)
    else:
        word, calls = "gone", finding.before_count
        if finding.kind == "added":
            word, calls = "new", finding.after_count
        text = f"{name} is {word}: {mean_count(calls)}{unit}{_delta_text(finding, diff)}"
    return f"{text}{_paired_ranks_text(diff)}."


def _time_change_text(finding: Finding, diff: Comparison, name: str) -> str:
    unit, moved = _a_step(diff), ""
    verb = f"is {finding.kind} on the {finding.measure}"
    before, after = moved_bytes(diff, finding.name)
    if abs(after - before) >= _MIN_BYTES_RATIO * max(before, after, 1):
        verb = f"takes {longer_or_less(finding)} on the {finding.measure}"
        moved = f"; its collectives move {size(before)} → {size(after)}"
    if any(map(is_host_only, diff.before.formats)):
        verb, unit = f"takes {longer_or_less(finding)}", f"{unit} a rank"
    elif _includes_waits(finding, diff):
        verb = f"takes {longer_or_less(finding)} on the {finding.measure}"
        verb += ", including waits for other ranks"
    return f"{name} {verb}: {times_text(finding)}{unit}{relative_text(finding)}{moved}"


def _call_counts_text(finding: Finding, diff: Comparison) -> str:
    """Return a clause about an operator that lost or gained some, but not all, of its calls."""
    before, after = finding.details["totals"]
    changed = max(finding.before_count, finding.after_count)
    # Calls that are gone in one place may be new in another.
    is_total = math.isclose(changed, abs(after - before))
    if finding.kind == "added":
        word = "more" if is_total else "new"
    else:
        word = "fewer" if is_total else "gone"
    return (
        f"{short_name(finding.name)}: {mean_count(before)} → {mean_count(after)}{_a_step(diff)}, "
        f"{mean_count(changed)} {word}{_caller_text(finding)}{_delta_text(finding, diff)}"
    )


def _delta_text(finding: Finding, diff: Comparison) -> str:
    return f", {duration_delta(finding.diff_ns)}{_a_step(diff)}" if finding.diff_ns else ""


def _caller_text(finding: Finding) -> str:
    """Return a clause about the caller of a change; "" if the name is unique."""
    caller: str | None = finding.details["caller"]
    if caller is None:
        return ""
    other_count: int = finding.details["places"] - 1
    in_caller = f" in {short_name(caller)}" if caller else " outside other operators"
    return f"{in_caller} and {plural(other_count, 'other place')}" if other_count else in_caller


def _replacement_text(details: Mapping[str, Any]) -> str:
    how: str = details["how"]
    if how == "other library":
        sides = (libraries(details[word]) for word in ("before_names", "after_names"))
        return f" (another library: {' → '.join(' and '.join(side) for side in sides)})"
    return {"fused": " (fused)", "split": " (split up)"}.get(how, "")


def _work_text(finding: Finding) -> str:
    sides = [
        list(dict.fromkeys(map(short_name, finding.details[word])))
        for word in ("before_names", "after_names")
    ]
    texts = [" + ".join(names[:2]) + (" + …" if len(names) > 2 else "") for names in sides]
    if texts[0] == texts[1]:
        return f"other variants of {''.join(sides[0][:1])}"
    return " → ".join(texts)


def _caution_text(finding: Finding, _diff: Comparison) -> str:
    clause: str = finding.details.get("clause", "")
    return f"{capitalize(clause)}." if clause else _CAUTION_SENTENCES[finding.measure]


#: Sentence functions, keyed by topic, most important first.
WORDS: dict[str, Wording] = {
    "headline": step_times_text,
    "straggler": _straggler_text,
    "shapes": _shapes_text,
    "graphs": _graphs_text,
    "streams": _streams_text,
    "kinds": _kinds_text,
    "name": _name_text,
    "steps": _spread_text,
    "composition": _composition_text,
    "longest_name": _longest_name_text,
    "pace": _pace_text,
    "change": _change_text,
    "function": _change_text,
    "more": lambda finding, _: f"{plural(finding.details['count'], 'more change')} in the table.",
}
#: Topics that follow the findings of formats.
CAUTION_WORDS: dict[str, Wording] = {
    "conditions": lambda _, diff: conditions(diff),
    "caution": _caution_text,
}

"""Represents findings as data, and orders them.

A finding states what changed and by how much, in fields that programs can use. Its sentence is
added last, after findings have been sorted and repetitions removed. For a run whose second rank
computes longer after an update, the finding is

    Finding("straggler", ranks=(1,), measure="compute", before=8e6, after=10e6, unit="ns",
            diff_ns=2e6, parts=(…), details={"sign": 1, "excess_ns": 1.9e6, "appears": True})

All times and counts are means over steps, as in the sentences.

``details`` holds facts specific to one kind of finding; formats add their own:

=================  =================================================================================
kind               details
=================  =================================================================================
headline, slight   ``is_untested``: True if one step on a side is too few for a test;
                   ``outlying_steps``: numbers of the steps that stand out, if only these differ
name               ``is_untested``, unless the step's finding has it
straggler          ``sign``: 1 if it became slower, -1 if faster; ``excess_ns``: by how much more
                   its own time changed than that of the median rank; ``appears``, of ranks for
                   which others wait: True if only in the second run; ``reason``: why their devices
                   idle, empty if unknown; ``cause``: of ranks that only one side has
composition        ``is_as_long``: whether the steps take about as long as before
shapes             ``changed_calls, calls``: numbers of calls of operators
steps              ``moved_steps, steps``: numbers; ``direction``: ``slower`` or ``faster``;
                   ``outlying_steps``: numbers of the steps that stand out, if only these differ
added, removed …   ``how, path, places``: columns of `changes`; ``before_names, after_names``: these
(of `changes`)     columns as lists; ``totals``: numbers of calls before and after, in all places;
                   ``caller``: str, None if the name alone identifies the operator
more               ``count``: number of changes that are not listed
caution            ``clause``: the text of a `Caution`
=================  =================================================================================

``parts`` are the quantities with which the sentence compares the finding, here the compute of the
other ranks and their waits. `hta_widgets.diff.sentences` turns the fields into words. A new kind of
finding needs a function that returns the record, and one that returns its sentence. The latter is
listed under a topic, which determines the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes
    ----------
    kind : str
        ``headline, slight, straggler, shapes, graphs, streams, kinds, name, steps, composition,
        pace, more, caution``, a change of `changes`, or for BytePS and MPI ``stage, routine, calls,
        waiting``. Parts also have ``cause, other_rank, wait``.
    text : str
        A sentence; empty for parts.
    diff_ns : float
        The difference, as a mean over steps. For a straggler, the difference of its own time; if
        only one side has the rank, its mean cost to each other rank.
    topic : str
        The topic of the sentence, which determines its position. Default: the kind.
    ranks : tuple of int
        The ranks that the finding concerns; empty if it concerns all.
    name : str
        The operator, kernel, routine or stage.
    step : int or None
        The number of the step in the second run.
    measure : str
        The measured quantity: ``step``, a cause of `waterfall`, ``device``, ``host`` …; empty if
        the finding only lists its parts.
    before, after : float
        The two values, in `unit`: ``ns``, ``share`` of partitions, or empty if there are none.
    before_count, after_count : float
        Numbers of calls in a step, if the finding includes them.
    p_value : float or None
        The p-value of the difference; None if it is not tested.
    weight : float
        The importance among findings of the same topic.
    parts : tuple of Finding
        The quantities that the finding lists, or with which it is compared.
    details : mapping
        Further facts, depending on the kind: see the table in this module's docstring.
    """

    kind: str
    text: str = ""
    diff_ns: float = 0.0
    _: KW_ONLY
    topic: str = ""
    ranks: tuple[int, ...] = ()
    name: str = ""
    step: int | None = None
    measure: str = ""
    before: float = 0.0
    after: float = 0.0
    unit: str = ""
    before_count: float = 0.0
    after_count: float = 0.0
    p_value: float | None = None
    weight: float = 0.0
    parts: tuple[Finding, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def statement(self) -> tuple[object, ...]:
        """The finding's subject without values; equal if two records describe the same quantity."""
        return self.kind, self.measure, self.ranks, self.name, self.step


def time_change(kind: str, before: float, after: float, **fields: Any) -> Finding:
    """Return a finding about a time; a larger difference is more important."""
    gap = float(after - before)
    times: dict[str, Any] = {"before": float(before), "after": float(after), "unit": "ns"}
    return Finding(kind, diff_ns=gap, **{**times, "weight": abs(gap), **fields})


def topic_of(finding: Finding) -> str:
    """Return the topic of a finding."""
    return finding.topic or finding.kind


def rank_findings(findings: Iterable[Finding], topics: Sequence[str]) -> list[Finding]:
    """Order findings by topic, then by weight, and remove those that earlier ones include.

    A finding that only lists parts is removed if earlier findings contain all of its parts. The
    topic ``conditions`` qualifies the first finding, so it comes second.
    """
    places = {topic: place for place, topic in enumerate(topics)}
    # Formats of other packages may have findings without a topic. These precede the cautions.
    unknown = places.get("caution", len(places))
    ranked = sorted(
        findings,
        key=lambda finding: (places.get(topic_of(finding), unknown), -finding.weight),
    )
    stated = set[tuple[object, ...]]()
    results: list[Finding] = []
    for finding in ranked:
        statements = {part.statement for part in finding.parts}
        if finding.measure or not statements or not statements <= stated:
            results.append(finding)
        stated |= statements
    conditions = [finding for finding in results if topic_of(finding) == "conditions"]
    others = [finding for finding in results if topic_of(finding) != "conditions"]
    return [*others[:1], *conditions, *others[1:]]

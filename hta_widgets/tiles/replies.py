"""Types of the replies to pages; `scripts/protocol.py` writes the page's types from them.

Times are ns since the origin, durations ns.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

TableName = Literal["events", "asyncs", "instants"]
#: Types of fields; each annotation is the type in TypeScript.
Kind = Annotated[str, "Kind"]
Texts = Annotated[list[str], "[string, string]"]
Numbers = Annotated[list[int], "[number, number]"]
#: A frame by column: ``rows``, ``columns`` and ``attrs``.
Frame = Annotated[dict[str, Any], "PanelFrame"]

#: Why a request failed, for the page to act on.
ErrorCode = Literal[
    "connection_lost", "file_exists", "interrupted", "internal_error", "invalid_request",
    "no_answer", "unknown_op",
]  # fmt: skip


class ErrorReply(TypedDict):
    """The reply to a request that failed.

    `code` is the part that programs compare. `message` and `remedy` are sentences for users.
    `detail` is the end of the stack trace of an `internal_error`.
    """

    code: ErrorCode
    message: str
    remedy: NotRequired[str]
    detail: NotRequired[str]


class Brief(TypedDict):
    """A summary of an event."""

    rank: int
    table: TableName
    id: int
    lane: int
    name: str
    short: str
    kind: Kind
    start: int
    dur: int


class DetailedEvent(Brief):
    """An event and its place; `track` is the track's key, `correlation` is -1 without one."""

    category: str | None
    process: str | None
    track: str | None
    depth: int | None
    stream: int | None
    step: int | None
    correlation: int | None


class Flow(TypedDict):
    """An arrow of an event; `delay` is from the end of the source to the start of the target."""

    kind: str
    direction: Literal["out", "in"]
    brief: Brief
    delay: int


class SameName(TypedDict):
    """Durations of the events of one name and category on one rank."""

    count: int
    sum: int
    mean: float
    median: float
    min: int
    max: int
    edges: list[float]
    counts: list[int]
    scale: Literal["linear", "log"]


class LaunchedBy(TypedDict):
    """Events around the call that launched a device event; each list innermost first.

    `modules` are ``nn.Module``s and `frames` Python functions. `shapes` describe the innermost
    operator's inputs, as the file has them. `forward` is the operator of the forward pass, if the
    call belongs to the backward pass.
    """

    operators: list[Brief]
    modules: list[Brief]
    frames: list[Brief]
    shapes: str
    forward: Brief | None


class LaunchedKernels(TypedDict):
    """Device events launched by the calls in a host event, at any depth.

    `dur` is the sum of their durations, and `delay` the median time from the start of a call to the
    start of its event. `ids` is None if there are more events than a selection may name.
    """

    count: int
    dur: int
    delay: float
    ids: list[int] | None


class Launches(TypedDict):
    """The reply to ``launches``: a device event's call, or the device events of a host event.

    `kernels` is empty if there are more than can be drawn; `count` is the number of all.
    """

    call: Brief | None
    kernels: list[Brief]
    count: int


class EventDetail(TypedDict):
    """The reply to ``event``; the first of `parents` is the innermost."""

    event: DetailedEvent
    parents: list[Brief]
    args: list[Texts]
    args_error: str | None
    flows: list[Flow]
    launched_by: LaunchedBy | None
    kernels: LaunchedKernels | None
    same: SameName | None


class CallFigures(TypedDict):
    """The figures of the operator call that an event belongs to, with all its kernels.

    The columns of `analysis.operator_efficiency` for one call: `device_ns` is the time of its
    kernels. Unknown figures are None, with a `reason`.
    """

    call: Brief
    kernels: int
    device_ns: int
    flops: float | None
    least_bytes: float | None
    tflop_per_s: float | None
    gb_per_s: float | None
    roofline_share: float | None
    bound: str
    above_peak: bool
    recompute: bool
    precision: str
    certainty: str
    reason: str
    device: str
    peak_source: str
    peak_certainty: str


class EfficiencyReply(TypedDict):
    """The reply to ``efficiency``; None for an event without figures, or a job without shapes."""

    figures: CallFigures | None


class Cell(TypedDict):
    """The reply to ``cell``; `min` and `max` are a counter's, `count` is None if unknown."""

    count: int | None
    busy: int
    longest: Brief | None
    kinds: dict[Kind, int]
    min: NotRequired[float | None]
    max: NotRequired[float | None]


class HostTime(TypedDict):
    """Events of one name during a gap; `time` excludes nested events, `longest` has the most."""

    longest: Brief
    count: int
    time: int


class Gap(TypedDict):
    """An interval in which no stream of a rank's device works.

    `causes` has the times of analysis.device_idle_gaps by cause, and `host` the names with the most
    time on the thread that launches `ends`, or on the busiest one if that thread has no events;
    both longest first. `host_time` is the sum over all names. `ends` is the work that ends the gap.
    """

    rank: int
    start: int
    end: int
    causes: list[CauseTime]
    ends: Brief
    launch: Brief | None
    host: list[HostTime]
    host_time: int


class CauseTime(TypedDict):
    """The part of a gap with one cause."""

    cause: str
    time: int


class LaneGap(TypedDict):
    """A lane's interval without device work; `running` is the work of other lanes, by name."""

    start: int
    end: int
    running: list[HostTime]


class GapReply(TypedDict):
    """The reply to ``gap``; None while the device works, and before and after all of its work.

    `lane_gap` is the same for a lane alone, if the request names one.
    """

    gap: Gap | None
    lane_gap: LaneGap | None


class MatchCount(TypedDict):
    """The reply to ``search``: the number of matches of each rank that has any.

    `left_out` has the number of events of each rank that is not in the page.
    """

    total: int
    names: int
    ranks: list[Numbers]
    error: str | None
    left_out: NotRequired[list[Numbers]]


class Match(TypedDict):
    """The reply to ``find``; `index` counts from 1."""

    brief: Brief | None
    index: int
    total: int
    wrapped: bool
    error: str | None


class Neighbor(TypedDict):
    """The reply to ``neighbor``."""

    brief: Brief | None


class Snap(TypedDict):
    """The reply to ``snap``."""

    time: int | None


class Sums(TypedDict):
    """Durations of the events of one kind."""

    kind: Kind
    count: int
    sum: int
    mean: float
    min: int
    max: int
    device: int
    host: int


class NameSums(Sums):
    """Durations of the events of one kind and name."""

    name: str
    short: str


class Totals(TypedDict):
    """The reply to ``totals``; `names` has the names with the most time, of `names_total` names."""

    events: int
    kinds: list[Sums]
    names: list[NameSums]
    names_total: int
    left_out: NotRequired[list[int]]


class Stats(TypedDict):
    """The reply to ``stats``: the times of a window, one entry per rank.

    `data` is the part of the window inside the rank's range, `span` the part from its first device
    work to its last, without the time between windows of a recording. `compute`, `exposed`,
    `memory`, `unrecorded` and `idle` add up to `span`; `unrecorded` is time in which the device was
    probably busy with work that is not in the file. `kinds` has shares of the spans of all ranks;
    it is empty without device work.
    """

    start: int
    end: int
    ranks: list[int]
    compute: list[int]
    communication: list[int]
    exposed: list[int]
    memory: list[int]
    data: list[int]
    span: list[int]
    idle: list[int]
    unrecorded: list[int]
    kinds: dict[Kind, float]
    approximate: NotRequired[list[int]]


class ClockFacts(TypedDict):
    """The clock that is drawn, and how well ranks' clocks agree; see `analysis.clock_offsets`.

    `apart_ns` is the largest difference between the recorded clocks of ranks that collectives
    connect. `residual_ns` is the largest deviation of a rank on the fitted clock: the median
    distance of the ends of its collectives from the ends of the others. `is_off` is true if
    recorded clocks deviate clearly more than the fitted one. `drift_ns` is the maximum distance
    that drift causes between two ranks on the fitted clock; absent without a clear drift.
    """

    is_fitted: bool
    apart_ns: int
    residual_ns: int
    is_off: bool
    drift_ns: NotRequired[int]


class Lateness(TypedDict):
    """The reply to ``lateness``: sums over the matched collectives of a window, by rank.

    `last` counts collectives at which the rank alone came last. `wait` is the union of its waits,
    `exposed_wait` the part that no compute covers, `imposed` the wait of all others for it.
    `wait_for_late` is the union of its waits at collectives at which one of `late` alone came last.
    """

    start: int
    end: int
    ranks: list[int]
    collectives: list[int]
    last: list[int]
    wait: list[int]
    exposed_wait: list[int]
    imposed: list[int]
    wait_for_late: list[int]
    late: list[int]
    note: str
    clock: ClockFacts | None
    approximate: NotRequired[list[int]]


class Member(TypedDict):
    """One rank's part in a collective; `arrival` is relative to the first rank's arrival."""

    rank: int
    id: int
    arrival: int
    wait: int
    transfer: int


class Collective(TypedDict):
    """The same call on all ranks that take part.

    `number` counts from 1, `of` is the number of matched collectives. `size` is -1 if the file does
    not have it, `last_rank` is -1 if several ranks came last together. `late` is relative to the
    median arrival of the others.
    """

    number: int
    of: int
    name: str
    group: str
    size: int
    algbw: float | None
    busbw: float | None
    last_rank: int
    late: int
    ranks: list[Member]


class CollectiveOf(TypedDict):
    """The reply to ``collective``; None for an event that is not matched."""

    collective: Collective | None


class SimilarRanks(TypedDict):
    """A group of similar ranks; one represents the others."""

    representative: int
    ranks: list[int]
    why: str


class Outlier(TypedDict):
    """A rank that differs from the others."""

    rank: int
    why: str


class Clusters(TypedDict):
    """The reply to ``clusters``."""

    clusters: list[SimilarRanks]
    outliers: list[Outlier]
    note: str


class Panels(TypedDict):
    """The reply to ``panels``; `left` has the panels that took too long: request them next."""

    panels: dict[str, Frame]
    errors: NotRequired[dict[str, ErrorReply]]
    left: NotRequired[list[str]]


class Heatmap(TypedDict):
    """The reply to ``heatmap``; its buffer has float64 values by rank and bin."""

    ranks: list[int]
    start: int
    end: int
    bins: int
    exact: bool
    attrs: dict[str, Any]


class Frames(TypedDict):
    """The reply to ``frames``."""

    frames: dict[str, Frame]


class Partner(TypedDict):
    """The reply to ``partner``: an event's status, its partner or -1, and its call path or -1."""

    status: str | None
    rank: int
    id: int
    node: int


class PairEvents(TypedDict):
    """The reply to ``path_events`` and ``change_events``: (rank, id) before and after."""

    events: list[list[Numbers]]


class ClassCounts(TypedDict):
    """The reply to ``classes``: events of each class by run, and the same by pair of ranks."""

    counts: list[list[int]]
    pair_counts: list[list[list[int]]]


class Written(TypedDict):
    """The reply to ``save_html``, ``export_pair`` and ``export_table``."""

    path: str
    bytes: NotRequired[int]
    events: NotRequired[int]


class Exported(TypedDict):
    """The reply to ``export``; `dropped` counts arrows whose other end is not in the file."""

    path: str
    bytes: int
    events: int
    flows: int
    dropped: int


#: The type of the reply by operation.
REPLIES: dict[str, Any] = {
    "stats": Stats,
    "event": EventDetail,
    "efficiency": EfficiencyReply,
    "cell": Cell,
    "gap": GapReply,
    "launches": Launches,
    "search": MatchCount,
    "find": Match,
    "totals": Totals,
    "neighbor": Neighbor,
    "snap": Snap,
    "lateness": Lateness,
    "collective": CollectiveOf,
    "clusters": Clusters,
    "panels": Panels,
    "heatmap": Heatmap,
    "frame": Frame,
    "frames": Frames,
    "partner": Partner,
    "path_events": PairEvents,
    "change_events": PairEvents,
    "classes": ClassCounts,
    "save_html": Written,
    "export_pair": Written,
    "export_table": Written,
    "export": Exported,
}

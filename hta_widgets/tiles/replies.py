"""Types of the replies to the page. `scripts/protocol.py` generates the TypeScript types from them.

Times are in ns since the origin, durations in ns.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

TableName = Literal["events", "asyncs", "instants"]
#: Types of fields. The annotation is the type in TypeScript.
Kind = Annotated[str, "Kind"]
Texts = Annotated[list[str], "[string, string]"]
Numbers = Annotated[list[int], "[number, number]"]
#: A frame in columnar form: ``rows``, ``columns`` and ``attrs``.
Frame = Annotated[dict[str, Any], "PanelFrame"]

#: Why a request failed. The page reacts to these codes.
ErrorCode = Literal[
    "connection_lost", "file_exists", "interrupted", "internal_error", "invalid_request",
    "no_answer", "unknown_op",
]  # fmt: skip


class ErrorReply(TypedDict):
    """The reply to a failed request.

    `code` is meant for programs, `message` and `remedy` for users. `detail` is the end of the stack
    trace of an `internal_error`.
    """

    code: ErrorCode
    message: str
    remedy: NotRequired[str]
    detail: NotRequired[str]


class Brief(TypedDict):
    """The summary of an event."""

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
    """An event and where it is drawn. `track` is a track key; `correlation` is -1 if unknown."""

    category: str | None
    process: str | None
    track: str | None
    depth: int | None
    stream: int | None
    step: int | None
    correlation: int | None


class Flow(TypedDict):
    """An arrow from or to an event; `delay` lasts from the source's end to the target's start."""

    kind: str
    direction: Literal["out", "in"]
    brief: Brief
    delay: int


class SameName(TypedDict):
    """Durations of the events with the same name and category on one rank."""

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
    """Events around the call that launched a device event. Lists start with the innermost.

    `modules` are of type ``nn.Module``, `frames` are Python functions, and `shapes` are the input
    shapes of the innermost operator, as written in the file. If the call belongs to a backward
    pass, `forward` is the corresponding operator of the forward pass.
    """

    operators: list[Brief]
    modules: list[Brief]
    frames: list[Brief]
    shapes: str
    forward: Brief | None


class LaunchedKernels(TypedDict):
    """Device events launched by calls within a host event, at any depth.

    `dur` is their total duration, `delay` the median time from the start of a call to the start of
    its event. `ids` is None if there are too many for a selection.
    """

    count: int
    dur: int
    delay: float
    ids: list[int] | None


class Launches(TypedDict):
    """The reply to ``launches``: a device event's launch call, or a host event's device events.

    `kernels` is empty if there are too many to draw; `count` is their total number.
    """

    call: Brief | None
    kernels: list[Brief]
    count: int


class EventDetail(TypedDict):
    """The reply to ``event``. `parents` are ordered from innermost to outermost."""

    event: DetailedEvent
    parents: list[Brief]
    args: list[Texts]
    args_error: str | None
    flows: list[Flow]
    launched_by: LaunchedBy | None
    kernels: LaunchedKernels | None
    same: SameName | None


class CallFigures(TypedDict):
    """Figures for the operator call that an event belongs to, including all of its kernels.

    The fields are columns of `analysis.operator_efficiency`, for a single call. `device_ns` is the
    total time of the call's kernels. Unknown figures are None, and `reason` states why.
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
    """The reply to ``efficiency``: None if the event has no figures or the job lacks shapes."""

    figures: CallFigures | None


class Cell(TypedDict):
    """The reply to ``cell``. `min` and `max` are set for counters; `count` is None if unknown."""

    count: int | None
    busy: int
    longest: Brief | None
    kinds: dict[Kind, int]
    min: NotRequired[float | None]
    max: NotRequired[float | None]


class HostTime(TypedDict):
    """Events of one name in a gap. `time` excludes nested events; `longest` has the most time."""

    longest: Brief
    count: int
    time: int


class Gap(TypedDict):
    """An interval in which all streams of a device are idle.

    `causes` has the times by cause, as in analysis.device_idle_gaps, and `ends` is the work that
    ends the gap. `host` has the names with the most time on the thread that launched `ends`, or on
    the busiest thread if the launching thread has no events. The lists are in descending order of
    time. `host_time` is the total over all names.
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
    """The time in a gap due to one cause."""

    cause: str
    time: int


class LaneGap(TypedDict):
    """An interval without work on a lane. `running` is the work on other lanes, by name."""

    start: int
    end: int
    running: list[HostTime]


class GapReply(TypedDict):
    """The reply to ``gap``: None while the device works, before its first work and after its last.

    `lane_gap` is the gap on a single lane, if the request names a lane.
    """

    gap: Gap | None
    lane_gap: LaneGap | None


class MatchCount(TypedDict):
    """The reply to ``search``: match counts of the ranks that have matches.

    `left_out` has the event counts of the ranks that are not in the page.
    """

    total: int
    names: int
    ranks: list[Numbers]
    error: str | None
    left_out: NotRequired[list[Numbers]]


class Match(TypedDict):
    """The reply to ``find``. `index` is counted from 1."""

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
    """Statistics of the events of one kind."""

    kind: Kind
    count: int
    sum: int
    mean: float
    min: int
    max: int
    device: int
    host: int


class NameSums(Sums):
    """Statistics of the events of one kind and name."""

    name: str
    short: str


class Totals(TypedDict):
    """The reply to ``totals``. `names` has the names with the most time, out of `names_total`."""

    events: int
    kinds: list[Sums]
    names: list[NameSums]
    names_total: int
    left_out: NotRequired[list[int]]


class Stats(TypedDict):
    """The reply to ``stats``: times in a window, with one entry per rank.

    `data` is the part of the window in which the rank has data. `span` extends from its first to
    its last device work in the window, excluding pauses between recording windows. `compute`,
    `exposed`, `memory`, `unrecorded` and `idle` add up to `span`; in `unrecorded` time, the device
    was probably busy with work missing from the file. `kinds` has shares of the total span of all
    ranks, and is empty without device work.
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
    """The clock in use, and how well the clocks of ranks agree. See `analysis.clock_offsets`.

    `apart_ns` is the largest difference between the recorded clocks of ranks that take part in
    common collectives. `residual_ns` is the largest deviation of a rank on the fitted clock,
    defined as the median distance of the ends of its collectives from the ends on other ranks.
    `is_off` is true if the recorded clocks deviate clearly more than the fitted ones. `drift_ns` is
    the largest distance between two ranks due to drift on the fitted clock. It is absent if the
    drift is not clear.
    """

    is_fitted: bool
    apart_ns: int
    residual_ns: int
    is_off: bool
    drift_ns: NotRequired[int]


class Lateness(TypedDict):
    """The reply to ``lateness``: sums over the matched collectives in a window, by rank.

    `last` counts collectives in which the rank alone came last. `wait` is the union of its waits,
    `exposed_wait` the part not covered by compute, and `imposed` the wait of all other ranks for
    it. `wait_for_late` is the union of its waits at collectives in which a rank in `late` alone
    came last.
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
    """A rank's part in a collective. `arrival` is relative to the first arrival on any rank."""

    rank: int
    id: int
    arrival: int
    wait: int
    transfer: int


class Collective(TypedDict):
    """The same call on all participating ranks.

    `number` is counted from 1, up to the number of matched collectives, `of`. `size` is -1 if the
    file does not state it, `last_rank` is -1 if several ranks came last at the same time. `late` is
    relative to the median arrival of the other ranks.
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
    """The reply to ``collective``: None if the event is not matched."""

    collective: Collective | None


class SimilarRanks(TypedDict):
    """Similar ranks, and the rank that represents them."""

    representative: int
    ranks: list[int]
    why: str


class Outlier(TypedDict):
    """A rank that is not similar to the other ranks."""

    rank: int
    why: str


class Clusters(TypedDict):
    """The reply to ``clusters``."""

    clusters: list[SimilarRanks]
    outliers: list[Outlier]
    note: str


class Panels(TypedDict):
    """The reply to ``panels``. `left` has panels that were not ready in time; request them next."""

    panels: dict[str, Frame]
    errors: NotRequired[dict[str, ErrorReply]]
    left: NotRequired[list[str]]


class Heatmap(TypedDict):
    """The reply to ``heatmap``. Its buffer has float64 values by rank and bin."""

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
    """The reply to ``partner``: an event's status, partner and call path; -1 if it has none."""

    status: str | None
    rank: int
    id: int
    node: int


class PairEvents(TypedDict):
    """The reply to ``path_events`` and ``change_events``: (rank, id) pairs, before and after."""

    events: list[list[Numbers]]


class ClassCounts(TypedDict):
    """The reply to ``classes``: event counts per run and class, and per pair of ranks."""

    counts: list[list[int]]
    pair_counts: list[list[list[int]]]


class Written(TypedDict):
    """The reply to ``save_html``, ``export_pair`` and ``export_table``."""

    path: str
    bytes: NotRequired[int]
    events: NotRequired[int]


class Exported(TypedDict):
    """The reply to ``export``. `dropped` counts arrows to events that are not in the file."""

    path: str
    bytes: int
    events: int
    flows: int
    dropped: int


#: Reply types by operation.
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

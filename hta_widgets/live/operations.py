"""Types and validation of the requests from pages, and the exchange of requests and replies.

A request is a struct whose tag is its ``op``. The method ``_on_OP`` of an engine answers it: for
example, ``{"op": "gap", "rank": 0, "time": 90}`` becomes a `GapRequest` for ``_on_gap``.

From these structs, `scripts/protocol.py` writes the types of the page and the rows of
docs/protocol-requests.md.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, Protocol, TypedDict

from msgspec import Meta, Struct, ValidationError, field

from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.live.background import PENDING, NotReadyError, deadline_after
from hta_widgets.tiles.replies import ErrorCode, ErrorReply, TableName

Answer = tuple[Mapping[str, Any], bytes | None]

MAX_LEVEL = 52
MAX_BINS: int = facts("limits")["heatmap_bins"]
Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
#: Times since the origin. The length of any window fits int64.
Time = Annotated[int, Meta(ge=-(1 << 61), le=1 << 62)]
Bins = Annotated[int, Meta(ge=1, le=1 << 16)]
Lanes = Annotated[list[Count], Meta(max_length=1 << 20)]
Ranks = Annotated[list[Count], Meta(max_length=1 << 20)]
Direction = Annotated[int, Meta(ge=-1, le=1)]
Name = Annotated[str, Meta(max_length=1000)]
Names = Annotated[list[Name], Meta(max_length=1000)]
Text = Annotated[str, Meta(max_length=10_000)]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]


class SelectionJson(TypedDict, total=False):
    """`Selection.to_json`; a field that is left out does not restrict the selection."""

    start_ns: Time | float | Name | None
    end_ns: Time | float | Name | None
    ranks: Ranks | None
    tracks: Annotated[list[str | tuple[Count, str]], Meta(max_length=1 << 20)] | None
    query: Annotated[str, Meta(max_length=1 << 20)] | None
    ids: Annotated[list[tuple[Count, Count]], Meta(max_length=1 << 22)] | None
    launches: bool


class Place(TypedDict):
    """The position from which a search starts."""

    rank: Count
    start: Time
    table: NotRequired[TableName | None]
    id: NotRequired[Time]


class Request(Struct, kw_only=True, tag_field="op", rename={"from_": "from"}):
    """A message from a page."""

    within_ms: Annotated[float, Meta(ge=0, le=600_000)] | None = None

    @property
    def deadline(self) -> float:
        """The end of `within_ms` from now on, as a value of `time.perf_counter`."""
        return deadline_after(self.within_ms)


class _Window(Request, kw_only=True):
    """A request for a window, in ns since the origin."""

    start: Time
    end: Time


class _Write(Request, kw_only=True):
    """A request to write a file, in `options.export_dir`."""

    path: FilePath
    #: whether to replace an existing file
    overwrite: bool = False


class Part(Struct):
    """Tiles of some lanes: `first` to `last` (exclusive)."""

    lanes: Lanes
    first: Time
    last: Time


class TilesRequest(Request, tag="tiles", kw_only=True):
    """Tiles of lanes, to draw them."""

    level: Annotated[int, Meta(ge=0, le=MAX_LEVEL)]
    parts: Annotated[list[Part], Meta(max_length=1 << 16)]
    most_bytes: Count | None = None
    classed: bool = False
    compact: bool = False
    gzip: bool = False


class StatsRequest(_Window, tag="stats", kw_only=True):
    """Device time of a window, by kind and rank."""

    ranks: Ranks | None = None


class MinimapRequest(Request, tag="minimap", kw_only=True):
    """Device time of the whole job, in bins."""

    bins: Bins


class EventRequest(Request, tag="event", kw_only=True):
    """All details of one event."""

    rank: Count
    id: Count
    table: TableName = "events"


class CellRequest(_Window, tag="cell", kw_only=True):
    """The events of a lane in a window."""

    lane: Count


class GapRequest(Request, tag="gap", kw_only=True):
    """Why a rank's device, or one of its lanes, is idle at an instant."""

    rank: Count
    time: Time
    lane: Count | None = None


class LaunchesRequest(Request, tag="launches", kw_only=True):
    """The call that launched an event, and what was launched during it."""

    rank: Count
    id: Count


class SearchTextRequest(Request, tag="search", kw_only=True):
    """The number of events that match the search text."""

    text: Text


class FindRequest(Request, tag="find", kw_only=True):
    """The next event that matches the search text."""

    text: Text
    from_: Place | None = field(default=None, name="from")
    direction: Direction = 1


class MarksRequest(_Window, tag="marks", kw_only=True):
    """The bins with events that match the search text or a selection, by lane."""

    bins: Bins
    lanes: Lanes
    text: Text = ""
    selection: SelectionJson | None = None


class TotalsRequest(Request, tag="totals", kw_only=True):
    """Counts and durations of a selection, by kind and name."""

    selection: SelectionJson | None = None


class NeighborRequest(EventRequest, tag="neighbor", kw_only=True):
    """The event before or after another in its lane."""

    direction: Direction = 1


class SnapRequest(Request, tag="snap", kw_only=True):
    """The nearest edge of an event in a lane."""

    lane: Count
    time: Time
    tolerance: Time


class LatenessRequest(_Window, tag="lateness", kw_only=True):
    """Waits and late arrivals of a window, by rank."""


class CollectiveRequest(Request, tag="collective", kw_only=True):
    """One call of a collective, on all ranks."""

    rank: Count
    id: Count


class EfficiencyRequest(Request, tag="efficiency", kw_only=True):
    """FLOPs, bytes and rates of the operator call that an event belongs to."""

    rank: Count
    id: Count


class RibbonRequest(_Window, tag="ribbon", kw_only=True):
    """Lateness of each rank at collectives, in bins."""

    bins: Bins
    ranks: Ranks | None = None


class ClustersRequest(Request, tag="clusters", kw_only=True):
    """Groups of similar ranks."""


class PanelsRequest(Request, tag="panels", kw_only=True):
    """Frames of a dashboard's panels."""

    panels: Names
    selection: SelectionJson | None = None
    top: Count | None = None


class HeatmapRequest(_Window, tag="heatmap", kw_only=True):
    """One metric of each rank, in bins."""

    metric: Name
    bins: Annotated[int, Meta(ge=1, le=MAX_BINS)]
    selection: SelectionJson | None = None


class HeadlineRequest(Request, tag="headline", kw_only=True):
    """The headline; the trait `_headline` holds it after the reply."""


class TableRequest(Request, tag="table", kw_only=True):
    """A panel's table as a file."""

    panel: Name
    format: Literal["csv", "parquet"]


class ExportTableRequest(_Write, tag="export_table", kw_only=True):
    """Write a panel's table."""

    name: Name


class SaveHtmlRequest(_Write, tag="save_html", kw_only=True):
    """Write a page."""

    max_mb: Annotated[float, Meta(ge=0, le=10_000)] = 25


class ExportRequest(_Write, tag="export", kw_only=True):
    """Write a selection as a trace."""

    selection: SelectionJson | None = None
    clip: bool = False
    launches: bool = False
    counters: bool = False
    scrub: bool = False


class OfflineRequest(Request, tag="offline", kw_only=True):
    """Data with which the page works without a kernel, in chunks."""

    chunk: Count | None = None


class FrameRequest(Request, tag="frame", kw_only=True):
    """One table of a comparison."""

    name: Name


class FramesRequest(Request, tag="frames", kw_only=True):
    """Several tables of a comparison."""

    names: Names


class PartnerRequest(Request, tag="partner", kw_only=True):
    """The counterpart of an event in the other run."""

    of: Literal[0, 1]
    rank: Count
    id: Count
    pair: Count | None = None


class PathEventsRequest(Request, tag="path_events", kw_only=True):
    """The calls of one path."""

    node: Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)]
    pair: Count | None = None


class ChangeEventsRequest(Request, tag="change_events", kw_only=True):
    """The calls of one change."""

    row: Count
    pair: Count | None = None


class ClassesRequest(Request, tag="classes", kw_only=True):
    """The number of events of each class of change."""


class ExportPairRequest(_Write, tag="export_pair", kw_only=True):
    """Write both runs as one trace."""


JOB = (
    TilesRequest, StatsRequest, MinimapRequest, EventRequest, CellRequest, GapRequest,
    LaunchesRequest, SearchTextRequest, FindRequest, MarksRequest, TotalsRequest,
    NeighborRequest, SnapRequest, LatenessRequest, CollectiveRequest, EfficiencyRequest,
    RibbonRequest, ClustersRequest, ExportRequest, SaveHtmlRequest, OfflineRequest,
)  # fmt: skip
DASHBOARD = (PanelsRequest, HeatmapRequest, HeadlineRequest, TableRequest, ExportTableRequest)
COMPARISON = (
    FrameRequest, FramesRequest, PartnerRequest, PathEventsRequest,
    ChangeEventsRequest, ClassesRequest, ExportPairRequest,
)  # fmt: skip
#: Every request by the name of its operation.
OPERATIONS: dict[str, type[Request]] = {
    str(kind.__struct_config__.tag): kind for kind in (*JOB, *DASHBOARD, *COMPARISON)
}


class RequestError(TraceError):
    """A failure with a code that the page handles; the code of other errors is `no_answer`."""

    def __init__(self, message: str, *, code: ErrorCode, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code


def error_reply(failure: BaseException) -> ErrorReply:
    """Return the error of a reply for what a request raised."""
    if isinstance(failure, KeyboardInterrupt):
        return {
            "code": "interrupted",
            "message": "The kernel was interrupted.",
            "remedy": "Ask again.",
        }
    if not isinstance(failure, ValueError):
        detail = "".join(traceback.format_exception(failure, limit=-6))
        message = f"{type(failure).__name__}: {failure}"
        return {"code": "internal_error", "message": message, "detail": detail}
    code = failure.code if isinstance(failure, RequestError) else "no_answer"
    message, remedy = str(failure), failure.remedy if isinstance(failure, TraceError) else ""
    if not remedy:
        return {"code": code, "message": message}
    return {"code": code, "message": message.removesuffix(f" {remedy}"), "remedy": remedy}


def answer(request: Mapping[str, Any], *answerers: object) -> Answer:
    """Answer a request by the first of `answerers` with a method for it, such as ``_on_tiles``."""
    if not isinstance(request, Mapping):
        name = type(request).__name__
        raise RequestError(f"a request is a JSON object, got a {name}", code="invalid_request")
    op = request.get("op")
    struct = OPERATIONS.get(op) if isinstance(op, str) else None
    handler = _handler_of(op, answerers)
    if struct is None or handler is None:
        ops = ", ".join(name for name in OPERATIONS if _handler_of(name, answerers))
        raise RequestError(f"unknown op {op!r}; the ops are {ops}", code="unknown_op")
    try:
        checked = convert({**request, **_whole_times(request)}, struct)
    except ValidationError as error:
        raise RequestError(
            f"the request {op} is not understood: {error}", code="invalid_request"
        ) from None
    try:
        reply: Answer = handler(checked)
    except NotReadyError:
        return PENDING, None
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"the request {op} has no answer: {error}") from None
    return reply


def _handler_of(op: object, answerers: tuple[object, ...]) -> Callable[..., Answer] | None:
    handlers = (getattr(answerer, f"_on_{op}", None) for answerer in answerers)
    return next(filter(None, handlers), None)


def _whole_times(request: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: int(time)
        for name in ("start", "end", "time", "tolerance")
        if isinstance(time := request.get(name), float) and math.isfinite(time)
    }


class _Messenger(Protocol):
    def send(self, content: object, buffers: list[Any] | None = None) -> None: ...

    def on_msg(self, callback: Callable[[Any, Any, list[Any]], None]) -> None: ...


def serve(widget: _Messenger, answer: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer every ``{"rpc", "op", …}`` message of `widget` with `answer`.

    Errors are sent as replies, because Jupyter does not show errors of message handlers.
    """

    def handle(_widget: Any, content: Any, _buffers: list[Any]) -> None:
        if not isinstance(content, dict) or "rpc" not in content:
            return
        token = content["rpc"]
        try:
            reply, buffer = answer(content)
            buffers = [] if buffer is None else [buffer]
            widget.send({"rpc": token, "ok": True, "reply": reply}, buffers)
        except (Exception, KeyboardInterrupt) as failure:  # noqa: BLE001 - the page must get any
            widget.send({"rpc": token, "ok": False, "error": error_reply(failure)})

    widget.on_msg(handle)

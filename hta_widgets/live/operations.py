"""Define and validate the requests of pages, and dispatch them to the engines.

A request is a struct tagged with its ``op``. It is answered by an engine's method ``_on_OP``. For
example, ``{"op": "gap", "rank": 0, "time": 90}`` is passed to ``_on_gap`` as a `GapRequest`.

`scripts/protocol.py` generates the page's types and the tables of docs/protocol-requests.md from
these structs.
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
#: Times in ns since the origin. The limits ensure that the length of any window fits in int64.
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
    """`Selection.to_json`. Omitted fields do not restrict the selection."""

    start_ns: Time | float | Name | None
    end_ns: Time | float | Name | None
    ranks: Ranks | None
    tracks: Annotated[list[str | tuple[Count, str]], Meta(max_length=1 << 20)] | None
    query: Annotated[str, Meta(max_length=1 << 20)] | None
    ids: Annotated[list[tuple[Count, Count]], Meta(max_length=1 << 22)] | None
    launches: bool


class Place(TypedDict):
    """The position at which a search starts."""

    rank: Count
    start: Time
    table: NotRequired[TableName | None]
    id: NotRequired[Time]


class Request(Struct, kw_only=True, tag_field="op", rename={"from_": "from"}):
    """A message from a page."""

    within_ms: Annotated[float, Meta(ge=0, le=600_000)] | None = None

    @property
    def deadline(self) -> float:
        """The time `within_ms` from now, as a `time.perf_counter` value."""
        return deadline_after(self.within_ms)


class _Window(Request, kw_only=True):
    """A request about a window, in ns since the origin."""

    start: Time
    end: Time


class _Event(Request, kw_only=True):
    """A request about the event `id` of a rank."""

    rank: Count
    id: Count


class _Write(Request, kw_only=True):
    """A request that writes a file to `options.export_dir`."""

    path: FilePath
    #: whether to replace an existing file
    overwrite: bool = False


class Part(Struct):
    """A range of tiles in some lanes, from `first` up to but excluding `last`."""

    lanes: Lanes
    first: Time
    last: Time


class TilesRequest(Request, tag="tiles", kw_only=True):
    """The tiles of some lanes, for drawing."""

    level: Annotated[int, Meta(ge=0, le=MAX_LEVEL)]
    parts: Annotated[list[Part], Meta(max_length=1 << 16)]
    most_bytes: Count | None = None
    classed: bool = False
    compact: bool = False
    gzip: bool = False


class StatsRequest(_Window, tag="stats", kw_only=True):
    """The device time in a window, by kind and rank."""

    ranks: Ranks | None = None


class MinimapRequest(Request, tag="minimap", kw_only=True):
    """The device time of the whole job, in bins."""

    bins: Bins


class EventRequest(_Event, tag="event", kw_only=True):
    """All details of an event."""

    table: TableName = "events"


class CellRequest(_Window, tag="cell", kw_only=True):
    """The events of a lane in a window."""

    lane: Count


class GapRequest(Request, tag="gap", kw_only=True):
    """The reason why a rank's device or one of its lanes is idle at a given time."""

    rank: Count
    time: Time
    lane: Count | None = None


class LaunchesRequest(_Event, tag="launches", kw_only=True):
    """The call that launched an event, and the work launched during the event."""


class SearchTextRequest(Request, tag="search", kw_only=True):
    """The number of events that match the search text."""

    text: Text


class FindRequest(Request, tag="find", kw_only=True):
    """The next event that matches the search text."""

    text: Text
    from_: Place | None = field(default=None, name="from")
    direction: Direction = 1


class MarksRequest(_Window, tag="marks", kw_only=True):
    """The bins of each lane with events that match the search text or a selection."""

    bins: Bins
    lanes: Lanes
    text: Text = ""
    selection: SelectionJson | None = None


class TotalsRequest(Request, tag="totals", kw_only=True):
    """The number and total duration of selected events, by kind and name."""

    selection: SelectionJson | None = None


class NeighborRequest(EventRequest, tag="neighbor", kw_only=True):
    """The previous or next event in the same lane."""

    direction: Direction = 1


class SnapRequest(Request, tag="snap", kw_only=True):
    """The event edge in a lane that is nearest to a given time."""

    lane: Count
    time: Time
    tolerance: Time


class LatenessRequest(_Window, tag="lateness", kw_only=True):
    """The waiting time and late arrivals of each rank in a window."""


class CollectiveRequest(_Event, tag="collective", kw_only=True):
    """A collective call, with its events on all ranks."""


class EfficiencyRequest(_Event, tag="efficiency", kw_only=True):
    """The FLOPs, bytes and rates of the operator call to which an event belongs."""


class RibbonRequest(_Window, tag="ribbon", kw_only=True):
    """The lateness of each rank at collectives, in bins."""

    bins: Bins
    ranks: Ranks | None = None


class ClustersRequest(Request, tag="clusters", kw_only=True):
    """Groups of ranks that behave similarly."""


class PanelsRequest(Request, tag="panels", kw_only=True):
    """Frames of dashboard panels."""

    panels: Names
    selection: SelectionJson | None = None
    top: Count | None = None


class HeatmapRequest(_Window, tag="heatmap", kw_only=True):
    """A metric of each rank, in bins."""

    metric: Name
    bins: Annotated[int, Meta(ge=1, le=MAX_BINS)]
    selection: SelectionJson | None = None


class HeadlineRequest(Request, tag="headline", kw_only=True):
    """The headline. After the reply, the trait `_headline` contains it."""


class TableRequest(Request, tag="table", kw_only=True):
    """The table of a panel as a file."""

    panel: Name
    format: Literal["csv", "parquet"]


class ExportTableRequest(_Write, tag="export_table", kw_only=True):
    """Write the table of a panel to a file."""

    name: Name


class SaveHtmlRequest(_Write, tag="save_html", kw_only=True):
    """Write a page."""

    max_mb: Annotated[float, Meta(ge=0, le=10_000)] = 25


class ExportRequest(_Write, tag="export", kw_only=True):
    """Write a selection to a trace file."""

    selection: SelectionJson | None = None
    clip: bool = False
    launches: bool = False
    counters: bool = False
    scrub: bool = False


class OfflineRequest(Request, tag="offline", kw_only=True):
    """The data that the page needs to work without a kernel, in chunks."""

    chunk: Count | None = None


class FrameRequest(Request, tag="frame", kw_only=True):
    """A frame of a comparison."""

    name: Name


class FramesRequest(Request, tag="frames", kw_only=True):
    """Several frames of a comparison."""

    names: Names


class PartnerRequest(Request, tag="partner", kw_only=True):
    """The event in the other run that is matched with an event."""

    of: Literal[0, 1]
    rank: Count
    id: Count
    pair: Count | None = None


class PathEventsRequest(Request, tag="path_events", kw_only=True):
    """The events of a call path."""

    node: Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)]
    pair: Count | None = None


class ChangeEventsRequest(Request, tag="change_events", kw_only=True):
    """The events of a change."""

    row: Count
    pair: Count | None = None


class ClassesRequest(Request, tag="classes", kw_only=True):
    """The number of events in each change class."""


class ExportPairRequest(_Write, tag="export_pair", kw_only=True):
    """Write both runs to a single trace file."""


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
#: All request types, keyed by operation name.
OPERATIONS: dict[str, type[Request]] = {
    str(kind.__struct_config__.tag): kind for kind in (*JOB, *DASHBOARD, *COMPARISON)
}


class RequestError(TraceError):
    """An error with a code that the page handles. All other errors have the code `no_answer`."""

    def __init__(self, message: str, *, code: ErrorCode, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code


def error_reply(failure: BaseException) -> ErrorReply:
    """Convert an exception raised by a request to the error of its reply."""
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
    message = str(failure)
    if not isinstance(failure, TraceError) or not failure.remedy:
        return {"code": code, "message": message}
    message = message.removesuffix(f" {failure.remedy}")
    return {"code": code, "message": message, "remedy": failure.remedy}


def answer(request: Mapping[str, Any], *answerers: object) -> Answer:
    """Answer a request with the first of `answerers` that has a handler such as ``_on_tiles``."""
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
            f"the request {op} is invalid: {error}", code="invalid_request"
        ) from None
    try:
        reply: Answer = handler(checked)
    except NotReadyError:
        return PENDING, None
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"the request {op} cannot be answered: {error}") from None
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
    """Answer each ``{"rpc", "op", …}`` message of `widget` by calling `answer`.

    Errors are sent as replies, since Jupyter does not display exceptions of message handlers.
    """

    def handle(_widget: Any, content: Any, _buffers: list[Any]) -> None:
        if not isinstance(content, dict) or "rpc" not in content:
            return
        token = content["rpc"]
        try:
            reply, buffer = answer(content)
            buffers = [] if buffer is None else [buffer]
            widget.send({"rpc": token, "ok": True, "reply": reply}, buffers)
        except (Exception, KeyboardInterrupt) as failure:  # noqa: BLE001 - sent to the page
            widget.send({"rpc": token, "ok": False, "error": error_reply(failure)})

    widget.on_msg(handle)

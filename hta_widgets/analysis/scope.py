"""The selected events rank by rank, and result frames."""

from __future__ import annotations

import inspect
import re
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import Time, as_window
from hta_widgets.trace.columns import EventTable, Pool
from hta_widgets.trace.intervals import Intervals, clip, union
from hta_widgets.trace.memo import memo, walked
from hta_widgets.trace.selection import Selection, as_ranks, device_index_of, member_rows
from hta_widgets.trace.trace import Trace, dtype_of
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.workers import Closed, result_of, submit, workers_of

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Window = tuple[Time, Time]
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

#: How many selections of a rank are kept, so that analyses of one share what they find, and how
#: many times its events they may hold together.
_MOST_PARTS = 16
_MOST_ROWS = 3

#: Notebooks answer their pages beside the cell that runs, and pages' data is made beside both.
_keeping = threading.Lock()

#: Kinds in which a device is busy.
BUSY: tuple[str, ...] = ("compute", "communication", "memory")


class Scope(TypedDict, total=False):
    """The keywords by which every analysis narrows the events that it works on."""

    selection: Selection | None
    window: Window | None
    ranks: Iterable[int] | None


#: How docstrings describe the parameters that analyses share.
_SHARED = {
    "traces": "traces : TraceSet\n",
    "selection": """selection : Selection, optional
    The events to work on; all by default.
""",
    "window": """window : (start_ns, end_ns), optional
    Narrows the selection in time.
""",
    "ranks": """ranks : iterable of int, optional
    Narrows the selection to these ranks.
""",
}


def scoped(function: Function) -> Function:
    """Show the keywords of `Scope` in the signature and the docstring of an analysis.

    Use with ``**scope: Unpack[Scope]``. A docstring that describes one of them itself keeps its
    own text.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__
        )
        for name, kind in Scope.__annotations__.items()
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *shared])
    doc = inspect.cleandoc(function.__doc__ or "")
    before, returns, after = doc.partition("\nReturns\n-------\n")
    head, title, described = before.partition("\nParameters\n----------\n")
    missing = {
        name: text
        for name, text in _SHARED.items()
        if not re.search(rf"^(\w+, )*{name}\b.*( :|$)", described, re.MULTILINE)
    }
    described = missing.pop("traces", "") + described + "".join(missing.values())
    title = title or "\nParameters\n----------\n"
    function.__doc__ = head.rstrip() + "\n" + title + described + returns + after
    return function


@dataclass(frozen=True, eq=False)
class Part:
    """The selected events of one rank.

    Times are those of `Trace.table`; add ``trace.shift_ns`` for the times that users see.
    """

    trace: Trace
    rows: Rows
    low: int | None
    high: int | None
    plain: bool = False
    chosen_by: Selection = field(default_factory=Selection)
    _found: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what was found under this key, or find it; nobody may change it."""
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]
        return found

    @property
    def rank(self) -> int:
        """The rank's key in its set."""
        return self.trace.rank

    @property
    def table(self) -> EventTable:
        """The rank's columns."""
        return self.trace.table

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Codes of the kinds of `rows`; collectives on the host are no communication here."""
        return device_index_of(self.trace).kind[self.rows]

    @cached_property
    def kind_counts(self) -> Ints:
        """How many of the events are of each kind."""
        if self.plain and self.low is None and self.high is None:
            return device_index_of(self.trace).kind_counts
        return np.bincount(self.kinds, minlength=len(KINDS))

    def of_kinds(self, *kinds: str) -> Rows:
        """Return the selected events of these kinds, ascending."""
        return self.once(("rows", kinds), lambda: self._of_kinds(kinds))

    def _of_kinds(self, kinds: tuple[str, ...]) -> Rows:
        if self.plain:
            return device_index_of(self.trace).of_kinds_within(kinds, self.low, self.high)
        wanted = np.zeros(len(KINDS), dtype=bool)
        wanted[[KINDS.index(kind) for kind in kinds]] = True
        return self.rows[wanted[self.kinds]]

    def has(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which of some events are selected."""
        if len(self.rows) == len(self.table):
            return np.ones(len(rows), dtype=bool)
        return self._is_selected[rows]

    @cached_property
    def _is_selected(self) -> npt.NDArray[np.bool_]:
        flags = np.zeros(len(self.table), dtype=bool)
        flags[self.rows] = True
        return flags

    def busy_rows(self) -> Rows:
        """Return the selected device work, ascending: computing, communicating and copying."""
        return self.of_kinds(*BUSY)

    @property
    def whole(self) -> Part:
        """The events that the same selection holds at all times."""
        if self.low is None and self.high is None:
            return self
        return part_of(self.trace, replace(self.chosen_by, start_ns=None, end_ns=None))

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The window, from the first start to the last end of selected device work of all times.

        Whether the device idles in a window is told by the work around it, so that times of
        adjacent windows add up to those of both. None where the window lies before or after.
        """
        first, last = self.whole.edges or (0, 0)
        low = first if self.low is None else max(first, self.low)
        high = last if self.high is None else min(last, self.high)
        return (low, high) if low < high or len(self.busy_rows()) else None

    @cached_property
    def edges(self) -> tuple[int, int] | None:
        """The first start and the last end of the selected device work; None for none.

        Of an export, those of the rank's work in the job.
        """
        start, end = self.clipped(self.busy_rows())
        stated = self.trace.stated_work_ns
        if not len(start):
            return stated if self.plain else None
        first, last = int(start.min()), int(end.max())
        return (first, last) if stated is None else (min(first, stated[0]), max(last, stated[1]))

    def clipped_edges(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends, cut at the window's edges."""
        return (
            start if self.low is None else np.maximum(start, self.low),
            end if self.high is None else np.minimum(end, self.high),
        )

    def clipped(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return starts and ends of some events, cut at the window's edges."""
        start = self.table.start_ns[rows]
        return self.clipped_edges(start, start + self.table.dur_ns[rows])

    def durations(self, rows: Rows) -> Ints:
        """Return how long some events last within the window."""
        start, end = self.clipped(rows)
        return end - start

    def covered(self, *kinds: str) -> Intervals:
        """Return when, within the window, any selected event of these kinds runs."""
        if self.plain:
            return self.covered_by_all(*kinds)
        return self.once(("covered", kinds), lambda: self._covered(kinds))

    def _covered(self, kinds: tuple[str, ...]) -> Intervals:
        whole = self.whole
        if whole is not self:
            return clip(whole.covered(*kinds), self.low, self.high)
        return union(*self.clipped(self.of_kinds(*kinds)))

    def covered_by_all(self, *kinds: str) -> Intervals:
        """Return when, within the window, any event of these kinds runs, selected or not.

        Whether communication is hidden is a matter of what else its rank does then.
        """
        return self.once(
            ("covered by all", kinds),
            lambda: clip(device_index_of(self.trace).covered(kinds), self.low, self.high),
        )


class Parts(Sequence[Part]):
    """The selected events of several ranks, rank by rank.

    They are found when they are asked for. Whoever goes through them lets each go before the next,
    unless all fit into what may be kept; so hold on to what is found of a part, not to the part.
    """

    def __init__(self, traces: Sequence[Trace], selection: Selection, executor: Any = None) -> None:
        self.traces = list(traces)
        self.selection = selection
        self.executor = executor
        self.kind_counts: dict[int, Ints] = {}

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""
        return [trace.rank for trace in self.traces]

    def __len__(self) -> int:
        return len(self.traces)

    @overload
    def __getitem__(self, place: int) -> Part: ...

    @overload
    def __getitem__(self, place: slice) -> list[Part]: ...

    def __getitem__(self, place: int | slice) -> Part | list[Part]:
        if isinstance(place, slice):
            return [part_of(trace, self.selection) for trace in self.traces[place]]
        return part_of(self.traces[place], self.selection)

    def __iter__(self) -> Iterator[Part]:
        for trace in walked(self.traces):
            part = part_of(trace, self.selection)
            yield part
            self.kind_counts[trace.rank] = part.kind_counts

    def counts(self) -> Ints:
        """Return how many events are of each kind, over all ranks."""
        unknown = [trace for trace in self.traces if trace.rank not in self.kind_counts]
        for trace in walked(unknown):
            self.kind_counts[trace.rank] = part_of(trace, self.selection).kind_counts
        total = np.zeros(len(KINDS), dtype=np.int64)
        for rank in self.ranks:
            total += self.kind_counts[rank]
        return total


def narrowed(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> Selection:
    """Return the selection of what satisfies all three; a text is a query over event columns."""
    if isinstance(traces, Trace):
        raise TraceError(
            "analyses work on sets of traces, not on one rank of a set",
            remedy=f"Give the set, and ranks=[{traces.rank}].",
        )
    if not isinstance(traces, TraceSet):
        raise TraceError(
            f"analyses work on a TraceSet, not on {type(traces).__name__}",
            remedy="Load it first: traces = hw.load(path).",
        )
    if isinstance(selection, str):
        selection = traces.select(selection)
    chosen = Selection() if selection is None else selection
    if not isinstance(chosen, Selection):
        raise TraceError(
            f"{selection!r} is no selection",
            remedy="Give traces.select(...), or a query such as \"kind == 'compute'\".",
        )
    start, end = chosen.start_ns, chosen.end_ns
    if window is not None:
        window = as_window(window)
        start = window[0] if start is None else max(start, window[0])
        end = window[1] if end is None else min(end, window[1])
        end = max(start, end)
    exported = traces.window_ns
    if exported is not None:
        # What events do outside of it says nothing of the job.
        start = exported[0] if start is None else max(start, exported[0])
        end = max(exported[1] if end is None else min(end, exported[1]), start)
    if ranks is not None:
        ranks = set(as_ranks(ranks))
        missing = sorted(ranks - set(traces.ranks))
        if missing:
            raise TraceError(
                f"no rank {', '.join(map(str, missing))}",
                remedy=f"The ranks are {', '.join(map(str, traces.ranks))}.",
            )
        if chosen.ranks is not None:
            ranks &= set(chosen.ranks)
    return traces.select(chosen, start_ns=start, end_ns=end, ranks=ranks)


def parts(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> Parts:
    """Return the selected events, rank by rank; ranks that are not selected are left out."""
    chosen = narrowed(traces, selection, window, ranks)
    return Parts(
        [trace for trace in traces.values() if chosen.ranks is None or trace.rank in chosen.ranks],
        chosen,
        traces.executor,
    )


def part_of(trace: Trace, selection: Selection) -> Part:
    """Return the events of one rank that a selection of it holds; it is kept for a while."""
    # Whoever asks for other ranks, or for another set of the same traces, gets the same.
    selection = Selection(
        selection.start_ns,
        selection.end_ns,
        None,
        selection.tracks,
        selection.query,
        selection.ids,
    )
    # By the clock's shift, as `TraceSet.with_clock` shares a rank's results.
    kept: OrderedDict[Selection, Part] = memo(trace, ("parts", trace.shift_ns), OrderedDict)
    with _keeping:
        known = kept.get(selection)
        if known is not None:
            kept.move_to_end(selection)
            return known
    shift = trace.shift_ns
    made = Part(
        trace,
        member_rows(selection, trace),
        None if selection.start_ns is None else selection.start_ns - shift,
        None if selection.end_ns is None else selection.end_ns - shift,
        selection.tracks is None and selection.query is None and selection.ids is None,
        selection,
    )
    with _keeping:
        kept[selection] = made
        while len(kept) > 1 and (
            len(kept) > _MOST_PARTS
            or sum(len(part.rows) for part in kept.values()) > _MOST_ROWS * len(trace)
        ):
            kept.popitem(last=False)
    return made


def on_hosts_note(traces: Iterable[Trace]) -> str:
    """Describe communication that libraries run on the hosts, without device events."""
    found = Counter[str]()
    for trace in walked(list(traces)):
        table = trace.table
        names = enumerate(table.names.values)
        codes = [k for k, name in names if re.match(taxonomy.HOST_COLLECTIVES, name)]
        rows = np.flatnonzero(np.isin(table.name, codes) & (table.stream < 0))
        found.update(table.names[code] for code in table.name[rows].tolist())
    if not found:
        return ""
    most = max(found, key=found.__getitem__)
    return (
        f"the hosts have {sum(found.values())} events of communication, such as {most}, which are"
        " no device work and not counted here"
    )


def count_kinds(chosen: Sequence[Part], kinds: Sequence[str] = BUSY) -> dict[str, int]:
    """Return how many selected events are of each kind, also where there are none."""
    if isinstance(chosen, Parts):
        counts = chosen.counts()
    else:
        counts = np.zeros(len(KINDS), dtype=np.int64)
        for part in chosen:
            counts += part.kind_counts
    return {kind: int(counts[KINDS.index(kind)]) for kind in kinds}


_BATCHES = 4  # for each worker: who is done early takes another
_UNDER_WAY = 2  # batches for each worker

_Each = Sequence[tuple[Any, ...]]


def over_ranks(
    over: TraceSet | Parts | Sequence[Trace],
    function: Callable[..., T],
    *args: Any,
    each: _Each | None = None,
    executor: Executor | None = None,
) -> Iterator[T]:
    """Yield what a function returns of each rank, in the order of the ranks.

    Of stored ranks, what was read and derived of one is let go before the next, unless all of them
    fit into what may be kept (`hta_widgets.trace.memo`). On an executor ranks are worked on in
    batches, a few of which are under way at once; ranks that are in memory here are not sent.
    """
    parts = over if isinstance(over, Parts) else None
    traces: Sequence[Trace]
    if isinstance(over, TraceSet):
        traces = list(over.values())
    else:
        traces = over.traces if isinstance(over, Parts) else over
    if executor is None:
        executor = getattr(over, "executor", None)
    if executor is not None and traces and all(trace.in_file for trace in traces):
        yield from _elsewhere(executor, traces, parts, function, args, each)
    else:
        yield from _here(traces, parts, function, args, each)


def prelaunched_note(chosen: Parts) -> str:
    """Say how much of the selected device work was launched before recording began."""
    counts = np.array(list(over_ranks(chosen, _prelaunched)), dtype=np.int64).reshape(-1, 3)
    count, early_ns, all_ns = counts.sum(axis=0).tolist()
    if not count:
        return ""
    share = int(100 * early_ns / max(all_ns, 1) + 0.5)
    exported = any(trace.stated_work_ns is not None for trace in chosen.traces)
    what = "the exported window" if exported else "recording"
    return (
        f"{count} of the device events, {share} % of their time, were launched before {what}"
        ' began; the query "prelaunched == False" leaves them out'
    )


def _prelaunched(part: Part) -> tuple[int, int, int]:
    """Return how many selected device events are, how long they last, and how long all do."""
    rows = part.busy_rows()
    dur_ns, mine = part.durations(rows), part.trace.prelaunched[rows]
    return int(mine.sum()), int(dur_ns[mine].sum()), int(dur_ns.sum())


def _here(
    traces: Sequence[Trace],
    parts: Parts | None,
    function: Callable[..., T],
    args: tuple[Any, ...],
    each: _Each | None,
) -> Iterator[T]:
    selection = None if parts is None else parts.selection
    own: Sequence[tuple[Any, ...]] = [()] * len(traces) if each is None else each
    for trace, more in zip(walked(traces), own, strict=True):
        found, counts = _of_rank(trace, selection, function, (*args, *more))
        if counts is not None and parts is not None:
            parts.kind_counts[trace.rank] = counts
        yield found


def _of_rank(
    trace: Trace, selection: Selection | None, function: Callable[..., T], args: tuple[Any, ...]
) -> tuple[T, Ints | None]:
    if selection is None:
        return function(trace, *args), None
    part = part_of(trace, selection)
    return function(part, *args), part.kind_counts


# --- elsewhere ------------------------------------------------------------------------------------


def _elsewhere(
    executor: Executor,
    traces: Sequence[Trace],
    parts: Parts | None,
    function: Callable[..., T],
    args: tuple[Any, ...],
    each: _Each | None,
) -> Iterator[T]:
    selection = None if parts is None else parts.selection
    workers = workers_of(executor)
    batches = deque(np.array_split(np.arange(len(traces)), min(len(traces), workers * _BATCHES)))
    sent: deque[tuple[list[int], Future[Any]]] = deque()
    while batches or sent:
        while batches and len(sent) < workers * _UNDER_WAY:
            places = batches[0].tolist()
            own = None if each is None else [each[place] for place in places]
            batch = [traces[place] for place in places]
            try:
                future = submit(executor, _of_batch, batch, selection, function, args, own)
            except Closed:
                # What is left is done here.
                break
            batches.popleft()
            sent.append((places, future))
        if not sent:
            rest = [int(place) for batch in batches for place in batch]
            own = None if each is None else [each[place] for place in rest]
            yield from _here([traces[place] for place in rest], parts, function, args, own)
            return
        places, future = sent.popleft()
        for place, (found, counts) in zip(places, result_of(future), strict=True):
            if counts is not None and parts is not None:
                parts.kind_counts[traces[place].rank] = counts
            yield found


def _of_batch(
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    each: _Each | None,
) -> list[tuple[Any, Ints | None]]:
    own: Sequence[tuple[Any, ...]] = [()] * len(traces) if each is None else each
    return [
        _of_rank(trace, selection, function, (*args, *more))
        for trace, more in zip(walked(traces), own, strict=True)
    ]


def result(
    columns: Mapping[str, Any],
    *,
    matched: Mapping[str, int],
    note: str = "",
    copy: bool = True,
    **attrs: Any,
) -> pd.DataFrame:
    """Return a frame of `columns`, in their order and with their dtypes."""
    frame = pd.DataFrame(dict(columns), copy=copy)
    frame.attrs["matched"] = {key: int(count) for key, count in matched.items()}
    if note or not len(frame):
        frame.attrs["note"] = note or "no events match"
    frame.attrs.update(attrs)
    return frame


def joined(arrays: Sequence[npt.NDArray[Any]], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """Put one array per rank below each other; of `dtype` also where there are none."""
    if not len(arrays):
        return np.empty(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)


def joined_columns(
    blocks: Sequence[Mapping[str, npt.NDArray[Any]]], names: Iterable[str], **dtypes: Any
) -> dict[str, npt.NDArray[Any]]:
    """Put the columns of one block per rank below each other: int64, or what `dtypes` say."""
    return {
        name: joined([block[name] for block in blocks], dtypes.get(name, np.int64))
        for name in names
    }


def by_column(rows: Iterable[Sequence[Any]], dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows, values in the order of `dtypes`, as columns; also where there are no rows."""
    values = list(zip(*rows, strict=True)) or [()] * len(dtypes)
    return {
        name: pd.Series(column, dtype=object) if dtype is object else np.array(column, dtype)
        for (name, dtype), column in zip(dtypes.items(), values, strict=True)
    }


def categorical(codes: npt.NDArray[Any], values: Sequence[str]) -> pd.Categorical:
    """Return strings given as codes into distinct `values`."""
    return pd.Categorical.from_codes(codes, dtype=dtype_of(values))


def used_texts(
    codes: npt.NDArray[Any], texts: Sequence[str] | Pool
) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return codes into the strings that occur, and these strings."""
    used, code = np.unique(codes, return_inverse=True)
    return code.astype(np.int32), [texts[one] for one in used.tolist()]


def stacked(blocks: Sequence[Mapping[str, Any]], dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """Put the columns of one block per rank below each other.

    Columns of dtype ``str`` are pairs of codes and strings in blocks, and become categorical.
    """
    columns: dict[str, Any] = {}
    for name, dtype in dtypes.items():
        values = [block[name] for block in blocks]
        if dtype is str:
            pool = Pool()
            numbers = [np.array([pool.add(text) for text in own], np.int32) for _, own in values]
            codes = [own[code] for own, (code, _) in zip(numbers, values, strict=True)]
            columns[name] = categorical(joined(codes, np.int32), pool.values)
        else:
            columns[name] = joined(values, dtype)
    return columns

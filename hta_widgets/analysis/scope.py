"""Select the events of each rank that an analysis works on, and build its result frame."""

from __future__ import annotations

import inspect
import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, TypedDict, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import Time, as_window
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Codes,
    Ints,
    Rows,
    compact_codes,
    group_statistics,
    mask_of_rows,
)
from hta_widgets.trace.columns import EventTable, StringPool
from hta_widgets.trace.intervals import Intervals, clip, union
from hta_widgets.trace.memo import LRU, iter_ranks, memo, memoized
from hta_widgets.trace.selection import (
    Selection,
    device_trace_index,
    member_rows,
    resolve_ranks,
    window_in_table_time,
)
from hta_widgets.trace.trace import Trace, categorical_dtype
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.workers import ExecutorClosedError, result_of, submit, workers_of

Window = tuple[Time, Time]
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

_COMMUNICATION = KINDS.index("communication")
#: Limits per rank: the number of cached selections, and their events as a multiple of the rank's.
_MAX_PARTS = 16
_MAX_ROWS = 3

#: Kinds of events that keep a device busy.
DEVICE_WORK_KINDS: tuple[str, ...] = ("compute", "communication", "memory")


def codes_of(kinds: Iterable[str]) -> list[int]:
    """Return the codes of kinds."""
    return [KINDS.index(kind) for kind in kinds]


def device_work_rows(trace: Trace) -> Rows:
    """Return the device work of a rank: computing, communicating and copying."""
    table = trace.table
    return np.flatnonzero(
        (table.stream >= 0) & mask_of_rows(codes_of(DEVICE_WORK_KINDS), len(KINDS))[table.kind]
    )


class Scope(TypedDict, total=False):
    """Keywords that narrow the events an analysis works on."""

    selection: Selection | None
    window: Window | None
    ranks: Iterable[int] | None


#: Docstrings of the parameters that analyses share.
_SHARED = {
    "traces": "traces : TraceSet\n",
    "clock": """clock : {"host", "fitted"}, optional
    The clock of the arrivals at collectives. Default: the fitted one, or that of the set if no
    collective is on two ranks.
""",
    "include_memory": """include_memory : bool, default True
    Whether copies and fills count.
""",
    "selection": """selection : Selection, optional
    The events to work on; all by default. Times are on the clock of its set, which a view may have
    fitted.
""",
    "window": """window : (start_ns, end_ns), optional
    Narrows the selection in time.
""",
    "ranks": """ranks : iterable of int, optional
    Narrows the selection to these ranks.
""",
}


def with_scope(function: Function) -> Function:
    """Show the keywords of `Scope` in the signature of an analysis, and describe shared parameters.

    Use with ``**scope: Unpack[Scope]``. Arguments are `check_arguments`, and traces are put on the
    clock of the selection. A docstring that describes a parameter itself keeps its own text.
    """
    signature = inspect.signature(function)
    own_parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__
        )
        for name, kind in Scope.__annotations__.items()
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own_parameters, *shared])
    doc = inspect.cleandoc(function.__doc__ or "")
    before, returns, after = doc.partition("\nReturns\n-------\n")
    head, title, described = before.partition("\nParameters\n----------\n")
    missing = {
        name: text
        for name, text in _SHARED.items()
        if name in {*signature.parameters, *Scope.__annotations__}
        and not re.search(rf"^(\w+, )*{name}\b.*( :|$)", described, re.MULTILINE)
    }
    described = missing.pop("traces", "") + described + "".join(missing.values())
    title = title or "\nParameters\n----------\n"
    function.__doc__ = head.rstrip() + "\n" + title + described + returns + after

    @wraps(function)
    def on_its_clock(traces: Any, *arguments: Any, **named: Any) -> Any:
        given = named.get("selection")
        on = given.traces if isinstance(given, Selection) else None
        if on is not None and isinstance(traces, TraceSet):
            traces = traces.with_clock(on.clock)
        return function(traces, *arguments, **named)

    return cast("Function", check_arguments(on_its_clock))


@dataclass(frozen=True, eq=False)
class RankPart:
    """The selected events of one rank.

    Times are on the clock of `Trace.table`; add ``trace.shift_ns`` before returning them to users.
    """

    trace: Trace
    rows: Rows
    low: int | None
    high: int | None
    plain: bool = False
    chosen_by: Selection = field(default_factory=Selection)
    _found: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def cached(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the result kept under `key`, computed on first use. Callers must not change it."""
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
    def kinds(self) -> Codes:
        """Codes of the kinds of `rows`; collectives on the host do not count as communication."""
        return device_trace_index(self.trace).kind[self.rows]

    @cached_property
    def kind_counts(self) -> Ints:
        """Number of selected events by kind."""
        if self.plain and self.low is None and self.high is None:
            return device_trace_index(self.trace).kind_counts
        return np.bincount(self.kinds, minlength=len(KINDS))

    def rows_of_kinds(self, *kinds: str) -> Rows:
        """Return the selected events of these kinds, ascending."""

        def find() -> Rows:
            if self.plain:
                return device_trace_index(self.trace).rows_of_kinds_within(
                    kinds, self.low, self.high
                )
            return self.rows[mask_of_rows(codes_of(kinds), len(KINDS))[self.kinds]]

        return self.cached(("rows", kinds), find)

    def contains(self, rows: Rows) -> Bools:
        """Return whether each of some events is selected."""
        if len(self.rows) == len(self.table):
            return np.ones(len(rows), dtype=bool)
        return self._is_selected[rows]

    @cached_property
    def _is_selected(self) -> Bools:
        return mask_of_rows(self.rows, len(self.table))

    def device_work_rows(self) -> Rows:
        """Return the selected device work, ascending: computing, communicating and copying."""
        return self.rows_of_kinds(*DEVICE_WORK_KINDS)

    @property
    def without_window(self) -> RankPart:
        """The same selection without its window."""
        if self.low is None and self.high is None:
            return self
        return rank_part(self.trace, replace(self.chosen_by, start_ns=None, end_ns=None))

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The window, limited to the time from the first to the last selected device work.

        The work outside the window counts as well, so that idle times of adjacent windows add up.
        None if the window lies before or after all work.
        """
        first, last = self.without_window.edges or (0, 0)
        low = first if self.low is None else max(first, self.low)
        high = last if self.high is None else min(last, self.high)
        return (low, high) if low < high or len(self.device_work_rows()) else None

    @cached_property
    def edges(self) -> tuple[int, int] | None:
        """The first start and the last end of the selected device work; None without work.

        In an exported window these are the edges of the rank's work in the whole job.
        """
        start, end = self.clip_rows(self.device_work_rows())
        stated = self.trace.stated_work_ns
        if not len(start):
            return stated if self.plain else None
        first, last = int(start.min()), int(end.max())
        return (first, last) if stated is None else (min(first, stated[0]), max(last, stated[1]))

    def clip_edges(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Cut starts and ends at the window's edges."""
        return (
            start if self.low is None else np.maximum(start, self.low),
            end if self.high is None else np.minimum(end, self.high),
        )

    def clip_rows(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return starts and ends of some events, cut at the window's edges."""
        start = self.table.start_ns[rows]
        return self.clip_edges(start, start + self.table.dur_ns[rows])

    def durations(self, rows: Rows) -> Ints:
        """Return the durations of some events within the window."""
        start, end = self.clip_rows(rows)
        return end - start

    def union_of_kinds(self, *kinds: str) -> Intervals:
        """Return the times in the window at which a selected event of these kinds runs."""
        if self.plain:
            return self.union_of_all_of_kinds(*kinds)

        def find() -> Intervals:
            if self.without_window is not self:
                return clip(self.without_window.union_of_kinds(*kinds), self.low, self.high)
            return union(*self.clip_rows(self.rows_of_kinds(*kinds)))

        return self.cached(("covered", kinds), find)

    def with_window(self, low: int | None, high: int | None) -> RankPart:
        """Return a part of the same events, cut at another window, which is on the set's clock."""
        shift = self.trace.shift_ns
        low, high = (None if edge is None else edge - shift for edge in (low, high))
        return replace(self, low=low, high=high, plain=False)

    def is_in_window(self, time_ns: Ints) -> Bools:
        """Return which times of the table are in the window."""
        inside = np.ones(len(time_ns), dtype=bool)
        if self.low is not None:
            inside &= time_ns >= self.low
        if self.high is not None:
            inside &= time_ns < self.high
        return inside

    def union_of_all_of_kinds(self, *kinds: str) -> Intervals:
        """Return the times in the window at which any event of the kinds runs, selected or not."""
        # Computing hides communication even if only the communication is selected.
        return self.cached(
            ("covered by all", kinds),
            lambda: clip(device_trace_index(self.trace).union_of_kinds(kinds), self.low, self.high),
        )


class RankParts:
    """The selected events of several ranks.

    A part is computed when it is accessed. Iterating releases each rank before the next unless all
    fit into the memory limit, so keep results of a part, not the part.
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

    def __getitem__(self, place: int) -> RankPart:
        return rank_part(self.traces[place], self.selection)

    def __iter__(self) -> Iterator[RankPart]:
        for trace in iter_ranks(self.traces):
            part = rank_part(trace, self.selection)
            yield part
            self.kind_counts[trace.rank] = part.kind_counts

    def counts(self) -> Ints:
        """Return the number of events by kind, over all ranks."""
        unknown = [trace for trace in self.traces if trace.rank not in self.kind_counts]
        for trace in iter_ranks(unknown):
            self.kind_counts[trace.rank] = rank_part(trace, self.selection).kind_counts
        total = np.zeros(len(KINDS), dtype=np.int64)
        for rank in self.ranks:
            total += self.kind_counts[rank]
        return total


def narrow_selection(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> Selection:
    """Return the intersection of all three; `selection` may be a query over event columns."""
    if isinstance(selection, str):
        selection = traces.select(selection)
    chosen = Selection() if selection is None else selection
    if not isinstance(chosen, Selection):
        raise TraceError(
            f"{selection!r} is not a selection",
            remedy="Give traces.select(...), or a query such as \"kind == 'compute'\".",
        )
    start, end = chosen.start_ns, chosen.end_ns
    # An export lacks events outside of its window, so this window always applies.
    windows = None if window is None else as_window(window), traces.window_ns
    for low, high in filter(None, windows):
        start = low if start is None else max(start, low)
        end = max(high if end is None else min(end, high), start)
    if ranks is not None:
        ranks = resolve_ranks(traces, ranks)
        if chosen.ranks is not None:
            ranks = set(ranks) & set(chosen.ranks)
    return traces.select(chosen, start_ns=start, end_ns=end, ranks=ranks)


def require_columns(frame: pd.DataFrame, remedy: str, columns: Iterable[str]) -> None:
    """Raise a `TraceError` that names the missing columns, if there are any."""
    missing = [name for name in columns if name not in frame]
    if missing:
        named = ", ".join(f"'{name}'" for name in missing)
        raise TraceError(
            f"the frame has no column{'s' if len(missing) > 1 else ''} {named}", remedy=remedy
        )


def rank_parts(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> RankParts:
    """Return the selected events of each selected rank."""
    chosen = narrow_selection(traces, selection, window, ranks)
    return RankParts(
        [trace for trace in traces.values() if chosen.ranks is None or trace.rank in chosen.ranks],
        chosen,
        traces.executor,
    )


def rank_part(trace: Trace, selection: Selection) -> RankPart:
    """Return the events of one rank in a selection; results of recent selections are cached."""
    # The result does not depend on other selected ranks, nor on the set that holds the trace.
    selection = replace(selection, ranks=None, traces=None)
    limit = _MAX_ROWS * len(trace)
    kept: LRU[Selection, RankPart] = memo(
        trace,
        ("parts", trace.shift_ns),
        lambda: LRU(limit, lambda part: max(len(part.rows), limit // _MAX_PARTS)),
    )
    return kept.get_or_compute(
        selection,
        lambda: RankPart(
            trace,
            member_rows(selection, trace),
            *window_in_table_time(selection, trace),
            selection.tracks is None and selection.query is None and selection.ids is None,
            selection,
        ),
    )


@memoized
def host_collectives(trace: Trace) -> Rows:
    """Return the collectives that libraries run on a rank's host, each once.

    A collective is a range of its library (``gloo:all_reduce``). PyTorch's call for it
    (``c10d::allreduce_``) counts only if the file has no such ranges and no communication on the
    device, which the call may have launched.
    """
    table = trace.table
    for pattern in (taxonomy.HOST_LIBRARIES, taxonomy.HOST_CALLS):
        codes = [k for k, name in enumerate(table.names.values) if re.match(pattern, name)]
        rows = np.flatnonzero(np.isin(table.name, codes) & (table.stream < 0))
        if len(rows) or ((table.kind == _COMMUNICATION) & (table.stream >= 0)).any():
            return rows
    return rows


def host_names(trace: Trace) -> Counter[str]:
    """Count a rank's collectives on the host by name."""
    table = trace.table
    return Counter(table.names[code] for code in table.name[host_collectives(trace)].tolist())


def on_hosts_note(
    counts: Iterable[Counter[str]],
    meaning: str = "which are not device work and not counted here",
) -> str:
    """Describe communication that libraries run on the hosts, counted by `host_names`."""
    totals = sum(counts, Counter[str]())
    if not totals:
        return ""
    most = max(totals, key=totals.__getitem__)
    return f"the hosts have {totals.total()} events of communication, such as {most}, {meaning}"


def prelaunched_note(chosen: RankParts) -> str:
    """Describe the share of the selected device work that was launched before recording began."""
    counts = np.array(list(map_ranks(chosen, _prelaunched_time)), dtype=np.int64).reshape(-1, 3)
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


def _prelaunched_time(part: RankPart) -> tuple[int, int, int]:
    """Return the number and duration of prelaunched device events, and the duration of all."""
    rows = part.device_work_rows()
    dur_ns, mine = part.durations(rows), part.trace.prelaunched[rows]
    return int(mine.sum()), int(dur_ns[mine].sum()), int(dur_ns.sum())


def count_by_kind(chosen: RankParts, kinds: Sequence[str] = DEVICE_WORK_KINDS) -> dict[str, int]:
    """Return the number of selected events by kind; 0 for kinds without events."""
    counts = chosen.counts()
    return {kind: int(counts[KINDS.index(kind)]) for kind in kinds}


def statistics_by_name(
    part: RankPart, rows: Rows
) -> tuple[dict[str, Array], npt.NDArray[np.int32]]:
    """Return columns of statistics of durations by name and kind, and the row of each event."""
    table = part.table
    key = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    code, occurring = compact_codes(key, len(table.names) * len(KINDS))
    lasts = group_statistics(code, len(occurring), part.durations(rows))
    names = [table.names[name] for name in (occurring // len(KINDS)).tolist()]
    columns = {
        "rank": np.full(len(occurring), part.rank, dtype=np.int64),
        "kind": occurring % len(KINDS),
        "name": np.array(names, dtype=object),
        "count": lasts.count,
        "sum_ns": lasts.sum,
        "min_ns": lasts.min,
        "max_ns": lasts.max,
        "std_ns": lasts.std,
    }
    return columns, code


_BATCHES_PER_WORKER = 4  # per worker, so that one that finishes early takes another
_BATCHES_IN_FLIGHT = 2  # batches per worker

_Each = Sequence[tuple[Any, ...]]
_RankResult = tuple[Any, Ints | None]  # a rank's result, and its number of events by kind


def map_ranks(
    over: TraceSet | RankParts | Sequence[Trace],
    function: Callable[..., T],
    *args: Any,
    each: _Each | None = None,
    executor: Executor | None = None,
) -> Iterator[T]:
    """Yield the result of ``function(rank, *args, *each[i])`` for each rank, in order.

    Data of a stored rank is released before the next, unless all fit into the memory limit
    (`hta_widgets.trace.memo`). An executor receives batches of ranks, a few at a time, if all ranks
    are in files.
    """
    parts = over if isinstance(over, RankParts) else None
    if isinstance(over, TraceSet):
        traces: Sequence[Trace] = list(over.values())
    else:
        traces = over.traces if isinstance(over, RankParts) else over
    selection = None if parts is None else parts.selection
    if executor is None:
        executor = getattr(over, "executor", None)
    arguments = [args] * len(traces) if each is None else [(*args, *more) for more in each]
    if executor is not None and traces and all(trace.in_file for trace in traces):
        found = _map_elsewhere(executor, traces, selection, function, arguments)
    else:
        found = _map_here(traces, selection, function, arguments)
    for trace, (value, counts) in zip(traces, found, strict=True):
        if counts is not None and parts is not None:
            parts.kind_counts[trace.rank] = counts
        yield value


def _map_here(
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    arguments: _Each,
) -> Iterator[_RankResult]:
    for trace, args in zip(iter_ranks(traces), arguments, strict=True):
        if selection is None:
            yield function(trace, *args), None
        else:
            part = rank_part(trace, selection)
            yield function(part, *args), part.kind_counts


def _map_elsewhere(
    executor: Executor,
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    arguments: _Each,
) -> Iterator[_RankResult]:
    workers = workers_of(executor)
    edges = np.linspace(0, len(traces), min(len(traces), workers * _BATCHES_PER_WORKER) + 1).astype(
        int
    )
    batches = deque(pairwise(edges.tolist()))
    sent: deque[Future[Any]] = deque()
    while batches or sent:
        while batches and len(sent) < workers * _BATCHES_IN_FLIGHT:
            low, high = batches[0]
            work = traces[low:high], selection, function, arguments[low:high]
            try:
                sent.append(submit(executor, _run_batch, *work))
            except ExecutorClosedError:
                break
            batches.popleft()
        if not sent:
            # The executor is closed: the remaining ranks run in this process.
            low = batches[0][0]
            yield from _map_here(traces[low:], selection, function, arguments[low:])
            return
        yield from result_of(sent.popleft())


def _run_batch(*work: Any) -> list[_RankResult]:
    return list(_map_here(*work))


def result_frame(
    columns: Mapping[str, Any],
    *,
    matched: Mapping[str, int],
    note: str | Iterable[str] = "",
    copy: bool = True,
    **attrs: Any,
) -> pd.DataFrame:
    """Return a frame of `columns`, in their order and with their dtypes, and its attributes."""
    frame = pd.DataFrame(dict(columns), copy=copy)
    note = note if isinstance(note, str) else "; ".join(filter(None, note))
    frame.attrs["matched"] = {key: int(count) for key, count in matched.items()}
    if note or not len(frame):
        frame.attrs["note"] = note or "no events match"
    frame.attrs.update(attrs)
    return frame


def concat_arrays(arrays: Sequence[Array], dtype: Any = np.int64) -> Array:
    """Concatenate one array per rank; the result is of `dtype` even without arrays."""
    if not len(arrays):
        return np.empty(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)


#: Dtypes of columns by the letter after their names.
_DTYPES: dict[str, Any] = {
    "": np.int64,
    "i": np.int32,
    "u": np.uint64,
    "f": np.float64,
    "b": np.bool_,
    "s": object,
    "t": str,
    "c": "category",
}


def dtypes_of(columns: str) -> dict[str, Any]:
    """Return the dtypes of columns such as ``"rank mean_ns:f"``; int64 without a letter."""
    pairs = (column.partition(":") for column in columns.split())
    return {name: _DTYPES[letter] for name, _, letter in pairs}


def stack_blocks(blocks: Sequence[Mapping[str, Any]], columns: str) -> dict[str, Any]:
    """Concatenate the columns of one block per rank, see `dtypes_of`.

    A single value fills its block. Blocks hold categories as codes and strings.
    """
    sizes = [
        next(len(array) for array in block.values() if isinstance(array, np.ndarray))
        for block in blocks
    ]
    whole: dict[str, Any] = {}
    for name, dtype in dtypes_of(columns).items():
        values = [block[name] for block in blocks]
        if dtype == "category":
            pool = StringPool()
            numbers = [
                np.array([pool.add(text) for text in texts], np.int32) for _, texts in values
            ]
            codes = [
                codes_of_pool[code]
                for codes_of_pool, (code, _) in zip(numbers, values, strict=True)
            ]
            whole[name] = categorical(concat_arrays(codes, np.int32), pool.values)
            continue
        if dtype is str:
            whole[name] = pd.array([text for texts in values for text in texts], dtype="str")
            continue
        arrays = [
            np.broadcast_to(np.asarray(array, dtype), size)
            for array, size in zip(values, sizes, strict=True)
        ]
        column = concat_arrays(arrays, dtype)
        whole[name] = pd.Series(column, dtype=object) if dtype is object else column
    return whole


def columns_of_rows(rows: Iterable[Iterable[Any]], columns: str) -> dict[str, Any]:
    """Return rows as columns, see `dtypes_of`."""
    dtypes = dtypes_of(columns)
    values = list(zip(*rows, strict=True)) or [()] * len(dtypes)
    return {
        name: pd.Series(column, dtype=object) if dtype is object else np.array(column, dtype)
        for (name, dtype), column in zip(dtypes.items(), values, strict=True)
    }


def categorical(codes: Array, values: Sequence[str]) -> pd.Categorical:
    """Return a categorical of strings, given as codes into distinct `values`."""
    return pd.Categorical.from_codes(codes, dtype=categorical_dtype(values))


def drop_unused_texts(
    codes: Array, texts: Sequence[str] | StringPool
) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return codes into the strings that occur, and these strings."""
    used, code = np.unique(codes, return_inverse=True)
    return code.astype(np.int32), [texts[one] for one in used.tolist()]

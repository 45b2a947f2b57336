"""Memoized results of ranks, trace sets and comparisons, and the limit on their memory.

A rank of a store can release its columns and results, and read or compute them again later. Its
results count toward a limit that all trace sets share. Above the limit, the least recently used
ranks are released.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary

from hta_widgets import taxonomy


class ComputationCancelled(BaseException):
    """Raised to end a computation whose result is not needed any more."""


#: Set while the interpreter exits and waits for its threads.
is_ending = threading.Event()
#: Whether the running work is canceled; set by `hta_widgets.live.background`.
is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("cancelled", default=is_ending.is_set)


def raise_if_cancelled() -> None:
    """Raise `ComputationCancelled` in canceled work; called between ranks."""
    if is_cancelled.get()():
        raise ComputationCancelled


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Cache with a limited total size that evicts the least recently used values first.

    Threads may share it. A pickled copy is empty.
    """

    def __init__(
        self,
        limit: int,
        size_of: Callable[[V], int] | None = None,
        on_evict: Callable[[V], object] | None = None,
    ) -> None:
        self.used = 0
        self._limit, self._size_of, self._on_evict = limit, size_of, on_evict
        #: value and size by key, the least recently used first
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as most recently used; None if it is missing."""
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key][0]

    def put(self, key: K, value: V) -> V:
        """Set the value of `key`, and return it."""
        size = 1 if self._size_of is None else self._size_of(value)
        evicted = []
        with self._lock:
            if key in self._items:
                self.used -= self._items.pop(key)[1]
            self._items[key] = value, size
            self.used += size
            while self.used > self._limit and len(self._items) > 1:
                old, old_size = self._items.popitem(last=False)[1]
                self.used -= old_size
                evicted.append(old)
        self._evict(evicted)
        return value

    def get_or_compute(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`, computing it if it is missing."""
        value = self.get(key)
        return self.put(key, make()) if value is None else value

    def values(self) -> list[V]:
        """Return all values, the most recently used last."""
        with self._lock:
            return [value for value, _ in self._items.values()]

    def clear(self) -> None:
        """Remove all values."""
        evicted = self.values()
        with self._lock:
            self._items.clear()
            self.used = 0
        self._evict(evicted)

    def _evict(self, values: list[V]) -> None:
        if self._on_evict is not None:
            for value in values:
                self._on_evict(value)

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self._limit, "size_of": self._size_of, "on_evict": self._on_evict}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class MemoOwner(Protocol):
    """A rank, trace set or comparison with memoized results."""

    @property
    def memo(self) -> dict[Any, Any]:
        """Results by key; see `memo`."""


class MappedRank(MemoOwner, Protocol):
    """A rank whose memory can be released if its columns are mapped from a file."""

    @property
    def is_mapped(self) -> bool:
        """Whether its columns are mapped from a file."""

    def __len__(self) -> int: ...

    def release(self) -> None:
        """Release its columns and results."""


OwnerT = TypeVar("OwnerT", bound=MemoOwner)
RankT = TypeVar("RankT", bound=MappedRank)
T = TypeVar("T")
P = ParamSpec("P")


class _Result:
    __slots__ = ("lock", "value", "version")

    def __init__(self) -> None:
        # Results may depend on each other but not in a cycle, so threads cannot deadlock.
        self.lock = threading.RLock()
        self.version = -1
        self.value: Any = None


def memo(owner: MemoOwner, key: Hashable, make: Callable[[], T]) -> T:
    """Return the result memoized in `owner` under `key`, computing it if it is missing.

    Results are valid until `taxonomy.add` changes the kinds of events. Threads that need the same
    result at the same time wait for the thread that computes it.
    """
    result: _Result | None = owner.memo.get(key)
    if result is None:
        result = owner.memo.setdefault(key, _Result())
    if result.version != taxonomy.version():
        with result.lock:
            # Read before `make`, because its result may lack rules that are added while it runs.
            version = taxonomy.version()
            if result.version != version:
                result.value = make()
                result.version = version
    value: T = result.value
    return value


def memoize(function: Callable[Concatenate[OwnerT, P], T]) -> Callable[Concatenate[OwnerT, P], T]:
    """Memoize a function on its first argument; see `memo`. Other arguments must be hashable."""

    @wraps(function)
    def cached_call(owner: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, tuple(kwargs.items()))
        return memo(owner, key, lambda: function(owner, *args, **kwargs))

    return cached_call


#: Maximum size of the results of stored ranks; `set_memory_limit` changes it.
_max_bytes = 512 << 20
#: Limit for pages, which read the same ranks repeatedly; sufficient for 10 million events.
_PAGE_BYTES = 2 << 30
#: Estimated bytes per event: mapped columns (70), and the results of a dozen analyses.
_BYTES_PER_EVENT = 200


def set_memory_limit(most_bytes: int) -> int:
    """Limit the memory of all stored ranks' results; return the old limit.

    Ranks that were not loaded from a store always stay in memory and are not counted.
    """
    global _max_bytes
    before, _max_bytes = _max_bytes, int(most_bytes)
    _rank_cache.evict()
    return before


def raise_limit_for_pages() -> None:
    """Raise the limit to what a page needs."""
    set_memory_limit(max(_max_bytes, _PAGE_BYTES))


def iter_ranks(traces: Iterable[RankT]) -> Iterator[RankT]:
    """Iterate over ranks; if not all fit in memory, release each before the next.

    Ranks that already have results are not released, so that iterating over a thousand ranks does
    not evict the ranks in view. Raises `ComputationCancelled` between ranks if the work is
    canceled.
    """
    ranks = list(traces)
    events = sum(len(trace) for trace in ranks if trace.is_mapped)
    all_fit = events * _BYTES_PER_EVENT <= _max_bytes
    for trace in ranks:
        is_cached = all_fit or trace in _rank_cache
        try:
            yield trace
        finally:
            if trace.is_mapped and is_cached:
                _rank_cache.touch(trace)
            elif trace.is_mapped:
                trace.release()
        raise_if_cancelled()


class _RankCache:
    """Stored ranks with results, least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: WeakKeyDictionary[MappedRank, int] = WeakKeyDictionary()
        self._max_total = 0  # upper bound of the total, because deleted ranks count until `evict`

    def __contains__(self, trace: MappedRank) -> bool:
        with self._lock:
            return trace in self._bytes and bool(trace.memo)

    def touch(self, trace: MappedRank) -> None:
        size = len(trace) * _BYTES_PER_EVENT  # measuring would take longer than many analyses
        with self._lock:
            self._max_total += size - self._bytes.pop(trace, 0)
            self._bytes[trace] = size
            fits = self._max_total <= _max_bytes
        if not fits:
            self.evict()

    def evict(self) -> None:
        released = []
        with self._lock:
            self._max_total = sum(self._bytes.values())
            for trace, size in list(self._bytes.items()):
                if self._max_total <= _max_bytes:
                    break
                released.append(trace)
                self._max_total -= size
                del self._bytes[trace]
        for trace in released:
            trace.release()


_rank_cache = _RankCache()

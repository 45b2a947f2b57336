"""What is kept of ranks and sets between calls, and for how long."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from hta_widgets import taxonomy
from hta_widgets.trace.columns import EventTable, Pool


class Cancelled(BaseException):
    """The result of this work is no longer asked for."""


#: Whether the work that runs is cancelled; set by `hta_widgets.live.background`.
cancelled: ContextVar[Callable[[], bool]] = ContextVar("cancelled", default=lambda: False)


def stop_if_cancelled() -> None:
    """Raise `Cancelled` in work that is cancelled; called between ranks."""
    if cancelled.get()():
        raise Cancelled


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Values by key within a limit of size; those used longest ago go first.

    Threads may share it; pickled, it is empty.

    Parameters
    ----------
    limit : int
        Of all sizes together. The newest value stays even if it alone is larger.
    size_of : callable, optional
        By default each value has size 1.
    on_evict : callable, optional
        Called with each value that goes.
    """

    def __init__(
        self,
        limit: int,
        size_of: Callable[[V], int] | None = None,
        on_evict: Callable[[V], object] | None = None,
    ) -> None:
        self.used = 0
        self._limit, self._size_of, self._on_evict = limit, size_of, on_evict
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return a value and count it as used, or None."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: K, value: V) -> V:
        """Keep a value in place of any of that key, and return it."""
        size = 1 if self._size_of is None else self._size_of(value)
        gone = []
        with self._lock:
            if key in self._kept:
                self.used -= self._kept.pop(key)[1]
            self._kept[key] = value, size
            self.used += size
            while self.used > self._limit and len(self._kept) > 1:
                old, old_size = self._kept.popitem(last=False)[1]
                self.used -= old_size
                gone.append(old)
        self._evicted(gone)
        return value

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of `key`, made now if need be."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found

    def values(self) -> list[V]:
        """Return all values, last used last."""
        with self._lock:
            return [value for value, _ in self._kept.values()]

    def clear(self) -> None:
        """Let go of all values."""
        gone = self.values()
        with self._lock:
            self._kept.clear()
            self.used = 0
        self._evicted(gone)

    def _evicted(self, values: list[V]) -> None:
        if self._on_evict is not None:
            for value in values:
                self._on_evict(value)

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self._limit, "size_of": self._size_of, "on_evict": self._on_evict}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class Owner(Protocol):
    """What keeps what was derived of it."""

    @property
    def memo(self) -> dict[Any, Any]:
        """What was derived of it, by the key of each."""


OwnerT = TypeVar("OwnerT", bound=Owner)
T = TypeVar("T")


def derived(
    owner: Owner,
    key: Hashable,
    derive: Callable[[], T],
    holds: Callable[[T], bool] | None = None,
) -> T:
    """Return what `owner` keeps by `key`; what is not there, or does not hold, is derived."""
    known: T | None = owner.memo.get(key)
    if known is None or not (holds is None or holds(known)):
        # Looked up again: the owner may have let go of the memo meanwhile.
        known = owner.memo[key] = derive()
    return known


def derived_once(key: Hashable) -> Callable[[Callable[[OwnerT], T]], Callable[[OwnerT], T]]:
    """Keep by `key` what a function derives of its one argument."""

    def kept(derive: Callable[[OwnerT], T]) -> Callable[[OwnerT], T]:
        @wraps(derive)
        def known(owner: OwnerT) -> T:
            return derived(owner, key, lambda: derive(owner))

        return known

    return kept


def derived_by_rules(key: Hashable) -> Callable[[Callable[[OwnerT], T]], Callable[[OwnerT], T]]:
    """Keep by `key` what a function derives, until the rules of `taxonomy` change."""

    def kept(derive: Callable[[OwnerT], T]) -> Callable[[OwnerT], T]:
        @wraps(derive)
        def known(owner: OwnerT) -> T:
            version = taxonomy.version()
            return derived(
                owner,
                key,
                # The version from before: rules that change meanwhile may have come too late.
                lambda: (version, derive(owner)),
                lambda found: found[0] == version,
            )[1]

        return known

    return kept


if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace


#: What analyses may keep of stored ranks between calls: a dozen ranks of a usual recording.
_KEPT_BYTES = 512 << 20
#: What pages may have kept, which ask for the same ranks again and again: 10 million events.
_KEPT_FOR_PAGES_BYTES = 2 << 30
#: Of an event, mapped columns (70) and what a dozen analyses derive of them.
_BYTES_PER_EVENT = 200
#: What Python itself takes for a number, a text or an empty container.
_OBJECT_BYTES = 64

_most_bytes = _KEPT_BYTES


def keep_at_most(most_bytes: int) -> int:
    """Set how much may be kept of stored ranks, of all sets together; return what it was.

    Ranks that are in memory anyway, since they were not loaded from a store, do not count.
    """
    global _most_bytes
    before, _most_bytes = _most_bytes, int(most_bytes)
    _kept.shrink()
    return before


def keep_for_pages() -> None:
    """Let as much be kept as a page needs that answers at once."""
    keep_at_most(max(_most_bytes, _KEPT_FOR_PAGES_BYTES))


def fit(traces: Iterable[Trace]) -> bool:
    """Whether what analyses need of all these ranks may be kept."""
    events = sum(len(trace) for trace in traces if trace.is_mapped)
    return events * _BYTES_PER_EVENT <= _most_bytes


def walked(traces: Iterable[Trace]) -> Iterator[Trace]:
    """Yield ranks one by one; where all do not fit, each is let go before the next.

    What was kept of a rank before stays: who walks over a thousand ranks does not disturb those
    that someone looks at. Raises `Cancelled` between ranks.
    """
    chosen = list(traces)
    all_fit = fit(chosen)
    for trace in chosen:
        stays = all_fit or trace in _kept
        try:
            yield trace
        finally:
            if not trace.is_mapped:
                pass
            elif stays:
                _kept.note(trace)
            else:
                trace.let_go()
        stop_if_cancelled()


def kept_bytes() -> int:
    """Return how much is taken to be kept of stored ranks, by their events."""
    return _kept.total()


class _Kept:
    """Which ranks were used when; those used longest ago go first."""

    def __init__(self) -> None:
        # Notebooks answer their pages beside the cell that runs.
        self._lock = threading.Lock()
        self._bytes: WeakKeyDictionary[Trace, int] = WeakKeyDictionary()
        self._at_most = 0  # what all take together; less where ranks are gone meanwhile

    def __contains__(self, trace: Trace) -> bool:
        with self._lock:
            return trace in self._bytes and bool(trace.memo)

    def note(self, trace: Trace) -> None:
        # Counting what there is would take longer than many an analysis.
        size = len(trace) * _BYTES_PER_EVENT
        with self._lock:
            self._at_most += size - self._bytes.pop(trace, 0)
            self._bytes[trace] = size
            fits = self._at_most <= _most_bytes
        if not fits:
            self.shrink()

    def shrink(self) -> None:
        with self._lock:
            sizes = list(self._bytes.items())
            self._at_most = sum(size for _, size in sizes)
            excess = self._at_most - _most_bytes
            gone = []
            for trace, size in sizes:
                if excess <= 0:
                    break
                gone.append(trace)
                excess -= size
                self._at_most -= size
                del self._bytes[trace]
        for trace in gone:
            trace.let_go()

    def total(self) -> int:
        with self._lock:
            return sum(self._bytes.values())


_kept = _Kept()


def derived_bytes(trace: Trace) -> int:
    """Return how much memory takes what was derived of a rank; what is mapped does not count."""
    return _size(trace.memo, set())


def _size(value: Any, seen: set[int]) -> int:
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        if id(value) in seen or (value.base is not None and not value.flags.owndata):
            return 0
        seen.add(id(value))
        return int(value.nbytes)
    if id(value) in seen or isinstance(value, (EventTable, Pool, type)) or _is_trace(value):
        return 0
    if isinstance(value, str):
        return len(value)
    seen.add(id(value))
    if isinstance(value, Mapping):
        return _OBJECT_BYTES + sum(_size(k, seen) + _size(v, seen) for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return _OBJECT_BYTES + sum(8 + _size(one, seen) for one in value)
    fields = list(getattr(value, "__dict__", {}).values())
    if is_dataclass(value) or hasattr(value, "__slots__"):
        fields += [getattr(value, name, None) for name in getattr(value, "__slots__", ())]
    return _OBJECT_BYTES + sum(_size(one, seen) for one in fields)


def _is_trace(value: Any) -> bool:
    return hasattr(value, "flow_table")

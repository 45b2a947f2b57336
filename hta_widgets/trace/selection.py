"""What is selected: an immutable value that all views, analyses and exports share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.text import as_ns
from hta_widgets.trace.membership import member_rows
from hta_widgets.trace.trace import events_of

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace
    from hta_widgets.trace.traceset import TraceSet

__all__ = ["Selection", "as_ranks"]

#: Set by the package: writes a selection to a trace file. Rooms above this one are not imported.
exporter: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Selection:
    """A part of a `TraceSet`; each field is None for "all".

    Parameters
    ----------
    start_ns, end_ns : int or str, optional
        ns, or text such as ``"12.3ms"``, which becomes ns. Half-open window; events that overlap
        it are members, an event without duration is a member where its instant lies in the window.
        An empty window has no members.
    ranks : iterable of int, optional
    tracks : iterable of str or of (rank, str), optional
        Values of the ``track`` column, on all ranks or on the one given.
    query : str, optional
        A pandas query over event columns.
    ids : iterable of (rank, id), optional
    """

    start_ns: int | None = None
    end_ns: int | None = None
    ranks: tuple[int, ...] | None = None
    tracks: frozenset[str | tuple[int, str]] | None = None
    query: str | None = None
    ids: frozenset[tuple[int, int]] | None = None
    traces: TraceSet | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("start_ns", "end_ns"):
            value = getattr(self, name)
            put(name, None if value is None else as_ns(value))
        if self.start_ns is not None and self.end_ns is not None and self.end_ns < self.start_ns:
            raise TraceError(
                f"the window ends ({self.end_ns} ns) before it starts ({self.start_ns} ns)",
                remedy="Swap start_ns and end_ns.",
            )
        if self.ranks is not None:
            put("ranks", tuple(as_ranks(self.ranks)))
        if self.tracks is not None:
            one = isinstance(self.tracks, str) or not isinstance(self.tracks, Iterable)
            tracks = [self.tracks] if one else self.tracks
            put("tracks", frozenset(_track(item) for item in tracks))
        if self.ids is not None:
            put("ids", _ids(self.ids))

    @property
    def is_everything(self) -> bool:
        """Whether nothing restricts it."""
        return self == Selection()

    # --- members ----------------------------------------------------------------------------------

    def rows(self, trace: Trace) -> npt.NDArray[np.intp]:
        """Return the ids of the events of `trace` that are members, ascending."""
        return member_rows(self, trace)

    def mask(self, trace: Trace) -> npt.NDArray[np.bool_]:
        """Return which events of `trace` are members, by id."""
        member = np.zeros(len(trace), dtype=bool)
        member[member_rows(self, trace)] = True
        return member

    def chosen_of(self, trace: Trace, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return those of some ascending rows of `trace` that `ids` names; all without `ids`."""
        if self.ids is None:
            return rows
        named = self._rows_by_rank.get(trace.rank, np.empty(0, dtype=np.int64))
        return np.intersect1d(rows, named)

    @cached_property
    def _rows_by_rank(self) -> dict[int, npt.NDArray[np.int64]]:
        rows: dict[int, list[int]] = {}
        for rank, row in self.ids or ():
            rows.setdefault(rank, []).append(row)
        return {rank: np.array(values, dtype=np.int64) for rank, values in rows.items()}

    def events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the member events, whole, with their ``rank``; the index is ``id``."""
        members = self.owner.values()
        return events_of(list(members), columns, self.rows)

    def export(self, path: str | Path, **options: Any) -> Any:
        """Write the member events as a trace file; options as `hta_widgets.export_trace`."""
        if exporter is None:
            raise TraceError("exporting needs the whole package", remedy="import hta_widgets")
        return exporter(self.owner, path, selection=self, **options)

    @property
    def owner(self) -> TraceSet:
        """The traces that it is of; a `TraceError` where it belongs to none."""
        if self.traces is None:
            raise TraceError(
                "this selection belongs to no traces",
                remedy="Make it with traces.select(...), or bind it with selection.of(traces).",
            )
        return self.traces

    def of(self, traces: TraceSet) -> Selection:
        """Return the same selection of other `traces`."""
        return Selection(
            self.start_ns, self.end_ns, self.ranks, self.tracks, self.query, self.ids, traces
        )

    # --- as text ----------------------------------------------------------------------------------

    def to_code(self, name: str = "traces") -> str:
        """Return the Python expression that makes this selection of the set called `name`."""
        parts = [] if self.query is None else [repr(self.query)]
        for key, value in self.to_json().items():
            if key == "query" or value is None:
                continue
            shown = value
            if key in {"tracks", "ids"}:
                shown = [tuple(item) if isinstance(item, list) else item for item in value]
            parts.append(f"{key}={shown!r}")
        return f"{name}.select({', '.join(parts)})"

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict of numbers, strings and lists, without the traces."""
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "ranks": None if self.ranks is None else list(self.ranks),
            "tracks": None
            if self.tracks is None
            else [
                item if isinstance(item, str) else list(item)
                for item in sorted(
                    self.tracks, key=lambda t: ("", t) if isinstance(t, str) else t[::-1]
                )
            ],
            "query": self.query,
            "ids": None if self.ids is None else [list(item) for item in sorted(self.ids)],
        }

    @classmethod
    def from_json(
        cls, value: Mapping[str, Any] | None, traces: TraceSet | None = None
    ) -> Selection:
        """Return the selection that `to_json` described; None and missing keys mean "all"."""
        known = ("start_ns", "end_ns", "ranks", "tracks", "query", "ids")
        unknown = set(value or ()) - set(known)
        if unknown:
            raise TraceError(
                f"a selection has no {', '.join(sorted(map(repr, unknown)))}",
                remedy=f"Its fields are {', '.join(known)}.",
            )
        return cls(**{key: (value or {}).get(key) for key in known}, traces=traces)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "traces": None}
        state.pop("_rows_by_rank", None)
        return state


def as_ranks(ranks: Any) -> list[int]:
    """Return a rank, or several, as a list: ascending, each once.

    Raises
    ------
    TraceError
        Where that is no number and no list of them.
    """
    if isinstance(ranks, (int, np.integer)):
        return [int(ranks)]
    # The characters of a text are no ranks.
    if isinstance(ranks, Iterable) and not isinstance(ranks, (str, bytes)):
        listed = list(ranks)
        if all(isinstance(rank, (int, float, np.number)) and rank == int(rank) for rank in listed):
            return sorted({int(rank) for rank in listed})
    raise TraceError(
        f"{ranks!r} names no ranks", remedy="Give a number, or a list of them: ranks=[0, 3]."
    )


def _ids(pairs: Iterable[Any]) -> frozenset[tuple[int, int]]:
    try:
        return frozenset((int(rank), int(row)) for rank, row in pairs)
    except (TypeError, ValueError):
        raise TraceError(
            f"{pairs!r} names no events", remedy="Give pairs (rank, id), such as ids=[(0, 17)]."
        ) from None


def _track(item: object) -> str | tuple[int, str]:
    if isinstance(item, str):
        return item
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return int(item[0]), str(item[1])
    raise TraceError(
        f"{item!r} is no track",
        remedy="Give values of the track column, or pairs (rank, track).",
    )

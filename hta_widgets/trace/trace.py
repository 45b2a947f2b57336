"""One rank: its events, what hangs on them, and the file that they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError

from hta_widgets.trace.derived import derived_by_rules
from hta_widgets.trace.derived import derived_once
from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.frames import event_frame
from hta_widgets.trace.frames import side_frame
from hta_widgets.trace.rank_scope import ExportPart
from hta_widgets.trace.rank_scope import part_in
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CopyTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import EventTable
from hta_widgets.trace.table import FlowTable
from hta_widgets.trace.table import InstantTable
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.table import Track

__all__ = ["Trace"]

#: Since pandas 3 copies are made when someone writes.
_COPY_FRAMES = int(pd.__version__.partition(".")[0]) < 3


@dataclass(eq=False, repr=False)
class Trace:
    """One rank of a job.

    Users meet it as a value of a `TraceSet`. Times in its frames are nanoseconds since the
    earliest event of that set.

    Attributes
    ----------
    rank : int
        The key in the set.
    path : str
        The file that it was read from.
    format : str
        Name of the file's format, for example ``"kineto"``.
    metadata : dict
        The file's own top-level keys, without the events.
    zero_ns : int
        Absolute time of the rank's earliest event on the clock that the file records.
    shift_ns : int
        To be added to the times of `table` for the times that users see.
    resolution_ns : int
        Nanoseconds of the last digit that the file's times carry.
    """

    rank: int
    path: str
    metadata: dict[str, Any]
    flow_table: FlowTable
    counter_table: CounterTable
    instant_table: InstantTable
    async_table: AsyncTable
    zero_ns: int
    source: RecordSource | None = None
    format: str = "kineto"
    resolution_ns: int = 1
    shift_ns: int = 0
    #: what `shift_ns` is less than on the recorded clock; see `TraceSet.with_clock`
    clock_offset_ns: int = 0
    stated_rank: int | None = None
    job: str | None = None
    host: str | None = None
    worker: int = -1
    local_rank: int = -1
    server: int = -1
    #: what a file holds that has no events, such as the tables of an MPI profile
    profile: Any = None
    #: whether the file holds events of this rank that are not in `table`
    part: bool = False
    copy_table: CopyTable = field(default_factory=CopyTable)
    _table: EventTable = field(kw_only=True)
    _rules_version: int = field(default=-1, kw_only=True)
    _frame: pd.DataFrame | None = field(default=None, init=False)
    #: what analyses derived from the columns alone, in their times, and may ask for again
    memo: dict[Any, Any] = field(default_factory=dict, init=False)

    # --- columns ----------------------------------------------------------------------------------

    @property
    def table(self) -> EventTable:
        """The columns behind `events`; times are since `zero_ns`."""
        version = taxonomy.version()
        if self._rules_version != version:
            kind = taxonomy.kind_codes(
                self._table.category,
                self._table.name,
                self._table.categories.values,
                self._table.names.values,
            )
            self._table = self._table.with_kinds(kind)
            self._rules_version = version
            self._frame = None
        return self._table

    @property
    def tracks(self) -> list[Track]:
        """Threads, device streams and their annotations, in display order."""
        return self._table.tracks

    @property
    @derived_once("launch_of")
    def launch_of(self) -> npt.NDArray[np.int64]:
        """For each event the id of the host call that launched it, -1 for none."""
        call = np.full(len(self), -1, dtype=np.int64)
        flows = self.flow_table
        if "launch" in flows.kinds:
            launches = flows.kind == flows.kinds.index("launch")
            call[flows.target[launches]] = flows.source[launches]
        return call

    @property
    @derived_by_rules("prelaunched")
    def prelaunched(self) -> npt.NDArray[np.bool_]:
        """Which device work was launched before recording began.

        It has no launch in the file, and starts before all work of its stream that has one; where
        the stream has none, before all of the rank's. Nothing is told where the file has no
        launches at all.
        """
        table = self.table
        found = np.zeros(len(self), dtype=bool)
        work = np.flatnonzero((table.stream >= 0) & (table.kind <= KINDS.index("memory")))
        launched = work[self.launch_of[work] >= 0]
        if len(launched) in (0, len(work)):
            return found
        latest = np.iinfo(np.int64).max
        first = np.full(len(table.tracks), latest)
        np.minimum.at(first, table.track[launched], table.start_ns[launched])
        first[first == latest] = first.min()
        found[work] = table.start_ns[work] < first[table.track[work]]
        found[launched] = False
        return found

    @property
    def in_file(self) -> bool:
        """Whether the columns wait in a file, which another process can map as well."""
        return False

    def __len__(self) -> int:
        return len(self._table)

    @property
    def start_ns(self) -> int:
        """Start of the earliest event."""
        return self._table.first_ns + self.shift_ns

    @property
    def end_ns(self) -> int:
        """End of the last event."""
        return self._table.last_ns + self.shift_ns

    @property
    def export_part(self) -> ExportPart | None:
        """Which part of a job the file is an export of; None where it does not say so."""
        return part_in(self.metadata)

    @property
    def world_size(self) -> int:
        """How many ranks the file says that the job has; 0 where it does not say."""
        info = self.metadata.get("distributedInfo")
        size = info.get("world_size") if isinstance(info, dict) else None
        return size if type(size) is int else 0

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """The window of the job that the file is an export of; None where it is none."""
        part = self.export_part
        if part is None:
            return None
        offset_ns = self.shift_ns - self.zero_ns
        return part.start_ns + offset_ns, part.end_ns + offset_ns

    @property
    def stated_work_ns(self) -> tuple[int, int] | None:
        """When, in the times of `table`, the device works in the job that this is an export of.

        From its first start to its last end; None where the file does not say.
        """
        part = self.export_part
        if part is None or part.work_start_ns >= part.work_end_ns:
            return None
        return part.work_start_ns - self.zero_ns, part.work_end_ns - self.zero_ns

    # --- frames -----------------------------------------------------------------------------------

    @property
    def events(self) -> pd.DataFrame:
        """Complete events and paired begin/end events, sorted by start; the index is ``id``.

        Returns
        -------
        DataFrame
            ``start_ns, dur_ns``; ``name, category``, ``kind`` (see `hta_widgets.taxonomy`) and
            ``track``; ``pid, tid`` as in the file; ``depth``, the lane within the track, and
            ``parent``, the id of the enclosing event on the track; the device ``stream``, the
            ``correlation`` id, and the ``step``, n of the enclosing ``ProfilerStep#n`` (of
            device events: of their launch); ``phase`` (``X`` or ``B``). -1 stands for none.
        """
        table = self.table
        if self._frame is None or len(self._frame) != len(table):
            self._frame = event_frame(self)
        return self._frame.copy(deep=_COPY_FRAMES)

    def frame(
        self,
        rows: npt.NDArray[np.intp] | slice | None = None,
        columns: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """Return some `rows` and `columns` of `events` without building the rest."""
        return event_frame(self, rows, columns)

    @property
    def instants(self) -> pd.DataFrame:
        """Instant events: ``time_ns, name, category, pid, tid, scope``."""
        table = self.instant_table
        names, categories = self._table.names, self._table.categories
        return side_frame(
            {
                "time_ns": table.time_ns + self.shift_ns,
                "name": [names[code] for code in table.name],
                "category": [categories[code] for code in table.category],
                "pid": table.pid,
                "tid": table.tid,
                "scope": table.scope,
            }
        )

    @property
    def asyncs(self) -> pd.DataFrame:
        """Async intervals: ``start_ns, dur_ns`` (-1: no end found)``, name, category, id, pid``."""
        table = self.async_table
        names, categories = self._table.names, self._table.categories
        return side_frame(
            {
                "start_ns": table.start_ns + self.shift_ns,
                "dur_ns": table.dur_ns,
                "name": [names[code] for code in table.name],
                "category": [categories[code] for code in table.category],
                "id": table.async_id,
                "pid": table.pid,
            }
        )

    @property
    def counters(self) -> pd.DataFrame:
        """Samples of counters: ``time_ns, name, series, value, pid``."""
        table = self.counter_table
        series = [table.series[code] for code in table.series_id]
        return side_frame(
            {
                "time_ns": table.time_ns + self.shift_ns,
                "name": [name for _, name, _ in series],
                "series": [label for _, _, label in series],
                "value": table.value,
                "pid": [pid for pid, _, _ in series],
            }
        )

    @property
    def flows(self) -> pd.DataFrame:
        """Arrows between events: ``kind`` (``launch``, ``fwdbwd``, …)``, source, target`` (ids)."""
        table = self.flow_table
        return pd.DataFrame(
            {
                "kind": pd.Categorical.from_codes(table.kind, dtype=dtype_of(table.kinds)),
                "source": table.source,
                "target": table.target,
            }
        )

    # --- one event --------------------------------------------------------------------------------

    def args(self, id: int) -> dict[str, Any]:  # noqa: A002 - the index is called id
        """Return the event's own args, as the file has them.

        Parameters
        ----------
        id : int
            The event's index in `events`.

        Returns
        -------
        dict
            For an event that was begun and ended by two records: the args of both.
        """
        row = int(id)
        if not 0 <= row < len(self):
            raise TraceError(
                f"rank {self.rank} has no event {id}",
                path=self.path,
                remedy=f"Ids go from 0 to {len(self) - 1}."
                if len(self)
                else "It holds no complete events.",
            )
        if self.source is None:
            return {}
        args = self._record_args(self.source, int(self._table.record[row]))
        end = self._table.end_record.get(row)
        return args if end is None else {**args, **self._record_args(self.source, end)}

    def _record_args(self, source: RecordSource, record: int) -> dict[str, Any]:
        text = source.record(record).decode("utf-8", "replace")
        try:
            event = json.loads(text, strict=False)
        except ValueError as cause:
            raise TraceError(
                f"the record cannot be decoded ({cause})",
                path=self.path,
                place=f"record {record}",
                remedy="Was the file changed after it was loaded? Load it again.",
            ) from None
        args = event.get("args") if isinstance(event, dict) else None
        if args is None:
            return {}
        return args if isinstance(args, dict) else {"args": args}

    # --- memory -----------------------------------------------------------------------------------

    @property
    def is_mapped(self) -> bool:
        """Whether the columns are in a file that is mapped into memory, so that they can go."""
        return False

    def let_go(self) -> None:
        """Forget what was derived; whoever asks for it again waits for it again."""
        # Not cleared: others may be at work with what it holds.
        self.memo = {}
        self._frame = None

    # --- copies -----------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Trace:
        """Return the same events under other terms, for example ``rank=3``; arrays are shared."""
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        # Another process may hold other rules; and frames are cheaper to build than to send.
        rules = 0 if self._rules_version == 0 else -1
        return {**self.__dict__, "_frame": None, "memo": {}, "_rules_version": rules}

    def __repr__(self) -> str:
        return (
            f"<Trace rank {self.rank}: {len(self):,} events on {len(self.tracks)} tracks, "
            f"{(self.end_ns - self.start_ns) / 1e6:,.3f} ms, {self.path}>"
        )

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

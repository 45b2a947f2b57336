"""HTA's ``Trace``: the ranks of a job, as a `TraceSet` that also has HTA's methods."""

from __future__ import annotations

import gzip
import json
import weakref
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.compat.common.frames import REMEDY, Frames
from hta_widgets.compat.common.trace_file import (
    create_rank_to_trace_dict,
    patterns_of,
    read_trace,
    trace_files_in,
    warn_of_ranks,
)
from hta_widgets.compat.common.trace_symbol_table import (
    TraceSymbolTable,
    decode_symbol_id_to_symbol_name,
)
from hta_widgets.compat.configs.config import logger
from hta_widgets.compat.configs.default_values import DEFAULT_TRACE_DIR
from hta_widgets.compat.configs.parser_config import ParserConfig
from hta_widgets.compat.hta_frame import first_event_ns, hta_frame, hta_rows, symbols_of
from hta_widgets.compat.kept_steps import without_last_step
from hta_widgets.compat.utils.utils import normalize_path
from hta_widgets.errors import TraceError
from hta_widgets.readers.discovery import find_files
from hta_widgets.readers.load import load
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet, trace_within

__all__ = ["Trace", "TraceSymbolTable", "get_cpu_gpu_correlation", "owner_of"]

_OWNERS: weakref.WeakKeyDictionary[TraceSymbolTable, weakref.ref[Trace]]
_OWNERS = weakref.WeakKeyDictionary()


class Trace(TraceSet):
    """The traces of a job, to be parsed, and HTA's view of them.

    It is a `TraceSet` of everything that the files hold, so all of this package works on it. Next
    to that it has HTA's methods, whose frames HTA's notebooks work on; see
    `hta_widgets.compat.hta_frame`.

    Parameters
    ----------
    trace_files : dict of int to str, or list of str, optional
        Files by rank, or files that state their ranks. Names may be relative to `trace_dir`.
    trace_dir : str
        The folder that holds the traces, one file per rank; used where no files are given. Where
        none lie directly in it, its folders are searched.
    parser_config : ParserConfig, optional
        Which args become columns.

    Attributes
    ----------
    traces : mapping of int to DataFrame
        HTA's frames, each built when it is first asked for. HTA's analyses leave out ranks and
        rows that were dropped here. Where values were changed they raise, since they read the
        trace.
    symbol_table : TraceSymbolTable
        What the numbers in ``name`` and ``cat`` stand for.
    trace_files : dict of int to str
        Files by rank. What is set here is what is parsed.
    meta_data : dict of int to dict
        The files' top-level keys by rank, and ``device_type``.
    min_ts : int or float
        Time 0 of the aligned frames, in µs, as the file of the first rank counts.
    is_parsed : bool

    Notes
    -----
    ``parse_traces`` gives frames whose times are the file's own; ``load_traces`` those of one
    clock, from 0 on, without the last step. That clock is the hosts' (HTA ignores what
    ``baseTimeNanoseconds`` says and takes each file's times as they are).
    """

    def __init__(
        self,
        trace_files: dict[int, str] | list[str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        parser_config: ParserConfig | None = None,
    ) -> None:
        super().__init__(())
        if trace_files is not None and not isinstance(trace_files, (dict, list, tuple)):
            raise _no_files(trace_files)
        self.trace_path = normalize_path(str(trace_dir))
        self.parser_config = (
            ParserConfig.get_default_cfg() if parser_config is None else (parser_config)
        )
        self._given: Any = trace_files
        self._files: dict[int, str] | None = None
        self._files_found: dict[int, str] | None = None
        self._frames = Frames((), self._frame)
        self.traces: MutableMapping[int, pd.DataFrame] = self._frames
        self.symbol_table = TraceSymbolTable()
        self.meta_data: dict[int, dict[str, Any]] = {}
        self.min_ts: int | float = 0
        self.is_parsed = False
        self._base: TraceSet = self
        self._edited: tuple[int, dict[int, bytes | None], TraceSet] | None = None
        self._zero_ns = 0
        self.is_aligned = False
        self._decoded: bool | None = None

    # --- loading ----------------------------------------------------------------------------------

    def load_traces(
        self,
        include_last_profiler_step: bool | None = False,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Parse, put all ranks on one clock, and leave out the last step.

        `use_multiprocessing` and `use_memory_profiling` have no meaning here: processes are used
        where it pays.
        """
        if not self.is_parsed:
            self.parse_traces(-1, use_multiprocessing, use_memory_profiling)
            self.align_and_filter_trace(include_last_profiler_step)

    def parse_traces(
        self,
        max_ranks: int = -1,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Read the files; of the first `max_ranks` ranks only, if that is not -1."""
        del use_multiprocessing, use_memory_profiling
        loaded = load(self._source())
        self._take(loaded if max_ranks < 0 else loaded.subset(loaded.ranks[:max_ranks]))

    def parse_multiple_ranks(
        self,
        ranks: list[int],
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Read the files of these ranks."""
        del use_multiprocessing, use_memory_profiling
        self._take(load(self._source(), ranks=ranks))

    def parse_single_rank(self, rank: int) -> None:
        """Read the file of one rank."""
        self._take(load(self._source(), ranks=[rank]))

    def align_and_filter_trace(
        self,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        """Put all ranks on one clock that starts with the first event; leave out the last step."""
        self.is_aligned = True
        self._base = without_last_step(self.kept, keep_last=bool(include_last_profiler_step))
        self.traces = self._frames = Frames(self._base, self._frame)

    def _take(self, loaded: TraceSet) -> None:
        self._traces = {trace.rank: trace for trace in loaded.values()}
        self._origin_ns = loaded.origin_ns
        self._problems = loaded.found
        found = {rank: trace.path for rank, trace in self.items()}
        self._files_found, self._files = found, dict(found)
        warn_of_ranks(loaded.found)
        self.meta_data = {
            rank: {**trace.metadata, "device_type": "UNKNOWN GPU"} for rank, trace in self.items()
        }
        if ignored := self.parser_config.without_effect():
            logger.warning("parser_config: %s: no events are left out here", ", ".join(ignored))
        self._zero_ns = first_event_ns(self.values())
        for trace in self.values():
            self.symbol_table.add_symbols(symbols_of(trace.table, hta_rows(trace.table)))
        _OWNERS[self.symbol_table] = weakref.ref(self)
        for rank in self:
            self.meta_data[rank]["device_type"] = _device_type(
                self.meta_data[rank], self.symbol_table.sym_index
            )
        first = next(iter(self.values()), None)
        self.min_ts = _us(self._zero_ns + _own_zero_ns(first)) if first is not None else 0
        self._base, self.is_aligned, self.is_parsed = self, False, True
        self.traces = self._frames = Frames(self, self._frame)

    @property
    def trace_files(self) -> dict[int, str]:
        """Files by rank."""
        if self._files is None:
            found = self._find_files()
            self._files_found, self._files = found, dict(found)
        return self._files

    @trace_files.setter
    def trace_files(self, files: Mapping[int, str]) -> None:
        if not isinstance(files, Mapping):
            raise _no_files(files)
        self._files = dict(files)

    def _find_files(self) -> dict[int, str]:
        if isinstance(self._given, dict):
            return {rank: self._located(name) for rank, name in self._given.items()}
        try:
            found = find_files(self._named(), Problems())
        except TraceError:
            return {}  # parsing tells why
        return create_rank_to_trace_dict([file.path for file in found])[1]

    def _source(self) -> Any:
        """Return what to load: the files that were set, or all that was named."""
        if isinstance(self._given, dict) or self._files != self._files_found:
            return {rank: self._located(name) for rank, name in self.trace_files.items()}
        return self._named()

    def _named(self) -> Any:
        if self._given is not None:
            return [self._located(name) for name in self._given]
        folder = Path(self.trace_path)
        if not folder.is_dir():
            return self.trace_path  # a file or a pattern; or nothing, which the reader tells
        return patterns_of(trace_files_in(folder)) or self.trace_path

    def _located(self, name: str) -> str:
        path = Path(normalize_path(str(name)))
        return str(path if path.is_absolute() or path.exists() else Path(self.trace_path) / path)

    # --- frames -----------------------------------------------------------------------------------

    @property
    def kept(self) -> TraceSet:
        """The events that HTA's analyses look at: those that `traces` still holds.

        Raises
        ------
        TraceError
            Where values of a frame were changed, or events added.
        """
        frames = self.traces
        if unknown := sorted(set(frames) - set(self._base)):
            raise TraceError(f"traces holds rank {unknown[0]}, which was not parsed", remedy=REMEDY)
        touched = frames.built() if isinstance(frames, Frames) else frames
        left = {rank: self._member(rank, frame) for rank, frame in touched.items()}
        if len(frames) == len(self._base) and all(member is None for member in left.values()):
            return self._base
        edits = {
            rank: None if (member := left.get(rank)) is None else member.tobytes()
            for rank in frames
        }
        if self._edited is None or self._edited[:2] != (id(self._base), edits):
            parts = [
                self._base[rank]
                if (member := left.get(rank)) is None
                else trace_within(self._base[rank], member, Selection())
                for rank in frames
            ]
            found = TraceSet(parts, like=self._base, problems=self._base.found)
            self._edited = id(self._base), edits, found
        return self._edited[2]

    def _member(self, rank: int, frame: pd.DataFrame) -> npt.NDArray[np.bool_] | None:
        """Tell which events of a rank its frame still holds; None: all, as they were."""
        table = self._base[rank].table
        dropped = self._frames.dropped(rank, frame)
        if not len(dropped):
            return None
        member = np.ones(len(table), dtype=bool)
        member[hta_rows(table)[dropped]] = False
        return member

    def _frame(self, rank: int) -> pd.DataFrame:
        trace = self._base[rank]
        frame = hta_frame(
            trace,
            hta_rows(trace.table),
            self.symbol_table,
            zero_ns=self._zero_ns if self.is_aligned else -_own_zero_ns(trace),
            columns=self.parser_config.get_args(),
        )
        if self._decoded is not None:
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, self._decoded)
        return frame

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """Add the columns ``s_name`` and ``s_cat`` to the frames, of text."""
        self._decoded = use_shorten_name
        frames = self.traces.built() if isinstance(self.traces, Frames) else self.traces
        for frame in frames.values():
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, use_shorten_name)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return the frame of a rank."""
        if rank not in self.traces:
            raise TraceError(f"no rank {rank}", remedy=f"The ranks are {self.get_ranks()}.")
        return self.traces[rank]

    def get_all_traces(self) -> MutableMapping[int, pd.DataFrame]:
        """Return the frames by rank."""
        return self.traces

    # --- facts ------------------------------------------------------------------------------------

    def get_ranks(self) -> list[int]:
        """Return the ranks, ascending."""
        return sorted(self.traces)

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Return the numbers of the steps in which a rank has events; the first rank by default."""
        rank = next(iter(self.get_ranks()), -1) if rank is None else rank
        if rank not in self._base or rank not in self.traces:
            return []
        steps = np.unique(self.kept[rank].table.step)
        numbers: list[int] = steps[steps >= 0].tolist()
        return numbers

    def get_trace_duration(self, rank: int | None = None) -> int | float:
        """Return the µs from the start of a rank's first event to the start of its last."""
        rank = next(iter(self.get_ranks()), -1) if rank is None else rank
        if rank not in self.kept:
            raise TraceError(f"no rank {rank}", remedy=f"The ranks are {self.get_ranks()}.")
        table = self.kept[rank].table
        starts = table.start_ns[hta_rows(table)]
        return _us(int(starts.max() - starts.min())) if len(starts) else 0

    def get_device_type(self) -> str:
        """Return the first rank's kind of device, such as ``NVIDIA GPU``."""
        known = next(iter(self.meta_data.values()), {})
        return str(known.get("device_type", "UNKNOWN"))

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        """Return the epoch time of time 0, in ns."""
        if rank not in self:
            raise TraceError(f"no rank {rank}", remedy=f"The ranks are {self.get_ranks()}.")
        if self.origin_ns is None:
            raise KeyError("baseTimeNanoseconds: the file does not say when it was recorded")
        return self.origin_ns + self._zero_ns

    # --- raw traces -------------------------------------------------------------------------------

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return the JSON value of a rank's file."""
        if rank not in self.trace_files:
            raise TraceError(f"no rank {rank}", remedy=f"The ranks are {self.get_ranks()}.")
        return read_trace(self.trace_files[rank])

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Write a JSON value to a gzip file."""
        with gzip.open(output_file, "wt", encoding="utf-8") as file:
            json.dump(trace_contents, file, indent=2)

    def convert_time_series_to_events(
        self, series: pd.DataFrame, counter_name: str, counter_col: str
    ) -> list[dict[str, Any]]:
        """Return a time series as counter events in the file's own time.

        Parameters
        ----------
        series : DataFrame
            Columns ``pid, ts`` and `counter_col`; if there, ``name`` and ``id``.
        counter_name : str
            The key of the value, and the counter's name where `series` has no ``name``.
        counter_col : str
        """
        if not {"pid", "ts", counter_col} <= set(series.columns):
            return []
        events = pd.DataFrame({"pid": series["pid"], "ts": series["ts"] + self.min_ts})
        args = [{counter_name: value} for value in series[counter_col].tolist()]
        events["args"] = pd.Series(args, index=events.index, dtype=object)
        events["ph"] = "C"
        events["name"] = series["name"] if "name" in series.columns else counter_name
        if "id" in series.columns:
            events["id"] = series["id"]
        return [
            {str(key): value for key, value in row.items()} for row in events.to_dict("records")
        ]

    @staticmethod
    def flow_event(
        id: int,  # noqa: A002 - HTA's signature
        pid: int,
        tid: int,
        ts: int,
        is_start: bool,
        name: str,
        cat: str,
        args: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return one end of an arrow as a trace event."""
        event: dict[str, Any] = {"ph": "s" if is_start else "f", "id": id, "pid": pid, "tid": tid}
        event |= {"ts": ts, "cat": cat, "name": name}
        if args is not None:
            event["args"] = args
        return event if is_start else {**event, "bp": "e"}


def _no_files(given: object) -> TraceError:
    return TraceError(
        f"trace_files is a {type(given).__name__}",
        remedy="Give a list of files, or a dictionary of rank to file.",
    )


def owner_of(symbol_table: TraceSymbolTable) -> Trace | None:
    """Return the trace that a symbol table is of, as long as it lives."""
    owner = _OWNERS.get(symbol_table)
    return None if owner is None else owner()


def get_cpu_gpu_correlation(df: pd.DataFrame) -> pd.DataFrame:
    """Return which call launched which device event: ``gpu_index, cpu_index``."""
    launched = df[(df["stream"] >= 0) & (df["index_correlation"] > 0)]
    return pd.DataFrame(
        {
            "gpu_index": launched["index"].to_numpy(),
            "cpu_index": launched["index_correlation"].to_numpy(),
        }
    )


def _own_zero_ns(trace: Any) -> int:
    """What to add to a set's time for the time that the rank's own file gives."""
    base = trace.metadata.get("baseTimeNanoseconds", 0)
    base = base if isinstance(base, int) and not isinstance(base, bool) else 0
    return int(trace.zero_ns - base - trace.shift_ns)


def _us(nanoseconds: int) -> int | float:
    return nanoseconds / 1000 if nanoseconds % 1000 else nanoseconds // 1000


def _device_type(metadata: dict[str, Any], symbols: dict[str, int]) -> str:
    backend = metadata.get("distributedInfo")
    if "mtia:hccl" in str(backend.get("backend") if isinstance(backend, dict) else ""):
        return "MTIA"
    for launch, device in (
        ("cudaLaunchKernel", "NVIDIA GPU"),
        ("hipLaunchKernel", "AMD GPU"),
        ("runFunction - job_prep_and_submit_for_execution", "MTIA"),
    ):
        if launch in symbols:
            return device
    return "UNKNOWN GPU"

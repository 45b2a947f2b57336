"""HTA's ``Trace``: the ranks of a job, as a `TraceSet` that also has HTA's methods."""

from __future__ import annotations

import gzip
import json
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.compat.configs.default_values import DEFAULT_TRACE_DIR
from hta_widgets.compat.configs.parser_config import ParserConfig
from hta_widgets.compat.hta_frame import first_event_ns, hta_frame, hta_rows, symbols_of
from hta_widgets.compat.kept_steps import without_last_step
from hta_widgets.compat.utils.utils import normalize_path
from hta_widgets.errors import TraceError
from hta_widgets.model import TraceSet
from hta_widgets.readers import load

from .trace_file import patterns_of, read_trace, trace_files_in
from .trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name

__all__ = ["Trace", "TraceSymbolTable", "get_cpu_gpu_correlation", "owner_of"]

_OWNERS: weakref.WeakKeyDictionary[TraceSymbolTable, weakref.ref[Trace]]
_OWNERS = weakref.WeakKeyDictionary()


class Frames(MutableMapping[int, pd.DataFrame]):
    """A frame per rank, each built when it is first asked for, and then kept."""

    def __init__(self, ranks: Iterable[int], build: Callable[[int], pd.DataFrame]) -> None:
        self._frames: dict[int, pd.DataFrame | None] = dict.fromkeys(ranks)
        self._build = build

    def __getitem__(self, rank: int) -> pd.DataFrame:
        frame = self._frames[rank]
        if frame is None:
            frame = self._frames[rank] = self._build(rank)
        return frame

    def __setitem__(self, rank: int, frame: pd.DataFrame) -> None:
        self._frames[rank] = frame

    def __delitem__(self, rank: int) -> None:
        del self._frames[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def built(self) -> list[pd.DataFrame]:
        """Return the frames that are there already."""
        return [frame for frame in self._frames.values() if frame is not None]


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
        HTA's frames, each built when it is first asked for.
    symbol_table : TraceSymbolTable
        What the numbers in ``name`` and ``cat`` stand for.
    trace_files : dict of int to str
        Files by rank; once parsed, of all ranks.
    meta_data : dict of int to dict
        The files' top-level keys by rank, and ``device_type``.
    min_ts : int or float
        Time 0 of the aligned frames, in µs, as the file of the first rank counts.
    kept : TraceSet
        The events that HTA's analyses look at.
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
            raise TraceError(
                f"trace_files is a {type(trace_files).__name__}",
                remedy="Give a list of files, or a dictionary of rank to file.",
            )
        self.trace_path = normalize_path(str(trace_dir))
        self.parser_config = (
            ParserConfig.get_default_cfg() if parser_config is None else (parser_config)
        )
        self._given = trace_files
        self.trace_files: dict[int, str] = (
            {rank: self._located(name) for rank, name in trace_files.items()}
            if isinstance(trace_files, dict)
            else {}
        )
        self.traces: MutableMapping[int, pd.DataFrame] = {}
        self.symbol_table = TraceSymbolTable()
        self.meta_data: dict[int, dict[str, Any]] = {}
        self.min_ts: int | float = 0
        self.is_parsed = False
        self.kept: TraceSet = self
        self._zero_ns = 0
        self._aligned = False
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
        self._aligned = True
        self.kept = self if include_last_profiler_step else without_last_step(self)
        self.traces = Frames(self.kept, self._frame)

    def _take(self, loaded: TraceSet) -> None:
        self._traces = {trace.rank: trace for trace in loaded.values()}
        self._origin_ns = loaded.origin_ns
        self._problems = loaded.found
        self.trace_files = {rank: trace.path for rank, trace in self.items()}
        self.meta_data = {
            rank: {**trace.metadata, "device_type": "UNKNOWN GPU"} for rank, trace in self.items()
        }
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
        self.kept, self._aligned, self.is_parsed = self, False, True
        self.traces = Frames(self, self._frame)

    def _source(self) -> Any:
        if isinstance(self._given, dict):
            return self.trace_files
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

    def _frame(self, rank: int) -> pd.DataFrame:
        trace = self.kept[rank]
        frame = hta_frame(
            trace,
            hta_rows(trace.table),
            self.symbol_table,
            zero_ns=self._zero_ns if self._aligned else -_own_zero_ns(trace),
            columns=self.parser_config.get_args(),
        )
        if self._decoded is not None:
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, self._decoded)
        return frame

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """Add the columns ``s_name`` and ``s_cat`` to the frames, of text."""
        self._decoded = use_shorten_name
        frames = self.traces.built() if isinstance(self.traces, Frames) else self.traces.values()
        for frame in frames:
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
        if rank not in self.kept:
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

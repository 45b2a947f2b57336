"""HTA's ``Trace``: a `TraceSet` with the methods, frames, trace files and steps of HTA."""

from __future__ import annotations

import glob
import gzip
import json
import re
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import pandas as pd

from hta_widgets.compat.config import DEFAULT_TRACE_DIR, ParserConfig, logger, normalize_path
from hta_widgets.compat.frames import (
    ANNOTATION,
    TraceSymbolTable,
    decode_symbol_id_to_symbol_name,
    first_event_ns,
    hta_frame,
    hta_rows,
    in_us,
    symbols_of,
)
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder, target_path, write_atomically
from hta_widgets.formats.kineto.reader import peek_rank
from hta_widgets.readers.discovery import find_files, natural_key
from hta_widgets.readers.load import load
from hta_widgets.readers.ranks import assign_ranks
from hta_widgets.readers.streams import open_stream
from hta_widgets.trace.arrays import Array, Bools, Rows
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import base_time_ns
from hta_widgets.trace.trace import Trace as RankTrace
from hta_widgets.trace.trace_part import trace_within
from hta_widgets.trace.traceset import Selection, TraceSet

_OWNERS: WeakKeyDictionary[TraceSymbolTable, ref[Trace]] = WeakKeyDictionary()

_REMEDY = (
    "Analyses read the trace, not the frames: they leave out rows and ranks that are dropped from"
    " `traces`, but cannot take other values. Change a copy, get_trace(rank).copy(), and compute on"
    " that; or change the file (get_raw_trace_for_one_rank, write_raw_trace) and load it."
)
_ADDED = ["s_name", "s_cat"]  # by `Trace.decode_symbol_ids`
_COPY_ON_WRITE = int(pd.__version__.split(".")[0]) >= 3

_STEP = "ProfilerStep"
_STATED_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*"?(\d+)')
_MAX_INFO_BYTES = 4096  # maximum distance between "distributedInfo" and its rank
_ENDINGS = (".json", ".gz")
_COUNTERS = "_with_counters.json"
_OVERLAYS = ("overlaid_critical_path_", "overlaid_")


class Trace(TraceSet):
    """The traces of a job: a `TraceSet` of all events, with HTA's methods and frames.

    After ``parse_traces``, the frames have the times in the files. After ``load_traces``, all ranks
    share a clock that starts at 0, and the last step is left out.

    Parameters
    ----------
    trace_files : dict of int to str, or list of str, optional
        Files keyed by rank, or files that contain their ranks. Names may be relative to
        `trace_dir`.
    trace_dir : str
        A folder with one trace file per rank, used if no files are given. If it does not contain
        traces itself, its subfolders are searched.
    parser_config : ParserConfig, optional

    Attributes
    ----------
    traces : mapping of int to DataFrame
        HTA's frames, keyed by rank and created on first access. Analyses leave out ranks and rows
        that were dropped here. They raise an error if values were changed, because they read the
        trace.
    symbol_table : TraceSymbolTable
    trace_files : dict of int to str
        Files keyed by rank. May be set before parsing.
    meta_data : dict of int to dict
        For each rank, the top-level keys of its file, and ``device_type``.
    min_ts : int or float
        Time 0 of the aligned frames in µs, on the clock of the first rank's file.
    is_parsed : bool
    """

    def __init__(
        self,
        trace_files: dict[int, str] | list[str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        parser_config: ParserConfig | None = None,
    ) -> None:
        super().__init__(())
        if trace_files is not None and not isinstance(trace_files, (dict, list, tuple)):
            raise _wrong_files_error(trace_files)
        self.trace_path = normalize_path(str(trace_dir))
        self.parser_config = parser_config or ParserConfig.get_default_cfg()
        self._given: Any = trace_files
        self._files: dict[int, str] | None = None
        self._files_found: dict[int, str] | None = None
        self._frames = _Frames((), self._frame)
        self.traces: MutableMapping[int, pd.DataFrame] = self._frames
        self.symbol_table = TraceSymbolTable()
        self.meta_data: dict[int, dict[str, Any]] = {}
        self.min_ts: int | float = 0
        self.is_parsed = False
        self._base: TraceSet = self
        #: id of the base set, dropped rows by rank, and the set without these rows
        self._edited: tuple[int, dict[int, bytes], TraceSet] | None = None
        self._zero_ns = 0
        self.is_aligned = False
        self._decoded: bool | None = None

    def load_traces(
        self,
        include_last_profiler_step: bool | None = False,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Parse all ranks, align their clocks and leave out the last step.

        `use_multiprocessing` and `use_memory_profiling` are ignored, here and below.
        """
        if not self.is_parsed:
            self.parse_traces()
            self.align_and_filter_trace(include_last_profiler_step)

    def parse_traces(
        self,
        max_ranks: int = -1,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        """Read the files of all ranks, or of the first `max_ranks`."""
        loaded = load(self._source())
        self._take(loaded if max_ranks < 0 else loaded.subset(loaded.ranks[:max_ranks]))

    def parse_multiple_ranks(
        self, ranks: list[int], use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Read the files of these ranks."""
        self._take(load(self._source(), ranks=ranks))

    def parse_single_rank(self, rank: int) -> None:
        """Read the file of one rank."""
        self._take(load(self._source(), ranks=[rank]))

    def align_and_filter_trace(self, include_last_profiler_step: bool | None = False) -> None:
        """Align the ranks' clocks to start at the first event, and leave out the last step."""
        self.is_aligned = True
        self._base = without_last_step(self.kept, keep_last=bool(include_last_profiler_step))
        self.traces = self._frames = _Frames(self._base, self._frame)

    def _take(self, loaded: TraceSet) -> None:
        self._traces = {trace.rank: trace for trace in loaded.values()}
        self._origin_ns = loaded.origin_ns
        self._problems = loaded.problem_list
        self._files_found = {rank: trace.path for rank, trace in self.items()}
        self._files = dict(self._files_found)
        _warn_of_ranks(loaded.problem_list)
        if ignored := self.parser_config.without_effect():
            logger.warning("parser_config: %s: no events are left out here", ", ".join(ignored))
        for trace in self.values():
            self.symbol_table.add_symbols(symbols_of(trace.table))
        _OWNERS[self.symbol_table] = ref(self)
        self.meta_data = {
            rank: {
                **trace.metadata,
                "device_type": _device_type(trace.metadata, self.symbol_table.sym_index),
            }
            for rank, trace in self.items()
        }
        self._zero_ns = first_event_ns(self.values())
        first = next(iter(self.values()), None)
        self.min_ts = 0 if first is None else in_us(self._zero_ns + _own_zero_ns(first)).item()
        self._base, self.is_aligned, self.is_parsed = self, False, True
        self.traces = self._frames = _Frames(self, self._frame)

    @property
    def trace_files(self) -> dict[int, str]:
        """Files by rank."""
        if self._files is None:
            self._files_found = self._find_files()
            self._files = dict(self._files_found)
        return self._files

    @trace_files.setter
    def trace_files(self, files: Mapping[int, str]) -> None:
        if not isinstance(files, Mapping):
            raise _wrong_files_error(files)
        self._files = dict(files)

    def _find_files(self) -> dict[int, str]:
        if isinstance(self._given, dict):
            return {rank: self._locate_file(name) for rank, name in self._given.items()}
        try:
            files = find_files(self._named_files(), Problems())
        except TraceError:
            return {}  # parsing raises the error
        return create_rank_to_trace_dict([file.path for file in files])[1]

    def _source(self) -> Any:
        """Return what to load: the `trace_files` if they were set, otherwise the user's files."""
        if isinstance(self._given, dict) or self._files != self._files_found:
            return {rank: self._locate_file(name) for rank, name in self.trace_files.items()}
        return self._named_files()

    def _named_files(self) -> Any:
        if self._given is not None:
            return [self._locate_file(name) for name in self._given]
        folder = Path(self.trace_path)
        files = _trace_files_in(folder) if folder.is_dir() else []
        # `load` raises for a path that is not a trace, but skips such matches of a pattern.
        return [glob.escape(name[:-1]) + f"[{name[-1]}]" for name in files] or self.trace_path

    def _locate_file(self, name: str) -> str:
        path = Path(normalize_path(str(name)))
        return str(path if path.is_absolute() or path.exists() else Path(self.trace_path) / path)

    @property
    def kept(self) -> TraceSet:
        """The events still in `traces`. Raises if values were changed, or events or ranks added."""
        frames = self.traces
        if unknown := sorted(set(frames) - set(self._base)):
            raise TraceError(
                f"traces holds rank {unknown[0]}, which was not parsed", remedy=_REMEDY
            )
        touched = frames.built_frames() if isinstance(frames, _Frames) else frames
        dropped = {rank: self._frames.dropped_rows(rank, frame) for rank, frame in touched.items()}
        if len(frames) == len(self._base) and not any(map(len, dropped.values())):
            return self._base
        edits = {rank: dropped[rank].tobytes() if rank in dropped else b"" for rank in frames}
        if self._edited is None or self._edited[:2] != (id(self._base), edits):
            parts = [self._without_rows(rank, dropped.get(rank)) for rank in frames]
            edited = TraceSet(parts, like=self._base, problems=self._base.problem_list)
            # Reused while the edits are the same, to keep its memoized results.
            self._edited = id(self._base), edits, edited
        return self._edited[2]

    def _without_rows(self, rank: int, dropped: Rows | None) -> RankTrace:
        trace = self._base[rank]
        if dropped is None or not len(dropped):
            return trace
        member = np.ones(len(trace.table), dtype=bool)
        member[hta_rows(trace.table)[dropped]] = False
        return trace_within(trace, member, Selection())

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
        """Add the text columns ``s_name`` and ``s_cat`` to the frames."""
        self._decoded = use_shorten_name
        frames = self.traces.built_frames() if isinstance(self.traces, _Frames) else self.traces
        for frame in frames.values():
            decode_symbol_id_to_symbol_name(frame, self.symbol_table, use_shorten_name)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return the frame of a rank."""
        if rank not in self.traces:
            raise self._no_rank_error(rank)
        return self.traces[rank]

    def get_all_traces(self) -> MutableMapping[int, pd.DataFrame]:
        """Return the frames, keyed by rank."""
        return self.traces

    def get_ranks(self) -> list[int]:
        """Return the ranks, ascending."""
        return sorted(self.traces)

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Return the step numbers of a rank, by default of the first rank."""
        rank = next(iter(self.get_ranks()), -1) if rank is None else rank
        if rank not in self._base or rank not in self.traces:
            return []
        steps = np.unique(self.kept[rank].table.step)
        numbers: list[int] = steps[steps >= 0].tolist()
        return numbers

    def get_trace_duration(self, rank: int | None = None) -> int | float:
        """Return the time in µs from the first to the last start on a rank."""
        rank = next(iter(self.get_ranks()), -1) if rank is None else rank
        if rank not in self.kept:
            raise self._no_rank_error(rank)
        table = self.kept[rank].table
        starts = table.start_ns[hta_rows(table)]
        return in_us(np.ptp(starts)).item() if len(starts) else 0

    def get_device_type(self) -> str:
        """Return the device type of the first rank, such as ``NVIDIA GPU``."""
        metadata = next(iter(self.meta_data.values()), {})
        return str(metadata.get("device_type", "UNKNOWN"))

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        """Return the Unix time of the trace's time 0, in ns."""
        if rank not in self:
            raise self._no_rank_error(rank)
        if self.origin_ns is None:
            raise KeyError("baseTimeNanoseconds: the file has no time of recording")
        return self.origin_ns + self._zero_ns

    def _no_rank_error(self, rank: int) -> TraceError:
        return TraceError(f"no rank {rank}", remedy=f"The ranks are {self.get_ranks()}.")

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return the JSON value in the file of a rank."""
        if rank not in self.trace_files:
            raise self._no_rank_error(rank)
        return read_trace(self.trace_files[rank])

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Write a JSON value to a gzip file."""
        text = json.dumps(trace_contents, indent=2).encode()
        with write_atomically(target_path(output_file)) as file:
            file.write(gzip.compress(text))

    def convert_time_series_to_events(
        self, series: pd.DataFrame, counter_name: str, counter_col: str
    ) -> list[dict[str, Any]]:
        """Return a time series as counter events, with times as in the first rank's file.

        `series` has the columns ``pid, ts`` and optionally ``name, id``.
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
        records: Any = events.to_dict("records")
        return list(records)

    @staticmethod
    def flow_event(
        id: int,
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


def kept_of(t: TraceSet) -> TraceSet:
    """Return the events for HTA's analyses; every event if `t` is not HTA's `Trace`."""
    return t.kept if isinstance(t, Trace) else t


def owner_of(symbol_table: TraceSymbolTable) -> Trace | None:
    """Return the trace that owns a symbol table; None if it no longer exists."""
    owner = _OWNERS.get(symbol_table)
    return None if owner is None else owner()


def get_cpu_gpu_correlation(df: pd.DataFrame) -> pd.DataFrame:
    """Return each device event with the call that launched it: ``gpu_index, cpu_index``."""
    launched = df[(df["stream"] >= 0) & (df["index_correlation"] > 0)]
    return pd.DataFrame(
        {
            "gpu_index": launched["index"].to_numpy(),
            "cpu_index": launched["index_correlation"].to_numpy(),
        }
    )


def _wrong_files_error(files: object) -> TraceError:
    return TraceError(
        f"trace_files is a {type(files).__name__}",
        remedy="Give a list of files, or a dictionary of rank to file.",
    )


def _own_zero_ns(trace: RankTrace) -> int:
    """Return the offset that converts a time of the set to the time in the rank's file."""
    return int(trace.zero_ns - base_time_ns(trace.metadata) - trace.shift_ns)


def _device_type(metadata: Mapping[str, Any], symbols: Mapping[str, int]) -> str:
    """Return HTA's name for the device of a rank, from its backend and launch calls."""
    info = metadata.get("distributedInfo")
    if isinstance(info, dict) and "mtia:hccl" in str(info.get("backend")):
        return "MTIA"
    devices = {
        "cudaLaunchKernel": "NVIDIA GPU",
        "hipLaunchKernel": "AMD GPU",
        "runFunction - job_prep_and_submit_for_execution": "MTIA",
    }
    return next((device for launch, device in devices.items() if launch in symbols), "UNKNOWN GPU")


class _Frames(UserDict[int, Any]):
    """One frame per rank, created on first access.

    `_originals` are the frames as created. With pandas' copy-on-write, they share memory with the
    user's frames until one of them is changed.
    """

    def __init__(self, ranks: Iterable[int], build: Callable[[int], pd.DataFrame]) -> None:
        super().__init__(dict.fromkeys(ranks))
        self._build = build
        self._originals: dict[int, pd.DataFrame] = {}

    def __getitem__(self, rank: int) -> pd.DataFrame:
        if self.data[rank] is None:
            self.data[rank] = self._original(rank).copy(deep=not _COPY_ON_WRITE)
        frame: pd.DataFrame = self.data[rank]
        return frame

    def _original(self, rank: int) -> pd.DataFrame:
        if rank not in self._originals:
            self._originals[rank] = self._build(rank)
        return self._originals[rank]

    def built_frames(self) -> dict[int, pd.DataFrame]:
        return {rank: frame for rank, frame in self.data.items() if frame is not None}

    def dropped_rows(self, rank: int, frame: pd.DataFrame) -> Rows:
        """Return the positions of dropped rows. Raise if rows were added or values changed."""
        built = self._original(rank)
        records = pd.Index(frame["index"] if "index" in frame.columns else frame.index)
        is_complete = records.equals(built.index)
        kept = np.arange(len(built)) if is_complete else built.index.get_indexer(records)
        if (kept < 0).any() or len(np.unique(kept)) < len(kept):
            raise TraceError(f"events were added to the frame of rank {rank}", remedy=_REMEDY)
        changed = [
            column
            for column in built.columns.difference(_ADDED, sort=False)
            if column not in frame.columns
            or not _is_same(frame[column], built[column], None if is_complete else kept)
        ]
        if changed:
            raise TraceError(
                f"the frame of rank {rank} was changed: {', '.join(map(repr, changed))}",
                remedy=_REMEDY,
            )
        return np.setdiff1d(np.arange(len(built)), kept, assume_unique=True)


def _is_same(column: pd.Series[Any], built: pd.Series[Any], positions: Rows | None) -> bool:
    """Return whether a column is unchanged. `positions` are its positions in the original."""
    current, original = column.to_numpy(), built.to_numpy()
    if positions is not None:
        original = original[positions]
    elif current.__array_interface__["data"] == original.__array_interface__["data"]:
        return True  # the same memory
    if current.dtype.kind in "biuf" and original.dtype.kind in "biuf":
        return np.array_equal(current, original, equal_nan=True)
    return current.tolist() == original.tolist()


def without_last_step(traces: TraceSet, *, keep_last: bool = False) -> TraceSet:
    """Return the set without each rank's last step, which the profiler's end cuts short.

    The set keeps host events that start before the last ``ProfilerStep`` on the host (all of them
    with `keep_last`), and device events whose launch is kept. `.problems` counts device events
    without a launch. Ranks without steps are kept whole, as are sets with fewer than two different
    steps. If the step has a range on the device, HTA uses its start, which is later.
    """
    names = {trace.table.names[code] for trace in traces.values() for code in _step_codes(trace)}
    if len(names) < 2:
        return traces
    problems = traces.problem_list
    parts = []
    for trace in traces.values():
        table, codes = trace.table, _step_codes(trace)
        if not len(codes):
            parts.append(trace)
            continue
        last_ns = table.start_ns[np.isin(table.name, codes) & (table.stream < 0)].max()
        member: Bools = keep_last | (table.start_ns < last_ns)
        device = np.flatnonzero((table.stream >= 0) & (table.kind != ANNOTATION))
        call = trace.launch_of[device]
        member[device] = (call >= 0) & member[call]
        problems.add(
            "unpaired",
            int((call < 0).sum()),
            "device events without a launch belong to no step; HTA leaves them out, so they are"
            " left out here",
            trace.rank,
            trace.path,
        )
        parts.append(trace_within(trace, member, Selection()))
    return TraceSet(parts, like=traces, problems=problems)


def _step_codes(trace: RankTrace) -> Array:
    table = trace.table
    codes = [code for code, name in enumerate(table.names.values) if name.startswith(_STEP)]
    used = np.isin(table.name, np.array(codes, dtype=np.int32)) & (table.stream < 0)
    return np.unique(table.name[used])


def create_rank_to_trace_dict(file_list: Iterable[str]) -> tuple[bool, dict[int, str]]:
    """Return True and the files keyed by rank, assigned as in `hta_widgets.load`.

    Ranks in the files take precedence. A file without a rank, or with the rank of another file,
    gets the rank in its name or an unused one, with a warning.
    """
    paths = sorted(file_list, key=natural_key)
    problems = Problems()
    ranks = assign_ranks(paths, [None] * len(paths), [_rank_in(path) for path in paths], problems)
    _warn_of_ranks(problems)
    return True, dict(zip(ranks, paths, strict=True))


def create_rank_to_trace_dict_from_dir(trace_dir: str) -> tuple[bool, dict[int, str]]:
    """Return whether a folder contains traces, and these files keyed by rank."""
    files = _trace_files_in(Path(trace_dir)) if Path(trace_dir).is_dir() else []
    return create_rank_to_trace_dict(files) if files else (False, {})


def get_trace_files(trace_path: str) -> dict[int, str]:
    """Return the traces in a folder, keyed by rank; an empty dict if the folder does not exist."""
    return create_rank_to_trace_dict_from_dir(trace_path)[1]


def read_trace(file_path: str) -> dict[str, Any]:
    """Return the JSON value in a trace file."""
    path = Path(file_path)
    if not path.name.endswith(_ENDINGS):
        raise TraceError("its name must end in .json or .gz", path=path)
    raw = path.read_bytes()
    value: dict[str, Any] = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return value


def write_trace(trace_data: dict[str, Any], file_path: str) -> None:
    """Write a JSON value to a file, compressed if the file name ends in ``.gz``."""
    path = target_path(file_path)
    text = json.dumps(trace_data).encode("utf-8")
    new_folder(path.parent)
    with write_atomically(path) as file:
        file.write(gzip.compress(text, 6) if path.suffix == ".gz" else text)


def update_trace_rank(file_path: str, rank: int) -> None:
    """Write a rank into a trace file. To leave the file unchanged, load ``{rank: path}``."""
    content = read_trace(file_path)
    content["distributedInfo"] = {**content.get("distributedInfo", {}), "rank": rank}
    write_trace(content, file_path)


def _trace_files_in(folder: Path) -> list[str]:
    """Return the ``.json`` and ``.gz`` files in a folder, except copies that HTA wrote.

    HTA itself reads its copies with counters and overlays as further traces of the same rank.
    """
    names = {entry.name for entry in folder.iterdir() if entry.name.endswith(_ENDINGS)}
    originals = [name for name in names if _original(name) not in names - {name}]
    return sorted((str(folder / name) for name in originals), key=natural_key)


def _original(name: str) -> str:
    """Return the original of a copy that HTA wrote, judging by its name; otherwise ``""``."""
    if _COUNTERS in name:
        return name.replace(_COUNTERS, ".json")
    return next((name.removeprefix(prefix) for prefix in _OVERLAYS if name.startswith(prefix)), "")


def _rank_in(path: str) -> int | None:
    """Return the rank in a file, even if it comes after the events."""
    rank = peek_rank(path)
    if rank is not None:
        return rank
    try:
        with open_stream(path) as stream:
            tail = b""
            while block := stream.read(1 << 20):
                text = tail + block
                if match := _STATED_RANK.search(text):
                    return int(match[1])
                tail = text[-_MAX_INFO_BYTES:]
    except TraceError:
        pass  # loading it raises
    return None


def _warn_of_ranks(problems: Problems) -> None:
    """Log files without a rank or with the rank of another file, in the words of HTA."""
    words = {
        "guessed_rank": "this trace file does not have the rank",
        "duplicate_rank": "has the same rank",
    }
    for problem in problems:
        if problem.kind in words:
            logger.warning("%s: %s: it %s", problem.file, words[problem.kind], problem.detail)

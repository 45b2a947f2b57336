"""`load`: reads trace files into a `TraceSet`.

`discovery` finds the files, `detection` determines the format of each, and `cache` provides files
that were read before. All other files are read one after another, in a process pool, or on an
executor. The `Outcome` of a file has traces and problems. `_assemble_set` numbers the ranks, joins
files of the same rank, and lets formats complete facts that depend on all files.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hta_widgets import options as settings, taxonomy
from hta_widgets.arguments import check_arguments, require_pattern
from hta_widgets.errors import TraceError
from hta_widgets.files import temporary_folder
from hta_widgets.readers import cache as columnar
from hta_widgets.readers.discovery import FoundFile, find_files, report_foreign
from hta_widgets.readers.encodings import drop_copies
from hta_widgets.readers.file_traces import read_file
from hta_widgets.readers.foreign import SUPPORTED_FORMATS_TEXT
from hta_widgets.readers.formats import (
    Outcome,
    all_formats,
    format_faults,
    format_named,
    format_names,
    profile_type,
    resolve_reference,
)
from hta_widgets.readers.parallel import (
    FileToRead,
    as_bytes,
    plan_workers,
    read_on_executor,
    trim_memory,
)
from hta_widgets.readers.progress import REPORT_EVERY_S, Progress, reporting_progress
from hta_widgets.readers.ranks import assign_ranks
from hta_widgets.readers.remote import LocalCopies, is_remote
from hta_widgets.readers.streams import decompressed_size
from hta_widgets.readers.windows import join_windows
from hta_widgets.store.rank_file import limit_columns
from hta_widgets.store.ranks import open_store
from hta_widgets.text import share
from hta_widgets.trace.conditions import normalize_ranks
from hta_widgets.trace.graph_captures import graph_replays
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.workers import WorkerPool, require_executor


def is_profiler(source: object) -> bool:
    """Return whether the source is a `torch.profiler.profile`, without importing torch."""
    return any(
        kind.__module__.split(".")[0] == "torch" and hasattr(source, "export_chrome_trace")
        for kind in type(source).__mro__
    )


class _Directory:
    """A temporary directory that is removed together with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(dir=temporary_folder()))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def export_profiler(profiler: Any) -> tuple[str, object]:
    """Write the profiler's trace to a file; return its path, and an object that keeps the file."""
    directory = _Directory()
    path = directory.path / "live.pt.trace.json"
    try:
        profiler.export_chrome_trace(str(path))
    except (AssertionError, AttributeError, RuntimeError) as cause:
        directory.remove()
        raise TraceError(
            f"the profiler has no trace to export ({str(cause) or type(cause).__name__})",
            remedy="Leave its with block, or call stop(), before loading it. "
            "If on_trace_ready has exported the trace, load that file.",
        ) from None
    if not path.exists() or not path.stat().st_size:
        directory.remove()
        raise TraceError("the profiler exported nothing", remedy="Record at least one step.")
    return str(path), directory


_PARALLEL_BYTES = 300_000_000
#: Files of at least this size are cached; the second limit applies if all files together exceed
#: `_MANY_BYTES`.
_MIN_CACHED_BYTES = 8_000_000
_MIN_CACHED_BYTES_OF_MANY = 500_000
_MANY_BYTES = 100_000_000
#: After reading a file of at least this size, freed memory is returned to the system.
_TRIM_FROM_BYTES = 50_000_000
#: Largest size of a cache entry per byte of JSON.
_COPIED_SHARE = 0.3


@check_arguments
def load(
    source: Any,
    *,
    ranks: int | Iterable[int] | None = None,
    format: str = "auto",
    executor: Executor | None = None,
    cache: bool = True,
    progress: bool | Progress = True,
    memory_limit: float | str | None = None,
    steps: str | None = None,
    capture: Any = None,
) -> TraceSet:
    """Load traces.

    Parameters
    ----------
    source : path-like, iterable of path-like, mapping, or torch.profiler.profile
        A file; a directory, which is searched recursively; a glob pattern; a list of these;
        ``{rank: path}``; or a stopped profiler. Paths may be URLs: ``http://``, ``s3://``,
        ``gs://`` and all others that fsspec and the installed drivers support.
    ranks : int or iterable of int, optional
        Load only these.
    format : str
        ``"auto"`` detects the format of each file from its contents. A name restricts loading to
        files of that format: ``"kineto"`` (any Chrome trace-event JSON, read as such), ``"byteps"``
        (workers' ``comm.json``), ``"byteps-server"``, ``"mpi-profile"``, ``"mpi-trace"``,
        ``"nsight"`` (exports of Nsight Systems), ``"xplane"`` (JAX), ``"ascend"``, ``"ascend-db"``,
        ``"rocpd"``, ``"rocprof-json"``, ``"flight-recorder"`` and ``"memory-snapshot"`` (dumps of
        PyTorch), or ``"store"`` (a folder written by `TraceSet.save`).
    executor : concurrent.futures.Executor, optional
        Executor that reads the files, for example ``client.get_executor()`` of Dask's
        ``distributed``. Its processes write columns to the cache (with ``cache=False``, to
        ``TMPDIR``), from which this process maps them. Later they run the analyses of each rank;
        see `TraceSet.on`. By default, this process reads small inputs, and a process pool reads
        large inputs of several files.
    cache : bool
        Whether to read and write the columnar cache, in the user's cache directory or in the folder
        set by the environment variable ``HTA_WIDGETS_CACHE``. Cached columns are mapped and take
        hardly any memory.
    progress : bool or callable
        Whether to show a progress bar in notebooks and terminals; or a function that is called with
        the number of bytes read so far and the size of all files. An interrupt, or a
        `KeyboardInterrupt` raised by the function, stops loading and its processes.
    memory_limit : float or str, optional
        Memory that loading may take, in bytes or as in ``"3 GB"``. Ranks that are not cached are
        then written to temporary files and mapped, and fewer files are read at a time. A
        `RuntimeWarning` is issued if a file needs more or, without a limit, if too little memory is
        free.
    steps : str, optional
        Regular expression for ranges that are steps, for files of Nsight Systems, XProf and ROCm,
        which do not state all steps. It is searched for in the names of ranges. The last number in
        a name is the step number. By default, steps are ranges such as ``iteration 10``, or else
        ranges with a common name that cover most of the time. The cache is not used.
    capture : path-like, iterable of path-like, mapping or TraceSet, optional
        Traces of the capture of the CUDA or HIP graphs that `source` replays, by rank. Analyses
        that follow launches (`analysis.operator_efficiency`, `modules`) then know the operators of
        replayed kernels; `analysis.graph_replays` states how certain these are. The events of the
        result are the events of `source`.

    Returns
    -------
    TraceSet
        Its `problems` list everything that was skipped, repaired or guessed.

    Raises
    ------
    TraceError
        If nothing can be read. A damaged file is loaded as far as possible.

    Examples
    --------
    >>> traces = hw.load("runs/llama-8b/")  # doctest: +SKIP
    """
    options: dict[str, Any] = {"format": format, "executor": executor, "progress": progress}
    options |= {"cache": cache, "memory_limit": memory_limit, "steps": steps}
    if capture is not None:
        replay = load(source, ranks=ranks, **options)
        is_loaded = isinstance(capture, TraceSet)
        return with_captures(replay, capture if is_loaded else load(capture, **options))
    if format not in format_names():
        raise TraceError(
            f"unknown format {format!r}", remedy=f"The formats are {', '.join(format_names())}."
        )
    if executor is not None:
        require_executor(executor)
    is_default = steps is None
    steps = settings.steps if is_default else steps
    cache = cache and steps is None
    wanted = _requested_ranks(ranks)
    limit_bytes = None if memory_limit is None else as_bytes(memory_limit)
    if is_remote(source):
        copies = LocalCopies(cache)
        try:
            traces = load(copies.source(source), ranks=wanted, **options)
        except TraceError as error:
            raise copies.with_original_name(error) from None
        return copies.with_original_names(traces).on(executor)
    problems = Problems()
    for fault in format_faults():
        problems.add("foreign", 1, fault)
    keepalive = None
    if is_profiler(source):
        path, keepalive = export_profiler(source)
        files, cache, executor = [FoundFile(path)], False, None
    else:
        files = _drop_unrequested(find_files(source, problems, format), wanted)
    if [file.format for file in files] == ["store"] and files[0].rank is None and wanted is None:
        stored = open_store(files[0].path, profile_type=profile_type)
        return stored.trace_set(problems).on(executor)
    if steps is not None:
        _require_steps_pattern(steps, files, is_default=is_default)
    with nullcontext() if limit_bytes is None else limit_columns(limit_bytes // 4):
        outcomes = _read_all(
            files, executor, keepalive, limit_bytes, progress=progress, cache=cache, steps=steps
        )
        return _assemble_set(source, files, outcomes, wanted, problems).on(executor)


def with_captures(replay: TraceSet, capture: TraceSet) -> TraceSet:
    """Return the ranks of `replay`, each with the trace in which its graphs were captured."""
    if len(replay) == len(capture) == 1:
        captures = dict(zip(replay, capture.values(), strict=True))
    else:
        captures = {rank: capture[rank] for rank in replay if rank in capture}
    linked = {rank: replay[rank].replace(capture=trace) for rank, trace in captures.items()}
    problems = replay.problem_list
    for rank, trace in linked.items():
        if not any(launch.capture >= 0 for launch in graph_replays(trace)):
            problems.add("capture", 1, "no graph launch matches the capture", rank, trace.path)
    traces = [linked.get(rank, trace) for rank, trace in replay.items()]
    return TraceSet(traces, problems=problems, like=replay)


def read_trace(
    path: str,
    format_name: str = "kineto",
    *,
    advance: object = None,
    keepalive: object = None,
    cache: bool = False,
    aside: Path | None = None,
    steps: str | None = None,
) -> Outcome:
    """Read a file; errors are returned instead of raised.

    With `cache`, columns are written to the cache and mapped. Without it, or if that fails, they
    are written to the folder `aside`, if given, and mapped.
    """
    size_bytes = 0
    try:
        size_bytes = decompressed_size(path)
        options = {"steps": steps} if format_named(format_name).reading.takes_steps else {}
        outcome = read_file(path, format_name, advance=advance, keepalive=keepalive, **options)
        entry = None
        if cache and format_name != "store" and not taxonomy.version():
            entry = columnar.store_entry(path, outcome, format_name)
    except TraceError as error:
        return Outcome((), Problems(), error)
    except MemoryError:
        remedy = "Load fewer ranks, or use a machine with more memory."
        too_large = TraceError("does not fit in memory", path=path, remedy=remedy)
        return Outcome((), Problems(), too_large, is_of_contents=False)
    except Exception as cause:  # noqa: BLE001 - the other files are still read
        unexpected = TraceError(
            f"cannot be read ({type(cause).__name__}: {cause})",
            path=path,
            remedy="This is a bug in hta_widgets: please report it.",
        )
        unexpected.__cause__ = cause
        return Outcome((), Problems(), unexpected, is_of_contents=False)
    finally:
        if size_bytes >= _TRIM_FROM_BYTES:
            trim_memory()
    if entry is None and aside is not None and format_name != "store":
        try:
            return columnar.spill_to_disk(outcome, aside, path, format_name)
        except TraceError as error:
            return Outcome((), Problems(), error, is_of_contents=False)
    return outcome if entry is None else entry


def _requested_ranks(ranks: int | Iterable[int] | None) -> set[int] | None:
    if ranks is None:
        return None
    wanted = set(normalize_ranks(ranks))
    if not wanted:
        raise TraceError("ranks is empty", remedy="Omit `ranks` to load all ranks.")
    return wanted


def _require_steps_pattern(steps: str, files: list[FoundFile], *, is_default: bool) -> None:
    """Raise a `TraceError` if the pattern is invalid or given for files that do not need it."""
    require_pattern(steps, f"steps={steps!r}")
    takers = [format_ for format_ in all_formats() if format_.reading.takes_steps]
    names = {format_.name for format_ in takers}
    if not is_default and not any(file.format in names for file in files):
        plural = ", ".join(dict.fromkeys(format_.plural for format_ in takers))
        raise TraceError(f"steps= is for {plural}", remedy="Omit it for files of other formats.")


def _drop_unrequested(files: list[FoundFile], wanted: set[int] | None) -> list[FoundFile]:
    """Drop files whose first bytes state a rank that was not requested."""
    peeks = [format_named(file.format).reading.peek_rank for file in files]
    if wanted is None or len(files) == 1 or not all(peeks):
        return files
    stated = [
        resolve_reference(peek_rank)(file.path) if file.rank is None else file.rank
        for file, peek_rank in zip(files, peeks, strict=True)
    ]
    if None in stated or len(set(stated)) < len(stated) or not wanted.issubset(stated):
        return files
    return [file for file, rank in zip(files, stated, strict=True) if rank in wanted]


def _read_all(
    files: list[FoundFile],
    executor: Executor | None,
    keepalive: object,
    limit_bytes: int | None,
    *,
    progress: bool | Progress,
    cache: bool,
    steps: str | None,
) -> list[Outcome]:
    """Return the outcome of each file, from the cache or by reading the file."""
    read = read_trace if steps is None else partial(read_trace, steps=steps)
    sizes = [_size_as_json(file) for file in files]
    has_other_processes = executor is not None and not isinstance(executor, ThreadPoolExecutor)
    to_cache = [False] * len(files)
    if cache:
        to_cache = _files_to_cache(files, sizes, of_any_size=has_other_processes)
    outcomes = [
        columnar.fetch(file.path, file.format) if may_be_cached else None
        for file, may_be_cached in zip(files, to_cache, strict=True)
    ]
    missing = [index for index, outcome in enumerate(outcomes) if outcome is None]
    to_read = []
    for index in missing:
        path, format_name = files[index].path, files[index].format
        to_read.append(FileToRead(path, format_name, _size(path), to_cache[index]))
    missing_sizes = [sizes[index] for index in missing]
    is_mapped = has_other_processes or all(file.to_cache for file in to_read)
    plan = plan_workers(missing_sizes, limit_bytes, _cores(), is_mapped=is_mapped)
    aside = temporary_folder() if plan.spills_to_disk and keepalive is None else None
    with ExitStack() as stack:
        pool: WorkerPool | None = None
        is_large = len(missing) > 1 and sum(missing_sizes) >= _PARALLEL_BYTES
        if executor is None and plan.workers > 1 and is_large and _cores() > 1:
            pool = stack.enter_context(WorkerPool(plan.workers))
        total_bytes = sum(file.size_bytes for file in to_read)
        advance = stack.enter_context(
            reporting_progress(total_bytes, len(missing), progress=progress)
        )
        if executor is not None:
            results = read_on_executor(executor, read, to_read, aside, advance)
        elif pool is not None:
            results = _read_in_pool(pool, read, to_read, aside, advance)
        else:
            read = partial(read, advance=advance, keepalive=keepalive, aside=aside)
            results = [read(file.path, file.format, cache=file.to_cache) for file in to_read]
    read_outcomes = iter(results)
    return [next(read_outcomes) if outcome is None else outcome for outcome in outcomes]


def _read_in_pool(
    pool: WorkerPool,
    read: Callable[..., Outcome],
    files: list[FileToRead],
    aside: Path | None,
    advance: Callable[[float], object],
) -> list[Outcome]:
    """Read files in a pool, and report progress until all are read."""
    outcomes: dict[int, Outcome] = {}
    reports: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()

    def report_bytes(index: int, size: float) -> None:
        reports.put((index, size))

    tasks = {
        pool.submit_reporting(
            partial(report_bytes, index),
            read,
            file.path,
            file.format,
            cache=file.to_cache,
            aside=aside,
        ): index
        for index, file in enumerate(files)
    }
    left_bytes = [float(file.size_bytes) for file in files]
    pending = set(tasks)
    while pending:
        done, pending = wait(pending, REPORT_EVERY_S, FIRST_COMPLETED)
        for task in done:
            try:
                outcomes[tasks[task]] = task.result()
            except TraceError as error:
                path = files[tasks[task]].path
                raise TraceError(error.message, path=path, remedy=error.remedy) from error
        while not reports.empty():
            index, size = reports.get()
            # If a worker was killed, its file is read again and its bytes are reported again.
            size = min(size, left_bytes[index])
            left_bytes[index] -= size
            advance(size)
        for task in done:
            advance(left_bytes[tasks[task]])
    return [outcomes[index] for index in range(len(files))]


def _files_to_cache(files: list[FoundFile], sizes: list[int], *, of_any_size: bool) -> list[bool]:
    """Return which files to cache: large ones, until the cache would be full."""
    min_bytes = 0 if of_any_size else _MIN_CACHED_BYTES
    if sum(sizes) >= _MANY_BYTES:
        min_bytes = min(min_bytes, _MIN_CACHED_BYTES_OF_MANY)
    free_bytes, to_cache = columnar.limit_bytes(), []
    for file, size in zip(files, sizes, strict=True):
        to_cache.append(file.format != "store" and size >= min_bytes and free_bytes > 0)
        if to_cache[-1]:
            free_bytes -= int(_COPIED_SHARE * size)
    return to_cache


class _ReadTraces(NamedTuple):
    traces: list[Trace]
    #: the rank of each of `traces` in the caller's mapping
    caller_ranks: list[int | None]
    #: ranks of stores, which are complete and numbered
    stored: list[Trace]


def _assemble_set(
    source: object,
    files: list[FoundFile],
    outcomes: list[Outcome],
    wanted: set[int] | None,
    problems: Problems,
) -> TraceSet:
    """Join windows, assign ranks, and return the trace set of the `wanted` ranks."""
    files, outcomes = drop_copies(files, outcomes, problems)
    traces, caller_ranks, stored = _traces_of(source, files, outcomes, problems)
    traces, caller_ranks = _finish_formats(traces, caller_ranks, problems)
    first_of: dict[str, str] = {}
    if all(rank is None for rank in caller_ranks):
        traces, first_of = join_windows(traces)
        caller_ranks = [None] * len(traces)
    cut = {problem.file for problem in problems if problem.kind == "truncated"}
    problems = _add_truncated_lengths(problems, traces, cut)
    all_traces = traces + stored
    by_order = [format_named(trace.format).reading.keyed_by_order for trace in traces]
    ranks = assign_ranks(
        [trace.path for trace in all_traces],
        caller_ranks + [None] * len(stored),
        [trace.stated_rank for trace in traces] + [trace.rank for trace in stored],
        problems,
        by_order + [False] * len(stored),
        cut,
        all_traces,
    )
    ranked = [trace.replace(rank=rank) for trace, rank in zip(all_traces, ranks, strict=True)]
    rank_of = {trace.path: trace.rank for trace in ranked[: len(traces)]}
    problems = _note_joined_files(problems, first_of, rank_of)
    if wanted is None:
        return TraceSet(ranked, problems=problems)
    if not wanted <= set(ranks):
        missing = ", ".join(map(str, sorted(wanted - set(ranks))))
        raise TraceError(
            f"no rank {missing}", remedy=f"The ranks are {', '.join(map(str, sorted(ranks)))}."
        )
    chosen = [trace for trace in ranked if trace.rank in wanted]
    paths = {None, *(path for trace in chosen for path in (trace.path, trace.profile_path))}
    paths |= {path for path, first in first_of.items() if first in paths}
    relevant = (problem for problem in problems if problem.file in paths)
    return TraceSet(chosen, problems=Problems(relevant))


def _traces_of(
    source: object, files: list[FoundFile], outcomes: list[Outcome], problems: Problems
) -> _ReadTraces:
    """Return the traces of the files; report files without traces, and raise if none has any."""
    result = _ReadTraces([], [], [])
    foreign: list[tuple[str, str]] = []
    unread: TraceError | None = None
    for file, outcome in zip(files, outcomes, strict=True):
        traces, error = outcome.traces, outcome.error
        if error is None:
            problems.merge(outcome.problems)
            if file.rank is not None and len(traces) > 1:
                raise TraceError(
                    f"holds {len(traces)} ranks, so it cannot be rank {file.rank}",
                    path=file.path,
                    remedy="Load it without a rank: [path] instead of {rank: path}.",
                )
            if file.format == "store":
                result.stored.extend(traces)
            else:
                result.traces.extend(traces)
                result.caller_ranks.extend([file.rank] * len(traces))
        elif file.named:
            raise error
        elif not outcome.is_of_contents or not Path(file.path).exists():
            unread = unread or error
            problems.add("skipped", 1, f"the file {error.message}", file=file.path)
        else:
            foreign.append((file.path, error.message))
    report_foreign(foreign, problems)
    if result.traces or result.stored:
        return result
    if unread is not None:
        raise unread
    path, description = foreign[0]
    count = sum(problem.count for problem in problems if problem.kind in {"foreign", "empty"})
    raise TraceError(
        f"none of its {count:,} files is a trace ({Path(path).name} {description})",
        path=os.fspath(source) if isinstance(source, (str, os.PathLike)) else None,
        remedy=SUPPORTED_FORMATS_TEXT,
    )


def _note_joined_files(
    problems: Problems, first_of: Mapping[str, str], rank_of: Mapping[str, int]
) -> Problems:
    result = Problems()
    for problem in problems:
        first = first_of.get(problem.file or "")
        result.merge([problem if first is None else replace(problem, rank=rank_of[first])])
    for path, first in first_of.items():
        detail = f"holds a later window of the same rank as {Path(first).name}; the two were joined"
        result.add("duplicate_rank", 1, detail, rank_of[first], path)
    return result


def _add_truncated_lengths(
    problems: Problems, traces: list[Trace], cut: Collection[str | None]
) -> Problems:
    """Add the number and share of events read to the problems of truncated files."""
    if not cut:
        return problems
    events: Counter[str | None] = Counter()
    for trace in traces:
        events[trace.path] += len(trace)
    complete_counts = [count for path, count in events.items() if path not in cut]
    median = float(np.median(complete_counts)) if complete_counts else 0.0
    result = Problems()
    for problem in problems:
        detail = problem.detail
        count = events.pop(problem.file, 0) if problem.kind == "truncated" else 0
        if count:
            detail += f"; {count:,} events before the cut were read"
            if median > 0:
                detail += f", {share(count / median)} of the median of complete files"
        result.merge([replace(problem, detail=detail)])
    return result


def _finish_formats(
    traces: list[Trace], caller_ranks: list[int | None], problems: Problems
) -> tuple[list[Trace], list[int | None]]:
    """Call each format's `finish` with its traces and the traces of compared formats.

    Returns the traces, and the rank of each in the caller's mapping.
    """
    for format_ in all_formats():
        names = {format_.name, *format_.comparison.compared_with}
        if not format_.reading.finish or all(trace.format != format_.name for trace in traces):
            continue
        rank_of = {trace.path: rank for trace, rank in zip(traces, caller_ranks, strict=True)}
        finish = resolve_reference(format_.reading.finish)
        finished = finish([trace for trace in traces if trace.format in names], problems)
        traces = [trace for trace in traces if trace.format not in names] + list(finished)
        caller_ranks = [rank_of[trace.path] for trace in traces]
    return traces, caller_ranks


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size_as_json(file: FoundFile) -> int:
    """Return the size of a JSON trace that would take as much memory as the file."""
    try:
        size_bytes = decompressed_size(file.path)
    except TraceError:
        return 0  # reading it will report the reason
    return int(size_bytes * format_named(file.format).reading.memory_factor)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0

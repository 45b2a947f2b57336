"""Record traces with PyTorch's profiler, through a trace handler, a function, or a cell magic.

torch is imported on first use, not with this package. A file name consists of the host name, the
rank, the world size and the last step of the window. For rank 3 of 8 and step 5, it is::

    node07_rank-3-of-8_step-5.pt.trace.json.gz
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hta_widgets.arguments import Count, Positive, check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder, new_partial_file, write_atomically, write_errors
from hta_widgets.readers.load import load
from hta_widgets.trace.traceset import TraceSet

#: Environment variables with the rank and world size, set by torchrun, SLURM and Open MPI.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
_GZIP_LEVEL = 3  # three times as fast as the default level, with 10 % larger files


@check_arguments
def trace_handler(
    dir: str | os.PathLike[str], *, compress: bool = True, name: str | None = None
) -> Callable[[Any], str]:
    """Return a handler for ``torch.profiler.profile(on_trace_ready=…)``.

    The handler writes a file for each rank and window. A file gets its final name when it is
    complete, so `hta_widgets.load` can open the folder during recording.

    Parameters
    ----------
    dir : path-like
        Folder for the files; created if missing.
    compress : bool, default True
        Write ``.json.gz`` instead of ``.json``.
    name : str, optional
        The beginning of the file names. Default: the host name.

    Returns
    -------
    callable
        Function that takes the profiler, writes its trace, and returns the path.

    Examples
    --------
    >>> with torch.profiler.profile(on_trace_ready=hw.trace_handler("runs/job")):  # doctest: +SKIP
    ...     train()
    """
    beginning = re.sub(r"[^\w.-]+", "-", name or platform.node()).strip(".") or "host"

    def write(profiler: Any) -> str:
        rank, world = _rank_and_world()
        step = getattr(profiler, "step_num", 0)
        ending = ".pt.trace.json.gz" if compress else ".pt.trace.json"
        target = new_folder(dir) / f"{beginning}_rank-{rank}-of-{world}_step-{step}{ending}"
        with write_errors(target), new_partial_file(target) as part:
            profiler.export_chrome_trace(str(part))
            if compress:
                with (
                    part.open("rb") as plain,
                    write_atomically(target) as file,
                    gzip.GzipFile(None, "wb", _GZIP_LEVEL, file, mtime=0) as packed,
                ):
                    shutil.copyfileobj(plain, packed, 1 << 20)
            else:
                part.replace(target)
        return str(target)

    return write


@check_arguments
def record(
    step: Callable[[], Any],
    *,
    steps: Positive = 5,
    warmup: Count = 1,
    dir: str | os.PathLike[str] | None = None,
    **options: object,
) -> TraceSet:
    """Call a function several times under PyTorch's profiler, and load the trace.

    Parameters
    ----------
    step : callable
        Function that runs one training step.
    steps : int, default 5
        Number of recorded steps.
    warmup : int, default 1
        Number of unrecorded steps before the recorded ones.
    dir : path-like, optional
        Folder for the trace file. By default, no file is kept.
    **options
        Options of ``torch.profiler.profile``, such as ``with_stack=True``. Shapes are recorded by
        default.

    Returns
    -------
    TraceSet
        The trace of this rank. To get all ranks, load the folder.

    Raises
    ------
    TraceError
        If PyTorch is not installed.
    """
    profiling = _torch_profiler()
    schedule = profiling.schedule(wait=0, warmup=warmup, active=steps, repeat=1)
    loaded: list[TraceSet] = []
    write = None if dir is None else trace_handler(dir)

    def keep(profiler: object) -> None:
        # A profiler can export its trace only once.
        source = profiler if write is None else write(profiler)
        loaded.append(load(source, progress=False))

    options = {"record_shapes": True, **options}
    with profiling.profile(schedule=schedule, on_trace_ready=keep, **options) as profiler:
        for _ in range(warmup + steps):
            step()
            profiler.step()
    if not loaded:
        raise TraceError("the profiler recorded nothing", remedy="Does step() end the process?")
    return loaded[-1]


def _rank_and_world() -> tuple[int, int]:
    """Return the rank of this process and the world size; 0 and 1 outside a distributed job."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    values = [
        next((os.environ[key] for key in keys if os.environ.get(key, "").isdecimal()), default)
        for keys, default in ((_RANKS, "0"), (_WORLDS, "1"))
    ]
    return int(values[0]), int(values[1])


def _torch_profiler() -> Any:
    try:
        return import_module("torch.profiler")
    except ImportError:
        raise TraceError(
            "PyTorch is not installed", remedy="Install it to record: pip install torch."
        ) from None


class _FailedCell(Exception):  # noqa: N818 - not an error by itself
    """Raised after an error in a ``%%trace`` cell has been shown, to stop running later cells."""

    def _render_traceback_(self) -> list[str]:
        return []


def register_magic(shell: Any) -> None:
    """Add the cell magic ``%%trace`` to IPython; called by ``%load_ext hta_widgets``.

    ``%%trace NAME`` profiles a cell, shows its timeline, and assigns the traces to ``NAME``.
    """

    def trace(line: str, cell: str) -> Any:
        name = line.strip()
        if name and not name.isidentifier():
            message = f"%%trace takes a variable's name, not {name!r}"
            raise TraceError(message, remedy="Write %%trace traces.")
        with _torch_profiler().profile(record_shapes=True) as profiler:
            result = shell.run_cell(cell)
        if not result.success:
            raise _FailedCell
        traces = load(profiler, progress=False)
        if name:
            shell.push({name: traces})
        return import_module("hta_widgets").Timeline(traces)

    shell.register_magic_function(trace, "cell", "trace")

"""Events from files of all kinds that ROCm's profilers write.

Times count from the boot of the host. RCCL creates a stream per channel, and most of these streams
run a single kernel. If a device has many streams, the ones with little work share tracks: each
event gets the first track that is free at its start.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import (
    EventRows,
    RankFacts,
    RowPlace,
    build_traces,
    device_properties,
    distinct_rows,
    map_distinct,
)
from hta_widgets.formats.steps import add_steps
from hta_widgets.readers.formats import Outcome
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.tracks import first_free_lanes

#: If a device has this many streams, streams with less than this share of its work are joined.
_MANY_STREAMS = 32
_RARE_SHARE = 0.01
_WAVE_SIZE = 64
#: Kernel columns that are passed to `_launch_args`.
LAUNCH_COLUMNS = (
    "grid_size_x", "grid_size_y", "grid_size_z",
    "workgroup_size_x", "workgroup_size_y", "workgroup_size_z", "group_segment_size", "queue_id",
)  # fmt: skip
_COPY = re.compile(
    r"(MEMORY_)?COPY_?(?P<source>HOST|DEVICE)_?TO_?(?P<target>HOST|DEVICE)", re.IGNORECASE
)
#: Categories of calls, by a word in their kind. rocprof-sys writes kinds as ``rocm_hip_api``.
_CATEGORIES = (
    (re.compile(r"marker|roctx|user"), "user_annotation"),
    (re.compile(r"hsa|hip_compiler"), "cuda_driver"),
    (re.compile(r"hip"), "cuda_runtime"),
    (re.compile(r"python"), "python_function"),
)


def category_of_calls(kind: str) -> str:
    """Return the category of calls of a kind such as ``HIP_RUNTIME_API``."""
    names = (name for words, name in _CATEGORIES if words.search(kind.lower()))
    return next(names, "cpu_op" if kind else "cuda_runtime")


class RocmRows(EventRows):
    """The events of a file of ROCm."""

    def add_work(self, *, category: str | Ints = "kernel", **columns: Any) -> None:
        """Add kernels or copies; `columns` are arguments of `EventRows.add`."""
        device, start_ns, end_ns = (columns[name] for name in ("device", "start_ns", "end_ns"))
        stream = np.maximum(columns["stream"], 0)
        _, rank = distinct_rows(columns["process"], device)
        for number in range(rank.max(initial=-1) + 1):
            rows = np.flatnonzero(rank == number)
            stream[rows] = _join_rare_streams(start_ns[rows], end_ns[rows], stream[rows])
        place = self.stream_codes("GPU {}", device, stream)
        self.add(category=category, place=place, **columns | {"stream": stream})

    def add_calls(self, category: str | Ints, *, pid: Ints, tid: Ints, **columns: Any) -> None:
        """Add calls of host threads; `columns` are further arguments of `EventRows.add`."""
        self.add(category=category, place=self.place_codes(_thread_place, pid, tid), **columns)

    def build(
        self, format_name: str, facts: Mapping[tuple[int, int], RankFacts], steps: str | None
    ) -> Outcome:
        """Return the ranks of the file."""
        add_steps(self, steps, "host ranges")
        record = "Record with rocprofv3 --runtime-trace, and load the file that it writes."
        return build_traces(self, format_name, lambda *rank: facts.get(rank, RankFacts()), record)


class RocmProcess:
    """Adds the events of processes, in columns named as in rocpd databases.

    The column ``pid`` counts from `first_process`. `gpus` has the properties of each GPU, keyed by
    agent, and `cpus` lists the agents that are host processors.
    """

    def __init__(
        self, rows: RocmRows, first_process: int, gpus: Mapping[int, dict[str, Any]],
        cpus: Collection[int] = (),
    ) -> None:  # fmt: skip
        self._rows, self._first_process, self._gpus, self._cpus = rows, first_process, gpus, cpus
        #: pairs of a ``pid`` value and a device that it uses
        self._used: set[tuple[int, ...]] = set()

    def _add_kernels(self, columns: Mapping[str, Ints], name: Ints) -> None:
        args = self._rows.args_by_row(_launch_args, *(columns[key] for key in LAUNCH_COLUMNS))
        is_unknown = ~np.isin(columns["agent_id"], list(self._gpus))
        self._rows.note("part", is_unknown, "kernels of GPUs that the file does not describe")
        self._add_work(columns, columns["agent_id"], name, args=args)

    def _add_copies(self, columns: Mapping[str, Ints], name: Ints) -> None:
        to_gpu = np.isin(columns["dst_agent_id"], list(self._gpus))
        agent = np.where(to_gpu, columns["dst_agent_id"], columns["src_agent_id"])
        self._add_work(columns, agent, name, category="gpu_memcpy", size_bytes=columns["size"])

    def _add_work(
        self, columns: Mapping[str, Ints], agent: Ints, name: Ints, **further: Any
    ) -> None:
        if not len(name):
            return
        stream = columns["stream_id"]
        device = map_distinct(agent, self._device_of)
        self._used.update(distinct_rows(columns["pid"], device)[0])
        self._rows.add_work(
            start_ns=columns["start"], end_ns=columns["end"], name=name,
            process=self._first_process + columns["pid"], device=device,
            stream=np.where(stream >= 0, stream, columns.get("queue_id", -1)),
            correlation=columns["stack_id"], **further,
        )  # fmt: skip

    def _device_of(self, agent: int) -> int:
        """Return an agent's GPU number; a copy within the host is assigned a GPU with kernels."""
        if agent in self._gpus:
            return int(self._gpus[agent]["id"])
        if agent >= 0 and agent not in self._cpus:
            return agent
        listed = (gpu["id"] for gpu in self._gpus.values())
        return min((device for _, device in self._used), default=next(listed, 0))


def _thread_place(pid: int, tid: int) -> RowPlace:
    return RowPlace(str(pid), str(tid), "process", f"thread {tid if tid >= 0 else 'unknown'}")


def copy_name(text: str) -> str:
    """Return the name of a copy as PyTorch writes it."""
    match = _COPY.fullmatch(text)
    return f"Memcpy {match['source'][0]}to{match['target'][0]}" if match else text or "copy"


def gpu_properties(device: int, name: str, units: Any) -> dict[str, Any]:
    """Return the properties of a GPU; `units` is its number of compute units, if known."""
    sms = units if isinstance(units, int) and units > 0 else None
    return device_properties(device, name=name, numSms=sms, warpSize=_WAVE_SIZE)


def _launch_args(*sizes: int) -> dict[str, Any]:
    """Return the args of a launch. As in PyTorch, the grid is in blocks.

    The sizes are three of the grid and three of a block, in work items, followed by the bytes of
    shared memory and the queue.
    """
    block = [max(size, 1) for size in sizes[3:6]]
    grid = [-(-items // size) for items, size in zip(sizes[:3], block, strict=True)]
    shared_bytes, queue = sizes[6:]
    shared = {"shared memory": shared_bytes} if shared_bytes >= 0 else {}
    return {"grid": grid, "block": block, **shared, "queue": queue}


def _join_rare_streams(start_ns: Ints, end_ns: Ints, stream: Ints) -> Ints:
    """Return the stream of each event. Of many streams, rarely used ones are merged."""
    streams, code = np.unique(stream, return_inverse=True)
    if len(streams) <= _MANY_STREAMS:
        return stream
    busy_ns = np.bincount(code, end_ns - start_ns, len(streams))
    rare_events = np.flatnonzero((busy_ns < _RARE_SHARE * busy_ns.sum())[code])
    rare_events = rare_events[np.argsort(start_ns[rare_events], kind="stable")]
    rare_streams = np.unique(stream[rare_events])
    lanes = first_free_lanes(start_ns[rare_events], end_ns[rare_events])
    joined = stream.copy()
    # Events of one stream may overlap, so there may be more lanes than streams.
    joined[rare_events] = rare_streams[np.minimum(lanes, len(rare_streams) - 1)]
    return joined

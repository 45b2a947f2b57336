"""Rows of tools that write Chrome JSON without Kineto's categories.

Kineto gives each device row a category and a stream. Other tools instead name the process of a
device and the threads of its streams:

=====================  ==========================  ==============================
process                thread                      written by
=====================  ==========================  ==============================
``/device:GPU:0``      ``Stream #13(Compute)``     JAX, TensorFlow
``/device:TPU:0``      ``XLA Ops``                 JAX on TPUs, which have no streams
``Device 0``           ``Stream 7``                exports of Nsight Systems
``Ascend Hardware``    ``Stream 2``                torch_npu (its label is ``NPU``)
``CUDA functions``     the number of the device    PyTorch before Kineto
``gfx942``             ``Compute 1``, ``SDMA 0``   HIP's own profiler
``GPU0`` and ``COPY``  the number of the queue     rocprof
``gpu/0``              the number of the worker    MXNet, with the category ``operator``
the label              ``Stream #5``               MindSpore, whose processes have only labels
``AICORE OP``
``Deivce 0 (GPU)``     ``stream 7``                Paddle; names end in the duration
=====================  ==========================  ==============================

`mark_rows` gives these rows a stream and the category ``kernel``, which makes them device work.
Their kind then depends on the name. Other threads of such a process repeat the same time and are
not changed, for example ``XLA Modules`` next to the streams, or Ascend's ``Overlap Analysis``. Rows
of processes such as ``CPU HIP API`` are runtime calls. Rows of Horovod's timelines, whose processes
are tensors, get the category ``horovod``. Paddle's ``ProfileStep#3[2.000 ms]`` becomes
``ProfilerStep#3``, so that its steps are recognized, and ``gemm[30.500 us]`` becomes ``gemm``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hta_widgets import taxonomy
from hta_widgets.formats.kineto.ascend_rows import mark_ascend_rows
from hta_widgets.readers.discovery import natural_key
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import RankColumns, StringPool
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import TrackNames, read_track_names

_DEVICE_NAMES = re.compile(
    r".*/(gpu|tpu|device:(?!cpu)[a-z_]+):\d+.*"
    r"|((cuda|hip|rocm|ascend|nvidia|amd|intel|apple|habana|gaudi ?\d*) )?"
    r"(device|gpu|npu|tpu|xpu|hpu|mlu|gcu|dcu|musa|mtia|ipu|neuron[ _-]?core)[ :#/_\[-]*\d+\b.*"
    # Product names, as in "NVIDIA H100 PCIe (0)". Host processes may have similar names.
    r"|(?!.*\b(api|cpu|driver|host|metrics|nvtx|process|runtime|smi|xeon|epyc|ryzen)\b)"
    r".*\b(nvidia|tesla|geforce|quadro|instinct|radeon|gaudi ?\d*|data center gpu)\b.*"
    r"|(rank \d+ )?device<.*|(cuda|hip|rocm):\d+\b.*|cuda hw\b.*|gfx[\da-f]{3,}\b.*"
    r"|ascend hardware|(cuda|hip|rocm|npu|xpu) functions|\[\d+:\d+\] overview",
    re.IGNORECASE,
)
_FUNCTIONS = re.compile(r"\w+ functions", re.IGNORECASE)
_RUNTIME = re.compile(r"CPU (HIP|HSA|KFD)( API)?")
#: Process in which rocprof writes the copies of all devices.
_COPIES = "COPY"
_NPU = "NPU"
_HARDWARE = "Ascend Hardware"
#: Processes with work of an Ascend device. Some tools drop the labels of processes.
_NPU_PROCESSES = frozenset({_HARDWARE, "HCCL", "Communication"})
#: TensorFlow 1's processes of a device: its operators, all of its work, or part of it.
_TENSORFLOW_1 = re.compile(r".*(/(?:gpu|device:\w+):\d+)(/stream:all|/stream:\d+|/memcpy|) Compute")
#: Labels of a device's processes in MindSpore's files. The device's own process has the lowest id.
_MINDSPORE = re.compile(r"(AI ?Core|Ascend|AI ?CPU|Communication) Op", re.IGNORECASE)
#: Device processes in Paddle's files, and the durations in Paddle's names.
_PADDLE = re.compile(r"(Deivce|Device) \d+ \((GPU|MLU)\)")
_PADDLE_DURATION = re.compile(r"\[\d+\.\d{3} [mu]s\]$")
#: Category of PyTorch's operators in files from 2021, and of MXNet's device work.
_OPERATOR = "operator"
#: Processes of JAX and TensorFlow, and of torch_npu.
_OTHER_PROCESS = re.compile(rf"/(device|host):|(Ascend Hardware|CANN|{_NPU})\b")

#: Threads with device work. The first pattern that matches any thread of a process is applied to
#: all threads of that process.
_WORK_THREADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"((cuda|hip|hardware|compute) )?(stream|queue)\b[ :#_-]*(?P<number>\d+)?.*",
        r"(async )?xla ops.*",
        r"group\b.*",
        r"(?!.*\b(nvtx|api|driver|runtime|steps?|modules?|scope|source|framework|python)\b).*",
    )
)
_TIMED = np.isin(np.arange(256), np.frombuffer(b"XBE", np.uint8))


def mark_rows(columns: RankColumns) -> RankColumns:
    """Give device rows without a known category the category of kernels and a stream.

    Rows of Horovod also get a category.
    """
    columns = _rename_paddle_rows(mark_ascend_rows(columns))
    rows = _rows_without_category(columns)
    if not len(rows):
        return columns
    if is_horovod(columns.names.values):
        return _with_category(columns, rows, "horovod")
    names = track_names(columns)
    processes = [_process_name(pid, names) for pid in columns.pids.values]
    is_runtime = np.array([_RUNTIME.fullmatch(name) is not None for name in processes])
    if is_runtime.any():
        columns = _with_category(columns, rows[is_runtime[columns.pid[rows]]], "hip_runtime")
    stream = _streams_of_rows(columns, rows, names)
    is_work = stream >= 0
    if not is_work.any():
        return columns
    streams = columns.stream.astype(np.int64)
    streams[rows] = np.where(is_work & (streams[rows] < 0), stream, streams[rows])
    return replace(_with_category(columns, rows[is_work], "kernel"), stream=streams)


def _rows_without_category(columns: RankColumns) -> Rows:
    """Return the events without a known category, and MXNet's device work."""
    is_unknown = np.array(
        [not taxonomy.is_known_category(text) for text in columns.categories.values], dtype=bool
    )
    operator = columns.categories.find(_OPERATOR)
    if operator < 0 and not is_unknown.any():
        return np.empty(0, np.intp)
    is_wanted = is_unknown[columns.category]
    if operator >= 0:
        process = read_track_names(columns).process
        processes = [process.get(pid, "") for pid in columns.pids.values]
        is_mxnet = np.array([bool(re.fullmatch(r"gpu/\d+", name)) for name in processes], bool)
        is_wanted |= (columns.category == operator) & is_mxnet[columns.pid]
    return np.flatnonzero(is_wanted & _TIMED[columns.phase])


def _rename_paddle_rows(columns: RankColumns) -> RankColumns:
    """Rename Paddle's rows: number the steps and remove durations from names."""
    if not any(map(_PADDLE.fullmatch, read_track_names(columns).process.values())):
        return columns
    names = StringPool()
    stripped = (_PADDLE_DURATION.sub("", name) for name in columns.names.values)
    codes = [
        names.add(re.sub(r"^ProfileStep#(?=\d+$)", "ProfilerStep#", name)) for name in stripped
    ]
    columns = replace(columns, names=names, name=np.array(codes, np.int32)[columns.name])
    steps = columns.category == columns.categories.find("ProfileStep")
    return _with_category(columns, np.flatnonzero(steps), "user_annotation")


def has_other_profiler(trace: Trace) -> bool:
    """Return whether JAX, TensorFlow or torch_npu wrote a trace, judging by its process names."""
    return any(_OTHER_PROCESS.match(track.process) for track in trace.tracks)


def is_horovod(names: Sequence[str]) -> bool:
    """Return whether these names belong to a Horovod timeline."""
    return any(name.startswith(taxonomy.HOROVOD_PHASE) for name in names)


def device_of_thread(pid: str, tid: str, names: TrackNames) -> str:
    """Return a string that identifies the device of a device thread."""
    process = _process_name(pid, names)
    if _FUNCTIONS.fullmatch(process):
        return f"device {tid}"
    part = _TENSORFLOW_1.fullmatch(process)
    if part and (part[2] or part[1] in names.labels.values()):
        return part[1]
    only_device = _only_device(names) if process == _COPIES else ""
    return only_device or _npu_of(pid, names) or pid


def track_names(columns: RankColumns) -> TrackNames:
    """Return the track names. Processes that are part of a device get the device's label."""
    names = read_track_names(columns)
    names.labels |= _npu_labels(names)
    for pid, process in names.process.items():
        match = _TENSORFLOW_1.fullmatch(process)
        if match and match[2]:
            names.labels[pid] = match[1]
    parts = [pid for pid, label in names.labels.items() if _MINDSPORE.fullmatch(label)]
    for pid in parts:
        names.labels[pid] = f"{_NPU} {min(parts, key=natural_key)}"
    return names


def _with_category(columns: RankColumns, rows: Rows, category: str) -> RankColumns:
    codes = columns.category.astype(np.int32)
    codes[rows] = columns.categories.add(category)
    return replace(columns, category=codes)


def _streams_of_rows(columns: RankColumns, rows: Rows, names: TrackNames) -> Ints:
    """Return the stream of each row with device work; -1 for other rows."""
    tids = len(columns.tids)
    thread_keys, thread_of_row = np.unique(
        columns.pid[rows].astype(np.int64) * tids + columns.tid[rows], return_inverse=True
    )
    threads = [(columns.pids[key // tids], columns.tids[key % tids]) for key in thread_keys]
    return np.array(_streams_of_threads(threads, names), np.int64)[thread_of_row]


def _streams_of_threads(threads: list[tuple[str, str]], names: TrackNames) -> list[int]:
    """Return the stream of each (pid, tid), from its name or tid; -1 without device work."""
    streams = [-1] * len(threads)
    unnumbered = []
    repeating = _repeating_processes(names)
    devices = dict.fromkeys(pid for pid, _ in threads if _is_device(pid, names))
    for pid in (pid for pid in devices if pid not in repeating):
        positions = [position for position, thread in enumerate(threads) if thread[0] == pid]
        own_threads = [threads[position] for position in positions]
        matches = _match_work([names.thread.get(thread) or thread[1] for thread in own_threads])
        for position, match in zip(positions, matches, strict=True):
            if match and match.groupdict().get("number"):
                streams[position] = int(match["number"][:9])
            elif match:
                unnumbered.append(position)
    device_of = [device_of_thread(*thread, names) for thread in threads]
    for position in unnumbered:
        tid = threads[position][1]
        stream = int(tid) if tid.isdecimal() and len(tid) < 10 else 0
        pairs = zip(streams, device_of, strict=True)
        used = {other for other, device in pairs if device == device_of[position]}
        streams[position] = max(used) + 1 if stream in used else stream
    return streams


def _match_work(threads: Sequence[str]) -> list[re.Match[str] | None]:
    """Match a process's thread names against the first work pattern that any of them matches."""
    tries = ([pattern.fullmatch(name) for name in threads] for pattern in _WORK_THREADS)
    return next(filter(any, tries), [None] * len(threads))


def _repeating_processes(names: TrackNames) -> set[str]:
    """Return TensorFlow 1's processes whose work is repeated by another process of the device.

    ``/stream:all`` has all of a device's work, ``/stream:N`` and ``/memcpy`` have parts of it, and
    the device's own process has the operators.
    """
    matches = {pid: _TENSORFLOW_1.fullmatch(process) for pid, process in names.process.items()}
    level = {"": 0, "/stream:all": 2}
    levels = {pid: (match[1], level.get(match[2], 1)) for pid, match in matches.items() if match}
    best = dict(sorted(levels.values()))  # for each device, the last pair has the highest level
    return {pid for pid, (device, level_of_pid) in levels.items() if level_of_pid < best[device]}


def _is_device(pid: str, names: TrackNames) -> bool:
    name = _process_name(pid, names)
    if _npu_of(pid, names):
        return name != "Overlap Analysis"  # derived from the rows of other processes
    if name == _COPIES:
        return bool(_only_device(names))
    return _DEVICE_NAMES.fullmatch(name) is not None


def _only_device(names: TrackNames) -> str:
    """Return the pid of the file's only device process; "" if there are none or several."""
    pids = [pid for pid, name in names.process.items() if _DEVICE_NAMES.fullmatch(name)]
    return pids[0] if len(pids) == 1 else ""


def _npu_of(pid: str, names: TrackNames) -> str:
    """Return the label of the Ascend device to which a process belongs; "" for other processes."""
    label = names.labels.get(pid, "")
    return label if label.startswith(_NPU) else ""


def _npu_labels(names: TrackNames) -> dict[str, str]:
    """Return labels for unlabeled processes of Ascend devices, keyed by pid."""
    pids_of: defaultdict[str, list[str]] = defaultdict(list)
    for pid, process in names.process.items():
        if process in _NPU_PROCESSES:
            pids_of[process].append(pid)
    devices = len(pids_of[_HARDWARE])
    if not devices:
        return {}
    stated = (label for label in names.labels.values() if label.startswith(_NPU))
    label_of_all = next(stated, _NPU if devices == 1 else "")
    labels = {}
    for pids in pids_of.values():
        # If labels are missing, each hardware process is a device. Other processes follow the same
        # order.
        for place, pid in enumerate(sorted(pids, key=natural_key)):
            if not _npu_of(pid, names):
                labels[pid] = label_of_all or f"{_NPU} {place % devices}"
    return labels


def _process_name(pid: str, names: TrackNames) -> str:
    return names.process.get(pid) or pid

"""Splits a file that contains several ranks or the work of several devices.

SGLang merges the files of its ranks and prefixes each process with the coordinates of its rank, as
in ``[TP00] 7000`` and ``[TP01] 7001``. Other scripts write ``rank 1/7001``, or give the process a
name in its metadata. Ids are unique only within a rank, so each rank gets its own columns before
anything is linked.

A process may also drive several devices. Each device then becomes a rank, because one device's work
would otherwise hide the idle time of another. A host thread that launches on one device belongs to
the rank of that device. A thread is shared if it launches on several devices, or on none in a
process that drives several. The rank of each of these devices then gets the thread's ranges and the
flows that end in it, so that its work is linked and its idle time explained. Instants and counters
of a shared thread belong to the device on which it launches most work. For example, thread 10
launches on GPU 0, thread 11 on GPU 0 and GPU 1, and thread 12 marks the steps. The rank of GPU 0
has all three threads, and the rank of GPU 1 has the last two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.formats.kineto.merged import UNSCOPED, MergedRecords, RankContents, columns_of_rank
from hta_widgets.formats.kineto.other_tools import device_of_thread, track_names
from hta_widgets.formats.kineto.record_source import FileRecords
from hta_widgets.formats.kineto.top_level import decode_values
from hta_widgets.readers.discovery import natural_key
from hta_widgets.readers.ranks import ranks_of_coordinates, stated_rank
from hta_widgets.trace.arrays import Bools, Ints, Rows, mask_of_rows, positions_in
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import BASE_KEY
from hta_widgets.trace.tracks import read_track_names

_LABEL = re.compile(
    r"^\[((?:[a-z]+[-_ ]?\d+(?:/\d+)?[-_ ,]*)+)\]"
    r"|(?<![a-z\d])((?:(?:rank|[tpdecs]p)[-_ =:]{0,2}\d+[-_ ,]*)+)(?![a-z\d])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_M = ord("M")
_RANGES = [ord(phase) for phase in "XBE"]
_FLOWS = [ord(phase) for phase in "stf"]


def split_ranks(
    columns: RankColumns, metadata: dict[str, Any], source: FileRecords, problems: Problems
) -> list[RankContents]:
    """Return the ranks named by a file's processes, else one per device; empty if it has neither.

    If only host processes name ranks, each device gets the rank of its host process.
    """
    rank_of_pid = _ranks_of_pids(columns, is_rank_stated=stated_rank(metadata) is not None)
    is_work = _mask_of_categories(columns, taxonomy.is_device_work) & columns.timed
    devices = None
    # Devices split the file only if the names of processes do not assign all device work.
    if rank_of_pid is None or (rank_of_pid[columns.pid[is_work]] < 0).any():
        devices = _find_devices(columns, is_work)
    if devices is not None:
        return _split_by_device(columns, devices, rank_of_pid, metadata, source, problems)
    if rank_of_pid is None:
        return []
    rank_of_row = rank_of_pid[columns.pid]
    is_unknown = rank_of_row < 0
    min_rank = rank_of_pid[rank_of_pid >= 0].min()
    problems.add(
        "guessed_rank",
        int((is_unknown & columns.timed).sum()),
        "records of processes that state no rank; assigned to the first rank",
    )
    rank_of_row[is_unknown] = min_rank
    return [
        _merged_rank(columns, np.flatnonzero(rank_of_row == rank), source, metadata, rank)
        for rank in np.unique(rank_of_row).tolist()
    ]


def _split_by_device(
    columns: RankColumns,
    devices: _Devices,
    rank_of_pid: Ints | None,
    metadata: dict[str, Any],
    source: FileRecords,
    problems: Problems,
) -> list[RankContents]:
    """Return a rank for each device, with the number, if any, that its processes state."""
    masks = devices.row_masks(columns)
    problems.add(
        "merged",
        int((np.isin(columns.phase, _RANGES) & (masks.sum(axis=0) > 1)).sum()),
        "host events of threads that serve several devices; the rank of each device gets a copy",
    )
    problems.add(
        "guessed_rank",
        devices.guessed_launches,
        "launches by processes that use the same ids on different devices; linked to the"
        " devices in process order",
    )
    # A device has a known rank if its processes name exactly one.
    ranks: list[int | None] = [None] * len(masks)
    if rank_of_pid is not None:
        stated = [set(rank_of_pid[columns.pid[mask]].tolist()) - {-1} for mask in masks]
        ranks = [numbers.pop() if len(numbers) == 1 else None for numbers in stated]
    if None in ranks or len(set(ranks)) < len(ranks):
        ranks = [None] * len(ranks)
    contents = []
    for position, (name, mask, rank) in enumerate(zip(devices.names, masks, ranks, strict=True)):
        is_used = mask_of_rows(columns.pid[mask], len(columns.pids))
        rows = np.flatnonzero(mask | ((columns.phase == _M) & is_used[columns.pid]))
        digits = _NUMBER.findall(name)
        device = int(digits[-1][:9]) if digits else position
        if len(rows):
            contents.append(_merged_rank(columns, rows, source, metadata, rank, device=device))
    return contents


def _mask_of_categories(columns: RankColumns, is_member: Callable[[str], bool]) -> Bools:
    codes = np.array([is_member(text) for text in columns.categories.values], bool)
    return codes[columns.category] if codes.any() else np.zeros(len(columns.category), bool)


class Document(NamedTuple):
    """One of several traces in a file: its first record, top-level values, and base time."""

    first_record: int
    values: dict[str, bytes]
    base_ns: int


def split_documents(
    columns: RankColumns, documents: Sequence[Document], source: FileRecords
) -> list[RankContents]:
    """Return the ranks of traces written to one file; empty if these are a single rank.

    A trace that does not state a rank, such as the rest of a damaged one, belongs to the rank
    before it.
    """
    ranks: list[int | None] = []
    for document in documents if len(documents) > 1 else ():
        rank = stated_rank(decode_values(document.values))
        ranks.append(ranks[-1] if rank is None and ranks else rank)
    if len(set(ranks)) < 2:
        return []
    first_records = [document.first_record for document in documents]
    document_of_row = np.searchsorted(first_records, columns.record, side="right") - 1
    # The times of all documents count from the file's base time.
    shared = {key: text for key, text in source.metadata_text.items() if key == BASE_KEY}
    split = []
    for rank in dict.fromkeys(ranks):
        members = [number for number, other in enumerate(ranks) if other == rank]
        values = {**documents[members[0]].values, **shared}
        rows = np.flatnonzero(np.isin(document_of_row, members))
        split.append(_merged_rank(columns, rows, source, decode_values(values), rank, text=values))
    return split


def _merged_rank(
    columns: RankColumns,
    rows: Rows,
    source: FileRecords,
    metadata: dict[str, Any],
    rank: int | None,
    *,
    device: int = -1,
    text: dict[str, bytes] | None = None,
) -> RankContents:
    text = dict(source.metadata_text) if text is None else text
    records = MergedRecords(source, columns.record[rows], UNSCOPED, 0, {}, text)
    rank_columns = columns_of_rank(columns, rows, UNSCOPED, {})
    return RankContents(rank, rank_columns, metadata, records, device=device)


def _ranks_of_pids(columns: RankColumns, *, is_rank_stated: bool) -> Ints | None:
    """Return the rank of each pid code if pids or their names state coordinates, else None.

    Processes without coordinates get -1. If the coordinates give a single rank, they count only if
    all processes and no metadata state it, because any process name may begin like coordinates.
    """
    pids = columns.pids.values
    named = read_track_names(columns).process
    used = np.unique(columns.pid[columns.phase != _M]).tolist()
    for processes in (pids, [named.get(pid, "") for pid in pids]):
        labels = [match and (match[1] or match[2]) for match in map(_LABEL.search, processes)]
        texts = sorted({text for text in labels if text})
        ranks = ranks_of_coordinates(texts)
        is_certain = len(texts) > 1 or (not is_rank_stated and all(labels[code] for code in used))
        if texts and ranks is not None and is_certain:
            rank_of = dict(zip(texts, ranks, strict=True))
            return np.array([rank_of.get(text, -1) for text in labels], np.int64)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Devices:
    """Names of the devices in a file, and the devices that each thread serves."""

    names: list[str]
    thread_of_row: Ints
    #: the device to which all rows of a thread belong
    home: Ints
    #: for each thread and device, whether the device's rank has the thread's ranges
    serves: Bools
    guessed_launches: int

    def row_masks(self, columns: RankColumns) -> Bools:
        """Return a mask of rows for each device. Metadata rows belong to none."""
        devices = np.arange(len(self.names))[:, None]
        is_home: Bools = self.home[self.thread_of_row] == devices
        is_served = self.serves.T[:, self.thread_of_row]
        masks = is_home | (is_served & np.isin(columns.phase, (*_RANGES, *_FLOWS)))
        masks[:, columns.phase == _M] = False
        # A flow belongs to the devices that have both of its ends. Without such a device, each end
        # belongs to the device of its thread.
        ends = np.flatnonzero(np.isin(columns.phase, _FLOWS))
        ids = np.stack([columns.category, columns.name, columns.flow], axis=1)[ends]
        _, flow = np.unique(ids, axis=0, return_inverse=True)
        flow = flow.reshape(-1)
        missing_ends = np.stack([np.bincount(flow, ~mask[ends], len(ends)) for mask in masks])
        is_complete = missing_ends[:, flow] == 0
        masks[:, ends] = np.where(is_complete.any(axis=0), is_complete, is_home[:, ends])
        return masks


def _find_devices(columns: RankColumns, is_work: Bools) -> _Devices | None:
    """Return the devices with kernels (the rows of `is_work`); None if there are fewer than two."""
    rows = np.flatnonzero(is_work)
    if not len(rows) or np.ptp(columns.pid[rows]) == np.ptp(columns.tid[rows]) == 0:
        return None
    tids = len(columns.tids)
    key_of_row = columns.pid.astype(np.int64) * tids + columns.tid  # of the thread
    names = track_names(columns)

    def device_of(key: int) -> str:
        return device_of_thread(columns.pids[key // tids], columns.tids[key % tids], names)

    working = {device_of(key) for key in np.unique(key_of_row[rows]).tolist()}
    # Records without a process do not form a separate device.
    devices = sorted(filter(None, working), key=natural_key)
    if len(devices) < 2:
        return None
    number_of = {device: number for number, device in enumerate(devices)}
    keys, thread_of_row = np.unique(key_of_row, return_inverse=True)
    device_rows = _mask_of_categories(columns, taxonomy.is_device_category)
    has_device_rows = mask_of_rows(thread_of_row[device_rows], len(keys))
    own_device = np.full(len(keys), -1, np.int32)
    for thread, key in enumerate(keys.tolist()):
        device = device_of(key)
        if has_device_rows[thread]:
            own_device[thread] = number_of.get(device, 0)
        # Other rows of a device: operators and streams of TensorFlow 1, Ascend's overlap analysis.
        elif device in number_of and device != columns.pids[key // tids]:
            own_device[thread] = number_of[device]
    launches = _Launches.of(columns, own_device[thread_of_row])
    home, serves = _devices_of_threads(
        own_device, keys // tids, thread_of_row, launches, len(devices)
    )
    labels = [
        names.labels.get(pid) or (f"GPU {pid}" if pid.isdecimal() else pid) for pid in devices
    ]
    return _Devices(labels, thread_of_row, home, serves, launches.guessed)


@dataclass(frozen=True, slots=True)
class _Launches:
    """Calls with device work, and the device of each call."""

    rows: Rows
    device: npt.NDArray[np.int32]
    #: number of calls from processes that use the same ids for different devices
    guessed: int

    @classmethod
    def of(cls, columns: RankColumns, device: npt.NDArray[np.int32]) -> _Launches:
        """Find calls by correlation id; `device` has the device of each row, or -1 for the host.

        Scripts that join files keep each rank's ids, so that two processes may use the same ids on
        two devices. Such processes and devices are then paired in order.
        """
        is_linked = columns.correlation > 0
        work = np.flatnonzero(is_linked & (device >= 0))
        calls = np.flatnonzero(is_linked & (device < 0))
        ids, first_work, id_of_work = np.unique(
            columns.correlation[work], return_index=True, return_inverse=True
        )
        id_of_call = positions_in(ids, columns.correlation[calls])
        calls, id_of_call = calls[id_of_call >= 0], id_of_call[id_of_call >= 0]
        device_of_id = device[work[first_work]]
        is_on_other_device = device_of_id[id_of_work] != device[work]
        is_ambiguous = mask_of_rows(id_of_work[is_on_other_device], len(ids))
        devices = np.unique(device[work[is_ambiguous[id_of_work]]])
        processes = np.unique(columns.pid[calls[is_ambiguous[id_of_call]]])
        device_of_call = device_of_id[id_of_call]
        if len(processes) != len(devices) or len(devices) < 2:
            return cls(calls, device_of_call, 0)
        in_order = sorted(processes.tolist(), key=lambda pid: natural_key(columns.pids[pid]))
        device_of_pid = np.full(len(columns.pids), -1, device.dtype)
        device_of_pid[in_order] = devices
        paired = device_of_pid[columns.pid[calls]]
        return cls(calls, np.where(paired >= 0, paired, device_of_call), int((paired >= 0).sum()))


def _devices_of_threads(
    own_device: npt.NDArray[np.int32],
    pid: Ints,
    thread_of_row: Ints,
    launches: _Launches,
    devices: int,
) -> tuple[Ints, Bools]:
    """Return the home device of each thread, and the devices that it serves.

    For device threads, the home is `own_device`; they serve none. For host threads, whose
    `own_device` is -1, home and served devices follow from the launches of the thread or, if it has
    none, of its process. Failing that, the home is the first device.
    """
    threads = len(own_device)
    votes = np.bincount(
        thread_of_row[launches.rows] * devices + launches.device, minlength=threads * devices
    ).reshape(threads, devices)
    _, process = np.unique(pid, return_inverse=True)
    votes_of_process = np.zeros((int(process.max()) + 1, devices), np.int64)
    np.add.at(votes_of_process, process, votes)
    has_launches = votes.any(axis=1, keepdims=True)
    serves = np.where(has_launches, votes, votes_of_process[process]) > 0
    # In other tools' files, a process holds one device's threads and, for example, its ranges.
    owned = np.flatnonzero(own_device >= 0)
    np.add.at(votes_of_process, (process[owned], own_device[owned]), 1)
    votes = np.where(has_launches, votes, votes_of_process[process])
    home = np.where(own_device >= 0, own_device, votes.argmax(axis=1))
    serves[owned] = False
    return home, serves

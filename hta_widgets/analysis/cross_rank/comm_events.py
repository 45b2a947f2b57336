"""The communication events of a rank, with the args that identify their collective.

`comm_events` returns the collectives on the rank's device. For a job on CPUs, `host_comm_events`
returns PyTorch's ranges around collectives of Gloo, MPI and UCC (``gloo:all_reduce``).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import host_collectives
from hta_widgets.taxonomy import HOST_LIBRARIES, KINDS
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows
from hta_widgets.trace.columns import COMMUNICATION_KEYS, PARAM_COMMS, event_args, to_int64
from hta_widgets.trace.host_stack import name_mask, names_match, nested_parents
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

#: Operations of communication libraries. In a name that contains several, the first listed counts.
OPERATIONS: tuple[str, ...] = (
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather",
    "scatter", "barrier", "send_recv", "other",
)  # fmt: skip


def operation_codes(*names: str) -> list[int]:
    """Return the codes of operations."""
    return [OPERATIONS.index(name) for name in names]


_OPERATION_WORDS = tuple(word.replace("_", "") for word in OPERATIONS[:-2])
_SEND_RECV = OPERATIONS.index("send_recv")
_OTHER = OPERATIONS.index("other")
#: Collectives that no rank leaves before all have arrived.
SYNCHRONIZING_OPERATIONS = operation_codes(
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"
)
#: Collectives that a rank on a host may leave before the last one arrives.
_ROOTED_OPERATIONS = operation_codes("broadcast", "reduce", "gather", "scatter")
#: Operations whose input and output sizes may differ between members.
_UNEVEN_OPERATIONS = operation_codes("all_to_all", "gather", "scatter", "send_recv")

_NAME = "Collective name"
_GROUP = "Process Group Name"
_RANKS = "Process Group Ranks"
_SIZE = "Group size"
#: Names of ranges of libraries that run collectives on hosts.
_LIBRARY = re.compile(HOST_LIBRARIES)
_DESCRIPTION = "Process Group Description"
#: Args that come from the operator around the launch if the event lacks them.
_OF_OPERATORS = tuple(key for key in COMMUNICATION_KEYS if key != _DESCRIPTION)
_SHAPES = ("Input Dims", "Input type")
#: Patterns of type names in C++ and Python, keyed by the bytes per element in PyTorch. Elements
#: smaller than a byte count as 1 byte, packed or not.
_BYTES = {
    1: r"byte|((un)?signed)?char|bool|q?u?int8|u?int[1-7]|quint4x2|quint2x4"
    r"|bits(1x8|2x4|4x2|8)|float8_\w+|float4_\w+_x2",
    2: r"half|b?float16|(unsigned)?short(int)?|u?int16|bits16",
    4: r"(unsigned)?int|q?u?int32|float|float32|complexhalf|complex32|bcomplex32",
    8: r"(unsigned)?long(long)?(int)?|u?int64|double|float64|complexfloat|complex64|cfloat",
    16: r"complexdouble|complex128|cdouble",
}
_RECORD = re.compile(rf"{PARAM_COMMS}$")
#: Prefixes of the ranges that PyTorch puts around collectives.
_RANGE = re.compile(r"(nccl|rccl|hccl|xccl|ucc):|c10d::(?=\w)")
_SENDS, _RECEIVES = {"send", "isend"}, {"recv", "irecv"}
#: Name of the send-receive kernel, for a pair of ranks or for a coalesced batch.
_BATCH = "sendrecv"
_POINT_TO_POINT = _SENDS | _RECEIVES
#: With this many elements or more, the size counts as unknown, so that sums fit in int64.
MAX_ELEMENTS = 1 << 48
_LEVELS = 16  # maximum depth of a launch below the operator that states its process group


@dataclass(frozen=True, slots=True)
class HeaderGroup:
    """A process group in a file's header; `is_listed` if the header lists its ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]
    is_listed: bool


@dataclass(frozen=True, slots=True)
class JobHeader:
    """The job as described by a file's header. If missing, `world_size` is -1 and `host` is ""."""

    world_size: int
    groups: tuple[HeaderGroup, ...]
    host: str = ""
    devices: int = 0  # number on the host; 0 if the header does not list them
    #: the properties of the first device
    first_device: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def intern_ranks(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Intern a tuple of ranks so that equal tuples are the same object."""
    return ranks


@lru_cache(maxsize=4096)
def parse_ranks(text: str) -> tuple[int, ...]:
    """Return the rank numbers in a string."""
    return intern_ranks(tuple(int(number) for number in re.findall(r"(?<!\d)\d{1,18}(?!\d)", text)))


@memoize
def job_header(trace: Trace) -> JobHeader:
    """Return the job as described by the header of a rank's file."""
    host = str(trace.host or trace.metadata.get("host_name") or "")
    devices = trace.metadata.get("deviceProperties")
    devices = devices if isinstance(devices, list) else []
    first = next((entry for entry in devices if isinstance(entry, dict)), {})
    info = trace.metadata.get("distributedInfo")
    if not isinstance(info, dict):
        return JobHeader(-1, (), host, len(devices), first)
    entries = info.get("pg_config")
    listed = entries if isinstance(entries, list) else []
    groups = tuple(_group(entry) for entry in listed if isinstance(entry, dict))
    return JobHeader(trace.world_size or -1, groups, host, len(devices), first)


def _group(entry: dict[str, object]) -> HeaderGroup:
    ranks = entry.get("ranks")
    is_listed = isinstance(ranks, list) and set(map(type, ranks)) <= {int, bool}
    return HeaderGroup(
        str(entry.get("pg_name", "")),
        str(entry.get("pg_desc") or ""),
        intern_ranks(tuple(ranks)) if is_listed and isinstance(ranks, list) else (),
        is_listed,
    )


@dataclass(frozen=True, slots=True)
class GroupName:
    """A process group as named by one rank, or the stream of events that name no group."""

    name: str
    ranks: tuple[int, ...]
    listed: str  # ranks as listed in the args, possibly truncated
    size: int  # -1 if unknown
    stream: int = -1  # stream of events that name no group
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CommEvents:
    """A rank's communication, sorted by start, on the clock of its table."""

    rows: Rows
    start_ns: Ints
    end_ns: Ints
    name: Ints  # codes into `names`
    names: list[str]
    operation: Ints  # codes into OPERATIONS
    group: Ints  # codes into `groups`
    groups: list[GroupName]
    size_bytes: Ints  # -1 if unknown
    content: list[Hashable]  # label and size, which are the same on all members of a collective
    content_code: Ints  # codes into `content`
    sequence: Ints  # -1 if unknown
    source: Ints  # sending and receiving rank; -1 for collectives
    target: Ints
    early: Ints  # 1 if a rank may leave before the last rank arrives
    #: code in `dtypes` if the size is unknown because of the element type, otherwise -1
    unsized: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    dtypes: list[str] = field(default_factory=list)

    @property
    def is_single_rank(self) -> Bools:
        """Whether each event's group consists of one rank."""
        return np.array([group.size == 1 for group in self.groups], dtype=bool)[self.group]

    @property
    def ends_together(self) -> Bools:
        """Whether each event ends only after all ranks have arrived."""
        result: Bools = np.isin(self.operation, SYNCHRONIZING_OPERATIONS) & (self.early == 0)
        return result


@memoize
def comm_events(trace: Trace) -> CommEvents:
    """Return the communication on a rank's device, with its args."""
    # Kernels without args take the args of the ``record_param_comms`` operator that launched them.
    # A range around the launch, such as ``nccl:all_reduce``, may supply a name that both lack.
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("communication")) & (table.stream >= 0))
    stated = event_args(trace, rows, COMMUNICATION_KEYS)
    args = {key: list(column) for key, column in stated.items()}
    without_name = np.flatnonzero([name is None for name in args[_NAME]])
    if len(without_name):
        operators = recorded_operators(trace, rows[without_name])
        _take_args(trace, args, without_name, operators)
        _name_by_ranges(trace, rows, args[_NAME])
    return _identify(trace, rows, args)


@memoize
def host_comm_events(trace: Trace) -> CommEvents:
    """Return the collectives that libraries run on a rank's host, with their args.

    A range begins with the call and ends with its work. If neither the range nor the
    ``record_param_comms`` before it names a process group, its group is the only one listed in the
    file's header, or all ranks. If the header lists several, the range is skipped.
    """
    table, rows = trace.table, host_collectives(trace)
    rows = rows[names_match(trace, rows, _LIBRARY.match)]
    args = {k: list(column) for k, column in event_args(trace, rows, COMMUNICATION_KEYS).items()}
    # Ranges without a group take the args of the operators before them.
    without_group = np.flatnonzero([name is None for name in args[_GROUP]])
    _take_args(trace, args, without_group, _records_before(trace, rows)[without_group])
    _take_shapes(trace, rows, args)
    own_rank = stated_rank(trace)
    listed = list({group.ranks for group in job_header(trace).groups if own_rank in group.ranks})
    places = []
    for place, code in enumerate(table.name[rows].tolist()):
        library, _, operation = table.names[code].partition(":")
        args[_NAME][place] = args[_NAME][place] or operation
        if args[_GROUP][place] is None and args[_RANKS][place] is None:
            if len(listed) > 1:
                continue
            args[_GROUP][place] = library
            if listed:
                args[_RANKS][place], args[_SIZE][place] = list(listed[0]), len(listed[0])
        places.append(place)
    args = {key: [column[place] for place in places] for key, column in args.items()}
    events = _identify(trace, rows[places], args)
    return replace(events, early=np.isin(events.operation, _ROOTED_OPERATIONS).astype(np.int64))


def _identify(trace: Trace, rows: Rows, events: dict[str, list[Any]]) -> CommEvents:
    """Return the `CommEvents` of table rows, given their args as columns in `events`."""
    table = trace.table
    sequence = to_int64(events.pop("Seq"))
    events["kernel"] = [table.names[code] for code in table.name[rows].tolist()]
    events["stream"] = table.stream[rows].tolist()
    # Most events differ only in their sequence number, so the rest is derived per distinct event.
    distinct_of_event, args = _distinct_rows(events)
    stated = [value if isinstance(value, str) and value else None for value in args[_NAME]]
    labels = [
        value or _kernel_label(kernel) for value, kernel in zip(stated, args["kernel"], strict=True)
    ]
    name, names = factorize(labels)
    operation = np.array([_operation(label) for label in names], dtype=np.int64)[name]
    group, groups = _comm_groups(trace, args)
    size, unsized, dtypes = _sizes(args)
    source, target = _send_recv_ranks(trace, args, labels)
    group_size = np.array([group_name.size for group_name in groups], dtype=np.int64)[group]
    has_peer = (source >= 0) | (group_size == 2)
    states_groups = any(group_name.stream < 0 for group_name in groups)
    shared_labels = [
        _shared_label(trace, kernel, value, states_groups=states_groups, has_peer=bool(peer))
        for kernel, value, peer in zip(args["kernel"], stated, has_peer.tolist(), strict=True)
    ]
    shared_sizes = np.where(np.isin(operation, _UNEVEN_OPERATIONS), -1, size).tolist()
    content_code, content = factorize(list(zip(shared_labels, shared_sizes, strict=True)))
    columns_of_distinct = {
        "name": name, "operation": operation, "group": group, "size_bytes": size,
        "content_code": content_code, "source": source, "target": target, "unsized": unsized,
    }  # fmt: skip
    return CommEvents(
        rows=rows,
        start_ns=table.start_ns[rows],
        end_ns=table.end_ns[rows],
        names=names,
        groups=groups,
        content=content,
        sequence=sequence,
        early=np.zeros(len(rows), dtype=np.int64),
        dtypes=dtypes,
        **{key: column[distinct_of_event] for key, column in columns_of_distinct.items()},
    )


def _sizes(args: dict[str, list[Any]]) -> tuple[Ints, Ints, list[str]]:
    dtype, dtypes = factorize(["" if value is None else str(value) for value in args["dtype"]])
    bytes_each = np.array([bytes_of(text) for text in dtypes], dtype=np.int64)[dtype]
    has_dtype = np.array([bool(text) for text in dtypes], dtype=bool)[dtype]
    elements = np.maximum(to_int64(args["In msg nelems"]), to_int64(args["Out msg nelems"]))
    is_unsized = (elements >= 0) & (bytes_each < 0) & has_dtype
    return message_bytes(elements, bytes_each), np.where(is_unsized, dtype, -1), dtypes


def _records(trace: Trace) -> Rows:
    return np.flatnonzero(name_mask(trace, _RECORD.match))


def recorded_operators(trace: Trace, rows: Rows) -> Ints:
    """Return the ``record_param_comms`` operator that launched each event; -1 if there is none."""
    return _enclosing_events(trace, trace.launch_of[rows], _RECORD)


def batched_sends(trace: Trace) -> pd.DataFrame:
    """Return ``rank, peer, bytes, group, start_ns`` of sends that run together in one kernel."""
    # The kernel of a batch (``batch_isend_irecv``) states no peers, but the host records each send.
    table = trace.table
    launched = recorded_operators(trace, comm_events(trace).rows)
    records = np.setdiff1d(_records(trace), launched)
    args = event_args(trace, records, _OF_OPERATORS)
    labels = ["" if value is None else str(value).lower() for value in args[_NAME]]
    source, target = _send_recv_ranks(trace, args, labels)
    bytes_each = np.array([bytes_of(str(dtype)) for dtype in args["dtype"]], dtype=np.int64)
    size = np.maximum(message_bytes(to_int64(args["In msg nelems"]), bytes_each), 0)
    is_send = np.isin(labels, list(_SENDS)) & (target >= 0)
    columns = {"rank": source, "peer": target, "bytes": size, "group": args[_GROUP]}
    return pd.DataFrame(columns | {"start_ns": table.start_ns[records]})[is_send]


def _distinct_rows(columns: dict[str, list[Any]]) -> tuple[Ints, dict[str, list[Any]]]:
    """Return each event's index among the distinct events, and the columns of distinct events."""
    events = list(zip(*columns.values(), strict=True))
    try:
        distinct_of_event, events = factorize(events)
    except TypeError:
        # If a value is a list instead of a string, events cannot be hashed.
        distinct_of_event = np.arange(len(events))
    return distinct_of_event, {key: [event[k] for event in events] for k, key in enumerate(columns)}


def factorize(values: Sequence[Any]) -> tuple[Ints, list[Any]]:
    """Return codes by first occurrence, and the distinct values."""
    pool: dict[Any, int] = {}
    codes = [pool.setdefault(value, len(pool)) for value in values]
    return np.array(codes, dtype=np.int64), list(pool)


def _take_shapes(trace: Trace, rows: Rows, args: dict[str, list[Any]]) -> None:
    """Derive the number and type of elements from input shapes, for calls that state no size.

    Gathers are excluded, because they move more than their inputs.
    """
    names = trace.table.names
    calls = [names[code] for code in trace.table.name[rows].tolist()]
    places = [
        place
        for place, (elements, call) in enumerate(zip(args["In msg nelems"], calls, strict=True))
        if elements is None and "gather" not in call
    ]
    shapes = event_args(trace, rows[places], _SHAPES)
    for place, dims, types in zip(places, *(shapes[key] for key in _SHAPES), strict=True):
        if not isinstance(dims, list) or not isinstance(types, list):
            continue
        tensors = [
            (math.prod(shape), dtype)
            for shape, dtype in zip(dims, types, strict=False)
            if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape)
        ]
        if len({dtype for _, dtype in tensors}) == 1:
            args["In msg nelems"][place] = sum(elements for elements, _ in tensors)
            args["dtype"][place] = tensors[0][1]


def _take_args(trace: Trace, args: dict[str, list[Any]], places: Ints, operators: Ints) -> None:
    """Replace the args at some places with the args of operators, where not -1."""
    places, operators = places[operators >= 0], operators[operators >= 0]
    for key, column in event_args(trace, operators, _OF_OPERATORS).items():
        for place, value in zip(places.tolist(), column, strict=True):
            args[key][place] = value


def _records_before(trace: Trace, rows: Rows) -> Ints:
    """Return the latest ``record_param_comms`` between each range and the previous one."""
    table, records = trace.table, _records(trace)
    record_of_range = np.full(len(rows), -1, dtype=np.int64)
    for track in np.unique(table.track[rows]).tolist():
        places = np.flatnonzero(table.track[rows] == track)
        track_records = records[table.track[records] == track]
        starts_ns = table.start_ns[rows[places]]
        latest = np.searchsorted(table.start_ns[track_records], starts_ns, "right") - 1
        is_new = np.diff(latest, prepend=-1) > 0
        record_of_range[places[is_new]] = track_records[latest[is_new]]
    return record_of_range


def _name_by_ranges(trace: Trace, rows: Rows, stated: list[Any]) -> None:
    """Name collectives that neither args nor kernel name, from the range around their launch.

    Two kernels do not identify their collective: NCCL's generic kernel, and its kernel for sends,
    which also runs ``all_to_all``. `stated`, the names from args, is completed in place.
    """
    table = trace.table
    kernels = [table.names[code] for code in table.name[rows].tolist()]
    unknown = [
        place
        for place, (name, kernel) in enumerate(zip(stated, kernels, strict=True))
        if name is None and _kernel_label(kernel) in {kernel, _BATCH}
    ]
    if not unknown:
        return
    ranges = _enclosing_events(trace, trace.launch_of[rows[unknown]], _RANGE)
    for place, row in zip(unknown, ranges.tolist(), strict=True):
        label = _RANGE.sub("", table.names[int(table.name[row])], count=1) if row >= 0 else ""
        is_batch = _kernel_label(kernels[place]) == _BATCH
        if label and not (is_batch and _operation(label) in {_SEND_RECV, _OTHER}):
            stated[place] = label


def _enclosing_events(trace: Trace, rows: Ints, name: re.Pattern[str]) -> Ints:
    """Return the innermost event with a matching name around each of `rows`, or -1."""
    table = trace.table
    enclosing = np.full(len(rows), -1, dtype=np.int64)
    codes = [code for code, text in enumerate(table.names.values) if name.match(text)]
    if not codes:
        return enclosing
    parent = nested_parents(trace)
    ancestors = rows.copy()
    for _ in range(_LEVELS):
        unresolved = np.flatnonzero((ancestors >= 0) & (enclosing < 0))
        is_match = np.isin(table.name[ancestors[unresolved]], codes)
        enclosing[unresolved[is_match]] = ancestors[unresolved[is_match]]
        ancestors[unresolved] = parent[ancestors[unresolved]]
    return enclosing


def _shared_label(
    trace: Trace, kernel: str, stated: str | None, *, states_groups: bool, has_peer: bool
) -> str:
    """Return a label that all members of a collective share, or one unique to this rank.

    A name in the args takes precedence over the kernel's name, which states the algorithm and is
    the same on all members. If the file names groups, a kernel of sends and receives without a name
    in its args is a coalesced batch, whose peers are not recorded.
    """
    if stated is None:
        is_batch = states_groups and _kernel_label(kernel) == _BATCH
        return f"{kernel} of rank {trace.rank}" if is_batch else kernel
    if stated.lower() not in _POINT_TO_POINT:
        return stated
    return "p2p" if has_peer else f"{stated} of rank {trace.rank}"


@lru_cache(maxsize=1 << 14)
def _kernel_label(kernel: str) -> str:
    squeezed = re.sub(r"[^a-z]", "", kernel.lower())
    if _BATCH in squeezed:
        return _BATCH
    return next((word for word in _OPERATION_WORDS if word in squeezed), kernel)


@lru_cache(maxsize=1 << 14)
def _operation(label: str) -> int:
    squeezed = re.sub(r"[^a-z]", "", label.lower())
    if squeezed in _POINT_TO_POINT or _BATCH in squeezed or squeezed == "batchisendirecv":
        return _SEND_RECV
    return next((code for code, word in enumerate(_OPERATION_WORDS) if word in squeezed), _OTHER)


@lru_cache(maxsize=4096)
def bytes_of(dtype: str) -> int:
    """Return the bytes per element; -1 if the type is unknown."""
    name = re.sub(r"torch\.|c10::|at::|_t$|[\s<>]", "", dtype.lower())
    return next((size for size, names in _BYTES.items() if re.fullmatch(names, name)), -1)


def message_bytes(elements: Ints, bytes_each: Ints) -> Ints:
    """Return message sizes, -1 if unknown, given the number of bytes per element."""
    is_known = (elements >= 0) & (elements < MAX_ELEMENTS) & (bytes_each > 0)
    return np.where(is_known, np.where(is_known, elements, 0) * bytes_each, -1)


def sum_known_bytes(sizes: Ints) -> int:
    """Return the sum of the known sizes; -1 if none is known."""
    known_sizes = sizes[sizes >= 0]
    return int(known_sizes.sum()) if len(known_sizes) else -1


def count_unsized(events: CommEvents, rows: Array) -> Counter[str]:
    """Count events whose size is unknown, by element type."""
    codes = events.unsized[rows] if len(events.unsized) else events.unsized
    return Counter(events.dtypes[code] for code in codes[codes >= 0].tolist())


def unsized_note(counts: Iterable[Counter[str]]) -> str:
    """Return a note about events whose size is unknown due to their element type."""
    total = sum(counts, Counter[str]())
    named = ", ".join(repr(name) for name in sorted(total))
    return f"sizes of {total.total()} events are unknown: elements of type {named}" if total else ""


def _send_recv_ranks(
    trace: Trace, args: dict[str, list[Any]], labels: list[str]
) -> tuple[Ints, Ints]:
    """Return the sending and receiving ranks, as PyTorch records only the peer."""
    own_rank = stated_rank(trace)
    source, target = to_int64(args["Src Rank"]), to_int64(args["Dst Rank"])
    sends = np.array([label.lower() in _SENDS for label in labels], dtype=bool)
    receives = np.array([label.lower() in _RECEIVES for label in labels], dtype=bool)
    source = np.where(sends & (target >= 0), own_rank, source)
    target = np.where(receives & (source >= 0), own_rank, target)
    paired = (sends | receives) & (source >= 0) & (target >= 0)
    return np.where(paired, source, -1), np.where(paired, target, -1)


def _comm_groups(trace: Trace, args: dict[str, list[Any]]) -> tuple[Ints, list[GroupName]]:
    names = ["" if name is None else str(name) for name in args[_GROUP]]
    texts = [value if isinstance(value, str) else json.dumps(value) for value in args[_RANKS]]
    texts = ["" if text.strip() in {"", "[]", "null"} else text for text in texts]
    sizes = to_int64(args[_SIZE]).tolist()
    # Events that state neither a group nor ranks are grouped by stream.
    is_stated = [bool(name or text) for name, text in zip(names, texts, strict=True)]
    streams = np.where(is_stated, -1, args["stream"]).tolist()
    codes, keys = factorize(list(zip(names, texts, sizes, streams, strict=True)))
    first_events = np.unique(codes, return_index=True)[1].tolist()
    config = {group.name: group.ranks for group in job_header(trace).groups if group.is_listed}
    groups = []
    for (name, text, size, stream), event in zip(keys, first_events, strict=True):
        ranks, configured = parse_ranks(text), config.get(name, ())
        # Long lists are truncated in events, but the header may have the whole list.
        if len(ranks) != size and (len(configured) == size or not ranks):
            ranks = configured
        description = args[_DESCRIPTION][event]
        if not isinstance(description, str):
            description = ""
        groups.append(GroupName(name, ranks, sys.intern(text), size, stream, description))
    return codes, groups


def recorded_shift(trace: Trace) -> int:
    """Return the shift that converts a table's times to the recorded clock.

    Matching always uses this clock, so that collectives get the same numbers on any clock.
    """
    return trace.shift_ns + trace.clock_offset_ns


def stated_rank(trace: Trace) -> int:
    """Return the rank's number as stated in its file, or else its key in the trace set."""
    return trace.rank if trace.stated_rank is None else trace.stated_rank

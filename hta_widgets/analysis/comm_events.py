"""The communication events of one rank, with the args that identify their collective."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.host_stack import nested_parents
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.event_args import COMMUNICATION_KEYS, event_args, numbers_of
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.trace import Trace

Ints = npt.NDArray[np.int64]

#: The operations of collectives, in all libraries. The first one in a name counts.
OPERATIONS: tuple[str, ...] = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
    "send_recv",
    "other",
)
_WORDS = tuple(word.replace("_", "") for word in OPERATIONS[:-2])
_SEND_RECV = OPERATIONS.index("send_recv")
_OTHER = OPERATIONS.index("other")
#: Members may give and take different amounts.
_UNEVEN = [OPERATIONS.index(name) for name in ("all_to_all", "gather", "scatter", "send_recv")]

_NAME = "Collective name"
_DESCRIPTION = "Process Group Description"
#: Args taken from the operator above where the event itself lacks them.
_OF_OPERATORS = tuple(key for key in COMMUNICATION_KEYS if key != _DESCRIPTION)
#: Bytes of an element, as PyTorch stores it, by the name of its type in C++ or in Python. Of types
#: below one byte, several share one or each takes one, so that an element of the tensor has 1.
_BYTES = {
    1: r"byte|char|bool|q?u?int8|u?int[1-7]|quint4x2|quint2x4|bits(1x8|2x4|4x2|8)"
    r"|float8_\w+|float4_\w+_x2",
    2: r"half|b?float16|short|u?int16|bits16",
    4: r"int|q?u?int32|float|float32|complexhalf|complex32|bcomplex32",
    8: r"long|u?int64|double|float64|complexfloat|complex64|cfloat",
    16: r"complexdouble|complex128|cdouble",
}
_RECORD = re.compile(r"record_param_comms$")
#: Prefixes of the ranges that PyTorch puts around collectives.
_RANGE = re.compile(r"(nccl|rccl|hccl|xccl|ucc):|c10d::(?=\w)")
_SENDS, _RECEIVES = {"send", "isend"}, {"recv", "irecv"}
_ONE_SIDED = _SENDS | _RECEIVES
_LEVELS = 16  # how far above the launching call its process group's record may be


@dataclass(frozen=True, slots=True)
class HeaderGroup:
    """A process group in a file's header; no ranks where it lists none."""

    name: str
    description: str
    ranks: tuple[int, ...]
    is_listed: bool


@dataclass(frozen=True, slots=True)
class Header:
    """The job in a file's header; `world_size` is -1 and `host` empty where it states none."""

    world_size: int
    groups: tuple[HeaderGroup, ...]
    host: str = ""


@lru_cache(maxsize=4096)
def one_of(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first of equal tuples: all ranks of a job list the same ones."""
    return ranks


@lru_cache(maxsize=4096)
def listed_ranks(text: str) -> tuple[int, ...]:
    """Return the ranks in a text."""
    return one_of(tuple(int(number) for number in re.findall(r"\d+", text)))


@memoized
def header_of(trace: Trace) -> Header:
    """Return the ranks and process groups in the header of a rank's file."""
    host = str(trace.host or trace.metadata.get("host_name") or "")
    info = trace.metadata.get("distributedInfo")
    if not isinstance(info, dict):
        return Header(-1, (), host)
    size, entries = info.get("world_size"), info.get("pg_config")
    listed = entries if isinstance(entries, list) else []
    groups = tuple(_group(entry) for entry in listed if isinstance(entry, dict))
    return Header(size if isinstance(size, int) else -1, groups, host)


def _group(entry: dict[str, object]) -> HeaderGroup:
    ranks = entry.get("ranks")
    is_listed = isinstance(ranks, list) and set(map(type, ranks)) <= {int, bool}
    return HeaderGroup(
        str(entry.get("pg_name", "")),
        str(entry.get("pg_desc") or ""),
        one_of(tuple(ranks)) if is_listed and isinstance(ranks, list) else (),
        is_listed,
    )


@dataclass(frozen=True, slots=True)
class GroupName:
    """How one rank names a process group."""

    name: str
    ranks: tuple[int, ...]
    listed: str
    size: int
    stream: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class CommEvents:
    """The communication of one rank's device, by start; one entry per event.

    Times are those of `Trace.table`.
    """

    rows: npt.NDArray[np.intp]
    start_ns: Ints
    end_ns: Ints
    name: Ints  # codes into `names`
    names: list[str]
    operation: Ints  # codes into OPERATIONS
    group: Ints  # codes into `groups`
    groups: list[GroupName]
    size_bytes: Ints  # -1 where unknown
    content: list[Hashable]  # common to all members of a collective, by code
    content_code: Ints
    sequence: Ints  # -1 where unknown
    source: Ints  # ranks of a send and its receive, -1 for collectives
    target: Ints
    early: Ints  # 1 where a rank may leave before the last one came
    #: the purpose of each of `groups` on its first event; empty where unknown
    descriptions: list[str] = field(default_factory=list)
    #: codes into `dtypes` where only the type's size is missing for the event's, else -1
    unsized: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    dtypes: list[str] = field(default_factory=list)

    @property
    def is_alone(self) -> npt.NDArray[np.bool_]:
        """Which events are of groups of one rank."""
        return np.array([group.size == 1 for group in self.groups], dtype=bool)[self.group]


@memoized
def comm_events(trace: Trace) -> CommEvents:
    """Return the communication on a rank's device, with its args.

    Kernels without args take those of the ``record_param_comms`` operator that launched them.
    Where neither these nor the kernel name the collective, the range around its launch does:
    ``nccl:all_reduce``.
    """
    table = trace.table
    device = (table.kind == KINDS.index("communication")) & (table.stream >= 0)
    rows = np.flatnonzero(device)
    of_events = _args(trace, rows)
    sequence = numbers_of(of_events.pop("Seq"))
    # Few events differ in more than their sequence number.
    like, args, kernels, streams = _distinct(
        of_events, table.name[rows].tolist(), table.stream[rows].tolist()
    )
    names_of = table.names.values
    kernel_of = [names_of[code] for code in kernels]
    stated = [value if isinstance(value, str) and value else None for value in args[_NAME]]
    labels = [
        value or _kernel_label(kernel) for value, kernel in zip(stated, kernel_of, strict=True)
    ]
    name, names = _coded(labels)
    operation = np.array([_operation(label) for label in names], dtype=np.int64)[name]
    groups_code, groups = _groups(trace, streams, args)
    dtype, dtypes = _coded(["" if value is None else str(value) for value in args["dtype"]])
    bytes_each = np.array([bytes_of(text) for text in dtypes], dtype=np.int64)[dtype]
    stated_dtype = np.array([bool(text) for text in dtypes], dtype=bool)[dtype]
    elements = np.maximum(numbers_of(args["In msg nelems"]), numbers_of(args["Out msg nelems"]))
    size = np.where((elements >= 0) & (bytes_each > 0), elements * bytes_each, -1)
    source, target = _ends(trace, args, labels)
    shared_size = np.where(np.isin(operation, _UNEVEN), -1, size)
    peers = np.array([group.size for group in groups], dtype=np.int64)[groups_code]
    # All members share the kernel's name, that of the algorithm; stated labels come first.
    contents = [
        (label if value is not None else kernel, amount)
        for label, value, kernel, amount in zip(
            _shared_labels(trace, labels, source.tolist(), peers.tolist()),
            stated,
            kernel_of,
            shared_size.tolist(),
            strict=True,
        )
    ]
    content_code, content = _coded(contents)
    return CommEvents(
        rows,
        table.start_ns[rows],
        table.start_ns[rows] + table.dur_ns[rows],
        name[like],
        names,
        operation[like],
        groups_code[like],
        groups,
        size[like],
        content,
        content_code[like],
        sequence,
        source[like],
        target[like],
        np.zeros(len(rows), dtype=np.int64),
        _described(args, groups_code, len(groups)),
        np.where((elements >= 0) & (bytes_each < 0) & stated_dtype, dtype, -1)[like],
        dtypes,
    )


def _distinct(
    args: dict[str, list[Any]], kernels: list[int], streams: list[int]
) -> tuple[Ints, dict[str, list[Any]], list[int], list[int]]:
    """Return for each event the first that is like it, by its place among those, and those."""
    events = list(zip(*args.values(), kernels, streams, strict=True))
    try:
        like, events = _coded(events)
    except TypeError:
        # Lists, where texts are usual.
        like = np.arange(len(events))
    columns = [list(column) for column in zip(*events, strict=True)]
    *values, kernels, streams = columns or [[] for _ in range(len(args) + 2)]
    return like, dict(zip(args, values, strict=True)), kernels, streams


def _coded(values: Sequence[Any]) -> tuple[Ints, list[Any]]:
    """Return codes by first occurrence, and the values."""
    pool: dict[Any, int] = {}
    codes = [pool.setdefault(value, len(pool)) for value in values]
    return np.array(codes, dtype=np.int64), list(pool)


# --- args -----------------------------------------------------------------------------------------


def _args(trace: Trace, rows: npt.NDArray[np.intp]) -> dict[str, list[Any]]:
    own = event_args(trace, rows, COMMUNICATION_KEYS)
    args = {key: list(values) for key, values in own.items()}
    bare = np.array([value is None for value in args[_NAME]], dtype=bool)
    if not bare.any():
        return args
    operator = _enclosing(trace, trace.launch_of[rows[bare]], _RECORD)
    places, operators = np.flatnonzero(bare)[operator >= 0], operator[operator >= 0]
    for key, values in event_args(trace, operators, _OF_OPERATORS).items():
        for place, value in zip(places.tolist(), values, strict=True):
            args[key][place] = value
    _name_by_ranges(trace, rows, args[_NAME])
    return args


def _name_by_ranges(trace: Trace, rows: npt.NDArray[np.intp], stated: list[Any]) -> None:
    """Name collectives that neither args nor the kernel name, such as NCCL's generic one."""
    table = trace.table
    unknown = [
        place
        for place, (value, code) in enumerate(zip(stated, table.name[rows].tolist(), strict=True))
        if value is None and _kernel_label(table.names[code]) == table.names[code]
    ]
    if not unknown:
        return
    around = _enclosing(trace, trace.launch_of[rows[unknown]], _RANGE)
    for place, row in zip(unknown, around.tolist(), strict=True):
        if row >= 0:
            stated[place] = _RANGE.sub("", table.names[int(table.name[row])], 1)


def _enclosing(trace: Trace, rows: Ints, name: re.Pattern[str]) -> Ints:
    """Return the nearest event whose name begins so around each of `rows`, -1 for none."""
    table = trace.table
    found = np.full(len(rows), -1, dtype=np.int64)
    codes = [code for code, one in enumerate(table.names.values) if name.match(one)]
    if not codes:
        return found
    parent = nested_parents(trace)
    at = rows.copy()
    for _ in range(_LEVELS):
        open_rows = np.flatnonzero((at >= 0) & (found < 0))
        if not len(open_rows):
            break
        hit = np.isin(table.name[at[open_rows]], codes)
        found[open_rows[hit]] = at[open_rows[hit]]
        at[open_rows] = parent[at[open_rows]]
    return found


def _shared_labels(
    trace: Trace, labels: list[str], sources: list[int], peers: list[int]
) -> list[str]:
    """Return labels that both sides of a send and its receive share.

    One whose other side is unknown gets a name that no other rank has.
    """
    return [
        label
        if label.lower() not in _ONE_SIDED
        else "p2p"
        if source >= 0 or size == 2
        else f"{label} of rank {trace.rank}"
        for label, source, size in zip(labels, sources, peers, strict=True)
    ]


@lru_cache(maxsize=1 << 14)
def _kernel_label(kernel: str) -> str:
    """Return c10d's name of the collective in a kernel's name."""
    squeezed = re.sub(r"[^a-z]", "", kernel.lower())
    if "sendrecv" in squeezed:
        return "sendrecv"
    return next((word for word in _WORDS if word in squeezed), kernel)


@lru_cache(maxsize=1 << 14)
def _operation(label: str) -> int:
    squeezed = re.sub(r"[^a-z]", "", label.lower())
    if squeezed in _ONE_SIDED or "sendrecv" in squeezed or squeezed == "batchisendirecv":
        return _SEND_RECV
    return next((code for code, word in enumerate(_WORDS) if word in squeezed), _OTHER)


@lru_cache(maxsize=4096)
def bytes_of(dtype: str) -> int:
    """Return how many bytes an element has, -1 where the type is not known."""
    name = re.sub(r"^(torch\.|c10::|at::)", "", dtype.strip().lower())
    return next((size for size, names in _BYTES.items() if re.fullmatch(names, name)), -1)


def unsized(events: CommEvents, mine: npt.NDArray[Any]) -> Counter[str]:
    """Count events of unknown size by the unknown type of their elements."""
    codes = events.unsized[mine] if len(events.unsized) else events.unsized
    return Counter(events.dtypes[code] for code in codes[codes >= 0].tolist())


def unsized_note(counts: Iterable[Counter[str]]) -> str:
    """Return a note on events whose size is unknown for the type of their elements."""
    whole = sum(counts, Counter[str]())
    named = ", ".join(repr(name) for name in sorted(whole))
    return f"sizes of {whole.total()} events are unknown: elements of type {named}" if whole else ""


def _ends(trace: Trace, args: dict[str, list[Any]], labels: list[str]) -> tuple[Ints, Ints]:
    """Return the sending and the receiving rank; PyTorch states only the other side."""
    own = trace.rank if trace.stated_rank is None else trace.stated_rank
    source, target = numbers_of(args["Src Rank"]), numbers_of(args["Dst Rank"])
    sends = np.array([label.lower() in _SENDS for label in labels], dtype=bool)
    receives = np.array([label.lower() in _RECEIVES for label in labels], dtype=bool)
    source = np.where(sends & (target >= 0), own, source)
    target = np.where(receives & (source >= 0), own, target)
    paired = (sends | receives) & (source >= 0) & (target >= 0)
    return np.where(paired, source, -1), np.where(paired, target, -1)


# --- process groups -------------------------------------------------------------------------------


def _groups(
    trace: Trace, streams: list[int], args: dict[str, list[Any]]
) -> tuple[Ints, list[GroupName]]:
    keys = []
    for name, listed, size, stream in zip(
        args["Process Group Name"],
        args["Process Group Ranks"],
        numbers_of(args["Group size"]).tolist(),
        streams,
        strict=True,
    ):
        text = "" if listed is None else listed if isinstance(listed, str) else json.dumps(listed)
        if text.strip() in {"", "[]"}:
            text = ""
        label = "" if name is None else str(name)
        keys.append((label, text, size, -1 if label or text else stream))
    codes, distinct = _coded(keys)
    config = {group.name: group.ranks for group in header_of(trace).groups if group.is_listed}
    return codes, [
        GroupName(name, _members(name, text, size, config), sys.intern(text), size, stream)
        for name, text, size, stream in distinct
    ]


def _described(args: dict[str, list[Any]], code: Ints, count: int) -> list[str]:
    """Return the purpose of each group, as its first event states it."""
    found = [""] * count
    groups, first = np.unique(code, return_index=True)
    for group, place in zip(groups.tolist(), first.tolist(), strict=True):
        stated = args[_DESCRIPTION][place]
        found[group] = stated if isinstance(stated, str) else ""
    return found


def _members(
    name: str, listed: str, size: int, config: dict[str, tuple[int, ...]]
) -> tuple[int, ...]:
    ranks = listed_ranks(listed)
    if len(ranks) == size:
        return ranks
    # Long lists are cut short on the event; the header may have them whole.
    whole = config.get(name, ())
    return whole if len(whole) == size or not ranks else ranks

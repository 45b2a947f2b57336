"""Builds a rank's call tree. Two runs are matched by the nodes of these trees.

A node is an operator or annotation, a runtime call, or a piece of device work. The children of an
operator are the calls within its time on its thread, the backward operators of a forward operator,
and the device work that it launched, whenever that work ran. Names omit parts that differ between
runs: ``model.py(17): step`` becomes ``model.py: step``.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.cross_rank.comm_events import comm_events
from hta_widgets.analysis.efficiency.engine_steps import parse_step_name
from hta_widgets.analysis.scope import RankPart, device_work_rows
from hta_widgets.diff.sequences import Hashes
from hta_widgets.diff.sides import RunSide, step_at
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Bools,
    Ints,
    concatenate_ranges,
    mask_of_rows,
    positions_of_rows,
)
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.host_stack import (
    CALLS,
    Forest,
    attach_backward_threads,
    category_mask,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
    repeats_step,
)
from hta_widgets.trace.trace import Trace

#: Classes of nodes. Nodes of one class and parent form a sequence. Device work is a separate class,
#: because it runs when its stream reaches it and cannot be ordered among operators by time.
OPERATOR, CALL, WORK = 0, 1, 2
FRAME = "python_function"

_MIX_CONSTANTS = tuple(
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_LINE = re.compile(r"(?:.*[/\\])?([^/\\]+)\(\d+\): (.+)", re.DOTALL)
_MODULE = re.compile(r"(nn\.Module: .+)_\d+", re.DOTALL)
_ENGINE_STEPS = ("execute_", "step[", "prefill[", "decode[")


def comparable_name(name: str, *, frame: bool) -> str:
    """Return a name without the parts that differ between two runs of the same program.

    Addresses are replaced. A Python function keeps its name and file name, without folder and line.
    An ``nn.Module`` keeps its class, without its number. A step of an inference engine keeps its
    phase, without requests and tokens: ``decode step``.
    """
    step = parse_step_name(name) if name.startswith(_ENGINE_STEPS) else None
    if step is not None and step.phase:
        return f"{step.phase} step"
    text = _ADDRESS.sub("0x…", name) if "0x" in name else name
    if not frame:
        return text
    if match := _LINE.fullmatch(text):
        return f"{match[1]}: {match[2]}"
    match = _MODULE.fullmatch(text)
    return match[1] if match else text


#: Patterns of NVIDIA's demangler that GNU and LLVM demanglers write differently, and the common
#: form.
_SIGNATURE_RULES = (
    (re.compile(r"\(bool\)0|\bfalse\b"), "0"),
    (re.compile(r"\(bool\)1|\btrue\b"), "1"),
    (re.compile(r"\((?:(?:un)?signed )?(?:char|short|int|long|long long)\)(?=-?\d)"), ""),
    (re.compile(r"\b(\d+)(?:ull|ul|ll|l|u)\b"), r"\1"),
    (re.compile(r"<unnamed>|\(anonymous namespace\)"), "<unnamed>"),
    (re.compile(r"[\[{]lambda(\(.*?\))(?: \(instance |#)(\d+)\)?[\]}]"), r"{lambda\1#\2}"),
    (re.compile(r" (?=[*&>])|(?<=operator) (?=\(\))"), ""),
    (re.compile(r"\bconst ((?:unsigned )?[\w:]+)(?=[*&])"), r"\1 const"),
)


def normalize_signature(name: str) -> str:
    """Return a demangled name in a form that is the same for all demanglers.

    >>> normalize_signature("void k<(int)4, (bool)1, char *>(<unnamed>::F)")
    'void k<4, 1, char*>(<unnamed>::F)'
    >>> normalize_signature("void k<4, true, char*>((anonymous namespace)::F)")
    'void k<4, 1, char*>(<unnamed>::F)'
    """
    if "<" not in name and "(" not in name:
        return name
    for pattern, replacement in _SIGNATURE_RULES:
        name = pattern.sub(replacement, name)
    return name


class NamePool:
    """Name codes shared by both sides, and the text shown for each code.

    Names that differ only by the demangler share a code.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._shown: list[str] = []
        self._full = StringPool()
        self._hashes: list[int] = []

    def codes(self, names: list[str]) -> Ints:
        """Return the code of each name."""
        return np.array([self.code(name) for name in names], dtype=np.int64)

    def code(self, name: str, shown: str | None = None) -> int:
        """Return the code of a name; names that differ only by the demangler share a code."""
        key = normalize_signature(name)
        code = self._codes.setdefault(key, len(self._codes))
        shown = name if shown is None else shown
        if code == len(self._shown):
            self._shown.append(shown)
        elif self._shown[code] != shown:
            self._shown[code] = key
        return code

    @property
    def names(self) -> list[str]:
        """The shown name of each code, all distinct."""
        often = Counter(self._shown)
        return [
            shown if often[shown] == 1 else name
            for name, shown in zip(self._codes, self._shown, strict=True)
        ]

    def full_codes(self, names: list[str]) -> Ints:
        """Return the code of each full name."""
        return np.array([self._full.add(name) for name in names], dtype=np.int64)

    def hashes(self) -> Hashes:
        """Return a hash per name code; it does not depend on the order in which names are read."""
        new = itertools.islice(self._codes, len(self._hashes), None)
        self._hashes += [
            int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            for text in new
        ]
        return np.array(self._hashes, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._codes)


@dataclass(frozen=True, eq=False)
class RankTree:
    """The nodes of one rank; device work is below the operator that launched it."""

    part: RankPart
    rows: Ints
    kind: npt.NDArray[np.int8]  # class
    name: Ints  # code of the comparable name
    full_name: Ints
    frame: Bools  # whether it is a Python function
    parent: Ints
    slot: Ints  # position of the step
    lane: Ints  # track
    order: Ints  # position in time; device work has its launch's position
    begin_ns: Ints  # start on the host; for device work, start of its launch
    end_ns: Ints
    content: Ints  # data that a collective moves, as a code of the pool; -1 for other nodes
    forest: Forest

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations(self) -> Ints:
        """Duration of each node within the window."""
        return self.part.durations(self.rows)

    def hashes(self, name_hashes: Hashes) -> Hashes:
        """Return a hash of each node including all operators and work below it, in order."""
        # The data that collectives move is hashed too.
        hash_of_node = name_hashes[self.name].copy()
        has_content = self.content >= 0
        hash_of_node[has_content] += mix_hash(name_hashes[self.content[has_content]])
        for nodes in reversed(self.forest.levels[1:]):
            children = nodes[self.kind[nodes] != CALL]
            if not len(children):
                continue
            order = np.lexsort((self.order[children], self.kind[children], self.parent[children]))
            children = children[order]
            parents = self.parent[children]
            first = np.flatnonzero(np.diff(parents, prepend=-2))
            family_sizes = np.diff(np.append(first, len(children)))
            # The position among siblings is hashed too, so that order matters.
            position = concatenate_ranges(np.zeros_like(first), family_sizes).astype(np.uint64)
            child_hashes = hash_of_node[children] + mix_hash(position + _MIX_CONSTANTS[0])
            np.add.at(hash_of_node, parents, mix_hash(child_hashes))
        return hash_of_node


def mix_hash(values: Hashes) -> Hashes:
    """Scramble numbers so that sums of different numbers are almost never equal."""
    first, second, third = _MIX_CONSTANTS
    with np.errstate(over="ignore"):
        value = values + first
        value = (value ^ (value >> np.uint64(30))) * second
        value = (value ^ (value >> np.uint64(27))) * third
        result: Hashes = value ^ (value >> np.uint64(31))
    return result


def steps_of_rows(side: RunSide, part: RankPart, rows: Ints) -> Ints:
    """Return the position of each event's step among the compared steps.

    The position is -1 for steps that are not compared, and the number of steps for events outside
    of all steps. Device work without a launch in the file belongs to the step in which it starts.
    """
    count = len(side.steps)
    if not side.has_steps:
        return np.zeros(len(rows), dtype=np.int64)
    table = part.table
    step = table.step[rows]
    order = np.argsort(side.steps, kind="stable")
    ascending = side.steps[order]
    nearest = np.minimum(np.searchsorted(ascending, step), count - 1)
    otherwise = np.where(step < 0, count, -1)
    positions: Ints = np.where(ascending[nearest] == step, order[nearest], otherwise)
    unknown = (step < 0) & (table.stream[rows] >= 0) & (part.trace.launch_of[rows] < 0)
    lost_rows = np.flatnonzero(unknown)
    within = step_at(side, part.rank, table.start_ns[rows[lost_rows]] + part.trace.shift_ns)
    positions[lost_rows[within >= 0]] = within[within >= 0]
    return positions


def rank_tree(side: RunSide, rank: int, pool: NamePool, *, stacks: bool) -> RankTree:
    """Return the call tree of one rank; `stacks` includes Python functions."""
    part = side.parts[rank]
    trace, table = part.trace, part.table
    slot = np.full(len(table), -1, dtype=np.int64)
    slot[part.rows] = steps_of_rows(side, part, part.rows)
    work = mask_of_rows(device_work_rows(trace), len(table))
    is_node = _node_mask(trace, work, stacks=stacks) & (slot >= 0)
    rows = np.flatnonzero(is_node)
    kind = np.select([category_mask(trace, CALLS), work], [CALL, WORK], OPERATOR).astype(np.int8)
    parent = _parent_rows(trace, work, is_node & (kind == OPERATOR))
    # A node within another step's operator is outermost in its own step.
    parent[(parent >= 0) & (slot[parent] != slot)] = -1
    positions = positions_of_rows(rows, len(table))[parent[rows]]
    # Work of the same launch, or of an unknown launch, is ordered by time, like rows.
    launch = np.where(work[rows] & (trace.launch_of[rows] >= 0), trace.launch_of[rows], rows)
    order = np.empty(len(rows), dtype=np.int64)
    order[np.argsort(launch, kind="stable")] = np.arange(len(rows))
    names, position = comparable_names(trace, rows)
    name_codes = np.array([pool.code(name, full_name) for name, full_name in names], np.int64)
    content, events = np.full(len(table), -1, dtype=np.int64), comm_events(trace)
    if len(events.rows):
        codes = pool.codes([f"content {item!r}" for item in events.content])
        content[events.rows] = codes[events.content_code]
    return RankTree(
        part=part,
        rows=rows,
        kind=kind[rows],
        name=name_codes[position],
        full_name=pool.full_codes([full_name for _, full_name in names])[position],
        frame=category_mask(trace, FRAME)[rows],
        parent=positions,
        slot=slot[rows],
        lane=table.track[rows].astype(np.int64),
        order=order,
        begin_ns=table.start_ns[launch],
        end_ns=table.end_ns[launch],
        content=content[rows],
        forest=forest_of(positions),
    )


def _node_mask(trace: Trace, work: Bools, *, stacks: bool) -> Bools:
    """Return a mask of host events and device work, excluding steps and repeated events."""
    # Synchronization events on the device repeat runtime calls.
    is_node: Bools = trace.table.kind != KINDS.index("sync")
    is_node &= (trace.table.stream < 0) | work
    is_node &= ~category_mask(trace, "trace" if stacks else f"trace|{FRAME}")
    is_node &= ~name_mask(trace, lambda name: name.startswith("ProfilerStep"))
    return is_node & ~repeats_step(trace)


def _parent_rows(trace: Trace, work: Bools, operator: Bools) -> Ints:
    """Return the innermost operator that encloses or launched each event; -1 if none."""
    above = attach_backward_threads(trace, nested_parents(trace, operator))
    operator_of_row = nearest_ancestor(above, operator)
    return np.where(work, operator_of_row[trace.launch_of], operator_of_row[above])


def comparable_names(trace: Trace, rows: Ints) -> tuple[list[tuple[str, str]], Ints]:
    """Return the distinct (comparable, full) names of events, and each event's position in them."""
    table = trace.table
    # Names of Python functions come last.
    is_frame = category_mask(trace, FRAME)[rows]
    key, position = np.unique(table.name[rows] + is_frame * len(table.names), return_inverse=True)
    names = []
    for number in key.tolist():
        frame, code = divmod(number, len(table.names))
        text = table.names[code]
        names.append((comparable_name(text, frame=frame > 0), comparable_name(text, frame=False)))
    return names, position

"""The call tree of one rank as it is compared: operators, runtime calls and device work by step."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.collective_args import comm_events
from hta_widgets.analysis.host_stack import Forest
from hta_widgets.analysis.host_stack import below_backward
from hta_widgets.analysis.host_stack import forest_of
from hta_widgets.analysis.host_stack import nearest
from hta_widgets.analysis.host_stack import nested_parents
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.trace.table import KINDS

from hta_widgets.diff.sides import RunSide

__all__ = [
    "CALL",
    "FRAME",
    "OPERATOR",
    "WORK",
    "NamePool",
    "RankTree",
    "compared_name",
    "rank_tree",
    "steps_of_rows",
]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

#: Classes of nodes. Those of one class and parent form a sequence: work runs when its stream gets
#: to it, so its times say nothing of its place among the operators.
OPERATOR, CALL, WORK = 0, 1, 2

_CALL_CATEGORY = re.compile(r"(.+_)?(runtime|driver)", re.IGNORECASE)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
#: The category of Python functions.
FRAME = "python_function"
_LINE = re.compile(r"(?:.*[/\\])?([^/\\]+)\(\d+\): (.+)", re.DOTALL)
_MODULE = re.compile(r"(nn\.Module: .+)_\d+", re.DOTALL)
_MIX = tuple(
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def compared_name(name: str, *, frame: bool) -> str:
    """Return a name without what differs between two runs of the same program.

    Addresses count as one. Of a Python function the file's name and the function's count, not the
    folder or the line; of an ``nn.Module`` its class, not its number.

    Parameters
    ----------
    name : str
    frame : bool
        Whether it is that of a Python function.

    Examples
    --------
    >>> compared_name("/opt/app/model.py(31): forward", frame=True)
    'model.py: forward'
    >>> compared_name("nn.Module: Linear_3", frame=True)
    'nn.Module: Linear'
    """
    text = _ADDRESS.sub("0x…", name) if "0x" in name else name
    if not frame:
        return text
    if found := _LINE.fullmatch(text):
        return f"{found[1]}: {found[2]}"
    found = _MODULE.fullmatch(text)
    return found[1] if found else text


class NamePool:
    """Codes of names that both sides share, and how each is shown."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._shown: list[str] = []
        self._full: dict[str, int] = {}
        self._hashes: list[int] = []

    def codes(self, names: list[str]) -> Ints:
        """Return the code of each name."""
        return np.array([self.code(name) for name in names], dtype=np.int64)

    def code(self, name: str, shown: str | None = None) -> int:
        """Return the code of a name.

        Parameters
        ----------
        name : str
            As `compared_name` gives it.
        shown : str, optional
            The name in the file: shown unless there are several of one `name`.
        """
        code = self._codes.setdefault(name, len(self._codes))
        shown = name if shown is None else shown
        if code == len(self._shown):
            self._shown.append(shown)
        elif self._shown[code] != shown:
            self._shown[code] = name
        return code

    @property
    def names(self) -> list[str]:
        """The names as they are shown, by code; no two are alike."""
        often = Counter(self._shown)
        return [
            shown if often[shown] == 1 else name
            for name, shown in zip(self._codes, self._shown, strict=True)
        ]

    def full_codes(self, names: list[str]) -> Ints:
        """Return the code of each full name."""
        codes = [self._full.setdefault(name, len(self._full)) for name in names]
        return np.array(codes, dtype=np.int64)

    def hashes(self) -> Hashes:
        """Return a number for each name that tells the name, by code.

        Codes depend on which side was read first; what is made of these does not.
        """
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
    """Nodes of one rank, sorted by class, then time; device work hangs below its operator.

    Attributes
    ----------
    part : Part
    rows : array of int
        Ids of the events.
    kind : array of int
        `OPERATOR` (with annotations), `CALL` or `WORK`.
    name : array of int
        Codes of a `NamePool`, of names as `compared_name` gives them.
    full_name : array of int
        `NamePool.full_codes` of the names as the file has them, but for addresses.
    frame : array of bool
        Which are Python functions.
    parent : array of int
        Position of the innermost operator above, -1 for none in its step.
    slot : array of int
        Which of the compared steps; `outside` for what lies in none of the run's steps.
    lane : array of int
        Position of the track.
    order : array of int
        Place among all nodes in the order in which the host did or launched things.
    outside : int
        Number of the compared steps.
    """

    part: Part
    rows: Ints
    kind: npt.NDArray[np.int8]
    name: Ints
    full_name: Ints
    frame: Flags
    parent: Ints
    slot: Ints
    lane: Ints
    order: Ints
    outside: int
    #: when the host did it, or launched it
    begin_ns: Ints
    end_ns: Ints
    #: what a collective moves, as a code of the pool; -1 for the rest
    content: Ints
    forest: Forest

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations(self) -> Ints:
        """How long each lasts within the window."""
        return self.part.durations(self.rows)

    def hashes(self, name_hashes: Hashes) -> Hashes:
        """Return for each node what it is with all operators and work below it, in order.

        Collectives of one name are told apart by what they move.
        """
        own = name_hashes[self.name].copy()
        stated = self.content >= 0
        own[stated] += mixed(name_hashes[self.content[stated]])
        counted = self.kind != CALL
        # Places among siblings: their order decides, not their distance.
        for members in reversed(self.forest.levels[1:]):
            kids = members[counted[members]]
            if not len(kids):
                continue
            order = np.lexsort((self.order[kids], self.kind[kids], self.parent[kids]))
            kids = kids[order]
            above = self.parent[kids]
            first = np.flatnonzero(np.diff(above, prepend=-2))
            place = np.arange(len(kids)) - np.repeat(first, np.diff(np.append(first, len(kids))))
            np.add.at(own, above, mixed(own[kids] + mixed(place.astype(np.uint64) + _MIX[0])))
        return own


def mixed(values: Hashes) -> Hashes:
    """Scramble numbers, so that sums of them tell what was summed."""
    one, two, three = _MIX
    with np.errstate(over="ignore"):
        value = values + one
        value = (value ^ (value >> np.uint64(30))) * two
        value = (value ^ (value >> np.uint64(27))) * three
        found: Hashes = value ^ (value >> np.uint64(31))
    return found


def steps_of_rows(side: RunSide, part: Part, rows: Ints) -> Ints:
    """Return which of the compared steps each event belongs to.

    -1 stands for steps that are not compared; the number of steps for outside of all steps. Device
    work whose launch is not in the file belongs to the step in which it starts.
    """
    count = len(side.steps)
    if not side.has_steps:
        return np.zeros(len(rows), dtype=np.int64)
    table = part.table
    step = table.step[rows]
    order = np.argsort(side.steps, kind="stable")
    ascending = side.steps[order]
    at = np.minimum(np.searchsorted(ascending, step), count - 1)
    found: Ints = np.where(ascending[at] == step, order[at], np.where(step < 0, count, -1))
    unknown = (step < 0) & (table.stream[rows] >= 0) & (part.trace.launch_of[rows] < 0)
    lost = np.flatnonzero(unknown)
    windows = side.windows[part.rank] - part.trace.shift_ns
    start = table.start_ns[rows[lost]]
    within = np.searchsorted(windows[:, 0], start, side="right") - 1
    inside = (within >= 0) & (start < windows[np.maximum(within, 0), 1])
    found[lost[inside]] = within[inside]
    return found


def rank_tree(side: RunSide, rank: int, pool: NamePool, *, stacks: bool) -> RankTree:
    """Return the call tree of one rank.

    Parameters
    ----------
    side : RunSide
    rank : int
    pool : NamePool
        Takes the names.
    stacks : bool
        Whether Python functions are part of it, or left out.
    """
    part = side.parts[rank]
    trace, table = part.trace, part.table
    left_out, call_category = _categories(part, stacks=stacks)
    on_device = table.stream >= 0
    busy = np.zeros(len(KINDS), dtype=bool)
    busy[[KINDS.index(kind) for kind in BUSY]] = True
    work = on_device & busy[table.kind]
    kept = np.zeros(len(table), dtype=bool)
    kept[part.rows] = True
    # Waits on the device repeat what the calls of the runtime say.
    kept &= ~left_out[table.category] & (table.kind != KINDS.index("sync"))
    kept &= (~on_device | work) & ~_is_step(part)
    slot = np.full(len(table), -1, dtype=np.int64)
    slot[part.rows] = steps_of_rows(side, part, part.rows)
    kept &= slot >= 0
    call = kept & call_category[table.category] & ~on_device
    operator = kept & ~call & ~work

    above = below_backward(trace, nested_parents(trace, operator))
    up = nearest(above, operator)
    parent = np.where(work, up[trace.launch_of], up[above])
    # What another step encloses is the outermost of its own.
    parent[(parent >= 0) & (slot[parent] != slot)] = -1

    rows = np.flatnonzero(kept)
    position = np.full(len(table) + 1, -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    at = position[parent[rows]]
    kind = np.select([call[rows], work[rows]], [CALL, WORK], OPERATOR).astype(np.int8)
    launched = np.where(work[rows], trace.launch_of[rows], rows)
    # Of one launch, or of none that is known, by time, which is by row.
    when = np.where(launched >= 0, launched, rows)
    order = np.empty(len(rows), dtype=np.int64)
    order[np.lexsort((rows, when))] = np.arange(len(rows))
    of_frames = np.array([text == FRAME for text in table.categories.values] + [False])
    frame = of_frames[table.category[rows]]
    # Names of Python functions behind all others.
    key, at_key = np.unique(table.name[rows] + frame * len(table.names), return_inverse=True)
    texts = [table.names[code % len(table.names)] for code in key.tolist()]
    full, name = [], []
    for text, is_frame in zip(texts, key >= len(table.names), strict=True):
        full.append(compared_name(text, frame=False))
        name.append(pool.code(compared_name(text, frame=bool(is_frame)), full[-1]))
    return RankTree(
        part,
        rows,
        kind,
        np.array(name, dtype=np.int64)[at_key],
        pool.full_codes(full)[at_key],
        frame,
        at,
        slot[rows],
        table.track[rows].astype(np.int64),
        order,
        len(side.steps),
        table.start_ns[when],
        table.start_ns[when] + table.dur_ns[when],
        _contents(part, rows, pool),
        forest_of(at),
    )


def _contents(part: Part, rows: Ints, pool: NamePool) -> Ints:
    found = np.full(len(part.table), -1, dtype=np.int64)
    events = comm_events(part.trace)
    if len(events.rows):
        codes = pool.codes([f"content {item!r}" for item in events.content])
        found[events.rows] = codes[events.content_code]
    return found[rows]


def _categories(part: Part, *, stacks: bool) -> tuple[Flags, Flags]:
    """Return which categories are left out, and which are calls of the runtime, by code."""
    texts = part.table.categories.values
    # The last entry stands for none.
    left_out = [text.lower() == "trace" or (text == FRAME and not stacks) for text in texts]
    calls = [_CALL_CATEGORY.fullmatch(text) is not None for text in texts]
    return np.array([*left_out, False]), np.array([*calls, False])


def _is_step(part: Part) -> Flags:
    table = part.table
    named = np.array([text.startswith("ProfilerStep") for text in table.names.values] + [False])
    found: Flags = named[table.name]
    return found

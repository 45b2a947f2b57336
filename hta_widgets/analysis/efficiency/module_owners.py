"""The module of each event of a rank, and its pass: forward, backward or recomputation.

Calls of modules are ranges on host threads: ``nn.Module: Linear_3`` in files with stacks, else the
program's own annotations, else operators that repeat as a layer does. An event belongs to the
nearest call above it. Below a node of autograd, it belongs to the module of the forward operator
that made the node, which a flow of the file or the sequence number names. A call of a module below
a node is recomputation.

For example, ``Block_1`` calls ``Linear_3``, which runs ``addmm``. Later ``AddmmBackward0`` runs on
autograd's thread, with the sequence number of that ``addmm``: the work that it launches is
backward work of ``Linear_3``. The checkpoint of ``Block_1`` calls ``Linear_3`` below the node: its
work there is recomputation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.counted_calls import is_autograd_node
from hta_widgets.trace.arrays import Bools, Ints, Rows, mask_of_rows, positions_of_rows
from hta_widgets.trace.columns import event_arg_texts, to_int64
from hta_widgets.trace.host_stack import (
    category_mask,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
    operator_tree,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

#: Owners other than modules.
OUTSIDE: Final = -1
UNATTRIBUTED: Final = -2
OPTIMIZER: Final = -3
#: Phases of an event.
FORWARD: Final = 0
BACKWARD: Final = 1
RECOMPUTE: Final = 2

MODULE_PREFIX: Final = "nn.Module: "
#: Ranges that do not name a part of the model.
_NO_LAYER: Final = re.compile(
    r"ProfilerStep#|Optimizer\.|nccl:|c10d|record_param|gloo:|## backward|enumerate\(DataLoader"
    r"|DistributedDataParallel\.|FullyShardedDataParallel\.|Torch-Compiled|capture_"
)
_ACCUMULATE: Final = "AccumulateGrad"
_MAX_NODES_ABOVE: Final = 3
#: Minimum repetitions and operators of a layer, and maximum operators.
_MIN_REPEATS, _MIN_PERIOD, _MAX_PERIOD = 3, 2, 512


@dataclass(frozen=True, eq=False)
class ModuleOwners:
    """Modules of a rank (``instances``), their calls, and the owner of each event.

    Columns by instance: `names, class_names, parent`. By event: `owner`, an instance or a negative
    number such as `OUTSIDE`, and `phase`. By call: `row` of its event, -1 for a repeated sequence;
    `instance`; `call_parent`; its times; and `is_again`, whether it is below a node of autograd.
    """

    source: str
    names: list[str]
    class_names: list[str]
    parent: Ints
    owner: Ints
    phase: Ints
    row: Rows
    instance: Ints
    call_parent: Ints
    start_ns: Ints
    end_ns: Ints
    is_again: Bools


@dataclass(frozen=True, eq=False)
class _ModuleCalls:
    """Calls of modules: `place` is the row; calls without a row are numbered after all events."""

    names: list[str]
    place: Ints
    start_ns: Ints
    end_ns: Ints


@memoize
def module_owners(trace: Trace) -> ModuleOwners:
    """Return the modules of a rank, and the module and phase of each event."""
    table = trace.table
    nodes = name_mask(trace, is_autograd_node)
    optimizer = name_mask(trace, lambda name: name.startswith("Optimizer.step"))
    is_call, source = name_mask(trace, lambda name: name.startswith(MODULE_PREFIX)), "nn.Module"
    if not is_call.any():
        is_call, source = _annotations(trace), "annotation"
    forward = _forward_operators(trace, nodes)
    stops = is_call | nodes | optimizer | (forward >= 0)
    parent = nested_parents(trace, stops).astype(np.int64)
    rows = np.flatnonzero(is_call)
    labels = [table.names[code].removeprefix(MODULE_PREFIX) for code in table.name[rows].tolist()]
    calls = _ModuleCalls(labels, rows, table.start_ns[rows], table.end_ns[rows])
    if source != "nn.Module":
        calls, parent = _add_sequences(trace, calls, parent, stops, forward)
        source = "annotation" if len(rows) else "sequence"
    stops = np.append(stops, np.ones(len(parent) - len(table), dtype=bool))
    stop = nearest_ancestor(parent, stops)
    number = positions_of_rows(calls.place, len(parent))
    call_parent = number[stop[parent[calls.place]]]
    stop = stop[:-1]
    has_node = nearest_ancestor(parent, np.append(nodes, np.zeros(len(parent) - len(table), bool)))
    is_again = has_node[calls.place] >= 0
    instance, names, module_parent = _instances(calls, call_parent, is_again, source)
    owner = _owners(stop, np.append(instance, OUTSIDE)[number[:-1]], optimizer, forward)
    call = number[stop]
    phase = np.where(call >= 0, RECOMPUTE * np.append(is_again, False)[call], FORWARD)
    phase[(stop >= 0) & (call < 0)] = BACKWARD
    phase[owner == OPTIMIZER] = FORWARD
    return ModuleOwners(
        source if names else "",
        names,
        [_class_name(name, source) for name in names],
        module_parent,
        owner[: len(table)],
        phase[: len(table)],
        np.where(calls.place < len(table), calls.place, -1),
        instance,
        call_parent,
        calls.start_ns,
        calls.end_ns,
        is_again,
    )


def has_module_ranges(trace: Trace) -> bool:
    """Return whether a rank has calls of modules, or annotations that may name them."""
    is_call = name_mask(trace, lambda name: name.startswith(MODULE_PREFIX))
    return bool(is_call.any() or _annotations(trace).any())


def _class_name(name: str, source: str) -> str:
    """Return a name without its number: ``Conv2d`` of ``Conv2d_1``, ``layer.#.mlp`` of ranges."""
    class_name = re.sub(r"_\d+$", "", name)
    return class_name if source == "nn.Module" else re.sub(r"\d+", "#", class_name)


def _annotations(trace: Trace) -> Bools:
    """Return which events are ranges of the program that may name a part of the model."""
    names = name_mask(trace, lambda name: not _NO_LAYER.search(name))
    return category_mask(trace, "user_annotation") & names


def _owners(stop: Ints, of_event: Ints, optimizer: Bools, forward: Ints) -> Ints:
    """Return the owner of each event: that of the nearest call, node or optimizer above it.

    `of_event` has the instances of calls, -1 for other events.
    """
    size = len(forward)
    of_stop = of_event.copy()
    of_stop[np.flatnonzero(optimizer)] = OPTIMIZER
    linked = np.flatnonzero((forward >= 0) & (of_event[:size] < 0))
    maker = stop[forward[linked]]
    # A node of a recomputed operator links to an operator below another node, up to three deep.
    for _ in range(_MAX_NODES_ABOVE):
        of_stop[linked] = np.where(maker >= 0, of_stop[maker], OUTSIDE)
    is_unlinked = (of_stop == OUTSIDE) & (stop == np.arange(len(stop)))
    is_unlinked[linked] = False
    of_stop[is_unlinked] = UNATTRIBUTED
    return np.where(stop >= 0, of_stop[stop], OUTSIDE)


def _instances(
    calls: _ModuleCalls, call_parent: Ints, is_again: Bools, source: str
) -> tuple[Ints, list[str], Ints]:
    """Return the module of each call, and names and parents of modules in order of first call."""
    code = {name: at for at, name in enumerate(dict.fromkeys(calls.names))}
    key = np.array([code[name] for name in calls.names], dtype=np.int64)
    forest = forest_of(call_parent)
    if source != "nn.Module":
        # The program may use a name in several places, so these are modules by path.
        path = key.copy()
        for members in forest.levels[1:]:
            pairs = (path[call_parent[members]] + 1) * len(code) + key[members]
            path[members] = len(code) + np.unique(pairs, return_inverse=True)[1]
            path[members] += path.max(initial=0) + 1
        key = path
    # A module does not call itself: another class has its name and so its number, as `torch.nn`'s
    # `LSTM` has within a model that is called `LSTM`.
    while (is_nested := forest.is_nested_in_group(np.arange(len(key)), key)).any():
        key[is_nested] += key.max() + 1
    # The first call in a forward pass gives the path; recomputation runs below other calls.
    order = np.lexsort((calls.start_ns, is_again, key))
    is_first = np.append(True, np.diff(key[order]) != 0)[: len(order)]
    first = order[is_first]
    first = first[np.argsort(calls.start_ns[first], kind="stable")]
    place = dict(zip(key[first].tolist(), range(len(first)), strict=True))
    instance = np.array([place[value] for value in key.tolist()], dtype=np.int64)
    parent = np.append(instance, -1)[call_parent[first]]
    parent = np.where(parent < np.arange(len(first)), parent, -1)
    return instance, [calls.names[at] for at in first.tolist()], parent


def _forward_operators(trace: Trace, nodes: Bools) -> Ints:
    """Return the forward operator of each node of autograd, -1 for other events."""
    table, flows = trace.table, trace.flow_table
    forward = np.full(len(table), -1, dtype=np.int64)
    is_backward = np.zeros(len(flows.kind), dtype=bool)
    if "fwdbwd" in flows.kinds:
        is_backward = flows.kind == flows.kinds.index("fwdbwd")
    if is_backward.any():
        forward[flows.target[is_backward]] = flows.source[is_backward]
    elif nodes.any():
        _link_by_sequence(trace, nodes, forward)
    # The range of the engine has no flow of its own.
    targets = np.flatnonzero(forward >= 0)
    engine = table.parent[targets].astype(np.int64)
    is_engine = (engine >= 0) & nodes[engine] & (forward[engine] < 0)
    forward[engine[is_engine]] = forward[targets[is_engine]]
    # A parameter's gradient is accumulated after the node that computed it.
    accumulates = name_mask(trace, lambda name: _ACCUMULATE in name)
    order = np.flatnonzero(nodes | (forward >= 0))
    order = order[np.lexsort((table.start_ns[order], table.track[order]))]
    last = np.maximum.accumulate(np.where(forward[order] >= 0, np.arange(len(order)), -1))
    fills = (last >= 0) & accumulates[order] & (table.track[order[last]] == table.track[order])
    forward[order[fills]] = forward[order[last[fills]]]
    return forward


def _link_by_sequence(trace: Trace, nodes: Bools, forward: Ints) -> None:
    """Link nodes to the last operator before them with their number, on the thread they name."""
    table, rows = trace.table, operator_tree(trace).rows
    args = event_arg_texts(trace, rows, ("Sequence number", "Fwd thread id"))
    number, thread = (to_int64([text[at] or -1 for text in args]) for at in (0, 1))
    columns = {
        "row": rows,
        "number": number,
        "thread": thread,
        "track": table.track[rows].astype(np.int64),
        "start_ns": table.start_ns[rows],
    }
    numbered = pd.DataFrame(columns)[number >= 0].sort_values("start_ns")
    makers = numbered[numbered["thread"] == 0].drop(columns="thread")
    linked = numbered[(numbered["thread"] > 0) & nodes[numbered["row"]]].drop(columns="track")
    # PyTorch numbers threads itself. Numbers that occur on one thread only show which it is.
    tracks = makers.groupby("number")["track"].agg(["min", "max"])
    track_of_number = tracks["min"][tracks["min"] == tracks["max"]]
    votes = pd.Series(linked["number"].map(track_of_number).to_numpy(), linked["thread"]).dropna()
    track_of_thread = votes.groupby(level=0).agg(lambda values: values.mode().iloc[0])
    linked = linked.assign(track=linked["thread"].map(track_of_thread))
    linked = linked.dropna(subset="track").astype({"track": "int64"})
    pairs = pd.merge_asof(
        linked, makers, on="start_ns", by=["number", "track"], suffixes=("", "_of_maker")
    ).dropna(subset="row_of_maker")
    forward[pairs["row"]] = pairs["row_of_maker"].astype(np.int64)


def _add_sequences(
    trace: Trace, calls: _ModuleCalls, parent: Ints, stops: Bools, forward: Ints
) -> tuple[_ModuleCalls, Ints]:
    """Return the calls and parents with a call ``Layer_n`` around operators that repeat."""
    table, tree = trace.table, operator_tree(trace)
    outermost = tree.rows[tree.forest.levels[0]] if tree.forest.levels else tree.rows
    stop = nearest_ancestor(parent, stops)[outermost]
    is_call = np.append(mask_of_rows(calls.place, len(table)), True)
    # A thread with nodes and no forward operators has collectives between its nodes.
    linked = forward >= 0
    backward_tracks = np.setdiff1d(table.track[linked], table.track[forward[linked]])
    is_chosen = is_call[stop] & ~np.isin(table.track[outermost], backward_tracks)
    rows, stop = outermost[is_chosen], stop[is_chosen]
    keys = [table.track[rows], table.step[rows], stop]
    group = pd.DataFrame(dict(enumerate(keys))).groupby([0, 1, 2], sort=False).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    repeats: dict[bytes, tuple[int, int, int]] = {}
    layers: list[Rows] = []
    names = list(calls.names)
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        codes = table.name[rows[members]].astype(np.int64)
        key = codes.tobytes()
        if key not in repeats:
            repeats[key] = longest_repeat(codes)
        first, period, count = repeats[key]
        layers += list(members[first : first + count * period].reshape(count, period))
        names += [f"Layer_{number}" for number in range(count)]
    if not layers:
        return calls, parent
    place = np.arange(len(parent), len(parent) + len(layers))
    for at, members in zip(place.tolist(), layers, strict=True):
        parent[rows[members]] = at
    heads, ends = (np.array([members[at] for members in layers]) for at in (0, -1))
    start_ns = np.append(calls.start_ns, table.start_ns[rows[heads]])
    end_ns = np.append(calls.end_ns, table.end_ns[rows[ends]])
    outer = np.append(parent, stop[heads])
    return _ModuleCalls(names, np.append(calls.place, place), start_ns, end_ns), outer


def longest_repeat(codes: Ints) -> tuple[int, int, int]:
    """Return start, period and count of the repeats that cover the largest part of a sequence.

    The count is 0 unless at least three repeats cover more than half of the sequence.

    Examples
    --------
    >>> longest_repeat(np.array([9, 1, 2, 1, 2, 1, 2]))
    (1, 2, 3)
    """
    best, covered = (0, 1, 0), max(len(codes) / 2, 1)
    for period in range(_MIN_PERIOD, min(len(codes) // _MIN_REPEATS, _MAX_PERIOD) + 1):
        differs = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate(([-1], differs, [len(codes) - period]))
        run = np.diff(edges) - 1
        longest = int(run.argmax())
        count = int(run[longest]) // period + 1
        first = int(edges[longest]) + 1
        is_varied = (codes[first : first + period] != codes[first]).any()
        if count >= _MIN_REPEATS and count * period > covered and is_varied:
            best, covered = (first, period, count), count * period
    return best

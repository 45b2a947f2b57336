"""The module of each event of a rank, and the tree of modules with their time and FLOPs.

Calls of modules are ranges on host threads: ``nn.Module: Linear_3`` in files with stacks, else the
program's own annotations, else operators that repeat as a layer does. An event belongs to the
nearest enclosing call. Inside an autograd node, it belongs to the module of the forward operator
that created the node, found by flow or sequence number. Module calls there are recomputation.

For example, ``Block_1`` calls ``Linear_3``, which runs ``addmm``. Later, ``AddmmBackward0`` runs on
the autograd thread with the sequence number of that ``addmm``. Its work is backward work of
``Linear_3``. If the checkpoint of ``Block_1`` calls ``Linear_3`` in there, that is recomputation.

`modules` folds repeated layers: 12 equal ``Block`` modules with the same parent become one row
``Block ×12``, whose children are sums over all twelve.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.signatures import signatures
from hta_widgets.analysis.frames import result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    last_true_positions,
    mask_of_rows,
    positions_of_rows,
    sum_by_group,
)
from hta_widgets.trace.call_args import call_args
from hta_widgets.trace.host_stack import (
    autograd_nodes,
    category_mask,
    children_coverage,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
    operator_tree,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Codes of owners that are not modules.
OUTSIDE: Final = -1
UNATTRIBUTED: Final = -2
OPTIMIZER: Final = -3
#: Phases of an event.
FORWARD: Final = 0
BACKWARD: Final = 1
RECOMPUTE: Final = 2

MODULE_PREFIX: Final = "nn.Module: "
#: Names of ranges that are not part of the model.
_NO_LAYER: Final = re.compile(
    r"ProfilerStep#|Optimizer\.|nccl:|c10d|record_param|gloo:|## backward|enumerate\(DataLoader"
    r"|DistributedDataParallel\.|FullyShardedDataParallel\.|Torch-Compiled|capture_"
)
_ACCUMULATE: Final = "AccumulateGrad"
_MAX_NODES_ABOVE: Final = 3
#: A layer's minimum number of repetitions, and the range of its operator count.
_MIN_REPEATS, _MIN_PERIOD, _MAX_PERIOD = 3, 2, 512
_NO_MODULES: Final = (
    "no module, annotation or repeated layer: record stacks with with_stack=True, or name layers "
    "with torch.profiler.record_function"
)
_GUESSES: Final = "no nn.Module in the file: layers are annotations and repeated operators"
_PHASES: Final = ("forward", "backward", "recompute")
_DEVICE: Final = tuple(f"{phase}_device_ns" for phase in _PHASES)
_FLOPS: Final = tuple(f"{phase}_flops" for phase in _PHASES)
#: Names of rows for work that belongs to no module.
_OTHERS: Final = {
    OUTSIDE: "(outside modules)",
    UNATTRIBUTED: "(backward, unattributed)",
    OPTIMIZER: "(optimizer)",
}
_SUMS: Final = ("calls", "host_ns", "host_self_ns", *_DEVICE, "device_self_ns", *_FLOPS)
_COLUMNS: Final = (
    "rank", "path", "module", "class_name", "depth", "parent", "instances", "calls", "host_ns",
    "host_self_ns", *_DEVICE, "device_ns", "device_self_ns", *_FLOPS, "tflop_per_s",
    "min_device_ns", "max_device_ns", "source", "events",
)  # fmt: skip
_TEXTS: Final = ("path", "module", "class_name", "source", "events")
#: Data types of columns. `modules` itself adds the sums over all phases.
_SCHEMA: Final = {
    **{name: "int64" for name in _COLUMNS if name not in {"device_ns", "tflop_per_s"}},
    **dict.fromkeys(_TEXTS, "str"),
    **dict.fromkeys(_FLOPS, "float64"),
}


@dataclass(frozen=True, eq=False)
class ModuleOwners:
    """The modules of a rank (called instances), their calls, and the owner of each event.

    Per instance: `names`, `class_names`, `parent`. Per event: `owner`, an instance or a negative
    code such as `OUTSIDE`, and `phase`. Per call: `row`, its event, or -1 for a repeated sequence;
    `instance`; `call_parent`; its times; and `is_again`, whether it is inside an autograd node.
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
    """Calls of modules; `place` is the call's row, or a number after all rows if it has none."""

    names: list[str]
    place: Ints
    start_ns: Ints
    end_ns: Ints


@memoize
def module_owners(trace: Trace) -> ModuleOwners:
    """Return the modules of a rank, and the module and phase of each event."""
    table = trace.table
    nodes = autograd_nodes(trace)
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
    # Calls of repeated sequences have no event. Their numbers follow all event rows.
    added = len(parent) - len(table)
    stop = nearest_ancestor(parent, np.append(stops, np.ones(added, dtype=bool)))
    call_at = positions_of_rows(calls.place, len(parent))
    call_parent = call_at[stop[parent[calls.place]]]
    node_above = nearest_ancestor(parent, np.append(nodes, np.zeros(added, dtype=bool)))
    is_again = node_above[calls.place] >= 0
    instance, names, module_parent = _instances(calls, call_parent, is_again, source)
    instance_of_event = np.append(instance, OUTSIDE)[call_at[:-1]]
    owner = _owners(stop[:-1], instance_of_event, optimizer, forward)
    phase = _phases(stop[:-1], call_at, is_again)
    phase[owner == OPTIMIZER] = FORWARD
    return ModuleOwners(
        source=source if names else "",
        names=names,
        class_names=[_class_name(name, source) for name in names],
        parent=module_parent,
        owner=owner[: len(table)],
        phase=phase[: len(table)],
        row=np.where(calls.place < len(table), calls.place, -1),
        instance=instance,
        call_parent=call_parent,
        start_ns=calls.start_ns,
        end_ns=calls.end_ns,
        is_again=is_again,
    )


def _phases(stop: Ints, call_at: Ints, is_again: Bools) -> Ints:
    """Return the phase of each event, from the nearest enclosing call or node."""
    call = call_at[stop]
    phase = np.where(call >= 0, RECOMPUTE * np.append(is_again, False)[call], FORWARD)
    phase[(stop >= 0) & (call < 0)] = BACKWARD
    return phase


def _class_name(name: str, source: str) -> str:
    """Return ``Conv2d`` for module ``Conv2d_1``, or ``layer.#.mlp`` for range ``layer.3.mlp``."""
    name = re.sub(r"_\d+$", "", name)
    return name if source == "nn.Module" else re.sub(r"\d+", "#", name)


def has_module_ranges(trace: Trace) -> bool:
    """Return whether a rank has module calls, or annotations that may name modules."""
    is_call = name_mask(trace, lambda name: name.startswith(MODULE_PREFIX))
    return bool(is_call.any() or _annotations(trace).any())


def _annotations(trace: Trace) -> Bools:
    """Return whether each event is an annotation that may name a part of the model."""
    names = name_mask(trace, lambda name: not _NO_LAYER.search(name))
    return category_mask(trace, "user_annotation") & names


def _owners(stop: Ints, of_event: Ints, optimizer: Bools, forward: Ints) -> Ints:
    """Return each event's owner, which is that of the nearest enclosing call, node or optimizer.

    `of_event` is the instance of each event that is a call; -1 for other events.
    """
    size = len(forward)
    of_stop = of_event.copy()
    of_stop[np.flatnonzero(optimizer)] = OPTIMIZER
    linked = np.flatnonzero((forward >= 0) & (of_event[:size] < 0))
    maker = stop[forward[linked]]
    # A recomputed operator's node links to an operator that is itself inside a node, and so on.
    for _ in range(_MAX_NODES_ABOVE):
        of_stop[linked] = np.where(maker >= 0, of_stop[maker], OUTSIDE)
    is_unlinked = (of_stop == OUTSIDE) & (stop == np.arange(len(stop)))
    is_unlinked[linked] = False
    of_stop[is_unlinked] = UNATTRIBUTED
    return np.where(stop >= 0, of_stop[stop], OUTSIDE)


def _instances(
    calls: _ModuleCalls, call_parent: Ints, is_again: Bools, source: str
) -> tuple[Ints, list[str], Ints]:
    """Return the module of each call, and the names and parents of modules sorted by first call."""
    code = {name: number for number, name in enumerate(dict.fromkeys(calls.names))}
    key = np.array([code[name] for name in calls.names], dtype=np.int64)
    forest = forest_of(call_parent)
    if source != "nn.Module":
        # A program may reuse a name in several places, so modules are identified by path.
        path = key.copy()
        for members in forest.levels[1:]:
            pairs = (path[call_parent[members]] + 1) * len(code) + key[members]
            # Codes of this level are larger than those from the levels before it.
            first_number = len(code) + path.max(initial=0) + 1
            path[members] = first_number + np.unique(pairs, return_inverse=True)[1]
        key = path
    # A call within a call of the same name belongs to another module. Names are numbered per class
    # name, so `torch.nn`'s ``LSTM`` and a model around it with that class name are both ``LSTM_0``.
    while (is_nested := forest.is_nested_in_group(np.arange(len(key)), key)).any():
        key[is_nested] += key.max() + 1
    # The first forward call determines the path, because recomputation runs inside other calls.
    order = np.lexsort((calls.start_ns, is_again, key))
    is_first = np.append(True, np.diff(key[order]) != 0)[: len(order)]
    first = order[is_first]
    first = first[np.argsort(calls.start_ns[first], kind="stable")]
    module_of_key = {value: module for module, value in enumerate(key[first].tolist())}
    instance = np.array([module_of_key[value] for value in key.tolist()], dtype=np.int64)
    parent = np.append(instance, -1)[call_parent[first]]
    parent = np.where(parent < np.arange(len(first)), parent, -1)
    return instance, [calls.names[call] for call in first.tolist()], parent


def _forward_operators(trace: Trace, nodes: Bools) -> Ints:
    """Return the forward operator of each autograd node; -1 for other events."""
    table = trace.table
    forward = np.full(len(table), -1, dtype=np.int64)
    operators, linked_nodes = trace.flow_table.of_kind("fwdbwd")
    forward[linked_nodes] = operators
    if not len(linked_nodes) and nodes.any():
        _link_by_sequence(trace, nodes, forward)
    # The engine's range around a node has no flow.
    targets = np.flatnonzero(forward >= 0)
    engine = table.parent[targets].astype(np.int64)
    is_engine = (engine >= 0) & nodes[engine] & (forward[engine] < 0)
    forward[engine[is_engine]] = forward[targets[is_engine]]
    # A parameter's gradient is accumulated right after the node that computed it.
    accumulates = name_mask(trace, lambda name: _ACCUMULATE in name)
    order = np.flatnonzero(nodes | (forward >= 0))
    order = order[np.lexsort((table.start_ns[order], table.track[order]))]
    last = last_true_positions(forward[order] >= 0)
    fills = (last >= 0) & accumulates[order] & (table.track[order[last]] == table.track[order])
    forward[order[fills]] = forward[order[last[fills]]]
    return forward


def _link_by_sequence(trace: Trace, nodes: Bools, forward: Ints) -> None:
    """Link each node to the last operator with its sequence number on the stated thread."""
    table, rows = trace.table, operator_tree(trace).rows
    args = call_args(trace, rows)
    columns = {
        "row": rows,
        "number": args.sequence,
        "thread": args.thread,
        "track": table.track[rows].astype(np.int64),
        "start_ns": table.start_ns[rows],
    }
    numbered = pd.DataFrame(columns)[args.sequence >= 0].sort_values("start_ns")
    makers = numbered[numbered["thread"] == 0].drop(columns="thread")
    linked = numbered[(numbered["thread"] > 0) & nodes[numbered["row"]]].drop(columns="track")
    # PyTorch numbers threads in its own way. Sequence numbers found on a single track map them.
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
    """Add a call ``Layer_n`` around operators that repeat; return all calls and parents.

    `parent` is modified in place.
    """
    table, tree = trace.table, operator_tree(trace)
    outermost = tree.rows[tree.forest.levels[0]] if tree.forest.levels else tree.rows
    stop = nearest_ancestor(parent, stops)[outermost]
    is_call = np.append(mask_of_rows(calls.place, len(table)), True)
    # A thread that has nodes but no forward operators runs collectives between its nodes.
    linked = forward >= 0
    backward_tracks = np.setdiff1d(table.track[linked], table.track[forward[linked]])
    is_chosen = is_call[stop] & ~np.isin(table.track[outermost], backward_tracks)
    rows, stop = outermost[is_chosen], stop[is_chosen]
    keys = [table.track[rows], table.step[rows], stop]
    group = pd.DataFrame(dict(enumerate(keys))).groupby([0, 1, 2], sort=False).ngroup().to_numpy()
    layers, names = _repeated_layers(table.name[rows], group)
    if not layers:
        return calls, parent
    place = np.arange(len(parent), len(parent) + len(layers))
    for number, members in zip(place.tolist(), layers, strict=True):
        parent[rows[members]] = number
    first, last = (np.array([members[end] for members in layers]) for end in (0, -1))
    added = _ModuleCalls(
        names=[*calls.names, *names],
        place=np.append(calls.place, place),
        start_ns=np.append(calls.start_ns, table.start_ns[rows[first]]),
        end_ns=np.append(calls.end_ns, table.end_ns[rows[last]]),
    )
    return added, np.append(parent, stop[first])


def _repeated_layers(name: Array, group: Array) -> tuple[list[Rows], list[str]]:
    """Return the positions of the operators of each layer, and the names of the layers.

    Operators with the same `group` form a sequence, in order of position.
    """
    order = np.argsort(group, kind="stable")
    repeats: dict[bytes, tuple[int, int, int]] = {}
    layers: list[Rows] = []
    names: list[str] = []
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        key = name[members].tobytes()
        if key not in repeats:
            repeats[key] = longest_repeat(name[members])
        first, period, count = repeats[key]
        layers += list(members[first : first + count * period].reshape(count, period))
        names += [f"Layer_{number}" for number in range(count)]
    return layers, names


def longest_repeat(codes: Ints) -> tuple[int, int, int]:
    """Return the start, period and count of the repetition that covers most of a sequence.

    The count is 0 unless at least three repetitions cover more than half of the sequence.

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


@check_arguments
def modules(
    traces: TraceSet,
    *,
    depth: Positive | None = None,
    fold: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the tree of modules with host time, device time and FLOPs.

    Modules are the ``nn.Module`` ranges of files recorded with ``with_stack=True``. Without them,
    they are the program's annotations, or operators that repeat at least three times in a row,
    which are named ``Layer``. Device work belongs to the innermost module whose call launched it.
    Backward work belongs to the module whose forward operator created the autograd node, according
    to the file's flows or to sequence numbers. A module call inside a node is recomputation, as is
    a forward operator there that also ran in the forward pass of the step.

    Parameters
    ----------
    traces : TraceSet
    depth : int, optional
        Number of levels of the tree. Default: all. Deeper modules count for the module above them.
    fold : bool, default True
        Whether modules with equal parent, class and modules below share a row.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The device work and module calls to count, restricted by time and ranks. Default: all. The
        window clips times; FLOPs count operators that start in it.

    Returns
    -------
    DataFrame
        One row per rank and module, each below its parent, ordered by first call:

        - ``path`` (``Mlp_0.Block ×3.Linear_0``); ``module``, its last name; ``class_name``;
          ``depth``; ``parent``, the row of the parent, -1 if there is none; ``instances``, 1 unless
          folded
        - ``calls`` in forward passes; ``host_ns``, their time; ``host_self_ns``, without modules
          below
        - ``forward_device_ns, backward_device_ns, recompute_device_ns``; ``device_ns``, their sum;
          ``device_self_ns``, without modules below; ``min_device_ns, max_device_ns`` per instance
        - ``forward_flops, backward_flops, recompute_flops`` of matrix work, NaN without shapes;
          ``tflop_per_s``, their sum divided by ``device_ns``
        - ``source``: ``nn.Module``, ``annotation`` or ``sequence``; ``events``: the names of the
          events of its calls, one per line, empty for sequences

        The rows ``(outside modules)``, ``(backward, unattributed)`` and ``(optimizer)`` contain all
        other work: ``device_ns`` of rows without a parent adds up to ``.attrs["device_ns"]``.

    Notes
    -----
    A trace identifies neither recomputation by a compiler nor offloading.
    """
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    results = list(map_ranks(parts, partial(_modules_of_rank, fold=fold)))
    blocks = [block for rank_blocks, _ in results for block in rank_blocks]
    frame = pd.DataFrame(stack_blocks(blocks, _SCHEMA))
    # Parents are numbered per rank, so the first row of the rank is added.
    rank_start = np.arange(len(frame)) - frame.groupby("rank").cumcount()
    frame["parent"] = frame["parent"].where(frame["parent"] < 0, frame["parent"] + rank_start)
    frame["device_ns"] = frame[list(_DEVICE)].sum(axis=1)
    time_ns = frame["device_ns"].where(frame["device_ns"] > 0)
    frame["tflop_per_s"] = frame[list(_FLOPS)].sum(axis=1, min_count=1) / time_ns / 1e3
    if depth is not None:
        shown = frame["depth"] < depth
        number = np.append(np.cumsum(shown) - 1, -1)
        frame = frame[shown].assign(parent=number[frame.loc[shown, "parent"]])
    modules_shown = int((frame["source"] != "").sum())
    if not modules_shown:
        frame = frame[:0]
        note = _NO_MODULES if results else note_text("no_ranks")
    else:
        note = "" if (frame["source"] == "nn.Module").any() else _GUESSES
    return result_frame(
        {name: frame[name].reset_index(drop=True) for name in _COLUMNS},
        matched={"modules": modules_shown},
        note=note,
        device_ns=sum(device_ns for _, device_ns in results) if modules_shown else 0,
    )


def _modules_of_rank(part: RankPart, *, fold: bool) -> tuple[list[dict[str, Any]], int]:
    return part.get_or_compute(("modules", fold), partial(_rank_rows, part, fold=fold))


def _rank_rows(part: RankPart, *, fold: bool) -> tuple[list[dict[str, Any]], int]:
    owners = module_owners(part.trace)
    size, forest = len(owners.names), forest_of(owners.parent)
    device_ns, flops = _device_times(part, owners), _flops(part, owners)
    factor = 1.0 if signatures(part.trace).has_shapes else np.nan
    columns: dict[str, Any] = _host_columns(part, owners)
    columns["device_self_ns"] = device_ns[:, :size].sum(axis=0)
    for name, values in zip(_DEVICE, device_ns[:, :size], strict=True):
        columns[name] = forest.subtree_sums(values)
    for name, values in zip(_FLOPS, flops[:, :size], strict=True):
        columns[name] = forest.subtree_sums(values) * factor
    measures = pd.DataFrame(columns)
    total_ns = measures[[*_DEVICE]].sum(axis=1)
    is_shown = (measures["calls"] > 0) | (total_ns > 0)
    group = _fold(owners) if fold else np.arange(size)
    groups = measures.assign(instances=1, total_ns=total_ns)[is_shown].groupby(group[is_shown])
    sums = groups[[*_SUMS, "instances"]].sum(min_count=1)
    spread = groups["total_ns"].agg(["min", "max"])
    block = {
        **_descriptions(owners, group, sums.index.to_numpy()),
        **{str(name): values.to_numpy() for name, values in sums.items()},
        "min_device_ns": spread["min"].to_numpy(),
        "max_device_ns": spread["max"].to_numpy(),
    }
    rank_and_source = {"rank": part.rank, "source": owners.source}
    blocks = [_depth_first(block) | rank_and_source, _other_rows(device_ns) | {"rank": part.rank}]
    return blocks, int(device_ns.sum())


def _host_columns(part: RankPart, owners: ModuleOwners) -> dict[str, Ints]:
    size, forest = len(owners.names), forest_of(owners.call_parent)
    start, end = part.clip_edges(owners.start_ns, owners.end_ns)
    end = np.maximum(start, end)
    is_chosen = (end > start) | (owners.end_ns == owners.start_ns)  # in the window
    is_event = owners.row >= 0
    is_chosen[is_event] &= part.contains(owners.row[is_event])
    is_chosen &= ~owners.is_again
    # A call nested in another call of the same module is not counted again.
    is_outermost = ~forest.is_nested_in_group(np.arange(len(start)), owners.instance)
    measures = {
        "calls": np.ones(len(start), np.int64),
        "host_ns": (end - start) * is_outermost,
        "host_self_ns": end - start - children_coverage(owners.call_parent, start, end),
    }
    return {
        name: sum_by_group(owners.instance[is_chosen], values[is_chosen], size)
        for name, values in measures.items()
    }


def _device_times(part: RankPart, owners: ModuleOwners) -> Ints:
    work = part.device_work_rows()
    launch = part.trace.launch_of[work]
    owner = np.append(owners.owner, OUTSIDE)[launch]
    phase = np.append(owners.phase, FORWARD)[launch]
    calls = signatures(part.trace)
    call = calls.calls.of_work(work, len(part.table))
    phase = np.where(np.append(calls.is_recomputed, False)[call], RECOMPUTE, phase)
    return _sums_by_phase(owner, phase, np.maximum(part.durations(work), 0), owners)


def _flops(part: RankPart, owners: ModuleOwners) -> Ints:
    calls, table = signatures(part.trace), part.table
    rows, flops = calls.calls.rows, calls.figures("flops")
    is_chosen = part.contains(rows) & part.is_in_window(table.start_ns[rows]) & ~calls.is_stopped
    is_chosen &= (calls.texts_of_work("kind") == "matrix") & ~np.isnan(flops)
    phase = np.where(calls.is_recomputed, RECOMPUTE, owners.phase[rows])
    owner, known_flops = owners.owner[rows[is_chosen]], flops[is_chosen].astype(np.int64)
    return _sums_by_phase(owner, phase[is_chosen], known_flops, owners)


def _sums_by_phase(owner: Ints, phase: Ints, values: Ints, owners: ModuleOwners) -> Ints:
    """Return sums of values, by phase and owner.

    Modules come first and `_OTHERS` last, so that negative owners index from the end.
    """
    count = len(owners.names) + len(_OTHERS)
    sums = sum_by_group(phase * count + owner % count, values, len(_PHASES) * count)
    return sums.reshape(len(_PHASES), count)


def _fold(owners: ModuleOwners) -> Ints:
    """Return, for each module, the first module that shares its row.

    Siblings with equal class and structure share a row, as do their children at equal positions.
    Leaf modules share a row only at equal positions, because two ``Linear`` in a block differ in
    their shapes. Annotations and sequences always share.
    """
    size, parents = len(owners.names), owners.parent.tolist()
    children: list[list[int]] = [[] for _ in range(size)]
    position = [0] * size  # among the children of its parent
    for module, parent in enumerate(parents):
        if parent >= 0:
            position[module] = len(children[parent])
            children[parent].append(module)
    codes: dict[tuple[Any, ...], int] = {}
    structure = [0] * size
    for module in range(size - 1, -1, -1):  # children follow their parents
        below = tuple(structure[child] for child in children[module])
        structure[module] = codes.setdefault((owners.class_names[module], below), len(codes))
    first: dict[tuple[int, int, int], int] = {}
    group = np.arange(size)
    for module, parent in enumerate(parents):
        is_leaf = not children[module] and owners.source == "nn.Module"
        if is_leaf and parent < 0:
            continue
        row_above = int(group[parent]) if parent >= 0 else -1
        key = (row_above, structure[module], position[module] if is_leaf else -1)
        group[module] = first.setdefault(key, module)
    return group


def _descriptions(owners: ModuleOwners, group: Ints, shown: Ints) -> dict[str, Any]:
    """Return the descriptive columns of the rows `shown`; `group` is the result of `_fold`."""
    parent_row = np.append(group, -1)[owners.parent]
    count = np.bincount(group, minlength=len(group))
    repeats = (count // np.append(count, 1)[parent_row]).tolist()  # per instance of the parent
    labels = zip(owners.names, owners.class_names, repeats, strict=True)
    names = [
        name if number < 2 else f"{class_name} ×{number}" for name, class_name, number in labels
    ]
    paths = list(names)
    for module, parent in enumerate(parent_row.tolist()):  # parents precede their children
        if parent >= 0:
            paths[module] = f"{paths[parent]}.{names[module]}"
    events, modules_shown = _event_names(owners, group), shown.tolist()
    return {
        "path": [paths[module] for module in modules_shown],
        "module": [names[module] for module in modules_shown],
        "class_name": [owners.class_names[module] for module in modules_shown],
        "depth": forest_of(parent_row).depth[shown],
        "parent": positions_of_rows(shown, len(group))[parent_row[shown]],
        "events": [events.get(module, "") for module in modules_shown],
    }


def _event_names(owners: ModuleOwners, group: Ints) -> dict[int, str]:
    has_event = mask_of_rows(owners.instance[owners.row >= 0], len(group))
    prefix = MODULE_PREFIX if owners.source == "nn.Module" else ""
    names: dict[int, list[str]] = {}
    for module in np.flatnonzero(has_event).tolist():
        names.setdefault(int(group[module]), []).append(prefix + owners.names[module])
    return {row: "\n".join(dict.fromkeys(listed)) for row, listed in names.items()}


def _depth_first(block: dict[str, Any]) -> dict[str, Any]:
    """Return the rows in depth-first order, with ``parent`` renumbered accordingly."""
    size = len(block["path"])
    order = np.argsort(forest_of(block["parent"]).preorder) if size else np.empty(0, np.int64)
    block["parent"] = np.append(np.argsort(order), -1)[block["parent"]]
    return {
        name: [values[row] for row in order.tolist()] if isinstance(values, list) else values[order]
        for name, values in block.items()
    }


def _other_rows(device_ns: Ints) -> dict[str, Any]:
    names = {key: name for key, name in _OTHERS.items() if device_ns[:, key].any()}
    times = device_ns[:, list(names)]
    return {
        **dict.fromkeys(_SCHEMA, 0),
        **{column: list(names.values()) for column in ("path", "module", "class_name")},
        **dict.fromkeys(("source", "events"), ""),
        **dict(zip(_DEVICE, times, strict=True)),
        **dict.fromkeys(("device_self_ns", "min_device_ns", "max_device_ns"), times.sum(axis=0)),
        **dict.fromkeys(_FLOPS, np.nan),
        "parent": -1,
        "instances": 1,
    }

"""The tree of modules with their time on host and device, forward, backward and recomputed.

Layers that repeat are folded: 12 equal ``Block`` modules below one parent are a row
``Block ×12``, whose children are the sums over all twelve.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.module_owners import (
    BACKWARD,
    FORWARD,
    MODULE_PREFIX,
    OPTIMIZER,
    OUTSIDE,
    RECOMPUTE,
    UNATTRIBUTED,
    ModuleOwners,
    module_owners,
)
from hta_widgets.analysis.efficiency.signatures import signatures
from hta_widgets.analysis.frames import result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Ints, mask_of_rows, positions_of_rows, sum_by_group
from hta_widgets.trace.host_stack import children_coverage, forest_of
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

_NO_MODULES: Final = (
    "no module, annotation or repeated layer: record stacks with with_stack=True, or name layers "
    "with torch.profiler.record_function"
)
_GUESSES: Final = "no nn.Module in the file: layers are annotations and repeated operators"
_PHASES: Final = {FORWARD: "forward", BACKWARD: "backward", RECOMPUTE: "recompute"}
_DEVICE: Final = tuple(f"{phase}_device_ns" for phase in _PHASES.values())
_FLOPS: Final = tuple(f"{phase}_flops" for phase in _PHASES.values())
#: Rows of work that belongs to no module.
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
#: Types of columns; `modules` itself adds the columns of all phases.
_SCHEMA: Final = {
    **{name: "int64" for name in _COLUMNS if name not in {"device_ns", "tflop_per_s"}},
    **dict.fromkeys(_TEXTS, "str"),
    **dict.fromkeys(_FLOPS, "float64"),
}


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

    Modules are the ``nn.Module`` ranges of files recorded with ``with_stack=True``. Without them
    they are the program's annotations, and operators that repeat at least three times in a row,
    which are called ``Layer``. Device work belongs to the innermost module whose call launched it.
    Work of the backward pass belongs to the module whose forward operator made the node of
    autograd, by the file's flows or by sequence numbers. A call of a module below a node is
    recomputation, as is a forward operator there that also ran in the forward pass of the step.

    Parameters
    ----------
    traces : TraceSet
    depth : int, optional
        Levels of the tree; all by default. Deeper modules count for those above.
    fold : bool, default True
        One row for equal modules below the same parent: same class, same modules below.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The device work and calls of modules, narrowed in time and to ranks; all by default. The
        window cuts times; FLOPs are those of operators that start in it.

    Returns
    -------
    DataFrame
        One row per rank and module, each below its parent, in the order of first calls:

        - ``path`` (``Mlp_0.Block ×3.Linear_0``), ``module``, the last name of it, ``class_name``;
          ``depth`` and ``parent`` (the parent's row, -1 for none); ``instances``, 1 unless folded
        - ``calls`` in forward passes; ``host_ns`` of these; ``host_self_ns`` without modules below
        - ``forward_device_ns, backward_device_ns, recompute_device_ns``; ``device_ns``, their sum,
          and ``device_self_ns``, without modules below; ``min_device_ns, max_device_ns`` of one
          instance
        - ``forward_flops, backward_flops, recompute_flops`` of matrix work, NaN without shapes;
          ``tflop_per_s``, their sum over ``device_ns``
        - ``source``: ``nn.Module``, ``annotation`` or ``sequence``; ``events``, the names of the
          events of its calls, one a line, empty for sequences

        Rows ``(outside modules)``, ``(backward, unattributed)`` and ``(optimizer)`` have the other
        work, so ``device_ns`` of the rows without a parent adds up to ``.attrs["device_ns"]``.

    Notes
    -----
    A trace does not identify recomputation by a compiler, nor offloading.
    """
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    results = list(map_ranks(parts, partial(_modules_of_rank, fold=fold)))
    blocks = [block for rank_blocks, _ in results for block in rank_blocks]
    frame = pd.DataFrame(stack_blocks(blocks, _SCHEMA))
    first = frame.groupby("rank").cumcount() == 0
    offset = np.maximum.accumulate(np.where(first, np.arange(len(frame)), 0))
    frame["parent"] = frame["parent"].where(frame["parent"] < 0, frame["parent"] + offset)
    frame["device_ns"] = frame[list(_DEVICE)].sum(axis=1)
    time_ns = frame["device_ns"].where(frame["device_ns"] > 0)
    frame["tflop_per_s"] = frame[list(_FLOPS)].sum(axis=1, min_count=1) / time_ns / 1e3
    if depth is not None:
        shown = frame["depth"] < depth
        number = np.append(np.cumsum(shown) - 1, -1)
        frame = frame[shown].assign(parent=number[frame.loc[shown, "parent"]])
    has_modules = bool((frame["source"] != "").any())
    if not has_modules:
        frame = frame[:0]
    notes = [note_text("no_ranks") if not results else _NO_MODULES]
    if has_modules:
        has_class = (frame["source"] == "nn.Module").any()
        notes = ["" if has_class else _GUESSES]
    return result_frame(
        {name: frame[name].reset_index(drop=True) for name in _COLUMNS},
        matched={"modules": int((frame["source"] != "").sum())},
        note=notes,
        device_ns=sum(device_ns for _, device_ns in results) if has_modules else 0,
    )


def _modules_of_rank(part: RankPart, *, fold: bool) -> tuple[list[dict[str, Any]], int]:
    return part.get_or_compute(("modules", fold), partial(_rank_rows, part, fold=fold))


def _rank_rows(part: RankPart, *, fold: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a rank, and the time of all its device work."""
    owners = module_owners(part.trace)
    forest = forest_of(owners.parent)
    columns: dict[str, Any] = _host_columns(part, owners)
    device, others, device_ns = _device_columns(part, owners)
    columns["device_self_ns"] = sum(device.values())
    columns |= {name: forest.subtree_sums(values) for name, values in device.items()}
    factor = 1.0 if signatures(part.trace).has_shapes else np.nan
    flops = _flops_columns(part, owners)
    columns |= {name: forest.subtree_sums(values) * factor for name, values in flops.items()}
    total_ns = sum(columns[name] for name in _DEVICE)
    is_shown = (columns["calls"] > 0) | (total_ns > 0)
    group = _fold(owners) if fold else np.arange(len(owners.names))
    measures = pd.DataFrame(columns).assign(total_ns=total_ns)[is_shown]
    groups = measures.groupby(group[is_shown], sort=True)
    sums = groups[list(_SUMS)].sum(min_count=1)
    rows = _descriptions(owners, group, sums.index.to_numpy())
    spread = groups["total_ns"].agg(["min", "max"])
    block = {
        **rows,
        **{name: sums[name].to_numpy() for name in _SUMS},
        "instances": groups.size().to_numpy(),
        "min_device_ns": spread["min"].to_numpy(),
        "max_device_ns": spread["max"].to_numpy(),
    }
    rank_and_source = {"rank": part.rank, "source": owners.source}
    blocks = [_depth_first(block) | rank_and_source, _other_rows(others) | {"rank": part.rank}]
    return blocks, device_ns


def _host_columns(part: RankPart, owners: ModuleOwners) -> dict[str, Ints]:
    """Return calls in forward passes, and the host's time in them, by module."""
    size, forest = len(owners.names), forest_of(owners.call_parent)
    start, end = part.clip_edges(owners.start_ns, owners.end_ns)
    end = np.maximum(start, end)
    is_chosen = (end > start) | (owners.end_ns == owners.start_ns)
    is_event = owners.row >= 0
    is_chosen[is_event] &= part.contains(owners.row[is_event])
    is_chosen &= ~owners.is_again
    members = np.arange(len(start))
    outermost = ~forest.is_nested_in_group(members, owners.instance)
    alone = end - start - children_coverage(owners.call_parent, start, end)
    measures = {
        "calls": np.ones(len(start), np.int64),
        "host_ns": (end - start) * outermost,
        "host_self_ns": alone,
    }
    return {
        name: sum_by_group(owners.instance[is_chosen], values[is_chosen], size)
        for name, values in measures.items()
    }


def _device_columns(
    part: RankPart, owners: ModuleOwners
) -> tuple[dict[str, Ints], dict[int, Ints], int]:
    """Return device time by phase and module, by phase for other owners, and in all."""
    work = part.device_work_rows()
    time_ns = np.maximum(part.durations(work), 0)
    launch = part.trace.launch_of[work]
    owner = np.append(owners.owner, OUTSIDE)[launch]
    phase = np.append(owners.phase, FORWARD)[launch]
    calls = signatures(part.trace)
    call = calls.calls.of_work(work, len(part.table))
    phase = np.where(np.append(calls.is_recomputed, False)[call], RECOMPUTE, phase)
    size = len(owners.names)
    by_phase = {}
    for code, name in _PHASES.items():
        chosen = (owner >= 0) & (phase == code)
        by_phase[f"{name}_device_ns"] = sum_by_group(owner[chosen], time_ns[chosen], size)
    others = {
        key: np.array([time_ns[(owner == key) & (phase == code)].sum() for code in _PHASES])
        for key in _OTHERS
    }
    return by_phase, others, int(time_ns.sum())


def _flops_columns(part: RankPart, owners: ModuleOwners) -> dict[str, Ints]:
    """Return the known matrix FLOPs by phase and module."""
    calls, size = signatures(part.trace), len(owners.names)
    rows = calls.calls.rows
    flops = np.where(calls.texts_of_work("kind") == "matrix", calls.figures("flops"), 0)
    is_chosen = part.contains(rows) & part.is_in_window(part.table.start_ns[rows])
    is_chosen &= ~calls.is_stopped & ~np.isnan(flops) & (owners.owner[rows] >= 0)
    phase = np.where(calls.is_recomputed, RECOMPUTE, owners.phase[rows])
    columns = {}
    for code, name in _PHASES.items():
        chosen = is_chosen & (phase == code)
        sums = np.bincount(owners.owner[rows[chosen]], flops[chosen], minlength=size)
        columns[f"{name}_flops"] = sums.astype(np.int64)
    return columns


def _fold(owners: ModuleOwners) -> Ints:
    """Return the first module of each module's row.

    Siblings of equal class and structure share a row, and so do their children at equal positions.
    Leaf modules share a row only with leaf modules at the same position: two ``Linear`` of
    a block differ in their shapes. Annotations and sequences always share.
    """
    size = len(owners.names)
    children: list[list[int]] = [[] for _ in range(size)]
    for at, above in enumerate(owners.parent.tolist()):
        if above >= 0:
            children[above].append(at)
    codes: dict[tuple[Any, ...], int] = {}
    shape = [0] * size
    for at in range(size - 1, -1, -1):  # parents come before their children
        structure = (owners.class_names[at], tuple(shape[child] for child in children[at]))
        shape[at] = codes.setdefault(structure, len(codes))
    first: dict[tuple[int, int, int], int] = {}
    group = np.arange(size)
    place = {child: number for members in children for number, child in enumerate(members)}
    for at, above in enumerate(owners.parent.tolist()):
        is_leaf = not children[at] and owners.source == "nn.Module"
        outer = int(group[above]) if above >= 0 else -1
        key = (outer, shape[at], place.get(at, 0) if is_leaf else -1)
        if above >= 0 or not is_leaf:
            group[at] = first.setdefault(key, at)
    return group


def _descriptions(owners: ModuleOwners, group: Ints, chosen: Ints) -> dict[str, Any]:
    """Return paths, names, depths and parents of the chosen groups."""
    outer = np.append(group, -1)[owners.parent]
    count = np.bincount(group, minlength=len(group))
    times = (count // np.append(count, 1)[outer]).tolist()
    names = [
        name if number < 2 else f"{class_name} ×{number}"
        for name, class_name, number in zip(owners.names, owners.class_names, times, strict=True)
    ]
    paths = list(names)
    for at, above in enumerate(outer.tolist()):  # parents come before their children
        if above >= 0:
            paths[at] = f"{paths[above]}.{names[at]}"
    events = _event_names(owners, group)
    texts = {"path": paths, "module": names, "class_name": owners.class_names}
    return {
        **{column: [values[at] for at in chosen.tolist()] for column, values in texts.items()},
        "depth": forest_of(outer).depth[chosen],
        "parent": positions_of_rows(chosen, len(group))[outer[chosen]],
        "events": [events.get(at, "") for at in chosen.tolist()],
    }


def _event_names(owners: ModuleOwners, group: Ints) -> dict[int, str]:
    """Return the names of the events of each group, one a line."""
    has_event = mask_of_rows(owners.instance[owners.row >= 0], len(group))
    prefix = MODULE_PREFIX if owners.source == "nn.Module" else ""
    names: dict[int, list[str]] = {}
    for at in np.flatnonzero(has_event).tolist():
        names.setdefault(int(group[at]), []).append(prefix + owners.names[at])
    return {at: "\n".join(dict.fromkeys(listed)) for at, listed in names.items()}


def _depth_first(block: dict[str, Any]) -> dict[str, Any]:
    """Return rows in depth-first order; `parent` is a row."""
    size = len(block["path"])
    order = np.argsort(forest_of(block["parent"]).preorder) if size else np.empty(0, np.int64)
    block["parent"] = np.append(np.argsort(order), -1)[block["parent"]]
    return {
        name: [values[at] for at in order.tolist()] if isinstance(values, list) else values[order]
        for name, values in block.items()
    }


def _other_rows(others: dict[int, Ints]) -> dict[str, Any]:
    """Return the rows of work outside of modules."""
    names = {key: name for key, name in _OTHERS.items() if others[key].sum()}
    times = np.array([others[key] for key in names], np.int64).reshape(-1, len(_PHASES))
    return {
        **dict.fromkeys(_SCHEMA, 0),
        **{key: list(names.values()) for key in ("path", "module", "class_name")},
        **dict.fromkeys(("source", "events"), ""),
        **dict(zip(_DEVICE, times.T, strict=True)),
        **dict.fromkeys(("device_self_ns", "min_device_ns", "max_device_ns"), times.sum(axis=1)),
        **dict.fromkeys(_FLOPS, np.nan),
        "parent": -1,
        "instances": 1,
    }

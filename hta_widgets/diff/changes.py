"""Finds changes between two runs: operators added, removed, moved, replaced, slower or faster.

Changes of calls (`_structural_changes`) follow from the status that `hta_widgets.diff.match`
assigns to each node. Changes of times (`_time_changes`) are tested for significance: for each call
path, the times of matched calls are summed per step, and the steps of both sides are compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import OPERATIONS, comm_events
from hta_widgets.analysis.frames import result_frame
from hta_widgets.analysis.host_activity import waiting_calls
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.align import STEP_KINDS, kind_times, steps
from hta_widgets.diff.causes import splits_communication
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import STATUSES, MatchedTrees, Matches, match_ranks
from hta_widgets.diff.records import Finding
from hta_widgets.diff.sides import is_host_only
from hta_widgets.diff.stats import combined_p_value, paired_p_value
from hta_widgets.diff.trees import CALL, OPERATOR, WORK, RankTree
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Floats, Ints, number_in_group, positions_of_rows
from hta_widgets.trace.event_columns import categorical_dtype
from hta_widgets.trace.host_stack import children_coverage, name_mask
from hta_widgets.trace.memo import memoize

#: Categories of ``change``, in order.
CHANGES: tuple[str, ...] = ("slower", "faster", "added", "removed", "moved", "replaced")
#: Categories of ``how``, in order.
HOW: tuple[str, ...] = ("", "fused", "split", "other library", "other kernels")
_OPPOSITE = {"faster": "slower", "removed": "added"}  # so that swapped sides are ordered equally
#: Libraries and the patterns of their kernel names; the first match applies.
_LIBRARIES = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("NCCL", r"^(nccl|rccl)"),
        ("Triton", r"^triton_|_0d1d"),
        ("FlashAttention", r"flash_(fwd|bwd|attn)|flash::|fmha_"),
        ("CUTLASS", r"cutlass"),
        ("cuDNN", r"cudnn|implicit_convolve|wgrad_alg|dgrad_engine"),
        ("MIOpen", r"miopen"),
        ("Tensile", r"^Cijk_"),
        ("cuBLAS", r"^(maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_|gemm|gemv|splitK"),
        ("PyTorch", r"at::|at_cuda_detail|c10::"),
    )
)
_ADDED, _REMOVED, _MOVED, _REPLACED = map(STATUSES.index, ("added", "removed", "moved", "replaced"))
_COMMUNICATION = KINDS.index("communication")
#: Measures of time, as positions in `_PairSums`.
_DEVICE, _HOST = 0, 1

# Smallest changes reported, as a share of the longer of the two times.
_MIN_RATIO = 0.05
_LARGE_RATIO = 0.4  # larger changes are tested at _ALPHA_LARGE, regardless of the number of tests
_MIN_RATIO_OF_CALLS = 0.2  # if individual calls are tested because there are too few steps
_MIN_RATIO_UNTESTED = 0.75  # if the spread is unknown
# Smallest changes reported, as a share of the step.
_MIN_SHARE_OF_STEP = 0.001
_MIN_SHARE_UNTESTED = 0.05  # if the spread is unknown
# Smallest reported changes of a kind's share of the step.
_MIN_SHARE_CHANGE = 0.05
_MIN_SHARE_CHANGE_UNTESTED = 0.2  # with one step on a side
_ALPHA = 0.01  # divided by the number of tests
_ALPHA_LARGE = 0.002
_MIN_STEPS = 3  # steps needed to estimate the spread
_MIN_OPERATION_RATIO = 0.25  # smallest listed change of a collective kind, relative to the largest
_MIN_STEPS_SHARE = 0.5  # a change of calls must occur in more than this share of the steps


@dataclass(frozen=True, eq=False)
class NodeTimes:
    """Node times of a tree; `below_ns` is the device time of a node and all nodes below it."""

    host_ns: Ints
    host_self_ns: Ints
    device_ns: Ints
    below_ns: Ints


@dataclass(frozen=True, eq=False)
class PathTimes:
    """Times of paths as arrays (steps, paths), averaged over the paired ranks of a side."""

    count: Floats
    host_ns: Floats
    host_self_ns: Floats
    device_ns: Floats


@memoize
def node_times(diff: Comparison) -> list[tuple[NodeTimes, NodeTimes]]:
    """Return the times of all nodes before and after, for each pair of ranks."""
    return [
        (_tree_times(diff, 0, matched.trees[0]), _tree_times(diff, 1, matched.trees[1]))
        for matched in match_ranks(diff).ranks
    ]


@memoize
def path_times(diff: Comparison) -> tuple[PathTimes, PathTimes]:
    """Return the times of all paths before and after."""
    before, after = (
        PathTimes(
            _step_sums(diff, k, None),
            *(
                _step_sums(diff, k, [getattr(times[k], name) for times in node_times(diff)])
                for name in ("host_ns", "host_self_ns", "device_ns")
            ),
        )
        for k in (0, 1)
    )
    return before, after


def _step_sums(
    diff: Comparison,
    side: int,
    values: list[Ints] | None,
    masks: list[Bools] | None = None,
    paths: list[Ints] | None = None,
) -> Floats:
    """Sum a side's node values by step and path, and average over the paired ranks.

    `values`, `masks` and `paths` hold one array per pair of ranks, indexed by node. If `values` is
    None, nodes are counted. By default, all nodes are included, each on its own path.
    """
    matches = match_ranks(diff)
    size = len(matches.path_name)
    sums = np.zeros(diff.step_count * size, dtype=np.int64)
    for number, matched in enumerate(matches.ranks):
        tree = matched.trees[side]
        is_counted = tree.slot < diff.step_count
        if masks is not None:
            is_counted &= masks[number]
        nodes = np.flatnonzero(is_counted)
        path = matched.path[side] if paths is None else paths[number]
        key = tree.slot[nodes] * size + path[nodes]
        np.add.at(sums, key, 1 if values is None else values[number][nodes])
    return sums.reshape(diff.step_count, size) / len(matches.ranks)


def _tree_times(diff: Comparison, side: int, tree: RankTree) -> NodeTimes:
    part = tree.part
    durations = tree.durations
    is_operator = tree.kind == OPERATOR
    # Waits for the device do not count as an operator's own time; copies from pageable memory also
    # wait.
    copies = name_mask(part.trace, lambda name: "Memcpy" in name)[tree.rows]
    is_wait = (tree.kind == CALL) & (waiting_calls(part.trace)[tree.rows] | copies)
    nodes = np.flatnonzero(is_operator | is_wait)
    parent = positions_of_rows(nodes, len(tree))[tree.parent[nodes]]
    start, end = part.clip_rows(tree.rows[nodes])
    host_self_ns = np.zeros(len(tree), dtype=np.int64)
    host_self_ns[nodes] = (end - start) - children_coverage(parent, start, end)
    host_self_ns[~is_operator] = 0
    device_ns = np.where(tree.kind == WORK, durations, 0)
    if splits_communication(diff):
        rows, _, until, _ = diff.sides[side].waits.of_rank(part.rank)
        positions = positions_of_rows(tree.rows, len(part.table))[rows]
        positions, until = positions[positions >= 0], until[positions >= 0]
        begin, finish = part.clip_rows(tree.rows[positions])
        device_ns[positions] = finish - np.clip(until, begin, finish)
    below_ns = tree.forest.subtree_sums(device_ns)
    return NodeTimes(np.where(is_operator, durations, 0), host_self_ns, device_ns, below_ns)


def _p_values_of_calls(diff: Comparison, paired_nodes: list[Bools]) -> tuple[Floats, Floats]:
    """Return the p-values of each path on device and host, based on pairs of matched calls.

    `paired_nodes` holds, for each pair of ranks, a mask of the first side's nodes.
    """
    matches = match_ranks(diff)
    blocks = []
    ranks = zip(matches.ranks, matches.shared_paths, node_times(diff), paired_nodes, strict=True)
    for number, (matched, (path_of_node, _), (before, after), is_paired) in enumerate(ranks):
        before_tree, after_tree = matched.trees
        nodes = np.flatnonzero(is_paired & (before_tree.slot < diff.step_count))
        partner = matched.partner[0][nodes]
        # This order stays the same if the sides are swapped.
        positions = before_tree.order[nodes], after_tree.order[partner]
        ordered = np.lexsort((np.minimum(*positions), positions[0] + positions[1]))
        nodes, partner = nodes[ordered], partner[ordered]
        device_before = _with_launched_work(before_tree, before.device_ns)
        device_after = _with_launched_work(after_tree, after.device_ns)
        block = {
            "path": path_of_node[nodes],
            "call": number_in_group(path_of_node[nodes]),
            # Ranks that communicate wait for each other, so the mean of the n-th calls of a path on
            # all ranks is one sample. All other calls are separate samples.
            "rank": np.where(_communication_mask(before_tree)[nodes], 0, number),
            "device_ns": device_after[partner] - device_before[nodes],
            "host_ns": after.host_self_ns[partner] - before.host_self_ns[nodes],
        }
        blocks.append(pd.DataFrame(block))
    samples = pd.concat(blocks).groupby(["path", "call", "rank"]).mean()
    path, size = samples.index.get_level_values("path").to_numpy(), len(matches.path_name)
    device_p = paired_p_value(path, samples["device_ns"].to_numpy(), size)
    return device_p, paired_p_value(path, samples["host_ns"].to_numpy(), size)


def _communication_mask(tree: RankTree) -> Bools:
    """Return a mask of the nodes that communicate or launched communication."""
    communicates: Bools = tree.part.table.kind[tree.rows] == _COMMUNICATION
    communicates &= (tree.kind != OPERATOR) | is_host_only(tree.part.trace.format)
    communicates[tree.parent[communicates & (tree.parent >= 0)]] = True
    return communicates


def _with_launched_work(tree: RankTree, device_ns: Ints) -> Ints:
    """Return the device time of each node, including the work that it launched."""
    total_ns = device_ns.copy()
    work = np.flatnonzero((tree.kind == WORK) & (tree.parent >= 0))
    np.add.at(total_ns, tree.parent[work], device_ns[work])
    return total_ns


def moved_bytes(diff: Comparison, name: str) -> list[float]:
    """Return the bytes per step of an operator's or kernel's collectives, before and after.

    They are means over steps and paired ranks; NaN if the size of any collective is unknown.
    """
    totals = [0.0, 0.0]
    for k, tree, work, _ in _named_work(diff, name):
        events = comm_events(tree.part.trace)
        sizes = np.zeros(len(tree.part.table))
        sizes[events.rows] = np.where(events.size_bytes < 0, np.nan, events.size_bytes)
        totals[k] += float(sizes[tree.rows[work]].sum())
    return [total / (diff.step_count * len(diff.rank_pairs)) for total in totals]


def changed_operations(diff: Comparison, finding: Finding) -> list[str]:
    """Return the kinds of collectives that make an operator slower or faster, the main one first.

    PyTorch launches all collectives from one operator. Kinds with less than a quarter of the
    largest change are omitted.
    """
    change_ns = np.zeros(len(OPERATIONS))
    for k, tree, work, times in _named_work(diff, finding.name):
        events = comm_events(tree.part.trace)
        operation = np.full(len(tree.part.table), OPERATIONS.index("other"))
        operation[events.rows] = events.operation
        sign = (1 if k else -1) * np.sign(finding.diff_ns)
        np.add.at(change_ns, operation[tree.rows[work]], sign * times.device_ns[work])
    change_ns[OPERATIONS.index("other")] = 0
    order = np.argsort(-change_ns, kind="stable")
    is_large = change_ns[order] >= max(_MIN_OPERATION_RATIO * change_ns.max(), 1)
    return [OPERATIONS[code] for code in order[is_large].tolist()]


def _named_work(diff: Comparison, name: str) -> Iterator[tuple[int, RankTree, Ints, NodeTimes]]:
    """Yield side, tree, nodes and times of work that has the name or whose operator has it."""
    matches = match_ranks(diff)
    codes = [code for code, text in enumerate(matches.pool.names) if text == name]
    for matched, times in zip(matches.ranks, node_times(diff), strict=True):
        for k, tree in enumerate(matched.trees):
            work = np.flatnonzero((tree.content >= 0) & (tree.slot < diff.step_count))
            launcher = np.where(tree.parent[work] < 0, work, tree.parent[work])
            is_named = np.isin(tree.name[work], codes) | np.isin(tree.name[launcher], codes)
            yield k, tree, work[is_named], times[k]


class _Change(NamedTuple):
    """A row of `changes`, with times and counts per step (means over steps and paired ranks)."""

    change: str
    measure: str
    name: str
    path: str
    places: int
    before_count: float
    after_count: float
    before_ns: float
    after_ns: float
    before_names: str = ""
    after_names: str = ""
    how: str = ""
    p_value: float = np.nan
    before_total: float = 0.0
    after_total: float = 0.0


@check_arguments
def changes(diff: Comparison) -> pd.DataFrame:
    """Return the changes between the runs that exceed noise, each once.

    *Calls* changed if operators, or device work of matched operators, were added, removed, moved or
    replaced in more than half of the steps. Calls of an added or removed operator are not listed
    separately, and neither are runtime calls. A Python function is listed only if none of its
    callees has a partner. Operators without device work count if they take at least 0.1 % of a
    step.

    *Times* changed if a matched operator itself is slower or faster. On the host, this excludes
    operators below it, copies and waits for the device. On the device, it covers the work that the
    operator launched, excluding waits for other ranks in collectives if these are known. The times
    of a step on one call path are summed. A difference counts if it is at least 5 % of the longer
    time and 0.1 % of a step, and is significant by Welch's test over the steps and, if steps have
    the same numbers on both sides, by a paired Student's t-test. The level is 1 % divided by the
    number of tests, or 0.2 % for differences of 40 % or more. With fewer than three steps on a
    side, the calls of a path on all ranks are tested in pairs (Student's t-test, same levels), and
    the difference must be at least 20 %. With fewer than three pairs of calls, the longer time must
    be four times the other and differ by 5 % of the step. An operator with added, removed or
    replaced work is listed only for that change.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per change and name, ordered by time in a step. Times and counts are per step and
        rank, as means over steps and paired ranks:

        - ``change`` (category): ``slower, faster, added, removed, moved, replaced``
        - ``measure`` (str): ``device``, ``host`` or ``device and host`` for ``slower, faster``;
          otherwise ``operator``, ``function`` (of Python) or ``kernel``
        - ``name`` (str): of the operator, or of the device work that was added or removed
        - ``path`` (str): callers on the path with the most time; ``places`` (int64): number of
          paths
        - ``before_count, after_count, before_ns, after_ns, diff_ns`` (float64): ``device and host``
          rows give device times; added, removed and moved operators give the time of all device
          work below them or, without such work, the host time
        - ``before_names, after_names`` (str): names of replaced work, joined by ``"; "``
        - ``how`` (category): for replaced work, ``fused`` (fewer kernels than before), ``split``
          (more kernels), ``other library`` (by kernel names) or ``other kernels``; otherwise empty
        - ``p_value`` (float64): NaN if unknown or not tested
        - ``before_total, after_total`` (float64): all calls with the name, in all places; an
          operator that is removed in one place is gone only if no call remains

        ``.attrs["tested"]`` is the number of tests; ``.attrs["note"]`` is set if nothing changed.
    """
    return _find_changes(diff).copy()


@memoize
def _find_changes(diff: Comparison) -> pd.DataFrame:
    calls = _changed_calls(diff)
    slower_or_faster, tested = _time_changes(diff, calls)
    rows = [*_structural_changes(diff, calls.groups), *slower_or_faster]
    totals = _total_counts(diff)
    for place, row in enumerate(rows):
        before, after = totals[row.name, row.measure == "kernel"]
        rows[place] = row._replace(before_total=before, after_total=after)
    note = ""
    if not rows:
        note = "nothing changed by more than noise"
        if steps(diff).attrs["is_significant"]:
            pairs = len(diff.rank_pairs)
            mean = f" in the mean over {pairs} ranks" if pairs > 1 else ""
            note = f"the steps changed, but no single operator or kernel by more than noise{mean}"
    rows.sort(
        key=lambda row: (
            -abs(row.after_ns - row.before_ns), row.name, _OPPOSITE.get(row.change, row.change)
        )
    )  # fmt: skip
    frame = pd.DataFrame(rows, columns=_Change._fields).astype(
        dict.fromkeys(_Change._fields, "float64")
        | dict.fromkeys(("measure", "name", "path", "before_names", "after_names"), "str")
        | {"change": categorical_dtype(CHANGES), "how": categorical_dtype(HOW), "places": "int64"}
    )
    diff_ns = frame["after_ns"] - frame["before_ns"]
    frame.insert(_Change._fields.index("after_ns") + 1, "diff_ns", diff_ns)
    matched = {word: sum(row.change == word for row in rows) for word in CHANGES}
    columns = {str(name): frame[name] for name in frame}
    return result_frame(columns, matched=matched, note=note, tested=tested)


def _total_counts(diff: Comparison) -> dict[tuple[str, bool], tuple[float, float]]:
    """Return call counts before and after, keyed by name and whether it names device work."""
    matches = match_ranks(diff)
    names = matches.pool.names
    key = 2 * matches.path_name + (matches.path_kind == WORK)
    counts = [times.count.mean(axis=0) for times in path_times(diff)]
    before, after = (np.bincount(key, count, 2 * len(names)) for count in counts)
    keys = [(names[number // 2], bool(number % 2)) for number in range(len(before))]
    return dict(zip(keys, zip(before.tolist(), after.tolist(), strict=True), strict=True))


@dataclass(frozen=True, eq=False)
class _ChangedCalls:
    """Calls that were added, removed, moved or replaced, and their callers."""

    groups: dict[tuple[str, str, int], _ChangeGroup]  # keyed by change, measure and name code
    listed: set[int]  # paths of operators whose work changed
    rebuilt: set[int]  # paths of operators whose callees changed


def _changed_calls(diff: Comparison) -> _ChangedCalls:
    matches = match_ranks(diff)
    calls = _ChangedCalls({}, set(), set())
    ranks = zip(matches.ranks, matches.shared_paths, node_times(diff), strict=True)
    for matched, shared, times in ranks:
        for k, tree in enumerate(matched.trees):
            for word, measure, nodes in _outermost_changes(matched, k, diff.step_count):
                owner = tree.parent[nodes]
                owner_paths = shared[k][owner[owner >= 0]].tolist()
                (calls.listed if measure == "kernel" else calls.rebuilt).update(owner_paths)
                path = matched.path[k][nodes]
                if word == "replaced":
                    # Replaced work is listed under its operator.
                    path = matches.path_parent[path]
                name = matches.path_name[path]
                for code in np.unique(name).tolist():
                    key, has_name = (word, measure, code), name == code
                    group = calls.groups.setdefault(key, _ChangeGroup(diff.step_count))
                    group.add(k, tree, nodes[has_name], times[k], path[has_name])
    return calls


def _structural_changes(
    diff: Comparison, groups: Mapping[tuple[str, str, int], _ChangeGroup]
) -> Iterator[_Change]:
    """Yield the changes of calls that occur in enough steps and take enough time."""
    matches = match_ranks(diff)
    names = matches.pool.names
    steps_and_ranks = diff.step_count * len(matches.ranks)
    min_ns = _MIN_SHARE_OF_STEP * diff.step_ns * steps_and_ranks
    for (word, measure, code), group in groups.items():
        has_device_time = any(group.device_ns)
        times_ns = group.device_ns if has_device_time else group.host_ns
        changed_steps = group.counts.any(axis=0).sum()
        if changed_steps <= _MIN_STEPS_SHARE * diff.step_count:
            continue
        if not has_device_time and max(times_ns) < min_ns:
            continue
        ranked = ((time, -matches.rank_of_path[path], path) for path, time in group.paths.items())
        main_path = max(ranked)[2]
        before_count, after_count = (group.counts.sum(axis=1) / steps_and_ranks).tolist()
        before_ns, after_ns = (time_ns / steps_and_ranks for time_ns in times_ns)
        change = _Change(
            word, measure, names[code], matches.callers[main_path], len(group.paths),
            before_count, after_count, before_ns, after_ns,
        )  # fmt: skip
        if word == "replaced":
            before, after = (sorted(names[code] for code in side) for side in group.names)
            change = change._replace(
                before_names="; ".join(before),
                after_names="; ".join(after),
                how=how_replaced(before, after, before_count, after_count),
            )
        yield change


class _ChangeGroup:
    """Sums over the changed calls of a name: counts by side and step, times by side and path."""

    def __init__(self, steps: int) -> None:
        self.counts = np.zeros((2, steps), dtype=np.int64)
        self.device_ns, self.host_ns = [0, 0], [0, 0]
        self.paths: Counter[int] = Counter()
        self.names: tuple[set[int], set[int]] = (set(), set())

    def add(self, side: int, tree: RankTree, nodes: Ints, times: NodeTimes, path: Ints) -> None:
        device, host = times.below_ns[nodes], times.host_ns[nodes]
        np.add.at(self.counts[side], tree.slot[nodes], 1)
        self.device_ns[side] += int(device.sum())
        self.host_ns[side] += int(host.sum())
        self.names[side].update(tree.name[nodes].tolist())
        for number, time in zip(path.tolist(), np.maximum(device, host).tolist(), strict=True):
            self.paths[number] += time


def _outermost_changes(
    matched: MatchedTrees, side: int, steps: int
) -> Iterator[tuple[str, str, Ints]]:
    """Yield change, measure and nodes that were added, removed, moved or replaced as a whole."""
    tree, status = matched.trees[side], matched.status[side]
    inside = tree.slot < steps
    above = np.where(tree.parent >= 0, status[tree.parent], -1) if len(tree) else status
    code, word = ((_REMOVED, "removed"), (_ADDED, "added"))[side]
    # A function with paired callees only adds a path to the same calls. That is not a change.
    has_partner = tree.forest.subtree_sums((matched.partner[side] >= 0).astype(np.int64)) > 0
    operators = inside & (tree.kind == OPERATOR) & ~(tree.frame & has_partner)
    work = inside & (tree.kind == WORK) & (above != code)
    for number, text, measure, chosen in (
        (code, word, "operator", operators & ~tree.frame & (above != code)),
        (code, word, "function", operators & tree.frame & (above != code)),
        (_MOVED, "moved", "operator", operators & ~tree.frame & (above != _MOVED)),
        (_MOVED, "moved", "function", operators & tree.frame & (above != _MOVED)),
        (code, word, "kernel", work),
        (_REPLACED, "replaced", "kernel", work),
    ):
        nodes = np.flatnonzero(chosen & (status == number))
        if len(nodes):
            yield text, measure, nodes


class _PathTests(NamedTuple):
    """The tested paths of a measure, their mean times on both sides, and p-values."""

    path: Ints
    mean_ns: Floats  # (sides, paths)
    p_value: Floats


def _time_changes(diff: Comparison, calls: _ChangedCalls) -> tuple[list[_Change], int]:
    """Return the operators that are themselves slower or faster, and the number of tests.

    Operators whose work changed are not tested. If an operator's callees changed, its host time is
    not tested, because work may have moved between the operator and its callees.
    """
    matches = match_ranks(diff)
    paired_nodes = [
        [(matched.partner[k] >= 0) & (matched.status[k] != _REPLACED) for matched in matches.ranks]
        for k in (0, 1)
    ]
    sums_of_sides = [_sums_of_pairs(diff, k, paired_nodes[k]) for k in (0, 1)]
    by_call = None if diff.step_count >= _MIN_STEPS else _p_values_of_calls(diff, paired_nodes[0])
    tests = []
    for measure, untested in ((_DEVICE, calls.listed), (_HOST, calls.listed | calls.rebuilt)):
        before, after = (sums[measure] for sums in sums_of_sides)
        p_value = None if by_call is None else by_call[measure]
        tests.append(_test_paths(diff, before, after, untested, p_value))
    tested = sum(len(test.path) for test in tests)
    min_ratio = _MIN_RATIO if by_call is None else _MIN_RATIO_OF_CALLS
    # The significant paths of each measure, keyed by change and name code.
    flagged: dict[tuple[str, int], dict[int, list[int]]] = {}
    p_values: dict[tuple[str, int], float] = {}
    for measure, (path, mean_ns, p_value) in enumerate(tests):
        significant = _significant_positions(mean_ns, p_value, min_ratio, diff.step_ns, tested)
        for index in significant.tolist():
            word = "slower" if mean_ns[1, index] > mean_ns[0, index] else "faster"
            key = word, int(matches.path_name[path[index]])
            flagged.setdefault(key, {}).setdefault(measure, []).append(int(path[index]))
            p_values[key] = float(np.fmin(p_values.get(key, np.nan), p_value[index]))
    changes_of_names = [
        _time_change(matches, sums_of_sides, key, paths_by_measure, p_values[key])
        for key, paths_by_measure in flagged.items()
    ]
    return changes_of_names, tested


def _test_paths(
    diff: Comparison, before: Floats, after: Floats, untested: set[int], p_value: Floats | None
) -> _PathTests:
    """Test the times (steps, paths) of a measure; `p_value` replaces the tests over steps."""
    mean_ns = np.stack([before.mean(axis=0), after.mean(axis=0)])
    is_tested = mean_ns.max(axis=0) >= _MIN_SHARE_OF_STEP * diff.step_ns
    is_tested[sorted(untested)] = False
    path = np.flatnonzero(is_tested)
    if p_value is not None:
        return _PathTests(path, mean_ns[:, path], p_value[path])
    p_value = combined_p_value(before[:, path], after[:, path], by_step=diff.same_steps)
    return _PathTests(path, mean_ns[:, path], p_value)


class _PairSums(NamedTuple):
    """Sums over a side's matched nodes, as arrays (steps, paths)."""

    device_ns: Floats
    host_ns: Floats
    counts: Floats


def _sums_of_pairs(diff: Comparison, side: int, paired_nodes: list[Bools]) -> _PairSums:
    matches = match_ranks(diff)
    nodes = [times[side] for times in node_times(diff)]
    # On both sides, moved nodes count towards their shared path.
    paths = [shared[side] for shared in matches.shared_paths]
    sums = partial(_step_sums, diff, side, masks=paired_nodes, paths=paths)
    # Device time belongs to the launching operator, where it is known.
    work_ns = sums([node.device_ns for node in nodes])
    work = np.flatnonzero(matches.path_kind == WORK)
    owner = np.where(matches.path_parent[work] >= 0, matches.path_parent[work], work)
    device_ns = np.zeros_like(work_ns)
    np.add.at(device_ns.T, owner, work_ns.T[work])
    return _PairSums(device_ns, sums([node.host_self_ns for node in nodes]), sums(None))


def _significant_positions(
    mean_ns: Floats, p_value: Floats, min_ratio: float, step_ns: float, tested: int
) -> Ints:
    """Return the positions of times whose means differ significantly and by enough."""
    gap_ns, longer_ns = np.abs(mean_ns[1] - mean_ns[0]), mean_ns.max(axis=0)
    untested = np.isnan(p_value)
    min_gap_ns = np.maximum(
        np.where(untested, _MIN_RATIO_UNTESTED, min_ratio) * longer_ns,
        np.where(untested, _MIN_SHARE_UNTESTED, _MIN_SHARE_OF_STEP) * step_ns,
    )
    alpha = np.where(gap_ns >= _LARGE_RATIO * longer_ns, _ALPHA_LARGE, 0)
    alpha = np.maximum(alpha, _ALPHA / max(tested, 1))
    is_large = (gap_ns > 0) & (gap_ns >= min_gap_ns)
    return np.flatnonzero(is_large & (untested | (p_value < alpha)))


def _time_change(
    matches: Matches,
    sums_of_sides: list[_PairSums],
    key: tuple[str, int],
    paths_by_measure: dict[int, list[int]],
    p_value: float,
) -> _Change:
    """Return the change of one name across all its paths.

    The times are device times if these changed, otherwise host times. The two are never added.
    """
    paths = sorted({path for of_measure in paths_by_measure.values() for path in of_measure})
    main_measure = min(paths_by_measure)
    timed_paths = paths_by_measure[main_measure]
    times = [float(sums[main_measure][:, timed_paths].mean(axis=0).sum()) for sums in sums_of_sides]
    counts = [float(sums.counts[:, paths].mean(axis=0).sum()) for sums in sums_of_sides]
    main_path = max(
        paths,
        key=lambda path: (
            max(float(sums[k][:, path].sum()) for sums in sums_of_sides for k in (_DEVICE, _HOST)),
            -matches.rank_of_path[path],
        ),
    )
    word, code = key
    measure = " and ".join({_DEVICE: "device", _HOST: "host"}[k] for k in sorted(paths_by_measure))
    return _Change(
        word, measure, matches.pool.names[code], matches.callers[main_path], len(paths),
        counts[0], counts[1], times[0], times[1], p_value=p_value,
    )  # fmt: skip


def libraries(names: Sequence[str]) -> list[str]:
    """Return the distinct libraries of kernels, recognized by kernel name, in order."""
    libraries_of_names = (
        next((library for library, pattern in _LIBRARIES if pattern.search(name)), "")
        for name in names
    )
    return [name for name in dict.fromkeys(libraries_of_names) if name]


def how_replaced(
    before: Sequence[str], after: Sequence[str], before_count: float, after_count: float
) -> str:
    """Return how work was replaced, one of `HOW`; counts are numbers of kernels.

    The result is ``other library`` if the sides have no library in common, regardless of the
    counts.
    """
    before_libraries, after_libraries = set(libraries(before)), set(libraries(after))
    if before_libraries and after_libraries and not before_libraries & after_libraries:
        return "other library"
    if round(before_count, 6) == round(after_count, 6):
        return "other kernels"
    return "fused" if after_count < before_count else "split"


@memoize
def changed_names(diff: Comparison) -> frozenset[str]:
    """Return the names in `changes`, and the names of the device work of changed operators."""
    table, matches = changes(diff), match_ranks(diff)
    is_whole = table["change"].isin(["added", "removed", "moved"])
    is_kernel = table["measure"] == "kernel"
    launching = set(table["name"][~is_whole])
    enclosing = set(table["name"][is_whole & ~is_kernel])
    changed = set(table["name"])
    for path in np.flatnonzero(matches.path_kind == WORK).tolist():
        callers = matches.callers[path].split(" > ")
        if callers[-1] in launching or not enclosing.isdisjoint(callers):
            changed.add(matches.pool.names[matches.path_name[path]])
    return frozenset(changed)


def changed_kinds(diff: Comparison) -> frozenset[str]:
    """Return the kinds of time that changed significantly.

    The tests of `changes` apply, at a level of 1 % divided by the number of kinds.
    """
    times = [kind_times(diff, side).astype(np.float64) for side in diff.sides]
    is_present = times[0].any(axis=0) | times[1].any(axis=0)
    p_value = combined_p_value(*times, by_step=diff.same_steps)
    is_changed = is_present & (p_value * is_present.sum() < _ALPHA)
    return frozenset(STEP_KINDS[k] for k in np.flatnonzero(is_changed).tolist())


def kinds_with_changed_share(diff: Comparison) -> set[str]:
    """Return the kinds of time whose share of the step time changed significantly.

    The change exceeds 5 % of the step and is significant in the tests of `changes` over the steps,
    at a level of 1 % divided by the number of kinds. With one step on a side, it must exceed 20 %.
    """
    times = [kind_times(diff, side).astype(np.float64) for side in diff.sides]
    kinds = np.flatnonzero(times[0].any(axis=0) | times[1].any(axis=0))
    before, after = (_shares_of_step(side.sum(axis=0, keepdims=True))[0] for side in times)
    p_value = combined_p_value(*map(_shares_of_step, times), by_step=diff.same_steps)
    untested = np.isnan(p_value)
    min_change = np.where(untested, _MIN_SHARE_CHANGE_UNTESTED, _MIN_SHARE_CHANGE)
    is_changed = np.abs(after - before) > min_change
    is_changed &= untested | (p_value * len(kinds) < _ALPHA)
    return {STEP_KINDS[k] for k in np.flatnonzero(is_changed).tolist()}


def _shares_of_step(times: Floats) -> Floats:
    return np.asarray(times / np.maximum(times.sum(axis=1, keepdims=True), 1))

"""Builds the tables of a comparison: by name, by operator, and those added by formats or users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, result_frame
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.changes import changes, path_times
from hta_widgets.diff.compare import Comparison, both_have_frames
from hta_widgets.diff.match import STATUSES, match_ranks
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.stats import combined_p_value
from hta_widgets.diff.trees import FRAME, OPERATOR, WORK, NamePool, comparable_names, steps_of_rows
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import Format, all_formats, formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.host_stack import category_mask
from hta_widgets.trace.names import short_name

#: Function that computes a table of a comparison.
Table = Callable[[Comparison], pd.DataFrame]

#: Categories of ``change`` in `names`, in order.
NAME_CHANGES: tuple[str, ...] = (
    "added", "removed", "replaced", "changed", "slower", "faster", "same",
)  # fmt: skip
_MIN_RATIO = 0.05  # share of the longer time; smaller differences are not changes
_SIDES = ("before", "after")
_COUNTS = ("before_count", "after_count")
_TIMES = ("before_ns", "after_ns", "diff_ns")
_ANNOTATION = KINDS.index("annotation")
_REPLACED = STATUSES.index("replaced")
#: Formats and function of each table added by `add_table`; None stands for all formats with events.
_ADDED_TABLES: dict[str, tuple[frozenset[str] | None, Table]] = {}


def analyse_sides(
    diff: Comparison, table: Callable[..., pd.DataFrame]
) -> tuple[list[pd.DataFrame], list[str]]:
    """Return the frames of an analysis of both sides, and their distinct notes."""
    frames = [table(side.traces, ranks=side.table_ranks) for side in diff.sides]
    notes = dict.fromkeys(frame.attrs.get("note", "") for frame in frames)
    return frames, [note for note in notes if note]


def join_sides(
    sides: Sequence[pd.DataFrame],
    keys: Sequence[str],
    measures: Sequence[str],
    facts: Sequence[str] = (),
    *,
    by: str = "",
    note: str = "",
) -> pd.DataFrame:
    """Join two tables on their keys.

    Each measure becomes three columns: before, after and difference. Each fact becomes two: before
    and after. If `by` names a measure, rows with the largest difference come first.
    """
    indexed = [side.drop_duplicates([*keys], keep="last").set_index([*keys]) for side in sides]
    index = indexed[0].index.union(indexed[1].index, sort=False)
    columns: dict[str, Any] = {}
    for name in keys:
        key = index.get_level_values(name)
        columns[name] = pd.Series(key, dtype=None if key.dtype == np.int64 else object)
    for name in measures:
        before, after = (side[name].reindex(index).to_numpy(np.float64) for side in indexed)
        columns |= {f"before_{name}": before, f"after_{name}": after}
        columns[f"diff_{name}"] = after - before
    for name in facts:
        for word, side in zip(_SIDES, indexed, strict=True):
            values = side[name].astype(object).reindex(index)
            columns[f"{word}_{name}"] = values.where(values.notna(), None).reset_index(drop=True)
    if by:
        order = np.argsort(-np.nan_to_num(np.abs(columns[f"diff_{by}"])), kind="stable")
        ordered = pd.DataFrame(columns).iloc[order].reset_index(drop=True)
        columns = {name: ordered[name] for name in columns}
    matched = {word: len(side) for word, side in zip(_SIDES, sides, strict=True)}
    return result_frame(columns, matched=matched, note=note)


def iter_rows(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a frame, with the columns as attributes."""
    yield from frame.itertuples(index=False)


@check_arguments
def names(
    diff: Comparison,
    *,
    device: Literal["auto", "gpu", "cpu", "all"] = "auto",
    short_names: bool = False,
) -> pd.DataFrame:
    """Return the count and total time of each name in both runs.

    Durations of parallel streams and nested calls are added up. Unlike the times of `waterfall`,
    the sums therefore differ from the step times.

    Parameters
    ----------
    diff : Comparison
    device : {"auto", "gpu", "cpu", "all"}, default "auto"
        ``"gpu"``: device work; ``"cpu"``: host events; ``"auto"``: device work if a side has any,
        otherwise host events such as MPI calls and BytePS stages, as in
        `hta_widgets.analysis.diff_ops`.
    short_names : bool, default False
        Group names by their short form, so that instances of a template are one name.

    Returns
    -------
    DataFrame
        One row per name, ordered by the size of the difference. Counts and times cover the compared
        steps. They are means over all ranks, including those that lack the name:

        - ``name`` (str), ``kind`` (category)
        - ``before_count, after_count`` (float64), ``before_ns, after_ns, diff_ns`` (int64)
        - ``before_count_per_step, after_count_per_step, before_ns_per_step, after_ns_per_step,
          diff_ns_per_step`` (float64)
        - ``change`` (category): ``added, removed``; ``replaced``: only on one side, with
          differently named work in its place below the same operators; ``changed``: a different
          count; ``slower, faster``: the same count, but times that differ by at least 5 % and
          significantly (tests over the steps as in `changes`, at a level of 5 % divided by the
          number of names; with one step on a side, at least 20 %); ``same``
        - ``replaced_by`` (str): for replaced names, the partner with the most time
        - ``p_value`` (float64): of the step times; NaN if unknown
    """
    if device == "auto":
        parts = [part for side in diff.sides for part in side.parts.values()]
        has_work = any((part.table.stream[part.device_work_rows()] >= 0).any() for part in parts)
        device = "gpu" if has_work else "cpu"
    pool = NamePool()
    frames = both_have_frames(diff)
    events = [
        _event_codes(side, device, pool, short=short_names, frames=frames) for side in diff.sides
    ]
    texts = pool.names
    columns, per_rank = _counts_and_times(diff, events, len(texts))
    p_value = combined_p_value(*per_rank, by_step=diff.same_steps)
    partner = _replacements(diff, texts, short=short_names)
    change = _change_codes(columns, p_value, [name in partner for name in texts])
    order = sorted(range(len(texts)), key=lambda k: (-abs(int(columns["diff_ns"][k])), texts[k]))
    replaced = NAME_CHANGES.index("replaced")
    partners = [partner[texts[k]] if change[k] == replaced else "" for k in order]
    rows = np.array(order, dtype=np.intp)
    columns = {name: values[rows] for name, values in columns.items()}
    return result_frame(
        {
            "name": pd.array([texts[k] for k in order], dtype="str"),
            "kind": categorical(_main_kinds(events, len(texts))[rows], KINDS),
            **{name: columns[name] for name in (*_COUNTS, *_TIMES)},
            **{f"{name}_per_step": columns[name] / diff.step_count for name in (*_COUNTS, *_TIMES)},
            "change": categorical(change[rows], NAME_CHANGES),
            "replaced_by": pd.array(partners, dtype="str"),
            "p_value": p_value[rows],
        },
        matched={word: len(codes.name) for word, codes in zip(_SIDES, events, strict=True)},
        note="" if texts else "no events in the compared steps",
        steps=diff.step_count,
        before_ranks=len(diff.before.ranks),
        after_ranks=len(diff.after.ranks),
    )


class _EventCodes(NamedTuple):
    step: Ints
    name: Ints
    kind: Ints
    dur_ns: Ints


def _counts_and_times(
    diff: Comparison, events: list[_EventCodes], size: int
) -> tuple[dict[str, Any], list[Floats]]:
    columns: dict[str, Any] = {}
    per_rank = []
    for word, side, codes in zip(_SIDES, diff.sides, events, strict=True):
        ranks = len(side.ranks)
        time_ns = np.zeros((diff.step_count, size), dtype=np.int64)
        np.add.at(time_ns, (codes.step, codes.name), codes.dur_ns)
        columns[f"{word}_count"] = np.bincount(codes.name, minlength=size) / ranks
        columns[f"{word}_ns"] = (2 * time_ns.sum(axis=0) + ranks) // (2 * ranks)  # rounded
        per_rank.append(time_ns / ranks)
    columns["diff_ns"] = columns["after_ns"] - columns["before_ns"]
    return columns, per_rank


def _main_kinds(events: list[_EventCodes], size: int) -> Ints:
    """Return the kind with most of each name's time, or of its events if all times are 0."""
    weights = np.zeros((size, len(KINDS)), dtype=np.int64)
    for codes in events:
        np.add.at(weights, (codes.name, codes.kind), 2 * codes.dur_ns + 1)
    kinds: Ints = weights.argmax(axis=1)
    return kinds


@check_arguments
def operators_diff(diff: Comparison) -> pd.DataFrame:
    """Return the time of each operator in both runs, on host and device.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per operator or annotation, ordered by the size of the difference on the device,
        then on the host. Values are per step, as means over steps and paired ranks (float64):
        ``name`` (str); ``before_count, after_count``; ``before_host_self_ns, after_host_self_ns,
        diff_host_self_ns``: on the host, excluding operators below and waits for the device;
        ``before_device_ns, after_device_ns, diff_device_ns``: work that it launched itself; for
        collectives, excluding waits for other ranks if these are known on both sides.
    """
    matches = match_ranks(diff)
    names, parent, code = matches.pool.names, matches.path_parent, matches.path_name
    operator = np.flatnonzero(matches.path_kind == OPERATOR)
    work = np.flatnonzero((matches.path_kind == WORK) & (parent >= 0))

    columns: dict[str, Any] = {"name": pd.array(names, dtype="str")}
    for measure, paths, operator_of_path in (
        ("count", operator, operator),
        ("host_self_ns", operator, operator),
        ("device_ns", work, parent[work]),
    ):
        for word, times in zip(_SIDES, path_times(diff), strict=True):
            sums = np.zeros(len(names))
            means = getattr(times, measure)[:, paths].mean(axis=0)
            np.add.at(sums, code[operator_of_path], means)
            columns[f"{word}_{measure}"] = sums
        if measure != "count":
            columns[f"diff_{measure}"] = columns[f"after_{measure}"] - columns[f"before_{measure}"]
    device_diff, host_diff = np.abs(columns["diff_device_ns"]), np.abs(columns["diff_host_self_ns"])
    rows = np.flatnonzero((columns["before_count"] > 0) | (columns["after_count"] > 0)).tolist()
    order = sorted(rows, key=lambda row: (-device_diff[row], -host_diff[row], names[row]))
    return result_frame(
        {name: values[order] for name, values in columns.items()},
        matched={"operators": len(order)},
        note="" if order else "no operators in the compared steps",
    )


def _event_codes(
    side: RunSide, device: str, pool: NamePool, *, short: bool, frames: bool
) -> _EventCodes:
    blocks = []
    for part in side.parts.values():
        table, rows = part.table, part.rows
        step = steps_of_rows(side, part, rows)
        is_counted = (step >= 0) & (step < len(side.steps))
        if device != "all":
            on_device = table.stream[rows] >= 0
            work = on_device & (table.kind[rows] != _ANNOTATION)
            is_counted &= work if device == "gpu" else ~on_device
        is_counted &= frames | ~category_mask(part.trace, FRAME)[rows]
        rows, step = rows[is_counted], step[is_counted]
        names, position = comparable_names(part.trace, rows)
        if short:
            names = [(short_name(name), short_name(full_name)) for name, full_name in names]
        code = np.array([pool.code(*pair) for pair in names], dtype=np.int64)[position]
        blocks.append((step, code, table.kind[rows].astype(np.int64), part.durations(rows)))
    return _EventCodes(*map(np.concatenate, zip(*blocks, strict=True)))


def _change_codes(columns: dict[str, Any], p_value: Floats, replaced: list[bool]) -> Ints:
    before, after = (columns[name] for name in _COUNTS)
    gap, longer = columns["diff_ns"], np.maximum(columns["before_ns"], columns["after_ns"])
    unknown = np.isnan(p_value)
    min_gap = np.where(unknown, 4 * _MIN_RATIO, _MIN_RATIO) * longer
    chance = np.where(unknown, 0.0, p_value) * max(len(p_value), 1)
    differs = (np.abs(gap) >= min_gap) & (gap != 0) & (chance < ALPHA)
    words = {
        "replaced": np.array(replaced, dtype=bool) & ((before == 0) | (after == 0)),
        "added": before == 0,
        "removed": after == 0,
        "changed": ~np.isclose(before, after, rtol=1e-9),
        "slower": differs & (gap > 0),
        "faster": differs & (gap < 0),
    }
    codes = [NAME_CHANGES.index(word) for word in words]
    return np.select(list(words.values()), codes, NAME_CHANGES.index("same"))


def _replacements(diff: Comparison, listed: list[str], *, short: bool) -> dict[str, str]:
    """For each replaced name, return the partner with the most time."""
    # For one step or one pair of ranks, events keep their partners from the whole comparison.
    whole_diff, step = diff, None
    while whole_diff.part_of is not None:
        whole_diff, place = whole_diff.part_of
        step = place if step is None else step
    matches = match_ranks(whole_diff)
    texts = [short_name(text) if short else text for text in matches.pool.names]
    between: Counter[tuple[str, str]] = Counter()
    for ranks, matched in zip(whole_diff.rank_pairs, matches.ranks, strict=True):
        if ranks not in diff.rank_pairs:
            continue
        for k, (tree, other_tree) in enumerate((matched.trees, matched.trees[::-1])):
            nodes = np.flatnonzero((matched.status[k] == _REPLACED) & (matched.partner[k] >= 0))
            if step is not None:
                nodes = nodes[tree.slot[nodes] == step]
            replaced = tree.name[nodes].tolist()
            replacing = other_tree.name[matched.partner[k][nodes]].tolist()
            times_ns = tree.durations[nodes].tolist()
            for code, other_code, time_ns in zip(replaced, replacing, times_ns, strict=True):
                between[texts[code], texts[other_code]] += time_ns
    # The partner with the most time comes last and remains in the dictionary.
    ordered = sorted(between.items(), key=lambda item: item[1])
    names_of_table = set(listed)
    return {name: other for (name, other), _ in ordered if name != other and name in names_of_table}


@check_arguments
def add_table(name: str, table: Table, *, formats: frozenset[str] | None = None) -> None:
    """Add a table to `tables`.

    Parameters
    ----------
    name : str
    table : function
        Takes a `Comparison` and returns a DataFrame.
    formats : set of str, optional
        Formats of runs that have the table (see `TraceSet.formats`). Default: all formats with
        events.

    Raises
    ------
    TraceError
        If the name is taken.
    """
    if (
        name in _TABLES
        or name in _ADDED_TABLES
        or any(name in tables for tables in _format_tables(all_formats()))
    ):
        raise TraceError(f"there is already a table {name!r}", remedy="Give it another name.")
    _ADDED_TABLES[name] = formats, table


@check_arguments
def tables(diff: Comparison) -> dict[str, pd.DataFrame]:
    """Return the tables for the formats that both sides have.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    dict of str to DataFrame
        For Kineto traces ``waterfall, steps, changes, names, operators``.

        For BytePS ``waterfall, steps, byteps_stages, byteps_tensors, byteps_workers`` of workers'
        traces, and ``byteps_lag, byteps_servers`` of servers' profiles.

        For MPI ``mpi_times, mpi_routines, mpi_message_sizes, mpi_negotiation, mpi_ranks,
        mpi_imbalance``, for time lines also ``waterfall, changes, names, mpi_waits``.

        Tables added with `add_table` are included.
    """
    return {name: table(diff) for name, table in table_functions(diff).items()}


def _format_tables(formats: Iterable[Format]) -> list[Mapping[str, Table]]:
    return load_references(format_.comparison.tables for format_ in formats)


def table_functions(diff: Comparison) -> dict[str, Table]:
    """Return the functions that compute `tables`, keyed by name."""
    before, after = (side.formats for side in diff.sides)
    has_events = all(any(len(part.trace) for part in side.parts.values()) for side in diff.sides)
    functions = dict(_TABLES) if has_events else {}
    for format_ in formats_named(before | after):
        for name in format_.comparison.replaces:
            functions.pop(name, None)
    others = {name for tables in _format_tables(formats_named(after)) for name in tables}
    for tables_of_format in _format_tables(formats_named(before)):
        functions |= {name: table for name, table in tables_of_format.items() if name in others}
    for name, (formats, table) in _ADDED_TABLES.items():
        is_shared = formats is not None and formats & before and formats & after
        if is_shared or (formats is None and has_events):
            functions[name] = table
    return functions


#: Tables based on events; `FormatComparison.tables` has the tables of a format.
_TABLES: dict[str, Table] = {
    "waterfall": waterfall,
    "steps": steps,
    "changes": changes,
    "names": names,
    "operators": operators_diff,
}

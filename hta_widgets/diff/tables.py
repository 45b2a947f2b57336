"""Tables of two runs; add_table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import result
from hta_widgets.diff.align import ALPHA, steps
from hta_widgets.diff.changes import changes, path_times
from hta_widgets.diff.compare import Comparison, RunSide, both_have_frames
from hta_widgets.diff.pairs import match
from hta_widgets.diff.statistics import either_test
from hta_widgets.diff.trees import (
    FRAME,
    OPERATOR,
    STATUSES,
    WORK,
    NamePool,
    compared_name,
    steps_of_rows,
)
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import all_formats, provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.names import short_name
from hta_widgets.trace.trace import dtype_of


def of_sides(
    diff: Comparison, table: Callable[..., pd.DataFrame]
) -> tuple[list[pd.DataFrame], list[str]]:
    """Return an analysis of both sides, before and after, and what it says of them."""
    found = [table(side.traces, ranks=side.table_ranks) for side in diff.sides]
    notes = dict.fromkeys(frame.attrs.get("note", "") for frame in found)
    return found, [note for note in notes if note]


def beside(
    sides: Sequence[pd.DataFrame],
    keys: Sequence[str],
    measures: Sequence[str],
    facts: Sequence[str] = (),
    *,
    by: str = "",
    note: str = "",
    **attrs: Any,
) -> pd.DataFrame:
    """Return rows of two tables that have the same keys as one."""
    before, after = sides
    listed = [list(zip(*(side[key].tolist() for key in keys), strict=True)) for side in sides]
    every = list(dict.fromkeys([*listed[0], *listed[1]]))
    place = {key: number for number, key in enumerate(every)}
    columns: dict[str, Any] = {
        name: pd.Series([key[k] for key in every], dtype=_dtype(sides, name))
        for k, name in enumerate(keys)
    }
    at = [np.array([place[key] for key in one], dtype=np.intp) for one in listed]
    for name in measures:
        values = [np.full(len(every), np.nan) for _ in range(2)]
        for side, rows, value in zip(sides, at, values, strict=True):
            value[rows] = side[name].to_numpy(dtype=np.float64)
        columns[f"before_{name}"], columns[f"after_{name}"] = values
        columns[f"diff_{name}"] = values[1] - values[0]
    for name in facts:
        for word, side, rows in zip(("before", "after"), sides, at, strict=True):
            found = np.full(len(every), None, dtype=object)
            found[rows] = side[name].to_numpy(dtype=object)
            columns[f"{word}_{name}"] = pd.Series(found, dtype=object)
    frame = result(
        columns, matched={"before": len(before), "after": len(after)}, note=note, **attrs
    )
    if by:
        kept = frame.attrs
        order = np.argsort(-np.nan_to_num(np.abs(frame[f"diff_{by}"].to_numpy())), kind="stable")
        frame = frame.iloc[order].reset_index(drop=True)
        frame.attrs = kept
    return frame


def _dtype(sides: Sequence[pd.DataFrame], name: str) -> Any:
    kinds = {side[name].dtype for side in sides}
    only = kinds.pop()
    return only if not kinds and only == np.int64 else object


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a frame, with its columns as attributes."""
    yield from frame.itertuples(index=False)


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: What can become of a name, in the order of the categories of ``change``.
NAME_CHANGES: tuple[str, ...] = (
    "added",
    "removed",
    "replaced",
    "changed",
    "slower",
    "faster",
    "same",
)

_IS_REPLACED = NAME_CHANGES.index("replaced")
_RELATIVE = 0.05  # of the longer of two times: runs of one program differ by less
_ANNOTATION = KINDS.index("annotation")
_REPLACED = STATUSES.index("replaced")


@dataclass(slots=True)
class _Sums:
    """Of one side, by step and name, sums over ranks."""

    count: Ints
    time_ns: Ints
    by_kind_ns: Ints  # (names, kinds)


def names(
    diff: Comparison,
    *,
    device: Literal["auto", "gpu", "cpu", "all"] = "auto",
    short_names: bool = False,
) -> pd.DataFrame:
    """Return how often and how long each name ran in both runs.

    Durations are added as they are: of parallel streams, and of calls within calls, so this column
    does not add up to the step times; that is what `waterfall` does.

    Parameters
    ----------
    diff : Comparison
    device : {"auto", "gpu", "cpu", "all"}, default "auto"
        ``"gpu"``: device work; ``"cpu"``: what runs on the host; ``"auto"``: device work where a
        side has any, else what runs on the host, as MPI calls and BytePS's stages do; as in
        `hta_widgets.analysis.diff_ops`.
    short_names : bool, default False
        Bring instances of a template together.

    Returns
    -------
    DataFrame
        One row per name, by size of the difference. Counts and times are of the steps that are
        compared, of several ranks means over all ranks, those included that never run it:

        - ``name`` (str), ``kind`` (category)
        - ``before_count, after_count`` (float64), ``before_ns, after_ns, diff_ns`` (int64)
        - ``before_count_per_step, after_count_per_step, before_ns_per_step, after_ns_per_step,
          diff_ns_per_step`` (float64)
        - ``change`` (category): ``added, removed``; ``replaced``: only on one side, and work of
          other names took its place below the same operators; ``changed``: another count;
          ``slower, faster``: the same count, by at least 5 % and not by chance (tests over
          the steps as in `changes`, at 5 % divided by the number of names; with one step on a side
          by at least 20 %); ``same``
        - ``replaced_by`` (str): of replaced names, the partner with most time
        - ``p_value`` (float64): of the times of steps; NaN where nothing is known of the spread

    Notes
    -----
    HTA's ``TraceDiff`` adds counts and durations up the same way, and normalises nothing.

    Examples
    --------
    >>> names(diff).head(10)  # doctest: +SKIP
    """
    if device not in {"auto", "all", "cpu", "gpu"}:
        raise TraceError(f"no device {device!r}", remedy='Give "auto", "all", "cpu" or "gpu".')
    if device == "auto":
        device = "gpu" if any(_has_work(side) for side in diff.sides) else "cpu"
    pool = NamePool()
    frames = both_have_frames(diff)
    read = [_coded(side, device, pool, short=short_names, frames=frames) for side in diff.sides]
    sums = [_summed(one, diff.step_count, len(pool)) for one in read]
    ranks = [len(side.ranks) for side in diff.sides]
    counts = [one.count.sum(axis=0) / n for one, n in zip(sums, ranks, strict=True)]
    times = [
        (2 * one.time_ns.sum(axis=0) + n) // (2 * n) for one, n in zip(sums, ranks, strict=True)
    ]
    per_rank = [one.time_ns / n for one, n in zip(sums, ranks, strict=True)]
    p_value = either_test(*per_rank, by_step=diff.same_steps)
    listed = pool.names
    partner = _replaced(diff, listed, short=short_names)
    change = _changes(counts, times, p_value, [name in partner for name in listed])
    diff_ns = times[1] - times[0]
    kind = _kinds(sums)
    order = sorted(range(len(listed)), key=lambda row: (-abs(int(diff_ns[row])), listed[row]))
    rows = np.array(order, dtype=np.intp)
    steps = diff.step_count
    return result(
        {
            "name": pd.array([listed[row] for row in order], dtype="str"),
            "kind": pd.Categorical.from_codes(kind[rows], dtype=dtype_of(KINDS)),
            "before_count": counts[0][rows],
            "after_count": counts[1][rows],
            "before_ns": times[0][rows],
            "after_ns": times[1][rows],
            "diff_ns": diff_ns[rows],
            "before_count_per_step": counts[0][rows] / steps,
            "after_count_per_step": counts[1][rows] / steps,
            "before_ns_per_step": times[0][rows] / steps,
            "after_ns_per_step": times[1][rows] / steps,
            "diff_ns_per_step": diff_ns[rows] / steps,
            "change": pd.Categorical.from_codes(change[rows], dtype=dtype_of(NAME_CHANGES)),
            "replaced_by": pd.array(
                [partner[listed[row]] if change[row] == _IS_REPLACED else "" for row in order],
                dtype="str",
            ),
            "p_value": p_value[rows],
        },
        matched={
            word: int(one.count.sum()) for word, one in zip(("before", "after"), sums, strict=True)
        },
        note="" if listed else "no events in the steps that are compared",
        steps=steps,
        before_ranks=ranks[0],
        after_ranks=ranks[1],
    )


def operators_diff(diff: Comparison) -> pd.DataFrame:
    """Return what each operator costs in both runs, on the host and on the device.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per operator or annotation, by size of the difference on the device, then on the
        host; of the paired ranks, per step, means over steps and ranks (float64): ``name`` (str);
        ``before_count, after_count``; ``before_host_self_ns, after_host_self_ns,
        diff_host_self_ns``: on the host less the operators below and less waiting for the device;
        ``before_device_ns, after_device_ns, diff_device_ns``: work that it launched itself, of
        collectives without waiting for other ranks where the files of both sides tell.

    Examples
    --------
    >>> operators_diff(diff).head(10)  # doctest: +SKIP
    """
    matches = match(diff)
    kinds = np.array(matches.path_kind, dtype=np.int64)
    parent = np.array(matches.path_parent, dtype=np.int64)
    code = np.array(matches.path_name, dtype=np.int64)
    columns: dict[str, Floats] = {}
    size = len(matches.pool)
    operator, work = np.flatnonzero(kinds == OPERATOR), np.flatnonzero(kinds == WORK)
    launched = work[parent[work] >= 0]
    for word, times in zip(("before", "after"), path_times(diff), strict=True):
        columns[f"{word}_count"] = _by_name(times.count, operator, code[operator], size)
        columns[f"{word}_host_self_ns"] = _by_name(
            times.host_self_ns, operator, code[operator], size
        )
        columns[f"{word}_device_ns"] = _by_name(
            times.device_ns, launched, code[parent[launched]], size
        )
    for measure in ("host_self_ns", "device_ns"):
        columns[f"diff_{measure}"] = columns[f"after_{measure}"] - columns[f"before_{measure}"]
    shown = np.flatnonzero((columns["before_count"] > 0) | (columns["after_count"] > 0))
    names = matches.pool.names
    order = sorted(
        shown.tolist(),
        key=lambda k: (
            -abs(columns["diff_device_ns"][k]),
            -abs(columns["diff_host_self_ns"][k]),
            names[k],
        ),
    )
    listed = (
        "before_count", "after_count", "before_host_self_ns", "after_host_self_ns",
        "diff_host_self_ns", "before_device_ns", "after_device_ns", "diff_device_ns",
    )  # fmt: skip
    return result(
        {
            "name": pd.array([names[k] for k in order], dtype="str"),
            **{name: columns[name][order] for name in listed},
        },
        matched={"operators": len(order)},
        note="" if order else "no operators in the steps that are compared",
    )


def _by_name(values: Floats, paths: Ints, code: Ints, size: int) -> Floats:
    found = np.zeros(size)
    if len(values):
        np.add.at(found, code, values[:, paths].mean(axis=0))
    return found


def _has_work(side: RunSide) -> bool:
    return any(
        bool((part.table.stream[part.busy_rows()] >= 0).any()) for part in side.parts.values()
    )


def _coded(
    side: RunSide, device: str, pool: NamePool, *, short: bool, frames: bool
) -> list[tuple[Ints, Ints, Ints, Ints]]:
    """Return step, name, kind and duration of the events of each rank."""
    found = []
    for part in side.parts.values():
        table, rows = part.table, part.rows
        step = steps_of_rows(side, part, rows)
        kept = (step >= 0) & (step < len(side.steps))
        if device != "all":
            on_device = table.stream[rows] >= 0
            work = on_device & (table.kind[rows] != _ANNOTATION)
            kept &= work if device == "gpu" else ~on_device
        of_frames = np.array([text == FRAME for text in table.categories.values] + [False])
        frame = of_frames[table.category[rows]]
        kept &= frames | ~frame
        rows, step, frame = rows[kept], step[kept], frame[kept]
        code_of = np.full((2, len(table.names) + 1), -1, dtype=np.int64)
        for code in np.unique(table.name[rows] * 2 + frame).tolist():
            texts = [
                compared_name(table.names[code // 2], frame=frame)
                for frame in (bool(code % 2), False)
            ]
            texts = [short_name(text) if short else text for text in texts]
            code_of[code % 2, code // 2] = pool.code(*texts)
        found.append(
            (
                step,
                code_of[frame.astype(np.intp), table.name[rows]],
                table.kind[rows].astype(np.int64),
                part.durations(rows),
            )
        )
    return found


def _summed(read: list[tuple[Ints, Ints, Ints, Ints]], steps: int, size: int) -> _Sums:
    count, time = (np.zeros(steps * size, dtype=np.int64) for _ in range(2))
    by_kind = np.zeros(size * len(KINDS), dtype=np.int64)
    for step, name, kind, length in read:
        np.add.at(count, step * size + name, 1)
        np.add.at(time, step * size + name, length)
        np.add.at(by_kind, name * len(KINDS) + kind, 2 * length + 1)
    return _Sums(
        count.reshape(steps, size), time.reshape(steps, size), by_kind.reshape(size, len(KINDS))
    )


def _kinds(sums: list[_Sums]) -> Ints:
    """Return of each name the kind with most time."""
    total = sums[0].by_kind_ns + sums[1].by_kind_ns
    return total.argmax(axis=1) if len(total) else np.empty(0, dtype=np.int64)


def _changes(
    counts: list[Floats], times: list[Ints], p_value: Floats, replaced: list[bool]
) -> npt.NDArray[np.int64]:
    before, after = times
    most = np.maximum(before, after)
    gap = after - before
    unknown = np.isnan(p_value)
    asked = np.where(unknown, 4 * _RELATIVE, _RELATIVE) * most
    chance = np.where(unknown, 0.0, p_value) * max(len(p_value), 1)
    differs = (np.abs(gap) >= asked) & (gap != 0) & (chance < ALPHA)
    alone = (counts[0] == 0) | (counts[1] == 0)
    words = (
        (np.array(replaced, dtype=bool) & alone, "replaced"),
        (counts[0] == 0, "added"),
        (counts[1] == 0, "removed"),
        (~np.isclose(counts[0], counts[1], rtol=1e-9), "changed"),
        (differs & (gap > 0), "slower"),
        (differs & (gap < 0), "faster"),
    )
    return np.select(
        [chosen for chosen, _ in words],
        [NAME_CHANGES.index(word) for _, word in words],
        NAME_CHANGES.index("same"),
    )


def _replaced(diff: Comparison, listed: list[str], *, short: bool) -> dict[str, str]:
    """Return of names that were replaced the partner with most time."""
    matches = match(diff)
    texts = matches.pool.names
    between: dict[tuple[str, str], int] = {}
    for one in matches.ranks:
        for k in (0, 1):
            nodes = np.flatnonzero((one.status[k] == _REPLACED) & (one.partner[k] >= 0))
            other = one.partner[k][nodes]
            names = one.trees[k].name[nodes], one.trees[1 - k].name[other]
            lengths = one.trees[k].durations[nodes]
            for a, b, time in zip(*(v.tolist() for v in (*names, lengths)), strict=True):
                pair = texts[a], texts[b]
                if short:
                    pair = short_name(pair[0]), short_name(pair[1])
                between[pair] = between.get(pair, 0) + time
    found: dict[str, str] = {}
    for (name, partner), _ in sorted(between.items(), key=lambda item: item[1]):
        if name != partner:
            found[name] = partner
    known = set(listed)
    return {name: partner for name, partner in found.items() if name in known}


#: A function from a comparison to a table of it.
Table = Callable[[Comparison], pd.DataFrame]

#: Tables of events; those of a format are in `Format.diff`.
_TABLES: dict[str, Table] = {
    "waterfall": waterfall,
    "steps": steps,
    "changes": changes,
    "names": names,
    "operators": operators_diff,
}
#: By name what `add_table` added, with the formats that it is for; None for all that have events.
_ADDED: dict[str, tuple[frozenset[str] | None, Table]] = {}


def add_table(name: str, table: Table, *, formats: frozenset[str] | None = None) -> None:
    """Add a table to what `tables` returns.

    Parameters
    ----------
    name : str
    table : function
        From a `Comparison` to a DataFrame.
    formats : set of str, optional
        Formats that it is for (see `TraceSet.formats`); by default all that have events.

    Raises
    ------
    TraceError
        Where there is one of this name.

    Examples
    --------
    >>> add_table("stages", stages_of_two, formats=frozenset({"byteps"}))  # doctest: +SKIP
    """
    if name in _TABLES or name in _ADDED or any(name in own for own in provided("diff")):
        raise TraceError(f"there is a table {name!r}", remedy="Give it another name.")
    _ADDED[name] = formats, table


def tables(diff: Comparison) -> dict[str, pd.DataFrame]:
    """Return the tables that the formats of both sides have.

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
        mpi_imbalance``, of time lines ``waterfall, changes, names, mpi_waits`` too.

        And what `add_table` added.

    Examples
    --------
    >>> tables(diff)["changes"]  # doctest: +SKIP
    """
    return {name: table(diff) for name, table in makers(diff).items()}


def makers(diff: Comparison) -> dict[str, Table]:
    """Return what makes each of the `tables`, without making any."""
    before, after = (side.formats for side in diff.sides)
    events = all(any(len(part.trace) for part in side.parts.values()) for side in diff.sides)
    left_out = {
        name for one in all_formats() if one.name in before | after for name in one.replaces
    }
    of_events = {name: table for name, table in _TABLES.items() if events and name not in left_out}
    of_before, of_after = (
        {name: table for own in provided("diff", formats) for name, table in own.items()}
        for formats in (before, after)
    )
    own = {name: table for name, table in of_before.items() if name in of_after}
    added = {
        name: table
        for name, (formats, table) in _ADDED.items()
        if (events if formats is None else formats & before and formats & after)
    }
    return of_events | own | added

"""Charts of process groups: their ranks and their communication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import sum_known_bytes
from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    KIND_ORDER,
    ChartSource,
    analysis_frame,
    group_positions,
    require_columns_of,
)
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    RowsContent,
    Scale,
    Tooltip,
    Whiskers,
    draw_rows,
    round_ticks,
    time_scale,
)
from hta_widgets.charts.theme import Theme, ThemeName, blend, theme_of
from hta_widgets.text import UNKNOWN, count, duration, plural, size

_MAX_COLUMNS = 8
#: Indices of category colors, ordered so that neighboring groups differ most.
_GROUP_COLORS = (0, 5, 4, 3, 1, 6)
#: Maximum number of groups that have their own row. If there are more, only the groups with the
#: most time in each column get one.
_MAX_ROWS = 40
_IN_CELLS = (
    "a cell shows the group's number and the rank's position in it; times are per rank and"
    " include waits"
)
_MEANS = "times and bytes are means of a group's ranks, waits included"


@check_arguments
def parallel_groups(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Process groups by rank",
    **options: object,
) -> Figure:
    """Draw the process groups of each rank by kind, with the rank's time and bytes in each group.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.parallel_groups`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one column per kind of group; two columns if a rank is in two groups of
        a kind. A cell has the color of its group and shows the group's number, counted from 0 in
        rank order, and the rank's position in the group. A question mark follows guessed kinds. At
        the right are the rank's time and bytes in each group. The data source holds the frame's
        rows. With more than 64 ranks, each row is a group and ranks run from left to right; with
        more than 40 groups, the groups of a kind with the least time share a row.

    Examples
    --------
    >>> charts.parallel_groups(analysis.parallel_groups(traces))  # doctest: +SKIP
    """
    columns = "group rank ranks position size kind guessed time_ns bytes"
    frame = analysis_frame("parallel_groups", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    theme, data = style.theme, group_positions(frame)
    # An unknown kind is not a guess, so it gets no question mark.
    data["guessed"] = data["guessed"].to_numpy(bool) & (data["kind"] != "unknown").to_numpy()
    data["line"] = [
        theme.category[_GROUP_COLORS[number % len(_GROUP_COLORS)]] for number in data["number"]
    ]
    tint_share = 0.3 if theme.name == "light" else 0.45
    data["fill"] = [blend(line, theme.bg, tint_share) for line in data["line"]]
    data["name"] = [
        "all ranks" if kind == "all" else f"{kind} group {number}"
        for kind, number in zip(data["kind"], data["number"], strict=True)
    ]
    data["position_text"] = list(map(_position_text, data["position"], data["size"]))
    data["time_text"] = list(map(duration, data["time_ns"]))
    data["bytes_text"] = list(map(_size_text, data["bytes"]))
    data["members"] = [ranks or "–" for ranks in data["ranks"].astype(str)]
    data["purpose"] = data["kind"].where(~data["guessed"], data["kind"] + ", guessed")
    in_rows = data["rank"].nunique() <= NAMED_ROWS
    content, explanations = _rank_rows(data, theme) if in_rows else _group_rows(data)
    guesses = "?: kind guessed from the group's calls and ranks"
    style = style.with_subtitle(
        *explanations,
        _group_finding(data),
        guesses if data["guessed"].any() else "",
        unmatched_note(frame),
    )
    return draw_rows(content, style)


def _rank_rows(data: pd.DataFrame, theme: Theme) -> tuple[RowsContent, Sequence[str]]:
    """Return a chart with a row per rank, and sentences that explain it."""
    ranks = np.unique(data["rank"])
    time_ns = data.groupby("column")["time_ns"].sum()
    by_time = time_ns.sort_values(ascending=False, kind="stable").index.tolist()
    drawn = sorted(by_time[:_MAX_COLUMNS])
    hidden_count = len(by_time) - len(drawn)
    cells = data[data["column"].isin(drawn)].reset_index(drop=True)
    cells["row"] = np.searchsorted(ranks, cells["rank"])
    cells["x"] = np.searchsorted(drawn, cells["column"])
    cells["left"], cells["right"] = cells["x"] + 0.03, cells["x"] + 0.97
    cells["text"] = [
        (f"{number} · {position}" if position >= 0 else str(number)) + (" ?" if is_guess else "")
        for number, position, is_guess in zip(
            cells["number"], cells["position"], cells["guessed"], strict=True
        )
    ]
    heads = _column_heads(cells, drawn)
    sums = cells.assign(sums=cells["time_text"] + " · " + cells["bytes_text"])
    texts = sums.pivot_table("sums", "rank", "column", aggfunc="first").reindex(ranks).fillna("")
    columns = [
        # If the chart is too narrow for all text columns, show the columns with the most time.
        Column(head, texts[column].tolist(), 380 + 140 * by_time.index(column))
        for column, head in zip(drawn, heads, strict=True)
    ]
    content = RowsContent(
        data=cells,
        names=[f"rank {rank}" for rank in ranks],
        marks=[Bars("left", "right", "fill", line="line", text="text", text_color=theme.ink)],
        scale=Scale(
            float(len(drawn)), ticks=[(position + 0.5, head) for position, head in enumerate(heads)]
        ),
        head=" ",
        columns=columns,
        tooltip=_group_tooltip("rank @{rank} · @{name}"),
    )
    hidden_columns = plural(hidden_count, "column")
    omitted = f"{hidden_columns} with the least time left out" if hidden_count else ""
    return content, (_IN_CELLS, omitted)


def _group_rows(data: pd.DataFrame) -> tuple[RowsContent, Sequence[str]]:
    """Return a chart with a row per group, and sentences that explain it."""
    ranks = np.unique(data["rank"])
    left = np.searchsorted(ranks, data["rank"])
    data = data.assign(left=left, right=left + 1)
    groups = data.groupby("code", sort=True).agg(
        column=("column", "first"),
        number=("number", "first"),
        name=("name", "first"),
        guessed=("guessed", "first"),
        size=("rank", "size"),
        time_ns=("time_ns", "mean"),
    )
    groups["bytes"] = data[data["bytes"] >= 0].groupby("code")["bytes"].mean()
    groups["is_drawn"] = _drawn_groups(groups)
    rows, row_of = _rows_of_groups(data, groups)
    data["row"] = data["code"].map(row_of)
    cells = _adjacent_runs(data)
    cells["alone"] = np.where(cells["code"].map(groups["is_drawn"]), "yes", "no")
    content = RowsContent(
        data=cells,
        names=[str(row["name"]) for row in rows],
        marks=[
            # A rank is hardly a pixel wide, so bars are not tinted. They are outlined only in rows
            # with one group, where an outline cannot cover another group.
            Bars("left", "right", "line", only=("alone", "no")),
            Bars("left", "right", "line", line="line", only=("alone", "yes")),
        ],
        scale=Scale(
            float(len(ranks)),
            ticks=[(tick, f"rank {ranks[int(tick)]}") for tick in round_ticks(len(ranks) - 1, 4)],
        ),
        head=" ",
        background=True,
        columns=[
            Column("time", [duration(row["time_ns"]) for row in rows]),
            Column("bytes", [_size_text(row["bytes"]) for row in rows], 480),
            Column("ranks", [count(row["size"]) for row in rows], 640),
        ],
        tooltip=_group_tooltip("@{run} · @{name}"),
    )
    return content, (
        f"a row is a group, {count(len(ranks))} ranks go from left to right; {_MEANS}",
        f"of {count(len(groups))} groups, those with the most time have a row"
        if len(rows) < len(groups)
        else "",
    )


def _rows_of_groups(
    data: pd.DataFrame, groups: pd.DataFrame
) -> tuple[list[dict[Any, Any]], dict[int, int]]:
    """Return the rows of a chart of groups, and the row number of each group by its code.

    In each chart column, the groups without their own row share an additional one.
    """
    order = groups.sort_values(["column", "is_drawn", "number"], ascending=[True, False, True])
    rows: list[dict[Any, Any]] = []
    row_of: dict[int, int] = {}
    for column, groups_of_column in order.groupby("column", sort=True):
        is_drawn = groups_of_column["is_drawn"].to_numpy(bool)
        drawn, others = groups_of_column[is_drawn], groups_of_column[~is_drawn]
        for code, group in zip(drawn.index.tolist(), drawn.to_dict("records"), strict=True):
            row_of[code] = len(rows)
            mark = " ?" if group["guessed"] else ""
            rows.append({**group, "name": f"{group['name']}{mark}"})
        if len(others):
            row_of |= dict.fromkeys(others.index.tolist(), len(rows))
            mark = " ?" if others["guessed"].any() else ""
            kind = str(data.loc[data["column"] == column, "kind"].iloc[0])
            rows.append(
                {
                    "name": f"{kind}: {count(len(others))} more{mark}",
                    "size": others["size"].max(),
                    "time_ns": others["time_ns"].mean(),
                    "bytes": others["bytes"].mean(),
                }
            )
    return rows, row_of


def _group_tooltip(heading: str) -> Tooltip:
    return Tooltip(
        heading,
        [
            ("group", "@{group}"),
            ("kind", "@{purpose}"),
            ("ranks", "@{members}"),
            ("position", "@{position_text}"),
            ("time", "@{time_text}"),
            ("messages", "@{bytes_text}"),
        ],
    )


def _column_heads(cells: pd.DataFrame, columns: Sequence[int]) -> list[str]:
    """Return the kind of each column as its head; columns of the same kind are numbered from 2."""
    kind_of = cells.groupby("column")["kind"].first()
    guessed = cells.groupby("column")["guessed"].any()
    columns_of_kind: Counter[str] = Counter()
    heads = []
    for column in columns:
        kind = str(kind_of[column])
        columns_of_kind[kind] += 1
        number = f" {columns_of_kind[kind]}" if columns_of_kind[kind] > 1 else ""
        heads.append(f"{kind}{number}{' ?' if guessed[column] else ''}")
    return heads


def _drawn_groups(groups: pd.DataFrame) -> pd.Series:
    """Return whether each group has a row of its own.

    With too many groups, each column gets equally many rows, for the groups with the most time.
    """
    if len(groups) <= _MAX_ROWS:
        return pd.Series(True, index=groups.index)
    max_rows = max(1, _MAX_ROWS // groups["column"].nunique() - 1)
    order = groups.sort_values("time_ns", ascending=False, kind="stable")
    order_in_column = order.groupby("column").cumcount().reindex(groups.index)
    # A single extra group gets its own row instead of a row for "more".
    all_fit = groups.groupby("column")["time_ns"].transform("size") <= max_rows + 1
    return (order_in_column < max_rows) | all_fit


def _adjacent_runs(data: pd.DataFrame) -> pd.DataFrame:
    """Merge adjacent ranks of a group into one bar with their mean time and bytes."""
    data = data.sort_values(["row", "left"], kind="stable").reset_index(drop=True)
    is_first = data["code"].diff().ne(0) | data["left"].diff().ne(1)
    runs = data[is_first].reset_index(drop=True)
    ranks_of_run = data.groupby(is_first.cumsum().to_numpy())
    runs["right"] = ranks_of_run["right"].max().to_numpy()
    last_ranks = ranks_of_run["rank"].max().to_numpy()
    runs["run"] = [
        f"rank {first}" if first == last else f"ranks {first}–{last}"
        for first, last in zip(runs["rank"], last_ranks, strict=True)
    ]
    runs.loc[runs["rank"] != last_ranks, "position_text"] = "from " + runs["position_text"]
    runs["time_text"] = [duration(time_ns) for time_ns in ranks_of_run["time_ns"].mean()]
    runs["bytes_text"] = [_size_text(mean_bytes) for mean_bytes in ranks_of_run["bytes"].mean()]
    return runs


def _position_text(position: int, group_size: int) -> str:
    if position < 0:
        return UNKNOWN
    return f"{position} of {group_size}" if group_size > 0 else str(position)


def _size_text(size_bytes: float) -> str:
    return size(size_bytes) if size_bytes >= 0 else UNKNOWN


def _group_finding(data: pd.DataFrame) -> str:
    groups = data.drop_duplicates("code")
    sizes_of = {kind: sizes.tolist() for kind, sizes in groups.groupby("kind")["size"]}
    kinds = [kind for kind in dict.fromkeys([*KIND_ORDER, *groups["kind"]]) if kind in sizes_of]
    phrases = [_kind_phrase(kind, sizes_of[kind]) for kind in kinds]
    return f"{plural(len(groups), 'group')}: {', '.join(phrases)}"


def _kind_phrase(kind: str, sizes: Sequence[int]) -> str:
    """Return a phrase such as ``2 tensor groups of 4``; sizes of 0 are unknown and left out."""
    if kind == "all":
        return f"{'one' if len(sizes) == 1 else count(len(sizes))} of all ranks"
    groups = plural(len(sizes), f"{kind} group")
    stated = {size for size in sizes if size > 0}
    if not stated:
        return groups
    low, high = min(stated), max(stated)
    return f"{groups} of {low}" if low == high else f"{groups} of {low} to {high}"


@check_arguments
def communication_by_group(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Communication by process group",
    **options: object,
) -> Figure:
    """Draw the communication time of each process group: hidden behind compute, and exposed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.communication_by_group`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per group. The data source holds the mean of the frame's times over the group's
        ranks.

    Examples
    --------
    >>> charts.communication_by_group(analysis.communication_by_group(traces))  # doctest: +SKIP
    """
    columns = "rank communication_ns overlapped_ns exposed_ns count"
    frame = analysis_frame("communication_by_group", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    keys = [key for key in ("group", "description", "collective") if key in frame]
    require_columns_of(frame, "analysis.communication_by_group", " ".join(keys or ["group"]))
    return _draw_communication(frame, keys, "process group", style)


@check_arguments
def communication_by_stream(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Communication by stream",
    **options: object,
) -> Figure:
    """Draw the communication time of each stream: hidden behind compute, and exposed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.communication_by_stream`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        As returned by `communication_by_group`, with one bar per stream.

    Examples
    --------
    >>> charts.communication_by_stream(analysis.communication_by_stream(traces))  # doctest: +SKIP
    """
    columns = "stream rank communication_ns overlapped_ns exposed_ns count"
    frame = analysis_frame("communication_by_stream", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    return _draw_communication(frame, ["stream"], "stream", style)


def _draw_communication(
    frame: pd.DataFrame, keys: list[str], noun: str, style: FigureStyle
) -> Figure:
    data = _communication_rows(frame, keys, noun)
    theme, orange = style.theme, style.theme.kind["communication"]
    sizes_text = "@{in_bytes_text}, @{out_bytes_text}"
    has_ranks = len(frame["rank"].unique()) > 1
    return draw_rows(
        RowsContent(
            data=data,
            names=list(data["name"]),
            marks=[
                Bars(0.0, "overlapped_ns", orange, "behind compute", line=orange, alpha=0.25),
                Bars("overlapped_ns", "communication_ns", orange, "exposed"),
                *([Whiskers("least_ns", "most_ns", theme.ink2)] if has_ranks else []),
            ],
            scale=time_scale(float(data["most_ns"].max())),
            head=noun,
            columns=[
                Column("hidden", "{overlap_share:share}"),
                Column("total", "{communication_ns:duration}", 420),
                Column("ranks", "{ranks:count}", 560),
                Column("kernels", "{count:count}", 680),
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    ("communication", "{communication_ns:duration}"),
                    ("behind compute", "{overlapped_ns:duration} · {overlap_share:share}"),
                    ("exposed", "{exposed_ns:duration}"),
                    ("minimum and maximum of a rank", "{least_ns:duration} – {most_ns:duration}"),
                    ("kernels on ranks", "{count:count} on {ranks}"),
                    *([("in, out, all ranks", sizes_text)] if "in_bytes_text" in data else []),
                ],
            ),
        ),
        style.with_subtitle(
            "time in which any communication kernel runs, waiting included",
            "mean of ranks, line: min to max of a rank" if has_ranks else "",
            unmatched_note(frame),
        ),
    )


def _communication_rows(frame: pd.DataFrame, keys: list[str], noun: str) -> pd.DataFrame:
    """Return one row per value of `keys`, with mean times and total counts and bytes over ranks."""
    grouped = frame.astype(dict.fromkeys(keys, str)).groupby(keys, sort=False)
    data = grouped[["communication_ns", "overlapped_ns", "exposed_ns"]].mean()
    data["count"] = grouped["count"].sum()
    data["ranks"] = grouped["rank"].nunique()
    data["least_ns"] = grouped["communication_ns"].min()
    data["most_ns"] = grouped["communication_ns"].max()
    has_sizes = {"in_bytes", "out_bytes"} <= set(frame.columns)
    for column in ("in_bytes", "out_bytes") if has_sizes else ():
        data[column] = grouped[column].agg(lambda sizes: sum_known_bytes(sizes.to_numpy()))
        data[f"{column}_text"] = [_size_text(size_bytes) for size_bytes in data[column]]
    data = data.sort_values("communication_ns", ascending=False, kind="stable").reset_index()
    communication_ns = data["communication_ns"]
    data["overlap_share"] = data["overlapped_ns"] / communication_ns.where(communication_ns > 0)
    data["name"] = [_row_label(record, noun) for record in data[keys].to_dict("records")]
    return data


def _row_label(record: dict[Any, Any], noun: str) -> str:
    if "stream" in record:
        return f"stream {record['stream']}"
    names = [record[key] for key in ("description", "group") if record.get(key)]
    name = " · ".join(names) or f"{noun} not stated"
    return f"{name} · {record['collective']}" if record.get("collective") else name

"""Charts of ranks and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.charts.chart import chart
from hta_widgets.charts.data import (
    KIND_ORDER,
    color_ramp,
    group_positions,
    rank_list,
    require_columns_of,
)
from hta_widgets.charts.defined import (
    TOGETHER,
    chart_scope,
    fold_scope,
    folded_groups,
    title_and_subtitle,
)
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import (
    add_tooltip,
    blend,
    escape_text,
    keep_fitting,
    models,
    new_figure,
    plain_axis,
)
from hta_widgets.charts.lanes import time_axis
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    Tooltip,
    Whiskers,
    round_ticks,
    rows_chart,
    selection_box,
    time_ticks,
)
from hta_widgets.charts.theme import FONT, Theme
from hta_widgets.facts import facts
from hta_widgets.text import UNKNOWN, count, duration, plural, share, size

_MAX_COLUMNS = 8
#: Order of the category colours in which neighbouring groups differ most.
_GROUP_COLORS = (0, 5, 4, 3, 1, 6)
#: Maximum number of groups with a row each; of more, only those with most time per column have one.
_MAX_ROWS = 40
_IN_CELLS = (
    "in a cell the group's number and the rank's position in it; times are of a rank and"
    " include waits"
)
_MEANS = "times and bytes are means of a group's ranks, waits included"


@chart(
    "Which ranks form which groups",
    *("group", "rank", "ranks", "position", "size", "kind", "guessed", "time_ns", "bytes"),
)
def parallel_groups(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw each rank's group of each kind, and the rank's time and bytes in it.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one column per kind, two if a rank is in two groups of it. A cell has
        the colour of its group, and shows the group's number, from 0 in the order of ranks, and the
        rank's position. Guessed kinds have a question mark. At the right are a rank's time and
        bytes in each group. Its source has the frame's rows. With more than 64 ranks, a row is a
        group and ranks go from left to right; above 40 groups, the less used ones of a kind share a
        row.
    """
    data = group_positions(frame)
    # An unknown kind is not a guess, and has no question mark.
    data["guessed"] = data["guessed"].to_numpy(bool) & (data["kind"] != "unknown").to_numpy()
    data["fill"], data["line"] = _group_tints(data["number"], theme)
    data["name"] = [
        "all ranks" if kind == "all" else f"{kind} group {number}"
        for kind, number in zip(data["kind"], data["number"], strict=True)
    ]
    data["position_text"] = [
        "–" if at < 0 else f"{at} of {of}" if of > 0 else str(at)
        for at, of in zip(data["position"], data["size"], strict=True)
    ]
    data["time_text"] = [duration(each) for each in data["time_ns"]]
    data["bytes_text"] = [_size_text(each) for each in data["bytes"]]
    data["members"] = [each or "–" for each in data["ranks"].astype(str)]
    data["purpose"] = data["kind"].where(~data["guessed"], data["kind"] + ", guessed")
    in_rows = data["rank"].nunique() <= NAMED_ROWS
    content = _rank_rows(data, theme) if in_rows else _group_rows(data)
    guesses = "? is a guess from what the group runs and which ranks it has"
    content["subtitle"] += [_group_finding(data), guesses if data["guessed"].any() else ""]
    return {"head": " ", **content}


def _rank_rows(data: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    ranks = np.unique(data["rank"])
    spent = data.groupby("column")["time_ns"].sum().sort_values(ascending=False, kind="stable")
    # Charts that are too narrow for the numbers of all columns show those with most time.
    kept = sorted(spent.index[:_MAX_COLUMNS])
    more = len(spent) - len(kept)
    cells = data[data["column"].isin(kept)].reset_index(drop=True)
    cells["row"] = np.searchsorted(ranks, cells["rank"])
    cells["x"] = np.searchsorted(kept, cells["column"])
    cells["left"], cells["right"] = cells["x"] + 0.03, cells["x"] + 0.97
    cells["text"] = [
        f"{number}{f' · {at}' if at >= 0 else ''}{' ?' if guess else ''}"
        for number, at, guess in zip(
            cells["number"], cells["position"], cells["guessed"], strict=True
        )
    ]
    heads = _column_heads(cells, kept)
    columns = []
    for column, head in zip(kept, heads, strict=True):
        mine = cells[cells["column"] == column].set_index("rank")
        texts = [
            f"{mine['time_text'][rank]} · {mine['bytes_text'][rank]}" if rank in mine.index else ""
            for rank in ranks
        ]
        place = spent.index.tolist().index(column)
        columns.append(Column(head, texts, 380 + 140 * place))
    return {
        "data": cells,
        "names": [f"rank {rank}" for rank in ranks],
        "marks": [Bars("left", "right", "@fill", line="@line", text="text", text_color=theme.ink)],
        "x_end": float(len(kept)),
        "subtitle": [
            _IN_CELLS,
            f"{plural(more, 'column')} of the least used left out" if more else "",
        ],
        "ticks": [(at + 0.5, head) for at, head in enumerate(heads)],
        "columns": columns,
        "tooltip": _group_tooltip("rank @{rank} · @{name}"),
    }


def _group_rows(data: pd.DataFrame) -> dict[str, Any]:
    ranks = np.unique(data["rank"])
    places = np.searchsorted(ranks, data["rank"])
    data = data.assign(left=places, right=places + 1)
    groups = data.groupby("code", sort=True).agg(
        column=("column", "first"),
        number=("number", "first"),
        name=("name", "first"),
        guessed=("guessed", "first"),
        size=("rank", "size"),
        time_ns=("time_ns", "mean"),
    )
    groups["bytes"] = data[data["bytes"] >= 0].groupby("code")["bytes"].mean()
    groups["is_shown"] = _visible_groups(groups)
    groups = groups.sort_values(["column", "is_shown", "number"], ascending=[True, False, True])
    rows: list[dict[str, Any]] = []
    row_of: dict[int, int] = {}
    for column, groups_of_column in groups.groupby("column", sort=True):
        shown, left = (
            groups_of_column[groups_of_column["is_shown"]],
            groups_of_column[~groups_of_column["is_shown"]],
        )
        for code, record in zip(shown.index.tolist(), shown.to_dict("records"), strict=True):
            row_of[code] = len(rows)
            mark = " ?" if record["guessed"] else ""
            rows.append(
                {
                    **{str(key): each for key, each in record.items()},
                    "name": f"{record['name']}{mark}",
                }
            )
        if len(left):
            row_of |= dict.fromkeys(left.index.tolist(), len(rows))
            mark = " ?" if left["guessed"].any() else ""
            kind = str(data.loc[data["column"] == column, "kind"].iloc[0])
            rows.append(
                {
                    "name": f"{kind}: {count(len(left))} more{mark}",
                    "size": left["size"].max(),
                    "time_ns": left["time_ns"].mean(),
                    "bytes": left["bytes"].mean(),
                }
            )
    data["row"] = data["code"].map(row_of)
    cells = _adjacent_runs(data)
    cells["alone"] = np.where(cells["code"].map(groups["is_shown"]), "yes", "no")
    return {
        "data": cells,
        "names": [str(record["name"]) for record in rows],
        "marks": [
            # A rank is hardly a pixel wide, so bars have no tint, and an outline only in rows of
            # one group, where it covers no other group.
            Bars("left", "right", "@line", only=("alone", "no")),
            Bars("left", "right", "@line", line="@line", only=("alone", "yes")),
        ],
        "x_end": float(len(ranks)),
        "subtitle": [
            f"a row is a group, {count(len(ranks))} ranks go from left to right; {_MEANS}",
            f"those of {count(len(groups))} groups in which most is spent have a row"
            if len(rows) < len(groups)
            else "",
        ],
        "ticks": [(at, f"rank {ranks[int(at)]}") for at in round_ticks(len(ranks) - 1, 4)],
        "background": True,
        "columns": [
            Column("time", [duration(record["time_ns"]) for record in rows]),
            Column("bytes", [_size_text(record["bytes"]) for record in rows], 480),
            Column("ranks", [count(record["size"]) for record in rows], 640),
        ],
        "tooltip": _group_tooltip("@{run} · @{name}"),
    }


def _group_tooltip(heading: str) -> Tooltip:
    return Tooltip(
        heading,
        [
            ("group", "@{group}"),
            ("for", "@{purpose}"),
            ("its ranks", "@{members}"),
            ("position", "@{position_text}"),
            ("runs there", "@{time_text}"),
            ("messages", "@{bytes_text}"),
        ],
    )


def _column_heads(cells: pd.DataFrame, kept: Sequence[int]) -> list[str]:
    """Return the columns' kinds as heads; further columns of a kind are numbered from 2."""
    first = cells.drop_duplicates("column").set_index("column")
    guessed = cells.groupby("column")["guessed"].any()
    met: dict[str, int] = {}
    heads = []
    for column in kept:
        kind = str(first["kind"][column])
        met[kind] = met.get(kind, 0) + 1
        number = f" {met[kind]}" if met[kind] > 1 else ""
        heads.append(f"{kind}{number}{' ?' if guessed[column] else ''}")
    return heads


def _group_tints(numbers: pd.Series, theme: Theme) -> tuple[list[str], list[str]]:
    lines = [theme.category[_GROUP_COLORS[number % len(_GROUP_COLORS)]] for number in numbers]
    part = 0.3 if theme.name == "light" else 0.45
    tint = {line: blend(line, theme.bg, part) for line in set(lines)}
    return [tint[line] for line in lines], lines


def _visible_groups(groups: pd.DataFrame) -> pd.Series:
    """Return flags of the groups with a row: in each column equally many, those with most time."""
    columns = groups["column"].nunique()
    if len(groups) <= _MAX_ROWS:
        return pd.Series(True, index=groups.index)
    most = max(1, _MAX_ROWS // columns - 1)
    order = groups.sort_values("time_ns", ascending=False, kind="stable")
    place = order.groupby("column").cumcount().reindex(groups.index)
    alone = groups.groupby("column")["time_ns"].transform("size") <= most + 1
    return (place < most) | alone


def _adjacent_runs(data: pd.DataFrame) -> pd.DataFrame:
    """Return one bar per run of adjacent ranks of a group, with their mean times and bytes."""
    data = data.sort_values(["row", "left"], kind="stable").reset_index(drop=True)
    code, left = data["code"].to_numpy(), data["left"].to_numpy()
    begins = np.append(True, (np.diff(code) != 0) | (np.diff(left) != 1))
    run = np.cumsum(begins) - 1
    runs = data[begins].reset_index(drop=True)
    grouped = data.groupby(run)
    runs["right"] = grouped["right"].max().to_numpy()
    sizes = grouped.size().to_numpy()
    last = grouped["rank"].max().to_numpy()
    runs["run"] = [
        f"rank {first}" if many == 1 else f"ranks {first}–{end}"
        for first, end, many in zip(runs["rank"], last, sizes, strict=True)
    ]
    runs["position_text"] = [
        text if many == 1 else f"from {text}"
        for text, many in zip(runs["position_text"], sizes, strict=True)
    ]
    runs["time_text"] = [duration(each) for each in grouped["time_ns"].mean()]
    runs["bytes_text"] = [_size_text(each) for each in grouped["bytes"].mean()]
    return runs


def _size_text(number: float) -> str:
    return UNKNOWN if not number >= 0 else size(number)


def _group_finding(data: pd.DataFrame) -> str:
    groups = data.drop_duplicates("code")
    phrases = []
    for kind in dict.fromkeys([*KIND_ORDER, *groups["kind"]]):
        groups_of_kind = groups[groups["kind"] == kind]
        if groups_of_kind.empty:
            continue
        sizes = sorted({int(each) for each in groups_of_kind["size"] if each > 0})
        of = f" of {sizes[0]}" if len(sizes) == 1 else ""
        of = f" of {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else of
        if kind == "all":
            phrases.append(
                f"{'one' if len(groups_of_kind) == 1 else count(len(groups_of_kind))} of all ranks"
            )
        else:
            phrases.append(plural(len(groups_of_kind), f"{kind} group") + of)
    return f"{plural(len(groups), 'group')}: {', '.join(phrases)}"


_MAX_CLUSTERS = 60
#: Maximum length of a list of ranks, in characters; narrow charts would truncate longer ones.
_LETTERS = 18

# Cuts the text on a cluster's difference to the available width; the tooltip shows all of it.
_CUT = r"""
if (!fig.inner_width) return;
const pen = document.createElement("canvas").getContext("2d");
pen.font = "11px " + family;
const fitting = (text) => {
  let end = text.length;
  const shown = () => (end < text.length ? text.slice(0, end) + "…" : text);
  while (end > 1 && pen.measureText(shown()).width > fig.inner_width - 12) end -= 1;
  return shown();
};
const text = Array.from(source.data.full, fitting);
if (text.some((each, k) => each !== source.data.text[k])) source.data = { ...source.data, text };
"""


@chart(
    "Which ranks behave alike",
    *("rank", "cluster", "representative", "is_outlier", "why", "step_ns", "compute_ns"),
    *("idle_ns", "exposed_communication_ns", "exposed_wait_ns"),
)
def rank_clusters(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw one row per cluster of ranks: the parts of its steps, and how outliers differ.

    Returns
    -------
    bokeh.plotting.figure
        Outliers on top, then the largest clusters first. Bars are means of a cluster's ranks, per
        step; texts below them are the differences from the most typical ranks. Its source has one
        row per cluster with the frame's columns.
    """
    data = _cluster_rows(frame)
    shown, said = len(data), ""
    while len(data) > 1 and _figure_height(data[:shown]) > _MAX_CLUSTERS:
        shown -= 1
    if shown < len(data):
        said = f"the first {count(shown)} of {count(len(data))} clusters"
        data = data[:shown]
    texts: dict[str, list[Any]] = {"row": [], "full": []}
    names: list[str] = []
    grounds = []
    rows = []
    for cluster in data.to_dict("records"):
        first = len(names)
        rows.append(first)
        reasons = [each for each in str(cluster["why"]).split("; ") if each]
        names += [str(cluster["name"]), *[""] * len(reasons)]
        texts["row"] += range(first + 1, first + 1 + len(reasons))
        texts["full"] += [escape_text(reason) for reason in reasons]
        if cluster["is_outlier"]:
            grounds.append((first - 0.5, first + len(reasons) + 0.5))
    data = data.assign(row=rows)
    parts = _add_parts(data, theme)
    end = max(float(data["step_ns"].max()) or 1.0, float(data[parts[-1].right].max())) * 1.02
    by_row = dict(zip(rows, data.to_dict("records"), strict=True))

    def column(word: Any) -> list[str]:
        return [word(by_row[row]) if row in by_row else "" for row in range(len(names))]

    tolerance = frame.attrs.get("tolerance")
    return {
        "by": _draw_with_reasons,
        "grounds": grounds,
        "texts": texts,
        "data": data,
        "names": names,
        "marks": parts,
        "x_end": end,
        "ticks": time_ticks(end),
        "subtitle": [
            "how a step passes on the device, mean of the cluster's ranks",
            _cluster_finding(frame, data),
            said,
            "" if tolerance is None else f"alike: within {share(float(tolerance))} of a step",
        ],
        "note": str(frame.attrs.get("note", "")),
        "head": " ",
        "columns": [
            Column("ranks", column(lambda each: count(each["ranks"]))),
            Column("step", column(lambda each: duration(each["step_ns"])), 420),
            Column("stands for them", column(lambda each: f"rank {each['representative']}"), 620),
        ],
        "tooltip": Tooltip(
            "@{members}",
            [
                ("ranks", "@{ranks}"),
                ("stands for them", "rank @{representative}"),
                ("against the typical ranks", "@{why}"),
                *((mark.name, f"@{{{mark.right}_text}}") for mark in parts),
                ("step", "{step_ns:duration}"),
            ],
        ),
    }


def _figure_height(data: pd.DataFrame) -> int:
    return int(sum(1 + (text.count("; ") + 1 if text else 0) for text in data["why"]))


def _cluster_rows(frame: pd.DataFrame) -> pd.DataFrame:
    times = [
        name
        for name in (
            "step_ns",
            "own_ns",
            "compute_ns",
            "idle_ns",
            "exposed_communication_ns",
            "exposed_wait_ns",
            "unmatched_exposed_ns",
            "lost_share",
        )
        if name in frame
    ]
    groups = frame.groupby("cluster", sort=True)
    data = groups[times].mean()
    data["representative"] = groups["representative"].first()
    data["is_outlier"] = groups["is_outlier"].any()
    data["ranks"] = groups.size()
    standing = frame[frame["rank"] == frame["representative"]].set_index("cluster")["why"]
    data["why"] = standing.reindex(data.index).fillna("").astype(str)
    data["members"] = [rank_list(ranks.tolist(), 12) for _, ranks in groups["rank"]]
    data["name"] = [
        _cluster_name(ranks.tolist(), standing_for)
        for (_, ranks), standing_for in zip(groups["rank"], data["representative"], strict=True)
    ]
    data = data.reset_index()
    return data.sort_values(
        ["is_outlier", "ranks", "cluster"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)


def _cluster_name(ranks: list[int], standing_for: int) -> str:
    whole = rank_list(ranks, len(ranks))
    return whole if len(whole) <= _LETTERS else f"{count(len(ranks))} like rank {standing_for}"


def _add_parts(data: pd.DataFrame, theme: Theme) -> list[Bars]:
    """Add start and end of each part of a step to the data; return the bars."""
    rest = (data["exposed_communication_ns"] - data["exposed_wait_ns"]).clip(lower=0)
    unmatched = rest.clip(upper=data.get("unmatched_exposed_ns", 0))
    known = data["compute_ns"] + rest + data["exposed_wait_ns"] + data["idle_ns"]
    left = np.zeros(len(data))
    marks = []
    pieces: list[tuple[str, pd.Series, str, dict[str, Any]]] = [
        ("compute", data["compute_ns"], theme.kind["compute"], {}),
        ("transfer", rest - unmatched, theme.kind["communication"], {}),
        (
            "waits",
            data["exposed_wait_ns"],
            theme.wait_fill,
            {"line": theme.wait_line, "hatch": "/", "hatch_color": theme.wait_line},
        ),
        (
            "communication without partners",
            unmatched,
            blend(theme.kind["communication"], theme.bg, 0.5),
            {"line": theme.kind["communication"]},
        ),
        ("idle", data["idle_ns"], theme.idle, {}),
        (
            "rest of the step",
            (data["step_ns"] - known).clip(lower=0),
            blend(theme.lane, theme.bg, 0.6),
            {},
        ),
    ]
    for name, values, fill, style in pieces:
        sizes = values.to_numpy(float)
        if name != "compute" and not (sizes > 0).any():
            continue
        data[f"{name} from"], data[name] = left, left + sizes
        data[f"{name}_text"] = [duration(each) for each in sizes]
        # A zero-length bar would still draw its outline.
        data[f"{name} from"] = data[f"{name} from"].where(sizes > 0)
        marks.append(Bars(f"{name} from", name, fill, name, **style))
        left = left + sizes
    return marks


def _cluster_finding(frame: pd.DataFrame, data: pd.DataFrame) -> str:
    outliers = frame.loc[frame["is_outlier"].to_numpy(bool), "rank"].tolist()
    clusters = int(frame["cluster"].nunique())
    all_of = f"{plural(len(frame), 'rank')} in {plural(clusters, 'cluster')}"
    if not outliers:
        return f"{all_of}, no outliers"
    if len(outliers) == 1:
        return f"{all_of}, {rank_list(outliers)} is an outlier: {data['why'].iloc[0]}"
    return f"{all_of}, {count(len(outliers))} of them are outliers: {rank_list(outliers)}"


def _draw_with_reasons(
    grounds: list[tuple[float, float]],
    texts: dict[str, list[Any]],
    *,
    theme: Theme,
    width: int | None,
    **content: Any,
) -> Any:
    """Return a chart of rows with a background behind outliers, and texts below the bars."""
    figure = rows_chart(**content, theme=theme, width=width)
    for low, high in grounds:
        figure.add_layout(
            models.BoxAnnotation(
                top=low,
                bottom=high,
                fill_color=theme.lane,
                fill_alpha=1,
                line_color=None,
                level="underlay",
            )
        )
    if not texts["full"]:
        return figure
    letters = int(((width or 720) * 0.6) / 6.4)
    cut = [text if len(text) <= letters else f"{text[: letters - 1]}…" for text in texts["full"]]
    source = models.ColumnDataSource({**texts, "text": cut})
    figure.text(
        x=0,
        y="row",
        text="text",
        source=source,
        x_offset=4,
        text_color=theme.ink,
        text_baseline="middle",
        text_font={"value": FONT},
        text_font_size="11px",
    )
    figure.js_on_change(
        "inner_width",
        models.CustomJS(args={"fig": figure, "source": source, "family": FONT}, code=_CUT),
    )
    return figure


Floats = npt.NDArray[np.float64]

_STRIP = 26
_SHADES = 128
_HEATMAP = definition("heatmap")


@chart(_HEATMAP["title"], "rank", "bin", "start_ns", "end_ns", "value_ns", folds=True)
def rank_time_heatmap(frame: pd.DataFrame) -> dict[str, Any] | str:
    """Draw the activity of each rank's device over time.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per bin; above them is the mean of ranks, at the right each
        rank's total. The image's source has columns ``share`` and ``value_ns``, each one array of
        rows and bins. Another source has one row per rank or cluster, with ``rank`` (of a cluster,
        its first), ``ranks`` (text) and ``total_ns``.

    Examples
    --------
    >>> frame = analysis.rank_time_heatmap(traces, metric="waiting")  # doctest: +SKIP
    >>> charts.rank_time_heatmap(frame)  # doctest: +SKIP
    """
    if not (frame["end_ns"] > frame["start_ns"]).any():
        return ""
    metric = str(frame.attrs.get("metric", "busy"))
    unknown = {"label": metric.replace("_", " "), "note": "", "ramp": "busy", "kinds": []}
    known = facts("metrics").get(metric, unknown)
    ranks = frame["rank"].drop_duplicates().to_numpy()
    bins = len(frame) // len(ranks)
    value = frame["value_ns"].to_numpy(float).reshape(len(ranks), bins)
    edges = frame[["start_ns", "end_ns"]].to_numpy(float)[:bins]
    size = edges[:, 1] - edges[:, 0]
    part = np.divide(value, size, out=np.zeros_like(value), where=size > 0)
    start, end = float(edges[0, 0]), float(edges[-1, 1])
    rows = pd.DataFrame({"rank": ranks, "total_ns": value.sum(axis=1)})
    rows.attrs = {
        **frame.attrs,
        "label": known["label"],
        "about": known["note"],
        "cell_ns": (end - start) / bins,
    }
    scope, _ = chart_scope(_HEATMAP, rows)
    said = [title_and_subtitle({**_HEATMAP, "unmatched": known["kinds"]}, frame, scope)["subtitle"]]
    mean = part.mean(axis=0)
    if groups := folded_groups(rows):
        scope = fold_scope(_HEATMAP, rows, scope, groups)
        masks = [np.isin(ranks, members) for members in scope["members"]]
        part, value = (
            np.stack([all_of[mask].mean(axis=0) for mask in masks]) for all_of in (part, value)
        )
        said.append(TOGETHER)
    return {
        "by": _heatmap_figure,
        "names": list(scope["names"]),
        "ranks": scope["rank"],
        "part": part,
        "value": value,
        "mean": mean,
        "window": (start, end),
        "shades": known["ramp"],
        "subtitle": said,
        "note": "",
    }


def _heatmap_figure(
    names: list[str],
    ranks: Any,
    part: Floats,
    value: Floats,
    mean: Floats,
    window: tuple[float, float],
    shades: str,
    *,
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
) -> Any:
    total = value.sum(axis=1)
    palette = color_ramp(theme.busy if shades == "busy" else theme.waiting, _SHADES)
    rows, (start, end) = len(names), window
    pitch = 16 if rows <= 32 else max(1, 512 // rows)
    strip = _STRIP / pitch
    figure = new_figure(
        title,
        subtitle,
        theme,
        width,
        frame_height=int(rows * pitch + _STRIP + 6),
        x_range=models.Range1d(start, end),
        y_range=models.Range1d(rows - 0.5, -0.5 - strip - 6 / pitch),
        tools=[
            models.BoxSelectTool(dimensions="height", overlay=selection_box(theme)),
            models.TapTool(),
        ],
    )
    time_axis(figure)
    picture = figure.image(
        image="share",
        x=start,
        y=-0.5,
        dw=end - start,
        dh=rows,
        source=models.ColumnDataSource(
            {
                "share": [part],
                "value_ns": [value],
                "of_rank": [np.repeat(np.array(names)[:, None], part.shape[1], axis=1)],
            }
        ),
        color_mapper=models.LinearColorMapper(palette=palette, low=0, high=1),
    )
    edges = np.linspace(start, end, part.shape[1] + 1)
    base = -0.5 - 4 / pitch
    figure.quad(
        left=edges[:-1],
        right=edges[1:],
        top=base - mean * (strip - 4 / pitch),
        bottom=np.full(part.shape[1], base),
        fill_color=palette[_SHADES * 2 // 3],
        line_color=None,
    )
    figure.hbar(
        y="row",
        left=start,
        right=end,
        height=0.9,
        source=models.ColumnDataSource(
            {"row": np.arange(rows), "rank": ranks, "ranks": names, "total_ns": total}
        ),
        fill_alpha=0,
        line_alpha=0,
        selection_line_alpha=1,
        selection_line_color=theme.brush_line,
        nonselection_fill_alpha=0,
        nonselection_line_alpha=0,
    )
    add_tooltip(figure, [picture], theme, "@{of_rank}", [("share", "@{share}{0 %}")])
    every = next(each for each in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024) if each * pitch >= 14)
    shown = list(range(0, rows, every))
    middle = -0.5 - strip / 2
    ticks = [middle, *shown]
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    numbers: dict[float, str] = {row: duration(float(total[row])) for row in shown}
    numbers[middle] = f"mean {share(float(mean.mean()))}"
    side = models.LinearAxis(ticker=models.FixedTicker(ticks=ticks), major_label_overrides=numbers)
    plain_axis(side, theme)
    figure.add_layout(side, "right")
    keep_fitting(
        figure,
        width=width,
        names=[(middle, "mean of ranks"), *((row, names[row]) for row in shown)],
        columns=[(side, 0)],
        timed=True,
    )
    return figure


@chart(
    "Communication by process group",
    *("rank", "communication_ns", "overlapped_ns", "exposed_ns", "count"),
)
def communication_by_group(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw each process group's communication: time hidden behind compute, and exposed time.

    Returns
    -------
    bokeh.plotting.figure
        One bar per group; its source has the frame's times as means of the ranks in the group.
    """
    keys = [key for key in ("group", "description", "collective") if key in frame]
    require_columns_of(frame, "communication_by_group", *(keys or ["group"]))
    return _communication_bars(frame, keys, "process group", theme)


@chart(
    "Communication by stream",
    *("stream", "rank", "communication_ns", "overlapped_ns", "exposed_ns", "count"),
)
def communication_by_stream(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw each stream's communication: time hidden behind compute, and exposed time.

    Returns
    -------
    bokeh.plotting.figure
        As from `communication_by_group`, with one bar per stream.
    """
    return _communication_bars(frame, ["stream"], "stream", theme)


def _communication_bars(
    frame: pd.DataFrame, keys: list[str], noun: str, theme: Theme
) -> dict[str, Any]:
    text = frame.assign(**{key: frame[key].astype(str) for key in keys})
    grouped = text.groupby(keys, sort=False)
    data = grouped[["communication_ns", "overlapped_ns", "exposed_ns"]].mean()
    data["count"] = grouped["count"].sum()
    data["ranks"] = grouped["rank"].nunique()
    data["least_ns"] = grouped["communication_ns"].min()
    data["most_ns"] = grouped["communication_ns"].max()
    with_sizes = {"in_bytes", "out_bytes"} <= set(frame.columns)
    for key in ("in_bytes", "out_bytes") if with_sizes else ():
        known = grouped[key].agg(lambda each: each[each >= 0].sum() if (each >= 0).any() else -1)
        data[f"{key}_text"] = ["–" if each < 0 else size(each) for each in known]
        data[key] = known
    data = data.sort_values("communication_ns", ascending=False, kind="stable").reset_index()
    data["overlap_share"] = data["overlapped_ns"] / data["communication_ns"].where(
        data["communication_ns"] > 0
    )
    data["name"] = [_row_label(record, noun) for record in data[keys].to_dict("records")]
    orange = theme.kind["communication"]
    several = len(frame["rank"].unique()) > 1
    return {
        "data": data,
        "names": list(data["name"]),
        "marks": [
            Bars(0.0, "overlapped_ns", orange, "behind compute", line=orange, alpha=0.25),
            Bars("overlapped_ns", "communication_ns", orange, "exposed"),
            *[Whiskers("least_ns", "most_ns", theme.ink2)] * several,
        ],
        "end_ns": float(data["most_ns"].max()),
        "subtitle": [
            "time in which any communication kernel runs, waiting included",
            "mean of ranks, line: least to most of a rank" if several else "",
        ],
        "head": noun,
        "columns": [
            Column("hidden", "{overlap_share:share}"),
            Column("total", "{communication_ns:duration}", 420),
            Column("ranks", "{ranks:count}", 560),
            Column("kernels", "{count:count}", 680),
        ],
        "tooltip": Tooltip(
            "@{name}",
            [
                ("communication", "{communication_ns:duration}"),
                ("behind compute", "{overlapped_ns:duration} · {overlap_share:share}"),
                ("exposed", "{exposed_ns:duration}"),
                ("least and most of a rank", "{least_ns:duration} – {most_ns:duration}"),
                ("kernels on ranks", "{count:count} on {ranks}"),
                *[("in, out, all ranks", "@{in_bytes_text}, @{out_bytes_text}")] * with_sizes,
            ],
        ),
    }


def _row_label(record: dict[Any, Any], noun: str) -> str:
    words = [record.get("description") or "", record.get("group") or "", record.get("stream") or ""]
    named = " · ".join(word for word in words if word)
    named = f"stream {named}" if "stream" in record else named or f"{noun} not stated"
    return f"{named} · {record['collective']}" if record.get("collective") else named

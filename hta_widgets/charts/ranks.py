"""Charts of clusters of similar ranks, and of the activity of ranks over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from msgspec import structs

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, color_ramp
from hta_widgets.charts.defined import (
    TOGETHER,
    chart_scope,
    fill_device_word,
    fold_scope,
    folded_groups,
    styled_bars,
    subtitle_of,
    with_folded_groups,
)
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import (
    ASSUMED_WIDTH,
    LETTER_WIDTH,
    Figure,
    FigureStyle,
    add_ground,
    add_tooltip,
    draw_row_texts,
    empty_figure,
    escape_text,
    keep_fitting,
    models,
    new_figure,
    script,
    side_axis,
)
from hta_widgets.charts.lanes import time_axis
from hta_widgets.charts.language import Scope
from hta_widgets.charts.rows import (
    Bars,
    Column,
    RowsContent,
    Scale,
    Tooltip,
    add_row_outlines,
    draw_rows,
    row_texts,
    rows_apart,
    time_ticks,
)
from hta_widgets.charts.theme import FONT, Theme, ThemeName, theme_of
from hta_widgets.facts import facts
from hta_widgets.text import count, cut_text, duration, plural, rank_list, share
from hta_widgets.trace.arrays import Bools, Floats, Ints

#: Maximum number of rows, summed over all clusters.
_MAX_ROWS = 60
#: Columns that are averaged over the ranks of a cluster.
_MEANS = (
    *("step_ns", "own_ns", "compute_ns", "idle_ns", "exposed_communication_ns", "exposed_wait_ns"),
    *("unmatched_exposed_ns", "lost_share"),
)
#: Maximum number of characters in a list of ranks. Narrow charts would cut off longer lists.
_LETTERS = 18


@check_arguments
def rank_clusters(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Groups of similar ranks",
    **options: object,
) -> Figure:
    """Draw how clusters of ranks spend a step, and how outliers differ.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.rank_clusters`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        Outliers at the top, then the other clusters in descending order of size. Bars show the mean
        over a cluster's ranks, per step. Texts below the bars describe the differences from the
        typical ranks. The data source has one row per cluster, with the columns of the frame.

    Examples
    --------
    >>> charts.rank_clusters(analysis.rank_clusters(traces))  # doctest: +SKIP
    """
    columns = (
        "rank cluster representative is_outlier why step_ns compute_ns idle_ns "
        "exposed_communication_ns exposed_wait_ns"
    )
    frame = analysis_frame("rank_clusters", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    clusters = _cluster_rows(frame)
    data, reasons, heights = _drawn_clusters(clusters)
    is_cut = len(data) < len(clusters)
    omitted = f"the first {count(len(data))} of {count(len(clusters))} clusters" if is_cut else ""
    tolerance = frame.attrs.get("tolerance")
    style = style.with_subtitle(
        "a step's time on the device, mean of the cluster's ranks",
        _cluster_finding(frame, data),
        omitted,
        "" if tolerance is None else f"similar: within {share(float(tolerance))} of a step",
        str(frame.attrs.get("note", "")),
    )
    figure = draw_rows(_clusters_content(data, int(heights.sum()), style.theme), style)
    for row, height, is_outlier in zip(data["row"], heights, data["is_outlier"], strict=True):
        if is_outlier:
            add_ground(figure, style.theme, top=row - 0.5, bottom=row + height - 0.5)
    _draw_reasons(figure, data["row"].tolist(), reasons, style)
    return figure


def _clusters_content(data: pd.DataFrame, rows: int, theme: Theme) -> RowsContent:
    parts = _add_parts(data, theme)
    end = max(float(data["step_ns"].max()) or 1.0, float(data[parts[-1].right].max())) * 1.02

    def first_row_texts(template: str) -> list[str]:
        # The remaining rows of a cluster hold its reasons.
        texts = np.full(rows, "", dtype=object)
        texts[data["row"]] = row_texts(data, template)
        return list(texts)

    return RowsContent(
        data=data,
        names=first_row_texts("{name}"),
        marks=parts,
        scale=Scale(end, ticks=time_ticks(end)),
        head=" ",
        columns=[
            Column("ranks", first_row_texts("{ranks:count}")),
            Column("step", first_row_texts("{step_ns:duration}"), 420),
            Column("representative", first_row_texts("rank {representative}"), 620),
        ],
        tooltip=Tooltip(
            "@{members}",
            [
                ("ranks", "@{ranks}"),
                ("representative", "rank @{representative}"),
                ("against the typical ranks", "@{why}"),
                *((mark.name, f"@{{{mark.right}_text}}") for mark in parts),
                ("step", "{step_ns:duration}"),
            ],
        ),
    )


def _cluster_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cluster: outliers first, then by descending size."""
    groups = frame.groupby("cluster", sort=True)
    data = groups[[name for name in _MEANS if name in frame]].mean()
    data["representative"] = groups["representative"].first()
    data["is_outlier"] = groups["is_outlier"].any()
    data["ranks"] = groups.size()
    representatives = frame[frame["rank"] == frame["representative"]].set_index("cluster")
    data["why"] = representatives["why"].reindex(data.index).fillna("").astype(str)
    data["members"] = [rank_list(ranks.tolist(), 12) for _, ranks in groups["rank"]]
    data["name"] = [
        _cluster_name(ranks.tolist(), representative)
        for (_, ranks), representative in zip(groups["rank"], data["representative"], strict=True)
    ]
    return data.reset_index().sort_values(
        ["is_outlier", "ranks", "cluster"],
        ascending=[False, False, True],
        kind="stable",
        ignore_index=True,
    )


def _drawn_clusters(clusters: pd.DataFrame) -> tuple[pd.DataFrame, list[list[str]], Ints]:
    """Return the clusters to draw, with their row numbers, reasons and heights in rows.

    A cluster has one row for its bars, plus one per reason.
    """
    reasons = [str(reason).split("; ") if reason else [] for reason in clusters["why"]]
    heights = np.array([1 + len(texts) for texts in reasons])
    drawn = max(1, int((np.cumsum(heights) <= _MAX_ROWS).sum()))
    data = clusters[:drawn].assign(row=(np.cumsum(heights) - heights)[:drawn])
    return data, reasons[:drawn], heights[:drawn]


def _cluster_name(ranks: list[int], representative: int) -> str:
    text = rank_list(ranks, len(ranks))
    return text if len(text) <= _LETTERS else f"{count(len(ranks))} like rank {representative}"


def _add_parts(data: pd.DataFrame, theme: Theme) -> list[Bars]:
    transfer_ns = (data["exposed_communication_ns"] - data["exposed_wait_ns"]).clip(lower=0)
    unmatched_ns = transfer_ns.clip(upper=data.get("unmatched_exposed_ns", 0))
    explained_ns = data["compute_ns"] + transfer_ns + data["exposed_wait_ns"] + data["idle_ns"]
    rest_ns = (data["step_ns"] - explained_ns).clip(lower=0)
    parts = [
        ("compute", "compute", data["compute_ns"]),
        ("transfer", "communication", transfer_ns - unmatched_ns),
        ("waits", "wait", data["exposed_wait_ns"]),
        ("communication without partners", "unmatched", unmatched_ns),
        ("idle", "idle", data["idle_ns"]),
        ("rest of the step", "", rest_ns),
    ]
    left = np.zeros(len(data))
    marks = []
    for name, style, values in parts:
        sizes = values.to_numpy(float)
        if name != "compute" and not (sizes > 0).any():
            continue
        # A bar of length 0 would still show its outline.
        data[f"{name} from"] = np.where(sizes > 0, left, np.nan)
        data[name] = left + sizes
        data[f"{name}_text"] = [duration(size_ns) for size_ns in sizes]
        bars = Bars(f"{name} from", name, theme.lane, name, alpha=0.6)
        marks.append(styled_bars(style, bars.left, name, name, theme) if style else bars)
        left = left + sizes
    return marks


def _cluster_finding(frame: pd.DataFrame, data: pd.DataFrame) -> str:
    outliers = frame.loc[frame["is_outlier"].to_numpy(bool), "rank"].tolist()
    clusters = int(frame["cluster"].nunique())
    summary = f"{plural(len(frame), 'rank')} in {plural(clusters, 'cluster')}"
    if not outliers:
        return f"{summary}, no outliers"
    if len(outliers) == 1:
        return f"{summary}, {rank_list(outliers)} is an outlier: {data['why'].iloc[0]}"
    return f"{summary}, {count(len(outliers))} ranks are outliers: {rank_list(outliers)}"


def _draw_reasons(
    figure: Figure, bar_rows: Sequence[int], reasons: Sequence[Sequence[str]], style: FigureStyle
) -> None:
    """Write the reasons of each cluster below its bars, cut to the width of the figure.

    The width is only estimated here; a script later measures it in the browser.
    """
    text_of_row = {
        row: escape_text(reason)
        for bar_row, reasons_of_cluster in zip(bar_rows, reasons, strict=True)
        for row, reason in enumerate(reasons_of_cluster, bar_row + 1)
    }
    if not text_of_row:
        return
    rows, texts = list(text_of_row), list(text_of_row.values())
    letters = int(((style.width or ASSUMED_WIDTH) * 0.6) / LETTER_WIDTH)
    short = [cut_text(text, letters) for text in texts]
    source = models.ColumnDataSource({"row": rows, "full": texts, "text": short})
    draw_row_texts(figure, source, x=0, color=style.theme.ink)
    figure.js_on_change(
        "inner_width",
        models.CustomJS(args={"fig": figure, "source": source, "family": FONT}, code=script("cut")),
    )


#: Heights in px of the strip of mean values above the heatmap, and of its margin.
_STRIP, _STRIP_MARGIN = 26, 4
_SHADES = 128
_HEATMAP = definition("heatmap")


@check_arguments
def rank_time_heatmap(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Rank × time",
    **options: object,
) -> Figure:
    """Draw the device activity of each rank over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.rank_time_heatmap`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per bin, with the mean over ranks above and the total of each
        rank at the right. The data source of the image has the columns ``share`` and ``value_ns``,
        each an array of rows by bins. Another source has one row per rank or cluster, with the
        columns ``rank`` (the first rank of a cluster), ``ranks`` (a string) and ``total_ns``.

    Examples
    --------
    >>> frame = analysis.rank_time_heatmap(traces, metric="waiting")  # doctest: +SKIP
    >>> charts.rank_time_heatmap(frame)  # doctest: +SKIP
    """
    frame = analysis_frame("rank_time_heatmap", frame, options, "rank bin start_ns end_ns value_ns")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty or not (frame["end_ns"] > frame["start_ns"]).any():
        return empty_figure(frame, style)
    frame = with_folded_groups(frame, clusters)
    ranks, cells = _cells_of_ranks(frame)
    metric = str(frame.attrs.get("metric", "busy"))
    unlisted = {"label": metric.replace("_", " "), "note": "", "ramp": "busy", "kinds": []}
    facts_of_metric = facts("metrics").get(metric, unlisted)
    rows = pd.DataFrame({"rank": ranks, "total_ns": cells.value_ns.sum(axis=1)})
    rows.attrs = {
        **frame.attrs,
        "label": fill_device_word(facts_of_metric["label"], frame),
        "about": facts_of_metric["note"],
        "cell_ns": (cells.end_ns - cells.start_ns) / cells.shares.shape[1],
    }
    scope, _ = chart_scope(_HEATMAP, rows)
    heatmap = structs.replace(_HEATMAP, unmatched=facts_of_metric["kinds"])
    subtitle = subtitle_of(heatmap, frame, scope)
    mean_shares = cells.shares.mean(axis=0)
    groups = folded_groups(rows)
    if groups:
        scope = fold_scope(_HEATMAP, rows, scope, groups)
        cells = cells.means([np.isin(ranks, members) for members in scope["members"]])
    ramp = style.theme.busy if facts_of_metric["ramp"] == "busy" else style.theme.waiting
    style = style.with_subtitle(subtitle, TOGETHER if groups else "")
    return _draw_heatmap(scope, cells, mean_shares, color_ramp(ramp, _SHADES), style)


@dataclass(frozen=True)
class _Cells:
    """The cells of a heatmap by row and bin: values, and values as shares of the bin length."""

    value_ns: Floats
    shares: Floats
    start_ns: float
    end_ns: float

    def means(self, masks: Sequence[Bools]) -> _Cells:
        value_ns, shares = (
            np.stack([values[mask].mean(axis=0) for mask in masks])
            for values in (self.value_ns, self.shares)
        )
        return replace(self, value_ns=value_ns, shares=shares)


def _cells_of_ranks(frame: pd.DataFrame) -> tuple[Ints, _Cells]:
    """Return the ranks, and cells with one row per rank."""
    ranks = frame["rank"].drop_duplicates().to_numpy()
    value_ns = frame["value_ns"].to_numpy(float).reshape(len(ranks), -1)
    edges = frame[["start_ns", "end_ns"]].to_numpy(float)[: value_ns.shape[1]]
    size_ns = edges[:, 1] - edges[:, 0]
    shares = np.divide(value_ns, size_ns, out=np.zeros_like(value_ns), where=size_ns > 0)
    return ranks, _Cells(value_ns, shares, float(edges[0, 0]), float(edges[-1, 1]))


def _draw_means(
    figure: Figure, edges: Floats, mean_shares: Floats, pitch: float, palette: list[str]
) -> None:
    base = -0.5 - _STRIP_MARGIN / pitch
    figure.quad(
        left=edges[:-1],
        right=edges[1:],
        top=base - mean_shares * (_STRIP - _STRIP_MARGIN) / pitch,
        bottom=np.full(len(mean_shares), base),
        fill_color=palette[_SHADES * 2 // 3],
        line_color=None,
    )


def _draw_heatmap(
    scope: Scope, cells: _Cells, mean_shares: Floats, palette: list[str], style: FigureStyle
) -> Figure:
    (rows, bins), start_ns, end_ns = cells.shares.shape, cells.start_ns, cells.end_ns
    names = list(scope["names"])
    pitch = 16 if rows <= 32 else max(1, 512 // rows)
    strip = _STRIP / pitch
    figure = new_figure(
        style,
        frame_height=int(rows * pitch + _STRIP + 6),
        x_range=models.Range1d(start_ns, end_ns),
        y_range=models.Range1d(rows - 0.5, -0.5 - strip - 6 / pitch),
        select="height",
    )
    time_axis(figure)
    picture = figure.image(
        image="share",
        x=start_ns,
        y=-0.5,
        dw=end_ns - start_ns,
        dh=rows,
        source=models.ColumnDataSource(
            {
                "share": [cells.shares],
                "value_ns": [cells.value_ns],
                "of_rank": [np.repeat(np.array(names)[:, None], bins, axis=1)],
            }
        ),
        color_mapper=models.LinearColorMapper(palette=palette, low=0, high=1),
    )
    _draw_means(figure, np.linspace(start_ns, end_ns, bins + 1), mean_shares, pitch, palette)
    total_ns = cells.value_ns.sum(axis=1)
    ranks = {"row": np.arange(rows), "rank": scope["rank"], "ranks": names, "total_ns": total_ns}
    add_row_outlines(figure, ranks, (start_ns, end_ns), style.theme)
    add_tooltip(figure, [picture], style.theme, "@{of_rank}", [("share", "@{share}{0 %}")])
    labeled = rows_apart(rows, pitch, 14)
    middle = -0.5 - strip / 2
    numbers: dict[float, str] = {row: duration(float(total_ns[row])) for row in labeled}
    numbers[middle] = f"mean {share(float(mean_shares.mean()))}"
    ticks = [middle, *labeled]
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    side = side_axis(figure, ticks, numbers, style.theme)
    keep_fitting(
        figure,
        width=style.width,
        names=[(middle, "mean of ranks"), *((row, names[row]) for row in labeled)],
        columns=[(side, 0)],
        timed=True,
    )
    return figure

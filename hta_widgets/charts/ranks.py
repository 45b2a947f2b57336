"""How ranks communicate: by process group, by collective, and who keeps the others waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .canvas import blank, sentences, unmatched
from .formats import axis_time, count, duration, plural, rate, share, size
from .rows import NAMED_ROWS, Bars, Column, Tooltip, Whiskers, extremes, nice_ticks, rows_chart
from .theme import Theme, theme_of

__all__ = ["collectives", "communication_by_group", "communication_by_stream", "stragglers"]

#: More cells than this are put together, several collectives each.
_MOST_CELLS = 20_000


def communication_by_group(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication by process group",
) -> Any:
    """Draw each process group's communication, split into hidden behind compute and exposed.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.analysis.communication_by_group`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a group; its source has the frame's times as means of the ranks in the group.
    """
    keys = [key for key in ("group", "description", "collective") if key in frame]
    return _by(frame, keys, "process group", title, theme_of(theme), width)


def communication_by_stream(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication by stream",
) -> Any:
    """Draw each stream's communication, split into hidden behind compute and exposed.

    Parameters and result as of `communication_by_group`; `frame` is of
    `hta_widgets.analysis.communication_by_stream`.
    """
    return _by(frame, ["stream"], "stream", title, theme_of(theme), width)


def _by(
    frame: pd.DataFrame,
    keys: list[str],
    noun: str,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    if frame.empty:
        return blank(frame, title, colors, width)
    text = frame.assign(**{key: frame[key].astype(str) for key in keys})
    grouped = text.groupby(keys, sort=False)
    data = grouped[["communication_ns", "overlapped_ns", "exposed_ns"]].mean()
    data["count"] = grouped["count"].sum()
    data["ranks"] = grouped["rank"].nunique()
    data["least_ns"] = grouped["communication_ns"].min()
    data["most_ns"] = grouped["communication_ns"].max()
    for key in ("in_bytes", "out_bytes"):
        if key in frame:
            data[key] = grouped[key].agg(
                lambda each: each[each >= 0].sum() if (each >= 0).any() else -1
            )
    data = data.sort_values("communication_ns", ascending=False, kind="stable").reset_index()
    data["row"] = range(len(data))
    data["overlap_share"] = data["overlapped_ns"] / data["communication_ns"].where(
        data["communication_ns"] > 0
    )
    names = [_label(record, noun) for record in data[keys].to_dict("records")]
    data["name"] = names
    for each in ("communication_ns", "overlapped_ns", "exposed_ns", "least_ns", "most_ns"):
        data[f"{each}_text"] = [duration(number) for number in data[each]]
    data["hidden_text"] = [share(each) for each in data["overlap_share"]]
    data["count_text"] = [count(each) for each in data["count"]]
    more = []
    if "out_bytes" in data:
        for each in ("in_bytes", "out_bytes"):
            data[f"{each}_text"] = ["–" if n < 0 else size(n) for n in data[each]]
        more = [("in, out, all ranks", "@{in_bytes_text}, @{out_bytes_text}")]
    orange = colors.kind["communication"]
    most = float(data["most_ns"].max()) or 1.0
    ticks = nice_ticks(most, 3)
    step = ticks[1] if len(ticks) > 1 else most
    several = len(frame["rank"].unique()) > 1
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "overlapped_ns", orange, "behind compute"),
            Bars("overlapped_ns", "communication_ns", orange, "exposed", line=orange, alpha=0.25),
            *([Whiskers("least_ns", "most_ns", colors.ink2)] if several else []),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "time in which any communication kernel runs, waiting included",
            "mean of ranks, line: least to most of a rank" if several else "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=noun,
        ticks=[(at, axis_time(at, step)) for at in ticks],
        columns=[
            Column("hidden", list(data["hidden_text"])),
            Column("total", list(data["communication_ns_text"]), 420),
            Column("ranks", [count(each) for each in data["ranks"]], 560),
            Column("kernels", list(data["count_text"]), 680),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("communication", "@{communication_ns_text}"),
                ("behind compute", "@{overlapped_ns_text} · @{hidden_text}"),
                ("exposed", "@{exposed_ns_text}"),
                ("least and most of a rank", "@{least_ns_text} – @{most_ns_text}"),
                ("kernels on ranks", "@{count_text} on @{ranks}"),
                *more,
            ],
        ),
    )


def _label(record: dict[Any, Any], noun: str) -> str:
    words = [record.get("description") or "", record.get("group") or "", record.get("stream") or ""]
    named = " · ".join(word for word in words if word)
    named = f"stream {named}" if "stream" in record else named or f"{noun} not stated"
    return f"{named} · {record['collective']}" if record.get("collective") else named


def collectives(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Who waits at which collective",
) -> Any:
    """Draw how long each rank waits for the last one, collective by collective.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.analysis.collectives`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a rank and a cell a collective; its source has the frame's rows. With more than
        20 000 cells each is the sum of several collectives, which the chart says.
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    data = frame.reset_index(drop=True)
    ranks = np.unique(data["rank"])
    numbers = np.unique(data["collective"])
    place = np.searchsorted(numbers, data["collective"])
    fold = max(1, -(-len(data) // _MOST_CELLS))
    total = data.groupby("rank")["wait_ns"].sum()
    spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
    if fold > 1:
        data = (
            data.assign(cell=place // fold)
            .groupby(["rank", "cell"], as_index=False)
            .agg(
                collective=("collective", "min"),
                last=("collective", "max"),
                wait_ns=("wait_ns", "sum"),
            )
        )
        data["left"], data["is_last"] = data["cell"] * fold, False
    else:
        data["left"] = place
        data["is_last"] = data["last_rank"] == data["rank"]
        data["last"] = data["collective"]
    data["right"] = data["left"] + fold
    data["row"] = np.searchsorted(ranks, data["rank"])
    darkest = float(np.quantile(data["wait_ns"], 0.98)) or float(data["wait_ns"].max()) or 1.0
    ramp = np.array(_ramp(colors.waiting, 32))
    depth = np.clip(data["wait_ns"].to_numpy(float) / darkest, 0, 1)
    data["fill"] = ramp[np.ceil(depth * (len(ramp) - 1)).astype(int)]
    outlined = fold == 1 and len(numbers) <= 80 and len(ranks) <= NAMED_ROWS
    data["line"] = np.where(data["is_last"] & outlined, colors.late, data["fill"])
    data.loc[data["is_last"] & outlined, "fill"] = colors.late_fill
    data["wait_ns_text"] = [duration(each) for each in data["wait_ns"]]
    rows = [("waits", "@{wait_ns_text}")]
    if fold == 1:
        data["name"] = data["name"].astype(str)
        data["spread_text"] = [duration(spread[number]) for number in data["collective"]]
        data["transfer_ns_text"] = [duration(each) for each in data["transfer_ns"]]
        data["size_text"] = ["–" if each < 0 else size(each) for each in data["size_bytes"]]
        data["bandwidth_text"] = [rate(each) for each in data["busbw_gb_s"]]
        data["last_text"] = [
            "several" if each < 0 else f"rank {each}" for each in data["last_rank"]
        ]
        rows += [
            ("last", "@{last_text}"),
            ("first to last arrival", "@{spread_text}"),
            ("transfer", "@{transfer_ns_text}"),
            ("size", "@{size_text}"),
            ("bus bandwidth", "@{bandwidth_text}"),
        ]
    names = [f"rank {rank}" for rank in ranks]
    waits = [float(total[rank]) for rank in ranks]
    ticks = [at for at in nice_ticks(float(len(numbers)), 4) if at == int(at)]
    keys = [
        Bars(0.0, "", colors.waiting[-2], f"waits {duration(darkest)} or more"),
        Bars(0.0, "", colors.waiting[2], "less", line=colors.waiting[2]),
        *([Bars(0.0, "", colors.late_fill, "arrives last", line=colors.late)] if outlined else []),
    ]
    return rows_chart(
        data,
        names,
        [Bars("left", "right", "@fill", line="@line")],
        x_end=float(-(-len(numbers) // fold) * fold),
        title=title,
        subtitle=sentences(
            "from a rank's arrival to the last rank's, collectives in order of time",
            f"arrivals lie {duration(float(spread.median()))} apart in the median, at most"
            f" {duration(float(spread.max()))}",
            f"each cell is the sum of {count(fold)} collectives" if fold > 1 else "",
            extremes(names, waits, duration),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, count(at)) for at in ticks],
        columns=[Column("waits", [duration(each) for each in waits])],
        legend=keys,
        tooltip=Tooltip(
            "rank @{rank} · "
            + ("@{name}" if fold == 1 else "collectives @{collective} to @{last}"),
            rows,
        ),
    )


def _ramp(stops: tuple[str, ...], steps: int) -> list[str]:
    """Return colours between the stops, evenly spaced."""
    known = np.array([[int(each[at : at + 2], 16) for at in (1, 3, 5)] for each in stops])
    wanted = np.linspace(0, len(stops) - 1, steps)
    mixed = [np.interp(wanted, np.arange(len(stops)), known[:, channel]) for channel in range(3)]
    return [
        "#{:02x}{:02x}{:02x}".format(*(round(float(part)) for part in parts))
        for parts in zip(*mixed, strict=True)
    ]


def stragglers(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Who keeps the others waiting",
) -> Any:
    """Draw how often each rank arrives last at a collective, alone.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.analysis.stragglers`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank; its source has the frame's rows.
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    culprit = data["score"] > 0.5
    data["fill"] = np.where(culprit, colors.late_fill, colors.idle)
    data["line"] = np.where(culprit, colors.late, colors.idle_line)
    data["score_text"] = [share(each) for each in data["score"]]
    data["imposed_wait_ns_text"] = [duration(each) for each in data["imposed_wait_ns"]]
    data["late_ns_mean_text"] = [
        duration(each) if each >= 0 else f"{duration(-each)} early" for each in data["late_ns_mean"]
    ]
    names = [f"rank {rank}" for rank in data["rank"]]
    said = ""
    if culprit.any():
        worst = data.iloc[int(data["score"].to_numpy().argmax())]
        said = f"rank {worst['rank']} is last in {worst['score_text']}"
    return rows_chart(
        data,
        names,
        [Bars(0.0, "score", "@fill", line="@line", text="score_text", text_color=colors.ink)],
        x_end=1.0,
        title=title,
        subtitle=sentences(
            "share of matched collectives at which a rank arrives last, alone",
            said or f"none of {plural(len(data), 'rank')} is last in more than half",
            extremes(names, data["score"], share),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        background=True,
        columns=[
            Column("last in", list(data["score_text"])),
            Column("the others wait", list(data["imposed_wait_ns_text"]), 420),
            Column("mean lateness", list(data["late_ns_mean_text"]), 560),
        ],
        tooltip=Tooltip(
            "rank @{rank}",
            [
                ("last in", "@{score_text}"),
                ("the others wait", "@{imposed_wait_ns_text}"),
                ("mean lateness against the median", "@{late_ns_mean_text}"),
            ],
        ),
    )

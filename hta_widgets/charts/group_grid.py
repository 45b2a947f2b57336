"""Which ranks form which process groups, and what they spend in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import UNKNOWN
from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import size

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import mixed
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.rank_groups import KIND_ORDER
from hta_widgets.charts.rank_groups import placed
from hta_widgets.charts.rows import NAMED_ROWS
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["parallel_groups"]

_MOST_COLUMNS = 8
#: Which colours follow each other: neighbours must not look alike.
_APART = (0, 5, 4, 3, 1, 6)
#: With a row a group, those in which ranks spend most.
_MOST_ROWS = 40


@draws("parallel_groups")
def parallel_groups(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Which ranks form which groups",
) -> Any:
    """Draw which group of each kind a rank is in, and what it spends there.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.parallel_groups`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a rank and a column a kind, two where a rank is in two groups of it. Cells of one
        colour are one group; in them stand the group's number, from 0 in the order of ranks, and
        the rank's position. A question mark is on guessed kinds. At the right, what a rank spends
        in each. Its source has the frame's rows. With more than 64 ranks a row is a group and
        ranks go from left to right; above 40 groups the less used ones of a kind share a row.

    Examples
    --------
    >>> charts.parallel_groups(analysis.parallel_groups(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "parallel_groups", "group", "rank", "ranks", "position", "size", "kind")
    require(frame, "parallel_groups", "guessed", "time_ns", "bytes")
    data = placed(frame)
    # That nothing is known is no guess.
    data["guessed"] = data["guessed"].to_numpy(bool) & (data["kind"] != "unknown").to_numpy()
    data["fill"], data["line"] = _tints(data["number"], colors)
    data["name"] = [
        "all ranks" if kind == "all" else f"{kind} group {number}"
        for kind, number in zip(data["kind"], data["number"], strict=True)
    ]
    data["position_text"] = [
        "–" if at < 0 else f"{at} of {of}" if of > 0 else str(at)
        for at, of in zip(data["position"], data["size"], strict=True)
    ]
    data["time_text"] = [duration(each) for each in data["time_ns"]]
    data["bytes_text"] = [_size(each) for each in data["bytes"]]
    data["members"] = [each or "–" for each in data["ranks"].astype(str)]
    data["purpose"] = [
        f"{kind}, guessed" if guess else kind
        for kind, guess in zip(data["kind"], data["guessed"], strict=True)
    ]
    said = sentences(
        _finding(data),
        "? is a guess from what the group runs and which ranks it has"
        if data["guessed"].any()
        else "",
        unmatched(frame),
    )
    draw = _of_groups if data["rank"].nunique() > NAMED_ROWS else _of_ranks
    return draw(data, said, colors, width, title)


def _of_ranks(data: pd.DataFrame, said: str, colors: Theme, width: int | None, title: str) -> Any:
    ranks = np.unique(data["rank"])
    spent = data.groupby("column")["time_ns"].sum().sort_values(ascending=False, kind="stable")
    # What most is spent in has its numbers even where there is little room.
    kept = sorted(spent.index[:_MOST_COLUMNS])
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
    heads = _heads(cells, kept)
    columns = []
    for column, head in zip(kept, heads, strict=True):
        mine = cells[cells["column"] == column].set_index("rank")
        texts = [
            f"{mine['time_text'][rank]} · {mine['bytes_text'][rank]}" if rank in mine.index else ""
            for rank in ranks
        ]
        place = spent.index.tolist().index(column)
        columns.append(Column(head, texts, 380 + 140 * place))
    return rows_chart(
        cells,
        [f"rank {rank}" for rank in ranks],
        [Bars("left", "right", "@fill", line="@line", text="text", text_color=colors.ink)],
        x_end=float(len(kept)),
        title=title,
        subtitle=sentences(
            "in a cell the group's number and the rank's position in it; times are of a rank and"
            " include waits",
            f"{plural(more, 'column')} of the least used left out" if more else "",
            said,
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at + 0.5, head) for at, head in enumerate(heads)],
        columns=columns,
        tooltip=_tooltip("rank @{rank} · @{name}"),
    )


def _of_groups(data: pd.DataFrame, said: str, colors: Theme, width: int | None, title: str) -> Any:
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
    groups["is_shown"] = _shown(groups)
    groups = groups.sort_values(["column", "is_shown", "number"], ascending=[True, False, True])
    rows: list[dict[str, Any]] = []
    row_of: dict[int, int] = {}
    for column, own in groups.groupby("column", sort=True):
        shown, left = own[own["is_shown"]], own[~own["is_shown"]]
        for code, one in zip(shown.index.tolist(), shown.to_dict("records"), strict=True):
            row_of[code] = len(rows)
            mark = " ?" if one["guessed"] else ""
            rows.append(
                {**{str(key): each for key, each in one.items()}, "name": f"{one['name']}{mark}"}
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
    cells = _runs(data)
    cells["alone"] = np.where(cells["code"].map(groups["is_shown"]), "yes", "no")
    return rows_chart(
        cells,
        [str(one["name"]) for one in rows],
        [
            # One rank is hardly a pixel: no tints, and outlines where they cover no neighbour.
            Bars("left", "right", "@line", only=("alone", "no")),
            Bars("left", "right", "@line", line="@line", only=("alone", "yes")),
        ],
        x_end=float(len(ranks)),
        title=title,
        subtitle=sentences(
            f"a row is a group, {count(len(ranks))} ranks go from left to right; times and bytes"
            " are means of a group's ranks, waits included",
            f"those of {count(len(groups))} groups in which most is spent have a row"
            if len(rows) < len(groups)
            else "",
            said,
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, f"rank {ranks[int(at)]}") for at in nice_ticks(len(ranks) - 1, 4)],
        background=True,
        columns=[
            Column("time", [duration(one["time_ns"]) for one in rows]),
            Column("bytes", [_size(one["bytes"]) for one in rows], 480),
            Column("ranks", [count(one["size"]) for one in rows], 640),
        ],
        tooltip=_tooltip("@{run} · @{name}"),
    )


def _tooltip(heading: str) -> Tooltip:
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


def _heads(cells: pd.DataFrame, kept: Sequence[int]) -> list[str]:
    """Return the columns' kinds; numbered where there are several of one."""
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


def _tints(numbers: pd.Series, colors: Theme) -> tuple[list[str], list[str]]:
    lines = [colors.category[_APART[number % len(_APART)]] for number in numbers]
    part = 0.3 if colors.name == "light" else 0.45
    tint = {line: mixed(line, colors.bg, part) for line in set(lines)}
    return [tint[line] for line in lines], lines


def _shown(groups: pd.DataFrame) -> pd.Series:
    """Return which groups have a row: the same number of each column, those with most time."""
    columns = groups["column"].nunique()
    if len(groups) <= _MOST_ROWS:
        return pd.Series(True, index=groups.index)
    most = max(1, _MOST_ROWS // columns - 1)
    order = groups.sort_values("time_ns", ascending=False, kind="stable")
    place = order.groupby("column").cumcount().reindex(groups.index)
    alone = groups.groupby("column")["time_ns"].transform("size") <= most + 1
    return (place < most) | alone


def _runs(data: pd.DataFrame) -> pd.DataFrame:
    """Return adjacent ranks of a group as one bar, with their times and bytes as means."""
    data = data.sort_values(["row", "left"], kind="stable").reset_index(drop=True)
    code, left = data["code"].to_numpy(), data["left"].to_numpy()
    begins = np.append(True, (np.diff(code) != 0) | (np.diff(left) != 1))
    run = np.cumsum(begins) - 1
    found = data[begins].reset_index(drop=True)
    grouped = data.groupby(run)
    found["right"] = grouped["right"].max().to_numpy()
    sizes = grouped.size().to_numpy()
    last = grouped["rank"].max().to_numpy()
    found["run"] = [
        f"rank {first}" if many == 1 else f"ranks {first}–{end}"
        for first, end, many in zip(found["rank"], last, sizes, strict=True)
    ]
    found["position_text"] = [
        text if many == 1 else f"from {text}"
        for text, many in zip(found["position_text"], sizes, strict=True)
    ]
    found["time_text"] = [duration(each) for each in grouped["time_ns"].mean()]
    found["bytes_text"] = [_size(each) for each in grouped["bytes"].mean()]
    return found


def _size(number: float) -> str:
    return UNKNOWN if not number >= 0 else size(number)


def _finding(data: pd.DataFrame) -> str:
    groups = data.drop_duplicates("code")
    told = []
    for kind in dict.fromkeys([*KIND_ORDER, *groups["kind"]]):
        own = groups[groups["kind"] == kind]
        if own.empty:
            continue
        sizes = sorted({int(each) for each in own["size"] if each > 0})
        of = f" of {sizes[0]}" if len(sizes) == 1 else ""
        of = f" of {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else of
        if kind == "all":
            told.append(f"{'one' if len(own) == 1 else count(len(own))} of all ranks")
        else:
            told.append(plural(len(own), f"{kind} group") + of)
    return f"{plural(len(groups), 'group')}: {', '.join(told)}"

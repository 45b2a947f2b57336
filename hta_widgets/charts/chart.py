"""Draw charts of rows whose texts are templates over the columns of their data.

A chart is a public function of a frame, or of traces, whose analysis `analysis_frame` runs. It ends
in one drawing call: `draw_definition` for charts that dashboards show, `empty_figure` with the
reason why there is nothing to draw, or `draw_rows` with a `RowsContent`::

    return draw_rows(
        RowsContent(
            data=data,  # columns name, sum_ns, share
            names="{name}",
            marks=[Bars(0.0, "sum_ns", theme.idle)],
            scale=time_scale(data["sum_ns"].max()),
            columns=[Column("total", "{sum_ns:duration}")],
            tooltip=Tooltip("@{name}", [("share", "{share:share}")]),
        ),
        style.with_subtitle("device time by name", unmatched_note(frame)),
    )

A template has the expressions and formats of chart definitions (`language`); ``@{name}`` is Bokeh's
own syntax for the value of a column.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from hta_widgets.charts.figure import Figure, FigureStyle
from hta_widgets.charts.language import column, fill_template, is_rows
from hta_widgets.charts.rows import RowsContent, Tooltip, rows_chart


def draw_rows(content: RowsContent, style: FigureStyle) -> Figure:
    """Return a figure of rows, after filling the templates of its texts."""
    data = content.data
    if "row" not in data:
        data["row"] = np.arange(len(data))
    names = content.names
    columns = [
        replace(column, texts=row_texts(data, column.texts))
        if isinstance(column.texts, str)
        else column
        for column in content.columns
    ]
    filled = replace(
        content,
        names=row_texts(data, names) if isinstance(names, str) else names,
        columns=columns,
        tooltip=content.tooltip and with_tooltip_columns(data, content.tooltip),
    )
    return rows_chart(filled, style)


def row_texts(data: pd.DataFrame, template: str) -> list[str]:
    """Return a template's text for each row."""
    # Only the columns that the template may name: converting all of them takes a while.
    scope = {str(name): column(data[name]) for name in data if str(name) in template}
    filled = fill_template(template, scope)
    return list(filled) if is_rows(filled) else [str(filled)] * len(data)


def with_tooltip_columns(data: pd.DataFrame, tooltip: Tooltip) -> Tooltip:
    """Add a column of texts for each template of a tooltip; return a tooltip that names them."""

    def place(template: str, name: str) -> str:
        if "@" in template or "{" not in template:
            return template
        data[name] = row_texts(data, template)
        return f"@{{{name}}}"

    lines = [
        (label, place(template, f"tip_{index}"))
        for index, (label, template) in enumerate(tooltip.rows)
    ]
    return Tooltip(place(tooltip.heading, "tip_heading"), lines)

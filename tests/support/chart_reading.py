"""Read texts and marks from the Bokeh models of a chart."""

import pandas as pd
from bokeh.models import HBar, Plot, Title


def plots(chart) -> list:
    return list(chart.select({"type": Plot})) if not isinstance(chart, Plot) else [chart]


def data_of(figure, *columns) -> pd.DataFrame:
    """Return the data of the only source with these columns."""
    result = [
        renderer.data_source
        for renderer in figure.renderers
        if set(columns) <= set(renderer.data_source.data)
    ]
    assert result, f"no source has {columns}"
    assert len({source.id for source in result}) == 1, f"several sources have {columns}"
    return pd.DataFrame(dict(result[0].data))


def words_of(figure) -> str:
    titles = [each for each in figure.above if isinstance(each, Title)]
    return " ".join(each.text.replace("\n", " ") for each in [figure.title, *titles])


def bars_of(figure) -> list:
    return [each for each in figure.renderers if isinstance(each.glyph, HBar) and each.visible]


def right_of(figure, column=0) -> list[str]:
    axis = figure.right[column]
    return [axis.major_label_overrides[at].replace("\u202f", " ") for at in axis.ticker.ticks]

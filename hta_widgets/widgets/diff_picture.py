"""Both timelines of a comparison as one vector picture."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.svg.stacked import LEAST_BESIDE_PX
from hta_widgets.export.svg.stacked import side_width
from hta_widgets.export.svg.stacked import stacked_svg
from hta_widgets.export.svg.picture import timeline_svg
from hta_widgets.widgets.diff_sides import SIDES
from hta_widgets.widgets.timeline import Timeline

__all__ = ["diff_svg"]


def diff_svg(
    sides: Sequence[Timeline],
    answers: DiffAnswers,
    *,
    color: str,
    arrange: str,
    pair: int | None,
    width: float,
    theme: str,
) -> str:
    """Return the picture, arranged and coloured as a page is that shows these timelines.

    Parameters
    ----------
    sides : two of Timeline
        Before and after.
    answers : DiffAnswers
    color, arrange, pair
        As of `TraceDiff`.
    width : float
        Of the picture, in px; too narrow for both beside each other, they are stacked.
    theme : {"light", "dark"}
    """
    both = answers.both
    ranks = None if pair is None else both.rank_pairs[pair]
    is_beside = arrange == "beside" and width >= LEAST_BESIDE_PX
    drawn = [
        timeline_svg(
            view.engine,
            {**view.scene, "title": f"{word}: {side.label}"},
            {**view.state.snapshot(), "color": color},
            width=side_width(width) if is_beside else width,
            height=view.height,
            theme=theme,
            folded=view.folded,
            only=None if ranks is None else [ranks[place]],
            classed=answers.classed(place, theme) if color == "change" else None,
        )
        for place, (view, word, side) in enumerate(zip(sides, SIDES, both.sides, strict=True))
    ]
    return stacked_svg(drawn, beside=is_beside)

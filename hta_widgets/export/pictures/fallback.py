"""Text and a picture for outputs of notebooks, shown where their widgets cannot run.

Jupyter stores every form of an output, and a front end shows the first one that it can. GitHub,
nbviewer, nbconvert, and JupyterLab without a kernel show the HTML that is made here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hta_widgets.export.pictures.drawing import stacked_svg
from hta_widgets.export.pictures.picture import timeline_svg
from hta_widgets.live.job import TileEngine
from hta_widgets.text import duration, plural

#: Maximum size of the HTML, which notebooks store.
_MAX_BYTES = 150_000
#: Maximum number of events that are drawn; the picture then takes about 0.1 s.
_MAX_DRAWN_EVENTS = 1_000_000
_WIDTH, _HEIGHT = 900, 360


@dataclass(frozen=True)
class Fallback:
    """The title, sentences and pictures of a view; each picture is left out if it is too large."""

    title: str
    sentences: Sequence[str] = ()
    pictures: Sequence[str] = ()

    def text(self) -> str:
        """Return the title and the sentences, a line each."""
        return "\n".join((self.title, *self.sentences))

    def add_to(self, bundle: Any) -> Any:
        """Return a widget's bundle of MIME types, or such a bundle and metadata, with this text."""
        forms = {"text/plain": self.text(), "text/html": self.html()}
        if isinstance(bundle, tuple):
            return ({**bundle[0], **forms}, *bundle[1:])
        return bundle if bundle is None else {**bundle, **forms}

    def html(self) -> str:
        """Return the sentences, and the pictures as one image below each other."""
        first, *others = self.sentences or (self.title,)
        paragraphs = [f"<p><b>{escape(first)}</b></p>"]
        paragraphs += [f"<p>{escape(' '.join(others))}</p>"] if others else []
        text = "\n".join(paragraphs)
        # If all pictures are too large together, the first may fit.
        images = (self._image(pictures) for pictures in (self.pictures, self.pictures[:1]))
        fitting = (image for image in images if len(text) + len(image) <= _MAX_BYTES)
        # JupyterLab's extension looks for the class; see js/lab/fallback.ts.
        return f'<div class="hta-fallback">\n{text}{next(fitting, "")}\n</div>'

    def _image(self, pictures: Sequence[str]) -> str:
        if not pictures:
            return ""
        data = base64.b64encode(stacked_svg(pictures).encode()).decode()
        # Front ends remove SVG from the HTML of outputs, but keep images.
        return f'\n<img alt="{escape(self.title)}" src="data:image/svg+xml;base64,{data}">'


def timeline_fallback(
    engine: TileEngine, scene: Mapping[str, Any], state: Mapping[str, Any], *, width: int = _WIDTH
) -> Fallback:
    """Return the title and the picture of a timeline, in which similar ranks share rows."""
    low, high = scene["range"]
    ranks, events = plural(len(scene["ranks"]), "rank"), plural(scene["events"], "event")
    title = f"{scene['title']} · {ranks} · {events} · {duration(high - low)}"
    if not 0 < scene["events"] <= _MAX_DRAWN_EVENTS:
        return Fallback(title)
    is_folded = len(scene["ranks"]) > 1
    picture = timeline_svg(engine, scene, state, width=width, height=_HEIGHT, folded=is_folded)
    return Fallback(title, pictures=[picture])

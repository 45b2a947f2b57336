"""Shapes and text as SVG, as few characters as say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Literal

import numpy as np
import numpy.typing as npt

from hta_widgets.export.svg.fonts import FAMILY
from hta_widgets.export.svg.fonts import SIZE_PX

__all__ = ["Drawing", "Numbers", "mixed", "number"]

Anchor = Literal["start", "end", "middle"]
Numbers = npt.NDArray[np.float64]

#: What XML 1.0 cannot hold: most control characters, and halves of surrogate pairs.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """Return a coordinate with two decimals, without what says nothing."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def numbers(values: Numbers) -> list[str]:
    """Return coordinates as texts."""
    return [number(value) for value in values.tolist()]


def mixed(over: str, under: str, share: float) -> str:
    """Return `share` of one colour over another."""
    pairs = zip(_channels(over), _channels(under), strict=True)
    return "#" + "".join(f"{int(a * share + b * (1 - share) + 0.5):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


class Drawing:
    """Collects shapes, the first of them lowest."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._fill = ""
        self._paths: list[str] = []

    # --- shapes -----------------------------------------------------------------------------------

    def path(self, data: str, fill: str) -> None:
        """Fill a path; what is filled alike one after the other is one path."""
        if not data:
            return
        if fill != self._fill:
            self._flush()
            self._fill = fill
        self._paths.append(data)

    def rect(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """Fill a rectangle."""
        if width <= 0 or height <= 0:
            return
        w = number(width)
        self.path(f"M{number(x)} {number(y)}h{w}v{number(height)}h-{w}z", fill)

    def rects(self, left: Numbers, right: Numbers, y: float, height: float, fill: str) -> None:
        """Fill rectangles of one height."""
        top, down = number(y), number(height)
        data = [
            f"M{x} {top}h{w}v{down}h-{w}z"
            for x, w in zip(numbers(left), numbers(right - left), strict=True)
        ]
        self.path("".join(data), fill)

    def frame(
        self, x: float, y: float, width: float, height: float, colour: str, line: float = 1
    ) -> None:
        """Draw the border of a rectangle, inside of it."""
        if width <= 0 or height <= 0:
            return
        self._flush()
        half = line / 2
        size = f'width="{number(max(width - line, 0.01))}" height="{number(height - line)}"'
        at = f'x="{number(x + half)}" y="{number(y + half)}"'
        wide = "" if line == 1 else f' stroke-width="{number(line)}"'
        self._parts.append(f'<rect {at} {size} fill="none" stroke="{colour}"{wide}/>')

    def frames(self, left: Numbers, right: Numbers, y: float, height: float, colour: str) -> None:
        """Draw the borders of rectangles of one height, inside of them."""
        if not len(left):
            return
        self._flush()
        inside = np.maximum(right - left - 1, 0.01)
        down = number(height - 1)
        data = [
            f"M{x} {number(y + 0.5)}h{w}v{down}h-{w}z"
            for x, w in zip(numbers(left + 0.5), numbers(inside), strict=True)
        ]
        self._parts.append(f'<path d="{"".join(data)}" fill="none" stroke="{colour}"/>')

    def horizontal(self, y: float, x0: float, x1: float, colour: str) -> None:
        """Draw a line of one px below `y`."""
        self.rect(x0, y, x1 - x0, 1, colour)

    def vertical(self, x: float, y0: float, y1: float, colour: str) -> None:
        """Draw a line of one px right of `x`."""
        self.rect(x, y0, 1, y1 - y0, colour)

    def dashed(self, x: float, y0: float, y1: float, colour: str) -> None:
        """Draw a line of dashes downwards: 2 px on, 3 off."""
        self._flush()
        data = f"M{number(x + 0.5)} {number(y0)}V{number(y1)}"
        self._parts.append(f'<path d="{data}" stroke="{colour}" stroke-dasharray="2 3"/>')

    # --- text -------------------------------------------------------------------------------------

    def text(
        self,
        x: float,
        y: float,
        text: str,
        fill: str,
        *,
        anchor: Anchor = "start",
        bold: bool = False,
        size: float = SIZE_PX,
    ) -> None:
        """Write text with its baseline at `y`."""
        if not text:
            return
        self._flush()
        more = "" if anchor == "start" else f' text-anchor="{anchor}"'
        if bold:
            more += ' font-weight="600"'
        if size != SIZE_PX:
            more += f' font-size="{number(size)}"'
        at = f'x="{number(x)}" y="{number(y)}"'
        self._parts.append(f'<text {at} fill="{fill}"{more}>{clean(text)}</text>')

    # --- the file ---------------------------------------------------------------------------------

    def svg(
        self, width: float, height: float, *, title: str, description: str, patterns: Sequence[str]
    ) -> str:
        """Return the whole picture."""
        self._flush()
        size = f'width="{number(width)}" height="{number(height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {number(width)} {number(height)}" role="img">\n'
            f"<title>{clean(title)}</title>\n<desc>{clean(description)}</desc>\n"
            f"<defs>{''.join(patterns)}</defs>\n"
            f'<g font-family="{escape(FAMILY)}" font-size="{SIZE_PX}">\n'
            + "\n".join(self._parts)
            + "\n</g>\n</svg>\n"
        )

    def _flush(self) -> None:
        if self._paths:
            self._parts.append(f'<path d="{"".join(self._paths)}" fill="{self._fill}"/>')
        self._paths, self._fill = [], ""


def clean(text: str) -> str:
    """Return a text as XML may hold it."""
    return escape(_NO_XML.sub("\ufffd", text), quote=False)

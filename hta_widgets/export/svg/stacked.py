"""Several pictures as one, one above the other or beside each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["LEAST_BESIDE_PX", "side_width", "stacked_svg"]

_GAP_PX = 12
#: Narrower than this, two pictures beside each other would leave no room for their lanes.
LEAST_BESIDE_PX = 900
_SIZE = re.compile(r'<svg[^>]*?\swidth="([\d.]+)"[^>]*?\sheight="([\d.]+)"')
_ID = re.compile(r'\bid="([^"]+)"')


def side_width(width: float) -> float:
    """Return how wide each of two pictures is that are beside each other in `width` px."""
    return (width - _GAP_PX) / 2


def stacked_svg(pictures: Sequence[str], *, beside: bool = False) -> str:
    """Return SVG pictures as one, one above the other.

    Parameters
    ----------
    pictures : sequence of str
        Each with its ``width`` and ``height`` in px.
    beside : bool
        Beside each other instead.
    """
    sizes = [[float(one) for one in _size_of(text)] for text in pictures]
    along = 0 if beside else 1
    whole = [max(lengths) for lengths in zip(*sizes, strict=True)]
    whole[along] = sum(size[along] for size in sizes) + _GAP_PX * (len(sizes) - 1)
    width, height = whole
    parts, at = [], 0.0
    for number, (text, size) in enumerate(zip(pictures, sizes, strict=True)):
        inner = _with_own_ids(text[text.index("<svg") :], f"p{number}-")
        parts.append(inner.replace("<svg", f'<svg {"xy"[along]}="{at:g}"', 1))
        at += size[along] + _GAP_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(parts)}</svg>'
    )


def _size_of(text: str) -> tuple[str, str]:
    found = _SIZE.search(text)
    if found is None:
        raise ValueError("a picture without width and height")
    return found[1], found[2]


def _with_own_ids(text: str, prefix: str) -> str:
    """Return the text with ids, and what refers to them, that no other picture has."""
    for name in set(_ID.findall(text)):
        text = text.replace(f'id="{name}"', f'id="{prefix}{name}"')
        text = text.replace(f"url(#{name})", f"url(#{prefix}{name})")
        text = text.replace(f'href="#{name}"', f'href="#{prefix}{name}"')
    return text

"""How wide text is, and which part of it fits, where no font can be asked."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FAMILY", "SIZE_PX", "first_fit", "fitted", "text_width"]

FAMILY = (
    "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', "
    "'DejaVu Sans Condensed', 'DejaVu Sans', sans-serif"
)
SIZE_PX = 11

ELLIPSIS = "…"
#: A cut label must keep this many characters, else it says nothing.
FEWEST = 4

#: Advances of the characters from space to ~ in thousandths of the font's size. Of the widest
#: font that is likely to be used, so that no label is wider than what was kept free for it.
_PLAIN = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
_OTHER = {"…": 1000, "·": 318, "–": 500, "\u2039": 400, "\u203a": 400, "µ": 636, "−": 838, "×": 838}
_THIN = {"\u2009": 200, "\u202f": 200}
#: Letters of alphabets beyond ASCII, most of which are no wider.
_UNKNOWN = 1000
#: Bold letters are wider by about so much.
_BOLD = 1.12


def text_width(text: str, *, bold: bool = False, size: float = SIZE_PX) -> float:
    """Return the width of a text in px."""
    units = sum(map(_advance, text))
    return units * size / 1000 * (_BOLD if bold else 1)


def _advance(character: str) -> int:
    place = ord(character) - 32
    if 0 <= place < len(_PLAIN):
        return _PLAIN[place]
    return _OTHER.get(character) or _THIN.get(character) or _UNKNOWN


def fitted(text: str, room: float, *, bold: bool = False) -> str:
    """Return the longest form of a text that fits: whole, cut with an ellipsis, or nothing."""
    if text_width(text, bold=bold) <= room:
        return text
    left = room - text_width(ELLIPSIS, bold=bold)
    kept = 0
    for character in text:
        left -= text_width(character, bold=bold)
        if left < 0:
            break
        kept += 1
    return "" if kept < FEWEST else text[:kept].rstrip() + ELLIPSIS


def first_fit(texts: Sequence[str], room: float, *, bold: bool = False) -> str:
    """Return the first text that fits whole: a number is dropped rather than cut."""
    return next((text for text in texts if text_width(text, bold=bold) <= room), "")

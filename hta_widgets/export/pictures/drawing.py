"""Draw SVG pictures of timelines: shapes, text fitted to a given width, and event colors.

`Drawing` collects shapes from back to front. Timelines contain tens of thousands of rectangles, so
consecutive shapes of the same color are merged into one path. Text widths are estimated from a
table of character widths, since no browser is available to measure them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.charts.theme import FONT, Theme, blend, color_channels
from hta_widgets.facts import facts
from hta_widgets.live.comparison import DiffAnswers
from hta_widgets.live.pair_table import BINS, CLASSES
from hta_widgets.trace.arrays import Codes, Floats, Ints

SIZE_PX = 11

ELLIPSIS = "…"
#: Minimum number of characters in a truncated label. Shorter labels are omitted.
MIN_LETTERS = 4

#: Widths of the characters from space to ~ in the widest likely font, in thousandths of the font
#: size, so that labels never exceed the space reserved for them.
_PLAIN = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
_OTHER = {
    "\u202f": 200, "…": 1000, "·": 318, "–": 500, "\u2039": 400, "\u203a": 400, "µ": 636, "−": 838,
    "×": 838,
}  # fmt: skip
#: Assumed width of all other characters. Few of them are wider.
_UNKNOWN = 1000
#: Approximate ratio of bold to regular character widths.
_BOLD = 1.12


def text_width(text: str, *, bold: bool = False) -> float:
    """Return the estimated width of text in px."""
    units = sum(map(_advance, text))
    return units * SIZE_PX / 1000 * (_BOLD if bold else 1)


def _advance(character: str) -> int:
    index = ord(character) - ord(" ")
    if 0 <= index < len(_PLAIN):
        return _PLAIN[index]
    return _OTHER.get(character) or _UNKNOWN


def fit_text(text: str, width: float, *, bold: bool = False) -> str:
    """Truncate text to `width` with an ellipsis; return "" if fewer than `MIN_LETTERS` remain."""
    if text_width(text, bold=bold) <= width:
        return text
    left = width - text_width(ELLIPSIS, bold=bold)
    length = 0
    for character in text:
        left -= text_width(character, bold=bold)
        if left < 0:
            break
        length += 1
    return "" if length < MIN_LETTERS else text[:length].rstrip() + ELLIPSIS


def first_text_that_fits(texts: Sequence[str], width: float, *, bold: bool = False) -> str:
    """Return the first text that fits, or "". Unlike with `fit_text`, nothing is truncated."""
    return next((text for text in texts if text_width(text, bold=bold) <= width), "")


Anchor = Literal["start", "end", "middle"]
Form = Literal["solid", "pale", "bar", "counter"]

#: Characters not allowed in XML 1.0: most control characters, surrogates, U+FFFE and U+FFFF.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """Format a coordinate with up to two decimals, without trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def numbers(values: Floats) -> list[str]:
    """Format several coordinates."""
    return [number(value) for value in values.tolist()]


def _boxes_path(left: Floats, widths: Floats, y: float, height: float) -> str:
    top, down = number(y), number(height)
    boxes = zip(numbers(left), numbers(widths), strict=True)
    return "".join(f"M{x} {top}h{width}v{down}h-{width}z" for x, width in boxes)


#: (left, top, width, height) of a rectangle.
Box = tuple[float, float, float, float]
#: (left, baseline, text) of a label.
Label = tuple[float, float, str]


class Drawing:
    """Collects shapes. Later shapes cover earlier ones."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._fill = ""  # attributes of the pending paths
        self._paths: list[str] = []

    def path(self, data: str, color: str, opacity: float = 1) -> None:
        """Fill a path. Consecutive paths of the same color are merged."""
        if not data:
            return
        fill = f'fill="{color}"' if opacity == 1 else f'fill="{color}" fill-opacity="{opacity}"'
        if fill != self._fill:
            self._flush_paths()
            self._fill = fill
        self._paths.append(data)

    def rect(
        self, x: float, y: float, width: float, height: float, color: str, opacity: float = 1
    ) -> None:
        """Fill a rectangle."""
        if width <= 0 or height <= 0:
            return
        w = number(width)
        self.path(f"M{number(x)} {number(y)}h{w}v{number(height)}h-{w}z", color, opacity)

    def rects(self, left: Floats, right: Floats, y: float, height: float, color: str) -> None:
        """Fill rectangles of equal height."""
        self.path(_boxes_path(left, right - left, y, height), color)

    def frame(
        self, x: float, y: float, width: float, height: float, color: str, line: float = 1
    ) -> None:
        """Draw a border inside the edges of a rectangle."""
        if width <= 0 or height <= 0:
            return
        self._flush_paths()
        half = line / 2
        size = f'width="{number(max(width - line, 0.01))}" height="{number(height - line)}"'
        corner = f'x="{number(x + half)}" y="{number(y + half)}"'
        wide = "" if line == 1 else f' stroke-width="{number(line)}"'
        self._parts.append(f'<rect {corner} {size} fill="none" stroke="{color}"{wide}/>')

    def frames(self, left: Floats, right: Floats, y: float, height: float, color: str) -> None:
        """Draw borders inside the edges of rectangles of equal height."""
        if not len(left):
            return
        self._flush_paths()
        inner_widths = np.maximum(right - left - 1, 0.01)
        data = _boxes_path(left + 0.5, inner_widths, y + 0.5, height - 1)
        self._parts.append(f'<path d="{data}" fill="none" stroke="{color}"/>')

    def horizontal(self, y: float, x0: float, x1: float, color: str) -> None:
        """Draw a horizontal 1 px line with its top edge at `y`."""
        self.rect(x0, y, x1 - x0, 1, color)

    def vertical(self, x: float, y0: float, y1: float, color: str, opacity: float = 1) -> None:
        """Draw a vertical 1 px line with its left edge at `x`."""
        self.rect(x, y0, 1, y1 - y0, color, opacity)

    def dashed_line(self, x: float, y0: float, y1: float, color: str) -> None:
        """Draw a vertical line with 2 px dashes and 3 px gaps."""
        self._flush_paths()
        data = f"M{number(x + 0.5)} {number(y0)}V{number(y1)}"
        self._parts.append(f'<path d="{data}" stroke="{color}" stroke-dasharray="2 3"/>')

    def dotted_lines(self, left: Floats, right: Floats, y: float, color: str) -> None:
        """Draw dotted horizontal lines centered at `y`, with 2 px dots and 2 px gaps."""
        if not len(left):
            return
        self._flush_paths()
        y_text = number(y)
        ends = zip(numbers(left), numbers(right), strict=True)
        data = "".join(f"M{x0} {y_text}H{x1}" for x0, x1 in ends)
        dots = 'stroke-width="2" stroke-dasharray="2 2"'
        self._parts.append(f'<path d="{data}" fill="none" stroke="{color}" {dots}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        fill: str,
        *,
        anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:
        """Draw text with its baseline at `y`."""
        if not text:
            return
        self._flush_paths()
        style = "" if anchor == "start" else f' text-anchor="{anchor}"'
        if bold:
            style += ' font-weight="600"'
        point = f'x="{number(x)}" y="{number(y)}"'
        self._parts.append(f'<text {point} fill="{fill}"{style}>{escape_xml(text)}</text>')

    def texts_inside(self, box: Box, labels: Sequence[Label], fill: str) -> None:
        """Draw labels, clipped to a box."""
        left, top, width, height = box
        inside = [
            (x, y, text)
            for x, y, text in labels
            if top < y <= top + height and x < left + width and x + text_width(text) > left
        ]
        if width <= 0 or not inside:
            return
        self._flush_paths()
        edges = [number(edge) for edge in box]
        size = "x={} y={} width={} height={}".format(*(f'"{edge}"' for edge in edges))
        # A nested <svg> clips without needing a clipPath id, which could clash with other pictures.
        self._parts.append(f'<svg {size} viewBox="{" ".join(edges)}">')
        for x, y, text in inside:
            self.text(x, y, text, fill)
        self._parts.append("</svg>")

    def svg(
        self, width: float, height: float, *, title: str, description: str, patterns: Sequence[str]
    ) -> str:
        """Return the whole drawing as SVG."""
        self._flush_paths()
        size = f'width="{number(width)}" height="{number(height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {number(width)} {number(height)}" role="img">\n'
            f"<title>{escape_xml(title)}</title>\n<desc>{escape_xml(description)}</desc>\n"
            f"<defs>{''.join(patterns)}</defs>\n"
            f'<g font-family="{escape(FONT)}" font-size="{SIZE_PX}">\n'
            + "\n".join(self._parts)
            + "\n</g>\n</svg>\n"
        )

    def _flush_paths(self) -> None:
        """Write the pending paths as a single element."""
        if self._paths:
            self._parts.append(f'<path d="{"".join(self._paths)}" {self._fill}/>')
        self._paths, self._fill = [], ""


def escape_xml(text: str) -> str:
    """Escape text for XML."""
    return escape(_NO_XML.sub("\ufffd", text), quote=False)


#: Opacities of colors blended with the background, for columns, bars and rows of late ranks.
_PALE_COLUMN, _BAR, _LATE_TINT = 0.55, 0.75, 0.07
_FAINT, _CLASS_HATCH_GROUND, _CLASS_TINT = 0.45, 0.16, 0.3
_CLASS_COLUMNS: Mapping[Form, float] = {"pale": 0.75}
_PALE_KINDS = {"cpu", "annotation"}
_RAMP_STEPS = 8
#: Number of shades per kind, used to distinguish names.
_SHADES = 3


@dataclass(frozen=True)
class Paint:
    """The appearance of events of one kind or class.

    `fill` is a color or the URL of a hatch pattern. If `pale` is set, rectangles are filled with
    `tint` and only their left edge with `fill`, even in device lanes.
    """

    color: str
    fill: str
    tint: str
    text: str
    columns: Mapping[Form, float]  # opacities of columns, by form (default: 1)
    pale: bool = False
    edge_px: float = 2


class PictureColors:
    """The colors of a picture, including a `Paint` for each shade of each kind or class."""

    def __init__(self, theme: Theme, kinds: Sequence[str], classed: EventClassing | None) -> None:
        self.theme = theme
        self.wait_pattern = f"url(#hta-wait-{theme.name})"
        self.no_data_pattern = f"url(#hta-none-{theme.name})"
        self.late_ground = blend(theme.late, theme.bg, _LATE_TINT)
        self.counter_fill = blend(theme.ink2, theme.lane, 0.2)
        self.counter_range = blend(theme.ink2, theme.lane, 0.4)
        self.counter_line = blend(theme.ink2, theme.lane, 0.8)
        self.patterns = [
            hatch(f"hta-wait-{theme.name}", theme.wait_fill, theme.wait_line),
            hatch(f"hta-none-{theme.name}", theme.bg, blend(theme.rule_strong, theme.bg, 0.32)),
        ]
        if classed is None:
            self._paints = [
                [self._kind_paint(kind, shade) for shade in range(_SHADES)]
                + (self._host_paints() if kind == "cpu" else [])
                for kind in kinds
            ]
        else:
            self._paints = [
                [self._class_paint(code, style)] * _SHADES
                for code, style in enumerate(classed.styles)
            ]

    def paint(self, code: int, shade: int = 0) -> Paint:
        """Return the appearance of a kind or class."""
        return self._paints[code][shade]

    def ground(self, form: Form) -> str:
        """Return the background color of a lane."""
        return self.theme.lane if form in {"solid", "counter"} else self.theme.bg

    def column(self, code: int, form: Form) -> str:
        """Return the color of a column of short events."""
        paint = self.paint(code)
        return blend(paint.color, self.ground(form), paint.columns.get(form, 1))

    def _kind_paint(self, kind: str, shade: int) -> Paint:
        theme, tokens = self.theme, facts("tokens")[self.theme.name]
        color: str = tokens["nameShades"][kind][shade] if shade else theme.kind[kind]
        is_annotation, pale = kind == "annotation", kind in _PALE_KINDS
        tint = tokens["annotationTint" if is_annotation else "cpuTint"]
        on_device = _PALE_COLUMN if pale else 1
        return Paint(
            color=color,
            fill=color,
            tint=blend(color, theme.bg, tint),
            text=self._text_color_on(color) if shade else theme.on_kind[kind],
            columns={"bar": _BAR, "pale": _PALE_COLUMN, "solid": on_device, "counter": on_device},
            pale=pale,
            edge_px=2 if is_annotation else 1.5,
        )

    def _host_paints(self) -> list[Paint]:
        tokens, plain = facts("tokens")[self.theme.name], self._kind_paint("cpu", 0)
        return [
            replace(plain, fill=hue, tint=blend(hue, self.theme.bg, tokens["hostTint"]))
            for hue in tokens["hostHues"]
        ]

    def _class_paint(self, code: int, style: ClassStyle) -> Paint:
        theme, columns = self.theme, _CLASS_COLUMNS
        full = blend(style.color, theme.lane, _FAINT) if style.is_faint else style.color
        if not style.is_hatched:
            tint = blend(full, theme.bg, _CLASS_TINT)
            return Paint(full, full, tint, self._text_color_on(full), columns)
        name, ground = f"hta-class-{code}-{theme.name}", blend(full, theme.bg, _CLASS_HATCH_GROUND)
        self.patterns.append(hatch(name, ground, style.color))
        pattern = f"url(#{name})"
        return Paint(full, pattern, pattern, self._text_color_on(ground), columns)

    def _text_color_on(self, color: str) -> str:
        """Return the text color that has the higher contrast with a background color."""
        dark = self.theme.on_kind["compute"] if self.theme.name == "dark" else self.theme.ink
        is_light = (luminance(color) + 0.05) ** 2 > 1.05 * (luminance(dark) + 0.05)
        return dark if is_light else "#ffffff"

    def shade(self, name: str, *, host: bool = False) -> int:
        """Return the shade of a short name: the same for all ranks and runs, and as in the page."""
        digest = 0x811C9DC5  # 32-bit FNV-1a
        for byte in name.encode("utf-8", "surrogatepass"):
            digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
        if host:
            return _SHADES + digest % len(facts("tokens")[self.theme.name]["hostHues"])
        return digest % _SHADES

    def waiting(self, share: float) -> str:
        """Return the color for a lateness from 0 to 1, interpolated between the theme's stops."""
        stops = self.theme.waiting
        steps = (len(stops) - 1) * _RAMP_STEPS
        step = max(math.ceil(share * steps), 0)
        stop = min(step // _RAMP_STEPS, len(stops) - 2)
        return blend(stops[stop + 1], stops[stop], step / _RAMP_STEPS - stop)


def hatch(name: str, ground: str, line: str) -> str:
    """Return an SVG pattern of diagonal lines on a background."""
    return (
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse">'
        f'<path d="M0 0h5v5h-5z" fill="{ground}"/>'
        f'<path d="M-1 1L1 -1M0 5L5 0M4 6L6 4" stroke="{line}" fill="none"/></pattern>'
    )


def luminance(color: str) -> float:
    """Return the relative luminance of a color, from 0 to 1, as defined by WCAG."""
    channels = [channel / 255 for channel in color_channels(color)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@dataclass(frozen=True)
class ClassStyle:
    """The appearance of an event class. Hatching distinguishes classes without relying on color."""

    color: str
    is_hatched: bool = False
    is_faint: bool = False


@dataclass(frozen=True)
class ClassParts:
    """The share (0 to 1) of each class in device work, for equal parts of a time range."""

    start_ns: int
    end_ns: int
    shares: Mapping[int, Floats]

    def at(self, times: Floats) -> Iterator[tuple[int, Floats]]:
        """Yield each class with its shares at the given times. Shares outside the range are 0."""
        for code, shares in self.shares.items():
            position = (times - self.start_ns) / max(self.end_ns - self.start_ns, 1) * len(shares)
            is_inside = (position >= 0) & (position <= len(shares))
            part = np.clip(position.astype(np.int64), 0, len(shares) - 1)
            yield code, np.where(is_inside, shares[part], 0)


@dataclass(frozen=True)
class EventClassing:
    """A classification of events, with the styles of the classes and their legend groups."""

    classes_of: Callable[[int], Codes | None]
    styles: Sequence[ClassStyle]
    groups: Sequence[tuple[str, Sequence[int]]]
    parts: ClassParts | None = None


def class_events(answers: DiffAnswers, side: int, theme: str) -> EventClassing:
    """Classify the events of one side by how they changed."""
    has_class = np.any(answers.pair_table.classes.counts()["counts"], axis=0)
    groups = [(name, [code for code in codes if has_class[code]]) for name, codes in _GROUPS]
    return EventClassing(
        partial(answers.classes_of, side),
        class_styles(theme),
        [(name, codes) for name, codes in groups if codes],
        class_parts(answers.overview, side),
    )


def class_parts(overview: pd.DataFrame, side: int) -> ClassParts | None:
    """Return the share of each class in a side's device work, or None if it has no such work.

    The classes are in legend order, from the bottom to the top of the minimap.
    """
    word = ("before", "after")[side]
    if f"{word}_start_ns" not in overview.attrs:
        return None
    times = {
        code: overview[f"{word}_{code}"].to_numpy(np.float64)
        for _, codes in _GROUPS
        for code in codes
        if f"{word}_{code}" in overview
    }
    total = sum(times.values(), np.zeros(BINS))
    shares = {
        code: np.divide(time, total, out=np.zeros(BINS), where=total > 0)
        for code, time in times.items()
    }
    span = overview.attrs[f"{word}_start_ns"], overview.attrs[f"{word}_end_ns"]
    return ClassParts(*span, shares)


def bound_classing(classes_of: Callable[[int], Codes | None], theme: str) -> EventClassing:
    """Classify events by their limiting factor."""
    styles = [*class_styles(theme), *class_styles(theme, "bound_classes")]
    return EventClassing(classes_of, styles, _class_groups("bound_classes", len(CLASSES)))


def _class_groups(of: str, first_code: int = 0) -> list[tuple[str, list[int]]]:
    """Return the legend groups with the codes of their classes, most important first."""
    names = list(facts(of)["light"])
    return [
        (group["name"], [first_code + names.index(name) for name in group["classes"]])
        for group in facts(of)["groups"]
    ]


_GROUPS = _class_groups("event_classes")


def class_styles(theme: str, of: str = "event_classes") -> list[ClassStyle]:
    """Return the style of each class, indexed by code. Unknown themes use the light colors."""
    classes = facts(of)
    colors = classes.get(theme, classes["light"])
    return [
        ClassStyle(
            color,
            is_hatched=name in classes["hatched"],
            is_faint=name in {"not_compared", "no_figure"},
        )
        for name, color in colors.items()
    ]


#: Widths in px of the left column, a narrow left column, and the right column.
_GUTTER, _NARROW_GUTTER, _MARGIN = 164, 104, 128
#: Minimum picture widths for a wide left column and for a right column.
_GUTTER_FROM, _MARGIN_FROM = 760, 900


class PlotArea:
    """The time window of a picture and the positions of its columns, in px.

    Lanes extend from `left` to `right`. Lane names are to the left of the lanes and omitted if
    `narrow`. Totals are to their right, in `margin`, whose width is 0 without totals.
    """

    def __init__(self, width: float, start: int, end: int, *, has_totals: bool = True) -> None:
        self.width, self.start, self.end = width, start, end
        self.narrow = width < _GUTTER_FROM
        self.left: float = _NARROW_GUTTER if self.narrow else _GUTTER
        self.margin: float = _MARGIN if has_totals and width >= _MARGIN_FROM else 0
        self.right = width - self.margin
        self.across = self.right - self.left
        self.span = end - start
        self.ns_per_px = self.span / self.across

    def x(self, time: float) -> float:
        """Return the x coordinate of a time, clipped to the lanes."""
        position = self.left + (time - self.start) / self.span * self.across
        return min(max(position, self.left), self.right)

    def xs(self, times: Ints) -> Floats:
        """Return the x coordinates of times, clipped to the lanes."""
        x = self.left + (times - self.start) / self.span * self.across
        return np.clip(x, self.left, self.right)

    @property
    def edges(self) -> Ints:
        """Edges of the cells. A cell is 1 px wide but at least 1 ns long."""
        cells = max(1, min(int(self.across), self.span))
        numbers = np.arange(cells + 1, dtype=np.int64)
        # Computed in two steps, because the product of span and cell number could overflow int64.
        cell_ns, remainder = divmod(self.span, cells)
        return self.start + cell_ns * numbers + remainder * numbers // cells


@dataclass
class Painter:
    """Base class for drawing parts of a picture."""

    drawing: Drawing
    area: PlotArea
    colors: PictureColors

    def __post_init__(self) -> None:
        self.theme = self.colors.theme


_GAP_PX = 12
_SIZE = re.compile(r'<svg[^>]*?\swidth="([\d.]+)"[^>]*?\sheight="([\d.]+)"')
#: Text that precedes the id of a pattern in definitions and in references.
_ID = re.compile(r'(\bid="|url\(#)(?=hta-)')


def side_width(width: float) -> float:
    """Return the width of each of two pictures placed side by side within `width` px."""
    return (width - _GAP_PX) / 2


def stacked_svg(pictures: Sequence[str], *, side_by_side: bool = False) -> str:
    """Combine SVG pictures vertically or side by side."""
    sizes = [list(map(float, match.groups())) for svg in pictures if (match := _SIZE.search(svg))]
    widths, heights = zip(*sizes, strict=True)
    axis, lengths = ("x", widths) if side_by_side else ("y", heights)
    total_length = sum(lengths) + _GAP_PX * (len(lengths) - 1)
    width = total_length if side_by_side else max(widths)
    height = max(heights) if side_by_side else total_length
    parts, offset = [], 0.0
    for number, (text, length) in enumerate(zip(pictures, lengths, strict=True)):
        # Pattern ids must be unique within the combined picture.
        inner = _ID.sub(rf"\g<1>p{number}-", text[text.index("<svg") :])
        parts.append(inner.replace("<svg", f'<svg {axis}="{offset:g}"', 1))
        offset += length + _GAP_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(parts)}</svg>'
    )

"""Render the visible part of a timeline as SVG, with title, legend and selection.

`header.py` draws the header above the rows, `side_columns.py` the columns beside them, and
`rows.py` the rows themselves. `drawing.py` defines shapes and colors.

`Fallback` provides pictures for notebook outputs whose widgets cannot run. Jupyter stores every
representation of an output, and a front end shows the best one it supports. GitHub, nbviewer,
nbconvert, and JupyterLab without a kernel show the HTML.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from hta_widgets.charts.theme import ThemeName, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.export.pictures.drawing import (
    Box,
    Drawing,
    EventClassing,
    Label,
    Painter,
    PictureColors,
    PlotArea,
    bound_classing,
    first_text_that_fits,
    fit_text,
    stacked_svg,
    text_width,
)
from hta_widgets.export.pictures.header import STRIP_ROW, Answered, HeaderPainter, whole_name
from hta_widgets.export.pictures.rows import LanePainter, Row, has_waits, layout_rows
from hta_widgets.export.pictures.side_columns import SideColumnPainter, WindowTotals, totals_by_rank
from hta_widgets.facts import facts
from hta_widgets.live.job import TileEngine
from hta_widgets.text import duration, escape_controls, plural, share
from hta_widgets.tiles.packing import unpack
from hta_widgets.tiles.rank_index import LaneBudget, RankIndex

_MIN_WIDTH = 320
#: Opacity of the overlay that dims everything outside the selection.
_VEIL = 0.66
_LANE_BYTES = 256 << 20
#: Height on screen of the minimap with the axis.
_SCREEN_HEAD = 58
#: Width in px of the marks in a ribbon, and the number of mark colors.
_MARK_PX, _RIBBON_COLORS = 2, 48
#: Top and bottom of the minimap in the picture.
_MINIMAP_TOP, _MINIMAP_BOTTOM = 46, 78


def timeline_svg(
    engine: TileEngine,
    scene: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    width: float = 1200,
    height: float = 480,
    theme: ThemeName = "light",
    folded: bool = False,
    opened: Collection[int] | None = None,
    only: Collection[int] | None = None,
    classed: EventClassing | None = None,
) -> str:
    """Render the visible part of a timeline as SVG.

    Columns and bars are computed from all events. The picture includes all rows, with the same
    heights as in a timeline of `height` px.
    """
    if not width >= _MIN_WIDTH:
        raise TraceError(
            f"a picture must be at least {_MIN_WIDTH} px wide, not {width}",
            remedy="Names and numbers need at least this width.",
        )
    if classed is None and state.get("color") == "bound" and not scene["without_bounds"]:
        classed = bound_classing(engine.classes_of, theme)
    colors = PictureColors(theme_of(theme), scene["kinds"], classed)
    start, end = (int(time) for time in state.get("view") or scene["range"])
    if end <= start:
        raise TraceError(
            f"a window must end after it starts, not {start} to {end}",
            remedy="Give start_ns < end_ns, in ns since the origin.",
        )
    lanes = [lane for rank in scene["ranks"] for lane in rank["summary"]]
    area = PlotArea(width, start, end, has_totals=any(lane["role"] != "cpu" for lane in lanes))
    clusters = engine.answer({"op": "clusters"})[0] if folded else None
    rows = layout_rows(
        scene,
        height - _SCREEN_HEAD - STRIP_ROW * _strip_rows(scene),
        pinned=state.get("pinned") or (),
        opened=opened,
        only=only,
        clusters=clusters,
    )
    picture = _Picture(Drawing(), area, colors, engine, scene, state, rows, classed)
    return picture.draw()


def _strip_rows(scene: Mapping[str, Any]) -> int:
    return bool(scene["steps"]) + bool(scene["phases"]) + has_waits(scene)


@dataclass
class _Picture(Painter):
    engine: TileEngine
    scene: Mapping[str, Any]
    state: Mapping[str, Any]
    rows: list[Row]
    classed: EventClassing | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.window = {"start": self.area.start, "end": self.area.end}
        stats = self.engine.answer({"op": "stats", **self.window})[0]
        totals = totals_by_rank(stats)
        self.shares: dict[str, float] = stats["kinds"]
        self.figures = WindowTotals(totals)
        if has_waits(self.scene):
            lateness = self.engine.answer({"op": "lateness", **self.window})[0]
            late = frozenset(lateness["late"])
            self.figures = WindowTotals(totals, totals_by_rank(lateness), late)
            if total_span := sum(stats["span"]):
                self.shares = {**self.shares, "wait": sum(lateness["exposed_wait"]) / total_span}

    def draw(self) -> str:
        """Draw all parts from back to front; return the SVG text."""
        area, theme, drawing = self.area, self.theme, self.drawing
        axis = _MINIMAP_BOTTOM + 24
        strip_rows = _strip_rows(self.scene)
        first = axis + STRIP_ROW * strip_rows + 2
        bottom = first + sum(row.height for row in self.rows)
        height = bottom + 34
        drawing.rect(0, 0, area.width, height, theme.bg)
        self._draw_title()
        self._draw_legend(_MINIMAP_TOP - 10)
        head = HeaderPainter(drawing, area, self.colors, self.scene, self.figures.late)
        bins = min(max(2, int(area.across)), 4096)
        head.draw_minimap(self._answer("minimap", bins=bins), _MINIMAP_TOP, self.classed)
        drawing.horizontal(_MINIMAP_BOTTOM, 0, area.width, theme.rule)
        tick_xs = head.draw_axis(axis)
        ribbon = None
        if self.figures.lateness is not None:
            ribbon = self._answer("ribbon", **self.window, bins=max(2, int(area.across)))
        head.draw_strip(ribbon, axis)
        sides = SideColumnPainter(drawing, area, self.colors, self.figures)
        sides.draw_title(self.rows, axis, strip_rows)
        labels = self._draw_lanes(first, ribbon)
        head.draw_lines(tick_xs, first, bottom)
        self._hatch_missing_data(first)
        for row in self.rows:
            sides.draw_names(row, first + row.top)
            sides.draw_totals(row, first + row.top)
        self._draw_borders(bottom)
        self._mark_selection(first, labels)
        head.draw_scale_bar(bottom + 15)
        note = self.scene["truth"]["text"]
        shown_note = fit_text(note, area.across - 220)
        drawing.text(area.right, bottom + 20, shown_note, theme.ink3, anchor="end")
        title = f"{self.scene['title']}, {self._totals_text()}"
        patterns = self.colors.patterns
        return drawing.svg(area.width, height, title=title, description=note, patterns=patterns)

    def _draw_borders(self, bottom: float) -> None:
        area, drawing, top = self.area, self.drawing, _MINIMAP_BOTTOM + 1
        drawing.vertical(area.left - 1, top, bottom, self.theme.rule)
        if area.margin:
            drawing.vertical(area.right, top, bottom, self.theme.rule)
        drawing.horizontal(bottom, 0, area.width, self.theme.rule)

    def _answer(self, op: str, **request: int) -> Answered:
        reply, buffer = self.engine.answer({"op": op, **request})
        return {**reply, **request}, unpack(reply["columns"], buffer or b"")

    def _totals_text(self) -> str:
        area = self.area
        low, high = self.scene["range"]
        ranks = plural(len(self.scene["ranks"]), "rank")
        shown = {rank for row in self.rows for rank in row.like}
        if len(shown) < len(self.scene["ranks"]):
            ranks = f"{len(shown)} of {ranks}"
        events = plural(self.scene["events"], "event")
        if (area.start, area.end) == (low, high):
            name = whole_name(self.scene)
            return f"{ranks}, {events}, {name}, {duration(high - low)}"
        window = f"{area.start / 1e6:.3f}–{area.end / 1e6:.3f}\u202fms"
        return f"{ranks}, {window} ({duration(area.span)})"

    def _draw_title(self) -> None:
        words, width = self._totals_text(), self.area.width
        max_width = max(width - 24 - text_width(words) - 16, 60)
        name = fit_text(self.scene["title"], max_width, bold=True)
        self.drawing.text(12, 20, name, self.theme.ink, bold=True)
        x = 12 + text_width(name, bold=True) + 12
        self.drawing.text(x, 20, fit_text(words, width - x - 12), self.theme.ink2)

    def _draw_legend(self, y: float) -> None:
        drawing, theme = self.drawing, self.theme
        x = self._draw_class_legend(y) if self.classed is not None else self.area.left
        for kind, fill, line in self._legend_keys():
            kind_share = self.shares.get(kind)
            word = {"wait": "waiting", **facts("kind_names")}.get(kind, kind)
            label = word if kind_share is None else f"{word} {share(kind_share)}"
            label = first_text_that_fits([label, word], self.area.width - x - 14 - 12)
            if not label:
                return
            if kind == "late":
                drawing.dotted_lines(np.array([x]), np.array([x + 10.0]), y - 4, fill)
            else:
                drawing.rect(x, y - 9, 10, 10, fill)
            if line:
                drawing.frame(x, y - 9, 10, 10, line)
            drawing.text(x + 14, y, label, theme.ink2)
            x += 14 + text_width(label) + 14

    def _draw_class_legend(self, y: float) -> float:
        """Draw each group of classes as swatches and a name; return the x after the last one."""
        drawing, x = self.drawing, self.area.left
        for name, codes in self.classed.groups if self.classed is not None else ():
            for code in codes:
                drawing.rect(x, y - 9, 10, 10, self.colors.paint(code).fill)
                x += 12
            drawing.text(x + 2, y, name, self.theme.ink2)
            x += 2 + text_width(name) + 14
        return x

    def _legend_keys(self) -> list[tuple[str, str, str]]:
        """Return the kind, fill and border of each legend entry."""
        theme = self.theme
        summaries = {part["role"] for row in self.rows for part in row.rank["summary"]}
        roles = {track["role"] for row in self.rows for track in row.rank["tracks"]}
        has_host = "thread" in roles
        is_shown = {
            "compute": "gpu" in summaries,
            "communication": "comm" in summaries,
            "memory": "gpu" in summaries,
            "cpu": has_host,
            "sync": has_host and "gpu" in summaries and any(row.track for row in self.rows),
            "annotation": bool(self.scene["steps"]) or "annotation" in roles,
            "other": bool(roles & {"other", "async", "instant"}),
        }
        kinds = [kind for kind in is_shown if is_shown[kind] or kind in self.scene["host_kinds"]]
        if self.classed is not None:
            # Lanes use the colors of classes. Only the totals on the right use the colors of kinds.
            of_totals = ("compute", "communication", "memory") if self.area.margin else ()
            kinds = [kind for kind in kinds if kind in of_totals]
        keys = [(kind, theme.kind[kind], "") for kind in kinds]
        lateness = self.figures.lateness or {}
        if any(totals["wait"] > 0 for totals in lateness.values()):
            index = kinds.index("communication") + 1 if "communication" in kinds else 0
            late_color = theme.late if self.figures.late else theme.ink3
            wait_key = "wait", self.colors.wait_pattern, theme.wait_line
            keys[index:index] = [wait_key, ("late", late_color, "")]
        return keys

    def _draw_lanes(self, first: float, ribbon: Answered | None) -> Sequence[Label]:
        area, theme, drawing = self.area, self.theme, self.drawing
        lanes = LanePainter(
            drawing,
            area,
            self.colors,
            by_name=self.state.get("color") == "name",
            classed=self.classed,
            waits=self.figures.lateness is not None,
        )
        budget = LaneBudget(_LANE_BYTES)
        drawn_ranks = {row.rank["rank"] for row in self.rows}
        indices = {
            rank.rank: RankIndex(rank, budget, lambda: self.engine.lateness)
            for rank in self.engine.job.ranks
            if rank.rank in drawn_ranks
        }
        for row in self.rows:
            y = first + row.top
            index = indices[row.rank["rank"]]
            is_late = row.rank["rank"] in self.figures.late
            if is_late:
                drawing.rect(area.left, y, area.across, row.height, self.colors.late_ground)
            if row.track is None:
                drawing.horizontal(y, area.left, area.right, theme.rule)
            if row.ribbon is not None and ribbon is not None:
                self._draw_row_ribbon(row, ribbon, y)
            for band in row.bands:
                lanes.draw_lane(index, replace(band, top=y + band.top), is_late=is_late)
        return lanes.labels

    def _draw_row_ribbon(self, row: Row, ribbon: Answered, y: float) -> None:
        """Draw a rank's late arrivals. Marks are at least 1 px wide but end before the next one."""
        area, drawing = self.area, self.drawing
        reply, columns = ribbon
        top, height = row.ribbon or (0, 0)
        low, high = (area.x(time) for time in row.rank["range"])
        drawing.rect(low, y + top, high - low, height, self.colors.waiting(0))
        is_shown = (columns["rank"] == row.rank["rank"]) & (columns["late"] > 0)
        x = area.left + np.floor((columns["bin"][is_shown] + 0.5) / reply["bins"] * area.across)
        shares = np.sqrt(np.minimum(1, columns["late"][is_shown] / max(reply["most"], 1)))
        following = np.append(x[1:], area.right)
        right = np.maximum(np.minimum(x + _MARK_PX, following), x + 1)
        color_codes = np.ceil(shares * _RIBBON_COLORS).astype(np.int64)
        for code in np.unique(color_codes).tolist():
            has_color = color_codes == code
            color = self.colors.waiting(code / _RIBBON_COLORS)
            drawing.rects(x[has_color], right[has_color], y + top, height, color)

    def _hatch_missing_data(self, first: float) -> None:
        """Hatch times for which a rank has no data, to distinguish them from idle time."""
        area, theme, drawing = self.area, self.theme, self.drawing
        job = self.scene["range"]
        for row in self.rows:
            if not row.bands:
                continue
            low, high = row.rank["range"]
            top = first + row.top + row.bands[0].top
            height = row.bands[-1].top + row.bands[-1].height - row.bands[0].top
            for x0, x1 in ((area.x(job[0]), area.x(low)), (area.x(high), area.x(job[1]))):
                if x1 - x0 < 1:
                    continue
                drawing.rect(x0, top, x1 - x0, height, self.colors.no_data_pattern)
                width = text_width("no data") + 10
                if row.track is None and height >= 18 and x1 - x0 >= width + 8:
                    x = (x0 + x1 - width) / 2
                    y = top + round((height - 15) / 2)
                    drawing.rect(x, y, width, 15, theme.bg)
                    drawing.text(x + 5, y + 11, "no data", theme.ink2)

    def _mark_selection(self, first: float, labels: Sequence[Label]) -> None:
        """Dim everything outside the selected window and ranks, and frame the selection.

        Dimmed event names are drawn again on top, to keep them legible.
        """
        selection = self.state.get("selection") or {}
        start, end, ranks = (selection.get(name) for name in ("start_ns", "end_ns", "ranks"))
        if start is None and end is None and ranks is None:
            return
        area, theme, drawing = self.area, self.theme, self.drawing
        x0 = area.left if start is None else area.x(start)
        x1 = area.right if end is None else area.x(end)
        blocks = self._selected_blocks(first, ranks) if x1 > x0 else []
        bottom = first + max((row.top + row.height for row in self.rows), default=0)
        above = first
        dimmed: list[Box] = []
        # The empty block at the end dims everything below the last selected block.
        for block_top, block_end in [*blocks, (bottom, bottom)]:
            height = block_end - block_top
            dimmed.append((area.left, above, area.across, block_top - above))
            dimmed.append((area.left, block_top, x0 - area.left, height))
            dimmed.append((x1, block_top, area.right - x1, height))
            above = block_end
        for box in dimmed:
            drawing.rect(*box, theme.bg, _VEIL)
        for box in dimmed:
            drawing.texts_inside(box, labels, theme.ink2)
        for block_top, block_end in blocks:
            line_px = 2 if ranks is None else 1.5
            height = block_end - block_top
            drawing.frame(x0, block_top, x1 - x0, height, theme.brush_line, line_px)

    def _selected_blocks(
        self, first: float, ranks: Collection[int] | None
    ) -> list[tuple[float, float]]:
        """Return the (top, bottom) of each run of adjacent rows in `ranks` (None: all ranks)."""
        blocks: list[tuple[float, float]] = []
        for row in self.rows:
            if ranks is None or row.rank["rank"] in ranks:
                top = first + row.top
                is_adjacent = bool(blocks) and blocks[-1][1] == top
                block_top = blocks.pop()[0] if is_adjacent else top
                blocks.append((block_top, top + row.height))
        return blocks


#: Maximum length of the HTML that is saved with the notebook.
_MAX_BYTES = 150_000
#: Maximum number of events for which a picture is drawn. Drawing then takes about 0.1 s.
_MAX_DRAWN_EVENTS = 1_000_000
_WIDTH, _HEIGHT = 900, 360


@dataclass(frozen=True)
class Fallback:
    """The title, sentences and pictures of a view, for output as text or HTML."""

    title: str
    sentences: Sequence[str] = ()
    pictures: Sequence[str] = ()

    def text(self) -> str:
        """Return the title and the sentences, one per line, for a terminal."""
        return "\n".join(map(escape_controls, (self.title, *self.sentences)))

    def add_to(self, bundle: Any) -> Any:
        """Add the text and the HTML to a MIME bundle, or to a tuple that starts with one."""
        forms = {"text/plain": self.text(), "text/html": self.html()}
        if bundle is None:
            return None
        if isinstance(bundle, tuple):
            return ({**bundle[0], **forms}, *bundle[1:])
        return {**bundle, **forms}

    def html(self) -> str:
        """Return HTML with the sentences, followed by an image of the stacked pictures."""
        first, *others = self.sentences or (self.title,)
        paragraphs = [f"<p><b>{escape(first)}</b></p>"]
        paragraphs += [f"<p>{escape(' '.join(others))}</p>"] if others else []
        text = "\n".join(paragraphs)
        # If the pictures are too large in total, use only the first one, or none.
        images = (self._image(pictures) for pictures in (self.pictures, self.pictures[:1]))
        fitting = (image for image in images if len(text) + len(image) <= _MAX_BYTES)
        # The JupyterLab extension relies on this class; see js/lab/fallback.ts.
        return f'<div class="hta-fallback">\n{text}{next(fitting, "")}\n</div>'

    def _image(self, pictures: Sequence[str]) -> str:
        if not pictures:
            return ""
        data = base64.b64encode(stacked_svg(pictures).encode()).decode()
        # Front ends strip SVG from HTML outputs, but keep images.
        return f'\n<img alt="{escape(self.title)}" src="data:image/svg+xml;base64,{data}">'


def timeline_fallback(
    engine: TileEngine, scene: Mapping[str, Any], state: Mapping[str, Any], *, width: int = _WIDTH
) -> Fallback:
    """Return a timeline's title and, if it does not have too many events, its picture."""
    low, high = scene["range"]
    ranks, events = plural(len(scene["ranks"]), "rank"), plural(scene["events"], "event")
    title = f"{scene['title']} · {ranks} · {events} · {duration(high - low)}"
    if not 0 < scene["events"] <= _MAX_DRAWN_EVENTS:
        return Fallback(title)
    is_folded = len(scene["ranks"]) > 1
    picture = timeline_svg(engine, scene, state, width=width, height=_HEIGHT, folded=is_folded)
    return Fallback(title, pictures=[picture])

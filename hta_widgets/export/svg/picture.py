"""A view of a timeline as one SVG."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hta_widgets.charts.theme import theme_of
from hta_widgets.errors import TraceError
from hta_widgets.export.svg.class_colours import ClassColours, Classed
from hta_widgets.export.svg.colours import Colours
from hta_widgets.export.svg.drawing import Drawing
from hta_widgets.export.svg.fonts import first_fit, fitted, text_width
from hta_widgets.export.svg.head import Head
from hta_widgets.export.svg.lanes import Lanes
from hta_widgets.export.svg.place import Place
from hta_widgets.export.svg.rows import Row, lay_rows
from hta_widgets.export.svg.sides import Figures, Sides
from hta_widgets.formats import duration, plural, share
from hta_widgets.tiles import TileEngine, unpack
from hta_widgets.tiles.rank_index import Budget, RankIndex

__all__ = ["timeline_svg"]

_LEAST_WIDTH = 320
_LANE_BYTES = 256 << 20
#: Height of what stands above the rows on the screen: whole job and axis, and a row of the strip.
_SCREEN_HEAD, _STRIP_ROW = 58, 16

Answered = tuple[Mapping[str, Any], Mapping[str, Any]]


def timeline_svg(
    engine: TileEngine,
    scene: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    width: float = 1200,
    height: float = 480,
    theme: str = "light",
    headline: str = "",
    folded: bool = False,
    opened: Collection[int] | None = None,
    only: Collection[int] | None = None,
    classed: Classed | None = None,
) -> str:
    """Return a view of a timeline as an SVG picture.

    Every column and bar is computed from the events themselves. The picture holds all rows, at
    the heights that they have in a timeline that is `height` px high.

    Parameters
    ----------
    engine : TileEngine
        Of the job.
    scene : mapping
        What the timeline shows.
    state : mapping
        What its views share: window, selection, colours, pins.
    width : float, default 1200
        Of the picture, in px.
    height : float, default 480
        Of the timeline on the screen.
    theme : {"light", "dark"}
    headline : str, optional
        A sentence above the picture.
    folded : bool
        Fold ranks that behave alike.
    opened : collection of int, optional
        Ranks shown with all their tracks; by default one that is shown alone.
    only : collection of int, optional
        Ranks to show; by default all.
    classed : Classed, optional
        Colour events by these classes; by default by kind or name, as `state` says.

    Returns
    -------
    str
        The SVG's text.

    Raises
    ------
    TraceError
        If the picture is too narrow, the window has no length, or there is no such theme.
    """
    if not width >= _LEAST_WIDTH:
        raise TraceError(
            f"a picture must be at least {_LEAST_WIDTH} px wide, not {width}",
            remedy="Names and numbers need the room.",
        )
    try:
        colours = (
            Colours(theme_of(theme), scene["kinds"])
            if classed is None
            else ClassColours(theme_of(theme), scene["kinds"], classed)
        )
    except ValueError as error:
        raise TraceError(str(error), remedy='Use theme="light" or theme="dark".') from None
    start, end = (int(time) for time in state.get("view") or scene["range"])
    if end <= start:
        raise TraceError(
            f"a window must end after it starts, not {start} to {end}",
            remedy="Give start_ns < end_ns, in ns since the origin.",
        )
    place = Place(width, start, end)
    clusters = engine.answer({"op": "clusters"})[0] if folded else None
    rows = lay_rows(
        scene,
        height - _SCREEN_HEAD - _STRIP_ROW * _strip_rows(scene),
        pinned=state.get("pinned") or (),
        opened=opened,
        only=only,
        clusters=clusters,
    )
    return _Picture(engine, scene, state, place, colours, rows, classed).draw(headline)


def _strip_rows(scene: Mapping[str, Any]) -> int:
    return bool(scene["steps"]) + bool(scene["phases"]) + _has_waits(scene)


def _has_waits(scene: Mapping[str, Any]) -> bool:
    return any("wait" in row for rank in scene["ranks"] for row in rank["summary"])


class _Picture:
    def __init__(
        self,
        engine: TileEngine,
        scene: Mapping[str, Any],
        state: Mapping[str, Any],
        place: Place,
        colours: Colours,
        rows: list[Row],
        classed: Classed | None,
    ) -> None:
        self.engine = engine
        self.scene = scene
        self.state = state
        self.place = place
        self.colours = colours
        self.rows = rows
        self.classed = classed
        self.theme = colours.theme
        self.drawing = Drawing()
        self.has_waits = _has_waits(scene)
        window = {"start": place.start, "end": place.end}
        stats = engine.answer({"op": "stats", **window})[0]
        lateness = engine.answer({"op": "lateness", **window})[0] if self.has_waits else None
        self.shares: dict[str, float] = dict(stats.get("kinds") or {})
        if lateness is not None and sum(stats["span"]):
            self.shares["wait"] = sum(lateness["wait"]) / sum(stats["span"])
        self.figures = Figures.of(stats, lateness)

    def draw(self, headline: str) -> str:
        place, theme, drawing = self.place, self.theme, self.drawing
        rows_height = sum(row.height for row in self.rows)
        head = Head(drawing, place, self.colours, self.scene, self.figures.late)
        sides = Sides(drawing, place, self.colours, self.figures)
        strip_rows = _strip_rows(self.scene)
        top = 64 if headline else 46
        axis = top + 32 + 24
        first = axis + 16 * strip_rows + 2
        bottom = first + rows_height
        height = bottom + 34
        drawing.rect(0, 0, place.width, height, theme.bg)
        self._title(headline)
        self._legend(top - 10)
        head.minimap(*self._minimap(), top, self.classed)
        drawing.horizontal(top + 32, 0, place.width, theme.rule)
        found = head.axis(axis)
        ribbon = self._ribbon() if self.has_waits else None
        head.strip(ribbon, axis)
        sides.title(self.rows, axis, strip_rows)
        self._lanes(first, ribbon)
        head.lines(found, first, bottom)
        self._no_data(first)
        for row in self.rows:
            sides.names(row, first + row.top)
            sides.totals(row, first + row.top)
        drawing.vertical(place.left - 1, top + 33, bottom, theme.rule)
        if place.margin:
            drawing.vertical(place.right, top + 33, bottom, theme.rule)
        drawing.horizontal(bottom, 0, place.width, theme.rule)
        self._selection(first)
        head.scale_bar(bottom + 15)
        self._note(bottom + 20)
        return drawing.svg(
            place.width,
            height,
            title=f"{self.scene['title']}, {self._words()}",
            description=headline or self.scene["truth"]["text"],
            patterns=self.colours.patterns,
        )

    # --- title, legend, note ----------------------------------------------------------------------

    def _words(self) -> str:
        place = self.place
        low, high = self.scene["range"]
        ranks = plural(len(self.scene["ranks"]), "rank")
        shown = {rank for row in self.rows for rank in row.like}
        if len(shown) < len(self.scene["ranks"]):
            ranks = f"{len(shown)} of {ranks}"
        events = plural(self.scene["events"], "event")
        if (place.start, place.end) == (low, high):
            whole = "whole export" if self.scene.get("part") else "whole job"
            return f"{ranks}, {events}, {whole}, {duration(high - low)}"
        return (
            f"{ranks}, {place.start / 1e6:.3f}–{place.end / 1e6:.3f}\u2009ms "
            f"({duration(place.span)})"
        )

    def _title(self, headline: str) -> None:
        drawing, theme = self.drawing, self.theme
        room = self.place.width - 24
        if headline:
            drawing.text(
                12, 20, fitted(headline, room * 11 / 14, bold=True), theme.ink, bold=True, size=14
            )
        y = 40 if headline else 20
        words = self._words()
        name = fitted(self.scene["title"], max(room - text_width(words) - 16, 60), bold=True)
        drawing.text(12, y, name, theme.ink, bold=True)
        x = 12 + text_width(name, bold=True) + 12
        drawing.text(x, y, fitted(words, self.place.width - x - 12), theme.ink2)

    def _legend(self, y: float) -> None:
        """Draw what the colours mean, as far as there is room."""
        drawing, theme = self.drawing, self.theme
        x = self._class_keys(y) if self.classed is not None else self.place.left
        for kind, pattern in self._keys():
            known = self.shares.get(kind)
            word = {"cpu": "CPU", "communication": "comm", "wait": "waiting"}.get(kind, kind)
            label = word if known is None else f"{word} {share(known)}"
            label = first_fit([label, word], self.place.width - x - 14 - 12)
            if not label:
                return
            if pattern == "late":
                late = bool(self.figures.late)
                drawing.rect(x, y - 9, 10, 10, theme.late_fill if late else theme.bg)
                drawing.frame(x, y - 9, 10, 10, theme.late if late else theme.ink3)
            else:
                drawing.rect(x, y - 9, 10, 10, pattern)
                if kind == "wait":
                    drawing.frame(x, y - 9, 10, 10, theme.wait_line)
            drawing.text(x + 14, y, label, theme.ink2)
            x += 14 + text_width(label) + 14

    def _class_keys(self, y: float) -> float:
        """Draw what the colours of classes mean; return where they end."""
        drawing, x = self.drawing, self.place.left
        for name, codes in self.classed.groups if self.classed is not None else ():
            for code in codes:
                drawing.rect(x, y - 9, 10, 10, self.colours.solid(code))
                x += 12
            drawing.text(x + 2, y, name, self.theme.ink2)
            x += 2 + text_width(name) + 14
        return x

    def _keys(self) -> list[tuple[str, str]]:
        summaries = {part["role"] for row in self.rows for part in row.rank["summary"]}
        roles = {track["role"] for row in self.rows for track in row.rank["tracks"]}
        host = "thread" in roles
        there = {
            "compute": "gpu" in summaries,
            "communication": "comm" in summaries or self.scene["host_communication"],
            "memory": "gpu" in summaries,
            "cpu": host,
            "sync": host and "gpu" in summaries and any(row.track for row in self.rows),
            "annotation": bool(self.scene["steps"]) or "annotation" in roles,
            "other": bool(roles & {"other", "async", "instant"}),
        }
        keys = [(kind, self.theme.kind[kind]) for kind, shown in there.items() if shown]
        if self.classed is not None:
            # Kinds are what the totals on the right are of.
            device = ("compute", "communication", "memory") if self.place.margin else ()
            keys = [key for key in keys if key[0] in device]
        if self.figures.lateness and any(o["wait"] > 0 for o in self.figures.lateness.values()):
            at = next((n for n, (kind, _) in enumerate(keys, 1) if kind == "communication"), 0)
            keys[at:at] = [("wait", self.colours.wait_pattern), ("late", "late")]
        return keys

    def _note(self, y: float) -> None:
        text = self.scene["truth"]["text"]
        room = self.place.across - 220
        drawing = self.drawing
        drawing.text(self.place.right, y, fitted(text, room), self.theme.ink3, anchor="end")

    # --- rows -------------------------------------------------------------------------------------

    def _lanes(self, first: float, ribbon: Answered | None) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        by_name = self.state.get("color") == "name"
        lanes = Lanes(drawing, place, self.colours, by_name=by_name, classed=self.classed)
        budget = Budget(_LANE_BYTES)
        wanted = {row.rank["rank"] for row in self.rows}
        indices = {
            rank.rank: RankIndex(rank, budget, lambda: self.engine.lateness)
            for rank in self.engine.job.ranks
            if rank.rank in wanted
        }
        for row in self.rows:
            y = first + row.top
            index = indices[row.rank["rank"]]
            named = row.rank["rank"] in self.figures.late
            if named:
                drawing.rect(place.left, y, place.across, row.height, self.colours.late_ground)
            if row.track is None:
                drawing.horizontal(y, place.left, place.right, theme.rule)
            if row.ribbon is not None and ribbon is not None:
                self._row_ribbon(row, ribbon, y)
            for band in row.bands:
                waits = self.figures.lateness is not None
                lanes.draw(index, band, y + band.top, waits=waits, named=named)

    def _row_ribbon(self, row: Row, ribbon: Answered, y: float) -> None:
        """Draw how late a rank comes to collectives."""
        place, drawing = self.place, self.drawing
        reply, columns = ribbon
        top, height = row.ribbon or (0, 0)
        low, high = (place.x(time) for time in row.rank["range"])
        drawing.rect(low, y + top, high - low, height, self.colours.waiting(0))
        mine = (columns["rank"] == row.rank["rank"]) & (columns["late"] > 0)
        at = place.left + np.floor((columns["bin"][mine] + 0.5) / reply["bins"] * place.across)
        shares = np.sqrt(np.minimum(1, columns["late"][mine] / max(reply["most"], 1)))
        following = np.append(at[1:], place.right)
        right = np.maximum(np.minimum(at + 2, following), at + 1)
        steps = np.ceil(shares * 48).astype(np.int64)
        for step in np.unique(steps).tolist():
            of = steps == step
            colour = self.colours.waiting(step / 48)
            drawing.rects(at[of], right[of], y + top, height, colour)

    def _no_data(self, first: float) -> None:
        """Hatch where others have data and this rank has none: not the same as idle."""
        place, theme, drawing = self.place, self.theme, self.drawing
        job = self.scene["range"]
        for row in self.rows:
            if not row.bands:
                continue
            low, high = row.rank["range"]
            top = first + row.top + row.bands[0].top
            height = row.bands[-1].top + row.bands[-1].height - row.bands[0].top
            for x0, x1 in ((place.x(job[0]), place.x(low)), (place.x(high), place.x(job[1]))):
                if x1 - x0 < 1:
                    continue
                drawing.rect(x0, top, x1 - x0, height, self.colours.no_data_pattern)
                words = text_width("no data") + 10
                if row.track is None and height >= 18 and x1 - x0 >= words + 8:
                    x = (x0 + x1 - words) / 2
                    y = top + round((height - 15) / 2)
                    drawing.rect(x, y, words, 15, theme.bg)
                    drawing.text(x + 5, y + 11, "no data", theme.ink2)

    # --- what is selected -------------------------------------------------------------------------

    def _selection(self, first: float) -> None:
        chosen = self.state.get("selection") or {}
        window = (chosen.get("start_ns"), chosen.get("end_ns"))
        ranks = chosen.get("ranks")
        if window == (None, None) and ranks is None:
            return
        place, line = self.place, self.theme.brush_line
        x0 = place.left if window[0] is None else place.x(window[0])
        x1 = place.right if window[1] is None else place.x(window[1])
        if x1 <= x0:
            return
        stretches: list[list[float]] = []
        for row in self.rows:
            if ranks is not None and row.rank["rank"] not in ranks:
                continue
            top, low = first + row.top, first + row.top + row.height
            if stretches and stretches[-1][1] == top:
                stretches[-1][1] = low
            else:
                stretches.append([top, low])
        for top, low in stretches:
            self.drawing.rect(x0, top, x1 - x0, low - top, f'{line}" fill-opacity="0.12')
            self.drawing.frame(x0, top, x1 - x0, low - top, line, 2 if ranks is None else 1.5)

    # --- what the engine answers ------------------------------------------------------------------

    def _minimap(self) -> Answered:
        bins = max(2, min(int(self.place.across), 4096))
        reply, buffer = self.engine.answer({"op": "minimap", "bins": bins})
        return reply, unpack(reply["columns"], buffer or b"")

    def _ribbon(self) -> Answered:
        window = {"start": self.place.start, "end": self.place.end}
        bins = max(2, int(self.place.across))
        reply, buffer = self.engine.answer({"op": "ribbon", **window, "bins": bins})
        return {**reply, "bins": bins}, unpack(reply["columns"], buffer or b"")

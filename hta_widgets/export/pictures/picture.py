"""Draw a timeline's view as SVG: head, sides and rows; legend, selection and note."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hta_widgets.charts.theme import ThemeName, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.export.pictures.drawing import (
    ClassParts,
    Colours,
    Drawing,
    EventClassing,
    Painter,
    PlotArea,
    blend,
    first_text_that_fits,
    fit_text,
    number,
    text_width,
)
from hta_widgets.export.pictures.rows import Band, LanePainter, Row, has_waits, layout_rows
from hta_widgets.live.job import TileEngine
from hta_widgets.text import axis_time, count, duration, plural, share, value
from hta_widgets.tiles.cells import unpack
from hta_widgets.tiles.lanes import LaneBudget, RankIndex

_MINIMAP = 29
_MARK_PX = 2
_WEAKEST = 0.18
_STEP_LINES_FROM_PX = 16
_SCALE_PX = 120
#: Marks of events that begin before the window, and of those that end after it.
_BEFORE, _AFTER = "\u2039", "\u203a"

Step = Mapping[str, Any]
#: A reply of the engine and its columns.
Answered = tuple[Mapping[str, Any], Mapping[str, Any]]


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least) + 1e-12)
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))


def ticks(place: PlotArea) -> tuple[list[float], float]:
    """Return round times, nine at most and fewer if labels would touch, and their step."""
    step = max(round_step(place.span / 9), 1e-3)
    for _ in range(6):
        most = max(abs(place.start), abs(place.end))
        label = axis_time(most, step, most)
        if step / place.span * place.across >= text_width(label) + 20:
            break
        step = round_step(step * 1.5)
    first = math.ceil(place.start / step - 1e-9)
    last = math.floor(place.end / step + 1e-9)
    return [at * step for at in range(first, last + 1)], step


@dataclass
class HeaderPainter(Painter):
    """Draws axis, minimap and strip above the rows."""

    scene: Mapping[str, Any]
    late: frozenset[int]

    def minimap(
        self,
        reply: Mapping[str, Any],
        columns: Mapping[str, Any],
        y: float,
        classed: EventClassing | None = None,
    ) -> None:
        """Draw the whole job, by kinds or by classes, and which part of it is shown."""
        place, theme, drawing = self.place, self.theme, self.drawing
        start, end = self.scene["range"]
        length = duration(end - start)
        drawing.text(place.left - 10, y + 17, length, theme.ink2, anchor="end")
        room = place.left - 10 - text_width(length) - 20
        drawing.text(12, y + 17, fit_text(whole_name(self.scene), room), theme.ink3)
        drawing.rect(place.left, y, place.across, _MINIMAP, theme.lane)
        bins = int(reply["bins"])
        x = place.left + np.arange(bins + 1) / bins * place.across
        total = np.zeros(bins)
        layers = []
        for name, colour in (
            ("compute", theme.kind["compute"]),
            ("exposed", theme.kind["communication"]),
            ("memory", theme.kind["memory"]),
            ("cpu", blend(theme.kind["cpu"], theme.lane, 0.6)),
        ):
            if name in columns:
                total = total + columns[name]
                layers.append((total, colour))
        if classed is not None and classed.parts is not None:
            layers = self._class_layers(total, (start, end), classed.parts)
        for heights, colour in reversed(layers):
            drawing.path(_step_path(x, np.round(heights * (_MINIMAP - 2)), y + _MINIMAP), colour)
        job = PlotArea(place.width, start, max(end, start + 1))
        x0, x1 = job.x(place.start), job.x(place.end)
        if x1 - x0 > place.across - 1:
            return
        veil = f'{theme.bg}" fill-opacity="0.72'
        drawing.rect(place.left, y, x0 - place.left, _MINIMAP, veil)
        drawing.rect(x1, y, place.right - x1, _MINIMAP, veil)
        width = max(x1 - x0, 3)
        left = min(x0, place.right - width)
        drawing.frame(left, y, width, _MINIMAP, theme.brush_line, 1.5)

    def _class_layers(
        self, busy: Any, job: tuple[int, int], parts: ClassParts
    ) -> list[tuple[Any, str]]:
        """Return the busy time, split by event class in the proportion of the device work."""
        bins = len(busy)
        times = job[0] + (np.arange(bins) + 0.5) / bins * (job[1] - job[0])
        layers, below = [], np.zeros(bins)
        for code, part in parts.at(times):
            below = below + busy * part
            layers.append((below, self.colours.column(code, "solid")))
        return layers

    def axis(self, y: float) -> list[float]:
        """Draw the axis down to `y`; return the x of its ticks."""
        place, theme, drawing = self.place, self.theme, self.drawing
        times, step = ticks(place)
        found: list[float] = []
        for time in times:
            x = round(place.x(time))
            found.append(x)
            drawing.vertical(x, y - 4, y, theme.rule_strong)
            label = axis_time(time, step, max(abs(place.start), abs(place.end)))
            if x + 4 + text_width(label) <= place.right:
                drawing.text(x + 4, y - 7, label, theme.ink2)
        return found

    def strip(self, ribbon: Answered | None, y: float) -> None:
        """Draw steps, phases and the ribbon of late ranks."""
        scene, place, theme = self.scene, self.place, self.theme
        rows: list[str] = []
        if scene["steps"]:
            several = len(scene["ranks"]) > 1 and not place.narrow
            rows.append("steps, median rank" if several else "steps")
            self._steps(y)
        if scene["phases"]:
            self._phases(y + 16 * len(rows))
            rows.append("phases")
        if ribbon is not None:
            self._job_ribbon(*ribbon, y + 16 * len(rows))
            rows.append("comes last" if place.narrow else "who comes last")
        for at, name in enumerate(rows):
            room = place.left - 20
            self.drawing.text(12, y + 16 * at + 11, fit_text(name, room), theme.ink3)

    def lines(self, found: Sequence[float], top: float, bottom: float) -> None:
        """Draw ticks and beginnings of steps through all rows."""
        place, drawing = self.place, self.drawing
        grid = f'{self.theme.rule_strong}" fill-opacity="0.19'
        for x in found:
            if x > place.left:
                drawing.vertical(x, top, bottom, grid)
        last = -math.inf
        for step in self.scene["steps"]:
            if not place.start < step["start"] < place.end:
                continue
            x = round(place.x(step["start"]))
            if x - last >= _STEP_LINES_FROM_PX:
                drawing.dashed_line(x, top, bottom, self.theme.kind["annotation"])
                last = x

    def scale_bar(self, y: float) -> None:
        """Draw a bar of a round time's length, with that time."""
        place, theme, drawing = self.place, self.theme, self.drawing
        least = round_step(max(_SCALE_PX * place.ns_per_px / 2.5, 1))
        wide = least / place.ns_per_px
        x = place.left
        drawing.rect(x, y, wide, 2, theme.ink)
        drawing.rect(x, y - 3, 1, 8, theme.ink)
        drawing.rect(x + wide - 1, y - 3, 1, 8, theme.ink)
        drawing.text(x + wide + 6, y + 5, duration(least), theme.ink)

    # --- rows of the strip ------------------------------------------------------------------------

    def _in_view(self, steps: Sequence[Step]) -> Iterator[tuple[Step, float, float, bool, str]]:
        """Yield steps or phases with both ends' x, whether they have begun before, and the name."""
        place = self.place
        for step in steps:
            start, end = step["start"], step["start"] + step["dur"]
            if start < place.end and end > place.start:
                begun = start < place.start
                name = f"{_BEFORE} {step['name']}" if begun else step["name"]
                yield step, place.x(start), place.x(end), begun, name

    def _steps(self, y: float) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        dark = theme.name == "dark"
        tint = blend(theme.kind["annotation"], theme.bg, 0.2 if dark else 0.1)
        last = -math.inf
        for step, x0, x1, begun, name in self._in_view(self.scene["steps"]):
            goes_on = step["start"] + step["dur"] > place.end
            drawing.rect(x0, y, max(x1 - x0 - (0 if goes_on else 1), 1), 15, tint)
            if not begun and x0 - last >= 4:
                drawing.rect(x0, y, 2, 15, theme.kind["annotation"])
                last = x0
            brief = "#" + name.rpartition("#")[2] if "#" in name else name
            label = first_text_that_fits([name, brief], x1 - x0 - 10, bold=True)
            if not label:
                continue
            drawing.text(x0 + 6, y + 11, label, theme.ink, bold=True)
            end = _AFTER if goes_on else duration(step["dur"])
            room = x1 - x0 - text_width(label, bold=True) - 24
            if (not begun or goes_on) and text_width(end) <= room:
                drawing.text(x1 - 6, y + 11, end, theme.ink2, anchor="end")

    def _phases(self, y: float) -> None:
        theme, drawing = self.theme, self.drawing
        reached = -math.inf
        for _, x0, x1, begun, name in self._in_view(self.scene["phases"]):
            if x1 - reached < 3:
                continue
            if not begun:
                drawing.vertical(round(x0), y, y + 14, theme.rule_strong)
            left = max(x0, reached)
            if x1 - left >= 26:
                drawing.text(left + 5, y + 11, fit_text(name, x1 - left - 9), theme.ink2)
            reached = x1

    def _job_ribbon(self, reply: Mapping[str, Any], columns: Mapping[str, Any], y: float) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        if not reply["of"]:
            drawing.text(place.left + 6, y + 11, "no collectives matched", theme.ink3)
            return
        x = place.left + (columns["job_bin"] + 0.5) / reply["bins"] * place.across
        following = np.append(x[1:], place.right)
        wait, ranks = columns["job_wait"], columns["job_rank"].tolist()
        drawn = np.flatnonzero(wait > 0)
        width = np.clip(following - x, 1, _MARK_PX)
        left = np.minimum(x, place.right - width)
        for at in drawn.tolist():
            share = math.sqrt(min(1, wait[at] / max(reply["job_most"], 1)))
            colour = blend(self._rank_color(ranks[at]), theme.bg, _WEAKEST + (1 - _WEAKEST) * share)
            drawing.rect(float(left[at]), y + 1, float(width[at]), 13, colour)
        # The costliest ranks are named first, left or right of their tick; each gap is used once.
        used: set[int] = set()
        for at in drawn[np.argsort(-wait[drawn], kind="stable")].tolist():
            begin, end = float(left[at]), float(left[at] + width[at])
            before = float(left[at - 1]) + _MARK_PX if at else place.left
            places: tuple[tuple[int, float, float, Literal["start", "end"]], ...] = (
                (at, end + 2, float(following[at]) - end - 6, "start"),
                (at - 1, begin - 2, begin - 6 - before, "end"),
            )
            for gap, edge, room, anchor in places:
                label = first_text_that_fits([f"rank {ranks[at]}", str(ranks[at])], room)
                if ranks[at] < 0 or gap in used or not label:
                    continue
                drawing.text(edge, y + 11, label, self._rank_color(ranks[at]), anchor=anchor)
                used.add(gap)
                break

    def _rank_color(self, rank: int) -> str:
        return self.theme.late if rank in self.late else self.theme.ink3


def _step_path(x: Any, heights: Any, base: float) -> str:
    """Return the path of the area under a step function, down to `base`."""
    first = np.flatnonzero(np.diff(heights, prepend=-1.0))
    last = np.append(first[1:], len(heights))
    parts = [f"M{number(x[0])} {number(base)}"]
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        parts.append(f"V{number(base - heights[low])}H{number(x[high])}")
    return "".join([*parts, f"V{number(base)}z"])


_BASELINE = 4
_CLOSE, _LINE = 9, 11
_PAD = 12
#: Minimum number of collectives for a label on how often a rank comes last.
_MIN_COLLECTIVES = 4


@dataclass(frozen=True)
class WindowTotals:
    """Totals of the window by rank: the engine's ``stats`` and ``lateness``."""

    stats: Mapping[int, Mapping[str, int]]
    lateness: Mapping[int, Mapping[str, int]] | None = None
    late: frozenset[int] = frozenset()

    def exposed_wait(self, rank: int) -> int:
        """Return a rank's exposed wait in ns; 0 if unknown."""
        return 0 if self.lateness is None else self.lateness[rank]["exposed_wait"]


def _totals_by_rank(reply: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    columns = {
        name: values
        for name, values in reply.items()
        if isinstance(values, list) and name not in {"late", "approximate"}
    }
    return {
        rank: {name: values[at] for name, values in columns.items()}
        for at, rank in enumerate(reply["ranks"])
    }


@dataclass(frozen=True)
class _RankFact:
    """A label, then shorter forms of it."""

    texts: tuple[str, ...]
    style: Literal["plain", "warn", "late"] = "plain"


@dataclass
class SideColumnPainter(Painter):
    """Draws the columns of a picture."""

    figures: WindowTotals
    #: whether the title of the totals names the two numbers below each
    is_named: bool = False

    # --- names ------------------------------------------------------------------------------------

    def names(self, row: Row, y: float) -> None:
        """Draw the name of a row, and the most important fact on a rank."""
        if row.track is not None:
            self._track_names(row, y)
            return
        theme, drawing, place = self.theme, self.drawing, self.place
        fact = self._main_fact(row)
        late = fact.style == "late"
        if late:
            drawing.rect(0, y, place.left, row.height, self.colours.late_ground)
        drawing.horizontal(y, 0, place.left, theme.rule)
        if late:
            drawing.rect(0, y + 1, 4, row.height - 1, theme.late)
        ink = {"plain": theme.ink2, "late": theme.late, "warn": "#744600"}[fact.style]
        right = place.left - 8
        if not row.open and row.height >= 34:
            lanes = [] if place.narrow else [band for band in row.bands if band.label]
            for baseline, texts, bold, colour in (
                (14, row.names, True, theme.ink),
                (28, fact.texts, late, ink),
            ):
                room = right - 12 - _lane_names_width(lanes, row.height, baseline)
                label = first_text_that_fits(texts, room, bold=bold)
                if not label and baseline == 14:
                    label = fit_text(row.names[-1], room, bold=True)
                drawing.text(12, y + baseline, label, colour, bold=bold)
            for band in lanes:
                at = y + _name_baseline(band, row.height)
                drawing.text(right, at, band.label, theme.ink3, anchor="end")
            return
        middle = y + round(row.height / 2) + _BASELINE
        room = right - 12
        label = first_text_that_fits(row.names, room, bold=row.open)
        label = label or fit_text(row.names[-1], room, bold=row.open)
        drawing.text(12, middle, label, theme.ink, bold=row.open)
        room -= text_width(label, bold=row.open) + 8
        said = first_text_that_fits(fact.texts, room, bold=late)
        drawing.text(right, middle, said, ink, anchor="end", bold=late)

    def _track_names(self, row: Row, y: float) -> None:
        theme, drawing = self.theme, self.drawing
        right = self.place.left - 8
        room = right - 10
        spill = next((band for band in row.bands[1:] if band.label), None)
        low = y + (row.height - 4 if spill is None else spill.top)
        middle = (y + low) / 2 + _BASELINE
        name = row.names[0]
        if self.place.narrow:
            name = re.sub(r"^(CPU|GPU) {2}", "", name)
        limits = row.track.get("range") if row.track is not None else None
        if limits is not None and low - y >= 28:
            unit = row.track.get("unit", "") if row.track is not None else ""
            lowest, highest = (value(number, unit) for number in limits)
            drawing.text(right, middle - 7, fit_text(name, room), theme.ink2, anchor="end")
            said = first_text_that_fits([f"{lowest} – {highest}", highest], room)
            drawing.text(right, middle + 7, said, theme.ink3, anchor="end")
        elif low - y >= 11:
            drawing.text(right, middle, fit_text(name, room), theme.ink2, anchor="end")
        for band in row.bands[1:]:
            if band.label and band.height >= 11:
                at = y + band.top + band.height / 2 + _BASELINE
                drawing.text(right, at, band.label, theme.ink3, anchor="end")

    def _main_fact(self, row: Row) -> _RankFact:
        fact = self._rank_fact(row.rank)
        reason = row.why.partition(";")[0]
        if len(row.like) > 1:
            who = f"rank {row.rank['rank']} "
            texts = (who + text if re.search(r"\d", text) else text for text in fact.texts)
            fact = _RankFact(tuple(texts), fact.style)
        if not reason or fact.style == "warn":
            return fact
        return _RankFact((reason, *fact.texts), fact.style)

    def _rank_fact(self, rank: Mapping[str, Any]) -> _RankFact:
        number = rank["rank"]
        if rank["truncated"] is not None:
            at = f"{rank['range'][1] / 1e6:.3f}\u202fms"
            return _RankFact((f"ends at {at}", "ends early"), "warn")
        if all(row["role"] == "cpu" for row in rank["summary"]):
            return _RankFact((rank["host"] or "CPU only",))
        if self.figures.lateness is not None:
            lateness = self.figures.lateness[number]
            if number in self.figures.late:
                last, whole = count(lateness["last"]), count(lateness["collectives"])
                texts = (f"last in {last} of {whole}", f"last {last}/{whole}", "last")
                return _RankFact(texts, "late")
            came, of = lateness["last"], lateness["collectives"]
            if of >= _MIN_COLLECTIVES and 2 * came > of:
                return _RankFact((f"last {share(came / of)}",))
            if lateness["wait"] > 0:
                time = duration(lateness["wait"])
                # The margin shows the exposed part of the wait.
                return _RankFact((f"waits {time} in all", f"waits {time}"))
        stats = self.figures.stats.get(number)
        if stats is None:
            return _RankFact(())
        if stats["data"] <= 0:
            return _RankFact(("no data here",))
        if not self.place.margin:
            return _RankFact((f"idle {share(stats['idle'] / max(stats['span'], 1))}",))
        if stats["exposed"] > 0:
            return _RankFact((f"exposed {duration(stats['exposed'])}",))
        return _RankFact((f"busy {duration(stats['span'] - stats['idle'])}",))

    # --- totals -----------------------------------------------------------------------------------

    def title(self, rows: Sequence[Row], y: float, lines: int) -> None:
        """Label the right column."""
        device = any(part["role"] != "cpu" for row in rows for part in row.rank["summary"])
        if not self.place.margin or not lines or not device:
            return
        self.is_named = lines > 1
        x = self.place.right + _PAD
        room = self.place.margin - _PAD - 4
        mpi = all(_is_mpi(row.rank) for row in rows)
        said = f"{'MPI' if mpi else 'GPU'} time in view"
        self.drawing.text(x, y + 11, fit_text(said, room), self.theme.ink3)
        has_comm = any(part["role"] == "comm" for row in rows for part in row.rank["summary"])
        if lines > 1 and not has_comm:
            self.drawing.text(x, y + 27, "idle", self.theme.ink3)
        elif lines > 1:
            word = "comm" if self.figures.lateness is None else "wait"
            keys = [f"exposed {word} · idle", f"exp. {word} · idle"]
            if mpi:
                keys = [f"{word} · other"]
            self.drawing.text(x, y + 27, first_text_that_fits(keys, room), self.theme.ink3)

    def totals(self, row: Row, y: float) -> None:
        """Draw the parts of a rank's device time in this window."""
        place, theme, drawing = self.place, self.theme, self.drawing
        if not place.margin or row.track is not None:
            return
        number = row.rank["rank"]
        late = number in self.figures.late
        if late:
            drawing.rect(place.right, y, place.margin, row.height, self.colours.late_ground)
        drawing.horizontal(y, place.right, place.width, theme.rule)
        stats = self.figures.stats.get(number)
        if stats is None or all(part["role"] == "cpu" for part in row.rank["summary"]):
            return
        whole = stats["span"]
        left, width = place.right + _PAD, place.margin - 2 * _PAD
        compact, tall = row.height < 24, row.height >= 36
        height: float = 11 if tall else 8
        top = y + (round((row.height - height) / 2) if compact else 3 if tall else 4)
        wait = self.figures.exposed_wait(number)
        at: float = left
        for ns, colour in (
            (stats["compute"], theme.kind["compute"]),
            (stats["exposed"] - wait, theme.kind["communication"]),
            (wait, self.colours.wait_pattern),
            (stats["memory"], theme.kind["memory"]),
        ):
            to = at + (ns / whole * width if whole > 0 else 0)
            drawing.rect(at, top, to - at, height, colour)
            if colour == self.colours.wait_pattern:
                drawing.frame(at, top, to - at, height, theme.wait_line)
            at = to
        drawing.frame(left, top, width, height, theme.idle_line)
        if compact:
            return
        baseline = top + height + (14 if tall else 12)
        if whole <= 0:
            said = "no GPU work" if stats["data"] > 0 else "no data"
            drawing.text(left, baseline, said, theme.ink3)
        elif row.rank["truncated"] is not None:
            drawing.text(left, baseline, "file cut off", "#744600")
        elif late:
            drawing.text(left, baseline, "causes the wait", theme.late, bold=True)
        else:
            known = self.figures.lateness is not None
            part = (wait if known else stats["exposed"]) / whole
            word = "wait" if known else "comm"
            said = f"{word} {share(part)}" if part > 0 else ""
            rest = "other" if _is_mpi(row.rank) else "idle"
            numbers = said, rest, share(stats["idle"] / whole)
            self._draw_pair(left, baseline, width, *numbers)

    def _draw_pair(
        self, x: float, y: float, width: float, exposed: str, rest: str, idle: str
    ) -> None:
        """Write `exposed` left, `rest` and `idle` right; shorten them if `width` is too small."""
        bare, both = exposed.partition(" ")[2], f"{rest} {idle}"
        forms = [(bare, both), (bare, idle)] if self.is_named else [(exposed, "")]
        for left, right in ((exposed, both), *forms):
            if text_width(left) + text_width(right) + 8 <= width:
                self.drawing.text(x, y, left, self.theme.ink2)
                if right:
                    self.drawing.text(x + width, y, right, self.theme.ink3, anchor="end")
                return


def _is_mpi(rank: Mapping[str, Any]) -> bool:
    """Return whether the rank has MPI calls instead of device work."""
    rows = [row for row in rank["summary"] if row["role"] != "cpu"]
    return bool(rows) and all(row["label"] == "MPI" for row in rows)


def _name_baseline(band: Band, row_height: float) -> float:
    baseline = band.top + (3 if band.height < 8 else band.height / 2) + _BASELINE
    return min(baseline, row_height - 3)


def _lane_names_width(lanes: Sequence[Band], row_height: float, baseline: float) -> float:
    """Return the width of the lane names on the same line."""
    widths = [
        text_width(band.label) + 8
        for band in lanes
        if abs(_name_baseline(band, row_height) - baseline) < _CLOSE
    ]
    return max(widths, default=0)


_MIN_WIDTH = 320
_LANE_BYTES = 256 << 20
#: Heights above the rows on a screen: minimap and axis, and a row of the strip.
_SCREEN_HEAD, _STRIP_ROW = 58, 16


def timeline_svg(
    engine: TileEngine,
    scene: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    width: float = 1200,
    height: float = 480,
    theme: ThemeName = "light",
    headline: str = "",
    folded: bool = False,
    opened: Collection[int] | None = None,
    only: Collection[int] | None = None,
    classed: EventClassing | None = None,
) -> str:
    """Return a view of a timeline as an SVG picture.

    Every column and bar is computed from the events themselves. The picture holds all rows, at
    the heights that they have in a timeline that is `height` px high.
    """
    if not width >= _MIN_WIDTH:
        raise TraceError(
            f"a picture must be at least {_MIN_WIDTH} px wide, not {width}",
            remedy="Names and numbers need the room.",
        )
    colours = Colours(theme_of(theme), scene["kinds"], classed)
    start, end = (int(time) for time in state.get("view") or scene["range"])
    if end <= start:
        raise TraceError(
            f"a window must end after it starts, not {start} to {end}",
            remedy="Give start_ns < end_ns, in ns since the origin.",
        )
    place = PlotArea(width, start, end)
    clusters = engine.answer({"op": "clusters"})[0] if folded else None
    rows = layout_rows(
        scene,
        height - _SCREEN_HEAD - _STRIP_ROW * _strip_rows(scene),
        pinned=state.get("pinned") or (),
        opened=opened,
        only=only,
        clusters=clusters,
    )
    picture = _Picture(Drawing(), place, colours, engine, scene, state, rows, classed)
    return picture.draw(headline)


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
        self.window = {"start": self.place.start, "end": self.place.end}
        stats = self.engine.answer({"op": "stats", **self.window})[0]
        self.shares: dict[str, float] = stats["kinds"]
        self.figures = WindowTotals(_totals_by_rank(stats))
        if has_waits(self.scene):
            lateness = self.engine.answer({"op": "lateness", **self.window})[0]
            self.figures = WindowTotals(
                _totals_by_rank(stats), _totals_by_rank(lateness), frozenset(lateness["late"])
            )
            if whole := sum(stats["span"]):
                self.shares = {**self.shares, "wait": sum(lateness["wait"]) / whole}

    def draw(self, headline: str) -> str:
        place, theme, drawing = self.place, self.theme, self.drawing
        rows_height = sum(row.height for row in self.rows)
        head = HeaderPainter(drawing, place, self.colours, self.scene, self.figures.late)
        sides = SideColumnPainter(drawing, place, self.colours, self.figures)
        strip_rows = _strip_rows(self.scene)
        top = 64 if headline else 46
        axis = top + 32 + 24
        first = axis + 16 * strip_rows + 2
        bottom = first + rows_height
        height = bottom + 34
        drawing.rect(0, 0, place.width, height, theme.bg)
        self._title(headline)
        self._legend(top - 10)
        bins = min(max(2, int(place.across)), 4096)
        head.minimap(*self._answer("minimap", bins=bins), top, self.classed)
        drawing.horizontal(top + 32, 0, place.width, theme.rule)
        found = head.axis(axis)
        ribbon = None
        if self.figures.lateness is not None:
            ribbon = self._answer("ribbon", **self.window, bins=max(2, int(place.across)))
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
        note = self.scene["truth"]["text"]
        room = place.across - 220
        drawing.text(place.right, bottom + 20, fit_text(note, room), theme.ink3, anchor="end")
        return drawing.svg(
            place.width,
            height,
            title=f"{self.scene['title']}, {self._words()}",
            description=headline or note,
            patterns=self.colours.patterns,
        )

    def _answer(self, op: str, **request: int) -> Answered:
        reply, buffer = self.engine.answer({"op": op, **request})
        return {**reply, **request}, unpack(reply["columns"], buffer or b"")

    # --- title and legend -------------------------------------------------------------------------

    def _words(self) -> str:
        place = self.place
        low, high = self.scene["range"]
        ranks = plural(len(self.scene["ranks"]), "rank")
        shown = {rank for row in self.rows for rank in row.like}
        if len(shown) < len(self.scene["ranks"]):
            ranks = f"{len(shown)} of {ranks}"
        events = plural(self.scene["events"], "event")
        if (place.start, place.end) == (low, high):
            whole = whole_name(self.scene)
            return f"{ranks}, {events}, {whole}, {duration(high - low)}"
        return (
            f"{ranks}, {place.start / 1e6:.3f}–{place.end / 1e6:.3f}\u202fms "
            f"({duration(place.span)})"
        )

    def _title(self, headline: str) -> None:
        drawing, theme = self.drawing, self.theme
        room = self.place.width - 24
        if headline:
            drawing.text(
                12, 20, fit_text(headline, room * 11 / 14, bold=True), theme.ink, bold=True, size=14
            )
        y = 40 if headline else 20
        words = self._words()
        name = fit_text(self.scene["title"], max(room - text_width(words) - 16, 60), bold=True)
        drawing.text(12, y, name, theme.ink, bold=True)
        x = 12 + text_width(name, bold=True) + 12
        drawing.text(x, y, fit_text(words, self.place.width - x - 12), theme.ink2)

    def _legend(self, y: float) -> None:
        """Draw the legend of colours, as far as there is room."""
        drawing, theme = self.drawing, self.theme
        x = self._draw_class_legend(y) if self.classed is not None else self.place.left
        for kind, fill, line in self._legend_keys():
            known = self.shares.get(kind)
            word = {"cpu": "CPU", "communication": "comm", "wait": "waiting"}.get(kind, kind)
            label = word if known is None else f"{word} {share(known)}"
            label = first_text_that_fits([label, word], self.place.width - x - 14 - 12)
            if not label:
                return
            drawing.rect(x, y - 9, 10, 10, fill)
            if line:
                drawing.frame(x, y - 9, 10, 10, line)
            drawing.text(x + 14, y, label, theme.ink2)
            x += 14 + text_width(label) + 14

    def _draw_class_legend(self, y: float) -> float:
        """Draw the legend of classes; return the x after it."""
        drawing, x = self.drawing, self.place.left
        for name, codes in self.classed.groups if self.classed is not None else ():
            for code in codes:
                drawing.rect(x, y - 9, 10, 10, self.colours.paint(code).fill)
                x += 12
            drawing.text(x + 2, y, name, self.theme.ink2)
            x += 2 + text_width(name) + 14
        return x

    def _legend_keys(self) -> list[tuple[str, str, str]]:
        """Return kind, fill and border of the keys."""
        theme = self.theme
        summaries = {part["role"] for row in self.rows for part in row.rank["summary"]}
        roles = {track["role"] for row in self.rows for track in row.rank["tracks"]}
        host = "thread" in roles
        there = {
            "compute": "gpu" in summaries,
            "communication": "comm" in summaries,
            "memory": "gpu" in summaries,
            "cpu": host,
            "sync": host and "gpu" in summaries and any(row.track for row in self.rows),
            "annotation": bool(self.scene["steps"]) or "annotation" in roles,
            "other": bool(roles & {"other", "async", "instant"}),
        }
        without_device = self.scene["host_kinds"]
        keys = [
            (kind, theme.kind[kind], "")
            for kind, shown in there.items()
            if shown or kind in without_device
        ]
        if self.classed is not None:
            # The totals on the right are by kind.
            device = ("compute", "communication", "memory") if self.place.margin else ()
            keys = [key for key in keys if key[0] in device]
        if self.figures.lateness and any(o["wait"] > 0 for o in self.figures.lateness.values()):
            at = next((n for n, key in enumerate(keys, 1) if key[0] == "communication"), 0)
            late = (theme.late_fill, theme.late) if self.figures.late else (theme.bg, theme.ink3)
            keys[at:at] = [("wait", self.colours.wait_pattern, theme.wait_line), ("late", *late)]
        return keys

    # --- rows -------------------------------------------------------------------------------------

    def _lanes(self, first: float, ribbon: Answered | None) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        lengths = sorted(step["dur"] for step in self.scene["steps"])
        start, end = self.scene["range"]
        lanes = LanePainter(
            drawing,
            place,
            self.colours,
            by_name=self.state.get("color") == "name",
            step_ns=lengths[len(lengths) // 2] if lengths else end - start,
            classed=self.classed,
            waits=self.figures.lateness is not None,
        )
        budget = LaneBudget(_LANE_BYTES)
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
                lanes.draw(index, band, y + band.top, named=named)

    def _row_ribbon(self, row: Row, ribbon: Answered, y: float) -> None:
        """Draw a rank's lateness at collectives."""
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
        """Hatch times without data of this rank, to distinguish them from idle time."""
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

    # --- selection --------------------------------------------------------------------------------

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


def whole_name(scene: Mapping[str, Any]) -> str:
    """Return a name for what is loaded: a job, or an exported part of one."""
    return "whole export" if scene.get("part") else "whole job"

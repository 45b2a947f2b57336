"""What stands above and below the rows: the whole job, the axis, steps, phases, a scale bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hta_widgets.export.svg.class_colours import Classed
from hta_widgets.export.svg.class_colours import ClassParts
from hta_widgets.export.svg.colours import Colours
from hta_widgets.export.svg.drawing import Drawing
from hta_widgets.export.svg.drawing import mixed
from hta_widgets.export.svg.drawing import number
from hta_widgets.export.svg.fonts import first_fit
from hta_widgets.export.svg.fonts import fitted
from hta_widgets.export.svg.fonts import text_width
from hta_widgets.export.svg.place import Place
from hta_widgets.text import axis_time
from hta_widgets.text import duration

__all__ = ["Head", "nice_step", "ticks"]

_MINIMAP = 29
_MARK_PX = 2
_WEAKEST = 0.18
_STEP_LINES_FROM_PX = 16
_SCALE_PX = 120
#: Of what begins before the window, or ends after it.
_BEFORE, _AFTER = "\u2039", "\u203a"

Step = Mapping[str, Any]


def nice_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least so much."""
    power = 10.0 ** math.floor(math.log10(least) + 1e-12)
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))


def ticks(place: Place) -> tuple[list[float], float]:
    """Return round times, nine at most, fewer where labels would touch; and their step."""
    step = max(nice_step(place.span / 9), 1e-3)
    for _ in range(6):
        label = axis_time(max(abs(place.start), abs(place.end)), step)
        if step / place.span * place.across >= text_width(label) + 20:
            break
        step = nice_step(step * 1.5)
    first = math.ceil(place.start / step - 1e-9)
    last = math.floor(place.end / step + 1e-9)
    return [at * step for at in range(first, last + 1)], step


class Head:
    """Draws what all rows share.

    Parameters
    ----------
    drawing, place, colours
        Where, and with what.
    scene : mapping
        The engine's.
    late : set of int
        The ranks that the others wait for.
    """

    def __init__(
        self,
        drawing: Drawing,
        place: Place,
        colours: Colours,
        scene: Mapping[str, Any],
        late: frozenset[int],
    ) -> None:
        self.drawing = drawing
        self.place = place
        self.colours = colours
        self.theme = colours.theme
        self.scene = scene
        self.late = late

    def minimap(
        self,
        reply: Mapping[str, Any],
        columns: Mapping[str, Any],
        y: float,
        classed: Classed | None = None,
    ) -> None:
        """Draw the whole job, by kinds or by classes, and which part of it is shown."""
        place, theme, drawing = self.place, self.theme, self.drawing
        start, end = self.scene["range"]
        length = duration(end - start)
        drawing.text(place.left - 10, y + 17, length, theme.ink2, anchor="end")
        room = place.left - 10 - text_width(length) - 20
        drawing.text(12, y + 17, fitted("whole job", room), theme.ink3)
        drawing.rect(place.left, y, place.across, _MINIMAP, theme.lane)
        bins = int(reply["bins"])
        x = place.left + np.arange(bins + 1) / bins * place.across
        total = np.zeros(bins)
        layers = []
        for name, colour in (
            ("compute", theme.kind["compute"]),
            ("exposed", theme.kind["communication"]),
            ("memory", theme.kind["memory"]),
            ("cpu", mixed(theme.kind["cpu"], theme.lane, 0.6)),
        ):
            if name in columns:
                total = total + columns[name]
                layers.append((total, colour))
        if classed is not None and classed.parts is not None:
            layers = self._class_layers(total, (start, end), classed.parts)
        for heights, colour in reversed(layers):
            drawing.path(_steps(x, np.round(heights * (_MINIMAP - 2)), y + _MINIMAP), colour)

        def at(time: float) -> float:
            share = float((time - start) / max(end - start, 1))
            return place.left + min(1.0, max(0.0, share)) * place.across

        x0, x1 = at(place.start), at(place.end)
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
        """Return the busy time parted as the device work of its classes is."""
        bins = len(busy)
        times = job[0] + (np.arange(bins) + 0.5) / bins * (job[1] - job[0])
        layers, below = [], np.zeros(bins)
        for code, share in parts.at(times):
            below = below + busy * share
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
            label = axis_time(time, step)
            if x + 4 + text_width(label) <= place.right:
                drawing.text(x + 4, y - 7, label, theme.ink2)
        return found

    def strip(self, ribbon: tuple[Mapping[str, Any], Mapping[str, Any]] | None, y: float) -> float:
        """Draw steps, phases and who comes last; return where they end."""
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
            self.drawing.text(12, y + 16 * at + 11, fitted(name, room), theme.ink3)
        return y + 16 * len(rows) + 2

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
                drawing.dashed(x, top, bottom, self.theme.kind["annotation"])
                last = x

    def scale_bar(self, y: float) -> None:
        """Draw how long a stretch of the picture is."""
        place, theme, drawing = self.place, self.theme, self.drawing
        least = nice_step(max(_SCALE_PX * place.ns_per_px / 2.5, 1))
        wide = least / place.ns_per_px
        x = place.left
        drawing.rect(x, y, wide, 2, theme.ink)
        drawing.rect(x, y - 3, 1, 8, theme.ink)
        drawing.rect(x + wide - 1, y - 3, 1, 8, theme.ink)
        drawing.text(x + wide + 6, y + 5, duration(least), theme.ink)

    # --- rows of the strip ------------------------------------------------------------------------

    def _in_view(self, steps: Sequence[Step]) -> list[Step]:
        place = self.place
        return [
            step
            for step in steps
            if step["start"] < place.end and step["start"] + step["dur"] > place.start
        ]

    def _steps(self, y: float) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        dark = theme.name == "dark"
        tint = mixed(theme.kind["annotation"], theme.bg, 0.2 if dark else 0.1)
        last = -math.inf
        for step in self._in_view(self.scene["steps"]):
            x0, x1 = place.x(step["start"]), place.x(step["start"] + step["dur"])
            begun, goes_on = step["start"] < place.start, step["start"] + step["dur"] > place.end
            drawing.rect(x0, y, max(x1 - x0 - (0 if goes_on else 1), 1), 15, tint)
            if not begun and x0 - last >= 4:
                drawing.rect(x0, y, 2, 15, theme.kind["annotation"])
                last = x0
            name = f"{_BEFORE} {step['name']}" if begun else step["name"]
            brief = "#" + name.rpartition("#")[2] if "#" in name else name
            label = first_fit([name, brief], x1 - x0 - 10, bold=True)
            if not label:
                continue
            drawing.text(x0 + 6, y + 11, label, theme.ink, bold=True)
            end = _AFTER if goes_on else duration(step["dur"])
            room = x1 - x0 - text_width(label, bold=True) - 24
            if (not begun or goes_on) and text_width(end) <= room:
                drawing.text(x1 - 6, y + 11, end, theme.ink2, anchor="end")

    def _phases(self, y: float) -> None:
        place, theme, drawing = self.place, self.theme, self.drawing
        reached = -math.inf
        for phase in self._in_view(self.scene["phases"]):
            x0, x1 = place.x(phase["start"]), place.x(phase["start"] + phase["dur"])
            begun = phase["start"] < place.start
            if x1 - reached < 3:
                continue
            if not begun:
                drawing.vertical(round(x0), y, y + 14, theme.rule_strong)
            left = max(x0, reached)
            name = f"{_BEFORE} {phase['name']}" if begun else phase["name"]
            if x1 - left >= 26:
                drawing.text(left + 5, y + 11, fitted(name, x1 - left - 9), theme.ink2)
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
            colour = mixed(self._ink(ranks[at]), theme.bg, _WEAKEST + (1 - _WEAKEST) * share)
            drawing.rect(float(left[at]), y + 1, float(width[at]), 13, colour)
        # Who costs most is named first, before or behind its tick: each gap is used once.
        used: set[int] = set()
        for at in drawn[np.argsort(-wait[drawn], kind="stable")].tolist():
            begin, end = float(left[at]), float(left[at] + width[at])
            before = float(left[at - 1]) + _MARK_PX if at else place.left
            places: tuple[tuple[int, float, float, Literal["start", "end"]], ...] = (
                (at, end + 2, float(following[at]) - end - 6, "start"),
                (at - 1, begin - 2, begin - 6 - before, "end"),
            )
            for gap, edge, room, anchor in places:
                label = first_fit([f"rank {ranks[at]}", str(ranks[at])], room)
                if ranks[at] < 0 or gap in used or not label:
                    continue
                drawing.text(edge, y + 11, label, self._ink(ranks[at]), anchor=anchor)
                used.add(gap)
                break

    def _ink(self, rank: int) -> str:
        return self.theme.late if rank in self.late else self.theme.ink3


def _steps(x: Any, heights: Any, base: float) -> str:
    """Return the area under steps that stand on `base`."""
    first = np.flatnonzero(np.diff(heights, prepend=-1.0))
    last = np.append(first[1:], len(heights))
    parts = [f"M{number(x[0])} {number(base)}"]
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        parts.append(f"V{number(base - heights[low])}H{number(x[high])}")
    return "".join([*parts, f"V{number(base)}z"])

"""Draw the header of a picture: minimap, time axis, and strips for steps and phases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from hta_widgets.charts.theme import blend
from hta_widgets.export.pictures.drawing import (
    ClassParts,
    EventClassing,
    Painter,
    PlotArea,
    first_text_that_fits,
    fit_text,
    number,
    text_width,
)
from hta_widgets.text import axis_time, duration
from hta_widgets.trace.arrays import Array

#: Height in px of a strip above the rows.
STRIP_ROW = 16
_MINIMAP = 29
_MARK_PX = 2
_WEAKEST = 0.18
#: Opacity of the overlay that dims the minimap outside the window, and of grid lines.
_VEIL, _GRID = 0.72, 0.19
_STEP_LINES_FROM_PX = 16
_SCALE_PX = 120
#: Symbols for steps that begin before the window or end after it.
_BEFORE, _AFTER = "\u2039", "\u203a"


class _VisibleStep(NamedTuple):
    """A visible step or phase. `x0` and `x1` are its edges in px."""

    name: str
    dur: int
    x0: float
    x1: float
    begins_before: bool
    ends_after: bool


#: A reply from the engine, with unpacked columns.
Answered = tuple[Mapping[str, Any], Mapping[str, Any]]


def round_step(min_step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(min_step) + 1e-12)
    steps = (factor * power for factor in (1, 2, 5, 10))
    return next(step for step in steps if step >= min_step * (1 - 1e-9))


def ticks(area: PlotArea) -> tuple[list[float], float]:
    """Return at most nine round tick times (fewer if labels would touch), and their distance."""
    step = max(round_step(area.span / 9), 1e-3)
    for _ in range(6):
        largest = max(abs(area.start), abs(area.end))
        label = axis_time(largest, step, largest)
        if step / area.span * area.across >= text_width(label) + 20:
            break
        step = round_step(step * 1.5)
    first = math.ceil(area.start / step - 1e-9)
    last = math.floor(area.end / step + 1e-9)
    return [number * step for number in range(first, last + 1)], step


@dataclass
class HeaderPainter(Painter):
    """Draws the minimap, the time axis and the strips above the rows."""

    scene: Mapping[str, Any]
    late: frozenset[int]

    def draw_minimap(self, answered: Answered, y: float, classed: EventClassing | None) -> None:
        """Draw the minimap of the whole job, by kind or by class, and mark the visible window."""
        area, theme, drawing = self.area, self.theme, self.drawing
        reply, columns = answered
        start, end = self.scene["range"]
        length = duration(end - start)
        drawing.text(area.left - 10, y + 17, length, theme.ink2, anchor="end")
        max_width = area.left - 10 - text_width(length) - 20
        drawing.text(12, y + 17, fit_text(whole_name(self.scene), max_width), theme.ink3)
        drawing.rect(area.left, y, area.across, _MINIMAP, theme.lane)
        bins = int(reply["bins"])
        x = area.left + np.arange(bins + 1) / bins * area.across
        total = np.zeros(bins)
        layers = []  # top and color of each stacked layer, lowest first
        is_host = "exposed" not in columns
        for name, shares in columns.items():
            total = total + shares
            color = theme.kind["communication" if name == "exposed" else name]
            layers.append((total, blend(color, theme.lane, 0.6) if is_host else color))
        if classed is not None and classed.parts is not None:
            layers = self._class_layers(total, (start, end), classed.parts)
        for heights, color in reversed(layers):
            drawing.path(_step_path(x, np.round(heights * (_MINIMAP - 2)), y + _MINIMAP), color)
        job = PlotArea(area.width, start, max(end, start + 1), has_totals=area.margin > 0)
        self._mark_window(job.x(area.start), job.x(area.end), y)

    def _mark_window(self, x0: float, x1: float, y: float) -> None:
        """Frame the visible window in the minimap and dim the rest. Omitted for the whole job."""
        area, theme, drawing = self.area, self.theme, self.drawing
        if x1 - x0 > area.across - 1:
            return
        drawing.rect(area.left, y, x0 - area.left, _MINIMAP, theme.bg, _VEIL)
        drawing.rect(x1, y, area.right - x1, _MINIMAP, theme.bg, _VEIL)
        width = max(x1 - x0, 3)
        left = min(x0, area.right - width)
        drawing.frame(left, y, width, _MINIMAP, theme.brush_line, 1.5)

    def _class_layers(
        self, busy: Any, job: tuple[int, int], parts: ClassParts
    ) -> list[tuple[Any, str]]:
        """Return layers that split the busy share by event class, in proportion to device work."""
        bins = len(busy)
        start, end = job
        times = start + (np.arange(bins) + 0.5) / bins * (end - start)
        layers, total = [], np.zeros(bins)
        for code, shares in parts.at(times):
            total = total + busy * shares
            layers.append((total, self.colors.column(code, "solid")))
        return layers

    def draw_axis(self, y: float) -> list[float]:
        """Draw the time axis with its bottom at `y`; return the x coordinates of the ticks."""
        area, theme, drawing = self.area, self.theme, self.drawing
        times, step = ticks(area)
        tick_xs: list[float] = []
        for time in times:
            x = round(area.x(time))
            tick_xs.append(x)
            drawing.vertical(x, y - 4, y, theme.rule_strong)
            label = axis_time(time, step, max(abs(area.start), abs(area.end)))
            if x + 4 + text_width(label) <= area.right:
                drawing.text(x + 4, y - 7, label, theme.ink2)
        return tick_xs

    def draw_strip(self, ribbon: Answered | None, y: float) -> None:
        """Draw the strips: steps, phases, and the ranks that come last at collectives."""
        scene, area, theme = self.scene, self.area, self.theme
        names: list[str] = []
        if scene["steps"]:
            several = len(scene["ranks"]) > 1 and not area.narrow
            names.append("steps, median rank" if several else "steps")
            self._draw_steps(y)
        if scene["phases"]:
            self._draw_phases(y + STRIP_ROW * len(names))
            names.append("phases")
        if ribbon is not None:
            self._draw_job_ribbon(*ribbon, y + STRIP_ROW * len(names))
            names.append("comes last" if area.narrow else "who comes last")
        for index, name in enumerate(names):
            shown_name = fit_text(name, area.left - 20)
            self.drawing.text(12, y + STRIP_ROW * index + 11, shown_name, theme.ink3)

    def draw_lines(self, tick_xs: Sequence[float], top: float, bottom: float) -> None:
        """Draw grid lines at ticks and step boundaries across all rows."""
        area, drawing = self.area, self.drawing
        for x in tick_xs:
            if x > area.left:
                drawing.vertical(x, top, bottom, self.theme.rule_strong, _GRID)
        last = -math.inf
        for step in self.scene["steps"]:
            if not area.start < step["start"] < area.end:
                continue
            x = round(area.x(step["start"]))
            if x - last >= _STEP_LINES_FROM_PX:
                drawing.dashed_line(x, top, bottom, self.theme.kind["annotation"])
                last = x

    def draw_scale_bar(self, y: float) -> None:
        """Draw a scale bar whose length is a round time, with a label."""
        area, theme, drawing = self.area, self.theme, self.drawing
        length_ns = round_step(max(_SCALE_PX * area.ns_per_px / 2.5, 1))
        width = length_ns / area.ns_per_px
        x = area.left
        drawing.rect(x, y, width, 2, theme.ink)
        drawing.rect(x, y - 3, 1, 8, theme.ink)
        drawing.rect(x + width - 1, y - 3, 1, 8, theme.ink)
        drawing.text(x + width + 6, y + 5, duration(length_ns), theme.ink)

    def _in_view(self, steps: Sequence[Mapping[str, Any]]) -> Iterator[_VisibleStep]:
        area = self.area
        for step in steps:
            start, dur = step["start"], step["dur"]
            end = start + dur
            if start < area.end and end > area.start:
                before, after = start < area.start, end > area.end
                name = f"{_BEFORE} {step['name']}" if before else step["name"]
                yield _VisibleStep(name, dur, area.x(start), area.x(end), before, after)

    def _draw_steps(self, y: float) -> None:
        theme, drawing = self.theme, self.drawing
        tint = blend(theme.kind["annotation"], theme.bg, 0.2 if theme.name == "dark" else 0.1)
        last = -math.inf
        for step in self._in_view(self.scene["steps"]):
            x0, x1, name = step.x0, step.x1, step.name
            drawing.rect(x0, y, max(x1 - x0 - (0 if step.ends_after else 1), 1), 15, tint)
            if not step.begins_before and x0 - last >= 4:
                drawing.rect(x0, y, 2, 15, theme.kind["annotation"])
                last = x0
            number_text = "#" + name.rpartition("#")[2] if "#" in name else name
            label = first_text_that_fits([name, number_text], x1 - x0 - 10, bold=True)
            if not label:
                continue
            drawing.text(x0 + 6, y + 11, label, theme.ink, bold=True)
            end_text = _AFTER if step.ends_after else duration(step.dur)
            max_width = x1 - x0 - text_width(label, bold=True) - 24
            is_end_shown = step.ends_after or not step.begins_before
            if is_end_shown and text_width(end_text) <= max_width:
                drawing.text(x1 - 6, y + 11, end_text, theme.ink2, anchor="end")

    def _draw_phases(self, y: float) -> None:
        theme, drawing = self.theme, self.drawing
        last_end = -math.inf
        for phase in self._in_view(self.scene["phases"]):
            if phase.x1 - last_end < 3:
                continue
            if not phase.begins_before:
                drawing.vertical(round(phase.x0), y, y + 14, theme.rule_strong)
            left = max(phase.x0, last_end)
            width = phase.x1 - left
            if width >= 26:
                drawing.text(left + 5, y + 11, fit_text(phase.name, width - 9), theme.ink2)
            last_end = phase.x1

    def _draw_job_ribbon(
        self, reply: Mapping[str, Any], columns: Mapping[str, Any], y: float
    ) -> None:
        area, theme, drawing = self.area, self.theme, self.drawing
        if not reply["of"]:
            drawing.text(area.left + 6, y + 11, "no collectives matched", theme.ink3)
            return
        x = area.left + (columns["job_bin"] + 0.5) / reply["bins"] * area.across
        following = np.append(x[1:], area.right)
        wait, ranks = columns["job_wait"], columns["job_rank"].tolist()
        drawn = np.flatnonzero(wait > 0)
        width = np.clip(following - x, 1, _MARK_PX)
        left = np.minimum(x, area.right - width)
        for index in drawn.tolist():
            strength = math.sqrt(min(1, wait[index] / max(reply["job_most"], 1)))
            opacity = _WEAKEST + (1 - _WEAKEST) * strength
            color = blend(self._rank_color(ranks[index]), theme.bg, opacity)
            drawing.rect(float(left[index]), y + 1, float(width[index]), 13, color)
        gap_starts, right = np.append(area.left, left + _MARK_PX), left + width
        # Ranks that cause the most waiting are labeled first.
        order = drawn[np.argsort(-wait[drawn], kind="stable")].tolist()
        xs = {mark: (gap_starts[mark], left[mark], right[mark], following[mark]) for mark in order}
        self._label_marks({mark: (ranks[mark], xs[mark]) for mark in order}, y + 11)

    def _label_marks(self, marks: Mapping[int, tuple[int, Sequence[float]]], y: float) -> None:
        """Label marks with their ranks. Each gap between two marks has room for one label.

        `marks` contains the rank and the x coordinates of each mark: the start of the gap on the
        left, both edges of the mark, and the end of the gap on the right.
        """
        used_gaps: set[int] = set()  # gap k follows mark k
        for mark, (rank, (gap_start, left, right, gap_end)) in marks.items():
            places: tuple[tuple[int, float, float, Literal["start", "end"]], ...] = (
                (mark, right + 2, gap_end - right - 6, "start"),
                (mark - 1, left - 2, left - 6 - gap_start, "end"),
            )
            for gap, text_x, max_width, anchor in places:
                label = first_text_that_fits([f"rank {rank}", str(rank)], max_width)
                if label and rank >= 0 and gap not in used_gaps:
                    self.drawing.text(text_x, y, label, self._rank_color(rank), anchor=anchor)
                    used_gaps.add(gap)
                    break

    def _rank_color(self, rank: int) -> str:
        return self.theme.late if rank in self.late else self.theme.ink3


def _step_path(x: Array, heights: Array, base: float) -> str:
    """Return a path that fills the area between a step function and `base`."""
    starts = np.flatnonzero(np.diff(heights, prepend=-1.0))
    ends = np.append(starts[1:], len(heights))
    parts = [f"M{number(x[0])} {number(base)}"]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        parts.append(f"V{number(base - heights[start])}H{number(x[end])}")
    return "".join([*parts, f"V{number(base)}z"])


def whole_name(scene: Mapping[str, Any]) -> str:
    """Return the label of the whole range: a job, or an exported part of a job."""
    return "whole export" if scene.get("part") else "whole job"

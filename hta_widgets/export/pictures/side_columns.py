"""Draw the columns beside the rows of a picture: names on the left, totals on the right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from hta_widgets.export.pictures.drawing import Painter, first_text_that_fits, fit_text, text_width
from hta_widgets.export.pictures.rows import Band, Row
from hta_widgets.text import count, duration, share, value

_BASELINE = 4
#: Minimum vertical distance in px between two baselines.
_LINE = 10
_PAD = 12
#: Minimum height of a row with two lines of text, and the baseline of each line.
_TWO_LINES_HEIGHT, _FIRST_LINE, _SECOND_LINE = 34, 14, 28
_WARNING_INK = "#744600"
#: Minimum distance from a baseline to the bottom of the row.
_LOWEST_NAME = 3
#: Minimum number of collectives for a label such as "last 60 %".
_MIN_COLLECTIVES = 4


@dataclass(frozen=True)
class WindowTotals:
    """Totals of each rank in the visible window, from the replies to ``stats`` and ``lateness``."""

    stats: Mapping[int, Mapping[str, int]]
    lateness: Mapping[int, Mapping[str, int]] | None = None
    late: frozenset[int] = frozenset()

    def exposed_wait(self, rank: int) -> int:
        """Return the exposed waiting time of a rank in ns, or 0 if it is unknown."""
        return 0 if self.lateness is None else self.lateness[rank]["exposed_wait"]


def totals_by_rank(reply: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    """Convert a reply that has a list per kind of time to a mapping by rank."""
    columns = {
        name: values
        for name, values in reply.items()
        if isinstance(values, list) and name not in {"late", "approximate"}
    }
    return {
        rank: {name: values[index] for name, values in columns.items()}
        for index, rank in enumerate(reply["ranks"])
    }


def _device_of(ranks: Iterable[Mapping[str, Any]]) -> str:
    return next((rank["device"] for rank in ranks if "device" in rank), "GPU")


@dataclass(frozen=True)
class _RankFact:
    """The most important fact about a rank, as alternative texts (longest first)."""

    texts: tuple[str, ...]
    style: Literal["plain", "warn", "late"] = "plain"


@dataclass
class SideColumnPainter(Painter):
    """Draws names and facts to the left of the lanes, and totals to their right."""

    figures: WindowTotals
    #: Whether the column title explains the two numbers below each bar.
    is_named: bool = False

    def draw_names(self, row: Row, y: float) -> None:
        """Draw the name of a row and, for a rank, the most important fact about it."""
        if row.track is not None:
            self._draw_track_names(row, y)
            return
        theme, drawing, left = self.theme, self.drawing, self.area.left
        fact = self._main_fact(row)
        if fact.style == "late":
            drawing.rect(0, y, left, row.height, self.colors.late_ground)
        drawing.horizontal(y, 0, left, theme.rule)
        if fact.style == "late":
            drawing.rect(0, y + 1, 4, row.height - 1, theme.late)
        ink = {"plain": theme.ink2, "late": theme.late, "warn": _WARNING_INK}[fact.style]
        if not row.open and row.height >= _TWO_LINES_HEIGHT:
            self._draw_two_lines(row, y, fact, ink)
        else:
            self._draw_one_line(row, y, fact, ink)

    def _draw_two_lines(self, row: Row, y: float, fact: _RankFact, ink: str) -> None:
        theme, drawing, area = self.theme, self.drawing, self.area
        right = area.left - 8
        bands = [] if area.narrow else [band for band in row.bands if band.label]
        lanes: _LaneNames = [(_name_baseline(band, row.height), band.label) for band in bands]
        name_line = _Line(_FIRST_LINE, row.names, theme.ink, bold=True, can_remove=True)
        # The long label of the communication lane leaves no space for a fact on its line.
        last_baseline = row.height - _LOWEST_NAME
        has_third_line = last_baseline >= _SECOND_LINE + _LINE
        is_beside_long_name = _width_on_line(lanes, _SECOND_LINE) > right / 2
        baseline = last_baseline if is_beside_long_name and has_third_line else _SECOND_LINE
        is_group, is_late = len(row.like) > 1 or row.why != "", fact.style == "late"
        can_remove = is_group or not has_third_line
        fact_line = _Line(baseline, fact.texts, ink, bold=is_late, can_remove=can_remove)
        for line in (name_line, fact_line):
            lanes = self._draw_line(row, y, line, lanes)
        for lane_baseline, name in lanes:
            drawing.text(right, y + lane_baseline, name, theme.ink3, anchor="end")

    def _draw_one_line(self, row: Row, y: float, fact: _RankFact, ink: str) -> None:
        middle, right = y + round(row.height / 2) + _BASELINE, self.area.left - 8
        max_width = right - _PAD
        label = first_text_that_fits(row.names, max_width, bold=row.open)
        label = label or fit_text(row.names[-1], max_width, bold=row.open)
        self.drawing.text(_PAD, middle, label, self.theme.ink, bold=row.open)
        max_width -= text_width(label, bold=row.open) + 8
        is_late = fact.style == "late"
        label = first_text_that_fits(fact.texts, max_width, bold=is_late)
        self.drawing.text(right, middle, label, ink, anchor="end", bold=is_late)

    def _draw_line(self, row: Row, y: float, line: _Line, lanes: _LaneNames) -> _LaneNames:
        """Draw a line of text next to lane labels; return the labels that still fit."""
        width = self.area.left - 8 - _PAD
        text = first_text_that_fits(line.texts, width, bold=line.bold)
        lanes = _lane_names_next_to(lanes, row, line, text_width(text, bold=line.bold), width)
        width -= _width_on_line(lanes, line.baseline)
        text = first_text_that_fits(line.texts, width, bold=line.bold)
        if not text and line.baseline == _FIRST_LINE:
            text = fit_text(row.names[-1], width, bold=True)
        self.drawing.text(_PAD, y + line.baseline, text, line.color, bold=line.bold)
        return lanes

    def _draw_track_names(self, row: Row, y: float) -> None:
        right, max_width = self.area.left - 8, self.area.left - 12
        draw = partial(self.drawing.text, right, anchor="end")
        # The name is centered on the lanes above the first lane that has its own label.
        labeled = next((band for band in row.bands[1:] if band.label), None)
        height = row.height - 4 if labeled is None else labeled.top
        middle = y + height / 2 + _BASELINE
        full_name = row.names[0]
        short_name = re.sub(r"^\w+ {2}", "", full_name)  # omit the device: "GPU stream 7"
        is_short = self.area.narrow or text_width(full_name) > max_width
        name = fit_text(short_name if is_short else full_name, max_width)
        track = row.track or {}
        limits = track.get("range")
        if limits is not None and height >= 28:
            lowest, highest = (value(number, track.get("unit", "")) for number in limits)
            draw(middle - 7, name, self.theme.ink2)
            label = first_text_that_fits([f"{lowest} – {highest}", highest], max_width)
            draw(middle + 7, label, self.theme.ink3)
        elif height >= 11:
            draw(middle, name, self.theme.ink2)
        for band in row.bands[1:]:
            if band.label and band.height >= 11:
                baseline = y + band.top + band.height / 2 + _BASELINE
                draw(baseline, band.label, self.theme.ink3)

    def _main_fact(self, row: Row) -> _RankFact:
        """Return a warning if there is one, else why the rank is an outlier, else its main fact."""
        fact = self._rank_fact(row.rank)
        reason = row.why.partition(";")[0]
        if len(row.like) > 1:  # state which rank of the group the fact is about
            subject = f"rank {row.rank['rank']} "
            texts = (subject + text if re.search(r"\d", text) else text for text in fact.texts)
            fact = _RankFact(tuple(texts), fact.style)
        if not reason or fact.style == "warn":
            return fact
        return _RankFact((reason, *fact.texts), fact.style)

    def _rank_fact(self, rank: Mapping[str, Any]) -> _RankFact:
        number = rank["rank"]
        if rank["truncated"] is not None:
            end_text = f"{rank['range'][1] / 1e6:.3f}\u202fms"
            return _RankFact((f"ends at {end_text}", "ends early"), "warn")
        if not rank["tracks"]:
            return _RankFact(("no events",))
        if all(row["role"] == "cpu" for row in rank["summary"]):
            return _RankFact((rank["host"] or "CPU only",))
        if (lateness_fact := self._lateness_fact(number)) is not None:
            return lateness_fact
        stats = self.figures.stats.get(number)
        if stats is None:
            return _RankFact(())
        if stats["data"] <= 0:
            return _RankFact(("no data here",))
        if not self.area.margin:
            return _RankFact((f"idle {share(stats['idle'] / max(stats['span'], 1))}",))
        if stats["exposed"] > 0:
            return _RankFact((f"exposed {duration(stats['exposed'])}",))
        busy_ns = stats["span"] - stats["idle"] - stats["unrecorded"]
        return _RankFact((f"busy {duration(busy_ns)}",))

    def _lateness_fact(self, rank: int) -> _RankFact | None:
        """Return how often a rank comes last at collectives, or else how long it waits there."""
        if self.figures.lateness is None:
            return None
        lateness = self.figures.lateness[rank]
        last, collectives = lateness["last"], lateness["collectives"]
        if rank in self.figures.late:
            last_text, total = count(last), count(collectives)
            texts = (f"last in {last_text} of {total}", f"last {last_text}/{total}", "last")
            return _RankFact(texts, "late")
        if not self.figures.late and collectives >= _MIN_COLLECTIVES and 2 * last > collectives:
            return _RankFact((f"last {share(last / collectives)}",))
        if lateness["exposed_wait"] > 0:
            return _RankFact((f"waits {duration(lateness['exposed_wait'])}",))
        return None

    def draw_title(self, rows: Sequence[Row], y: float, lines: int) -> None:
        """Draw the title of the totals column. A second line explains the numbers."""
        roles = {part["role"] for row in rows for part in row.rank["summary"]}
        if not self.area.margin or not lines or roles <= {"cpu"}:
            return
        self.is_named = lines > 1
        x = self.area.right + _PAD
        max_width = self.area.margin - _PAD - 4
        all_mpi = all(_is_mpi(row.rank) for row in rows)
        label = f"{'MPI' if all_mpi else _device_of(row.rank for row in rows)} time in view"
        self.drawing.text(x, y + 11, fit_text(label, max_width), self.theme.ink3)
        if lines > 1:
            has_waits = self.figures.lateness is not None
            if "comm" not in roles:
                names = ["idle"]
            elif all_mpi:
                names = ["waiting · other" if has_waits else "in MPI · other"]
            elif has_waits:
                names = ["exposed waiting · idle", "waiting · idle"]
            else:
                names = ["exposed · idle"]
            self.drawing.text(x, y + 27, first_text_that_fits(names, max_width), self.theme.ink3)

    def draw_totals(self, row: Row, y: float) -> None:
        """Draw the breakdown of a rank's device time in the visible window."""
        area, theme, drawing = self.area, self.theme, self.drawing
        if not area.margin or row.track is not None:
            return
        number = row.rank["rank"]
        is_late = number in self.figures.late
        if is_late:
            drawing.rect(area.right, y, area.margin, row.height, self.colors.late_ground)
        drawing.horizontal(y, area.right, area.width, theme.rule)
        stats = self.figures.stats.get(number)
        if stats is None or all(part["role"] == "cpu" for part in row.rank["summary"]):
            return
        span_ns, wait_ns = stats["span"], self.figures.exposed_wait(number)
        if row.height < 24:
            self._draw_bar(stats, wait_ns, y + round((row.height - 8) / 2), 8)
            return
        top, height, line_px = (y + 3, 11, 14) if row.height >= 36 else (y + 4, 8, 12)
        self._draw_bar(stats, wait_ns, top, height)
        left, baseline = area.right + _PAD, top + height + line_px
        if span_ns <= 0:
            label = f"no {_device_of([row.rank])} work" if stats["data"] > 0 else "no data"
            drawing.text(left, baseline, label, theme.ink3)
        elif row.rank["truncated"] is not None:
            drawing.text(left, baseline, "file cut off", _WARNING_INK)
        elif is_late:
            drawing.text(left, baseline, "causes the wait", theme.late, bold=True)
        else:
            self._draw_shares(row, stats, wait_ns, baseline)

    def _draw_bar(self, stats: Mapping[str, Any], wait_ns: int, top: float, height: float) -> None:
        """Draw how the span is divided. The part of the frame that stays empty is idle time."""
        theme, drawing, span_ns = self.theme, self.drawing, stats["span"]
        left, width = self.area.right + _PAD, self.area.margin - 2 * _PAD
        x: float = left
        for ns, color in (
            (stats["compute"], theme.kind["compute"]),
            (stats["exposed"] - wait_ns, theme.kind["communication"]),
            (wait_ns, self.colors.wait_pattern),
            (stats["memory"], theme.kind["memory"]),
            (stats["unrecorded"], theme.idle),
        ):
            right = x + (ns / span_ns * width if span_ns > 0 else 0)
            drawing.rect(x, top, right - x, height, color)
            if color == self.colors.wait_pattern:
                drawing.frame(x, top, right - x, height, theme.wait_line)
            x = right
        drawing.frame(left, top, width, height, theme.idle_line)

    def _draw_shares(
        self, row: Row, stats: Mapping[str, Any], wait_ns: int, baseline: float
    ) -> None:
        """Draw the share of waiting, or else of communication, and the idle or unrecorded share."""
        span_ns, is_mpi = stats["span"], _is_mpi(row.rank)
        word, shown_ns = "in MPI" if is_mpi else "exposed", stats["exposed"]
        if self.figures.lateness is not None:
            word, shown_ns = "waiting", wait_ns
        shown_share = share(shown_ns / span_ns) if shown_ns > 0 else ""
        label = f"{word} {shown_share}" if shown_share else ""
        is_idle = stats["idle"] >= stats["unrecorded"]
        rest_word = "idle" if is_idle else "unrecorded"
        if is_mpi:
            rest_word = "other"
        rest_share = share(max(stats["idle"], stats["unrecorded"]) / span_ns)
        rest_label = f"{rest_word} {rest_share}"
        shorter = [(label, "")]
        if self.is_named and is_idle:
            shorter = [(shown_share, rest_label), (shown_share, rest_share)]
        self._draw_pair(baseline, [(label, rest_label), *shorter])

    def _draw_pair(self, baseline: float, forms: Sequence[tuple[str, str]]) -> None:
        """Draw the first pair of texts that fits, aligned to the left and right of the column."""
        left, right = self.area.right + _PAD, self.area.width - _PAD
        for left_text, right_text in forms:
            if text_width(left_text) + text_width(right_text) + 8 <= right - left:
                self.drawing.text(left, baseline, left_text, self.theme.ink2)
                self.drawing.text(right, baseline, right_text, self.theme.ink3, anchor="end")
                return


def _is_mpi(rank: Mapping[str, Any]) -> bool:
    rows = [row for row in rank["summary"] if row["role"] != "cpu"]
    return bool(rows) and all(row["label"] == "MPI" for row in rows)


def _name_baseline(band: Band, row_height: float) -> float:
    baseline = band.top + (3 if band.height < 8 else band.height / 2) + _BASELINE
    return min(baseline, row_height - _LOWEST_NAME)


#: (baseline, label) of the lanes of a folded row.
_LaneNames = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class _Line:
    """A line of text in a folded row. The first of `texts` that fits is used."""

    baseline: float
    texts: Sequence[str]
    color: str
    bold: bool
    #: Whether lane labels, which every row repeats, can be dropped to make room.
    can_remove: bool

    def is_near(self, baseline: float) -> bool:
        """Return whether text on another baseline could overlap this line."""
        return abs(baseline - self.baseline) < _LINE


def _lane_names_next_to(
    lanes: _LaneNames, row: Row, line: _Line, width: float, max_width: float
) -> _LaneNames:
    """Return the lane labels that leave `width` of `max_width` px for a line of text.

    The page uses the same rules.
    """
    forms = [lanes]
    if len(row.like) <= 1 and not row.why:
        device = _device_of([row.rank])
        forms.append(
            [
                (baseline, device if name == "compute" and line.is_near(baseline) else name)
                for baseline, name in lanes
            ]
        )
    if line.can_remove:
        forms.append([lane for lane in lanes if not line.is_near(lane[0])])
    fitting = (form for form in forms if width + _width_on_line(form, line.baseline) <= max_width)
    return next(fitting, forms[-1])


def _width_on_line(lanes: _LaneNames, baseline: float) -> float:
    widths = [
        text_width(name) + 8
        for lane_baseline, name in lanes
        if abs(lane_baseline - baseline) < _LINE
    ]
    return max(widths, default=0)

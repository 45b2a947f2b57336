"""The columns beside the rows: names on the left, where the device time goes on the right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hta_widgets.export.svg.colours import Colours
from hta_widgets.export.svg.drawing import Drawing
from hta_widgets.export.svg.fonts import first_fit
from hta_widgets.export.svg.fonts import fitted
from hta_widgets.export.svg.fonts import text_width
from hta_widgets.export.svg.place import Place
from hta_widgets.export.svg.rows import Band
from hta_widgets.export.svg.rows import Row
from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import share
from hta_widgets.text import value

__all__ = ["Figures", "Sides"]

_BASELINE = 4
_CLOSE, _LINE = 9, 11
_PAD = 12
#: From so many collectives on it is said how often a rank comes last.
_LEAST_COLLECTIVES = 4


@dataclass(frozen=True)
class Figures:
    """What adds up in the window, by rank: the engine's ``stats`` and ``lateness``."""

    stats: Mapping[int, Mapping[str, int]]
    lateness: Mapping[int, Mapping[str, int]] | None
    late: frozenset[int]

    @classmethod
    def of(cls, stats: Mapping[str, Any], lateness: Mapping[str, Any] | None) -> Figures:
        """Return the figures of two replies."""
        return cls(
            _by_rank(stats),
            None if lateness is None else _by_rank(lateness),
            frozenset(() if lateness is None else lateness["late"]),
        )

    def exposed_wait(self, rank: int) -> int:
        """Return what a rank waits while it computes nothing; 0 where that is not known."""
        return 0 if self.lateness is None else self.lateness[rank]["exposed_wait"]


def _by_rank(reply: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    ranks = reply["ranks"]
    columns = {
        name: values
        for name, values in reply.items()
        if isinstance(values, list) and len(values) == len(ranks) and name != "late"
    }
    return {
        rank: {name: values[at] for name, values in columns.items()}
        for at, rank in enumerate(ranks)
    }


@dataclass(frozen=True)
class _Fact:
    """The words, then what may stand instead of them where there is less room."""

    texts: tuple[str, ...]
    look: Literal["plain", "warn", "late"] = "plain"


class Sides:
    """Draws the columns of a picture.

    Parameters
    ----------
    drawing, place, colours
        Where, and with what.
    figures : Figures
    """

    def __init__(self, drawing: Drawing, place: Place, colours: Colours, figures: Figures) -> None:
        self.drawing = drawing
        self.place = place
        self.colours = colours
        self.theme = colours.theme
        self.figures = figures

    # --- names ------------------------------------------------------------------------------------

    def names(self, row: Row, y: float) -> None:
        """Draw what a row is called, and the one thing worth saying of a rank."""
        if row.track is not None:
            self._track_names(row, y)
            return
        theme, drawing, place = self.theme, self.drawing, self.place
        fact = self._fact(row)
        late = fact.look == "late"
        if late:
            drawing.rect(0, y, place.left, row.height, self.colours.late_ground)
        drawing.horizontal(y, 0, place.left, theme.rule)
        if late:
            drawing.rect(0, y + 1, 4, row.height - 1, theme.late)
        ink = {"plain": theme.ink2, "late": theme.late, "warn": "#744600"}[fact.look]
        right = place.left - 8
        if not row.open and row.height >= 34:
            lanes = [] if place.narrow else [band for band in row.bands if band.label]
            for baseline, texts, bold, colour in (
                (14, row.names, True, theme.ink),
                (28, fact.texts, late, ink),
            ):
                room = right - 12 - _beside(lanes, row.height, baseline)
                label = first_fit(texts, room, bold=bold)
                if not label and baseline == 14:
                    label = fitted(row.names[-1], room, bold=True)
                drawing.text(12, y + baseline, label, colour, bold=bold)
            for band in lanes:
                at = y + _name_baseline(band, row.height)
                drawing.text(right, at, band.label, theme.ink3, anchor="end")
            return
        middle = y + round(row.height / 2) + _BASELINE
        room = right - 12
        label = first_fit(row.names, room, bold=row.open)
        label = label or fitted(row.names[-1], room, bold=row.open)
        drawing.text(12, middle, label, theme.ink, bold=row.open)
        room -= text_width(label, bold=row.open) + 8
        said = first_fit(fact.texts, room, bold=late)
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
            drawing.text(right, middle - 7, fitted(name, room), theme.ink2, anchor="end")
            said = first_fit([f"{lowest} – {highest}", highest], room)
            drawing.text(right, middle + 7, said, theme.ink3, anchor="end")
        elif low - y >= 11:
            drawing.text(right, middle, fitted(name, room), theme.ink2, anchor="end")
        for band in row.bands[1:]:
            if band.label and band.height >= 11:
                at = y + band.top + band.height / 2 + _BASELINE
                drawing.text(right, at, band.label, theme.ink3, anchor="end")

    def _fact(self, row: Row) -> _Fact:
        own = self._own_fact(row.rank)
        reason = row.why.partition(";")[0]
        if not reason or own.look == "warn":
            return own
        return _Fact((reason, *own.texts), own.look)

    def _own_fact(self, rank: Mapping[str, Any]) -> _Fact:
        number = rank["rank"]
        if rank["truncated"] is not None:
            at = f"{rank['range'][1] / 1e6:.3f}\u2009ms"
            return _Fact((f"ends at {at}", at), "warn")
        if all(row["role"] == "cpu" for row in rank["summary"]):
            return _Fact((rank["host"] or "CPU only",))
        if self.figures.lateness is not None:
            lateness = self.figures.lateness[number]
            if number in self.figures.late:
                last, whole = count(lateness["last"]), count(lateness["collectives"])
                texts = (f"last in {last} of {whole}", f"last {last}/{whole}", "last")
                return _Fact(texts, "late")
            came, of = lateness["last"], lateness["collectives"]
            if of >= _LEAST_COLLECTIVES and 2 * came > of:
                return _fact("last", share(came / of))
            if lateness["wait"] > 0:
                time = duration(lateness["wait"])
                # The margin has what of it is exposed.
                return _Fact((f"waits {time} in all", f"waits {time}", time))
        stats = self.figures.stats.get(number)
        if stats is None:
            return _Fact(())
        if stats["data"] <= 0:
            return _Fact(("no data here",))
        if not self.place.margin:
            return _fact("idle", share(stats["idle"] / max(stats["span"], 1)))
        if stats["exposed"] > 0:
            return _fact("exposed", duration(stats["exposed"]))
        return _fact("busy", duration(stats["span"] - stats["idle"]))

    # --- totals -----------------------------------------------------------------------------------

    def title(self, rows: Sequence[Row], y: float, lines: int) -> None:
        """Say what the column on the right is of."""
        device = any(part["role"] != "cpu" for row in rows for part in row.rank["summary"])
        if not self.place.margin or not lines or not device:
            return
        x = self.place.right + _PAD
        room = self.place.margin - _PAD - 4
        mpi = all(_is_mpi(row.rank) for row in rows)
        said = f"{'MPI' if mpi else 'GPU'} time in view"
        self.drawing.text(x, y + 11, fitted(said, room), self.theme.ink3)
        if lines > 1:
            word = "comm" if self.figures.lateness is None else "wait"
            keys = [f"exposed {word} · idle", f"exp. {word} · idle"]
            if mpi:
                keys = [f"{word} · other"]
            self.drawing.text(x, y + 27, first_fit(keys, room), self.theme.ink3)

    def totals(self, row: Row, y: float) -> None:
        """Draw where a rank's device time goes in this window."""
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
            self._pair(left, baseline, width, *numbers)

    def _pair(self, x: float, y: float, width: float, exposed: str, rest: str, idle: str) -> None:
        """Write the exposed share left, the rest right; without room only the numbers."""
        bare = exposed.partition(" ")[2]
        for left, right in ((exposed, f"{rest} {idle}"), (bare, f"{rest} {idle}"), (bare, idle)):
            if text_width(left) + text_width(right) + 8 <= width:
                self.drawing.text(x, y, left, self.theme.ink2)
                self.drawing.text(x + width, y, right, self.theme.ink3, anchor="end")
                return


def _is_mpi(rank: Mapping[str, Any]) -> bool:
    """Return whether the rank's calls of MPI stand where others have device work."""
    rows = [row for row in rank["summary"] if row["role"] != "cpu"]
    return bool(rows) and all(row["label"] == "MPI" for row in rows)


def _fact(word: str, number: str) -> _Fact:
    return _Fact((f"{word} {number}", number))


def _name_baseline(band: Band, row_height: float) -> float:
    beside = band.top + (3 if band.height < 8 else band.height / 2) + _BASELINE
    return min(beside, row_height - 3)


def _beside(lanes: Sequence[Band], row_height: float, baseline: float) -> float:
    """Return the room that names of lanes on the same line take."""
    widths = [
        text_width(band.label) + 8
        for band in lanes
        if abs(_name_baseline(band, row_height) - baseline) < _CLOSE
    ]
    return max(widths, default=0)

"""Draw the figure of docs/performance.md: times of other tools relative to this package."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from _anchors import (
    CATAPULT_ROW,
    FLOOR_ROW,
    HTA_ROW,
    JSON_ROW,
    ORJSON_ROW,
    OURS,
    PERFETTO_ROW,
    STORE_EVENTS,
)
from _harness import round_text, time_text
from _results import Results

__all__ = ["Bar", "Group", "groups", "svg"]

WIDTH, LEFT, RIGHT = 880, 236, 150
ROW, HEAD, TOP, BOTTOM = 22, 40, 74, 34
BAR = 12
INK, SOFT, LINE = "#1f2933", "#5f6b7a", "#e3e7ec"
SLOWER, HTA, FASTER = "#8fa3b8", "#c2571a", "#3b8f5a"
LEGEND = "Logarithmic axis: right of the line others take longer (HTA: orange), left less (green)"
FONT = "system-ui, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Bar:
    """The time of another tool relative to ours, or the reason why that time is missing."""

    label: str
    ratio: float | None
    words: str


@dataclass(frozen=True)
class Group:
    title: str
    bars: tuple[Bar, ...]


def groups(results: Results) -> list[Group]:
    """Return the measurements in page order, omitting empty groups."""
    result = [
        _file(results, "small", "Load 35 MB"),
        _file(results, "large", "Load 311 MB"),
        _job(results),
        _again(results),
        _analyses(results),
        _moves(results, "small", "Zoom, pan and keys over 35 MB: the page's work"),
        _moves(results, "large", "Zoom, pan and keys over 311 MB: the page's work"),
    ]
    return [group for group in result if any(bar.ratio is not None for bar in group.bars)]


def _bar(label: str, theirs: float | None, own: float | None, why: str = "") -> Bar:
    if theirs is None or not own:
        return Bar(label, None, why or "not measured")
    return Bar(label, theirs / own, time_text(theirs))


def _titled(title: str, own: float | None) -> str:
    return f"{title} · ours {time_text(own)}" if own else title


def _file(results: Results, size: str, title: str) -> Group:
    own = results.seconds(size, OURS)
    names = (HTA_ROW, JSON_ROW, ORJSON_ROW, PERFETTO_ROW, CATAPULT_ROW, FLOOR_ROW)
    bars = [
        _bar(name, results.seconds(size, name), own, results.row(size, name).get("note", ""))
        for name in names
    ]
    return Group(_titled(title, own), tuple(bars))


def _job(results: Results) -> Group:
    own = results.big_seconds(OURS)
    bars = [_bar(f"{HTA_ROW}, a part scaled", results.big_seconds(HTA_ROW), own)]
    bars += [
        _bar(name, results.seconds("job", name), own, results.row("job", name).get("note", ""))
        for name in (JSON_ROW, ORJSON_ROW, PERFETTO_ROW, CATAPULT_ROW)
    ]
    bars.append(_bar(FLOOR_ROW, results.big_seconds(FLOOR_ROW), own))
    events = results.big_events()
    title = f"Load {events / 1e6:.1f} M events in many files" if events else "Load many files"
    return Group(_titled(title, own), tuple(bars))


def _again(results: Results) -> Group:
    own = results.seconds("large", STORE_EVENTS)
    bars = (_bar(HTA_ROW, results.seconds("large", HTA_ROW), own),)
    return Group(_titled("Load 311 MB again, from a store, all columns", own), bars)


def _analyses(results: Results) -> Group:
    bars = []
    for name, part in results.files.get("analyses", {}).items():
        if not isinstance(part, dict) or "ours" not in part:
            continue
        ratios = [
            theirs / own
            for call, own in part["ours"].items()
            if isinstance(own, float) and isinstance(theirs := part[HTA_ROW].get(call), float)
        ]
        if ratios:
            words = f"median; {min(ratios):.2g} to {max(ratios):,.0f}×"
            label = f"{HTA_ROW}, {name}, {len(ratios)} calls"
            bars.append(Bar(label, statistics.median(ratios), words))
    return Group("Analyses, each call alone", tuple(bars))


def _moves(results: Results, size: str, title: str) -> Group:
    result = results.files.get("viewers", {}).get(size)
    if not isinstance(result, dict) or not isinstance(result.get("ours"), dict):
        return Group(title, ())
    own = sum(move["busy_s"] for move in result["ours"].values())
    bars = []
    for name, moves in result.items():
        if name == "ours":
            continue
        if isinstance(moves, str):
            bars.append(_bar(name, None, own, moves))
        else:
            bars.append(_bar(name, sum(move["busy_s"] for move in moves.values()), own))
    return Group(_titled(title, own), tuple(bars))


def svg(shown: list[Group]) -> str:
    """Draw bars from our time to the time of other tools, on a logarithmic axis."""
    ratios = [bar.ratio for group in shown for bar in group.bars if bar.ratio]
    low = min([-1, *(math.floor(math.log10(ratio)) for ratio in ratios)])
    high = max([2, *(math.ceil(math.log10(ratio)) for ratio in ratios)])
    height = TOP + sum(HEAD + ROW * len(group.bars) for group in shown) + BOTTOM

    def x(ratio: float) -> float:
        return LEFT + (math.log10(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="{FONT}" font-size="12" role="img" '
            'aria-label="Time of others for the same work, as a multiple of ours">'
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, "How long others take for the same, ours being 1×", INK, 16, weight=600),
        _text(16, 46, LEGEND, SOFT),
    ]  # fmt: skip
    for power in range(low, high + 1):
        at = x(10.0**power)
        own = power == 0
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 4}" y2="{height - BOTTOM + 6}" '
            f'stroke="{INK if own else LINE}" stroke-width="1"/>'
        )
        label = "ours, 1×" if own else f"{10.0**power:,.10g}×"
        parts.append(_text(at, height - BOTTOM + 22, label, INK if own else SOFT, 11, "middle"))
    top = float(TOP)
    for group in shown:
        parts.append(_text(16, top + 24, group.title, INK, 13, weight=600, halo=True))
        top += HEAD
        for bar in group.bars:
            parts += _bar_parts(bar, top, x)
            top += ROW
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar_parts(bar: Bar, top: float, x: Callable[[float], float]) -> list[str]:
    middle = top + 8
    parts = [_text(LEFT - 12, middle + 4, bar.label, INK, 12, "end", halo=True)]
    zero = x(1.0)
    if bar.ratio is None:
        return [*parts, _text(zero + 8, middle + 4, bar.words, SOFT, 11, halo=True)]
    end = x(bar.ratio)
    color = HTA if bar.label.startswith(HTA_ROW) else SLOWER
    if bar.ratio < 1:
        color = FASTER
    left, width = min(zero, end), max(abs(end - zero), 1.5)
    parts.append(
        f'<rect x="{left:.1f}" y="{middle - BAR / 2:.1f}" width="{width:.1f}" height="{BAR}" '
        f'fill="{color}"/>'
    )
    words = f"{round_text(bar.ratio)}× · {bar.words}"
    parts.append(_text(max(end, zero) + 8, middle + 4, words, INK, 11, halo=True))
    return parts


def _text(
    x: float,
    y: float,
    words: str,
    fill: str,
    size: int = 12,
    anchor: str = "start",
    *,
    weight: int = 400,
    halo: bool = False,
) -> str:
    # A white outline separates labels from the axis lines.
    behind = ' stroke="#ffffff" stroke-width="4" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}"{behind}>{escape(words)}</text>'
    )

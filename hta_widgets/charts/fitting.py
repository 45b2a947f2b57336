"""How the words of a chart are drawn, and how they fit the width that it gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.theme import FONT

__all__ = ["drawn", "keep_fitting"]

#: Width to lay out for where the page decides; the browser lays out again for the true one.
_ASSUMED = 720
_LETTER = 6.4

# Width of the window that shows the chart decides how its words break, how much of its names is
# shown, which of its columns of numbers there is room for, and which bars can carry their number.
_FIT = r"""
const width = fig.outer_width;
if (!width) return;
const pen = document.createElement("canvas").getContext("2d");
const wide = (text, css) => { pen.font = css; return pen.measureText(text).width; };
const small = "11px " + family;
const wrap = (text, room, css) => {
  const lines = [];
  let line = "";
  for (let word of text.split(" ")) {
    if (line !== "" && wide(line + " " + word, css) > room) { lines.push(line); line = ""; }
    while (wide(word, css) > room && word.length > 1) {
      let end = word.length - 1;
      while (end > 1 && wide(word.slice(0, end), css) > room) end -= 1;
      lines.push(word.slice(0, end));
      word = word.slice(end);
    }
    line = line === "" ? word : line + " " + word;
  }
  lines.push(line);
  return lines.join("\n");
};
const cut = (text, room) => {
  const letters = Array.from(text);
  let kept = letters.length;
  const shorter = () => {
    const head = Math.ceil(kept * 0.6);
    const tail = letters.slice(letters.length - kept + head);
    return letters.slice(0, head).join("") + "…" + tail.join("");
  };
  if (wide(text, small) <= room) return text;
  do kept -= 1; while (kept > 2 && wide(shorter(), small) > room);
  return shorter();
};
let gutter = fig.min_border_left;
if (timed) gutter = width < 760 ? 104 : 164;
else if (names.length > 0) {
  const most = Math.max(...names.map(([, text]) => wide(text, small)));
  gutter = Math.ceil(Math.min(most + 14, Math.max(72, width * 0.36)));
}
if (names.length > 0) {
  // Two lines only where one has no room.
  const joined = (text) => {
    const one = text.replace("\n", " · ");
    return wide(one, small) <= gutter - 12 ? one : text;
  };
  const lines = (text, end = "") => joined(text).split("\n").map((line, k, all) => (
    k + 1 === all.length && end ? cut(line, gutter - 12 - wide(end, small)) + end
      : cut(line, gutter - 12)
  )).join("\n");
  // Names that differ only where they are cut are numbered.
  const met = new Map();
  const entries = names.map(([at, text]) => {
    const short = lines(text);
    const count = (met.get(short) ?? 0) + 1;
    met.set(short, count);
    return [at, count > 1 && short.includes("…") ? lines(text, ` (${count})`) : short];
  });
  const told = JSON.stringify(entries);
  if (axis.tags[0] !== told) {
    axis.tags = [told];
    axis.major_label_overrides = new Map(entries);
  }
}
const place = () => {
  for (const [title] of words) if (title.offset !== 4 - gutter) title.offset = 4 - gutter;
  if (legend != null && legend.location[0] !== 4 - gutter) {
    legend.location = [4 - gutter, legend.location[1]];
  }
};
// Words move before the gutter narrows and after it widens: else they would reach beyond the
// canvas in between, whose first column Bokeh does not wipe.
const wider = gutter > fig.min_border_left;
if (!wider) place();
if (fig.min_border_left !== gutter) fig.min_border_left = gutter;
if (wider) setTimeout(place, 50);
if (timed) {
  const margin = width < 900 ? 8 : 128;
  if (fig.min_border_right !== margin) fig.min_border_right = margin;
  const ticker = fig.below[0].ticker;
  const most = Math.max(2, Math.min(7, Math.floor((fig.inner_width ?? width / 2) / 80)));
  if (ticker.desired_num_ticks !== most) ticker.desired_num_ticks = most;
}
for (const [title, text, css] of words) {
  const lines = wrap(text, width - 12, css + family);
  if (title.text !== lines) title.text = lines;
}
for (const [column, least] of columns) {
  const shown = width >= least;
  if (column.visible !== shown) column.visible = shown;
}
if (legend != null) {
  const most = Math.max(...legend.items.map((item) => wide(item.label.value ?? "", small) + 26));
  const ncols = Math.max(1, Math.min(legend.items.length, Math.floor((width - 12) / most)));
  if (legend.ncols !== ncols) legend.ncols = ncols;
}
if (ticks.length > 1 && fig.inner_width) {
  const least = 56 * Math.abs(fig.x_range.end - fig.x_range.start) / fig.inner_width;
  const apart = Math.min(...ticks.slice(1).map((at, k) => at - ticks[k]));
  const every = Math.max(1, Math.ceil(least / apart));
  const zero = Math.max(0, ticks.indexOf(0));
  const kept = ticks.filter((_, k) => (k - zero) % every === 0);
  const ticker = fig.below[0].ticker;
  if (ticker.ticks.length !== kept.length) ticker.ticks = kept;
}
if (labels != null && fig.inner_width) {
  const scale = fig.inner_width / Math.abs(fig.x_range.end - fig.x_range.start);
  const { full, span, text } = labels.data;
  const shown = Array.from(full, (each, k) => wide(each, small) + 8 <= span[k] * scale ? each : "");
  if (shown.some((each, k) => each !== text[k])) labels.data = { ...labels.data, text: shown };
}
"""

# Thin spaces, which keep numbers together, are none of them.
_BREAKS = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")
_MATH = re.compile(r"\$(?=\$)|\\(?=[\[\](){}])")


def drawn(text: str) -> str:
    """Return a text that Bokeh draws as it is, and takes for no formula."""
    flat = _BREAKS.sub(" ", str(text)).strip(" ")
    return _MATH.sub(lambda match: match[0] + "\u200b", flat)


def keep_fitting(
    figure: Any,
    *,
    width: int | None,
    names: Sequence[tuple[float, str]] = (),
    columns: Sequence[tuple[Any, int]] = (),
    labels: Any = None,
    legend: Any = None,
    timed: bool = False,
) -> None:
    """Fit the figure's words to its width, now as well as one can tell and later in the browser.

    Parameters
    ----------
    names : sequence of (position, str)
        Labels of the axis on the left; the longer ones are cut.
    columns : sequence of (Axis, int)
        Columns of numbers on the right, and the width from which each is shown.
    labels : ColumnDataSource, optional
        Texts inside of marks: ``full`` is shown as ``text`` where it fits into ``span``.
    legend : Legend, optional
    timed : bool, default False
        The left and right border are those of the timeline, so that both line up.
    """
    room = width or _ASSUMED
    longest = max((len(text) for _, text in names), default=0)
    gutter = 4
    if timed:
        gutter = 104 if room < 760 else 164
        figure.min_border_right = 8 if room < 900 else 128
    elif names:
        gutter = int(min(longest * _LETTER + 14, max(72, room * 0.36)))
    figure.min_border_left = gutter
    axis = figure.yaxis[0] if len(figure.yaxis) else None
    if axis is not None and names:
        letters = max(2, int((gutter - 12) / _LETTER))
        axis.major_label_overrides = _labels(names, letters)
    words = [each for each in figure.above if isinstance(each, models.Title)] + [figure.title]
    told = [
        (title, title.text, "bold 13px " if title is figure.title else f"{title.text_font_size} ")
        for title in words
    ]
    for title, text, _ in told:
        title.offset = 4 - gutter
        title.text = _wrapped(text, int((room - 12) / _LETTER))
    for column, least in columns:
        column.visible = room >= least
    if legend is not None:
        most = max(len(item.label.value or "") for item in legend.items) * _LETTER + 26
        legend.ncols = int(max(1, min(len(legend.items), (room - 12) // most)))
        legend.location = (4 - gutter, 0)
    if labels is not None and len(labels.data["full"]):
        inner = max(40.0, room - gutter - 60.0 * len(columns))
        scale = inner / abs(figure.x_range.end - figure.x_range.start)
        labels.data["text"] = [
            text if len(text) * _LETTER + 8 <= span * scale else ""
            for text, span in zip(labels.data["full"], labels.data["span"], strict=True)
        ]
    fit = models.CustomJS(
        args={
            "fig": figure,
            "axis": axis,
            "names": [[at, "\n".join(map(drawn, text.split("\n")))] for at, text in names],
            "words": [list(entry) for entry in told],
            "columns": [list(entry) for entry in columns],
            "labels": labels,
            "legend": legend,
            "timed": timed,
            "ticks": sorted(getattr(figure.xaxis[0].ticker, "ticks", None) or []),
            "family": FONT,
        },
        # What changes while Bokeh lays out is not always drawn.
        code=f"setTimeout(() => {{{_FIT}}}, 0);",
    )
    figure.js_on_change("outer_width", fit)
    figure.js_on_change("inner_width", fit)


def _labels(names: Sequence[tuple[float, str]], letters: int) -> dict[float, str]:
    """Return the names as they fit; those that differ only where they are cut are numbered."""
    met: dict[str, int] = {}
    labels = {}
    for at, text in names:
        *first, last = [drawn(line) for line in _lines(text, letters)]
        head = [_cut(line, letters) for line in first]
        label = "\n".join([*head, _cut(last, letters)])
        met[label] = met.get(label, 0) + 1
        end = f" ({met[label]})" if met[label] > 1 and "…" in label else ""
        labels[at] = "\n".join([*head, _cut(last, letters - len(end)) + end])
    return labels


def _lines(text: str, letters: int) -> list[str]:
    """Return two lines only where one has no room."""
    joined = text.replace("\n", " · ")
    return [joined] if len(joined) <= letters else text.split("\n")


def _cut(text: str, letters: int) -> str:
    """Leave the middle out: the names of matrix products differ at their ends."""
    if len(text) <= letters:
        return text
    head = -(-letters * 6 // 10)
    return f"{text[:head]}…{text[len(text) - (letters - 1 - head) :]}"


def _wrapped(text: str, letters: int) -> str:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > letters:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])

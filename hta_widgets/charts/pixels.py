"""Segments too short for a pixel: each pixel shows what takes most of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hta_widgets.charts.bokeh_modules import models

__all__ = ["keep_dominant"]

# Only the browser knows how much time a pixel is, and it changes with width and zoom. A browser
# that draws each segment by itself would blend neighbours, or widen what is too short to be seen.
_PIXELS = r"""
// Bokeh draws half a pixel beside the grid, which leaves one whole pixel less, and two halves.
const inner = fig.inner_width ?? 0;
const wide = Math.round(inner) - 1;
const { start: from, end: to } = fig.x_range;
if (wide <= 0 || !(to > from)) return;
const { start_ns, end_ns, dur_ns, row } = segments.data;
const scale = wide / (to - from);
const lanes = causes.map(([lane, name]) => (
  { lane, name, took: new Float64Array(wide), seen: new Uint8Array(wide) }
));
const lane_at = new Map(lanes.map((each) => [each.lane, each]));
for (let k = 0; k < row.length; k += 1) {
  const since = (Number(start_ns[k]) - from) * scale;
  const until = (Number(end_ns[k]) - from) * scale;
  if (until <= 0 || since >= wide || until <= since) continue;
  const { took, seen } = lane_at.get(Number(row[k]));
  // Segments that were put together take less than the time from their first to their last.
  const dense = Number(dur_ns[k]) * scale / (until - since);
  const beyond = Math.min(wide, Math.ceil(until));
  for (let at = Math.max(0, Math.floor(since)); at < beyond; at += 1) {
    took[at] += (Math.min(until, at + 1) - Math.max(since, at)) * dense;
  }
  let first = Math.round(since);
  let last = Math.round(until);
  if (last <= first) {
    first = Math.min(wide - 1, Math.floor((since + until) / 2));
    last = first + 1;
  }
  seen.fill(1, Math.max(0, first), Math.min(wide, last));
}
const drawn = { left: [], right: [], row: [], bound_by: [], thin: [] };
const time = (pixel) => from + (pixel + 0.5) * (to - from) / inner;
const draw = (row, name, first, last) => {
  drawn.left.push(time(first));
  drawn.right.push(time(last));
  drawn.row.push(row);
  drawn.bound_by.push(name);
  drawn.thin.push(last - first < 3 ? name : "");
};
const runs = (row, name_at) => {
  let first = 0;
  for (let at = 1; at <= wide; at += 1) {
    if (at < wide && name_at[at] === name_at[first]) continue;
    if (name_at[first] !== "") draw(row, name_at[first], first, at);
    first = at;
  }
};
const most = Array.from({ length: wide }, (_, at) => {
  let best = "";
  let size = 1 - lanes.reduce((sum, { took }) => sum + took[at], 0);
  for (const { name, took } of lanes) if (took[at] > size) [best, size] = [name, took[at]];
  return best;
});
runs(0, most);
for (const { lane, name, seen } of lanes) runs(lane, Array.from(seen, (one) => one ? name : ""));
pixels.data = drawn;
"""


def keep_dominant(figure: Any, segments: Any, causes: Mapping[int, str]) -> Any:
    """Return a source of whole pixels to draw instead of segments, kept up to date while zooming.

    Row 0 has for each pixel the cause that takes most of its time, and none where nothing takes
    more; the others have all of one cause's segments, none narrower than a pixel.

    Parameters
    ----------
    figure : Figure
        Its horizontal range is time.
    segments : ColumnDataSource
        With ``start_ns``, ``end_ns``, ``dur_ns`` and ``row``.
    causes : mapping
        From row to name.

    Returns
    -------
    ColumnDataSource
        ``left``, ``right``, ``row`` and ``bound_by``, and in ``thin`` once more the cause, where
        less than three pixels have it.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("left", "right", "row", "bound_by", "thin")
    }
    pixels = models.ColumnDataSource(columns)
    arguments = {
        "fig": figure,
        "segments": segments,
        "pixels": pixels,
        "causes": [list(entry) for entry in causes.items()],
    }
    # What changes while Bokeh lays out is not always drawn.
    later = models.CustomJS(args=arguments, code=f"setTimeout(() => {{{_PIXELS}}}, 0);")
    figure.js_on_change("inner_width", later)
    now = models.CustomJS(args=arguments, code=_PIXELS)
    figure.x_range.js_on_change("start", now)
    figure.x_range.js_on_change("end", now)
    return pixels

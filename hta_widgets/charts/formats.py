"""Numbers as words, as everywhere in the package, and for axes of charts."""

from hta_widgets.formats import (
    GROUP,
    MINUS,
    THIN,
    UNKNOWN,
    axis_time,
    count,
    duration,
    duration_delta,
    plural,
    rate,
    share,
    share_delta,
    size,
    value,
)

__all__ = [
    "AXIS_JS",
    "GROUP",
    "MINUS",
    "THIN",
    "UNKNOWN",
    "axis_time",
    "count",
    "duration",
    "duration_delta",
    "plural",
    "rate",
    "share",
    "share_delta",
    "size",
    "value",
]

#: `axis_time` for axes whose ticks change while one zooms; `tick` and `ticks` are Bokeh's.
AXIS_JS = """
const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.max(Math.abs(tick), 1);
const [unit, scale] = step >= 1e9 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : ["\u00b5s", 1e3];
const decimals = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
const [whole, part] = (Math.abs(tick) / scale).toFixed(decimals).split(".");
const grouped = whole.replace(/\\B(?=(\\d{3})+(?!\\d))/g, "\u202f");
return (tick < 0 ? "\u2212" : "") + grouped + (part ? "." + part : "") + "\u2009" + unit;
"""

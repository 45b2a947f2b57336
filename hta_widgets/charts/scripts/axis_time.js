// `axis_time` in JavaScript, for axes whose ticks change with the zoom. Bokeh sets `tick` and `ticks`.
const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.max(Math.abs(tick), 1);
const [unit, scale] = step >= 1e9 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : ["\u00b5s", 1e3];
const decimals = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
const [whole, part] = (Math.abs(tick) / scale).toFixed(decimals).split(".");
const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
return (tick < 0 ? "\u2212" : "") + grouped + (part ? "." + part : "") + "\u202f" + unit;

// Draws segments of time as whole pixels. Only the browser knows the time per pixel, which changes with
// width and zoom. Segments that are drawn one by one would blend with their neighbours, or be widened if
// they are too short to see.

// Bokeh draws half a pixel off the grid, which leaves one whole pixel less, and two halves.
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
for (const { lane, name, seen } of lanes) runs(lane, Array.from(seen, (flag) => flag ? name : ""));
pixels.data = drawn;

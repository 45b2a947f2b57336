// Fits the texts of a chart to its width, which only the browser knows: it determines line breaks, the
// length of names, the columns of numbers that have room, and the bars that are wide enough for a number.
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
  // Two lines only if the text has no room on a single line.
  const joined = (text) => {
    const flat = text.replace("\n", " · ");
    return wide(flat, small) <= gutter - 12 ? flat : text;
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
  const texts = JSON.stringify(entries);
  if (axis.tags[0] !== texts) {
    axis.tags = [texts];
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

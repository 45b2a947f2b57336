// Cuts the text about a cluster's difference to the available width; the tooltip shows all of it.
if (!fig.inner_width) return;
const pen = document.createElement("canvas").getContext("2d");
pen.font = "11px " + family;
const fitting = (text) => {
  let end = text.length;
  const shown = () => (end < text.length ? text.slice(0, end) + "…" : text);
  while (end > 1 && pen.measureText(shown()).width > fig.inner_width - 12) end -= 1;
  return shown();
};
const text = Array.from(source.data.full, fitting);
if (text.some((each, k) => each !== source.data.text[k])) source.data = { ...source.data, text };

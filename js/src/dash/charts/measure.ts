/** How wide texts are, and how they fit. */

import { FONT_FAMILY } from "../../draw/theme";

export type Weight = "normal" | "bold";

const MOST = 4000;
const widths = new Map<string, number>();
let pen: CanvasRenderingContext2D | null | undefined;

/** Width in CSS px; letters are guessed where there is no canvas, as in tests without a browser. */
export function textWidth(text: string, weight: Weight = "normal", size = 11): number {
  const key = `${weight[0]}${size} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  pen ??= document.createElement("canvas").getContext("2d");
  let width = text.length * size * 0.58;
  if (pen !== null) {
    pen.font = `${weight} ${size}px ${FONT_FAMILY}`;
    width = pen.measureText(text).width;
  }
  if (widths.size > MOST) widths.clear();
  widths.set(key, width);
  return width;
}

/** Lines no wider than `room`; words that have no room alone are broken. */
export function wrapped(
  text: string,
  room: number,
  weight: Weight = "normal",
  size = 11,
): string[] {
  const lines: string[] = [];
  let line = "";
  for (let word of text.split(" ")) {
    if (line !== "" && textWidth(`${line} ${word}`, weight, size) > room) {
      lines.push(line);
      line = "";
    }
    while (word.length > 1 && textWidth(word, weight, size) > room) {
      let end = word.length - 1;
      while (end > 1 && textWidth(word.slice(0, end), weight, size) > room) end -= 1;
      lines.push(word.slice(0, end));
      word = word.slice(end);
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  lines.push(line);
  return lines;
}

/** Leaves the middle out where there is no room: names of matrix products differ at their ends. */
export function shortened(text: string, room: number, weight: Weight = "normal"): string {
  if (textWidth(text, weight) <= room) return text;
  const letters = Array.from(text);
  const cut = (kept: number): string => {
    const head = Math.ceil(kept * 0.6);
    return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - kept + head).join("")}`;
  };
  let [low, high] = [1, letters.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(cut(middle), weight) <= room) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

/** Names as they fit; those that differ only where they are cut are numbered. */
export function fitted(names: readonly string[], room: number): string[] {
  const met = new Map<string, number>();
  return names.map((name) => {
    const short = shortened(name, room);
    const count = (met.get(short) ?? 0) + 1;
    met.set(short, count);
    if (count === 1 || short === name) return short;
    const end = ` (${count})`;
    return shortened(name, room - textWidth(end)) + end;
  });
}

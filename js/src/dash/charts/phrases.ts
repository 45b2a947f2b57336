/** The words below titles: the same as Python's charts have (`charts/figure.py`, `charts/rows.py`). */

import { formatCount } from "../../draw/format";
import type { PanelFrame } from "../types";

export function sentences(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" · ");
}

export function noteOf(frame: PanelFrame): string {
  const note = frame.attrs.note;
  return typeof note === "string" ? note : "";
}

/**
 * The kinds with no matching event, but for those that the job has none of, which the page lists once;
 * ranks without numbers, and the frame's note.
 */
export function unmatched(
  frame: PanelFrame,
  kinds: readonly string[] = ["compute", "communication", "memory"],
): string {
  const matched = (frame.attrs.matched ?? {}) as Record<string, unknown>;
  const absent = frame.attrs.absent_kinds;
  const wanted = Array.isArray(absent) ? kinds.filter((kind) => !absent.includes(kind)) : kinds;
  const none = Object.keys(matched).filter((key) => matched[key] === 0 && wanted.includes(key));
  const words = none.map((key) => key.replaceAll("_", " ")).join(" and no ");
  const leftOut = ranksIn(frame, "left_out");
  const missing = ranksIn(frame, "missing_ranks").filter((rank) => !leftOut.includes(rank));
  return sentences(
    none.length > 0 ? `no ${words} events matched` : "",
    missing.length > 0 ? `nothing on ${listed(missing)}` : "",
    leftOutWords(frame),
    noteOf(frame),
  );
}

/** Of which ranks a saved page holds no single events, so that figures are without them. */
export function leftOutWords(frame: PanelFrame): string {
  const ranks = ranksIn(frame, "left_out");
  return ranks.length > 0 ? `without ${listed(ranks)}: not in this page` : "";
}

export function ranksIn(frame: PanelFrame, attribute: string): number[] {
  const ranks = frame.attrs[attribute];
  return Array.isArray(ranks) ? ranks.filter((rank) => typeof rank === "number") : [];
}

/** `rank 5`, `ranks 0–4, 6, 7`, `ranks 0–3, 8–11 and 24 more`. */
export function listed(ranks: readonly number[], most = 3): string {
  const runs: [number, number][] = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const open = runs.at(-1);
    if (open !== undefined && rank === open[1] + 1) open[1] = rank;
    else runs.push([rank, rank]);
  }
  const shown = runs.slice(0, most);
  const words = shown.map(([low, high]) =>
    low === high ? `${low}` : high === low + 1 ? `${low}, ${high}` : `${low}–${high}`,
  );
  const left = ranks.length - shown.reduce((sum, [low, high]) => sum + high - low + 1, 0);
  const more = left > 0 ? ` and ${formatCount(left)} more` : "";
  return `rank${ranks.length === 1 ? "" : "s"} ${words.join(", ")}${more}`;
}

/** Which rows have least and most, where there are more than `least` of them. */
export function extremes(
  names: readonly string[],
  values: readonly number[],
  words: (value: number) => string,
  least = 16,
): string {
  if (values.length <= least) return "";
  let [low, high] = [-1, -1];
  values.forEach((value, at) => {
    if (!Number.isFinite(value)) return;
    if (low < 0 || value < values[low]!) low = at;
    if (high < 0 || value > values[high]!) high = at;
  });
  if (low < 0) return "";
  const [lower, upper] = [words(values[low]!), words(values[high]!)];
  if (lower === upper) return `${lower} on each`;
  return `${lower} (${names[low]}) to ${upper} (${names[high]})`;
}

export function prefixed(word: string, text: string): string {
  return text === "" ? "" : word + text;
}

/** Up to `most` + 1 round positions from `start` to `end`, 0 among them. */
export function niceTicks(end: number, most = 3, start = 0): number[] {
  const span = Math.max(Math.abs(end), Math.abs(start));
  if (!(span > 0)) return [0];
  const rough = span / most;
  const scale = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * scale).find((each) => each >= rough * 0.85)!;
  const found: number[] = [];
  const last = Math.floor(end / step + 1e-9);
  for (let at = Math.ceil(start / step - 1e-9); at <= last; at += 1) found.push(at * step + 0);
  return found;
}

/** The middle value; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

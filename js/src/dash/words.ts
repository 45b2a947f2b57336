/**
 * A selection in words: `ranks 2–5, 12.3–18.9 ms, name contains nccl`. `hta_widgets/trace/selection.py`
 * says the same; both are tested with `tests/vectors/words.json`.
 */

import type { SelectionJson } from "../contract";
import { formatCount, group, plural } from "../draw/format";
import type { Part } from "./choice";
import { conjuncts, readClauses, readText } from "./clauses";

export interface Phrase {
  part: Part;
  text: string;
  /** All of it, where the text is short of something. */
  full: string;
}

export const EVERYTHING_WORDS = "whole job";

/** Runs of ranks, names: more are counted instead. */
const MOST_RUNS = 4;
const MOST_NAMES = 3;
const LONGEST = 40;
const THIN = "\u2009";
const MINUS = "\u2212";
const UNITS: readonly (readonly [power: number, unit: string])[] = [
  [9, "s"],
  [6, "ms"],
  [3, "µs"],
  [0, "ns"],
];
const CONTAINS = /^name\.str\.contains\(('.*?'|".*?")(?:, *(?:case|regex)=(?:True|False))*\)$/u;

export function selectionWords(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): string {
  const phrases = phrasesOf(selection, short);
  return phrases.length === 0 ? EVERYTHING_WORDS : phrases.map(({ text }) => text).join(", ");
}

/** What each dimension says; none where everything is selected. */
export function phrasesOf(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): Phrase[] {
  if (selection === null) return [];
  const { start_ns: start, end_ns: end, ranks, ids } = selection;
  // Tracks of one rank alone come as pairs.
  const tracks = selection.tracks as readonly (string | [number, string])[] | null;
  const { names, kinds, rest } = readClauses(selection.query);
  const out: Phrase[] = [];
  const say = (part: Part, text: string, full = text): void => void out.push({ part, text, full });
  if (ranks !== null) say("ranks", ranksWords(ranks), ranks.join(", "));
  if (tracks !== null) say("tracks", tracksWords(tracks), tracks.map(trackName).join("\n"));
  if (start !== null || end !== null) {
    say("window", windowWords(start, end), `${start ?? "–"} to ${end ?? "–"} ns`);
  }
  if (kinds !== null) say("kinds", listed("kind", kinds), kinds.join("\n"));
  if (names !== null) {
    const text =
      names.length > MOST_NAMES
        ? plural(names.length, "name")
        : listed(
            "name",
            names.map((name) => cut(short(name))),
          );
    say("names", text, names.join("\n"));
  }
  if (rest !== null) say("rest", conjuncts(rest).map(condition).join(", "), rest);
  if (ids !== null) say("ids", plural(ids.length, "event"));
  return out;
}

/** As many digits as the window's length needs. */
export function windowWords(start: number | null, end: number | null): string {
  if (start === null) return end === null ? "" : `before ${instant(end)}`;
  if (end === null) return `from ${instant(start)} on`;
  if (start === end) return `an empty window at ${instant(start)}`;
  return times([start, end], String(end - start).length - 2);
}

function instant(time: number): string {
  return times([time], String(Math.abs(time)).length - 3);
}

/** In one unit; `lastDigit` is the power of ten that they are rounded to. */
function times(all: readonly number[], lastDigit: number): string {
  const most = Math.max(...all.map(Math.abs));
  const [power, unit] = UNITS.find(([one]) => most >= 10 ** one || one === 0) ?? [0, "ns"];
  const last = Math.min(Math.max(lastDigit, 0), power);
  const step = 10 ** last;
  let rounded = all.map((time) => Math.floor((Math.abs(time) + Math.floor(step / 2)) / step));
  let decimals = power - last;
  if (rounded.every((value) => value % 10 ** decimals === 0)) {
    rounded = rounded.map((value) => value / 10 ** decimals);
    decimals = 0;
  }
  const texts = all.map((time, at) => {
    const value = rounded[at] ?? 0;
    return (time < 0 && value !== 0 ? MINUS : "") + decimal(value, decimals);
  });
  return `${texts.join("–")}${THIN}${unit}`;
}

function decimal(value: number, decimals: number): string {
  if (decimals === 0 || value === 0) return formatCount(value);
  const scale = 10 ** decimals;
  const part = String(value % scale).padStart(decimals, "0");
  return `${group(String(Math.floor(value / scale)))}.${part}`;
}

function ranksWords(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs: [number, number][] = [];
  for (const rank of ranks) {
    const run = runs.at(-1);
    if (run !== undefined && run[1] + 1 === rank) run[1] = rank;
    else runs.push([rank, rank]);
  }
  if (runs.length === 0) return "no ranks";
  if (runs.length > MOST_RUNS) return plural(ranks.length, "rank");
  return `ranks ${joined(runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)))}`;
}

function trackName(track: string | [number, string]): string {
  return typeof track === "string" ? track : `${track[1]} of rank ${track[0]}`;
}

function tracksWords(tracks: readonly (string | [number, string])[]): string {
  const only = tracks.length === 1 ? tracks[0] : undefined;
  if (only === undefined) return tracks.length === 0 ? "no tracks" : plural(tracks.length, "track");
  if (typeof only === "string") return `track ${cut(only)}`;
  return `track ${cut(only[1])} of rank ${only[0]}`;
}

function listed(noun: string, values: readonly string[]): string {
  if (values.length === 0) return `no ${noun}s`;
  return `${noun}${values.length > 1 ? "s" : ""} ${joined(values)}`;
}

function joined(texts: readonly string[]): string {
  if (texts.length < 2) return texts[0] ?? "";
  return `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

function condition(text: string): string {
  const value = readText(CONTAINS.exec(text)?.[1] ?? "");
  return value === null ? text : `name contains ${cut(value)}`;
}

function cut(text: string): string {
  const characters = Array.from(text);
  return characters.length <= LONGEST ? text : `${characters.slice(0, LONGEST - 1).join("")}…`;
}

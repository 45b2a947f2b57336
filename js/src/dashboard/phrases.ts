/** Describe a selection in words: `ranks 2–5, 12.3–18.9 ms, name contains nccl`. */

import { THIN_SPACE, groupDigits, runsOf } from "../facts/rank_text";
import {
  parseClauses,
  parseStringLiteral,
  type SelectionDimension,
  splitConjuncts,
} from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";
import { plural } from "../ui/formats";
import { truncate } from "../ui/text";

export interface Phrase {
  part: SelectionDimension;
  text: string;
  /** The complete text, if the shown text is truncated. */
  full: string;
}

/** Longest lists of rank ranges and of names. Longer lists are replaced by their count. */
const MAX_RUNS = 4;
const MAX_NAMES = 3;
const MAX_TEXT_LENGTH = 40;
/** Formats lists as `a, b and c`. */
const AND = new Intl.ListFormat("en-GB");
const MINUS = "\u2212";
const UNITS: readonly (readonly [power: number, unit: string])[] = [
  [9, "s"],
  [6, "ms"],
  [3, "µs"],
  [0, "ns"],
];
const CONTAINS = /^name\.str\.contains\(('.*?'|".*?")(?:, *(?:case|regex)=(?:True|False))*\)$/u;

/** Return one phrase per dimension; none if everything is selected. */
export function phrasesOf(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): Phrase[] {
  if (selection === null) return [];
  const { start_ns: start, end_ns: end, ranks, ids } = selection;
  // The track of a single rank is a pair of rank and key.
  const tracks = selection.tracks as readonly (string | [number, string])[] | null;
  const { names, kinds, rest: remaining } = parseClauses(selection.query);
  const out: Phrase[] = [];
  const addPhrase = (part: SelectionDimension, text: string, full = text): void =>
    void out.push({ part, text, full });
  if (ranks !== null) addPhrase("ranks", ranksText(ranks), ranks.join(", "));
  if (tracks !== null) addPhrase("tracks", tracksText(tracks), tracks.map(trackName).join("\n"));
  if (start !== null || end !== null) {
    addPhrase("window", windowText(start, end), `${start ?? "–"} to ${end ?? "–"} ns`);
  }
  if (kinds !== null) addPhrase("kinds", listText("kind", kinds), kinds.join("\n"));
  if (names !== null) {
    const launched = selection.launches === true ? " with launched work" : "";
    addPhrase("names", namesText(names, short) + launched, names.join("\n"));
  }
  if (remaining !== null)
    addPhrase("rest", splitConjuncts(remaining).map(conditionText).join(", "), remaining);
  if (ids !== null) addPhrase("ids", plural(ids.length, "event"));
  return out;
}

function namesText(names: readonly string[], short: (name: string) => string): string {
  if (names.length > MAX_NAMES) return plural(names.length, "name");
  const shortNames = names.map((name) => truncate(short(name), MAX_TEXT_LENGTH));
  return listText("name", shortNames);
}

/** Return the window as text, with as many digits as its length requires. */
export function windowText(start: number | null, end: number | null): string {
  if (start === null) return end === null ? "" : `before ${instantText(end)}`;
  if (end === null) return `from ${instantText(start)} on`;
  if (start === end) return `an empty window at ${instantText(start)}`;
  return timeTexts([start, end], String(end - start).length - 2);
}

function instantText(time: number): string {
  return timeTexts([time], String(Math.abs(time)).length - 3);
}

/** Format times in one unit. `lastDigit` is the power of ten to which they are rounded. */
function timeTexts(times: readonly number[], lastDigit: number): string {
  const maxMagnitude = Math.max(...times.map(Math.abs));
  const [power, unit] = UNITS.find(([exponent]) => maxMagnitude >= 10 ** exponent) ?? [0, "ns"];
  const roundedPower = Math.min(Math.max(lastDigit, 0), power);
  const step = 10 ** roundedPower;
  const counts = times.map((time) => Math.floor((Math.abs(time) + Math.floor(step / 2)) / step));
  // Omit decimals if they would all be 0.
  const stepsPerUnit = 10 ** (power - roundedPower);
  const areWhole = counts.every((count) => count % stepsPerUnit === 0);
  const texts = counts.map((count, index) => {
    const sign = times[index]! < 0 && count > 0 ? MINUS : "";
    const whole = groupDigits(String(Math.floor(count / stepsPerUnit)));
    if (areWhole || count === 0) return sign + whole;
    return `${sign}${whole}.${String(count % stepsPerUnit).padStart(power - roundedPower, "0")}`;
  });
  return `${texts.join("–")}${THIN_SPACE}${unit}`;
}

function ranksText(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = runsOf(ranks);
  if (runs.length === 0) return "no ranks";
  if (runs.length > MAX_RUNS) return plural(ranks.length, "rank");
  return `ranks ${AND.format(runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)))}`;
}

function trackName(track: string | [number, string]): string {
  return typeof track === "string" ? track : `${track[1]} of rank ${track[0]}`;
}

function tracksText(tracks: readonly (string | [number, string])[]): string {
  const only = tracks.length === 1 ? tracks[0] : undefined;
  if (only === undefined) return tracks.length === 0 ? "no tracks" : plural(tracks.length, "track");
  if (typeof only === "string") return `track ${truncate(only, MAX_TEXT_LENGTH)}`;
  return `track ${truncate(only[1], MAX_TEXT_LENGTH)} of rank ${only[0]}`;
}

function listText(noun: string, values: readonly string[]): string {
  if (values.length === 0) return `no ${noun}s`;
  return `${noun}${values.length > 1 ? "s" : ""} ${AND.format(values)}`;
}

function conditionText(text: string): string {
  const value = parseStringLiteral(CONTAINS.exec(text)?.[1] ?? "");
  return value === null ? text : `name contains ${truncate(value, MAX_TEXT_LENGTH)}`;
}

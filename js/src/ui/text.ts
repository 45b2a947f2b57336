/** Measure, truncate and wrap text, and format the sentences of notes. */

import KIND_NAMES from "../../../hta_widgets/facts/kind_names.json";
import { ranksText } from "../facts/rank_text";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import { FONT_FAMILY } from "./theme";

type Weight = "normal" | "bold";

const MAX_CACHED_WIDTHS = 4000;
const widths = new Map<string, number>();
let measureContext: CanvasRenderingContext2D | null | undefined;

/** Return the width in CSS px. Without a canvas (in tests without a browser), it is estimated. */
export function textWidth(text: string, weight: Weight = "normal", size = 11): number {
  if (widths.size > MAX_CACHED_WIDTHS) widths.clear();
  return getOrMake(widths, `${weight[0]}${size} ${text}`, () => {
    measureContext ??= document.createElement("canvas").getContext("2d");
    if (measureContext === null) return text.length * size * 0.58;
    measureContext.font = `${weight} ${size}px ${FONT_FAMILY}`;
    return measureContext.measureText(text).width;
  });
}

/** Break a text into lines of at most `maxWidth`. Wider words are also broken. */
export function wrapText(
  text: string,
  maxWidth: number,
  weight: Weight = "normal",
  size = 11,
): string[] {
  const fits = (line: string): boolean => textWidth(line, weight, size) <= maxWidth;
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.pop() ?? "";
    const longerLine = line === "" ? word : `${line} ${word}`;
    if (line === "" || fits(longerLine)) lines.push(...breakWord(longerLine, fits));
    else lines.push(line, ...breakWord(word, fits));
  }
  return lines;
}

/** Break a word that is too wide into parts that fit, each at least one character long. */
function breakWord(word: string, fits: (part: string) => boolean): string[] {
  const parts: string[] = [];
  let remaining = word;
  while (remaining.length > 1 && !fits(remaining)) {
    let length = remaining.length - 1;
    while (length > 1 && !fits(remaining.slice(0, length))) length -= 1;
    parts.push(remaining.slice(0, length));
    remaining = remaining.slice(length);
  }
  return [...parts, remaining];
}

/** Maximum number of characters by which a truncation point moves to avoid splitting a word. */
const MAX_WORD_PART = 8;
const INSIDE_WORD = /^[\p{L}\p{N}]{2}/u;

/** Return the word edge nearest to `at` in the direction of `step`; `at` if no edge is near. */
export function wordEdge(characters: readonly string[], at: number, step: 1 | -1): number {
  for (let moved = 0; moved < MAX_WORD_PART; moved += 1) {
    const place = at + moved * step;
    if (place <= 0 || place >= characters.length) return at;
    if (!INSIDE_WORD.test(`${characters[place - 1]!}${characters[place]!}`)) return place;
  }
  return at;
}

/** Shorten a text in the middle, because names of matrix products differ at their ends. */
export function shortenMiddle(text: string, maxWidth: number, weight: Weight = "normal"): string {
  if (textWidth(text, weight) <= maxWidth) return text;
  const characters = Array.from(text);
  const cut = (remaining: number): string => {
    const head = Math.ceil(remaining * 0.6);
    const headEnd = wordEdge(characters, head, -1);
    const tailStart = wordEdge(characters, characters.length - remaining + head, 1);
    return `${characters.slice(0, headEnd).join("")}…${characters.slice(tailStart).join("")}`;
  };
  let [low, high] = [1, characters.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(cut(middle), weight) <= maxWidth) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

/** Shorten names to fit, and number those that become equal. */
export function fitNames(names: readonly string[], maxWidth: number): string[] {
  const counts = new Map<string, number>();
  return names.map((name) => {
    const short = shortenMiddle(name, maxWidth);
    const count = (counts.get(short) ?? 0) + 1;
    counts.set(short, count);
    if (count === 1 || short === name) return short;
    const end = ` (${count})`;
    return shortenMiddle(name, maxWidth - textWidth(end)) + end;
  });
}

// Short names of rows, made distinct as in Python's `trace/names.py`.

/** Maximum length of distinguishing parts of names. If they are longer, rows are numbered. */
const MAX_LABEL_LENGTH = 28;
/** Maximum number of characters read from a name, as names may be a megabyte long. */
const MAX_READ = 1 << 15;

/** Return the labels. Equal labels get words in which their `names` differ, or a number. */
export function disambiguate(labels: readonly string[], names: readonly string[]): string[] {
  const distinctLabels = [...labels];
  for (const rows of groupsOfSameLabel(distinctLabels)) {
    const differences = differingWords(rows.map((row) => names[row]!));
    rows.forEach((row, index) => {
      if (differences[index] !== "")
        distinctLabels[row] = `${labels[row]!} (${differences[index]!})`;
    });
  }
  const taken = new Set(distinctLabels);
  for (const rows of groupsOfSameLabel(distinctLabels)) {
    const label = distinctLabels[rows[0]!]!;
    let number = 2;
    for (const row of rows.slice(1)) {
      while (taken.has(`${label} (${number})`)) number += 1;
      distinctLabels[row] = `${label} (${number})`;
      taken.add(distinctLabels[row]);
    }
  }
  return distinctLabels;
}

function groupsOfSameLabel(labels: readonly string[]): number[][] {
  const rowsOfLabel = new Map<string, number[]>();
  labels.forEach((label, row) => getOrMake(rowsOfLabel, label, () => []).push(row));
  return [...rowsOfLabel.values()].filter((rows) => rows.length > 1);
}

/** Return the first few words of each name that distinguish it from the other names. */
function differingWords(names: readonly string[]): string[] {
  const wordsByName = names.map((name) => {
    const words = Array.from(
      name.slice(0, MAX_READ).matchAll(/(?:\w+::)*(\w+)/g),
      ([, word]) => word!,
    );
    // In names without brackets, underscores join the words.
    return words.flatMap((word) => (word.length > MAX_LABEL_LENGTH ? word.split("_") : [word]));
  });
  const chosenTexts = names.map(() => "");
  const longest = Math.max(...wordsByName.map((nameWords) => nameWords.length));
  for (let index = 0; index < longest; index += 1) {
    const equalRows = groupsOfSameLabel(chosenTexts);
    if (equalRows.length === 0) break;
    for (const rows of equalRows) {
      const wordOfRow = new Map(rows.map((row) => [row, wordsByName[row]![index] ?? ""]));
      if (new Set(wordOfRow.values()).size < 2) continue;
      for (const row of rows) {
        const texts = [chosenTexts[row]!, wordOfRow.get(row)!];
        const combined = texts.filter((text) => text !== "").join(", ");
        if (combined.length <= MAX_LABEL_LENGTH) chosenTexts[row] = combined;
      }
    }
  }
  return chosenTexts;
}

/**
 * Return the rows to label if rows are closer together than lines of text: the rows in `first`,
 * then every `every`-th row, except rows too close to a labeled row.
 */
export function labeledRows(
  rows: number,
  every: number,
  ...first: readonly (ReadonlySet<number> | undefined)[]
): ReadonlySet<number> {
  const takenRows = new Set<number>();
  const isFree = (row: number): boolean => {
    for (let otherRow = row - every + 1; otherRow < row + every; otherRow += 1)
      if (takenRows.has(otherRow)) return false;
    return true;
  };
  for (const marked of first) {
    for (const row of [...(marked ?? [])].sort((a, b) => a - b))
      if (isFree(row)) takenRows.add(row);
  }
  for (let row = 0; row < rows; row += every) if (isFree(row)) takenRows.add(row);
  return takenRows;
}

// Mark labels. A label that does not fit is truncated with "…" or omitted.

const ELLIPSIS = "…";
/** Minimum number of characters in a truncated label. Shorter labels are omitted. */
const MIN_CHARACTERS = 4;
/** Minimum width of marks with labels. */
export const LABEL_FROM_PX = 26;
const MAX_CACHED_TEXTS = 20_000;

interface MeasuredText {
  /** Widths of the first n characters, for n from 0 to the length. */
  readonly prefix: Float32Array;
  /** Truncated forms, indexed by number of characters. */
  readonly cut: (string | undefined)[];
}

/**
 * Measures texts by adding up their characters' advances, so that fitting a label takes only a
 * binary search. Ignoring kerning causes an error of less than a pixel.
 */
export class TextFitter {
  private readonly advances = new Map<string, number>();
  private readonly texts = new Map<string, MeasuredText>();

  constructor(private readonly measure: (text: string) => number) {}

  width(text: string): number {
    const { prefix } = this.measureText(text);
    return prefix[prefix.length - 1]!;
  }

  /** Return the longest form of `text` that fits in `maxWidth`; "" if too little of it fits. */
  fit(text: string, maxWidth: number): string {
    const measured = this.measureText(text);
    const { prefix, cut } = measured;
    const length = prefix.length - 1;
    if (prefix[length]! <= maxWidth) return text;
    const left = maxWidth - this.advance(ELLIPSIS);
    let low = 0;
    let high = length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (prefix[middle]! <= left) low = middle;
      else high = middle - 1;
    }
    return low < MIN_CHARACTERS ? "" : (cut[low] ??= truncateAtWord(text, low));
  }

  private advance(character: string): number {
    return getOrMake(this.advances, character, () => this.measure(character));
  }

  private measureText(text: string): MeasuredText {
    if (this.texts.size > MAX_CACHED_TEXTS) this.texts.clear();
    return getOrMake(this.texts, text, () => {
      const characters = Array.from(text);
      const prefix = new Float32Array(characters.length + 1);
      characters.forEach((character, i) => {
        prefix[i + 1] = prefix[i]! + this.advance(character);
      });
      return { prefix, cut: [] };
    });
  }
}

/** Return the first `length` characters, or fewer to end at a nearby word end, and "…". */
function truncateAtWord(text: string, length: number): string {
  const characters = Array.from(text);
  const edge = wordEdge(characters, length, -1);
  const end = edge < MIN_CHARACTERS ? length : edge;
  return characters.slice(0, end).join("").trimEnd() + ELLIPSIS;
}

// The subtitles of charts, as in Python (`charts/figure.py`, `charts/rows.py`).

export function joinSentences(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" · ");
}

/** Shorten a text to `length` characters, because C++ names may be wider than the page. */
export function truncate(text: string, length: number): string {
  const characters = Array.from(text);
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Turn a note or message into a sentence with a capital letter and a full stop. */
export function capitalizeSentence(text: string): string {
  return /[.!?…]$/.test(text) ? capitalize(text) : `${capitalize(text)}.`;
}

export function frameNote(frame: PanelFrame): string {
  const note = frame.attrs.note;
  return typeof note === "string" ? note : "";
}

/** Return why a panel is empty and, if a selection filters it, how to see all events. */
export function emptyPanelText(frame: PanelFrame, otherwise: string): string {
  const isFiltered = frame.attrs.filtered === 1;
  const remedy = isFiltered ? "clear the selection to see all events" : "";
  return joinSentences(frameNote(frame) || otherwise, remedy);
}

/** Return an event kind's display name. */
export function kindName(kind: string): string {
  return (KIND_NAMES as Record<string, string>)[kind] ?? kind;
}

/**
 * Return a text about what a frame lacks (kinds without matching events, ranks not in the page),
 * followed by its note. Kinds that the job lacks are omitted, because the page lists them once.
 */
export function unmatchedText(
  frame: PanelFrame,
  kinds: readonly string[] = ["compute", "communication", "memory"],
): string {
  const matched = (frame.attrs.matched ?? {}) as Record<string, unknown>;
  const absent = frame.attrs.absent_kinds;
  const jobKinds = Array.isArray(absent) ? kinds.filter((kind) => !absent.includes(kind)) : kinds;
  const unmatched = Object.keys(matched).filter(
    (key) => matched[key] === 0 && jobKinds.includes(key),
  );
  return joinSentences(
    unmatched.map((key) => `no ${kindName(key)}`).join(" and "),
    leftOutText(frame),
    frameNote(frame),
  );
}

/** Return a text about ranks that the figures exclude because a saved page lacks their events. */
export function leftOutText(frame: PanelFrame): string {
  const ranks = ranksOfAttribute(frame, "left_out");
  return ranks.length > 0 ? `without ${ranksText(ranks)}: not in this page` : "";
}

export function ranksOfAttribute(frame: PanelFrame, attribute: string): number[] {
  const ranks = frame.attrs[attribute];
  return Array.isArray(ranks) ? ranks.filter((rank) => typeof rank === "number") : [];
}

/** Return the smallest and largest value with their rows, if there are more than 16 rows. */
export function extremesText(
  names: readonly string[],
  values: readonly number[] | Float64Array,
  formatValue: (value: number) => string,
): string {
  if (values.length <= 16) return "";
  let [low, high] = [-1, -1];
  values.forEach((value, index) => {
    if (!Number.isFinite(value)) return;
    if (low < 0 || value < values[low]!) low = index;
    if (high < 0 || value > values[high]!) high = index;
  });
  if (low < 0) return "";
  const [lower, upper] = [formatValue(values[low]!), formatValue(values[high]!)];
  if (lower === upper) return `${lower} on each`;
  return `${lower} (${names[low]}) to ${upper} (${names[high]})`;
}

export function withPrefix(word: string, text: string): string {
  return text === "" ? "" : word + text;
}

/** Return the smallest step of at least `minStep` that is 1, 2 or 5 times a power of ten. */
export function niceStep(minStep: number): number {
  const power = 10 ** Math.floor(Math.log10(minStep) + 1e-12);
  for (const factor of [1, 2, 5]) {
    if (factor * power >= minStep * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/** Return up to `maxTicks` + 1 round positions from `start` to `end`, including 0. */
export function niceTicks(end: number, maxTicks = 3, start = 0): number[] {
  const span = Math.max(Math.abs(end), Math.abs(start));
  if (!(span > 0)) return [0];
  let step = niceStep((span / maxTicks) * 0.85);
  // Use the next smaller step. Consecutive steps differ by a factor of at most 2.5.
  if (step > span) step = niceStep(step / 2.6);
  const ticks: number[] = [];
  const last = Math.floor(end / step + 1e-9);
  for (let multiple = Math.ceil(start / step - 1e-9); multiple <= last; multiple += 1)
    ticks.push(multiple * step + 0);
  return ticks;
}

/** A part of a sentence: plain text, strong text, or the name of a key. */
export type TextRun = string | { strong: string } | { key: string };
export type RichText = TextRun[];

/**
 * The JSON files in `hta_widgets/charts/definitions`, which define charts for both languages, and
 * their types; docs/architecture.md describes the format.
 */

import { PANELS } from "../facts/panels";
import type { Fold } from "./folding";

/** An expression, or a number. */
export type Code = string | number;

export interface When {
  when?: string;
}

export interface Sentence extends When {
  text: string;
}

export type Line = readonly [what: string, text: string];

export interface Tooltip {
  heading: string;
  lines: readonly (Line | (When & { of: Line }))[];
}

export interface Part {
  name: string;
  ns: string;
  ink: string;
  at_end?: boolean;
}

export interface Stack {
  /** Column of the total of the parts. */
  of?: string;
  parts?: readonly Part[];
  /** Instead of `parts`: a column that names each item's part, and columns of its time and share. */
  by?: string;
  value?: string;
  share?: string;
  text?: string;
  /** The facts that label the parts. */
  labels?: "causes";
}

export interface MarkLook {
  bar?: readonly [Code, Code];
  line?: readonly [Code, Code];
  dot?: string;
  ink: string;
  name?: string;
  size?: Code;
  marker?: string;
  angle?: string;
  hatch?: string;
  hatch_ink?: string;
  /** A text in a bar, if it fits. */
  inside?: string;
  tip?: Tooltip;
  /** The window that the mark selects, and the keys it selects instead of those of its row. */
  selects?: { keys?: string; window?: readonly [string, string] };
}

export interface Ticks extends When {
  as: "duration" | "duration_delta" | "share_delta" | "count";
  to: Code;
  from?: Code;
  most: Code;
  zero?: string;
}

/** Places of items, each with a text. */
export interface Places extends When {
  at: string;
  text: string;
  where: string;
}

export interface TextColumn extends When {
  head?: string;
  text: string;
  from?: number;
  late?: string;
  strong?: string;
}

export interface Definition {
  title: string;
  needs: readonly string[];
  uses?: readonly string[];
  /** Further columns for the cells of a heatmap. */
  cells?: readonly string[];
  attrs?: Readonly<Record<string, string | number>>;
  from?: { let?: Readonly<Record<string, string>>; keep?: string; sort?: readonly string[] };
  group?: readonly string[];
  let?: Readonly<Record<string, string>>;
  /** The rule by which similar ranks share a row, or a mark. */
  fold?: Fold;
  empty?: { when: string; text: string };
  subtitle: readonly (string | Sentence)[];
  unmatched?: readonly string[] | null;
  finding: readonly (string | Sentence)[];
  rows: {
    name: string;
    keys: readonly string[];
    selects: "ranks" | "names" | "kinds" | "window";
    rank?: string;
    late?: string;
    head?: string;
    pitch?: Code;
    ruled?: boolean;
    second?: TextColumn;
    ends?: TextColumn & { at: string };
  };
  scale: { from?: Code; to: Code; zero_line?: Code; ticks?: readonly (Ticks | Places)[] };
  stack?: Stack;
  marks?: readonly MarkLook[];
  order?: string;
  place?: string;
  columns?: readonly TextColumn[];
  tip: Tooltip;
}

export interface Ink {
  fill: string;
  line?: string;
  hatch?: string;
  hatch_ink?: string;
  alpha?: number;
  /** Whether bars have an outline in the colour of their fill. */
  outlined?: boolean;
  on?: string;
}

// `js/build.mjs` replaces this call by imports, as Vite does.
const FILES = import.meta.glob<object>("../../../hta_widgets/charts/definitions/*.json", {
  eager: true,
  import: "default",
});
const LOOKS = new Map(
  Object.entries(FILES).map(([path, look]) => [/(\w+)\.json$/.exec(path)![1]!, look]),
);

export const INKS = LOOKS.get("inks") as Readonly<Record<string, Ink>>;

function lookOf(id: string): object {
  const look = LOOKS.get(id)!;
  return "extends" in look ? { ...lookOf(look.extends as string), ...look } : look;
}

function definitionsOf(shape: string): Readonly<Record<string, Definition>> {
  const drawn = PANELS.filter(({ id, look }) => look === shape && LOOKS.has(id));
  return Object.fromEntries(
    drawn.map(({ id, title }) => [id, { ...lookOf(id), title } as Definition]),
  );
}

/** Definitions by the id of the panel that shows the chart. */
export const DEFINITIONS = definitionsOf("chart");

export const HEATMAP = definitionsOf("heatmap").heatmap!;

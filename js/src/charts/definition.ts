/**
 * The JSON files in `hta_widgets/charts/definitions`, which define charts for both languages, and
 * their types; docs/architecture.md describes the format.
 */

import { PANELS } from "../facts/panels";
import type { FoldRule } from "./folding";

/** An expression, or a number. */
export type Code = string | number;

export interface Conditional {
  when?: string;
}

export interface ConditionalText extends Conditional {
  text: string;
}

export type TooltipLineTemplate = readonly [what: string, text: string];

export interface TooltipTemplate {
  heading: string;
  lines: readonly (TooltipLineTemplate | (Conditional & { of: TooltipLineTemplate }))[];
}

export interface StackPart {
  name: string;
  ns: string;
  ink: string;
  at_end?: boolean;
}

export interface StackDefinition {
  /** Column of the total of the parts. */
  of?: string;
  parts?: readonly StackPart[];
  /** Instead of `parts`: a column that names each item's part, and columns of its time and share. */
  by?: string;
  value?: string;
  share?: string;
  text?: string;
  /** The facts that label the parts. */
  labels?: "causes";
}

export interface MarkDefinition {
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
  tip?: TooltipTemplate;
  /** The window that the mark selects, and the keys it selects instead of those of its row. */
  selects?: { keys?: string; window?: readonly [string, string] };
}

export interface TickDefinition extends Conditional {
  as: "duration" | "duration_delta" | "share_delta" | "count";
  to: Code;
  from?: Code;
  most: Code;
  zero?: string;
}

/** Places of items, each with a text. */
export interface TickPlaces extends Conditional {
  at: string;
  text: string;
  where: string;
}

export interface TextColumn extends Conditional {
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
  fold?: FoldRule;
  empty?: { when: string; text: string };
  subtitle: readonly (string | ConditionalText)[];
  unmatched?: readonly string[] | null;
  finding: readonly (string | ConditionalText)[];
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
  scale: {
    from?: Code;
    to: Code;
    zero_line?: Code;
    ticks?: readonly (TickDefinition | TickPlaces)[];
  };
  stack?: StackDefinition;
  marks?: readonly MarkDefinition[];
  order?: string;
  place?: string;
  columns?: readonly TextColumn[];
  tip: TooltipTemplate;
}

export interface BarStyleDefinition {
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
const RAW_DEFINITIONS = new Map(
  Object.entries(FILES).map(([path, look]) => [/(\w+)\.json$/.exec(path)![1]!, look]),
);

export const BAR_STYLES = RAW_DEFINITIONS.get("inks") as Readonly<
  Record<string, BarStyleDefinition>
>;

function resolveExtends(id: string): object {
  const definition = RAW_DEFINITIONS.get(id)!;
  return "extends" in definition
    ? { ...resolveExtends(definition.extends as string), ...definition }
    : definition;
}

function definitionsForShape(shape: string): Readonly<Record<string, Definition>> {
  const definitions = PANELS.filter(
    ({ id, look: definition }) => definition === shape && RAW_DEFINITIONS.has(id),
  );
  return Object.fromEntries(
    definitions.map(({ id, title }) => [id, { ...resolveExtends(id), title } as Definition]),
  );
}

/** Definitions by the id of the panel that shows the chart. */
export const DEFINITIONS = definitionsForShape("chart");

export const HEATMAP = definitionsForShape("heatmap").heatmap!;

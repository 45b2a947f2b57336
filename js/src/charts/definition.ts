/**
 * Types and contents of the JSON files in `hta_widgets/charts/definitions`, which define the charts
 * for Python and TypeScript. docs/changing.md describes the format.
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

/** Stacked bars with the same parts in every row. */
export interface PartStackDefinition {
  type: "parts";
  /** Column with the total of the parts. */
  of?: string;
  /** `color` names a bar style. */
  parts: readonly { name: string; ns: string; color: string; align_end?: boolean }[];
}

/** Stacked bars whose parts are items. `by` gives the part's name, `value` its time. */
export interface ItemStackDefinition {
  type: "items";
  by: string;
  value: string;
  share: string;
  text: string;
}

/** A color per item: color names given by an expression, or a position from 0 to 1 on a ramp. */
export type ItemColor =
  | { type: "column"; tokens: string }
  | { type: "ramp"; ramp: "busy" | "waiting"; at: string; missing?: string }
  | { type: "mix"; start: string; end: string; at: string };

/** Tooltip and selection of a mark, if they differ from those of its row. */
interface MarkInteraction {
  tooltip?: TooltipTemplate;
  /** The window that a mark selects, and the keys it selects instead of its row's keys. */
  selects?: { keys?: string; window?: readonly [string, string] };
}

export interface BarMark extends MarkInteraction {
  shape: "bar";
  left: Code;
  right: Code;
  /** The name of a bar style, or a color per item. */
  color: string | ItemColor;
  name?: string;
  hatch?: { pattern: string; color: ItemColor };
  bar_text?: string;
}

interface LineMark {
  shape: "line";
  left: Code;
  right: Code;
  color: string | ItemColor;
}

interface DotMark extends MarkInteraction {
  shape: "dot";
  at: string;
  color: string | ItemColor;
  size: Code;
  marker?: string;
  angle?: string;
}

export type MarkDefinition = BarMark | LineMark | DotMark;

export interface RoundTicks extends Conditional {
  type: "round";
  format: "duration" | "duration_delta" | "share_delta" | "count";
  to: Code;
  from?: Code;
  max_ticks: Code;
  zero?: string;
}

export interface PlacedTicks extends Conditional {
  type: "places";
  at: string;
  text: string;
  where: string;
}

interface TextColumn extends Conditional {
  head?: string;
  text: string;
  min_width?: number;
  late_rows?: string;
  bold_rows?: string;
}

export interface Definition {
  title: string;
  needs: readonly string[];
  uses?: readonly string[];
  /** Frame attributes used by expressions, with their defaults. Null stands for unknown. */
  attrs?: Readonly<Record<string, string | number | null>>;
  from?: { let?: Readonly<Record<string, string>>; keep?: string; sort?: readonly string[] };
  group?: readonly string[];
  let?: Readonly<Record<string, string>>;
  /** How similar ranks are combined into one row or mark. */
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
    late_rows?: string;
    head?: string;
    pitch?: Code;
    rules?: boolean;
    second?: TextColumn;
    ends?: TextColumn & { at: string };
  };
  scale: { from?: Code; to: Code; zero_line?: Code; ticks?: readonly (RoundTicks | PlacedTicks)[] };
  stack?: PartStackDefinition | ItemStackDefinition;
  marks?: readonly MarkDefinition[];
  order?: string;
  place?: string;
  columns?: readonly TextColumn[];
  tooltip: TooltipTemplate;
}

interface BarStyleDefinition {
  fill: string;
  line?: string;
  hatch?: string;
  hatch_color?: string;
  alpha?: number;
  /** Whether bars are outlined in their fill color. */
  outlined?: boolean;
  on?: string;
}

// `js/build.mjs` replaces this call with imports, as Vite does.
const FILES = import.meta.glob<object>("../../../hta_widgets/charts/definitions/*.json", {
  eager: true,
  import: "default",
});
const RAW_DEFINITIONS = new Map(
  Object.entries(FILES).map(([path, file]) => [/(\w+)\.json$/.exec(path)![1]!, file]),
);

export const BAR_STYLES = RAW_DEFINITIONS.get("bar_styles") as Readonly<
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
    (panel) => panel.shape === shape && RAW_DEFINITIONS.has(panel.id),
  );
  return Object.fromEntries(
    definitions.map(({ id, title }) => [id, { ...resolveExtends(id), title } as Definition]),
  );
}

/** The chart definitions, keyed by panel ID. */
export const DEFINITIONS = definitionsForShape("chart");

export const HEATMAP = definitionsForShape("heatmap").heatmap!;

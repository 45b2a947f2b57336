/** The catalogue of panels, the metrics of the heatmap and the causes of idleness. */

import causes from "../../../hta_widgets/facts/causes.json";
import METRICS from "../../../hta_widgets/facts/metrics.json";
import panels from "../../../hta_widgets/facts/panels.json";
import { EVERYTHING, readClauses, writeClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";

interface PanelKind {
  id: string;
  title: string;
  /** One line on what is seen there. */
  about: string;
  /** What it is not filtered by: ranks, names, kinds, window. */
  own: readonly string[];
  look: string;
  /** Of panels that users add: are their frames of the selection, or of the whole job? */
  added?: string;
}

const KINDS: readonly PanelKind[] = Object.entries(panels).map(([id, one]) => ({ id, ...one }));

/** In the order of the list from which users choose. */
export const PANELS = KINDS.filter(({ id }) => id !== "summary");

/** Panels whose whole frames saved pages keep; kernels make them on request. */
export const OF_JOB = KINDS.filter(({ added }) => added === "job").map(({ id }) => id);

export function panelKind(id: string): PanelKind {
  const found = KINDS.find((one) => one.id === id);
  if (found === undefined) throw new Error(`There is no panel ${id}.`);
  return found;
}

/** A selection without what the panel writes itself: what its numbers are of. */
export function withoutOwn(id: string, selection: SelectionJson): SelectionJson {
  const { own } = panelKind(id);
  const rest: SelectionJson = { ...EVERYTHING, ...selection };
  if (own.includes("ranks")) rest.ranks = null;
  if (own.includes("window")) rest.start_ns = rest.end_ns = null;
  if (rest.query !== null && (own.includes("names") || own.includes("kinds"))) {
    const clauses = readClauses(rest.query);
    const names = own.includes("names") ? null : clauses.names;
    const kinds = own.includes("kinds") ? null : clauses.kinds;
    if (names !== clauses.names || kinds !== clauses.kinds) {
      rest.query = writeClauses({ ...clauses, names, kinds });
    }
  }
  return rest;
}

/** Is it drawn on a canvas of its own? */
export function isChart(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "heatmap";
}

/** Is it made of numbers that are asked for? */
export function isCounted(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "table";
}

/** What the heatmap shows, in the order of the list. */
export type Metric = keyof typeof METRICS;
export { METRICS };

export function isMetric(text: string): text is Metric {
  return Object.hasOwn(METRICS, text);
}

/** All there are, in the order in which they follow each other within a gap. */
export type Cause = keyof typeof causes;
export const CAUSES = Object.keys(causes) as Cause[];
/** What each is called and means, and what helps; "" where that is not known. */
export const CAUSE_FACTS: Readonly<
  Record<string, { label: string; meaning: string; advice: string }>
> = causes;

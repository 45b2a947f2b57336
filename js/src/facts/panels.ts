/** The catalogue of panels, the metrics of the heatmap and the causes of idleness. */

import causes from "../../../hta_widgets/facts/causes.json";
import METRICS from "../../../hta_widgets/facts/metrics.json";
import panels from "../../../hta_widgets/facts/panels.json";
import { EVERYTHING, type Part, without } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";

interface PanelKind {
  id: string;
  title: string;
  /** One-line description. */
  about: string;
  /** Dimensions that do not filter it: ranks, names, kinds, window. */
  own: readonly Part[];
  look: string;
  /** Only for panels that users add: whether frames are of the selection or of the whole job. */
  added?: string;
}

const KINDS = Object.entries(panels).map(([id, one]) => ({ id, ...one })) as readonly PanelKind[];

/** In the order of the list from which users choose. */
export const PANELS = KINDS.filter(({ id }) => id !== "summary");

/** Panels whose whole frames saved pages contain; kernels compute them on request. */
export const OF_JOB = KINDS.filter(({ added }) => added === "job").map(({ id }) => id);

export function panelKind(id: string): PanelKind {
  const found = KINDS.find((one) => one.id === id);
  if (found === undefined) throw new Error(`There is no panel ${id}.`);
  return found;
}

/** The selection that filters a panel: without the dimensions that the panel itself writes. */
export function withoutOwn(id: string, selection: SelectionJson): SelectionJson {
  let rest: SelectionJson | null = { ...EVERYTHING, ...selection };
  for (const part of panelKind(id).own) rest = without(rest, part);
  return rest ?? EVERYTHING;
}

/** Whether a panel is drawn on its own canvas. */
export function isChart(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "heatmap";
}

/** Whether a panel has numbers to request. */
export function isCounted(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "table";
}

/** Metrics of the heatmap, in the order of the list. */
export type Metric = keyof typeof METRICS;
export { METRICS };

export function isMetric(text: string): text is Metric {
  return Object.hasOwn(METRICS, text);
}

/** All causes, in the order in which they occur within a gap. */
export type Cause = keyof typeof causes;
export const CAUSES = Object.keys(causes) as Cause[];
/** Name, meaning and remedy of each cause; "" if unknown. */
export const CAUSE_FACTS: Readonly<
  Record<string, { label: string; meaning: string; advice: string }>
> = causes;

/** The list of panels, the metrics of the heatmap, and the causes of idle time. */

import causes from "../../../hta_widgets/facts/causes.json";
import METRICS from "../../../hta_widgets/facts/metrics.json";
import panels from "../../../hta_widgets/facts/panels.json";
import { FULL_SELECTION, type SelectionDimension, withoutDimension } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";

interface PanelKind {
  id: string;
  title: string;
  /** One-line description. */
  about: string;
  /** Selection dimensions that the panel sets. They do not filter it. */
  own: readonly SelectionDimension[];
  /** Noun for the rows, such as operators or kernels. */
  rows?: string;
  shape: string;
  /** Heading in the menu of panels. */
  group?: string;
  /** Groupings of a table, except by name. */
  by?: readonly string[];
  /** For panels added by users: whether frames cover the selection or the whole job. */
  added?: string;
}

const KINDS = Object.entries(panels).map(([id, panel]) => ({
  id,
  ...panel,
})) as readonly PanelKind[];

/** In menu order. */
export const PANELS = KINDS.filter(({ id }) => id !== "summary");

const EVERY_DIMENSION = ["window", "ranks", "tracks", "ids", "names", "kinds", "rest"] as const;

/** Return the frame id of a grouped table. Groupings other than by name cover the whole job. */
export function groupedFrameId(id: string, by: string): string {
  return by === "name" ? id : `${by === "shape" ? id : "work"} by ${by}`;
}

/** Definitions of the grouped frames of tables. */
const GROUPED = KINDS.flatMap((kind) =>
  (kind.by ?? []).map((by) => ({
    ...kind,
    id: groupedFrameId(kind.id, by),
    own: EVERY_DIMENSION,
    added: "job",
  })),
);

/** Panels of the whole job. Saved pages contain their frames; kernels compute them on request. */
export const WHOLE_JOB_PANELS = [...KINDS, ...GROUPED]
  .filter(({ added }) => added === "job")
  .map(({ id }) => id);

export function findPanelKind(id: string): PanelKind {
  const kind = [...KINDS, ...GROUPED].find((candidate) => candidate.id === id);
  if (kind === undefined) throw new Error(`Unknown panel ${id}.`);
  return kind;
}

/**
 * Return the selection that filters a panel, excluding the dimensions that the panel itself sets.
 * If it includes the work launched by operators, a panel of kernels keeps the operator names.
 */
export function withoutOwnDimensions(id: string, selection: SelectionJson): SelectionJson {
  let rest: SelectionJson | null = { ...FULL_SELECTION, ...selection };
  const { own, rows } = findPanelKind(id);
  const keepsNames = selection.launches === true && rows === "kernels";
  for (const dimension of own) {
    if (dimension !== "names" || !keepsNames) rest = withoutDimension(rest, dimension);
  }
  return rest ?? FULL_SELECTION;
}

/** Return whether the names selected in a panel are operator names. */
export function choosesOperators(id: string): boolean {
  return KINDS.some((kind) => kind.id === id && kind.rows === "operators");
}

export function hasNumbers(id: string): boolean {
  const { shape } = findPanelKind(id);
  return shape === "chart" || shape === "table";
}

/** Heatmap metrics in menu order. */
export type Metric = keyof typeof METRICS;
export { METRICS };

export function isMetric(text: string): text is Metric {
  return Object.hasOwn(METRICS, text);
}

/** All causes, in the order in which they occur within a gap. */
export type Cause = keyof typeof causes;
export const CAUSES = Object.keys(causes) as Cause[];
/** Name, meaning and remedy of each cause; "" if there is none. */
export const CAUSE_FACTS: Readonly<
  Record<string, { label: string; meaning: string; advice: string }>
> = causes;

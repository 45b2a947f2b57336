/** Which panels there are, and what of the selection each one writes: `panels/catalog.py` in Python. */

import type { SelectionJson } from "../contract";
import { EVERYTHING } from "../app/selection";
import { FORMAT_PANELS } from "./by_format/catalog";
import { readClauses, writeClauses } from "./clauses";
import { panel, type PanelKind } from "./panel_kind";

/** In the order of the list from which users choose. */
export const PANELS: readonly PanelKind[] = [
  panel("timeline", "timeline", "Timeline", "every event of every rank, in time"),
  panel("heatmap", "heatmap", "Rank × time", "one measure, rank by rank", "window", "ranks"),
  panel("breakdown", "chart", "Where GPU time goes", "compute, exposed, idle by rank", "ranks"),
  panel("overlap", "chart", "Communication", "and how much compute hides", "ranks"),
  panel(
    "steps",
    "chart",
    "Steps and phases",
    "against the median rank",
    "window",
    "ranks",
    "names",
    "kinds",
  ),
  panel("kernels", "table", "Top kernels", "GPU time by name", "names"),
  panel(
    "kernel_durations",
    "chart",
    "Kernels over ranks",
    "mean, least and most by rank",
    "names",
    "ranks",
  ),
  panel("kernel_types", "chart", "Kinds of GPU work", "and their overlaps", "kinds"),
  panel("idle", "chart", "Why GPUs are idle", "by cause and rank", "ranks"),
  panel("queue", "chart", "Launch queue", "kernels that wait to run", "ranks"),
  panel("operators", "table", "Operators", "CPU and GPU time by operator", "names", "kinds"),
  ...FORMAT_PANELS,
  panel("selection", "words", "Selection", "in words, and as code"),
  panel("problems", "words", "Problems", "what was skipped, repaired or guessed"),
];

const SUMMARY: PanelKind = panel("summary", "words", "Summary", "what is selected");

export function panelKind(id: string): PanelKind {
  const found = PANELS.find((one) => one.id === id) ?? (id === "summary" ? SUMMARY : undefined);
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

/** Is it drawn by BokehJS? */
export function isChart(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "heatmap";
}

/** Is it made of numbers that are asked for? */
export function isCounted(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "table";
}

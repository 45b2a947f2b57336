/** The catalogue of panels, as in `hta_widgets/panels/catalog.py`. */

import causes from "../../../hta_widgets/facts/causes.json";
import METRICS from "../../../hta_widgets/facts/metrics.json";
import { EVERYTHING, readClauses, writeClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";

type Dimension = "ranks" | "names" | "kinds" | "window";

interface PanelKind {
  id: string;
  title: string;
  /** One line on what is seen there. */
  about: string;
  /** What it is not filtered by. */
  own: readonly Dimension[];
  look: "timeline" | "heatmap" | "chart" | "table" | "words";
}

const panel = (
  id: string,
  look: PanelKind["look"],
  title: string,
  about: string,
  ...own: Dimension[]
): PanelKind => ({ id, look, title, about, own });

// The panels of BytePS's and MPI's files: `panels/catalog.py` in Python.

const FORMAT_PANELS: readonly PanelKind[] = [
  panel(
    "byteps_stragglers",
    "chart",
    "Who is late",
    "each worker's lag, iteration by iteration",
    "window",
    "ranks",
  ),
  panel("byteps_gradients", "chart", "Slowest gradients", "queue, work and tail", "names"),
  panel("byteps_stages", "chart", "Pipeline stages", "by worker and GPU", "ranks"),
  panel("byteps_blame", "chart", "Whom PULLs wait for", "blame and slack by worker", "ranks"),
  panel("byteps_servers", "chart", "Load of the servers", "pushes, pulls and waiting", "ranks"),
  panel("byteps_requests", "table", "Requests of servers", "by key, who comes last", "ranks"),
  panel(
    "byteps_clock",
    "chart",
    "Clocks",
    "servers against workers, with errors",
    "ranks",
    "window",
  ),
  panel("mpi_ranks", "chart", "Time in MPI", "by rank and host", "ranks", "window", "names"),
  panel("mpi_sizes", "chart", "Message sizes", "by routine: calls, time, bytes", "names", "window"),
  panel("mpi_routines", "chart", "Routines over ranks", "mean, least and most", "names", "window"),
  panel("mpi_routine_table", "table", "MPI routines", "calls, bytes and time", "names", "window"),
  panel("mpi_messages", "table", "Messages by size", "shares of calls, time and bytes", "window"),
  panel("mpi_hosts", "table", "Hosts", "how their ranks do", "ranks", "window", "names"),
];

const IDS = new Set(FORMAT_PANELS.map(({ id }) => id));

export function isOfFormat(id: string): boolean {
  return IDS.has(id);
}

// Which panels there are, and what of the selection each one writes: `panels/catalog.py` in
// Python.

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

/** What the heatmap shows, in the order of the list. */
export type Metric = keyof typeof METRICS;
export { METRICS };

export function isMetric(text: string): text is Metric {
  return Object.hasOwn(METRICS, text);
}

/** All there are, in the order in which they follow each other within a gap. */
export type Cause = keyof typeof causes;
export const CAUSES = Object.keys(causes) as Cause[];

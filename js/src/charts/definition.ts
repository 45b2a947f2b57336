/**
 * The JSON files in `hta_widgets/charts/definitions`, which define charts for both languages, and
 * their types; docs/architecture.md describes the format.
 */

import arrivals from "../../../hta_widgets/charts/definitions/arrivals.json";
import bandwidth from "../../../hta_widgets/charts/definitions/bandwidth.json";
import breakdown from "../../../hta_widgets/charts/definitions/breakdown.json";
import byteps_blame from "../../../hta_widgets/charts/definitions/byteps_blame.json";
import byteps_clock from "../../../hta_widgets/charts/definitions/byteps_clock.json";
import byteps_gradients from "../../../hta_widgets/charts/definitions/byteps_gradients.json";
import byteps_servers from "../../../hta_widgets/charts/definitions/byteps_servers.json";
import byteps_stages from "../../../hta_widgets/charts/definitions/byteps_stages.json";
import byteps_stragglers from "../../../hta_widgets/charts/definitions/byteps_stragglers.json";
import call_tree from "../../../hta_widgets/charts/definitions/call_tree.json";
import call_tree_device from "../../../hta_widgets/charts/definitions/call_tree_device.json";
import clocks from "../../../hta_widgets/charts/definitions/clocks.json";
import clusters from "../../../hta_widgets/charts/definitions/clusters.json";
import critical_path from "../../../hta_widgets/charts/definitions/critical_path.json";
import heatmap from "../../../hta_widgets/charts/definitions/heatmap.json";
import idle from "../../../hta_widgets/charts/definitions/idle.json";
import inks from "../../../hta_widgets/charts/definitions/inks.json";
import kernel_durations from "../../../hta_widgets/charts/definitions/kernel_durations.json";
import kernel_types from "../../../hta_widgets/charts/definitions/kernel_types.json";
import launch_outliers from "../../../hta_widgets/charts/definitions/launch_outliers.json";
import memory from "../../../hta_widgets/charts/definitions/memory.json";
import messages from "../../../hta_widgets/charts/definitions/messages.json";
import mpi_ranks from "../../../hta_widgets/charts/definitions/mpi_ranks.json";
import mpi_routines from "../../../hta_widgets/charts/definitions/mpi_routines.json";
import mpi_sizes from "../../../hta_widgets/charts/definitions/mpi_sizes.json";
import overlap from "../../../hta_widgets/charts/definitions/overlap.json";
import queue from "../../../hta_widgets/charts/definitions/queue.json";
import steps from "../../../hta_widgets/charts/definitions/steps.json";
import { panelKind } from "../facts/panels";
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

export const INKS: Readonly<Record<string, Ink>> = inks;

function titled(id: string, look: object): Definition {
  return { ...look, title: panelKind(id).title } as Definition;
}

/** Definitions by the id of the panel that shows the chart. */
export const DEFINITIONS: Readonly<Record<string, Definition>> = Object.fromEntries(
  Object.entries({
    breakdown,
    overlap,
    idle,
    queue,
    kernel_types,
    kernel_durations,
    steps,
    byteps_stragglers,
    byteps_gradients,
    byteps_stages,
    byteps_blame,
    byteps_servers,
    byteps_clock,
    mpi_ranks,
    mpi_sizes,
    mpi_routines,
    arrivals,
    bandwidth,
    call_tree,
    call_tree_device: { ...call_tree, ...call_tree_device },
    clocks,
    clusters,
    critical_path,
    launch_outliers,
    memory,
    messages,
  }).map(([id, look]) => [id, titled(id, look)]),
);

export const HEATMAP = titled("heatmap", heatmap);

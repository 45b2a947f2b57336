/** Positions of panels at a width. */

import { findPanelKind } from "../facts/panels";

/** Ids of panels, in a list or in rows. */
export type PanelChoice = readonly string[] | readonly (readonly string[])[];

export interface LayoutColumn {
  /** A CSS grid track. */
  width: string;
  panels: string[];
}

export interface PanelLayout {
  name: "one" | "pairs" | "wide" | "full";
  /** Columns side by side, from top to bottom. */
  bands: LayoutColumn[][];
  /** Index of the band above the status line. */
  statusAfter: number;
}

/** Below this width, panels are in one column. px. */
const PAIRS_FROM = 900;
/** From this width on, the timeline is in the middle column. px. */
const WIDE_FROM = 1640;
const LEFT_PX = 396;
/** From this width on, the full window has columns that scroll separately. px. */
const FULL_FROM = 1100;
const MIDDLE_PX = 1000;
const RIGHT_PX = [348, 460] as const;

const ONE_COLUMN = [
  ["mpi_ranks"],
  ["byteps_stragglers"],
  ["breakdown"],
  ["timeline"],
  ["heatmap"],
  ["byteps_gradients"],
  ["mpi_sizes"],
  ["mpi_routine_table"],
  ["selection"],
  ["kernels"],
  ["byteps_blame"],
  ["byteps_servers"],
  ["byteps_stages"],
  ["byteps_requests"],
  ["byteps_clock"],
  ["mpi_messages"],
  ["mpi_routines"],
  ["mpi_hosts"],
  ["overlap"],
  ["steps"],
  ["kernel_durations"],
  ["kernel_types"],
  ["idle"],
  ["queue"],
  ["operators"],
  ["problems"],
];
const PAIRED_COLUMNS = [
  ["breakdown", "overlap"],
  ["mpi_ranks", "mpi_sizes"],
  ["byteps_stragglers", "byteps_blame"],
  ["timeline"],
  ["heatmap"],
  ["byteps_gradients", "byteps_stages"],
  ["mpi_routine_table", "mpi_messages"],
  ["selection", "problems"],
  ["byteps_requests"],
  ["byteps_servers", "byteps_clock"],
  ["mpi_routines", "mpi_hosts"],
  ["kernels", "kernel_durations"],
  ["steps", "kernel_types"],
  ["idle", "queue"],
  ["operators"],
];
const WIDE_COLUMNS = [
  [
    "breakdown",
    "overlap",
    "steps",
    "mpi_ranks",
    "mpi_hosts",
    "byteps_blame",
    "byteps_servers",
    "byteps_clock",
  ],
  ["timeline", "heatmap", "byteps_stragglers", "mpi_sizes", "mpi_routine_table", "mpi_messages"],
  ["selection", "problems", "kernels", "mpi_routines"],
];
const BELOW_COLUMNS = [
  ["byteps_gradients"],
  ["byteps_stages"],
  ["byteps_requests"],
  ["operators"],
  ["kernel_durations", "kernel_types"],
  ["idle", "queue"],
];

/** Relative widths of panels that need more room than their neighbours. */
const COLUMN_SHARES: Record<string, number> = {
  timeline: 2,
  heatmap: 2,
  kernels: 1.35,
  operators: 1.35,
};

function isRowsChoice(choice: PanelChoice): choice is readonly (readonly string[])[] {
  return choice.some((entry) => typeof entry !== "string");
}

export function shownIds(choice: PanelChoice): string[] {
  return (choice as readonly (string | readonly string[])[]).flat();
}

/** `Not in this job: Rank × time, Top kernels (no GPU work).`; "" if nothing is left out. */
export function leftOutText(
  leftOut: Readonly<Record<string, readonly string[]>>,
  shown: readonly string[],
): string {
  const parts = Object.entries(leftOut).flatMap(([why, ids]) => {
    const titles = ids.filter((id) => !shown.includes(id)).map((id) => findPanelKind(id).title);
    return titles.length > 0 ? [`${titles.join(", ")} (${why})`] : [];
  });
  return parts.length > 0 ? `Not in this job: ${parts.join("; ")}.` : "";
}

export function computeLayout(width: number, choice: PanelChoice, full = false): PanelLayout {
  const isFull = full && width >= FULL_FROM && !isRowsChoice(choice);
  const name = isFull ? "full" : width < PAIRS_FROM ? "one" : width < WIDE_FROM ? "pairs" : "wide";
  const shown = new Set(shownIds(choice));
  const present = (ids: readonly string[]): string[] => ids.filter((id) => shown.has(id));
  let bands: LayoutColumn[][];
  if (isRowsChoice(choice)) {
    bands = (name === "one" ? choice.flat().map((id) => [id]) : choice).map(rowBand);
  } else if (name === "full") {
    bands = [wideColumns(width, fullWindowColumns(width).map(present))];
  } else if (name === "wide") {
    bands = [
      wideColumns(width, WIDE_COLUMNS.map(present)),
      sideBySideBand(BELOW_COLUMNS.map(present)),
    ];
  } else {
    bands = (name === "one" ? ONE_COLUMN : PAIRED_COLUMNS).map((ids) => rowBand(present(ids)));
  }
  const placed = new Set(bands.flat().flatMap(({ panels }) => panels));
  const added = [...shown].filter((id) => !placed.has(id));
  if (name === "full") bands[0]?.[0]?.panels.push(...added);
  else bands.push(...added.map((id) => rowBand([id])));
  bands = bands.filter((columns) => columns.length > 0);
  const bandOf = (id: string): number =>
    bands.findIndex((columns) => columns.some(({ panels }) => panels.includes(id)));
  const timedBand = Math.max(bandOf("timeline"), bandOf("heatmap"));
  return { name, bands, statusAfter: timedBand < 0 ? bands.length - 1 : timedBand };
}

function rowBand(ids: readonly string[]): LayoutColumn[] {
  return sideBySideBand(ids.map((id) => [id]));
}

function sideBySideBand(columns: readonly string[][]): LayoutColumn[] {
  const filled = columns.filter((panels) => panels.length > 0);
  return filled.map((panels) => ({ width: fractionTrack(COLUMN_SHARES[panels[0]!] ?? 1), panels }));
}

/** All panels next to the timeline: in one column, or in two if both have room. */
function fullWindowColumns(width: number): string[][] {
  const [left = [], middle = [], right = []] = WIDE_COLUMNS;
  const rest = BELOW_COLUMNS.flat();
  if (width < WIDE_FROM) return [[...left, ...right, ...rest], middle, []];
  return [[...left, ...rest.filter((id) => id !== "operators")], middle, [...right, "operators"]];
}

function wideColumns(width: number, columns: readonly string[][]): LayoutColumn[] {
  const [minWidth, maxWidth] = RIGHT_PX;
  const right = Math.min(Math.max(width - LEFT_PX - MIDDLE_PX, minWidth), maxWidth);
  // If the middle column is empty, the others share the width equally.
  const isEqual = columns[1]!.length === 0;
  const widths = [`${LEFT_PX}px`, fractionTrack(1), `${right}px`];
  const all = columns.map((panels, at) => ({
    width: isEqual ? fractionTrack(1) : widths[at]!,
    panels,
  }));
  return all.filter(({ panels }) => panels.length > 0);
}

function fractionTrack(share: number): string {
  return `minmax(0, ${share}fr)`;
}

/** The choice with a panel shown or hidden. */
export function choiceWithPanel(choice: PanelChoice, id: string, on: boolean): PanelChoice {
  if (isRowsChoice(choice)) {
    const rows = choice
      .map((ids) => ids.filter((panelId) => panelId !== id))
      .filter((ids) => ids.length > 0);
    return on ? [...rows, [id]] : rows;
  }
  const ids = choice.filter((panelId) => panelId !== id);
  return on ? [...ids, id] : ids;
}

/** Arrange panels in columns and bands for a given width. */

/** Panel IDs, either as one list or as rows. */
export type PanelChoice = readonly string[] | readonly (readonly string[])[];

export interface LayoutColumn {
  /** Width as a CSS grid track. */
  width: string;
  panels: string[];
}

export interface PanelLayout {
  name: "one" | "pairs" | "columns";
  /** Bands from top to bottom, each with its columns side by side. */
  bands: LayoutColumn[][];
  /** Index of the band above the status line. */
  statusAfter: number;
}

/** Minimum width, in px, for more than one column. */
const PAIRS_FROM = 900;
/** Minimum width, in px, at which a view that fills its window has separately scrolling columns. */
const COLUMNS_FROM = 1100;
/** Minimum width, in px, for columns on both sides of the timeline. */
const THREE_FROM = 1640;
const LEFT_PX = 396;
const MIDDLE_PX = 1000;
const RIGHT_PX = [348, 460] as const;

const panelIds = (text: string): string[] => text.trim().split(/\s+/);

const ONE_COLUMN = panelIds(`
  flight_hang flight_collectives snapshot_peak snapshot_segments mpi_ranks byteps_stragglers
  breakdown timeline heatmap byteps_gradients mpi_sizes mpi_routine_table selection kernels
  byteps_blame byteps_servers byteps_stages byteps_requests byteps_clock mpi_messages mpi_routines
  mpi_hosts overlap steps kernel_durations kernel_types idle queue operators problems
`);
const PAIRED_COLUMNS = [
  ["flight_hang"],
  ["flight_collectives"],
  ["snapshot_peak", "snapshot_segments"],
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
/** Left, middle and right column. Panels that are not listed are added on the left. */
const THREE_COLUMNS = [
  panelIds(`
    breakdown overlap steps snapshot_peak mpi_ranks mpi_hosts byteps_blame
    byteps_servers byteps_clock byteps_stages kernel_durations kernel_types idle queue
  `),
  panelIds(`
    flight_hang flight_collectives timeline snapshot_segments heatmap byteps_stragglers
    byteps_gradients byteps_requests mpi_sizes mpi_routine_table mpi_messages operators
  `),
  ["selection", "kernels", "mpi_routines", "problems"],
];

/** Text panels, which are too low to fill a column next to charts. */
const TEXTS: ReadonlySet<string> = new Set(["selection", "problems"]);

/** Relative widths of panels that are wider than adjacent panels. */
const COLUMN_SHARES: Record<string, number> = {
  timeline: 2,
  heatmap: 2,
  kernels: 1.35,
  operators: 1.35,
};

function isRowsChoice(choice: PanelChoice): choice is readonly (readonly string[])[] {
  return choice.some((entry) => typeof entry !== "string");
}

/** Return the panels that have nothing to show or compare in a job. They are not laid out. */
export function findIdlePanels(job: {
  ranks: readonly unknown[];
  steps: readonly unknown[];
  problems: number;
}): string[] {
  const isSingle = job.ranks.length === 1 && job.steps.length < 2;
  return [...(job.problems === 0 ? ["problems"] : []), ...(isSingle ? ["steps"] : [])];
}

export function shownIds(choice: PanelChoice): string[] {
  return (choice as readonly (string | readonly string[])[]).flat();
}

/** Return `Not in this job: Rank × time, Top kernels (no GPU work).`; "" if nothing is omitted. */
export function leftOutText(
  leftOut: Readonly<Record<string, readonly string[]>>,
  shown: readonly string[],
  titleOf: (id: string) => string,
): string {
  const parts = Object.entries(leftOut).flatMap(([reason, ids]) => {
    const titles = ids.filter((id) => !shown.includes(id)).map(titleOf);
    return titles.length > 0 ? [`${titles.join(", ")} (${reason})`] : [];
  });
  return parts.length > 0 ? `Not in this job: ${parts.join("; ")}.` : "";
}

/** Lay out panels. With `fills`, the view is alone in its window and may have separate columns. */
export function computeLayout(width: number, choice: PanelChoice, fills = false): PanelLayout {
  const shown = [...new Set(shownIds(choice))];
  const hasRoom = width >= COLUMNS_FROM || shown.join() === "timeline";
  if (fills && hasRoom && !isRowsChoice(choice)) {
    const band = sizeColumns(width, columnsOf(width, shown));
    return { name: "columns", bands: [band], statusAfter: 0 };
  }
  const name = width < PAIRS_FROM ? "one" : "pairs";
  const defaultRows = name === "one" ? ONE_COLUMN.map((id) => [id]) : PAIRED_COLUMNS;
  const chosenRows = name === "one" ? shown.map((id) => [id]) : (choice as readonly string[][]);
  const rows = isRowsChoice(choice) ? chosenRows : presentIn(defaultRows, shown);
  const otherRows = missingFrom(rows, shown).map((id) => [id]);
  const bandRows = [...rows, ...otherRows].filter((ids) => ids.length > 0);
  const bandOf = (id: string): number => bandRows.findIndex((ids) => ids.includes(id));
  const timedBand = Math.max(bandOf("timeline"), bandOf("heatmap"));
  const statusAfter = timedBand < 0 ? bandRows.length - 1 : timedBand;
  return { name, bands: bandRows.map(rowBand), statusAfter };
}

/** Return the panels in the left, middle and right column of a view that fills its window. */
function columnsOf(width: number, shown: readonly string[]): string[][] {
  const placed = presentIn(THREE_COLUMNS, shown);
  const [left = [], middle = [], right = []] = placed;
  const others = missingFrom(placed, shown);
  const columns =
    width < THREE_FROM
      ? [[...left.slice(0, 2), ...right, ...left.slice(2), ...others], middle, []]
      : [[...left, ...others], middle, right];
  const outer = [...columns[0]!, ...columns[2]!];
  const hasCharts = middle.length > 0 && middle[0] !== "timeline";
  const isSparse = hasCharts && outer.every((id) => TEXTS.has(id));
  return isSparse ? [[], [...middle, ...outer], []] : columns;
}

const presentIn = (rows: readonly (readonly string[])[], shown: readonly string[]): string[][] =>
  rows.map((ids) => ids.filter((id) => shown.includes(id)));

const missingFrom = (rows: readonly (readonly string[])[], shown: readonly string[]): string[] =>
  shown.filter((id) => !rows.some((ids) => ids.includes(id)));

function rowBand(ids: readonly string[]): LayoutColumn[] {
  return ids.map((id) => ({ width: fractionTrack(COLUMN_SHARES[id] ?? 1), panels: [id] }));
}

function sizeColumns(width: number, columns: readonly string[][]): LayoutColumn[] {
  const [minWidth, maxWidth] = RIGHT_PX;
  const right = Math.min(Math.max(width - LEFT_PX - MIDDLE_PX, minWidth), maxWidth);
  // If the middle column is empty, the left and right column have the same width.
  const isEqual = columns[1]!.length === 0;
  const widths = [`${LEFT_PX}px`, fractionTrack(1), `${right}px`];
  const all = columns.map((panels, index) => ({
    width: isEqual ? fractionTrack(1) : widths[index]!,
    panels,
  }));
  return all.filter(({ panels }) => panels.length > 0);
}

function fractionTrack(share: number): string {
  return `minmax(0, ${share}fr)`;
}

/** Return the panels after showing or hiding a panel. */
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

/** How many rows the tables show at first, so that columns beside each other end at one height. */

export interface Rows {
  readonly el: HTMLElement;
  setRoom(rows: number): void;
}

/**
 * What lies where: all below each other; names beside the waterfall; changes and names beside it; or
 * a column of these beside one of the rest.
 */
export type Room = "sheet" | "pair" | "row" | "columns";

const SHEET = { names: 10, changes: 6 };
/** Changes are few and worth more than names. */
const MOST_CHANGES = 10;
const LEAST = { names: 8, changes: 6 };
const MOST_NAMES = 60;

/** So many rows that what is `height` px high with `shown` rows becomes `wanted` px high. */
export function rowsFor(
  wanted: number,
  { height, shown, row }: { height: number; shown: number; row: number },
): number {
  return row > 0 ? Math.floor((wanted - (height - shown * row)) / row) : shown;
}

/** Of rows for both, names give way first, then changes. */
export function parted(free: number): { names: number; changes: number } {
  const missing = Math.max(0, LEAST.names - (free - MOST_CHANGES));
  const changes = Math.max(LEAST.changes, MOST_CHANGES - missing);
  return { names: within(free - changes), changes };
}

function within(names: number): number {
  return Math.min(MOST_NAMES, Math.max(LEAST.names, names));
}

/** Up to where its content reaches, even where it is stretched. */
function heightOf(el: HTMLElement): number {
  const { top } = el.getBoundingClientRect();
  const { paddingBottom } = getComputedStyle(el);
  const ends = Array.from(el.children, (child) => child.getBoundingClientRect().bottom);
  return Math.max(top, ...ends) - top + (Number.parseFloat(paddingBottom) || 0);
}

function measured({ el }: Rows): { height: number; shown: number; row: number } {
  const rows = el.querySelectorAll<HTMLElement>("[data-change]");
  const row = rows[0]?.getBoundingClientRect().height ?? 0;
  return { height: heightOf(el), shown: rows.length, row };
}

/** The panels of the right column, and the left one. */
export interface Filled {
  waterfall: HTMLElement;
  names: Rows;
  changes: Rows;
  /** What lies beside them in two columns. */
  left: readonly HTMLElement[];
}

export function fillRoom(room: Room, { waterfall, names, changes, left }: Filled): void {
  if (room === "sheet" || measured(names).row === 0) {
    names.setRoom(SHEET.names);
    changes.setRoom(SHEET.changes);
    return;
  }
  if (room === "columns") {
    const beside = left.reduce((sum, el) => sum + heightOf(el), 0);
    const [own, theirs] = [measured(names), measured(changes)];
    const rest = theirs.height - theirs.shown * theirs.row;
    const free = rowsFor(beside - heightOf(waterfall) - rest, own);
    const rows = parted(free);
    changes.setRoom(rows.changes);
    names.setRoom(within(free - Math.min(rows.changes, measured(changes).shown)));
    return;
  }
  const high = heightOf(waterfall);
  names.setRoom(within(rowsFor(high, measured(names))));
  const fit = room === "row" ? rowsFor(high, measured(changes)) : SHEET.changes;
  changes.setRoom(Math.max(LEAST.changes, fit));
}

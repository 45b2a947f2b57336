/** Classes of events in a comparison, and their colors. The codes are the same as in Python. */

import data from "../../../hta_widgets/facts/event_classes.json";
import type {
  ClassCounts,
  ClassPalette,
  ClassStyle,
  ClassShares,
  PanelFrame,
  ThemeName,
} from "../protocol/source";

type EventClass = keyof typeof data.light;

/** Class names by code. */
export const CLASSES = Object.keys(data.light) as EventClass[];

/** Weight of changed events when the class of a cell is chosen, as in the kernel. */
const CHANGE_WEIGHT = 9;

export function weightOfClass(code: number): number {
  return ["same", "not_compared"].includes(CLASSES[code]!) ? 1 : CHANGE_WEIGHT;
}

/** Return the counts of the rank pair selected in the model, or of all ranks. */
export function classCountsOf(all: ClassCounts, pair: unknown): ClassCounts["counts"] {
  return (typeof pair === "number" ? all.pair_counts[pair] : undefined) ?? all.counts;
}

/**
 * Larger changes are darker in the light theme and lighter in the dark theme. The two most similar
 * colors differ by 10.7 (CIEDE2000) in the light theme and by 7.1 in the dark theme, including for
 * deuteranopes and protanopes (Machado 2009). Unpaired events are also hatched.
 */
const COLORS: Readonly<Record<ThemeName, Readonly<Record<EventClass, string>>>> = data;

const HATCHED: ReadonlySet<string> = new Set(data.hatched);

/** Ratios from which events are "much longer" and "very much longer", as in Python. */
const MUCH_LONGER = 4 / 3;
const VERY_MUCH_LONGER = 2;

const SWAPPED_CLASS: Partial<Record<EventClass, EventClass>> = {
  slower_1: "faster_1",
  slower_2: "faster_2",
  slower_3: "faster_3",
  faster_1: "slower_1",
  faster_2: "slower_2",
  faster_3: "slower_3",
};

/** Return the class to display. If the sides are swapped, slower and faster are exchanged. */
function displayedClass(name: EventClass, swapped: boolean): EventClass {
  return (swapped ? SWAPPED_CLASS[name] : undefined) ?? name;
}

export function classStyle(name: EventClass, theme: ThemeName): ClassStyle {
  const faint = name === "not_compared";
  return { color: COLORS[theme][name], hatched: HATCHED.has(name), faint };
}

/** Return the class of a row of changes, given its change and its times before and after. */
export function classOfChange(change: string, before: number, after: number): EventClass {
  if (change === "added" || change === "removed") return "only_here";
  if (change === "moved" || change === "replaced") return change;
  if (before === after) return "same";
  const ratio = Math.max(before, after) / Math.max(Math.min(before, after), 1);
  const size = ratio >= MUCH_LONGER ? 2 : 1;
  return `${after > before ? "slower" : "faster"}_${ratio >= VERY_MUCH_LONGER ? 3 : size}`;
}

export function classCss({ color, hatched, faint }: ClassStyle): Record<string, string> {
  if (!hatched) return { background: color, opacity: faint === true ? "0.45" : "1" };
  return {
    background: `repeating-linear-gradient(135deg, ${color} 0 2px, transparent 2px 5px)`,
    "box-shadow": `inset 2px 0 ${color}`,
  };
}

export function eventClassPalette(swapped: boolean): ClassPalette {
  return {
    styles: (theme) => CLASSES.map((name) => classStyle(displayedClass(name, swapped), theme)),
    legend: (theme) =>
      GROUPS.map(({ name, classes }) => ({
        name,
        styles: classes.map((eventClass) => classStyle(eventClass, theme)),
      })),
  };
}

export interface ClassGroup {
  name: string;
  words: string;
  classes: readonly EventClass[];
}

/** Legend groups in order of importance. */
export const GROUPS = data.groups as readonly ClassGroup[];

/** Return the class shares of a side's device work in legend order; null if it has none. */
export function classSharesOf(
  { attrs, columns, rows }: PanelFrame,
  side: 0 | 1,
): ClassShares | null {
  const prefix = side === 0 ? "before" : "after";
  const [start, end] = [attrs[`${prefix}_start_ns`], attrs[`${prefix}_end_ns`]];
  if (typeof start !== "number" || typeof end !== "number") return null;
  const times = GROUPS.flatMap((group) => group.classes).flatMap((name) => {
    const code = CLASSES.indexOf(name);
    const column = columns[`${prefix}_${code}`];
    return column === undefined ? [] : [[code, column.map(Number)] as const];
  });
  const rowTotals = Array.from({ length: rows }, (_, row) =>
    times.reduce((sum, [, column]) => sum + column[row]!, 0),
  );
  const shares = times.map(
    ([code, column]) => [code, column.map((ns, row) => ns / Math.max(rowTotals[row]!, 1))] as const,
  );
  return { start, end, shares };
}

/** Return a group's number of events on both sides; null if it is not known yet. */
export function countEventsInGroup(
  group: ClassGroup,
  counts: readonly (readonly number[])[] | null,
  swapped: boolean,
): number | null {
  if (counts === null) return null;
  const isIn = CLASSES.map((name) => group.classes.includes(displayedClass(name, swapped)));
  const matching = counts.flatMap((side) => side.filter((_, code) => isIn[code]));
  return matching.reduce((sum, count) => sum + count, 0);
}

/** The answer of op `totals`, and how its tables are sorted. */

import type { Kind, Reply } from "../contract";

export interface Sums {
  kind: Kind;
  count: number;
  sum: number;
  mean: number;
  min: number;
  max: number;
}

export interface NameSums extends Sums {
  name: string;
  short: string;
}

export interface Totals {
  events: number;
  kinds: Sums[];
  names: NameSums[];
  names_total: number;
}

export function readTotals(reply: Reply): Totals {
  const given = reply.reply as Partial<Totals>;
  if (typeof given.events !== "number" || !Array.isArray(given.kinds)) {
    throw new Error('the answer to "totals" has no events or kinds');
  }
  const names = given.names ?? [];
  return {
    events: given.events,
    kinds: given.kinds,
    names,
    names_total: given.names_total ?? names.length,
  };
}

export type Column = "name" | "count" | "sum" | "mean" | "min" | "max";

export interface Order {
  column: Column;
  descending: boolean;
}

/** The next order after a click on a column's head: numbers start with the largest. */
export function clicked(order: Order, column: Column): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column !== "name" };
}

export function sorted<T extends Sums>(
  rows: readonly T[],
  order: Order,
  label: (row: T) => string,
): T[] {
  const sign = order.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const { column } = order;
    const way = column === "name" ? label(a).localeCompare(label(b)) : a[column] - b[column];
    // Equal rows keep one order at every click.
    return sign * way || label(a).localeCompare(label(b));
  });
}

const DEVICE: readonly Kind[] = ["compute", "communication", "memory"];

/**
 * The kinds that sum up a selection: those of the device, which do not nest; without a device the
 * host's. The sums of nested events count time more than once and would lead.
 */
export function telling(totals: Totals): Sums[] {
  const device = totals.kinds.filter((row) => DEVICE.includes(row.kind) && row.sum > 0);
  const rows = device.length > 0 ? device : totals.kinds.filter((row) => row.sum > 0);
  return [...rows].sort((a, b) => b.sum - a.sum).slice(0, 2);
}

/** Values that occur in requests and replies. */

import type kinds from "../../../hta_widgets/facts/kinds.json";

export type Kind = keyof typeof kinds;

export interface SelectionJson {
  start_ns: number | null;
  end_ns: number | null;
  ranks: number[] | null;
  tracks: string[] | null;
  query: string | null;
  ids: [number, number][] | null;
  /** Whether the device work launched by the selected operators is also selected. */
  launches?: true;
}

export type CellValue = string | number | boolean | null;

/** A panel's data, keyed by column. Times are integer nanoseconds. */
export type PanelFrame = {
  rows: number;
  columns: Record<string, readonly CellValue[]>;
  attrs: Record<string, unknown>;
};

/** What the dashboard's parts hand to each other: frames down, brushes up. */

import type { ThemeName } from "../contract";

export type Value = string | number | boolean | null;

/** One panel's numbers, by column; times are integer nanoseconds. */
export interface PanelFrame {
  rows: number;
  columns: Record<string, readonly Value[]>;
  attrs: Record<string, unknown>;
}

/** What a view asks to be selected, by dimension: null clears one, what is absent stays. */
export interface Brush {
  ranks?: number[] | null;
  names?: string[] | null;
  kinds?: string[] | null;
  window?: [number, number] | null;
}

/** What is selected, by dimension; null is everything. */
export interface Chosen {
  ranks: readonly number[] | null;
  names: readonly string[] | null;
  kinds: readonly string[] | null;
  window: [number, number] | null;
}

/** A drawn chart. It shows a whole frame and marks what is chosen of it. */
export interface ChartPanel {
  readonly el: HTMLElement;
  show(frame: PanelFrame, chosen: Chosen): void;
  setTheme(theme: ThemeName): void;
  toPng(): Promise<Blob>;
  toSvg(): Promise<Blob>;
  destroy(): void;
}

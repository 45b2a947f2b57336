/** What the frame around a chart asks of it. px are CSS px, relative to the sheet. */

import type { Brush, Chosen } from "../types";
import type { Sheet } from "./bokeh";
import type { Tip } from "./content";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Picked {
  x: number;
  y: number;
}

/** What lies under the pointer, or has the focus of the keys. */
export interface Spot {
  index: number;
  box: Box;
  tip: Tip;
}

export interface Drawing {
  readonly title: string;
  readonly finding: string;
  /** Lays out for a width; returns the height. */
  layout(width: number): number;
  draw(sheet: Sheet, chosen: Chosen): void;
  /** Full ink for what is chosen, faint for all else. */
  mark(sheet: Sheet, chosen: Chosen): void;
  /** Tells what the sheet has already of another drawing. */
  follow(other: Drawing): void;
  spot(x: number, y: number): Spot | null;
  spotOf(index: number): Spot | null;
  /** Which spot a key goes to. */
  step(from: number | null, key: string): number | null;
  click(x: number, y: number, more: boolean, chosen: Chosen): Brush;
  press(index: number, more: boolean, chosen: Chosen): Brush;
  /** Null where the drag met nothing. */
  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null;
  dragBox(from: Picked, to: Picked): Box | null;
  /** The brush that clears what this chart writes. */
  nothing(): Brush;
}

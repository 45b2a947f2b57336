/** Tiles as Python computes them; for tests. */

import vectors from "../../tests/vectors/tiles.json";
import type { GivenEvent } from "./lane";

export type { GivenEvent };

export interface TileVector {
  lane: number;
  index: number;
  /** The cells that are not empty. */
  cells: Record<string, number>[];
  slices: number[];
}

interface TileCase {
  name: string;
  level: number;
  first: number;
  last: number;
  end: number | null;
  lanes: { lane: number; slices: boolean; events: GivenEvent[] }[];
  counters: { lane: number; samples: [number, number][] }[];
  tiles: TileVector[];
  counter_tiles: TileVector[];
}

export const tileCases = (vectors as unknown as { cases: TileCase[] }).cases;

/** What classes of events take of the device work of the whole job, for the minimap. */

import type { ClassLook } from "./class_paints";
import { mix, pack, rgb } from "./paints";
import type { Theme } from "./theme";

export interface ClassParts {
  /** What is parted, ns since the origin. */
  start: number;
  end: number;
  /** By class, 0 … 1 in equal parts of that time; the first stands on the ground. */
  shares: readonly (readonly [code: number, share: readonly number[]])[];
}

/** As in the lanes: what is not to be looked at is paler. */
const FAINT = 0.45;

/** Packed colour and share of each class at a time; nothing outside of what is parted. */
export function partsAt(
  { start, end, shares }: ClassParts,
  looks: readonly ClassLook[],
  theme: Theme,
): (time: number) => [colour: number, share: number][] {
  const lane = rgb(theme.lane);
  const layers = shares.map(([code, share]) => {
    const look = looks[code];
    const full = rgb(look?.colour ?? theme.lane);
    return { share, colour: pack(look?.faint === true ? mix(full, lane, FAINT) : full) };
  });
  const count = shares[0]?.[1].length ?? 0;
  return (time) => {
    const part = Math.floor(((time - start) / Math.max(end - start, 1)) * count);
    if (time < start || time > end) return [];
    const at = Math.min(part, count - 1);
    return layers.map(({ colour, share }) => [colour, share[at] ?? 0]);
  };
}

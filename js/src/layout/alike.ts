/** Like ranks folded into one row: who stands for whom, and where the badge that says so lies. */

import type { Alike } from "../contract";
import type { Fold } from "./bands";

/** Space of the badge in the gutter, CSS px: what a press on the row means it for. */
export interface BadgeSpot {
  left: number;
  right: number;
}

export const BADGE_WIDTH = 14;
/** Left of the badge and right of it, for those who do not aim well. */
const REACH = 5;

/** Left edge of the badge: beside an opened rank, arrows come first. */
export function badgeLeft({ mode }: Fold): number {
  return mode === "line" ? 24 : 11;
}

export function badgeSpot(fold: Fold): BadgeSpot {
  const left = badgeLeft(fold);
  return {
    left: fold.mode === "line" ? left - 2 : 0,
    right: left + BADGE_WIDTH + REACH,
  };
}

/** The ranks that are shown in the row of `rank`: its own first of all, then those it stands for. */
export function standsFor(
  alike: Alike | null | undefined,
  rank: number,
  isShown: (rank: number) => boolean,
): readonly number[] {
  const group = alike?.groups.get(rank);
  return group === undefined ? [rank] : group.filter((one) => one === rank || !isShown(one));
}

/** How high panels will be about, so that a page does not jump when their charts come. */

import type { Scene } from "../contract";
import { pitchOf } from "./charts/rows_layout";

/** Padding of a panel, its title, what it means in two lines, its legend and its scale. px. */
const AROUND: Readonly<Record<string, number>> = {
  breakdown: 122,
  overlap: 122,
  idle: 122,
  queue: 122,
};

/** Height of a panel that has a row a rank; null where it is not known before. */
export function expectedHeight(id: string, scene: Scene): number | null {
  const around = AROUND[id];
  const hasDevices = scene.ranks.some(({ summary }) => summary.some(({ role }) => role !== "cpu"));
  if (around === undefined || !hasDevices) return null;
  const rows = scene.ranks.length;
  return around + rows * pitchOf(rows);
}

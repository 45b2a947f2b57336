/** How far the rows are scrolled, and how a change of the rows keeps them in place. */

import type { SceneRank } from "../contract";
import type { Layout, Row } from "./rows";

/** Air left around a lane that is brought into sight. */
const REVEAL_PAD = 8;

export function clampScroll(layout: Layout, room: number, scroll: number): number {
  return Math.min(Math.max(0, scroll), Math.max(0, layout.height - room));
}

/** Rows that scroll have their own top; those that stick have none to go to. */
function headOf(layout: Layout, rank: SceneRank): Row | null {
  return layout.rows.find((row, i) => i >= layout.sticky && row.rank.rank === rank.rank) ?? null;
}

/** The scroll at which the rank that is at the top of `before` is at the same height in `after`. */
export function anchored(before: Layout, after: Layout, scroll: number): number {
  const top = scroll + before.stickyHeight;
  const at = before.rows.find((row, i) => i >= before.sticky && row.top + row.height > top);
  if (at === undefined || scroll === 0) return scroll;
  const was = headOf(before, at.rank);
  const is = headOf(after, at.rank);
  if (was === null || is === null) return scroll;
  return scroll + is.top - was.top - after.stickyHeight + before.stickyHeight;
}

function holds(row: Row, lane: number): boolean {
  const { track, rank } = row;
  if (track !== null) return lane >= track.lane0 && lane < track.lane0 + track.lanes;
  return (
    rank.summary.some((summary) => summary.lane === lane) &&
    row.bands().some((b) => b.lane === lane)
  );
}

/** The scroll that has `lane` in sight; null where no row shows it. */
export function scrollTo(
  layout: Layout,
  room: number,
  scroll: number,
  lane: number,
): number | null {
  const index = layout.rows.findIndex((row) => holds(row, lane));
  const row = layout.rows[index];
  if (row === undefined) return null;
  if (index < layout.sticky) return scroll;
  const band = row.bands().find((one) => one.lane === lane);
  if (band === undefined) return null;
  const top = row.top + band.top;
  const bottom = top + band.height;
  // An opened rank's head covers what scrolls under it.
  const cover = layout.stickyHeight + (row.track === null ? 0 : layout.fold.height);
  if (top - cover - REVEAL_PAD < scroll) return clampScroll(layout, room, top - cover - REVEAL_PAD);
  if (bottom + REVEAL_PAD > scroll + room)
    return clampScroll(layout, room, bottom + REVEAL_PAD - room);
  return scroll;
}

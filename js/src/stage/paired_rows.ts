/**
 * The rows of two stages in one place, rank by rank: each rank's row before above that after.
 *
 * Both stages are equally large, one in front of the other. Each draws its own rows and leaves
 * room for the other's; of the stage in front only its rows are visible. With rows 40 px high:
 *
 *   stage behind     rank 0 at 0     rank 1 at 80
 *   stage in front   rank 0 at 40    rank 1 at 120
 */

import type { PlacedRow, RowLayout, StageRow } from "./rows";
import type { RowsView } from "./rows_view";

/** How the rows of one stage go with those of another. */
export interface RowPairing {
  other: RowsView;
  /** Whether this stage is the one behind, whose rows come first. */
  isBehind: boolean;
  /** The words for both stages, "before" and "after" of the example. */
  words: readonly [string, string];
  /** The ranks of the stage in front by those of the stage behind. */
  partners: ReadonlyMap<number, number>;
}

/** Consecutive rows of one rank: its head and its tracks. */
function rowsByRank({ rows }: RowLayout): StageRow[][] {
  const blocks: StageRow[][] = [];
  for (const row of rows) {
    const last = blocks.at(-1);
    if (last?.[0]!.rank === row.rank) last.push(row);
    else blocks.push([row]);
  }
  return blocks;
}

/**
 * Place the rows of both layouts, and name the ranks: `rank 0`, below it `after`, and with the word
 * if a rank has no partner, or another name. A rank without a partner comes before the next pair.
 */
export function interleaveRows(
  behind: RowLayout,
  front: RowLayout,
  { words, partners }: Pick<RowPairing, "words" | "partners">,
): void {
  let top = 0;
  const place = (rows: readonly StageRow[], word: string, above?: StageRow): void => {
    for (const row of rows) {
      row.top = top;
      top += row.height;
      if (row.track !== null) continue;
      row.isJoined = above !== undefined;
      row.pairName = above?.name === row.name ? word : `${row.name} ${word}`;
    }
  };
  const frontBlocks = rowsByRank(front);
  let next = 0;
  for (const block of rowsByRank(behind)) {
    const partner = partners.get(block[0]!.rank.rank);
    const at = frontBlocks.findIndex((rows, i) => i >= next && rows[0]!.rank.rank === partner);
    while (next < at) place(frontBlocks[next++]!, words[1]);
    place(block, words[0]);
    if (next !== at) continue;
    place(frontBlocks[next++]!, words[1], block[0]);
    if (block[0]!.track === null) block[0]!.pairName = null;
  }
  for (const block of frontBlocks.slice(next)) place(block, words[1]);
  for (const layout of [behind, front]) {
    // Rows that stay in place would hide the other stage's.
    Object.assign(layout, { height: top, stickyCount: 0, stickyHeight: 0 });
  }
}

/** The visible rows as the value of `clip-path`. */
export function rowsClipPath(placed: readonly PlacedRow[], width: number): string {
  const boxes = placed.map(({ row, y, clipTop, clipBottom }) => {
    const top = Math.max(y, clipTop);
    const height = Math.max(Math.min(y + row.height, clipBottom) - top, 0);
    return `M0 ${top}h${width}v${height}h${-width}z`;
  });
  return `path("${boxes.join("")}")`;
}

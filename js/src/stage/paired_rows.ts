/**
 * Draw the rows of two stages in one place, rank by rank and track by track.
 *
 * Both stages have the same size, one in front of the other. Each draws its own rows and leaves
 * gaps for the other stage's rows. The stage in front is clipped to its rows. With rows 40 px high:
 *
 *   stage behind     rank 0 at 0     rank 1 at 80
 *   stage in front   rank 0 at 40    rank 1 at 120
 */

import type { PlacedRow, RowLayout, StageRow } from "./rows";

/** Placement of a stage's rows among the rows of another stage. */
export interface RowPairing {
  /** Whether this stage is behind the other one. If so, its rows come first. */
  isBehind: boolean;
  /** Words for the stages behind and in front, such as "before" and "after". */
  words: readonly [string, string];
  /** For each rank of the stage behind, the corresponding rank of the stage in front. */
  partners: ReadonlyMap<number, number>;
}

/** Group consecutive rows of one rank: its head and its tracks. */
function rowsByRank({ rows }: RowLayout): StageRow[][] {
  const blocks: StageRow[][] = [];
  for (const row of rows) {
    const last = blocks.at(-1);
    if (last?.[0]!.rank === row.rank) last.push(row);
    else blocks.push([row]);
  }
  return blocks;
}

/** Merge two lists in order. Partners are adjacent; other items come before the next pair. */
function mergeInOrder<T>(
  behind: readonly T[],
  front: readonly T[],
  arePartners: (behind: T, front: T) => boolean,
): [T | null, T | null][] {
  const merged: [T | null, T | null][] = [];
  let next = 0;
  for (const entry of behind) {
    const index = front.findIndex((other, i) => i >= next && arePartners(entry, other));
    while (next < index) merged.push([null, front[next++]!]);
    merged.push([entry, index < 0 ? null : front[next++]!]);
  }
  return [...merged, ...front.slice(next).map((other): [null, T] => [null, other])];
}

/**
 * Place the rows of both layouts, with tracks below their ranks. A row of the stage behind gets the
 * name that it shares with its partner, such as `rank 0`, and the partner below it gets the word
 * `after`. If a row has no partner, or the names differ, name and word are joined.
 */
export function interleaveRows(
  behind: RowLayout,
  front: RowLayout,
  { words, partners }: Pick<RowPairing, "words" | "partners">,
): void {
  let top = 0;
  const place = (row: StageRow, name: string | null, isJoined: boolean): void => {
    Object.assign(row, { top, pairName: name, isJoined });
    top += row.height;
  };
  const rankOf = ([row]: StageRow[]): number => row!.rank.rank;
  const blocks = mergeInOrder(
    rowsByRank(behind),
    rowsByRank(front),
    (a, b) => partners.get(rankOf(a)) === rankOf(b),
  );
  for (const [a, b] of blocks) {
    for (const [row, below] of mergeInOrder(a ?? [], b ?? [], areSameTrack)) {
      if (row !== null) place(row, below === null ? `${row.name} ${words[0]}` : null, false);
      if (below === null) continue;
      const name = row?.name === below.name ? words[1] : `${below.name} ${words[1]}`;
      place(below, name, row !== null);
    }
  }
  for (const layout of [behind, front]) {
    // Pinned rows, which do not scroll, would hide rows of the other stage.
    Object.assign(layout, { height: top, stickyCount: 0, stickyHeight: 0 });
  }
}

/** Return whether two rows are both heads, or both tracks with the same role and name. */
function areSameTrack({ track }: StageRow, { track: other }: StageRow): boolean {
  if (track === null || other === null) return track === other;
  // Numbers of processes, threads and devices differ between runs.
  const nameOf = (label: string): string => label.replace(/\d+/g, "");
  return track.role === other.role && nameOf(track.label) === nameOf(other.label);
}

/** Return a `clip-path` value that covers the visible rows. */
export function rowsClipPath(placed: readonly PlacedRow[], width: number): string {
  if (placed.length === 0) return "inset(50%)";
  const boxes = placed.map(({ row, y, clipTop, clipBottom }) => {
    const top = Math.max(y, clipTop);
    const height = Math.max(Math.min(y + row.height, clipBottom) - top, 0);
    return `M0 ${top}h${width}v${height}h${-width}z`;
  });
  return `path("${boxes.join("")}")`;
}

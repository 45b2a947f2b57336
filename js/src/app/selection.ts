/** Selections as values: windows, rows, sets of events. */

import type { Brief, RowInfo, Scene, SelectionJson, Slice, Span, TableName } from "../contract";

/** Names one event of the job. */
export interface EventKey {
  rank: number;
  table: TableName;
  id: number;
}

export const EVERYTHING: SelectionJson = {
  start_ns: null,
  end_ns: null,
  ranks: null,
  tracks: null,
  query: null,
  ids: null,
};

/** What is known of an event from its rectangle alone. */
export function briefOf(slice: Slice, rank: number, table: TableName): Brief {
  const { id, lane, name, kind, start, dur } = slice;
  return { rank, table, id, lane, name, short: name, kind, start, dur };
}

export interface RowChoice {
  ranks: number[] | null;
  tracks: string[] | null;
}

/**
 * What a stretch of rows stands for. A selection names ranks and track keys but not pairs of them,
 * so a folded rank among opened tracks takes in the tracks whole.
 */
export function rowsChoice(rows: readonly RowInfo[], scene: Scene): RowChoice {
  const ranks = [...new Set(rows.flatMap((row) => row.like ?? [row.rank]))].sort((a, b) => a - b);
  const every = ranks.length === scene.ranks.length;
  // An opened rank's own head draws no lanes: it counts only where nothing else is crossed.
  const drawn = rows.filter((row) => row.track !== null || !row.open);
  const heads = drawn.length === 0;
  const whole = heads || drawn.some((row) => row.track === null);
  const tracks = whole
    ? null
    : [...new Set(drawn.map((row) => row.track?.key ?? ""))].filter((key) => key !== "");
  const all = tracks !== null && coversAll(tracks, ranks, scene);
  return { ranks: every ? null : ranks, tracks: all ? null : tracks };
}

function coversAll(tracks: readonly string[], ranks: readonly number[], scene: Scene): boolean {
  const chosen = new Set(tracks);
  return scene.ranks
    .filter((rank) => ranks.includes(rank.rank))
    .every((rank) => rank.tracks.every((track) => chosen.has(track.key)));
}

export function windowSelection(span: Span, rows: RowChoice): SelectionJson {
  return {
    ...EVERYTHING,
    start_ns: Math.round(span[0]),
    end_ns: Math.max(Math.round(span[1]), Math.round(span[0]) + 1),
    ranks: rows.ranks,
    tracks: rows.tracks,
  };
}

/** What linked panels selected, without the part that a timeline selects itself. */
export function withoutOwn(
  selection: SelectionJson | null,
  ranksFrom: string,
): SelectionJson | null {
  if (selection === null) return null;
  const ranks = ranksFrom === "timeline" ? null : selection.ranks;
  if (ranks === null && selection.query === null) return null;
  return { ...EVERYTHING, ranks, query: selection.query };
}

/** The same on all ranks; null where nothing else is selected. */
export function withoutRanks(selection: SelectionJson | null): SelectionJson | null {
  if (selection === null) return null;
  const rest = { ...selection, ranks: null };
  return Object.values(rest).every((part) => part === null) ? null : rest;
}

/** The window of a selection, open ends taken from the job. Null where it names no time. */
export function selectionSpan(selection: SelectionJson | null, scene: Scene): Span | null {
  if (selection === null) return null;
  if (selection.start_ns === null && selection.end_ns === null) return null;
  return [selection.start_ns ?? scene.range[0], selection.end_ns ?? scene.range[1]];
}

/** Add an event to a set of events, or take it out again. */
export function toggledEvent(
  selection: SelectionJson | null,
  before: readonly [number, number] | null,
  event: Brief,
): SelectionJson | null {
  const ids: [number, number][] = selection?.ids
    ? selection.ids.map(([rank, id]) => [rank, id])
    : before
      ? [[before[0], before[1]]]
      : [];
  const at = ids.findIndex(([rank, id]) => rank === event.rank && id === event.id);
  if (at < 0) ids.push([event.rank, event.id]);
  else ids.splice(at, 1);
  return ids.length === 0 ? null : { ...EVERYTHING, ids };
}

/** Time that an event stands for, with some of what is around it. */
export function roomAround(start: number, dur: number, share = 0.2): Span {
  const room = Math.max(dur * share, dur === 0 ? 500 : 30);
  return [Math.floor(start - room), Math.ceil(start + dur + room)];
}

/** Within one part in a hundred the same window. */
export function nearlySame(a: Span, b: Span): boolean {
  const slack = Math.max(b[1] - b[0], a[1] - a[0], 1) / 100;
  return Math.abs(a[0] - b[0]) <= slack && Math.abs(a[1] - b[1]) <= slack;
}

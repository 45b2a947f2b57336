/** Ribbons of lateness: a mark where a rank comes to a collective, the stronger the later it is. */

import type { Span } from "../contract";
import { type Geometry, xAtTime } from "../layout/geometry";
import { type Ribbon, timeOfBin } from "../protocol/ribbon";
import type { LatenessByRank } from "./by_rank";
import type { Paints } from "./paints";
import { mix, rgb } from "./paints";
import type { Pen } from "./pen";
import type { LaneRaster } from "./svg/raster";
import { FONT, type Theme } from "./theme";

/** A mark is so wide where the next one leaves room, CSS px. */
const MARK_PX = 2;
/** A name needs more than this, CSS px. */
const LEAST_ROOM = 5;
/** The weakest tick of the job's row: there was a wait, however short. */
const WEAKEST = 0.18;

/** Lateness grows over orders of magnitude: its root, so that the small ones are seen. */
export function strength(ns: number, most: number): number {
  return most <= 0 ? 0 : Math.sqrt(Math.min(1, Math.max(0, ns / most)));
}

/** The entry of a ramp for a strength; the first one, the lane's own colour, only for 0. */
export function step(share: number, steps: number): number {
  return share <= 0 ? 0 : Math.max(1, Math.ceil(share * (steps - 1)));
}

/** A rank's row: place in device px, from the left edge of the lanes. */
export interface RowPlace {
  y0: number;
  y1: number;
  dpr: number;
  /** Time at x = 0 and ns per device px. */
  start: number;
  resolution: number;
  /** Where the rank has data. */
  dataStart: number;
  dataEnd: number;
}

/** Ground and marks of one rank's ribbon. */
export function drawRibbon(
  raster: LaneRaster,
  place: RowPlace,
  ribbon: Ribbon | null,
  rank: number,
  paints: Paints,
): void {
  const { y0, y1, dpr, start, resolution } = place;
  const x = (time: number) => Math.round((time - start) / resolution);
  const [from, to] = [x(place.dataStart), x(place.dataEnd)];
  raster.rect(Math.max(0, from), y0, Math.min(raster.width, to), y1, paints.ribbon[0]!);
  const part = ribbon?.byRank.get(rank);
  if (ribbon === null || part === undefined) return;
  const width = Math.max(1, Math.round(MARK_PX * dpr));
  let next = raster.width;
  // From the right: what follows a mark bounds it.
  for (let at = part.last - 1; at >= part.first; at -= 1) {
    const x = Math.floor((timeOfBin(ribbon, ribbon.bin[at]!) - start) / resolution);
    if (x >= raster.width) continue;
    if (x + width <= 0) break;
    const share = strength(ribbon.late[at]!, ribbon.most);
    if (share > 0) {
      const colour = paints.ribbon[step(share, paints.ribbon.length)]!;
      raster.rect(x, y0, Math.max(x + 1, Math.min(x + width, next)), y1, colour);
    }
    next = x;
  }
}

export interface JobRibbonScene {
  geometry: Geometry;
  theme: Theme;
  view: Span;
  ribbon: Ribbon | null;
  lateness: LatenessByRank | null;
}

const TICK_HEIGHT = 13;

/** The row of the whole job: a tick where the last rank comes, and who; red if others wait for it. */
export function drawJobRibbon(pen: Pen, scene: JobRibbonScene, y: number): void {
  const { geometry, theme, view, ribbon, lateness } = scene;
  const { lanesX, lanesWidth } = geometry;
  if (ribbon === null) return;
  if (ribbon.of === 0) {
    pen.fitted("no collectives matched", lanesX + 6, y + 11, lanesWidth, FONT.label, theme.ink3);
    return;
  }
  const ground = rgb(theme.bg);
  const xs = Array.from(ribbon.jobBin, (bin) => xAtTime(geometry, view, timeOfBin(ribbon, bin)));
  const end = lanesX + lanesWidth;
  const inkOf = (rank: number) => (lateness?.late.has(rank) === true ? theme.late : theme.ink3);
  const drawn = xs.flatMap((x, at) =>
    ribbon.jobWait[at]! <= 0 || x < lanesX - MARK_PX || x > end ? [] : [at],
  );
  const widthOf = (at: number) =>
    Math.min(MARK_PX, Math.max(Math.min(xs[at + 1] ?? end, end) - xs[at]!, pen.hairline));
  for (const at of drawn) {
    const share = WEAKEST + (1 - WEAKEST) * strength(ribbon.jobWait[at]!, ribbon.jobMost);
    const { r, g, b } = mix(rgb(inkOf(ribbon.jobRank[at]!)), ground, share);
    pen.rect(xs[at]!, y + 1, widthOf(at), TICK_HEIGHT, `rgb(${r} ${g} ${b})`);
  }
  // Who costs most is named first, before or behind its tick: what is between two ticks is used once.
  const used = new Set<number>();
  for (const at of drawn.sort((a, b) => ribbon.jobWait[b]! - ribbon.jobWait[a]! || a - b)) {
    const rank = ribbon.jobRank[at]!;
    if (rank < 0) continue;
    const x = xs[at]!;
    const words = [`rank ${rank}`, String(rank)];
    const behind = x + widthOf(at) + 2;
    const before = at > 0 ? xs[at - 1]! + MARK_PX : lanesX;
    for (const [gap, edge, room, align] of [
      [at, behind, Math.min(xs[at + 1] ?? end, end) - behind - 4, "left"],
      [at - 1, x - 2, x - 2 - Math.max(before, lanesX) - 4, "right"],
    ] as const) {
      if (used.has(gap) || room < LEAST_ROOM) continue;
      if (pen.firstFit(words, edge, y + 11, room, FONT.label, inkOf(rank), align) === 0) continue;
      used.add(gap);
      break;
    }
  }
}

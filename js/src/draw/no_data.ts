/** Says in words what the hatch means: a rank has no data here, or the page less than is seen. */

import type { SceneRank } from "../contract";
import { levelOf } from "../data/tile_plan";
import { xAtTime } from "../layout/geometry";
import type { PlacedRow } from "../layout/rows";
import type { LanesScene } from "./painter";
import type { Pen } from "./pen";
import { FONT } from "./theme";

const NO_DATA = "no data";
const COARSE = "detail not embedded";
/** Lower rows have the hatch alone. */
const WORDS_FROM_PX = 18;
const PLATE_PX = 15;

/** Would more be seen of a rank at `resolution` ns per device px than a saved page holds? */
export function isCoarse(rank: SceneRank, resolution: number): boolean {
  return rank.overview_level !== undefined && levelOf(resolution) < rank.overview_level;
}

export function drawNoData(pen: Pen, scene: LanesScene): void {
  const { geometry, view, job, sight } = scene;
  const { lanesX, lanesWidth, dpr } = geometry;
  const resolution = (view[1] - view[0]) / (lanesWidth * dpr);
  const at = (time: number) =>
    Math.min(Math.max(xAtTime(geometry, view, time), lanesX), lanesX + lanesWidth);
  for (const placed of sight.placed) {
    const { rank, track } = placed.row;
    if (track !== null) continue;
    const [start, end] = [at(rank.range[0]), at(rank.range[1])];
    drawGap(pen, scene, placed, at(job[0]), start, false);
    drawGap(pen, scene, placed, end, at(job[1]), rank.truncated !== null);
    const area = isCoarse(rank, resolution) ? areaOf(placed, start, end) : null;
    // At the end, where it hides least of what is drawn.
    if (area !== null) drawWords(pen, scene, area, COARSE, 1);
  }
}

interface Area {
  x0: number;
  x1: number;
  top: number;
  height: number;
}

/** The lanes of a row between two x; null where there is no room, or a part is scrolled away. */
function areaOf(placed: PlacedRow, x0: number, x1: number): Area | null {
  const bands = placed.row.bands();
  const first = bands[0];
  const last = bands[bands.length - 1];
  if (x1 - x0 < 2 || first === undefined || last === undefined) return null;
  const top = placed.y + first.top;
  const height = last.top + last.height - first.top;
  return top < placed.clipTop || top + height > placed.clipBottom ? null : { x0, x1, top, height };
}

function drawGap(
  pen: Pen,
  scene: LanesScene,
  placed: PlacedRow,
  x0: number,
  x1: number,
  cut: boolean,
): void {
  const area = areaOf(placed, x0, x1);
  if (area === null) return;
  if (cut) pen.frame(x0, area.top, x1 - x0, area.height, scene.theme.ruleStrong, 1);
  drawWords(pen, scene, area, NO_DATA, 0.5);
}

/** Words on a plate, at this share of the area's width. */
function drawWords(
  pen: Pen,
  { theme }: LanesScene,
  { x0, x1, top, height }: Area,
  words: string,
  share: number,
): void {
  const width = pen.width(words, FONT.label) + 10;
  if (height < WORDS_FROM_PX || x1 - x0 < width + 8) return;
  const left = x0 + 4 + (x1 - x0 - width - 8) * share;
  const plate = top + Math.round((height - PLATE_PX) / 2);
  pen.rect(left, plate, width, PLATE_PX, theme.bg);
  pen.text(words, left + 5, plate + 11, FONT.label, theme.ink2);
}

/** Says in words what the hatch beyond a rank's data means. */

import { xAtTime } from "../layout/geometry";
import type { PlacedRow } from "../layout/rows";
import type { LanesScene } from "./painter";
import type { Pen } from "./pen";
import { FONT } from "./theme";

const WORDS = "no data";
/** Lower rows have the hatch alone. */
const WORDS_FROM_PX = 18;

export function drawNoData(pen: Pen, scene: LanesScene): void {
  const { geometry, view, job, sight } = scene;
  const { lanesX, lanesWidth } = geometry;
  const at = (time: number) =>
    Math.min(Math.max(xAtTime(geometry, view, time), lanesX), lanesX + lanesWidth);
  for (const placed of sight.placed) {
    const { rank, track } = placed.row;
    if (track !== null) continue;
    drawGap(pen, scene, placed, at(job[0]), at(rank.range[0]), false);
    drawGap(pen, scene, placed, at(rank.range[1]), at(job[1]), rank.truncated !== null);
  }
}

function drawGap(
  pen: Pen,
  { theme }: LanesScene,
  placed: PlacedRow,
  x0: number,
  x1: number,
  cut: boolean,
): void {
  const bands = placed.row.bands();
  const first = bands[0];
  const last = bands[bands.length - 1];
  if (x1 - x0 < 2 || first === undefined || last === undefined) return;
  const top = placed.y + first.top;
  const height = last.top + last.height - first.top;
  if (top < placed.clipTop || top + height > placed.clipBottom) return;
  if (cut) pen.frame(x0, top, x1 - x0, height, theme.ruleStrong, 1);
  const width = pen.width(WORDS, FONT.label) + 10;
  if (height < WORDS_FROM_PX || x1 - x0 < width + 8) return;
  const middle = (x0 + x1) / 2;
  const plate = top + Math.round((height - 15) / 2);
  pen.rect(middle - width / 2, plate, width, 15, theme.bg);
  pen.text(WORDS, middle - width / 2 + 5, plate + 11, FONT.label, theme.ink2);
}

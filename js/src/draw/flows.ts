/** Arrows between the selected event and what it launched, or what launched it. */

import type { Brief } from "../contract";
import { xAtTime } from "../layout/geometry";
import type { OverlayScene } from "./overlay";
import type { Pen } from "./pen";

const LINE = 1.75;
/** Ends nearer than this are joined by a curve that bows out to the left. */
const BOW_BELOW_PX = 60;
const HEAD = 7;
/** Ends far outside the view keep their direction, not their distance. */
const FAR_PX = 3000;

interface End {
  x: number;
  y: number;
  /** Its own mark is in sight, not only the row that hides it. */
  shown: boolean;
}

export function drawFlows(pen: Pen, scene: OverlayScene): void {
  for (const { from, to } of scene.overlay.flows) {
    const a = endOf(scene, from, from.start + from.dur / 2);
    const b = endOf(scene, to, to.start);
    if (a === null || b === null || (!a.shown && !b.shown)) continue;
    drawArrow(pen, scene, a, b);
  }
}

/** Where an arrow begins or ends; at the edge of a row that hides the event. */
function endOf(scene: OverlayScene, event: Brief, time: number): End | null {
  const { geometry, view, sight } = scene;
  const left = geometry.lanesX;
  const x = Math.min(
    Math.max(xAtTime(geometry, view, time), left - FAR_PX),
    left + geometry.lanesWidth + FAR_PX,
  );
  const spot = sight.lane(event.lane) ?? sight.standIn(event);
  if (spot !== null) return { x, y: (spot.top + spot.bottom) / 2, shown: true };
  const head = sight.head(event.rank);
  if (head !== null) {
    const bottom = Math.min(head.y + head.row.height, head.clipBottom);
    return { x, y: bottom - 2, shown: !head.row.open };
  }
  return null;
}

function drawArrow(pen: Pen, scene: OverlayScene, a: End, b: End): void {
  const { ctx } = pen;
  const { selection, selectionHalo } = scene.theme;
  const path = () => {
    ctx.beginPath();
    ctx.moveTo(a.x, a.y);
    if (b.x - a.x < BOW_BELOW_PX) {
      const out = Math.min(a.x, b.x - 8) - 14;
      const lift = Math.min(8, Math.abs(b.y - a.y) / 2) * Math.sign(b.y - a.y);
      const middle = (a.y + b.y) / 2;
      ctx.bezierCurveTo(out, a.y, out, a.y + lift, out, middle);
      ctx.bezierCurveTo(out, b.y - lift, out, b.y, b.x - HEAD + 2, b.y);
    } else {
      const reach = Math.max(18, (b.x - a.x) / 2);
      ctx.bezierCurveTo(a.x + reach, a.y, b.x - reach, b.y, b.x - HEAD + 2, b.y);
    }
    ctx.stroke();
  };
  ctx.strokeStyle = selectionHalo;
  ctx.lineWidth = LINE + 3;
  path();
  ctx.strokeStyle = selection;
  ctx.lineWidth = LINE;
  path();
  pen.fill(selection);
  ctx.beginPath();
  ctx.moveTo(b.x, b.y);
  ctx.lineTo(b.x - HEAD, b.y - 4);
  ctx.lineTo(b.x - HEAD, b.y + 4);
  ctx.fill();
  ctx.beginPath();
  ctx.arc(a.x, a.y, 2.5, 0, 2 * Math.PI);
  ctx.fill();
}

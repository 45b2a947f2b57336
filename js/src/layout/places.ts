/** Which rows a scene needs above its lanes, and so where everything is. */

import type { Scene } from "../contract";
import { type Geometry, geometryOf } from "./geometry";

/** Whether ranks come to collectives, so that some may come late. */
function saysLate(scene: Scene): boolean {
  return scene.ranks.some(({ summary }) => summary.some(({ wait }) => wait !== undefined));
}

export function placesOf(
  scene: Scene,
  width: number,
  height: number,
  dpr: number,
  slim = false,
): Geometry {
  const late = saysLate(scene);
  const rows = [scene.steps.length > 0, scene.phases.length > 0, late].filter(Boolean).length;
  return geometryOf(width, height, dpr, rows, late, slim);
}

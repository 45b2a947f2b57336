/** What a picture of all rows is drawn from, instead of what is in sight. */

import type { Scene, Source, Span } from "../../contract";
import { MOST_BINS } from "../../data/stage_data";
import { loadWhole, type WholeRows } from "../../data/whole_rows";
import { type Geometry, nsPerDevicePx } from "../../layout/geometry";
import { placeRows, type Layout } from "../../layout/rows";
import { Sightings } from "../../layout/sight";

export interface Whole extends WholeRows {
  geometry: Geometry;
  sight: Sightings;
  view: Span;
}

/** `late`, `classed`: who comes late is known, and what class events have: the picture shows it. */
export async function loadPicture(
  source: Source,
  scene: Scene,
  shown: { layout: Layout; geometry: Geometry; view: Span; late: boolean; classed: boolean },
): Promise<Whole> {
  const { layout, view, late, classed } = shown;
  const { rowsTop, lateRow, lanesWidth, dpr } = shown.geometry;
  const geometry = {
    ...shown.geometry,
    height: rowsTop + layout.height,
    rowsHeight: layout.height,
  };
  const sight = new Sightings(placeRows(layout, 0, rowsTop, layout.height));
  const ranks = new Set(sight.placed.map(({ row }) => row.rank.rank));
  const bins = Math.min(MOST_BINS, Math.round(lanesWidth * dpr));
  const whole = await loadWhole(source, scene, {
    lanes: sight.spots.flatMap(({ band: { lane, over } }) =>
      late && over !== undefined ? [lane, over.wait, over.late] : [lane],
    ),
    view,
    resolution: nsPerDevicePx(geometry, view),
    classed,
    ribbons: lateRow && late ? { bins, ranks: [...ranks].sort((a, b) => a - b) } : null,
  });
  return { ...whole, geometry, sight, view };
}

/** Where the parts of the stage lie. CSS px, relative to the stage. */

import type { Span } from "../contract";
import { SIZE } from "../draw/theme";

export interface Geometry {
  readonly width: number;
  readonly height: number;
  /** Device px per CSS px. */
  readonly dpr: number;
  readonly gutter: number;
  readonly margin: number;
  /** Left edge and width of everything that has a time axis. */
  readonly lanesX: number;
  readonly lanesWidth: number;
  readonly minimapTop: number;
  readonly minimapHeight: number;
  readonly axisTop: number;
  readonly axisHeight: number;
  readonly stripTop: number;
  /** One row for steps, one for phases, one for who comes last; none where the scene has neither. */
  readonly stripRows: number;
  /** The last of them says who comes last to collectives. */
  readonly lateRow: boolean;
  readonly stripHeight: number;
  /** Top of the rows and what is left for them. */
  readonly rowsTop: number;
  readonly rowsHeight: number;
  readonly narrow: boolean;
}

/** Air above and below the minimap's box. */
const MINIMAP_PAD = 3;
const STRIP_PAD = 2;

/** `slim`: names are narrow and nothing stands on the right, however wide it is. */
export function geometryOf(
  width: number,
  height: number,
  dpr: number,
  stripRows: number,
  lateRow = false,
  slim = false,
): Geometry {
  const narrow = slim || width < SIZE.gutterFrom;
  const gutter = narrow ? SIZE.gutterNarrow : SIZE.gutter;
  const margin = !slim && width >= SIZE.marginFrom ? SIZE.margin : 0;
  const minimapHeight = SIZE.minimap - MINIMAP_PAD;
  const axisTop = SIZE.minimap + MINIMAP_PAD + 1;
  const stripTop = axisTop + SIZE.axis;
  const stripHeight = stripRows * SIZE.steps;
  const rowsTop = stripTop + stripHeight + STRIP_PAD;
  return {
    width,
    height,
    dpr,
    gutter,
    margin,
    lanesX: gutter,
    lanesWidth: Math.max(0, width - gutter - margin),
    minimapTop: MINIMAP_PAD,
    minimapHeight,
    axisTop,
    axisHeight: SIZE.axis,
    stripTop,
    stripRows,
    lateRow,
    stripHeight,
    rowsTop,
    rowsHeight: Math.max(0, height - rowsTop),
    narrow,
  };
}

export function timeAtX(geometry: Geometry, view: Span, x: number): number {
  return view[0] + ((x - geometry.lanesX) / geometry.lanesWidth) * (view[1] - view[0]);
}

export function xAtTime(geometry: Geometry, view: Span, time: number): number {
  return geometry.lanesX + ((time - view[0]) / (view[1] - view[0])) * geometry.lanesWidth;
}

export function nsPerDevicePx({ lanesWidth, dpr }: Geometry, [start, end]: Span): number {
  return (end - start) / Math.round(lanesWidth * dpr);
}

/** Write the names of events on their rectangles. */

import { NO_CODE } from "../protocol/decode";
import type { Span } from "../protocol/source";
import { LABEL_FROM_PX } from "../ui/text";
import { FONT } from "../ui/theme";
import type { StageFrame } from "./frame";
import type { LaneWindow } from "./lane_window";
import type { NameShader } from "./lanes";
import { shadeIndex, SHADES } from "./paints";
import type { CanvasPen } from "./pen";
import type { VisibleLane } from "./rows_view";

export type LabelFrame = Pick<
  StageFrame,
  "geometry" | "theme" | "view" | "windows" | "paints" | "byName" | "lateness"
>;

/** Minimum height of lanes with labels. In lower lanes, letters would touch both edges. */
const LABEL_FROM_HEIGHT = 12;

/** Return a function from names to shades; null if names do not determine colors. */
export function nameShader({ byName, paints, windows }: LabelFrame): NameShader | null {
  const { hashes } = windows.store;
  return byName && !paints.byClass ? (name) => shadeIndex(hashes[name]!) : null;
}

/** Return whether a band has space for names. */
function hasLabels({ band, top, bottom }: VisibleLane): boolean {
  // In a folded stack, only the innermost frames have names, because they are in front.
  if (band.stackLanes !== undefined && band.lane !== band.stackLanes.at(-1)) return false;
  if (band.form === "bar" || band.form === "counter") return false;
  // A name that is partly scrolled out of view would be cut off.
  return band.height >= LABEL_FROM_HEIGHT && bottom - top >= band.height - 2;
}

/** Draw names on a lane's rectangles that are wide enough. `veiledInk`: text color over a veil. */
export function drawLabels(
  pen: CanvasPen,
  frame: LabelFrame,
  visibleLane: VisibleLane,
  veiledInk: string | null = null,
): void {
  const { band, y } = visibleLane;
  const { geometry, view, paints, theme, windows } = frame;
  const lane = windows.get(band.lane);
  if (lane === null || !hasLabels(visibleLane)) return;
  const nsPerPx = (view[1] - view[0]) / geometry.lanesWidth;
  const fitter = pen.fitter(FONT.label);
  const shade = nameShader(frame);
  const baseline = Math.round(y + band.height / 2 + 4);
  const waits =
    band.over === undefined || frame.lateness === null ? null : windows.get(band.over.wait);
  for (let i = 0; i < lane.slices; i += 1) {
    const [start, dur] = [lane.sliceStart[i]!, lane.sliceDur[i]!];
    if (start >= view[1]) break;
    if (dur < LABEL_FROM_PX * nsPerPx || start + dur <= view[0]) continue;
    const [from, to] = labelSpan(lane, i, waits, view);
    const left = geometry.lanesX + (from - view[0]) / nsPerPx;
    const width = (to - from) / nsPerPx;
    const name = lane.sliceName[i]!;
    if (width < LABEL_FROM_PX) continue;
    const label = fitter.fit(windows.store.names.get(name) ?? "", width - 8);
    if (label === "") continue;
    const code = paints.byClass ? lane.sliceClass[i]! : lane.sliceKind[i]!;
    const kind = paints.byClass && code === NO_CODE ? paints.unknownClass : code;
    const isPale = band.form === "pale" || paints.isPale[kind] === 1;
    const ink = isPale ? theme.ink : paints.textOn[kind * SHADES + (shade?.(name) ?? 0)]!;
    // Letters on hatching would be hard to read.
    if (paints.hatched[kind] === 1 && veiledInk === null) {
      const labelWidth = fitter.width(label) + 4;
      pen.fillRect(left + 2, baseline - 10, Math.min(labelWidth, width - 4), 13, theme.bg);
    }
    pen.drawText(label, left + (isPale ? 5 : 4), baseline, FONT.label, veiledInk ?? ink);
  }
}

/** Return the longest visible part of a slice that is not covered by a later slice or a wait. */
function labelSpan(lane: LaneWindow, index: number, waits: LaneWindow | null, view: Span): Span {
  const start = lane.sliceStart[index]!;
  const end = Math.min(start + lane.sliceDur[index]!, view[1]);
  // In a summary lane, events of several streams overlap.
  const uncovered = longestUncovered(lane, index + 1, [Math.max(start, view[0]), end]);
  if (waits === null) return uncovered;
  // Letters on a hatched wait would be hard to read. Waits hardly overlap, so of those that start
  // before the slice, only the last one can reach into it.
  return longestUncovered(waits, Math.max(waits.countStarted(start) - 1, 0), uncovered);
}

/** Return the longest part of a span that is not covered by slice `first` or later slices. */
function longestUncovered(
  { slices, sliceStart, sliceDur }: LaneWindow,
  first: number,
  [from, to]: Span,
): Span {
  let cursor = from;
  let longest: Span = [from, from];
  for (let slice = first; slice < slices && sliceStart[slice]! < to; slice += 1) {
    const start = sliceStart[slice]!;
    if (start - cursor > longest[1] - longest[0]) longest = [cursor, start];
    cursor = Math.max(cursor, start + sliceDur[slice]!);
  }
  return to - cursor > longest[1] - longest[0] ? [cursor, to] : longest;
}

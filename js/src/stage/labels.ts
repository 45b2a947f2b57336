/** Write the names of events on their rectangles. */

import { NO_CODE } from "../protocol/decode";
import type { Span } from "../protocol/source";
import { LABEL_FROM_PX } from "../ui/text";
import { FONT } from "../ui/theme";
import type { StageFrame } from "./frame";
import type { LaneWindow } from "./lane_window";
import type { NameShader } from "./lanes";
import { shadeIndex } from "./paints";
import type { CanvasPen } from "./pen";
import type { VisibleLane } from "./rows_view";

export type LabelFrame = Pick<
  StageFrame,
  "geometry" | "theme" | "view" | "windows" | "paints" | "byName" | "lateness"
>;

/** Lanes at least this high have labels. In lower lanes, letters would touch both edges. */
const LABEL_FROM_HEIGHT = 12;

/** Return the function from names to shades; null if names do not determine colors. */
export function nameShader({ byName, paints, windows }: LabelFrame): NameShader | null {
  const { hashes } = windows.store;
  return byName && !paints.byClass ? (name) => shadeIndex(hashes[name]!) : null;
}

/** Draw names on the rectangles of a lane that are wide enough. `veiledInk`: color over a veil. */
export function drawLabels(
  pen: CanvasPen,
  frame: LabelFrame,
  visibleLane: VisibleLane,
  veiledInk: string | null = null,
): void {
  const { band, y, top, bottom } = visibleLane;
  // In a folded stack, only the innermost frames, which are in front, have names.
  if (band.stackLanes !== undefined && band.lane !== band.stackLanes.at(-1)) return;
  if (band.height < LABEL_FROM_HEIGHT || band.form === "bar" || band.form === "counter") return;
  // A name that is partly scrolled out of view would be cut.
  if (bottom - top < band.height - 2) return;
  const lane = frame.windows.get(band.lane);
  if (lane === null || lane.slices === 0) return;
  const { geometry, view, paints, theme } = frame;
  const { lanesX, lanesWidth } = geometry;
  const perPx = (view[1] - view[0]) / lanesWidth;
  const min = LABEL_FROM_PX * perPx;
  const fitter = pen.fitter(FONT.label);
  const shade = nameShader(frame);
  const baseline = Math.round(y + band.height / 2 + 4);
  const waits =
    band.over === undefined || frame.lateness === null ? null : frame.windows.get(band.over.wait);
  for (let i = 0; i < lane.slices; i += 1) {
    const dur = lane.sliceDur[i]!;
    const start = lane.sliceStart[i]!;
    if (start >= view[1]) break;
    if (dur < min || start + dur <= view[0]) continue;
    const [from, to] = labelSpan(lane, i, waits, view);
    const x0 = lanesX + (from - view[0]) / perPx;
    const x1 = lanesX + (to - view[0]) / perPx;
    if (x1 - x0 < LABEL_FROM_PX) continue;
    const code = paints.byClass ? lane.sliceClass[i]! : lane.sliceKind[i]!;
    const kind = paints.byClass && code === NO_CODE ? paints.unknownClass : code;
    const pale = band.form === "pale" || paints.isPale[kind] === 1;
    const name = lane.sliceName[i]!;
    const label = fitter.fit(frame.windows.store.names.get(name) ?? "", x1 - x0 - 8);
    if (label === "") continue;
    const ink = pale ? theme.ink : paints.textOn[kind * 3 + (shade?.(name) ?? 0)]!;
    // Letters on a hatch would be hard to read.
    if (paints.hatched[kind] === 1 && veiledInk === null) {
      const labelWidth = fitter.width(label) + 4;
      pen.fillRect(x0 + 2, baseline - 10, Math.min(labelWidth, x1 - x0 - 4), 13, theme.bg);
    }
    pen.drawText(label, x0 + (pale ? 5 : 4), baseline, FONT.label, veiledInk ?? ink);
  }
}

/** Return the longest visible part of a slice that neither a later slice nor a wait covers. */
function labelSpan(lane: LaneWindow, index: number, waits: LaneWindow | null, view: Span): Span {
  const start = lane.sliceStart[index]!;
  const end = Math.min(start + lane.sliceDur[index]!, view[1]);
  // In a summary lane, events of several streams overlap.
  const uncovered = longestUncovered(lane, index + 1, [Math.max(start, view[0]), end]);
  if (waits === null) return uncovered;
  // Letters on the hatch of a wait would be hard to read. Waits hardly overlap, so of those that
  // start before the slice, only the last one can reach into it.
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

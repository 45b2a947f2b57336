/**
 * Draw the overlays of the rows: selection, search, hover, brush, ruler, notes, arrows.
 *
 * Selected events and search matches keep their colors and are outlined. A veil dims the rest.
 */

import { countBelow, countUpTo } from "../engine/columns";
import type { Brief, Overlay, SelectionJson } from "../protocol/source";
import { formatDuration } from "../ui/formats";
import { FONT, interpolateStops, SIZE } from "../ui/theme";
import { xAtTime } from "./camera";
import type { PlacedMarks, StageFrame } from "./frame";
import { drawLabels, type LabelFrame } from "./labels";
import type { Box, CanvasPen } from "./pen";
import type { StageRow } from "./rows";

export const NO_OVERLAY: Overlay = {
  hover: null,
  selected: null,
  flows: [],
  launches: [],
  collective: null,
  selection: null,
  brush: null,
  ruler: null,
  timeMarks: [],
  search: "",
  dimmed: new Set(),
};

type OverlayFrame = LabelFrame &
  Pick<StageFrame, "visible" | "overlay" | "searchMarks" | "selectionMarks">;

export function drawOverlay(pen: CanvasPen, frame: OverlayFrame): void {
  const { geometry, overlay } = frame;
  const { lanesX, lanesWidth, rowsTop, rowsHeight, axisTop } = geometry;
  if (lanesWidth <= 0) return;
  pen.withClip(lanesX, rowsTop, lanesWidth, rowsHeight, () => {
    const { searchMarks, selectionMarks, theme } = frame;
    const veil = new Veil(pen, frame);
    if (selectionMarks !== null) drawMarks(pen, frame, veil, selectionMarks, theme.brushLine);
    if (searchMarks !== null) drawMarks(pen, frame, veil, searchMarks, theme.ink);
    const area = overlay.brush ?? areaOf(overlay.selection);
    if (area !== null) drawArea(pen, frame, area, selectionMarks === null ? veil : null);
    veil.drawNames();
  });
  pen.withClip(lanesX, axisTop, lanesWidth, geometry.height - axisTop, () => {
    for (const mark of overlay.timeMarks) drawTimeMark(pen, frame, mark);
  });
  drawArrival(pen, frame);
  pen.withClip(lanesX, rowsTop, lanesWidth, rowsHeight, () => {
    drawHover(pen, frame);
    drawSelected(pen, frame);
    drawFlows(pen, frame);
    drawRuler(pen, frame);
  });
}

interface SelectedArea {
  start: number;
  end: number;
  ranks: readonly number[] | null;
  tracks: readonly string[] | null;
}

/** Return the window and rows of a selection; null if it has neither. */
function areaOf(selection: SelectionJson | null): SelectedArea | null {
  if (selection === null) return null;
  const { start_ns, end_ns, ranks, tracks } = selection;
  if (start_ns === null && end_ns === null && ranks === null && tracks === null) return null;
  const start = start_ns ?? Number.NEGATIVE_INFINITY;
  return { start, end: end_ns ?? Number.POSITIVE_INFINITY, ranks, tracks };
}

/** Opacity of the veil, as the last two hex digits of a color. */
const VEIL = "a8";

/** Minimum width, in px, of dimmed parts on which names are written again. */
const NAMES_FROM_PX = 8;

/** Dims parts of the lanes. */
class Veil {
  private readonly boxes: Box[] = [];

  constructor(
    private readonly pen: CanvasPen,
    private readonly frame: OverlayFrame,
  ) {}

  dim(x0: number, top: number, x1: number, bottom: number): void {
    if (x1 <= x0 || bottom <= top) return;
    const box = { x: x0, y: top, width: x1 - x0, height: bottom - top };
    this.pen.fillRect(box.x, box.y, box.width, box.height, this.frame.theme.bg + VEIL);
    if (box.width >= NAMES_FROM_PX) this.boxes.push(box);
  }

  /** Write the names of dimmed events again, because they are hard to read under the veil. */
  drawNames(): void {
    for (const lane of this.frame.visible.lanes) {
      const boxes = this.boxes.filter(({ y, height }) => y < lane.bottom && y + height > lane.top);
      if (boxes.length === 0) continue;
      this.pen.withClips(boxes, () =>
        drawLabels(this.pen, this.frame, lane, this.frame.theme.ink2),
      );
    }
  }
}

/** Draw the edges of an area. With a veil, dim everything outside it. */
function drawArea(
  pen: CanvasPen,
  frame: OverlayFrame,
  { start, end, ranks, tracks }: SelectedArea,
  veil: Veil | null,
): void {
  const { geometry, theme, view } = frame;
  const left = geometry.lanesX - 4;
  const right = geometry.lanesX + geometry.lanesWidth + 4;
  const x0 = Math.max(left, Number.isFinite(start) ? xAtTime(geometry, view, start) : left);
  const x1 = Math.min(right, Number.isFinite(end) ? xAtTime(geometry, view, end) : right);
  const rowsBottom = geometry.rowsTop + geometry.rowsHeight;
  let dimmedFrom = geometry.rowsTop;
  const dimUpTo = (bottom: number, next: number): void => {
    veil?.dim(left, dimmedFrom, right, bottom);
    dimmedFrom = next;
  };
  const bands = x1 < left || x0 > right ? [] : selectedBands(frame, ranks, tracks);
  for (const [top, bottom] of bands) {
    dimUpTo(top, bottom);
    veil?.dim(left, top, x0, bottom);
    veil?.dim(x1, top, right, bottom);
    pen.fillRect(x0 - 1, top, 2, bottom - top, theme.brushLine);
    pen.fillRect(x1 - 1, top, 2, bottom - top, theme.brushLine);
    if (ranks === null && tracks === null) continue;
    pen.fillRect(x0, top, x1 - x0, 1, theme.brushLine);
    pen.fillRect(x0, bottom - 1, x1 - x0, 1, theme.brushLine);
  }
  dimUpTo(rowsBottom, rowsBottom);
}

/** Return the vertical ranges of the selected rows, joining adjacent ranges. */
function selectedBands(
  { visible, geometry }: OverlayFrame,
  ranks: readonly number[] | null,
  tracks: readonly string[] | null,
): Extent[] {
  if (ranks === null && tracks === null) {
    return [[geometry.rowsTop, geometry.rowsTop + geometry.rowsHeight]];
  }
  const isSelected = ({ rank, track, open }: StageRow): boolean => {
    if (ranks !== null && !ranks.includes(rank.rank)) return false;
    if (tracks === null) return true;
    // A folded rank represents its tracks.
    if (track === null) return !open && rank.tracks.some(({ key }) => tracks.includes(key));
    return tracks.includes(track.key);
  };
  const rows = visible.placed
    .filter(({ row }) => isSelected(row))
    .map(({ row, y, clipTop, clipBottom }): Extent => {
      return [Math.max(y, clipTop), Math.min(y + row.height, clipBottom)];
    })
    .filter(([top, bottom]) => bottom > top);
  return joinExtents(
    rows.sort(([a], [b]) => a - b),
    1,
  );
}

/** Return an event's left and right edges, at least a device px apart. */
function eventExtent(pen: CanvasPen, frame: OverlayFrame, start: number, dur: number): Extent {
  const { geometry, view } = frame;
  const x0 = Math.max(-FAR_PX, pen.snap(xAtTime(geometry, view, start)));
  const x1 = Math.min(FAR_PX + geometry.width, pen.snap(xAtTime(geometry, view, start + dur)));
  return [x0, Math.max(x1, x0 + 1 / geometry.dpr)];
}

function drawHover(pen: CanvasPen, frame: OverlayFrame): void {
  const { hover } = frame.overlay;
  const visibleLane = hover && frame.visible.findLane(hover.lane);
  if (hover === null || visibleLane === null) return;
  const [x0, x1] = eventExtent(pen, frame, hover.start, hover.dur);
  const { y, band } = visibleLane;
  strokeBox(
    pen.ctx,
    [x0 - 0.75, y - 0.75, x1 - x0 + 1.5, band.height + 1.5],
    frame.theme.hover,
    1.5,
  );
}

function strokeBox(
  ctx: CanvasRenderingContext2D,
  box: readonly [x: number, y: number, width: number, height: number],
  color: string,
  lineWidth: number,
): void {
  ctx.strokeStyle = color;
  ctx.lineWidth = lineWidth;
  ctx.strokeRect(...box);
}

function drawSelected(pen: CanvasPen, frame: OverlayFrame): void {
  const { selected: event } = frame.overlay;
  if (event === null) return;
  const visibleLane = frame.visible.findLane(event.lane) ?? frame.visible.findSummaryLane(event);
  if (visibleLane === null) return;
  const [x0, x1] = eventExtent(pen, frame, event.start, event.dur);
  const { y, band } = visibleLane;
  const box = [x0 - 2, y - 2, x1 - x0 + 4, band.height + 4] as const;
  strokeBox(pen.ctx, box, frame.theme.selectionHalo, 4);
  strokeBox(pen.ctx, box, frame.theme.selection, 2);
}

function drawRuler(pen: CanvasPen, frame: OverlayFrame): void {
  const { geometry, theme, view } = frame;
  const { ruler } = frame.overlay;
  if (ruler === null) return;
  const left = xAtTime(geometry, view, Math.min(ruler.start, ruler.end));
  const right = xAtTime(geometry, view, Math.max(ruler.start, ruler.end));
  pen.fillRect(left, ruler.y - 1, right - left, 2, theme.ink);
  for (const x of [left, right]) pen.fillRect(x - 1, ruler.y - 6, 2, 12, theme.ink);
  const text = formatDuration(Math.abs(ruler.end - ruler.start));
  drawPlate(pen, frame, text, (left + right) / 2, ruler.y - 18);
}

/** Draw text on a plate, kept within the lanes. */
function drawPlate(
  pen: CanvasPen,
  { geometry, theme }: OverlayFrame,
  text: string,
  x: number,
  y: number,
) {
  const width = pen.textWidth(text, FONT.labelStrong) + 10;
  const { lanesX, lanesWidth, axisTop } = geometry;
  const left = Math.min(Math.max(x - width / 2, lanesX + 2), lanesX + lanesWidth - width - 2);
  const top = Math.max(y, axisTop);
  pen.fillRect(left, top, width, 15, theme.ink);
  pen.drawText(text, left + 5, top + 11, FONT.labelStrong, theme.bg);
}

export type TimeMark = Overlay["timeMarks"][number];

function drawTimeMark(pen: CanvasPen, frame: OverlayFrame, mark: TimeMark): void {
  const { geometry, theme, view } = frame;
  const top = geometry.axisTop + geometry.axisHeight - 7;
  const x0 = xAtTime(geometry, view, mark.start);
  const x1 = xAtTime(geometry, view, mark.end);
  const color = mark.kept ? theme.focus : theme.ink2;
  const spans = mark.end > mark.start;
  if (spans) pen.fillRect(x0, top, x1 - x0, 7, interpolateStops([theme.bg, color], 0.25));
  for (const x of spans ? [x0, x1] : [x0]) {
    if (mark.kept) pen.verticalLine(x, top, geometry.height, color);
    else pen.dashedLine(x, top, geometry.height, color);
    pen.fillRect(x, top, 5, 7, color);
  }
  if (!spans) return;
  const text = formatDuration(mark.end - mark.start);
  if (x1 - x0 >= pen.textWidth(text, FONT.labelStrong) + 24) {
    drawPlate(pen, frame, text, (x0 + x1) / 2, top - 5);
  }
}

/** Draw the last arrival at the selected collective: a flag, and a line through all ranks. */
function drawArrival(pen: CanvasPen, { geometry, theme, view, overlay }: OverlayFrame): void {
  if (overlay.collective === null) return;
  const { time, rank } = overlay.collective;
  const { lanesX, lanesWidth, rowsTop, stripTop, stripRows, height } = geometry;
  const x = xAtTime(geometry, view, time);
  if (x < lanesX || x > lanesX + lanesWidth) return;
  pen.dashedLine(x, rowsTop, height, theme.ink2);
  const text = `rank ${rank} arrives last`;
  const width = pen.textWidth(text, FONT.labelStrong) + 10;
  const left = Math.min(x, lanesX + lanesWidth - width);
  const top = stripRows > 0 ? stripTop + (stripRows - 1) * SIZE.steps : rowsTop;
  pen.fillRect(left, top, width, 15, theme.ink2);
  pen.drawText(text, left + 5, top + 11, FONT.labelStrong, theme.bg);
}

/** Minimum distance, in px, between marked parts with separate outlines. */
const OUTLINE_GAP_PX = 4;

/** Outline the marked parts of the lanes and dim everything else. */
function drawMarks(
  pen: CanvasPen,
  frame: OverlayFrame,
  veil: Veil,
  placed: PlacedMarks,
  color: string,
): void {
  const { marks, start, end, bins, lanes } = placed;
  if (marks.error !== null) return;
  const { geometry, view, visible } = frame;
  const xOf = (bin: number) =>
    pen.snap(xAtTime(geometry, view, start + (bin / bins) * (end - start)));
  const [left, right] = [xOf(0), xOf(bins)];
  for (const { row, y, clipTop, clipBottom } of visible.placed) {
    const ribbon = row.ribbon();
    if (ribbon === null) continue;
    const bottom = Math.min(y + ribbon.top + ribbon.height, clipBottom);
    veil.dim(left, Math.max(y + ribbon.top, clipTop), right, bottom);
  }
  for (const { band, y, top, bottom } of visible.lanes) {
    const { lane, height, stackLanes = [lane] } = band;
    // The lane came into view after the request, or has the inner frames of a folded stack.
    if (!lanes.includes(lane) || lane !== stackLanes[0]) continue;
    const spans = marksOfLanes(marks, stackLanes).map((mark): Extent => {
      return [xOf(marks.bin[mark]!), xOf(marks.end[mark]!)];
    });
    let dimmedFrom = left;
    for (const [x0, x1] of spans) {
      veil.dim(dimmedFrom, top, x0, bottom);
      dimmedFrom = Math.max(dimmedFrom, x1);
    }
    veil.dim(dimmedFrom, top, right, bottom);
    if (top > y + 1) continue;
    for (const [x0, x1] of joinExtents(spans, OUTLINE_GAP_PX))
      pen.strokeFrame(x0 - 1, y - 1, x1 - x0 + 2, height + 2, color, 1);
  }
}

type Extent = [from: number, to: number];

/** Join extents that are less than `gap` apart. They are sorted by start. */
function joinExtents(extents: readonly Extent[], gap: number): Extent[] {
  const joined: Extent[] = [];
  for (const [from, to] of extents) {
    const last = joined.at(-1);
    if (last !== undefined && from - last[1] < gap) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

function marksOfLanes(marks: PlacedMarks["marks"], lanes: readonly number[]): number[] {
  const indices = lanes.flatMap((lane) => {
    const first = countBelow(marks.lane, lane);
    return Array.from({ length: countUpTo(marks.lane, lane) - first }, (_, at) => first + at);
  });
  return lanes.length === 1 ? indices : indices.sort((a, b) => marks.bin[a]! - marks.bin[b]!);
}

// Arrows between the selected event and the events that it launched or that launched it.

const ARROW_WIDTH = 1.75;
/** Below this distance between its ends, an arrow is a curve that bends to the left. */
const BOW_BELOW_PX = 60;
const ARROW_HEAD = 7;
/** Points farther outside the view are moved to this distance, which canvases can draw. */
const FAR_PX = 3000;

interface ArrowEnd {
  x: number;
  y: number;
  /** Whether the event itself is visible, and not only the row into which it is folded. */
  isVisible: boolean;
}

function drawFlows(pen: CanvasPen, frame: OverlayFrame): void {
  const { overlay, theme } = frame;
  for (const arrow of [...overlay.launches, ...overlay.flows]) {
    const { from, to } = arrow;
    const isFlow = "kind" in arrow;
    // An operator may be longer than the view, so its arrow starts at the target's time.
    const leaves = isFlow ? from.start + from.dur / 2 : Math.min(to.start, from.start + from.dur);
    const a = arrowEnd(frame, from, leaves);
    const b = arrowEnd(frame, to, to.start);
    if (a === null || b === null || (!a.isVisible && !b.isVisible)) continue;
    drawArrow(pen, frame, a, b, isFlow ? theme.selection : theme.hover);
  }
}

/** Return where an arrow ends: at an event, or below the row into which the event is folded. */
function arrowEnd(frame: OverlayFrame, event: Brief, time: number): ArrowEnd | null {
  const { geometry, view, visible } = frame;
  const { lanesX, lanesWidth } = geometry;
  const [minX, maxX] = [lanesX - FAR_PX, lanesX + lanesWidth + FAR_PX];
  const x = Math.min(Math.max(xAtTime(geometry, view, time), minX), maxX);
  const visibleLane = visible.findLane(event.lane) ?? visible.findSummaryLane(event);
  if (visibleLane !== null)
    return { x, y: (visibleLane.top + visibleLane.bottom) / 2, isVisible: true };
  const head = visible.findHead(event.rank);
  if (head === null) return null;
  const bottom = Math.min(head.y + head.row.height, head.clipBottom);
  return { x, y: bottom - 2, isVisible: !head.row.open };
}

/** Draw the line of an arrow to just within its head. */
function strokeArrowLine(ctx: CanvasRenderingContext2D, a: ArrowEnd, b: ArrowEnd): void {
  const headX = b.x - ARROW_HEAD + 2;
  ctx.beginPath();
  ctx.moveTo(a.x, a.y);
  if (b.x - a.x < BOW_BELOW_PX) {
    const out = Math.min(a.x, b.x - 8) - 14;
    const lift = Math.min(8, Math.abs(b.y - a.y) / 2) * Math.sign(b.y - a.y);
    const middle = (a.y + b.y) / 2;
    ctx.bezierCurveTo(out, a.y, out, a.y + lift, out, middle);
    ctx.bezierCurveTo(out, b.y - lift, out, b.y, headX, b.y);
  } else {
    const reach = Math.max(18, (b.x - a.x) / 2);
    ctx.bezierCurveTo(a.x + reach, a.y, b.x - reach, b.y, headX, b.y);
  }
  ctx.stroke();
}

function drawArrow(
  pen: CanvasPen,
  frame: OverlayFrame,
  a: ArrowEnd,
  b: ArrowEnd,
  color: string,
): void {
  const { ctx } = pen;
  ctx.strokeStyle = frame.theme.selectionHalo;
  ctx.lineWidth = ARROW_WIDTH + 3;
  strokeArrowLine(ctx, a, b);
  ctx.strokeStyle = color;
  ctx.lineWidth = ARROW_WIDTH;
  strokeArrowLine(ctx, a, b);
  pen.setFill(color);
  ctx.beginPath();
  ctx.moveTo(b.x, b.y);
  ctx.lineTo(b.x - ARROW_HEAD, b.y - 4);
  ctx.lineTo(b.x - ARROW_HEAD, b.y + 4);
  ctx.fill();
  ctx.beginPath();
  ctx.arc(a.x, a.y, 2.5, 0, 2 * Math.PI);
  ctx.fill();
}

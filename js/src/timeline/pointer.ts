/** Mouse, pen and touch on the stage. */

import { type RowChoice, rowsChoice, selectionSpan } from "../protocol/selection";
import type { Hit, RowInfo, SelectionJson, Span } from "../protocol/source";
import { formatCount } from "../ui/formats";
import { MOTION } from "../ui/theme";
import { axisWidth, type Context } from "./context";
import type { Gaps } from "./gaps";
import type { Hover } from "./hover";
import {
  DRAG_PX,
  draggedSpan,
  EDGE_PX,
  edgeAt,
  nearestEdge,
  ordered,
  pinchedSpan,
  SNAP_PX,
} from "./motion";
import type { Navigation } from "./navigation";
import type { Folding, Rows } from "./rows";
import type { Picking } from "./selected_event";
import type { StatusLine } from "./status";
import { brushWords } from "./text";

interface PointerParts extends DragParts {
  rows: Rows;
  folding: Folding;
  hover: Hover;
  gaps: Gaps;
  focus(): void;
  /** Whether the pointer counts as on the stage although it is over this element. */
  stays(node: Node | null): boolean;
  /** Called when a request that a click started has failed. */
  failed(error: unknown): void;
}

/** Zoom factor of a double-click on a cell without a single event to zoom to. */
const CELL_ZOOM = 8;

interface Press {
  id: number;
  point: Point;
  hit: Hit;
  button: number;
  shift: boolean;
  touch: boolean;
}

export class Pointer {
  /** Space is held: drags pan. */
  space = false;
  /** Position of the pointer relative to the stage; null outside. */
  at: Point | null = null;
  private press: Press | null = null;
  private drag: Drag | null = null;
  private pinch: Pinch | null = null;
  private readonly fingers = new Map<number, Point>();

  constructor(private readonly parts: PointerParts) {
    const { stage, signal } = parts.ctx;
    const on = <K extends keyof HTMLElementEventMap>(
      type: K,
      listener: (event: HTMLElementEventMap[K]) => void,
    ): void => stage.el.addEventListener(type, listener, { signal });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.lost(event));
    on("pointerleave", (event) => this.leave(event));
    on("dblclick", (event) => this.double(event));
    // The middle button scrolls pages in some browsers and pastes in others.
    on("mousedown", (event) => event.button === 1 && event.preventDefault());
  }

  /** The time that keyboard zoom keeps in place: under the pointer, else the middle. */
  focusTime(): number {
    const [start, end] = this.parts.ctx.stage.view();
    const time = this.at === null ? Number.NaN : this.parts.ctx.stage.timeAt(this.at.x);
    return time >= start && time <= end ? time : (start + end) / 2;
  }

  hit(): Hit | null {
    return this.at === null ? null : this.parts.ctx.stage.hit(this.at.x, this.at.y);
  }

  /** Cancel the current drag; false if there is none. */
  cancel(): boolean {
    if (this.drag === null) return false;
    this.drag.cancel();
    this.finish();
    return true;
  }

  private point(event: MouseEvent): Point {
    const box = this.parts.ctx.stage.el.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, alt: event.altKey };
  }

  private down(event: PointerEvent): void {
    const { ctx } = this.parts;
    if (event.button !== 0 && event.button !== 1) return;
    this.parts.focus();
    const point = this.point(event);
    const touch = event.pointerType === "touch";
    this.parts.hover.leave();
    try {
      ctx.stage.el.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is gone already.
    }
    if (touch) {
      this.fingers.set(event.pointerId, point);
      if (this.fingers.size === 2) {
        this.cancel();
        this.press = null;
        this.pinch = new Pinch(this.parts, this.pair());
        return;
      }
    }
    this.press = {
      id: event.pointerId,
      point,
      hit: ctx.stage.hit(point.x, point.y),
      button: event.button,
      shift: event.shiftKey,
      touch,
    };
  }

  private move(event: PointerEvent): void {
    const point = this.point(event);
    this.at = point;
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, point);
    if (this.pinch !== null) {
      if (this.fingers.size === 2) this.pinch.move(this.pair());
      return;
    }
    const { press } = this;
    if (press === null || press.id !== event.pointerId) {
      this.parts.hover.move(point);
      this.parts.ctx.stage.el.style.cursor = this.cursorAt(point, event.shiftKey);
      return;
    }
    if (this.drag === null) {
      const far = Math.hypot(point.x - press.point.x, point.y - press.point.y);
      if (far < DRAG_PX) return;
      this.drag = this.begin(press);
      if (this.drag === null) return;
      this.parts.ctx.stage.el.style.cursor = this.drag.cursor;
    }
    this.drag.move(point);
  }

  private up(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    if (this.pinch !== null) {
      if (this.fingers.size < 2) {
        this.pinch.end();
        this.pinch = null;
      }
      this.press = null;
      return;
    }
    const { press, drag } = this;
    if (press === null || press.id !== event.pointerId) return;
    if (drag !== null) {
      drag.move(this.point(event));
      drag.end();
    } else if (press.button === 0) {
      this.click(press.hit, event);
    }
    this.finish();
  }

  private lost(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    this.pinch?.end();
    this.pinch = null;
    this.cancel();
    this.press = null;
  }

  private finish(): void {
    this.drag = null;
    this.press = null;
    this.parts.ctx.stage.el.style.cursor = "";
  }

  private leave(event: PointerEvent): void {
    if (this.press !== null || this.parts.stays(event.relatedTarget as Node | null)) return;
    this.at = null;
    this.parts.hover.leave();
  }

  private pair(): [number, number] {
    const [first, second] = [...this.fingers.values()];
    return [first?.x ?? 0, second?.x ?? 0];
  }

  /** Return the drag that a press starts once it moves. */
  private begin(press: Press): Drag | null {
    const { parts } = this;
    const { hit, point } = press;
    const { stage } = parts.ctx;
    if (hit.region === "minimap") return this.minimapDrag(press);
    const axis = hit.region === "axis" || hit.region === "strip";
    const view = stage.view();
    const inside = (at: Point): number => Math.min(Math.max(stage.timeAt(at.x), view[0]), view[1]);
    if (this.space || press.shift || (press.touch && !axis)) return new PanDrag(parts, point);
    if (axis) return new ZoomDrag(parts, inside(point), inside);
    if (hit.region !== "lanes") return null;
    if (press.button === 1) return new ZoomDrag(parts, snappedTime(parts.ctx, point), inside);
    const edge = this.edgeAt(point, hit);
    if (edge !== null) return edge;
    return new SelectDrag(parts, point);
  }

  private minimapDrag(press: Press): Drag {
    const timeOf = (point: Point): number => this.minimapTime(point.x, press.point.y);
    const from = press.hit.time;
    const part = this.framePart(press.point);
    if (part === null) return new ZoomDrag(this.parts, from, timeOf);
    return new FrameDrag(this.parts, part, from, timeOf);
  }

  /** Time at the pointer in the minimap; beyond its ends, the nearest end. */
  private minimapTime(x: number, y: number): number {
    const { stage } = this.parts.ctx;
    const [start, end] = stage.view();
    const [left, right] = [stage.xOf(start), stage.xOf(end) - 1];
    return stage.hit(Math.min(Math.max(x, left), right), y).time;
  }

  /** Handle or body of the minimap's frame; null outside it, or while it spans everything. */
  private framePart(point: Point): "start" | "end" | "frame" | null {
    const { stage, scene } = this.parts.ctx;
    const [start, end] = stage.view();
    const time = this.minimapTime(point.x, point.y);
    const left = this.minimapTime(0, point.y);
    const right = this.minimapTime(Number.MAX_SAFE_INTEGER, point.y);
    const reach = ((right - left) / Math.max(axisWidth(this.parts.ctx), 1)) * (EDGE_PX + 1);
    const edge = edgeAt(time, start, end, reach);
    if (edge !== null) return edge;
    const whole = start <= scene.range[0] && end >= scene.range[1];
    return !whole && time > start && time < end ? "frame" : null;
  }

  private edgeAt(point: Point, hit: Hit): EdgeDrag | null {
    const { ctx, picking } = this.parts;
    const selection = picking.window;
    const span = selectionSpan(selection, ctx.scene);
    if (selection === null || span === null || hit.row === null) return null;
    if (selection.ranks !== null && !selection.ranks.includes(hit.row.rank)) return null;
    const edge = edgeAt(point.x, ctx.stage.xOf(span[0]), ctx.stage.xOf(span[1]));
    if (edge === null) return null;
    const [fixed, moving]: Span = edge === "start" ? [span[1], span[0]] : span;
    return new EdgeDrag(this.parts, selection, fixed, moving);
  }

  private click(hit: Hit, event: MouseEvent): void {
    const { picking, rows, folding, nav, ctx } = this.parts;
    if (hit.region === "gutter") {
      if (hit.badge === true && hit.row !== null && folding.toggleGroup(hit.row.rank)) return;
      if (hit.row === null) return;
      if (hit.row.track === null) rows.toggle(hit.row.rank);
      else if (hit.row.thin !== undefined || rows.roomy) rows.toggleRoomy();
      return;
    }
    if (hit.region === "minimap") {
      const [start, end] = ctx.stage.view();
      if (this.framePart(this.point(event)) === null) {
        const [first, last] = ctx.scene.range;
        const length = end - start;
        const from = Math.max(Math.min(hit.time - length / 2, last - length), first);
        nav.zoomTo([from, from + length]);
      }
      return;
    }
    if (hit.arrival) {
      const { rank, id } = hit.arrival;
      if (rank < 0) return;
      picking.pick({ rank, table: "events", id }, null);
      rows.showRank(rank);
      return;
    }
    if (hit.region === "strip" && hit.step !== null) return;
    if (hit.region !== "lanes") return;
    const add = event.ctrlKey || event.metaKey;
    const brief = hit.slice === null ? null : picking.briefOf(hit.slice);
    if (brief !== null) {
      if (add) picking.toggleEvent(brief);
      else picking.pick(brief, brief);
    } else if (hit.cell !== null && hit.cell.count > 0) {
      this.clickCell(hit, add);
    } else if (!add) {
      this.clickEmpty(hit);
    }
  }

  /** Select the gap of a device, if there is one. */
  private clickEmpty({ lane, time }: Hit): void {
    const { picking, gaps, ctx, failed } = this.parts;
    const rank = lane === null ? undefined : ctx.lanes.at(lane)?.rank.rank;
    if (rank === undefined || !gaps.isDevice(lane)) {
      picking.clearOwn();
      return;
    }
    gaps
      .select(rank, time)
      .then((found) => found || picking.clearOwn())
      .catch(failed);
  }

  /** Select the longest event at a click if marks are finer than pixels. */
  private clickCell({ cell, lane }: Hit, add: boolean): void {
    if (cell === null || lane === null) return;
    const { picking, status, failed } = this.parts;
    picking
      .longestIn({ lane, start: cell.start, end: cell.end })
      .then((brief) => {
        if (brief === null) return;
        if (add) picking.toggleEvent(brief);
        else picking.pick(brief, brief);
        if (cell.count > 1) {
          status.flash([`The longest of ${formatCount(cell.count)} events in this pixel.`], 2500);
        }
      })
      .catch(failed);
  }

  private double(event: MouseEvent): void {
    const { picking, nav, ctx } = this.parts;
    const point = this.point(event);
    const hit = ctx.stage.hit(point.x, point.y);
    if (hit.region === "strip" && hit.step !== null) {
      nav.zoomTo([hit.step.start, hit.step.start + hit.step.dur]);
      return;
    }
    if (hit.region !== "lanes") return;
    event.preventDefault();
    const brief = hit.slice === null ? null : picking.briefOf(hit.slice);
    if (brief === null) {
      if (hit.cell !== null && hit.cell.count > 0) nav.zoomBy(CELL_ZOOM, hit.time, MOTION.zoomFit);
      return;
    }
    picking.pick(brief, brief);
    if (event.altKey) picking.selectName();
    else nav.toggleZoom(picking.target());
  }

  private cursorAt(point: Point, shift: boolean): string {
    const hit = this.parts.ctx.stage.hit(point.x, point.y);
    if (hit.region === "gutter") return hit.row?.track === null ? "pointer" : "";
    if (hit.region === "minimap") {
      const part = this.framePart(point);
      return part === null ? "crosshair" : part === "frame" ? "grab" : "ew-resize";
    }
    if (hit.arrival) return hit.arrival.rank < 0 ? "" : "pointer";
    if (hit.region === "axis" || hit.region === "strip") return "col-resize";
    if (hit.region !== "lanes") return "";
    if (this.space || shift) return "grab";
    if (this.edgeAt(point, hit) !== null) return "ew-resize";
    return hit.slice !== null || (hit.cell !== null && hit.cell.count > 0) ? "pointer" : "";
  }
}

// Drags, one class per kind. Coordinates are CSS px relative to the stage.

interface Point {
  x: number;
  y: number;
  /** No snapping while Alt is held. */
  alt: boolean;
}

interface Drag {
  readonly cursor: string;
  move(point: Point): void;
  end(): void;
  cancel(): void;
}

interface DragParts {
  ctx: Context;
  nav: Navigation;
  picking: Picking;
  status: StatusLine;
}

/** The time under a point, pulled to an event edge of the lane there. */
function snappedTime(ctx: Context, point: Point): number {
  const { stage } = ctx;
  const [start, end] = stage.view();
  const time = Math.min(Math.max(stage.timeAt(point.x), start), end);
  if (point.alt) return time;
  const lane = stage.hit(point.x, point.y).lane;
  if (lane === null) return time;
  const tolerance = (SNAP_PX * (end - start)) / Math.max(axisWidth(ctx), 1);
  return nearestEdge(time, stage.slices(lane), tolerance) ?? time;
}

/** Rows between two heights, in the order of the screen. */
function rowsBetween(ctx: Context, from: RowInfo | null, to: RowInfo | null): RowInfo[] {
  const rows = ctx.stage.rows();
  const index = (row: RowInfo | null): number =>
    row === null
      ? -1
      : rows.findIndex((one) => one.rank === row.rank && one.track?.key === row.track?.key);
  const [a, b] = [index(from), index(to)];
  if (a < 0 && b < 0) return [];
  const [low, high] = ordered(a < 0 ? b : a, b < 0 ? a : b);
  return rows.slice(low, high + 1);
}

/** The row at a height; the nearest one if the pointer is outside the rows. */
function rowAt(ctx: Context, x: number, y: number): RowInfo | null {
  const height = ctx.stage.el.clientHeight;
  const inside = Math.min(Math.max(y, 0), height - 1);
  const hit = ctx.stage.hit(x, inside);
  if (hit.row !== null) return hit.row;
  for (let step = 4; step < height; step += 4) {
    const below = ctx.stage.hit(x, Math.min(inside + step, height - 1)).row;
    // Above the rows, on minimap or axis, take the first row below; else the last one above.
    if (below !== null) return below;
    const above = ctx.stage.hit(x, Math.max(inside - step, 0)).row;
    if (above !== null) return above;
  }
  return null;
}

/** A drag from one time to another, drawn as a brush. */
abstract class BrushDrag {
  protected span: Span;

  constructor(
    protected readonly parts: DragParts,
    private readonly from: number,
    to = from,
  ) {
    this.span = ordered(from, to);
  }

  /** Draw the brush up to a time, with a ruler at the height `y`. */
  protected draw(to: number, rows: RowChoice, y: number | null, ...hint: string[]): void {
    this.span = ordered(this.from, to);
    const [start, end] = this.span;
    const ruler = y === null ? null : { start, end, y };
    this.parts.ctx.stage.setOverlay({ brush: { start, end, ...rows }, ruler });
    this.parts.status.say("brush", [...brushWords(this.span), ...hint]);
  }

  cancel(): void {
    this.parts.ctx.stage.setOverlay({ brush: null, ruler: null });
    this.parts.status.say("brush", null);
  }
}

class SelectDrag extends BrushDrag implements Drag {
  readonly cursor = "crosshair";
  private readonly fromRow: RowInfo | null;
  private rows: RowInfo[];

  constructor(parts: DragParts, start: Point) {
    super(parts, snappedTime(parts.ctx, start));
    this.fromRow = rowAt(parts.ctx, start.x, start.y);
    this.rows = rowsBetween(parts.ctx, this.fromRow, this.fromRow);
  }

  move(point: Point): void {
    const { ctx } = this.parts;
    this.rows = rowsBetween(ctx, this.fromRow, rowAt(ctx, point.x, point.y));
    this.draw(snappedTime(ctx, point), rowsChoice(this.rows, ctx.scene), point.y);
  }

  end(): void {
    this.cancel();
    if (this.span[1] > this.span[0]) this.parts.picking.selectRows(this.span, this.rows);
  }
}

/** One edge of the selected window follows the pointer, the other stays. */
class EdgeDrag extends BrushDrag implements Drag {
  readonly cursor = "ew-resize";

  constructor(
    parts: DragParts,
    private readonly selection: SelectionJson,
    fixed: number,
    moving: number,
  ) {
    super(parts, fixed, moving);
  }

  move(point: Point): void {
    const { ranks, tracks } = this.selection;
    this.draw(snappedTime(this.parts.ctx, point), { ranks, tracks }, point.y);
  }

  end(): void {
    this.cancel();
    const start = Math.round(this.span[0]);
    const end = Math.max(Math.round(this.span[1]), start + 1);
    this.parts.picking.setSelection({ ...this.selection, start_ns: start, end_ns: end });
  }
}

/** A gesture that moves the view; cancelled, the view goes back. */
abstract class ViewDrag {
  protected readonly before: Span;

  constructor(protected readonly parts: DragParts) {
    this.before = parts.ctx.stage.view();
    parts.nav.begin();
  }

  end(): void {
    this.parts.nav.end();
  }

  cancel(): void {
    this.parts.nav.zoomTo(this.before, 0);
    this.parts.nav.end();
  }
}

class PanDrag extends ViewDrag implements Drag {
  readonly cursor = "grabbing";
  private lastY: number;

  constructor(
    parts: DragParts,
    private readonly start: Point,
  ) {
    super(parts);
    this.lastY = start.y;
  }

  move(point: Point): void {
    const { ctx, nav } = this.parts;
    nav.zoomTo(draggedSpan(this.before, point.x - this.start.x, axisWidth(ctx)), 0);
    ctx.stage.scrollBy(this.lastY - point.y);
    this.lastY = point.y;
  }
}

/** Drag along the axis or over the minimap: the range becomes the view. */
class ZoomDrag extends BrushDrag implements Drag {
  readonly cursor = "col-resize";

  constructor(
    parts: DragParts,
    from: number,
    private readonly timeOf: (point: Point) => number,
  ) {
    super(parts, from);
  }

  move(point: Point): void {
    this.draw(this.timeOf(point), { ranks: null, tracks: null }, null, ": release to zoom");
  }

  end(): void {
    this.cancel();
    if (this.span[1] > this.span[0]) this.parts.nav.zoomTo(this.span);
  }
}

/** The minimap's frame, or one of its handles, follows the pointer. */
class FrameDrag extends ViewDrag implements Drag {
  readonly cursor: string;

  constructor(
    parts: DragParts,
    private readonly part: "start" | "end" | "frame",
    private readonly from: number,
    private readonly timeOf: (point: Point) => number,
  ) {
    super(parts);
    this.cursor = part === "frame" ? "grabbing" : "ew-resize";
  }

  move(point: Point): void {
    const time = this.timeOf(point);
    const [start, end] = this.before;
    const shift = time - this.from;
    const to: Record<typeof this.part, Span> = {
      frame: [start + shift, end + shift],
      start: ordered(time, end),
      end: ordered(start, time),
    };
    this.parts.nav.zoomTo(to[this.part], 0);
  }
}

/** Two fingers: the times under them stay under them. */
class Pinch extends ViewDrag {
  private readonly left: number;

  constructor(
    parts: DragParts,
    private readonly from: readonly [number, number],
  ) {
    super(parts);
    this.left = parts.ctx.stage.xOf(this.before[0]);
  }

  move(to: readonly [number, number]): void {
    const local = (pair: readonly [number, number]): [number, number] => [
      pair[0] - this.left,
      pair[1] - this.left,
    ];
    const width = axisWidth(this.parts.ctx);
    this.parts.nav.zoomTo(pinchedSpan(this.before, width, local(this.from), local(to)), 0);
  }
}

/** What a drag does, one class a kind. Coordinates are CSS px relative to the stage. */

import type { RowInfo, SelectionJson, Span } from "../contract";
import type { Context } from "./context";
import { draggedSpan, nearestEdge, ordered, pinchedSpan, SNAP_PX } from "./gesture_maths";
import type { Navigation } from "./navigation";
import type { Picking } from "./picking";
import { rowsChoice } from "./selection";
import type { StatusLine } from "./status";
import { brushWords } from "./words";

export interface Point {
  x: number;
  y: number;
  /** No snapping while Alt is held. */
  alt: boolean;
}

export interface Drag {
  readonly cursor: string;
  move(point: Point): void;
  end(): void;
  cancel(): void;
}

export interface DragParts {
  ctx: Context;
  nav: Navigation;
  picking: Picking;
  status: StatusLine;
}

/** Width of the time axis in px. */
export function axisWidth(ctx: Context): number {
  const [start, end] = ctx.stage.view();
  return ctx.stage.xOf(end) - ctx.stage.xOf(start);
}

/** The time under a point, pulled to an event edge of the lane there. */
export function snappedTime(ctx: Context, point: Point): number {
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
export function rowsBetween(ctx: Context, from: RowInfo | null, to: RowInfo | null): RowInfo[] {
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

/** The row at a height; the nearest one where the pointer has left the rows. */
function rowAt(ctx: Context, x: number, y: number): RowInfo | null {
  const height = ctx.stage.el.clientHeight;
  const inside = Math.min(Math.max(y, 0), height - 1);
  const hit = ctx.stage.hit(x, inside);
  if (hit.row !== null) return hit.row;
  for (let step = 4; step < height; step += 4) {
    const below = ctx.stage.hit(x, Math.min(inside + step, height - 1)).row;
    // Above the rows lie minimap and axis: the first row below is meant; else the last above.
    if (below !== null) return below;
    const above = ctx.stage.hit(x, Math.max(inside - step, 0)).row;
    if (above !== null) return above;
  }
  return null;
}

export class SelectDrag implements Drag {
  readonly cursor = "crosshair";
  private readonly from: number;
  private readonly fromRow: RowInfo | null;
  private span: Span;
  private rows: RowInfo[];

  constructor(
    private readonly parts: DragParts,
    start: Point,
  ) {
    this.from = snappedTime(parts.ctx, start);
    this.fromRow = rowAt(parts.ctx, start.x, start.y);
    this.span = [this.from, this.from];
    this.rows = rowsBetween(parts.ctx, this.fromRow, this.fromRow);
  }

  move(point: Point): void {
    const { ctx, status } = this.parts;
    this.span = ordered(this.from, snappedTime(ctx, point));
    this.rows = rowsBetween(ctx, this.fromRow, rowAt(ctx, point.x, point.y));
    const [start, end] = this.span;
    ctx.stage.setOverlay({
      brush: { start, end, ...rowsChoice(this.rows, ctx.scene) },
      ruler: { start, end, y: point.y },
    });
    status.say("brush", brushWords(this.span));
  }

  end(): void {
    this.cancel();
    if (this.span[1] > this.span[0]) this.parts.picking.selectRows(this.span, this.rows);
  }

  cancel(): void {
    this.parts.ctx.stage.setOverlay({ brush: null, ruler: null });
    this.parts.status.say("brush", null);
  }
}

/** One edge of the selected window follows the pointer, the other stays. */
export class EdgeDrag implements Drag {
  readonly cursor = "ew-resize";
  private span: Span;

  constructor(
    private readonly parts: DragParts,
    private readonly selection: SelectionJson,
    private readonly fixed: number,
    moving: number,
  ) {
    this.span = ordered(fixed, moving);
  }

  move(point: Point): void {
    const { ctx, status } = this.parts;
    this.span = ordered(this.fixed, snappedTime(ctx, point));
    const [start, end] = this.span;
    ctx.stage.setOverlay({
      brush: { start, end, ranks: this.selection.ranks, tracks: this.selection.tracks },
      ruler: { start, end, y: point.y },
    });
    status.say("brush", brushWords(this.span));
  }

  end(): void {
    this.cancel();
    const start = Math.round(this.span[0]);
    const end = Math.max(Math.round(this.span[1]), start + 1);
    this.parts.picking.setSelection({ ...this.selection, start_ns: start, end_ns: end });
  }

  cancel(): void {
    this.parts.ctx.stage.setOverlay({ brush: null, ruler: null });
    this.parts.status.say("brush", null);
  }
}

export class PanDrag implements Drag {
  readonly cursor = "grabbing";
  private readonly before: Span;
  private lastY: number;

  constructor(
    private readonly parts: DragParts,
    private readonly start: Point,
  ) {
    this.before = parts.ctx.stage.view();
    this.lastY = start.y;
    parts.nav.begin();
  }

  move(point: Point): void {
    const { ctx, nav } = this.parts;
    nav.zoomTo(draggedSpan(this.before, point.x - this.start.x, axisWidth(ctx)), 0);
    ctx.stage.scrollBy(this.lastY - point.y);
    this.lastY = point.y;
  }

  end(): void {
    this.parts.nav.end();
  }

  cancel(): void {
    this.parts.nav.zoomTo(this.before, 0);
    this.parts.nav.end();
  }
}

/** Drag along the axis, or over the minimap, and that stretch becomes the view. */
export class ZoomDrag implements Drag {
  readonly cursor = "col-resize";
  private span: Span;

  constructor(
    private readonly parts: DragParts,
    private readonly from: number,
    private readonly timeOf: (point: Point) => number,
  ) {
    this.span = [from, from];
  }

  move(point: Point): void {
    const { ctx, status } = this.parts;
    this.span = ordered(this.from, this.timeOf(point));
    const [start, end] = this.span;
    ctx.stage.setOverlay({ brush: { start, end, ranks: null, tracks: null } });
    status.say("brush", [...brushWords(this.span), ": release to zoom"]);
  }

  end(): void {
    this.cancel();
    if (this.span[1] > this.span[0]) this.parts.nav.zoomTo(this.span);
  }

  cancel(): void {
    this.parts.ctx.stage.setOverlay({ brush: null });
    this.parts.status.say("brush", null);
  }
}

/** The minimap's frame, or one of its handles, follows the pointer. */
export class FrameDrag implements Drag {
  readonly cursor: string;
  private readonly before: Span;

  constructor(
    private readonly parts: DragParts,
    private readonly part: "start" | "end" | "frame",
    private readonly from: number,
    private readonly timeOf: (point: Point) => number,
  ) {
    this.cursor = part === "frame" ? "grabbing" : "ew-resize";
    this.before = parts.ctx.stage.view();
    parts.nav.begin();
  }

  move(point: Point): void {
    const time = this.timeOf(point);
    const [start, end] = this.before;
    const shift = time - this.from;
    if (this.part === "frame") this.parts.nav.zoomTo([start + shift, end + shift], 0);
    else
      this.parts.nav.zoomTo(
        ordered(this.part === "start" ? time : start, this.part === "end" ? time : end),
        0,
      );
  }

  end(): void {
    this.parts.nav.end();
  }

  cancel(): void {
    this.parts.nav.zoomTo(this.before, 0);
    this.parts.nav.end();
  }
}

/** Two fingers: the times under them stay under them. */
export class Pinch {
  private readonly before: Span;
  private readonly left: number;

  constructor(
    private readonly parts: DragParts,
    private readonly from: readonly [number, number],
  ) {
    this.before = parts.ctx.stage.view();
    this.left = parts.ctx.stage.xOf(this.before[0]);
    parts.nav.begin();
  }

  move(to: readonly [number, number]): void {
    const local = (pair: readonly [number, number]): [number, number] => [
      pair[0] - this.left,
      pair[1] - this.left,
    ];
    const width = axisWidth(this.parts.ctx);
    this.parts.nav.zoomTo(pinchedSpan(this.before, width, local(this.from), local(to)), 0);
  }

  end(): void {
    this.parts.nav.end();
  }
}

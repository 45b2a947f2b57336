/** Mouse, pen and touch input on the stage. */

import {
  type RowSelection,
  selectionOfRows,
  selectionSpan,
  windowSelection,
} from "../protocol/selection";
import type { Brief, StageHit, RowInfo, SelectionJson, Span } from "../protocol/source";
import { formatCount } from "../ui/formats";
import { MOTION } from "../ui/theme";
import type { TimelineContext } from "./context";
import type { FoldingController } from "./folding";
import type { GapSelection } from "./gaps";
import type { HoverController } from "./hover";
import {
  DRAG_PX,
  draggedSpan,
  EDGE_PX,
  edgeAt,
  nearestEdge,
  sortPair,
  pinchedSpan,
  SNAP_PX,
} from "./motion";
import type { Navigation } from "./navigation";
import type { RowsController } from "./rows";
import type { EventSelection } from "./selected_event";
import type { StatusLine } from "./status";
import { brushText } from "./text";

/** Zoom factor of a double-click on a cell without a single event to zoom to. */
const CELL_ZOOM = 8;

interface Press {
  event: PointerEvent;
  point: PointerPoint;
  hit: StageHit;
}

interface PointerParts {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  readonly rows: RowsController;
  readonly picking: EventSelection;
  readonly folding: FoldingController;
  readonly gapSelection: GapSelection;
  readonly hover: HoverController;
  readonly status: StatusLine;
}

export class PointerInput {
  /** Whether Space is held, which makes drags pan. */
  isSpaceDown = false;
  /** Pointer position relative to the stage; null if the pointer is outside. */
  lastPoint: PointerPoint | null = null;
  private press: Press | null = null;
  private drag: Drag | null = null;
  private pinch: Drag | null = null;
  private readonly fingers = new Map<number, PointerPoint>();

  constructor(private readonly app: PointerParts) {
    const { stage, signal } = app.ctx;
    const on = <K extends keyof HTMLElementEventMap>(
      type: K,
      listener: (event: HTMLElementEventMap[K]) => void,
    ): void => stage.el.addEventListener(type, listener, { signal });
    on("pointerdown", (event) => this.onDown(event));
    on("pointermove", (event) => this.onMove(event));
    on("pointerup", (event) => this.onUp(event));
    on("pointercancel", (event) => this.onLost(event));
    on("pointerleave", (event) => this.onLeave(event));
    on("dblclick", (event) => this.onDoubleClick(event));
    // The middle button scrolls the page in some browsers and pastes in others.
    on("mousedown", (event) => event.button === 1 && event.preventDefault());
  }

  /** Return the time that stays in place when keys zoom: under the pointer, or in the middle. */
  focusTime(): number {
    const [start, end] = this.app.ctx.stage.view();
    const time = this.lastPoint === null ? Number.NaN : this.app.ctx.stage.timeAt(this.lastPoint.x);
    return time >= start && time <= end ? time : (start + end) / 2;
  }

  /** Cancel the current drag. Return false if there is none. */
  cancel(): boolean {
    if (this.drag === null) return false;
    this.drag.cancel();
    this.finish();
    return true;
  }

  private point(event: MouseEvent): PointerPoint {
    const box = this.app.ctx.stage.el.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, alt: event.altKey };
  }

  private onDown(event: PointerEvent): void {
    const { ctx, hover } = this.app;
    if (event.button !== 0 && event.button !== 1) return;
    ctx.focus();
    const point = this.point(event);
    hover.leave();
    try {
      ctx.stage.el.setPointerCapture(event.pointerId);
    } catch {
      // The pointer has already been released.
    }
    const isTouch = event.pointerType === "touch";
    if (isTouch) this.fingers.set(event.pointerId, point);
    if (isTouch && this.fingers.size === 2) this.beginPinch();
    else this.press = { event, point, hit: ctx.stage.hitTest(point.x, point.y) };
  }

  private beginPinch(): void {
    this.cancel();
    this.press = null;
    const from = this.fingerPositions();
    this.pinch = viewDrag(this.app, "", (before) =>
      pinchedSpan(before, this.app.ctx.axisWidth, from, this.fingerPositions()),
    );
  }

  private onMove(event: PointerEvent): void {
    const point = this.point(event);
    this.lastPoint = point;
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, point);
    if (this.pinch !== null) {
      if (this.fingers.size === 2) this.pinch.move(point);
      return;
    }
    const { press } = this;
    if (press?.event.pointerId !== event.pointerId) {
      this.app.hover.move(point);
      this.app.ctx.stage.el.style.cursor = this.cursorAt(point, event.shiftKey);
      return;
    }
    if (this.drag === null) {
      const distancePx = Math.hypot(point.x - press.point.x, point.y - press.point.y);
      if (distancePx < DRAG_PX) return;
      this.drag = this.begin(press);
      if (this.drag === null) return;
      this.app.ctx.stage.el.style.cursor = this.drag.cursor;
    }
    this.drag.move(point);
  }

  private onUp(event: PointerEvent): void {
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
    if (press?.event.pointerId !== event.pointerId) return;
    if (drag !== null) {
      drag.move(this.point(event));
      drag.end();
    } else if (press.event.button === 0) {
      this.onClick(press.hit, event);
    }
    this.finish();
  }

  private onLost(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    this.pinch?.end();
    this.pinch = null;
    this.cancel();
    this.press = null;
  }

  private finish(): void {
    this.drag = null;
    this.press = null;
    this.app.ctx.stage.el.style.cursor = "";
  }

  private onLeave(event: PointerEvent): void {
    const { relatedTarget: over } = event;
    const isOnPin = over instanceof Element && over.closest(".hta-pin") !== null;
    if (this.press !== null || isOnPin) return;
    this.lastPoint = null;
    this.app.hover.leave();
  }

  private fingerPositions(): [number, number] {
    const { stage } = this.app.ctx;
    const left = stage.xOf(stage.view()[0]);
    const [first, second] = [...this.fingers.values()];
    return [first!.x - left, second!.x - left];
  }

  /** Return the drag that a press becomes when it moves. */
  private begin(press: Press): Drag | null {
    const { app } = this;
    const { hit, point, event } = press;
    const { stage } = app.ctx;
    if (hit.region === "minimap") return this.beginMinimapDrag(press);
    const axis = hit.region === "axis" || hit.region === "strip";
    const view = stage.view();
    const timeInView = (position: PointerPoint): number =>
      Math.min(Math.max(stage.timeAt(position.x), view[0]), view[1]);
    const isTouch = event.pointerType === "touch";
    if (this.isSpaceDown || event.shiftKey || (isTouch && !axis)) return panDrag(app, point);
    if (axis) return zoomDrag(app, timeInView(point), timeInView);
    if (hit.region !== "lanes") return null;
    if (event.button === 1) return zoomDrag(app, snapTime(app.ctx, point), timeInView);
    return this.edgeDragAt(point, hit) ?? selectDrag(app, point);
  }

  private beginMinimapDrag(press: Press): Drag {
    const timeOf = (point: PointerPoint): number => this.minimapTime(point.x, press.point.y);
    const from = press.hit.time;
    const part = this.framePartAt(press.point);
    if (part === null) return zoomDrag(this.app, from, timeOf);
    return frameDrag(this.app, part, from, timeOf);
  }

  /** Return the time under the pointer in the minimap, clipped to the minimap's ends. */
  private minimapTime(x: number, y: number): number {
    const { stage } = this.app.ctx;
    const [start, end] = stage.view();
    const [left, right] = [stage.xOf(start), stage.xOf(end) - 1];
    return stage.hitTest(Math.min(Math.max(x, left), right), y).time;
  }

  /** Return which part of the minimap's frame is at a point; null if none is or all is in view. */
  private framePartAt(point: PointerPoint): "start" | "end" | "frame" | null {
    const { stage, scene } = this.app.ctx;
    const [start, end] = stage.view();
    const time = this.minimapTime(point.x, point.y);
    const left = this.minimapTime(0, point.y);
    const right = this.minimapTime(Number.MAX_SAFE_INTEGER, point.y);
    const tolerance = ((right - left) / this.app.ctx.axisWidth) * (EDGE_PX + 1);
    const edge = edgeAt(time, start, end, tolerance);
    if (edge !== null) return edge;
    const isWholeJob = start <= scene.range[0] && end >= scene.range[1];
    return !isWholeJob && time > start && time < end ? "frame" : null;
  }

  private edgeDragAt(point: PointerPoint, hit: StageHit): Drag | null {
    const { ctx, picking } = this.app;
    const selection = picking.window;
    const span = selectionSpan(selection, ctx.scene);
    if (selection === null || span === null || hit.row === null) return null;
    if (selection.ranks !== null && !selection.ranks.includes(hit.row.rank)) return null;
    const edge = edgeAt(point.x, ctx.stage.xOf(span[0]), ctx.stage.xOf(span[1]));
    if (edge === null) return null;
    return edgeDrag(this.app, selection, span[edge === "start" ? 1 : 0]);
  }

  private onClick(hit: StageHit, event: MouseEvent): void {
    const { picking, rows, ctx } = this.app;
    if (hit.region === "gutter") {
      this.onGutterClick(hit);
      return;
    }
    if (hit.region === "minimap") {
      if (this.framePartAt(this.point(event)) === null) this.moveViewTo(hit.time);
      return;
    }
    const add = event.ctrlKey || event.metaKey;
    // Replies to earlier keys and clicks must not replace this selection.
    if (!add) ctx.requests.cancel();
    if (hit.arrival) {
      const { rank, id } = hit.arrival;
      if (rank < 0) return;
      picking.pick({ rank, table: "events", id }, null);
      rows.showRank(rank);
      return;
    }
    if (hit.region === "lanes") this.onLaneClick(hit, add);
  }

  private onLaneClick(hit: StageHit, add: boolean): void {
    const { picking, ctx } = this.app;
    const brief = hit.slice === null ? null : picking.briefOf(hit.slice);
    if (brief !== null) {
      ctx.requests.run(() => this.select(brief, add));
    } else if (hit.cell !== null && hit.cell.count > 0) {
      this.onCellClick(hit.lane, hit.cell, add);
    } else if (hit.late) {
      // The dotted line ends at the start of the late kernel.
      const start = hit.late.start + hit.late.dur;
      this.onCellClick(hit.lane, { start, end: start + 1, count: 1 }, add);
    } else if (!add) {
      this.onEmptyClick(hit);
    }
  }

  private onGutterClick({ row, badge, stack }: StageHit): void {
    const { rows, folding } = this.app;
    if (row === null || (badge === true && folding.toggleGroup(row.rank))) return;
    if (row.track === null) rows.toggle(row.rank);
    else if (stack === true) rows.toggleStacks(row);
    else if (row.thinLanes !== undefined || rows.keepEmptyLanes.value) rows.toggleEmptyLanes();
  }

  /** Center the view on `time`, as far as the job extends. */
  private moveViewTo(time: number): void {
    const { nav, ctx } = this.app;
    const [start, end] = nav.view();
    const [first, last] = ctx.scene.range;
    const length = end - start;
    const from = Math.max(Math.min(time - length / 2, last - length), first);
    nav.zoomTo([from, from + length]);
  }

  private onEmptyClick({ lane, time }: StageHit): void {
    const { picking, gapSelection, ctx } = this.app;
    const rank = lane === null ? undefined : ctx.lanes.locate(lane)?.rank.rank;
    if (lane === null || rank === undefined || !gapSelection.isDevice(lane)) {
      picking.clearOwnSelection();
      return;
    }
    ctx.requests.ask(
      (signal) => gapSelection.gapsAt(rank, lane, time, signal),
      (reply) => gapSelection.select(rank, lane, reply) || picking.clearOwnSelection(),
      this.reportFailure,
    );
  }

  private onCellClick(
    lane: number | null,
    cell: Pick<NonNullable<StageHit["cell"]>, "start" | "end" | "count">,
    add: boolean,
  ): void {
    if (lane === null) return;
    const { ctx, status } = this.app;
    const { start, end, count } = cell;
    ctx.requests.ask(
      (signal) => ctx.source.ask("cell", { lane, start, end }, signal),
      ({ reply: { longest } }) => {
        if (longest === null) return;
        this.select(longest, add);
        if (count > 1)
          status.flashMessage([`The longest of ${formatCount(count)} events in this pixel.`], 2500);
      },
      this.reportFailure,
    );
  }

  private select(brief: Brief, add: boolean): void {
    const { picking } = this.app;
    if (add) picking.toggleEvent(brief);
    else picking.pick(brief, brief);
  }

  private readonly reportFailure = (error: unknown): void =>
    this.app.ctx.fail("The event cannot be found", error);

  private onDoubleClick(event: MouseEvent): void {
    const { picking, nav, ctx } = this.app;
    const point = this.point(event);
    const hit = ctx.stage.hitTest(point.x, point.y);
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

  private cursorAt(point: PointerPoint, shift: boolean): string {
    const hit = this.app.ctx.stage.hitTest(point.x, point.y);
    if (hit.region === "gutter") return hit.row?.track === null ? "pointer" : "";
    if (hit.region === "minimap") {
      const part = this.framePartAt(point);
      if (part === "frame") return "grab";
      return part === null ? "crosshair" : "ew-resize";
    }
    if (hit.arrival) return hit.arrival.rank < 0 ? "" : "pointer";
    if (hit.region === "axis" || hit.region === "strip") return "col-resize";
    if (hit.region !== "lanes") return "";
    if (this.isSpaceDown || shift) return "grab";
    if (this.edgeDragAt(point, hit) !== null) return "ew-resize";
    const isOnMark = hit.slice !== null || hit.late || (hit.cell !== null && hit.cell.count > 0);
    return isOnMark ? "pointer" : "";
  }
}

// Drags. Coordinates are in CSS px relative to the stage.

interface PointerPoint {
  x: number;
  y: number;
  /** Whether Alt is held, which prevents snapping to edges. */
  alt: boolean;
}

interface Drag {
  readonly cursor: string;
  move(point: PointerPoint): void;
  end(): void;
  cancel(): void;
}

type DragParts = Pick<PointerParts, "ctx" | "nav" | "picking" | "status">;

/** Return the time under a point, or of a nearby event edge in the same lane. */
function snapTime(ctx: TimelineContext, point: PointerPoint): number {
  const { stage } = ctx;
  const [start, end] = stage.view();
  const time = Math.min(Math.max(stage.timeAt(point.x), start), end);
  if (point.alt) return time;
  const lane = stage.hitTest(point.x, point.y).lane;
  if (lane === null) return time;
  const tolerance = (SNAP_PX * (end - start)) / ctx.axisWidth;
  return nearestEdge(time, stage.slices(lane), tolerance) ?? time;
}

/** Return the rows between two rows, inclusive, in screen order. */
function rowsBetween(ctx: TimelineContext, from: RowInfo | null, to: RowInfo | null): RowInfo[] {
  const rows = ctx.stage.rows();
  const indexOfRow = (row: RowInfo | null): number =>
    rows.findIndex(({ rank, track }) => rank === row?.rank && track?.key === row.track?.key);
  const [a, b] = [indexOfRow(from), indexOfRow(to)];
  if (a < 0 && b < 0) return [];
  const [low, high] = sortPair(a < 0 ? b : a, b < 0 ? a : b);
  return rows.slice(low, high + 1);
}

/** Return the row at `y`; if the pointer is outside the rows, the nearest row. */
function rowAt(ctx: TimelineContext, x: number, y: number): RowInfo | null {
  const height = ctx.stage.el.clientHeight;
  const inside = Math.min(Math.max(y, 0), height - 1);
  const hit = ctx.stage.hitTest(x, inside);
  if (hit.row !== null) return hit.row;
  for (let step = 4; step < height; step += 4) {
    const below = ctx.stage.hitTest(x, Math.min(inside + step, height - 1)).row;
    // Above the rows, this finds the first row; below them, the last one.
    if (below !== null) return below;
    const above = ctx.stage.hitTest(x, Math.max(inside - step, 0)).row;
    if (above !== null) return above;
  }
  return null;
}

/** A drag from one time to another, drawn as a brush. */
interface BrushDragSpec {
  cursor: string;
  from: number;
  timeOf(point: PointerPoint): number;
  /** Return the rows covered by the brush when the pointer is at a point. */
  rowsTo(point: PointerPoint): RowSelection;
  /** Text after the brush's length. If undefined, a ruler also shows the length. */
  hint?: string;
  onDone(span: Span): unknown;
}

function brushDrag({ ctx, status }: DragParts, brush: BrushDragSpec): Drag {
  let span: Span = [brush.from, brush.from];
  const clear = (): void => {
    ctx.stage.setOverlay({ brush: null, ruler: null });
    status.setMessage("brush", null);
  };
  return {
    cursor: brush.cursor,
    move(point) {
      const { hint } = brush;
      span = sortPair(brush.from, brush.timeOf(point));
      const [start, end] = span;
      const ruler = hint === undefined ? { start, end, y: point.y } : null;
      ctx.stage.setOverlay({ brush: { start, end, ...brush.rowsTo(point) }, ruler });
      status.setMessage("brush", [...brushText(span), ...(hint === undefined ? [] : [hint])]);
    },
    end() {
      clear();
      brush.onDone(span);
    },
    cancel: clear,
  };
}

function selectDrag(parts: DragParts, start: PointerPoint): Drag {
  const { ctx, picking } = parts;
  const fromRow = rowAt(ctx, start.x, start.y);
  let rows: RowInfo[] = [];
  return brushDrag(parts, {
    cursor: "crosshair",
    from: snapTime(ctx, start),
    timeOf: (point) => snapTime(ctx, point),
    rowsTo: (point) => {
      rows = rowsBetween(ctx, fromRow, rowAt(ctx, point.x, point.y));
      return selectionOfRows(rows, ctx.scene);
    },
    onDone: (span) => span[1] > span[0] && picking.selectRows(span, rows),
  });
}

/** Drag an edge of the selected window. The other edge stays at `fixed`. */
function edgeDrag(parts: DragParts, selection: SelectionJson, fixed: number): Drag {
  const { ranks, tracks } = selection;
  return brushDrag(parts, {
    cursor: "ew-resize",
    from: fixed,
    timeOf: (point) => snapTime(parts.ctx, point),
    rowsTo: () => ({ ranks, tracks }),
    onDone: (span) => {
      const { start_ns, end_ns } = windowSelection(span, { ranks, tracks });
      parts.picking.setSelection({ ...selection, start_ns, end_ns });
    },
  });
}

/** Drag along the axis or in the minimap to zoom to a range. */
function zoomDrag(parts: DragParts, from: number, timeOf: BrushDragSpec["timeOf"]): Drag {
  return brushDrag(parts, {
    cursor: "col-resize",
    from,
    timeOf,
    rowsTo: () => ({ ranks: null, tracks: null }),
    hint: ": release to zoom",
    onDone: (span) => span[1] > span[0] && parts.nav.zoomTo(span),
  });
}

/** A gesture that moves the view. Canceling it moves the view back. */
function viewDrag(
  { ctx, nav }: DragParts,
  cursor: string,
  viewAt: (before: Span, point: PointerPoint) => Span,
): Drag {
  const before = ctx.stage.view();
  nav.begin();
  return {
    cursor,
    move: (point) => nav.zoomTo(viewAt(before, point), 0),
    end: () => nav.end(),
    cancel() {
      nav.zoomTo(before, 0);
      nav.end();
    },
  };
}

function panDrag(parts: DragParts, start: PointerPoint): Drag {
  const { ctx } = parts;
  let { y } = start;
  return viewDrag(parts, "grabbing", (before, point) => {
    ctx.stage.scrollBy(y - point.y);
    y = point.y;
    return draggedSpan(before, point.x - start.x, ctx.axisWidth);
  });
}

/** Drag the minimap's frame, or one of its handles. */
function frameDrag(
  parts: DragParts,
  part: "start" | "end" | "frame",
  from: number,
  timeOf: BrushDragSpec["timeOf"],
): Drag {
  return viewDrag(parts, part === "frame" ? "grabbing" : "ew-resize", ([start, end], point) => {
    const time = timeOf(point);
    if (part === "start") return sortPair(time, end);
    if (part === "end") return sortPair(start, time);
    return [start + time - from, end + time - from];
  });
}

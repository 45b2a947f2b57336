/** The drawn part of a timeline: size, rows, camera, data and painting. */

import type { Minimap } from "../protocol/decode";
import type {
  Classes,
  ClassParts,
  FrameStats,
  Hit,
  Kind,
  Overlay,
  RowInfo,
  RowState,
  Scene,
  Slice,
  Source,
  Span,
  SvgCaption,
  ThemeName,
} from "../protocol/source";
import { InSight, sizeOf, watchSize } from "../ui/host";
import { react } from "../ui/react";
import { type Theme, THEMES } from "../ui/theme";
import { Camera, type Geometry, nsPerDevicePx, timeAtX, xAtTime } from "./camera";
import { Scrollbar } from "./gutter";
import { minimapPicture } from "./head";
import { hitAt, slicesIn } from "./hit";
import { isCoarse } from "./lanes";
import { NO_OVERLAY } from "./overlay";
import { EVERYTHING, type Frame, FrameLoop, Painter, type Part } from "./painter";
import { classPaints, paintsOf, partsAt } from "./paints";
import { placesOf, RowsView } from "./rows_view";
import { loadWhole, svgOf, type Whole } from "./svg";
import { type DataPart, StageData } from "./tile_loader";
import { isEmptyIn } from "./tile_store";

/** Time without a change of the view before empty lanes shrink: not during a gesture. */
const REST_MS = 250;

/**
 * The drawn part: minimap, axis, steps, gutter, lanes, margin. It owns its canvases, the tile
 * store and scrolling; it does not depend on toolbars, panels, keys or shared state.
 */
export class Stage {
  readonly el = document.createElement("div");
  private readonly painter = new Painter();
  private camera: Camera;
  private readonly ended = new AbortController();
  private readonly scrollbar: Scrollbar;
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly viewListeners: ((view: Span, done: boolean) => void)[] = [];
  private readonly frameListeners: ((stats: FrameStats) => void)[] = [];
  private readonly rowListeners: (() => void)[] = [];
  private resting = 0;
  private data: StageData;
  private theme: Theme;
  private byName = false;
  private classes: Classes | null = null;
  private parts: ClassParts | null = null;
  private overlay = NO_OVERLAY;
  private readonly paints = kept(
    (theme: Theme, { kinds }: Scene, classes: Classes | null, dimmed: ReadonlySet<Kind>) =>
      classes === null ? paintsOf(theme, kinds, dimmed) : classPaints(theme, classes),
  );
  private readonly minimap = kept(minimapOf);
  private readonly typicalStep = kept(stepLength);
  private geometry: Geometry;
  private readonly rowsView: RowsView;
  private readonly loop = new FrameLoop((now) => this.draw(now));
  /** The view last reported to the listeners as final. */
  private arrivedAt: Span | null = null;
  /** Whether the geometry is that of this scene. */
  private measured = false;
  private slim = false;
  /** Requests and drawing pause while the stage is not visible. */
  private readonly inSight: InSight;
  private blank = true;

  constructor(
    public scene: Scene,
    private readonly source: Source,
    theme: ThemeName = "light",
  ) {
    this.camera = new Camera(scene.range);
    this.data = this.openData();
    this.theme = THEMES[theme];
    this.geometry = placesOf(scene, 0, 0, 1);
    this.rowsView = new RowsView(scene, this.geometry);
    const { signal } = this.ended;
    this.scrollbar = new Scrollbar((scroll) => this.scrollTo(scroll), signal);
    this.scrollbar.theme(this.theme);
    this.el.className = "hta-stage";
    Object.assign(this.el.style, {
      position: "relative",
      overflow: "hidden",
      width: "100%",
      height: "100%",
      background: this.theme.bg,
    });
    this.el.append(this.painter.base, this.painter.over, this.scrollbar.el);
    watchSize(this.el, () => this.resized(), signal);
    this.inSight = new InSight(this.el, () => this.seen(), signal);
    react(
      () => source.status,
      () => this.loop.touch("gutter", "margin"),
      signal,
    );
  }

  /** Replace the scene (another TraceSet in the same widget). */
  setScene(scene: Scene): void {
    this.data.destroy();
    this.scene = scene;
    this.data = this.openData();
    this.camera = new Camera(scene.range);
    this.arrivedAt = null;
    this.measured = false;
    this.measure();
  }

  setTheme(name: ThemeName): void {
    const theme = THEMES[name];
    if (this.theme === theme) return;
    this.theme = theme;
    this.el.style.background = theme.bg;
    this.scrollbar.theme(theme);
    this.loop.touch(...EVERYTHING);
  }

  setColor(color: "kind" | "name"): void {
    this.byName = color === "name";
    this.loop.touch("lanes");
  }

  /**
   * Colour events by the classes in the tiles; null: by kind or name. Until the classes are
   * `known`, all events are drawn with the last class. `parts`: shares of the classes in the
   * minimap; null: the minimap shows kinds.
   */
  setClasses(classes: Classes | null, known: boolean, parts: ClassParts | null): void {
    this.classes = classes;
    this.parts = parts;
    this.data.store.classed = classes !== null && known;
    this.request();
    this.loop.touch("head", "lanes");
  }

  /** Leave the width to the lanes: narrow names, no totals on the right. */
  setSlim(slim: boolean): void {
    if (slim === this.slim) return;
    this.slim = slim;
    this.measured = false;
    this.measure();
  }

  setRows(rows: RowState): void {
    this.rowsView.state = rows;
    this.relayout();
  }

  rows(): readonly RowInfo[] {
    return this.rowsView.infos();
  }

  /** Called when rows have changed their height: other lanes are empty in view. */
  onRows(listener: () => void): void {
    this.rowListeners.push(listener);
  }

  /** The view as shown now (it may be on its way to the view that was set). */
  view(): Span {
    return this.camera.view;
  }

  /** Show a window; `animate` in ms, 0 for none. Clamped to the job and its margin. */
  setView(view: Span, animate = 0): void {
    // While hidden, no frame would end the movement.
    const jumps = this.calm.matches || this.inSight.isOut;
    this.moved(this.camera.go(view, jumps ? 0 : animate, performance.now()));
  }

  /** Called on every change of the shown view. */
  onView(listener: (view: Span, done: boolean) => void): void {
    this.viewListeners.push(listener);
  }

  zoomBy(factor: number, atTime: number, animate = 0): void {
    const length = this.calm.matches ? 0 : animate;
    this.moved(this.camera.zoom(factor, atTime, length, performance.now()));
  }

  panBy(fraction: number): void {
    const [start, end] = this.camera.target;
    const by = (end - start) * fraction;
    this.setView([start + by, end + by]);
  }

  setOverlay(overlay: Partial<Overlay>): void {
    const before = this.overlay;
    const now = { ...before, ...overlay };
    this.overlay = now;
    if (now.search !== before.search || now.selection !== before.selection) this.request();
    if (now.dimmed !== before.dimmed) this.loop.touch("lanes");
    if (now.hits !== before.hits) this.loop.touch("gutter");
    this.loop.touch("overlay");
  }

  scrollBy(pixels: number): boolean {
    return this.scrollTo(this.rowsView.scroll + pixels);
  }

  /** Scroll a lane's row into view without opening rows. False if it is folded or filtered out. */
  reveal(lane: number): boolean {
    const scroll = this.rowsView.scrollFor(lane);
    if (scroll === null) return false;
    this.scrollTo(scroll);
    return true;
  }

  /** Coordinates relative to `el`, CSS pixels. */
  hit(x: number, y: number): Hit {
    return hitAt(this.frame(), x, y);
  }

  timeAt(x: number): number {
    return timeAtX(this.geometry, this.camera.view, x);
  }

  xOf(time: number): number {
    return xAtTime(this.geometry, this.camera.view, time);
  }

  /** Slices of a lane that are loaded and overlap the view, by start. */
  slices(lane: number): Slice[] {
    const window = this.data.windows.get(lane);
    return window === null ? [] : slicesIn(this.frame(), window);
  }

  /**
   * CSS pixel height of all rows, stretched into `most` but no higher. Rows hidden by a choice of
   * ranks count.
   */
  contentHeight(most?: number): number {
    const { rowsTop } = this.geometry;
    if (most === undefined) return rowsTop + this.rowsView.naturalHeight;
    // Includes the line below the last row.
    return Math.min(most, rowsTop + this.rowsView.heightIn(most - rowsTop) + 1);
  }

  /** Called with the figures of each frame. */
  onFrame(listener: (stats: FrameStats) => void): void {
    this.frameListeners.push(listener);
  }

  /**
   * The view as an SVG picture in the light theme: all rows, hidden ones included, with texts and a
   * scale around them.
   */
  async toSvg(caption: SvgCaption): Promise<string> {
    const whole = await loadWhole(this.source, this.frame(), this.data.store.classed);
    return svgOf(this.frame(THEMES.light, whole), caption);
  }

  /** Repaint after a change that no setter covers. */
  invalidate(): void {
    this.measure();
    this.data.retry();
    this.loop.touch(...EVERYTHING);
  }

  destroy(): void {
    this.ended.abort();
    clearTimeout(this.resting);
    this.loop.stop();
    this.data.destroy();
    this.viewListeners.length = 0;
    this.frameListeners.length = 0;
    this.el.remove();
  }

  private openData(): StageData {
    return new StageData(this.scene, this.source, (part) => this.arrived(part));
  }

  private arrived(part: DataPart): void {
    if (part === "tiles") {
      if (this.data.windows.pending) this.loop.touch("lanes");
      this.rest();
      return;
    }
    this.loop.touch(...SHOWS[part]);
    // Other requests wait for these replies.
    if (part === "stats" || part === "lateness") this.request();
  }

  /** Once the view rests and its tiles are loaded, shrink the lanes that are empty in it. */
  private rest(): void {
    clearTimeout(this.resting);
    this.resting = window.setTimeout(() => {
      const { view } = this.camera;
      const { scene, geometry, overlay, data } = this;
      if (geometry.lanesWidth <= 0) return;
      const sight = { view, resolution: nsPerDevicePx(geometry, view), range: scene.range };
      const kept = (overlay.hover ?? overlay.selected)?.lane ?? null;
      const changed = this.rowsView.shrink(
        (lane, rank) =>
          isCoarse(rank, sight.resolution) ? false : isEmptyIn(data.store, lane, sight),
        kept,
      );
      if (!changed) return;
      this.placed();
      for (const listener of this.rowListeners) listener();
    }, REST_MS);
  }

  private resized(): void {
    const before = this.geometry;
    this.measure();
    // Draw immediately: a resized canvas is blank.
    if (this.geometry !== before) this.draw(performance.now());
  }

  private measure(): void {
    const size = sizeOf(this.el);
    // A hidden output has no size: keep the drawing until it is shown again.
    if (size === null) return;
    const { width, height, dpr } = size;
    const now = this.geometry;
    const same = width === now.width && height === now.height && dpr === now.dpr;
    if (same && this.measured) return;
    this.measured = true;
    this.geometry = placesOf(this.scene, width, height, dpr, this.slim);
    this.painter.resize(this.geometry);
    this.blank = true;
    this.relayout();
    this.loop.touch(...EVERYTHING);
  }

  private relayout(): void {
    this.rowsView.update(this.scene, this.geometry);
    this.placed();
  }

  private scrollTo(scroll: number): boolean {
    if (!this.rowsView.scrollTo(scroll)) return false;
    this.placed();
    return true;
  }

  /** Update after rows have moved, appeared or disappeared. */
  private placed(): void {
    this.scrollbar.update(this.geometry, this.rowsView.layout.height, this.rowsView.scroll);
    this.request();
    this.rest();
    this.loop.touch("gutter", "lanes", "margin", "overlay");
  }

  private moved(changed: boolean): void {
    if (changed) {
      this.request();
      this.notifyView(true);
      this.loop.touch("head", "lanes", "overlay");
    } else if (this.camera.moving) {
      this.request();
      this.loop.schedule();
    }
  }

  private seen(): void {
    if (!this.inSight.now) {
      this.data.rest();
      return;
    }
    this.request();
    this.loop.schedule();
  }

  private request(): void {
    const { lanesWidth, lateRow, dpr } = this.geometry;
    if (lanesWidth <= 0 || !this.inSight.now) return;
    const view = this.camera.view;
    const { lanes, nearby, over } = this.rowsView;
    const resolution = nsPerDevicePx(this.geometry, view);
    const sight = { view, resolution, lanes, nearby, range: this.scene.range };
    const bins = Math.round(lanesWidth * dpr);
    const ribbons = lateRow ? { bins, ranks: this.rowsView.ribbons } : null;
    this.data.show(sight, over, this.camera.target, lanesWidth, this.overlay, ribbons);
  }

  private notifyView(done: boolean): void {
    const { view } = this.camera;
    this.rest();
    if (done && this.arrivedAt === view) return;
    this.arrivedAt = done ? view : null;
    for (const listener of this.viewListeners) listener(view, done);
  }

  private draw(now: number): void {
    // A blank canvas is black, also in prints and screenshots: draw at least once.
    if (!this.inSight.now && !this.blank) return;
    if (this.camera.step(now)) {
      this.loop.touch("head", "lanes", "overlay");
      this.request();
      this.notifyView(!this.camera.moving);
    }
    if (this.geometry.lanesWidth > 0) {
      const dirty = this.loop.take();
      const { windows } = this.data;
      if (dirty.has("lanes") || dirty.has("head")) {
        const { view } = this.camera;
        const { lanes, over } = this.rowsView;
        const drawn = this.data.lateness.value === null ? lanes : [...lanes, ...over];
        windows.update(drawn, view, nsPerDevicePx(this.geometry, view), this.scene.range);
      }
      const lanesDrawn = this.painter.paint(this.frame(), dirty);
      this.blank = false;
      const stats = { lanes: lanesDrawn, pending: windows.pending };
      for (const listener of this.frameListeners) listener(stats);
    }
    if (this.camera.moving) this.loop.schedule();
  }

  /** Input of a painter; `whole` overrides the visible part. */
  private frame(theme = this.theme, whole: Partial<Whole> = {}): Frame {
    const { scene, data, camera, rowsView, geometry, classes, overlay, byName } = this;
    const { view = camera.view } = whole;
    const stats = data.stats.value;
    const isCurrent =
      stats === null ||
      this.source.status === "live" ||
      (stats.stats.start === Math.floor(view[0]) && stats.stats.end === Math.ceil(view[1]));
    return {
      geometry,
      theme,
      paints: this.paints(theme, scene, classes, overlay.dimmed),
      classes,
      scene,
      job: camera.job,
      view,
      layout: rowsView.layout,
      sight: rowsView.sight,
      windows: data.windows,
      stats,
      isStale: !isCurrent,
      lateness: data.lateness.value,
      ribbon: data.ribbon.value,
      minimap: this.minimap(data.minimap.value, theme, geometry, classes, this.parts),
      byName,
      // In views shorter than a step, host calls are coloured by name.
      hasHues: byName || view[1] - view[0] < this.typicalStep(scene),
      overlay,
      searched: data.searched.value,
      chosen: data.chosen.value,
      ...whole,
    };
  }
}

/** Parts of the stage that show a reply. */
const SHOWS: Readonly<Record<Exclude<DataPart, "tiles">, readonly Part[]>> = {
  stats: ["gutter", "margin"],
  lateness: ["gutter", "lanes", "margin"],
  minimap: ["head"],
  ribbon: ["head", "lanes"],
  marks: ["overlay"],
};

/** `make`, whose last result is kept until its arguments change. */
function kept<Args extends unknown[], T>(make: (...args: Args) => T): (...args: Args) => T {
  let last: { args: Args; value: T } | null = null;
  return (...args) => {
    if (last?.args.every((one, at) => one === args[at]) !== true) {
      last = { args, value: make(...args) };
    }
    return last.value;
  };
}

function minimapOf(
  minimap: Minimap | null,
  theme: Theme,
  { lanesWidth, minimapHeight, dpr }: Geometry,
  classes: Classes | null,
  parts: ClassParts | null,
): HTMLCanvasElement | null {
  if (minimap === null || lanesWidth <= 0) return null;
  const byClass = classes && parts && partsAt(parts, classes.looks(theme.name), theme);
  const [across, down] = [Math.round(lanesWidth * dpr), Math.round(minimapHeight * dpr)];
  return minimapPicture(minimap, theme, across, down, byClass);
}

/** The median step; without steps the whole job. */
function stepLength({ steps, range }: Scene): number {
  const lengths = steps.map(({ dur }) => dur).sort((a, b) => a - b);
  return lengths[lengths.length >> 1] ?? range[1] - range[0];
}

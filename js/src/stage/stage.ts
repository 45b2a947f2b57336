/** The drawn part of a timeline: size, rows, camera, data and painting. */

import type { Minimap } from "../protocol/decode";
import type {
  ClassPalette,
  ClassShares,
  FrameStats,
  StageHit,
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
  TimelineColor,
} from "../protocol/source";
import { ElementVisibility, sizeOf, watchSize } from "../ui/host";
import { onSignal } from "../ui/react";
import { type Theme, THEMES } from "../ui/theme";
import { Camera, type StageGeometry, nsPerDevicePx, timeAtX, xAtTime } from "./camera";
import { Scrollbar } from "./gutter";
import type { Ruler, StageFrame } from "./frame";
import { drawMinimapImage } from "./head";
import { hitTest, slicesInWindow } from "./hit";
import { isCoarse } from "./lanes";
import { NO_OVERLAY } from "./overlay";
import { ALL_REGIONS, FrameLoop, Painter, type StageRegion } from "./painter";
import { rowsClipPath } from "./paired_rows";
import { classPaints, kindPaints, classSharesAt } from "./paints";
import { stageGeometry, RowsView } from "./rows_view";
import { loadFullPicture, stageSvg, type FullPicture } from "./svg";
import { type DataPart, StageData } from "./tile_loader";
import { isLaneEmpty } from "./tile_store";

/** Empty lanes shrink after the view has not changed for this long, and so not during gestures. */
const IDLE_AFTER_MS = 250;

/** Minimap, axis, steps, gutter, lanes and margin; not toolbars, panels, keys or shared state. */
export class Stage {
  readonly el = document.createElement("div");
  private readonly painter = new Painter();
  private camera: Camera;
  private readonly aborter = new AbortController();
  private readonly scrollbar: Scrollbar;
  private readonly reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly viewListeners: ((view: Span, done: boolean) => void)[] = [];
  private readonly frameListeners: ((stats: FrameStats) => void)[] = [];
  private readonly rowListeners: (() => void)[] = [];
  private restTimer = 0;
  private data: StageData;
  private theme: Theme;
  private byName = false;
  private classes: ClassPalette | null = null;
  private classShares: ClassShares | null = null;
  private overlay = NO_OVERLAY;
  private readonly paints = memoizeLast(
    (theme: Theme, { kinds }: Scene, classes: ClassPalette | null, dimmed: ReadonlySet<Kind>) =>
      classes === null ? kindPaints(theme, kinds, dimmed) : classPaints(theme, classes),
  );
  private readonly minimap = memoizeLast(renderMinimap);
  geometry: StageGeometry;
  private readonly rowsView: RowsView;
  private readonly loop = new FrameLoop((now) => this.draw(now));
  /** The last view that was reported to the listeners as final. */
  private reportedView: Span | null = null;
  /** Whether the geometry was computed for this scene. */
  private isMeasured = false;
  /** The stage whose rows are interleaved with this one's; see `Stage.pair`. */
  private paired: Stage | null = null;
  /** Requests and drawing pause while the stage is not visible. */
  private readonly visibility: ElementVisibility;
  private isBlank = true;

  constructor(
    public scene: Scene,
    private readonly source: Source,
    theme: ThemeName = "light",
  ) {
    this.camera = new Camera(scene.range);
    this.data = this.openData();
    this.theme = THEMES[theme];
    this.geometry = stageGeometry(scene, 0, 0, 1);
    this.rowsView = new RowsView(scene, this.geometry);
    const { signal } = this.aborter;
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
    this.el.append(this.painter.baseCanvas, this.painter.overlayCanvas, this.scrollbar.el);
    watchSize(this.el, () => this.onResize(), signal);
    this.visibility = new ElementVisibility(this.el, () => this.onVisibility(), signal);
    onSignal(
      () => source.status,
      () => this.loop.invalidate("gutter", "margin"),
      signal,
    );
  }

  /** Replace the scene when the widget gets another TraceSet. */
  setScene(scene: Scene): void {
    const { classed } = this.data.store;
    this.data.destroy();
    this.scene = scene;
    this.data = this.openData();
    this.data.store.classed = classed;
    this.camera = new Camera(scene.range);
    this.reportedView = null;
    this.isMeasured = false;
    this.measure();
  }

  setTheme(name: ThemeName): void {
    const theme = THEMES[name];
    if (this.theme === theme) return;
    this.theme = theme;
    this.el.style.background = theme.bg;
    this.scrollbar.theme(theme);
    this.loop.invalidate(...ALL_REGIONS);
  }

  setColor(color: TimelineColor): void {
    this.byName = color === "name";
    this.loop.invalidate("lanes");
  }

  /**
   * Color events by the classes in the tiles; null: by kind or name. While `isKnown` is false, all
   * events have the last class. `classShares`: class shares for the minimap; null: it shows kinds.
   */
  setClasses(
    classes: ClassPalette | null,
    isKnown: boolean,
    classShares: ClassShares | null,
  ): void {
    this.classes = classes;
    this.classShares = classShares;
    this.data.store.classed = classes !== null && isKnown;
    this.request();
    this.loop.invalidate("head", "lanes");
  }

  /**
   * Draw two stages in one place, rank by rank, the first behind the second. `partners` maps ranks
   * of the first stage to ranks of the second. Only the head of the first stage is visible.
   */
  static pair(
    stages: readonly [Stage, Stage],
    words: readonly [string, string],
    partners: ReadonlyMap<number, number>,
  ): void {
    stages.forEach((stage, index) => {
      const isBehind = index === 0;
      const other = stages[isBehind ? 1 : 0];
      stage.paired = other;
      stage.el.style.clipPath = "";
      stage.rowsView.pairing = { other: other.rowsView, isBehind, words, partners };
    });
    for (const stage of stages) stage.measureAgain();
  }

  /** Draw only the rows of this stage. */
  unpair(): void {
    if (this.paired === null) return;
    this.paired = null;
    this.rowsView.pairing = null;
    this.el.style.clipPath = "";
    this.measureAgain();
  }

  private measureAgain(): void {
    this.isMeasured = false;
    this.measure();
    for (const listener of this.rowListeners) listener();
  }

  /** The window that shows everything: the job's span, or a longer window if one was set. */
  get reach(): Span {
    return this.camera.reach;
  }

  set reach(reach: Span) {
    this.camera.reach = reach;
  }

  setRows(rows: RowState): void {
    this.rowsView.state = rows;
    this.relayout();
  }

  rows(): readonly RowInfo[] {
    return this.rowsView.rowInfos();
  }

  /** Return the top and bottom of a row and its partner on the paired stage, taken together. */
  extentOf({ top, height }: RowInfo): { top: number; bottom: number } {
    const bottom = top + height;
    const others = this.paired?.rows() ?? [];
    if (this.rowsView.pairing?.isBehind === true) {
      const below = others.find((row) => Math.abs(row.top - bottom) < 1);
      return { top, bottom: bottom + (below?.height ?? 0) };
    }
    const above = others.find((row) => Math.abs(row.top + row.height - top) < 1);
    return { top: above?.top ?? top, bottom };
  }

  /** Call `listener` when row heights change because other lanes are empty in view. */
  onRowsChange(listener: () => void): void {
    this.rowListeners.push(listener);
  }

  /** Return the view as it is currently drawn. */
  view(): Span {
    return this.camera.view;
  }

  /** Return the view that was set. During an animation, `view` differs from it. */
  target(): Span {
    return this.camera.target;
  }

  /** Move to a window in `durationMs` ms. It is clamped to the job and its margin. */
  setView(view: Span, durationMs = 0): void {
    const ms = this.animates ? durationMs : 0;
    this.onCameraMoved(this.camera.animateTo(view, ms, performance.now()));
  }

  /** Whether view changes are animated. A hidden stage gets no frames to end an animation. */
  private get animates(): boolean {
    return this.visibility.now && !this.reducedMotion.matches;
  }

  onView(listener: (view: Span, done: boolean) => void): void {
    this.viewListeners.push(listener);
  }

  zoomBy(factor: number, atTime: number, durationMs = 0): void {
    const ms = this.animates ? durationMs : 0;
    this.onCameraMoved(this.camera.zoom(factor, atTime, ms, performance.now()));
  }

  panBy(fraction: number): void {
    const [start, end] = this.camera.target;
    const distance = (end - start) * fraction;
    this.setView([start + distance, end + distance]);
  }

  setOverlay(overlay: Partial<Overlay>): void {
    const before = this.overlay;
    const now = { ...before, ...overlay };
    this.overlay = now;
    const requested = ["search", "selection", "figures"] as const;
    if (requested.some((part) => now[part] !== before[part])) this.request();
    if (now.dimmed !== before.dimmed) this.loop.invalidate("lanes");
    if (now.hits !== before.hits) this.loop.invalidate("gutter");
    this.loop.invalidate("overlay");
  }

  scrollBy(pixels: number): boolean {
    return this.scrollTo(this.rowsView.scroll + pixels);
  }

  /** Scroll a lane into view. Return false if its row is folded away or filtered out. */
  reveal(lane: number): boolean {
    const scroll = this.rowsView.scrollFor(lane);
    if (scroll === null) return false;
    this.scrollTo(scroll);
    return true;
  }

  /** Return what is at a point. Coordinates are CSS px relative to `el`. */
  hitTest(x: number, y: number): StageHit {
    return hitTest(this.frame(), x, y);
  }

  timeAt(x: number): number {
    return timeAtX(this.geometry, this.camera.view, x);
  }

  xOf(time: number): number {
    return xAtTime(this.geometry, this.camera.view, time);
  }

  /** Return the loaded slices of a lane that overlap the view, by start. */
  slices(lane: number): Slice[] {
    const window = this.data.windows.get(lane);
    return window === null ? [] : slicesInWindow(this.frame(), window);
  }

  /**
   * Return the height of all rows in CSS px. With `maxHeight`, rows are stretched up to that
   * height, and rows hidden by a filter or by the selected ranks are included.
   */
  contentHeight(maxHeight?: number): number {
    const { rowsTop } = this.geometry;
    if (maxHeight === undefined) return rowsTop + this.rowsView.naturalHeight;
    // Includes the line below the last row.
    return Math.min(maxHeight, rowsTop + this.rowsView.heightIn(maxHeight - rowsTop) + 1);
  }

  onFrame(listener: (stats: FrameStats) => void): void {
    this.frameListeners.push(listener);
  }

  /** Return the whole view as an SVG in the light theme: all rows with labels, and a time scale. */
  async toSvg(caption: SvgCaption): Promise<string> {
    const picture = await loadFullPicture(this.source, this.frame(), this.data.store.classed);
    return stageSvg(this.frame(THEMES.light, picture), caption);
  }

  /** Repaint after a change that is not covered by a setter. */
  invalidate(): void {
    this.measure();
    this.data.retry();
    this.loop.invalidate(...ALL_REGIONS);
  }

  destroy(): void {
    this.aborter.abort();
    clearTimeout(this.restTimer);
    this.loop.stop();
    this.data.destroy();
    this.viewListeners.length = 0;
    this.frameListeners.length = 0;
    this.el.remove();
  }

  private openData(): StageData {
    return new StageData(this.scene, this.source, (part) => this.onData(part));
  }

  private onData(part: DataPart): void {
    if (part === "tiles") {
      if (this.data.windows.pending) this.loop.invalidate("lanes");
      this.shrinkWhenIdle();
      return;
    }
    this.loop.invalidate(...REGIONS_OF_DATA[part]);
    // Other requests wait for these replies.
    if (part === "stats" || part === "lateness") this.request();
  }

  /** Shrink the lanes that are empty in the view, once the view rests and its tiles are loaded. */
  private shrinkWhenIdle(): void {
    clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => {
      const { view } = this.camera;
      const { scene, geometry, overlay, data } = this;
      if (geometry.lanesWidth <= 0) return;
      const viewport = { view, nsPerPx: nsPerDevicePx(geometry, view), range: scene.range };
      const fixedLane = (overlay.hover ?? overlay.selected)?.lane ?? null;
      const changed = this.rowsView.updateEmptyLanes(
        (lane, rank) =>
          isCoarse(rank, viewport.nsPerPx) ? false : isLaneEmpty(data.store, lane, viewport),
        fixedLane,
      );
      if (!changed) return;
      this.onRowsMoved();
      for (const listener of this.rowListeners) listener();
    }, IDLE_AFTER_MS);
  }

  private onResize(): void {
    const before = this.geometry;
    this.measure();
    // A resized canvas is blank, so draw immediately.
    if (this.geometry !== before) this.draw(performance.now());
  }

  private measure(): void {
    const size = sizeOf(this.el);
    // A hidden output has no size. The drawing is kept until the output is shown again.
    if (size === null) return;
    const { width, height, dpr } = size;
    const now = this.geometry;
    const isUnchanged = width === now.width && height === now.height && dpr === now.dpr;
    if (isUnchanged && this.isMeasured) return;
    this.isMeasured = true;
    const rulers = this.paired === null ? 1 : 2;
    const geometry = stageGeometry(this.scene, width, height, dpr, rulers);
    // Rows begin below the visible head.
    const { rowsTop, rowsHeight } =
      this.paired === null || this.rowsView.pairing?.isBehind === true
        ? geometry
        : stageGeometry(this.paired.scene, width, height, dpr, rulers);
    this.geometry = { ...geometry, rowsTop, rowsHeight };
    this.painter.resize(this.geometry);
    this.isBlank = true;
    this.relayout();
    this.loop.invalidate(...ALL_REGIONS);
  }

  private relayout(): void {
    this.rowsView.update(this.scene, this.geometry);
    this.onRowsMoved();
    for (const listener of this.paired?.rowListeners ?? []) listener();
  }

  private scrollTo(scroll: number): boolean {
    if (!this.rowsView.scrollTo(scroll)) return false;
    this.onRowsMoved();
    return true;
  }

  private onRowsMoved(): void {
    this.drawMovedRows();
    this.paired?.drawMovedRows();
  }

  private drawMovedRows(): void {
    if (this.rowsView.pairing?.isBehind === false) {
      this.el.style.clipPath = rowsClipPath(this.rowsView.visible.placed, this.geometry.width);
    }
    this.scrollbar.update(this.geometry, this.rowsView.layout.height, this.rowsView.scroll);
    this.request();
    this.shrinkWhenIdle();
    this.loop.invalidate("gutter", "lanes", "margin", "overlay");
  }

  private onCameraMoved(changed: boolean): void {
    if (changed) {
      this.request();
      this.notifyView(true);
      this.loop.invalidate("head", "lanes", "overlay");
      // The stage behind has the rulers of both stages.
      if (this.rowsView.pairing?.isBehind === false) this.paired?.loop.invalidate("head");
    } else if (this.camera.isMoving) {
      this.request();
      this.loop.schedule();
    }
  }

  private onVisibility(): void {
    if (!this.visibility.now) {
      this.setView(this.camera.target);
      this.data.pause();
      return;
    }
    this.request();
    this.loop.schedule();
  }

  private request(): void {
    const { lanesWidth, lateRow, dpr } = this.geometry;
    if (lanesWidth <= 0 || !this.visibility.now) return;
    const { view, target } = this.camera;
    const { lanes, nearbyLanes, overlayLanes } = this.rowsView;
    const nsPerPx = nsPerDevicePx(this.geometry, view);
    const viewport = { view, nsPerPx, lanes, nearbyLanes, range: this.scene.range };
    const bins = Math.round(lanesWidth * dpr);
    const ribbons = lateRow ? { bins, ranks: this.rowsView.ribbonRanks } : null;
    const { overlay } = this;
    this.data.show({ viewport, overlayLanes, target, width: lanesWidth, overlay, ribbons });
  }

  private notifyView(done: boolean): void {
    const { view } = this.camera;
    this.shrinkWhenIdle();
    if (done && this.reportedView === view) return;
    this.reportedView = done ? view : null;
    for (const listener of this.viewListeners) listener(view, done);
  }

  private draw(now: number): void {
    // A canvas that was never drawn is black, including in prints and screenshots.
    if (!this.visibility.now && !this.isBlank) return;
    if (this.camera.step(now)) {
      this.loop.invalidate("head", "lanes", "overlay");
      this.request();
      this.notifyView(!this.camera.isMoving);
    }
    if (this.geometry.lanesWidth > 0) {
      const dirty = this.loop.takeDirty();
      const { windows } = this.data;
      if (dirty.has("lanes") || dirty.has("head")) {
        const { view } = this.camera;
        const { lanes, overlayLanes } = this.rowsView;
        const drawn = this.data.lateness.value === null ? lanes : [...lanes, ...overlayLanes];
        windows.update(drawn, view, nsPerDevicePx(this.geometry, view), this.scene.range);
      }
      const lanesDrawn = this.painter.paint(this.frame(), dirty);
      this.isBlank = false;
      const stats = { lanes: lanesDrawn, pending: windows.pending };
      for (const listener of this.frameListeners) listener(stats);
    }
    if (this.camera.isMoving) this.loop.schedule();
  }

  private rulers(): Ruler[] {
    const { paired, camera } = this;
    const { pairing } = this.rowsView;
    if (paired === null || pairing === null) return [{ view: camera.view, name: "" }];
    const [behind, front] = pairing.isBehind ? [this, paired] : [paired, this];
    return [behind, front].map((stage, index) => ({
      view: stage.camera.view,
      name: pairing.words[index]!,
    }));
  }

  /** Return the content to paint. `picture` overrides the visible part. */
  private frame(theme = this.theme, picture: Partial<FullPicture> = {}): StageFrame {
    const { scene, data, camera, rowsView, geometry, classes, overlay, byName } = this;
    const { view = camera.view } = picture;
    const stats = data.stats.value;
    const isCurrent =
      stats === null ||
      this.source.status === "live" ||
      (overlay.figures ?? null) !== null ||
      (stats.stats.start === Math.floor(view[0]) && stats.stats.end === Math.ceil(view[1]));
    return {
      geometry,
      theme,
      paints: this.paints(theme, scene, classes, overlay.dimmed),
      classes,
      scene,
      job: camera.job,
      view,
      rulers: picture.view === undefined ? this.rulers() : [{ view, name: "" }],
      layout: rowsView.layout,
      visible: rowsView.visible,
      windows: data.windows,
      stats,
      isStale: !isCurrent,
      lateness: data.lateness.value,
      ribbon: data.ribbon.value,
      minimap: this.minimap(data.minimap.value, theme, geometry, classes, this.classShares),
      byName,
      overlay,
      searchMarks: data.searchMarks.value,
      selectionMarks: data.selectionMarks.value,
      ...picture,
    };
  }
}

/** The parts of the stage in which each reply is shown. */
const REGIONS_OF_DATA: Readonly<Record<Exclude<DataPart, "tiles">, readonly StageRegion[]>> = {
  stats: ["gutter", "margin"],
  lateness: ["gutter", "lanes", "margin"],
  minimap: ["head"],
  ribbon: ["head", "lanes"],
  marks: ["overlay"],
};

/** Return `make` with its last result cached for calls with the same arguments. */
function memoizeLast<Args extends unknown[], T>(make: (...args: Args) => T): (...args: Args) => T {
  let last: { args: Args; value: T } | null = null;
  return (...args) => {
    if (last?.args.every((arg, index) => arg === args[index]) !== true) {
      last = { args, value: make(...args) };
    }
    return last.value;
  };
}

function renderMinimap(
  minimap: Minimap | null,
  theme: Theme,
  { lanesWidth, minimapHeight, dpr }: StageGeometry,
  classes: ClassPalette | null,
  classShares: ClassShares | null,
): HTMLCanvasElement | null {
  if (minimap === null || lanesWidth <= 0) return null;
  const byClass =
    classes && classShares && classSharesAt(classShares, classes.styles(theme.name), theme);
  const [pixelWidth, pixelHeight] = [Math.round(lanesWidth * dpr), Math.round(minimapHeight * dpr)];
  return drawMinimapImage(minimap, theme, pixelWidth, pixelHeight, byClass);
}

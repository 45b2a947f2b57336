/** Draw a timeline as SVG through an object that imitates a canvas context. */

import { sum } from "../expressions/numbers";
import { LIMITS } from "../facts/limits";
import { decodeTiles } from "../protocol/decode";
import { getOrMake } from "../protocol/maps";
import { decodeRibbon, type Ribbon } from "../protocol/ribbon";
import type { Kind, Scene, SceneRank, Source, Span, SvgCaption } from "../protocol/source";
import { formatDuration, formatShare } from "../ui/formats";
import { kindName, niceStep } from "../ui/text";
import { FONT, FONT_FAMILY, interpolateStops } from "../ui/theme";
import { nsPerDevicePx, type StageGeometry } from "./camera";
import type { StageFrame } from "./frame";
import { ALL_REGIONS, lanesBox, paintRegions } from "./painter";
import { CanvasPen } from "./pen";
import { ClippedArea, type Hatch, type LaneRaster } from "./raster";
import { placeRows } from "./rows";
import { VisibleLanes } from "./rows_view";
import { LaneWindows } from "./lane_window";
import { levelOf, missingTiles, TileStore, type TileTarget } from "./tile_store";

const ANCHORS: Readonly<Record<string, string>> = { right: "end", center: "middle" };
/** Font size, in px, of texts without their own size attribute. */
const FONT_PX = "11";

class SvgContext {
  fillStyle = "#000000";
  strokeStyle = "#000000";
  lineWidth = 1;
  globalAlpha = 1;
  font = `${FONT_PX}px ${FONT_FAMILY}`;
  textAlign = "left";
  private readonly stateStack: { settings: object; groups: number }[] = [];
  private groups = 0;
  private data = "";
  private clips = 0;

  constructor(
    private readonly sheet: SvgSheet,
    private readonly measureContext: CanvasRenderingContext2D,
  ) {}

  setTransform(): void {
    // No transform is needed, because all arguments are in CSS px.
  }

  save(): void {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign } = this;
    const settings = { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign };
    this.stateStack.push({ settings, groups: this.groups });
    this.groups = 0;
  }

  restore(): void {
    const last = this.stateStack.pop();
    if (last === undefined) return;
    if (this.groups > 0) this.sheet.add("</g>".repeat(this.groups));
    this.groups = last.groups;
    Object.assign(this, last.settings);
  }

  beginPath(): void {
    this.data = "";
  }

  moveTo(x: number, y: number): void {
    this.data += `M${formatNumber(x)} ${formatNumber(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.data += `L${formatNumber(x)} ${formatNumber(y)}`;
  }

  bezierCurveTo(...places: [number, number, number, number, number, number]): void {
    this.data += `C${places.map(formatNumber).join(" ")}`;
  }

  closePath(): void {
    this.data += "z";
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.data += `M${formatNumber(x)} ${formatNumber(y)}h${formatNumber(width)}v${formatNumber(height)}h${formatNumber(-width)}z`;
  }

  /** Only whole circles are supported. */
  arc(x: number, y: number, radius: number): void {
    const r = formatNumber(radius);
    this.data += `M${formatNumber(x - radius)} ${formatNumber(y)}a${r} ${r} 0 1 0 ${formatNumber(2 * radius)} 0`;
    this.data += `a${r} ${r} 0 1 0 ${formatNumber(-2 * radius)} 0z`;
  }

  clip(): void {
    this.clips += 1;
    const id = this.sheet.define(
      (name) => `<clipPath id="${name}"><path d="${this.data}"/></clipPath>`,
      `clip-${this.clips}`,
    );
    this.sheet.add(`<g clip-path="url(#${id})">`);
    this.groups += 1;
  }

  fill(): void {
    const fill = paintAttribute("fill", this.fillStyle, this.globalAlpha);
    this.sheet.add(`<path d="${this.data}" ${fill}/>`);
  }

  stroke(): void {
    const pen = paintAttribute("stroke", this.strokeStyle, this.globalAlpha);
    const width = this.lineWidth === 1 ? "" : ` stroke-width="${formatNumber(this.lineWidth)}"`;
    this.sheet.add(`<path d="${this.data}" fill="none" ${pen}${width}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    const fill = paintAttribute("fill", this.fillStyle, this.globalAlpha);
    this.sheet.addBox(x, y, x + width, y + height, fill);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.stroke();
  }

  clearRect(): void {
    // A new sheet is blank.
  }

  fillText(text: string, x: number, y: number): void {
    const [, weight, size = FONT_PX] = /^(?:(\d+) )?([\d.]+)px/.exec(this.font) ?? [];
    const anchor = ANCHORS[this.textAlign];
    const more = [
      paintAttribute("fill", this.fillStyle, this.globalAlpha),
      anchor === undefined ? "" : ` text-anchor="${anchor}"`,
      weight === undefined ? "" : ` font-weight="${weight}"`,
      size === FONT_PX ? "" : ` font-size="${size}"`,
    ];
    this.sheet.add(
      `<text x="${formatNumber(x)}" y="${formatNumber(y)}" ${more.join("")}>${escapeXml(text)}</text>`,
    );
  }

  measureText(text: string): TextMetrics {
    this.measureContext.font = this.font;
    return this.measureContext.measureText(text);
  }

  /** Draw a bitmap of few plain colors as boxes, one per run of equal pixels in a column. */
  drawImage(image: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    const { width: across, height: down } = image;
    const bytes = image.getContext("2d")?.getImageData(0, 0, across, down).data;
    if (bytes === undefined) return;
    const px = new Uint32Array(bytes.buffer);
    const [dx, dy] = [width / across, height / down];
    for (let column = 0; column < across; column += 1) {
      let from = 0;
      for (let row = 1; row <= down; row += 1) {
        const color = px[from * across + column]!;
        if (row < down && px[row * across + column] === color) continue;
        const fill = paintAttribute("fill", pixelToCss(color), this.globalAlpha);
        const left = x + column * dx;
        this.sheet.addBox(left, y + from * dy, left + dx, y + row * dy, fill);
        from = row;
      }
    }
  }
}

/** Record the drawing calls of `paint` as an SVG document. */
export function recordSvg(
  { width, height }: { width: number; height: number },
  title: string,
  paint: (pen: CanvasRenderingContext2D, sheet: SvgSheet) => void,
): string {
  const measureContext = document.createElement("canvas").getContext("2d");
  if (measureContext === null) throw new Error("This browser does not provide a 2D canvas.");
  const sheet = new SvgSheet();
  sheet.add(`<g font-family="${FONT_FAMILY.replace(/"/g, "'")}" font-size="${FONT_PX}">`);
  // The context has all members used by `CanvasPen`.
  paint(new SvgContext(sheet, measureContext) as unknown as CanvasRenderingContext2D, sheet);
  sheet.add("</g>");
  return sheet.svg(width, height, title);
}

// The stage as a single SVG, drawn by the same code as on the screen.

const LEGEND_PX = 10;
const SCALE_PX = 48;
const FOOTER_PX = 34;
const FAINT_OPACITY = 0.45;
const OF_DEVICE: ReadonlySet<Kind> = new Set(["compute", "communication", "memory"]);

export function stageSvg(frame: StageFrame, caption: SvgCaption): string {
  const { width, height } = frame.geometry;
  const above = caption.headline === "" ? 46 : 64;
  const size = { width, height: above + height + FOOTER_PX };
  return recordSvg(size, `${caption.title}, ${caption.summary}`, (context, sheet) =>
    drawPicture(context, sheet, frame, caption, above),
  );
}

/** Draw the title, legend, stage and scale. `above`: the height of title and legend. */
function drawPicture(
  context: CanvasRenderingContext2D,
  sheet: SvgSheet,
  frame: StageFrame,
  caption: SvgCaption,
  above: number,
): void {
  const { geometry, theme, view, scene } = frame;
  const { width, dpr, lanesX, lanesWidth } = geometry;
  const pen = new CanvasPen(context, dpr);
  pen.fillRect(0, 0, width, above + geometry.height + FOOTER_PX, theme.bg);
  drawTitle(pen, frame, caption);
  drawLegend(pen, frame, above - 10);
  sheet.add(`<g transform="translate(0 ${above})">`);
  const { left, top, across, down } = lanesBox(geometry);
  const raster = new SvgRaster(sheet, across, down, dpr, [left / dpr, top / dpr]);
  paintRegions(frame, new Set(ALL_REGIONS), pen, pen, raster);
  sheet.add("</g>");
  const y = above + geometry.height + 15;
  pen.horizontalLine(above + geometry.height, 0, width, theme.rule);
  const perPx = (view[1] - view[0]) / lanesWidth;
  const length = niceStep(Math.max(SCALE_PX * perPx, 1));
  const scaleWidthPx = length / perPx;
  pen.fillRect(lanesX, y, scaleWidthPx, 2, theme.ink);
  for (const x of [lanesX, lanesX + scaleWidthPx - 1]) pen.fillRect(x, y - 3, 1, 8, theme.ink);
  pen.drawText(formatDuration(length), lanesX + scaleWidthPx + 6, y + 5, FONT.label, theme.ink);
  const right = lanesX + lanesWidth;
  const maxWidth = lanesWidth - scaleWidthPx - 100;
  pen.drawTruncated(scene.truth.text, right, y + 5, maxWidth, FONT.label, theme.ink3, "right");
}

function drawTitle(
  pen: CanvasPen,
  frame: StageFrame,
  { title, summary, headline }: SvgCaption,
): void {
  const { geometry, theme } = frame;
  const maxWidth = geometry.width - 24;
  const boldFont = `600 14px ${FONT_FAMILY}`;
  if (headline !== "") pen.drawTruncated(headline, 12, 20, maxWidth, boldFont, theme.ink);
  const y = headline === "" ? 20 : 40;
  const left = Math.max(maxWidth - pen.textWidth(summary, FONT.label) - 16, 60);
  const width = pen.drawTruncated(title, 12, y, left, FONT.labelStrong, theme.ink);
  pen.drawTruncated(summary, 24 + width, y, maxWidth - width - 12, FONT.label, theme.ink2);
}

type Swatch = (left: number, top: number) => void;
type LegendKey = readonly [text: string, ...swatches: Swatch[]];

function drawLegend(pen: CanvasPen, frame: StageFrame, y: number): void {
  const { geometry, theme } = frame;
  let x = geometry.lanesX;
  for (const [text, ...swatches] of [...classKeys(pen, frame), ...kindKeys(pen, frame)]) {
    const textX = x + swatches.length * (LEGEND_PX + 2) + 2;
    const end = textX + pen.textWidth(text, FONT.label);
    if (end > geometry.width - 12) continue;
    swatches.forEach((draw, index) => draw(x + index * (LEGEND_PX + 2), y - LEGEND_PX + 1));
    pen.drawText(text, textX, y, FONT.label, theme.ink2);
    x = end + 14;
  }
}

function classKeys(pen: CanvasPen, { classes, theme }: StageFrame): LegendKey[] {
  const entries = classes?.legend(theme.name) ?? [];
  return entries.map(({ name, styles }) => {
    const swatches = styles.map(({ color, hatched, faint }): Swatch => {
      const fill = faint === true ? interpolateStops([theme.lane, color], FAINT_OPACITY) : color;
      return (left, top) =>
        hatched
          ? pen.hatchedRect(left, top, LEGEND_PX, LEGEND_PX, theme.bg, color)
          : pen.fillRect(left, top, LEGEND_PX, LEGEND_PX, fill);
    });
    return [name, ...swatches];
  });
}

function kindKeys(pen: CanvasPen, frame: StageFrame): LegendKey[] {
  const { classes, geometry, theme, stats } = frame;
  // If events are colored by class, the legend of kinds explains the totals on the right.
  if (classes !== null && geometry.margin === 0) return [];
  const kinds = visibleKinds(frame).filter((kind) => classes === null || OF_DEVICE.has(kind));
  return kinds.flatMap((kind) => {
    const label = kindName(kind);
    const share = stats?.stats.kinds[kind];
    const draw: Swatch = (left, top) =>
      pen.fillRect(left, top, LEGEND_PX, LEGEND_PX, theme.kind[kind]);
    const key: LegendKey = [share === undefined ? label : `${label} ${formatShare(share)}`, draw];
    return kind === "communication" ? [key, ...waitKeys(pen, frame)] : [key];
  });
}

function waitKeys(pen: CanvasPen, { theme, stats, lateness }: StageFrame): LegendKey[] {
  const waited = lateness === null ? 0 : sum(lateness.lateness.exposed_wait);
  if (lateness === null || waited <= 0) return [];
  const span = stats === null ? 0 : sum(stats.stats.span);
  const drawHatch: Swatch = (left, top) =>
    pen.hatchedRect(left, top, LEGEND_PX, LEGEND_PX, theme.waitFill, theme.waitLine);
  const color = lateness.late.size > 0 ? theme.late : theme.ink3;
  const drawDots: Swatch = (left, top) => {
    for (let dot = 0; dot < LEGEND_PX; dot += 4) pen.fillRect(left + dot, top + 4, 2, 2, color);
  };
  return [
    [span > 0 ? `waiting ${formatShare(waited / span)}` : "waiting", drawHatch],
    ["late", drawDots],
  ];
}

/** Return the kinds that may occur in visible rows, device kinds first. */
function visibleKinds({ scene, visible }: StageFrame): Kind[] {
  const rows = visible.placed.map(({ row }) => row);
  const ranks = rows.map(({ rank }) => rank);
  const present = possibleKinds(ranks, scene);
  present.sync &&= rows.some(({ track }) => track !== null);
  return (Object.keys(present) as Kind[]).filter((kind) => present[kind]);
}

/** Return, per kind, whether tracks of these ranks can have such events; device kinds first. */
export function possibleKinds(
  ranks: readonly SceneRank[],
  { steps }: Scene,
): Record<Kind, boolean> {
  const summaries = new Set(ranks.flatMap(({ summary }) => summary.map(({ role }) => role)));
  const roles = new Set(ranks.flatMap(({ tracks }) => tracks.map(({ role }) => role)));
  return {
    compute: summaries.has("gpu"),
    communication: summaries.has("comm"),
    memory: summaries.has("gpu"),
    cpu: roles.has("thread"),
    sync: roles.has("thread") && summaries.has("gpu"),
    annotation: roles.has("annotation") || steps.length > 0,
    other: roles.has("other") || roles.has("async") || roles.has("instant"),
  };
}

// Record raster drawing as shapes instead of pixels.

class SvgRaster extends ClippedArea implements LaneRaster {
  private readonly fills = new Map<number, string>();

  /** `width` and `height` are in device px; `origin` is in CSS px of the sheet. */
  constructor(
    private readonly sheet: SvgSheet,
    width: number,
    height: number,
    private readonly dpr: number,
    private readonly origin: readonly [left: number, top: number],
  ) {
    super(width, height);
  }

  fillRect(x0: number, y0: number, x1: number, y1: number, color: number): void {
    this.box(x0, y0, x1, y1, this.fill(color));
  }

  fillColumn(
    x: number,
    base: number,
    size: number,
    ramp: Uint32Array,
    column: number,
    steps: number,
  ): void {
    // Vector pictures can use fractions of a px. Quarters are precise enough.
    const top = base - Math.round(size * 4) / 4;
    this.box(x, top, x + 1, base, this.fill(ramp[column + steps]!));
  }

  hatchRect(x0: number, y0: number, x1: number, y1: number, hatch: Hatch): void {
    const [below, above] = [pixelToCss(hatch.ground), pixelToCss(hatch.line)];
    const size = hatch.pitch / this.dpr;
    const wide = hatch.thickness / this.dpr;
    const id = this.sheet.define(
      (name) =>
        `<pattern id="${name}" width="${size}" height="${size}" patternUnits="userSpaceOnUse">` +
        `<path d="M0 0h${size}v${size}h-${size}z" fill="${below}"/>` +
        `<path d="M-1 1L1 -1M0 ${size}L${size} 0M${size - 1} ${size + 1}L${size + 1} ${size - 1}"` +
        ` stroke="${above}" stroke-width="${wide}" fill="none"/></pattern>`,
      `hatch-${below.slice(1)}-${above.slice(1)}`,
    );
    this.box(x0, y0, x1, y1, `fill="url(#${id})"`);
  }

  private box(x0: number, y0: number, x1: number, y1: number, fill: string): void {
    const { dpr, origin } = this;
    const [left, top] = origin;
    this.sheet.addBox(
      left + Math.max(0, x0) / dpr,
      top + Math.max(this.top, y0) / dpr,
      left + Math.min(this.width, x1) / dpr,
      top + Math.min(this.bottom, y1) / dpr,
      fill,
    );
  }

  private fill(color: number): string {
    return getOrMake(this.fills, color, () => `fill="${pixelToCss(color)}"`);
  }
}

function pixelToCss(pixel: number): string {
  const [r, g, b] = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  return `#${[r, g, b].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

// Collect shapes and texts as SVG, bottom first.

/** Maximum number of other batches between two shapes that are merged into one path. */
const MERGE_DISTANCE = 12;

/** The outline of adjacent boxes on the same base, up to the right end of the last box. */
interface Skyline {
  right: number;
  base: number;
  top: number;
  data: string;
}

/** Boxes of one color that are not covered by shapes drawn between them. */
interface Batch {
  fill: string;
  data: string[];
  right: number;
  top: number;
  bottom: number;
  open: Skyline | null;
}

/** Format a coordinate with at most two decimals, without trailing zeros; -0 becomes 0. */
function formatNumber(value: number): string {
  return String(Math.round(value * 100) / 100 || 0);
}

/** Escape text for XML, which forbids most control characters and lone surrogates. */
export function escapeXml(text: string): string {
  return (
    text
      // eslint-disable-next-line no-control-regex
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/gu, "\ufffd")
      .replace(/&/g, "&amp;")
      .replace(/</g, "&lt;")
      .replace(/>/g, "&gt;")
      .replace(/"/g, "&quot;")
  );
}

/** Return a color's attributes: six hex digits and an opacity, which every SVG reader supports. */
export function paintAttribute(name: "fill" | "stroke", css: string, alpha: number): string {
  const [, color = css, alphaHex = "ff"] = /^(#[0-9a-f]{6})([0-9a-f]{2})$/i.exec(css) ?? [];
  const opacity = (Number.parseInt(alphaHex, 16) / 255) * alpha;
  const more = opacity >= 0.999 ? "" : ` ${name}-opacity="${formatNumber(opacity)}"`;
  return `${name}="${color}"${more}`;
}

export class SvgSheet {
  private readonly parts: string[] = [];
  private readonly defs = new Map<string, string>();
  private batches: Batch[] = [];

  add(markup: string): void {
    this.flush();
    this.parts.push(markup);
  }

  /** Define a named element. Elements with the same key share it. */
  define(body: (id: string) => string, key: string): string {
    const id = `hta-${key}`;
    if (!this.defs.has(id)) this.defs.set(id, body(id));
    return id;
  }

  /** Add a filled rectangle. Adjacent boxes on the same base become a single shape. */
  addBox(x0: number, y0: number, x1: number, y1: number, fill: string): void {
    if (!(x1 > x0) || !(y1 > y0)) return;
    const batch = this.batchFor(x0, y0, y1, fill);
    batch.right = Math.max(batch.right, x1);
    batch.top = Math.min(batch.top, y0);
    batch.bottom = Math.max(batch.bottom, y1);
    const { open } = batch;
    if (open !== null && open.right === x0 && open.base === y1) {
      if (open.top !== y0) open.data += `H${formatNumber(open.right)}V${formatNumber(y0)}`;
      open.top = y0;
      open.right = x1;
      return;
    }
    closeOutline(batch);
    const data = `M${formatNumber(x0)} ${formatNumber(y1)}V${formatNumber(y0)}`;
    batch.open = { right: x1, base: y1, top: y0, data };
  }

  svg(width: number, height: number, title: string): string {
    this.flush();
    const size = `width="${formatNumber(width)}" height="${formatNumber(height)}"`;
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${formatNumber(width)} ${formatNumber(height)}" role="img">`,
      `<title>${escapeXml(title)}</title>`,
      `<defs>${[...this.defs.values()].join("")}</defs>`,
      ...this.parts,
      "</svg>\n",
    ].join("\n");
  }

  /** Return the latest batch of this color, or a new batch if a later one overlaps the box. */
  private batchFor(x0: number, y0: number, y1: number, fill: string): Batch {
    const { batches } = this;
    for (
      let index = batches.length - 1;
      index >= Math.max(0, batches.length - MERGE_DISTANCE);
      index -= 1
    ) {
      const batch = batches[index]!;
      if (batch.fill === fill) return batch;
      if (x0 < batch.right && y0 < batch.bottom && y1 > batch.top) break;
    }
    const batch = { fill, data: [], right: x0, top: y0, bottom: y1, open: null };
    batches.push(batch);
    return batch;
  }

  private flush(): void {
    for (const batch of this.batches) {
      closeOutline(batch);
      this.parts.push(`<path d="${batch.data.join("")}" ${batch.fill}/>`);
    }
    this.batches = [];
  }
}

function closeOutline(batch: Batch): void {
  const { open } = batch;
  if (open === null) return;
  batch.data.push(`${open.data}H${formatNumber(open.right)}V${formatNumber(open.base)}z`);
  batch.open = null;
}

// The data for a picture of all rows, not only the visible rows.

/** The fields of a frame that differ in a picture of all rows. */
export type FullPicture = Pick<StageFrame, "geometry" | "visible" | "view" | "windows" | "ribbon">;

/** Load the data of all rows in the current view and, if `classed`, the event classes. */
export async function loadFullPicture(
  source: Source,
  shown: StageFrame,
  classed: boolean,
): Promise<FullPicture> {
  const { scene, layout, view, lateness } = shown;
  const { rowsTop, lateRow } = shown.geometry;
  const { height } = layout;
  const geometry = { ...shown.geometry, height: rowsTop + height, rowsHeight: height };
  const visible = new VisibleLanes(placeRows(layout, 0, rowsTop, height));
  const lanes = visible.lanes.flatMap(({ band: { lane, over } }) =>
    lateness !== null && over !== undefined ? [lane, over.wait, over.late] : [lane],
  );
  const nsPerPx = nsPerDevicePx(geometry, view);
  const target = { lanes, level: levelOf(nsPerPx), window: view };
  const windows = new LaneWindows(await loadTiles(source, scene, target, classed));
  windows.update(lanes, view, nsPerPx, scene.range);
  const ribbon =
    lateRow && lateness !== null ? await loadRibbon(source, geometry, visible, view) : null;
  return { geometry, visible, view, windows, ribbon };
}

async function loadTiles(
  source: Source,
  scene: Scene,
  target: TileTarget,
  classed: boolean,
): Promise<TileStore> {
  // A separate store without a limit, because no tile may be evicted before it is drawn.
  const store = new TileStore(scene.lanes, Number.POSITIVE_INFINITY);
  store.classed = classed;
  for (;;) {
    const request = missingTiles(store, target, scene.range);
    if (request === null) return store;
    const query = { level: target.level, parts: request.parts, ...(classed ? { classed } : {}) };
    store.add(request.parts, decodeTiles(await source.ask("tiles", query)));
  }
}

async function loadRibbon(
  source: Source,
  { lanesWidth, dpr }: StageGeometry,
  { placed }: VisibleLanes,
  view: Span,
): Promise<Ribbon> {
  const bins = Math.min(LIMITS.heatmap_bins, Math.round(lanesWidth * dpr));
  const query = { start: Math.floor(view[0]), end: Math.ceil(view[1]), bins };
  const ranks = [...new Set(placed.map(({ row }) => row.rank.rank))].sort((a, b) => a - b);
  return decodeRibbon(await source.ask("ribbon", { ...query, ranks }), query);
}

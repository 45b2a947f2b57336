/** Draw the left column (a name and a fact, such as a figure, for each row) and the scroll bar. */

import { sum } from "../expressions/numbers";
import { deviceOf, hasDevice } from "../protocol/scene";
import type { SceneRank } from "../protocol/source";
import {
  formatCount,
  formatDuration,
  formatShare,
  formatTime,
  formatValue,
  joinRange,
  plural,
} from "../ui/formats";
import { FONT, interpolateStops, type Theme } from "../ui/theme";
import type { StageGeometry } from "./camera";
import type { LatenessByRank, StageFrame, StatsByRank } from "./frame";
import { LATE_TINT } from "./paints";
import type { CanvasPen } from "./pen";
import type { Band } from "./bands";
import { BADGE_WIDTH, badgeLeft, type PlacedRow, type StageRow } from "./rows";

interface RowFact {
  /** Texts from long to short. The first text that fits is drawn. */
  texts: string[];
  tone: "plain" | "warn" | "late" | "hit";
}

/** Make a fact that is never shortened: without its word, it could be mistaken for another. */
function makeFact(word: string, number: string): RowFact {
  return { texts: [`${word} ${number}`], tone: "plain" };
}

/** Minimum number of collectives for which the share of last arrivals is shown. */
const MIN_COLLECTIVES = 4;

/**
 * Return the fact about lateness: the last arrivals of a late rank or, if no rank is late, of a
 * rank that is mostly last. For all other ranks, return the exposed wait, as in the margin.
 */
function lateFact(rank: SceneRank, lateness: LatenessByRank | null): RowFact | null {
  const index = lateness?.at.get(rank.rank);
  if (lateness === null || index === undefined) return null;
  const { last, collectives, exposed_wait: waits } = lateness.lateness;
  const [lastCount, count, wait] = [last[index]!, collectives[index]!, waits[index]!];
  if (lateness.late.has(rank.rank)) {
    const [lastText, countText] = [formatCount(lastCount), formatCount(count)];
    const texts = [`last in ${lastText} of ${countText}`, `last ${lastText}/${countText}`, "last"];
    return { texts, tone: "late" };
  }
  if (lateness.late.size === 0 && count >= MIN_COLLECTIVES && 2 * lastCount > count)
    return makeFact("last", formatShare(lastCount / count));
  return wait > 0 ? makeFact("waits", formatDuration(wait)) : null;
}

/** Return the most important fact about a rank in this view. */
export function rankFact(
  rank: SceneRank,
  statsByRank: StatsByRank | null,
  hasMargin: boolean,
  lateness: LatenessByRank | null = null,
): RowFact {
  if (rank.truncated !== null)
    return { texts: [`ends at ${formatTime(rank.range[1])}`, "ends early"], tone: "warn" };
  if (rank.tracks.length === 0) return { texts: ["no events"], tone: "plain" };
  if (!hasDevice(rank)) return { texts: [rank.host ?? "CPU only"], tone: "plain" };
  const late = lateFact(rank, lateness);
  if (late !== null) return late;
  const index = statsByRank?.at.get(rank.rank);
  if (statsByRank === null || index === undefined) return { texts: [], tone: "plain" };
  const { stats } = statsByRank;
  const data = stats.data[index] ?? 0;
  const idle = stats.idle[index] ?? 0;
  if (data <= 0) return { texts: ["no data here"], tone: "plain" };
  // If there is a margin, the shares are shown there.
  const span = stats.span[index] ?? 0;
  if (!hasMargin)
    return span > 0 ? makeFact("idle", formatShare(idle / span)) : { texts: [], tone: "plain" };
  const exposed = stats.exposed[index] ?? 0;
  if (exposed > 0) return makeFact("exposed", formatDuration(exposed));
  return makeFact("busy", formatDuration(span - idle - (stats.unrecorded[index] ?? 0)));
}

/** Shorten a reason: `computes 25 % longer` becomes `computes +25 %`. */
function abbreviateReason(reason: string): string {
  return reason
    .replace(/^its device is /, "")
    .replace(/ of (?:a step|its time|their time)/, "")
    .replace(/(\d[\d.]*\s?%) (?:longer|more)/, "+$1")
    .replace(/(\d[\d.]*\s?%) (?:shorter|less)/, "\u2212$1");
}

/** Return the first reason for not folding a rank, long and short; null if there is none. */
export function foldReason(why: string): RowFact["texts"] | null {
  const [reason = ""] = why.split(";");
  if (reason === "") return null;
  return [reason, abbreviateReason(reason)];
}

/** Return the fact of a row. If several ranks share it, matches on hidden ranks take precedence. */
function rowFact(row: StageRow, frame: StageFrame): RowFact {
  const { stats, lateness, geometry, overlay } = frame;
  const hits = overlay.search === "" ? undefined : overlay.hits;
  const fact = rankFact(row.rank, stats, geometry.margin > 0, lateness);
  const foldedRanks = row.memberRanks.filter((rank) => rank !== row.rank.rank);
  const foldedHits = sum(foldedRanks.map((rank) => hits?.get(rank) ?? 0));
  if (foldedHits > 0) {
    const count = formatCount(foldedHits);
    return { texts: [`${count} in folded ranks`, `${count} folded`, count], tone: "hit" };
  }
  const reason = foldReason(row.reason);
  // The figures belong to a single rank in the row.
  const prefixRank = (text: string): string =>
    /\d/.test(text) ? `rank ${row.rank.rank} ${text}` : text;
  if (foldedRanks.length > 0) fact.texts = fact.texts.map(prefixRank);
  if (reason === null || fact.tone === "warn") return fact;
  return { texts: [...reason, ...fact.texts], tone: fact.tone };
}

/** Distance between a baseline and the middle of its text. */
const BASELINE = 4;
/** Baselines closer together than this overlap. */
const LINE = 10;
/** Distance between texts and the right edge of the gutter. */
const RIGHT_INSET = 8;
/** Baselines of a folded rank's name and of the fact below it, from the top of the row. */
const NAME_BASELINE = 14;
const FACT_BASELINE = 28;
/** Distance between the lowest baseline and the bottom of a row. */
const LOWEST_NAME = 3;

export function rowBackground(theme: Theme, late: boolean): string {
  return late ? interpolateStops([theme.bg, theme.late], LATE_TINT) : theme.bg;
}

export function drawGutter(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, theme } = frame;
  const { placed } = frame.visible;
  // Figures of an earlier view would be wrong, so they are left out.
  const gutter = frame.isStale ? { ...frame, stats: null, lateness: null } : frame;
  const { rowsTop, rowsHeight } = geometry;
  pen.fillRect(0, rowsTop, geometry.gutter, rowsHeight, theme.bg);
  // Rows are ordered from back to front. Consecutive rows with one clip range are drawn together.
  let from = 0;
  while (from < placed.length) {
    const { clipTop, clipBottom } = placed[from]!;
    const hasSameClip = (row?: PlacedRow): boolean =>
      row?.clipTop === clipTop && row.clipBottom === clipBottom;
    let to = from + 1;
    while (hasSameClip(placed[to])) to += 1;
    const run = placed.slice(from, to);
    pen.withClip(0, clipTop, geometry.gutter, clipBottom - clipTop, () => {
      for (const row of run) drawRow(pen, gutter, row);
    });
    from = to;
  }
  pen.verticalLine(geometry.gutter - 1, rowsTop, rowsTop + rowsHeight, theme.rule);
  const end = Math.max(0, ...placed.map(({ row, y }) => y + row.height));
  if (end < rowsTop + rowsHeight) pen.horizontalLine(end, 0, geometry.gutter, theme.rule);
}

function drawRow(pen: CanvasPen, frame: StageFrame, placed: PlacedRow): void {
  const { row } = placed;
  if (row.track === null) drawRankNames(pen, frame, placed);
  else drawTrackNames(pen, frame, placed);
  if (row.pinned && (row.track === null || !isPinnedBelowHead(frame, placed))) {
    drawPin(pen, frame.theme, 4, placed.y + Math.min(9, row.height / 2));
  }
}

/** Return whether a track is pinned only as part of its rank, without a pin of its own. */
function isPinnedBelowHead({ layout }: StageFrame, { row }: PlacedRow): boolean {
  const index = layout.rows.indexOf(row);
  for (let i = index - 1; i >= 0; i -= 1) {
    const before = layout.rows[i]!;
    if (before.rank !== row.rank || !before.pinned) return false;
    if (before.track === null) return true;
  }
  return false;
}

/** A rank's texts in the gutter, from long to short, and the font and color of its fact. */
interface RankTexts {
  names: readonly string[];
  facts: readonly string[];
  factFont: string;
  factColor: string;
}

function drawRankNames(pen: CanvasPen, frame: StageFrame, placed: PlacedRow): void {
  const { geometry, theme, layout } = frame;
  const { row, y } = placed;
  const { texts: facts, tone } = rowFact(row, frame);
  const isLate = tone === "late";
  pen.fillRect(0, y, geometry.gutter, row.height, rowBackground(theme, isLate));
  if (row.isJoined !== true) pen.horizontalLine(y, 0, geometry.gutter, theme.rule);
  if (isLate) pen.fillRect(0, y + 1, 4, row.height - 1, theme.late);
  const colors = { plain: theme.ink2, warn: theme.warnInk, late: theme.late, hit: theme.ink };
  const texts: RankTexts = {
    names: row.pairName ? [row.pairName] : [row.name, ...row.shortNames],
    facts,
    factFont: isLate ? FONT.labelStrong : FONT.label,
    factColor: colors[tone],
  };
  if (layout.foldSizes.mode === "full") drawTwoLines(pen, frame, placed, texts);
  else drawOneLine(pen, frame, placed, texts);
}

function badgeWidth({ badge }: StageRow): number {
  return badge === null ? 0 : BADGE_WIDTH + 5;
}

function drawOneLine(
  pen: CanvasPen,
  { geometry, theme, layout: { foldSizes } }: StageFrame,
  { row, y }: PlacedRow,
  { names, facts, factFont, factColor }: RankTexts,
): void {
  const right = geometry.gutter - RIGHT_INSET;
  const baseline = y + Math.round(row.height / 2) + BASELINE;
  const hasArrow = foldSizes.mode === "line";
  if (hasArrow) drawArrow(pen, theme, 14, baseline - 4, row.open);
  drawBadge(pen, theme, row.badge, badgeLeft(foldSizes), baseline - 4);
  const left = (hasArrow ? 24 : 12) + badgeWidth(row);
  const font = row.open ? FONT.bodyStrong : FONT.body;
  const nameWidth = fitRankName(pen, names, left, baseline, right - left, font, theme.ink);
  const factWidth = right - left - nameWidth - 8;
  pen.drawFirstFit(facts, right, baseline, factWidth, factFont, factColor, "right");
}

function drawTwoLines(
  pen: CanvasPen,
  { geometry, theme, layout: { foldSizes } }: StageFrame,
  { row, y }: PlacedRow,
  { names, facts, factFont, factColor }: RankTexts,
): void {
  const right = geometry.gutter - RIGHT_INSET;
  const left = 12 + badgeWidth(row);
  drawBadge(pen, theme, row.badge, badgeLeft(foldSizes), y + 10);
  const lanes = new LaneNames(pen, row, geometry.narrow);
  // The communication lane's long name leaves no space for a fact next to it.
  const lastBaseline = row.height - LOWEST_NAME;
  const hasLastLine = lastBaseline >= FACT_BASELINE + LINE;
  const isBesideLongName = lanes.widthOn(FACT_BASELINE) > right / 2;
  const factBaseline = isBesideLongName && hasLastLine ? lastBaseline : FACT_BASELINE;
  // A truncated rank name may be ambiguous. Lane names are the same in every row.
  const nameWidth = lanes.makeSpace(names, FONT.bodyStrong, NAME_BASELINE, right - left, true);
  fitRankName(pen, names, left, y + NAME_BASELINE, nameWidth, FONT.bodyStrong, theme.ink);
  // In rows of several ranks, facts take precedence over lane names.
  const isGroup = row.badge !== null || row.reason !== "";
  const canRemove = isGroup || !hasLastLine;
  const factWidth = lanes.makeSpace(facts, factFont, factBaseline, right - 12, canRemove);
  pen.drawFirstFit(facts, 12, y + factBaseline, factWidth, factFont, factColor);
  for (const { name, baseline } of lanes.names) {
    pen.drawText(name, right, y + baseline, FONT.label, theme.ink3, "right");
  }
}

/** The lane names of a folded rank, drawn where the texts about the rank leave space. */
class LaneNames {
  names: { name: string; baseline: number }[];

  constructor(
    private readonly pen: CanvasPen,
    private readonly row: StageRow,
    isNarrow: boolean,
  ) {
    const bands = isNarrow ? [] : row.bands().filter(({ label }) => label !== "");
    this.names = bands.map((band) => ({
      name: band.label,
      baseline: nameBaseline(band, row.height),
    }));
  }

  private namesOn(baseline: number): typeof this.names {
    return this.names.filter((name) => Math.abs(name.baseline - baseline) < LINE);
  }

  /** Return the width that lane names take from a text on this baseline. */
  widthOn(baseline: number): number {
    const names = this.namesOn(baseline);
    return Math.max(0, ...names.map(({ name }) => this.pen.textWidth(name, FONT.label) + 8));
  }

  /**
   * Make space for the first of `texts` that fits in `width`: shorten the lane names on its line
   * or, with `canRemove`, remove them if necessary. Return the free width.
   */
  makeSpace(
    texts: readonly string[],
    font: string,
    baseline: number,
    width: number,
    canRemove: boolean,
  ): number {
    const sameLine = this.namesOn(baseline);
    const freeWidth = (): number => width - this.widthOn(baseline);
    const textWidths = texts.map((text) => this.pen.textWidth(text, font));
    // A shorter fact leaves the lane names as they are in other rows.
    const longestWidth = textWidths.find((textWidth) => textWidth <= width);
    const neededWidth = (canRemove ? longestWidth : textWidths.at(-1)) ?? -Infinity;
    if (neededWidth <= freeWidth()) return freeWidth();
    const isGroup = this.row.badge !== null || this.row.reason !== "";
    const compute = isGroup ? undefined : sameLine.find(({ name }) => name === "compute");
    if (compute !== undefined) compute.name = deviceOf({ ranks: [this.row.rank] });
    if (!canRemove || neededWidth <= freeWidth()) return freeWidth();
    this.names = this.names.filter((name) => !sameLine.includes(name));
    return width;
  }
}

/** Draw the longest name that fits, or truncate the shortest. Return the width used. */
function fitRankName(
  pen: CanvasPen,
  names: readonly string[],
  x: number,
  y: number,
  maxWidth: number,
  font: string,
  color: string,
): number {
  const width = pen.drawFirstFit(names, x, y, maxWidth, font, color);
  return width || pen.drawTruncated(names.at(-1) ?? "", x, y, maxWidth, font, color);
}

/** Draw the icon of similar ranks: three lines in a box, filled if the ranks are unfolded. */
function drawBadge(
  pen: CanvasPen,
  theme: Theme,
  badge: StageRow["badge"],
  x: number,
  middle: number,
): void {
  if (badge === null) return;
  const pressed = badge === "fold";
  const height = 12;
  const top = middle - height / 2;
  if (pressed) pen.fillRect(x, top, BADGE_WIDTH, height, theme.ink2);
  else pen.strokeFrame(x, top, BADGE_WIDTH, height, theme.ruleStrong, 1);
  for (const line of [3, 6, 9]) {
    pen.fillRect(x + 3, top + line - 0.5, BADGE_WIDTH - 6, 1, pressed ? theme.bg : theme.ink2);
  }
}

/** Return the baseline of a lane's name, relative to the top of the row. Bars share a name. */
function nameBaseline({ top, height }: Band, rowHeight: number): number {
  const centred = top + (height < 8 ? 3 : height / 2) + BASELINE;
  // A bar at the bottom is too low for its name, so the name is kept above the next row.
  return Math.min(centred, rowHeight - LOWEST_NAME);
}

/**
 * Draw an open track's name, centered in the visible part of its lanes. Also draw the range of a
 * counter below the name, and the names of Python stacks and other bands.
 */
function drawTrackNames(pen: CanvasPen, frame: StageFrame, placed: PlacedRow): void {
  const { geometry, theme } = frame;
  const { row, y } = placed;
  const bands = row.bands();
  const stacks = bands.filter(({ frames, height }) => frames !== undefined && height >= LINE);
  for (const band of stacks) drawStackName(pen, frame, band, y, row.stacks === "folded");
  const topStack = stacks.find((band) => band === bands[0]);
  const { right, top, bottom } = trackNameSpace(pen, frame, placed, topStack);
  const availableWidth = right - (row.pinned ? 14 : 4);
  const fullName = row.pairName ?? row.name;
  // The lanes already show whether a track belongs to the device or the host.
  const isShort = geometry.narrow || pen.textWidth(fullName, FONT.label) > availableWidth;
  const name = isShort ? fullName.replace(/^[A-Z]{3,4} {2}/, "") : fullName;
  const middle = (top + bottom) / 2 + BASELINE;
  const { range, unit } = row.track ?? {};
  const drawName = (text: string, baseline: number, color: string): void =>
    void pen.drawTruncated(text, right, baseline, availableWidth, FONT.label, color, "right");
  if (row.thinLanes === bands.length) {
    drawName(name, y + row.height / 2 + BASELINE, theme.ink3);
  } else if (range !== undefined && bottom - top >= 28) {
    const [low, high] = [formatValue(range[0], unit), formatValue(range[1], unit)];
    const ranges = [joinRange(low, high), high];
    drawName(withoutUnit(name, unit), middle - 7, theme.ink2);
    pen.drawFirstFit(ranges, right, middle + 7, availableWidth, FONT.label, theme.ink3, "right");
  } else if (bottom - top >= LINE) {
    drawName(name, middle, theme.ink2);
  }
  for (const band of bands) {
    if (band.label === "" || band === bands[0] || band.height < LINE) continue;
    const baseline = y + band.top + band.height / 2 + BASELINE;
    pen.drawText(band.label, right, baseline, FONT.label, theme.ink3, "right");
  }
}

/**
 * Return the free height for a track's name above the next band with a name. For a stack at the
 * top, this is the free space below it or, if it is the only lane, to the left of its name.
 */
function trackNameSpace(
  pen: CanvasPen,
  frame: StageFrame,
  { row, y, clipTop, clipBottom }: PlacedRow,
  topStack: Band | undefined,
): { right: number; top: number; bottom: number } {
  const nextNamed = row.bands().find(({ label }, index) => index > 0 && label !== "");
  const lanesBottom = y + (nextNamed === undefined ? row.height - 4 : nextNamed.top);
  const right = frame.geometry.gutter - RIGHT_INSET;
  const bottom = Math.min(lanesBottom, clipBottom);
  const lanesTop = topStack === undefined ? y : y + topStack.top + topStack.height;
  if (topStack === undefined || lanesBottom - lanesTop >= LINE)
    return { right, top: Math.max(lanesTop, clipTop), bottom };
  const stackWidth = pen.textWidth(stackName(frame, topStack), FONT.label) + STACK_ARROW_WIDTH + 8;
  return { right: right - stackWidth, top: Math.max(y, clipTop), bottom };
}

/** Return a counter's name without its unit, which is on its values. Long names would be cut. */
export function withoutUnit(name: string, unit = ""): string {
  return name.replace(` (${unit})`, "");
}

function stackName({ geometry }: StageFrame, { frames = 0 }: Band): string {
  return geometry.narrow ? formatCount(frames) : plural(frames, "frame");
}

const STACK_ARROW_WIDTH = 11;

/** Draw a stack's frame count, and an arrow that points down if the frames are unfolded. */
function drawStackName(
  pen: CanvasPen,
  frame: StageFrame,
  band: Band,
  y: number,
  isFolded: boolean,
): void {
  const { geometry, theme } = frame;
  const right = geometry.gutter - RIGHT_INSET;
  const baseline = y + band.top + band.height / 2 + BASELINE;
  const name = stackName(frame, band);
  pen.drawText(name, right - STACK_ARROW_WIDTH, baseline, FONT.label, theme.ink2, "right");
  drawArrow(pen, theme, right - 4, baseline - 4, !isFolded);
}

function drawArrow(pen: CanvasPen, theme: Theme, x: number, y: number, open: boolean): void {
  const { ctx } = pen;
  pen.setFill(theme.ink2);
  ctx.beginPath();
  if (open) {
    ctx.moveTo(x - 3.5, y - 2);
    ctx.lineTo(x + 3.5, y - 2);
    ctx.lineTo(x, y + 3.5);
  } else {
    ctx.moveTo(x - 2, y - 3.5);
    ctx.lineTo(x + 3.5, y);
    ctx.lineTo(x - 2, y + 3.5);
  }
  ctx.fill();
}

function drawPin(pen: CanvasPen, theme: Theme, x: number, y: number): void {
  const { ctx } = pen;
  pen.setFill(theme.focus);
  ctx.beginPath();
  ctx.arc(x, y - 2, 2.5, 0, 2 * Math.PI);
  ctx.fill();
  ctx.fillRect(x - 0.5, y, 1, 5);
}

// A slim scroll bar over the right edge of the rows. The rows are drawn, so the browser has none.

const SCROLLBAR_WIDTH = 10;
const THUMB_WIDTH = 6;
const MIN_THUMB_LENGTH = 24;

export class Scrollbar {
  readonly el: HTMLDivElement;
  private readonly thumb: HTMLDivElement;
  private contentHeight = 0;
  private viewportHeight = 0;
  private scroll = 0;

  constructor(
    private readonly onScroll: (scroll: number) => void,
    signal: AbortSignal,
  ) {
    this.el = document.createElement("div");
    this.thumb = document.createElement("div");
    this.el.append(this.thumb);
    this.el.className = "hta-scrollbar";
    Object.assign(this.el.style, {
      position: "absolute",
      right: "0",
      width: `${SCROLLBAR_WIDTH}px`,
      display: "none",
      touchAction: "none",
    });
    Object.assign(this.thumb.style, {
      position: "absolute",
      right: "2px",
      width: `${THUMB_WIDTH}px`,
      borderRadius: `${THUMB_WIDTH / 2}px`,
    });
    // Gestures of the stage must not begin on the scroll bar.
    for (const type of ["pointerdown", "dblclick", "click"] as const) {
      this.el.addEventListener(type, (event) => event.stopPropagation(), { signal });
    }
    this.el.addEventListener("pointerdown", (event) => this.drag(event, signal), { signal });
  }

  update(geometry: StageGeometry, content: number, scroll: number): void {
    this.contentHeight = content;
    this.viewportHeight = geometry.rowsHeight;
    this.scroll = scroll;
    const isNeeded = content > this.viewportHeight + 0.5 && this.viewportHeight > MIN_THUMB_LENGTH;
    this.el.style.display = isNeeded ? "block" : "none";
    if (!isNeeded) return;
    this.el.style.top = `${geometry.rowsTop}px`;
    this.el.style.height = `${this.viewportHeight}px`;
    this.thumb.style.height = `${this.thumbLength}px`;
    this.thumb.style.top = `${scroll / this.scrollPerPx}px`;
  }

  theme(theme: Theme): void {
    this.thumb.style.background = theme.ruleStrong;
    this.thumb.style.opacity = "0.7";
  }

  private get thumbLength(): number {
    return Math.max(MIN_THUMB_LENGTH, this.viewportHeight ** 2 / this.contentHeight);
  }

  /** Scroll distance of the rows if the thumb moves by one px. */
  private get scrollPerPx(): number {
    const { contentHeight, viewportHeight } = this;
    return (contentHeight - viewportHeight) / Math.max(1, viewportHeight - this.thumbLength);
  }

  private drag(event: PointerEvent, signal: AbortSignal): void {
    if (event.button !== 0) return;
    event.preventDefault();
    const { scrollPerPx, thumbLength } = this;
    const y = event.clientY - this.el.getBoundingClientRect().top;
    const top = this.scroll / scrollPerPx;
    let begin = this.scroll;
    // A press outside of the thumb centers it there.
    if (y < top || y > top + thumbLength) {
      begin = (y - thumbLength / 2) * scrollPerPx;
      this.onScroll(begin);
    }
    const aborter = new AbortController();
    signal.addEventListener("abort", () => aborter.abort(), { signal: aborter.signal });
    this.el.setPointerCapture(event.pointerId);
    const from = event.clientY;
    this.el.addEventListener(
      "pointermove",
      (move) => this.onScroll(begin + (move.clientY - from) * scrollPerPx),
      { signal: aborter.signal },
    );
    for (const type of ["pointerup", "pointercancel"] as const) {
      this.el.addEventListener(type, () => aborter.abort(), { signal: aborter.signal });
    }
  }
}

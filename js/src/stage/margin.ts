/** Draw the column of totals on the right. */

import { deviceOf, hasDevice } from "../protocol/scene";
import type { SceneRank } from "../protocol/source";
import { formatShare } from "../ui/formats";
import { FONT, SIZE, type Theme } from "../ui/theme";
import { rowBackground } from "./gutter";
import type { StageFrame } from "./frame";
import type { CanvasPen } from "./pen";
import type { PlacedRow } from "./rows";

const PAD = 12;

export function drawMargin(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, theme } = frame;
  const { placed } = frame.visible;
  if (geometry.margin === 0) return;
  const x = geometry.width - geometry.margin;
  const { stripTop, height } = geometry;
  pen.fillRect(x, stripTop, geometry.margin, height - stripTop, theme.bg);
  drawTitle(pen, frame, x);
  pen.withClip(x, geometry.rowsTop, geometry.margin, geometry.rowsHeight, () => {
    for (const row of placed) drawRow(pen, frame, row, x);
  });
  const end = Math.max(0, ...placed.map(({ row, y }) => y + row.height));
  if (end < height) pen.horizontalLine(end, x, geometry.width, theme.rule);
  pen.verticalLine(x, stripTop, height, theme.rule);
}

function drawTitle(pen: CanvasPen, frame: StageFrame, x: number): void {
  const { geometry, theme } = frame;
  const { placed } = frame.visible;
  const availableWidth = geometry.margin - PAD - 4;
  if (geometry.stripRows === 0 || !placed.some(({ row }) => hasDevice(row.rank))) return;
  const y = geometry.stripTop + 11;
  const label = frame.overlay.figures?.label;
  const ranks = placed.map(({ row }) => row.rank);
  const device = ranks.every(isMpi) ? "MPI" : deviceOf({ ranks });
  const title = `${device} time${label === undefined ? " in view" : `, ${label}`}`;
  const titles = [title, title.replace("whole ", "")];
  pen.drawFirstFit(titles, x + PAD, y, availableWidth, FONT.label, theme.ink3);
  if (geometry.stripRows < 2) return;
  const keys = columnKeys(ranks, hasWaits(frame));
  pen.drawFirstFit(keys, x + PAD, y + SIZE.steps, availableWidth, FONT.label, theme.ink3);
}

/** Return names for the two numbers of each rank, from long to short. */
function columnKeys(ranks: readonly SceneRank[], hasWaits: boolean): string[] {
  if (!ranks.some(({ summary }) => summary.some(({ role }) => role === "comm"))) return ["idle"];
  if (ranks.every(isMpi)) return [hasWaits ? "waiting · other" : "in MPI · other"];
  return hasWaits ? ["exposed waiting · idle", "waiting · idle"] : ["exposed · idle"];
}

function drawRow(pen: CanvasPen, frame: StageFrame, placed: PlacedRow, x: number): void {
  const { geometry, theme } = frame;
  const { row, y, clipTop } = placed;
  if (row.track !== null) return;
  const height = Math.min(row.height, placed.clipBottom - y);
  const isLate = isLateRank(frame, row.rank);
  pen.fillRect(x, Math.max(y, clipTop), geometry.margin, height, rowBackground(theme, isLate));
  if (y >= clipTop && row.isJoined !== true) pen.horizontalLine(y, x, geometry.width, theme.rule);
  const times = rowTimes(frame, row.rank);
  if (times === null) return;
  const isCompact = row.height < 24;
  const isTall = row.height >= 36;
  const barHeight = isTall ? 11 : 8;
  const inset = isTall ? 3 : 4;
  const offset = isCompact ? Math.round((row.height - barHeight) / 2) : inset;
  const [left, top] = [x + PAD, y + offset];
  drawTimeBar(pen, frame, times, { left, top, width: geometry.margin - 2 * PAD, barHeight });
  const baseline = top + barHeight + (isTall ? 14 : 12);
  // Numbers of an earlier view would be wrong. A pale bar is at most a hint.
  if (!isCompact && !frame.isStale) drawNumbers(pen, frame, row.rank, times, { left, baseline });
}

/** Device time of a rank within the view, in ns. */
interface RowTimes {
  compute: number;
  exposed: number;
  memory: number;
  unrecorded: number;
  idle: number;
  span: number;
  data: number;
  wait: number;
}

function isLateRank({ lateness }: StageFrame, { rank }: SceneRank): boolean {
  return lateness?.late.has(rank) ?? false;
}

/** Return a rank's times; null if it has no device or the times are not loaded. */
function rowTimes(frame: StageFrame, rank: SceneRank): RowTimes | null {
  const { stats } = frame;
  const index = stats?.at.get(rank.rank);
  if (stats === null || index === undefined || !hasDevice(rank)) return null;
  const ofRank = (times: readonly number[]): number => times[index] ?? 0;
  const { compute, exposed, memory, unrecorded, idle, span, data } = stats.stats;
  return {
    compute: ofRank(compute),
    exposed: ofRank(exposed),
    memory: ofRank(memory),
    unrecorded: ofRank(unrecorded),
    idle: ofRank(idle),
    span: ofRank(span),
    data: ofRank(data),
    wait: exposedWait(frame, rank.rank),
  };
}

/** Draw a bar of how the visible time is spent; pale while it still shows an earlier view. */
function drawTimeBar(
  pen: CanvasPen,
  { theme, isStale }: StageFrame,
  times: RowTimes,
  box: { left: number; top: number; width: number; barHeight: number },
): void {
  const { left, top, width, barHeight } = box;
  pen.ctx.globalAlpha = isStale ? 0.4 : 1;
  let from = left;
  for (const [ns, fill, hatch] of [
    [times.compute, theme.kind.compute],
    [times.exposed - times.wait, theme.kind.communication],
    [times.wait, theme.waitFill, theme.waitLine],
    [times.memory, theme.kind.memory],
    [times.unrecorded, theme.idle, theme.idleLine],
  ] as const) {
    const length = times.span > 0 ? (ns / times.span) * width : 0;
    if (hatch === undefined) pen.fillRect(from, top, length, barHeight, fill);
    else pen.hatchedRect(from, top, length, barHeight, fill, hatch);
    from += length;
  }
  pen.strokeFrame(left, top, width, barHeight, theme.idleLine, 1);
  pen.ctx.globalAlpha = 1;
}

/** Draw the shares of a rank, or the reason why they are missing. */
function drawNumbers(
  pen: CanvasPen,
  frame: StageFrame,
  rank: SceneRank,
  times: RowTimes,
  { left, baseline }: { left: number; baseline: number },
): void {
  const { geometry, theme } = frame;
  if (times.span <= 0) {
    const text = times.data > 0 ? `no ${deviceOf({ ranks: [rank] })} work` : "no data";
    pen.drawText(text, left, baseline, FONT.label, theme.ink3);
  } else if (rank.truncated !== null) {
    // The missing part of the file may contain this time, so the device may not have been idle.
    pen.drawText("file cut off", left, baseline, FONT.label, theme.warnInk);
  } else if (isLateRank(frame, rank)) {
    pen.drawText("causes the wait", left, baseline, FONT.labelStrong, theme.late);
  } else {
    const shares = shareTexts(frame, rank, times);
    drawFirstPair(pen, theme, shares, left, left + geometry.margin - 2 * PAD, baseline);
  }
}

/** Return the shares of waiting (or communication) and idle time as text, long ones first. */
function shareTexts(frame: StageFrame, rank: SceneRank, times: RowTimes): TextPair[] {
  const { span, exposed, wait, idle, unrecorded } = times;
  const exposedName = isMpi(rank) ? "in MPI" : "exposed";
  const [name, ns] = hasWaits(frame) ? ["waiting", wait] : [exposedName, exposed];
  const share = ns > 0 ? formatShare(ns / span) : "";
  const text = share && `${name} ${share}`;
  const isIdle = idle >= unrecorded;
  const restName = isIdle ? "idle" : "unrecorded";
  const restShare = formatShare(Math.max(idle, unrecorded) / span);
  const rest = `${isMpi(rank) ? "other" : restName} ${restShare}`;
  // The heading does not mention unrecorded time. Words that are in the heading are dropped first.
  const hasHeading = frame.geometry.stripRows > 1 && isIdle;
  const shorter: TextPair[] = hasHeading
    ? [
        [share, rest],
        [share, restShare],
      ]
    : [[text, ""]];
  return [[text, rest], ...shorter];
}

/** Return whether waits are known for the same window as the totals. */
function hasWaits({ lateness, stats }: StageFrame): boolean {
  const waits = lateness?.lateness;
  const totals = stats?.stats;
  return waits !== undefined && waits.start === totals?.start && waits.end === totals.end;
}

/** Return how long a rank waits for other ranks without computing; 0 if unknown. */
function exposedWait(frame: StageFrame, rank: number): number {
  const index = hasWaits(frame) ? frame.lateness?.at.get(rank) : undefined;
  return index === undefined ? 0 : (frame.lateness?.lateness.exposed_wait[index] ?? 0);
}

type TextPair = readonly [left: string, right: string];

function drawFirstPair(
  pen: CanvasPen,
  theme: Theme,
  pairs: readonly TextPair[],
  left: number,
  right: number,
  baseline: number,
): void {
  const widthOf = (text: string): number => pen.textWidth(text, FONT.label);
  const fits = pairs.find((texts) => widthOf(texts[0]) + widthOf(texts[1]) + 8 <= right - left);
  if (fits === undefined) return;
  pen.drawText(fits[0], left, baseline, FONT.label, theme.ink2);
  pen.drawText(fits[1], right, baseline, FONT.label, theme.ink3, "right");
}

/** Return whether a rank has only MPI rows. The rest of its time is then work, not idle time. */
export function isMpi({ summary }: Pick<SceneRank, "summary">): boolean {
  const rows = summary.filter(({ role }) => role !== "cpu");
  return rows.length > 0 && rows.every(({ label }) => label === "MPI");
}

/** Draw the column of totals on the right. */

import { deviceOf, hasDevice } from "../protocol/scene";
import type { SceneRank } from "../protocol/source";
import { formatShare } from "../ui/formats";
import { FONT, type Theme } from "../ui/theme";
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
  pen.fillRect(
    x,
    geometry.stripTop,
    geometry.margin,
    geometry.height - geometry.stripTop,
    theme.bg,
  );
  drawTitle(pen, frame, x);
  pen.withClip(x, geometry.rowsTop, geometry.margin, geometry.rowsHeight, () => {
    for (const row of placed) drawRow(pen, frame, row, x);
  });
  const end = Math.max(0, ...placed.map(({ row, y }) => y + row.height));
  if (end < geometry.height) pen.horizontalLine(end, x, geometry.width, theme.rule);
  pen.verticalLine(x, geometry.stripTop, geometry.height, theme.rule);
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
  pen.drawTruncated(
    `${device} time${label === undefined ? " in view" : `, ${label}`}`,
    x + PAD,
    y,
    availableWidth,
    FONT.label,
    theme.ink3,
  );
  const has = placed.some(({ row }) => row.rank.summary.some(({ role }) => role === "comm"));
  if (geometry.stripRows > 1 && !has) {
    pen.drawFirstFit(["idle"], x + PAD, y + 16, availableWidth, FONT.label, theme.ink3);
  } else if (geometry.stripRows > 1) {
    const part = hasWaits(frame) ? "waiting" : "comm";
    const keys =
      device === "MPI" ? [`${part} · other`] : [`exposed ${part} · idle`, `${part} · idle`];
    pen.drawFirstFit(keys, x + PAD, y + 16, availableWidth, FONT.label, theme.ink3);
  }
}

function drawRow(pen: CanvasPen, frame: StageFrame, placed: PlacedRow, x: number): void {
  const { geometry, theme, stats } = frame;
  const { row, y, clipTop } = placed;
  if (row.track !== null) return;
  const height = Math.min(row.height, placed.clipBottom - y);
  const late = frame.lateness?.late.has(row.rank.rank) ?? false;
  pen.fillRect(x, Math.max(y, clipTop), geometry.margin, height, rowBackground(theme, late));
  if (y >= clipTop && row.isJoined !== true) {
    pen.horizontalLine(y, x, geometry.width, theme.rule);
  }
  const index = stats?.at.get(row.rank.rank);
  if (stats === null || index === undefined) return;
  if (!hasDevice(row.rank)) return;
  const { compute, exposed, memory, unrecorded, idle, span } = stats.stats;
  const totalNs = span[index] ?? 0;
  const left = x + PAD;
  const width = geometry.margin - 2 * PAD;
  const compact = row.height < 24;
  const barHeight = row.height >= 36 ? 11 : 8;
  const top = compact
    ? y + Math.round((row.height - barHeight) / 2)
    : y + (row.height >= 36 ? 3 : 4);
  pen.ctx.globalAlpha = frame.isStale ? 0.4 : 1;
  if (totalNs > 0) {
    const wait = exposedWait(frame, row.rank.rank);
    let from = left;
    for (const [ns, fill, hatch] of [
      [compute[index] ?? 0, theme.kind.compute],
      [(exposed[index] ?? 0) - wait, theme.kind.communication],
      [wait, theme.waitFill, theme.waitLine],
      [memory[index] ?? 0, theme.kind.memory],
      [unrecorded[index] ?? 0, theme.idle, theme.idleLine],
    ] as const) {
      const to = from + (ns / totalNs) * width;
      if (hatch === undefined) pen.fillRect(from, top, to - from, barHeight, fill);
      else pen.hatchedRect(from, top, to - from, barHeight, fill, hatch);
      from = to;
    }
  }
  pen.strokeFrame(left, top, width, barHeight, theme.idleLine, 1);
  pen.ctx.globalAlpha = 1;
  // Numbers of an earlier view would be wrong; a pale bar is a hint at most.
  if (!compact && !frame.isStale) {
    const baseline = top + barHeight + (row.height >= 36 ? 14 : 12);
    if (totalNs > 0) {
      const isMatched = hasWaits(frame);
      const share =
        (isMatched ? exposedWait(frame, row.rank.rank) : (exposed[index] ?? 0)) / totalNs;
      const text = share > 0 ? `${isMatched ? "waiting" : "comm"} ${formatShare(share)}` : "";
      if (row.rank.truncated !== null) {
        // The missing part of the file may cover this time, so it is not known to be idle.
        pen.drawText("file cut off", left, baseline, FONT.label, theme.warnInk);
      } else if (late) {
        pen.drawText("causes the wait", left, baseline, FONT.labelStrong, theme.late);
      } else {
        const [idleNs, unrecordedNs] = [idle[index] ?? 0, unrecorded[index] ?? 0];
        // The heading names idle time only.
        const isIdle = idleNs >= unrecordedNs;
        const restColor = isMpi(row.rank) ? "other" : isIdle ? "idle" : "unrecorded";
        const restText = formatShare(Math.max(idleNs, unrecordedNs) / totalNs);
        const isNamed = geometry.stripRows > 1 && isIdle;
        drawNumberPair(pen, theme, left, baseline, width, text, [restColor, restText], isNamed);
      }
    } else {
      const text =
        (stats.stats.data[index] ?? 0) > 0
          ? `no ${deviceOf({ ranks: [row.rank] })} work`
          : "no data";
      pen.drawText(text, left, baseline, FONT.label, theme.ink3);
    }
  }
}

/** Whether waits are known for the window of the totals. */
function hasWaits({ lateness, stats }: StageFrame): boolean {
  const waits = lateness?.lateness;
  const totals = stats?.stats;
  return waits !== undefined && waits.start === totals?.start && waits.end === totals.end;
}

/** Time that a rank waits for others without computing; 0 if unknown. */
function exposedWait(frame: StageFrame, rank: number): number {
  const index = hasWaits(frame) ? frame.lateness?.at.get(rank) : undefined;
  return index === undefined ? 0 : (frame.lateness?.lateness.exposed_wait[index] ?? 0);
}

/**
 * Draw the exposed share on the left and the idle share on the right. If they do not fit, leave out
 * the words if the column has a heading (`isNamed`), otherwise the idle share.
 */
function drawNumberPair(
  pen: CanvasPen,
  theme: Theme,
  x: number,
  y: number,
  width: number,
  exposed: string,
  [rest, share]: readonly [string, string],
  isNamed: boolean,
): void {
  const shortText = exposed.replace(/^\w+ /, "");
  const forms: [string, string][] = [[exposed, `${rest} ${share}`]];
  if (isNamed) forms.push([shortText, `${rest} ${share}`], [shortText, share]);
  else forms.push([exposed, ""]);
  const fits = forms.find(
    ([a, b]) => pen.textWidth(a, FONT.label) + pen.textWidth(b, FONT.label) + 8 <= width,
  );
  if (fits === undefined) return;
  pen.drawText(fits[0], x, y, FONT.label, theme.ink2);
  pen.drawText(fits[1], x + width, y, FONT.label, theme.ink3, "right");
}

/** Whether a rank's rows show only MPI calls; its other time is work, not idleness. */
export function isMpi({ summary }: Pick<SceneRank, "summary">): boolean {
  const rows = summary.filter(({ role }) => role !== "cpu");
  return rows.length > 0 && rows.every(({ label }) => label === "MPI");
}

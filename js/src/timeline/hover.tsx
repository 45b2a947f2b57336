/** Outline the event under the pointer and show its tooltip. */

import { ranksText } from "../facts/rank_text";
import { signal } from "@preact/signals";
import { sum } from "../expressions/numbers";
import { FLAGS } from "../facts/limits";
import { MAX_U16 } from "../protocol/decode";
import type {
  RankGroups,
  Cell,
  GapReply,
  Kind,
  LaneGap,
  StageHit,
  RowInfo,
  SceneTrack,
  Slice,
} from "../protocol/source";
import { deviceOf } from "../protocol/scene";
import { kindName } from "../ui/text";
import {
  formatCount,
  formatDuration,
  formatShare,
  formatTime,
  formatValue,
  plural,
} from "../ui/formats";
import { onSignal } from "../ui/react";
import { type TooltipLine, TooltipState } from "../ui/tooltip";
import { debounce, LatestRequest, type TimelineContext } from "./context";
import type { GapSelection } from "./gaps";
import { LaunchArrows } from "./launches";
import { gapLines } from "./panels/gap";
import type { RowPin } from "./pin";
import type { RowsController } from "./rows";
import { arrivalText, cutText } from "./text";

/** The pointer must rest on a cell for this long before its exact figures are requested. */
const DWELL_MS = 140;
/** The view must be unchanged for this long before the tooltip is updated. */
const SETTLE_MS = 90;
const MARK_HIT_PX = 40;

/** Return a share such as `12.4 %`. The decimal distinguishes the shares of adjacent cells. */
export function busyText(share: number): string {
  if (share <= 0) return "0\u202f%";
  if (share >= 1) return "100\u202f%";
  const percent = share * 100;
  // These shares would be rounded to 0 or 100 %.
  if (percent < 0.05) return "<0.1\u202f%";
  if (percent > 99.95) return ">99.9\u202f%";
  return `${percent.toFixed(1)}\u202f%`;
}

function rangeText({ min = null, max = null }: Cell, unit = ""): string {
  if (min === null || max === null) return "no value here";
  const [low, high] = [min, max].map((value) => formatValue(value, unit));
  return low === high ? low! : `${low} to ${high}`;
}

function noteLine(text: string): TooltipLine {
  return [<span class="hta-note">{text}</span>];
}

function lateLines({ name, dur }: Slice, rank: number): TooltipLine[] {
  return [
    [<b>{`${formatDuration(dur)} late`}</b>],
    [`rank ${rank} · ${name}`],
    noteLine("starts this long after the median of the other ranks"),
  ];
}

/** Describe the ranks that share a row, or why a rank has its own row. */
function foldedRankLines({ rank, memberRanks }: RowInfo, groups: RankGroups | null): TooltipLine[] {
  if (groups === null) return [];
  const lines: TooltipLine[] = [];
  const reason = groups.reasons.get(rank) ?? "";
  const [representative = rank] =
    [...groups.groups].find(([, ranks]) => ranks.includes(rank)) ?? [];
  if (memberRanks !== undefined) {
    lines.push([<b>{ranksText(memberRanks)}</b>, " are similar; drawn:"]);
  } else if (representative !== rank && !groups.unfolded.has(representative)) {
    lines.push([`similar to rank ${representative}; shown separately while selected`]);
  }
  if (reason !== "")
    lines.push([memberRanks === undefined ? "Not folded: " : "Unlike most: ", reason]);
  return lines;
}

interface HoverParts {
  readonly ctx: TimelineContext;
  readonly rows: RowsController;
  readonly gapSelection: GapSelection;
  readonly pin: RowPin;
}

export class HoverController {
  /** The row under the pointer, used for pinning. */
  row: RowInfo | null = null;
  readonly hovered = signal<Slice | null>(null);
  readonly tooltip = new TooltipState();
  private point: { x: number; y: number } | null = null;
  private frame = 0;
  private outlinedKey = "";
  private readonly scheduleRefresh;
  private laneExtent: { lane: number; top: number; bottom: number } | null = null;
  /** Key of the cell or gap whose exact figures were requested. */
  private watchedKey = "";
  private exactCell: Cell | null = null;
  private hoveredGaps: (GapReply & { lane: number }) | null = null;
  private cellError: string | null = null;
  private dwell = 0;
  private readonly arrows: LaunchArrows;
  private readonly newest: LatestRequest;

  constructor(private readonly app: HoverParts) {
    const { ctx, rows } = app;
    this.scheduleRefresh = debounce(SETTLE_MS, ctx.signal, () => this.refreshNow());
    this.arrows = new LaunchArrows(ctx, () => this.refreshNow());
    this.newest = new LatestRequest(ctx.signal);
    ctx.stage.onView(() => this.requestRefresh());
    onSignal(rows.stateSignal, () => this.requestRefresh(), ctx.signal);
    ctx.signal.addEventListener("abort", () => this.leave(), { once: true });
    // Scroll events of inner elements do not bubble.
    const onScroll = (): void => this.leave();
    document.addEventListener("scroll", onScroll, { capture: true, signal: ctx.signal });
  }

  move(point: { x: number; y: number }): void {
    this.point = point;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.updateTooltip();
    });
  }

  leave(): void {
    this.point = null;
    this.scheduleRefresh.cancel();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.reset();
    this.tooltip.hide();
    this.outline(null);
    this.setRow(null, null);
  }

  /** Hide the tooltip while the view moves under the pointer. Update it when the view rests. */
  private requestRefresh(): void {
    this.laneExtent = null;
    if (this.point === null) return;
    this.tooltip.hide();
    this.outline(null);
    this.scheduleRefresh();
  }

  private refreshNow(): void {
    this.laneExtent = null;
    if (this.point !== null) this.move(this.point);
  }

  private updateTooltip(): void {
    const { point } = this;
    if (point === null) return;
    const hit = this.app.ctx.stage.hitTest(point.x, point.y);
    this.setRow(hit.row, hit.region === "gutter" ? point : null);
    this.outline(hit.slice);
    this.requestDetails(point.x, hit);
    const lines = this.tooltipLines(hit);
    if (lines.length === 0) this.tooltip.hide();
    else this.tooltip.show(point, this.markExtent(point, hit), lines);
  }

  private tooltipLines(hit: StageHit): TooltipLine[] {
    if (hit.arrival) {
      const [head, more] = arrivalText(hit.arrival);
      return [[<b>{head}</b>], [more]];
    }
    if (hit.region === "lanes")
      return hit.slice === null ? this.cellLines(hit) : this.sliceLines(hit.slice);
    if (hit.region === "strip" && hit.step !== null) {
      const { name, dur, start } = hit.step;
      return [[<b>{name}</b>], [`${formatDuration(dur)} from ${formatTime(start)}`]];
    }
    if (hit.region === "axis") return [[formatTime(hit.time)]];
    if (hit.region === "gutter" && hit.row !== null) return this.rowLines(hit.row);
    return [];
  }

  private sliceLines(slice: Slice): TooltipLine[] {
    const { lanes, scene } = this.app.ctx;
    const { lane, name, dur, wait = 0 } = slice;
    const waiting = wait > 0 ? `, including ${formatDuration(wait)} waiting` : "";
    const lines: TooltipLine[] = [
      [<b>{name}</b>],
      [`rank ${lanes.locate(lane)!.rank.rank} · ${formatDuration(dur)}${waiting}`],
    ];
    if (this.arrows.tooltipText !== "") lines.push(noteLine(this.arrows.tooltipText));
    const cut = cutText(slice, scene);
    if (cut !== "") lines.push(noteLine(cut));
    if ((slice.flags & FLAGS.slice.spilled) !== 0) {
      lines.push(noteLine("on an extra lane, because it overlaps other events"));
    }
    return lines;
  }

  private cellLines(hit: StageHit): TooltipLine[] {
    const counter = this.counterOf(hit);
    if (counter !== null) {
      const { exactCell, cellError } = this;
      const text = exactCell === null ? (cellError ?? "…") : rangeText(exactCell, counter.unit);
      return [[<b>{counter.label}</b>], [text]];
    }
    const { cell, lane, late } = hit;
    if (lane === null) return [];
    if (cell === null || cell.count === 0) {
      if (late) return lateLines(late, this.app.ctx.lanes.locate(lane)!.rank.rank);
      return this.gapLines(hit, lane).map((line, index) => [index === 0 ? <b>{line}</b> : line]);
    }
    const { exactCell } = this;
    const widthNs = cell.end - cell.start;
    const exactCount = exactCell?.count ?? null;
    // `MAX_U16` is the maximum count that tiles can store.
    const more = exactCount === null && cell.count === MAX_U16 ? " or more" : "";
    const countText = `${plural(exactCount ?? cell.count, "event")}${more}`;
    const share = exactCell === null ? cell.busy : exactCell.busy / Math.max(widthNs, 1);
    const place = this.app.ctx.lanes.locate(lane);
    const rankText = place === null ? "" : `rank ${place.rank.rank} · `;
    return [
      [<b>{`${countText}, ${busyText(share)} busy`}</b>],
      [this.longestText(cell.kind)],
      noteLine(`${rankText}${formatDuration(widthNs)} wide`),
    ];
  }

  /** Return a cell's longest event as text or, while it is unknown, the main kind. */
  private longestText(mainKind: Kind | null): string {
    const { exactCell, cellError } = this;
    if (exactCell?.longest) {
      return `longest: ${exactCell.longest.short} ${formatDuration(exactCell.longest.dur)}`;
    }
    const kindText = mainKind === null ? "" : `mostly ${kindName(mainKind)}`;
    return cellError ?? (exactCell === null ? `longest: … ${kindText}`.trim() : kindText);
  }

  private trackLines(row: RowInfo, track: SceneTrack): TooltipLine[] {
    const eventsText = plural(track.events, "event");
    const lines: TooltipLine[] = [
      [<b>{`rank ${row.rank} · ${track.label}`}</b>],
      [track.process === "" ? eventsText : `${track.process} · ${eventsText}`],
    ];
    const spilled = track.lanes - track.nested;
    if (track.role === "stream" && spilled > 0 && track.nested > 0) {
      lines.push(noteLine(`${plural(spilled, "extra lane")}: events overlap without nesting`));
    }
    if (row.stacks === "open") {
      lines.push(noteLine("Click ▾ to fold levels of Python frames without branches"));
    } else if (row.stacks === "folded") {
      const levels = plural(sum((track.stacks ?? []).map(([, count]) => count)), "level");
      const text = `${levels} of Python frames without branches are folded; click ▸ to unfold`;
      lines.push(noteLine(text));
    }
    return [...lines, ...this.emptyLaneLines(row, track)];
  }

  private emptyLaneLines({ thinLanes }: RowInfo, { lanes }: SceneTrack): TooltipLine[] {
    if (this.app.rows.keepEmptyLanes.value) {
      return [noteLine("Click to draw empty lanes at reduced height")];
    }
    if (thinLanes === undefined) return [];
    const count = thinLanes === lanes ? "All" : `${thinLanes} of ${lanes}`;
    return [
      noteLine(`${count} lanes are empty in view, at reduced height`),
      noteLine("Click to draw empty lanes at full height"),
    ];
  }

  private rowLines(row: RowInfo): TooltipLine[] {
    if (row.track !== null) return this.trackLines(row, row.track);
    const rank = this.app.ctx.lanes.findRank(row.rank);
    if (rank === null) return [];
    const lines: TooltipLine[] = [
      ...foldedRankLines(row, this.app.rows.rankGroups.value),
      [<b>{`rank ${rank.rank}`}</b>, rank.host === null ? "" : ` on ${rank.host}`],
      [`${formatCount(rank.events)} events · ${rank.file.split(/[\\/]/).at(-1) ?? ""}`],
      [`Lanes: ${rank.summary.map(({ label }) => label).join(", ")}`],
    ];
    if (rank.truncated !== null) lines.push([<span class="hta-warn-text">{rank.truncated}</span>]);
    if (rank.problems > 0)
      lines.push([<span class="hta-warn-text">{plural(rank.problems, "problem")}</span>]);
    lines.push(noteLine(`Click to ${row.open ? "close" : "open"} its tracks`));
    if (row.badge !== undefined) {
      const action = row.badge === "fold" ? "fold similar ranks" : "show all these ranks";
      lines.push(noteLine(`Click ≡ to ${action}`));
    }
    return lines;
  }

  private outline(slice: StageHit["slice"]): void {
    const key = slice === null ? "" : `${slice.lane}/${slice.start}/${slice.dur}`;
    if (key === this.outlinedKey) return;
    this.outlinedKey = key;
    const hover = slice === null ? null : { lane: slice.lane, start: slice.start, dur: slice.dur };
    this.app.ctx.stage.setOverlay({ hover });
    this.arrows.show(slice);
    this.hovered.value = slice;
  }

  private setRow(row: RowInfo | null, inGutter: { x: number; y: number } | null): void {
    this.row = row;
    this.app.pin.show(row, inGutter);
  }

  private counterOf({ lane }: StageHit): SceneTrack | null {
    const track = lane === null ? null : (this.app.ctx.lanes.locate(lane)?.track ?? null);
    return track?.role === "counter" ? track : null;
  }

  private gapLines(hit: StageHit, lane: number): string[] {
    const gaps = this.gapsUnderPointer(hit);
    if (gaps === null) return [];
    if (gaps.gap !== null) return gapLines(gaps.gap, deviceOf(this.app.ctx.scene));
    return gaps.lane_gap === null ? [] : this.laneGapLines(gaps.lane_gap, lane);
  }

  /** Describe what other streams do while a device lane is without work. */
  private laneGapLines({ start, end, running }: LaneGap, lane: number): string[] {
    const { lanes } = this.app.ctx;
    const place = lanes.locate(lane);
    const role = place?.summary?.role === "comm" ? "communication" : "compute";
    const workText = place?.track ? `work on ${place.track.label}` : role;
    const [first, ...others] = running;
    const head = `No ${workText} for ${formatDuration(end - start)}`;
    if (first === undefined) return [head];
    const { longest, count, time } = first;
    const runs = count === 1 ? "runs" : `runs ${formatCount(count)} times`;
    const stream = lanes.locate(longest.lane)?.track?.label ?? "";
    const more = others.length === 0 ? "" : `; ${plural(others.length, "other name")}`;
    const share = formatShare(time / (end - start));
    return [head, `${longest.short} ${runs} on ${stream}, ${share} of it${more}`];
  }

  private gapsUnderPointer({ lane, time }: StageHit): GapReply | null {
    const { hoveredGaps } = this;
    if (hoveredGaps?.lane !== lane) return null;
    const gap = hoveredGaps.gap ?? hoveredGaps.lane_gap;
    return gap !== null && gap.start <= time && time < gap.end ? hoveredGaps : null;
  }

  /** Request exact figures once the pointer rests on a cell, a counter or a gap. */
  private requestDetails(x: number, hit: StageHit): void {
    const { slice, cell, lane } = hit;
    if (slice !== null || lane === null) this.reset();
    else if (cell !== null && cell.count > 0) this.requestCell(lane, cell.start, cell.end);
    else if (hit.late) this.reset();
    else if (this.counterOf(hit) !== null) {
      const { stage } = this.app.ctx;
      const start = Math.floor(stage.timeAt(Math.floor(x)));
      const end = Math.max(Math.ceil(stage.timeAt(Math.floor(x) + 1)), start + 1);
      this.requestCell(lane, start, end);
    } else if (this.app.gapSelection.isDevice(lane)) this.requestGap(lane, hit);
    else this.reset();
  }

  private requestCell(lane: number, start: number, end: number): void {
    this.requestLater(`${lane}/${start}/${end}`, () =>
      this.newest.ask(
        (signal) => this.app.ctx.source.ask("cell", { lane, start, end }, signal),
        ({ reply }) => {
          this.exactCell = reply;
          this.refreshNow();
        },
        ({ message }) => {
          this.cellError = message;
          this.refreshNow();
        },
      ),
    );
  }

  private requestGap(lane: number, hit: StageHit): void {
    const { ctx, gapSelection } = this.app;
    const rank = ctx.lanes.locate(lane)?.rank.rank;
    if (rank === undefined || this.gapsUnderPointer(hit) !== null) return;
    this.requestLater(`gap ${lane}/${Math.floor(hit.time)}`, () =>
      this.newest.ask(
        (signal) => gapSelection.gapsAt(rank, lane, hit.time, signal),
        // Failures are shown only after a click.
        (gaps) => {
          this.hoveredGaps = { ...gaps, lane };
          this.refreshNow();
        },
      ),
    );
  }

  private requestLater(key: string, ask: () => void): void {
    if (key === this.watchedKey) return;
    this.reset();
    this.watchedKey = key;
    this.dwell = window.setTimeout(ask, DWELL_MS);
  }

  private reset(): void {
    clearTimeout(this.dwell);
    this.newest.cancel();
    this.watchedKey = "";
    this.exactCell = null;
    this.cellError = null;
  }

  /** Return top and bottom of the lane under the pointer, found by hit tests above and below it. */
  private markExtent(
    point: { x: number; y: number },
    hit: StageHit,
  ): { top: number; bottom: number } | null {
    if (hit.region !== "lanes" || hit.lane === null) return null;
    const { laneExtent } = this;
    if (laneExtent?.lane === hit.lane && point.y >= laneExtent.top && point.y <= laneExtent.bottom)
      return laneExtent;
    const isSameLane = (y: number): boolean =>
      this.app.ctx.stage.hitTest(point.x, y).lane === hit.lane;
    let { y: top, y: bottom } = point;
    while (point.y - top < MARK_HIT_PX && isSameLane(top - 1)) top -= 1;
    while (bottom - point.y < MARK_HIT_PX && isSameLane(bottom + 1)) bottom += 1;
    this.laneExtent = { lane: hit.lane, top, bottom };
    return this.laneExtent;
  }
}

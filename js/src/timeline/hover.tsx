/** Outline the event under the pointer and show its tooltip. */

import { signal } from "@preact/signals";
import type { Alike, Cell, Gap, Hit, RowInfo, SceneTrack, Slice } from "../protocol/source";
import { kindName } from "../ui/controls";
import {
  formatCount,
  formatDuration,
  formatTime,
  formatValue,
  plural,
  rangesText,
} from "../ui/formats";
import { react } from "../ui/react";
import { type TipLine, Tooltip } from "../ui/tooltip";
import { debounce, Newest } from "./context";
import { LaunchArrows } from "./launches";
import { gapLines } from "./panels/gap";
import { arrivalWords, cutWords } from "./text";
import type { TimelineApp } from "./view";

/** After resting this long on a cell, the pointer requests its exact figures. */
const DWELL_MS = 140;
/** Time without a change of the view before the tooltip is updated. */
const REST_MS = 90;
const MARK_REACH_PX = 40;

/** `12.4 %`: one decimal, because a busy share is compared with its neighbour's. */
export function busyText(share: number): string {
  if (share <= 0) return "0\u202f%";
  if (share >= 1) return "100\u202f%";
  const percent = share * 100;
  if (percent < 0.05) return "<0.1\u202f%";
  return `${percent > 99.95 ? ">99.9" : percent.toFixed(1)}\u202f%`;
}

function note(text: string): TipLine {
  return [<span class="hta-note">{text}</span>];
}

/** Describe the ranks that a row represents, or why it has one of its own. */
function foldLines({ rank, like }: RowInfo, alike: Alike | null): TipLine[] {
  if (alike === null) return [];
  const lines: TipLine[] = [];
  const why = alike.why.get(rank) ?? "";
  const stands = [...alike.groups].find(([, ranks]) => ranks.includes(rank))?.[0];
  if (like !== undefined) {
    lines.push([<b>{`ranks ${rangesText(like)}`}</b>, " are alike; drawn:"]);
  } else if (stands !== undefined && stands !== rank && !alike.unfolded.has(stands)) {
    lines.push([`similar to rank ${stands}; shown separately while selected`]);
  }
  if (why !== "") lines.push([like === undefined ? "Not folded: " : "Unlike most: ", why]);
  return lines;
}

export class Hover {
  /** The row under the pointer, for pinning. */
  row: RowInfo | null = null;
  /** The event under the pointer. */
  readonly hovered = signal<Slice | null>(null);
  readonly tip = new Tooltip();
  private point: { x: number; y: number } | null = null;
  private frame = 0;
  private outlined = "";
  private readonly again;
  private extent: { lane: number; top: number; bottom: number } | null = null;
  /** Names what the exact figures are requested for. */
  private watched = "";
  private exact: Cell | null = null;
  private gap: Gap | null = null;
  private cellError: string | null = null;
  private dwell = 0;
  private readonly arrows: LaunchArrows;
  private readonly newest: Newest;

  constructor(private readonly app: Pick<TimelineApp, "ctx" | "rows" | "gaps" | "pin">) {
    const { ctx, rows } = app;
    this.again = debounce(REST_MS, ctx.signal, () => this.refresh());
    this.arrows = new LaunchArrows(ctx, () => this.refresh());
    this.newest = new Newest(ctx.signal);
    ctx.stage.onView(() => this.moved());
    react(rows.now, () => this.moved(), ctx.signal);
    ctx.signal.addEventListener("abort", () => this.leave(), { once: true });
    // Scroll events of inner elements do not bubble.
    const scrolled = (): void => this.leave();
    document.addEventListener("scroll", scrolled, { capture: true, signal: ctx.signal });
  }

  move(point: { x: number; y: number }): void {
    this.point = point;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.print();
    });
  }

  leave(): void {
    this.point = null;
    this.again.cancel();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.forget();
    this.tip.hide();
    this.outline(null);
    this.setRow(null, null);
  }

  /** Clear the tooltip: the view moves under a resting pointer, so its text is out of date. */
  private moved(): void {
    this.extent = null;
    if (this.point === null) return;
    this.tip.hide();
    this.outline(null);
    this.again();
  }

  private refresh(): void {
    this.extent = null;
    if (this.point !== null) this.move(this.point);
  }

  private print(): void {
    const { point } = this;
    if (point === null) return;
    const hit = this.app.ctx.stage.hit(point.x, point.y);
    this.setRow(hit.row, hit.region === "gutter" ? point : null);
    this.outline(hit.slice);
    this.watch(point.x, hit);
    const lines = this.lines(hit);
    if (lines.length === 0) this.tip.hide();
    else this.tip.show(point, this.markExtent(point, hit), lines);
  }

  private lines(hit: Hit): TipLine[] {
    if (hit.arrival) {
      const [head, more] = arrivalWords(hit.arrival);
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

  private sliceLines(slice: Slice): TipLine[] {
    const { lanes, scene } = this.app.ctx;
    const { lane, name, dur, wait = 0 } = slice;
    const waiting = wait > 0 ? `, of it ${formatDuration(wait)} waiting` : "";
    const lines: TipLine[] = [
      [<b>{name}</b>],
      [`rank ${lanes.at(lane)!.rank.rank} · ${formatDuration(dur)}${waiting}`],
    ];
    if (this.arrows.words !== "") lines.push(note(this.arrows.words));
    const cut = cutWords(slice, scene);
    if (cut !== "") lines.push(note(cut));
    if ((slice.flags & 2) !== 0) lines.push(note("overlaps its neighbours: own lane"));
    return lines;
  }

  private counterLines(track: SceneTrack): TipLine[] {
    const { exact } = this;
    const unit = track.unit ?? "";
    const text = (value: number): string => formatValue(value, unit);
    let value = this.cellError ?? "…";
    if (exact !== null) {
      const { min = null, max = null } = exact;
      if (min === null || max === null) value = "no value here";
      else value = min === max ? text(min) : `${text(min)} to ${text(max)}`;
    }
    return [[<b>{track.label}</b>], [value]];
  }

  private cellLines(hit: Hit): TipLine[] {
    const counter = this.counterOf(hit);
    if (counter !== null) return this.counterLines(counter);
    const { cell, lane } = hit;
    if (lane === null) return [];
    if (cell === null || cell.count === 0) {
      const gap = this.gapUnder(hit);
      return gap === null ? [] : gapLines(gap).map((line, at) => [at === 0 ? <b>{line}</b> : line]);
    }
    const { exact } = this;
    const count = exact?.count ?? cell.count;
    const share = exact === null ? cell.busy : exact.busy / Math.max(cell.end - cell.start, 1);
    const more = typeof exact?.count !== "number" && cell.count === 65535 ? " or more" : "";
    const place = this.app.ctx.lanes.at(lane);
    const head = `${plural(count, "event")}${more}, ${busyText(share)} busy`;
    const lines: TipLine[] = [[<b>{head}</b>]];
    if (exact?.longest) {
      lines.push([`longest: ${exact.longest.short} ${formatDuration(exact.longest.dur)}`]);
    } else {
      const kind = cell.kind === null ? "" : `mostly ${kindName(cell.kind)}`;
      lines.push([this.cellError ?? (exact === null ? `longest: … ${kind}`.trim() : kind)]);
    }
    const rank = place === null ? "" : `rank ${place.rank.rank} · `;
    lines.push(note(`${rank}${formatDuration(cell.end - cell.start)} wide`));
    return lines;
  }

  private rowLines(row: RowInfo): TipLine[] {
    const { value: alike } = this.app.rows.alike;
    const { value: roomy } = this.app.rows.roomy;
    const rank = this.app.ctx.lanes.rank(row.rank);
    if (row.track !== null) {
      const { track } = row;
      const lines: TipLine[] = [[<b>{`rank ${row.rank} · ${track.label}`}</b>]];
      lines.push([
        [track.process, plural(track.events, "event")].filter((part) => part !== "").join(" · "),
      ]);
      const spilled = track.lanes - track.nested;
      if (track.role === "stream" && spilled > 0 && track.nested > 0) {
        lines.push(note(`${plural(spilled, "extra lane")}: events overlap without nesting`));
      }
      if (row.thin !== undefined) {
        const which = row.thin === track.lanes ? "Nothing" : `${row.thin} of ${track.lanes} lanes`;
        const what = row.thin === track.lanes ? "of it is in view" : "are empty in view";
        lines.push(note(`${which} ${what}: drawn thin`));
      }
      if (row.thin !== undefined || roomy) {
        const what = roomy ? "make empty lanes thin" : "give empty lanes their height";
        lines.push(note(`Click to ${what}`));
      }
      return lines;
    }
    if (rank === null) return [];
    const lines: TipLine[] = [
      ...foldLines(row, alike),
      [<b>{`rank ${rank.rank}`}</b>, rank.host === null ? "" : ` on ${rank.host}`],
      [`${formatCount(rank.events)} events · ${rank.file.split(/[\\/]/).at(-1) ?? ""}`],
    ];
    if (rank.truncated !== null) lines.push([<span class="hta-warn-text">{rank.truncated}</span>]);
    if (rank.problems > 0)
      lines.push([<span class="hta-warn-text">{plural(rank.problems, "problem")}</span>]);
    lines.push(note(`Click to ${row.open ? "close" : "open"} its tracks`));
    if (row.badge !== undefined) {
      const what = row.badge === "fold" ? "fold similar ranks" : "show all these ranks";
      lines.push(note(`Click ≡ to ${what}`));
    }
    return lines;
  }

  private outline(slice: Hit["slice"]): void {
    const key = slice === null ? "" : `${slice.lane}/${slice.start}/${slice.dur}`;
    if (key === this.outlined) return;
    this.outlined = key;
    const hover = slice === null ? null : { lane: slice.lane, start: slice.start, dur: slice.dur };
    this.app.ctx.stage.setOverlay({ hover });
    this.arrows.show(slice);
    this.hovered.value = slice;
  }

  private setRow(row: RowInfo | null, inGutter: { x: number; y: number } | null): void {
    this.row = row;
    this.app.pin.show(row, inGutter);
  }

  private counterOf({ lane }: Hit): SceneTrack | null {
    const track = lane === null ? null : (this.app.ctx.lanes.at(lane)?.track ?? null);
    return track?.role === "counter" ? track : null;
  }

  /** The gap under the pointer, once it is known. */
  private gapUnder({ lane, time }: Hit): Gap | null {
    const { gap, app } = this;
    if (gap === null || lane === null || !app.gaps.isDevice(lane)) return null;
    const isHere = app.ctx.lanes.at(lane)?.rank.rank === gap.rank;
    return isHere && gap.start <= time && time < gap.end ? gap : null;
  }

  /** Request the exact figures at a point once the pointer rests there; of events they are known. */
  private watch(x: number, hit: Hit): void {
    const { slice, cell, lane } = hit;
    if (slice !== null || lane === null) this.forget();
    else if (cell !== null && cell.count > 0) this.watchCell(lane, cell.start, cell.end);
    else if (this.counterOf(hit) !== null) {
      const { stage } = this.app.ctx;
      const start = Math.floor(stage.timeAt(Math.floor(x)));
      const end = Math.max(Math.ceil(stage.timeAt(Math.floor(x) + 1)), start + 1);
      this.watchCell(lane, start, end);
    } else if (this.app.gaps.isDevice(lane)) this.watchGap(lane, hit);
    else this.forget();
  }

  private watchCell(lane: number, start: number, end: number): void {
    this.askLater(`${lane}/${start}/${end}`, () =>
      this.newest.ask(
        (signal) => this.app.ctx.source.ask("cell", { lane, start, end }, signal),
        ({ reply }) => {
          this.exact = reply;
          this.refresh();
        },
        ({ message }) => {
          this.cellError = message;
          this.refresh();
        },
      ),
    );
  }

  private watchGap(lane: number, hit: Hit): void {
    const { ctx, gaps } = this.app;
    const rank = ctx.lanes.at(lane)?.rank.rank;
    if (rank === undefined || this.gapUnder(hit) !== null) return;
    this.askLater(`gap ${rank}/${Math.floor(hit.time)}`, () =>
      this.newest.ask(
        (signal) => gaps.at(rank, hit.time, signal),
        // A click shows a failure.
        (gap) => {
          this.gap = gap;
          this.refresh();
        },
      ),
    );
  }

  private askLater(key: string, ask: () => void): void {
    if (key === this.watched) return;
    this.forget();
    this.watched = key;
    this.dwell = window.setTimeout(ask, DWELL_MS);
  }

  private forget(): void {
    clearTimeout(this.dwell);
    this.newest.cancel();
    this.watched = "";
    this.exact = null;
    this.cellError = null;
  }

  /** Top and bottom of the mark at the pointer, found by probing upwards and downwards. */
  private markExtent(
    point: { x: number; y: number },
    hit: Hit,
  ): { top: number; bottom: number } | null {
    if (hit.region !== "lanes" || hit.lane === null) return null;
    const { extent } = this;
    if (extent?.lane === hit.lane && point.y >= extent.top && point.y <= extent.bottom)
      return extent;
    const same = (y: number): boolean => this.app.ctx.stage.hit(point.x, y).lane === hit.lane;
    let top = point.y;
    let bottom = point.y;
    while (point.y - top < MARK_REACH_PX && same(top - 1)) top -= 1;
    while (bottom - point.y < MARK_REACH_PX && same(bottom + 1)) bottom += 1;
    this.extent = { lane: hit.lane, top, bottom };
    return this.extent;
  }
}

/** Outline the event under the pointer and show its tooltip. */

import {
  type Alike,
  asError,
  type Gap,
  type Hit,
  isAbort,
  type RowInfo,
  type SceneTrack,
  type Slice,
  type Cell,
} from "../protocol/source";
import { kindName } from "../ui/controls";
import {
  formatCount,
  formatDuration,
  formatTime,
  formatValue,
  plural,
  rangesText,
} from "../ui/formats";
import type { TipLine, Tooltip } from "../ui/tooltip";
import { type Context, debounce, Emitter } from "./context";
import type { Gaps } from "./gaps";
import { LaunchArrows } from "./launches";
import { gapLines } from "./panels/gap";
import type { Rows } from "./rows";
import { arrivalWords, cutWords } from "./text";

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
  /** Emitted when the event under the pointer changes. */
  readonly hovered = new Emitter<Slice | null>();
  private point: { x: number; y: number } | null = null;
  private frame = 0;
  private outlined = "";
  private readonly again: (() => void) & { cancel(): void };
  private extent: { lane: number; top: number; bottom: number } | null = null;
  private cellKey = "";
  private exact: Cell | null = null;
  private gap: Gap | null = null;
  private cellError: string | null = null;
  private dwell = 0;
  private readonly arrows: LaunchArrows;
  private asked: AbortController | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly tip: Tooltip,
    private readonly rows: Rows,
    private readonly gaps: Gaps,
    /** Report the row under the pointer; the point is set only in the gutter. */
    private readonly rowChanged: (
      row: RowInfo | null,
      inGutter: { x: number; y: number } | null,
    ) => void,
  ) {
    this.again = debounce(REST_MS, ctx.signal, () => this.refresh());
    this.arrows = new LaunchArrows(ctx, () => this.refresh());
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
    this.forgetCell();
    this.tip.hide();
    this.outline(null);
    this.setRow(null, null);
  }

  /** Clear the tooltip: the view moves under a resting pointer, so its text is out of date. */
  moved(): void {
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
    const hit = this.ctx.stage.hit(point.x, point.y);
    this.setRow(hit.row, hit.region === "gutter" ? point : null);
    const slice = hit.region === "lanes" ? hit.slice : null;
    this.outline(slice);
    const counter = slice === null && this.counterOf(hit) !== null;
    if (slice === null && hit.cell !== null && hit.cell.count > 0)
      this.watchCell(hit.lane, hit.cell);
    else if (counter) this.watchCell(hit.lane, this.pixelAt(point.x));
    else if (slice === null && hit.region === "lanes" && this.gaps.isDevice(hit.lane))
      this.watchGap(hit);
    else this.forgetCell();
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
      return hit.slice === null ? this.cellLines(hit) : this.sliceLines(hit);
    if (hit.region === "strip" && hit.step !== null) {
      const { name, dur, start } = hit.step;
      return [[<b>{name}</b>], [`${formatDuration(dur)} from ${formatTime(start)}`]];
    }
    if (hit.region === "axis") return [[formatTime(hit.time)]];
    if (hit.region === "gutter" && hit.row !== null) return this.rowLines(hit.row);
    return [];
  }

  private sliceLines(hit: Hit): TipLine[] {
    const { slice, row } = hit;
    if (slice === null) return [];
    const rank = this.ctx.lanes.at(slice.lane)?.rank.rank ?? row?.rank;
    const waiting =
      slice.wait === undefined || slice.wait <= 0
        ? ""
        : `, of it ${formatDuration(slice.wait)} waiting`;
    const lines: TipLine[] = [
      [<b>{slice.name}</b>],
      [`rank ${rank ?? "?"} · ${formatDuration(slice.dur)}${waiting}`],
    ];
    if (this.arrows.words !== "") lines.push(note(this.arrows.words));
    const cut = cutWords(slice, this.ctx.scene);
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
    const place = this.ctx.lanes.at(lane);
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
    const rank = this.ctx.lanes.rank(row.rank);
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
      if (row.thin !== undefined || this.rows.roomy) {
        const what = this.rows.roomy ? "make empty lanes thin" : "give empty lanes their height";
        lines.push(note(`Click to ${what}`));
      }
      return lines;
    }
    if (rank === null) return [];
    const lines: TipLine[] = [
      ...foldLines(row, this.rows.alike),
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
    this.ctx.stage.setOverlay({ hover });
    this.arrows.show(slice);
    this.hovered.emit(slice);
  }

  private setRow(row: RowInfo | null, inGutter: { x: number; y: number } | null): void {
    this.row = row;
    this.rowChanged(row, inGutter);
  }

  private counterOf(hit: Hit): SceneTrack | null {
    if (hit.region !== "lanes" || hit.lane === null) return null;
    const track = this.ctx.lanes.at(hit.lane)?.track ?? null;
    return track?.role === "counter" ? track : null;
  }

  private pixelAt(x: number): { start: number; end: number } {
    const { stage } = this.ctx;
    const start = Math.floor(stage.timeAt(Math.floor(x)));
    return { start, end: Math.max(Math.ceil(stage.timeAt(Math.floor(x) + 1)), start + 1) };
  }

  private watchCell(lane: number | null, cell: { start: number; end: number }): void {
    if (lane === null) return;
    const key = `${lane}/${cell.start}/${cell.end}`;
    if (key === this.cellKey) return;
    this.forgetCell();
    this.cellKey = key;
    this.dwell = window.setTimeout(() => this.askCell(lane, cell.start, cell.end, key), DWELL_MS);
  }

  /** The gap under the pointer, once it is known. */
  private gapUnder({ lane, time }: Hit): Gap | null {
    const { gap } = this;
    if (gap === null || lane === null || !this.gaps.isDevice(lane)) return null;
    const isHere = this.ctx.lanes.at(lane)?.rank.rank === gap.rank;
    return isHere && gap.start <= time && time < gap.end ? gap : null;
  }

  private watchGap(hit: Hit): void {
    const rank = hit.lane === null ? undefined : this.ctx.lanes.at(hit.lane)?.rank.rank;
    const key = `gap ${rank}/${Math.floor(hit.time)}`;
    if (rank === undefined || key === this.cellKey || this.gapUnder(hit) !== null) return;
    this.forgetCell();
    this.cellKey = key;
    const asked = new AbortController();
    this.asked = asked;
    const ask = (): void => {
      this.gaps
        .at(rank, hit.time, asked.signal)
        .then((gap) => {
          if (this.cellKey !== key) return;
          this.gap = gap;
          this.refresh();
        })
        // A click shows the failure.
        .catch(() => undefined);
    };
    this.dwell = window.setTimeout(ask, DWELL_MS);
  }

  private forgetCell(): void {
    clearTimeout(this.dwell);
    this.asked?.abort();
    this.asked = null;
    this.cellKey = "";
    this.exact = null;
    this.cellError = null;
  }

  private askCell(lane: number, start: number, end: number, key: string): void {
    const asked = new AbortController();
    this.asked = asked;
    this.ctx.source
      .ask("cell", { lane, start, end }, asked.signal)
      .then(({ reply }) => {
        if (this.cellKey !== key) return;
        this.exact = reply;
        this.refresh();
      })
      .catch((error: unknown) => {
        if (isAbort(error) || this.cellKey !== key) return;
        this.cellError = asError(error).message;
        this.refresh();
      });
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
    const same = (y: number): boolean => this.ctx.stage.hit(point.x, y).lane === hit.lane;
    let top = point.y;
    let bottom = point.y;
    while (point.y - top < MARK_REACH_PX && same(top - 1)) top -= 1;
    while (bottom - point.y < MARK_REACH_PX && same(bottom + 1)) bottom += 1;
    this.extent = { lane: hit.lane, top, bottom };
    return this.extent;
  }
}

/** Between the timelines: where what is above has its counterpart below. */

import { fill, h } from "../app/dom";
import type { Brief, ThemeName } from "../contract";
import { formatDuration } from "../draw/format";
import { THEMES } from "../draw/theme";
import { deltaWords, shareWords } from "./delta";
import { classLook, classOfChange } from "./event_classes";

export interface Pair {
  /** In the order of display; null without a partner. */
  events: [Brief | null, Brief | null];
  status: string | null;
}

export type Tie = readonly [start: number, dur: number, start2: number, dur2: number];

export interface LinesWays {
  /** Where a time is drawn on the upper (0) or lower (1) timeline. */
  xOf(place: 0 | 1, time: number): number;
  /** From where to where lanes reach, px. */
  lanes(): [number, number];
  setTies(on: boolean): void;
}

const HEIGHT = 40;
/** Of the longer: within this, lines that nobody asked about one by one are of pairs alike. */
const SAME = 0.05;

/** What a pair says: name, both durations, difference, and what became of it. */
export function pairWords({ events, status }: Pair): {
  name: string;
  words: string;
  delta: string;
} {
  const [one, two] = events;
  const name = (two ?? one)?.short ?? "";
  if (one === null || two === null) {
    const there = one ?? two;
    const side = one === null ? "after only" : "before only";
    if (status === null) return { name, words: "not compared: outside of the steps", delta: "" };
    return {
      name,
      words: `${formatDuration(there?.dur ?? null)}, ${side}: ${status}`,
      delta: "",
    };
  }
  const diff = two.dur - one.dur;
  return {
    name: one.short === two.short ? name : `${one.short} → ${two.short}`,
    words: `${formatDuration(one.dur)} → ${formatDuration(two.dur)}`,
    delta: `${deltaWords(diff)} ${shareWords(diff, one.dur)}${status === "same" || status === "changed" ? "" : ` · ${status}`}`,
  };
}

export class PairLines {
  readonly el = h("div", { class: "hta-diff-lines" });
  private readonly said = h("span", { class: "hta-diff-pair", "aria-live": "polite" });
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly button: HTMLButtonElement;
  private hovered: Pair | null = null;
  private selected: Pair | null = null;
  private ties: readonly Tie[] = [];
  private starts: readonly (readonly [number, number])[] = [];
  private theme: ThemeName = "light";
  private width = 0;
  private frame = 0;
  private on = false;
  /** Nothing lies between the timelines: pairs are told in words alone. */
  private flat = false;

  constructor(private readonly ways: LinesWays) {
    this.button = h(
      "button",
      {
        type: "button",
        class: "hta-button hta-diff-ties",
        "aria-pressed": "false",
        title: "Draw lines between device work and its partner",
        on: { click: () => this.toggle() },
      },
      "Lines",
    );
    this.el.append(h("div", { class: "hta-diff-said" }, this.button, this.said), this.canvas);
    this.say();
  }

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    this.redraw();
  }

  setWidth(width: number): void {
    this.width = width;
    this.redraw();
  }

  setFlat(flat: boolean): void {
    this.flat = flat;
    this.button.hidden = flat;
    this.canvas.hidden = flat;
  }

  hover(pair: Pair | null): void {
    this.hovered = pair;
    this.say();
    this.redraw();
  }

  select(pair: Pair | null): void {
    this.selected = pair;
    this.say();
    this.redraw();
  }

  setTies(ties: readonly Tie[]): void {
    this.ties = ties;
    this.redraw();
  }

  /** Where slots start on both timelines. */
  setStarts(starts: readonly (readonly [number, number])[]): void {
    this.starts = starts;
    this.redraw();
  }

  get wantsTies(): boolean {
    return this.on && !this.flat;
  }

  redraw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private toggle(): void {
    this.on = !this.on;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.button.classList.toggle("hta-on", this.on);
    this.ways.setTies(this.on);
  }

  private say(): void {
    const pair = this.hovered ?? this.selected;
    if (pair === null) {
      fill(this.said, h("span", { class: "hta-note" }, "Point at an event to see its partner."));
      return;
    }
    const { name, words, delta } = pairWords(pair);
    fill(this.said, h("b", {}, name), ` ${words} `, h("b", {}, delta));
  }

  private draw(): void {
    const { canvas, width, ways } = this;
    if (width === 0 || this.flat) return;
    const dpr = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * dpr), Math.round(HEIGHT * dpr)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${HEIGHT}px`;
    }
    const pen = canvas.getContext("2d");
    if (pen === null) return;
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const [left, right] = ways.lanes();
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, HEIGHT);
    pen.clip();
    const { kind, ruleStrong } = THEMES[this.theme];
    pen.strokeStyle = this.starts.length > 100 ? ruleStrong : kind.annotation;
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    for (const [one, two] of this.starts) {
      pen.beginPath();
      pen.moveTo(Math.round(ways.xOf(0, one)) + 0.5, 0);
      pen.lineTo(Math.round(ways.xOf(1, two)) + 0.5, HEIGHT);
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const [start, dur, start2, dur2] of this.on ? this.ties : []) {
      this.band(pen, [start, dur], [start2, dur2], "changed", false);
    }
    for (const pair of [this.selected, this.hovered]) {
      const [one, two] = pair?.events ?? [null, null];
      if (one === null || two === null) continue;
      this.band(pen, [one.start, one.dur], [two.start, two.dur], pair?.status ?? "", true);
    }
    pen.restore();
  }

  private band(
    pen: CanvasRenderingContext2D,
    above: readonly [number, number],
    below: readonly [number, number],
    status: string,
    outlined: boolean,
  ): void {
    const { ways } = this;
    const theme = THEMES[this.theme];
    const x = (place: 0 | 1, time: number): number => ways.xOf(place, time);
    const [a0, a1] = [x(0, above[0]), x(0, above[0] + above[1])];
    const [b0, b1] = [x(1, below[0]), x(1, below[0] + below[1])];
    pen.beginPath();
    pen.moveTo(a0, 0);
    pen.lineTo(Math.max(a1, a0 + 1), 0);
    pen.bezierCurveTo(a1, HEIGHT / 2, b1, HEIGHT / 2, Math.max(b1, b0 + 1), HEIGHT);
    pen.lineTo(b0, HEIGHT);
    pen.bezierCurveTo(b0, HEIGHT / 2, a0, HEIGHT / 2, a0, 0);
    pen.closePath();
    pen.globalAlpha = outlined ? 0.9 : 0.55;
    const [long, short] = [Math.max(above[1], below[1]), Math.min(above[1], below[1])];
    const same = status === "same" || (status === "changed" && long - short <= SAME * long);
    pen.fillStyle = classLook(
      same ? "same" : classOfChange(status, above[1], below[1]),
      this.theme,
    ).colour;
    pen.fill();
    pen.globalAlpha = 1;
    if (!outlined) return;
    pen.strokeStyle = theme.selection;
    pen.lineWidth = 1.25;
    pen.stroke();
  }
}

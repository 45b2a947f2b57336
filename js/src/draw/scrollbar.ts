/** A slim scrollbar over the right edge of the rows; the rows are drawn, so the browser has none. */

import type { Geometry } from "../layout/geometry";
import type { Theme } from "./theme";

const WIDTH = 10;
const BAR = 6;
const SHORTEST = 24;

export class Scrollbar {
  readonly el: HTMLDivElement;
  private readonly thumb: HTMLDivElement;
  private geometry: Geometry | null = null;
  private content = 0;
  private room = 0;
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
      width: `${WIDTH}px`,
      display: "none",
      touchAction: "none",
    });
    Object.assign(this.thumb.style, {
      position: "absolute",
      right: "2px",
      width: `${BAR}px`,
      borderRadius: `${BAR / 2}px`,
    });
    // The stage's own gestures must not begin on the bar.
    for (const type of ["pointerdown", "dblclick", "click"] as const) {
      this.el.addEventListener(type, (event) => event.stopPropagation(), { signal });
    }
    this.el.addEventListener("pointerdown", (event) => this.drag(event, signal), { signal });
  }

  update(geometry: Geometry, content: number, scroll: number): void {
    this.geometry = geometry;
    this.content = content;
    this.room = geometry.rowsHeight;
    this.scroll = scroll;
    const needed = content > this.room + 0.5 && this.room > SHORTEST;
    this.el.style.display = needed ? "block" : "none";
    if (!needed) return;
    this.el.style.top = `${geometry.rowsTop}px`;
    this.el.style.height = `${this.room}px`;
    this.thumb.style.height = `${this.length()}px`;
    this.thumb.style.top = `${(scroll / (content - this.room)) * (this.room - this.length())}px`;
  }

  theme(theme: Theme): void {
    this.thumb.style.background = theme.ruleStrong;
    this.thumb.style.opacity = "0.7";
  }

  private length(): number {
    return Math.max(SHORTEST, (this.room / this.content) * this.room);
  }

  private drag(event: PointerEvent, signal: AbortSignal): void {
    if (event.button !== 0 || this.geometry === null) return;
    event.preventDefault();
    const perPx = (this.content - this.room) / Math.max(1, this.room - this.length());
    const box = this.el.getBoundingClientRect();
    const y = event.clientY - box.top;
    const top = this.scroll / perPx;
    let begin = this.scroll;
    if (y < top || y > top + this.length()) {
      begin = (y - this.length() / 2) * perPx;
      this.onScroll(begin);
    }
    const ended = new AbortController();
    signal.addEventListener("abort", () => ended.abort(), { signal: ended.signal });
    this.el.setPointerCapture(event.pointerId);
    const from = event.clientY;
    this.el.addEventListener(
      "pointermove",
      (move) => this.onScroll(begin + (move.clientY - from) * perPx),
      { signal: ended.signal },
    );
    for (const type of ["pointerup", "pointercancel"] as const) {
      this.el.addEventListener(type, () => ended.abort(), { signal: ended.signal });
    }
  }
}

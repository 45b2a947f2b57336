/** One chart of the dashboard: its sheet, what lies over it, and what it says. */

import { placeTip } from "../../app/gesture_maths";
import { fill, h } from "../../app/dom";
import { applyTheme } from "../../app/theme_vars";
import type { ThemeName } from "../../contract";
import { THEMES, type Theme } from "../../draw/theme";
import { watchBoxes } from "../../layout/size_watcher";
import type { Brush, ChartPanel, Chosen, PanelFrame } from "../types";
import { type Bokeh, Sheet } from "./bokeh";
import style from "./charts.css?raw";
import type { Box, Drawing, Picked, Spot } from "./drawing";
import { watchGestures } from "./gestures";
import { fillTable } from "./table";

export type Items = Readonly<Record<ThemeName, unknown>>;

/** A drawing of a frame; a sentence where there is nothing to draw. */
export type Make = (frame: PanelFrame, theme: Theme, width: number) => Drawing | string;

const EVERYTHING: Chosen = { ranks: null, names: null, kinds: null, window: null };

export class ChartFrame implements ChartPanel {
  readonly el: HTMLElement;
  private readonly view = h("div", { class: "hta-chart-view" });
  private readonly plot = h("div", { class: "hta-chart-plot", role: "img", tabindex: 0 });
  private readonly note = h("div", { class: "hta-chart-note", hidden: true });
  private readonly hovered = h("div", { class: "hta-chart-box hta-chart-hover", hidden: true });
  private readonly focused = h("div", { class: "hta-chart-box hta-chart-focus", hidden: true });
  private readonly brushed = h("div", { class: "hta-chart-box hta-chart-brush", hidden: true });
  private readonly tip = h("div", { class: "hta-chart-tip", role: "tooltip", hidden: true });
  private readonly said = h("div", { class: "hta-chart-words", "aria-live": "polite" });
  private readonly button = h("button", { class: "hta-chart-show", type: "button" }, "Show table");
  private readonly table = h("div", { class: "hta-chart-table", hidden: true });
  private readonly ended = new AbortController();

  private sheet: Sheet | null = null;
  private canvas: HTMLElement | null = null;
  private frame: PanelFrame | null = null;
  private chosen: Chosen = EVERYTHING;
  private drawing: Drawing | null = null;
  private width = 0;
  private height = 0;
  /** Width that the sheet was last given: it keeps that until it is told. */
  private drawnWidth = 0;
  private embedding = 0;

  constructor(
    private readonly bokeh: Bokeh,
    private readonly items: Items,
    private readonly make: Make,
    private readonly title: string,
    host: HTMLElement,
    private readonly onBrush: (brush: Brush) => void,
    private theme: ThemeName,
  ) {
    const { view, plot, note, hovered, focused, brushed, tip, said, button, table } = this;
    put(plot, hovered, focused, brushed);
    put(view, plot);
    this.el = h("div", { class: "hta-chart" }, h("style", {}, style));
    put(this.el, view, note, button, tip, said, table);
    applyTheme(this.el, theme);
    host.append(this.el);
    const { signal } = this.ended;
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => this.toggleTable(), { signal });
    watchBoxes([view], () => this.fit(), signal);
    watchGestures(
      {
        plot,
        drawing: () => this.drawing,
        chosen: () => this.chosen,
        brush: (brush) => this.onBrush(brush),
        hover: (spot, at) => this.hover(spot, at),
        focus: (spot) => this.focus(spot),
        dragging: (from, to) => {
          place(brushed, to === null ? null : (this.drawing?.dragBox(from, to) ?? null));
        },
      },
      signal,
    );
  }

  async embed(): Promise<void> {
    this.embedding += 1;
    const turn = this.embedding;
    const canvas = h("div", { class: "hta-chart-canvas" });
    this.plot.prepend(canvas);
    const sheet = await Sheet.embed(this.bokeh, this.items[this.theme], canvas);
    if (turn !== this.embedding) {
      sheet.destroy();
      canvas.remove();
      return;
    }
    this.sheet?.destroy();
    this.canvas?.remove();
    this.sheet = sheet;
    this.canvas = canvas;
    this.drawing = null;
    this.height = 0;
    this.redraw();
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    const same = frame === this.frame && this.drawing !== null;
    this.frame = frame;
    this.chosen = chosen;
    if (same && this.sheet !== null) this.drawing?.mark(this.sheet, chosen);
    else this.redraw();
    if (!this.table.hidden) fillTable(this.table, frame);
  }

  setTheme(theme: ThemeName): void {
    if (theme === this.theme) return;
    this.theme = theme;
    applyTheme(this.el, theme);
    void this.embed();
  }

  toPng(): Promise<Blob> {
    return this.drawn().blob("png");
  }

  toSvg(): Promise<Blob> {
    return this.drawn().blob("svg");
  }

  destroy(): void {
    this.embedding += 1;
    this.ended.abort();
    this.sheet?.destroy();
    this.sheet = null;
    this.drawing = null;
    this.el.remove();
  }

  private drawn(): Sheet {
    if (this.sheet === null || this.drawing === null) throw new Error("the chart is empty");
    return this.sheet;
  }

  private fit(): void {
    const width = Math.floor(this.view.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  private redraw(): void {
    const { frame, sheet } = this;
    if (frame === null || sheet === null) return;
    if (this.width === 0) this.width = Math.floor(this.view.clientWidth);
    if (this.width === 0) return;
    const made = this.make(frame, THEMES[this.theme], this.width);
    this.hover(null, null);
    this.focus(null);
    if (typeof made === "string") {
      this.drawing = null;
      this.say(made);
      return;
    }
    this.note.hidden = true;
    this.view.hidden = false;
    const height = made.layout(this.width);
    if (this.drawing !== null) made.follow(this.drawing);
    this.drawing = made;
    if (height !== this.height || this.drawnWidth !== this.width) {
      this.height = height;
      this.drawnWidth = this.width;
      this.plot.style.height = `${height}px`;
      sheet.size(this.width, height);
    }
    made.draw(sheet, this.chosen);
    const label = `${made.title}: ${made.finding}`;
    if (this.plot.getAttribute("aria-label") !== label) this.plot.setAttribute("aria-label", label);
  }

  /** The sentence in the chart's place. */
  private say(words: string): void {
    this.view.hidden = true;
    this.note.hidden = false;
    const sentence = words.charAt(0).toUpperCase() + words.slice(1);
    fill(this.note, h("b", {}, this.title), h("p", {}, sentence));
  }

  private hover(spot: Spot | null, at: Picked | null): void {
    place(this.hovered, spot?.box ?? null);
    this.tip.hidden = true;
    if (spot === null || at === null) return;
    this.showTip(spot, at);
  }

  private focus(spot: Spot | null): void {
    place(this.focused, spot?.box ?? null);
    if (spot === null) {
      if (this.hovered.hidden) this.tip.hidden = true;
      return;
    }
    const { left, top, width, height } = spot.box;
    this.showTip(spot, { x: left + Math.min(width, 240) / 2, y: top + height / 2 });
    this.said.textContent = [
      spot.tip.heading,
      ...spot.tip.lines.map(([what, value]) => `${what} ${value}`),
    ].join(", ");
    this.focused.scrollIntoView({ block: "nearest" });
  }

  private showTip(spot: Spot, at: Picked): void {
    const { tip } = this;
    const lines = spot.tip.lines.flatMap(([what, value]) => [
      h("dt", {}, what),
      h("dd", {}, value),
    ]);
    fill(tip, h("b", {}, spot.tip.heading), h("dl", {}, ...lines));
    tip.hidden = false;
    const scrolled = this.view.scrollTop;
    const size = { width: tip.offsetWidth, height: tip.offsetHeight };
    const room = {
      width: this.el.clientWidth,
      height: Math.max(this.el.clientHeight, at.y - scrolled + size.height + 16),
    };
    const mark = {
      top: spot.box.top - scrolled,
      bottom: spot.box.top - scrolled + spot.box.height,
    };
    const placed = placeTip({ x: at.x, y: at.y - scrolled }, size, room, mark);
    tip.style.transform = `translate(${Math.round(placed.left)}px, ${Math.round(placed.top)}px)`;
  }

  private toggleTable(): void {
    const open = this.table.hidden;
    this.table.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.button.textContent = open ? "Hide table" : "Show table";
    if (open && this.frame !== null) fillTable(this.table, this.frame);
  }
}

function put(parent: HTMLElement, ...children: HTMLElement[]): void {
  parent.append(...children);
}

function place(el: HTMLElement, box: Box | null): void {
  el.hidden = box === null;
  if (box === null) return;
  el.style.left = `${box.left}px`;
  el.style.top = `${box.top}px`;
  el.style.width = `${box.width}px`;
  el.style.height = `${box.height}px`;
}

/** Both timelines of a comparison: arrangement, colours, and the classes of their events. */

import { computed, signal } from "@preact/signals";
import { listenTo } from "../connection/store";
import { classParts, countsOf, eventClasses } from "../facts/event_classes";
import type { ClassCounts, ClassParts } from "../protocol/source";
import { kernelSays } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { Choice } from "../ui/controls";
import { h, mount } from "../ui/dom";
import { react } from "../ui/react";
import type { Arrange, Context } from "./context";
import { type Both, other, type Side, SIDES } from "./frames";
import { PairLines } from "./lines";
import { Link } from "./link";
import { ColourLegend } from "./toolbar";

export class Timelines {
  readonly el: HTMLElement;
  readonly link: Link;
  private readonly lines: PairLines;
  private readonly places = [
    h("div", { class: "hta-diff-side" }),
    h("div", { class: "hta-diff-side" }),
  ] as const;
  private readonly apps: Both<TimelineApp>;
  /** Reason why they are not arranged as chosen; "" if they are. */
  private readonly why = signal("");
  /** Matches calls again after a failure. */
  private readonly rematch = signal<(() => void) | null>(null);
  /** Number of events of each class; null until the classes of all events are known. */
  private readonly counts = signal<ClassCounts | null>(null);
  private readonly parts = signal<Both<ClassParts | null> | null>(null);

  constructor(private readonly ctx: Context) {
    const { signal: ended } = ctx.options;
    this.apps = [this.makeTimeline(0), this.makeTimeline(1)];
    this.lines = new PairLines(
      ctx,
      (place) => this.apps[this.sideAt(place)].ctx.stage,
      () => void this.link.loadTies(),
    );
    this.link = new Link(ctx, this.apps, this.lines);
    const head = h("div", { class: "hta-diff-times-head" });
    mount(this.head(), head, ended);
    const [before, after] = this.places;
    this.el = h(
      "section",
      { class: "hta-diff-timelines", "aria-label": "Timelines" },
      head,
      before,
      this.lines.el,
      after,
    );
    for (const side of SIDES) this.link.leadBy(this.places[side], side);
    for (const side of SIDES) this.takeColour(side);
    react(ctx.swapped, () => this.showOrder(), ended);
    react(
      () => [ctx.colour.value, ctx.swapped.value, this.counts.value, this.parts.value],
      () => this.showColour(),
      ended,
    );
    react(ctx.theme, (theme) => this.apps.forEach((app) => app.setTheme(theme)), ended);
  }

  private makeTimeline(side: Side): TimelineApp {
    const { ctx } = this;
    const { live, scenes, states, model, signal: ended } = ctx.options;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      scene: scenes[side],
      state: states[side],
      source: ctx.sources[side],
      height: (model.get("height") ?? 230) as number,
      signal: ended,
      keepHeight: (height) => {
        for (const one of this.apps) one.height = height;
        ctx.keep("height", height);
      },
      part: {
        title: ctx.about.labels[side],
        status,
        theme: ctx.theme.value,
        kernelSays: () => (live === null ? null : kernelSays(live.source)),
      },
    });
    this.places[side].append(status);
    return app;
  }

  /** Legend of colours, and the arrangement of both timelines. */
  private head() {
    const { ctx, why, rematch } = this;
    const counts = computed(() =>
      this.counts.value === null ? null : countsOf(this.counts.value, ctx.pair.value),
    );
    const Head = () => (
      <>
        <ColourLegend
          colour={ctx.colour.value}
          swapped={ctx.swapped.value}
          theme={ctx.theme.value}
          counts={counts.value}
          again={rematch.value}
          choose={(colour) => ctx.keep("color", colour)}
        />
        <ArrangeChoice
          chosen={ctx.arrange.value}
          why={why.value}
          choose={(arrange) => ctx.keep("arrange", arrange)}
        />
      </>
    );
    return <Head />;
  }

  /** The side that is drawn above (0) or below (1). */
  private sideAt(place: Side): Side {
    return this.ctx.swapped.value ? other(place) : place;
  }

  /** Arrange them in a width in px; returns whether they are side by side. */
  arrange(width: number): boolean {
    const { beside, why } = arrangedIn(width, this.ctx.arrange.value);
    this.why.value = why;
    this.el.classList.toggle("hta-diff-beside", beside);
    this.lines.flat.value = beside;
    for (const { ctx } of this.apps) ctx.stage.setSlim(beside);
    return beside;
  }

  /** Follow the sizes of the page's parts. */
  setWidth(): void {
    this.lines.width = this.lines.el.clientWidth;
    this.lines.redraw();
  }

  openExport(side: Side, anchor: HTMLElement): void {
    this.apps[side].panels.openExport(anchor);
  }

  sayAside(words: string): void {
    for (const { status } of this.apps) status.aside.value = words;
  }

  private showOrder(): void {
    const upper = this.places[this.sideAt(0)];
    const lower = this.places[this.sideAt(1)];
    [upper, this.lines.el, lower].forEach((el, at) => (el.style.order = String(at)));
    upper.classList.remove("hta-diff-second");
    lower.classList.add("hta-diff-second");
    this.lines.selected.value = null;
  }

  private showColour(): void {
    const { colour, swapped } = this.ctx;
    const byChange = colour.value === "change";
    this.el.classList.toggle("hta-diff-by-change", byChange);
    const classes = byChange ? eventClasses(swapped.value) : null;
    for (const side of SIDES) {
      const { stage, shared } = this.apps[side].ctx;
      stage.setClasses(classes, this.counts.value !== null, this.parts.value?.[side] ?? null);
      if (colour.value !== "change" && shared.state.color !== colour.value) {
        this.link.write(side, { color: colour.value });
      }
    }
  }

  /** Follow a timeline's own key for colours. */
  private takeColour(side: Side): void {
    const { states, signal: ended } = this.ctx.options;
    const take = (): void => {
      const chosen = this.ctx.colour.value;
      const { color } = this.apps[side].ctx.shared.state;
      if (chosen === color || (chosen === "change" && color === "kind")) return;
      this.ctx.keep("color", color);
    };
    listenTo(states[side], "change:color", take, ended);
  }

  /** Load the classes of events; tiles carry them from then on. */
  async classify(): Promise<void> {
    const { ctx } = this;
    const { source, signal: ended } = ctx.options;
    this.rematch.value = null;
    try {
      this.counts.value ??= (await source.ask("classes", {}, ended)).reply;
    } catch (error) {
      this.rematch.value = () => {
        this.rematch.value = null;
        ctx.again.emit();
      };
      throw error;
    }
    if (this.parts.value !== null) return;
    const overview = await ctx.frames.get("overview");
    this.parts.value = [classParts(overview, 0), classParts(overview, 1)];
  }
}

// Arrangement of the two timelines: stacked or side by side.

/** Narrower pages stack the timelines, whose lanes would have no room side by side. */
export const BESIDE_FROM_PX = 900;

const CHOICES: readonly (readonly [id: Arrange, text: string, about: string])[] = [
  ["stacked", "stacked", "Timelines one above the other"],
  ["beside", "beside", "Timelines side by side"],
];

/** Arrangement in a width, and the reason if it is not the chosen one. */
export function arrangedIn(width: number, chosen: Arrange): { beside: boolean; why: string } {
  if (chosen === "stacked") return { beside: false, why: "" };
  if (width >= BESIDE_FROM_PX) return { beside: true, why: "" };
  return { beside: false, why: `stacked: side by side needs ${BESIDE_FROM_PX} px` };
}

export function ArrangeChoice(look: {
  chosen: Arrange;
  why: string;
  choose(arrange: Arrange): void;
}) {
  const { chosen, why, choose } = look;
  return (
    <div class="hta-diff-arrange">
      <span class="hta-note" aria-live="polite">
        {why}
      </span>
      <span class="hta-note">Timelines</span>
      <Choice name="Timelines" data="arrange" options={CHOICES} chosen={chosen} choose={choose} />
    </div>
  );
}

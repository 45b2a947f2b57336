/** Both timelines of a comparison: arrangement, colours, and the classes of their events. */

import { computed, signal } from "@preact/signals";
import { listenTo } from "../connection/store";
import { classSharesOf, classCountsOf, eventClassPalette } from "../facts/event_classes";
import type { ClassCounts, ClassShares } from "../protocol/source";
import { kernelStatusOf } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { ChoiceButtons } from "../ui/controls";
import { h, renderInto } from "../ui/dom";
import { onSignal } from "../ui/react";
import type { Arrangement, DiffContext } from "./context";
import { type BySide, otherSide, type Side, SIDES } from "./frames";
import { PairLines } from "./lines";
import { TimelineLink } from "./link";
import { ColourLegend } from "./toolbar";

export class TimelinePair {
  readonly el: HTMLElement;
  readonly link: TimelineLink;
  private readonly lines: PairLines;
  private readonly places = [
    h("div", { class: "hta-diff-side" }),
    h("div", { class: "hta-diff-side" }),
  ] as const;
  private readonly apps: BySide<TimelineApp>;
  /** Reason why they are not arranged as chosen; "" if they are. */
  private readonly reason = signal("");
  /** Matches calls again after a failure. */
  private readonly matchAgain = signal<(() => void) | null>(null);
  /** Number of events of each class; null until the classes of all events are known. */
  private readonly counts = signal<ClassCounts | null>(null);
  private readonly parts = signal<BySide<ClassShares | null> | null>(null);

  constructor(private readonly ctx: DiffContext) {
    const { signal: abortSignal } = ctx.options;
    this.apps = [this.makeTimeline(0), this.makeTimeline(1)];
    this.lines = new PairLines(
      ctx,
      (place) => this.apps[this.sideAt(place)].ctx.stage,
      () => void this.link.loadTies(),
    );
    this.link = new TimelineLink(ctx, this.apps, this.lines);
    const head = h("div", { class: "hta-diff-times-head" });
    renderInto(this.head(), head, abortSignal);
    const [before, after] = this.places;
    this.el = h(
      "section",
      { class: "hta-diff-timelines", "aria-label": "Timelines" },
      head,
      before,
      this.lines.el,
      after,
    );
    for (const side of SIDES) this.link.trackLeader(this.places[side], side);
    for (const side of SIDES) this.followColour(side);
    onSignal(ctx.swapped, () => this.showOrder(), abortSignal);
    onSignal(
      () => [ctx.colour.value, ctx.swapped.value, this.counts.value, this.parts.value],
      () => this.showColour(),
      abortSignal,
    );
    onSignal(ctx.theme, (theme) => this.apps.forEach((app) => app.setTheme(theme)), abortSignal);
  }

  private makeTimeline(side: Side): TimelineApp {
    const { ctx } = this;
    const { live, scenes, states, model, signal: abortSignal } = ctx.options;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      scene: scenes[side],
      state: states[side],
      source: ctx.sources[side],
      height: (model.get("height") ?? 230) as number,
      signal: abortSignal,
      saveHeight: (height) => {
        for (const timeline of this.apps) timeline.height = height;
        ctx.saveTrait("height", height);
      },
      linkedPanel: {
        title: ctx.about.labels[side],
        status,
        theme: ctx.theme.value,
        kernelStatus: () => (live === null ? null : kernelStatusOf(live.source)),
      },
    });
    this.places[side].append(status);
    return app;
  }

  /** Legend of colours, and the arrangement of both timelines. */
  private head() {
    const { ctx, reason, matchAgain } = this;
    const counts = computed(() =>
      this.counts.value === null ? null : classCountsOf(this.counts.value, ctx.pair.value),
    );
    const Head = () => (
      <>
        <ColourLegend
          colour={ctx.colour.value}
          swapped={ctx.swapped.value}
          theme={ctx.theme.value}
          counts={counts.value}
          again={matchAgain.value}
          choose={(colour) => ctx.saveTrait("color", colour)}
        />
        <ArrangeChoice
          chosen={ctx.arrange.value}
          why={reason.value}
          choose={(arrange) => ctx.saveTrait("arrange", arrange)}
        />
      </>
    );
    return <Head />;
  }

  /** The side that is drawn above (0) or below (1). */
  private sideAt(place: Side): Side {
    return this.ctx.swapped.value ? otherSide(place) : place;
  }

  /** Arrange them in a width in px; returns whether they are side by side. */
  arrange(width: number): boolean {
    const { beside, reason } = arrangementFor(width, this.ctx.arrange.value);
    this.reason.value = reason;
    this.el.classList.toggle("hta-diff-beside", beside);
    this.lines.hasFlatEnds.value = beside;
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

  showAside(text: string): void {
    for (const { status } of this.apps) status.asideText.value = text;
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
    const classes = byChange ? eventClassPalette(swapped.value) : null;
    for (const side of SIDES) {
      const { stage, shared } = this.apps[side].ctx;
      stage.setClasses(classes, this.counts.value !== null, this.parts.value?.[side] ?? null);
      if (colour.value !== "change" && shared.state.color !== colour.value) {
        this.link.writePartner(side, { color: colour.value });
      }
    }
  }

  /** Follow a timeline's own key for colours. */
  private followColour(side: Side): void {
    const { states, signal: abortSignal } = this.ctx.options;
    const take = (): void => {
      const selected = this.ctx.colour.value;
      const { color } = this.apps[side].ctx.shared.state;
      if (selected === color || (selected === "change" && color === "kind")) return;
      this.ctx.saveTrait("color", color);
    };
    listenTo(states[side], "change:color", take, abortSignal);
  }

  /** Load the classes of events; tiles carry them from then on. */
  async loadClasses(): Promise<void> {
    const { ctx } = this;
    const { source, signal: abortSignal } = ctx.options;
    this.matchAgain.value = null;
    try {
      this.counts.value ??= (await source.ask("classes", {}, abortSignal)).reply;
    } catch (error) {
      this.matchAgain.value = () => {
        this.matchAgain.value = null;
        ctx.reloadRequested.emit();
      };
      throw error;
    }
    if (this.parts.value !== null) return;
    const overview = await ctx.frames.get("overview");
    this.parts.value = [classSharesOf(overview, 0), classSharesOf(overview, 1)];
  }
}

// Arrangement of the two timelines: stacked or side by side.

/** Narrower pages stack the timelines, whose lanes would have no room side by side. */
export const BESIDE_FROM_PX = 900;

const ARRANGEMENTS: readonly (readonly [id: Arrangement, text: string, about: string])[] = [
  ["stacked", "stacked", "Timelines one above the other"],
  ["beside", "beside", "Timelines side by side"],
];

/** Arrangement in a width, and the reason if it is not the chosen one. */
export function arrangementFor(
  width: number,
  selected: Arrangement,
): { beside: boolean; reason: string } {
  if (selected === "stacked") return { beside: false, reason: "" };
  if (width >= BESIDE_FROM_PX) return { beside: true, reason: "" };
  return { beside: false, reason: `stacked: side by side needs ${BESIDE_FROM_PX} px` };
}

export function ArrangeChoice(props: {
  chosen: Arrangement;
  why: string;
  choose(arrange: Arrangement): void;
}) {
  const { chosen, why, choose } = props;
  return (
    <div class="hta-diff-arrange">
      <span class="hta-note" aria-live="polite">
        {why}
      </span>
      <span class="hta-note">Timelines</span>
      <ChoiceButtons
        name="Timelines"
        data="arrange"
        options={ARRANGEMENTS}
        chosen={chosen}
        choose={choose}
      />
    </div>
  );
}

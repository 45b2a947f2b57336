/** The two timelines of a comparison: their placement, colors and event classes. */

import { computed, signal } from "@preact/signals";
import { listenTo } from "../connection/store";
import { classSharesOf, classCountsOf, eventClassPalette } from "../facts/event_classes";
import type { ClassCounts, ClassShares } from "../protocol/source";
import type { HelpGroup } from "../timeline/keys";
import { kernelStatusOf } from "../timeline/status";
import { Stage } from "../stage/stage";
import { TimelineApp } from "../timeline/view";
import { h, renderInto } from "../ui/dom";
import { onSignal } from "../ui/react";
import type { DiffContext } from "./context";
import { type BySide, otherSide, namesBesideSides, type Side, SIDES } from "./frames";
import { ColorLegend } from "./legend";
import { TimelineLink } from "./link";
import { PairLine } from "./partner";

const DIFF_HELP: HelpGroup = {
  title: "In the comparison",
  lines: [
    { keys: [["point"]], text: "outline the partner of an event, and describe both" },
    { keys: [["click"]], text: "select an event and its partner, and align their starts" },
    { keys: [["click"]], text: "a step, a change, a name, an operator: mark it on both sides" },
    { keys: [["Ctrl", "Z"]], text: "undo, from anywhere in the comparison" },
  ],
};

/** Must equal the default of the widget's trait. */
const DEFAULT_HEIGHT_PX = 820;

export class TimelinePair {
  readonly el: HTMLElement;
  readonly link: TimelineLink;
  private readonly places = [
    h("div", { class: "hta-diff-side" }),
    h("div", { class: "hta-diff-side" }),
  ] as const;
  private readonly apps: BySide<TimelineApp>;
  private readonly matchAgain = signal<(() => void) | null>(null);
  /** Number of events in each class; null until all events are classified. */
  private readonly counts = signal<ClassCounts | null>(null);
  private readonly parts = signal<BySide<ClassShares | null> | null>(null);

  constructor(private readonly ctx: DiffContext) {
    const { signal: abortSignal } = ctx.options;
    this.apps = [this.makeTimeline(0), this.makeTimeline(1)];
    this.link = new TimelineLink(ctx, this.apps);
    const head = h("div", { class: "hta-diff-times-head" });
    renderInto(this.head(), head, abortSignal);
    const pair = h("div", { class: "hta-diff-lanes" }, ...this.places);
    this.el = h("section", { class: "hta-diff-timelines", "aria-label": "Timelines" }, head, pair);
    for (const side of SIDES) this.link.trackLeader(this.places[side], side);
    for (const side of SIDES) this.followColor(side);
    onSignal(
      () => [ctx.swapped.value, ctx.coupled.value],
      () => this.showOrder(),
      abortSignal,
    );
    onSignal(
      () => [ctx.color.value, ctx.swapped.value, this.counts.value, this.parts.value],
      () => this.showColor(),
      abortSignal,
    );
    onSignal(ctx.theme, (theme) => this.apps.forEach((app) => app.setTheme(theme)), abortSignal);
  }

  private makeTimeline(side: Side): TimelineApp {
    const { ctx } = this;
    const { live, scenes, states, model, signal: abortSignal } = ctx.options;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      // A comparison colors events by change, by kind or by name.
      scene: { ...scenes[side], without_bounds: "in a comparison" },
      state: states[side],
      source: ctx.sources[side],
      height: this.shareOfHeight((model.get("height") ?? DEFAULT_HEIGHT_PX) as number),
      signal: abortSignal,
      saveHeight: (height) => {
        const total = ctx.coupled.value ? height : 2 * height;
        for (const timeline of this.apps) timeline.height = this.shareOfHeight(total);
        ctx.saveTrait("height", total);
      },
      linkedPanel: {
        title: namesBesideSides(ctx.about.labels)[side],
        status,
        theme: ctx.theme.value,
        help: DIFF_HELP,
        kernelStatus: () => (live === null ? null : kernelStatusOf(live.source)),
      },
    });
    this.places[side].append(status);
    return app;
  }

  /** Return the height of one timeline. Linked timelines are drawn in the same area. */
  private shareOfHeight(total: number): number {
    return this.ctx.coupled.value ? total : total / 2;
  }

  private head() {
    const { ctx, matchAgain } = this;
    const counts = computed(() =>
      this.counts.value === null ? null : classCountsOf(this.counts.value, ctx.pair.value),
    );
    const Head = () => (
      <>
        <ColorLegend
          color={ctx.color.value}
          swapped={ctx.swapped.value}
          theme={ctx.theme.value}
          counts={counts.value}
          again={matchAgain.value}
          choose={(color) => ctx.saveTrait("color", color)}
        />
        <PairLine ctx={ctx} />
      </>
    );
    return <Head />;
  }

  /** Return the side drawn above (0) or below (1). */
  private sideAt(place: Side): Side {
    return this.ctx.swapped.value ? otherSide(place) : place;
  }

  openExport(side: Side, anchor: HTMLElement): void {
    this.apps[side].panels.openExport(anchor);
  }

  toggleHelp(anchor: HTMLElement): void {
    this.apps[this.sideAt(0)].help.toggle(anchor);
  }

  /** Focus the search box, which belongs to the upper timeline. */
  focusSearch(): void {
    this.apps[this.sideAt(0)].commands.run("search");
  }

  showAside(text: string): void {
    for (const { status } of this.apps) status.asideText.value = text;
  }

  /** Draw linked timelines in the same area, rank by rank; otherwise, one above the other. */
  private showOrder(): void {
    const { ctx, places, apps } = this;
    const [upper, lower] = [this.sideAt(0), this.sideAt(1)];
    places[upper].style.order = "0";
    places[lower].style.order = "1";
    places[upper].classList.remove("hta-diff-second");
    places[lower].classList.add("hta-diff-second");
    const isPaired = ctx.coupled.value;
    this.el.classList.toggle("hta-diff-paired", isPaired);
    const stages = [apps[upper].ctx.stage, apps[lower].ctx.stage] as const;
    if (isPaired) {
      const partners = new Map(ctx.about.rank_pairs.map((pair) => [pair[upper], pair[lower]]));
      Stage.pair(stages, ["before", "after"], partners);
    } else for (const stage of stages) stage.unpair();
    const height = (ctx.options.model.get("height") ?? DEFAULT_HEIGHT_PX) as number;
    for (const app of apps) app.height = this.shareOfHeight(height);
    ctx.selectedPair.value = null;
  }

  private showColor(): void {
    const { color, swapped } = this.ctx;
    const byChange = color.value === "change";
    this.el.classList.toggle("hta-diff-by-change", byChange);
    const classes = byChange ? eventClassPalette(swapped.value) : null;
    for (const side of SIDES) {
      const { stage, shared } = this.apps[side].ctx;
      stage.setClasses(classes, this.counts.value !== null, this.parts.value?.[side] ?? null);
      if (color.value !== "change" && shared.state.color !== color.value) {
        this.link.writePartner(side, { color: color.value });
      }
    }
  }

  /** Adopt the coloring selected with a key in a timeline. */
  private followColor(side: Side): void {
    const { states, signal: abortSignal } = this.ctx.options;
    const take = (): void => {
      const selected = this.ctx.color.value;
      const { color } = this.apps[side].ctx.shared.state;
      if (color === "bound" || selected === color || (selected === "change" && color === "kind"))
        return;
      this.ctx.saveTrait("color", color);
    };
    listenTo(states[side], "change:color", take, abortSignal);
  }

  /** Load the classes of events. Tiles requested afterwards contain them. */
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

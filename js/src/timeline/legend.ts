/** Kinds as chips: legend, share of the window in view, and a switch to dim a kind. */

import KINDS from "../../../hta_widgets/facts/kinds.json";
import type { Kind, Scene, Lateness, Stats } from "../protocol/source";
import { isMpi } from "../stage/lanes";
import { button, kindName, swatch } from "../ui/controls";
import { aria, h, toggle } from "../ui/dom";
import { formatShare } from "../ui/formats";
import { Popover } from "../ui/menu";
import { type Context, Emitter } from "./context";

const MORE_GAP = 6;

const STATES = [
  {
    name: "wait",
    long: "waiting on the stream",
    short: "waiting",
    words:
      "waiting on the stream: the part of communication in which a rank waits for the last one " +
      "to arrive, hidden behind compute or exposed",
    share: true,
  },
  {
    name: "late",
    long: "late",
    short: "late",
    words: "the time in which the others were there and this rank was not",
    share: false,
  },
] as const;

/** Kinds that a job of these tracks can have, device kinds first. */
export function kindsOf(scene: Scene): Kind[] {
  const summaries = new Set(scene.ranks.flatMap((rank) => rank.summary.map((row) => row.role)));
  const roles = new Set(scene.ranks.flatMap((rank) => rank.tracks.map((track) => track.role)));
  const there: Record<Kind, boolean> = {
    compute: summaries.has("gpu"),
    communication: summaries.has("comm"),
    memory: summaries.has("gpu"),
    cpu: roles.has("thread"),
    sync: roles.has("thread") && summaries.has("gpu"),
    annotation: roles.has("annotation") || scene.steps.length > 0,
    other: roles.has("other") || roles.has("async") || roles.has("instant"),
  };
  const { kinds, host_kinds: withoutDevice = [] } = scene;
  return (Object.keys(there) as Kind[]).filter(
    (kind) => (there[kind] || withoutDevice.includes(kind)) && kinds.includes(kind),
  );
}

function sumOf(
  times: readonly number[],
  of: readonly number[],
  ranks: readonly number[] | null,
): number {
  return times.reduce(
    (sum, ns, at) => (ranks === null || ranks.includes(of[at]!) ? sum + ns : sum),
    0,
  );
}

/** A name, and a shorter form for narrow toolbars. */
function named(long: string, short: string): HTMLElement[] {
  if (long === short) return [h("span", {}, long)];
  return [h("span", { class: "hta-if-roomy" }, long), h("span", { class: "hta-if-brief" }, short)];
}

export class Legend {
  readonly el: HTMLElement;
  readonly dimmedChanged = new Emitter();
  private dimmed: ReadonlySet<Kind> = new Set();
  private readonly chips = new Map<Kind, HTMLButtonElement[]>();
  private readonly bar: HTMLElement;
  private readonly more: HTMLButtonElement;
  private readonly menu: Popover;
  private readonly list: HTMLElement;
  private shown: readonly Kind[] = [];
  private states: HTMLElement[] = [];
  /** Ranks and window that the shares refer to: `of all 8 ranks in view`. */
  private of = "";
  private narrow = false;

  constructor(
    private readonly ctx: Context,
    signal: AbortSignal,
  ) {
    this.bar = h("div", { class: "hta-chips" });
    this.list = h("div", { class: "hta-menu", role: "group", "aria-label": "Kinds" });
    this.more = button({ text: "Kinds", icon: "down", press: () => this.menu.toggle() });
    this.more.classList.add("hta-more");
    this.menu = new Popover(ctx.root, this.more, "Kinds of events", this.list, signal);
    this.el = h(
      "div",
      { class: "hta-legend", role: "group", "aria-label": "Kinds: share of the view" },
      this.bar,
      this.more,
    );
    this.setKinds(kindsOf(ctx.scene));
  }

  /** Set the kinds that the chips name. */
  setKinds(kinds: readonly Kind[]): void {
    if (kinds.join() === this.shown.join()) return;
    this.shown = kinds;
    this.chips.clear();
    this.states = [];
    this.bar.replaceChildren(
      ...kinds.flatMap((kind) =>
        kind === "communication"
          ? [this.chip(kind, false), ...this.stateKeys()]
          : [this.chip(kind, false)],
      ),
    );
    this.list.replaceChildren(...kinds.map((kind) => this.chip(kind, true)));
    this.print();
    this.arrange();
  }

  /** Shares of what is shown; null while they are not known. */
  setStats(stats: Stats | null, of = ""): void {
    this.of = of;
    for (const [kind, chips] of this.chips) {
      const share = stats?.kinds[kind];
      const text = share === undefined ? "" : formatShare(share);
      for (const chip of chips) {
        chip.title = `${kindName(kind)}: ${KINDS[kind]}.${this.saying(text)} Click to dim.`;
        const value = chip.querySelector(".hta-share");
        if (value !== null && value.textContent !== text) value.textContent = text;
      }
    }
    this.arrange();
  }

  /** Set the entry of waiting, the hatched part of communication. */
  setLateness(
    lateness: Lateness | null,
    stats: Stats | null,
    ranks: readonly number[] | null = null,
  ): void {
    const there = lateness !== null && lateness.wait.some((ns) => ns > 0);
    const span = stats === null ? 0 : sumOf(stats.span, stats.ranks, ranks);
    const wait = lateness === null ? 0 : sumOf(lateness.wait, lateness.ranks, ranks);
    const text = there && span > 0 ? formatShare(wait / span) : "";
    this.states.forEach((key, at) => {
      key.dataset.there = there ? "yes" : "no";
      toggle(key, "hta-named", (lateness?.late.length ?? 0) > 0);
      const value = key.querySelector(".hta-share");
      if (value !== null) value.textContent = text;
      const { words } = STATES[at]!;
      key.title = `${words}.${value === null ? "" : this.saying(text)}`;
    });
    this.arrange();
  }

  private saying(share: string): string {
    return share === "" || this.of === "" ? "" : ` ${share} of the GPU span ${this.of}.`;
  }

  setPending(pending: boolean): void {
    toggle(this.el, "hta-pending", pending);
  }

  setNarrow(narrow: boolean): void {
    this.narrow = narrow;
    this.arrange();
  }

  toggleKind(kind: Kind): void {
    const dimmed = new Set(this.dimmed);
    if (!dimmed.delete(kind)) dimmed.add(kind);
    this.dimmed = dimmed;
    this.ctx.stage.setOverlay({ dimmed });
    this.print();
    this.dimmedChanged.emit();
  }

  /** Use short names if the long ones do not fit; names without room are in the menu only. */
  arrange(): void {
    const chips = [...this.bar.children] as HTMLElement[];
    const off = new Set(this.states.filter((key) => key.dataset.there !== "yes"));
    for (const chip of chips) chip.hidden = this.narrow || off.has(chip);
    toggle(this.el, "hta-legend-narrow", this.narrow);
    this.more.hidden = !this.narrow;
    if (this.narrow) this.label("Kinds");
    if (this.narrow || this.el.clientWidth === 0) return;
    const room = this.el.clientWidth;
    toggle(this.el, "hta-brief", false);
    toggle(this.el, "hta-brief", this.bar.scrollWidth > room);
    if (this.bar.scrollWidth <= room) return;
    this.more.hidden = false;
    this.label(`+${chips.length}`);
    const left = room - this.more.offsetWidth - MORE_GAP;
    // Measured before any is hidden: each hidden one moves those behind it.
    const ends = chips.map((chip) => chip.offsetLeft + chip.offsetWidth - this.bar.offsetLeft);
    const fit = ends.filter((end) => end <= left).length;
    for (const chip of chips.slice(fit)) chip.hidden = true;
    const kinds = chips.slice(fit).filter((chip) => chip instanceof HTMLButtonElement).length;
    this.label(fit === 0 ? "Kinds" : `+${kinds}`);
  }

  private label(text: string): void {
    const label = this.more.querySelector(".hta-button-text");
    if (label !== null && label.textContent !== text) label.textContent = text;
  }

  /** Keys of marks drawn over communication; they are not switches. */
  private stateKeys(): HTMLElement[] {
    const where = this.ctx.scene.ranks.every(isMpi) ? "in MPI" : "on the stream";
    const placed = (text: string) => text.replace("on the stream", where);
    this.states = STATES.map(({ name, long, short, words, share }) =>
      h(
        "span",
        { class: "hta-chip hta-key-only", title: placed(words), hidden: true },
        h("i", { class: `hta-swatch hta-swatch-${name}`, "aria-hidden": "true" }),
        ...named(placed(long), short),
        share && h("span", { class: "hta-share" }),
      ),
    );
    return this.states;
  }

  private chip(kind: Kind, long: boolean): HTMLButtonElement {
    const chip = h(
      "button",
      {
        type: "button",
        class: "hta-chip",
        title: `${kindName(kind)}: ${KINDS[kind]}. Click to dim.`,
        on: { click: () => this.toggleKind(kind) },
      },
      swatch(kind),
      ...(kind === "communication" && !long
        ? named(kindName(kind), "comm")
        : [h("span", {}, kindName(kind))]),
      h("span", { class: "hta-share" }),
      long && h("span", { class: "hta-note" }, KINDS[kind]),
    );
    this.chips.set(kind, [...(this.chips.get(kind) ?? []), chip]);
    return chip;
  }

  private print(): void {
    for (const [kind, chips] of this.chips) {
      const off = this.dimmed.has(kind);
      for (const chip of chips) {
        aria(chip, "pressed", !off);
        toggle(chip, "hta-off", off);
      }
    }
  }
}

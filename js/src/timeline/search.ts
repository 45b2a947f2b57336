/** Search by name: counts, and stepping from hit to hit. */

import { asError, type Brief, isAbort } from "../protocol/source";
import { button, icon, kbd } from "../ui/controls";
import { aria, fill, h, toggle } from "../ui/dom";
import { formatCount } from "../ui/formats";
import { Popover } from "../ui/menu";
import { type Context, debounce, Emitter } from "./context";
import type { Picking } from "./selected_event";
import { type HitCount, isWhole } from "./text";

const TYPE_MS = 160;

export class Search {
  readonly changed = new Emitter();
  /** Count of the hits; null without a search. */
  hits: HitCount | null = null;
  /** Reason for a lack of hits: an invalid pattern, or a failed request. */
  error: string | null = null;
  /** Hits by rank. */
  ranks: ReadonlyMap<number, number> = new Map();
  pending = false;
  private asked: AbortController | null = null;
  private readonly later: (() => void) & { cancel(): void };
  private typed = "";
  private at: Brief | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly picking: Picking,
  ) {
    this.later = debounce(TYPE_MS, ctx.signal, () => this.commit());
    ctx.signal.addEventListener("abort", () => this.asked?.abort(), { once: true });
    ctx.source.onReply((op, request, reply) => {
      if (op !== "marks" || request.text !== this.hits?.text || this.hits === null) return;
      const inView = reply.reply.in_view;
      if (typeof inView !== "number" || inView === this.hits.inView) return;
      this.hits = { ...this.hits, inView };
      this.changed.emit();
    });
    if (this.text !== "") this.load();
  }

  get text(): string {
    return this.ctx.shared.state.search;
  }

  /** Whether an event is the current hit. */
  isAt(brief: Brief): boolean {
    const { at } = this;
    return at?.rank === brief.rank && at.table === brief.table && at.id === brief.id;
  }

  /** Set the text while the user types. */
  type(text: string): void {
    this.typed = text;
    this.later();
  }

  /** Search for a text immediately. */
  set(text: string): void {
    this.typed = text;
    this.commit();
  }

  clear(): void {
    this.set("");
  }

  /** Follow the text of the shared state. */
  follow(): void {
    this.typed = this.text;
    this.load();
  }

  async step(direction: 1 | -1): Promise<void> {
    if (this.typed !== this.text) this.commit();
    const text = this.text;
    if (text === "") return;
    this.pending = true;
    this.changed.emit();
    try {
      const from = this.picking.brief ?? this.at ?? this.viewStart();
      const reply = await this.ctx.source.ask("find", { text, from, direction }, this.ctx.signal);
      if (text !== this.text) return;
      const { brief, total, index, error } = reply.reply;
      this.hits = { text, index, total, inView: this.hits?.inView ?? null };
      this.error = error;
      if (brief !== null) {
        this.at = brief;
        this.picking.go(brief);
      }
    } catch (error) {
      if (isAbort(error)) return;
      this.error = asError(error).message;
    } finally {
      this.pending = false;
      this.changed.emit();
    }
  }

  /** Start of stepping: the start of the view, unless that is the whole job. */
  private viewStart(): { rank: number; start: number } | null {
    const { stage, scene } = this.ctx;
    const rank = scene.ranks[0]?.rank;
    if (rank === undefined || isWhole(stage.view(), scene)) return null;
    return { rank, start: Math.round(stage.view()[0]) };
  }

  private commit(): void {
    this.later.cancel();
    if (this.typed === this.text) return;
    this.ctx.shared.set({ search: this.typed });
    this.load();
  }

  private load(): void {
    this.asked?.abort();
    const text = this.text;
    this.at = null;
    this.error = null;
    this.ranks = new Map();
    this.ctx.stage.setOverlay({ search: text, hits: this.ranks });
    this.hits = null;
    this.pending = text !== "";
    this.changed.emit();
    if (text === "") return;
    const asked = new AbortController();
    this.asked = asked;
    this.ctx.source
      .ask("search", { text }, asked.signal)
      .then((reply) => {
        if (asked.signal.aborted) return;
        const { total, ranks, error } = reply.reply;
        this.error = error;
        this.hits = error === null ? { text, index: 0, total, inView: null } : null;
        this.ranks = new Map(ranks);
        this.ctx.stage.setOverlay({ hits: this.ranks });
        this.pending = false;
        this.changed.emit();
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.error = asError(error).message;
        this.pending = false;
        this.changed.emit();
      });
  }
}

// The search field with its count and arrows; in narrow toolbars an icon that opens a sheet.

export class SearchBox {
  /** Element in the toolbar. */
  readonly el: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly field: HTMLElement;
  private readonly count: HTMLElement;
  private readonly hint: HTMLElement;
  private readonly steps: HTMLElement;
  private readonly opener: HTMLButtonElement;
  private readonly sheet: Popover;
  private readonly sheetPlace: HTMLElement;
  private narrow = false;

  constructor(
    ctx: Context,
    private readonly search: Search,
    private readonly leave: () => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.input = h("input", {
      type: "text",
      class: "hta-input",
      placeholder: "Search",
      "aria-label": "Search names; /…/ is a regular expression",
      spellcheck: "false",
      autocomplete: "off",
      on: {
        input: () => this.search.type(this.input.value),
        keydown: (event: KeyboardEvent) => this.onKey(event),
      },
    });
    this.count = h("span", { class: "hta-count", "aria-live": "polite" });
    this.hint = kbd("/");
    const step = (direction: 1 | -1): void => this.step(direction);
    this.steps = h(
      "span",
      { class: "hta-steps" },
      button({ icon: "up", name: "Previous hit", key: "Shift+Enter", press: () => step(-1) }),
      button({ icon: "down", name: "Next hit", key: "Enter", press: () => step(1) }),
      button({ icon: "close", name: "Clear the search", press: () => this.clear() }),
    );
    this.field = h(
      "div",
      { class: "hta-search", role: "search" },
      icon("search"),
      this.input,
      this.count,
      this.hint,
      this.steps,
    );
    this.opener = button({
      icon: "search",
      name: "Search names",
      key: "/",
      press: () => this.sheet.toggle(),
    });
    this.opener.hidden = true;
    this.sheetPlace = h("div", { class: "hta-search-sheet" });
    this.sheet = new Popover(ctx.root, this.opener, "Search", this.sheetPlace, ctx.signal);
    this.el = h("div", { class: "hta-search-place" }, this.field, this.opener);
    search.changed.on(() => this.print());
    this.print();
  }

  focus(): void {
    if (this.narrow) this.sheet.open();
    this.input.focus({ preventScroll: true });
    this.input.select();
  }

  setNarrow(narrow: boolean): void {
    if (narrow === this.narrow) return;
    this.narrow = narrow;
    this.sheet.close();
    this.opener.hidden = !narrow;
    (narrow ? this.sheetPlace : this.el).prepend(this.field);
    toggle(this.field, "hta-search-wide", narrow);
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.sheet.close(false);
      this.leave();
    }
  }

  private step(direction: 1 | -1): void {
    if (this.input.value !== this.search.text) this.search.set(this.input.value);
    this.search.step(direction).catch(this.failed);
  }

  private clear(): void {
    this.input.value = "";
    this.search.clear();
    this.input.focus({ preventScroll: true });
  }

  private print(): void {
    const { hits, error, pending, text } = this.search;
    const typing = this.input.matches(":focus");
    if (!typing || text === "") {
      if (this.input.value !== text && !(typing && this.input.value !== ""))
        this.input.value = text;
    }
    const active = text !== "";
    this.hint.hidden = active;
    this.steps.hidden = !active;
    toggle(this.field, "hta-active", active);
    toggle(this.field, "hta-invalid", error !== null);
    aria(this.input, "invalid", error !== null);
    this.input.title = error ?? "";
    toggle(this.opener, "hta-on", active);
    if (error !== null) fill(this.count, "not searchable");
    else if (hits !== null && hits.total === 0) fill(this.count, "no hit");
    else if (hits !== null && hits.index > 0) {
      fill(this.count, `${formatCount(hits.index)} of ${formatCount(hits.total)}`);
    } else if (hits !== null) fill(this.count, formatCount(hits.total));
    else fill(this.count, pending ? "…" : "");
    this.count.title = error ?? "";
  }
}

/** The search field with its count and arrows; an icon that opens a sheet where room is short. */

import { formatCount } from "../draw/format";
import type { Context } from "./context";
import { button, kbd } from "./controls";
import { aria, fill, h, toggle } from "./dom";
import { icon } from "./icons";
import { Popover } from "./popover";
import type { Search } from "./search";

export class SearchBox {
  /** What stands in the toolbar. */
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

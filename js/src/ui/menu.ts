/** A popover under a button. */

import { aria, focused, h } from "./dom";

export class Popover {
  readonly el: HTMLElement;
  private shut: AbortController | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly anchor: HTMLElement,
    name: string,
    content: HTMLElement,
    private readonly signal: AbortSignal,
  ) {
    this.el = h("div", { class: "hta-popover", role: "dialog", "aria-label": name }, content);
    aria(anchor, "haspopup", "dialog");
    aria(anchor, "expanded", false);
  }

  get isOpen(): boolean {
    return this.shut !== null;
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  open(): void {
    if (this.isOpen || this.signal.aborted) return;
    const shut = new AbortController();
    this.shut = shut;
    this.root.append(this.el);
    this.place();
    aria(this.anchor, "expanded", true);
    const outside = (event: Event): void => {
      const path = event.composedPath();
      if (!path.includes(this.el) && !path.includes(this.anchor)) this.close(false);
    };
    const { signal } = shut;
    this.signal.addEventListener("abort", () => this.close(false), { signal });
    this.root.addEventListener("pointerdown", outside, { signal, capture: true });
    document.addEventListener("pointerdown", outside, { signal, capture: true });
    this.root.addEventListener("hta-escape", (event) => this.onEscape(event), { signal });
    this.el.querySelector<HTMLElement>("input, button")?.focus({ preventScroll: true });
  }

  close(giveFocusBack = true): void {
    if (this.shut === null) return;
    const inside = this.el.contains(focused(this.el));
    this.shut.abort();
    this.shut = null;
    this.el.remove();
    aria(this.anchor, "expanded", false);
    if (inside && giveFocusBack) this.anchor.focus({ preventScroll: true });
  }

  private onEscape(event: Event): void {
    event.preventDefault();
    event.stopImmediatePropagation();
    this.close();
  }

  /** Under the anchor, shifted to stay inside the widget. */
  private place(): void {
    const frame = this.root.getBoundingClientRect();
    const box = this.anchor.getBoundingClientRect();
    const width = this.el.offsetWidth;
    const left = Math.min(box.left - frame.left, frame.width - width - 8);
    this.el.style.left = `${Math.max(8, left)}px`;
    this.el.style.top = `${box.bottom - frame.top + 4}px`;
  }
}

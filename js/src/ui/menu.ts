/** A popover at a button. */

import { aria, focused, h } from "./dom";
import { visibleBox } from "./placing";

const GAP_PX = 4;
const EDGE_PX = 8;

export class Popover {
  readonly el: HTMLElement;
  private shut: AbortController | null = null;
  private before: Element | null = null;

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
    this.before = focused(this.root);
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
    if (!inside || !giveFocusBack) return;
    const { before, root, anchor } = this;
    // A button is not focused by a click in every browser.
    const back = before instanceof HTMLElement && root.contains(before) ? before : anchor;
    back.focus({ preventScroll: true });
  }

  private onEscape(event: Event): void {
    event.preventDefault();
    event.stopImmediatePropagation();
    this.close();
  }

  /** Below the anchor, above it if there is more room, always where it can be seen. */
  private place(): void {
    const { el, root } = this;
    const seen = visibleBox(root);
    const frame = root.getBoundingClientRect();
    // An anchor without a size is not shown: the corner of what is seen stands for it.
    const shown = this.anchor.getBoundingClientRect();
    const box =
      shown.width > 0 ? shown : { left: seen.right, top: seen.top + 40, bottom: seen.top + 40 };
    const below = seen.bottom - EDGE_PX - (box.bottom + GAP_PX);
    const above = box.top - GAP_PX - (seen.top + EDGE_PX);
    el.style.maxHeight = `${seen.bottom - seen.top - 2 * EDGE_PX}px`;
    const { offsetWidth: width, offsetHeight: height } = el;
    const wanted =
      height <= below || below >= above ? box.bottom + GAP_PX : box.top - GAP_PX - height;
    const top = clamp(wanted, seen.top + EDGE_PX, seen.bottom - EDGE_PX - height);
    const left = clamp(box.left, seen.left + EDGE_PX, seen.right - EDGE_PX - width);
    el.style.left = `${left - frame.left - root.clientLeft}px`;
    el.style.top = `${top - frame.top - root.clientTop}px`;
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(value, most));
}

/** One content that opens at different buttons. */
export class Sheet {
  private popover: Popover | null = null;

  constructor(
    private readonly root: () => HTMLElement,
    private readonly name: string,
    private readonly content: HTMLElement,
    private readonly signal: AbortSignal,
  ) {}

  get isOpen(): boolean {
    return this.popover?.isOpen === true;
  }

  open(anchor: HTMLElement): void {
    this.popover?.close(false);
    this.popover = new Popover(this.root(), anchor, this.name, this.content, this.signal);
    this.popover.open();
  }

  /** False if it was not open. */
  close(): boolean {
    const { isOpen } = this;
    this.popover?.close();
    return isOpen;
  }

  toggle(anchor: HTMLElement): void {
    if (!this.close()) this.open(anchor);
  }
}

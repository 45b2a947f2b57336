/** The place below the lanes that panels are pushed into; one at a time. */

import { Emitter } from "../context";
import { focused, h } from "../dom";

export type PanelId = "event" | "area" | "problems" | "export";

export interface Panel {
  readonly id: PanelId;
  readonly name: string;
  readonly el: HTMLElement;
}

export class Dock {
  readonly el: HTMLElement;
  readonly changed = new Emitter();
  current: PanelId | null = null;
  private readonly panels = new Map<PanelId, Panel>();

  constructor(private readonly giveFocus: () => void) {
    this.el = h("section", { class: "hta-dock", hidden: true });
  }

  add(panel: Panel): void {
    this.panels.set(panel.id, panel);
  }

  show(id: PanelId): void {
    const panel = this.panels.get(id);
    if (panel === undefined) return;
    const opening = this.current === null;
    this.keepFocus(() => {
      this.current = id;
      this.el.hidden = false;
      this.el.setAttribute("aria-label", panel.name);
      this.el.dataset.panel = id;
      this.el.replaceChildren(panel.el);
    });
    this.el.classList.toggle("hta-opening", opening);
    this.changed.emit();
  }

  /** False if nothing was open. */
  close(): boolean {
    if (this.current === null) return false;
    this.keepFocus(() => {
      this.current = null;
      this.el.hidden = true;
      this.el.replaceChildren();
    });
    this.changed.emit();
    return true;
  }

  /** What is replaced may hold the focus; keys must not fall to the page. */
  private keepFocus(change: () => void): void {
    const had = this.el.contains(focused(this.el));
    change();
    if (had && !this.el.contains(focused(this.el))) this.giveFocus();
  }
}

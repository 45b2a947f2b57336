/** The frame around a panel: what it says while numbers are missing, late or failed, and its menu. */

import { button } from "../app/controls";
import { type Child, fill, h, toggle } from "../app/dom";
import { failure } from "../app/panels/parts";
import { Popover } from "../app/popover";
import { panelKind } from "./catalog";
import type { PanelState } from "./panel_data";
import type { Chosen, PanelFrame } from "./types";

export interface MenuItem {
  text: string;
  press(): void;
}

export interface PaneWays {
  root: HTMLElement;
  signal: AbortSignal;
  retry(): void;
  menu(id: string): MenuItem[];
  /** The ranks that the headline names. */
  late(): readonly number[];
}

/** What a panel shows inside its frame. */
export interface Content {
  readonly el: HTMLElement;
  /** It says itself what it is: a chart's title is part of its picture. */
  readonly hasTitle: boolean;
  show(frame: PanelFrame, chosen: Chosen): void;
}

export class Pane {
  readonly el: HTMLElement;
  readonly id: string;
  private readonly head: HTMLElement;
  private readonly body: HTMLElement;
  private readonly said: HTMLElement;
  private content: Content | null = null;

  constructor(id: string, ways: PaneWays) {
    const kind = panelKind(id);
    this.id = id;
    this.head = h("header", { class: "hta-pane-head" }, h("h3", {}, kind.title));
    this.body = h("div", { class: "hta-pane-body" });
    this.said = h("div", { class: "hta-pane-said", hidden: true });
    const more = button({
      icon: "more",
      name: `${kind.title}: save, copy, hide`,
      class: "hta-pane-more",
      press: () => this.openMenu(more, ways),
    });
    this.el = h(
      "section",
      { class: `hta-pane hta-pane-${kind.look}`, "data-panel": id, "aria-label": kind.title },
      this.head,
      this.said,
      this.body,
      more,
    );
    this.retry = () => ways.retry();
    this.late = () => ways.late();
  }

  private readonly retry: () => void;
  private readonly late: () => readonly number[];
  private marked: { of: PanelFrame; late: readonly number[]; frame: PanelFrame } | null = null;
  private menu: Popover | null = null;

  /** Put a line under the title, or controls beside it. */
  setHead(...children: Child[]): void {
    fill(this.head, ...children);
  }

  setContent(content: Content): void {
    this.content = content;
    this.body.replaceChildren(content.el);
  }

  get hasContent(): boolean {
    return this.content !== null;
  }

  /** Keep this much room until there is something to show. */
  reserve(height: number | null): void {
    this.el.style.minHeight = height === null ? "" : `${height}px`;
  }

  /** Show numbers, or say why there are none. */
  show({ frame, isStale, error }: PanelState, chosen: Chosen): void {
    toggle(this.el, "hta-stale", isStale && frame !== null);
    this.el.setAttribute("aria-busy", String(isStale));
    const isDrawn = frame !== null && (frame.rows === 0 || this.content?.hasTitle === true);
    if (isDrawn || error !== null) this.reserve(null);
    if (error !== null) {
      this.say(failure("These numbers cannot be shown", error, this.retry));
      return;
    }
    if (frame === null) {
      this.say(h("p", { class: "hta-note" }, "Adding up…"));
      return;
    }
    const note = frame.attrs.note;
    if (frame.rows === 0) {
      this.say(h("p", {}, typeof note === "string" ? sentence(note) : "Nothing here is selected."));
      return;
    }
    this.say(null);
    this.content?.show(this.withLate(frame), chosen);
  }

  /** The frame, and which of its ranks the headline names; the same one while both are the same. */
  private withLate(of: PanelFrame): PanelFrame {
    const late = this.late();
    if (this.marked?.of !== of || this.marked.late !== late) {
      const frame = { ...of, attrs: { ...of.attrs, late_ranks: late } };
      this.marked = { of, late, frame };
    }
    return this.marked.frame;
  }

  /** In place of the numbers; null shows them. */
  private say(node: HTMLElement | null): void {
    this.said.hidden = node === null;
    this.body.hidden = node !== null;
    this.head.hidden = node === null && this.content?.hasTitle === true;
    fill(this.said, node);
  }

  private openMenu(anchor: HTMLElement, ways: PaneWays): void {
    if (this.menu?.isOpen === true) {
      this.menu.close();
      return;
    }
    const items = ways.menu(this.id).map(({ text, press }) =>
      h(
        "button",
        {
          type: "button",
          class: "hta-menu-item",
          on: {
            click: () => {
              this.menu?.close();
              press();
            },
          },
        },
        text,
      ),
    );
    const list = h("div", { class: "hta-dash-menu" }, ...items);
    this.menu = new Popover(ways.root, anchor, panelKind(this.id).title, list, ways.signal);
    this.menu.open();
  }
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

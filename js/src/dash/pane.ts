/** The frame around a panel: what it says while numbers are missing, late or failed, and its menu. */

import { button } from "../app/controls";
import { type Child, fill, h, toggle } from "../app/dom";
import { failure } from "../app/panels/parts";
import { Popover } from "../app/popover";
import { panelKind } from "./catalog";
import type { HeadlineFacts } from "./headline";
import type { Scene } from "../contract";
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
  /** The headline, which names the ranks to mark. */
  headline(): HeadlineFacts | null;
  scene(): Scene;
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
    this.headline = () => ways.headline();
    this.scene = () => ways.scene();
  }

  private readonly retry: () => void;
  private readonly headline: () => HeadlineFacts | null;
  private readonly scene: () => Scene;
  private marked: { of: PanelFrame; by: HeadlineFacts | null; frame: PanelFrame } | null = null;
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
    this.content?.show(this.withMarks(frame), chosen);
  }

  /** Add the ranks to mark, and kinds that the job has none of; the same object while unchanged. */
  private withMarks(of: PanelFrame): PanelFrame {
    const by = this.headline();
    if (this.marked?.of !== of || this.marked.by !== by) {
      const { late_ranks = [], fact_ranks = [] } = by ?? {};
      const roles = this.scene().ranks.flatMap(({ summary }) => summary.map(({ role }) => role));
      const absent_kinds = roles.includes("comm") ? [] : ["communication"];
      const attrs = { ...of.attrs, late_ranks, fact_ranks, absent_kinds };
      this.marked = { of, by, frame: { ...of, attrs } };
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

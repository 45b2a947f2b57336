/**
 * The place of a view. Until there is a view, a card shows progress and a cancel button, or why
 * there is none. Once the host has ended, a bar is shown above the view.
 */

import { button } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatBytes } from "../ui/formats";
import { sentence } from "../ui/text";
import type { WidgetHost } from "./host";
import type { Message } from "./wire";

const STAGES: Readonly<Record<string, string>> = {
  start: "Starting …",
  read: "Reading",
  draw: "Laying out …",
};

export interface Stage {
  stage: string;
  /** Bytes read so far, and bytes of all files. */
  done?: number;
  of?: number;
}

/** One view in a tab of a host that can start it again. */
export class ViewPlace {
  readonly bar = h("div", { class: "hta-root hta-host-bar" });
  readonly el = h("div", { class: "hta-host-view" });
  readonly card = h("div", { class: "hta-root hta-host-page hta-host-card" });
  private readonly text = h("p", { role: "status" });
  private readonly progressBar = h("progress", { "aria-label": "Progress of loading" });
  private readonly cancel: HTMLElement;
  /** Ends the view that is shown. */
  private shown: AbortController | null = null;

  constructor(private readonly ways: { cancel(): void; again(): void }) {
    this.cancel = button({ text: "Cancel", press: () => ways.cancel() });
    this.bar.hidden = true;
  }

  get isShown(): boolean {
    return this.shown !== null;
  }

  leave(): void {
    this.shown?.abort();
    this.shown = null;
    this.bar.hidden = true;
  }

  progress({ stage, done = 0, of = 0 }: Stage): void {
    if (this.isShown) return;
    const word = STAGES[stage] ?? stage;
    this.text.textContent = of > 0 ? `${word} ${formatBytes(done)} of ${formatBytes(of)}` : word;
    if (of > 0) Object.assign(this.progressBar, { max: of, value: done });
    else this.progressBar.removeAttribute("value");
    // Replacing the button would lose a click in progress.
    if (!this.card.contains(this.cancel)) {
      fill(this.card, this.text, this.progressBar, this.cancel);
    }
    if (this.card.parentNode !== this.el) fill(this.el, this.card);
  }

  /** Show a failure; `more` are buttons in front of the retry button. */
  failed(
    { message, path, place, remedy, cancelled }: Omit<Message, "type">,
    more: readonly HTMLElement[] = [],
  ): void {
    this.leave();
    const text = cancelled === true ? "Load" : "Try again";
    const again = button({ text, press: () => this.ways.again() });
    const where = [path, place].filter((part) => typeof part === "string").join(", ");
    fill(
      this.card,
      where !== "" && h("p", { class: "hta-host-path" }, where),
      h("p", { role: cancelled === true ? "status" : "alert" }, sentence(String(message))),
      typeof remedy === "string" && h("p", { class: "hta-note" }, remedy),
      more.length === 0 ? again : h("div", { class: "hta-host-pair" }, ...more, again),
    );
    fill(this.el, this.card);
  }

  async show(host: WidgetHost, model: string): Promise<void> {
    this.leave();
    const shown = new AbortController();
    this.shown = shown;
    const el = h("div");
    fill(this.el, el);
    try {
      await host.show(model, el, shown.signal);
    } catch (error) {
      if (!shown.signal.aborted) this.failed({ message: String(error) });
    }
  }

  /** Show the text `ended` after the host has ended; the view remains usable. */
  goOn(ended: string): void {
    fill(
      this.bar,
      h("span", { class: "hta-host-badge hta-host-warn", role: "status" }, ended),
      h("span", { class: "hta-host-said" }, "This page goes on with the data that it holds."),
      button({ text: "Start again", press: () => this.ways.again() }),
    );
    this.bar.hidden = false;
  }
}

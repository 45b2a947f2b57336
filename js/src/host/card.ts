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

interface CardWays {
  cancel(): void;
  again(): void;
}

class LoadCard {
  readonly el = h("div", { class: "hta-root hta-host-page hta-host-card" });
  private readonly text = h("p", { role: "status" });
  private readonly bar = h("progress", { "aria-label": "Progress of loading" });
  private readonly cancel: HTMLElement;

  constructor(private readonly ways: CardWays) {
    this.cancel = button({ text: "Cancel", press: () => ways.cancel() });
  }

  progress({ stage, done = 0, of = 0 }: Stage): void {
    const word = STAGES[stage] ?? stage;
    this.text.textContent = of > 0 ? `${word} ${formatBytes(done)} of ${formatBytes(of)}` : word;
    if (of > 0) Object.assign(this.bar, { max: of, value: done });
    else this.bar.removeAttribute("value");
    // Replacing the button would lose a click in progress.
    if (this.bar.parentNode !== this.el) fill(this.el, this.text, this.bar, this.cancel);
  }

  /** Show a failure; `more` are buttons in front of the retry button. */
  failed(
    { message, path, place, remedy, cancelled }: Message,
    more: readonly HTMLElement[] = [],
  ): void {
    const again = button({
      text: cancelled === true ? "Load" : "Try again",
      press: () => this.ways.again(),
    });
    const where = [path, place].filter((part) => typeof part === "string").join(", ");
    fill(
      this.el,
      where !== "" && h("p", { class: "hta-host-path" }, where),
      h("p", { role: cancelled === true ? "status" : "alert" }, sentence(String(message))),
      typeof remedy === "string" && h("p", { class: "hta-note" }, remedy),
      more.length === 0 ? again : h("div", { class: "hta-host-pair" }, ...more, again),
    );
  }
}

/** One view in a tab of a host that can start it again. */
export class ViewPlace {
  readonly bar = h("div", { class: "hta-root hta-host-bar" });
  readonly el = h("div", { class: "hta-host-view" });
  readonly card: LoadCard;
  /** Ends the view that is shown. */
  private shown: AbortController | null = null;

  constructor(private readonly ways: CardWays) {
    this.card = new LoadCard(ways);
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

  progress(stage: Stage): void {
    if (this.isShown) return;
    this.card.progress(stage);
    if (this.card.el.parentNode !== this.el) fill(this.el, this.card.el);
  }

  failed(said: Omit<Message, "type">, more: readonly HTMLElement[] = []): void {
    this.leave();
    this.card.failed({ type: "failed", ...said }, more);
    fill(this.el, this.card.el);
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

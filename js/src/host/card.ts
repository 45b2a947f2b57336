/**
 * The element that contains a view. While the view loads, it contains a card with the progress and
 * a cancel button; on failure, the reason. When the host has ended, a bar is shown above the view.
 */

import { renderButton, Skeleton } from "../ui/controls";
import { activeElement, replaceChildren, h, renderElement } from "../ui/dom";
import { formatBytes } from "../ui/formats";
import { capitalizeSentence } from "../ui/text";
import type { WidgetHost } from "./host";
import type { WireMessage } from "./wire";

const STAGE_LABELS: Readonly<Record<string, string>> = {
  start: "Starting …",
  import: "Loading libraries …",
  read: "Reading",
  draw: "Laying out …",
};

export interface LoadingStage {
  stage: string;
  /** Number of bytes read so far, and in total. */
  done?: number;
  of?: number;
}

/** A view in a tab whose host can restart it. */
export class LoadingCard {
  readonly bar = h("div", { class: "hta-root hta-host-bar" });
  readonly el = h("div", { class: "hta-host-view", tabindex: -1 });
  readonly card = h("div", { class: "hta-root hta-host-page hta-host-card" });
  private readonly heading = h("h1");
  private readonly verdict = h("p", { class: "hta-host-verdict" });
  private readonly text = h("p", { role: "status" });
  private readonly progressBar = h("progress", { "aria-label": "Progress of loading" });
  private readonly cancel: HTMLElement;
  private readonly skeleton = renderElement(Skeleton({ lines: 8 }));
  private shownAborter: AbortController | null = null;

  constructor(private readonly callbacks: { cancel(): void; again(): void }) {
    this.cancel = renderButton({ text: "Cancel", press: () => callbacks.cancel() });
    this.bar.hidden = true;
    this.setTitle("");
  }

  /** Set the page's heading, and the verdict on the job being loaded. Views use lower headings. */
  setTitle(title: string, verdict = ""): void {
    this.heading.textContent = title;
    this.heading.hidden = title === "";
    this.verdict.textContent = verdict;
    this.verdict.hidden = verdict === "";
  }

  /** Replace the content. If the old content had the focus, this element receives it. */
  replace(...content: HTMLElement[]): void {
    const hadFocus = this.el.contains(activeElement(this.el));
    replaceChildren(this.el, ...content);
    if (hadFocus) this.el.focus({ preventScroll: true });
  }

  get isShown(): boolean {
    return this.shownAborter !== null;
  }

  removeShown(): void {
    this.shownAborter?.abort();
    this.shownAborter = null;
    this.bar.hidden = true;
  }

  showProgress({ stage, done = 0, of = 0 }: LoadingStage): void {
    if (this.isShown) return;
    const word = STAGE_LABELS[stage] ?? stage;
    this.text.textContent = of > 0 ? `${word} ${formatBytes(done)} of ${formatBytes(of)}` : word;
    if (of > 0) Object.assign(this.progressBar, { max: of, value: done });
    else this.progressBar.removeAttribute("value");
    // Replacing the button would lose a click in progress.
    if (!this.card.contains(this.cancel)) {
      const { heading, verdict, text, progressBar, cancel, skeleton } = this;
      replaceChildren(this.card, heading, verdict, text, progressBar, cancel, skeleton);
    }
    if (this.card.parentNode !== this.el) this.replace(this.card);
  }

  /** Show a failure. `more` are buttons to show before the retry button. */
  showFailure(
    { message, path, place, remedy, cancelled }: Omit<WireMessage, "type">,
    more: readonly HTMLElement[] = [],
  ): void {
    this.removeShown();
    const text = cancelled === true ? "Load" : "Try again";
    const retryButton = renderButton({ text, press: () => this.callbacks.again() });
    const location = [path, place].filter((part) => typeof part === "string").join(", ");
    replaceChildren(
      this.card,
      this.heading,
      location !== "" && h("p", { class: "hta-host-path" }, location),
      h(
        "p",
        { role: cancelled === true ? "status" : "alert" },
        capitalizeSentence(String(message)),
      ),
      typeof remedy === "string" && h("p", { class: "hta-note" }, remedy),
      more.length === 0 ? retryButton : h("div", { class: "hta-host-pair" }, ...more, retryButton),
    );
    this.replace(this.card);
  }

  async show(host: WidgetHost, model: string): Promise<void> {
    this.removeShown();
    const aborter = new AbortController();
    this.shownAborter = aborter;
    const el = h("div");
    const title = this.heading.textContent;
    this.replace(...(title === "" ? [] : [h("h1", { class: "hta-hidden" }, title)]), el);
    try {
      (await host.model(model)).setLocally("_fills", true);
      await host.show(model, el, aborter.signal);
    } catch (error) {
      if (!aborter.signal.aborted) this.showFailure({ message: String(error) });
    }
  }

  /** Show the text `ended` after the host has ended. The view remains usable. */
  showEnded(ended: string): void {
    replaceChildren(
      this.bar,
      h("span", { class: "hta-badge hta-warn", role: "status" }, ended),
      h("span", { class: "hta-host-said" }, "This page continues with the data that it has."),
      renderButton({ text: "Start again", press: () => this.callbacks.again() }),
    );
    this.bar.hidden = false;
  }
}

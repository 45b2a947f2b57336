/** What changed beyond noise, each change once; a click marks its events on both sides. */

import { fill, h } from "../app/dom";
import { formatDuration, plural } from "../draw/format";
import { countWords, deltaWords, shareWords } from "./delta";
import { classLook, classOfChange, lookStyle } from "./event_classes";
import { type Frame, noteOf, number, type Row, rowsOf, text } from "./frames";
import { RowsPane } from "./pane";

const MORE_CHANGES = 20;

/** What came out of chance how rarely; where nothing is known of the spread, that. */
export function chanceWords(
  change: string,
  p: unknown,
  hasSteps = true,
): { words: string; about: string } {
  if (change !== "slower" && change !== "faster") {
    return {
      words: hasSteps ? "in most steps" : "–",
      about: "Calls that come or go are no matter of chance.",
    };
  }
  if (typeof p !== "number") {
    return {
      words: "one step",
      about: "One step on a side tells nothing of the spread: 20 % is asked for.",
    };
  }
  const about =
    "How likely the means of the steps differ as much by chance, by t-tests over the steps.";
  if (p < 0.0001) return { words: "p < 0.0001", about };
  return { words: `p ${p < 0.001 ? p.toFixed(4) : p.toFixed(3)}`, about };
}

/** `aten::add ; aten::mul → fused_add_mul`, of replaced work. */
export function replacedWords(row: Row): string {
  const names = (column: string): string[] =>
    text(row, column)
      .split("; ")
      .filter((name) => name !== "");
  const [before, after] = [names("before_names"), names("after_names")];
  if (before.length === 0 && after.length === 0) return "";
  const short = (list: string[]): string =>
    list.length > 2
      ? `${list.slice(0, 2).join(", ")} and ${list.length - 2} more`
      : list.join(", ");
  return `${short(before)} → ${short(after)}`;
}

export class ChangesPanel extends RowsPane<number> {
  readonly el = h("section", { class: "hta-diff-pane hta-diff-changes" });
  private readonly body = h("div", { class: "hta-diff-table", role: "table" });
  private readonly title = h("h3", {}, "What changed");
  private readonly about = h("p", { class: "hta-about" });
  private frame: Frame | null = null;

  /** `choose` hears first of the number of a row, and its name; null where it is unchosen. */
  constructor(
    private readonly choose: (row: number | null, name: string) => void,
    private readonly hasSteps = true,
  ) {
    super(6);
    this.el.append(this.title, this.about, this.body);
  }

  /** `whose`: of which ranks, where not of all that are compared. */
  show(frame: Frame, whose = ""): void {
    const title = `What changed${whose && `, ${whose}`}`;
    if (title !== this.title.textContent) this.chosen = null;
    this.title.textContent = title;
    this.frame = frame;
    this.draw();
  }

  /** In place of all: why it cannot be drawn. */
  fail(why: HTMLElement): void {
    this.frame = null;
    this.about.textContent = "";
    fill(this.body, why);
  }

  protected draw(): void {
    const { frame } = this;
    if (frame === null) return;
    const rows = rowsOf(frame);
    const tested = Number(frame.attrs.tested ?? 0);
    this.about.textContent =
      `beyond noise, each once; times and counts per ${this.hasSteps ? "step and " : ""}rank. ` +
      (tested > 0 ? `${plural(tested, "time")} tested. ` : "") +
      (rows.length > 0 ? "Click one to mark its events on both sides." : "");
    fill(
      this.body,
      rows.length > 0 && this.header(),
      ...rows.slice(0, this.shown).map((row, at) => this.row(row, at)),
      rows.length === 0 &&
        h("p", { class: "hta-note" }, noteOf(frame) || "Nothing changed beyond the noise."),
      this.moreOf(rows, "change", MORE_CHANGES),
    );
  }

  private header(): HTMLElement {
    return h(
      "div",
      { class: "hta-diff-change hta-diff-row-head", role: "row" },
      ...[
        "change",
        "name",
        "before → after",
        this.hasSteps ? "a step" : "change",
        "calls",
        "chance",
      ].map((word) => h("div", { role: "columnheader" }, word)),
    );
  }

  private row(row: Row, at: number): HTMLElement {
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const diff = number(row, "diff_ns");
    const change = text(row, "change");
    const name = text(row, "short") || text(row, "name");
    const on = this.chosen === at;
    const chance = chanceWords(change, row.p_value, this.hasSteps);
    const replaced = replacedWords(row);
    const path = text(row, "path");
    const places = number(row, "places");
    const inside = path === "" ? "" : `in ${path}${places > 1 ? ` and ${places - 1} more` : ""}`;
    return h(
      "div",
      {
        class: on ? "hta-diff-change hta-diff-row hta-on" : "hta-diff-change hta-diff-row",
        role: "row",
        "data-change": change,
        on: {
          click: () => {
            this.choose(on ? null : at, name);
            this.setChoice(on ? null : at);
          },
        },
      },
      h(
        "div",
        { role: "cell" },
        h("i", {
          class: "hta-diff-swatch",
          style: lookStyle(classLook(classOfChange(change, before, after), this.theme)),
        }),
        ` ${change}`,
      ),
      h(
        "div",
        { class: "hta-diff-col-name", role: "cell" },
        h(
          "button",
          {
            type: "button",
            class: "hta-name-button",
            title: [text(row, "name"), inside, replaced].filter((line) => line !== "").join("\n"),
            "aria-pressed": String(on),
          },
          name,
        ),
        h("small", {}, replaced !== "" ? replaced : text(row, "measure")),
      ),
      h(
        "div",
        { role: "cell" },
        `${before > 0 ? formatDuration(Math.round(before)) : "–"} → ${after > 0 ? formatDuration(Math.round(after)) : "–"}`,
      ),
      h("div", { role: "cell" }, h("b", {}, deltaWords(diff)), ` ${shareWords(diff, before)}`),
      h(
        "div",
        { role: "cell" },
        countWords(number(row, "before_count"), number(row, "after_count")),
      ),
      h("div", { role: "cell", title: chance.about }, chance.words),
    );
  }
}

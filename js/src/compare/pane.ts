/** Base classes of the comparison's panes, and its headline. */

import type { Frame, ThemeName } from "../protocol/source";
import { type Child, fill, h } from "../ui/dom";
import { formatDuration, plural } from "../ui/formats";
import { rowsOf, shareWords, text } from "./frames";

export abstract class Pane {
  protected theme: ThemeName = "light";

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    this.draw();
  }

  protected abstract draw(): void;
}

/** A pane that is laid out for its width. px. */
export abstract class WidePane extends Pane {
  protected width = 0;

  setWidth(width: number): void {
    if (width === this.width) return;
    this.width = width;
    this.draw();
  }
}

/** A pane with a table of rows that can be chosen: as many as fit, more on request. */
export abstract class RowsPane<Choice> extends Pane {
  protected readonly about = h("p", { class: "hta-about" });
  protected readonly body = h("div", { class: "hta-diff-table", role: "table" });
  protected frame: Frame | null = null;
  protected chosen: Choice | null = null;
  /** Rows that were requested beyond the room. */
  private more = 0;

  constructor(private room: number) {
    super();
  }

  /** How many rows there is room for. */
  setRoom(rows: number): void {
    if (rows === this.room) return;
    this.room = rows;
    this.draw();
  }

  get choice(): Choice | null {
    return this.chosen;
  }

  /** Show the reason why the table cannot be drawn. */
  fail(why: HTMLElement): void {
    this.frame = null;
    this.about.textContent = "";
    fill(this.body, why);
  }

  /** Show what is chosen; null for nothing. */
  setChoice(choice: Choice | null): void {
    this.chosen = choice;
    this.draw();
  }

  /** How many rows are shown. */
  protected get shown(): number {
    return this.room + this.more;
  }

  /** Asks for `step` rows more of a `what`, where there are any. */
  protected moreOf(rows: readonly unknown[], what: string, step: number): HTMLElement | false {
    const left = rows.length - this.shown;
    const show = (): void => {
      this.more += step;
      this.draw();
    };
    return (
      left > 0 &&
      h(
        "button",
        { type: "button", class: "hta-link hta-diff-more", on: { click: show } },
        plural(left, `more ${what}`),
      )
    );
  }
}

// What changed, in words above everything.

/** So many sentences follow the first; the others unfold. */
const SENTENCES = 4;
/** The smallest difference that is reported, as a share of the time. */
export const WORTH_TELLING = 0.01;

/** How long all that is compared takes, before and after, ns. */
export type Totals = readonly [number, number];

/**
 * The findings, most important first; `whose`: of which ranks, where one pair was chosen;
 * `conditions`: what the runs ran on differently.
 */
export function headlineOf(
  told: Frame | null,
  totals: Totals | null = null,
  whose = "",
  conditions = "",
): Child[] {
  // What only a kernel can tell of one pair of ranks is said here where all below is of that pair.
  return [
    whose !== "" && h("p", { class: "hta-diff-whose" }, whose),
    ...sentences(told, totals, conditions),
  ];
}

function sentences(told: Frame | null, totals: Totals | null, conditions: string): Child[] {
  const all = told === null ? [] : rowsOf(told);
  // The sentence itself, where there is one, is of the order that the page shows.
  const second =
    all[1]?.kind === "caution" && conditions !== "" ? text(all[1], "text") : conditions;
  const unlike = second !== "" && h("p", { class: "hta-diff-conditions" }, second);
  // What else to be cautious of stands in the toolbar.
  const rows = all.filter((row) => row.kind !== "caution");
  const [first, ...rest] = rows.map((row) => text(row, "text"));
  if (first === undefined) {
    const [words, why] = silence(totals);
    return [h("h2", {}, words), unlike, why !== "" && h("p", {}, why)];
  }
  const [lead, share, end] = headParts(first);
  const more = rest.slice(SENTENCES);
  return [
    h("h2", {}, lead, share !== "" && h("em", { class: deltaClass(share) }, share), end),
    unlike,
    rest.length > 0 && h("p", {}, rest.slice(0, SENTENCES).join(" ")),
    more.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, plural(more.length, "more finding")),
        h("ul", {}, ...more.map((line) => h("li", {}, line))),
      ),
  ];
}

/** The median of the steps' changes; null of one step. */
export function medianShare(steps: Frame): number | null {
  const shares = rowsOf(steps)
    .map((row) => Number(row.diff_ns) / Math.max(Number(row.before_ns), 1))
    .sort((a, b) => a - b);
  if (shares.length < 2) return null;
  const middle = shares.length >> 1;
  return shares.length % 2 === 1 ? shares[middle]! : (shares[middle - 1]! + shares[middle]!) / 2;
}

/** The sentence, its share, which is told in colour, and what follows that. */
export function headParts(sentence: string): [string, string, string] {
  const found =
    /^(.*?, )([+\u2212][\d.\s\u2009\u202f]+%)((?: \(mean over ranks\))?(?:[:;] .*)?\.)$/su.exec(
      sentence,
    );
  return found === null ? [sentence, "", ""] : [found[1]!, found[2]!, found[3]!];
}

/** What stands where nothing is told: nothing to compare, or a difference that may be chance. */
export function silence(totals: Totals | null): [string, string] {
  const nothing = "Nothing changed beyond the noise.";
  if (totals === null) return [nothing, ""];
  const [before, after] = totals;
  if (before === 0 && after === 0)
    return ["Nothing to compare: neither side has events in what was chosen.", ""];
  const diff = after - before;
  if (Math.abs(diff) < WORTH_TELLING * Math.max(before, after)) return [nothing, ""];
  const change = `${formatDuration(before)} → ${formatDuration(after)}`;
  const share = shareWords(diff, before);
  return [
    nothing,
    `After takes ${diff > 0 ? "longer" : "less"}: ${change}${share && `, ${share}`}; that may be chance.`,
  ];
}

function deltaClass(share: string): string {
  return share.startsWith("+") ? "hta-diff-slower" : "hta-diff-faster";
}

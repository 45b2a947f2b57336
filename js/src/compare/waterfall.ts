/** The waterfall of the step time's difference, by kind and by cause. */

import { causeWords } from "../charts/defined";
import { asError, type Frame, isAbort } from "../protocol/source";
import { failure } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatDuration } from "../ui/formats";
import { THEMES } from "../ui/theme";
import { barColour, deltaWords, number, type Row, rowsOf, shareWords, text } from "./frames";
import { Pane } from "./pane";

type Level = "operator" | "kernel" | "cause";

interface Bar {
  kind: string;
  label: string;
  before: number;
  after: number;
  diff: number;
  /** Where the bar begins and ends, ns from zero. */
  from: number;
  to: number;
  depth: number;
}

const WORDS: Record<string, string> = {
  compute: "compute",
  communication: "exposed NCCL",
  memory: "exposed copies",
  idle: "GPU idle",
  cpu: "host",
};
const ORDER = ["compute", "communication", "memory", "cpu", "idle"];
const MOST_PARTS = 8;

/** Kinds in the order of their size, each from where the one before ended. */
export function waterfallBars(kinds: Frame, words: Record<string, string> = WORDS): Bar[] {
  let at = Number(kinds.attrs.before_ns ?? 0);
  const bars = rowsOf(kinds).map((row) => {
    const bar = barOf(row, words[text(row, "kind")] ?? text(row, "kind"), at, 0);
    at = bar.to;
    return bar;
  });
  // Kinds that neither run has.
  return bars.filter(({ before, after }) => before !== 0 || after !== 0);
}

/** What a kind is made of: the largest differences, and the rest as one, so that it adds up. */
export function partBars(parts: Frame, parent: Bar): Bar[] {
  const rows = rowsOf(parts).filter((row) => text(row, "kind") === parent.kind);
  const shown = rows.slice(0, rows.length > MOST_PARTS + 1 ? MOST_PARTS : rows.length);
  const rest = rows.slice(shown.length);
  let at = parent.from;
  const bars = shown.map((row) => {
    const name = text(row, "short") || text(row, "name") || causeWords(text(row, "cause"));
    const bar = barOf(row, name || "without a launch", at, 1);
    at = bar.to;
    return bar;
  });
  if (rest.length > 0) {
    const sum = (name: string): number => rest.reduce((total, row) => total + number(row, name), 0);
    const row = { kind: parent.kind, before_ns: sum("before_ns"), after_ns: sum("after_ns") };
    bars.push(
      barOf({ ...row, diff_ns: row.after_ns - row.before_ns }, `${rest.length} more`, at, 1),
    );
  }
  return bars;
}

function barOf(row: Row, label: string, from: number, depth: number): Bar {
  const diff = number(row, "diff_ns");
  return {
    kind: text(row, "kind"),
    label,
    before: number(row, "before_ns"),
    after: number(row, "after_ns"),
    diff,
    from,
    to: from + diff,
    depth,
  };
}

/** Small changes of a long time would be invisible at its scale: then they have one of their own. */
function fallScale(
  before: number,
  after: number,
  bars: readonly Bar[],
  most: number,
): { low: number; high: number } {
  const ends = [before, after, ...bars.flatMap(({ from, to }) => [from, to])];
  const [least, largest] = [Math.min(...ends), Math.max(...ends)];
  const spread = largest - least;
  if (spread === 0 || spread > most / 4) return { low: 0, high: most };
  return { low: least - spread * 0.05, high: largest + spread * 0.05 };
}

export class Waterfall extends Pane {
  readonly el = h("section", { class: "hta-diff-pane hta-diff-waterfall" });
  private kinds: Frame | null = null;
  private what = "";
  private spread = "";
  private open: string | null = null;
  private isFirst = true;
  private level: Level = "operator";
  private parts: Frame | null = null;
  /** Why parts cannot be shown. */
  private lack: HTMLElement | null = null;

  private readonly words: Record<string, string>;

  /** `words` are what the formats call kinds otherwise. */
  constructor(
    private readonly ask: (level: Level) => Promise<Frame>,
    private readonly own: Record<string, string> = {},
  ) {
    super();
    this.words = { ...WORDS, ...own };
  }

  show(kinds: Frame, what: string): void {
    if (this.isFirst) {
      this.isFirst = false;
      const [largest] = rowsOf(kinds);
      const matters = largest !== undefined && number(largest, "diff_ns") !== 0;
      this.open = matters ? text(largest, "kind") : null;
    }
    this.kinds = kinds;
    this.what = what;
    this.parts = null;
    this.draw();
    if (this.open !== null) void this.load();
  }

  /** In place of all: why it cannot be drawn. */
  fail(why: HTMLElement): void {
    this.kinds = null;
    fill(this.el, why);
  }

  /** How the steps scatter, and whether their difference is more than that. */
  setSpread(words: string): void {
    this.spread = words;
    this.draw();
  }

  private async load(): Promise<void> {
    const level = this.open === "idle" ? "cause" : this.level;
    if (this.lack !== null) {
      this.lack = null;
      this.draw();
    }
    try {
      this.parts = await this.ask(level);
    } catch (error) {
      if (isAbort(error)) return;
      this.lack = failure("The parts could not be drawn", asError(error), () => void this.load());
    }
    this.draw();
  }

  private toggle(kind: string): void {
    this.open = this.open === kind ? null : kind;
    this.parts = null;
    this.draw();
    if (this.open !== null) void this.load();
  }

  protected draw(): void {
    const { kinds } = this;
    if (kinds === null) return;
    const before = Number(kinds.attrs.before_ns ?? 0);
    const after = Number(kinds.attrs.after_ns ?? 0);
    const bars = waterfallBars(kinds, this.words).flatMap((bar) =>
      bar.kind === this.open && this.parts !== null ? [bar, ...partBars(this.parts, bar)] : [bar],
    );
    const most = Math.max(before, after, 1, ...bars.flatMap(({ from, to }) => [from, to]));
    const share = (ns: number): string => `${((Math.max(ns, 0) / most) * 100).toFixed(3)}%`;
    const { low, high } = fallScale(before, after, bars, most);
    const enlarged = most / (high - low);
    const place = (ns: number): string => `${(((ns - low) / (high - low)) * 100).toFixed(3)}%`;
    const diff = after - before;
    const title =
      diff === 0
        ? `Where the time goes ${this.what}`
        : `Where the ${formatDuration(Math.abs(diff))} ${diff > 0 ? "come from" : "less come from"} ${this.what}`;
    fill(
      this.el,
      h(
        "div",
        { class: "hta-diff-head" },
        h("h3", {}, title.trim()),
        h(
          "span",
          { class: "hta-diff-choice", role: "group", "aria-label": "What kinds are parted by" },
          ...(["operator", "kernel", "cause"] as const).map((level) =>
            h(
              "button",
              {
                type: "button",
                "aria-pressed": String(this.level === level),
                on: { click: () => this.setLevel(level) },
              },
              `by ${level}`,
            ),
          ),
        ),
      ),
      h(
        "p",
        { class: "hta-about" },
        (Object.keys(this.own).length > 0
          ? "every moment counted once. "
          : "every moment of the steps counted once: compute, else NCCL, else copies, else idle. ") +
          (enlarged > 1 ? `Changes are drawn ${enlarged.toFixed(0)} times as wide. ` : "") +
          "Click a kind to see what it is made of.",
      ),
      this.spread !== "" && h("p", { class: "hta-diff-spread" }, this.spread),
      h(
        "div",
        { class: "hta-diff-bars" },
        this.whole("before", kinds, "before_ns", before, share),
        ...bars.map((bar) => this.bar(bar, place, most / enlarged)),
        this.whole("after", kinds, "after_ns", after, share),
      ),
      this.open !== null && this.parts === null && this.lack,
    );
  }

  private setLevel(level: Level): void {
    this.level = level;
    this.parts = null;
    this.draw();
    if (this.open !== null) void this.load();
  }

  private whole(
    word: string,
    kinds: Frame,
    column: string,
    total: number,
    share: (ns: number) => string,
  ): HTMLElement {
    const rows = rowsOf(kinds).sort(
      (a, b) => ORDER.indexOf(text(a, "kind")) - ORDER.indexOf(text(b, "kind")),
    );
    return h(
      "div",
      { class: "hta-diff-bar hta-diff-whole" },
      h("b", { class: "hta-diff-bar-name" }, word),
      h("span", { class: "hta-diff-bar-value" }, formatDuration(total)),
      h(
        "div",
        { class: "hta-diff-track" },
        h(
          "div",
          { class: "hta-diff-stack" },
          ...rows.map((row) =>
            h("i", {
              title: `${this.words[text(row, "kind")] ?? ""} ${formatDuration(number(row, column))}`,
              style: {
                width: share(number(row, column)),
                background: this.kindColour(text(row, "kind")),
              },
            }),
          ),
        ),
      ),
    );
  }

  private kindColour(kind: string): string {
    const theme = THEMES[this.theme];
    return kind === "idle" ? theme.idle : (theme.kind[kind as "compute"] ?? theme.idle);
  }

  private bar(bar: Bar, place: (ns: number) => string, whole: number): HTMLElement {
    const { kind, label, before, diff, from, to, depth } = bar;
    const low = Math.min(from, to);
    const isOpen = this.open === kind && depth === 0;
    const words = h(
      "span",
      { class: "hta-diff-bar-value" },
      h("b", {}, deltaWords(diff)),
      ` ${shareWords(diff, before)}`,
    );
    const name: HTMLElement =
      depth === 0
        ? h(
            "button",
            {
              type: "button",
              class: "hta-diff-bar-name hta-diff-bar-open",
              "aria-expanded": String(isOpen),
              on: { click: () => this.toggle(kind) },
            },
            h("span", { class: "hta-diff-arrow" }, isOpen ? "▾" : "▸"),
            h("i", { class: "hta-diff-swatch", style: { background: this.kindColour(kind) } }),
            label,
          )
        : h("span", { class: "hta-diff-bar-name hta-diff-part", title: label }, label);
    return h(
      "div",
      { class: "hta-diff-bar", "data-kind": kind, "data-depth": depth },
      name,
      words,
      h(
        "div",
        { class: "hta-diff-track" },
        h("i", { class: "hta-diff-edge", style: { left: place(from) } }),
        h("i", {
          class: "hta-diff-fall",
          title: `${label}: ${formatDuration(before)} → ${formatDuration(bar.after)}`,
          style: {
            left: place(low),
            width: `${((Math.abs(diff) / whole) * 100).toFixed(3)}%`,
            background: barColour(diff, this.theme),
            opacity: depth === 0 ? "1" : "0.72",
          },
        }),
      ),
    );
  }
}

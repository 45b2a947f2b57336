/** The panels of a comparison that show frames: steps, waterfall, changes, names, operator tree. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { asError, type Frame, isAbort, type ThemeName } from "../protocol/source";
import { Failure } from "../ui/controls";
import { formatDuration, plural } from "../ui/formats";
import { type About, type Frames, type Row, rowsOf, shareWords, text, turned } from "./frames";
import { Icicle, type IcicleChoice } from "./operator_tree";
import { medianShare, Part, type Totals, WORTH_TELLING } from "./pane";
import { lengthsOf, stepLabel, Strip, withLengths } from "./steps";
import { Changes, Names } from "./tables";
import { Waterfall } from "./waterfall";

export interface ChartsWays {
  frames: Frames;
  about: About;
  swapped(): boolean;
  /**
   * Show a chosen pair of steps on the timelines, or all. Here and below, `turn` undoes and
   * redoes the choice; see `PairHistory.one`.
   */
  showStep(row: Row | null, turn: () => void): void;
  markNames(names: string[] | null, turn: () => void): void;
  /** `pair`: the pair of ranks whose frame has the node or row; null: the frame of all ranks. */
  markNode(node: number, name: string, pair: number | null, turn: () => void): void;
  markChange(row: number | null, name: string, pair: number | null, turn: () => void): void;
  /**
   * Show the findings, the total times (null without events), and a text on the ranks if one pair
   * is chosen.
   */
  tell(told: Frame, totals: Totals | null, whose: string): void;
  say(words: string | null): void;
  fail(error: unknown): void;
  /** Show the reason in place of the findings. */
  untold(why: VNode): void;
  /** Repeat failed requests. */
  again(): void;
}

/** The current choices, and the pair of ranks whose frames they refer to. */
interface Choice {
  pair: number | null;
  step: number | null;
  change: number | null;
  name: string | null;
  call: IcicleChoice;
}

/** A table of rows that can be chosen: as many as fit, more on request. */
class Rows<Shown, Choice> extends Part<Shown> {
  readonly chosen = signal<Choice | null>(null);
  readonly room;

  constructor(
    name: "names" | "changes",
    private readonly make: (shown: Shown, rows: Rows<Shown, Choice>) => VNode,
  ) {
    super(`hta-diff-pane hta-diff-${name}`);
    this.room = signal(SHEET[name]);
  }

  protected draw(shown: Shown): VNode {
    return this.make(shown, this);
  }
}

interface Told {
  frame: Frame;
  whose: string;
}

export class Charts {
  readonly strip: Strip;
  readonly waterfall: Waterfall;
  readonly changes: Rows<Told, number>;
  readonly names: Rows<Frame, string>;
  readonly icicle: Icicle;
  private step: number | null = null;
  private pair: number | null = null;
  /** The pair of ranks that the frames of changes and of the tree refer to; null for all. */
  private toldOf: { changes: number | null; tree: number | null } = { changes: null, tree: null };
  private asked = 0;

  constructor(private readonly ways: ChartsWays) {
    const { kind_words: words } = ways.about;
    this.strip = new Strip((slot) => this.choose(slot), words);
    this.waterfall = new Waterfall(
      (level) => this.framed(this.chosen(`waterfall:${level}`)),
      words,
    );
    this.changes = new Rows("changes", ({ frame, whose }, { theme, room, chosen }) => (
      <Changes
        frame={frame}
        whose={whose}
        theme={theme.value}
        room={room.value}
        chosen={chosen.value}
        hasSteps={ways.about.steps > 0}
        choose={(row, name) => {
          const turn = this.turning();
          this.markOnly("change");
          ways.markChange(row, name, this.toldOf.changes, turn);
          chosen.value = row;
        }}
      />
    ));
    this.names = new Rows("names", (frame, { theme, room, chosen }) => (
      <Names
        frame={frame}
        theme={theme.value}
        room={room.value}
        chosen={chosen.value}
        choose={(name, members) => {
          const turn = this.turning();
          this.markOnly("name");
          ways.markNames(members, turn);
          chosen.value = name;
        }}
      />
    ));
    this.icicle = new Icicle((node, name) => {
      const turn = this.turning();
      this.markOnly("call");
      ways.markNode(node, name, this.toldOf.tree, turn);
    }, words);
    this.holdSteps();
  }

  /** The pair of ranks that the tree refers to; null for all. */
  get treeOf(): number | null {
    return this.toldOf.tree;
  }

  /** Show the frames of one pair of ranks, or of all. */
  setPair(pair: number | null): void {
    if (pair === this.pair) return;
    this.pair = pair;
    this.step = null;
    this.strip.chosen.value = null;
    this.holdSteps();
  }

  setTheme(theme: ThemeName): void {
    for (const part of [this.strip, this.waterfall, this.changes, this.names, this.icicle]) {
      part.theme.value = theme;
    }
  }

  /** Arrange the panels; in columns, `timelines` are in the column of the strip and the tree. */
  arrange(room: Room, timelines: HTMLElement): void {
    const { strip, icicle, waterfall, names, changes } = this;
    for (const { el, width } of [strip, icicle]) width.value = el.clientWidth;
    const left = [strip.el, timelines, icicle.el];
    fillRoom(room, { waterfall: waterfall.el, names, changes, left });
  }

  async framed(name: string): Promise<Frame> {
    return turnedIf(await this.ways.frames.get(name), this.ways.swapped());
  }

  /** Load the steps, sums and names first, then changes, findings and tree. */
  async load(drawn: () => void): Promise<void> {
    const asked = (this.asked += 1);
    const stale = (): boolean => asked !== this.asked;
    const { ways } = this;
    const { about, frames, swapped, tell } = ways;
    if (!about.has_events) {
      await this.draw("The comparison", ways.untold, async () => {
        tell(await frames.get(swapped() ? "findings:swapped" : "findings"), null, "");
      });
      return;
    }
    const first = [
      "waterfall:kind",
      "steps",
      "slots:steps",
      ...(about.has_device ? ["lanes"] : []),
    ];
    const findings = swapped() ? "findings:swapped" : "findings";
    const second = [
      this.chosen("names"),
      ...["changes", findings, "icicle"].map((name) => this.ofPair(name)),
    ];
    // One reply, drawn together; for large runs each frame is drawn when it arrives.
    if (about.is_small === true)
      frames.askFor([...first.map((name) => this.ofPair(name)), ...second]);
    else this.askAhead(first.map((name) => this.ofPair(name)));
    await this.draw(
      "The steps",
      (why) => this.strip.fail(why),
      async () => {
        const kinds = await this.framed(this.ofPair("waterfall:kind"));
        const steps = await this.framed(this.ofPair("steps"));
        if (stale()) return;
        this.waterfall.setSpread(spreadWords(steps));
        if (!about.has_device) return;
        const slots = await this.slots();
        const lanes = await this.framed(this.ofPair("lanes"));
        if (stale()) return;
        const { labels } = about;
        this.strip.show({
          labels: swapped() ? [labels[1], labels[0]] : labels,
          slots,
          lanes,
          totals: [Number(kinds.attrs.before_ns), Number(kinds.attrs.after_ns)],
          median: medianShare(steps),
          whose: this.whose(),
        });
      },
    );
    if (stale()) return;
    this.askAhead(second);
    const changes = async (): Promise<void> => {
      const { frame, of } = await this.told("changes");
      if (stale()) return;
      this.toldOf.changes = of;
      const whose = this.ofCalls(of);
      if (whose !== this.changes.shown.value?.whose) this.changes.chosen.value = null;
      this.changes.show({ frame: turnedIf(frame, swapped()), whose });
    };
    const sentences = async (): Promise<void> => {
      const { frame, of } = await this.told(findings);
      const kinds = of === null ? "waterfall:kind" : this.ofPair("waterfall:kind");
      const { attrs } = await this.framed(kinds);
      if (stale()) return;
      tell(frame, [Number(attrs.before_ns), Number(attrs.after_ns)], this.ofWhom(of));
    };
    const tree = async (): Promise<void> => {
      const { frame, of } = await this.told("icicle");
      if (stale()) return;
      this.toldOf.tree = of;
      this.icicle.show({ frame: turnedIf(frame, swapped()), whose: this.ofCalls(of) });
    };
    await Promise.all([
      this.loadChosen(),
      this.draw("What changed", (why) => this.changes.fail(why), changes),
      this.draw("The findings", ways.untold, sentences),
      this.draw("The operators", (why) => this.icicle.fail(why), tree),
    ]);
    if (!stale()) drawn();
  }

  /** Draw one chart; on failure show the error in its place and keep the others. */
  private async draw(
    what: string,
    say: (why: VNode) => void,
    work: () => Promise<void>,
  ): Promise<void> {
    const asked = this.asked;
    try {
      await work();
    } catch (error) {
      if (isAbort(error)) throw error;
      if (asked !== this.asked) return;
      const again = (): void => {
        say(<p class="hta-note">Asking again…</p>);
        this.ways.again();
      };
      say(<Failure title={`${what} could not be drawn`} error={asError(error)} retry={again} />);
    }
  }

  /** Frame of the chosen pair of ranks; of all ranks if a page without a kernel has only that. */
  private async told(name: string): Promise<{ frame: Frame; of: number | null }> {
    const { frames } = this.ways;
    const { pair } = this;
    if (pair !== null) {
      try {
        return { frame: await frames.get(this.ofPair(name)), of: pair };
      } catch (error) {
        if (isAbort(error)) throw error;
      }
    }
    return { frame: await frames.get(name), of: null };
  }

  /** Text on the ranks of a frame; "" for the requested ranks. */
  private ofWhom(told: number | null): string {
    if (this.pair === null) return "";
    return told === null ? "of all ranks" : `on ${this.whose()}`;
  }

  /** The same for frames of matched calls, which are never of ranks without a partner. */
  private ofCalls(told: number | null): string {
    const lone = told === null && this.ways.about.by_rank_means;
    return lone ? this.whose(null) : this.ofWhom(told);
  }

  /** Send requests in advance, so that the kernel does not idle between replies. */
  private askAhead(names: readonly string[]): void {
    for (const name of names) void this.ways.frames.get(name).catch(() => undefined);
  }

  private ofPair(name: string): string {
    return this.pair === null ? name : `${name}@${this.pair}`;
  }

  private chosen(name: string): string {
    return this.ofPair(this.step === null ? name : `${name}:${this.step}`);
  }

  private whose(pair = this.pair): string {
    const { rank_pairs: pairs } = this.ways.about;
    const one = pair === null ? (pairs.length === 1 ? pairs[0] : undefined) : pairs[pair];
    if (one !== undefined) {
      const [before, after] = this.ways.swapped() ? [one[1], one[0]] : one;
      return before === after ? `rank ${before}` : `rank ${before} → ${after}`;
    }
    return `mean of ${plural(pairs.length, "pair")} of ranks`;
  }

  /** In a page without a kernel, limit the choice to steps with figures in the page. */
  private holdSteps(): void {
    const { held_steps: held, held_words: why = "", held_pairs: pairs } = this.ways.about;
    if (this.pair !== null && pairs !== undefined) {
      const words = "Steps of one pair of ranks can be chosen with a kernel only.";
      this.strip.held.value = { steps: new Set(), why: words };
    } else this.strip.held.value = held === undefined ? null : { steps: new Set(held), why };
  }

  private choose(slot: number | null): void {
    const turn = this.turning();
    this.setStep(slot);
    this.slots()
      .then((slots) => {
        const row = slot === null ? null : (rowsOf(slots)[slot] ?? null);
        this.ways.showStep(row, turn);
        this.ways.say(row === null ? null : stepWords(row));
      })
      .catch((error: unknown) => this.ways.fail(error));
  }

  private setStep(slot: number | null): void {
    this.step = slot;
    this.strip.chosen.value = slot;
    this.loadChosen().catch((error: unknown) => this.ways.fail(error));
  }

  /** Clear the marks made by other panels: the timelines show one mark at a time. */
  private markOnly(what: "change" | "name" | "call"): void {
    if (what !== "change") this.changes.chosen.value = null;
    if (what !== "name") this.names.chosen.value = null;
    if (what !== "call") this.icicle.reveal(-1);
  }

  private get choice(): Choice {
    const { pair, step, changes, names, icicle } = this;
    return {
      pair,
      step,
      change: changes.chosen.value,
      name: names.chosen.value,
      call: icicle.choice.value,
    };
  }

  /** Return a function that undoes and redoes the next choice. */
  private turning(): () => void {
    let other = this.choice;
    return () => {
      const now = this.choice;
      this.restore(other);
      other = now;
    };
  }

  /** Restore a choice; steps, rows and nodes of other ranks have other numbers. */
  private restore({ pair, step, change, name, call }: Choice): void {
    const same = pair === this.pair;
    const slot = same ? step : null;
    if (slot !== this.step) this.setStep(slot);
    this.changes.chosen.value = same ? change : null;
    this.names.chosen.value = name;
    this.icicle.choice.value = same ? call : { top: -1, node: -1 };
    this.ways.say(null);
  }

  private async slots(): Promise<Frame> {
    const slots = await this.framed(this.ofPair("slots:steps"));
    return withLengths(slots, await this.framed(this.ofPair("steps")));
  }

  private async loadChosen(): Promise<void> {
    const { step, pair } = this;
    const other = (): boolean => step !== this.step || pair !== this.pair;
    const kinds = async (): Promise<void> => {
      const row = step === null ? null : rowsOf(await this.slots())[step];
      const what = [
        row ? `in ${stepLabel(text(row, "after_label"))}` : "",
        pair === null ? "" : `on ${this.whose()}`,
      ];
      const frame = await this.framed(this.chosen("waterfall:kind"));
      if (!other()) {
        this.waterfall.show({ kinds: frame, what: what.filter((word) => word !== "").join(" ") });
      }
    };
    const names = async (): Promise<void> => {
      const frame = await this.framed(this.chosen("names"));
      if (!other()) this.names.show(frame);
    };
    await Promise.all([
      this.draw("Where the time goes", (why) => other() || this.waterfall.fail(why), kinds),
      this.draw("Names", (why) => other() || this.names.fail(why), names),
    ]);
  }
}

function turnedIf(frame: Frame, swapped: boolean): Frame {
  return swapped ? turned(frame) : frame;
}

/** Length of a pair of steps, before and after. */
function stepWords(row: Row): string {
  const [before, after] = lengthsOf(row);
  return (
    `${stepLabel(text(row, "after_label"))}: ${formatDuration(before)} → ` +
    `${formatDuration(after)}, ${shareWords(after - before, before)}. Click it again for all steps.`
  );
}

/** `6 steps of 77.5 ± 3.1 ms → 124 ± 20 ms, p 0.003`; "" for a single step. */
export function spreadWords({ rows, columns, attrs }: Frame): string {
  const spread = [Number(attrs.before_std_ns ?? NaN), Number(attrs.after_std_ns ?? NaN)];
  if (rows < 2 || attrs.p_value === null || spread.some((one) => !Number.isFinite(one))) return "";
  const mean = (name: string): number =>
    (columns[name] ?? []).reduce<number>((sum, one) => sum + Number(one), 0) / rows;
  const side = (name: string, std: number): string =>
    `${formatDuration(Math.round(mean(name)))} ± ${formatDuration(Math.round(std))}`;
  const p = Number(attrs.p_value);
  const chance = p < 0.0001 ? "p < 0.0001" : `p ${p.toFixed(p < 0.01 ? 4 : 2)}`;
  const [before, after] = [mean("before_ns"), mean("after_ns")];
  const slight = Math.abs(after - before) < WORTH_TELLING * Math.max(before, after);
  const significant = slight ? "hardly chance, but less than 1\u202f%" : "more than chance";
  const verdict = attrs.is_significant === true ? significant : "may be chance";
  return (
    `A step of ${rows}: ${side("before_ns", spread[0]!)} → ${side("after_ns", spread[1]!)}, ` +
    `mean ± standard deviation; ${verdict} (${chance}).`
  );
}

// Arrangement of panels, and the initial rows of tables at which adjacent columns are equally high.

/**
 * Arrangement of panels: one column; names next to the waterfall; changes and names next to it; or
 * a column of these three next to a column of the others.
 */
export type Room = "sheet" | "pair" | "row" | "columns";

const SHEET = { names: 10, changes: 6 };
/** Max initial rows of changes. There are few changes, and they take precedence over names. */
const MOST_CHANGES = 10;
const LEAST = { names: 8, changes: 6 };
const MOST_NAMES = 60;

/** Number of rows for a height of `wanted` px, if `shown` rows make it `height` px high. */
export function rowsFor(
  wanted: number,
  { height, shown, row }: { height: number; shown: number; row: number },
): number {
  return row > 0 ? Math.floor((wanted - (height - shown * row)) / row) : shown;
}

/** Divide rows among names and changes; changes take precedence. */
export function parted(free: number): { names: number; changes: number } {
  const missing = Math.max(0, LEAST.names - (free - MOST_CHANGES));
  const changes = Math.max(LEAST.changes, MOST_CHANGES - missing);
  return { names: within(free - changes), changes };
}

function within(names: number): number {
  return Math.min(MOST_NAMES, Math.max(LEAST.names, names));
}

/** Height of an element's content, even if the element is stretched. */
function heightOf(el: HTMLElement): number {
  const { top } = el.getBoundingClientRect();
  const { paddingBottom } = getComputedStyle(el);
  const ends = Array.from(el.children, (child) => child.getBoundingClientRect().bottom);
  return Math.max(top, ...ends) - top + (Number.parseFloat(paddingBottom) || 0);
}

/** Height of a table, its number of rows, and the height of one. */
function measured({ el }: { el: HTMLElement }): { height: number; shown: number; row: number } {
  const rows = el.querySelectorAll<HTMLElement>(".hta-name-row");
  const row = rows[0]?.getBoundingClientRect().height ?? 0;
  return { height: heightOf(el), shown: rows.length, row };
}

/** The panels to fill: one column with tables, and `left`, the column next to it. */
interface Filled {
  waterfall: HTMLElement;
  names: Charts["names"];
  changes: Charts["changes"];
  /** Panels of the other column if there are two columns. */
  left: readonly HTMLElement[];
}

function fillRoom(room: Room, { waterfall, names, changes, left }: Filled): void {
  if (room === "sheet" || measured(names).row === 0) {
    names.room.value = SHEET.names;
    changes.room.value = SHEET.changes;
    return;
  }
  if (room === "columns") {
    const beside = left.reduce((sum, el) => sum + heightOf(el), 0);
    const [own, theirs] = [measured(names), measured(changes)];
    const rest = theirs.height - theirs.shown * theirs.row;
    const free = rowsFor(beside - heightOf(waterfall) - rest, own);
    const rows = parted(free);
    changes.room.value = rows.changes;
    const there = changes.shown.value?.frame.rows ?? 0;
    names.room.value = within(free - Math.min(rows.changes, there));
    return;
  }
  const high = heightOf(waterfall);
  names.room.value = within(rowsFor(high, measured(names)));
  const fit = room === "row" ? rowsFor(high, measured(changes)) : SHEET.changes;
  changes.room.value = Math.max(LEAST.changes, fit);
}

/** The selection in words, as removable chips, and as Python code. */

import { computed } from "@preact/signals";
import { wholeSpan } from "../connection/answering";
import { type Model, Shared } from "../connection/store";
import {
  brushed,
  chosenOf,
  conjuncts,
  EVERYTHING,
  type Part,
  picked,
  readClauses,
  readText,
  roomAround,
  without,
} from "../protocol/selection";
import type { Brush, PanelFrame, Scene, SelectionJson, SharedState } from "../protocol/source";
import { selectionCode } from "../timeline/text";
import { Button, Icon } from "../ui/controls";
import { formatCount, formatDuration, group, plural, runsOf, THIN, wholeName } from "../ui/formats";
import { leftOutWords, prefixed, type Words } from "../ui/text";
import type { Context } from "./context";
import type { Finding } from "./headline";

/** The first findings of the headline are offered. */
const MOST_OFFERS = 4;

export function SelectionPanel({ ctx }: { ctx: Context }) {
  const { choosing, sums } = ctx;
  const scene = ctx.scene.value;
  const selection = choosing.selection.value;
  const phrases = phrasesOf(selection, (name) => ctx.shortName(name));
  const code = selectionCode(selection, scene.clock);
  return (
    <div class="hta-selection">
      <header class="hta-pane-head">
        <h3>Selection</h3>
      </header>
      <p class="hta-sel-words">
        {phrases.length === 0 ? (
          <>
            {"The "}
            <b>{wholeName(scene)}</b>
            {`: ${wholeWords(scene)}, all tracks. `}
          </>
        ) : (
          <>
            <b>{phrases.map(({ text }) => text).join(", ")}</b>
            {": "}
          </>
        )}
        {sums !== null && scene.events > 0 && sumWords(sums, scene)}
      </p>
      <div
        class="hta-sel-chips"
        role="group"
        aria-label="Parts of the selection"
        hidden={phrases.length === 0}
      >
        {phrases.map(({ part, text, full }) => (
          <span key={part} class="hta-sel-chip" title={full}>
            <span>{text}</span>
            <button
              type="button"
              aria-label={`Take back ${text}`}
              title="Take this part back"
              onClick={() => choosing.select(without(selection, part), choosing.ranksFrom)}
            >
              <Icon name="close" />
            </button>
          </span>
        ))}
        {phrases.length > 1 && (
          <Button
            text="Clear all"
            keys="Esc"
            press={() => choosing.select(null, choosing.ranksFrom)}
          />
        )}
      </div>
      <div class="hta-sel-code">
        <code title={code}>{code}</code>
        <Button
          icon="copy"
          name="Copy as Python"
          class="hta-copy-code"
          press={() => void ctx.copy(code, "Python")}
        />
      </div>
      <div class="hta-sel-doings">
        {ctx.headline.value?.findings?.slice(0, MOST_OFFERS).map((finding) => (
          // The accessible name is the visible text; the hint is its description.
          <Button
            key={finding.label}
            text={finding.label}
            title={finding.text}
            press={() => choosing.choose(finding)}
          />
        ))}
        <Button
          text="Export…"
          name="Export the selection as a trace"
          keys="X"
          press={({ currentTarget }) =>
            ctx.timeline.panels.openExport(currentTarget as HTMLElement)
          }
        />
      </div>
    </div>
  );
}

function wholeWords({ part, range: [start, end], events, ranks }: Scene): string {
  const length = part ? windowWords(start, end) : formatDuration(end - start);
  const window = events > 0 ? `${length}, ` : "";
  return `${window}${plural(ranks.length, "rank")}`;
}

const NO_GPU_EVENTS =
  " None is on a GPU, so charts of GPU work are empty: click an event, and select what it launched.";

/** Number and kinds of the selected events. */
function sumWords(sums: PanelFrame, { ranks }: Scene): string {
  const number = (name: string): number => Number(sums.columns[name]?.[0] ?? 0);
  const hasGpu = ranks.some(({ summary }) => summary.some(({ role }) => role === "gpu"));
  const [events, onGpus] = [number("events"), hasGpu ? number("device_events") : 0];
  const collectives = number("collectives");
  return [
    plural(events, "event"),
    onGpus > 0 ? `, of them ${formatCount(onGpus)} on GPUs` : "",
    collectives > 0 ? `, in ${plural(collectives, "collective")}` : "",
    prefixed(", ", leftOutWords(sums)),
    ".",
    hasGpu && events > 0 && onGpus === 0 ? NO_GPU_EVENTS : "",
  ].join("");
}

// The selection, and every way to change it: each change is an entry of the history.

export class Choosing {
  readonly selection = computed(() => this.shared.now.value.selection);
  readonly scope = computed(() => this.shared.now.value.scope);
  readonly chosen = computed(() => chosenOf(this.selection.value, this.ctx.scene.value));
  private readonly shared: Shared;

  constructor(
    private readonly ctx: Context,
    state: Model,
  ) {
    this.shared = new Shared(ctx.signal);
    this.shared.attach(state);
  }

  /** Whether there are steps to undo and redo. */
  get steps(): { canUndo: boolean; canRedo: boolean } {
    return this.shared.steps;
  }

  get ranksFrom(): string {
    return this.shared.state.ranks_from;
  }

  get isEmpty(): boolean {
    return this.selection.value === null && this.shared.state.selected_event === null;
  }

  /** The selection that limits the figures, as the scope defines it. */
  get effective(): SelectionJson {
    const whole: SelectionJson = { ...EVERYTHING, ...this.selection.value };
    const hasWindow = whole.start_ns !== null || whole.end_ns !== null;
    if (this.scope.value !== "view" || hasWindow) return whole;
    const [start, end] = this.ctx.view;
    return { ...whole, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  /** Follow this shared state instead of the previous one. */
  attach(state: Model): void {
    this.shared.attach(state);
  }

  /** Apply a brush of the panel `id` to the selection. */
  brush(id: string, brush: Brush): void {
    const next = brushed(this.selection.value, brush, this.ctx.scene.value.ranks.length);
    this.select(next, brush.ranks === undefined ? this.ranksFrom : id);
  }

  chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: picked(this.chosen.value.ranks, rank, add) });
  }

  /** Select a finding; its window comes into view. */
  choose({ selection }: Finding): void {
    const { start_ns: start, end_ns: end } = selection;
    if (start === null || end === null) {
      this.select(selection, "headline");
      return;
    }
    const room = wholeSpan(roomAround(start, end - start, 0.1));
    const [first, last] = this.ctx.scene.value.range;
    const view: [number, number] = [Math.max(room.start, first), Math.min(room.end, last)];
    this.select(selection, "headline", { view });
    this.ctx.bringIntoView("timeline");
  }

  /** `from`: the panel that chose the ranks; `more`: changes in the same entry of the history. */
  select(selection: SelectionJson | null, from = "", more: Partial<SharedState> = {}): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : from;
    const patch = selection === null ? { selected_event: null } : {};
    this.set({ ...patch, ...more, selection, ranks_from });
  }

  setScope(scope: SharedState["scope"]): void {
    this.set({ scope });
  }

  undo(): void {
    this.ctx.timeline.ctx.shared.flush();
    if (!this.shared.undo()) this.ctx.timeline.status.flash(["Nothing to undo."]);
  }

  redo(): void {
    this.ctx.timeline.ctx.shared.flush();
    if (!this.shared.redo()) this.ctx.timeline.status.flash(["Nothing to redo."]);
  }

  private set(patch: Partial<SharedState>): void {
    this.ctx.timeline.ctx.shared.flush();
    this.shared.set(patch);
    this.shared.flush();
  }
}

/** The selection for the status line. */
export function selectionWords(ctx: Context): Words | null {
  const selection = ctx.choosing.selection.value;
  if (selection === null) return null;
  const events = ctx.sums?.columns.events?.[0];
  const phrases = phrasesOf(selection, (name) => ctx.shortName(name)).map(({ text }) => text);
  const count = typeof events === "number" ? `, ${plural(events, "event")}` : "";
  return [{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`];
}

// A selection in words: `ranks 2–5, 12.3–18.9 ms, name contains nccl`.

interface Phrase {
  part: Part;
  text: string;
  /** The whole text, if the shown one is cut. */
  full: string;
}

/** Max number of runs of ranks, and of names, that are listed; if there are more, count them. */
const MOST_RUNS = 4;
const MOST_NAMES = 3;
const LONGEST = 40;
/** `a, b and c` */
const AND = new Intl.ListFormat("en-GB");
const MINUS = "\u2212";
const UNITS: readonly (readonly [power: number, unit: string])[] = [
  [9, "s"],
  [6, "ms"],
  [3, "µs"],
  [0, "ns"],
];
const CONTAINS = /^name\.str\.contains\(('.*?'|".*?")(?:, *(?:case|regex)=(?:True|False))*\)$/u;

/** A text per dimension; none if everything is selected. */
export function phrasesOf(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): Phrase[] {
  if (selection === null) return [];
  const { start_ns: start, end_ns: end, ranks, ids } = selection;
  // A track of a single rank is a pair of rank and key.
  const tracks = selection.tracks as readonly (string | [number, string])[] | null;
  const { names, kinds, rest } = readClauses(selection.query);
  const out: Phrase[] = [];
  const say = (part: Part, text: string, full = text): void => void out.push({ part, text, full });
  if (ranks !== null) say("ranks", ranksWords(ranks), ranks.join(", "));
  if (tracks !== null) say("tracks", tracksWords(tracks), tracks.map(trackName).join("\n"));
  if (start !== null || end !== null) {
    say("window", windowWords(start, end), `${start ?? "–"} to ${end ?? "–"} ns`);
  }
  if (kinds !== null) say("kinds", listed("kind", kinds), kinds.join("\n"));
  if (names !== null) {
    const text =
      names.length > MOST_NAMES
        ? plural(names.length, "name")
        : listed(
            "name",
            names.map((name) => cut(short(name))),
          );
    say("names", text, names.join("\n"));
  }
  if (rest !== null) say("rest", conjuncts(rest).map(condition).join(", "), rest);
  if (ids !== null) say("ids", plural(ids.length, "event"));
  return out;
}

/** The window as text, with as many digits as its length needs. */
function windowWords(start: number | null, end: number | null): string {
  if (start === null) return end === null ? "" : `before ${instant(end)}`;
  if (end === null) return `from ${instant(start)} on`;
  if (start === end) return `an empty window at ${instant(start)}`;
  return times([start, end], String(end - start).length - 2);
}

function instant(time: number): string {
  return times([time], String(Math.abs(time)).length - 3);
}

/** Times in one unit; `lastDigit` is the power of ten to which they are rounded. */
function times(all: readonly number[], lastDigit: number): string {
  const most = Math.max(...all.map(Math.abs));
  const [power, unit] = UNITS.find(([one]) => most >= 10 ** one || one === 0) ?? [0, "ns"];
  const last = Math.min(Math.max(lastDigit, 0), power);
  const step = 10 ** last;
  let rounded = all.map((time) => Math.floor((Math.abs(time) + Math.floor(step / 2)) / step));
  let decimals = power - last;
  if (rounded.every((value) => value % 10 ** decimals === 0)) {
    rounded = rounded.map((value) => value / 10 ** decimals);
    decimals = 0;
  }
  const texts = all.map((time, at) => {
    const value = rounded[at] ?? 0;
    return (time < 0 && value !== 0 ? MINUS : "") + decimal(value, decimals);
  });
  return `${texts.join("–")}${THIN}${unit}`;
}

function decimal(value: number, decimals: number): string {
  if (decimals === 0 || value === 0) return formatCount(value);
  const scale = 10 ** decimals;
  const part = String(value % scale).padStart(decimals, "0");
  return `${group(String(Math.floor(value / scale)))}.${part}`;
}

function ranksWords(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = runsOf(ranks);
  if (runs.length === 0) return "no ranks";
  if (runs.length > MOST_RUNS) return plural(ranks.length, "rank");
  return `ranks ${AND.format(runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)))}`;
}

function trackName(track: string | [number, string]): string {
  return typeof track === "string" ? track : `${track[1]} of rank ${track[0]}`;
}

function tracksWords(tracks: readonly (string | [number, string])[]): string {
  const only = tracks.length === 1 ? tracks[0] : undefined;
  if (only === undefined) return tracks.length === 0 ? "no tracks" : plural(tracks.length, "track");
  if (typeof only === "string") return `track ${cut(only)}`;
  return `track ${cut(only[1])} of rank ${only[0]}`;
}

function listed(noun: string, values: readonly string[]): string {
  if (values.length === 0) return `no ${noun}s`;
  return `${noun}${values.length > 1 ? "s" : ""} ${AND.format(values)}`;
}

function condition(text: string): string {
  const value = readText(CONTAINS.exec(text)?.[1] ?? "");
  return value === null ? text : `name contains ${cut(value)}`;
}

function cut(text: string): string {
  const characters = Array.from(text);
  return characters.length <= LONGEST ? text : `${characters.slice(0, LONGEST - 1).join("")}…`;
}

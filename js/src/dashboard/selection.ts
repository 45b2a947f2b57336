/** The selection in words, as removable chips, and as Python code. */

import { type Key, type Model, Shared } from "../connection/store";
import {
  brushed,
  chosenOf,
  conjuncts,
  EVERYTHING,
  NONE_CHOSEN,
  type Part,
  picked,
  readClauses,
  readText,
  without,
} from "../protocol/selection";
import type {
  Brush,
  Chosen,
  PanelFrame,
  Scene,
  SelectionJson,
  SharedState,
  Span,
} from "../protocol/source";
import { selectionCode } from "../timeline/text";
import { button, type Content, icon } from "../ui/controls";
import { type Child, fill, h } from "../ui/dom";
import { formatCount, formatDuration, group, plural, wholeName } from "../ui/formats";
import { leftOutWords, prefixed } from "../ui/text";

interface SelectionWays {
  select(selection: SelectionJson | null): void;
  copy(text: string, what: string): void;
  openExport(anchor: HTMLElement): void;
  scene(): Scene;
  shortName(name: string): string;
}

/** A way on that a finding offers. */
interface Offer {
  text: string;
  /** What it is about. */
  name: string;
  press(): void;
}

export class SelectionPanel implements Content {
  readonly el: HTMLElement;
  readonly hasTitle = true;
  private readonly words = h("p", { class: "hta-sel-words" });
  private readonly chips = h("div", {
    class: "hta-sel-chips",
    role: "group",
    "aria-label": "Parts of the selection",
  });
  private readonly code = h("code", {});
  private readonly doings = h("div", { class: "hta-sel-doings" });
  private selection: SelectionJson | null = null;
  private frame: PanelFrame | null = null;
  private offers: readonly Offer[] = [];

  constructor(private readonly ways: SelectionWays) {
    this.el = h(
      "div",
      { class: "hta-selection" },
      h("header", { class: "hta-pane-head" }, h("h3", {}, "Selection, in words")),
      this.words,
      this.chips,
      h(
        "div",
        { class: "hta-sel-code" },
        this.code,
        button({
          icon: "copy",
          name: "Copy as Python",
          class: "hta-copy-code",
          press: () => this.ways.copy(selectionCode(this.selection), "Python"),
        }),
      ),
      this.doings,
    );
    this.print();
  }

  /** At once, before it is known what it adds up to. */
  select(selection: SelectionJson | null): void {
    this.selection = selection;
    this.frame = null;
    this.print();
  }

  offer(offers: readonly Offer[]): void {
    this.offers = offers;
    this.print();
  }

  show(frame: PanelFrame): void {
    this.frame = frame;
    this.print();
  }

  private print(): void {
    const scene = this.ways.scene();
    const { selection, frame } = this;
    const phrases = phrasesOf(selection, this.ways.shortName);
    const number = (name: string): number | null => {
      const value = frame?.columns[name]?.[0];
      return typeof value === "number" ? value : null;
    };
    const events = number("events");
    const hasGpu = scene.ranks.some(({ summary }) => summary.some(({ role }) => role === "gpu"));
    const from = scene.part ? formatDuration(scene.range[0]) : "0";
    const range = scene.events > 0 ? `${from} to ${formatDuration(scene.range[1])}, ` : "";
    const members: Child[] =
      events === null || scene.events === 0
        ? []
        : [
            plural(events, "event"),
            hasGpu &&
              (number("device_events") ?? 0) > 0 &&
              `, of them ${formatCount(number("device_events"))} on GPUs`,
            (number("collectives") ?? 0) > 0 &&
              `, in ${plural(number("collectives") ?? 0, "collective")}`,
            frame === null ? "" : prefixed(", ", leftOutWords(frame)),
            ".",
          ];
    const what: Child[] =
      phrases.length === 0
        ? [
            "The ",
            h("b", {}, wholeName(scene)),
            `: ${range}${plural(scene.ranks.length, "rank")}, all tracks. `,
          ]
        : [h("b", {}, phrases.map(({ text }) => text).join(", ")), ": "];
    fill(this.words, ...what, ...members);
    this.chips.hidden = phrases.length === 0;
    fill(
      this.chips,
      ...phrases.map(({ part, text, full }) => this.chip(part, text, full)),
      phrases.length > 1 &&
        button({ text: "Clear all", key: "Esc", press: () => this.ways.select(null) }),
    );
    fill(this.code, selectionCode(selection));
    this.code.title = selectionCode(selection);
    fill(
      this.doings,
      ...this.offers.map(({ text, name, press }) =>
        // What is read on it is what it is called; what it is about is a description.
        Object.assign(button({ text, press }), { title: name }),
      ),
      button({
        text: "Export…",
        name: "Export the selection as a trace",
        key: "X",
        press: ({ currentTarget }) => this.ways.openExport(currentTarget as HTMLElement),
      }),
    );
  }

  private chip(part: Part, text: string, full: string | undefined): HTMLElement {
    return h(
      "span",
      { class: "hta-sel-chip", title: full },
      h("span", {}, text),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Take back ${text}`,
          title: "Take this part back",
          on: { click: () => this.ways.select(without(this.selection, part)) },
        },
        icon("close"),
      ),
    );
  }
}

// What is selected, and every way to change it: each change is a step to come back to.

interface ChoosingWays {
  scene(): Scene;
  /** What the timeline shows now. */
  view(): Span;
  /** Gestures of the timeline that are still settling come first. */
  settle(): void;
  /** Something else is selected, or figures are of something else. */
  changed(): void;
  history(): void;
  say(text: string): void;
}

export class Choosing {
  chosen: Chosen = NONE_CHOSEN;
  private readonly shared: Shared;

  constructor(
    state: Model,
    private readonly ways: ChoosingWays,
    signal: AbortSignal,
  ) {
    this.shared = new Shared(signal);
    this.shared.attach(state);
    this.chosen = chosenOf(this.selection, ways.scene());
    this.shared.onChange((keys) => this.heard(keys));
    this.shared.onHistory(() => ways.history());
  }

  get selection(): SelectionJson | null {
    return this.shared.state.selection;
  }

  get scope(): SharedState["scope"] {
    return this.shared.state.scope;
  }

  get ranksFrom(): string {
    return this.shared.state.ranks_from;
  }

  get isEmpty(): boolean {
    return this.selection === null && this.shared.state.selected_event === null;
  }

  get canUndo(): boolean {
    return this.shared.canUndo;
  }

  get canRedo(): boolean {
    return this.shared.canRedo;
  }

  /** What figures are of. */
  get effective(): SelectionJson {
    const whole: SelectionJson = { ...EVERYTHING, ...this.selection };
    const hasWindow = whole.start_ns !== null || whole.end_ns !== null;
    if (this.scope !== "view" || hasWindow) return whole;
    const [start, end] = this.ways.view();
    return { ...whole, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  /** Follow another shared state from now on. */
  attach(state: Model): void {
    this.shared.attach(state);
  }

  /** A panel asks for something to be selected. */
  brush(id: string, brush: Brush): void {
    const next = brushed(this.selection, brush, this.ways.scene().ranks.length);
    this.select(next, brush.ranks === undefined ? this.ranksFrom : id);
  }

  chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: picked(this.chosen.ranks, rank, add) });
  }

  /** `from`: the panel that chose its ranks. */
  select(selection: SelectionJson | null, from = ""): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : from;
    const patch = selection === null ? { selected_event: null } : {};
    this.set({ ...patch, selection, ranks_from });
  }

  setScope(scope: SharedState["scope"]): void {
    this.set({ scope });
  }

  undo(): void {
    this.ways.settle();
    if (!this.shared.undo()) this.ways.say("Nothing to undo.");
  }

  redo(): void {
    this.ways.settle();
    if (!this.shared.redo()) this.ways.say("Nothing to redo.");
  }

  /** Take over what the shared state says. */
  follow(): void {
    this.chosen = chosenOf(this.selection, this.ways.scene());
    this.ways.changed();
  }

  private set(patch: Partial<SharedState>): void {
    this.ways.settle();
    this.shared.set(patch);
    this.shared.flush();
    this.follow();
  }

  private heard(keys: ReadonlySet<Key>): void {
    if (keys.has("selection") || keys.has("scope")) this.follow();
  }
}

// * A selection in words: `ranks 2–5, 12.3–18.9 ms, name contains nccl`.

interface Phrase {
  part: Part;
  text: string;
  /** All of it, where the text is short of something. */
  full: string;
}

const EVERYTHING_WORDS = "whole job";

/** Runs of ranks, names: more are counted instead. */
const MOST_RUNS = 4;
const MOST_NAMES = 3;
const LONGEST = 40;
const THIN = "\u2009";
const MINUS = "\u2212";
const UNITS: readonly (readonly [power: number, unit: string])[] = [
  [9, "s"],
  [6, "ms"],
  [3, "µs"],
  [0, "ns"],
];
const CONTAINS = /^name\.str\.contains\(('.*?'|".*?")(?:, *(?:case|regex)=(?:True|False))*\)$/u;

export function selectionWords(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): string {
  const phrases = phrasesOf(selection, short);
  return phrases.length === 0 ? EVERYTHING_WORDS : phrases.map(({ text }) => text).join(", ");
}

/** What each dimension says; none where everything is selected. */
export function phrasesOf(
  selection: SelectionJson | null,
  short: (name: string) => string = (name) => name,
): Phrase[] {
  if (selection === null) return [];
  const { start_ns: start, end_ns: end, ranks, ids } = selection;
  // Tracks of one rank alone come as pairs.
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

/** As many digits as the window's length needs. */
function windowWords(start: number | null, end: number | null): string {
  if (start === null) return end === null ? "" : `before ${instant(end)}`;
  if (end === null) return `from ${instant(start)} on`;
  if (start === end) return `an empty window at ${instant(start)}`;
  return times([start, end], String(end - start).length - 2);
}

function instant(time: number): string {
  return times([time], String(Math.abs(time)).length - 3);
}

/** In one unit; `lastDigit` is the power of ten that they are rounded to. */
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
  const runs: [number, number][] = [];
  for (const rank of ranks) {
    const run = runs.at(-1);
    if (run !== undefined && run[1] + 1 === rank) run[1] = rank;
    else runs.push([rank, rank]);
  }
  if (runs.length === 0) return "no ranks";
  if (runs.length > MOST_RUNS) return plural(ranks.length, "rank");
  return `ranks ${joined(runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)))}`;
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
  return `${noun}${values.length > 1 ? "s" : ""} ${joined(values)}`;
}

function joined(texts: readonly string[]): string {
  if (texts.length < 2) return texts[0] ?? "";
  return `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

function condition(text: string): string {
  const value = readText(CONTAINS.exec(text)?.[1] ?? "");
  return value === null ? text : `name contains ${cut(value)}`;
}

function cut(text: string): string {
  const characters = Array.from(text);
  return characters.length <= LONGEST ? text : `${characters.slice(0, LONGEST - 1).join("")}…`;
}

/** The selection in words, as removable chips, and as Python code. */

import { computed } from "@preact/signals";
import { wholeNsWindow } from "../connection/answering";
import { type Model, SharedStateStore } from "../connection/store";
import {
  applyBrush,
  chartSelectionOf,
  selectionSpan,
  splitConjuncts,
  FULL_SELECTION,
  type SelectionDimension,
  togglePick,
  parseClauses,
  parseStringLiteral,
  padSpan,
  withoutDimension,
} from "../protocol/selection";
import type {
  Brush,
  FigureScope,
  FigureWindow,
  PanelFrame,
  Scene,
  SelectionJson,
  SharedState,
} from "../protocol/source";
import { deviceOf } from "../protocol/scene";
import { choosesOperators } from "../facts/panels";
import { selectionCode } from "../timeline/text";
import { Button, Icon } from "../ui/controls";
import {
  formatCount,
  formatDuration,
  groupDigits,
  plural,
  runsOf,
  THIN_SPACE,
  wholeRunName,
} from "../ui/formats";
import { leftOutText, withPrefix, type RichText } from "../ui/text";
import type { DashContext } from "./context";
import { type Finding, FindingButtons } from "./headline";

export function SelectionPanel({ ctx }: { ctx: DashContext }) {
  const { selectionState, selectionTotals: totals } = ctx;
  const scene = ctx.scene.value;
  const selection = selectionState.selection.value;
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
            <b>{wholeRunName(scene)}</b>
            {`: ${wholeRunText(scene)}, all tracks. `}
          </>
        ) : (
          <>
            <b>{phrases.map(({ text }) => text).join(", ")}</b>
            {": "}
          </>
        )}
        {totals !== null && scene.events > 0 && totalsText(totals, scene)}
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
              onClick={() =>
                selectionState.select(withoutDimension(selection, part), selectionState.ranksFrom)
              }
            >
              <Icon name="close" />
            </button>
          </span>
        ))}
        {phrases.length > 1 && (
          <Button
            text="Clear all"
            keys="Esc"
            press={() => selectionState.select(null, selectionState.ranksFrom)}
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
        <FindingButtons ctx={ctx} isWindow={false} />
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

function wholeRunText({ part, range: [start, end], events, ranks }: Scene): string {
  const length = part ? windowText(start, end) : formatDuration(end - start);
  const window = events > 0 ? `${length}, ` : "";
  return `${window}${plural(ranks.length, "rank")}`;
}

const noDeviceEventsText = (device: string): string =>
  ` None is ${device} work, so charts of it are empty: click an event, and select what it launched.`;

/** Number and kinds of the selected events. */
function totalsText(sums: PanelFrame, scene: Scene): string {
  const number = (name: string): number => Number(sums.columns[name]?.[0] ?? 0);
  const device = deviceOf(scene);
  const hasGpu = scene.ranks.some(({ summary }) => summary.some(({ role }) => role === "gpu"));
  const [events, onDevices] = [number("events"), hasGpu ? number("device_events") : 0];
  const collectives = number("collectives");
  return [
    plural(events, "event"),
    onDevices > 0 ? `, of them ${formatCount(onDevices)} on ${device}s` : "",
    collectives > 0 ? `, in ${plural(collectives, "collective")}` : "",
    withPrefix(", ", leftOutText(sums)),
    ".",
    hasGpu && events > 0 && onDevices === 0 ? noDeviceEventsText(device) : "",
  ].join("");
}

// The selection, and every way to change it: each change is an entry of the history.

export class DashSelection {
  readonly selection = computed(() => this.shared.stateSignal.value.selection);
  /** Scope of the figures: without a selection, `selection` is the whole job. */
  readonly scope = computed((): FigureScope => {
    const { scope } = this.shared.stateSignal.value;
    return scope === "selection" && this.selection.value === null ? "job" : scope;
  });
  /** The window of figures that have no other parts; null for the view. */
  readonly figures = computed((): FigureWindow | null => {
    const scene = this.ctx.scene.value;
    if (this.scope.value === "view") return null;
    const span = this.scope.value === "job" ? null : selectionSpan(this.selection.value, scene);
    if (span === null) return { span: scene.range, label: wholeRunName(scene) };
    return { span, label: "selection" };
  });
  readonly chartSelection = computed(() =>
    chartSelectionOf(this.selection.value, this.ctx.scene.value),
  );
  private readonly shared: SharedStateStore;

  constructor(
    private readonly ctx: DashContext,
    state: Model,
  ) {
    this.shared = new SharedStateStore(ctx.signal);
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
    const scope = this.scope.value;
    if (scope === "selection") return { ...FULL_SELECTION, ...this.selection.value };
    if (scope === "job") return FULL_SELECTION;
    const [start, end] = this.ctx.view;
    return { ...FULL_SELECTION, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  /** Follow this shared state instead of the previous one. */
  attach(state: Model): void {
    this.shared.attach(state);
  }

  /** Apply a brush of the panel `id` to the selection. */
  brush(id: string, brush: Brush): void {
    const ranks = this.ctx.scene.value.ranks.length;
    const next = applyBrush(
      this.selection.value,
      { ...brush, launches: choosesOperators(id) },
      ranks,
    );
    this.select(next, brush.ranks === undefined ? this.ranksFrom : id);
  }

  chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: togglePick(this.chartSelection.value.ranks, rank, add) });
  }

  /** Select a finding; its window comes into view. */
  chooseWindow({ selection }: Finding): void {
    const { start_ns: start, end_ns: end } = selection;
    if (start === null || end === null) {
      this.select(selection, "headline");
      return;
    }
    const padded = wholeNsWindow(padSpan(start, end - start, 0.1));
    const [first, last] = this.ctx.scene.value.range;
    const view: [number, number] = [Math.max(padded.start, first), Math.min(padded.end, last)];
    this.select(selection, "headline", { view });
    this.ctx.bringIntoView("timeline");
  }

  /** `from`: the panel that chose the ranks; `more`: changes in the same entry of the history. */
  select(selection: SelectionJson | null, from = "", more: Partial<SharedState> = {}): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : from;
    const patch: Partial<SharedState> = selection === null ? { selected_event: null } : {};
    if (selection === null && this.scope.value === "job") patch.scope = "selection";
    this.commit({ ...patch, ...more, selection, ranks_from });
  }

  /** Without a selection, the whole job is the scope that a next selection narrows. */
  setScope(scope: FigureScope): void {
    this.commit({ scope: scope === "job" && this.selection.value === null ? "selection" : scope });
  }

  undo(): void {
    this.ctx.timeline.ctx.shared.flush();
    if (!this.shared.undo()) this.ctx.timeline.status.flashMessage(["Nothing to undo."]);
  }

  redo(): void {
    this.ctx.timeline.ctx.shared.flush();
    if (!this.shared.redo()) this.ctx.timeline.status.flashMessage(["Nothing to redo."]);
  }

  private commit(patch: Partial<SharedState>): void {
    this.ctx.timeline.ctx.shared.flush();
    this.shared.set(patch);
    this.shared.flush();
  }
}

/** The selection for the status line. */
export function selectionText(ctx: DashContext): RichText | null {
  const selection = ctx.selectionState.selection.value;
  if (selection === null) return null;
  const events = ctx.selectionTotals?.columns.events?.[0];
  const phrases = phrasesOf(selection, (name) => ctx.shortName(name)).map(({ text }) => text);
  const count = typeof events === "number" ? `, ${plural(events, "event")}` : "";
  return [{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`];
}

// A selection in words: `ranks 2–5, 12.3–18.9 ms, name contains nccl`.

interface Phrase {
  part: SelectionDimension;
  text: string;
  /** The whole text, if the shown one is cut. */
  full: string;
}

/** Max number of runs of ranks, and of names, that are listed; if there are more, count them. */
const MAX_RUNS = 4;
const MAX_NAMES = 3;
const MAX_TEXT_LENGTH = 40;
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
  const { names, kinds, rest: remaining } = parseClauses(selection.query);
  const out: Phrase[] = [];
  const addPhrase = (part: SelectionDimension, text: string, full = text): void =>
    void out.push({ part, text, full });
  if (ranks !== null) addPhrase("ranks", ranksText(ranks), ranks.join(", "));
  if (tracks !== null) addPhrase("tracks", tracksText(tracks), tracks.map(trackName).join("\n"));
  if (start !== null || end !== null) {
    addPhrase("window", windowText(start, end), `${start ?? "–"} to ${end ?? "–"} ns`);
  }
  if (kinds !== null) addPhrase("kinds", listText("kind", kinds), kinds.join("\n"));
  if (names !== null) {
    const nameText =
      names.length > MAX_NAMES
        ? plural(names.length, "name")
        : listText(
            "name",
            names.map((name) => truncate(short(name))),
          );
    const launched = selection.launches === true ? " with launched work" : "";
    addPhrase("names", nameText + launched, names.join("\n"));
  }
  if (remaining !== null)
    addPhrase("rest", splitConjuncts(remaining).map(conditionText).join(", "), remaining);
  if (ids !== null) addPhrase("ids", plural(ids.length, "event"));
  return out;
}

/** The window as text, with as many digits as its length needs. */
function windowText(start: number | null, end: number | null): string {
  if (start === null) return end === null ? "" : `before ${instantText(end)}`;
  if (end === null) return `from ${instantText(start)} on`;
  if (start === end) return `an empty window at ${instantText(start)}`;
  return timeTexts([start, end], String(end - start).length - 2);
}

function instantText(time: number): string {
  return timeTexts([time], String(Math.abs(time)).length - 3);
}

/** Times in one unit; `lastDigit` is the power of ten to which they are rounded. */
function timeTexts(all: readonly number[], lastDigit: number): string {
  const maxMagnitude = Math.max(...all.map(Math.abs));
  const [power, unit] = UNITS.find(
    ([exponent]) => maxMagnitude >= 10 ** exponent || exponent === 0,
  ) ?? [0, "ns"];
  const last = Math.min(Math.max(lastDigit, 0), power);
  const step = 10 ** last;
  let rounded = all.map((time) => Math.floor((Math.abs(time) + Math.floor(step / 2)) / step));
  let decimals = power - last;
  if (rounded.every((value) => value % 10 ** decimals === 0)) {
    rounded = rounded.map((value) => value / 10 ** decimals);
    decimals = 0;
  }
  const texts = all.map((time, index) => {
    const value = rounded[index] ?? 0;
    return (time < 0 && value !== 0 ? MINUS : "") + decimalText(value, decimals);
  });
  return `${texts.join("–")}${THIN_SPACE}${unit}`;
}

function decimalText(value: number, decimals: number): string {
  if (decimals === 0 || value === 0) return formatCount(value);
  const scale = 10 ** decimals;
  const part = String(value % scale).padStart(decimals, "0");
  return `${groupDigits(String(Math.floor(value / scale)))}.${part}`;
}

function ranksText(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = runsOf(ranks);
  if (runs.length === 0) return "no ranks";
  if (runs.length > MAX_RUNS) return plural(ranks.length, "rank");
  return `ranks ${AND.format(runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)))}`;
}

function trackName(track: string | [number, string]): string {
  return typeof track === "string" ? track : `${track[1]} of rank ${track[0]}`;
}

function tracksText(tracks: readonly (string | [number, string])[]): string {
  const only = tracks.length === 1 ? tracks[0] : undefined;
  if (only === undefined) return tracks.length === 0 ? "no tracks" : plural(tracks.length, "track");
  if (typeof only === "string") return `track ${truncate(only)}`;
  return `track ${truncate(only[1])} of rank ${only[0]}`;
}

function listText(noun: string, values: readonly string[]): string {
  if (values.length === 0) return `no ${noun}s`;
  return `${noun}${values.length > 1 ? "s" : ""} ${AND.format(values)}`;
}

function conditionText(text: string): string {
  const value = parseStringLiteral(CONTAINS.exec(text)?.[1] ?? "");
  return value === null ? text : `name contains ${truncate(value)}`;
}

function truncate(text: string): string {
  const characters = Array.from(text);
  return characters.length <= MAX_TEXT_LENGTH
    ? text
    : `${characters.slice(0, MAX_TEXT_LENGTH - 1).join("")}…`;
}

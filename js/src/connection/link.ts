/**
 * The state of a view, stored in the fragment of an address after its first `?`:
 *
 *     report.html#?view=12000_34000&ranks=0-3.5&query=kind+in+%5B%27compute%27%5D
 *
 * The page updates its address whenever the view changes, and opening an address restores the
 * state. Addresses may come from anywhere, so parts that do not exist in this job are ignored.
 */

import { runsOf } from "../facts/rank_text";
import { parseQuery } from "../expressions/parse";
import { PANELS } from "../facts/panels";
import { FULL_SELECTION, nullIfUnrestricted } from "../protocol/selection";
import type { Scene, SelectionJson, SharedState, Span, TimelineColor } from "../protocol/source";
import { type PanelIds, splitPageAddress, type ViewAddress } from "./address";
import {
  INITIAL_STATE,
  isColor,
  isSameJson,
  isScope,
  listenTo,
  type Model,
  saveTrait,
  STATE_KEYS,
} from "./store";

/** Longer fragments are not read, because chat and mail programs truncate longer links. */
const MAX_LENGTH = 8000;
const MAX_TEXT_LENGTH = 1000;
const FOLLOW_MS = 300;

/** Return the link to a view with the state `text`; null if the address or `text` is null. */
export function linkTo(model: Model, text: string | null): string | null {
  const address = addressTrait(model);
  return address === null || text === null ? null : withState(address.base, text);
}

const withState = (base: string, text: string): string =>
  text === "" ? base.replace(/#$/, "") : `${base}?${text}`;

/** Return the link to a view's state; null without an address or if the state is too long. */
export function linkOf(model: Model, state: SharedState, { range }: Scene): string | null {
  const panels = changedPanels(model);
  return linkTo(model, encodeState({ ...state, view: state.view ?? range }, panels));
}

/** Return a view's state as text. A window equal to `range`, the default, is omitted. */
export function stateText(state: Model, range: Span, panels: PanelIds | null = null) {
  const entries = STATE_KEYS.map((key) => [key, state.get(key) ?? INITIAL_STATE[key]]);
  const shared = Object.fromEntries(entries) as SharedState;
  return encodeState(isSameJson(shared.view, range) ? { ...shared, view: null } : shared, panels);
}

/** Return the address of a view's model; null in notebooks. */
export function addressTrait(model: Model): ViewAddress | null {
  return (model.get("_address") ?? null) as ViewAddress | null;
}

/** Apply the state in the model's address. Return a sentence about ignored parts, or "". */
export function applyAddress(model: Model, state: Model, scene: Scene): string {
  const address = addressTrait(model);
  if (address === null || address.state === "") return "";
  const offered = (model.get("_about") as { panels?: string[] } | undefined)?.panels;
  const linked = decodeState(address.state, scene, offered ?? PANELS.map(({ id }) => id));
  for (const key of STATE_KEYS) state.set(key, linked.state[key]);
  state.save_changes();
  if (linked.panels !== null) saveTrait(model, "panels", linked.panels);
  const parts = linked.rejected.join(", ");
  return parts === "" ? "" : `The link refers to items that this job does not contain: ${parts}.`;
}

/**
 * Write the state to the page's address whenever one of the traits in `changes` changes, and apply
 * addresses that the user opens. `text` returns the state as text.
 */
export function followAddress(
  model: Model,
  changes: readonly (readonly [Model, string])[],
  text: () => string | null,
  signal: AbortSignal,
  apply: () => void,
): void {
  let timer = 0;
  const write = (): void => {
    const address = addressTrait(model);
    if (address?.isPage !== true || signal.aborted) return;
    // The user has opened another address, but its event has not arrived yet.
    if (splitPageAddress()[0] !== address.base) return;
    const href = withState(address.base, text() ?? "");
    try {
      if (href !== window.location.href) history.replaceState(history.state, "", href);
    } catch {
      // A page inside a frame may be unable to change its address.
    }
  };
  const writeLater = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(write, FOLLOW_MS);
  };
  for (const [changed, key] of changes) listenTo(changed, `change:${key}`, writeLater, signal);
  const reopen = (): void => {
    apply();
    writeLater();
  };
  listenTo(model, "change:_address", reopen, signal);
  writeLater();
}

/** Return the traits on which a view's address depends. */
export function addressChanges(model: Model, state: Model): (readonly [Model, string])[] {
  return [...STATE_KEYS.map((key) => [state, key] as const), [model, "panels"]];
}

/** Return a view's panels; null if its address need not list them. */
export function changedPanels(model: Model): PanelIds | null {
  const panels = model.get("panels") as PanelIds | undefined;
  return panels === undefined || isSameJson(panels, addressTrait(model)?.panels) ? null : panels;
}

// The state as text. In addresses, `-`, `.`, `_` and `*` need no escaping.

/** Return the parts of a state that differ from the initial state; null if the text is too long. */
export function encodeState(state: SharedState, panels: PanelIds | null = null): string | null {
  const { view, selected_event: event, search, color, pinned, ranks_from: from, scope } = state;
  const selection: SelectionJson = { ...FULL_SELECTION, ...state.selection };
  const { start_ns: start, end_ns: end, ranks, tracks, query, ids } = selection;
  const parts = new URLSearchParams();
  const add = (name: string, value: string | null): void => {
    if (value !== null && value !== "") parts.append(name, value);
  };
  add("view", view && view.join("_"));
  add("window", start === null && end === null ? null : `${start ?? ""}_${end ?? ""}`);
  if (ranks !== null) parts.append("ranks", runsOf(ranks).map(rangeText).join("."));
  for (const track of (tracks ?? []) as readonly (string | [number, string])[]) {
    if (typeof track === "string") add("track", track);
    else add("rank_track", track.join("_"));
  }
  add("query", query);
  add("events", ids && ids.map((id) => id.join("_")).join("."));
  add("event", event && event.join("_"));
  add("search", search);
  add("color", color === INITIAL_STATE.color ? null : color);
  for (const track of pinned) add("pin", track);
  add("from", from);
  add("scope", scope === INITIAL_STATE.scope ? null : scope);
  add("panels", panels && panelsText(panels));
  const text = parts.toString();
  return text.length > MAX_LENGTH ? null : text;
}

const rangeText = ([first, last]: readonly [number, number]): string =>
  first === last ? String(first) : `${first}-${last}`;

/** Join the IDs of a list. If the IDs are in rows, each row begins with `*`. */
function panelsText(panels: PanelIds): string {
  const isRows = panels.some((entry) => typeof entry !== "string");
  return isRows ? panels.map((row) => `*${[row].flat().join(".")}`).join("") : panels.join(".");
}

/** Reads the parts of a state and lists the values that do not exist in the job. */
class PartReader {
  readonly rejected: string[] = [];
  private readonly parts: URLSearchParams;

  constructor(text: string) {
    this.parts = new URLSearchParams(text.length > MAX_LENGTH ? "" : text);
    if (text.length > MAX_LENGTH) this.rejected.push("a state of more than 8 000 characters");
  }

  /** Return the value of a part; null if it is missing or `readText` returns undefined. */
  read<T>(name: string, readText: (value: string) => T | undefined): T | null {
    const value = this.parts.get(name);
    if (value === null) return null;
    const result = readText(value);
    if (result === undefined) this.reject(name, value);
    return result ?? null;
  }

  /** Return all values of a part that may occur several times. */
  all(name: string): string[] {
    return this.parts.getAll(name);
  }

  /** Return the values that exist in the job. */
  keep<T>(name: string, values: readonly T[], isKnown: (value: T) => boolean): T[] {
    const unknown = values.filter((value) => !isKnown(value));
    if (unknown.length > 0) this.reject(name, String(unknown[0]));
    return values.filter(isKnown);
  }

  private reject(name: string, value: string): void {
    this.rejected.push(`${name} ${value.slice(0, 40)}`);
  }
}

/** Return the state that a text describes, and the names of parts that the job lacks. */
export function decodeState(text: string, scene: Scene, offered: readonly string[]) {
  const parts = new PartReader(text);
  const isColorOfJob = (value: string): value is TimelineColor =>
    isColor(value) && (value !== "bound" || scene.without_bounds === "");
  const state: SharedState = {
    ...INITIAL_STATE,
    selection: readSelection(parts, scene),
    view: parts.read("view", (value) => readView(value, scene.range)),
    selected_event: parts.read("event", (value) => readEvent(value, scene)),
    search: parts.read("search", onlyIf(isShort)) ?? "",
    color: parts.read("color", onlyIf(isColorOfJob)) ?? INITIAL_STATE.color,
    pinned: parts.keep("pinned track", parts.all("pin"), (key) => hasTrack(scene, key)),
    ranks_from: parts.read("from", onlyIf(isPanel)) ?? "",
    scope: parts.read("scope", onlyIf(isScope)) ?? "selection",
  };
  const panels = parts.read("panels", (value) => readPanels(value, parts, offered));
  return { state, panels, rejected: parts.rejected };
}

function readSelection(parts: PartReader, scene: Scene): SelectionJson | null {
  const pairs = parts.all("rank_track").map((value): [number, string] => {
    const [rank = "", ...key] = value.split("_");
    return [Number(rank), key.join("_")];
  });
  const tracks = [
    ...parts.keep("track", parts.all("track"), (key) => hasTrack(scene, key)),
    ...parts.keep("track", pairs, ([rank, key]) => hasTrack(scene, key, rank)),
  ];
  const window = parts.read("window", readWindow);
  return nullIfUnrestricted({
    start_ns: window?.[0] ?? null,
    end_ns: window?.[1] ?? null,
    ranks: parts.read("ranks", (value) => readRanks(value, scene)),
    tracks: tracks.length > 0 ? (tracks as SelectionJson["tracks"]) : null,
    query: parts.read("query", onlyIf(isQuery)),
    ids: parts.read("events", (value) => readEvents(value, scene)),
  });
}

/** Return whether a rank has a track; without `ofRank`, whether any rank has it. */
const hasTrack = (scene: Scene, key: string, ofRank: number | null = null): boolean =>
  scene.ranks.some(
    ({ rank, tracks }) =>
      (ofRank === null || rank === ofRank) && tracks.some((track) => track.key === key),
  );

function readPanels(value: string, parts: PartReader, offered: readonly string[]) {
  const rows = value.split("*").map((row) => row.split(".").filter((id) => id !== ""));
  const knownRows = rows.map((row) => parts.keep("panel", row, (id) => offered.includes(id)));
  const isRows = value.startsWith("*");
  const panels = isRows ? knownRows.filter((row) => row.length > 0) : knownRows.flat();
  return panels.length > 0 ? panels : undefined;
}

/** Return a function that returns a valid text unchanged, and otherwise undefined. */
const onlyIf =
  <T extends string>(isValid: (value: string) => value is T) =>
  (value: string): T | undefined =>
    isValid(value) ? value : undefined;

const isShort = (value: string): value is string => value.length <= MAX_TEXT_LENGTH;

const isPanel = (id: string): id is string =>
  id === "headline" || PANELS.some((panel) => panel.id === id);

function integers(texts: readonly string[]): number[] | undefined {
  return texts.every((text) => /^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text)))
    ? texts.map(Number)
    : undefined;
}

const readEvents = (value: string, scene: Scene): [number, number][] | undefined =>
  allOrUndefined(value.split(".").map((event) => readEvent(event, scene)));

function readEvent(value: string, { ranks }: Scene): [number, number] | undefined {
  const [rank, id] = integers(value.split("_")) ?? [];
  if (rank === undefined || id === undefined || id < 0) return undefined;
  return ranks.some((known) => known.rank === rank) ? [rank, id] : undefined;
}

function readView(value: string, [first, last]: Scene["range"]): [number, number] | undefined {
  const [start, end, ...more] = integers(value.split("_")) ?? [];
  if (start === undefined || end === undefined || more.length > 0) return undefined;
  const view: [number, number] = [Math.max(start, first), Math.min(end, last)];
  return view[0] < view[1] ? view : undefined;
}

function readWindow(value: string): [number | null, number | null] | undefined {
  const ends = value.split("_").map((end) => (end === "" ? [] : integers([end])));
  if (ends.length !== 2 || ends.includes(undefined)) return undefined;
  const [start = null, end = null] = ends.map((numbers) => numbers?.[0] ?? null);
  return start !== null && end !== null && start > end ? undefined : [start, end];
}

/** Parse ranges such as `0-3.5` into ranks. Each range must contain a rank of the job. */
function readRanks(value: string, scene: Scene): number[] | undefined {
  if (value === "") return [];
  const ranges = value.split(".").map((range) => {
    const [first, last = first] = integers(range.split("-")) ?? [];
    if (first === undefined || last === undefined) return undefined;
    const ranks = scene.ranks
      .map(({ rank }) => rank)
      .filter((rank) => rank >= first && rank <= last);
    return ranks.length > 0 ? ranks : undefined;
  });
  return allOrUndefined(ranges)?.flat();
}

function isQuery(value: string): value is string {
  try {
    parseQuery(value);
    return true;
  } catch {
    return false;
  }
}

function allOrUndefined<T>(values: readonly (T | undefined)[]): T[] | undefined {
  return values.includes(undefined) ? undefined : (values as T[]);
}

/**
 * The data of a dashboard's panels, requested when a panel is visible and its part of the selection
 * has changed. Earlier data is cached, so that undo shows it immediately.
 */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { heatmapFrame } from "../charts/grid";
import { REPLY_BUDGET_MS } from "../connection/answering";
import { withoutOwnDimensions } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import {
  asError,
  isAbort,
  type PanelFrame,
  RequestError,
  type Requests,
  type SelectionJson,
  type Source,
} from "../protocol/source";

export interface PanelState {
  frame: PanelFrame | null;
  /** Whether the frame belongs to an earlier selection because the new data is still loading. */
  isStale: boolean;
  error: Error | null;
}

const NO_REPLY = { code: "no_answer", message: "The reply lacks this panel." } as const;
const NO_DATA: PanelState = { frame: null, isStale: false, error: null };

interface PanelEntry {
  /** Keys of the requested frame and of the frame that is shown. */
  key: string;
  shownKey: string;
  readonly state: Signal<PanelState>;
}

interface PanelRequester<Request> {
  /** Return the part of a request on which a panel's data depends. */
  partOf(id: string, request: Request): unknown;
  /** Return panel data or errors. Panels missing from the result are requested next. */
  ask(ids: readonly string[], request: Request): Promise<Map<string, PanelFrame | Error>>;
  /** Number of earlier frames cached per panel, for undo. */
  maxKeptFrames: number;
}

/** Data of panels. One request runs at a time; of the waiting requests, only the last is sent. */
export class PanelData<Request> {
  private readonly entries = new Map<string, PanelEntry>();
  private readonly keptFrames = new Map<string, PanelFrame>();
  private wanted: { ids: readonly string[]; request: Request } | null = null;
  private inFlight = false;
  /** Number of job changes so far. Replies to requests sent before a change are discarded. */
  private changeCount = 0;

  constructor(
    private readonly requester: PanelRequester<Request>,
    private readonly signal: AbortSignal,
  ) {}

  state(id: string): ReadonlySignal<PanelState> {
    return this.entry(id).state;
  }

  private entry(id: string): PanelEntry {
    const none = (): PanelEntry => ({ key: "", shownKey: "", state: signal(NO_DATA) });
    return getOrMake(this.entries, id, none);
  }

  private set(id: string, patch: Partial<PanelState>): void {
    const { key, shownKey, state } = this.entry(id);
    const next = { ...state.peek(), ...patch };
    state.value = { ...next, isStale: next.error === null && shownKey !== key };
  }

  private keyOf(id: string, request: Request): string {
    return JSON.stringify(this.requester.partOf(id, request));
  }

  /** Request the data of these panels, unless it is shown or cached. */
  requestPanels(ids: readonly string[], request: Request): void {
    this.wanted = { ids, request };
    for (const id of ids) {
      const key = this.keyOf(id, request);
      const entry = this.entry(id);
      if (entry.key === key) continue;
      entry.key = key;
      this.set(id, { error: null });
      const keptFrame = this.keptFrames.get(`${id} ${key}`);
      if (keptFrame !== undefined) this.setFrame(id, key, keptFrame);
    }
    this.send();
  }

  /** Repeat failed requests. */
  retry(): void {
    for (const [id, { state }] of this.entries) {
      if (state.peek().error !== null) this.set(id, { error: null });
    }
    this.send();
  }

  /** Mark all data as outdated after the scene has changed. */
  clear(): void {
    this.changeCount += 1;
    this.keptFrames.clear();
    for (const entry of this.entries.values()) entry.key = entry.shownKey = "";
  }

  private send(): void {
    if (this.inFlight || this.wanted === null || this.signal.aborted) return;
    const { ids, request } = this.wanted;
    const open = ids.filter((id) => this.entry(id).state.peek().isStale);
    if (open.length === 0) return;
    this.inFlight = true;
    const { changeCount } = this;
    const keys = new Map(open.map((id) => [id, this.keyOf(id, request)]));
    this.requester
      .ask(open, request)
      .then(
        (answers) => {
          if (changeCount !== this.changeCount) return;
          for (const [id, answer] of answers) {
            if (answer instanceof Error) this.setError(id, keys.get(id)!, answer);
            else this.setFrame(id, keys.get(id)!, answer);
          }
        },
        (error: unknown) => {
          if (isAbort(error) || changeCount !== this.changeCount) return;
          for (const [id, key] of keys) this.setError(id, key, asError(error));
        },
      )
      .finally(() => {
        this.inFlight = false;
        this.send();
      });
  }

  /** Show data even if the request is outdated, because the data is newer than what is shown. */
  private setFrame(id: string, key: string, frame: PanelFrame): void {
    this.entry(id).shownKey = key;
    this.set(id, { frame });
    this.keep(id, key, frame);
  }

  /** Cache a frame, and drop the panel's oldest frames above the limit. */
  private keep(id: string, key: string, frame: PanelFrame): void {
    const name = `${id} ${key}`;
    this.keptFrames.delete(name); // moves the frame to the end, as the newest
    this.keptFrames.set(name, frame);
    const namesOfPanel = [...this.keptFrames.keys()].filter((kept) => kept.startsWith(`${id} `));
    for (const old of namesOfPanel.slice(0, -this.requester.maxKeptFrames))
      this.keptFrames.delete(old);
  }

  private setError(id: string, key: string, error: Error): void {
    if (this.entry(id).key === key) this.set(id, { error });
  }
}

/** Return a requester for panels. It ignores the part of the selection that a panel sets itself. */
export function makePanelRequester(
  source: Source,
  signal: AbortSignal,
): PanelRequester<SelectionJson> {
  const ask: PanelRequester<SelectionJson>["ask"] = async (panels, selection) => {
    const requested = { panels, selection, within_ms: REPLY_BUDGET_MS };
    const { reply } = await source.ask("panels", requested, signal);
    const answer = (id: string): PanelFrame | Error => {
      const frame = reply.panels[id];
      if (frame === undefined) return new RequestError(reply.errors?.[id] ?? NO_REPLY);
      const { tracks, query, ids } = withoutOwnDimensions(id, selection);
      const filtered = tracks !== null || query !== null || ids !== null ? 1 : 0;
      return { ...frame, attrs: { ...frame.attrs, filtered } };
    };
    const answered = panels.filter((id) => reply.left?.includes(id) !== true);
    return new Map(answered.map((id) => [id, answer(id)]));
  };
  return { partOf: withoutOwnDimensions, maxKeptFrames: 12, ask };
}

/** Return a requester for the heatmap. Without device work, it replies with a note. */
export function makeHeatmapRequester(
  source: Source,
  signal: AbortSignal,
  hasDevices: () => boolean,
): PanelRequester<Requests["heatmap"]> {
  return {
    partOf: (_, request) => request,
    maxKeptFrames: 1,
    ask: async ([id], request) => {
      const { reply, buffer } = await source.ask("heatmap", request, signal);
      const values = new Float64Array(buffer ?? new ArrayBuffer(0));
      const frame = heatmapFrame(reply, values, request.metric);
      const hasNoData = !hasDevices() && values.every((value) => value === 0);
      return new Map([[id!, hasNoData ? { ...frame, rows: 0 } : frame]]);
    },
  };
}

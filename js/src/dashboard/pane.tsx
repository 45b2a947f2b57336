/** One panel's frame in the page, and the request of its data. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { ChartSlot } from "../charts/chart";
import { heatmapFrame } from "../charts/grid";
import { REPLY_BUDGET_MS } from "../connection/answering";
import { withoutOwnDimensions } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import {
  asError,
  isAbort,
  type PanelFrame,
  type Requests,
  type SelectionJson,
  type Source,
} from "../protocol/source";
import { FailureNote, Skeleton } from "../ui/controls";
import { MenuButton } from "../ui/menu";
import { capitalizeSentence, emptyPanelText } from "../ui/text";
import type { DashContext } from "./context";
import { panelExports } from "./share";
import type { PanelNumbers } from "./tables";

export interface PanelState {
  frame: PanelFrame | null;
  /** Whether the frame is that of an earlier selection, and the new one is not loaded yet. */
  isStale: boolean;
  error: Error | null;
}

const NO_DATA: PanelState = { frame: null, isStale: false, error: null };

interface PanelEntry {
  /** Keys of the requested and of the shown numbers. */
  key: string;
  shownKey: string;
  readonly state: Signal<PanelState>;
}

/** Where numbers come from. */
interface PanelRequester<Request> {
  /** The part of a request on which the numbers of a panel depend. */
  partOf(id: string, request: Request): unknown;
  /** The numbers of panels, or errors; panels without an answer are requested next. */
  ask(ids: readonly string[], request: Request): Promise<Map<string, PanelFrame | Error>>;
  /** Max number of cached frames of earlier requests per panel, which undo shows immediately. */
  maxKeptFrames: number;
}

/** Numbers of panels: one request at a time, and of those made meanwhile only the last one. */
export class PanelData<Request> {
  private readonly entries = new Map<string, PanelEntry>();
  private readonly keptFrames = new Map<string, PanelFrame>();
  private wanted: { ids: readonly string[]; request: Request } | null = null;
  private inFlight = false;
  /** Number of changes of the job; replies to requests before the last change are discarded. */
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

  /** Request the numbers of `request` for these panels, unless they are shown or cached. */
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

  /** After a change of the scene: the next `requestPanels` requests all numbers again. */
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

  /** Show numbers, even of an outdated request: they are newer than the shown ones. */
  private setFrame(id: string, key: string, frame: PanelFrame): void {
    this.entry(id).shownKey = key;
    this.set(id, { frame });
    const name = `${id} ${key}`;
    this.keptFrames.delete(name);
    this.keptFrames.set(name, frame);
    const framesOfPanel = [...this.keptFrames.keys()].filter((keptName) =>
      keptName.startsWith(`${id} `),
    );
    for (const old of framesOfPanel.slice(0, -this.requester.maxKeptFrames))
      this.keptFrames.delete(old);
  }

  private setError(id: string, key: string, error: Error): void {
    if (this.entry(id).key === key) this.set(id, { error });
  }
}

/** The numbers of a selection, without the part of it that the panel itself writes. */
export function makePanelRequester(
  source: Source,
  signal: AbortSignal,
): PanelRequester<SelectionJson> {
  return {
    partOf: withoutOwnDimensions,
    maxKeptFrames: 12,
    ask: async (panels, selection) => {
      const requested = { panels, selection, within_ms: REPLY_BUDGET_MS };
      const { reply } = await source.ask("panels", requested, signal);
      const answer = (id: string): PanelFrame | Error => {
        const frame = reply.panels[id];
        if (frame === undefined) return new Error("No answer for this panel.");
        const { tracks, query, ids } = withoutOwnDimensions(id, selection);
        const filtered = tracks !== null || query !== null || ids !== null ? 1 : 0;
        return { ...frame, attrs: { ...frame.attrs, filtered } };
      };
      const answered = panels.filter((id) => reply.left?.includes(id) !== true);
      return new Map(answered.map((id) => [id, answer(id)]));
    },
  };
}

/** The numbers of the heatmap; without device work, the reason instead of zeros. */
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

// The frame around a panel: its menu, and its text while numbers are missing, late or failed.

interface PaneProps {
  ctx: DashContext;
  id: string;
  /** The panel's element on the board. */
  el: HTMLElement;
  state: ReadonlySignal<PanelState>;
  /** Draws the numbers. */
  draw(numbers: PanelNumbers): VNode;
  /** Controls next to the title while nothing is drawn. */
  tools(): VNode | null;
  retry(): void;
}

export function Pane({ ctx, id, el, state, draw, tools, retry }: PaneProps) {
  const title = ctx.titleOf(id);
  const { frame, isStale, error } = state.value;
  const marked = useMarkedFrame(frame, ctx);
  useLayoutEffect(() => {
    el.classList.toggle("hta-stale", isStale && frame !== null);
    el.setAttribute("aria-busy", String(isStale));
    // The estimated height is reserved only until there is something to show.
    if (frame !== null || error !== null) el.style.minHeight = "";
  });
  const placeholder =
    error !== null ? (
      <FailureNote title="These numbers cannot be shown" error={error} retry={retry} />
    ) : marked === null ? (
      <>
        <p class="hta-note">Computing…</p>
        <Skeleton lines={4} />
      </>
    ) : marked.rows === 0 ? (
      <p>{capitalizeSentence(emptyPanelText(marked, "nothing here is selected"))}</p>
    ) : null;
  return (
    <>
      {placeholder !== null && (
        <>
          <header class="hta-pane-head">
            <h3>{title}</h3>
            {tools()}
          </header>
          <div class="hta-pane-said">{placeholder}</div>
        </>
      )}
      <div class="hta-pane-body" hidden={placeholder !== null}>
        {marked !== null &&
          marked.rows > 0 &&
          draw({ frame: marked, chosen: ctx.selectionState.chartSelection.value })}
      </div>
      <MenuButton
        icon="more"
        name={`${title}: save, copy, hide`}
        class="hta-pane-more"
        items={() => [
          ...panelExports(ctx, id),
          { text: "Hide this panel", press: () => ctx.showPanel(id, false) },
        ]}
      />
    </>
  );
}

/** Add the ranks to highlight and fold, and the job's facts; the same object while unchanged. */
function useMarkedFrame(
  frame: PanelFrame | null,
  { headline, folding, scene }: DashContext,
): PanelFrame | null {
  const headlineValue = headline.value;
  const { groups: folded } = folding.value;
  const { ranks } = scene.value;
  return useMemo(() => {
    if (frame === null) return null;
    const { late_ranks = [], fact_ranks = [] } = headlineValue ?? {};
    const roles = ranks.flatMap(({ summary }) => summary.map(({ role }) => role));
    const absent_kinds = roles.includes("comm") ? [] : ["communication"];
    const job_ranks = ranks.length;
    const facts = { late_ranks, fact_ranks, folded, absent_kinds, job_ranks };
    return { ...frame, attrs: { ...frame.attrs, ...facts } };
  }, [frame, headlineValue, folded, ranks]);
}

/** An element that draws itself. */
export function ElementSlot({ el }: { el: HTMLElement }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current!.append(el), [el]);
  return <div ref={place} />;
}

/** A chart, which draws itself. */
export function ChartPlace({ slot, frame, chosen: selected }: PanelNumbers & { slot: ChartSlot }) {
  useLayoutEffect(() => slot.show(frame, selected), [slot, frame, selected]);
  return <ElementSlot el={slot.el} />;
}

/** A chart, and its measure, chosen next to its title. */
export function MeasuredChart({
  name,
  options,
  chosen,
  choose,
  children,
}: {
  name: string;
  options: readonly (readonly [id: string, text: string])[];
  chosen: string;
  choose(id: string): void;
  children: VNode;
}) {
  return (
    <div class="hta-heat">
      <select
        class="hta-input hta-heat-metric"
        aria-label={name}
        value={chosen}
        onChange={({ currentTarget }) => choose(currentTarget.value)}
      >
        {options.map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
      {children}
    </div>
  );
}

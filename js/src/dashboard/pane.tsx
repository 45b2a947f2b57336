/** One panel's frame in the page, and the request of its data. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { ChartSlot } from "../charts/chart";
import { heatmapFrame } from "../charts/grid";
import { WITHIN_MS } from "../connection/answering";
import { panelKind, withoutOwn } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import {
  asError,
  isAbort,
  type PanelFrame,
  type Requests,
  type SelectionJson,
  type Source,
} from "../protocol/source";
import { Failure } from "../ui/controls";
import { MenuButton } from "../ui/menu";
import { noteOf, sentence } from "../ui/text";
import type { Context } from "./context";
import { panelExports } from "./save";
import type { Numbers } from "./tables";

export interface PanelState {
  frame: PanelFrame | null;
  /** Whether the frame is that of an earlier selection, and the new one is not loaded yet. */
  isStale: boolean;
  error: Error | null;
}

const NOTHING: PanelState = { frame: null, isStale: false, error: null };

interface Entry {
  /** Keys of the requested and of the shown numbers. */
  key: string;
  shownKey: string;
  readonly state: Signal<PanelState>;
}

/** Where numbers come from. */
interface Asking<Request> {
  /** The part of a request on which the numbers of a panel depend. */
  partOf(id: string, request: Request): unknown;
  /** The numbers of panels, or errors; panels without an answer are requested next. */
  ask(ids: readonly string[], request: Request): Promise<Map<string, PanelFrame | Error>>;
  /** Max number of cached frames of earlier requests per panel, which undo shows immediately. */
  kept: number;
}

/** Numbers of panels: one request at a time, and of those made meanwhile only the last one. */
export class PanelData<Request> {
  private readonly entries = new Map<string, Entry>();
  private readonly kept = new Map<string, PanelFrame>();
  private wanted: { ids: readonly string[]; request: Request } | null = null;
  private inFlight = false;
  /** Number of changes of the job; replies to requests before the last change are discarded. */
  private round = 0;

  constructor(
    private readonly asking: Asking<Request>,
    private readonly signal: AbortSignal,
  ) {}

  state(id: string): ReadonlySignal<PanelState> {
    return this.entry(id).state;
  }

  private entry(id: string): Entry {
    const none = (): Entry => ({ key: "", shownKey: "", state: signal(NOTHING) });
    return getOrMake(this.entries, id, none);
  }

  private set(id: string, patch: Partial<PanelState>): void {
    const { key, shownKey, state } = this.entry(id);
    const next = { ...state.peek(), ...patch };
    state.value = { ...next, isStale: next.error === null && shownKey !== key };
  }

  private keyOf(id: string, request: Request): string {
    return JSON.stringify(this.asking.partOf(id, request));
  }

  /** Request the numbers of `request` for these panels, unless they are shown or cached. */
  want(ids: readonly string[], request: Request): void {
    this.wanted = { ids, request };
    for (const id of ids) {
      const key = this.keyOf(id, request);
      const entry = this.entry(id);
      if (entry.key === key) continue;
      entry.key = key;
      this.set(id, { error: null });
      const known = this.kept.get(`${id} ${key}`);
      if (known !== undefined) this.put(id, key, known);
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

  /** After a change of the scene: the next `want` requests all numbers again. */
  forget(): void {
    this.round += 1;
    this.kept.clear();
    for (const entry of this.entries.values()) entry.key = entry.shownKey = "";
  }

  private send(): void {
    if (this.inFlight || this.wanted === null || this.signal.aborted) return;
    const { ids, request } = this.wanted;
    const open = ids.filter((id) => this.entry(id).state.peek().isStale);
    if (open.length === 0) return;
    this.inFlight = true;
    const { round } = this;
    const keys = new Map(open.map((id) => [id, this.keyOf(id, request)]));
    this.asking
      .ask(open, request)
      .then(
        (answers) => {
          if (round !== this.round) return;
          for (const [id, answer] of answers) {
            if (answer instanceof Error) this.fail(id, keys.get(id)!, answer);
            else this.put(id, keys.get(id)!, answer);
          }
        },
        (error: unknown) => {
          if (isAbort(error) || round !== this.round) return;
          for (const [id, key] of keys) this.fail(id, key, asError(error));
        },
      )
      .finally(() => {
        this.inFlight = false;
        this.send();
      });
  }

  /** Show numbers, even of an outdated request: they are newer than the shown ones. */
  private put(id: string, key: string, frame: PanelFrame): void {
    this.entry(id).shownKey = key;
    this.set(id, { frame });
    const name = `${id} ${key}`;
    this.kept.delete(name);
    this.kept.set(name, frame);
    const own = [...this.kept.keys()].filter((one) => one.startsWith(`${id} `));
    for (const old of own.slice(0, -this.asking.kept)) this.kept.delete(old);
  }

  private fail(id: string, key: string, error: Error): void {
    if (this.entry(id).key === key) this.set(id, { error });
  }
}

/** The numbers of a selection, without the part of it that the panel itself writes. */
export function panelNumbers(source: Source, signal: AbortSignal): Asking<SelectionJson> {
  return {
    partOf: withoutOwn,
    kept: 12,
    ask: async (panels, selection) => {
      const asked = { panels, selection, within_ms: WITHIN_MS };
      const { reply } = await source.ask("panels", asked, signal);
      const answer = (id: string): PanelFrame | Error => {
        const frame = reply.panels[id];
        if (frame === undefined) return new Error("No answer for this panel.");
        const { tracks, query, ids } = withoutOwn(id, selection);
        const filtered = tracks !== null || query !== null || ids !== null ? 1 : 0;
        return { ...frame, attrs: { ...frame.attrs, filtered } };
      };
      const answered = panels.filter((id) => reply.left?.includes(id) !== true);
      return new Map(answered.map((id) => [id, answer(id)]));
    },
  };
}

/** The numbers of the heatmap; without device work, the reason instead of zeros. */
export function heatmapNumbers(
  source: Source,
  signal: AbortSignal,
  hasDevices: () => boolean,
): Asking<Requests["heatmap"]> {
  return {
    partOf: (_, request) => request,
    kept: 1,
    ask: async ([id], request) => {
      const { reply, buffer } = await source.ask("heatmap", request, signal);
      const values = new Float64Array(buffer ?? new ArrayBuffer(0));
      const frame = heatmapFrame(reply, values, request.metric);
      const isVain = !hasDevices() && values.every((value) => value === 0);
      return new Map([[id!, isVain ? { ...frame, rows: 0 } : frame]]);
    },
  };
}

// The frame around a panel: its menu, and its text while numbers are missing, late or failed.

interface PaneLook {
  ctx: Context;
  id: string;
  /** The panel's element on the board. */
  el: HTMLElement;
  state: ReadonlySignal<PanelState>;
  /** Draws the numbers. */
  draw(numbers: Numbers): VNode;
  retry(): void;
}

export function Pane({ ctx, id, el, state, draw, retry }: PaneLook) {
  const { title } = panelKind(id);
  const { frame, isStale, error } = state.value;
  const marked = useMarks(frame, ctx);
  useLayoutEffect(() => {
    el.classList.toggle("hta-stale", isStale && frame !== null);
    el.setAttribute("aria-busy", String(isStale));
    // The estimated height is reserved only until there is something to show.
    if (frame !== null || error !== null) el.style.minHeight = "";
  });
  const said =
    error !== null ? (
      <Failure title="These numbers cannot be shown" error={error} retry={retry} />
    ) : marked === null ? (
      <p class="hta-note">Adding up…</p>
    ) : marked.rows === 0 ? (
      <p>{sentence(noteOf(marked) || "nothing here is selected")}</p>
    ) : null;
  return (
    <>
      {said !== null && (
        <>
          <header class="hta-pane-head">
            <h3>{title}</h3>
          </header>
          <div class="hta-pane-said">{said}</div>
        </>
      )}
      <div class="hta-pane-body" hidden={said !== null}>
        {marked !== null &&
          marked.rows > 0 &&
          draw({ frame: marked, chosen: ctx.choosing.chosen.value })}
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

/** Add the ranks to mark and to fold, and facts of the job; the same object while unchanged. */
function useMarks(of: PanelFrame | null, { headline, folding, scene }: Context): PanelFrame | null {
  const by = headline.value;
  const { groups: folded } = folding.value;
  const { ranks } = scene.value;
  return useMemo(() => {
    if (of === null) return null;
    const { late_ranks = [], fact_ranks = [] } = by ?? {};
    const roles = ranks.flatMap(({ summary }) => summary.map(({ role }) => role));
    const absent_kinds = roles.includes("comm") ? [] : ["communication"];
    const job_ranks = ranks.length;
    const facts = { late_ranks, fact_ranks, folded, absent_kinds, job_ranks };
    return { ...of, attrs: { ...of.attrs, ...facts } };
  }, [of, by, folded, ranks]);
}

/** An element that draws itself. */
export function Held({ el }: { el: HTMLElement }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current!.append(el), [el]);
  return <div ref={place} />;
}

/** A chart, which draws itself. */
export function ChartPlace({ slot, frame, chosen }: Numbers & { slot: ChartSlot }) {
  useLayoutEffect(() => slot.show(frame, chosen), [slot, frame, chosen]);
  return <Held el={slot.el} />;
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

/** One panel's frame in the page, and the request of its data. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { ChartSlot } from "../charts/chart";
import { heatmapBins, heatmapFrame } from "../charts/grid";
import { wholeSpan, WITHIN_MS } from "../connection/answering";
import { panelKind, withoutOwn } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import {
  asError,
  type Chosen,
  isAbort,
  type PanelFrame,
  type Requests,
  type Scene,
  type SelectionJson,
  type Source,
  type Span,
} from "../protocol/source";
import type { FoldingNow } from "../timeline/rows";
import { Failure } from "../ui/controls";
import { MenuButton, type MenuItem } from "../ui/menu";
import { noteOf, sentence } from "../ui/text";
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

/** Max number of cached frames of earlier selections, which undo shows immediately. */
const KEPT = 12;

export class PanelData {
  private readonly entries = new Map<string, Entry>();
  private readonly kept = new Map<string, PanelFrame>();
  private wanted: { selection: SelectionJson; panels: readonly string[] } | null = null;
  private inFlight = false;
  /** Number of changes of the job; replies to requests before the last change are discarded. */
  private round = 0;
  private readonly aborter = new AbortController();

  constructor(
    private readonly source: Source,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.aborter.abort(), { once: true });
  }

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

  /** Request the numbers of `selection` for these panels, unless they are shown or cached. */
  want(panels: readonly string[], selection: SelectionJson): void {
    this.wanted = { selection, panels };
    for (const id of panels) {
      const key = keyOf(id, selection);
      const entry = this.entry(id);
      if (entry.key === key) continue;
      entry.key = key;
      this.set(id, { error: null });
      const known = this.kept.get(`${id} ${key}`);
      if (known !== undefined) this.put(id, key, known);
    }
    this.ask();
  }

  /** Repeat failed requests. */
  retry(): void {
    for (const [id, { state }] of this.entries) {
      if (state.peek().error !== null) this.set(id, { error: null });
    }
    this.ask();
  }

  /** After a change of the scene: request all numbers again. */
  forget(): void {
    this.round += 1;
    this.kept.clear();
    for (const entry of this.entries.values()) entry.key = entry.shownKey = "";
    if (this.wanted !== null) this.want(this.wanted.panels, this.wanted.selection);
  }

  private ask(): void {
    if (this.inFlight || this.wanted === null || this.aborter.signal.aborted) return;
    const { selection, panels } = this.wanted;
    const open = panels.filter((id) => this.entry(id).state.peek().isStale);
    if (open.length === 0) return;
    this.inFlight = true;
    const { round } = this;
    const keys = open.map((id) => keyOf(id, selection));
    this.source
      // Panels left out of the reply are requested next, for the selection at that time.
      .ask("panels", { panels: open, selection, within_ms: WITHIN_MS }, this.aborter.signal)
      .then(
        ({ reply }) => {
          if (round !== this.round) return;
          const left = new Set(reply.left ?? []);
          open.forEach((id, at) => {
            if (left.has(id)) return;
            const frame = reply.panels[id];
            const key = keys[at]!;
            if (frame === undefined) this.fail(id, key, new Error("No answer for this panel."));
            else this.put(id, key, frame);
          });
        },
        (error: unknown) => {
          if (isAbort(error) || round !== this.round) return;
          open.forEach((id, at) => this.fail(id, keys[at]!, asError(error)));
        },
      )
      .finally(() => {
        this.inFlight = false;
        if (this.aborter.signal.aborted) return;
        this.ask();
      });
  }

  /** Show numbers, even of an outdated selection: they are newer than the shown ones. */
  private put(id: string, key: string, numbers: PanelFrame): void {
    this.entry(id).shownKey = key;
    const { tracks, query, ids } = JSON.parse(key) as SelectionJson;
    const filtered = tracks !== null || query !== null || ids !== null ? 1 : 0;
    const frame = { ...numbers, attrs: { ...numbers.attrs, filtered } };
    this.set(id, { frame });
    const name = `${id} ${key}`;
    this.kept.delete(name);
    this.kept.set(name, frame);
    const own = [...this.kept.keys()].filter((one) => one.startsWith(`${id} `));
    for (const old of own.slice(0, -KEPT)) this.kept.delete(old);
  }

  private fail(id: string, key: string, error: Error): void {
    if (this.entry(id).key === key) this.set(id, { error });
  }
}

function keyOf(id: string, selection: SelectionJson): string {
  return JSON.stringify(withoutOwn(id, selection));
}

// The heatmap: the window of the timeline, and one measure, which is chosen next to the title.

interface HeatmapWays {
  source: Source;
  signal: AbortSignal;
  /** The selection that limits the figures. */
  selection(): SelectionJson;
  view(): Span;
  /** Its width; 0 if it is hidden. */
  width(): number;
  metric(): string;
  /** Whether any rank has device work. */
  hasDevices(): boolean;
}

export class HeatmapData {
  readonly state = signal(NOTHING);
  private shownKey = "";
  private wantedKey = "";
  private inFlight = false;
  private round = 0;

  constructor(private readonly ways: HeatmapWays) {}

  /** After a change of the scene: request the numbers again. */
  forget(): void {
    this.round += 1;
    this.wantedKey = this.shownKey = "";
    this.refresh();
  }

  retry(): void {
    if (this.state.peek().error === null) return;
    this.set({ error: null });
    this.wantedKey = "";
    this.refresh();
  }

  /** Request the numbers of the window in view, unless they were requested last. */
  refresh(): void {
    const { ways } = this;
    const width = ways.width();
    if (width === 0 || ways.signal.aborted) return;
    const [start, end] = ways.view();
    const request = {
      metric: ways.metric(),
      ...wholeSpan([start, end]),
      bins: Math.min(heatmapBins(width), Math.max(1, Math.ceil(end - start))),
      selection: withoutOwn("heatmap", ways.selection()),
    };
    const key = JSON.stringify(request);
    if (key === this.wantedKey) return;
    this.wantedKey = key;
    this.set({ isStale: key !== this.shownKey });
    if (!this.inFlight) this.ask(request, key);
  }

  private ask(request: Requests["heatmap"], key: string): void {
    const { source, signal: ended, hasDevices } = this.ways;
    this.inFlight = true;
    const { round } = this;
    source
      .ask("heatmap", request, ended)
      .then(
        ({ reply, buffer }) => {
          if (round !== this.round) return;
          const values = new Float64Array(buffer ?? new ArrayBuffer(0));
          this.shownKey = key;
          const frame = heatmapFrame(reply, values, request.metric);
          // Without device work, show the reason instead of a heatmap of zeros.
          const isVain = !hasDevices() && values.every((value) => value === 0);
          this.set({ frame: isVain ? { ...frame, rows: 0 } : frame, error: null });
        },
        (error: unknown) => {
          if (!isAbort(error) && round === this.round) this.set({ error: asError(error) });
        },
      )
      .finally(() => {
        this.inFlight = false;
        if (ended.aborted) return;
        const { error } = this.state.peek();
        this.set({ isStale: this.shownKey !== this.wantedKey && error === null });
        if (key !== this.wantedKey || round !== this.round) {
          this.wantedKey = "";
          this.refresh();
        }
      });
  }

  private set(patch: Partial<PanelState>): void {
    this.state.value = { ...this.state.peek(), ...patch };
  }
}

// The frame around a panel: its menu, and its text while numbers are missing, late or failed.

interface PaneLook {
  id: string;
  /** The panel's element on the board. */
  el: HTMLElement;
  state: ReadonlySignal<PanelState>;
  chosen: ReadonlySignal<Chosen>;
  /** Names the ranks to mark. */
  headline: ReadonlySignal<HeadlineFacts | null>;
  folding: ReadonlySignal<FoldingNow>;
  scene: ReadonlySignal<Scene>;
  /** Draws the numbers. */
  draw(numbers: Numbers): VNode;
  retry(): void;
  menu(): MenuItem[];
}

export function Pane(look: PaneLook) {
  const { id, el, state, chosen, headline, folding, scene, draw, retry, menu } = look;
  const { title } = panelKind(id);
  const { frame, isStale, error } = state.value;
  const marked = useMarks(frame, headline.value, folding.value.groups, scene.value);
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
        {marked !== null && marked.rows > 0 && draw({ frame: marked, chosen: chosen.value })}
      </div>
      <MenuButton
        icon="more"
        name={`${title}: save, copy, hide`}
        class="hta-pane-more"
        items={menu}
      />
    </>
  );
}

/** Add the ranks to mark and to fold, and facts of the job; the same object while unchanged. */
function useMarks(
  of: PanelFrame | null,
  by: HeadlineFacts | null,
  folded: FoldingNow["groups"],
  { ranks }: Scene,
): PanelFrame | null {
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

/** A piece of a sentence: text, or a rank that can be chosen; `fact`: others do not wait for it. */
export type HeadPiece = string | { rank: number; text?: string; fact?: boolean };

/** Text and selection of a finding. */
export interface Finding {
  label: string;
  text: string;
  selection: SelectionJson;
}

export interface HeadlineFacts {
  headline: HeadPiece[];
  more: HeadPiece[][];
  /** The ranks that the others wait for. */
  late_ranks?: number[];
  /** The ranks of pieces with `fact`. */
  fact_ranks?: number[];
  /** The most important first. */
  findings?: Finding[];
}

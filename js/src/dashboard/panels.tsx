/** All panels of a dashboard: order, content, visibility, headline, problems. */

import { computed, type ReadonlySignal, signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { ChartSlots } from "../charts/chart";
import { pitchOf } from "../charts/rows";
import { same } from "../connection/store";
import { isCounted, METRICS, panelKind } from "../facts/panels";
import { MEASURES } from "../formats/mpi";
import { hasDevice, hasLateness } from "../protocol/scene";
import type { PanelFrame, Scene, Source, Span } from "../protocol/source";
import { debounce } from "../timeline/context";
import { type ProblemLine, problemLines } from "../timeline/panels/problems";
import type { FoldingNow } from "../timeline/rows";
import { Button } from "../ui/controls";
import { h, mount } from "../ui/dom";
import { formatCount, rangesText } from "../ui/formats";
import { Sight } from "../ui/host";
import type { MenuItem } from "../ui/menu";
import { FIRST_ROWS, ROW_PX } from "../ui/table";
import {
  ChartPlace,
  type HeadlineFacts,
  type HeadPiece,
  HeatmapData,
  MeasuredChart,
  Pane,
  PanelData,
  type PanelState,
} from "./pane";
import type { Choosing } from "./selection";
import { brushOf, NameTable, type Numbers, TABLES } from "./tables";

interface PaneParts {
  source: Source;
  signal: AbortSignal;
  choosing: Choosing;
  charts: ChartSlots;
  scene: ReadonlySignal<Scene>;
  view(): Span;
  menu(id: string): MenuItem[];
  /** The headline, which names the ranks to mark. */
  headline: ReadonlySignal<HeadlineFacts | null>;
  /** The groups of ranks that charts draw together. */
  folding: ReadonlySignal<FoldingNow>;
  /** The measure of the heatmap; "" for the default. */
  metric: ReadonlySignal<string>;
  setMetric(metric: string): void;
  /** Whether to request panels out of sight as well, as in pages without a kernel. */
  followsAll: boolean;
  /** Panels that have no numbers and draw their own content, by id. */
  own: Readonly<Record<string, () => VNode>>;
}

const REST_MS = 500;

/** A panel that draws its own content has no frame to wait for. */
const SELF = signal<PanelState>({
  frame: { rows: 1, columns: {}, attrs: {} },
  isStale: false,
  error: null,
});

export class Panes {
  private readonly all = new Map<string, HTMLElement>();
  private readonly data: PanelData;
  private readonly heatmap: HeatmapData;
  private readonly sight: Sight;
  private readonly metric: ReadonlySignal<string>;
  /** Requests panels out of sight after a pause without changes, for prints of the whole page. */
  private readonly followLater: () => void;
  private follows = false;
  /** Number of additional rows that fit into the column of each table. */
  private readonly spareRows = signal<Readonly<Record<string, number>>>({});
  private refreshing = false;

  constructor(private readonly parts: PaneParts) {
    const { source, signal: ended, scene, metric, choosing, view } = parts;
    this.metric = computed(() => metric.value || (hasLateness(scene.value) ? "waiting" : "busy"));
    this.data = new PanelData(source, ended);
    this.followLater = debounce(REST_MS, ended, () => this.followAll());
    this.sight = new Sight(() => this.refresh(), ended);
    this.heatmap = new HeatmapData({
      source,
      signal: ended,
      selection: () => choosing.effective,
      view,
      width: () => {
        const el = this.all.get("heatmap");
        const isWanted = el !== undefined && (this.follows || this.sight.isSeen(el));
        return isWanted ? el.clientWidth : 0;
      },
      metric: () => this.metric.value,
      hasDevices: () => scene.value.ranks.some(hasDevice),
    });
  }

  /** The element of a panel, created on first access. */
  pane(id: string): HTMLElement {
    const known = this.all.get(id);
    if (known !== undefined) return known;
    const { signal: ended, menu, headline, folding, scene, choosing, own } = this.parts;
    const { look, title } = panelKind(id);
    const el = h("section", {
      class: `hta-pane hta-pane-${look}`,
      "data-panel": id,
      "aria-label": title,
    });
    this.all.set(id, el);
    this.sight.watch(el);
    const height = expectedHeight(id, scene.value, folding.value.isOn);
    if (height !== null) el.style.minHeight = `${height}px`;
    const pane = (
      <Pane
        id={id}
        el={el}
        state={own[id] ? SELF : id === "heatmap" ? this.heatmap.state : this.data.state(id)}
        chosen={choosing.chosen}
        headline={headline}
        folding={folding}
        scene={scene}
        draw={own[id] ?? ((numbers) => this.draw(id, numbers))}
        retry={() => this.retry()}
        menu={() => menu(id)}
      />
    );
    mount(pane, el, ended);
    return el;
  }

  /** The height of a panel, without the rows that fill its column. */
  heightOf(id: string): number {
    const el = this.pane(id);
    const drawn = el.querySelectorAll(".hta-name-row").length - FIRST_ROWS;
    const spare = Math.min(this.spareRows.peek()[id] ?? 0, Math.max(drawn, 0));
    return el.offsetHeight - spare * ROW_PX;
  }

  /** Show as many more rows of each table as its column has room for. */
  fillTables(roomOf: (id: string) => number): void {
    const rows = (id: string): number => Math.max(Math.floor(roomOf(id) / ROW_PX), 0);
    const spare = Object.fromEntries(Object.keys(TABLES).map((id) => [id, rows(id)]));
    if (!same(spare, this.spareRows.peek())) this.spareRows.value = spare;
  }

  /** The last loaded numbers of a panel; null if none are loaded. */
  frame(id: string): PanelFrame | null {
    return this.data.state(id).value.frame;
  }

  /** Sums of the selection; null until known. */
  get sums(): PanelFrame | null {
    const { frame, isStale } = this.data.state("summary").value;
    return isStale ? null : frame;
  }

  /** The short form of a name, as in tables. */
  shortName(name: string): string {
    const { name: names = [], short = [] } = this.frame("kernels")?.columns ?? {};
    const found = short[names.indexOf(name)];
    return typeof found === "string" ? found : name;
  }

  /** Request the missing numbers of visible panels, once for simultaneous changes. */
  refresh(): void {
    const { signal: ended, choosing } = this.parts;
    if (this.refreshing || ended.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (ended.aborted) return;
      this.heatmap.refresh();
      const seen = [...this.all].filter(([, el]) => this.sight.isSeen(el)).map(([id]) => id);
      if (seen.length > 0) {
        this.data.want(["summary", ...seen.filter(isCounted)], choosing.effective);
      }
      if (this.parts.followsAll) this.followLater();
    });
  }

  private followAll(): void {
    this.follows = true;
    this.heatmap.refresh();
    this.follows = false;
    const ids = [...this.all].filter(([, el]) => el.isConnected).map(([id]) => id);
    this.data.want(["summary", ...ids.filter(isCounted)], this.parts.choosing.effective);
  }

  /** Repeat failed requests. */
  retry(): void {
    this.data.retry();
    this.heatmap.retry();
  }

  /** After a change of the scene: request all numbers again. */
  forget(): void {
    this.data.forget();
    this.heatmap.forget();
  }

  private draw(id: string, numbers: Numbers): VNode {
    const { choosing, charts, setMetric } = this.parts;
    const look = TABLES[id];
    if (look !== undefined) {
      const brush = (names: string[] | null): void =>
        choosing.brush(id, brushOf(id, numbers.frame, names));
      const room = FIRST_ROWS + (this.spareRows.value[id] ?? 0);
      return <NameTable look={look} brush={brush} room={room} {...numbers} />;
    }
    const slot = charts.slot(id);
    if (id === "mpi_sizes") return <Sizes slot={slot} {...numbers} />;
    const chart = <ChartPlace slot={slot} {...numbers} />;
    if (id !== "heatmap") return chart;
    return (
      <MeasuredChart
        name="What the heatmap shows"
        options={Object.entries(METRICS).map(([metric, { label }]) => [metric, label] as const)}
        chosen={this.metric.value}
        choose={setMetric}
      >
        {chart}
      </MeasuredChart>
    );
  }
}

/** The chart of message sizes, with a choice of the measure that shades its cells. */
function Sizes({ slot, frame, chosen }: Parameters<typeof ChartPlace>[0]) {
  const measure = useSignal<string>("calls");
  const { value } = measure;
  const measured = useMemo(
    () => ({ ...frame, attrs: { ...frame.attrs, measure: value } }),
    [frame, value],
  );
  return (
    <MeasuredChart
      name="What message sizes are shaded by"
      options={MEASURES.map((id) => [id, id] as const)}
      chosen={value}
      choose={(id) => (measure.value = id)}
    >
      <ChartPlace slot={slot} frame={measured} chosen={chosen} />
    </MeasuredChart>
  );
}

// Problems of the readers, most events first.

const FIRST = 4;
const LONGEST_TITLE = 60;

export function Problems({ scene }: { scene: Scene }) {
  const all = useSignal(false);
  const lines = problemLines(scene).sort((a, b) => b.count - a.count);
  const drawn = all.value ? lines : lines.slice(0, FIRST);
  const left = lines.length - drawn.length;
  return (
    <div class="hta-problem-list">
      <header class="hta-pane-head">
        <h3>Problems</h3>
        {lines.length > 0 && <span class="hta-count-badge">{formatCount(lines.length)}</span>}
      </header>
      {lines.length === 0 && (
        <p>Nothing was skipped, repaired or guessed: every event of the files is here.</p>
      )}
      {drawn.map((line) => (
        <div class="hta-problem" title={line.files.join("\n")}>
          <b>{said(line).title}</b>
          <p>{said(line).text}</p>
        </div>
      ))}
      {left > 0 && <Button text={`${left} more`} press={() => (all.value = true)} />}
    </div>
  );
}

/** Title and text of a problem: the first part of its detail; then count, ranks and the rest. */
function said({ kind, count, detail, ranks }: ProblemLine): { title: string; text: string } {
  const [first = "", ...rest] = detail.split(/; |(?<=[.:]) /);
  const name =
    first.length > 0 && first.length <= LONGEST_TITLE ? first : kind.replaceAll("_", " ");
  const left = name === first ? rest.join("; ") : detail;
  const where =
    ranks.length === 0 ? "" : `rank${ranks.length === 1 ? "" : "s"} ${rangesText(ranks)}`;
  const parts = [`${formatCount(count)}×`, where, left].filter((part) => part !== "");
  return { title: upper(name.replace(/[.:]$/, "")), text: parts.join(" · ") };
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// The headline: one to three sentences, computed by Python.

/** The first sentence of the headline; "" while it is unknown. */
export function headlineText(facts: HeadlineFacts | null): string {
  const pieces = facts?.headline ?? [];
  return pieces.map((one) => (typeof one === "string" ? one : rankText(one))).join("");
}

const rankText = ({ rank, text = `rank ${rank}` }: { rank: number; text?: string }): string => text;

export function Headline({
  facts,
  scope,
  chooseRank,
}: {
  facts: HeadlineFacts | null;
  /** Text on the headline's scope if panels have another scope; "" otherwise. */
  scope: string;
  chooseRank(rank: number, add: boolean): void;
}) {
  if (facts === null || facts.headline.length === 0) return null;
  const pieces = (all: readonly HeadPiece[]) =>
    all.map((piece) =>
      typeof piece === "string" ? (
        piece
      ) : (
        <button
          type="button"
          class={`hta-rank-link${piece.fact === true ? " hta-rank-fact" : ""}`}
          title={`Select rank ${piece.rank}`}
          onClick={({ ctrlKey, metaKey, shiftKey }) =>
            chooseRank(piece.rank, ctrlKey || metaKey || shiftKey)
          }
        >
          {rankText(piece)}
        </button>
      ),
    );
  return (
    <div class="hta-headline">
      <h2>
        {pieces(facts.headline)}
        {scope !== "" && <span class="hta-headline-scope"> {scope}</span>}
      </h2>
      {facts.more.length > 0 && (
        <p>{facts.more.flatMap((one, at) => [at > 0 ? " " : "", ...pieces(one)])}</p>
      )}
    </div>
  );
}

// Estimated heights of panels, so that the page does not jump when charts appear.

/** Height of the padding, title, two lines of description, legend and scale of a panel. */
const AROUND_PX = 122;
const BY_RANK = new Set(["breakdown", "overlap", "idle", "queue"]);

/** Assumed number of rows if similar ranks are folded. */
const FOLDED_ROWS = 4;

/** Height of a panel with one row per rank; null if unknown in advance. */
function expectedHeight(id: string, scene: Scene, isFolded: boolean): number | null {
  if (!BY_RANK.has(id) || !scene.ranks.some(hasDevice)) return null;
  const rows = Math.min(scene.ranks.length, isFolded ? FOLDED_ROWS : Infinity);
  return AROUND_PX + rows * pitchOf(rows);
}

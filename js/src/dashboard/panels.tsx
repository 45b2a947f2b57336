/** All panels of a dashboard: content, visibility, requests, problems. */

import { signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { heatmapBins } from "../charts/grid";
import { pitchOf } from "../charts/rows";
import { wholeSpan } from "../connection/answering";
import { same } from "../connection/store";
import { isCounted, METRICS, panelKind, withoutOwn } from "../facts/panels";
import { MEASURES } from "../formats/mpi";
import { hasDevice } from "../protocol/scene";
import type { Requests, Scene } from "../protocol/source";
import { debounce } from "../timeline/context";
import { type ProblemLine, problemLines } from "../timeline/panels/problems";
import { Button } from "../ui/controls";
import { h, mount } from "../ui/dom";
import { formatCount, rangesText } from "../ui/formats";
import { Sight } from "../ui/host";
import { FIRST_ROWS, ROW_PX } from "../ui/table";
import type { Context } from "./context";
import {
  ChartPlace,
  Held,
  heatmapNumbers,
  MeasuredChart,
  Pane,
  PanelData,
  type PanelState,
} from "./pane";
import { SelectionPanel } from "./selection";
import { NameTable, type Numbers, TABLES } from "./tables";

const REST_MS = 500;

/** A panel that draws its own content has no frame to wait for. */
const SELF = signal<PanelState>({
  frame: { rows: 1, columns: {}, attrs: {} },
  isStale: false,
  error: null,
});

export class Panes {
  private readonly all = new Map<string, HTMLElement>();
  private readonly heatmap: PanelData<Requests["heatmap"]>;
  private readonly sight: Sight;
  /** Requests panels out of sight after a pause without changes, for prints of the whole page. */
  private readonly followLater: () => void;
  /** Number of additional rows that fit into the column of each table. */
  private readonly spareRows = signal<Readonly<Record<string, number>>>({});
  private refreshing = false;

  /** Panels that have no numbers and draw their own content, by id. */
  private readonly own: Readonly<Record<string, () => VNode>>;

  constructor(
    private readonly ctx: Context,
    timeline: HTMLElement,
  ) {
    const { source, signal: ended, scene } = ctx;
    const hasDevices = (): boolean => scene.value.ranks.some(hasDevice);
    this.heatmap = new PanelData(heatmapNumbers(source, ended, hasDevices), ended);
    this.followLater = debounce(REST_MS, ended, () => {
      this.want([...this.all].filter(([, el]) => el.isConnected));
    });
    this.sight = new Sight(() => this.refresh(), ended);
    this.own = {
      timeline: () => <Held el={timeline} />,
      selection: () => <SelectionPanel ctx={ctx} />,
      problems: () => <Problems ctx={ctx} />,
    };
  }

  /** The element of a panel, created on first access. */
  pane(id: string): HTMLElement {
    const known = this.all.get(id);
    if (known !== undefined) return known;
    const { ctx } = this;
    const own = this.own[id];
    const { look, title } = panelKind(id);
    const el = h("section", {
      class: `hta-pane hta-pane-${look}`,
      "data-panel": id,
      "aria-label": title,
    });
    this.all.set(id, el);
    this.sight.watch(el);
    const height = expectedHeight(id, ctx.scene.value, ctx.folding.value.isOn);
    if (height !== null) el.style.minHeight = `${height}px`;
    const data = id === "heatmap" ? this.heatmap : ctx.data;
    const pane = (
      <Pane
        ctx={ctx}
        id={id}
        el={el}
        state={own ? SELF : data.state(id)}
        draw={own ?? ((numbers) => this.draw(id, numbers))}
        retry={() => this.retry()}
      />
    );
    mount(pane, el, ctx.signal);
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

  /** Request the missing numbers of visible panels, once for simultaneous changes. */
  refresh(): void {
    const { signal: ended, live } = this.ctx;
    if (this.refreshing || ended.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (ended.aborted) return;
      this.want([...this.all].filter(([, el]) => this.sight.isSeen(el)));
      if (live === null) this.followLater();
    });
  }

  private want(panes: readonly (readonly [id: string, el: HTMLElement])[]): void {
    if (panes.length === 0) return;
    const { choosing, data, metric, view } = this.ctx;
    const selection = choosing.effective;
    const ids = panes.map(([id]) => id);
    const width = ids.includes("heatmap") ? this.pane("heatmap").clientWidth : 0;
    if (width > 0) {
      const [start, end] = view;
      this.heatmap.want(["heatmap"], {
        metric: metric.value,
        ...wholeSpan(view),
        bins: Math.min(heatmapBins(width), Math.max(1, Math.ceil(end - start))),
        selection: withoutOwn("heatmap", selection),
      });
    }
    data.want(["summary", ...ids.filter(isCounted)], selection);
  }

  /** Repeat failed requests. */
  retry(): void {
    this.ctx.data.retry();
    this.heatmap.retry();
  }

  /** After a change of the scene: request all numbers again. */
  forget(): void {
    this.ctx.data.forget();
    this.heatmap.forget();
    this.refresh();
  }

  private draw(id: string, numbers: Numbers): VNode {
    const { ctx } = this;
    const look = TABLES[id];
    if (look !== undefined) {
      const room = FIRST_ROWS + (this.spareRows.value[id] ?? 0);
      return <NameTable ctx={ctx} id={id} look={look} room={room} {...numbers} />;
    }
    const slot = ctx.slot(id);
    if (id === "mpi_sizes") return <Sizes slot={slot} {...numbers} />;
    const chart = <ChartPlace slot={slot} {...numbers} />;
    if (id !== "heatmap") return chart;
    return (
      <MeasuredChart
        name="What the heatmap shows"
        options={Object.entries(METRICS).map(([metric, { label }]) => [metric, label] as const)}
        chosen={ctx.metric.value}
        choose={(metric) => ctx.keep("metric", metric)}
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

function Problems({ ctx }: { ctx: Context }) {
  const all = useSignal(false);
  const lines = problemLines(ctx.scene.value).sort((a, b) => b.count - a.count);
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

/** The panels of a dashboard: their content, visibility and requests, and the list of problems. */

import { ranksText } from "../facts/rank_text";
import { computed, signal, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { heatmapBins } from "../charts/grid";
import { computeRowPitch } from "../charts/rows";
import { wholeNsWindow } from "../connection/answering";
import { isSameJson } from "../connection/store";
import {
  findPanelKind,
  groupedFrameId,
  hasNumbers,
  isMetric,
  METRICS,
  withoutOwnDimensions,
} from "../facts/panels";
import { MEASURES } from "../formats/mpi";
import { fillDeviceWord, hasDevice } from "../protocol/scene";
import { FULL_SELECTION } from "../protocol/selection";
import type { PanelFrame, Requests, Scene, SelectionJson } from "../protocol/source";
import { debounce } from "../timeline/context";
import { type ProblemLine, problemLines } from "../timeline/panels/problems";
import { Button, Select } from "../ui/controls";
import { h, renderInto } from "../ui/dom";
import { formatCount } from "../ui/formats";
import { VisibilityTracker } from "../ui/host";
import { onSignal } from "../ui/react";
import { capitalize } from "../ui/text";
import { FIRST_ROWS, ROW_PX } from "../ui/table";
import type { DashContext } from "./context";
import { NameTable, type PanelNumbers } from "./name_table";
import { ChartPlace, ElementSlot, MeasuredChart, Pane } from "./pane";
import { makeHeatmapRequester, PanelData, type PanelState } from "./panel_data";
import { SelectionPanel } from "./selection";
import { groupedTable, TABLES } from "./tables";

const FOLLOW_DELAY_MS = 500;

/** The state of panels that draw their own content and do not wait for a frame. */
const SELF_STATE = signal<PanelState>({
  frame: { rows: 1, columns: {}, attrs: {} },
  isStale: false,
  error: null,
});

export class PaneSet {
  private readonly panes = new Map<string, HTMLElement>();
  private readonly heatmap: PanelData<Requests["heatmap"]>;
  private readonly visibility: VisibilityTracker;
  /** Requests panels out of sight once changes pause, so that they can be printed. */
  private readonly followLater: () => void;
  /** Number of additional rows that fit in each table's column. */
  private readonly spareRows = signal<Readonly<Record<string, number>>>({});
  /** The grouping of each table whose rows are not names. */
  private readonly groupings = signal<Readonly<Record<string, string>>>({});
  private refreshing = false;

  /** Panels that need no data and draw their own content, keyed by ID. */
  private readonly ownPanels: Readonly<Record<string, () => VNode>>;

  constructor(
    private readonly ctx: DashContext,
    timeline: HTMLElement,
  ) {
    const { source, signal: abortSignal, scene } = ctx;
    const hasDevices = (): boolean => scene.value.ranks.some(hasDevice);
    const requester = makeHeatmapRequester(source, abortSignal, hasDevices);
    this.heatmap = new PanelData(requester, abortSignal);
    this.followLater = debounce(FOLLOW_DELAY_MS, abortSignal, () => {
      this.requestPanels([...this.panes].filter(([, el]) => el.isConnected));
    });
    onSignal(
      this.heatmap.state("heatmap"),
      ({ frame }) => frame !== null && this.noteWaits(frame),
      abortSignal,
    );
    this.visibility = new VisibilityTracker(() => this.refresh(), abortSignal);
    this.ownPanels = {
      timeline: () => <ElementSlot el={timeline} />,
      selection: () => <SelectionPanel ctx={ctx} />,
      problems: () => <ProblemsPanel ctx={ctx} />,
    };
  }

  /** Return a panel's element, which is created on first access. */
  pane(id: string): HTMLElement {
    const existing = this.panes.get(id);
    if (existing !== undefined) return existing;
    const { ctx } = this;
    const drawPanel = this.ownPanels[id];
    const { shape } = findPanelKind(id);
    const el = h("section", {
      class: `hta-pane hta-pane-${shape}`,
      "data-panel": id,
      "aria-label": ctx.titleOf(id),
    });
    this.panes.set(id, el);
    this.visibility.watch(el);
    const height = expectedHeight(id, ctx.scene.value, ctx.folding.value.isOn);
    if (height !== null) el.style.minHeight = `${height}px`;
    const data = id === "heatmap" ? this.heatmap : ctx.data;
    const pane = (
      <Pane
        ctx={ctx}
        id={id}
        el={el}
        state={drawPanel ? SELF_STATE : computed(() => data.state(this.frameId(id)).value)}
        tools={() => this.groupingChoice(id)}
        draw={drawPanel ?? ((numbers) => this.draw(id, numbers))}
        retry={() => this.retry()}
      />
    );
    renderInto(pane, el, ctx.signal);
    return el;
  }

  /** Return a panel's height without the additional rows that fill its column. */
  heightOf(id: string): number {
    const el = this.pane(id);
    const drawn = el.querySelectorAll(".hta-name-row").length - FIRST_ROWS;
    const spareRows = Math.min(this.spareRows.peek()[id] ?? 0, Math.max(drawn, 0));
    return el.offsetHeight - spareRows * ROW_PX;
  }

  /** Show as many additional rows of each table as fit in its column. */
  fillTables(rowsFor: (id: string) => number): void {
    const rows = (id: string): number => Math.max(Math.floor(rowsFor(id) / ROW_PX), 0);
    const spare = Object.fromEntries(Object.keys(TABLES).map((id) => [id, rows(id)]));
    if (!isSameJson(spare, this.spareRows.peek())) this.spareRows.value = spare;
  }

  /** Request the missing data of visible panels, once for changes that occur together. */
  refresh(): void {
    const { signal: abortSignal, live } = this.ctx;
    if (this.refreshing || abortSignal.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (abortSignal.aborted) return;
      this.requestPanels([...this.panes].filter(([, el]) => this.visibility.isSeen(el)));
      // With a kernel, requesting panels that were never in sight would cost it computing time.
      if (live === null || live.source.pageExtent === "all") this.followLater();
    });
  }

  private requestPanels(panes: readonly (readonly [id: string, el: HTMLElement])[]): void {
    if (panes.length === 0) return;
    const { selectionState, data, totals, metric, view } = this.ctx;
    const selection = selectionState.effective;
    const ids = panes.map(([id]) => id);
    const width = ids.includes("heatmap") ? this.pane("heatmap").clientWidth : 0;
    if (width > 0) {
      const [start, end] = view;
      this.heatmap.requestPanels(["heatmap"], {
        metric: metric.value,
        ...wholeNsWindow(view),
        bins: Math.min(heatmapBins(width), Math.max(1, Math.ceil(end - start))),
        selection: heatmapSelection(metric.value, selection),
      });
    }
    const frames = ids.filter(hasNumbers).map((id) => this.frameId(id));
    totals.requestPanels(["summary"], selectionState.chosen);
    data.requestPanels(frames, selection);
  }

  /** Change the heatmap's default measure if no rank waits at any time of the job. */
  private noteWaits({ attrs, columns }: PanelFrame): void {
    const [start, end] = this.ctx.scene.peek().range;
    const isWholeJob = Number(attrs.start) <= start && Number(attrs.end) >= end;
    if (attrs.metric !== "waiting" || !isWholeJob) return;
    this.ctx.hasWaits.value = columns.total_ns!.some((ns) => Number(ns) > 0);
  }

  retry(): void {
    for (const data of [this.ctx.totals, this.ctx.data, this.heatmap]) data.retry();
  }

  /** Request all data again after the scene has changed. */
  clear(): void {
    for (const data of [this.ctx.totals, this.ctx.data, this.heatmap]) data.clear();
    this.ctx.hasWaits.value = true;
    this.refresh();
  }

  private groupingOf(id: string): string {
    return this.groupings.value[id] ?? "name";
  }

  private frameId(id: string): string {
    return groupedFrameId(id, this.groupingOf(id));
  }

  /** Return the selector of a table's grouping; null if the panel has none. */
  private groupingChoice(id: string): VNode | null {
    const { by, title } = findPanelKind(id);
    if (by === undefined) return null;
    const choose = (grouping: string): void => {
      this.groupings.value = { ...this.groupings.peek(), [id]: grouping };
      this.refresh();
    };
    return (
      <Select
        name={`Rows of ${title}`}
        class="hta-input hta-grouping"
        title="What a row is"
        options={["name", ...by].map((option) => [option, `by ${option}`])}
        chosen={this.groupingOf(id)}
        choose={choose}
      />
    );
  }

  private draw(id: string, numbers: PanelNumbers): VNode {
    const { ctx } = this;
    if (id in TABLES) return this.drawTable(id, numbers);
    const slot = ctx.slot(id);
    if (id === "mpi_sizes") return <SizesPanel slot={slot} {...numbers} />;
    const chart = <ChartPlace slot={slot} {...numbers} />;
    if (id !== "heatmap") return chart;
    const metrics = Object.entries(METRICS).map(([metric, { label }]) => {
      return [metric, fillDeviceWord(label, ctx.device)] as const;
    });
    return (
      <MeasuredChart
        name="Metric"
        options={metrics}
        chosen={ctx.metric.value}
        choose={(metric) => ctx.saveTrait("metric", metric)}
      >
        {chart}
      </MeasuredChart>
    );
  }

  private drawTable(id: string, numbers: PanelNumbers): VNode {
    const spec = TABLES[id]!;
    const by = this.groupingOf(id);
    return (
      <NameTable
        key={by}
        ctx={this.ctx}
        id={id}
        spec={by === "name" ? spec : groupedTable(spec, by)}
        tools={this.groupingChoice(id)}
        maxRows={FIRST_ROWS + (this.spareRows.value[id] ?? 0)}
        {...numbers}
      />
    );
  }
}

/** Return the selection for a metric: idle and waiting times ignore which events are selected. */
function heatmapSelection(metric: string, selection: SelectionJson): SelectionJson {
  const isOfEveryEvent = isMetric(metric) && "every_event" in METRICS[metric];
  return isOfEveryEvent ? FULL_SELECTION : withoutOwnDimensions("heatmap", selection);
}

function SizesPanel({ slot, frame, chosen: selected }: Parameters<typeof ChartPlace>[0]) {
  const measure = useSignal<string>("calls");
  const { value } = measure;
  const measured = useMemo(
    () => ({ ...frame, attrs: { ...frame.attrs, measure: value } }),
    [frame, value],
  );
  return (
    <MeasuredChart
      name="Colour by"
      options={MEASURES.map((id) => [id, id] as const)}
      chosen={value}
      choose={(id) => (measure.value = id)}
    >
      <ChartPlace slot={slot} frame={measured} chosen={selected} />
    </MeasuredChart>
  );
}

// The problems found by readers, in descending order of affected events.

const FIRST_LINES = 4;
const MAX_TITLE_LENGTH = 60;

function ProblemsPanel({ ctx }: { ctx: DashContext }) {
  const showsAll = useSignal(false);
  const scene = ctx.scene.value;
  const lines = problemLines(scene).sort((a, b) => b.count - a.count);
  const shownLines = showsAll.value ? lines : lines.slice(0, FIRST_LINES);
  const hiddenCount = lines.length - shownLines.length;
  return (
    <div class="hta-problem-list">
      <header class="hta-pane-head">
        <h3>Problems</h3>
        {lines.length > 0 && (
          <span class={`hta-badge${scene.truth.level === "ok" ? "" : " hta-warn"}`}>
            {formatCount(lines.length)}
          </span>
        )}
      </header>
      {shownLines.map((line) => {
        const { title, text } = problemText(line);
        return (
          <div class="hta-problem" title={[...line.details, ...line.files].join("\n")}>
            <b>{title}</b>
            <p>{text}</p>
          </div>
        );
      })}
      {hiddenCount > 0 && (
        <Button text={`${hiddenCount} more`} press={() => (showsAll.value = true)} />
      )}
    </div>
  );
}

/** Return a problem's title, the start of its detail, and text: count, ranks, other detail. */
function problemText({ kind, count, detail, ranks }: ProblemLine): { title: string; text: string } {
  const [first = "", ...sentences] = detail.split(/; |(?<=[.:]) /);
  const name =
    first.length > 0 && first.length <= MAX_TITLE_LENGTH ? first : kind.replaceAll("_", " ");
  const left = name === first ? sentences.join("; ") : detail;
  const location = ranks.length === 0 ? "" : ranksText(ranks);
  const parts = [`${formatCount(count)}×`, location, left].filter((part) => part !== "");
  return { title: capitalize(name.replace(/[.:]$/, "")), text: parts.join(" · ") };
}

// Estimated panel heights, which keep the page from jumping when charts appear.

/** Height of a panel's padding, title, two lines of description, legend and scale. */
const PANE_CHROME_PX = 122;
const BY_RANK = new Set(["breakdown", "overlap", "idle", "queue"]);

/** Assumed number of rows if similar ranks are folded. */
const FOLDED_ROWS = 4;

/** Return the height of a panel with one row per rank; null if unpredictable. */
function expectedHeight(id: string, scene: Scene, isFolded: boolean): number | null {
  if (!BY_RANK.has(id) || !scene.ranks.some(hasDevice)) return null;
  const rows = Math.min(scene.ranks.length, isFolded ? FOLDED_ROWS : Infinity);
  return PANE_CHROME_PX + rows * computeRowPitch(rows);
}

/** All panels of a dashboard: order, content, visibility, headline, problems. */

import type { ChartSlot, ChartSlots } from "../charts/chart";
import { pitchOf } from "../charts/rows";
import { isChart, isCounted, isOfFormat } from "../facts/panels";
import { NONE_CHOSEN } from "../protocol/selection";
import type { Brush, PanelFrame, Scene, Source, Span } from "../protocol/source";
import { type ProblemLine, problemLines } from "../timeline/panels/problems";
import { button } from "../ui/controls";
import { type Child, fill, h } from "../ui/dom";
import { formatCount, rangesText } from "../ui/formats";
import { Sight } from "../ui/host";
import { NameTable } from "../ui/table";
import {
  type HeadlineFacts,
  type HeadPiece,
  HeatmapView,
  type MenuItem,
  Pane,
  PanelData,
} from "./pane";
import type { Choosing, SelectionPanel } from "./selection";
import { formatContent, KERNELS, OPERATORS } from "./tables";

interface PaneParts {
  root: HTMLElement;
  source: Source;
  signal: AbortSignal;
  choosing: Choosing;
  charts: ChartSlots;
  words: SelectionPanel;
  problems: ProblemsPane;
  scene(): Scene;
  view(): Span;
  menu(id: string): MenuItem[];
  /** The headline, which names the ranks to mark. */
  headline(): HeadlineFacts | null;
  /** What the heatmap shows; "" where nobody has chosen. */
  metric(): string;
  setMetric(metric: string): void;
  /** Numbers have come. */
  shown(): void;
}

/** A panel that draws its own content has no frame to wait for. */
const SELF = {
  frame: { rows: 1, columns: {}, attrs: {} },
  isStale: false,
  error: null,
};

export class Panes {
  private readonly all = new Map<string, Pane>();
  private readonly data: PanelData;
  private readonly sight: Sight;
  private heatmap: HeatmapView | null = null;
  private refreshing = false;

  constructor(private readonly parts: PaneParts) {
    const { source, signal } = parts;
    this.data = new PanelData(source, (ids) => this.showSome(ids), signal);
    this.sight = new Sight(() => this.refresh(), signal);
  }

  /** A panel, made when it is first asked for. */
  pane(id: string): Pane {
    const known = this.all.get(id);
    if (known !== undefined) return known;
    const { root, signal, menu, headline, scene } = this.parts;
    const retry = (): void => this.retry();
    const pane = new Pane(id, { root, signal, retry, menu, headline, scene });
    this.all.set(id, pane);
    this.sight.watch(pane.el);
    pane.reserve(expectedHeight(id, scene()));
    this.fill(pane);
    return pane;
  }

  /** Numbers of a panel, as they are known. */
  frame(id: string): PanelFrame | null {
    return this.data.state(id).frame;
  }

  /** How many events are selected; null while that is not known. */
  get events(): number | null {
    const { frame, isStale } = this.data.state("summary");
    const events = frame?.columns.events?.[0];
    return isStale || typeof events !== "number" ? null : events;
  }

  /** What the tables call it. */
  shortName(name: string): string {
    const { name: names = [], short = [] } = this.frame("kernels")?.columns ?? {};
    const found = short[names.indexOf(name)];
    return typeof found === "string" ? found : name;
  }

  /** Set a panel that draws its own content and has no chart or table. */
  setFixed(id: string, el: HTMLElement): void {
    const pane = this.pane(id);
    pane.setContent({ el, hasTitle: true, show: () => undefined });
    pane.show(SELF, NONE_CHOSEN);
  }

  /** Show what is known, marked as it is chosen now. */
  showAll(): void {
    for (const id of this.all.keys()) this.show(id);
  }

  show(id: string): void {
    if (id === "summary" || id === "selection") {
      const { frame, isStale } = this.data.state("summary");
      if (frame !== null && !isStale) this.parts.words.show(frame);
    } else if (id === "heatmap") this.heatmap?.mark();
    else if (isCounted(id)) {
      this.all.get(id)?.show(this.data.state(id), this.parts.choosing.chosen);
    }
  }

  /** Ask for what the panels in sight lack, once for all that changes together. */
  refresh(): void {
    const { signal, choosing } = this.parts;
    if (this.refreshing || signal.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (signal.aborted) return;
      this.heatmap?.refresh();
      const seen = [...this.all.values()].filter(({ el }) => this.sight.isSeen(el));
      if (seen.length === 0) return;
      const counted = seen.map(({ id }) => id).filter(isCounted);
      this.data.want(["summary", ...counted], choosing.effective);
    });
  }

  /** The window in view is another one. */
  viewMoved(): void {
    if (this.parts.choosing.scope === "view") this.refresh();
    else this.heatmap?.refresh();
  }

  metricChanged(): void {
    this.heatmap?.followMetric();
    this.heatmap?.refresh();
  }

  /** Ask again for what has failed. */
  retry(): void {
    this.data.retry();
    this.heatmap?.retry();
  }

  /** After another scene. */
  forget(): void {
    this.data.forget();
  }

  private showSome(ids: readonly string[]): void {
    for (const id of ids) this.show(id);
    this.parts.shown();
  }

  private fill(pane: Pane): void {
    const { id } = pane;
    const { signal, choosing, charts, words, problems } = this.parts;
    const names = (chosen: string[] | null): void => choosing.brush(id, { names: chosen });
    if (id === "kernels") pane.setContent(new NameTable(KERNELS, names, signal));
    else if (id === "operators") pane.setContent(new NameTable(OPERATORS, names, signal));
    else if (id === "selection") this.setFixed(id, words.el);
    else if (id === "problems") this.setFixed(id, problems.el);
    else if (id === "heatmap") {
      this.heatmap = this.makeHeatmap(pane);
      pane.setContent(this.heatmap);
    } else if (isOfFormat(id)) {
      const slot = (one: string): ChartSlot => charts.slot(one);
      const brush = (from: string, to: Brush): void => choosing.brush(from, to);
      pane.setContent(formatContent(id, { signal, slot, brush }));
    } else if (isChart(id)) pane.setContent(charts.slot(id));
  }

  private makeHeatmap(pane: Pane): HeatmapView {
    const { source, signal, choosing, charts, scene, view, metric, setMetric } = this.parts;
    return new HeatmapView(pane, charts.slot("heatmap"), {
      source,
      signal,
      selection: () => choosing.effective,
      view,
      chosen: () => choosing.chosen,
      isSeen: () => this.sight.isSeen(pane.el),
      metric: () => {
        const given = metric();
        if (given !== "") return given;
        const matched = scene().ranks.some(({ summary }) =>
          summary.some((one) => one.wait !== undefined),
        );
        return matched ? "waiting" : "busy";
      },
      setMetric,
      hasDevices: () =>
        scene().ranks.some(({ summary }) => summary.some(({ role }) => role !== "cpu")),
    });
  }
}

// What reading the files skipped, repaired or guessed, most events first.

const FIRST = 4;
const LONGEST_TITLE = 60;

export class ProblemsPane {
  readonly el = h("div", { class: "hta-problem-list" });
  private all = false;

  constructor(private readonly scene: () => Scene) {
    this.print();
  }

  get count(): number {
    return problemLines(this.scene()).length;
  }

  showAll(): void {
    this.all = true;
    this.print();
  }

  print(): void {
    const lines = problemLines(this.scene()).sort((a, b) => b.count - a.count);
    const drawn = this.all ? lines : lines.slice(0, FIRST);
    const left = lines.length - drawn.length;
    fill(
      this.el,
      h(
        "header",
        { class: "hta-pane-head" },
        h("h3", {}, "Problems"),
        lines.length > 0 && h("span", { class: "hta-count-badge" }, formatCount(lines.length)),
      ),
      lines.length === 0 &&
        h("p", {}, "Nothing was skipped, repaired or guessed: every event of the files is here."),
      ...drawn.map((line) =>
        h(
          "div",
          { class: "hta-problem", title: line.files.join("\n") },
          h("b", {}, said(line).title),
          h("p", {}, said(line).text),
        ),
      ),
      left > 0 &&
        button({
          text: `${left} more`,
          press: () => this.showAll(),
        }),
    );
  }
}

/** The first part of what happened names it; how often, the rest and where come below. */
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

// What matters most, in a sentence or three, as Python has found it.

export class Headline {
  readonly el = h("div", { class: "hta-headline", hidden: true });

  constructor(private readonly chooseRank: (rank: number, add: boolean) => void) {}

  /** What it says; "" while that is not known. */
  get text(): string {
    return this.el.querySelector("h2")?.textContent ?? "";
  }

  show(facts: HeadlineFacts | null): void {
    this.el.hidden = facts === null || facts.headline.length === 0;
    if (facts === null) return;
    fill(
      this.el,
      h("h2", {}, ...this.pieces(facts.headline)),
      facts.more.length > 0 &&
        h("p", {}, ...facts.more.flatMap((one, at) => [at > 0 ? " " : "", ...this.pieces(one)])),
    );
  }

  private pieces(pieces: readonly HeadPiece[]): Child[] {
    return pieces.map((piece) =>
      typeof piece === "string"
        ? piece
        : h(
            "button",
            {
              type: "button",
              class: `hta-rank-link${piece.fact === true ? " hta-rank-fact" : ""}`,
              title: `Select rank ${piece.rank}`,
              on: {
                click: (event: MouseEvent) =>
                  this.chooseRank(piece.rank, event.ctrlKey || event.metaKey || event.shiftKey),
              },
            },
            piece.text ?? `rank ${piece.rank}`,
          ),
    );
  }
}

// How high panels will be about, so that a page does not jump when their charts come.

/** Padding of a panel, its title, what it means in two lines, its legend and its scale. px. */
const AROUND: Readonly<Record<string, number>> = {
  breakdown: 122,
  overlap: 122,
  idle: 122,
  queue: 122,
};

/** Height of a panel that has a row a rank; null where it is not known before. */
function expectedHeight(id: string, scene: Scene): number | null {
  const around = AROUND[id];
  const hasDevices = scene.ranks.some(({ summary }) => summary.some(({ role }) => role !== "cpu"));
  if (around === undefined || !hasDevices) return null;
  const rows = scene.ranks.length;
  return around + rows * pitchOf(rows);
}

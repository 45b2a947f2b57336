/** The details panel of one event, its collective and histogram. */

import {
  type Brief,
  type EventDetail,
  type Flow,
  flowLabel,
  type Kind,
  type LaunchedBy,
  type LaunchedKernels,
  type SameName,
  type Collective,
  type Member,
} from "../../protocol/source";
import {
  button,
  closeButton,
  type Copy,
  copyButton,
  eventLink,
  type Fact,
  facts,
  failure,
  kbd,
  kindName,
  link,
  swatch,
  tabs,
} from "../../ui/controls";
import { type Child, fill, h } from "../../ui/dom";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatExact,
  formatRange,
  formatShareDelta,
  formatTime,
  formatValue,
  plural,
} from "../../ui/formats";
import { eventCode, lastOf, waitsWords } from "../text";

/** Arrows listed one by one; a graph launch has thousands. */
const FLOWS_SHOWN = 4;
const PARENTS_SHOWN = 2;

interface DetailsActions {
  close(): void;
  go(brief: Brief): void;
  /** Show an event given by rank and id. */
  goTo(rank: number, id: number): void;
  zoom(): void;
  selectName(): void;
  selectIds(rank: number, ids: readonly number[]): void;
  exportWindow(anchor: HTMLElement): void;
  retry(): void;
  copy: Copy;
  showArea(): void;
}

interface DetailsState {
  brief: Brief | null;
  detail: EventDetail | null;
  collective: Collective | null;
  error: Error | null;
  /** Process and track, as the rows name them. */
  place: string;
  /** Parts of the event that the window of an export kept. */
  cut: string;
  /** A window is selected too: offer to switch. */
  hasArea: boolean;
}

export class DetailsPanel {
  readonly id = "event" as const;
  readonly name = "Selected event";
  readonly el: HTMLElement;
  private shownFor = "";
  private allFlows = false;
  private allParents = false;
  private state: DetailsState = {
    brief: null,
    detail: null,
    collective: null,
    error: null,
    place: "",
    cut: "",
    hasArea: false,
  };

  constructor(private readonly actions: DetailsActions) {
    this.el = h("div", { class: "hta-panel hta-details" });
  }

  show(state: DetailsState): void {
    const { brief } = state;
    const key = brief === null ? "" : `${brief.rank}/${brief.table}/${brief.id}`;
    if (key !== this.shownFor) this.allFlows = this.allParents = false;
    this.shownFor = key;
    this.state = state;
    this.print();
  }

  private print(): void {
    const { brief, detail, collective, error } = this.state;
    fill(
      this.el,
      h("div", { class: "hta-column hta-what" }, this.head(), ...this.what()),
      h(
        "div",
        { class: "hta-column hta-compare" },
        collective !== null &&
          brief !== null &&
          collectivePanel(collective, brief.rank, (rank, id) => this.actions.goTo(rank, id)),
        collective === null && detail !== null && histogram(detail),
        detail === null && error === null && brief !== null && waiting("This name on its rank"),
      ),
      h("div", { class: "hta-column hta-rest" }, this.args(), brief !== null && this.doings()),
    );
  }

  private head(): HTMLElement {
    const { brief, hasArea } = this.state;
    return h(
      "div",
      { class: "hta-head" },
      brief !== null && swatch(brief.kind),
      h("h3", { class: "hta-short", title: brief?.name }, brief?.short ?? "Event"),
      hasArea && tabs("event", (id) => id === "area" && this.actions.showArea()),
      closeButton(this.actions.close, hasArea ? "" : "selected"),
    );
  }

  private what(): Child[] {
    const { brief, detail, error } = this.state;
    if (error !== null) return [failure("The event cannot be shown", error, this.actions.retry)];
    if (brief === null) return [h("p", { class: "hta-note" }, "Loading the event…")];
    const name = detail?.event.name ?? brief.name;
    return [
      h(
        "div",
        { class: "hta-full" },
        h("code", { title: name }, name),
        copyButton(this.actions.copy, () => name, "the full name"),
      ),
      facts(detail === null ? this.known(brief) : this.all(detail)),
    ];
  }

  private known(brief: Brief): Fact[] {
    const { cut } = this.state;
    return [
      { name: "Start", value: [formatTime(brief.start)], title: formatExact(brief.start) },
      { name: "Duration", value: [formatDuration(brief.dur)], title: formatExact(brief.dur) },
      { name: "Where", value: [this.where(brief)], title: this.where(brief) },
      ...(cut === "" ? [] : [{ name: "Cut", value: [cut], title: cut }]),
    ];
  }

  private where(brief: Brief): string {
    const { place } = this.state;
    return place === "" ? `rank ${brief.rank}` : `rank ${brief.rank} · ${place}`;
  }

  private all(detail: EventDetail): Fact[] {
    const { event, same, parents, launched_by: launch, kernels } = detail;
    const rows = this.known(event);
    if (launch !== null) rows.push(...this.launchRows(launch));
    rows.push(...this.callRows(event));
    if (kernels !== null) rows.push(this.kernelsRow(event.rank, kernels));
    rows.push(...this.flowRows(detail.flows));
    if (parents.length > 0) rows.push(this.chain("Inside", parents));
    if (same !== null) {
      const others = `${formatCount(same.count)} on this rank · median ${formatDuration(same.median)}`;
      rows.push({
        name: "Same name",
        value: [others],
        title: `${formatDuration(same.sum)} in all`,
        look: "wrapped",
      });
    }
    rows.push({ name: "Kind", value: [kindWords(event.kind, event.category)] });
    if (event.step !== null && event.step >= 0)
      rows.push({ name: "Step", value: [stepWords(event.step, event.category)] });
    if (event.correlation !== null && event.correlation >= 0) {
      rows.push({ name: "Correlation", value: [String(event.correlation)] });
    }
    return rows;
  }

  /** Rows of a collective: share of waiting, message size, bandwidth. */
  private callRows(event: Brief): Fact[] {
    const { collective } = this.state;
    const own = collective?.ranks.find(({ rank }) => rank === event.rank);
    if (collective === null || own === undefined) return [];
    const rows: Fact[] = [
      {
        name: "Of it",
        value: [
          own.wait > 0 ? `${formatDuration(own.wait)} waiting, ` : "no wait, ",
          `${formatDuration(own.transfer)} transfer`,
        ],
      },
    ];
    const message = messageWords(collective);
    if (message !== "") rows.push({ name: "Message", value: [message], title: BANDWIDTHS });
    const { group } = collective;
    const ranks = plural(collective.ranks.length, "rank");
    rows.push({ name: "Group", value: [group === "" ? ranks : `${group} · ${ranks}`] });
    return rows;
  }

  /** The operators, modules and Python functions that a device event comes from. */
  private launchRows({ operators, modules, frames, shapes, forward }: LaunchedBy): Fact[] {
    const rows: Fact[] = [];
    if (operators.length > 0) rows.push(this.chain("Operator", operators));
    if (shapes !== "") rows.push({ name: "Inputs", value: [shapes], title: shapes });
    if (forward !== null) {
      rows.push({ name: "Backward of", value: [eventLink(forward, this.actions.go)] });
    }
    if (modules.length > 0) rows.push(this.chain("Module", modules));
    if (frames.length > 0) rows.push(this.chain("Python", frames));
    return rows;
  }

  private kernelsRow(rank: number, { count, dur, delay, ids }: LaunchedKernels): Fact {
    const figures = `${plural(count, "event")} on the device, ${formatDuration(dur)} in all, median launch delay ${formatDuration(delay)}`;
    const select = (): void => this.actions.selectIds(rank, ids ?? []);
    const value: Child[] = [figures];
    if (ids !== null) value.push(" · ", link("select", select, "Select the events on the device"));
    return { name: "Launched", value, title: figures, look: "wrapped" };
  }

  /** Enclosing events; in deep nests the two nearest, until the user expands the lists. */
  private chain(name: string, parents: readonly Brief[]): Fact {
    const outermost = [...parents].reverse();
    const shown = this.allParents ? outermost : outermost.slice(-PARENTS_SHOWN);
    const value: Child[] = [];
    if (shown.length < outermost.length) {
      value.push(
        link("…", () => this.open("allParents"), "Show all that enclose it"),
        " › ",
      );
    }
    shown.forEach((parent, at) => {
      if (at > 0) value.push(" › ");
      value.push(eventLink(parent, this.actions.go));
    });
    const title = outermost.map((parent) => parent.short).join(" › ");
    return { name, value, title, look: this.allParents ? "wrapped" : undefined };
  }

  /** The first arrow in and the first arrow out show the keys that follow them. */
  private flowRows(flows: readonly Flow[]): Fact[] {
    const shown = this.allFlows ? flows : flows.slice(0, FLOWS_SHOWN);
    const seen = new Set<string>();
    const rows = shown.map((flow): Fact => {
      const first = !seen.has(flow.direction);
      seen.add(flow.direction);
      const value: Child[] = [
        eventLink(flow.brief, this.actions.go),
        h("span", { class: "hta-note" }, delayWords(flow)),
      ];
      if (first) value.push(kbd(flow.direction === "in" ? "[" : "]"));
      return { name: flowLabel(flow), value, look: "line" };
    });
    if (flows.length > shown.length) {
      const more = `${formatCount(flows.length - shown.length)} more`;
      rows.push({ name: "", value: [link(more, () => this.open("allFlows"))] });
    }
    return rows;
  }

  private open(list: "allFlows" | "allParents"): void {
    this[list] = true;
    this.print();
  }

  private args(): HTMLElement {
    const { detail } = this.state;
    const args = detail?.args ?? [];
    const lines = (): string => args.map(([key, text]) => `${key}: ${text}`).join("\n");
    return h(
      "div",
      { class: "hta-args" },
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "Arguments"),
        args.length > 0 && copyButton(this.actions.copy, lines, "all arguments"),
      ),
      detail?.args_error && h("p", { class: "hta-error-text" }, detail.args_error),
      detail !== null &&
        args.length === 0 &&
        !detail.args_error &&
        h("p", { class: "hta-note" }, "None."),
      h(
        "div",
        {
          class: "hta-scroll",
          tabindex: args.length > 0 ? 0 : null,
          role: "group",
          "aria-label": "Arguments",
        },
        h(
          "dl",
          { class: "hta-factlist hta-arglist" },
          ...args.map(([key, text]) =>
            h(
              "div",
              { class: "hta-fact" },
              h("dt", { title: key }, key),
              h("dd", { title: text }, text),
              copyButton(this.actions.copy, () => text, key),
            ),
          ),
        ),
      ),
    );
  }

  private doings(): HTMLElement {
    const { brief, detail } = this.state;
    const count = detail?.same?.count;
    const all = count === undefined ? "All of this name" : `All ${formatCount(count)} of this name`;
    return h(
      "div",
      { class: "hta-doings" },
      button({ text: "Zoom to it", key: "F", showKey: true, press: () => this.actions.zoom() }),
      button({ text: all, press: () => this.actions.selectName() }),
      button({
        text: "Copy as Python",
        press: () => brief !== null && this.actions.copy(eventCode(brief), "Python"),
      }),
      button({
        text: "Export window…",
        key: "X",
        press: ({ currentTarget }) => this.actions.exportWindow(currentTarget as HTMLElement),
      }),
    );
  }
}

const BANDWIDTHS =
  "algorithm bandwidth: bytes by the time of the transfer; bus bandwidth: times the factor of the operation, as nccl-tests defines them";

function messageWords({ size, algbw, busbw }: Collective): string {
  const parts: string[] = [];
  if (size >= 0) parts.push(formatBytes(size));
  if (algbw !== null) parts.push(`${algbw.toPrecision(3)}\u2009GB/s`);
  if (busbw !== null) parts.push(`bus ${busbw.toPrecision(3)}\u2009GB/s`);
  return parts.join(" · ");
}

function waiting(title: string): HTMLElement {
  return h("div", {}, h("h3", {}, title), h("p", { class: "hta-note" }, "…"));
}

function kindWords(kind: Kind, category: string | null): string {
  return category === null || category === "" ? kindName(kind) : `${kindName(kind)} · ${category}`;
}

function delayWords({ delay, direction }: Flow): string {
  if (delay < 0) return `overlaps by ${formatDuration(-delay)}`;
  return `${formatDuration(delay)} ${direction === "in" ? "before start" : "after"}`;
}

/** Name of a step: BytePS counts its own, from 0 in each file. */
function stepWords(step: number, category: string | null): string {
  const counted = category === "Comm" || category === "byteps-server";
  return counted ? `${step}, counted in the file` : `ProfilerStep#${step}`;
}

// Durations of one name on one rank, with one event marked.

const THIN = "\u2009";
const NARROW_UNBROKEN = "\u202f";

/** Position of a duration along the bins, from 0 to 1. Bins are drawn equally wide. */
export function alongBins(edges: readonly number[], value: number): number {
  const bins = edges.length - 1;
  if (bins < 1) return 0;
  for (let bin = 0; bin < bins; bin += 1) {
    const low = edges[bin] ?? 0;
    const high = edges[bin + 1] ?? 0;
    if (value > high && bin < bins - 1) continue;
    const within = high > low ? (value - low) / (high - low) : 0.5;
    return (bin + Math.min(Math.max(within, 0), 1)) / bins;
  }
  return 1;
}

/** The finding as text. */
export function histogramWords(same: SameName, dur: number): string {
  const range =
    same.min === same.max
      ? `all ${formatDuration(same.min)}`
      : `${formatRange(same.min, same.max)}, median ${formatDuration(same.median)}`;
  const ratio = same.median > 0 ? dur / same.median : 1;
  const against =
    ratio >= 2
      ? `; this one ${formatValue(Number(ratio.toPrecision(2)))}× the median`
      : `; this one ${formatShareDelta(ratio - 1)}`;
  const words = `${plural(same.count, "event")}, ${range}${same.min === same.max ? "" : against}`;
  return words.replaceAll(THIN, NARROW_UNBROKEN);
}

function histogram(detail: EventDetail): HTMLElement {
  const { event, same } = detail;
  const title = h("h3", {}, `This name on rank ${event.rank}`);
  if (same === null || same.count === 0) {
    return h("div", { class: "hta-histogram" }, title, h("p", { class: "hta-note" }, "Not known."));
  }
  if (same.count === 1) {
    const only = `The only event of this name on rank ${event.rank}.`;
    return h("div", { class: "hta-histogram" }, title, h("p", { class: "hta-note" }, only));
  }
  const words = histogramWords(same, event.dur);
  return h(
    "div",
    { class: "hta-histogram" },
    title,
    h("p", { class: "hta-note" }, words),
    same.counts.length > 1 && chart(same, event.dur, event.kind, words),
  );
}

function chart(same: SameName, dur: number, kind: Kind, words: string): HTMLElement {
  const most = Math.max(...same.counts, 1);
  const at = alongBins(same.edges, dur);
  const own = Math.min(Math.floor(at * same.counts.length), same.counts.length - 1);
  const first = same.edges[0] ?? same.min;
  const last = same.edges.at(-1) ?? same.max;
  const bars = same.counts.map((count, bin) =>
    h("div", {
      class: `hta-bar${bin === own ? " hta-own" : ""}`,
      "data-kind": kind,
      style: { height: count === 0 ? "0" : `max(2px, ${(count / most) * 100}%)` },
      title: `${formatDuration(same.edges[bin] ?? 0)} to ${formatDuration(same.edges[bin + 1] ?? 0)}: ${plural(count, "event")}`,
    }),
  );
  return h(
    "div",
    { class: "hta-chart", role: "img", "aria-label": `Durations: ${words}` },
    h(
      "span",
      { class: "hta-chart-top" },
      `tallest bar: ${plural(most, "event")}${same.scale === "log" ? " · logarithmic widths" : ""}`,
    ),
    h(
      "div",
      { class: "hta-bars" },
      ...bars,
      h("div", { class: "hta-bar-mark", style: { left: `${at * 100}%` } }),
    ),
    h(
      "div",
      { class: "hta-chart-axis" },
      h("span", {}, formatDuration(first)),
      h("b", {}, `this one ${formatDuration(dur)}`),
      h("span", {}, formatDuration(last)),
    ),
  );
}

// One collective on all ranks: waits, last arrival, transfer.

/** Larger groups show only the first and the last to arrive. */
const MOST_ROWS = 16;

export function collectivePanel(
  collective: Collective,
  own: number,
  go: (rank: number, id: number) => void,
): HTMLElement {
  const { ranks } = collective;
  const whole = Math.max(...ranks.map((one) => one.arrival + one.wait + one.transfer), 1);
  const last = lastOf(collective);
  const shown = rowsOf(ranks, own);
  const words = waitsWords(collective);
  const title = `${collective.name} on ${ranks.length} ranks`;
  return h(
    "div",
    { class: "hta-collective" },
    h("h3", {}, title),
    h("p", { class: "hta-note" }, words),
    h(
      "div",
      { class: "hta-calls", role: "group", "aria-label": `${title}: ${words}` },
      ...shown.map((one) => row(one, { whole, own, last, late: collective.late }, go)),
    ),
    ranks.length > shown.length &&
      h("p", { class: "hta-note" }, `${ranks.length - shown.length} ranks between them not shown`),
    h(
      "div",
      { class: "hta-call-axis" },
      h("span", {}, "first arrival"),
      h("span", {}, `end +${formatDuration(whole)}`),
    ),
  );
}

/** All ranks; in large groups the first and last to arrive, and the selected event's rank. */
function rowsOf(ranks: readonly Member[], own: number): Member[] {
  if (ranks.length <= MOST_ROWS) return [...ranks];
  const byArrival = [...ranks].sort((a, b) => a.arrival - b.arrival);
  const half = MOST_ROWS >> 1;
  const kept = new Set([...byArrival.slice(0, half), ...byArrival.slice(-half)]);
  return ranks.filter((one) => kept.has(one) || one.rank === own);
}

interface Scale {
  whole: number;
  own: number;
  last: Member | null;
  late: number;
}

function row(
  one: Member,
  { whole, own, last, late }: Scale,
  go: (rank: number, id: number) => void,
): HTMLElement {
  const percent = (ns: number): string => `${(ns / whole) * 100}%`;
  const isLast = one === last;
  const bar: Child[] = [];
  if (isLast) {
    const from = Math.max(0, one.arrival - late);
    bar.push(part("late", percent(from), percent(one.arrival - from)));
  }
  if (one.wait > 0) bar.push(part("wait", percent(one.arrival), percent(one.wait)));
  bar.push(part("transfer", percent(one.arrival + one.wait), percent(one.transfer)));
  const told = isLast ? "last" : one.wait > 0 ? formatDuration(one.wait) : "no wait";
  return h(
    "div",
    { class: `hta-call${one.rank === own ? " hta-own" : ""}${isLast ? " hta-late" : ""}` },
    link(`rank ${one.rank}`, () => go(one.rank, one.id), "Show this call on this rank"),
    h("div", { class: "hta-call-bar" }, ...bar),
    h("span", { class: "hta-call-figure" }, told),
  );
}

function part(what: string, left: string, width: string): HTMLElement {
  return h("div", { class: `hta-call-part hta-${what}`, style: { left, width } });
}

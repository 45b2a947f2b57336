/** The start page: jobs and files of a folder, newest first; open one, or tick two to compare. */

import { button } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatBytes, formatCount, plural } from "../ui/formats";

/** A job or a file, as `hta_widgets/host/web.py` lists it. */
export interface Entry {
  path: string;
  files: number;
  bytes: number;
  changed_ms: number;
  formats: string[];
  parts: Entry[];
}

export interface OpenRequest {
  view: "dashboard" | "timeline" | "diff";
  paths: string[];
}

const SHOWN_PARTS = 200;

export class StartPage {
  readonly el = h("div", { class: "hta-root hta-host-page hta-host-start" });
  private entries: Entry[] = [];
  private readonly ticked: string[] = [];
  private readonly unfolded = new Set<string>();
  /** Entries of the first listing; all others are new. */
  private known: Set<string> | null = null;
  private readonly list = h("table", { class: "hta-host-list" });
  private readonly pair = h("div", { class: "hta-host-pair", role: "status" });

  constructor(
    private readonly title: string,
    private readonly open: (request: OpenRequest) => void,
  ) {
    const hint = "Open one, or tick two to compare. New traces appear here when they are written.";
    this.el.append(
      h("h1", {}, `Traces in ${title}`),
      h("p", { class: "hta-note" }, hint),
      this.list,
      this.pair,
    );
  }

  /** Show these entries; returns those that the first listing lacked. */
  show(entries: Entry[]): Entry[] {
    this.entries = entries;
    this.known ??= new Set(entries.map(({ path }) => path));
    const there = new Set(entries.flatMap((entry) => [entry, ...entry.parts]).map((e) => e.path));
    for (const path of this.ticked.filter((one) => !there.has(one))) this.tick(path, false);
    this.print();
    return entries.filter(({ path }) => !this.known?.has(path));
  }

  private print(): void {
    const rows = this.entries.flatMap((entry) => [
      this.row(entry, false),
      ...(this.unfolded.has(entry.path)
        ? entry.parts.slice(0, SHOWN_PARTS).map((part) => this.row(part, true))
        : []),
    ]);
    const head = ["Compare", "Name", "Contents", "Size", "Changed"].map((text) =>
      h("th", { scope: "col", class: text === "Size" ? "hta-host-size" : null }, text),
    );
    const none = h("p", {}, `There are no traces in ${this.title} yet.`);
    fill(this.list, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
    this.list.hidden = this.entries.length === 0;
    if (this.entries.length === 0) fill(this.pair, none);
    else this.printPair();
  }

  private row(entry: Entry, isPart: boolean): HTMLElement {
    const { path } = entry;
    const name = path === "." ? `${this.title} (this folder)` : path;
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Compare ${name}`,
      on: {
        change: () => {
          this.tick(path, box.checked);
          this.print();
        },
      },
    });
    box.checked = this.ticked.includes(path);
    const isNew = !isPart && this.known?.has(path) === false;
    const open = h(
      "button",
      {
        type: "button",
        class: "hta-link",
        title: `Open ${name}`,
        on: { click: () => this.open({ view: "dashboard", paths: [path] }) },
      },
      name,
    );
    const changed = new Date(entry.changed_ms);
    return h(
      "tr",
      { class: isPart ? "hta-host-part" : null },
      h("td", {}, box),
      h("td", {}, open, isNew && h("span", { class: "hta-host-badge hta-host-new" }, "new")),
      h("td", {}, entry.formats.join(", "), entry.parts.length > 0 && this.unfold(entry)),
      h("td", { class: "hta-host-size" }, formatBytes(entry.bytes)),
      h("td", { title: changed.toLocaleString() }, agoText(entry.changed_ms, Date.now())),
    );
  }

  private unfold(entry: Entry): HTMLElement {
    const isOpen = this.unfolded.has(entry.path);
    const cut = entry.files > SHOWN_PARTS ? ` (the first ${formatCount(SHOWN_PARTS)})` : "";
    return h(
      "button",
      {
        type: "button",
        class: "hta-link",
        "aria-expanded": String(isOpen),
        on: {
          click: () => {
            if (isOpen) this.unfolded.delete(entry.path);
            else this.unfolded.add(entry.path);
            this.print();
          },
        },
      },
      `, ${plural(entry.files, "file")}${isOpen ? cut : ""} ${isOpen ? "▴" : "▾"}`,
    );
  }

  /** Tick or untick an entry. At most two are ticked: a third one replaces the first. */
  private tick(path: string, on: boolean): void {
    const at = this.ticked.indexOf(path);
    if (at >= 0) this.ticked.splice(at, 1);
    if (on) this.ticked.push(path);
    if (this.ticked.length > 2) this.ticked.shift();
  }

  private printPair(): void {
    if (this.ticked.length === 0) {
      fill(this.pair);
      return;
    }
    const every = this.entries.flatMap((entry) => [entry, ...entry.parts]);
    const both = this.ticked
      .map((path) => every.find((entry) => entry.path === path)!)
      .sort((a, b) => a.changed_ms - b.changed_ms)
      .map(({ path }) => path);
    if (both.length === 1) {
      fill(this.pair, h("span", { class: "hta-note" }, `Tick another one to compare ${both[0]}.`));
      return;
    }
    fill(
      this.pair,
      button({
        text: "Compare",
        class: "hta-primary",
        press: () => this.open({ view: "diff", paths: both }),
      }),
      h("span", {}, `${both[0]} (before) with ${both[1]} (after)`),
    );
  }
}

const UNITS: readonly [string, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const MOST_DAYS = 7;

/** `3 minutes ago`; for older times than a week, the date. */
export function agoText(then: number, now: number): string {
  const age = now - then;
  if (age > MOST_DAYS * 86_400_000) return new Date(then).toISOString().slice(0, 10);
  for (const [unit, ms] of UNITS) {
    if (age >= ms) return `${plural(Math.floor(age / ms), unit)} ago`;
  }
  return "just now";
}

/** The start page: jobs and files of a folder, newest first; open one, or tick two to compare. */

import { render, type VNode } from "preact";
import { picked } from "../protocol/selection";
import { Button, Link } from "../ui/controls";
import { h } from "../ui/dom";
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
  private ticked: string[] = [];
  private readonly unfolded = new Set<string>();
  /** Entries of the first listing; all others are new. */
  private known: Set<string> | null = null;

  constructor(
    private readonly title: string,
    private readonly open: (request: OpenRequest) => void,
  ) {}

  /** Show these entries; returns those that the first listing lacked. */
  show(entries: Entry[]): Entry[] {
    this.entries = entries;
    this.known ??= new Set(entries.map(({ path }) => path));
    this.print();
    return entries.filter(({ path }) => !this.known?.has(path));
  }

  private print(): void {
    const { title, entries } = this;
    const every = entries.flatMap((entry) => [entry, ...entry.parts]);
    const ticked = this.ticked.flatMap((path) => every.find((entry) => entry.path === path) ?? []);
    this.ticked = ticked.map(({ path }) => path);
    const both = ticked.sort((a, b) => a.changed_ms - b.changed_ms).map(({ path }) => path);
    const page = (
      <>
        <h1>{`Traces in ${title}`}</h1>
        <p class="hta-note">
          Open one, or tick two to compare. New traces appear here when they are written.
        </p>
        <table class="hta-host-list" hidden={entries.length === 0}>
          <thead>
            <tr>
              {["Compare", "Name", "Contents", "Size", "Changed"].map((text) => (
                <th scope="col" class={text === "Size" ? "hta-host-size" : undefined}>
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {entries.flatMap((entry) => [
              this.row(entry, false),
              ...(this.unfolded.has(entry.path)
                ? entry.parts.slice(0, SHOWN_PARTS).map((part) => this.row(part, true))
                : []),
            ])}
          </tbody>
        </table>
        <div class="hta-host-pair" role="status">
          {entries.length === 0 && <p>{`There are no traces in ${title} yet.`}</p>}
          {both.length === 1 && (
            <span class="hta-note">{`Tick another one to compare ${both[0]}.`}</span>
          )}
          {both.length === 2 && (
            <>
              <Button
                text="Compare"
                class="hta-primary"
                press={() => this.open({ view: "diff", paths: both })}
              />
              <span>{`${both[0]} (before) with ${both[1]} (after)`}</span>
            </>
          )}
        </div>
      </>
    );
    render(page, this.el);
  }

  private row(entry: Entry, isPart: boolean): VNode {
    const { path } = entry;
    const name = path === "." ? `${this.title} (this folder)` : path;
    const isNew = !isPart && this.known?.has(path) === false;
    return (
      <tr key={path} class={isPart ? "hta-host-part" : undefined}>
        <td>
          <input
            type="checkbox"
            aria-label={`Compare ${name}`}
            checked={this.ticked.includes(path)}
            onChange={() => this.toggle(path)}
          />
        </td>
        <td>
          <Link
            text={name}
            title={`Open ${name}`}
            press={() => this.open({ view: "dashboard", paths: [path] })}
          />
          {isNew && <span class="hta-host-badge hta-host-new">new</span>}
        </td>
        <td>
          {entry.formats.join(", ")}
          {entry.parts.length > 0 && this.unfold(entry)}
        </td>
        <td class="hta-host-size">{formatBytes(entry.bytes)}</td>
        <td title={new Date(entry.changed_ms).toLocaleString()}>
          {agoText(entry.changed_ms, Date.now())}
        </td>
      </tr>
    );
  }

  private unfold({ path, files }: Entry): VNode {
    const isOpen = this.unfolded.has(path);
    const cut = isOpen && files > SHOWN_PARTS ? ` (the first ${formatCount(SHOWN_PARTS)})` : "";
    const press = (): void => {
      if (isOpen) this.unfolded.delete(path);
      else this.unfolded.add(path);
      this.print();
    };
    return (
      <button type="button" class="hta-link" aria-expanded={isOpen} onClick={press}>
        {`, ${plural(files, "file")}${cut} ${isOpen ? "▴" : "▾"}`}
      </button>
    );
  }

  /** Tick or untick an entry. At most two are ticked: a third one replaces the first. */
  private toggle(path: string): void {
    this.ticked = picked(this.ticked, path, true)?.slice(-2) ?? [];
    this.print();
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

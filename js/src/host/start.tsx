/** The start page: a folder's jobs and files, newest first. Open one, or tick two to compare. */

import { render, type VNode } from "preact";
import { togglePick } from "../protocol/selection";
import { Button, Link } from "../ui/controls";
import { h } from "../ui/dom";
import { formatBytes, formatCount, formatDuration, plural } from "../ui/formats";

/** A job or a file, in the format sent by `hta_widgets/host/web.py`. */
export interface FolderEntry {
  path: string;
  files: number;
  bytes: number;
  changed_ms: number;
  formats: string[];
  parts: FolderEntry[];
  /** The verdict on a job; null if it is not known yet or the job cannot be read. */
  verdict?: Verdict | null;
  /** Why a job has no verdict; "" if it has one. */
  note?: string;
}

interface Verdict {
  ranks: number;
  step_ns: number | null;
  text: string;
  /** For each kind of work, its percentage of each time bin of the job. */
  picture: Readonly<Record<string, readonly number[]>>;
}

export interface OpenViewRequest {
  view: "dashboard" | "timeline" | "diff";
  paths: string[];
}

const MAX_SHOWN_PARTS = 200;

/** The columns by which entries can be sorted, with their values and sort direction. */
const SORTS: Readonly<
  Record<string, { valueOf(entry: FolderEntry): number | string; isDescending: boolean }>
> = {
  Name: { valueOf: ({ path }) => path.toLowerCase(), isDescending: false },
  Ranks: { valueOf: ({ verdict }) => verdict?.ranks ?? -1, isDescending: true },
  Step: { valueOf: ({ verdict }) => verdict?.step_ns ?? -1, isDescending: true },
  Size: { valueOf: ({ bytes }) => bytes, isDescending: true },
  Changed: { valueOf: ({ changed_ms: changed }) => changed, isDescending: true },
};
const HEADS = ["Compare", "Name", "Work", "Ranks", "Step", "Contents", "Size", "Changed"];
const NUMBERS = new Set(["Ranks", "Step", "Size"]);

/** Return the entries that match a text, sorted by a column. */
function arrangeEntries(
  entries: readonly FolderEntry[],
  text: string,
  column: string,
): FolderEntry[] {
  const { valueOf, isDescending } = SORTS[column] ?? SORTS.Changed!;
  const wanted = text.trim().toLowerCase();
  const matching = entries.filter(({ path, formats, verdict }) =>
    [path, ...formats, verdict?.text ?? ""].join("\n").toLowerCase().includes(wanted),
  );
  const compare = (a: FolderEntry, b: FolderEntry): number => {
    const [first, second] = [valueOf(a), valueOf(b)];
    return first < second ? -1 : Number(first > second);
  };
  return matching.sort((a, b) => (isDescending ? compare(b, a) : compare(a, b)));
}

export class StartPage {
  readonly el = h("div", { class: "hta-root hta-host-page hta-host-start" });
  private entries: FolderEntry[] = [];
  private selectedPaths: string[] = [];
  private search = "";
  private sortColumn = "Changed";
  private readonly expanded = new Set<string>();
  /** Paths in the first listing. Other paths are new. */
  private knownPaths: Set<string> | null = null;

  constructor(
    private readonly title: string,
    private readonly open: (request: OpenViewRequest) => void,
  ) {}

  /** Show these entries. Return those that were not in the first listing. */
  showEntries(entries: FolderEntry[]): FolderEntry[] {
    this.entries = entries;
    this.knownPaths ??= new Set(entries.map(({ path }) => path));
    this.renderEntries();
    return entries.filter(({ path }) => !this.knownPaths?.has(path));
  }

  /** Return the verdict on a job; "" if it is unknown. */
  verdictOf(path: string): string {
    return this.entries.find((entry) => entry.path === path)?.verdict?.text ?? "";
  }

  private renderEntries(): void {
    const { title, entries } = this;
    const allEntries = entries.flatMap((entry) => [entry, ...entry.parts]);
    const ticked = this.selectedPaths.flatMap(
      (path) => allEntries.find((entry) => entry.path === path) ?? [],
    );
    this.selectedPaths = ticked.map(({ path }) => path);
    const sortedPaths = ticked.sort((a, b) => a.changed_ms - b.changed_ms).map(({ path }) => path);
    const shown = arrangeEntries(entries, this.search, this.sortColumn);
    const partsOf = ({ path, parts }: FolderEntry): FolderEntry[] =>
      this.expanded.has(path) ? parts.slice(0, MAX_SHOWN_PARTS) : [];
    const page = (
      <>
        <h1>{`Traces in ${title}`}</h1>
        <p class="hta-note">
          Open one, or tick two to compare. New traces appear here when they are written.
        </p>
        <input
          type="search"
          class="hta-input"
          placeholder="Search names and verdicts"
          aria-label="Search names and verdicts"
          hidden={entries.length < 2}
          onInput={({ currentTarget }) => {
            this.search = currentTarget.value;
            this.renderEntries();
          }}
        />
        <table class="hta-host-list" hidden={entries.length === 0}>
          <thead>
            <tr>{HEADS.map((text) => this.head(text))}</tr>
          </thead>
          <tbody>
            {shown.flatMap((entry) => [
              this.row(entry, false),
              ...partsOf(entry).map((part) => this.row(part, true)),
            ])}
          </tbody>
        </table>
        <div class="hta-host-pair" role="status">
          {entries.length === 0 && <p>{`There are no traces in ${title} yet.`}</p>}
          {entries.length > 0 && shown.length === 0 && (
            <p>No name or verdict matches the search.</p>
          )}
          {this.comparison(sortedPaths)}
        </div>
      </>
    );
    render(page, this.el);
  }

  /** Return the offer to compare the ticked entries, the older entry first. */
  private comparison(paths: string[]): VNode | null {
    const [before, after] = paths;
    if (before === undefined) return null;
    if (after === undefined)
      return <span class="hta-note">{`Tick another one to compare ${before}.`}</span>;
    const press = (): void => this.open({ view: "diff", paths });
    return (
      <>
        <Button text="Compare" class="hta-primary" press={press} />
        <span>{`${before} (before) with ${after} (after)`}</span>
      </>
    );
  }

  private head(text: string): VNode {
    const isSorted = text === this.sortColumn;
    const direction = SORTS[text]?.isDescending === true ? "descending" : "ascending";
    const arrow = direction === "descending" ? " ↓" : " ↑";
    const press = (): void => {
      this.sortColumn = text;
      this.renderEntries();
    };
    return (
      <th
        scope="col"
        class={NUMBERS.has(text) ? "hta-host-number" : undefined}
        aria-sort={isSorted ? direction : undefined}
      >
        {text in SORTS ? (
          <Link text={text + (isSorted ? arrow : "")} title={`Sort by ${text}`} press={press} />
        ) : (
          <span>{text}</span>
        )}
      </th>
    );
  }

  private row(entry: FolderEntry, isPart: boolean): VNode {
    const { path, verdict, note } = entry;
    const verdictText = verdict?.text ?? note ?? "";
    const name = path === "." ? `${this.title} (this folder)` : path;
    const isNew = !isPart && this.knownPaths?.has(path) === false;
    return (
      <tr key={path} class={isPart ? "hta-host-part" : undefined}>
        <td>
          <input
            type="checkbox"
            aria-label={`Compare ${name}`}
            checked={this.selectedPaths.includes(path)}
            onChange={() => this.toggleSelected(path)}
          />
        </td>
        <td>
          <Link
            text={name.split(/(?<=[/_-])/).flatMap((part) => [part, <wbr />])}
            title={`Open ${name}`}
            press={() => this.open({ view: "dashboard", paths: [path] })}
          />
          {isNew && <span class="hta-badge hta-ok">new</span>}
          {verdictText !== "" && <div class="hta-host-verdict">{verdictText}</div>}
        </td>
        <td>{verdict && <WorkPicture picture={verdict.picture} />}</td>
        <td class="hta-host-number">{verdict?.ranks}</td>
        <td class="hta-host-number">
          {typeof verdict?.step_ns === "number" && formatDuration(verdict.step_ns)}
        </td>
        <td>
          {entry.formats.join(", ")}
          {entry.parts.length > 0 && this.renderFilesToggle(entry)}
        </td>
        <td class="hta-host-number">{formatBytes(entry.bytes)}</td>
        <td title={new Date(entry.changed_ms).toLocaleString()}>
          {relativeTimeText(entry.changed_ms, Date.now())}
        </td>
      </tr>
    );
  }

  private renderFilesToggle({ path, files }: FolderEntry): VNode {
    const isOpen = this.expanded.has(path);
    const cut =
      isOpen && files > MAX_SHOWN_PARTS ? ` (the first ${formatCount(MAX_SHOWN_PARTS)})` : "";
    const press = (): void => {
      if (isOpen) this.expanded.delete(path);
      else this.expanded.add(path);
      this.renderEntries();
    };
    return (
      <button type="button" class="hta-link" aria-expanded={isOpen} onClick={press}>
        {`, ${plural(files, "file")}${cut} ${isOpen ? "▴" : "▾"}`}
      </button>
    );
  }

  /** Tick or untick an entry. At most two can be ticked; a third replaces the first. */
  private toggleSelected(path: string): void {
    this.selectedPaths = togglePick(this.selectedPaths, path, true)?.slice(-2) ?? [];
    this.renderEntries();
  }
}

/** All ranks' work over the job, stacked by kind; the rest is idle. "–" if none is recorded. */
function WorkPicture({ picture }: Pick<Verdict, "picture">): VNode {
  const kinds = Object.entries(picture).filter(([, shares]) => shares.some((share) => share > 0));
  if (kinds.length === 0) return <span title="No device work is recorded">–</span>;
  const bins = kinds[0]?.[1].length ?? 0;
  const below = new Array<number>(bins).fill(0);
  const paths = kinds.map(([kind, shares]) => {
    const bars = shares.map((share, bin) => {
      below[bin]! += share;
      return `M${bin} ${100 - below[bin]!}h1v${share}h-1z`;
    });
    return <path key={kind} data-kind={kind} d={bars.join("")} />;
  });
  return (
    <svg
      class="hta-host-picture"
      viewBox={`0 0 ${bins} 100`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Work over the job: ${kinds.map(([kind]) => kind).join(", ")}`}
    >
      {paths}
    </svg>
  );
}

const UNITS: readonly [string, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const MAX_DAYS = 7;

/** Return `3 minutes ago`, or the date if it is more than a week ago. */
export function relativeTimeText(timestamp: number, now: number): string {
  const age = now - timestamp;
  if (age > MAX_DAYS * 86_400_000) return new Date(timestamp).toISOString().slice(0, 10);
  for (const [unit, ms] of UNITS) {
    if (age >= ms) return `${plural(Math.floor(age / ms), unit)} ago`;
  }
  return "just now";
}

/** What can be taken away from a dashboard: the selection, the timeline's picture, tables, charts. */

import type { Source } from "../contract";
import { download } from "../page/download";
import type { MenuItem } from "./pane";
import { csvOf } from "./tables";
import type { ChartPanel, PanelFrame } from "./types";

/** A panel as far as it can be taken away. */
export interface Exportable {
  id: string;
  title: string;
  chart: ChartPanel | null;
  frame: PanelFrame | null;
}

export interface ExportWays {
  /** Of the job: files are named by it. */
  title: string;
  source: Source;
  signal: AbortSignal;
  openTrace(): void;
  timelineSvg(): Promise<string>;
  copy(text: string, what: string): void;
  fail(title: string, error: unknown): void;
}

const PARQUET = "application/vnd.apache.parquet";

/** A name that every disk takes. */
export function fileName(...parts: string[]): string {
  return parts.join("-").replace(/[\p{Cc}\\/:*?"<>|]+/gu, "-");
}

/** Files of one panel, and its table as text. */
export function panelExports(one: Exportable, ways: ExportWays): MenuItem[] {
  const { id, chart, frame } = one;
  const name = (suffix: string): string => fileName(ways.title, `${id}.${suffix}`);
  const items: MenuItem[] = [];
  if (chart !== null) {
    items.push(
      { text: "Save as PNG", press: () => save(ways, name("png"), chart.toPng()) },
      { text: "Save as SVG", press: () => save(ways, name("svg"), chart.toSvg()) },
    );
  }
  if (frame === null) return items;
  const csv = (): Blob => new Blob([csvOf(frame)], { type: "text/csv" });
  items.push(
    { text: "Copy as CSV", press: () => ways.copy(csvOf(frame), "the table") },
    { text: "Save as CSV", press: () => download(name("csv"), csv()) },
  );
  // Pages of their own cannot write it.
  if (ways.source.status !== "none") {
    const press = (): void => save(ways, name("parquet"), parquet(ways, id));
    items.push({ text: "Save as Parquet", press });
  }
  return items;
}

/** Everything that can be taken away, by panel. */
export function allExports(shown: readonly Exportable[], ways: ExportWays): MenuItem[] {
  const svg = async (): Promise<Blob> =>
    new Blob([await ways.timelineSvg()], { type: "image/svg+xml" });
  return [
    { text: "The selection as a trace…", press: () => ways.openTrace() },
    {
      text: "Timeline: SVG of this view",
      press: () => save(ways, fileName(ways.title, "timeline.svg"), svg()),
    },
    ...shown.flatMap((one) =>
      panelExports(one, ways)
        .filter(({ text }) => text.startsWith("Save"))
        .map(({ text, press }) => ({
          text: `${one.title}: ${text.replace("Save as ", "")}`,
          press,
        })),
    ),
  ];
}

/** The table that is saved as CSV, as the kernel writes it. */
async function parquet({ source, signal }: ExportWays, panel: string): Promise<Blob> {
  const { buffer } = await source.ask("table", { panel, format: "parquet" }, signal);
  if (buffer === null) throw new Error("The kernel sent no table.");
  return new Blob([buffer], { type: PARQUET });
}

function save(ways: ExportWays, name: string, made: Promise<Blob>): void {
  made
    .then((file) => download(name, file))
    .catch((error: unknown) => {
      ways.fail("The file cannot be made", error);
    });
}

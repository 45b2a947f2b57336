/** Export the selection, pictures, tables and charts of a dashboard. */

import { download } from "../engine/export";
import { isChart, isCounted, panelKind } from "../facts/panels";
import type { ChartPanel, PanelFrame, Source } from "../protocol/source";
import type { MenuItem } from "../ui/menu";
import { csvOf } from "../ui/table";
import type { SaveLook } from "./toolbar";

/** The parts of a panel that can be saved as files. */
interface Exportable {
  id: string;
  title: string;
  chart: ChartPanel | null;
  frame: PanelFrame | null;
}

interface ExportWays {
  /** Title of the job; names of files begin with it. */
  title: string;
  source: Source;
  signal: AbortSignal;
  openTrace(): void;
  timelineSvg(): Promise<string>;
  copy(text: string, what: string): void;
  fail(title: string, error: unknown): void;
}

const PARQUET = "application/vnd.apache.parquet";

/** A file name without characters that some file systems do not allow. */
function fileName(...parts: string[]): string {
  return parts.join("-").replace(/[\p{Cc}\\/:*?"<>|]+/gu, "-");
}

/** Menu items that save one panel as files, and copy its table as text. */
function panelExports(one: Exportable, ways: ExportWays): MenuItem[] {
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
  // Only a kernel can write Parquet files.
  if (ways.source.status !== "none") {
    const press = (): void => save(ways, name("parquet"), parquet(ways, id));
    items.push({ text: "Save as Parquet", press });
  }
  return items;
}

/** Menu items that save the selection, the timeline and all shown panels as files. */
function allExports(shown: readonly Exportable[], ways: ExportWays): MenuItem[] {
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

/** The table of a panel as a Parquet file, which the kernel writes. */
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

// Exports of the dashboard and their menu.

interface TakeAwayWays {
  exports(): ExportWays;
  chart(id: string): ChartPanel | null;
  frame(id: string): PanelFrame | null;
}

export class TakeAway {
  constructor(private readonly ways: TakeAwayWays) {}

  panel(id: string): MenuItem[] {
    return panelExports(this.exportable(id), this.ways.exports());
  }

  all(shown: readonly string[]): MenuItem[] {
    const ids = shown.filter((id) => isCounted(id) || isChart(id));
    return allExports(
      ids.map((id) => this.exportable(id)),
      this.ways.exports(),
    );
  }

  /** Content of the form that saves the dashboard as a page. */
  saveForm(): SaveLook {
    const { source, signal, title } = this.ways.exports();
    return {
      source,
      signal,
      request: { max_mb: 25 },
      path: `${title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "dashboard"}.html`,
      about:
        "One file that needs no kernel and no network; what does not fit into 25 MB is left out.",
    };
  }

  private exportable(id: string): Exportable {
    // The heatmap's cells are not a table of rows.
    const frame = isCounted(id) ? this.ways.frame(id) : null;
    return { id, title: panelKind(id).title, chart: this.ways.chart(id), frame };
  }
}

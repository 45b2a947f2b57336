/** Export the selection, pictures, tables and charts of a dashboard. */

import { download } from "../engine/export";
import { isChart, hasNumbers, findPanelKind } from "../facts/panels";
import type { MenuItem } from "../ui/menu";
import { toCsv } from "../ui/table";
import type { DashContext } from "./context";
import { headlineText } from "./headline";

const PARQUET_TYPE = "application/vnd.apache.parquet";

/** A file name without characters that some file systems do not allow. */
function fileName(ctx: DashContext, name: string): string {
  return `${ctx.scene.value.title}-${name}`.replace(/[\p{Cc}\\/:*?"<>|]+/gu, "-");
}

/** Menu items that save one panel as files, and copy its table as text. */
export function panelExports(ctx: DashContext, id: string): MenuItem[] {
  const { chart } = ctx.slot(id);
  // The heatmap's cells are not a table of rows.
  const frame = hasNumbers(id) ? ctx.frame(id) : null;
  const exportItem = (text: string, suffix: string, makeFile: () => Promise<Blob>): MenuItem => ({
    text,
    press: () => saveFile(ctx, `${id}.${suffix}`, makeFile()),
  });
  const items: MenuItem[] = [];
  if (chart !== null) {
    items.push(
      exportItem("Save as PNG", "png", () => chart.toPng()),
      exportItem("Save as SVG", "svg", () => chart.toSvg()),
    );
  }
  if (frame === null) return items;
  const csv = (): Blob => new Blob([toCsv(frame)], { type: "text/csv" });
  items.push(
    { text: "Copy as CSV", press: () => void ctx.copy(toCsv(frame), "the table") },
    exportItem("Save as CSV", "csv", () => Promise.resolve(csv())),
  );
  // Only a kernel can write Parquet files.
  if (ctx.source.status !== "none") {
    items.push(exportItem("Save as Parquet", "parquet", () => fetchParquet(ctx, id)));
  }
  return items;
}

/** Menu items that save the selection, the timeline and all shown panels as files. */
export function allExports(ctx: DashContext): MenuItem[] {
  const { timeline, headline, shownPanels } = ctx;
  const svg = async (): Promise<Blob> =>
    new Blob([await timeline.panels.svg(headlineText(headline.value))], { type: "image/svg+xml" });
  return [
    {
      text: "The selection as a trace…",
      press: () => timeline.panels.openExport(ctx.button("exporting")),
    },
    { text: "Timeline: SVG of this view", press: () => saveFile(ctx, "timeline.svg", svg()) },
    ...shownPanels.value
      .filter((id) => hasNumbers(id) || isChart(id))
      .flatMap((id) =>
        panelExports(ctx, id)
          .filter(({ text }) => text.startsWith("Save"))
          .map(({ text, press }) => ({
            text: `${findPanelKind(id).title}: ${text.replace("Save as ", "")}`,
            press,
          })),
      ),
  ];
}

/** The table of a panel as a Parquet file, which the kernel writes. */
async function fetchParquet({ source, signal }: DashContext, panel: string): Promise<Blob> {
  const { buffer } = await source.ask("table", { panel, format: "parquet" }, signal);
  if (buffer === null) throw new Error("The kernel sent no table.");
  return new Blob([buffer], { type: PARQUET_TYPE });
}

function saveFile(ctx: DashContext, name: string, makeFile: Promise<Blob>): void {
  makeFile
    .then((file) => download(fileName(ctx, name), file))
    .catch((error: unknown) => ctx.timeline.fail("The file cannot be made", error));
}

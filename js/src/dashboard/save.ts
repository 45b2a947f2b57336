/** Export the selection, pictures, tables and charts of a dashboard. */

import { download } from "../engine/export";
import { isChart, isCounted, panelKind } from "../facts/panels";
import type { MenuItem } from "../ui/menu";
import { csvOf } from "../ui/table";
import type { Context } from "./context";
import { headlineText } from "./headline";

const PARQUET = "application/vnd.apache.parquet";

/** A file name without characters that some file systems do not allow. */
function fileName(ctx: Context, name: string): string {
  return `${ctx.scene.value.title}-${name}`.replace(/[\p{Cc}\\/:*?"<>|]+/gu, "-");
}

/** Menu items that save one panel as files, and copy its table as text. */
export function panelExports(ctx: Context, id: string): MenuItem[] {
  const { chart } = ctx.slot(id);
  // The heatmap's cells are not a table of rows.
  const frame = isCounted(id) ? ctx.frame(id) : null;
  const item = (text: string, suffix: string, made: () => Promise<Blob>): MenuItem => ({
    text,
    press: () => save(ctx, `${id}.${suffix}`, made()),
  });
  const items: MenuItem[] = [];
  if (chart !== null) {
    items.push(
      item("Save as PNG", "png", () => chart.toPng()),
      item("Save as SVG", "svg", () => chart.toSvg()),
    );
  }
  if (frame === null) return items;
  const csv = (): Blob => new Blob([csvOf(frame)], { type: "text/csv" });
  items.push(
    { text: "Copy as CSV", press: () => void ctx.copy(csvOf(frame), "the table") },
    item("Save as CSV", "csv", () => Promise.resolve(csv())),
  );
  // Only a kernel can write Parquet files.
  if (ctx.source.status !== "none") {
    items.push(item("Save as Parquet", "parquet", () => parquet(ctx, id)));
  }
  return items;
}

/** Menu items that save the selection, the timeline and all shown panels as files. */
export function allExports(ctx: Context): MenuItem[] {
  const { timeline, headline, shown } = ctx;
  const svg = async (): Promise<Blob> =>
    new Blob([await timeline.panels.svg(headlineText(headline.value))], { type: "image/svg+xml" });
  return [
    {
      text: "The selection as a trace…",
      press: () => timeline.panels.openExport(ctx.button("exporting")),
    },
    { text: "Timeline: SVG of this view", press: () => save(ctx, "timeline.svg", svg()) },
    ...shown.value
      .filter((id) => isCounted(id) || isChart(id))
      .flatMap((id) =>
        panelExports(ctx, id)
          .filter(({ text }) => text.startsWith("Save"))
          .map(({ text, press }) => ({
            text: `${panelKind(id).title}: ${text.replace("Save as ", "")}`,
            press,
          })),
      ),
  ];
}

/** The table of a panel as a Parquet file, which the kernel writes. */
async function parquet({ source, signal }: Context, panel: string): Promise<Blob> {
  const { buffer } = await source.ask("table", { panel, format: "parquet" }, signal);
  if (buffer === null) throw new Error("The kernel sent no table.");
  return new Blob([buffer], { type: PARQUET });
}

function save(ctx: Context, name: string, made: Promise<Blob>): void {
  made
    .then((file) => download(fileName(ctx, name), file))
    .catch((error: unknown) => ctx.timeline.fail("The file cannot be made", error));
}

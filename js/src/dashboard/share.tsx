/** Share what a dashboard shows: link, page, picture, trace, table, code. */

import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { download } from "../engine/export";
import { hasNumbers } from "../facts/panels";
import { asError, isAbort } from "../protocol/source";
import { selectionCode } from "../timeline/text";
import { Button, Select } from "../ui/controls";
import { formatBytes } from "../ui/formats";
import { MenuButton, type MenuItem, Popover } from "../ui/menu";
import { toCsv } from "../ui/table";
import type { DashContext } from "./context";
import { headlineText } from "./findings";

const PARQUET_TYPE = "application/vnd.apache.parquet";

/** Return a file name without characters that some file systems forbid. */
function fileName(ctx: DashContext, name: string): string {
  return `${ctx.scene.value.title}-${name}`.replace(/[\p{Cc}\\/:*?"<>|]+/gu, "-");
}

/** Return the menu items that save a panel as files or copy its table as text. */
export function panelExports(ctx: DashContext, id: string): MenuItem[] {
  const { chart } = ctx.slot(id);
  if (chart === null) return tableExports(ctx, id);
  return [
    exportItem(ctx, "Save as PNG", `${id}.png`, () => chart.toPng()),
    exportItem(ctx, "Save as SVG", `${id}.svg`, () => chart.toSvg()),
    ...tableExports(ctx, id),
  ];
}

function tableExports(ctx: DashContext, id: string): MenuItem[] {
  // The heatmap's cells are not a table of rows.
  const frame = hasNumbers(id) ? ctx.frame(id) : null;
  if (frame === null) return [];
  const makeCsv = (): Promise<Blob> =>
    Promise.resolve(new Blob([toCsv(frame)], { type: "text/csv" }));
  const items: MenuItem[] = [
    { text: "Copy as CSV", press: () => void ctx.copy(toCsv(frame), "the table") },
    exportItem(ctx, "Save as CSV", `${id}.csv`, makeCsv),
  ];
  if (ctx.source.status === "none") return items;
  // Only a kernel can write Parquet files.
  const makeParquet = (): Promise<Blob> => fetchParquet(ctx, id);
  return [...items, exportItem(ctx, "Save as Parquet", `${id}.parquet`, makeParquet)];
}

function exportItem(
  ctx: DashContext,
  text: string,
  name: string,
  makeFile: () => Promise<Blob>,
): MenuItem {
  const press = (): void => {
    makeFile()
      .then((file) => download(fileName(ctx, name), file))
      .catch((error: unknown) => ctx.timeline.fail("The file could not be written", error));
  };
  return { text, press };
}

/** The menu that shares what a dashboard shows. Panels have their own menus. */
export function ShareButton({ ctx }: { ctx: DashContext }) {
  const sheets = useMemo(() => {
    const sheet = (name: string, form: () => VNode): Popover =>
      new Popover(() => ctx.root, name, form, ctx.signal);
    return {
      page: sheet("Save a page", () => <SaveForm ctx={ctx} />),
      table: sheet("Save a table", () => <TableForm ctx={ctx} />),
    };
  }, [ctx]);
  return (
    <MenuButton
      text="Share"
      name="Share what is shown: link, page, picture, trace, table, code"
      class="hta-share-button"
      items={() => shareItems(ctx, sheets)}
    >
      {" ▾"}
    </MenuButton>
  );
}

function shareItems(ctx: DashContext, sheets: Record<"page" | "table", Popover>): MenuItem[] {
  const { timeline, address, selectionState, shownPanels, headline, live, scene } = ctx;
  const button = ctx.button("share-button");
  const hasTimeline = shownPanels.value.includes("timeline");
  const code = selectionCode(selectionState.selection.value, scene.value.clock);
  const drawTimeline = async (): Promise<Blob> => {
    const text = await timeline.panels.svg(headlineText(headline.value));
    return new Blob([text], { type: "image/svg+xml" });
  };
  const items: (MenuItem | false)[] = [
    address !== null && {
      text: "Copy link",
      note: `to this view, ${address.reach}`,
      press: () => void copyLink(ctx),
    },
    live !== null && {
      text: "Page…",
      note: "one HTML file that needs no kernel",
      press: () => sheets.page.open(button),
    },
    hasTimeline && {
      ...exportItem(ctx, "Picture", "timeline.svg", drawTimeline),
      note: "the timeline as SVG; for a chart, its own menu",
    },
    {
      text: "Trace…",
      note: "the selection for Perfetto, HTA or this page",
      press: () => timeline.panels.openExport(button),
    },
    shownPanels.value.some(hasNumbers) && {
      text: "Table…",
      note: "the numbers of a panel, as CSV or Parquet",
      press: () => sheets.table.open(button),
    },
    {
      text: "Copy Python",
      note: "code that selects the same",
      press: () => void ctx.copy(code, "Python"),
    },
  ];
  return items.filter((item) => item !== false);
}

async function copyLink(ctx: DashContext): Promise<void> {
  const link = ctx.link();
  if (link !== null) await ctx.copy(link, "the link");
  else ctx.timeline.flash("The selection is too large for a link: share a page or a trace.");
}

function TableForm({ ctx }: { ctx: DashContext }) {
  const ids = ctx.shownPanels.value.filter(hasNumbers);
  const panel = useSignal(ids[0] ?? "");
  return (
    <div class="hta-share-form">
      <Select
        name="Panel"
        options={ids.map((id) => [id, ctx.titleOf(id)])}
        chosen={panel.value}
        choose={(id) => (panel.value = id)}
      />
      <div class="hta-field-row">
        {tableExports(ctx, panel.value).map(({ text, press }) => (
          <Button key={text} text={text} press={press} />
        ))}
      </div>
    </div>
  );
}

/** Return a panel's table as a Parquet file, written by the kernel. */
async function fetchParquet({ source, signal }: DashContext, panel: string): Promise<Blob> {
  const { buffer } = await source.ask("table", { panel, format: "parquet" }, signal);
  if (buffer === null) throw new Error("The kernel sent no table.");
  return new Blob([buffer], { type: PARQUET_TYPE });
}

// The form for naming a file that the kernel writes.

const MAX_MB = 25;

/** Write the page and return a message about it. */
async function writePage({ source, signal }: DashContext, path: string): Promise<VNode | null> {
  try {
    const { reply } = await source.ask("save_html", { max_mb: MAX_MB, path }, signal);
    const size = reply.bytes === undefined ? "" : `, ${formatBytes(reply.bytes)}`;
    return (
      <>
        <b class="hta-ok-text">{`Wrote ${reply.path}`}</b>
        {`${size}.`}
      </>
    );
  } catch (error) {
    if (isAbort(error)) return null;
    return <span class="hta-error-text">{asError(error).message}</span>;
  }
}

function SaveForm({ ctx }: { ctx: DashContext }) {
  const name = ctx.scene.peek().title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "dashboard";
  const path = useSignal(`${name}.html`);
  const isBusy = useRef(false);
  const status = useSignal<VNode | null>(null);
  const save = async (): Promise<void> => {
    if (isBusy.current) return;
    isBusy.current = true;
    status.value = <span class="hta-note">Writing…</span>;
    status.value = await writePage(ctx, path.value.trim());
    isBusy.current = false;
  };
  return (
    <div class="hta-share-form">
      <p class="hta-note">
        One file that needs no kernel and no network; what does not fit into {MAX_MB} MB is left
        out.
      </p>
      {ctx.source.status === "none" ? (
        <p>Only a kernel can write the page.</p>
      ) : (
        <div class="hta-field-row">
          <input
            type="text"
            class="hta-input hta-path"
            aria-label="File to write, on the kernel's machine"
            spellcheck={false}
            value={path.value}
            onInput={({ currentTarget }) => (path.value = currentTarget.value)}
            onKeyDown={({ key }) => key === "Enter" && void save()}
          />
          <Button text="Write file" class="hta-primary" press={() => void save()} />
        </div>
      )}
      <div class="hta-result" role="status" aria-live="polite">
        {status.value}
      </div>
    </div>
  );
}

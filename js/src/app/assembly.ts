/** Makes the parts of a timeline, each with what it needs of the others. */

import { AccessGrid } from "./access";
import { Commands } from "./commands";
import type { Context } from "./context";
import { FilterBox } from "./filter_box";
import { Folding } from "./folding";
import { Hover } from "./hover";
import { PANEL_HELP } from "./keymap";
import { Led } from "./led";
import { Legend } from "./legend";
import { Navigation } from "./navigation";
import { PanelControl } from "./panel_control";
import { Dock } from "./panels/dock";
import { HelpSheet } from "./panels/help";
import { Picking } from "./picking";
import { PinButton } from "./pin_button";
import { Pointer } from "./pointer";
import { Rows } from "./rows";
import { Search } from "./search";
import { SearchBox } from "./search_box";
import { type KernelSays, StatusLine } from "./status";
import { Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";
import { ViewFacts } from "./view_facts";

export interface AssemblyWays {
  folded: boolean | null;
  keepFolded(folded: boolean): void;
  /** Null where the timeline has a panel of its own for them. */
  openProblems: (() => void) | null;
  /** Null for what status lines say as a rule. */
  kernelSays(): KernelSays | null;
  showAllRanks(): void;
  fail(title: string, error: unknown): void;
}

export type Parts = ReturnType<typeof makeParts>;

export function makeParts(ctx: Context, frame: HTMLElement, ways: AssemblyWays) {
  const { fail } = ways;
  const focus = (): void => ctx.root.focus({ preventScroll: true });
  const dock = new Dock(focus);
  const help = new HelpSheet(frame, focus, ctx.isPart ? [PANEL_HELP] : []);
  const nav = new Navigation(ctx);
  const rows = new Rows(ctx);
  const folding = new Folding(ctx, rows, ways.folded, ways.keepFolded, (error) =>
    fail("Ranks that are alike cannot be found", error),
  );
  const picking = new Picking(ctx, nav, rows);
  const search = new Search(ctx, picking);
  const status: StatusLine = new StatusLine(ctx, {
    openProblems: ways.openProblems ?? (() => panels.openProblems()),
    showAllRanks: ways.showAllRanks,
    kernelSays: ways.kernelSays,
  });
  const panels = new PanelControl(ctx, dock, nav, picking, search, status);
  const tip = new Tooltip(frame);
  const pin = new PinButton(ctx, rows);
  const hover = new Hover(ctx, tip, rows, (row, point) => pin.show(row, point));
  const legend = new Legend(ctx, ctx.signal);
  const searchBox = new SearchBox(ctx, search, focus, (error) => fail("The search failed", error));
  const filter = new FilterBox(ctx, rows);
  const parts = { ctx, nav, rows, folding, picking, status, hover };
  const pointer = new Pointer({
    ...parts,
    focus,
    stays: (node) => pin.el.contains(node),
    failed: (error) => fail("The event cannot be found", error),
  });
  const commands = new Commands({
    ...parts,
    search,
    pointer,
    help,
    focusSearch: () => searchBox.focus(),
    openExport: () => panels.openExport(),
    closePanel: () => dock.close(),
    fail,
  });
  const led = new Led(ctx, nav, hover);
  const toolbar = new Toolbar(legend, searchBox, filter, (command) => commands.run(command));
  const facts = new ViewFacts(
    { ctx, nav, rows, folding, status, legend },
    { showAllRows: () => filter.clear(), back: () => void commands.run("undo") },
  );
  const grid = new AccessGrid(ctx);
  return {
    ...{ nav, rows, folding, picking, search, hover, pointer, commands, led },
    ...{ toolbar, legend, status, panels, dock, tip, pin, facts, grid },
  };
}

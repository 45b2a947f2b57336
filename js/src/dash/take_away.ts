/** What can be taken away from the dashboard, and where it is asked for. */

import { isChart, isCounted, panelKind } from "./catalog";
import { allExports, type Exportable, type ExportWays, panelExports } from "./exports";
import type { MenuItem } from "./pane";
import { saveForm } from "./save_form";
import type { ChartPanel, PanelFrame } from "./types";

export interface TakeAwayWays {
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

  /** The sheet to save all this as a page. */
  saveForm(): HTMLElement {
    const { source, signal, title } = this.ways.exports();
    return saveForm(source, signal, {
      op: "save_html",
      request: { max_mb: 25 },
      path: `${title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "dashboard"}.html`,
      about:
        "One file that needs no kernel and no network; what does not fit into 25 MB is left out.",
    });
  }

  private exportable(id: string): Exportable {
    // The heatmap's cells are no table of rows.
    const frame = isCounted(id) ? this.ways.frame(id) : null;
    return { id, title: panelKind(id).title, chart: this.ways.chart(id), frame };
  }
}

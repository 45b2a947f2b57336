/** The dashboard's charts: figures made in Python, which are given new columns here. */

import type { ThemeName } from "../../contract";
import type { Brush, ChartPanel } from "../types";
import type { Bokeh } from "./bokeh";
import { breakdown } from "./breakdown";
import type { MakeRows } from "./content";
import { ChartFrame, type Items, type Make } from "./frame";
import { overlap } from "./overlap";
import { type Dimension, RowsDrawing } from "./rows_drawing";

interface Kind {
  title: string;
  make: Make;
}

function rows(title: string, dimension: Dimension, content: MakeRows): Kind {
  return {
    title,
    make: (frame, theme) => {
      const found = content(frame, theme);
      return typeof found === "string" ? found : new RowsDrawing(found, dimension, theme);
    },
  };
}

const KINDS: Readonly<Record<string, Kind>> = {
  breakdown: rows("Where GPU time goes", "ranks", breakdown),
  overlap: rows("Communication, and how much compute hides", "ranks", overlap),
};

/** Panels that are charts, by id. */
export const CHARTS: readonly string[] = Object.keys(KINDS);

/**
 * Embeds a panel's figure in `host`.
 *
 * @param bokeh - what the asset widget exports as `Bokeh`
 * @param items - the figure in both themes, of `charts.panel_items`
 */
export async function makeChart(
  id: string,
  bokeh: unknown,
  items: Items,
  host: HTMLElement,
  onBrush: (brush: Brush) => void,
  theme: ThemeName,
): Promise<ChartPanel> {
  const kind = KINDS[id];
  if (kind === undefined) throw new Error(`no chart ${id}: there are ${CHARTS.join(", ")}`);
  const panel = new ChartFrame(bokeh as Bokeh, items, kind.make, kind.title, host, onBrush, theme);
  await panel.embed();
  return panel;
}

/** Which chart draws which panel. */

import type { Bokeh } from "../charts/bokeh";
import { ChartFrame, type Items, type Make } from "../charts/chart";
import { contentOf, DEFINITIONS, HEATMAP } from "../charts/defined";
import { heatmapContent, HeatmapDrawing } from "../charts/grid";
import { RowsDrawing, WindowDrawing } from "../charts/rows";
import type { Brush, ChartPanel, ThemeName } from "../protocol/source";

const LOOKS = { ...DEFINITIONS, heatmap: HEATMAP };

/** Panels that are charts, by id. */
export const CHARTS: readonly string[] = Object.keys(LOOKS);

function makeOf(id: string): Make {
  if (id === "heatmap") {
    return (frame, theme) => {
      const found = heatmapContent(frame);
      return typeof found === "string" ? found : new HeatmapDrawing(found, theme);
    };
  }
  const look = DEFINITIONS[id]!;
  const { selects } = look.rows;
  return (frame, theme) => {
    const found = contentOf(look, frame, theme);
    if (typeof found === "string") return found;
    if (selects === "window") return new WindowDrawing(found, theme);
    return new RowsDrawing(found, selects, theme);
  };
}

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
  const look = LOOKS[id as keyof typeof LOOKS];
  if (look === undefined) throw new Error(`no chart ${id}: there are ${CHARTS.join(", ")}`);
  const title = look.short ?? look.title;
  const panel = new ChartFrame(bokeh as Bokeh, items, makeOf(id), title, host, onBrush, theme);
  await panel.embed();
  return panel;
}

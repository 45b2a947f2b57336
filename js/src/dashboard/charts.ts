/** Which chart draws which panel. */

import type { Bokeh } from "../charts/bokeh";
import { ChartFrame, type Items, type Make } from "../charts/chart";
import type { MakeRows } from "../charts/content";
import { contentOf, DEFINITIONS } from "../charts/defined";
import { heatmapContent, HeatmapDrawing } from "../charts/grid";
import { type Dimension, RowsDrawing, WindowDrawing } from "../charts/rows";
import { gradientsChart, stagesChart, stragglersChart } from "../formats/byteps_charts";
import { ranksChart, sizesChart } from "../formats/mpi";
import type { Brush, ChartPanel, ThemeName } from "../protocol/source";

interface Kind {
  title: string;
  make: Make;
}

function rows(title: string, dimension: Dimension | "window", content: MakeRows): Kind {
  return {
    title,
    make: (frame, theme) => {
      const found = content(frame, theme);
      if (typeof found === "string") return found;
      if (dimension === "window") return new WindowDrawing(found, theme);
      return new RowsDrawing(found, dimension, theme);
    },
  };
}

const KINDS: Readonly<Record<string, Kind>> = {
  ...Object.fromEntries(
    Object.entries(DEFINITIONS).map(([id, look]): [string, Kind] => [
      id,
      rows(look.short ?? look.title, look.rows.selects, (frame, theme) =>
        contentOf(look, frame, theme),
      ),
    ]),
  ),
  heatmap: {
    title: "Rank × time",
    make: (frame, theme) => {
      const found = heatmapContent(frame);
      return typeof found === "string" ? found : new HeatmapDrawing(found, theme);
    },
  },
  byteps_gradients: rows("Slowest gradients", "names", gradientsChart),
  byteps_stages: rows("Stages of the pipeline", "ranks", stagesChart),
  byteps_stragglers: rows("Who is late, iteration by iteration", "window", stragglersChart),
  mpi_ranks: rows("Time in MPI, by rank", "ranks", ranksChart),
  mpi_sizes: rows("Message sizes", "names", sizesChart),
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

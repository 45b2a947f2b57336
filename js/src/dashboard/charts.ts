/** The chart of each panel. */

import { ChartFrame, type Make, type MakeChart } from "../charts/chart";
import { contentOf } from "../charts/defined";
import { DEFINITIONS, HEATMAP } from "../charts/definition";
import { heatmapContent, HeatmapDrawing } from "../charts/grid";
import { RowsDrawing, WindowDrawing } from "../charts/rows";
import { recorded } from "../stage/svg";

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

export const makeChart: MakeChart = (id, brush, theme) => {
  const look = LOOKS[id as keyof typeof LOOKS];
  if (look === undefined) throw new Error(`no chart ${id}: there are ${CHARTS.join(", ")}`);
  return new ChartFrame(makeOf(id), look.title, brush, theme, recorded);
};

/** Draw the chart of each panel. */

import { ChartFrame, type DrawingFactory, type MakeChart } from "../charts/chart";
import { buildRowsContent } from "../charts/defined";
import { type Definition, DEFINITIONS, HEATMAP } from "../charts/definition";
import { buildHeatmapContent, HeatmapDrawing } from "../charts/grid";
import { RowsDrawing, WindowDrawing } from "../charts/rows";
import { RooflineDrawing } from "../charts/scatter";
import { fillDeviceWord } from "../protocol/scene";
import { recordSvg } from "../stage/svg";

const CHART_DEFINITIONS = { ...DEFINITIONS, heatmap: HEATMAP };

export const CHART_IDS: readonly string[] = Object.keys(CHART_DEFINITIONS);

/** Return the definition with `device` as the word for devices in its texts. */
function forDevice(definition: Definition, device: string): Definition {
  return { ...definition, attrs: { ...definition.attrs, device_word: device } };
}

function drawingFactoryOf(id: string, device: string): DrawingFactory {
  if (id === "heatmap") {
    return (frame, theme) => {
      const content = buildHeatmapContent(frame, forDevice(HEATMAP, device));
      return typeof content === "string" ? content : new HeatmapDrawing(content, theme);
    };
  }
  const definition = forDevice(DEFINITIONS[id]!, device);
  const { selects } = definition.rows;
  return (frame, theme) => {
    const content = buildRowsContent(definition, frame, theme);
    if (typeof content === "string") return content;
    if (id === "roofline") {
      const roofline = new RooflineDrawing(content, frame, theme);
      if (!roofline.isEmpty) return roofline;
    }
    if (selects === "window") return new WindowDrawing(content, theme);
    return new RowsDrawing(content, selects, theme);
  };
}

export const makeChart: MakeChart = (id, brush, theme, device) => {
  const definition = CHART_DEFINITIONS[id as keyof typeof CHART_DEFINITIONS];
  if (definition === undefined)
    throw new Error(`no chart ${id}; the charts are ${CHART_IDS.join(", ")}`);
  const title = fillDeviceWord(definition.title, device);
  return new ChartFrame(drawingFactoryOf(id, device), title, brush, theme, recordSvg);
};

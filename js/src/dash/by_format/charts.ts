/** The charts of BytePS's and MPI's panels, by id. */

import type { Theme } from "../../draw/theme";
import type { MakeRows } from "../charts/content";
import type { Drawing } from "../charts/drawing";
import { type Dimension, RowsDrawing } from "../charts/rows_drawing";
import type { PanelFrame } from "../types";
import { clockChart, serversChart, stragglersChart } from "./byteps_server_charts";
import { blameChart, gradientsChart, stagesChart } from "./byteps_worker_charts";
import { ranksChart, routinesChart, sizesChart } from "./mpi_charts";
import { WindowDrawing } from "./window_drawing";

interface Kind {
  title: string;
  make(frame: PanelFrame, theme: Theme): Drawing | string;
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

export const FORMAT_CHARTS: Readonly<Record<string, Kind>> = {
  byteps_gradients: rows("Slowest gradients", "names", gradientsChart),
  byteps_stages: rows("Stages of the pipeline", "ranks", stagesChart),
  byteps_stragglers: rows("Who is late, iteration by iteration", "window", stragglersChart),
  byteps_blame: rows("Whom PULLs wait for", "ranks", blameChart),
  byteps_servers: rows("Load of the servers", "ranks", serversChart),
  byteps_clock: rows("Clocks of servers against workers", "ranks", clockChart),
  mpi_ranks: rows("Time in MPI, by rank", "ranks", ranksChart),
  mpi_sizes: rows("Message sizes", "names", sizesChart),
  mpi_routines: rows("MPI routines over ranks", "names", routinesChart),
};
